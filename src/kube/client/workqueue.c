/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/workqueue.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"

/* Lives while any of its marks is set. */
struct item {
    struct sw_list link; /* in the queue while it waits */
    struct sw_workqueue *q;
    struct sw_slice key; /* behind the struct */
    struct sw_timer timer;
    unsigned failures;
    bool dirty;      /* to be looked at */
    bool processing; /* taken */
};

struct sw_workqueue {
    struct sw_loop *loop;
    struct sw_workqueue_opts o;
    struct sw_map items;
    struct sw_list queue;
    size_t n;
    struct sw_defer tell;
    double tokens; /* of the common rate; negative: reservations ahead */
    uint64_t tokens_ns;
};

static void on_notify(struct sw_defer *d)
{
    struct sw_workqueue *q = SW_CONTAINER_OF(d, struct sw_workqueue, tell);

    if (q->n && q->o.ready)
        q->o.ready(q, q->o.arg);
}

struct sw_workqueue *sw_workqueue_new(struct sw_loop *l, const struct sw_workqueue_opts *o)
{
    struct sw_workqueue *q = SW_NEW(struct sw_workqueue);

    q->loop = l;
    q->o = *o;
    q->o.backoff_first_ns = o->backoff_first_ns ? o->backoff_first_ns : 5 * SW_NS_PER_MS;
    q->o.backoff_most_ns = o->backoff_most_ns ? o->backoff_most_ns : 1000 * SW_NS_PER_S;
    q->o.rate = o->rate > 0 ? o->rate : 10;
    q->o.burst = o->burst > 0 ? o->burst : 100;
    q->tokens = q->o.burst;
    q->tokens_ns = sw_loop_now(l);
    sw_list_init(&q->queue);
    return q;
}

static void item_free(struct item *i)
{
    sw_list_unlink(&i->link);
    sw_timer_stop(i->q->loop, &i->timer);
    sw_free(i);
}

void sw_workqueue_free(struct sw_workqueue *q)
{
    if (!q)
        return;
    SW_MAP_DRAIN(&q->items, item_free);
    sw_defer_cancel(&q->tell);
    sw_free(q);
}

static struct item *find(const struct sw_workqueue *q, struct sw_slice key)
{
    return sw_map_get(&q->items, key);
}

static struct item *find_or_make(struct sw_workqueue *q, struct sw_slice key)
{
    struct item *i = find(q, key);

    if (i)
        return i;
    i = sw_calloc(1, sizeof(*i) + key.n + 1);
    i->q = q;
    if (key.n)
        memcpy(i + 1, key.p, key.n);
    i->key = sw_slice(i + 1, key.n);
    (void)sw_map_put(&q->items, i->key, i);
    return i;
}

static void drop_if_idle(struct item *i)
{
    if (i->dirty || i->processing || i->failures || sw_timer_running(&i->timer))
        return;
    (void)sw_map_del(&i->q->items, i->key);
    item_free(i);
}

static void push(struct item *i)
{
    sw_list_push_back(&i->q->queue, &i->link);
    i->q->n++;
    sw_loop_defer(i->q->loop, &i->q->tell, on_notify);
}

static void mark(struct item *i)
{
    sw_timer_stop(i->q->loop, &i->timer); /* sooner than planned */
    if (i->dirty)
        return;
    i->dirty = true;
    if (!i->processing)
        push(i);
}

void sw_workqueue_add(struct sw_workqueue *q, struct sw_slice key)
{
    mark(find_or_make(q, key));
}

static void on_delay(struct sw_timer *t)
{
    mark(SW_CONTAINER_OF(t, struct item, timer));
}

void sw_workqueue_add_after(struct sw_workqueue *q, struct sw_slice key, uint64_t delay_ns)
{
    struct item *i = find_or_make(q, key);

    if (delay_ns == 0) {
        mark(i);
        return;
    }
    if (i->dirty)
        return;
    if (sw_timer_running(&i->timer) && i->timer.deadline_ns <= sw_loop_now(q->loop) + delay_ns)
        return;
    sw_timer_start(q->loop, &i->timer, delay_ns, on_delay);
}

/* Reserves a place in the common rate; how long until it comes. */
static uint64_t reserve(struct sw_workqueue *q)
{
    uint64_t now = sw_loop_now(q->loop);

    q->tokens += (double)(now - q->tokens_ns) / (double)SW_NS_PER_S * q->o.rate;
    q->tokens_ns = now;
    if (q->tokens > q->o.burst)
        q->tokens = q->o.burst;
    q->tokens -= 1;
    if (q->tokens >= 0)
        return 0;
    return (uint64_t)(-q->tokens / q->o.rate * (double)SW_NS_PER_S);
}

void sw_workqueue_add_rate_limited(struct sw_workqueue *q, struct sw_slice key)
{
    struct item *i = find_or_make(q, key);
    uint64_t own = q->o.backoff_most_ns;
    uint64_t common = reserve(q);

    if (i->failures < 40 && q->o.backoff_first_ns << i->failures < own &&
        q->o.backoff_first_ns << i->failures >> i->failures == q->o.backoff_first_ns)
        own = q->o.backoff_first_ns << i->failures;
    i->failures++;
    sw_workqueue_add_after(q, key, own > common ? own : common);
}

void sw_workqueue_forget(struct sw_workqueue *q, struct sw_slice key)
{
    struct item *i = find(q, key);

    if (!i)
        return;
    i->failures = 0;
    drop_if_idle(i);
}

unsigned sw_workqueue_failures(const struct sw_workqueue *q, struct sw_slice key)
{
    const struct item *i = find(q, key);

    return i ? i->failures : 0;
}

bool sw_workqueue_get(struct sw_workqueue *q, struct sw_slice *ret_key)
{
    struct sw_list *m = sw_list_pop_front(&q->queue);
    struct item *i;

    if (!m)
        return false;
    i = SW_CONTAINER_OF(m, struct item, link);
    q->n--;
    i->dirty = false;
    i->processing = true;
    *ret_key = i->key;
    return true;
}

void sw_workqueue_done(struct sw_workqueue *q, struct sw_slice key)
{
    struct item *i = find(q, key);

    if (!i || !i->processing)
        return;
    i->processing = false;
    if (i->dirty)
        push(i);
    else
        drop_if_idle(i);
}

size_t sw_workqueue_len(const struct sw_workqueue *q)
{
    return q->n;
}
