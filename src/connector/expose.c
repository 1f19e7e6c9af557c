/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "connector/details.h"
#include "connector/dirs.h"
#include "connector/expose_objects.h"
#include "connector/expose_probe.h"
#include "connector/expose_view.h"
#include "io/resolver.h"
#include "io/signal.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "tls/aead.h"

#define BACKOFF_MAX (30 * SW_NS_PER_S)
#define REMOVE_NS   (8 * SW_NS_PER_S)
#define PATIENCE_NS SW_NS_PER_S
#define MANAGER     "spanwire-expose"

static const struct sw_kube_gvr proxy_gvr = {.group = SW_CONNECTOR_GROUP,
                                             .version = "v1alpha",
                                             .resource = "httpproxies",
                                             .kind = "HTTPProxy",
                                             .namespaced = true};
static const struct sw_kube_gvr advert_gvr = {.group = SW_CONNECTOR_GROUP,
                                              .version = "v1alpha1",
                                              .resource = "connectoradvertisements",
                                              .kind = "ConnectorAdvertisement",
                                              .namespaced = true};
static const struct sw_kube_gvr connector_gvr = {.group = SW_CONNECTOR_GROUP,
                                                 .version = "v1alpha1",
                                                 .resource = "connectors",
                                                 .kind = "Connector",
                                                 .namespaced = true};

enum step {
    STEP_CONNECTOR, /* the device is not registered yet */
    STEP_LOOK,      /* is there an HTTPProxy of our name? */
    STEP_OTHER,     /* it goes to another device: is that one alive? */
    STEP_PROXY,
    STEP_ADVERT,
    STEP_FOLLOW,
    STEP_REMOVE_PROXY,
    STEP_REMOVE_ADVERT,
    STEP_REMOVE_USERS, /* does anything else use the Connector? */
    STEP_REMOVE_CONNECTOR,
    STEP_DONE,
};

struct expose {
    struct sw_loop *loop;
    struct sw_expose_config *cfg;
    struct sw_arena *arena;
    struct sw_err *err;
    int rc;
    struct sw_target target;
    struct sw_connector *device;
    struct sw_expose_view view;
    enum step step;
    struct sw_kube_call *call;
    struct sw_timer retry;
    uint64_t backoff_ns;
    struct sw_timer deadline;
    char *connector;                 /* name; NULL: not known */
    char *other;                     /* connector of the HTTPProxy that was there */
    struct sw_arena kept;            /* of hostnames */
    const struct sw_json *hostnames; /* as wanted; NULL: none */
    uint16_t redirect_port;
    bool existed;
    bool said; /* that the objects are there */
    struct sw_informer *informer;
    struct sw_kube_obj *proxy; /* as last seen */
    struct sw_defer judge;
    struct sw_timer patience; /* what is waited for is said only when it takes a while */
    bool ready;
    char *url;
    struct sw_probe *probe;
    uint64_t begun_ns;
    bool stopping;
    bool drained;
    bool removed;
};

static void run(struct expose *x);

static struct sw_slice name_of(const struct expose *x)
{
    return sw_slice_str(x->cfg->name);
}

static struct sw_slice ns_of(const struct expose *x)
{
    return sw_connector_ns(x->device);
}

static struct sw_kube_client *client_of(const struct expose *x)
{
    return sw_connector_client(x->device);
}

/* ---- the end ---- */

static void fail(struct expose *x, int rc, const char *event, struct sw_slice message)
{
    if (x->rc == SW_OK && !x->stopping) {
        x->rc = sw_err_set(x->err, rc, "expose: %.*s", (int)sw_min(message.n, 170),
                           message.n ? message.p : "");
        sw_view_failure(&x->view, event, message);
    }
    sw_loop_stop(x->loop);
}

static void check_end(struct expose *x)
{
    if (x->drained && x->removed)
        sw_loop_stop(x->loop);
}

static void on_drained(void *arg)
{
    struct expose *x = arg;

    x->drained = true;
    check_end(x);
}

static void on_remove_deadline(struct sw_timer *t)
{
    struct expose *x = SW_CONTAINER_OF(t, struct expose, deadline);

    (void)sw_err_set(x->err, SW_ETIME, "expose: '%s' could not be removed in time", x->cfg->name);
    x->rc = SW_ETIME;
    sw_loop_stop(x->loop);
}

static void stop(struct expose *x)
{
    if (x->stopping) {
        sw_loop_stop(x->loop);
        return;
    }
    x->stopping = true;
    sw_probe_free(x->probe);
    x->probe = NULL;
    sw_timer_stop(x->loop, &x->retry);
    sw_timer_stop(x->loop, &x->deadline);
    sw_kube_call_cancel(x->call);
    x->call = NULL;
    sw_connector_drain(x->device, on_drained, x);
    x->removed = !x->cfg->rm;
    if (x->cfg->rm) {
        sw_timer_start(x->loop, &x->deadline, REMOVE_NS, on_remove_deadline);
        x->step = STEP_REMOVE_PROXY;
        run(x);
    }
}

static void on_signal(int signo, void *arg)
{
    (void)signo;
    stop(arg);
}

/* ---- following ---- */

static void on_probed(void *arg, bool ok, const char *why)
{
    struct expose *x = arg;

    sw_view_verify(&x->view, x->url, ok, ok ? NULL : why);
}

static void begin_probe(struct expose *x)
{
    struct sw_slice at = sw_json_str(sw_json_find(
        sw_json_at(sw_json_walk(x->proxy->json, "status", "addresses", NULL), 0), "value"));

    if (!x->cfg->verify || x->cfg->redirect || !at.n)
        return;
    sw_view_verify(&x->view, x->url, false, NULL);
    x->probe = sw_probe_new(x->loop, sw_slice_str(x->url), at, on_probed, x);
}

static void on_ready(struct expose *x, const char *url)
{
    x->ready = true;
    x->url = sw_strdup(url);
    if (!x->cfg->rm || !x->stopping)
        sw_timer_stop(x->loop, &x->deadline);
    sw_view_ready(&x->view, x->proxy->json, url, x->target.url, sw_connector_id(x->device),
                  sw_loop_now(x->loop) - x->begun_ns);
    begin_probe(x);
}

static void look_again(struct expose *x);
static void go(struct expose *x, enum step step);

static void on_patience(struct sw_timer *t)
{
    look_again(SW_CONTAINER_OF(t, struct expose, patience));
}

static void on_judge(struct sw_defer *d)
{
    struct expose *x = SW_CONTAINER_OF(d, struct expose, judge);
    const struct sw_kube_obj *c = sw_connector_object(x->device);
    SW_ARENA_AUTO a = {0};
    struct sw_expose_state s;
    const char *url;

    if (x->stopping || x->step != STEP_FOLLOW || !x->proxy)
        return;
    if (x->cfg->redirect && x->redirect_port != sw_expose_https_port(x->proxy->json)) {
        /* Only now we know where HTTPS is. */
        x->redirect_port = sw_expose_https_port(x->proxy->json);
        go(x, STEP_PROXY);
        return;
    }
    sw_expose_judge(x->proxy->json, c ? c->json : NULL, x->cfg->redirect, &s);
    if (s.failed.n) {
        fail(x, SW_EDENIED, "tunnel_terminal_failure", s.failed);
        return;
    }
    if (x->ready)
        return;
    if (sw_loop_now(x->loop) - x->begun_ns < PATIENCE_NS) {
        s.waiting = sw_slice(NULL, 0);
        sw_timer_start(x->loop, &x->patience, PATIENCE_NS, on_patience);
    }
    sw_view_progress(&x->view, &s);
    url = sw_expose_url(&a, x->proxy->json, x->cfg->redirect);
    if (s.ready && url)
        on_ready(x, url);
}

static void look_again(struct expose *x)
{
    sw_loop_defer(x->loop, &x->judge, on_judge);
}

static void on_proxy(void *arg, struct sw_kube_obj *o)
{
    struct expose *x = arg;

    sw_kube_obj_unref(x->proxy);
    x->proxy = sw_kube_obj_ref(o);
    look_again(x);
}

static void on_proxy_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    (void)old;
    on_proxy(arg, now);
}

static void on_proxy_del(void *arg, struct sw_kube_obj *last)
{
    struct expose *x = arg;

    (void)last;
    if (!x->stopping)
        fail(x, SW_ENOENT, "tunnel_deleted_upstream",
             SW_SLICE_LIT("the HTTPProxy was deleted by somebody else"));
}

static void follow(struct expose *x)
{
    static const struct sw_informer_cbs cbs = {
        .add = on_proxy, .update = on_proxy_update, .del = on_proxy_del};
    SW_AUTO_FREE char *selector = sw_asprintf("metadata.name=%s", x->cfg->name);
    struct sw_informer_opts o = {.gvr = &proxy_gvr, .ns = ns_of(x), .field_selector = selector};

    look_again(x);
    if (x->informer)
        return;
    x->informer = sw_informer_new(client_of(x), &o, &cbs, x);
    sw_informer_start(x->informer);
}

/* ---- making the objects ---- */

static void on_retry(struct sw_timer *t)
{
    run(SW_CONTAINER_OF(t, struct expose, retry));
}

static void retry_later(struct expose *x)
{
    x->backoff_ns = x->backoff_ns ? sw_min(x->backoff_ns * 2, BACKOFF_MAX) : SW_NS_PER_S;
    sw_timer_start(x->loop, &x->retry, x->backoff_ns + sw_rand_below(x->backoff_ns / 4), on_retry);
}

static void go(struct expose *x, enum step step)
{
    x->step = step;
    x->backoff_ns = 0;
    run(x);
}

static void keep_hostnames(struct expose *x, const struct sw_json *names)
{
    /* None asked for: those it has stay, that is what "the same name again" means. */
    if (x->cfg->hostnames.n == 0 && sw_json_len(names))
        x->hostnames = sw_json_copy(&x->kept, names);
}

static void on_looked(struct expose *x, const struct sw_json *proxy)
{
    struct sw_slice connector = sw_expose_connector_of(proxy);

    x->existed = true;
    x->redirect_port = sw_expose_https_port(proxy);
    keep_hostnames(x, sw_json_walk(proxy, "spec", "hostnames", NULL));
    if (sw_slice_eq_str(connector, x->connector)) {
        go(x, STEP_PROXY);
        return;
    }
    if (!connector.n) {
        fail(x, SW_EDENIED, "tunnel_terminal_failure",
             SW_SLICE_LIT("an HTTPProxy of that name exists and is no tunnel: choose another "
                          "--name"));
        return;
    }
    sw_free(x->other);
    x->other = sw_slice_dup(connector);
    go(x, STEP_OTHER);
}

/* The device the name belonged to: only a dead one loses it. */
static void on_other(struct expose *x, const struct sw_json *connector)
{
    if (sw_condition_true(connector, "Ready")) {
        SW_AUTO_FREE char *why = sw_asprintf(
            "'%s' is exposed by another device that is online (Connector '%s'): choose another "
            "--name",
            x->cfg->name, x->other);

        fail(x, SW_EDENIED, "tunnel_terminal_failure", sw_slice_str(why));
        return;
    }
    go(x, STEP_PROXY);
}

static void on_removed(struct expose *x, bool with_connector)
{
    x->step = STEP_DONE;
    x->removed = true;
    sw_view_removed(&x->view, with_connector ? sw_slice_str(x->connector) : sw_slice(NULL, 0));
    check_end(x);
}

/* Another HTTPProxy may go through our Connector. */
static void on_users(struct expose *x, const struct sw_json *list)
{
    const struct sw_json *items = sw_json_find(list, "items");

    for (size_t i = 0; i < sw_json_len(items); i++) {
        const struct sw_json *one = sw_json_at(items, i);

        if (!sw_json_walk(one, "metadata", "deletionTimestamp", NULL) &&
            sw_slice_eq_str(sw_expose_connector_of(one), x->connector)) {
            on_removed(x, false);
            return;
        }
    }
    go(x, STEP_REMOVE_CONNECTOR);
}

static void on_made(struct expose *x)
{
    if (x->step == STEP_PROXY) {
        go(x, STEP_ADVERT);
        return;
    }
    if (!x->said)
        sw_view_objects(&x->view, !x->existed, x->target.url, x->hostnames);
    x->said = true;
    go(x, STEP_FOLLOW);
}

static void on_answer(struct expose *x, struct sw_kube_reply *r)
{
    switch (x->step) {
    case STEP_LOOK:
        on_looked(x, r->object);
        break;
    case STEP_OTHER:
        on_other(x, r->object);
        break;
    case STEP_PROXY:
    case STEP_ADVERT:
        on_made(x);
        break;
    case STEP_REMOVE_PROXY:
        go(x, STEP_REMOVE_ADVERT);
        break;
    case STEP_REMOVE_ADVERT:
        go(x, x->connector ? STEP_REMOVE_USERS : STEP_DONE);
        break;
    case STEP_REMOVE_USERS:
        on_users(x, r->object);
        break;
    case STEP_REMOVE_CONNECTOR:
        on_removed(x, true);
        break;
    case STEP_CONNECTOR:
    case STEP_FOLLOW:
    case STEP_DONE:
        break;
    }
}

static void on_missing(struct expose *x)
{
    if (x->step == STEP_LOOK) {
        x->existed = false;
        go(x, STEP_PROXY);
    } else if (x->step == STEP_OTHER) {
        go(x, STEP_PROXY);
    } else if (x->step == STEP_REMOVE_PROXY) {
        go(x, STEP_REMOVE_ADVERT);
    } else if (x->step == STEP_REMOVE_ADVERT) {
        go(x, x->connector ? STEP_REMOVE_USERS : STEP_DONE);
    } else if (x->step == STEP_REMOVE_CONNECTOR) {
        on_removed(x, false);
    } else {
        retry_later(x);
    }
}

static void on_reply(void *arg, struct sw_kube_reply *r)
{
    struct expose *x = arg;

    x->call = NULL;
    if (r->rc == SW_OK) {
        on_answer(x, r);
    } else if (r->code == 404) {
        on_missing(x);
    } else if ((r->code == 400 || r->code == 422) &&
               (x->step == STEP_PROXY || x->step == STEP_ADVERT)) {
        fail(x, SW_EINVAL, "tunnel_terminal_failure", r->message);
    } else {
        sw_log_warn("expose", "%.*s: trying again", SW_SLICE_ARG(sw_slice_head(r->message, 300)));
        retry_later(x);
    }
}

static void apply(struct expose *x, const struct sw_kube_gvr *gvr, bool proxy)
{
    SW_ARENA_AUTO a = {0};
    struct sw_expose_spec s = {.ns = ns_of(x),
                               .name = name_of(x),
                               .label = sw_slice_str(x->cfg->label),
                               .connector = sw_slice_str(x->connector),
                               .hostnames = x->hostnames,
                               .target = x->target,
                               .redirect = x->cfg->redirect,
                               .redirect_port = x->redirect_port};
    struct sw_json *obj = proxy ? sw_expose_proxy(&a, &s) : sw_expose_advertisement(&a, &s);

    x->call = sw_kube_apply(client_of(x), gvr, obj, NULL, MANAGER, true, on_reply, x);
}

static void get(struct expose *x, const struct sw_kube_gvr *gvr, struct sw_slice name)
{
    x->call = sw_kube_get(client_of(x), gvr, ns_of(x), name, on_reply, x);
}

static void del(struct expose *x, const struct sw_kube_gvr *gvr, struct sw_slice name)
{
    x->call = sw_kube_delete(client_of(x), gvr, ns_of(x), name, "Background", sw_slice(NULL, 0),
                             on_reply, x);
}

static void list_users(struct expose *x)
{
    struct sw_kube_req req = {.verb = SW_KUBE_LIST, .gvr = &proxy_gvr, .ns = ns_of(x)};

    x->call = sw_kube_do(client_of(x), &req, on_reply, x);
}

static void run(struct expose *x)
{
    if (x->call)
        return;
    switch (x->step) {
    case STEP_LOOK:
        get(x, &proxy_gvr, name_of(x));
        break;
    case STEP_OTHER:
        get(x, &connector_gvr, sw_slice_str(x->other));
        break;
    case STEP_PROXY:
        apply(x, &proxy_gvr, true);
        break;
    case STEP_ADVERT:
        apply(x, &advert_gvr, false);
        break;
    case STEP_FOLLOW:
        follow(x);
        break;
    case STEP_REMOVE_PROXY:
        del(x, &proxy_gvr, name_of(x));
        break;
    case STEP_REMOVE_ADVERT:
        del(x, &advert_gvr, name_of(x));
        break;
    case STEP_REMOVE_USERS:
        list_users(x);
        break;
    case STEP_REMOVE_CONNECTOR:
        del(x, &connector_gvr, sw_slice_str(x->connector));
        break;
    case STEP_DONE:
        on_removed(x, false);
        break;
    case STEP_CONNECTOR:
        break;
    }
}

/* ---- what the device says ---- */

static void on_connector(void *arg, const struct sw_kube_obj *o)
{
    struct expose *x = arg;

    if (!o || x->stopping)
        return;
    if (!x->connector || !sw_slice_eq_str(o->name, x->connector)) {
        sw_free(x->connector);
        x->connector = sw_slice_dup(o->name);
        sw_kube_call_cancel(x->call);
        x->call = NULL;
        go(x, STEP_LOOK);
    }
    look_again(x);
}

static void on_request(void *arg, const struct sw_request *r)
{
    struct expose *x = arg;

    if (!(x->probe && sw_probe_is_ours(r->method, r->path)))
        sw_view_request(&x->view, r);
}

static void on_api(void *arg, bool up, int code, struct sw_slice message)
{
    struct expose *x = arg;

    if (!x->stopping && !(up && !x->connector))
        sw_view_api(&x->view, up, code, message);
}

static void on_fatal(void *arg, const struct sw_err *err)
{
    fail(arg, err->rc, "tunnel_terminal_failure", sw_slice_str(err->msg));
}

static void on_late(struct sw_timer *t)
{
    struct expose *x = SW_CONTAINER_OF(t, struct expose, deadline);

    fail(x, SW_ETIME, "tunnel_terminal_failure", SW_SLICE_LIT("not ready in time (--timeout)"));
}

/* ---- the beginning ---- */

/* Everything that follows from the target. */
static int fill_in(struct expose *x)
{
    struct sw_expose_config *cfg = x->cfg;
    char host[256] = "device";
    int rc = sw_target_parse(x->arena, sw_slice_str(cfg->target), &x->target, x->err);

    if (rc != SW_OK)
        return rc;
    (void)gethostname(host, sizeof(host) - 1);
    if (!cfg->name)
        cfg->name = sw_target_name(x->arena, sw_slice_str(host), x->target.port);
    if (!sw_label_valid(sw_slice_str(cfg->name)))
        return sw_err_set(x->err, SW_EINVAL, "--name: '%.63s' is not a DNS label", cfg->name);
    if (!cfg->c.data) {
        SW_AUTO_FREE char *base = sw_default_data();

        cfg->c.data = sw_arena_printf(x->arena, "%s/expose/%s", base, cfg->name);
    }
    cfg->c.name = cfg->name;
    cfg->c.any_name = true;
    if (cfg->hostnames.n) {
        struct sw_json *names = sw_json_new_array(&x->kept);

        for (size_t i = 0; i < cfg->hostnames.n; i++)
            sw_json_push(&x->kept, names, sw_json_new_str(&x->kept, cfg->hostnames.p[i]));
        x->hostnames = names;
    }
    return SW_OK;
}

static int start(struct expose *x, struct sw_signals **ret_signals)
{
    static const int signos[] = {SIGTERM, SIGINT, SIGHUP};
    struct sw_connector_hooks hooks = {.connector = on_connector,
                                       .request = on_request,
                                       .api = on_api,
                                       .fatal = on_fatal,
                                       .arg = x};
    char page[SW_ADDR_TEXT + 16];
    char at[SW_ADDR_TEXT];
    struct sw_addr admin;

    *ret_signals = sw_signals_new(x->loop, signos, SW_ARRAY_LEN(signos), on_signal, x, x->err);
    if (!*ret_signals)
        return x->err->rc;
    x->device = sw_connector_new(x->loop, &x->cfg->c, &hooks, x->err);
    if (!x->device)
        return x->err->rc;
    admin = sw_connector_admin(x->device);
    (void)snprintf(page, sizeof(page), "http://%s/", sw_addr_text(&admin, at));
    x->begun_ns = sw_loop_now(x->loop);
    sw_view_begin(&x->view, x->target.url, page);
    if (x->cfg->timeout_ns)
        sw_timer_start(x->loop, &x->deadline, x->cfg->timeout_ns, on_late);
    return SW_OK;
}

static void finish(struct expose *x)
{
    sw_probe_free(x->probe);
    sw_kube_call_cancel(x->call);
    sw_informer_free(x->informer);
    sw_kube_obj_unref(x->proxy);
    sw_defer_cancel(&x->judge);
    sw_timer_stop(x->loop, &x->retry);
    sw_timer_stop(x->loop, &x->deadline);
    sw_timer_stop(x->loop, &x->patience);
    sw_connector_free(x->device);
    sw_free(x->connector);
    sw_free(x->other);
    sw_free(x->url);
}

int sw_expose_run(struct sw_expose_config *cfg, struct sw_arena *arena, struct sw_err *err)
{
    struct expose x = {.cfg = cfg, .arena = arena, .err = err};
    struct sw_signals *signals = NULL;
    int rc = fill_in(&x);

    if (rc == SW_OK)
        rc = sw_aead_init(SW_AEAD_AUTO, err);
    if (rc == SW_OK) {
        x.loop = sw_loop_new(err);
        rc = x.loop ? SW_OK : err->rc;
    }
    if (rc == SW_OK) {
        x.view = (struct sw_expose_view){.out = stdout,
                                         .json = cfg->json,
                                         .colour = !cfg->json && isatty(STDOUT_FILENO),
                                         .id = sw_slice_str(cfg->name)};
        rc = start(&x, &signals);
        if (rc == SW_OK) {
            sw_loop_run(x.loop);
            rc = x.rc;
            if (rc == SW_OK && !cfg->rm)
                sw_view_stopped(&x.view, x.url);
        }
        finish(&x);
        sw_resolver_stop();
        sw_signals_free(signals);
        sw_loop_free(x.loop);
    }
    sw_arena_clear(&x.kept);
    return rc;
}
