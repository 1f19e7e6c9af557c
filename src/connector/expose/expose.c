/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose/expose.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/expose/expose_int.h"
#include "io/resolver.h"
#include "io/signal.h"
#include "kube/client/kinds.h"
#include "tls/crypto/aead.h"

#define REMOVE_NS   (8 * SW_NS_PER_S)
#define PATIENCE_NS SW_NS_PER_S

/* ---- the end ---- */

static void begin_end(struct expose *x);

void expose_fail(struct expose *x, int rc, const char *event, struct sw_slice message)
{
    if (x->failed)
        return; /* reported, and being undone */
    if (x->rc == SW_OK && !x->end.stopping) {
        x->rc = sw_err_set(x->err, rc, "expose: %.*s", SW_SLICE_ARG_MAX(message, 170));
        sw_view_failure(&x->view, event, message);
    }
    if (x->end.stopping) {
        sw_loop_stop(x->loop);
        return;
    }
    x->failed = true;
    begin_end(x);
}

void expose_check_end(struct expose *x)
{
    if (x->end.drained && x->end.removed)
        sw_loop_stop(x->loop);
}

bool expose_made_connector(const struct expose *x)
{
    return x->connector && !x->not_ours && sw_connector_created(x->device);
}

static void on_drained(void *arg)
{
    struct expose *x = arg;

    x->end.drained = true;
    expose_check_end(x);
}

static void on_remove_deadline(struct sw_timer *t)
{
    struct expose *x = SW_CONTAINER_OF(t, struct expose, deadline);

    if (x->failed || !x->cfg->rm) { /* the first failure is the one reported */
        sw_log_warn("expose", "cannot delete the objects of '%s' before the deadline",
                    x->cfg->name);
    } else {
        (void)sw_err_set(x->err, SW_ETIME, "expose: '%s' could not be removed in time",
                         x->cfg->name);
        x->rc = SW_ETIME;
    }
    sw_loop_stop(x->loop);
}

/* The step from which on objects go, or go back. */
static enum expose_step first_undo(struct expose *x)
{
    if (expose_owes_key(x))
        return EXPOSE_RESTORE_KEY;
    /* --rm removes what was another device's only once it is ours. */
    x->failed |= expose_took_over(x) && !x->ready;
    if (x->cfg->rm && !x->failed) {
        if (x->httpproxy.uid)
            return EXPOSE_REMOVE_PROXY;
        return expose_made_connector(x) ? EXPOSE_REMOVE_USERS : EXPOSE_DONE;
    }
    /* Half a change is none: what was there before stays. */
    x->failed |= x->httpproxy.wrote && !x->ready;
    return x->failed ? expose_undo_step(x) : EXPOSE_DONE;
}

void expose_undo(struct expose *x)
{
    enum expose_step step = first_undo(x);

    x->end.removed = step == EXPOSE_DONE;
    if (!x->end.removed) {
        expose_go(x, step);
        return;
    }
    sw_timer_stop(x->loop, &x->deadline);
    expose_check_end(x);
}

/* No new work, the device drains, and what this run wrote is undone. */
static void begin_end(struct expose *x)
{
    x->end.stopping = true;
    sw_probe_free(SW_TAKE(x->probe.run));
    sw_timer_stop(x->loop, &x->retry);
    sw_timer_start(x->loop, &x->deadline, REMOVE_NS, on_remove_deadline);
    sw_connector_drain(x->device, on_drained, x);
    /* The API may have applied the write in flight: its reply says what there is to undo. */
    if (x->call && expose_is_write(x->step))
        return;
    sw_kube_call_cancel(SW_TAKE(x->call));
    expose_undo(x);
}

static void on_signal(int signo, void *arg)
{
    struct expose *x = arg;

    if (x->end.stopping)
        sw_loop_stop(x->loop);
    else
        begin_end(x);
}

/* ---- following ---- */

static void on_probed(void *arg, bool ok, const char *why)
{
    struct expose *x = arg;

    x->probe.done = true;
    if (ok)
        sw_view_origin_answers(&x->view, x->target.url);
    sw_view_verify(&x->view, x->url, ok, ok ? NULL : why);
}

static void begin_probe(struct expose *x)
{
    struct sw_slice at = sw_json_str(sw_json_find(
        sw_json_at(sw_json_walk(x->seen->json, "status", "addresses", NULL), 0), "value"));

    /* The address may be known a moment after the rest. */
    if (x->probe.run || !x->cfg->verify || x->cfg->redirect || !at.n)
        return;
    sw_view_verify(&x->view, x->url, false, NULL);
    x->probe.run = sw_probe_new(x->loop, sw_slice_str(x->url), at, on_probed, x);
}

static void on_ready(struct expose *x, const char *url)
{
    x->ready = true;
    x->url = sw_strdup(url);
    if (!x->cfg->rm || !x->end.stopping)
        sw_timer_stop(x->loop, &x->deadline);
    sw_view_ready(&x->view, x->seen->json, url, x->target.url, sw_connector_id(x->device),
                  sw_loop_now(x->loop) - x->begun_ns);
    begin_probe(x);
}

static void look_again(struct expose *x);

static void on_patience(struct sw_timer *t)
{
    look_again(SW_CONTAINER_OF(t, struct expose, patience));
}

/* What the watch shows is older than what was written. */
static bool is_stale(const struct expose *x)
{
    int64_t generation;

    return sw_json_i64(sw_json_walk(x->seen->json, "metadata", "generation", NULL), &generation) &&
           generation < x->generation;
}

static void on_judge(struct sw_defer *d)
{
    struct expose *x = SW_CONTAINER_OF(d, struct expose, judge);
    const struct sw_kube_obj *c = sw_connector_object(x->device);
    SW_ARENA_AUTO a = {0};
    struct sw_expose_state s;
    const char *url;

    if (x->end.stopping || x->step != EXPOSE_FOLLOW || !x->seen || is_stale(x) ||
        expose_judge_claim(x) || expose_leave_out_taken(x))
        return;
    if (x->cfg->redirect && x->redirect_port != sw_expose_https_port(x->seen->json)) {
        /* Only now the port of HTTPS is known. */
        x->redirect_port = sw_expose_https_port(x->seen->json);
        expose_go(x, EXPOSE_PROXY);
        return;
    }
    sw_expose_judge(x->seen->json, c ? c->json : NULL, x->cfg->redirect, &s);
    if (x->ready) {
        /* A conflicting object, or another writer of ours, does not end what is served. */
        sw_view_trouble(&x->view, s.failed);
        begin_probe(x);
        return;
    }
    if (s.failed.n) {
        x->lost = s.lost;
        expose_fail(x, SW_EDENIED, "tunnel_terminal_failure", s.failed);
        return;
    }
    /* The device that is online may be another process with the same key. */
    if (!sw_connector_live(x->device)) {
        s.ready = false;
        s.done[SW_EXPOSE_CONNECTOR_READY] = false;
        sw_timer_start(x->loop, &x->patience, PATIENCE_NS, on_patience);
    }
    if (sw_loop_now(x->loop) - x->begun_ns < PATIENCE_NS) {
        s.waiting = sw_slice(NULL, 0);
        sw_timer_start(x->loop, &x->patience, PATIENCE_NS, on_patience);
    }
    sw_view_progress(&x->view, &s);
    url = x->target.tcp ? sw_expose_l4_url(&a, x->seen->json)
                        : sw_expose_url(&a, x->seen->json, x->cfg->redirect);
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

    sw_kube_obj_unref(x->seen);
    x->seen = sw_kube_obj_ref(o);
    look_again(x);
}

static void on_proxy_del(void *arg, struct sw_kube_obj *last)
{
    struct expose *x = arg;

    x->httpproxy.made = false; /* one that has the name now is not ours */
    if (!x->end.stopping)
        expose_fail(x, SW_ENOENT, "tunnel_deleted_upstream",
                    SW_SLICE_LIT("the HTTPProxy was deleted by another client"));
}

void expose_follow(struct expose *x)
{
    static const struct sw_informer_cbs cbs = {.set = on_proxy, .del = on_proxy_del};
    SW_AUTO_FREE char *selector = sw_asprintf("metadata.name=%s", x->cfg->name);
    struct sw_informer_opts o = {
        .gvr = &sw_httpproxy_gvr, .ns = sw_connector_ns(x->device), .field_selector = selector};

    look_again(x);
    if (x->informer)
        return;
    x->informer = sw_informer_new(sw_connector_client(x->device), &o, &cbs, x);
    sw_informer_start(x->informer);
}

/* ---- events of the device ---- */

static void on_connector(void *arg, const struct sw_kube_obj *o)
{
    struct expose *x = arg;

    if (!o || x->end.stopping)
        return;
    if (!x->connector || !sw_slice_eq_str(o->name, x->connector)) {
        sw_text_set(&x->connector, o->name);
        sw_kube_call_cancel(SW_TAKE(x->call));
        expose_go(x, EXPOSE_LOOK);
    }
    look_again(x);
}

/* Whether the probe made it. Its way to a service that is not there ends as a tunnel without one.
 */
static bool of_probe(const struct expose *x, const struct sw_inspect_request *r)
{
    return x->probe.run && !x->probe.done &&
           (sw_probe_is_ours(r->method, r->path) || (!r->path[0] && r->status == 502));
}

static bool is_tls_failure(const struct sw_inspect_request *r)
{
    return r->reason && (strcmp(r->reason, SW_REQUEST_TLS_FAILED) == 0 ||
                         strcmp(r->reason, SW_REQUEST_NO_TLS) == 0);
}

static void on_request(void *arg, const struct sw_inspect_request *r)
{
    struct expose *x = arg;
    bool tls = is_tls_failure(r);

    /* Why, is not to be seen from outside of TLS. */
    if (tls && x->probe.origin)
        sw_origin_ask(x->probe.origin);
    if (!of_probe(x, r))
        sw_view_request(&x->view, r);
    else if (r->status == 502 && !tls)
        sw_view_no_origin(&x->view, x->target.url);
}

static void on_origin(void *arg, int rc, const char *why)
{
    struct expose *x = arg;

    if (rc == SW_OK || rc == SW_EDENIED || rc == SW_EPROTO)
        sw_view_origin_tls(&x->view, x->target.url, rc == SW_OK ? NULL : why);
}

/* Reports a service whose certificate cannot be verified before the first visitor. */
static void watch_origin(struct expose *x)
{
    struct sw_origin_opts o = {.host = x->target.host,
                               .tls_name = sw_target_tls_name(&x->target),
                               .port = x->target.port,
                               .ca_pem = sw_buf_slice(&x->ca),
                               .done = on_origin,
                               .arg = x};
    struct sw_err err = {0};

    if (!x->target.https)
        return;
    x->probe.origin = sw_origin_new(x->loop, &o, &err);
    if (x->probe.origin)
        sw_origin_ask(x->probe.origin);
    else
        sw_log_warn("expose", "cannot inspect the certificate of %s: %s", x->target.url, err.msg);
}

static void on_api(void *arg, bool up, int code, struct sw_slice message)
{
    struct expose *x = arg;

    if (!x->end.stopping && !(up && !x->connector))
        sw_view_api(&x->view, up, code, message);
}

/* A watch on a connection of an address that is gone would hang until keep-alive ends it. */
static void on_network(void *arg)
{
    struct expose *x = arg;

    if (!x->informer || x->end.stopping)
        return;
    sw_informer_stop(x->informer);
    sw_informer_start(x->informer);
}

static void on_fatal(void *arg, const struct sw_err *err)
{
    struct expose *x = arg;

    x->not_ours = true;
    expose_fail(x, err->rc, "tunnel_terminal_failure", sw_slice_str(err->msg));
}

static void on_late(struct sw_timer *t)
{
    struct expose *x = SW_CONTAINER_OF(t, struct expose, deadline);

    expose_fail(x, SW_ETIME, "tunnel_terminal_failure",
                SW_SLICE_LIT("not ready in time (--timeout)"));
}

/* ---- the beginning ---- */

static int start(struct expose *x, struct sw_signals **ret_signals)
{
    static const int signos[] = {SIGTERM, SIGINT, SIGHUP};
    struct sw_connector_hooks hooks = {.connector = on_connector,
                                       .request = on_request,
                                       .api = on_api,
                                       .network = on_network,
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
    watch_origin(x);
    if (sw_connector_inspect_token(x->device)[0])
        x->view.inspector = sw_arena_printf(x->arena, "%srequests?token=%s", page,
                                            sw_connector_inspect_token(x->device));
    sw_view_begin(&x->view, x->target.url, page);
    if (x->cfg->timeout_ns)
        sw_timer_start(x->loop, &x->deadline, x->cfg->timeout_ns, on_late);
    return SW_OK;
}

static void finish(struct expose *x)
{
    sw_probe_free(x->probe.run);
    sw_origin_free(x->probe.origin);
    sw_kube_call_cancel(x->call);
    sw_informer_free(x->informer);
    sw_kube_obj_unref(x->seen);
    sw_defer_cancel(&x->judge);
    sw_timer_stop(x->loop, &x->retry);
    sw_timer_stop(x->loop, &x->deadline);
    sw_timer_stop(x->loop, &x->patience);
    sw_connector_free(x->device);
    sw_free(x->connector);
    sw_free(x->other);
    sw_free(x->httpproxy.uid);
    sw_free(x->advert.uid);
    sw_free(x->url);
}

int sw_expose_run(struct sw_expose_config *cfg, struct sw_arena *arena, struct sw_err *err)
{
    struct expose x = {.cfg = cfg, .arena = arena, .err = err};
    struct sw_signals *signals = NULL;
    int rc = expose_fill_in(&x);

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
    sw_buf_done(&x.ca);
    return rc;
}
