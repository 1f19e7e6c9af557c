/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose/objects.h"

#include "base/hash.h"
#include "io/addr.h"
#include "kube/client/kinds.h"

#define LABEL_NOTE  "app.kubernetes.io/name"
#define LAYER4_NOTE "spanwire.dev/layer4"
#define CA_NOTE     "spanwire.dev/backend-ca-pem"

const char *const sw_expose_notes[] = {LABEL_NOTE, LAYER4_NOTE, CA_NOTE, NULL};

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
    t->authority = sw_arena_printf(a, "%s%.*s%s:%u", v6 ? "[" : "", SW_SLICE_ARG(t->host),
                                   v6 ? "]" : "", t->port);
    t->url = sw_arena_printf(a, "%s://%s",
                             t->tcp     ? "tcp"
                             : t->https ? "https"
                                        : "http",
                             t->authority);
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
    } else if (sw_slice_has_prefix(in, SW_SLICE_LIT("tcp://"))) {
        rest = sw_slice_from(in, 6);
        t.tcp = true;
    }
    if (url && rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    rc = url ? split_authority(rest, t.https ? 443 : 80, &t, err)
             : sw_authority_split(rest, &t.host, &t.port, err);
    if (rc != SW_OK || !host_valid(t.host))
        return sw_err_set(err, SW_EINVAL,
                          "'%.*s': a port, HOST:PORT, http(s)://HOST[:PORT] or tcp://HOST:PORT is "
                          "needed",
                          SW_SLICE_ARG_MAX(in, 100));
    finish_target(a, &t);
    *ret = t;
    return SW_OK;
}

struct sw_slice sw_target_tls_name(const struct sw_target *t)
{
    struct sw_ip ip;

    /* A certificate is for a name; services behind an address have one for localhost. */
    return sw_ip_parse(t->host, &ip, NULL) == SW_OK ? SW_SLICE_LIT("localhost") : t->host;
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

static struct sw_json *match_all(struct sw_arena *a, struct sw_json *rule)
{
    struct sw_json *match = sw_json_push_object(a, sw_json_put_array(a, rule, "matches"));
    struct sw_json *path = sw_json_put_object(a, match, "path");

    sw_json_put_text(a, path, "type", "PathPrefix");
    sw_json_put_text(a, path, "value", "/");
    return match;
}

static void add_redirect(struct sw_arena *a, struct sw_json *rules, uint16_t port)
{
    struct sw_json *rule = sw_json_push_object(a, rules);
    struct sw_json *header =
        sw_json_push_object(a, sw_json_put_array(a, match_all(a, rule), "headers"));
    struct sw_json *filter = sw_json_push_object(a, sw_json_put_array(a, rule, "filters"));
    struct sw_json *redirect;

    sw_json_put_text(a, header, "type", "Exact");
    sw_json_put_text(a, header, "name", "x-forwarded-proto");
    sw_json_put_text(a, header, "value", "http");
    sw_json_put_text(a, filter, "type", "RequestRedirect");
    redirect = sw_json_put_object(a, filter, "requestRedirect");
    sw_json_put_text(a, redirect, "scheme", "https");
    if (port)
        sw_json_put(a, redirect, "port", sw_json_new_i64(a, port));
    sw_json_put(a, redirect, "statusCode", sw_json_new_i64(a, 301));
}

/* What is requested instead of HTTP: a port, any port, or names by TLS. */
static const char *wish(struct sw_arena *a, const struct sw_expose_spec *s)
{
    if (sw_json_len(s->hostnames))
        return "TLS";
    return s->public_port ? sw_arena_printf(a, "TCP/%u", s->public_port) : "TCP";
}

/*
 * Repeats the annotations: they do not change the generation, and a status of an older request must
 * not be taken for a verdict on this one.
 */
static const char *rule_name(struct sw_arena *a, const struct sw_expose_spec *s)
{
    if (!s->target.tcp)
        return sw_arena_printf(a, "ca-%08x",
                               (unsigned)sw_siphash13(23, 29, s->ca_pem.p, s->ca_pem.n));
    if (sw_json_len(s->hostnames))
        return "tls";
    return s->public_port ? sw_arena_printf(a, "tcp-%u", s->public_port) : "tcp";
}

static void add_notes(struct sw_arena *a, struct sw_json *meta, const struct sw_expose_spec *s)
{
    struct sw_json *notes = sw_json_new_object(a);

    if (s->label.n)
        sw_json_put_str(a, notes, LABEL_NOTE, s->label);
    if (s->target.tcp)
        sw_json_put_text(a, notes, LAYER4_NOTE, wish(a, s));
    if (s->ca_pem.n)
        sw_json_put_str(a, notes, CA_NOTE, s->ca_pem);
    if (sw_json_len(notes))
        sw_json_put(a, meta, "annotations", notes);
}

struct sw_json *sw_expose_proxy(struct sw_arena *a, const struct sw_expose_spec *s)
{
    struct sw_json *o = sw_kube_object_new(a, &sw_httpproxy_gvr, s->ns, s->name);
    struct sw_json *spec = sw_json_put_object(a, o, "spec");
    struct sw_json *rules;
    struct sw_json *rule;
    struct sw_json *backend;

    add_notes(a, sw_json_find(o, "metadata"), s);
    if (sw_json_len(s->hostnames))
        sw_json_put(a, spec, "hostnames", sw_json_copy(a, s->hostnames));
    rules = sw_json_put_array(a, spec, "rules");
    if (s->redirect)
        add_redirect(a, rules, s->redirect_port);
    rule = sw_json_push_object(a, rules);
    if (s->target.tcp || s->ca_pem.n)
        sw_json_put_text(a, rule, "name", rule_name(a, s));
    (void)match_all(a, rule);
    backend = sw_json_push_object(a, sw_json_put_array(a, rule, "backends"));
    /* An HTTPProxy knows no other scheme; the annotation says that bytes are meant. */
    sw_json_put_text(a, backend, "endpoint",
                     s->target.tcp ? sw_arena_printf(a, "http://%s", s->target.authority)
                                   : s->target.url);
    sw_json_put_str(a, sw_json_put_object(a, backend, "connector"), "name", s->connector);
    if (s->target.https && !sw_slice_eq(sw_target_tls_name(&s->target), s->target.host))
        sw_json_put_str(a, sw_json_put_object(a, backend, "tls"), "hostname",
                        sw_target_tls_name(&s->target));
    return o;
}

struct sw_json *sw_expose_advertisement(struct sw_arena *a, const struct sw_expose_spec *s)
{
    struct sw_json *o = sw_kube_object_new(a, &sw_advertisement_gvr, s->ns, s->name);
    struct sw_json *spec = sw_json_put_object(a, o, "spec");
    struct sw_json *group;
    struct sw_json *service;
    struct sw_json *port;

    sw_json_put_str(a, sw_json_put_object(a, spec, "connectorRef"), "name", s->connector);
    group = sw_json_push_object(a, sw_json_put_array(a, spec, "layer4"));
    sw_json_put_text(a, group, "name", "default");
    service = sw_json_push_object(a, sw_json_put_array(a, group, "services"));
    sw_json_put_str(a, service, "address", s->target.host);
    port = sw_json_push_object(a, sw_json_put_array(a, service, "ports"));
    sw_json_put_text(a, port, "name", sw_arena_printf(a, "tcp-%u", s->target.port));
    sw_json_put(a, port, "port", sw_json_new_i64(a, s->target.port));
    sw_json_put_text(a, port, "protocol", "TCP");
    return o;
}

struct sw_slice sw_expose_connector_of(const struct sw_json *proxy)
{
    const struct sw_json *rules = sw_json_walk(proxy, "spec", "rules", NULL);

    SW_JSON_ITEMS (it, rules) {
        const struct sw_json *b = sw_json_at(sw_json_find(it, "backends"), 0);
        struct sw_slice name = sw_json_str(sw_json_walk(b, "connector", "name", NULL));

        if (name.n)
            return name;
    }
    return SW_SLICE_LIT("");
}
