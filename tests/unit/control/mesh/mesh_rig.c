/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh_rig.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <proto/workload.pb-c.h>

#include "base/mem.h"
#include "proto/pb.h"
#include "proto/text.h"

static const char *const kinds[SW_MESH_KINDS] = {
    [SW_MESH_NAMESPACE] = "Namespace",
    [SW_MESH_NODE] = "Node",
    [SW_MESH_CLASS] = "GatewayClass",
    [SW_MESH_GATEWAY] = "Gateway",
    [SW_MESH_SERVICE] = "Service",
    [SW_MESH_SERVICE_ENTRY] = "ServiceEntry",
    [SW_MESH_WORKLOAD_ENTRY] = "WorkloadEntry",
    [SW_MESH_SLICE] = "EndpointSlice",
    [SW_MESH_POD] = "Pod",
};

void mesh_rig_init(struct mesh_rig *r, const struct sw_mesh_conf *conf)
{
    *r = (struct mesh_rig){.ix = sw_mesh_index_new(
                               conf ? conf : &(struct sw_mesh_conf){.revision = SW_SLICE_LIT("")})};
}

static void got_free(struct mesh_got *g)
{
    sw_free(g->name);
    sw_free(g->value);
    sw_free(g->extra);
    sw_free(g);
}

void mesh_rig_done(struct mesh_rig *r)
{
    SW_MAP_FOREACH (it, &r->have)
        got_free(it->value);
    sw_map_done(&r->have);
    sw_mesh_networks_free(r->nets);
    sw_mesh_index_free(r->ix);
}

struct sw_json *mesh_rig_json(struct sw_arena *a, const char *text)
{
    char *copy = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;
    struct sw_err err = {0};

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    if (sw_json_parse(a, sw_slice_str(copy), NULL, &v, &err) != SW_OK) {
        (void)fprintf(stderr, "%s\n%s\n", err.msg, copy);
        abort();
    }
    return v;
}

enum sw_mesh_kind mesh_rig_kind(const struct sw_json *obj)
{
    for (int k = 0; k < SW_MESH_KINDS; k++) {
        if (sw_json_str_eq(sw_json_find(obj, "kind"), kinds[k]))
            return (enum sw_mesh_kind)k;
    }
    return SW_MESH_KINDS;
}

void mesh_rig_join(struct mesh_rig *r)
{
    r->nets = sw_mesh_networks_new(r->ix);
}

void mesh_rig_set(struct mesh_rig *r, const char *objects)
{
    mesh_rig_set_in(r, NULL, objects);
}

void mesh_rig_set_in(struct mesh_rig *r, struct sw_mesh_part *p, const char *objects)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *list = mesh_rig_json(&a, sw_arena_printf(&a, "[%s]", objects));

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);

        assert(mesh_rig_kind(v) != SW_MESH_KINDS);
        if (p)
            sw_mesh_networks_set(p, mesh_rig_kind(v), v, NULL);
        else
            sw_mesh_index_set(r->ix, mesh_rig_kind(v), v, NULL);
    }
}

void mesh_rig_del(struct mesh_rig *r, enum sw_mesh_kind kind, const char *ns, const char *name)
{
    sw_mesh_index_del(r->ix, kind, sw_slice_str(ns), sw_slice_str(name));
}

static char *join(const struct sw_mesh_change *c)
{
    SW_BUF_AUTO b = {.max = 1 << 20};

    for (size_t i = 0; i < c->n_aliases; i++)
        (void)!sw_buf_printf(&b, "%s%.*s", i ? "," : "", SW_SLICE_ARG(c->aliases[i]));
    (void)!sw_buf_printf(&b, ";%.*s;", SW_SLICE_ARG(c->node));
    for (size_t i = 0; i < c->n_services; i++)
        (void)!sw_buf_printf(&b, "%s%.*s", i ? "," : "", SW_SLICE_ARG(c->services[i]));
    (void)!sw_buf_printf(&b, "%s%s", c->global ? ";global" : "", c->far ? ";far" : "");
    for (size_t i = 0; c->far && i < c->far->n_counted; i++)
        (void)!sw_buf_printf(&b, " %.*s", SW_SLICE_ARG(c->far->counted[i]));
    return sw_buf_take_str(&b);
}

static void on_change(void *arg, const struct sw_mesh_change *c)
{
    struct mesh_rig *r = arg;
    struct mesh_got *old = sw_map_del(&r->have, c->name);
    struct mesh_got *g;

    r->changes++;
    /* Removals of what was never there, and repetitions, are no changes. */
    assert(r->nets || old || c->value.p);
    if (!c->value.p) {
        if (old)
            got_free(old);
        return;
    }
    g = SW_NEW(struct mesh_got);
    g->name = sw_slice_dup(c->name);
    g->value = sw_slice_dup(c->value);
    g->n = c->value.n;
    g->extra = join(c);
    assert(r->nets || !old || old->n != g->n || memcmp(old->value, g->value, g->n) != 0 ||
           strcmp(old->extra, g->extra) != 0);
    if (old)
        got_free(old);
    (void)sw_map_put(&r->have, sw_slice_str(g->name), g);
}

bool mesh_rig_turn(struct mesh_rig *r, size_t most)
{
    return r->nets ? sw_mesh_networks_flush(r->nets, most, on_change, r)
                   : sw_mesh_index_flush(r->ix, most, on_change, r);
}

size_t mesh_rig_flush(struct mesh_rig *r)
{
    r->changes = 0;
    while (!mesh_rig_turn(r, 3)) {
    }
    return r->changes;
}

const struct mesh_got *mesh_rig_get(const struct mesh_rig *r, const char *name)
{
    return sw_map_get(&r->have, sw_slice_str(name));
}

const char *mesh_rig_text(const struct mesh_rig *r, struct sw_arena *a, const char *name)
{
    const struct mesh_got *g = mesh_rig_get(r, name);
    SW_BUF_AUTO b = {.max = 1 << 20};
    const Sw__MeshAddress *m;
    struct sw_err err = {0};

    if (!g)
        return "";
    m = SW_PB_UNPACK(a, Sw__MeshAddress, sw__mesh_address, sw_slice(g->value, g->n), NULL, &err);
    assert(m);
    assert(sw_pb_text(&b, &m->base) == SW_OK);
    return sw_arena_dup(a, sw_buf_slice(&b));
}
