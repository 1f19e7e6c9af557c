/* SPDX-License-Identifier: Apache-2.0 */
/* Watching, building, publishing. Writing is in runtime_write.c. */
#include "control/runtime.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "control/runtime_int.h"

static void schedule(struct sw_control *c);

/* --- building --- */

static void job_free(struct build_job *j)
{
    view_unref(j->view);
    output_free(j->out);
    sw_free(j);
}

static void job_run(struct build_job *j)
{
    uint64_t began = sw_now_ns();

    j->out = output_new();
    j->build(j->view, j->out, j->build_arg);
    j->took_ns = sw_now_ns() - began;
}

static void publish(struct sw_control *c, const struct sw_output *now)
{
    size_t n = 0;
    struct sw_change *list = output_diff(c->last, now, &n);

    if (n) {
        c->version++;
        c->stats.published += n;
        if (c->o.publish)
            c->o.publish(c->o.arg, list, n, c->version);
    }
    sw_free(list);
}

/*
 * What expires while the API does not answer may have been renewed, or could not be: the output
 * stays until it answers again.
 */
static void on_expiry(struct sw_timer *t)
{
    struct sw_control *c = SW_CONTAINER_OF(t, struct sw_control, expiry);

    if (sw_kube_away(c->client)) {
        c->away = true;
        sw_timer_start(c->loop, &c->expiry, SW_NS_PER_S, on_expiry);
        return;
    }
    if (c->away)
        c->since_ns = sw_wall_ns();
    c->away = false;
    c->dirty = true;
    schedule(c);
}

/*
 * The wall clock may be set while we wait: looked at again every minute at the latest. A clock
 * that stands where it must not wake us is no reason to spin.
 */
static void await_expiry(struct sw_control *c)
{
    uint64_t now = sw_wall_ns();
    uint64_t wait;

    sw_timer_stop(c->loop, &c->expiry);
    if (!c->o.timed || !c->started || !c->last->expires_ns)
        return;
    wait = c->last->expires_ns > now ? c->last->expires_ns - now : 0;
    wait = sw_max(wait, SW_NS_PER_MS);
    sw_timer_start(c->loop, &c->expiry, sw_min(wait, 60 * SW_NS_PER_S), on_expiry);
}

static void job_done(struct sw_control *c, struct build_job *j)
{
    struct sw_output *old = c->last;

    c->job = NULL;
    c->stats.builds++;
    c->stats.build_ns = j->took_ns;
    c->built_ns = sw_loop_now(c->loop);
    if (c->started)
        publish(c, j->out);
    c->last = SW_TAKE(j->out);
    output_free(old);
    job_free(j);
    await_expiry(c);
    control_writes_renew(c);
    control_events_renew(c);
    schedule(c);
}

static void on_job_done(struct sw_msg *m)
{
    struct build_job *j = SW_CONTAINER_OF(m, struct build_job, msg);

    if (j->control)
        job_done(j->control, j);
    else
        job_free(j);
}

static void *builder_main(void *arg)
{
    struct sw_control *c = arg;

    (void)pthread_mutex_lock(&c->lock);
    while (!c->thread_stop) {
        struct build_job *j = c->inbox;

        if (!j) {
            (void)pthread_cond_wait(&c->wake, &c->lock);
            continue;
        }
        c->inbox = NULL;
        (void)pthread_mutex_unlock(&c->lock);
        job_run(j);
        sw_loop_post(j->loop, &j->msg);
        (void)pthread_mutex_lock(&c->lock);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void forget_changed(struct control_kind *k)
{
    for (size_t i = 0; i < k->n_changed; i++)
        sw_free(k->changed[i]);
    k->n_changed = 0;
}

static void drop_current(struct control_kind *k)
{
    forget_changed(k);
    view_kind_unref(k->current);
    k->current = NULL;
}

/* The view's list is out of date where this object stands. */
static void mark_changed(struct control_kind *k, const struct sw_kube_obj *o)
{
    if (!k->current)
        return;
    if (k->n_changed == CONTROL_PATCH_MAX)
        drop_current(k);
    else
        k->changed[k->n_changed++] = sw_slice_dup(o->key);
}

/* The whole list from the informer. */
static void take_list(struct control_kind *k)
{
    struct sw_kube_obj **all = NULL;
    size_t n = sw_informer_list(k->informer, &all);
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (!k->def->relevant || k->def->relevant(all[i]))
            all[kept++] = all[i];
        else
            sw_kube_obj_unref(all[i]);
    }
    k->current = view_kind_new(all, kept);
    sw_free(all);
}

/* Puts the object of this key as it is now into the ordered list, or takes it out. */
static size_t patch_list(const struct control_kind *k, struct sw_kube_obj **list, size_t n,
                         struct sw_slice key)
{
    struct sw_kube_obj *o = sw_informer_get(k->informer, key);
    size_t lo = 0;
    size_t hi = n;
    bool found;

    if (o && k->def->relevant && !k->def->relevant(o))
        o = NULL;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (sw_slice_cmp(list[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    found = lo < n && sw_slice_eq(list[lo]->key, key);
    if (!o && !found)
        return n;
    if (o && found) {
        list[lo] = o;
        return n;
    }
    if (o) {
        memmove(list + lo + 1, list + lo, (n - lo) * sizeof(*list));
        list[lo] = o;
        return n + 1;
    }
    memmove(list + lo, list + lo + 1, (n - lo - 1) * sizeof(*list));
    return n - 1;
}

/* The kind as it is now; few changes are worked into a copy of the list before. */
static void refresh_kind(struct control_kind *k)
{
    struct view_kind *old = k->current;
    struct sw_kube_obj **list;
    size_t n;

    if (old && !k->n_changed)
        return;
    if (!old) {
        take_list(k);
        return;
    }
    n = old->n;
    list = SW_NEW_ARRAY(struct sw_kube_obj *, n + k->n_changed);
    memcpy(list, old->objs, n * sizeof(*list));
    for (size_t i = 0; i < k->n_changed; i++)
        n = patch_list(k, list, n, sw_slice_str(k->changed[i]));
    for (size_t i = 0; i < n; i++)
        (void)sw_kube_obj_ref(list[i]);
    k->current = view_kind_new(list, n);
    sw_free(list);
    view_kind_unref(old);
    forget_changed(k);
}

static struct sw_view *make_view(struct sw_control *c)
{
    struct view_kind *kinds[SW_CONTROL_KINDS_MAX];
    uint64_t absent = 0;
    struct sw_view *v;

    for (size_t i = 0; i < c->o.n_kinds; i++) {
        refresh_kind(&c->kinds[i]);
        kinds[i] = c->kinds[i].current;
        absent |= (uint64_t)sw_informer_absent(c->kinds[i].informer) << i;
    }
    v = view_new(kinds, c->o.n_kinds, c->input);
    v->absent = absent;
    for (size_t i = 0; i < c->o.n_kinds; i++)
        (void)!sw_slice_to_u64(sw_informer_revision(c->kinds[i].informer), UINT64_MAX,
                               &v->revisions[i]);
    v->wall_ns = c->o.timed ? sw_wall_ns() : 0;
    v->since_ns = c->o.timed ? c->since_ns : 0;
    return v;
}

static void build_now(struct sw_control *c)
{
    struct build_job *j = SW_NEW(struct build_job);

    c->dirty = false;
    j->control = c;
    j->loop = c->loop;
    j->build = c->o.build;
    j->build_arg = c->o.build_arg;
    j->msg.cb = on_job_done;
    j->view = make_view(c);
    c->job = j;
    if (!c->thread_up) {
        job_run(j);
        job_done(c, j);
        return;
    }
    (void)pthread_mutex_lock(&c->lock);
    c->inbox = j;
    (void)pthread_cond_signal(&c->wake);
    (void)pthread_mutex_unlock(&c->lock);
}

static void on_run(struct sw_defer *d)
{
    struct sw_control *c = SW_CONTAINER_OF(d, struct sw_control, run);

    if (c->started && c->synced && c->dirty && !c->job)
        build_now(c);
}

static void on_gap(struct sw_timer *t)
{
    struct sw_control *c = SW_CONTAINER_OF(t, struct sw_control, gap);

    sw_loop_defer(c->loop, &c->run, on_run);
}

/*
 * Quiet: at the end of this turn, so that events that came together are built together. Busy: a
 * build may take half of the time, the rest is for gathering.
 */
static void schedule(struct sw_control *c)
{
    uint64_t gap = c->stats.build_ns < c->o.max_gap_ns ? c->stats.build_ns : c->o.max_gap_ns;
    uint64_t now = sw_loop_now(c->loop);

    if (!c->started || !c->synced || !c->dirty || c->job || sw_timer_running(&c->gap))
        return;
    if (c->stats.builds && now < c->built_ns + gap)
        sw_timer_start(c->loop, &c->gap, c->built_ns + gap - now, on_gap);
    else
        sw_loop_defer(c->loop, &c->run, on_run);
}

/* --- watching --- */

static void touched(struct control_kind *k, const struct sw_kube_obj *o)
{
    struct sw_control *c = k->control;

    mark_changed(k, o);
    c->dirty = true;
    schedule(c);
}

static bool relevant(const struct control_kind *k, const struct sw_kube_obj *o)
{
    return !k->def->relevant || k->def->relevant(o);
}

static void seen(struct control_kind *k, const struct sw_kube_obj *o)
{
    control_write_seen(k->control, (size_t)(k - k->control->kinds), o->key);
}

/* Also for deletions: what matters is that it is not as before. */
static void on_add(void *arg, struct sw_kube_obj *o)
{
    seen(arg, o);
    if (relevant(arg, o))
        touched(arg, o);
}

static bool same_member(const struct sw_json *x, const struct sw_json *y, const char *key)
{
    return sw_json_equal(sw_json_find(x, key), sw_json_find(y, key), SW_JSON_EQ_TEXT);
}

/* Nothing but the status is different, and that is as the newest output wants it. */
static bool only_echo(struct control_kind *k, const struct sw_kube_obj *old,
                      const struct sw_kube_obj *now)
{
    static const char *const meta[] = {
        "uid",  "generation",        "labels",          "annotations",
        "name", "deletionTimestamp", "ownerReferences", "creationTimestamp"};
    const struct sw_json *x = sw_json_find(old->json, "metadata");
    const struct sw_json *y = sw_json_find(now->json, "metadata");

    if (!k->def->own_status || !same_member(old->json, now->json, "spec"))
        return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(meta); i++) {
        if (!same_member(x, y, meta[i]))
            return false;
    }
    return control_status_wanted(k->control, (size_t)(k - k->control->kinds), now);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    struct control_kind *k = arg;

    seen(k, now);
    if (!relevant(k, old) && !relevant(k, now))
        return;
    /* A build under way has not seen it, and may want something else than the newest output. */
    if (!k->control->job && only_echo(k, old, now)) {
        /* Later builds see it; none is due because of it. */
        mark_changed(k, now);
        return;
    }
    touched(k, now);
}

static void on_synced(void *arg)
{
    struct control_kind *k = arg;
    struct sw_control *c = k->control;

    for (size_t i = 0; i < c->o.n_kinds; i++) {
        if (!sw_informer_synced(c->kinds[i].informer))
            return;
    }
    c->synced = true;
    c->since_ns = sw_wall_ns();
    c->dirty = true;
    schedule(c);
}

static void on_presence(void *arg)
{
    const struct control_kind *k = arg;

    k->control->dirty = true;
    schedule(k->control);
}

static const struct sw_informer_cbs informer_cbs = {.add = on_add,
                                                    .update = on_update,
                                                    .del = on_add,
                                                    .synced = on_synced,
                                                    .presence = on_presence};

/* --- leading --- */

static void on_led(void *arg)
{
    struct sw_control *c = arg;

    c->leading = true;
    control_events_election(c, "became leader");
    if (c->last)
        control_writes_renew(c);
    control_events_renew(c);
}

static void on_lost(void *arg)
{
    struct sw_control *c = arg;

    c->leading = false;
    control_writes_abort(c);
    control_events_clear(c);
    control_events_election(c, "stopped leading");
}

/* --- from outside --- */

static int make_parts(struct sw_control *c, struct sw_err *err)
{
    struct sw_lease_opts lo = {.ns = c->o.election.ns,
                               .name = c->o.election.name,
                               .identity = c->o.election.identity,
                               .led = on_led,
                               .lost = on_lost,
                               .arg = c};

    for (size_t i = 0; i < c->o.n_kinds; i++) {
        const struct sw_control_kind *def = &c->o.kinds[i];
        const struct sw_informer_opts io = {.gvr = def->gvr,
                                            .older = def->older,
                                            .optional = def->optional || def->needed,
                                            .needed = def->needed,
                                            .slim = !def->managed,
                                            .wanted = def->forget ? def->relevant : NULL,
                                            .label_selector = def->label_selector,
                                            .field_selector = def->field_selector};

        c->kinds[i] = (struct control_kind){.control = c, .def = def};
        c->kinds[i].informer = sw_informer_new(c->client, &io, &informer_cbs, &c->kinds[i]);
    }
    if (c->o.election.name.n) {
        c->lease = sw_lease_new(c->client, &lo, err);
        if (!c->lease)
            return SW_EINVAL;
    }
    if (c->o.threaded) {
        c->thread_up = sw_thread_start(&c->thread, builder_main, c, "sw-build") == 0;
        if (!c->thread_up)
            return sw_err_set(err, SW_ESYS, "cannot start the builder's thread");
    }
    return SW_OK;
}

/* Which replica reports. */
static const char *identity_of(const struct sw_control_opts *o)
{
    static char host[256]; /* the same for all of them */

    if (gethostname(host, sizeof(host) - 1) != 0)
        return o->name;
    return host;
}

struct sw_control_election sw_control_election(const char *ns, const char *name,
                                               const char *identity)
{
    return (struct sw_control_election){.ns = sw_slice_str(ns ? ns : ""),
                                        .name = sw_slice_str(ns ? name : ""),
                                        .identity = sw_slice_str(identity ? identity : "")};
}

struct sw_control *sw_control_new(struct sw_kube_client *client, const struct sw_control_opts *o,
                                  struct sw_err *err)
{
    struct sw_control *c;

    if (!o->build || !o->name || o->n_kinds == 0 || o->n_kinds > SW_CONTROL_KINDS_MAX) {
        (void)sw_err_set(err, SW_EINVAL, "a controller needs a name, a build and 1 to %d kinds",
                         SW_CONTROL_KINDS_MAX);
        return NULL;
    }
    c = SW_NEW(struct sw_control);
    c->client = client;
    c->loop = sw_kube_client_loop(client);
    c->o = *o;
    c->o.max_gap_ns = o->max_gap_ns ? o->max_gap_ns : SW_NS_PER_S;
    c->o.max_writes = o->max_writes ? o->max_writes : 16;
    c->input = view_input_new(sw_slice("", 0));
    c->kinds = SW_NEW_ARRAY(struct control_kind, o->n_kinds);
    sw_list_init(&c->pending);
    if (o->events)
        c->recorder = sw_recorder_new(client, o->name, identity_of(o));
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->wake, NULL);
    c->queue = sw_workqueue_new(
        c->loop, &(struct sw_workqueue_opts){.ready = control_write_ready, .arg = c});
    if (make_parts(c, err) != SW_OK) {
        sw_control_free(c);
        return NULL;
    }
    return c;
}

static void stop_thread(struct sw_control *c)
{
    if (c->thread_up) {
        (void)pthread_mutex_lock(&c->lock);
        c->thread_stop = true;
        (void)pthread_cond_signal(&c->wake);
        (void)pthread_mutex_unlock(&c->lock);
        (void)pthread_join(c->thread, NULL);
    }
    if (c->inbox) {
        job_free(c->inbox); /* never begun */
        c->job = NULL;
    }
    if (c->job)
        c->job->control = NULL; /* its message is on the way and frees it */
}

void sw_control_free(struct sw_control *c)
{
    if (!c)
        return;
    stop_thread(c);
    control_writes_free(c);
    control_events_clear(c);
    sw_recorder_free(c->recorder);
    sw_lease_free(c->lease);
    for (size_t i = 0; i < c->o.n_kinds; i++) {
        sw_informer_free(c->kinds[i].informer);
        drop_current(&c->kinds[i]);
    }
    sw_free(c->kinds);
    sw_workqueue_free(c->queue);
    sw_timer_stop(c->loop, &c->gap);
    sw_timer_stop(c->loop, &c->expiry);
    sw_defer_cancel(&c->run);
    output_free(c->last);
    view_input_unref(c->input);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->wake);
    sw_free(c);
}

void sw_control_start(struct sw_control *c)
{
    c->started = true;
    for (size_t i = 0; i < c->o.n_kinds; i++)
        sw_informer_start(c->kinds[i].informer);
    if (c->lease)
        sw_lease_start(c->lease);
    else
        c->leading = true;
    schedule(c);
}

static void on_lease_released(void *arg)
{
    struct sw_control *c = arg;

    if (c->stopped)
        c->stopped(c->stopped_arg);
}

static void on_stopped_alone(struct sw_timer *t)
{
    on_lease_released(SW_CONTAINER_OF(t, struct sw_control, gap));
}

void sw_control_stop(struct sw_control *c, void (*done)(void *arg), void *arg)
{
    c->started = false;
    c->leading = false;
    c->stopped = done;
    c->stopped_arg = arg;
    sw_timer_stop(c->loop, &c->expiry);
    for (size_t i = 0; i < c->o.n_kinds; i++)
        sw_informer_stop(c->kinds[i].informer);
    control_writes_abort(c);
    control_events_clear(c);
    if (c->lease && sw_lease_is_leader(c->lease))
        control_events_election(c, "stopped leading");
    if (c->lease)
        sw_lease_release(c->lease, on_lease_released, c);
    else
        sw_timer_start(c->loop, &c->gap, 0, on_stopped_alone);
}

void sw_control_set_input(struct sw_control *c, struct sw_slice input)
{
    if (sw_slice_eq(sw_slice(c->input->text, c->input->n), input))
        return;
    view_input_unref(c->input);
    c->input = view_input_new(input);
    c->dirty = true;
    schedule(c);
}

bool sw_control_synced(const struct sw_control *c)
{
    return c->synced;
}

bool sw_control_leading(const struct sw_control *c)
{
    return c->leading;
}

struct sw_control_stats sw_control_stats(const struct sw_control *c)
{
    struct sw_control_stats s = c->stats;

    if (c->recorder) {
        struct sw_recorder_stats r = sw_recorder_stats(c->recorder);

        s.events = r.created + r.counted;
        s.events_dropped += r.dropped;
    }
    return s;
}
