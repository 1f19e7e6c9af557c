/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to origins between two requests. Few and for a short time: shorter than origins
 * commonly keep them, so that a request rarely meets one that is about to be closed. Every request
 * was judged before it gets here, so a connection is no right of its own.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/search.h"
#include "base/time.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

enum { IDLE_MAX = 32, IDLE_ORIGIN_MAX = 8, KEY_MAX = 320 };

#define IDLE_NS (4 * SW_NS_PER_S)

struct qs_idle {
    struct sw_list link; /* sw_qserve.idle, used last first */
    struct sw_qserve *v;
    struct sw_watch watch;
    struct sw_addr to;
    int fd;
    uint64_t since_ns;
    char key[]; /* of the origin */
};

/* The destination of a request: the address chosen by the owner, or the one it names. */
static const char *key_of(const struct qs_exchange *x, char out[KEY_MAX])
{
    char text[SW_ADDR_TEXT];
    int n;

    if (x->verdict.dial.ip.family)
        n = snprintf(out, KEY_MAX, "%s", sw_addr_text(&x->verdict.dial, text));
    else
        n = snprintf(out, KEY_MAX, "%.*s %u", SW_SLICE_ARG(x->head.host), x->head.port);
    return n > 0 && n < KEY_MAX ? out : NULL;
}

static void drop(struct qs_idle *i)
{
    i->v->n_idle--;
    sw_list_unlink(&i->link);
    sw_watch_stop(&i->watch);
    sw_sock_close(i->fd);
    sw_free(i);
}

/* It closes, or sends unsolicited bytes: either way it cannot be used again. */
static void on_event(struct sw_watch *w, unsigned events)
{
    if (events & (SW_READ | SW_HUP))
        drop(SW_CONTAINER_OF(w, struct qs_idle, watch));
}

static void on_sweep(struct sw_timer *t)
{
    struct sw_qserve *v = SW_CONTAINER_OF(t, struct sw_qserve, idle_sweep);
    uint64_t now = sw_loop_now(v->loop);

    SW_LIST_EACH (struct qs_idle, i, &v->idle, link) {
        if (now - i->since_ns >= IDLE_NS)
            drop(i);
    }
    if (!sw_list_empty(&v->idle))
        sw_timer_start(v->loop, &v->idle_sweep, SW_NS_PER_S, on_sweep);
}

static bool safe_twice(struct sw_slice method)
{
    static const char *const names[] = {"GET", "HEAD", "OPTIONS", NULL};

    return sw_word_in(method, names);
}

bool qs_pool_take(struct qs_exchange *x, struct sw_dialled *ret, struct sw_addr *ret_to)
{
    struct sw_qserve *v = x->v;
    char key[KEY_MAX];

    /* What must not or cannot be sent twice gets a connection that cannot be stale. */
    if (x->head.kind != SW_QKIND_HTTP || x->fresh || !safe_twice(x->msg->method) ||
        x->msg->framing != SW_H1_NO_BODY || !key_of(x, key))
        return false;
    SW_LIST_EACH (struct qs_idle, i, &v->idle, link) {
        if (strcmp(i->key, key) != 0)
            continue;
        *ret = (struct sw_dialled){.fd = i->fd};
        *ret_to = i->to;
        sw_watch_move(&i->watch, &ret->watch, NULL);
        v->n_idle--;
        sw_list_unlink(&i->link);
        sw_free(i);
        v->stats.reused++;
        return true;
    }
    return false;
}

/* The last one used of this origin, when it has enough of them. */
static struct qs_idle *surplus(struct sw_qserve *v, const char *key)
{
    struct qs_idle *last = NULL;
    struct qs_idle *of_origin = NULL;
    size_t n = 0;

    SW_LIST_EACH (struct qs_idle, i, &v->idle, link) {
        last = i;
        if (strcmp(i->key, key) == 0) {
            of_origin = i;
            n++;
        }
    }
    if (n >= IDLE_ORIGIN_MAX)
        return of_origin;
    return v->n_idle >= IDLE_MAX ? last : NULL;
}

bool qs_pool_put(struct qs_exchange *x, int fd, struct sw_watch *watch)
{
    struct sw_qserve *v = x->v;
    char key[KEY_MAX];
    struct qs_idle *i;
    size_t n;

    if (v->draining || !key_of(x, key))
        return false;
    i = surplus(v, key);
    if (i)
        drop(i);
    n = strlen(key) + 1;
    i = sw_malloc(sizeof(*i) + n);
    memset(i, 0, sizeof(*i));
    memcpy(i->key, key, n);
    i->v = v;
    i->fd = fd;
    i->to = x->to;
    i->since_ns = sw_loop_now(v->loop);
    sw_watch_move(watch, &i->watch, on_event);
    sw_list_init(&i->link);
    sw_list_push_front(&v->idle, &i->link);
    v->n_idle++;
    if (!sw_timer_running(&v->idle_sweep))
        sw_timer_start(v->loop, &v->idle_sweep, SW_NS_PER_S, on_sweep);
    return true;
}

void qs_pool_clear(struct sw_qserve *v)
{
    SW_LIST_EACH (struct qs_idle, i, &v->idle, link)
        drop(i);
    sw_timer_stop(v->loop, &v->idle_sweep);
}
