/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mesh/publish.h"

#include "base/log.h"
#include "base/time.h"

enum { HOLD_MS = 2000 };

void sw_mesh_publish_init(struct sw_mesh_publish *t, struct sw_loop *loop, sw_mesh_publish_fn fn,
                          void *arg)
{
    *t = (struct sw_mesh_publish){.loop = loop, .fn = fn, .arg = arg};
}

void sw_mesh_publish_done(struct sw_mesh_publish *t)
{
    if (t->loop)
        sw_timer_stop(t->loop, &t->timer);
    t->published = sw_state_unref(t->published);
    t->next = sw_state_unref(t->next);
}

/* ---- policies that are named and not known ---- */

struct search {
    const struct sw_state *in;
    const struct sw_state *old; /* of look_new: where the key must not be missing too */
    struct sw_slice key;        /* what look_old looks for, and look_new has found */
    bool found;
};

static void look_old(void *arg, const struct sw_workload *w)
{
    struct search *s = arg;

    s->found = s->found || sw_slice_eq(sw_state_policies_for(s->in, w).missing, s->key);
}

static void look_new(void *arg, const struct sw_workload *w)
{
    struct search *s = arg;
    struct search old = {.in = s->old};

    if (s->found)
        return;
    old.key = sw_state_policies_for(s->in, w).missing;
    if (!old.key.n)
        return;
    sw_state_each_local(s->old, look_old, &old);
    s->found = !old.found;
    s->key = old.key;
}

/* A policy that a workload of this node lists in 'now', unknown there, and not missed before. */
static bool waits_for(const struct sw_state *now, const struct sw_state *before,
                      struct sw_slice *ret)
{
    struct search s = {.in = now, .old = before};

    if (sw_state_local_version(now) != sw_state_local_version(before))
        sw_state_each_local(now, look_new, &s);
    *ret = s.key;
    return s.found;
}

/* ---- publishing ---- */

static void publish_next(struct sw_mesh_publish *t)
{
    sw_timer_stop(t->loop, &t->timer);
    (void)sw_state_unref(t->published);
    t->published = t->next;
    t->next = NULL;
    t->fn(t->arg, sw_state_ref(t->published));
}

static void on_late(struct sw_timer *timer)
{
    struct sw_mesh_publish *t = SW_CONTAINER_OF(timer, struct sw_mesh_publish, timer);
    struct sw_slice key = {0};

    if (waits_for(t->next, t->published, &key))
        sw_log_warn("xds",
                    "a workload of this node lists policy '%.*s', which the control plane does not "
                    "send: connections to it are refused",
                    SW_SLICE_ARG_MAX(key, 128));
    publish_next(t);
}

void sw_mesh_publish(struct sw_mesh_publish *t, const struct sw_state *s, bool may_wait)
{
    struct sw_slice key = {0};

    if (s == t->published && !t->next)
        return;
    (void)sw_state_unref(t->next);
    t->next = sw_state_ref(s);
    if (!may_wait || !t->published || !waits_for(t->next, t->published, &key)) {
        publish_next(t);
        return;
    }
    if (!sw_timer_running(&t->timer))
        sw_timer_start(t->loop, &t->timer, HOLD_MS * SW_NS_PER_MS, on_late);
}
