/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors, HTTPProxies and what belongs to them, of any shape, through both builds. The API
 * validates objects, but a controller may meet older or looser definitions: nothing in them may
 * crash a build, equal views give equal outputs, and what was done is not wanted again.
 */
#include <stdlib.h>

/* The rig of the unit tests, which has everything but a library to live in. */
#include "../unit/control/connector_rig.c"

enum { ROUNDS = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Two objects of one name cannot be in an API. */
static bool distinct(const struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct sw_json *x = sw_json_find(w->objs[i], "metadata");
            const struct sw_json *y = sw_json_find(w->objs[k], "metadata");

            if (sw_slice_eq(js_or(x, "name", ""), js_or(y, "name", "")) &&
                sw_slice_eq(js_or(x, "namespace", ""), js_or(y, "namespace", "")) &&
                sw_slice_eq(js_or(w->objs[i], "kind", ""), js_or(w->objs[k], "kind", "")))
                return false;
            if (sw_slice_eq(js_or(x, "uid", ""), js_or(y, "uid", "")))
                return false;
        }
    }
    return true;
}

/* True when all that one wants, the other wants too. */
static bool same(const struct sw_output *x, const struct sw_output *y)
{
    if (x->writes.n != y->writes.n || x->expires_ns != y->expires_ns)
        return false;
    for (size_t i = 0; i < x->writes.n; i++) {
        if (!sw_slice_eq(x->writes.p[i]->id, y->writes.p[i]->id) ||
            !sw_json_equal(x->writes.p[i]->json, y->writes.p[i]->json, SW_JSON_EQ_TEXT))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct world w;
    struct sw_err err;
    struct builds b;
    struct builds again;
    unsigned round = 0;

    world_begin(&w);
    if (n > 1 << 16 || world_load(&w, sw_slice(data, n), &err) != SW_OK || !distinct(&w)) {
        sw_arena_clear(&w.arena);
        return 0;
    }
    b = build(&w);
    again = build(&w);
    if (!same(b.out[0], again.out[0]) || !same(b.out[1], again.out[1]))
        abort();
    builds_free(&again);
    while (w.n < OBJECTS_MAX / 2 && obey(&w, &b)) {
        if (++round == ROUNDS)
            abort();
        builds_free(&b);
        b = build(&w);
    }
    builds_free(&b);
    sw_arena_clear(&w.arena);
    return 0;
}
