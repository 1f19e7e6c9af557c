/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of the addresses of Services: their own, families, external ones, ranges of sources.
 */
#include "kube/builtin/service_int.h"

/* Two lists that must agree about their first item. */
static void check_singular(const struct sw_at *ips, struct sw_slice ip)
{
    if (ip.n && !sw_at_len(ips))
        sw_at_required(ips, NULL);
    else if (ip.n && !sw_slice_eq(sw_json_str(sw_json_at(ips->v, 0)), ip))
        sw_b_invalid_list(ips, "string", "first value must match `clusterIP`");
    else if (!ip.n && sw_at_len(ips))
        sw_b_invalid_list(ips, "string", "must be empty when `clusterIP` is not specified");
}

static void check_families(const struct sw_at *spec)
{
    const struct sw_at *list = SW_IN(spec, "ipFamilies");

    SW_AT_FOREACH (family, list) {
        bool seen = false;

        sw_at_one_of(&family, "IPv4 IPv6");
        for (size_t k = 0; k < family.path.index; k++)
            seen = seen || sw_json_equal(sw_json_at(list->v, k), family.v, 0);
        if (seen)
            sw_at_duplicate(&family);
    }
    sw_at_set_one_of(SW_IN(spec, "ipFamilyPolicy"), "PreferDualStack RequireDualStack SingleStack");
}

static void match_families(const struct sw_at *ips, const struct sw_json *list)
{
    SW_AT_FOREACH (at, ips) {
        bool v6 = sw_is_ipv6(sw_at_text(&at));
        const char *want = NULL;

        if (sw_json_str_eq(sw_json_at(list, at.path.index), "IPv4") && v6)
            want = "IPv4";
        else if (sw_json_str_eq(sw_json_at(list, at.path.index), "IPv6") && !v6)
            want = "IPv6";
        if (want)
            sw_at_invalid_text(
                &at, sw_arena_printf(at.e->arena,
                                     "expected an %s value as indicated by `ipFamilies[%zu]`", want,
                                     at.path.index));
    }
}

void sw_b_check_cluster_ips(const struct sw_at *spec)
{
    const struct sw_at *ips = SW_IN(spec, "clusterIPs");
    size_t n = sw_at_len(ips);
    bool bad = false;

    if (svc_external_name(spec->v))
        return;
    check_singular(ips, sw_field_text(spec->v, "clusterIP"));
    check_families(spec);
    SW_AT_FOREACH (ip, ips) {
        if (ip.path.index == 0 && sw_at_is(&ip, "None")) {
            bad = bad || n > 1;
            if (n > 1)
                sw_b_invalid_list(ips, "string", "'None' must be the first and only value");
            continue;
        }
        bad = !sw_b_ip(&ip) || bad;
    }
    if (n > 2)
        sw_b_invalid_list(ips, "string", "may only hold up to 2 values");
    if (bad)
        return; /* what follows would only repeat it */
    if (n > 1 && (n > 2 || sw_is_ipv6(sw_json_str(sw_json_at(ips->v, 0))) ==
                               sw_is_ipv6(sw_json_str(sw_json_at(ips->v, 1)))))
        sw_b_invalid_list(ips, "string", "may specify no more than one IP for each IP family");
    if (!svc_headless(spec->v))
        match_families(ips, sw_json_find(spec->v, "ipFamilies"));
}

static void check_range(struct sw_slice v, const struct sw_at *at)
{
    v = sw_slice_trim(v);
    if (!sw_is_cidr(v))
        sw_ferr_invalid_str(at->e, &at->path, v,
                            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
}

void svc_check_source_ranges(const struct sw_at *obj, const struct sw_at *spec)
{
    static const char only[] = "may only be used when `type` is 'LoadBalancer'";
    struct sw_at list = sw_at_field(spec, "loadBalancerSourceRanges");
    const struct sw_at *note =
        SW_KEY(SW_IN(obj, "metadata.annotations"),
               SW_SLICE_LIT("service.beta.kubernetes.io/load-balancer-source-ranges"));
    struct sw_slice rest = sw_slice_trim(sw_at_text(note));

    list.path.name = SW_SLICE_LIT("LoadBalancerSourceRanges"); /* as the reference spells it */
    if ((sw_at_len(&list) || note->v) && !svc_balanced(spec->v))
        sw_at_forbidden(sw_at_len(&list) ? &list : note, only);
    SW_AT_FOREACH (range, &list)
        check_range(sw_at_text(&range), &range);
    while (!sw_at_len(&list) && rest.n)
        check_range(sw_slice_cut(&rest, ','), note);
}
