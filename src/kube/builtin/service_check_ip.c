/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of the addresses of Services: their own, families, external ones, ranges of sources.
 */
#include "kube/builtin/service_int.h"

/* Two lists that must agree about their first item. */
static void check_singular(const struct sw_json *spec, const struct sw_fpath *up,
                           struct sw_field_errs *e)
{
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");
    struct sw_slice ip = sw_field_text(spec, "clusterIP");

    if (ip.n && !sw_json_len(ips))
        sw_ferr_required(e, up, NULL);
    else if (ip.n && !sw_slice_eq(sw_json_str(sw_json_at(ips, 0)), ip))
        sw_b_invalid_go(e, up, sw_b_go_list(e->arena, ips, "string"),
                        "first value must match `clusterIP`");
    else if (!ip.n && sw_json_len(ips))
        sw_b_invalid_go(e, up, sw_b_go_list(e->arena, ips, "string"),
                        "must be empty when `clusterIP` is not specified");
}

static void check_families(const struct sw_json *spec, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    static const char *const known[] = {"IPv4", "IPv6", NULL};
    static const char *const policies[] = {"PreferDualStack", "RequireDualStack", "SingleStack",
                                           NULL};
    const struct sw_json *list = sw_json_find(spec, "ipFamilies");
    const struct sw_json *policy = sw_json_find(spec, "ipFamilyPolicy");
    struct sw_fpath up = sw_fpath_str(path, "ipFamilies");
    struct sw_fpath at_policy = sw_fpath_str(path, "ipFamilyPolicy");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);
        bool seen = false;

        sw_field_one_of(sw_json_at(list, i), known, &at, e);
        for (size_t k = 0; k < i; k++)
            seen = seen || sw_json_equal(sw_json_at(list, k), sw_json_at(list, i), 0);
        if (seen)
            sw_ferr_duplicate(e, &at, sw_json_at(list, i));
    }
    if (policy)
        sw_field_one_of(policy, policies, &at_policy, e);
}

static void match_families(const struct sw_json *spec, const struct sw_fpath *up,
                           struct sw_field_errs *e)
{
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");
    const struct sw_json *list = sw_json_find(spec, "ipFamilies");

    for (size_t i = 0; i < sw_json_len(ips) && i < sw_json_len(list); i++) {
        struct sw_slice ip = sw_json_str(sw_json_at(ips, i));
        struct sw_fpath at = sw_fpath_index(up, i);
        const char *want = NULL;

        if (sw_json_str_eq(sw_json_at(list, i), "IPv4") && sw_is_ipv6(ip))
            want = "IPv4";
        else if (sw_json_str_eq(sw_json_at(list, i), "IPv6") && !sw_is_ipv6(ip))
            want = "IPv6";
        if (want)
            sw_ferr_invalid_str(
                e, &at, ip,
                sw_arena_printf(e->arena, "expected an %s value as indicated by `ipFamilies[%zu]`",
                                want, i));
    }
}

void sw_b_check_cluster_ips(const struct sw_json *spec, struct sw_field_errs *e)
{
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");
    const char *shown = sw_b_go_list(e->arena, ips, "string");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&path, "clusterIPs");
    size_t n = sw_json_len(ips);
    bool bad = false;

    if (svc_external_name(spec))
        return;
    check_singular(spec, &up, e);
    check_families(spec, &path, e);
    for (size_t i = 0; i < n; i++) {
        struct sw_slice ip = sw_json_str(sw_json_at(ips, i));
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (i == 0 && sw_slice_eq_str(ip, "None")) {
            bad = bad || n > 1;
            if (n > 1)
                sw_b_invalid_go(e, &up, shown, "'None' must be the first and only value");
            continue;
        }
        bad = !sw_b_ip(ip, &at, e) || bad;
    }
    if (n > 2)
        sw_b_invalid_go(e, &up, shown, "may only hold up to 2 values");
    if (bad)
        return; /* what follows would only repeat it */
    if (n > 1 && (n > 2 || sw_is_ipv6(sw_json_str(sw_json_at(ips, 0))) ==
                               sw_is_ipv6(sw_json_str(sw_json_at(ips, 1)))))
        sw_b_invalid_go(e, &up, shown, "may specify no more than one IP for each IP family");
    if (!svc_headless(spec))
        match_families(spec, &up, e);
}

void svc_check_external_ips(const struct sw_json *spec, const struct sw_fpath *path,
                            struct sw_field_errs *e)
{
    const struct sw_json *ips = sw_json_find(spec, "externalIPs");
    struct sw_fpath up = sw_fpath_str(path, "externalIPs");

    for (size_t i = 0; i < sw_json_len(ips); i++) {
        struct sw_slice ip = sw_json_str(sw_json_at(ips, i));
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (sw_b_ip(ip, &at, e))
            sw_b_special_ip(ip, &at, e);
    }
}

static void check_range(struct sw_slice v, const struct sw_fpath *at, struct sw_field_errs *e)
{
    v = sw_slice_trim(v);
    if (!sw_is_cidr(v))
        sw_ferr_invalid_str(e, at, v,
                            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
}

void svc_check_source_ranges(const struct sw_json *obj, const struct sw_json *spec,
                             const struct sw_fpath *path, struct sw_field_errs *e)
{
    static const char key[] = "service.beta.kubernetes.io/load-balancer-source-ranges";
    static const char only[] = "may only be used when `type` is 'LoadBalancer'";
    const struct sw_json *list = sw_json_find(spec, "loadBalancerSourceRanges");
    const struct sw_json *note =
        sw_json_find(sw_json_walk(obj, "metadata", "annotations", NULL), key);
    struct sw_fpath up = sw_fpath_str(path, "LoadBalancerSourceRanges");
    struct sw_fpath at_notes = sw_fpath_str(NULL, "metadata.annotations");
    struct sw_fpath at_note = sw_fpath_key(&at_notes, sw_slice_str(key));
    struct sw_slice rest;

    if (sw_json_len(list)) {
        if (!svc_balanced(spec))
            sw_ferr_forbidden(e, &up, only);
        for (size_t i = 0; i < sw_json_len(list); i++) {
            struct sw_fpath at = sw_fpath_index(&up, i);

            check_range(sw_json_str(sw_json_at(list, i)), &at, e);
        }
        return;
    }
    if (!note)
        return;
    if (!svc_balanced(spec))
        sw_ferr_forbidden(e, &at_note, only);
    rest = sw_slice_trim(sw_json_str(note));
    while (rest.n)
        check_range(sw_slice_cut(&rest, ','), &at_note, e);
}
