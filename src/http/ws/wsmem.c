/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of WebSocket connections: what a thread lends them, and the little they own. */
#include <pthread.h>
#include <string.h>

#include "http/ws/wsconn_int.h"

enum { SPARE_CHUNKS = 32 };

static _Thread_local struct ws_scratch *mine;
static pthread_key_t at_exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void scratch_free(void *arg)
{
    struct ws_scratch *s = arg;

    while (s->spare) {
        struct sw_wschunk *k = s->spare;

        s->spare = k->next;
        sw_free(k);
    }
    sw_free(s);
    mine = NULL;
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit_key, scratch_free) != 0)
        __builtin_trap();
}

struct ws_scratch *ws_scratch(void)
{
    if (SW_UNLIKELY(!mine)) {
        (void)pthread_once(&once, make_key);
        mine = sw_malloc(sizeof(*mine)); /* not zeroed: pages that are not used stay away */
        mine->spare = NULL;
        mine->n_spare = 0;
        mine->queued = 0;
        (void)pthread_setspecific(at_exit_key, mine);
    }
    return mine;
}

struct sw_wschunk *ws_chunk_get(void)
{
    struct ws_scratch *s = ws_scratch();
    struct sw_wschunk *k = s->spare;

    if (k) {
        s->spare = k->next;
        s->n_spare--;
    } else {
        k = sw_malloc(sizeof(*k));
    }
    k->next = NULL;
    k->off = k->n = k->frames = 0;
    return k;
}

void ws_chunk_put(struct sw_wschunk *k)
{
    struct ws_scratch *s = ws_scratch();

    if (s->n_spare == SPARE_CHUNKS) {
        sw_free(k);
        return;
    }
    k->next = s->spare;
    s->spare = k;
    s->n_spare++;
}

/* ---- bytes that wait ---- */

void ws_bytes_free(struct sw_wsbytes *b)
{
    sw_free(b->p);
    *b = (struct sw_wsbytes){0};
}

void ws_bytes_append(struct sw_wsbytes *b, const void *p, size_t n)
{
    size_t have = b->n - b->off;

    if (n == 0)
        return;
    if (b->n + n > b->cap) {
        size_t cap = have + n > b->cap ? sw_max(have + n, (size_t)b->cap * 2) : b->cap;
        uint8_t *fresh = sw_malloc(cap);

        if (have)
            memcpy(fresh, b->p + b->off, have);
        sw_free(b->p);
        *b = (struct sw_wsbytes){.p = fresh, .n = (uint32_t)have, .cap = (uint32_t)cap};
    }
    memcpy(b->p + b->n, p, n);
    b->n += (uint32_t)n;
}

void ws_bytes_consume(struct sw_wsbytes *b, size_t n)
{
    b->off += (uint32_t)n;
    if (b->off == b->n)
        ws_bytes_free(b);
}

size_t ws_bytes_take(struct sw_wsbytes *b, uint8_t *to)
{
    size_t n = b->n - b->off;

    if (n)
        memcpy(to, b->p + b->off, n);
    ws_bytes_free(b);
    return n;
}
