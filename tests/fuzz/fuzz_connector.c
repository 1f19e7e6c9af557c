/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors, HTTPProxies and what belongs to them, of any shape, through both builds. The API
 * validates objects, but a controller may meet older or looser definitions: nothing in them may
 * crash a build, equal views give equal outputs, and what was done is not wanted again.
 */
#include <stdlib.h>

/* The rig of the unit tests, which has everything but a library to live in. */
#include "../unit/control/connector_rig.c"
#include "../unit/control/world.c"

enum { ROUNDS = 24, OBJECTS_MAX = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct world w;
    struct sw_err err;
    struct builds b;
    struct builds again;
    unsigned round = 0;

    world_begin(&w);
    if (n > 1 << 16 || world_load(&w, sw_slice(data, n), &err) != SW_OK || !world_distinct(&w)) {
        world_end(&w);
        return 0;
    }
    b = build(&w);
    again = build(&w);
    if (!output_same(b.out[0], again.out[0]) || !output_same(b.out[1], again.out[1]))
        abort();
    builds_free(&again);
    while (w.n < OBJECTS_MAX && obey(&w, &b)) {
        if (++round == ROUNDS)
            abort();
        builds_free(&b);
        b = build(&w);
    }
    builds_free(&b);
    world_end(&w);
    return 0;
}
