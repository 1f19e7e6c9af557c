/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/reg.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

#define BACKOFF_MIN (SW_NS_PER_S)
#define BACKOFF_MAX (30 * SW_NS_PER_S)
#define CALL_NS     (15 * SW_NS_PER_S)
#define MANAGER     "spanwire-connector"

const struct sw_kube_gvr sw_connector_gvr = {.group = SW_CONNECTOR_GROUP,
                                             .version = "v1alpha1",
                                             .resource = "connectors",
                                             .kind = "Connector",
                                             .namespaced = true};
const struct sw_kube_gvr sw_advertisement_gvr = {.group = SW_CONNECTOR_GROUP,
                                                 .version = "v1alpha1",
                                                 .resource = "connectoradvertisements",
                                                 .kind = "ConnectorAdvertisement",
                                                 .namespaced = true};
static const struct sw_kube_gvr class_gvr = {.group = SW_CONNECTOR_GROUP,
                                             .version = "v1alpha1",
                                             .resource = "connectorclasses",
                                             .kind = "ConnectorClass"};

enum step {
    STEP_IDLE,  /* nothing to say yet */
    STEP_BY_ID, /* looking for a Connector with our key */
    STEP_BY_NAME,
    STEP_CLASS,
    STEP_CREATE,
    STEP_FOLLOW, /* found: informers and Lease run */
    STEP_STOPPED,
};

struct sw_reg {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_reg_opts o;
    struct sw_arena texts; /* of o */
    enum step step;
    struct sw_kube_call *call;  /* of the step */
    struct sw_kube_call *patch; /* of the status */
    struct sw_timer retry;
    struct sw_timer patch_retry;
    uint64_t backoff_ns;
    uint64_t patch_backoff_ns;
    struct sw_defer restart; /* the informers cannot be freed inside their handlers */
    char *class_name;        /* chosen */
    char *found;             /* name of our Connector; NULL: not known */
    struct sw_informer *self;
    struct sw_informer *adverts;
    struct sw_kube_obj *seen;
    struct sw_hold *hold;
    char *lease; /* name of the one held */
    struct sw_details details;
    char *relay; /* owned text of details */
    bool have_details;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void run(struct sw_reg *r);

static void answered(struct sw_reg *r, const struct sw_kube_reply *p)
{
    r->o.answered(r->o.arg, p->rc == SW_OK, p->code, p->message);
}

static void on_retry(struct sw_timer *t)
{
    run(SW_CONTAINER_OF(t, struct sw_reg, retry));
}

static void retry_later(struct sw_reg *r)
{
    r->backoff_ns = r->backoff_ns ? sw_min(r->backoff_ns * 2, BACKOFF_MAX) : BACKOFF_MIN;
    sw_timer_start(r->loop, &r->retry, r->backoff_ns + sw_rand_below(r->backoff_ns / 4), on_retry);
}

static void go(struct sw_reg *r, enum step step)
{
    r->step = step;
    run(r);
}

/* Ends the search for good. */
static void give_up(struct sw_reg *r, const struct sw_err *err)
{
    r->step = STEP_STOPPED;
    r->o.fatal(r->o.arg, err);
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
    answered(r, p);
    if (p->rc == SW_OK) {
        /* The informer brings the new state, and what still differs then is patched again. */
        r->patch_backoff_ns = 0;
        return;
    }
    sw_log_warn("connector", "the status of Connector '%s' could not be written: %.*s", r->found,
                SW_SLICE_ARG(sw_slice_head(p->message, 300)));
    r->patch_backoff_ns =
        r->patch_backoff_ns ? sw_min(r->patch_backoff_ns * 2, BACKOFF_MAX) : 2 * SW_NS_PER_S;
    sw_timer_start(r->loop, &r->patch_retry, r->patch_backoff_ns, on_patch_retry);
}

/*
 * Before the Lease is ours another process may be the device: its addresses are not replaced by
 * ours, which would take its traffic away.
 */
static bool may_patch(const struct sw_reg *r)
{
    return r->step == STEP_FOLLOW && !r->patch && r->seen && r->have_details &&
           (!r->hold || sw_hold_live(r->hold));
}

static void patch_status(struct sw_reg *r)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body;
    struct sw_json *status;
    struct sw_kube_req req = {.verb = SW_KUBE_PATCH,
                              .gvr = &sw_connector_gvr,
                              .ns = r->o.ns,
                              .sub = "status",
                              .patch = SW_KUBE_PATCH_MERGE,
                              .field_manager = MANAGER,
                              .timeout_ns = CALL_NS,
                              .once = true};

    if (!may_patch(r))
        return;
    status = sw_details_patch(&a, &r->details, r->seen->json, sw_wall_ns());
    if (!status)
        return;
    body = sw_json_new_object(&a);
    sw_json_put(&a, body, "status", status);
    req.body = body;
    req.name = r->seen->name;
    sw_timer_stop(r->loop, &r->patch_retry);
    r->patch = sw_kube_do(r->client, &req, on_patched, r);
}

/* ---- the Lease ---- */

static void drop_lease(struct sw_reg *r)
{
    sw_hold_free(r->hold);
    r->hold = NULL;
    sw_free(r->lease);
    r->lease = NULL;
}

static void on_renewed(void *arg, bool ok, int code, struct sw_slice message)
{
    struct sw_reg *r = arg;

    r->o.answered(r->o.arg, ok, code, message);
    if (ok)
        patch_status(r);
}

static void on_restart(struct sw_defer *d);

static void on_lease_gone(void *arg)
{
    struct sw_reg *r = arg;

    sw_log_warn("connector", "lease '%s' is gone: looking for our Connector again", r->lease);
    sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void on_taken(void *arg, struct sw_slice holder)
{
    struct sw_reg *r = arg;
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_EDENIED,
                     "the key of this device is in use elsewhere: '%.*s' renews lease '%s'",
                     (int)sw_min(holder.n, 90), holder.p, r->lease);
    give_up(r, &err);
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

static void on_self(struct sw_reg *r, struct sw_kube_obj *o)
{
    sw_kube_obj_unref(r->seen);
    r->seen = sw_kube_obj_ref(o);
    follow_lease(r);
    patch_status(r);
    r->o.connector(r->o.arg, o);
}

static void self_add(void *arg, struct sw_kube_obj *o)
{
    on_self(arg, o);
}

static void self_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    (void)old;
    on_self(arg, now);
}

static void self_del(void *arg, struct sw_kube_obj *last)
{
    struct sw_reg *r = arg;

    sw_log_warn("connector", "Connector '%.*s' was deleted", SW_SLICE_ARG(last->name));
    sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void self_synced(void *arg)
{
    struct sw_reg *r = arg;

    if (sw_informer_count(r->self) == 0)
        sw_loop_defer(r->loop, &r->restart, on_restart);
}

static void advert_add(void *arg, struct sw_kube_obj *o)
{
    struct sw_reg *r = arg;

    (void)o;
    if (sw_informer_synced(r->adverts))
        r->o.advertised(r->o.arg);
}

static void advert_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    (void)old;
    advert_add(arg, now);
}

static void advert_synced(void *arg)
{
    struct sw_reg *r = arg;

    r->o.advertised(r->o.arg);
}

static const struct sw_informer_cbs self_cbs = {
    .add = self_add, .update = self_update, .del = self_del, .synced = self_synced};
static const struct sw_informer_cbs advert_cbs = {
    .add = advert_add, .update = advert_update, .del = advert_add, .synced = advert_synced};

static void follow(struct sw_reg *r)
{
    SW_AUTO_FREE char *by_name = sw_asprintf("metadata.name=%s", r->found);
    SW_AUTO_FREE char *by_ref = sw_asprintf("spec.connectorRef.name=%s", r->found);
    struct sw_informer_opts self = {
        .gvr = &sw_connector_gvr, .ns = r->o.ns, .field_selector = by_name};
    struct sw_informer_opts adverts = {
        .gvr = &sw_advertisement_gvr, .ns = r->o.ns, .field_selector = by_ref};

    if (r->self)
        return;
    sw_log_info("connector", "registered as Connector '%s' in namespace '%.*s'", r->found,
                SW_SLICE_ARG(r->o.ns));
    r->self = sw_informer_new(r->client, &self, &self_cbs, r);
    r->adverts = sw_informer_new(r->client, &adverts, &advert_cbs, r);
    sw_informer_start(r->self);
    sw_informer_start(r->adverts);
}

static void unfollow(struct sw_reg *r)
{
    sw_defer_cancel(&r->restart);
    sw_kube_call_cancel(r->patch);
    r->patch = NULL;
    sw_timer_stop(r->loop, &r->patch_retry);
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

    if (r->step == STEP_STOPPED)
        return;
    unfollow(r);
    sw_free(r->found);
    r->found = NULL;
    r->o.connector(r->o.arg, NULL);
    r->step = STEP_BY_ID;
    retry_later(r);
}

/* ---- finding ---- */

static void found(struct sw_reg *r, const struct sw_json *obj)
{
    sw_free(r->found);
    r->found = sw_slice_dup(sw_json_str(sw_json_walk(obj, "metadata", "name", NULL)));
    r->backoff_ns = 0;
    go(r, STEP_FOLLOW);
}

static void on_by_id(struct sw_reg *r, const struct sw_json *list)
{
    const struct sw_json *one = sw_details_pick_connector(list, r->o.name);
    struct sw_slice name = sw_json_str(sw_json_walk(one, "metadata", "name", NULL));
    struct sw_err err = {0};

    if (!one) {
        go(r, r->o.name.n ? STEP_BY_NAME : STEP_CLASS);
    } else if (r->o.name.n && !r->o.any_name && !sw_slice_eq(name, r->o.name)) {
        (void)sw_err_set(&err, SW_EDENIED,
                         "the key of this device belongs to Connector '%.*s': use --name %.*s or "
                         "another --data",
                         (int)sw_min(name.n, 40), name.p, (int)sw_min(name.n, 40), name.p);
        give_up(r, &err);
    } else {
        found(r, one);
    }
}

/* A Connector of our name without our key: ours if it has none, or if nobody keeps it alive. */
static void on_by_name(struct sw_reg *r, const struct sw_json *obj)
{
    struct sw_slice id =
        sw_json_str(sw_json_walk(obj, "status", "connectionDetails", "publicKey", "id", NULL));
    struct sw_slice reason;
    struct sw_slice message;
    struct sw_slice ready =
        sw_condition(sw_json_walk(obj, "status", "conditions", NULL), "Ready", &reason, &message);
    struct sw_err err = {0};

    if (id.n && sw_slice_eq_str(ready, "True")) {
        (void)sw_err_set(&err, SW_EDENIED,
                         "Connector '%.*s' belongs to another device (%.*s...), which is online",
                         (int)sw_min(r->o.name.n, 63), r->o.name.p, (int)sw_min(id.n, 10), id.p);
        give_up(r, &err);
        return;
    }
    if (id.n)
        sw_log_warn("connector", "Connector '%.*s' had another key: taking it over",
                    SW_SLICE_ARG(r->o.name));
    found(r, obj);
}

static void on_step(void *arg, struct sw_kube_reply *p)
{
    struct sw_reg *r = arg;
    enum step step = r->step;

    r->call = NULL;
    answered(r, p);
    if (step == STEP_BY_NAME && p->code == 404) {
        go(r, STEP_CLASS);
        return;
    }
    if (p->rc != SW_OK) {
        sw_log_debug("connector", "%s: %.*s", sw_reg_step(r),
                     SW_SLICE_ARG(sw_slice_head(p->message, 300)));
        /* Somebody else made it meanwhile, or it is not known whether we did: look again. */
        if (step == STEP_CREATE)
            r->step = STEP_BY_ID;
        retry_later(r);
        return;
    }
    if (step == STEP_BY_ID) {
        on_by_id(r, p->object);
    } else if (step == STEP_BY_NAME) {
        on_by_name(r, p->object);
    } else if (step == STEP_CREATE) {
        found(r, p->object);
    } else if (step == STEP_CLASS) {
        struct sw_slice name = sw_details_pick_class(p->object);

        if (!name.n) {
            sw_log_warn("connector", "there is no ConnectorClass: waiting for one");
            retry_later(r);
            return;
        }
        sw_free(r->class_name);
        r->class_name = sw_slice_dup(name);
        go(r, STEP_CREATE);
    }
}

static void ask_by_id(struct sw_reg *r)
{
    char hex[SW_NODEID_HEX];
    SW_AUTO_FREE char *selector =
        sw_asprintf("status.connectionDetails.publicKey.id=%s", sw_nodeid_hex(&r->o.id, hex));
    struct sw_kube_req req = {.verb = SW_KUBE_LIST,
                              .gvr = &sw_connector_gvr,
                              .ns = r->o.ns,
                              .field_selector = selector,
                              .timeout_ns = CALL_NS,
                              .once = true};

    r->call = sw_kube_do(r->client, &req, on_step, r);
}

static void ask_class(struct sw_reg *r)
{
    struct sw_kube_req req = {
        .verb = SW_KUBE_LIST, .gvr = &class_gvr, .timeout_ns = CALL_NS, .once = true};

    if (r->o.class_name.n) {
        sw_free(r->class_name);
        r->class_name = sw_slice_dup(r->o.class_name);
        go(r, STEP_CREATE);
        return;
    }
    r->call = sw_kube_do(r->client, &req, on_step, r);
}

static void ask_create(struct sw_reg *r)
{
    SW_ARENA_AUTO a = {0};
    struct sw_kube_req req = {.verb = SW_KUBE_CREATE,
                              .gvr = &sw_connector_gvr,
                              .ns = r->o.ns,
                              .field_manager = MANAGER,
                              .timeout_ns = CALL_NS,
                              .once = true};

    req.body = sw_details_connector(&a, r->o.ns, r->o.name, sw_slice_str(r->class_name), r->o.host,
                                    r->o.os);
    r->call = sw_kube_do(r->client, &req, on_step, r);
}

static void ask_by_name(struct sw_reg *r)
{
    struct sw_kube_req req = {.verb = SW_KUBE_GET,
                              .gvr = &sw_connector_gvr,
                              .ns = r->o.ns,
                              .name = r->o.name,
                              .timeout_ns = CALL_NS,
                              .once = true};

    r->call = sw_kube_do(r->client, &req, on_step, r);
}

/* Takes the step we are at. */
static void run(struct sw_reg *r)
{
    if (r->call)
        return;
    sw_timer_stop(r->loop, &r->retry);
    switch (r->step) {
    case STEP_BY_ID:
        ask_by_id(r);
        break;
    case STEP_BY_NAME:
        ask_by_name(r);
        break;
    case STEP_CLASS:
        ask_class(r);
        break;
    case STEP_CREATE:
        ask_create(r);
        break;
    case STEP_FOLLOW:
        follow(r);
        break;
    case STEP_IDLE:
    case STEP_STOPPED:
        break;
    }
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
    char *relay;

    if (!r)
        return;
    relay = sw_slice_dup(d->relay);
    sw_free(r->relay);
    r->relay = relay;
    r->details = *d;
    r->details.relay = sw_slice_str(relay);
    r->have_details = true;
    if (r->step == STEP_IDLE)
        go(r, STEP_BY_ID);
    else
        patch_status(r);
}

void sw_reg_poke(struct sw_reg *r)
{
    if (!r)
        return;
    r->backoff_ns = 0;
    r->patch_backoff_ns = 0;
    if (sw_timer_running(&r->retry))
        sw_timer_start(r->loop, &r->retry, 0, on_retry);
    if (sw_timer_running(&r->patch_retry))
        sw_timer_start(r->loop, &r->patch_retry, 0, on_patch_retry);
    if (r->hold)
        sw_hold_poke(r->hold);
    if (r->self && r->step == STEP_FOLLOW) {
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
    r->step = STEP_STOPPED;
    sw_kube_call_cancel(r->call);
    r->call = NULL;
    r->stopped = done;
    r->stopped_arg = arg;
    if (r->hold)
        sw_hold_release(r->hold, done, arg);
    else
        sw_timer_start(r->loop, &r->retry, 0, on_nothing);
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

const char *sw_reg_step(const struct sw_reg *r)
{
    if (!r)
        return "standalone";
    switch (r->step) {
    case STEP_IDLE:
        return "starting";
    case STEP_BY_ID:
        return "looking for a Connector with our key";
    case STEP_BY_NAME:
        return "looking for our Connector by name";
    case STEP_CLASS:
        return "choosing a ConnectorClass";
    case STEP_CREATE:
        return "creating our Connector";
    case STEP_FOLLOW:
        return "registered";
    case STEP_STOPPED:
        break;
    }
    return "stopped";
}
