/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/gc/slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/search.h"
#include "io/egress.h"
#include "kube/fields.h"

/* An endpoint that shall be there. */
struct endpoint {
    struct sw_slice id; /* uid of the pod and address: what it is known by in a slice */
    struct sw_json *json;
    bool placed;
};

/* Endpoints of one family whose ports are the same. */
struct group {
    const char *family;
    struct sw_json *ports;
    struct sw_slice id; /* family and ports as text */
    SW_VEC(struct endpoint) all;
};

struct plan {
    struct gc_slices *s;
    const struct sw_json *spec;
    SW_VEC(struct group *) groups;
};

static struct sw_slice meta_text(const struct sw_json *obj, const char *key)
{
    return sw_field_text(sw_json_find(obj, "metadata"), key);
}

/* ---- ports ---- */

/* The number a port of the Service has in this pod; 0: the pod has no port of that name. */
static int64_t target_port(const struct sw_json *port, const struct sw_json *pod)
{
    const struct sw_json *target = sw_json_find(port, "targetPort");
    const struct sw_json *named = sw_json_find(pod, "ports");
    int64_t n = 0;

    if (sw_json_is(target, SW_JSON_NUMBER) && sw_json_exact_i64(target, &n))
        return n ? n : sw_field_int(port, "port");
    if (!sw_json_is(target, SW_JSON_STRING))
        return sw_field_int(port, "port");
    SW_JSON_ITEMS (p, named) {
        if (sw_slice_eq(sw_field_text(p, "name"), sw_json_str(target)) &&
            sw_slice_eq(sw_field_text(p, "protocol"), sw_field_text(port, "protocol")))
            return sw_field_int(p, "port");
    }
    return 0;
}

static struct sw_json *ports_of(struct sw_arena *a, const struct sw_json *spec,
                                const struct sw_json *pod)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (p, ports) {
        int64_t n = target_port(p, pod);

        if (n)
            sw_json_push(a, out,
                         SW_JSON_OF(a, {"name", .text = sw_field_text(p, "name")},
                                    {"port", .json = sw_json_new_i64(a, n)},
                                    {"protocol", .text = sw_field_text(p, "protocol")},
                                    {"appProtocol", .some = sw_field_text(p, "appProtocol")}));
    }
    return out;
}

/* ---- endpoints ---- */

/* An address that a slice may name. */
static bool usable(const struct gc_slices *s, struct sw_slice text, struct sw_ip *ret)
{
    enum sw_egress_class c;

    if (sw_ip_parse(text, ret, NULL) != SW_OK)
        return false;
    c = sw_egress_classify(ret);
    return c == SW_EGRESS_OK || (c == SW_EGRESS_LOOPBACK && s->loopback_ok);
}

static struct sw_json *conditions_of(struct sw_arena *a, const struct sw_json *spec,
                                     const struct sw_json *pod)
{
    bool serving = sw_json_true(sw_json_find(pod, "ready"));
    bool terminating = sw_json_true(sw_json_find(pod, "terminating"));
    bool always = sw_json_true(sw_json_find(spec, "publishNotReadyAddresses"));

    return SW_JSON_OF(a,
                      {"ready", .json = sw_json_new_bool(a, always || (serving && !terminating))},
                      {"serving", .json = sw_json_new_bool(a, serving)},
                      {"terminating", .json = sw_json_new_bool(a, terminating)});
}

static struct sw_json *target_of(struct gc_slices *s, struct sw_slice name,
                                 const struct sw_json *pod)
{
    return SW_JSON_OF(s->arena, {"kind", .str = "Pod"},
                      {"namespace", .text = meta_text(s->service, "namespace")},
                      {"name", .text = name}, {"uid", .text = sw_field_text(pod, "uid")});
}

static struct sw_json *endpoint_of(struct plan *p, struct sw_slice name, const struct sw_json *pod,
                                   const struct sw_ip *ip)
{
    struct gc_slices *s = p->s;
    struct sw_arena *a = s->arena;
    struct sw_slice node = sw_field_text(pod, "node");
    struct sw_slice hostname = sw_field_text(pod, "hostname");
    char text[SW_IP_TEXT];
    struct sw_json *ips = sw_json_new_list(a, sw_json_new_str(a, sw_ip_text(ip, text)));

    if (!sw_slice_eq(sw_field_text(pod, "subdomain"), meta_text(s->service, "name")))
        hostname = sw_slice("", 0);
    return SW_JSON_OF(a, {"addresses", .json = ips},
                      {"conditions", .json = conditions_of(a, p->spec, pod)},
                      {"hostname", .some = hostname}, {"nodeName", .some = node},
                      {"targetRef", .json = target_of(s, name, pod)},
                      {"zone", .some = node.n ? s->zone(s->arg, node) : sw_slice("", 0)});
}

/* What an endpoint of a slice is known by. */
static struct sw_slice id_of(struct sw_arena *a, const struct sw_json *e)
{
    struct sw_slice ip = sw_json_str(sw_json_at(sw_json_find(e, "addresses"), 0));

    return sw_slice_str(sw_arena_printf(
        a, "%.*s %.*s", SW_SLICE_ARG(sw_field_text(sw_json_find(e, "targetRef"), "uid")),
        SW_SLICE_ARG(ip)));
}

static struct group *group_of(struct plan *p, const char *family, struct sw_json *ports)
{
    struct sw_arena *a = p->s->arena;
    struct sw_slice id = sw_slice_str(
        sw_arena_printf(a, "%s %.*s", family, SW_SLICE_ARG(sw_json_sorted_text(a, ports))));
    struct group *g;

    for (size_t i = 0; i < p->groups.n; i++) {
        if (sw_slice_eq(p->groups.p[i]->id, id))
            return p->groups.p[i];
    }
    g = SW_ARENA_NEW(a, struct group);
    g->family = family;
    g->ports = ports;
    g->id = id;
    sw_vec_push(&p->groups, g);
    return g;
}

static void on_pod(void *arg, struct sw_slice name, const struct sw_json *pod)
{
    struct plan *p = arg;
    const struct sw_json *families = sw_json_find(p->spec, "ipFamilies");
    const struct sw_json *ips = sw_json_find(pod, "ips");
    struct sw_json *ports = NULL;

    SW_JSON_ITEMS (it, ips) {
        struct endpoint e = {0};
        struct group *g;
        struct sw_ip ip;
        const char *family;

        if (!usable(p->s, sw_json_str(it), &ip))
            continue;
        family = ip.family == 4 ? "IPv4" : "IPv6";
        if (sw_json_len(families) ? !sw_field_list_has(families, sw_slice_str(family))
                                  : ip.family != 4)
            continue;
        ports = ports ? ports : ports_of(p->s->arena, p->spec, pod);
        g = group_of(p, family, ports);
        e.json = endpoint_of(p, name, pod, &ip);
        e.id = id_of(p->s->arena, e.json);
        sw_vec_push(&g->all, e);
    }
}

static int by_id(const void *x, const void *y)
{
    const struct endpoint *a = x;
    const struct endpoint *b = y;

    return sw_slice_cmp(a->id, b->id);
}

/* ---- slices ---- */

static struct sw_json *labels_of(struct gc_slices *s)
{
    struct sw_arena *a = s->arena;
    const struct sw_json *own = sw_json_walk(s->service, "metadata", "labels", NULL);
    struct sw_json *l = own ? sw_json_copy(a, own) : sw_json_new_object(a);

    if (sw_json_str_eq(sw_json_walk(s->service, "spec", "clusterIP", NULL), "None"))
        sw_json_put_str(a, l, "service.kubernetes.io/headless", sw_slice("", 0));
    else
        (void)sw_json_remove(l, SW_SLICE_LIT("service.kubernetes.io/headless"));
    sw_json_put_str(a, l, "kubernetes.io/service-name", meta_text(s->service, "name"));
    sw_json_put_str(a, l, "endpointslice.kubernetes.io/managed-by", SW_SLICE_LIT(GC_SLICE_MANAGER));
    return l;
}

static struct sw_json *owners_of(struct gc_slices *s)
{
    struct sw_arena *a = s->arena;

    return sw_json_new_list(a, SW_JSON_OF(a, {"apiVersion", .str = "v1"},
                                          {"blockOwnerDeletion", .json = sw_json_new_bool(a, true)},
                                          {"controller", .json = sw_json_new_bool(a, true)},
                                          {"kind", .str = "Service"},
                                          {"name", .text = meta_text(s->service, "name")},
                                          {"uid", .text = meta_text(s->service, "uid")}));
}

/*
 * A name as generateName makes it, but the same for the same slice: what is created twice, because
 * the first time was not seen yet, is refused by the store.
 */
static const char *name_of(struct gc_slices *s, const struct group *g, size_t number)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    struct sw_slice svc = sw_slice_head(meta_text(s->service, "name"), 57);
    const char *id =
        sw_arena_printf(s->arena, "%.*s %.*s %zu", SW_SLICE_ARG(meta_text(s->service, "uid")),
                        SW_SLICE_ARG(g->id), number);
    uint64_t h = sw_siphash13(0, 0, id, strlen(id));
    char tail[6] = {0};

    for (size_t i = 0; i < 5; i++, h /= sizeof(letters) - 1)
        tail[i] = letters[h % (sizeof(letters) - 1)];
    return sw_arena_printf(s->arena, "%.*s-%s", SW_SLICE_ARG(svc), tail);
}

static bool name_taken(const struct gc_slices *s, const char *name)
{
    for (size_t i = 0; i < s->all.n; i++) {
        if (sw_slice_eq_str(meta_text(s->all.p[i].old ? s->all.p[i].old : s->all.p[i].want, "name"),
                            name))
            return true;
    }
    return false;
}

static struct sw_json *new_slice(struct gc_slices *s, const struct group *g)
{
    struct sw_arena *a = s->arena;
    const char *prefix = sw_arena_printf(a, "%.*s-", SW_SLICE_ARG(meta_text(s->service, "name")));
    struct sw_json *meta;
    const char *name;
    size_t number = 0;

    while (name_taken(s, name = name_of(s, g, number)))
        number++;
    meta = SW_JSON_OF(a, {"name", .str = name}, {"generateName", .str = prefix},
                      {"namespace", .text = meta_text(s->service, "namespace")});
    return SW_JSON_OF(a, {"metadata", .json = meta}, {"addressType", .str = g->family});
}

/* A copy of a slice without its endpoints, which are written anew. */
static struct sw_json *shell_of(struct gc_slices *s, const struct sw_json *old)
{
    struct sw_json *obj = sw_json_new_object(s->arena);

    SW_JSON_MEMBERS (m, old) {
        if (!sw_slice_eq_str(m->key, "endpoints"))
            sw_json_set(s->arena, obj, m->key, sw_json_copy(s->arena, m->value));
    }
    return obj;
}

/* The parts of a slice that are ours. */
static void fill(struct gc_slices *s, struct sw_json *obj, struct sw_json *ports,
                 struct sw_json *endpoints)
{
    struct sw_json *meta = sw_json_find(obj, "metadata");

    sw_json_put(s->arena, meta, "labels", labels_of(s));
    sw_json_put(s->arena, meta, "ownerReferences", owners_of(s));
    sw_json_put(s->arena, obj, "ports", ports);
    sw_json_put(s->arena, obj, "endpoints", endpoints);
}

static struct endpoint *find(const struct group *g, struct sw_slice id)
{
    const struct endpoint want = {.id = id};

    return g->all.n ? bsearch(&want, g->all.p, g->all.n, sizeof(want), by_id) : NULL;
}

static bool of_group(struct sw_arena *a, const struct sw_json *slice, const struct group *g)
{
    const struct sw_json *ports = sw_json_find(slice, "ports");

    return sw_field_is(slice, "addressType", g->family) &&
           (sw_json_len(ports) + sw_json_len(g->ports) == 0 ||
            sw_slice_eq(sw_json_sorted_text(a, ports), sw_json_sorted_text(a, g->ports)));
}

/* Puts back into an existing slice what is still wanted of it. */
static struct sw_json *kept(struct gc_slices *s, const struct gc_slice *slice, struct group *g)
{
    const struct sw_json *had = sw_json_find(slice->old, "endpoints");
    struct sw_json *list = sw_json_new_array(s->arena);

    SW_JSON_ITEMS (it, had) {
        struct endpoint *e = find(g, id_of(s->arena, it));

        if (!e || e->placed || sw_json_len(list) >= GC_SLICE_ENDPOINTS)
            continue;
        e->placed = true;
        sw_json_push(s->arena, list, e->json);
    }
    return list;
}

/* Endpoints that are in no slice, as many as there is room for. */
static void top_up(struct gc_slices *s, struct sw_json *list, struct group *g, size_t *at)
{
    for (; *at < g->all.n && sw_json_len(list) < GC_SLICE_ENDPOINTS; (*at)++) {
        if (!g->all.p[*at].placed)
            sw_json_push(s->arena, list, g->all.p[*at].json);
        g->all.p[*at].placed = true;
    }
}

static bool all_placed(const struct group *g, size_t at)
{
    while (at < g->all.n && g->all.p[at].placed)
        at++;
    return at == g->all.n;
}

static void place(struct gc_slices *s, struct group *g)
{
    size_t n = s->all.n;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        struct gc_slice *x = &s->all.p[i];

        if (x->want || !of_group(s->arena, x->old, g))
            continue;
        x->want = shell_of(s, x->old);
        fill(s, x->want, g->ports, kept(s, x, g));
    }
    for (size_t i = 0; i < n; i++) {
        struct gc_slice *x = &s->all.p[i];

        if (x->want && x->old && of_group(s->arena, x->old, g))
            top_up(s, sw_json_find(x->want, "endpoints"), g, &at);
    }
    while (!all_placed(g, at)) {
        struct gc_slice x = {.want = new_slice(s, g)};
        struct sw_json *list = sw_json_new_array(s->arena);

        top_up(s, list, g, &at);
        fill(s, x.want, g->ports, list);
        sw_vec_push(&s->all, x);
    }
}

/* Empty slices go, unless nothing else would be left of the Service. */
static void drop_empty(struct gc_slices *s)
{
    size_t full = 0;
    bool first = true;

    for (size_t i = 0; i < s->all.n; i++)
        full += s->all.p[i].want && sw_json_len(sw_json_find(s->all.p[i].want, "endpoints"));
    for (size_t i = 0; i < s->all.n; i++) {
        struct gc_slice *x = &s->all.p[i];

        if (x->want && sw_json_len(sw_json_find(x->want, "endpoints")))
            continue;
        if (x->old && !full && first) {
            x->want = shell_of(s, x->old);
            fill(s, x->want, sw_json_new_array(s->arena), sw_json_new_array(s->arena));
            first = false;
        } else {
            x->want = NULL;
        }
    }
}

static bool same(const struct sw_json *old, const struct sw_json *want)
{
    static const char *const parts[][2] = {{"ports", NULL},
                                           {"endpoints", NULL},
                                           {"metadata", "labels"},
                                           {"metadata", "ownerReferences"}};

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        const struct sw_json *x = sw_json_walk(old, parts[i][0], parts[i][1], NULL);
        const struct sw_json *y = sw_json_walk(want, parts[i][0], parts[i][1], NULL);

        if (sw_json_len(x) + sw_json_len(y) && !sw_json_equal(x, y, SW_JSON_EQ_VALUE))
            return false;
    }
    return true;
}

void gc_slices_plan(struct gc_slices *s, const struct gc_pods *pods)
{
    const struct sw_json *spec = sw_json_find(s->service, "spec");
    const struct sw_json *selector = sw_json_find(spec, "selector");
    struct plan p = {.s = s, .spec = spec};

    if (sw_json_len(selector) == 0 || sw_field_is(spec, "type", "ExternalName"))
        return;
    gc_pods_select(pods, meta_text(s->service, "namespace"), selector, on_pod, &p);
    if (p.groups.n > 1)
        SW_SORT_POINTERS_BY(p.groups.p, p.groups.n, id);
    for (size_t i = 0; i < p.groups.n; i++) {
        struct group *g = p.groups.p[i];

        qsort(g->all.p, g->all.n, sizeof(*g->all.p), by_id);
        for (size_t k = 1; k < g->all.n; k++) /* an address that a pod has twice */
            g->all.p[k].placed = sw_slice_eq(g->all.p[k].id, g->all.p[k - 1].id);
        place(s, g);
        sw_vec_done(&g->all);
    }
    sw_vec_done(&p.groups);
    drop_empty(s);
    for (size_t i = 0; i < s->all.n; i++) {
        struct gc_slice *x = &s->all.p[i];

        if (x->old && x->want && same(x->old, x->want))
            x->want = (struct sw_json *)(uintptr_t)x->old;
    }
}
