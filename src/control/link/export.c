/* SPDX-License-Identifier: Apache-2.0 */
/* Exports: whether they are valid, and where data planes connect to for them. */
#include "control/link/link_int.h"
#include "io/addr.h"

struct target {
    struct sw_slice service; /* of the Export's namespace; empty: none */
    struct sw_slice host;    /* what data planes look up or dial */
    uint16_t port;
    const char *why; /* it is not valid */
};

/* ---- validity ---- */

/* Where the Service that an Import of this name has leads to (import.c). */
static bool is_imports(struct lk *l, const struct sw_kube_obj *svc, struct sw_slice host)
{
    return sw_slice_eq(host, lk_import_host(l, svc->ns, svc->name));
}

/*
 * An ExternalName leads wherever its writer says, unless that is the Service of its namespace's
 * Import. Labels prove nothing: any tenant can write them.
 */
static const char *bad_external(struct lk *l, const struct sw_kube_obj *svc)
{
    const struct sw_json *spec = sw_json_find(svc->json, "spec");
    struct sw_slice host = js_or(spec, "externalName", "");

    if (!sw_slice_eq_str(js_or(spec, "type", ""), "ExternalName") || is_imports(l, svc, host) ||
        lk_host_allowed(l->conf, host))
        return NULL;
    return cn_text(l->a,
                   "Service '%.*s' is an ExternalName for '%.*s', which the option "
                   "--link-export-host does not allow.",
                   SW_SLICE_ARG(svc->name), (int)sw_min(host.n, 253), host.p);
}

static void judge_service(struct lk *l, const struct sw_kube_obj *o, struct target *t)
{
    const struct sw_kube_obj *svc = sw_view_find(l->v, SW_LK_SERVICE, o->ns, t->service);

    if (!svc) {
        t->why = cn_text(l->a, "There is no Service '%.*s/%.*s'.", SW_SLICE_ARG(o->ns),
                         SW_SLICE_ARG(t->service));
        return;
    }
    t->why = bad_external(l, svc);
    t->host = cn_printf(l->a, "%.*s.%.*s.svc.%.*s", SW_SLICE_ARG(t->service), SW_SLICE_ARG(o->ns),
                        SW_SLICE_ARG(l->conf->domain));
}

static void judge_host(struct lk *l, struct sw_slice host, struct target *t)
{
    struct sw_err err = {0};
    struct sw_ip ip;

    t->host = host;
    if (sw_host_parse(host, &ip, &err) != SW_OK)
        t->why = cn_text(l->a, "spec.host: %s.", err.msg);
    else if (!lk_host_allowed(l->conf, host))
        t->why = cn_text(l->a,
                         "spec.host '%.*s' is no Service of this namespace, and the option "
                         "--link-export-host does not allow it.",
                         (int)sw_min(host.n, 253), host.p);
}

static struct target judge(struct lk *l, const struct sw_kube_obj *o)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    struct sw_slice host = js_or(spec, "host", "");
    struct target t = {.port = (uint16_t)js_int(spec, "port", UINT16_MAX, 0)};
    struct sw_slice named = lk_host_service(l->conf, host, o->ns);

    if (!host.n)
        t.service = o->name;
    else if (named.n &&
             (sw_view_find(l->v, SW_LK_SERVICE, o->ns, named) || !lk_host_allowed(l->conf, host)))
        t.service = named;
    if (t.service.n)
        judge_service(l, o, &t);
    else
        judge_host(l, host, &t);
    if (!t.why && !t.port)
        t.why = "spec.port must be in the range 1 to 65535.";
    return t;
}

/* ---- addresses of Services, where no cluster DNS resolves their names ---- */

static size_t add_endpoints(const struct sw_json *slice, struct sw_slice port_name,
                            struct lk_endpoint *out, size_t n)
{
    const struct sw_json *list = sw_json_find(slice, "endpoints");
    const struct sw_json *p = cn_port(sw_json_find(slice, "ports"), 0, port_name, "TCP");
    uint16_t port = (uint16_t)js_int(p, "port", UINT16_MAX, 0);

    for (size_t i = 0; port && i < sw_json_len(list) && n < LK_ADDRESSES_MAX; i++) {
        const struct sw_json *e = sw_json_at(list, i);
        const struct sw_json *ready = sw_json_walk(e, "conditions", "ready", NULL);
        struct sw_slice ip = sw_json_str(sw_json_at(sw_json_find(e, "addresses"), 0));
        struct sw_ip parsed;

        if ((!sw_json_is(ready, SW_JSON_BOOL) || ready->boolean) &&
            sw_ip_parse(ip, &parsed, NULL) == SW_OK)
            out[n++] = (struct lk_endpoint){.host = ip, .port = port};
    }
    return n;
}

static size_t resolve(struct lk *l, const struct sw_kube_obj *o, const struct target *t,
                      struct lk_endpoint *out)
{
    const struct sw_kube_obj *svc = sw_view_find(l->v, SW_LK_SERVICE, o->ns, t->service);
    const struct sw_json *port = svc ? cn_port(sw_json_walk(svc->json, "spec", "ports", NULL),
                                               t->port, sw_slice(NULL, 0), "TCP")
                                     : NULL;
    const struct lk_slices *s = port ? sw_map_get(&l->backends, svc->key) : NULL;
    size_t n = 0;

    for (; s; s = s->next)
        n = add_endpoints(s->obj->json, js_or(port, "name", ""), out, n);
    return n;
}

/* ---- */

static void index_backends(struct lk *l)
{
    for (size_t i = 0; l->conf->direct && i < sw_view_count(l->v, SW_LK_BACKEND); i++) {
        const struct sw_kube_obj *o = sw_view_at(l->v, SW_LK_BACKEND, i);
        struct sw_slice key = cn_printf(l->a, "%.*s/%.*s", SW_SLICE_ARG(o->ns),
                                        SW_SLICE_ARG(cn_meta_of(o, "labels", SW_LINK_SERVICE)));
        struct lk_slices *s = SW_ARENA_NEW(l->a, struct lk_slices);

        s->obj = o;
        s->next = sw_map_get(&l->backends, key);
        (void)sw_map_put(&l->backends, key, s);
    }
}

static void publish(struct lk *l, const struct sw_kube_obj *o, const struct target *t)
{
    struct lk_endpoint list[LK_ADDRESSES_MAX];
    size_t n = l->conf->direct && t->service.n ? resolve(l, o, t, list) : 0;

    if (!n)
        list[n++] = (struct lk_endpoint){.host = t->host, .port = t->port};
    lk_publish_export(l, o, list, n);
}

void lk_exports(struct lk *l)
{
    index_backends(l);
    SW_VIEW_EACH (o, l->v, SW_LK_EXPORT) {
        struct target t;
        struct cond want;

        if (cn_deleting(o))
            continue;
        t = judge(l, o);
        want =
            (struct cond){"ExportValid", !t.why, t.why ? "Error" : "Verified", t.why ? t.why : ""};
        lk_status(l, SW_LK_EXPORT, o, &want, 1);
        sw_link_facts_add_export(l->facts, o->json, sw_slice_str(want.msg));
        if (t.why)
            lk_note(l, "InvalidExport", "export", o, t.why);
        else
            publish(l, o, &t);
    }
}
