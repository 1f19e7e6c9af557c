/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts of Exports. Whoever may write an Export chooses what a data plane connects to, so without
 * the operator's leave it is a Service of the Export's own namespace. What a name resolves to is
 * judged again by the data plane when it connects (io/egress.h).
 */
#include "control/link/link_int.h"
#include "io/addr.h"

/* Takes a suffix off, in any case. */
static bool strip(struct sw_slice *s, struct sw_slice suffix)
{
    if (s->n <= suffix.n || !sw_slice_ieq(sw_slice_from(*s, s->n - suffix.n), suffix))
        return false;
    s->n -= suffix.n;
    return true;
}

static void strip_label(struct sw_slice *s, struct sw_slice label)
{
    struct sw_slice rest = *s;

    if (strip(&rest, label) && rest.n > 1 && rest.p[rest.n - 1] == '.')
        *s = sw_slice_head(rest, rest.n - 1);
}

struct sw_slice lk_host_service(const struct sw_link_conf *conf, struct sw_slice host,
                                struct sw_slice ns)
{
    struct sw_slice left = host;

    (void)strip(&left, SW_SLICE_LIT("."));
    /* "web.svc" alone is a Service 'web' of a namespace 'svc'. */
    strip_label(&left, conf->domain);
    strip_label(&left, SW_SLICE_LIT("svc"));
    if (sw_slice_find(left, '.') >= 0)
        strip_label(&left, ns);
    else if (!sw_slice_eq(left, host))
        return sw_slice("", 0);
    return sw_slice_find(left, '.') >= 0 ? sw_slice("", 0) : left;
}

static bool in_block(struct sw_slice pattern, const struct sw_ip *ip)
{
    struct sw_cidr block;

    return sw_cidr_parse(pattern, &block, NULL) == SW_OK && sw_cidr_contains(&block, ip);
}

static bool name_matches(struct sw_slice pattern, struct sw_slice host)
{
    struct sw_slice suffix;

    if (!sw_slice_has_prefix(pattern, SW_SLICE_LIT("*.")))
        return sw_slice_ieq(pattern, host);
    suffix = sw_slice_from(pattern, 1);
    return host.n > suffix.n && sw_slice_ieq(sw_slice_from(host, host.n - suffix.n), suffix);
}

bool lk_host_allowed(const struct sw_link_conf *conf, struct sw_slice host)
{
    struct sw_ip ip;

    if (sw_host_parse(host, &ip, NULL) != SW_OK)
        return false;
    (void)strip(&host, SW_SLICE_LIT("."));
    for (size_t i = 0; i < conf->n_export_hosts; i++) {
        struct sw_slice p = conf->export_hosts[i];

        if (sw_slice_eq_str(p, "*") || (ip.family ? in_block(p, &ip) : name_matches(p, host)))
            return true;
    }
    return false;
}
