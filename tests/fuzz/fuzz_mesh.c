/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of any content for the mesh's index: each line is a kind (a digit) and a JSON object, or
 * '-' , a kind and "namespace/name" of one that goes. Whatever comes out are Addresses with usable
 * names; the same objects once more change nothing; and an index emptied removes all it emitted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <proto/workload.pb-c.h>

#include "base/map.h"
#include "base/mem.h"
#include "control/mesh/index.h"
#include "control/mesh/status.h"
#include "control/runtime_int.h"
#include "proto/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LINES_MAX = 64, LINE_MAX_LEN = 65536 };

struct seen {
    struct sw_map names; /* name -> itself, owned */
    size_t changes;
};

static void insist(bool ok)
{
    if (!ok)
        abort();
}

static void on_change(void *arg, const struct sw_mesh_change *c)
{
    SW_ARENA_AUTO a = {0};
    struct seen *s = arg;
    char *old = sw_map_del(&s->names, c->name);
    struct sw_err err;

    s->changes++;
    insist(c->name.n && !memchr(c->name.p, 0, c->name.n));
    insist(old || c->value.p);
    sw_free(old);
    if (!c->value.p)
        return;
    insist(SW_PB_UNPACK(&a, Sw__MeshAddress, sw__mesh_address, c->value, NULL, &err) != NULL);
    for (size_t i = 0; i < c->n_services; i++)
        insist(sw_slice_find(c->services[i], '/') > 0);
    old = sw_slice_dup(c->name);
    (void)sw_map_put(&s->names, sw_slice(old, c->name.n), old);
}

static void feed(struct sw_mesh_index *ix, struct sw_slice rest, struct seen *s)
{
    for (int i = 0; rest.p && i < LINES_MAX; i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_json_opts opts = {.max_bytes = LINE_MAX_LEN, .max_depth = 64};
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        bool del = line.n && line.p[0] == '-';
        struct sw_json *v = NULL;
        struct sw_err err;
        unsigned kind;

        line = sw_slice_from(line, del);
        kind = line.n ? (unsigned)(line.p[0] - '0') : SW_MESH_KINDS;
        line = sw_slice_from(line, 1);
        if (kind >= SW_MESH_KINDS)
            continue;
        if (del) {
            struct sw_slice ns = sw_slice_cut(&line, '/');

            sw_mesh_index_del(ix, (enum sw_mesh_kind)kind, line.p ? ns : sw_slice("", 0),
                              line.p ? line : ns);
        } else if (sw_json_parse(&a, line, &opts, &v, &err) == SW_OK) {
            sw_mesh_index_set(ix, (enum sw_mesh_kind)kind, v, NULL);
        }
    }
    s->changes = 0;
    insist(sw_mesh_index_flush(ix, 0, on_change, s));
}

/* Removes what the lines named, as far as they are objects with names. */
static void empty(struct sw_mesh_index *ix, struct sw_slice rest, struct seen *s)
{
    for (int i = 0; rest.p && i < LINES_MAX; i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        unsigned kind = line.n ? (unsigned)(line.p[0] - '0') : SW_MESH_KINDS;
        const struct sw_json_opts opts = {.max_bytes = LINE_MAX_LEN, .max_depth = 64};
        struct sw_json *v = NULL;
        struct sw_slice ns;
        struct sw_err err;

        if (kind >= SW_MESH_KINDS ||
            sw_json_parse(&a, sw_slice_from(line, 1), &opts, &v, &err) != SW_OK)
            continue;
        ns = sw_json_str(sw_json_walk(v, "metadata", "namespace", NULL));
        if (kind == SW_MESH_NAMESPACE || kind == SW_MESH_NODE || kind == SW_MESH_CLASS)
            ns = sw_slice("", 0);
        sw_mesh_index_del(ix, (enum sw_mesh_kind)kind, ns.p ? ns : sw_slice("", 0),
                          sw_json_str(sw_json_walk(v, "metadata", "name", NULL)));
    }
    insist(sw_mesh_index_flush(ix, 0, on_change, s));
}

/* The same objects as a view: conditions and addresses. */
static void write_statuses(struct sw_slice rest)
{
    struct sw_kube_obj *objs[SW_MESH_ST_KINDS][LINES_MAX];
    struct view_kind *kinds[SW_MESH_ST_KINDS];
    struct sw_mesh_status_conf conf = {.allocate = true};
    struct view_input *input = view_input_new(sw_slice("", 0));
    struct sw_output *out = output_new();
    size_t n[SW_MESH_ST_KINDS] = {0};
    struct sw_view *v;
    struct sw_err err;

    insist(sw_cidr_parse(SW_SLICE_LIT("240.240.0.0/30"), &conf.prefix4, &err) == SW_OK);
    insist(sw_cidr_parse(SW_SLICE_LIT("2001:2::/126"), &conf.prefix6, &err) == SW_OK);
    for (int i = 0; rest.p && i < LINES_MAX; i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        unsigned kind = line.n ? (unsigned)(line.p[0] - '0') % SW_MESH_ST_KINDS : 0;
        const struct sw_json_opts opts = {.max_bytes = LINE_MAX_LEN, .max_depth = 64};
        struct sw_json *obj = NULL;

        if (sw_json_parse(&a, sw_slice_from(line, 1), &opts, &obj, &err) == SW_OK) {
            objs[kind][n[kind]] = sw_kube_obj_new(obj);
            n[kind] += objs[kind][n[kind]] != NULL;
        }
    }
    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++)
        kinds[k] = view_kind_new(objs[k], n[k]);
    v = view_new(kinds, SW_MESH_ST_KINDS, input);
    sw_mesh_status_build(v, &conf, out);
    output_free(out);
    view_unref(v);
    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++)
        view_kind_unref(kinds[k]);
    view_input_unref(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);
    struct seen s = {.changes = 0};
    struct sw_mesh_index *ix =
        sw_mesh_index_new(&(struct sw_mesh_conf){.visibility = SW_MESH_VISIBILITY_UNSET});

    feed(ix, in, &s);
    feed(ix, in, &s);
    insist(s.changes == 0);
    empty(ix, in, &s);
    insist(s.names.n == 0);
    sw_map_done(&s.names);
    sw_mesh_index_free(ix);
    write_statuses(in);
    return 0;
}
