/* SPDX-License-Identifier: Apache-2.0 */
/* The address families of a Service: what was given, what follows from it, what does not agree. */
#include "kube/builtin/service_int.h"

static bool asks_headless(const struct sw_json *spec)
{
    return sw_field_is(spec, "clusterIP", "None");
}

static void fill_policy(struct svc_settle *s)
{
    if (sw_json_find(s->spec, "ipFamilyPolicy"))
        return;
    if (sw_json_find(s->was, "ipFamilyPolicy"))
        svc_carry(s, "ipFamilyPolicy");
    else if (asks_headless(s->spec) && !sw_json_len(sw_json_find(s->spec, "selector")))
        sw_json_put_str(s->a, s->spec, "ipFamilyPolicy", SW_SLICE_LIT("RequireDualStack"));
    else
        sw_json_put_str(s->a, s->spec, "ipFamilyPolicy", SW_SLICE_LIT("SingleStack"));
}

static void policy_error(struct svc_settle *s, const char *detail)
{
    struct sw_at policy = svc_at(s, "spec.ipFamilyPolicy");

    sw_at_invalid(&policy, detail);
}

static void keep_first(struct svc_settle *s, const char *key)
{
    struct sw_json *list = sw_json_find(s->spec, key);

    if (sw_json_len(list) > 1 && svc_same(s->spec, s->was, key))
        svc_put_list(s, key, sw_json_str(sw_json_at(list, 0)));
}

static bool reduced(struct svc_settle *s, const char *key)
{
    size_t n = sw_json_len(sw_json_find(s->spec, key));

    return n && n < sw_json_len(sw_json_find(s->was, key));
}

/* One or two stacks: does the policy agree with what is listed? */
static void check_stacks(struct svc_settle *s)
{
    bool single = sw_field_is(s->spec, "ipFamilyPolicy", "SingleStack");

    if (s->was && single) {
        keep_first(s, "clusterIPs");
        keep_first(s, "ipFamilies");
    } else if (s->was) {
        if (reduced(s, "clusterIPs"))
            policy_error(s, "must be 'SingleStack' to release the secondary cluster IP");
        if (reduced(s, "ipFamilies"))
            policy_error(s, "must be 'SingleStack' to release the secondary IP family");
    }
    if (single && sw_json_len(sw_json_find(s->spec, "clusterIPs")) == 2)
        policy_error(s, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs "
                        "are specified");
    if (single && sw_json_len(sw_json_find(s->spec, "ipFamilies")) == 2)
        policy_error(s, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families "
                        "are specified");
}

static struct sw_json *families(struct svc_settle *s)
{
    struct sw_json *list = sw_json_find(s->spec, "ipFamilies");

    if (!sw_json_is(list, SW_JSON_ARRAY)) {
        list = sw_json_new_array(s->a);
        sw_json_put(s->a, s->spec, "ipFamilies", list);
    }
    return list;
}

/* Families that were not given follow from the addresses. */
static void infer_families(struct svc_settle *s)
{
    struct sw_at ips = svc_at(s, "spec.clusterIPs");

    SW_AT_FOREACH (ip, &ips) {
        if (sw_at_is(&ip, "None"))
            break;
        if (ip.path.index < sw_json_len(sw_json_find(s->spec, "ipFamilies")))
            continue;
        if (sw_is_ipv4(sw_at_text(&ip)))
            sw_json_push(s->a, families(s), sw_json_new_str(s->a, "IPv4"));
        else
            sw_b_invalid_go(&ip, sw_b_go_list(s->a, ips.v, "string"),
                            "IPv6 is not configured on this cluster");
    }
}

static void add_other_family(struct svc_settle *s)
{
    struct sw_json *list = families(s);

    if (!sw_json_len(list))
        sw_json_push(s->a, list, sw_json_new_str(s->a, "IPv4"));
    if (sw_json_len(list) == 1 && !sw_field_is(s->spec, "ipFamilyPolicy", "SingleStack"))
        sw_json_push(
            s->a, list,
            sw_json_new_str(s->a, sw_json_str_eq(sw_json_at(list, 0), "IPv4") ? "IPv6" : "IPv4"));
}

/* Only IPv4 addresses are given out. */
static void check_configured(struct svc_settle *s)
{
    struct sw_at list = svc_at(s, "spec.ipFamilies");

    if (sw_field_is(s->spec, "ipFamilyPolicy", "RequireDualStack"))
        policy_error(s, "this cluster is not configured for dual-stack services");
    SW_AT_FOREACH (family, &list) {
        if (!sw_at_is(&family, "IPv4"))
            sw_at_invalid(&family, "not configured on this cluster");
    }
    if (!sw_at_len(&list))
        svc_put_list(s, "ipFamilies", SW_SLICE_LIT("IPv4"));
}

static bool unchanged_preference(const struct svc_settle *s)
{
    return s->was &&
           sw_json_equal(sw_json_find(s->was, "type"), sw_json_find(s->spec, "type"), 0) &&
           sw_field_is(s->spec, "ipFamilyPolicy", "PreferDualStack") &&
           svc_same(s->spec, s->was, "ipFamilyPolicy") && svc_same(s->spec, s->was, "clusterIPs") &&
           svc_same(s->spec, s->was, "ipFamilies");
}

void svc_settle_families(struct svc_settle *s)
{
    struct sw_at spec = svc_at(s, "spec");

    if (svc_external_name(s->spec) || unchanged_preference(s))
        return;
    fill_policy(s);
    sw_b_check_cluster_ips(&spec);
    if (s->e->n)
        return;
    check_stacks(s);
    infer_families(s);
    if (s->e->n)
        return;
    /* No proxy serves a headless service without selector: it may claim any family. */
    if (asks_headless(s->spec) && !sw_json_len(sw_json_find(s->spec, "selector")))
        add_other_family(s);
    else
        check_configured(s);
}
