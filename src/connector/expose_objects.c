/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose_objects.h"

#include <string.h>

#include "connector/details.h"
#include "io/addr.h"

#define URL_NOTE "spanwire.dev/url"

enum { HOSTNAMES_MAX = 16 }; /* of an HTTPProxy */

/* ---- what is exposed ---- */

static bool host_valid(struct sw_slice host)
{
    struct sw_ip ip;

    return sw_host_parse(host, &ip, NULL) == SW_OK;
}

static void finish_target(struct sw_arena *a, struct sw_target *t)
{
    bool v6 = sw_slice_find(t->host, ':') >= 0;

    t->host = sw_arena_slice(a, t->host);
    t->url = sw_arena_printf(a, "%s://%s%.*s%s:%u", t->https ? "https" : "http", v6 ? "[" : "",
                             SW_SLICE_ARG(t->host), v6 ? "]" : "", t->port);
}

/* The authority of a URL, whose port may be missing. */
static int split_authority(struct sw_slice in, uint16_t standard, struct sw_target *t,
                           struct sw_err *err)
{
    struct sw_ip ip;

    t->port = standard;
    if (in.n > 2 && in.p[0] == '[' && in.p[in.n - 1] == ']') {
        t->host = sw_slice(in.p + 1, in.n - 2);
        return sw_ip_parse(t->host, &ip, err);
    }
    t->host = in;
    if (sw_slice_find(in, ':') < 0)
        return SW_OK;
    return sw_authority_split(in, &t->host, &t->port, err);
}

int sw_target_parse(struct sw_arena *a, struct sw_slice in, struct sw_target *ret,
                    struct sw_err *err)
{
    struct sw_target t = {0};
    struct sw_slice rest = in;
    uint64_t port;
    bool url = false;
    int rc;

    if (sw_slice_to_u64(in, 65535, &port) && port > 0) {
        t.host = SW_SLICE_LIT("127.0.0.1");
        t.port = (uint16_t)port;
        finish_target(a, &t);
        *ret = t;
        return SW_OK;
    }
    if (sw_slice_has_prefix(in, SW_SLICE_LIT("http://"))) {
        rest = sw_slice_from(in, 7);
        url = true;
    } else if (sw_slice_has_prefix(in, SW_SLICE_LIT("https://"))) {
        rest = sw_slice_from(in, 8);
        t.https = true;
        url = true;
    }
    if (url && rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    rc = url ? split_authority(rest, t.https ? 443 : 80, &t, err)
             : sw_authority_split(rest, &t.host, &t.port, err);
    if (rc != SW_OK || !host_valid(t.host))
        return sw_err_set(err, SW_EINVAL,
                          "'%.*s': a port, HOST:PORT or http(s)://HOST[:PORT] is needed",
                          (int)sw_min(in.n, 100), in.n ? in.p : "");
    finish_target(a, &t);
    *ret = t;
    return SW_OK;
}

bool sw_label_valid(struct sw_slice s)
{
    if (s.n == 0 || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

const char *sw_target_name(struct sw_arena *a, struct sw_slice host, uint16_t port)
{
    char label[48];
    size_t n = 0;

    for (size_t i = 0; i < host.n && n < sizeof(label) - 1 && host.p[i] != '.'; i++) {
        char c = host.p[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c + 32);
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            label[n++] = c;
        else if (n && label[n - 1] != '-')
            label[n++] = '-';
    }
    while (n && label[n - 1] == '-')
        n--;
    label[n] = '\0';
    return sw_arena_printf(a, "%s-%u", n ? label : "device", port);
}

/* ---- the objects ---- */

static struct sw_json *object(struct sw_arena *a, struct sw_json *in, const char *key)
{
    struct sw_json *o = sw_json_new_object(a);

    if (in)
        sw_json_put(a, in, key, o);
    return o;
}

static struct sw_json *array(struct sw_arena *a, struct sw_json *in, const char *key)
{
    struct sw_json *o = sw_json_new_array(a);

    sw_json_put(a, in, key, o);
    return o;
}

static struct sw_json *item(struct sw_arena *a, struct sw_json *list)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_push(a, list, o);
    return o;
}

static void text(struct sw_arena *a, struct sw_json *o, const char *key, const char *value)
{
    sw_json_put(a, o, key, sw_json_new_str(a, value));
}

static struct sw_json *head(struct sw_arena *a, const struct sw_expose_spec *s, const char *version,
                            const char *kind)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *meta;

    text(a, o, "apiVersion", version);
    text(a, o, "kind", kind);
    meta = object(a, o, "metadata");
    sw_json_put_str(a, meta, "namespace", s->ns);
    sw_json_put_str(a, meta, "name", s->name);
    return o;
}

static struct sw_json *match_all(struct sw_arena *a, struct sw_json *rule)
{
    struct sw_json *match = item(a, array(a, rule, "matches"));
    struct sw_json *path = object(a, match, "path");

    text(a, path, "type", "PathPrefix");
    text(a, path, "value", "/");
    return match;
}

static void add_redirect(struct sw_arena *a, struct sw_json *rules, uint16_t port)
{
    struct sw_json *rule = item(a, rules);
    struct sw_json *header = item(a, array(a, match_all(a, rule), "headers"));
    struct sw_json *filter = item(a, array(a, rule, "filters"));
    struct sw_json *redirect;

    text(a, header, "type", "Exact");
    text(a, header, "name", "x-forwarded-proto");
    text(a, header, "value", "http");
    text(a, filter, "type", "RequestRedirect");
    redirect = object(a, filter, "requestRedirect");
    text(a, redirect, "scheme", "https");
    if (port)
        sw_json_put(a, redirect, "port", sw_json_new_i64(a, port));
    sw_json_put(a, redirect, "statusCode", sw_json_new_i64(a, 301));
}

struct sw_json *sw_expose_proxy(struct sw_arena *a, const struct sw_expose_spec *s)
{
    struct sw_json *o = head(a, s, SW_CONNECTOR_GROUP "/v1alpha", "HTTPProxy");
    struct sw_json *spec = object(a, o, "spec");
    struct sw_json *rules;
    struct sw_json *rule;
    struct sw_json *backend;

    if (s->label.n)
        sw_json_put_str(a, object(a, sw_json_find(o, "metadata"), "annotations"),
                        "app.kubernetes.io/name", s->label);
    if (sw_json_len(s->hostnames))
        sw_json_put(a, spec, "hostnames", sw_json_copy(a, s->hostnames));
    rules = array(a, spec, "rules");
    if (s->redirect)
        add_redirect(a, rules, s->redirect_port);
    rule = item(a, rules);
    (void)match_all(a, rule);
    backend = item(a, array(a, rule, "backends"));
    text(a, backend, "endpoint", s->target.url);
    sw_json_put_str(a, object(a, backend, "connector"), "name", s->connector);
    if (s->target.https) {
        struct sw_ip ip;

        /* A certificate is for a name; services behind an address have one for localhost. */
        if (sw_ip_parse(s->target.host, &ip, NULL) == SW_OK)
            text(a, object(a, backend, "tls"), "hostname", "localhost");
    }
    return o;
}

struct sw_json *sw_expose_advertisement(struct sw_arena *a, const struct sw_expose_spec *s)
{
    struct sw_json *o = head(a, s, SW_CONNECTOR_GROUP "/v1alpha1", "ConnectorAdvertisement");
    struct sw_json *spec = object(a, o, "spec");
    struct sw_json *group;
    struct sw_json *service;
    struct sw_json *port;

    sw_json_put_str(a, object(a, spec, "connectorRef"), "name", s->connector);
    group = item(a, array(a, spec, "layer4"));
    text(a, group, "name", "default");
    service = item(a, array(a, group, "services"));
    sw_json_put_str(a, service, "address", s->target.host);
    port = item(a, array(a, service, "ports"));
    text(a, port, "name", sw_arena_printf(a, "tcp-%u", s->target.port));
    sw_json_put(a, port, "port", sw_json_new_i64(a, s->target.port));
    text(a, port, "protocol", "TCP");
    return o;
}

struct sw_slice sw_expose_connector_of(const struct sw_json *proxy)
{
    const struct sw_json *rules = sw_json_walk(proxy, "spec", "rules", NULL);

    for (size_t i = 0; i < sw_json_len(rules); i++) {
        const struct sw_json *b = sw_json_at(sw_json_find(sw_json_at(rules, i), "backends"), 0);
        struct sw_slice name = sw_json_str(sw_json_walk(b, "connector", "name", NULL));

        if (name.n)
            return name;
    }
    return SW_SLICE_LIT("");
}

/* ---- what their status says ---- */

static const struct {
    const char *name;
    const char *type;
    bool of_connector;
    bool optional; /* absent counts as done */
} steps[SW_EXPOSE_STEPS] = {
    [SW_EXPOSE_PROXY_ACCEPTED] = {"proxy_accepted", "Accepted", false, false},
    [SW_EXPOSE_CERTIFICATES_READY] = {"certificates_ready", "CertificatesReady", false, true},
    [SW_EXPOSE_CONNECTOR_READY] = {"connector_ready", "Ready", true, false},
    [SW_EXPOSE_DNS_PUBLISHED] = {"iroh_dns_published", "IrohDNSPublished", true, true},
    [SW_EXPOSE_PROXY_PROGRAMMED] = {"proxy_programmed", "Programmed", false, false},
    [SW_EXPOSE_METADATA_PROGRAMMED] = {"connector_metadata_programmed",
                                       "ConnectorMetadataProgrammed", false, true},
};

const char *sw_expose_step_name(enum sw_expose_step s)
{
    return steps[s].name;
}

static struct sw_slice condition_of(const struct sw_json *obj, const char *type,
                                    struct sw_slice *reason, struct sw_slice *message)
{
    return sw_condition(sw_json_walk(obj, "status", "conditions", NULL), type, reason, message);
}

/* What was said about an older generation is no verdict on what was asked for now. */
static bool found(const struct sw_json *obj, const char *type, const char *status,
                  const char *reason, struct sw_slice *ret_message)
{
    struct sw_slice why;
    struct sw_slice is = condition_of(obj, type, &why, ret_message);

    return sw_slice_eq_str(is, status) && (!reason || sw_slice_eq_str(why, reason)) &&
           sw_condition_current(obj, type);
}

static void judge_failure(const struct sw_json *proxy, const struct sw_json *connector,
                          struct sw_expose_state *ret)
{
    struct sw_slice message;

    if (found(proxy, "Accepted", "False", "Invalid", &message) ||
        found(proxy, "HostnamesInUse", "True", NULL, &message))
        ret->failed = message;
    ret->lost = found(connector, "IrohDNSPublished", "False", "DeferredToOwner", &message);
    if (ret->lost)
        ret->failed = message;
}

void sw_expose_judge(const struct sw_json *proxy, const struct sw_json *connector, bool need_tls,
                     struct sw_expose_state *ret)
{
    *ret = (struct sw_expose_state){.ready = true};
    for (size_t i = 0; i < SW_EXPOSE_STEPS; i++) {
        const struct sw_json *obj = steps[i].of_connector ? connector : proxy;
        struct sw_slice reason;
        struct sw_slice message;
        struct sw_slice status = condition_of(obj, steps[i].type, &reason, &message);
        bool done = sw_condition_true(obj, steps[i].type);
        /* A certificate that is not there yet keeps nobody from plain HTTP. */
        bool needless = i == SW_EXPOSE_CERTIFICATES_READY && !need_tls;

        ret->waived[i] = !done && steps[i].optional && (status.n == 0 || needless);
        ret->done[i] = done || ret->waived[i];
        if (!ret->done[i] && ret->ready) {
            ret->ready = false;
            ret->waiting = message;
        }
    }
    judge_failure(proxy, connector, ret);
}

/* ---- names ---- */

static bool listed(const struct sw_json *names, struct sw_slice name)
{
    for (size_t i = 0; i < sw_json_len(names); i++) {
        if (sw_slice_eq(sw_json_str(sw_json_at(names, i)), name))
            return true;
    }
    return false;
}

struct sw_json *sw_expose_union(struct sw_arena *a, const struct sw_json *before,
                                const struct sw_json *wanted)
{
    const struct sw_json *from[] = {before, wanted};
    struct sw_json *all = sw_json_new_array(a);

    for (size_t k = 0; k < SW_ARRAY_LEN(from); k++) {
        for (size_t i = 0; i < sw_json_len(from[k]); i++) {
            struct sw_slice name = sw_json_str(sw_json_at(from[k], i));

            if (!listed(all, name))
                sw_json_push(a, all, sw_json_new_string(a, name));
        }
    }
    return sw_json_len(all) <= HOSTNAMES_MAX ? all : NULL;
}

/* What the status says of one name; NULL: nothing. */
static const struct sw_json *name_status(const struct sw_json *proxy, struct sw_slice name)
{
    const struct sw_json *list = sw_json_walk(proxy, "status", "hostnameStatuses", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_slice_eq(sw_json_str(sw_json_find(sw_json_at(list, i), "hostname")), name))
            return sw_json_at(list, i);
    }
    return NULL;
}

struct sw_slice sw_expose_name_message(const struct sw_json *proxy, struct sw_slice name)
{
    struct sw_slice reason = {0};
    struct sw_slice message = SW_SLICE_LIT("");

    (void)sw_condition(sw_json_find(name_status(proxy, name), "conditions"), "Available", &reason,
                       &message);
    return message;
}

enum sw_expose_names sw_expose_names(const struct sw_json *proxy, const struct sw_json *wanted,
                                     struct sw_slice *ret_name)
{
    enum sw_expose_names all = SW_EXPOSE_NAMES_OURS;

    if (!sw_condition_current(proxy, "Accepted"))
        return SW_EXPOSE_NAMES_PENDING;
    for (size_t i = 0; i < sw_json_len(wanted); i++) {
        struct sw_slice name = sw_json_str(sw_json_at(wanted, i));
        struct sw_slice reason = {0};
        struct sw_slice message = {0};
        struct sw_slice is = sw_condition(sw_json_find(name_status(proxy, name), "conditions"),
                                          "Available", &reason, &message);

        if (sw_slice_eq_str(reason, "InUse")) {
            *ret_name = name;
            return SW_EXPOSE_NAMES_TAKEN;
        }
        if (!sw_slice_eq_str(is, "True"))
            all = SW_EXPOSE_NAMES_PENDING;
    }
    return all;
}

/* ---- where ---- */

/* The port of "http://name:port/", as clients dial it; 80 without one. */
static uint64_t port_of(struct sw_slice url)
{
    struct sw_slice rest = sw_slice_from(url, sizeof("http://") - 1);
    struct sw_slice authority = sw_slice_cut(&rest, '/');
    ptrdiff_t colon = sw_slice_rfind(authority, ':');
    uint64_t port = 80;

    if (colon < 0 ||
        !sw_slice_to_u64(sw_slice_from(authority, (size_t)colon + 1), 65535 - 443, &port) ||
        port == 0)
        return 80;
    return port;
}

static struct sw_slice url_note(const struct sw_json *proxy)
{
    return sw_json_str(sw_json_walk(proxy, "metadata", "annotations", URL_NOTE, NULL));
}

uint16_t sw_expose_https_port(const struct sw_json *proxy)
{
    uint64_t port = port_of(url_note(proxy));

    return port == 80 ? 0 : (uint16_t)(port - 80 + 443);
}

const char *sw_expose_url(struct sw_arena *a, const struct sw_json *proxy, bool https)
{
    struct sw_slice name =
        sw_json_str(sw_json_at(sw_json_walk(proxy, "spec", "hostnames", NULL), 0));
    /* Ports below 1024 may be served higher up, HTTP and HTTPS by the same distance. */
    uint64_t port = port_of(url_note(proxy));

    if (!name.n)
        name = sw_json_str(sw_json_walk(proxy, "status", "canonicalHostname", NULL));
    if (!name.n)
        return NULL;
    if (https)
        port = port - 80 + 443;
    if (port == (https ? 443 : 80))
        return sw_arena_printf(a, "%s://%.*s/", https ? "https" : "http", SW_SLICE_ARG(name));
    return sw_arena_printf(a, "%s://%.*s:%u/", https ? "https" : "http", SW_SLICE_ARG(name),
                           (unsigned)port);
}
