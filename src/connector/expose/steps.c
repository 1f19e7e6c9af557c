/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of an exposed service: looked at, made, and taken away again. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/details.h"
#include "connector/expose/expose_int.h"
#include "connector/reg/reg.h"
#include "connector/takeover.h"
#include "kube/client/kinds.h"

#define BACKOFF_MAX (30 * SW_NS_PER_S)
#define LIVE_LOOK   (20 * SW_NS_PER_MS)
#define MANAGER     "spanwire-expose"

static struct sw_slice name_of(const struct expose *x)
{
    return sw_slice_str(x->cfg->name);
}

static void on_retry(struct sw_timer *t)
{
    expose_run_step(SW_CONTAINER_OF(t, struct expose, retry));
}

static void retry_later(struct expose *x)
{
    sw_timer_start(x->loop, &x->retry, sw_backoff_next(&x->backoff, SW_NS_PER_S, BACKOFF_MAX),
                   on_retry);
}

void expose_go(struct expose *x, enum expose_step step)
{
    x->step = step;
    sw_backoff_reset(&x->backoff);
    expose_run_step(x);
}

static void on_looked(struct expose *x, const struct sw_json *proxy)
{
    struct sw_slice connector = sw_expose_connector_of(proxy);

    expose_keep(x, &x->httpproxy, proxy);
    x->redirect_port = sw_expose_https_port(proxy);
    expose_keep_hostnames(x, proxy);
    if (sw_slice_eq_str(connector, x->connector)) {
        expose_go(x, EXPOSE_LOOK_ADVERT);
        return;
    }
    if (!connector.n) {
        expose_fail(
            x, SW_EDENIED, "tunnel_terminal_failure",
            SW_SLICE_LIT("an HTTPProxy of that name exists and is no tunnel: choose another "
                         "--name"));
        return;
    }
    sw_text_set(&x->other, connector);
    expose_go(x, EXPOSE_OTHER);
}

/* The name is another device's, for good: nothing is touched. */
static void lose_name(struct expose *x, const char *why)
{
    SW_AUTO_FREE char *text = sw_asprintf("'%s' is exposed by another device (Connector '%s'), %s",
                                          x->cfg->name, x->other, why);

    x->lost = true;
    expose_fail(x, SW_EDENIED, "tunnel_terminal_failure", sw_slice_str(text));
}

/*
 * The device the name belongs to; NULL: its Connector is gone. One that is offline may be asleep,
 * and loses the name only to a user who passes --take-over and has the right to.
 */
static void on_other(struct expose *x, const struct sw_json *connector)
{
    if (sw_condition_true(connector, "Ready"))
        lose_name(x, "which is online: choose another --name");
    else if (!x->cfg->c.take_over)
        lose_name(x, "which is offline: choose another --name, or --take-over");
    else
        expose_go(x, EXPOSE_MAY);
}

static void on_may(struct expose *x, const struct sw_kube_reply *r)
{
    if (sw_takeover_allowed(r))
        expose_go(x, EXPOSE_LOOK_ADVERT);
    else
        lose_name(x, "and this user has no right to take it over (verb 'take-over' on "
                     "httpproxies)");
}

static void on_removed(struct expose *x, bool with_connector)
{
    x->step = EXPOSE_DONE;
    x->end.removed = true;
    if (!x->failed || x->httpproxy.made)
        sw_view_removed(&x->view, with_connector ? sw_slice_str(x->connector) : sw_slice(NULL, 0));
    expose_check_end(x);
}

/* Another HTTPProxy may go through our Connector. */
static void on_users(struct expose *x, const struct sw_json *list)
{
    const struct sw_json *items = sw_json_find(list, "items");

    SW_JSON_ITEMS (one, items) {
        if (!sw_json_walk(one, "metadata", "deletionTimestamp", NULL) &&
            sw_slice_eq_str(sw_expose_connector_of(one), x->connector)) {
            on_removed(x, false);
            return;
        }
    }
    expose_go(x, EXPOSE_REMOVE_CONNECTOR);
}

/* The object that the present step writes. */
static struct expose_object *written(struct expose *x)
{
    return x->step == EXPOSE_ADVERT ? &x->advert : &x->httpproxy;
}

static void note_written(struct expose *x, const struct sw_kube_reply *r)
{
    struct expose_object *of = written(x);
    struct sw_slice uid = sw_json_str(sw_json_walk(r->object, "metadata", "uid", NULL));
    bool created = r->code == 201;

    of->made |= created || (of->unknown && !of->before);
    of->wrote |= !created && of->before;
    /* What is removed at the end is what was written, and nothing of that name made later. */
    sw_text_set(&of->uid, uid.p ? uid : SW_SLICE_LIT(""));
}

/* A write got no reply, or a server error: the API may have applied it all the same. */
static void note_unknown(struct expose *x, const struct sw_kube_reply *r)
{
    struct expose_object *of = written(x);

    if (r->rc == SW_OK || (r->code && r->code < 500))
        return;
    of->unknown = true;
    of->wrote |= of->before != NULL;
}

static void on_proxy_made(struct expose *x, const struct sw_kube_reply *r)
{
    note_written(x, r);
    if (!sw_json_i64(sw_json_walk(r->object, "metadata", "generation", NULL), &x->generation))
        x->generation = 0;
    expose_go(x, x->claiming ? EXPOSE_FOLLOW : EXPOSE_ADVERT);
}

static void on_advert_made(struct expose *x, const struct sw_kube_reply *r)
{
    note_written(x, r);
    if (!x->logged)
        sw_view_objects(&x->view, !x->httpproxy.before, x->target.url, x->hostnames);
    x->logged = true;
    expose_go(x, EXPOSE_FOLLOW);
}

/* The Connector goes too when nothing else needs it; after a failure, only when we made it. */
static enum expose_step after_objects(const struct expose *x)
{
    bool wanted = x->failed ? expose_made_connector(x) : x->connector != NULL;

    return wanted ? EXPOSE_REMOVE_USERS : EXPOSE_DONE;
}

static enum expose_step after_proxy(const struct expose *x)
{
    return x->failed ? expose_undo_advert(x) : EXPOSE_REMOVE_ADVERT;
}

static void on_answer(struct expose *x, struct sw_kube_reply *r)
{
    switch (x->step) {
    case EXPOSE_LOOK:
        on_looked(x, r->object);
        break;
    case EXPOSE_OTHER:
        on_other(x, r->object);
        break;
    case EXPOSE_MAY:
        on_may(x, r);
        break;
    case EXPOSE_LOOK_ADVERT:
        expose_keep(x, &x->advert, r->object);
        expose_go(x, expose_first_write(x));
        break;
    case EXPOSE_CLAIM:
    case EXPOSE_PROXY:
        on_proxy_made(x, r);
        break;
    case EXPOSE_ADVERT:
        on_advert_made(x, r);
        break;
    case EXPOSE_RESTORE_KEY:
        x->key_back = true;
        expose_undo(x);
        break;
    case EXPOSE_RESTORE_PROXY:
    case EXPOSE_REMOVE_PROXY:
        expose_go(x, after_proxy(x));
        break;
    case EXPOSE_RESTORE_ADVERT:
    case EXPOSE_REMOVE_ADVERT:
        expose_go(x, after_objects(x));
        break;
    case EXPOSE_REMOVE_USERS:
        on_users(x, r->object);
        break;
    case EXPOSE_REMOVE_CONNECTOR:
        on_removed(x, true);
        break;
    case EXPOSE_CONNECTOR:
    case EXPOSE_FOLLOW:
    case EXPOSE_DONE:
        break;
    }
}

static void on_missing(struct expose *x)
{
    if (x->step == EXPOSE_LOOK) {
        expose_go(x, EXPOSE_LOOK_ADVERT);
    } else if (x->step == EXPOSE_LOOK_ADVERT) {
        expose_go(x, expose_first_write(x));
    } else if (x->step == EXPOSE_RESTORE_KEY) {
        x->key_back = true;
        expose_undo(x);
    } else if (x->step == EXPOSE_OTHER) {
        on_other(x, NULL);
    } else if (x->step == EXPOSE_REMOVE_PROXY) {
        expose_go(x, after_proxy(x));
    } else if (x->step == EXPOSE_REMOVE_ADVERT) {
        expose_go(x, after_objects(x));
    } else if (x->step == EXPOSE_REMOVE_CONNECTOR) {
        on_removed(x, false);
    } else {
        retry_later(x);
    }
}

/* Rights may cover the objects of our name only: what is not ours to read is not ours. */
static bool without_rights(struct expose *x)
{
    if (x->step == EXPOSE_REMOVE_USERS) {
        /* The Connector of the service's own name was made for it. */
        if (sw_slice_eq_str(name_of(x), x->connector))
            expose_go(x, EXPOSE_REMOVE_CONNECTOR);
        else
            on_removed(x, false);
        return true;
    }
    if (x->step == EXPOSE_LOOK_ADVERT) {
        expose_go(x, expose_first_write(x));
        return true;
    }
    if (x->step == EXPOSE_OTHER)
        lose_name(x, "which this user may not see: choose another --name");
    return x->step == EXPOSE_OTHER;
}

/* Of these a conflict means that what has the name now is not what we wrote. */
static bool is_removal(enum expose_step step)
{
    return step == EXPOSE_REMOVE_PROXY || step == EXPOSE_REMOVE_ADVERT ||
           step == EXPOSE_REMOVE_CONNECTOR;
}

bool expose_is_write(enum expose_step step)
{
    return step == EXPOSE_CLAIM || step == EXPOSE_PROXY || step == EXPOSE_ADVERT;
}

/* The reply to a write that was under way when the end began. */
static void on_last_write(struct expose *x, const struct sw_kube_reply *r)
{
    if (r->rc == SW_OK)
        note_written(x, r);
    expose_undo(x);
}

static void on_reply(void *arg, struct sw_kube_reply *r)
{
    struct expose *x = arg;

    x->call = NULL;
    if (expose_is_write(x->step))
        note_unknown(x, r);
    if (x->end.stopping && expose_is_write(x->step)) {
        on_last_write(x, r);
    } else if (r->rc == SW_OK) {
        on_answer(x, r);
    } else if (r->code == 404 || (r->code == 409 && is_removal(x->step))) {
        on_missing(x);
    } else if (r->code == 403 && without_rights(x)) {
        return;
    } else if (r->code == 403 && x->step == EXPOSE_PROXY && x->other) {
        x->lost = !x->httpproxy.wrote;
        expose_fail(x, SW_EDENIED, "tunnel_terminal_failure", r->message);
    } else if ((r->code == 400 || r->code == 422) && expose_is_write(x->step)) {
        expose_fail(x, SW_EINVAL, "tunnel_terminal_failure", r->message);
    } else {
        sw_log_warn("expose", "%.*s: retrying", SW_SLICE_ARG_MAX(r->message, 300));
        retry_later(x);
    }
}

static void apply_object(struct expose *x, const struct sw_kube_gvr *gvr, const struct sw_json *obj)
{
    x->call = sw_kube_apply(
        sw_connector_client(x->device),
        &(struct sw_kube_apply){.gvr = gvr, .obj = obj, .manager = MANAGER, .force = true},
        on_reply, x);
}

static void restore(struct expose *x, const struct sw_kube_gvr *gvr, const struct expose_object *of)
{
    SW_ARENA_AUTO a = {0};

    apply_object(x, gvr, expose_before_object(&a, of));
}

/* The device that had the Connector before is known by its key when it returns. */
static void restore_key(struct expose *x)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_kube_req req = {.verb = SW_KUBE_PATCH,
                                    .gvr = &sw_connector_gvr,
                                    .ns = sw_connector_ns(x->device),
                                    .name = x->connector ? sw_slice_str(x->connector) : name_of(x),
                                    .sub = "status",
                                    .patch = SW_KUBE_PATCH_MERGE,
                                    .field_manager = MANAGER,
                                    .body = expose_former_key(x, &a)};

    x->call = sw_kube_do(sw_connector_client(x->device), &req, on_reply, x);
}

/*
 * Only the holder of the Lease changes existing objects: another process with our key may be
 * running them.
 */
static bool not_live_yet(struct expose *x)
{
    if (!x->httpproxy.before || x->httpproxy.made || sw_connector_live(x->device))
        return false;
    sw_timer_start(x->loop, &x->retry, LIVE_LOOK, on_retry);
    return true;
}

static void claim(struct expose *x)
{
    SW_ARENA_AUTO a = {0};

    if (!not_live_yet(x))
        apply_object(x, &sw_httpproxy_gvr, expose_claim_object(x, &a));
}

static void apply(struct expose *x, bool proxy)
{
    SW_ARENA_AUTO a = {0};
    struct sw_expose_spec s = {.ns = sw_connector_ns(x->device),
                               .name = name_of(x),
                               .label = sw_slice_str(x->cfg->label),
                               .connector = sw_slice_str(x->connector),
                               .hostnames = x->hostnames,
                               .target = x->target,
                               .redirect = x->cfg->redirect,
                               .redirect_port = x->redirect_port,
                               .public_port = (uint16_t)x->cfg->port,
                               .ca_pem = sw_buf_slice(&x->ca)};

    if (!not_live_yet(x))
        apply_object(x, proxy ? &sw_httpproxy_gvr : &sw_advertisement_gvr,
                     proxy ? sw_expose_proxy(&a, &s) : sw_expose_advertisement(&a, &s));
}

static void get(struct expose *x, const struct sw_kube_gvr *gvr, struct sw_slice name)
{
    x->call = sw_kube_get(sw_connector_client(x->device), gvr, sw_connector_ns(x->device), name,
                          on_reply, x);
}

/* Exactly the object that was seen; without one there is nothing to remove. */
static void del(struct expose *x, const struct sw_kube_gvr *gvr, struct sw_slice name,
                struct sw_slice uid)
{
    const struct sw_kube_req req = {.verb = SW_KUBE_DELETE,
                                    .gvr = gvr,
                                    .ns = sw_connector_ns(x->device),
                                    .name = name,
                                    .propagation = "Background",
                                    .if_uid = uid};

    if (uid.n)
        x->call = sw_kube_do(sw_connector_client(x->device), &req, on_reply, x);
    else
        on_missing(x);
}

static void del_connector(struct expose *x)
{
    const struct sw_kube_obj *o = sw_connector_object(x->device);

    del(x, &sw_connector_gvr, sw_slice_str(x->connector), o ? o->uid : sw_slice(NULL, 0));
}

static void list_users(struct expose *x)
{
    struct sw_kube_req req = {
        .verb = SW_KUBE_LIST, .gvr = &sw_httpproxy_gvr, .ns = sw_connector_ns(x->device)};

    x->call = sw_kube_do(sw_connector_client(x->device), &req, on_reply, x);
}

void expose_run_step(struct expose *x)
{
    if (x->call)
        return;
    switch (x->step) {
    case EXPOSE_LOOK:
        get(x, &sw_httpproxy_gvr, name_of(x));
        break;
    case EXPOSE_OTHER:
        get(x, &sw_connector_gvr, sw_slice_str(x->other));
        break;
    case EXPOSE_MAY:
        x->call = sw_takeover_ask(sw_connector_client(x->device), sw_httpproxy_gvr.resource,
                                  sw_connector_ns(x->device), name_of(x), on_reply, x);
        break;
    case EXPOSE_LOOK_ADVERT:
        get(x, &sw_advertisement_gvr, name_of(x));
        break;
    case EXPOSE_CLAIM:
        claim(x);
        break;
    case EXPOSE_RESTORE_KEY:
        restore_key(x);
        break;
    case EXPOSE_RESTORE_PROXY:
        restore(x, &sw_httpproxy_gvr, &x->httpproxy);
        break;
    case EXPOSE_RESTORE_ADVERT:
        restore(x, &sw_advertisement_gvr, &x->advert);
        break;
    case EXPOSE_PROXY:
        apply(x, true);
        break;
    case EXPOSE_ADVERT:
        apply(x, false);
        break;
    case EXPOSE_FOLLOW:
        expose_follow(x);
        break;
    case EXPOSE_REMOVE_PROXY:
        del(x, &sw_httpproxy_gvr, name_of(x), sw_slice_str(x->httpproxy.uid));
        break;
    case EXPOSE_REMOVE_ADVERT:
        del(x, &sw_advertisement_gvr, name_of(x), sw_slice_str(x->advert.uid));
        break;
    case EXPOSE_REMOVE_USERS:
        list_users(x);
        break;
    case EXPOSE_REMOVE_CONNECTOR:
        del_connector(x);
        break;
    case EXPOSE_DONE:
        on_removed(x, false);
        break;
    case EXPOSE_CONNECTOR:
        break;
    }
}
