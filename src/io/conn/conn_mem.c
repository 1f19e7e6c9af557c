/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of connections: what a loop lends them, and the little they own. */
#include <string.h>

#include "base/mem.h"
#include "io/conn/conn_int.h"

enum {
    SPARE_SMALL = 16, /* chunks kept for the next connection */
    SPARE_BATCH = 64, /* the same where connections flush together */
    SPARE_LARGE = 24,
    APART = 1344, /* chunks used together begin at different places of a page */
};

static void shared_free(struct sw_loop_local *local)
{
    struct sw_conn_shared *s = SW_CONTAINER_OF(local, struct sw_conn_shared, local);

    for (int large = 0; large < 2; large++) {
        while (s->spare[large]) {
            struct sw_conn_chunk *k = s->spare[large];

            s->spare[large] = k->next;
            sw_free(k);
        }
    }
    io_batch_free(s->batch);
    sw_free(s->rx);
    sw_free(s->tx);
    sw_free(s);
}

struct sw_conn_shared *io_conn_shared(struct sw_loop *l)
{
    struct sw_loop_local *local = sw_loop_local(l);
    struct sw_conn_shared *s;

    if (SW_LIKELY(local))
        return SW_CONTAINER_OF(local, struct sw_conn_shared, local);
    s = SW_NEW(struct sw_conn_shared);
    s->local.free = shared_free;
    s->loop = l;
    s->rx = sw_malloc(IO_RX); /* not zeroed: pages that are not used stay away */
    sw_list_init(&s->dirty);
    sw_loop_set_local(l, &s->local);
    return s;
}

uint8_t *io_conn_tx(struct sw_conn_shared *s)
{
    if (SW_UNLIKELY(!s->tx))
        s->tx = sw_malloc(IO_TX);
    return s->tx;
}

/* ---- chunks ---- */

struct sw_conn_chunk *io_chunk_get(struct sw_conn_shared *s, size_t n)
{
    bool large = n > IO_CHUNK;
    size_t cap = large ? SW_CONN_ROOM_MAX : IO_CHUNK;
    struct sw_conn_chunk *k = s->spare[large];

    if (k) {
        s->spare[large] = k->next;
        s->n_spare[large]--;
    } else {
        k = sw_malloc(sizeof(*k) + cap + 1 + APART);
        k->cap = (uint32_t)cap;
    }
    k->next = NULL;
    k->off = k->n = k->marks = 0;
    return k;
}

void io_chunk_put(struct sw_conn_shared *s, struct sw_conn_chunk *k)
{
    bool large = k->cap > IO_CHUNK;
    unsigned max = large ? SPARE_LARGE : s && s->batch ? SPARE_BATCH : SPARE_SMALL;

    if (!s || s->n_spare[large] >= max) {
        sw_free(k);
        return;
    }
    k->next = s->spare[large];
    s->spare[large] = k;
    s->n_spare[large]++;
}

/* ---- bytes that wait ---- */

void sw_conn_bytes_free(struct sw_conn_bytes **b)
{
    sw_free(*b);
    *b = NULL;
}

void sw_conn_bytes_append(struct sw_conn_bytes **b, const void *p, size_t n)
{
    struct sw_conn_bytes *old = *b;
    size_t have = sw_conn_bytes_len(old);
    size_t need = SW_CONN_HEADROOM + have + n + 1;

    if (n == 0)
        return;
    if (!old || need > old->cap) {
        size_t cap = old ? sw_max(need, sw_min((size_t)old->cap * 2, old->cap + (1u << 20))) : need;
        struct sw_conn_bytes *fresh = sw_malloc(sizeof(*fresh) + cap);

        if (have)
            memcpy(fresh->b + SW_CONN_HEADROOM, old->b + old->off, have);
        fresh->cap = (uint32_t)cap;
        fresh->off = SW_CONN_HEADROOM;
        fresh->n = (uint32_t)(SW_CONN_HEADROOM + have);
        sw_free(old);
        *b = fresh;
    } else if (old->n + n + 1 > old->cap) {
        memmove(old->b + SW_CONN_HEADROOM, old->b + old->off, have);
        old->off = SW_CONN_HEADROOM;
        old->n = (uint32_t)(SW_CONN_HEADROOM + have);
    }
    memcpy((*b)->b + (*b)->n, p, n);
    (*b)->n += (uint32_t)n;
}

void sw_conn_bytes_consume(struct sw_conn_bytes **b, size_t n)
{
    if (!*b)
        return;
    (*b)->off += (uint32_t)n;
    if ((*b)->off == (*b)->n)
        sw_conn_bytes_free(b);
}
