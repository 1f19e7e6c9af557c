/* SPDX-License-Identifier: Apache-2.0 */
#include "connector_rig.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/time.h"
#include "yaml/yaml.h"

/* ---- objects ---- */

static const struct sw_slice cert_domains[] = {
    SW_SLICE_LIT("connect.test"), SW_SLICE_LIT("example.com"), SW_SLICE_LIT("example.test")};

static void configure(struct world *w, const struct sw_json *v)
{
    const struct sw_json *ids = sw_json_find(v, "gatewayIds");
    struct sw_slice *list =
        sw_arena_array(&w->arena, sw_json_len(ids) + 1, sizeof(struct sw_slice));

    for (size_t i = 0; i < sw_json_len(ids); i++)
        list[i] = sw_json_str(sw_json_at(ids, i));
    w->conf.gateway_ids = list;
    w->conf.n_gateway_ids = sw_json_len(ids);
    w->conf.issuer = js_or(v, "issuer", "");
    w->conf.cert_domains = cert_domains;
    w->conf.n_cert_domains = SW_ARRAY_LEN(cert_domains);
    w->input = js_or(v, "failedCertificates", "");
    w->conf.relay_url = js_or(v, "relay", "");
    w->conf.patch_policies = sw_json_true(sw_json_find(v, "patchPolicies"));
    w->conf.envoy_gateway = sw_json_true(sw_json_find(v, "envoyGateway"));
    w->conf.port_first = (uint16_t)js_int(v, "portFirst", UINT16_MAX, 0);
    w->conf.port_last = (uint16_t)js_int(v, "portLast", UINT16_MAX, 0);
    w->conf.dns = sw_json_true(sw_json_find(v, "dns"));
    w->conf.dns_stale_ns = 600 * SW_NS_PER_S;
}

static void add_object(struct world *w, struct sw_json *v)
{
    struct sw_json *meta = sw_json_find(v, "metadata");

    if (sw_json_str_eq(sw_json_find(v, "kind"), "TestConfig")) {
        configure(w, v);
        return;
    }
    if (w->n == OBJECTS_MAX || !sw_json_is(meta, SW_JSON_OBJECT))
        return;
    if (!sw_json_find(meta, "uid"))
        sw_json_put_str(&w->arena, meta, "uid",
                        sw_slice_str(sw_arena_printf(&w->arena, "uid-%u", ++w->made)));
    if (!sw_json_find(meta, "generation"))
        sw_json_put(&w->arena, meta, "generation", sw_json_new_i64(&w->arena, 1));
    w->objs[w->n++] = v;
}

void world_begin(struct world *w)
{
    *w = (struct world){.conf = {.gateway_class = SW_SLICE_LIT("spanwire"),
                                 .gateway_controller = SW_SLICE_LIT("spanwire.dev/gateway"),
                                 .target_domain = SW_SLICE_LIT("connect.test"),
                                 .port_offset = 8000},
                        .revision = UINT64_MAX};
    if (!cn_time(SW_SLICE_LIT("2026-11-15T12:00:00Z"), &w->now))
        abort();
}

int world_load(struct world *w, struct sw_slice yaml, struct sw_err *err)
{
    struct sw_yaml_stream docs;
    int rc = sw_yaml_parse(&w->arena, yaml, NULL, &docs, err);

    for (size_t i = 0; rc == SW_OK && i < docs.n && w->n < OBJECTS_MAX; i++)
        add_object(w, sw_json_copy(&w->arena, sw_yaml_to_json(&w->arena, docs.docs[i])));
    return rc;
}

static bool of_gvr(const struct sw_json *v, const struct sw_kube_gvr *gvr)
{
    char api[128];

    (void)snprintf(api, sizeof(api), "%s%s%s", gvr->group, gvr->group[0] ? "/" : "", gvr->version);
    return sw_json_str_eq(sw_json_find(v, "kind"), gvr->kind) &&
           sw_json_str_eq(sw_json_find(v, "apiVersion"), api);
}

static int by_key(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

static struct sw_view *view_of(struct world *w, const struct sw_control_kind *kinds, size_t n)
{
    struct view_kind *list[SW_CONTROL_KINDS_MAX];
    struct view_input *input = view_input_new(w->input);
    struct sw_view *v;

    for (size_t k = 0; k < n; k++) {
        struct sw_kube_obj *objs[OBJECTS_MAX];
        size_t count = 0;

        for (size_t i = 0; i < w->n; i++) {
            struct sw_kube_obj *o =
                of_gvr(w->objs[i], kinds[k].gvr) ? sw_kube_obj_new(w->objs[i]) : NULL;

            if (o && (!kinds[k].relevant || kinds[k].relevant(o)))
                objs[count++] = o;
            else
                sw_kube_obj_unref(o);
        }
        if (count > 1)
            qsort(objs, count, sizeof(void *), by_key);
        list[k] = view_kind_new(objs, count);
    }
    v = view_new(list, n, input);
    v->wall_ns = w->now;
    v->since_ns = w->since;
    for (size_t k = 0; k < n; k++) {
        v->revisions[k] = w->revision;
        view_kind_unref(list[k]);
    }
    view_input_unref(input);
    return v;
}

/* ---- builds ---- */

const struct both both[2] = {{sw_connector_kinds, SW_CN_KINDS, sw_connector_build},
                             {sw_httpproxy_kinds, SW_HP_KINDS, sw_httpproxy_build}};

struct builds build(struct world *w)
{
    struct builds b;

    for (size_t i = 0; i < 2; i++) {
        struct sw_view *v = view_of(w, both[i].kinds, both[i].n);

        b.out[i] = output_new();
        both[i].build(v, &w->conf, b.out[i]);
        view_unref(v);
    }
    return b;
}

void builds_free(struct builds *b)
{
    for (size_t i = 0; i < 2; i++)
        output_free(b->out[i]);
}

static struct sw_json *find_object(struct world *w, size_t at, const struct out_write *o)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct sw_json *m = sw_json_find(w->objs[i], "metadata");
        char key[600];
        struct sw_slice ns = js_or(m, "namespace", "");

        (void)snprintf(key, sizeof(key), "%.*s%s%.*s", SW_SLICE_ARG(ns), ns.n ? "/" : "",
                       SW_SLICE_ARG(js(m, "name")));
        if (of_gvr(w->objs[i], both[at].kinds[o->kind].gvr) && sw_slice_eq_str(o->key, key))
            return w->objs[i];
    }
    return NULL;
}

static struct sw_json *finalizers_of(struct sw_json *o)
{
    return sw_json_find(sw_json_find(o, "metadata"), "finalizers");
}

/* Where a finalizer is in the list; its length: nowhere. */
static size_t finalizer_at(struct sw_json *list, const struct sw_json *name)
{
    size_t i = 0;

    while (i < sw_json_len(list) && !sw_json_equal(sw_json_at(list, i), name, SW_JSON_EQ_VALUE))
        i++;
    return i;
}

static bool is_going(struct sw_json *o)
{
    return sw_json_walk(o, "metadata", "deletionTimestamp", NULL) != NULL;
}

bool is_done(struct world *w, size_t at, const struct out_write *o)
{
    struct sw_json *have = find_object(w, at, o);

    if (o->op == OUT_DELETE)
        return !have;
    if (o->op == OUT_FINALIZER) {
        struct sw_json *list = have ? finalizers_of(have) : NULL;

        return !have || (finalizer_at(list, o->json) < sw_json_len(list)) != o->drop ||
               (!o->drop && is_going(have));
    }
    if (o->op == OUT_STATUS)
        return have && json_within(o->json, sw_json_find(have, "status"));
    return have && json_within(o->json, have);
}

static void merge(struct sw_arena *a, struct sw_json *to, const struct sw_json *from)
{
    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);
        struct sw_json *have = sw_json_get(to, m->key);

        if (sw_json_is(have, SW_JSON_OBJECT) && sw_json_is(m->value, SW_JSON_OBJECT))
            merge(a, have, m->value);
        else
            sw_json_set(a, to, m->key, sw_json_copy(a, m->value));
    }
}

static void remove_object(struct world *w, const struct sw_json *o)
{
    for (size_t k = 0; k < w->n; k++) {
        if (w->objs[k] == o)
            w->objs[k] = w->objs[--w->n];
    }
}

/* Without its last finalizer what is being deleted is gone. */
static void set_finalizer(struct world *w, struct sw_json *have, const struct out_write *o)
{
    struct sw_json *list = finalizers_of(have);

    if (!o->drop) {
        if (!list) {
            list = sw_json_new_array(&w->arena);
            sw_json_put(&w->arena, sw_json_find(have, "metadata"), "finalizers", list);
        }
        sw_json_push(&w->arena, list, sw_json_copy(&w->arena, o->json));
        return;
    }
    (void)sw_json_remove_at(list, finalizer_at(list, o->json));
    if (is_going(have) && !sw_json_len(list))
        remove_object(w, have);
}

/* What an API would do. Returns how much there was to do. */
size_t obey(struct world *w, struct builds *b)
{
    size_t did = 0;

    for (size_t at = 0; at < 2; at++) {
        for (size_t i = 0; i < b->out[at]->writes.n; i++) {
            const struct out_write *o = b->out[at]->writes.p[i];
            struct sw_json *have = find_object(w, at, o);

            if (is_done(w, at, o))
                continue;
            did++;
            if (o->op == OUT_APPLY && !have) {
                add_object(w, sw_json_copy(&w->arena, o->json));
            } else if (o->op == OUT_APPLY) {
                merge(&w->arena, have, o->json);
            } else if (o->op == OUT_STATUS) {
                const struct sw_json *s = sw_gateway_stamp(&w->arena, o->json, w->now);

                assert(have);
                if (!sw_json_is(sw_json_find(have, "status"), SW_JSON_OBJECT))
                    sw_json_put(&w->arena, have, "status", sw_json_new_object(&w->arena));
                merge(&w->arena, sw_json_find(have, "status"), s);
            } else if (o->op == OUT_FINALIZER) {
                set_finalizer(w, have, o);
            } else {
                remove_object(w, have);
            }
        }
    }
    return did;
}
