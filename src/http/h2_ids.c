/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream identifiers a client may not use any more (RFC 9113 5.1.1): the library forgets streams
 * when they close and ignores what comes for any lower number. What is remembered is bounded, and
 * what was forgotten is ignored: a frame that crossed our RST_STREAM must not end the connection.
 */
#include "http/h2_int.h"

static void note_gap(struct h2_ids *s, int32_t from, int32_t to)
{
    s->gaps[s->n_gaps++ % H2_GAPS] = (struct h2_gap){from, to};
}

enum h2_id_use h2_ids_head(struct h2_ids *s, int32_t id)
{
    int32_t next = s->last ? s->last + 2 : 1;

    if (id > s->last) {
        if (id > next)
            note_gap(s, next, id - 2);
        s->last = id;
        return H2_ID_FINE;
    }
    for (size_t i = 0; i < H2_GAPS; i++) {
        if (id >= s->gaps[i].from && id <= s->gaps[i].to)
            return H2_ID_SKIPPED;
    }
    for (size_t i = 0; i < H2_ENDED; i++) {
        if (s->ended[i] == id)
            return H2_ID_ENDED;
    }
    return H2_ID_FINE;
}

void h2_ids_ended(struct h2_ids *s, int32_t id)
{
    s->ended[s->n_ended++ % H2_ENDED] = id;
}
