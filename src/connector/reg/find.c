/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding our Connector: by the key, by the name, or making one. A device whose rights cover the
 * objects of its name only (`spanwire connector role`) may not search: it goes by the name.
 */
#include "base/log.h"
#include "base/mem.h"
#include "connector/reg/reg_int.h"
#include "connector/takeover.h"
#include "kube/client/kinds.h"

static const struct sw_kube_gvr class_gvr = {SW_CONNECTOR_GROUP, "v1alpha1", "connectorclasses",
                                             "ConnectorClass", false};

#define DEFAULT_CLASS "datum-connect"
/* Not the controller's name: its applies would take away what it does not apply itself. */
#define APPLIER "spanwire-device"

static void on_retry(struct sw_timer *t)
{
    reg_run(SW_CONTAINER_OF(t, struct sw_reg, retry));
}

void reg_retry_later(struct sw_reg *r)
{
    sw_timer_start(r->loop, &r->retry,
                   sw_backoff_next(&r->backoff, REG_BACKOFF_MIN, REG_BACKOFF_MAX), on_retry);
}

static void go(struct sw_reg *r, enum reg_step step)
{
    r->step = step;
    reg_run(r);
}

void reg_retry_now(struct sw_reg *r)
{
    sw_backoff_reset(&r->backoff);
    sw_timer_start(r->loop, &r->retry, 0, on_retry);
}

static void found(struct sw_reg *r, struct sw_slice name)
{
    sw_text_set(&r->found, name.p ? name : SW_SLICE_LIT(""));
    sw_backoff_reset(&r->backoff);
    go(r, REG_FOLLOW);
}

static struct sw_slice name_of(const struct sw_json *obj)
{
    return sw_json_str(sw_json_walk(obj, "metadata", "name", NULL));
}

static void on_by_id(struct sw_reg *r, const struct sw_json *list)
{
    const struct sw_json *one = sw_details_pick_connector(list, r->o.name);
    struct sw_slice name = name_of(one);

    if (!one)
        go(r, r->o.name.n ? REG_BY_NAME : REG_CLASS);
    else if (r->o.name.n && !r->o.any_name && !sw_slice_eq(name, r->o.name))
        reg_give_up(r,
                    "the key of this device belongs to Connector '%.*s': use --name %.*s or "
                    "another --data",
                    SW_SLICE_ARG_MAX(name, 40), SW_SLICE_ARG_MAX(name, 40));
    else
        found(r, name);
}

/*
 * A Connector of our name without our key: ours if it has none; if it has one, the device may be
 * asleep, and would find its name taken on its return.
 */
static void on_by_name(struct sw_reg *r, const struct sw_json *obj)
{
    struct sw_slice id =
        sw_json_str(sw_json_walk(obj, "status", "connectionDetails", "publicKey", "id", NULL));
    struct sw_slice reason;
    struct sw_slice message;
    bool online = sw_slice_eq_str(
        sw_condition(sw_json_walk(obj, "status", "conditions", NULL), "Ready", &reason, &message),
        "True");
    char hex[SW_NODEID_HEX];

    if (!id.n || sw_slice_eq_str(id, sw_nodeid_hex(sw_rawkey_id(r->o.key), hex))) {
        found(r, name_of(obj));
    } else if (r->o.take_over && !online) {
        r->taken_from =
            sw_json_copy(&r->texts, sw_json_walk(obj, "status", "connectionDetails", NULL));
        go(r, REG_MAY);
    } else {
        reg_give_up(r, "Connector '%.*s' belongs to another device (%.*s...), which is %s",
                    SW_SLICE_ARG_MAX(r->o.name, 63), SW_SLICE_ARG_MAX(id, 10),
                    online ? "online: choose another name with --name"
                           : "offline: choose another --name, or --take-over");
    }
}

static void on_may(struct sw_reg *r, const struct sw_kube_reply *p)
{
    if (!sw_takeover_allowed(p)) {
        r->taken_from = NULL;
        reg_give_up(r,
                    "Connector '%.*s' belongs to another device, and this user has no right "
                    "to take it over (verb 'take-over' on connectors)",
                    SW_SLICE_ARG_MAX(r->o.name, 63));
        return;
    }
    sw_log_warn("connector", "Connector '%.*s' had another key: taking it over",
                SW_SLICE_ARG(r->o.name));
    found(r, r->o.name);
}

/* The class is known. */
static void create(struct sw_reg *r, struct sw_slice class_name)
{
    sw_text_set(&r->class_name, class_name);
    go(r, REG_CREATE);
}

/* What may not be read is done without, where that goes. */
static bool go_without(struct sw_reg *r, enum reg_step step)
{
    if (step == REG_BY_ID && r->o.name.n) {
        if (!r->named)
            sw_log_info("connector",
                        "not allowed to search for Connectors: using '%.*s', and no "
                        "advertisements of other names",
                        SW_SLICE_ARG(r->o.name));
        r->named = true;
        go(r, REG_BY_NAME);
        return true;
    }
    if (step == REG_BY_ID)
        sw_log_warn("connector", "not allowed to search for Connectors: --name is needed");
    if (step != REG_CLASS)
        return false;
    create(r, SW_SLICE_LIT(DEFAULT_CLASS));
    return true;
}

static void on_step(void *arg, struct sw_kube_reply *p)
{
    struct sw_reg *r = arg;
    enum reg_step step = r->step;

    r->call = NULL;
    if (p->code == 403 && go_without(r, step))
        return;
    reg_answered(r, p);
    if (step == REG_BY_NAME && p->code == 404) {
        go(r, REG_CLASS);
        return;
    }
    if (p->rc != SW_OK) {
        /* Whether the API answers is reported elsewhere; a failed create is logged only here. */
        sw_log(step == REG_CREATE ? SW_LOG_WARN : SW_LOG_DEBUG, "connector", "%s: %.*s",
               sw_reg_step(r), SW_SLICE_ARG_MAX(p->message, 300));
        /* Another process created it meanwhile, or our create may have succeeded: look again. */
        if (step == REG_CREATE)
            r->step = REG_BY_ID;
        reg_retry_later(r);
        return;
    }
    if (step == REG_BY_ID) {
        on_by_id(r, p->object);
    } else if (step == REG_BY_NAME) {
        on_by_name(r, p->object);
    } else if (step == REG_MAY) {
        on_may(r, p);
    } else if (step == REG_CREATE) {
        /* Applied to one that was not there a moment ago: whose is it? */
        if (p->code != 201) {
            go(r, REG_BY_NAME);
            return;
        }
        r->created = true;
        found(r, name_of(p->object));
    } else if (step == REG_CLASS) {
        struct sw_slice name = sw_details_pick_class(p->object);

        if (!name.n) {
            sw_log_warn("connector", "no ConnectorClass found: waiting for one");
            reg_retry_later(r);
            return;
        }
        create(r, name);
    }
}

static void ask(struct sw_reg *r, const struct sw_kube_req *req)
{
    r->call = sw_kube_do(r->client, req, on_step, r);
}

static void ask_by_id(struct sw_reg *r)
{
    char hex[SW_NODEID_HEX];
    SW_AUTO_FREE char *selector = sw_asprintf("status.connectionDetails.publicKey.id=%s",
                                              sw_nodeid_hex(sw_rawkey_id(r->o.key), hex));
    struct sw_kube_req req = reg_req(r, SW_KUBE_LIST);

    req.field_selector = selector;
    req.may_lack = true;
    ask(r, &req);
}

static void ask_class(struct sw_reg *r)
{
    struct sw_kube_req req = {.verb = SW_KUBE_LIST,
                              .gvr = &class_gvr,
                              .timeout_ns = REG_CALL_NS,
                              .once = true,
                              .may_lack = true};

    if (r->o.class_name.n)
        create(r, r->o.class_name);
    else
        ask(r, &req);
}

static void ask_create(struct sw_reg *r)
{
    SW_ARENA_AUTO a = {0};
    struct sw_kube_req req = reg_req(r, SW_KUBE_CREATE);

    /* Rights that cover one name cover creating it by an apply, which contains the name. */
    if (r->o.name.n) {
        req.verb = SW_KUBE_PATCH;
        req.patch = SW_KUBE_PATCH_APPLY;
        req.field_manager = APPLIER;
        req.name = r->o.name;
    }
    req.body = sw_details_connector(&a, r->o.ns, r->o.name, sw_slice_str(r->class_name), r->o.host,
                                    r->o.os);
    ask(r, &req);
}

static void ask_by_name(struct sw_reg *r)
{
    struct sw_kube_req req = reg_req(r, SW_KUBE_GET);

    req.name = r->o.name;
    ask(r, &req);
}

/* Takes the step we are at. */
void reg_run(struct sw_reg *r)
{
    if (r->call)
        return;
    sw_timer_stop(r->loop, &r->retry);
    switch (r->step) {
    case REG_BY_ID:
        ask_by_id(r);
        break;
    case REG_BY_NAME:
        ask_by_name(r);
        break;
    case REG_MAY:
        r->call =
            sw_takeover_ask(r->client, sw_connector_gvr.resource, r->o.ns, r->o.name, on_step, r);
        break;
    case REG_CLASS:
        ask_class(r);
        break;
    case REG_CREATE:
        ask_create(r);
        break;
    case REG_FOLLOW:
        reg_follow(r);
        break;
    case REG_IDLE:
    case REG_STOPPED:
        break;
    }
}
