/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/reg/reg.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/reg/reg_int.h"
#include "kube/client/kinds.h"

/* The API works: a renewal that failed does not wait for its turn. */
static void renew_now(void *arg)
{
    struct sw_reg *r = arg;

    if (r->hold)
        sw_hold_again(r->hold);
}

/*
 * The watch of our Connector is open. When calls failed before, the API was unreachable or has been
 * restarted: the Lease is renewed at once, so that the control plane knows that the device lives.
 */
static void self_opened(void *arg)
{
    struct sw_reg *r = arg;
    uint64_t failures = sw_informer_stats(r->self).failures;

    if (r->hold && failures != r->self_failures)
        sw_hold_renew_now(r->hold);
    else
        renew_now(r);
    r->self_failures = failures;
}

void reg_answered(struct sw_reg *r, const struct sw_kube_reply *p)
{
    if (p->rc == SW_OK)
        renew_now(r);
    r->o.answered(r->o.arg, p->rc == SW_OK, p->code, p->message);
}

void reg_give_up(struct sw_reg *r, const char *fmt, ...)
{
    struct sw_err err = {.rc = SW_EDENIED};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(err.msg, sizeof(err.msg), fmt, ap);
    va_end(ap);
    r->step = REG_STOPPED;
    r->o.fatal(r->o.arg, &err);
}

struct sw_kube_req reg_req(const struct sw_reg *r, enum sw_kube_verb verb)
{
    bool write = verb == SW_KUBE_CREATE || verb == SW_KUBE_PATCH;

    return (struct sw_kube_req){.verb = verb,
                                .gvr = &sw_connector_gvr,
                                .ns = r->o.ns,
                                .field_manager = write ? REG_MANAGER : NULL,
                                .timeout_ns = REG_CALL_NS,
                                .once = true};
}

/* ---- the status ---- */

static void patch_status(struct sw_reg *r);

static void on_patch_retry(struct sw_timer *t)
{
    patch_status(SW_CONTAINER_OF(t, struct sw_reg, patch_retry));
}

static void on_patched(void *arg, struct sw_kube_reply *p)
{
    struct sw_reg *r = arg;

    r->patch = NULL;
    reg_answered(r, p);
    if (p->rc == SW_OK) {
        /* The informer brings the new state, and what still differs then is patched again. It may
         * have done so before this answer came. */
        sw_backoff_reset(&r->patch_backoff);
        r->paths_reported = r->paths_sent;
        if (r->patch_again)
            patch_status(r);
        return;
    }
    sw_log_warn("connector", "the status of Connector '%s' could not be written: %.*s", r->found,
                SW_SLICE_ARG_MAX(p->message, 300));
    sw_timer_start(r->loop, &r->patch_retry,
                   sw_backoff_next(&r->patch_backoff, REG_BACKOFF_MIN, REG_BACKOFF_MAX),
                   on_patch_retry);
}

static bool has_other_key(const struct sw_reg *r)
{
    struct sw_slice id = sw_json_str(
        sw_json_walk(r->seen->json, "status", "connectionDetails", "publicKey", "id", NULL));
    char ours[SW_NODEID_HEX];

    return id.n && !sw_slice_eq_str(id, sw_nodeid_hex(sw_rawkey_id(r->o.key), ours));
}

/*
 * The holder of the Lease may write. Until there is a Lease, the first writer: two devices of one
 * name would overwrite each other as fast as the API allows, and keep the control plane from its
 * own writes.
 */
bool reg_may_write(const struct sw_reg *r)
{
    if (r->step != REG_FOLLOW || !r->seen)
        return false;
    return r->hold ? sw_hold_live(r->hold) : r->o.take_over || !has_other_key(r);
}

static void patch_status(struct sw_reg *r)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body;
    struct sw_json *status;
    struct sw_kube_req req = reg_req(r, SW_KUBE_PATCH);

    r->patch_again = r->patch != NULL;
    if (r->patch || !r->have_details || !reg_may_write(r))
        return;
    r->details.write_paths = r->details.paths_seq != r->paths_reported;
    r->paths_sent = r->details.paths_seq;
    status = sw_details_patch(&a, &r->details, r->seen->json, sw_wall_ns());
    if (!status)
        return;
    body = sw_json_new_object(&a);
    sw_json_put(&a, body, "status", status);
    req.body = body;
    req.name = r->seen->name;
    req.sub = "status";
    req.patch = SW_KUBE_PATCH_MERGE;
    sw_timer_stop(r->loop, &r->patch_retry);
    r->patch = sw_kube_do(r->client, &req, on_patched, r);
}

/* ---- the Lease ---- */

static void drop_lease(struct sw_reg *r)
{
    sw_hold_free(SW_TAKE(r->hold));
    sw_text_set(&r->lease, sw_slice(NULL, 0));
}

static void on_renewed(void *arg, bool ok, int code, struct sw_slice message)
{
    struct sw_reg *r = arg;

    r->o.answered(r->o.arg, ok, code, message);
    if (!ok)
        return;
    reg_prove(r);
    patch_status(r);
}

static void on_restart(struct sw_defer *d);

static void on_lease_gone(void *arg)
{
    struct sw_reg *r = arg;

    sw_log_warn("connector", "Lease '%s' was deleted: looking up the Connector again", r->lease);
    sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void on_foreign(void *arg)
{
    struct sw_reg *r = arg;

    r->o.foreign(r->o.arg);
}

/* Identities begin with the short form of the key. */
static bool has_our_key(const struct sw_reg *r, struct sw_slice holder)
{
    char id[SW_NODEID_SHORT];

    return sw_slice_has_prefix(holder, sw_slice_str(sw_nodeid_short(sw_rawkey_id(r->o.key), id)));
}

static void on_taken(void *arg, struct sw_slice holder)
{
    struct sw_reg *r = arg;

    reg_give_up(r,
                has_our_key(r, holder)
                    ? "the key of this device is in use elsewhere: '%.*s' renews lease '%s'"
                    : "another device has this name, '%.*s', and renews lease '%s': choose "
                      "another --name",
                SW_SLICE_ARG_MAX(holder, 60), r->lease);
}

static void follow_lease(struct sw_reg *r)
{
    struct sw_slice name =
        sw_json_str(sw_json_walk(r->seen->json, "status", "leaseRef", "name", NULL));
    struct sw_hold_opts o = {.ns = r->o.ns,
                             .name = name,
                             .identity = r->o.identity,
                             .renewed = on_renewed,
                             .gone = on_lease_gone,
                             .foreign = on_foreign,
                             .taken = on_taken,
                             .arg = r};

    if (r->lease && sw_slice_eq_str(name, r->lease))
        return;
    drop_lease(r);
    if (!name.n)
        return;
    r->lease = sw_slice_dup(name);
    r->hold = sw_hold_new(r->client, &o);
}

/* ---- following ---- */

static void self_set(void *arg, struct sw_kube_obj *o)
{
    struct sw_reg *r = arg;

    sw_kube_obj_unref(r->seen);
    r->seen = sw_kube_obj_ref(o);
    follow_lease(r);
    renew_now(r);
    reg_prove(r);
    patch_status(r);
    r->o.connector(r->o.arg, o);
}

static void self_del(void *arg, struct sw_kube_obj *last)
{
    struct sw_reg *r = arg;

    if (r->step == REG_STOPPED) /* --rm does that */
        return;
    sw_log_warn("connector", "Connector '%.*s' was deleted", SW_SLICE_ARG(last->name));
    sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void self_synced(void *arg)
{
    struct sw_reg *r = arg;

    if (sw_informer_count(r->self) == 0)
        sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void advert_changed(void *arg, struct sw_kube_obj *o)
{
    struct sw_reg *r = arg;

    if (sw_informer_synced(r->adverts))
        r->o.advertised(r->o.arg);
}

static void advert_synced(void *arg)
{
    struct sw_reg *r = arg;

    r->o.advertised(r->o.arg);
}

static const struct sw_informer_cbs self_cbs = {
    .set = self_set, .del = self_del, .synced = self_synced, .opened = self_opened};
static const struct sw_informer_cbs advert_cbs = {
    .set = advert_changed, .del = advert_changed, .synced = advert_synced, .opened = renew_now};

void reg_follow(struct sw_reg *r)
{
    SW_AUTO_FREE char *by_name = sw_asprintf("metadata.name=%s", r->found);
    SW_AUTO_FREE char *by_ref =
        sw_asprintf("%s=%s", r->named ? "metadata.name" : "spec.connectorRef.name", r->found);
    struct sw_informer_opts self = {
        .gvr = &sw_connector_gvr, .ns = r->o.ns, .field_selector = by_name};
    struct sw_informer_opts adverts = {
        .gvr = &sw_advertisement_gvr, .ns = r->o.ns, .field_selector = by_ref};

    if (r->self)
        return;
    sw_log_info("connector", "registered as Connector '%s' in namespace '%.*s'", r->found,
                SW_SLICE_ARG(r->o.ns));
    r->self_failures = 0;
    r->self = sw_informer_new(r->client, &self, &self_cbs, r);
    r->adverts = sw_informer_new(r->client, &adverts, &advert_cbs, r);
    sw_informer_start(r->self);
    sw_informer_start(r->adverts);
}

static void end_patch(struct sw_reg *r)
{
    sw_kube_call_cancel(SW_TAKE(r->patch));
    sw_timer_stop(r->loop, &r->patch_retry);
}

static void unfollow(struct sw_reg *r)
{
    sw_defer_cancel(&r->restart);
    end_patch(r);
    reg_prove_end(r);
    r->proved_at = 0;
    sw_informer_free(r->self);
    sw_informer_free(r->adverts);
    r->self = NULL;
    r->adverts = NULL;
    r->seen = sw_kube_obj_unref(r->seen);
    drop_lease(r);
}

/* From the loop: the Connector or its Lease is gone, everything is looked for anew. */
static void on_restart(struct sw_defer *d)
{
    struct sw_reg *r = SW_CONTAINER_OF(d, struct sw_reg, restart);

    if (r->step == REG_STOPPED)
        return;
    unfollow(r);
    sw_text_set(&r->found, sw_slice(NULL, 0));
    r->o.connector(r->o.arg, NULL);
    r->step = REG_BY_ID;
    reg_retry_later(r);
}

/* ---- from outside ---- */

struct sw_reg *sw_reg_new(struct sw_kube_client *c, const struct sw_reg_opts *o)
{
    struct sw_reg *r = SW_NEW(struct sw_reg);

    r->client = c;
    r->loop = sw_kube_client_loop(c);
    r->o = *o;
    r->o.ns = sw_arena_slice(&r->texts, o->ns);
    r->o.name = sw_arena_slice(&r->texts, o->name);
    r->o.class_name = sw_arena_slice(&r->texts, o->class_name);
    r->o.identity = sw_arena_slice(&r->texts, o->identity);
    r->o.host = sw_arena_slice(&r->texts, o->host);
    r->o.os = sw_arena_slice(&r->texts, o->os);
    return r;
}

void sw_reg_free(struct sw_reg *r)
{
    if (!r)
        return;
    unfollow(r);
    sw_kube_call_cancel(r->call);
    sw_timer_stop(r->loop, &r->retry);
    sw_free(r->class_name);
    sw_free(r->found);
    sw_free(r->relay);
    sw_arena_clear(&r->texts);
    sw_free(r);
}

void sw_reg_set_details(struct sw_reg *r, const struct sw_details *d)
{
    if (!r)
        return;
    sw_text_set(&r->relay, d->relay);
    r->details = *d;
    r->details.relay = sw_slice_str(r->relay);
    r->have_details = true;
    if (r->step == REG_IDLE) {
        r->step = REG_BY_ID;
        reg_run(r);
    } else {
        patch_status(r);
    }
}

/* Calls under way may wait for a connection that is dead. */
static void ask_again(struct sw_reg *r)
{
    if (r->call) {
        sw_kube_call_cancel(SW_TAKE(r->call));
        if (r->step == REG_CREATE) /* it is not known whether we did */
            r->step = REG_BY_ID;
        reg_retry_now(r);
    }
    if (r->patch) {
        sw_kube_call_cancel(SW_TAKE(r->patch));
        sw_timer_start(r->loop, &r->patch_retry, 0, on_patch_retry);
    }
    if (r->prove || sw_timer_running(&r->prove_retry)) {
        reg_prove_end(r);
        reg_prove(r);
    }
}

void sw_reg_network_changed(struct sw_reg *r, bool slept)
{
    if (!r || r->step == REG_STOPPED)
        return;
    ask_again(r);
    sw_backoff_reset(&r->backoff);
    sw_backoff_reset(&r->patch_backoff);
    if (sw_timer_running(&r->retry))
        reg_retry_now(r);
    if (sw_timer_running(&r->patch_retry))
        sw_timer_start(r->loop, &r->patch_retry, 0, on_patch_retry);
    if (r->hold)
        sw_hold_network_changed(r->hold, slept);
    if (r->self && r->step == REG_FOLLOW) {
        /* Watches on connections of an address that is gone would hang until keep-alive ends. */
        sw_informer_stop(r->self);
        sw_informer_stop(r->adverts);
        sw_informer_start(r->self);
        sw_informer_start(r->adverts);
    }
}

static void on_nothing(struct sw_timer *t)
{
    struct sw_reg *r = SW_CONTAINER_OF(t, struct sw_reg, retry);

    r->stopped(r->stopped_arg);
}

void sw_reg_stop(struct sw_reg *r, void (*done)(void *arg), void *arg)
{
    r->step = REG_STOPPED;
    sw_kube_call_cancel(SW_TAKE(r->call));
    /* A write that lands late would take the Connector back from the next device. */
    end_patch(r);
    reg_prove_end(r);
    r->stopped = done;
    r->stopped_arg = arg;
    if (r->hold)
        sw_hold_release(r->hold, done, arg);
    else
        sw_timer_start(r->loop, &r->retry, 0, on_nothing);
}

const char *sw_reg_name(const struct sw_reg *r)
{
    return r ? r->found : NULL;
}

const struct sw_kube_obj *sw_reg_connector(const struct sw_reg *r)
{
    return r ? r->seen : NULL;
}

size_t sw_reg_advertisements(const struct sw_reg *r, struct sw_kube_obj ***ret)
{
    *ret = NULL;
    return r && r->adverts ? sw_informer_list(r->adverts, ret) : 0;
}

bool sw_reg_live(const struct sw_reg *r)
{
    return r && r->hold && sw_hold_live(r->hold);
}

bool sw_reg_created(const struct sw_reg *r)
{
    return r && r->created;
}

const struct sw_json *sw_reg_taken_from(const struct sw_reg *r)
{
    return r && r->step != REG_MAY ? r->taken_from : NULL;
}

const char *sw_reg_step(const struct sw_reg *r)
{
    static const char *const names[] = {
        [REG_IDLE] = "starting",
        [REG_BY_ID] = "looking for a Connector with our key",
        [REG_BY_NAME] = "looking for our Connector by name",
        [REG_MAY] = "asking whether our Connector may be taken over",
        [REG_CLASS] = "choosing a ConnectorClass",
        [REG_CREATE] = "creating our Connector",
        [REG_FOLLOW] = "registered",
        [REG_STOPPED] = "stopped",
    };

    if (!r)
        return "standalone";
    return names[r->step];
}
