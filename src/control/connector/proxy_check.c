/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an HTTPProxy says something that can be done. The schema refuses most of this already;
 * here is what it cannot say, and all of it again for servers with another schema.
 */
#include "control/connector/proxy_int.h"
#include "io/addr.h"
#include "io/egress.h"

enum { MATCHES_TOTAL = 128, MATCHES_MAX = 64, FILTERS_MAX = 16, LABEL_MAX = 63, NAME_MAX_ = 253 };

static bool alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool hp_is_label(struct sw_slice s)
{
    if (!s.n || s.n > LABEL_MAX || !alnum(s.p[0]) || !alnum(s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!alnum(s.p[i]) && s.p[i] != '-')
            return false;
    }
    return true;
}

/* Labels joined by dots; at least two with 'full'. */
static bool is_name(struct sw_slice s, bool full)
{
    size_t labels = 0;

    if (!s.n || s.n > NAME_MAX_)
        return false;
    for (struct sw_slice rest = s; rest.p;) {
        if (!hp_is_label(sw_slice_cut(&rest, '.')))
            return false;
        labels++;
    }
    return labels > 1 || !full;
}

bool hp_is_hostname(struct sw_slice s)
{
    return is_name(s, false);
}

/* ---- endpoints ---- */

static struct sw_slice lower(struct sw_arena *a, struct sw_slice s)
{
    char *out = sw_arena_dup(a, s);

    for (size_t i = 0; i < s.n; i++) {
        if (out[i] >= 'A' && out[i] <= 'Z')
            out[i] = (char)(out[i] - 'A' + 'a');
    }
    return sw_slice(out, s.n);
}

static const char *split_authority(struct sw_slice in, struct sw_slice *ret_host,
                                   struct sw_slice *ret_port)
{
    ptrdiff_t at;

    if (in.n && in.p[0] == '[') {
        at = sw_slice_find(in, ']');
        if (at < 0)
            return "has a '[' without ']'";
        *ret_host = sw_slice(in.p + 1, (size_t)at - 1);
        in = sw_slice_from(in, (size_t)at + 1);
        if (in.n && in.p[0] != ':')
            return "has text behind ']'";
    } else {
        at = sw_slice_find(in, ':');
        *ret_host = at < 0 ? in : sw_slice_head(in, (size_t)at);
        in = at < 0 ? sw_slice("", 0) : sw_slice_from(in, (size_t)at);
    }
    *ret_port = in.n ? sw_slice_from(in, 1) : sw_slice(NULL, 0);
    return NULL;
}

const char *hp_endpoint_read(struct sw_arena *a, struct sw_slice url, struct hp_endpoint *ret)
{
    static const struct sw_slice http = SW_SLICE_LIT("http://");
    static const struct sw_slice https = SW_SLICE_LIT("https://");
    struct sw_slice host = {0};
    struct sw_slice port = {0};
    struct sw_slice rest;
    struct sw_ip ip;
    uint64_t number = 0;
    const char *bad;

    ret->tls = sw_slice_has_prefix(url, https);
    if (!ret->tls && !sw_slice_has_prefix(url, http))
        return "must be a URL with scheme http or https";
    rest = sw_slice_from(url, ret->tls ? https.n : http.n);
    if (rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    for (size_t i = 0; i < rest.n; i++) {
        if (rest.p[i] == '/' || rest.p[i] == '?' || rest.p[i] == '#' || rest.p[i] == '@' ||
            rest.p[i] <= ' ')
            return "must not have a user, a path, a query or a fragment";
    }
    bad = split_authority(rest, &host, &port);
    if (bad)
        return bad;
    number = ret->tls ? 443 : 80;
    if (port.p && (!sw_slice_to_u64(port, UINT16_MAX, &number) || !number))
        return "has a port outside 1 to 65535";
    ret->port = (uint16_t)number;
    ret->ip = sw_ip_parse(host, &ip, NULL) == SW_OK;
    ret->family = ret->ip ? ip.family : 0;
    if (ret->ip)
        ret->host = sw_slice_str(sw_ip_text(&ip, sw_arena_alloc(a, SW_IP_TEXT)));
    else
        ret->host = lower(a, host);
    if (!ret->ip && !is_name(ret->host, false))
        return "has no valid host";
    if (!ret->ip && sw_host_is_numeric(ret->host))
        return "has an IPv4 address in disguise as its host: the last label of a host name must "
               "not be a number";
    return NULL;
}

/* Addresses that mean something else on every machine. */
static const char *check_ip(const struct sw_ip *ip, bool connector)
{
    switch (sw_egress_classify(ip)) {
    case SW_EGRESS_OK:
        break;
    case SW_EGRESS_UNSPECIFIED:
        return "must not be the unspecified address";
    case SW_EGRESS_LINK_LOCAL:
        return "must not be a link-local address";
    case SW_EGRESS_MULTICAST:
        return "must not be a multicast address";
    case SW_EGRESS_METADATA:
        return "must not be the address of a metadata service";
    case SW_EGRESS_LOOPBACK:
        if (!connector)
            return "may be a loopback address or 'localhost' only with a connector";
        if (!sw_ip_is_loopback(ip))
            return "must not be a loopback address inside of another address";
        break;
    case SW_EGRESS_LISTED:
    case SW_EGRESS_OWN:
    case SW_EGRESS_CLASSES:
        break;
    }
    return NULL;
}

static bool is_localhost(struct sw_slice name)
{
    return sw_slice_eq_str(name, "localhost") ||
           sw_slice_has_suffix(name, SW_SLICE_LIT(".localhost"));
}

static const char *check_host(const struct hp_endpoint *e, bool connector)
{
    struct sw_ip ip;
    bool here = !e->ip && is_localhost(e->host);

    if (e->ip && sw_ip_parse(e->host, &ip, NULL) == SW_OK)
        return check_ip(&ip, connector);
    if (here && !connector)
        return "may be a loopback address or 'localhost' only with a connector";
    if (!e->ip && !here && !is_name(e->host, true))
        return "must be an IP address or a fully qualified name";
    return NULL;
}

/* ---- backends ---- */

#define BAD(...) cn_text(a, __VA_ARGS__)

static const char *check_backend(struct sw_arena *a, const struct sw_json *b, const char *path)
{
    struct sw_slice url = js_or(b, "endpoint", "");
    const struct sw_json *connector = sw_json_find(b, "connector");
    const struct sw_json *instance = sw_json_find(b, "instance");
    struct sw_slice tls = js_or(sw_json_find(b, "tls"), "hostname", "");
    struct hp_endpoint e = {0};
    const char *bad;

    if (instance) {
        if (url.n || connector)
            return BAD("%s.instance: excludes endpoint and connector", path);
        if (!is_name(js_or(instance, "name", ""), false) ||
            !js_int(instance, "port", UINT16_MAX, 0))
            return BAD("%s.instance: needs a name and a port", path);
        return NULL;
    }
    if (!url.n)
        return BAD("%s.endpoint: is required unless instance is set", path);
    bad = hp_endpoint_read(a, url, &e);
    if (!bad)
        bad = check_host(&e, connector != NULL);
    if (bad)
        return BAD("%s.endpoint: '%.*s' %s", path, (int)sw_min(url.n, 200), url.p, bad);
    if (connector && !hp_is_label(js_or(connector, "name", "")))
        return BAD("%s.connector.name: must be a DNS-1123 label", path);
    if (sw_json_find(b, "tls") && tls.n && !is_name(tls, false))
        return BAD("%s.tls.hostname: '%.*s' is not a DNS name", path, (int)sw_min(tls.n, 200),
                   tls.p);
    if (e.tls && e.ip && !tls.n)
        return BAD("%s.tls.hostname: is required for an https endpoint with an IP address", path);
    return NULL;
}

/* ---- filters ---- */

static size_t count_type(const struct sw_json *filters, const char *type)
{
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(filters); i++)
        n += sw_json_str_eq(sw_json_find(sw_json_at(filters, i), "type"), type);
    return n;
}

static const char *check_filters(struct sw_arena *a, const struct sw_json *filters,
                                 const char *path)
{
    static const char *const once[] = {"RequestHeaderModifier", "ResponseHeaderModifier",
                                       "RequestRedirect", "URLRewrite"};

    if (sw_json_len(filters) > FILTERS_MAX)
        return BAD("%s.filters: more than %d", path, FILTERS_MAX);
    for (size_t i = 0; i < SW_ARRAY_LEN(once); i++) {
        if (count_type(filters, once[i]) > 1)
            return BAD("%s.filters: %s may be there once", path, once[i]);
    }
    if (count_type(filters, "RequestRedirect") && count_type(filters, "URLRewrite"))
        return BAD("%s.filters: RequestRedirect and URLRewrite exclude each other", path);
    return NULL;
}

/* ---- rules ---- */

static bool name_taken(const struct sw_json *rules, size_t upto, struct sw_slice name)
{
    for (size_t i = 0; name.n && i < upto; i++) {
        if (sw_slice_eq(js_or(sw_json_at(rules, i), "name", ""), name))
            return true;
    }
    return false;
}

static const char *check_rule(struct sw_arena *a, const struct sw_json *rules, size_t i)
{
    const struct sw_json *r = sw_json_at(rules, i);
    const struct sw_json *filters = sw_json_find(r, "filters");
    const struct sw_json *backends = sw_json_find(r, "backends");
    const char *path = BAD("spec.rules[%zu]", i);
    bool redirect = count_type(filters, "RequestRedirect") != 0;
    const char *bad = check_filters(a, filters, path);

    if (bad)
        return bad;
    if (name_taken(rules, i, js_or(r, "name", "")))
        return BAD("%s.name: must be unique", path);
    if (sw_json_len(sw_json_find(r, "matches")) > MATCHES_MAX)
        return BAD("%s.matches: more than %d", path, MATCHES_MAX);
    if (sw_json_len(backends) > 1)
        return BAD("%s.backends: more than one", path);
    if (!sw_json_len(backends))
        return redirect ? NULL : BAD("%s.backends: one is required without RequestRedirect", path);
    if (redirect)
        return BAD("%s.backends: must be empty with RequestRedirect", path);
    path = BAD("%s.backends[0]", path);
    bad = check_backend(a, sw_json_at(backends, 0), path);
    return bad ? bad : check_filters(a, sw_json_find(sw_json_at(backends, 0), "filters"), path);
}

static const char *check_hostnames(struct sw_arena *a, const struct sw_json *list)
{
    struct sw_ip ip;

    if (sw_json_len(list) > HP_HOSTS_MAX - 1)
        return BAD("spec.hostnames: more than %d", HP_HOSTS_MAX - 1);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice name = sw_json_str(sw_json_at(list, i));

        if (!is_name(name, true) || sw_ip_parse(name, &ip, NULL) == SW_OK)
            return BAD("spec.hostnames[%zu]: '%.*s' is not a fully qualified name", i,
                       (int)sw_min(name.n, 200), name.n ? name.p : "");
        for (size_t k = 0; k < i; k++) {
            if (sw_slice_eq(sw_json_str(sw_json_at(list, k)), name))
                return BAD("spec.hostnames[%zu]: '%.*s' is there twice", i, SW_SLICE_ARG(name));
        }
    }
    return NULL;
}

const char *hp_check(struct sw_arena *a, const struct sw_kube_obj *proxy)
{
    const struct sw_json *spec = sw_json_find(proxy->json, "spec");
    const struct sw_json *rules = sw_json_find(spec, "rules");
    size_t matches = 0;
    const char *bad;

    if (!hp_is_label(proxy->name))
        return "metadata.name: must be a DNS-1123 label";
    bad = check_hostnames(a, sw_json_find(spec, "hostnames"));
    if (bad)
        return bad;
    if (!sw_json_len(rules) || sw_json_len(rules) > HP_RULES_MAX)
        return BAD("spec.rules: 1 to %d are needed", HP_RULES_MAX);
    for (size_t i = 0; i < sw_json_len(rules) && !bad; i++) {
        bad = check_rule(a, rules, i);
        matches += sw_json_len(sw_json_find(sw_json_at(rules, i), "matches"));
    }
    if (!bad && matches > MATCHES_TOTAL)
        bad = BAD("spec.rules: more than %d matches in all", MATCHES_TOTAL);
    return bad;
}
