/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of recent events. */
#include "store/window.h"

#include <assert.h>

#include "base/mem.h"

enum { WINDOW_MIN = 256 };

struct sw_store_event *sw_window_at(const struct sw_window *w, size_t i)
{
    assert(i < w->n);
    return w->ring[(w->first + i) & (w->cap - 1)];
}

static void grow(struct sw_window *w)
{
    size_t cap = w->cap ? w->cap * 2 : WINDOW_MIN;
    struct sw_store_event **ring = SW_NEW_ARRAY(struct sw_store_event *, cap);

    for (size_t i = 0; i < w->n; i++)
        ring[i] = sw_window_at(w, i);
    sw_free(w->ring);
    w->ring = ring;
    w->cap = cap;
    w->first = 0;
}

size_t sw_window_cost(const struct sw_store_event *e)
{
    const struct sw_store_obj *o = e->obj ? e->obj : e->prev;

    return sizeof(*e) + sizeof(*o) + o->key.n + o->value.n;
}

void sw_window_push(struct sw_window *w, struct sw_store_event *e)
{
    if (w->n == w->cap)
        grow(w);
    w->ring[(w->first + w->n++) & (w->cap - 1)] = e;
    w->bytes += sw_window_cost(e);
}

size_t sw_window_after(const struct sw_window *w, uint64_t revision)
{
    size_t low = 0;
    size_t high = w->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (sw_window_at(w, mid)->revision > revision)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

struct sw_store_event *sw_window_pop(struct sw_window *w)
{
    struct sw_store_event *e;

    if (w->n == 0)
        return NULL;
    e = sw_window_at(w, 0);
    w->first = (w->first + 1) & (w->cap - 1);
    w->n--;
    w->bytes -= sw_window_cost(e);
    return e;
}

void sw_window_done(struct sw_window *w)
{
    struct sw_store_event *e;

    while ((e = sw_window_pop(w)) != NULL)
        (void)sw_store_event_unref(e);
    sw_free(w->ring);
    *w = (struct sw_window){0};
}
