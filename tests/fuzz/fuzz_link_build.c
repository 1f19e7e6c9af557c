/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, Exports, Imports, policies and Services of any shape through the build of links: nothing
 * in them may crash it, equal views give equal outputs, and what was
 * done is not wanted again.
 */
#include <stdlib.h>

#include "control/link/link_int.h"

/* The rig of the unit tests, which has everything but a library to live in. */
#include "../unit/control/world.c"

enum { ROUNDS = 24, OBJECTS_MAX = 128 };

static struct sw_link_conf conf;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void configure(struct world *w, const struct sw_json *v)
{
    const struct sw_json *input = sw_json_find(v, "input");

    conf.direct = sw_json_true(sw_json_find(v, "direct"));
    if (input)
        w->input = sw_json_text(&w->arena, input, NULL);
}

static struct sw_output *build(struct world *w)
{
    struct sw_view *v = world_view(w, sw_link_kinds, SW_LK_COUNT(&conf));
    struct sw_output *out = output_new();
    struct sw_link_facts *facts = NULL;

    sw_link_build(v, &conf, out, &facts);
    sw_link_facts_unref(facts);
    view_unref(v);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct world w = {.revision = UINT64_MAX, .configure = configure, .now = 1};
    struct sw_output *o;
    struct sw_output *again;
    struct sw_err err;
    unsigned round = 0;

    conf = (struct sw_link_conf){.ns = SW_SLICE_LIT(SW_LINK_NAMESPACE),
                                 .domain = SW_SLICE_LIT("cluster.local")};
    if (n > 1 << 16 || world_load(&w, sw_slice(data, n), &err) != SW_OK || !world_distinct(&w)) {
        world_end(&w);
        return 0;
    }
    o = build(&w);
    again = build(&w);
    if (!output_same(o, again))
        abort();
    output_free(again);
    while (w.n < OBJECTS_MAX && world_obey(&w, sw_link_kinds, o)) {
        if (++round == ROUNDS)
            abort();
        output_free(o);
        o = build(&w);
    }
    output_free(o);
    world_end(&w);
    return 0;
}
