/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/connector.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "connector/connector_int.h"
#include "connector/places.h"
#include "connector/told.h"
#include "io/resolver.h"
#include "io/signal.h"
#include "quic/id/ticket.h"
#include "quic/path.h"
#include "quic/relay/client.h"
#include "tls/crypto/aead.h"

enum { LOCAL_MAX = 128 };

#define DRAIN_LOOK (20 * SW_NS_PER_MS)
#define SILENCE    (3 * SW_NS_PER_S) /* without an answer for so long: API unreachable */

/* ---- what is published about the device ---- */

void connector_publish(struct sw_connector *c)
{
    struct sw_details d = {.id = *sw_rawkey_id(c->key),
                           .relay = sw_slice_str(c->home.url),
                           .tcp = true,
                           .udp = c->config->udp};
    struct sw_addr given[SW_QUIC_ADDRS_MAX + SW_QUIC_MAPPED_MAX];
    struct sw_addr bound[2];
    struct sw_ip local[LOCAL_MAX + 2];
    struct sw_addr_sources known = {
        .given = given,
        .n_given = c->local.n_given + sw_quic_mapped(c->quic, given + c->local.n_given),
        .bound = bound,
        .n_bound = sw_quic_bound(c->quic, bound),
        .local = local,
        .n_local = sw_addrs_local(local, LOCAL_MAX),
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(c->local.observed); i++) {
        if (c->local.observed[i].family)
            local[known.n_local++] = c->local.observed[i];
    }
    memcpy(given, c->local.given, c->local.n_given * sizeof(*given));
    sw_addr_list_build(&known, &d.addrs);
    if (!sw_addr_list_equal(&d.addrs, &c->local.addrs)) {
        c->local.addrs = d.addrs;
        sw_log_info("connector", "reachable at %zu addresses%s%s", d.addrs.n,
                    c->home.url ? " and through relay " : "", c->home.url ? c->home.url : "");
    }
    memcpy(d.paths, c->published.paths, sizeof(d.paths));
    d.n_paths = c->published.n;
    d.paths_seq = c->published.seq;
    sw_quic_set_candidates(c->quic, d.addrs.a, d.addrs.n);
    sw_reg_set_details(c->reg, &d);
}

/* Gateways reported the address that the NAT in front of us gives our packets. */
void connector_mapped(void *arg)
{
    connector_publish(arg);
}

/*
 * A NAT in front of us may keep our port, and then this is an address gateways can use. Where it
 * does not, they find the relay as before.
 */
static void on_observed(void *arg, const struct sw_ip *ip)
{
    struct sw_connector *c = arg;
    struct sw_ip *at = &c->local.observed[ip->family == 6];

    if (sw_addr_reach(ip) > SW_REACH_PRIVATE || sw_ip_eq(at, ip))
        return;
    *at = *ip;
    connector_publish(c);
}

static void observe(struct sw_connector *c)
{
    struct sw_err err = {0};

    sw_observe_free(SW_TAKE(c->local.observe));
    memset(c->local.observed, 0, sizeof(c->local.observed));
    if (!c->home.url)
        return;
    c->local.observe = sw_observe_new(c->loop, sw_slice_str(c->home.url), c->config->relay_ca,
                                      on_observed, c, &err);
    if (!c->local.observe)
        sw_log_debug("connector", "cannot ask the relay for our address: %s", err.msg);
}

/*
 * A relay forwards packets for our key to the process that registered it last, so this one
 * registers when it holds the Lease. Without an API the holder is unknown, and the device has to
 * work: then it registers too, unless another holder is known.
 */
static void join(struct sw_connector *c, bool api_away)
{
    if (c->home.joined || c->api.foreign || !(api_away || !c->reg || sw_reg_live(c->reg)))
        return;
    c->home.joined = true;
    sw_timer_stop(c->loop, &c->api.silence);
    if (c->home.url)
        sw_quic_set_home_relay(c->quic, sw_slice_str(c->home.url));
}

static void on_silence(struct sw_timer *t)
{
    join(SW_CONTAINER_OF(t, struct sw_connector, api.silence), true);
}

static void on_foreign(void *arg)
{
    struct sw_connector *c = arg;

    c->api.foreign = true;
    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, "foreign_lease");
    if (!c->home.joined)
        return;
    sw_log_warn("connector", "another process holds our Lease: disconnecting from the relay");
    c->home.joined = false;
    sw_quic_set_home_relay(c->quic, sw_slice("", 0));
}

static void set_relay(struct sw_connector *c, struct sw_slice url)
{
    if (sw_slice_eq_str(url, c->home.url ? c->home.url : ""))
        return;
    sw_text_set(&c->home.url, url.n ? url : sw_slice(NULL, 0));
    c->home.up = false;
    observe(c);
    if (c->home.joined)
        sw_quic_set_home_relay(c->quic, url);
    connector_publish(c);
}

void connector_relay_refused(void *arg, const char *reason)
{
    struct sw_connector *c = arg;

    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, reason);
}

/* Of the API or of the last run. What cannot be used leaves us with the relay we have. */
static void set_published_relay(struct sw_connector *c, struct sw_slice url)
{
    struct sw_err err = {0};

    if (url.n == 0 || sw_published_relay_ok(url, sw_slice_str(c->server), &err)) {
        set_relay(c, url);
        return;
    }
    sw_log_warn("connector", "relay %.*s of the Connector's annotation refused: %s",
                SW_SLICE_ARG_MAX(url, 120), err.msg);
    connector_relay_refused(c, SW_RELAY_REFUSED_LIST);
}

static void on_network(void *arg, bool slept)
{
    struct sw_connector *c = arg;

    sw_log_info("connector", slept ? "the machine slept: checking every path"
                                   : "the addresses of this machine changed");
    sw_quic_network_changed(c->quic);
    observe(c); /* anew: its connection may have died with the old address */
    connector_publish(c);
    if (c->local.observe)
        sw_observe_ask(c->local.observe);
    sw_reg_network_changed(c->reg, slept);
    if (c->hooks.network)
        c->hooks.network(c->hooks.arg);
}

void connector_relay_state(void *arg, bool up)
{
    struct sw_connector *c = arg;

    c->home.up = up;
    sw_log_info("connector", "relay %s is %s", c->home.url ? c->home.url : "",
                up ? "connected" : "not connected");
    if (up && c->local.observe)
        sw_observe_ask(c->local.observe);
}

/* ---- state from the API ---- */

/* Of admitted gateways: no other peer dials us. */
static void set_places(struct sw_connector *c, struct sw_slice text)
{
    struct sw_places named;
    struct sw_err err = {0};
    size_t bad = sw_places_read(text, &named, &err);
    size_t n = 0;

    if (bad)
        sw_log_warn("connector",
                    "%zu addresses in annotation " SW_CONNECTOR_GATEWAY_ADDRS " ignored: %s", bad,
                    err.msg);
    for (size_t i = 0; i < named.n; i++)
        if (c->config->open || sw_peers_has(&c->admit.peers, &named.p[i].id))
            named.p[n++] = named.p[i];
    sw_quic_set_openings(c->quic, named.p, n);
}

static void on_connector(void *arg, const struct sw_kube_obj *o)
{
    struct sw_connector *c = arg;

    /* A deleted Connector revokes nothing: its settings stay until the next one. */
    if (o) {
        const struct sw_json *notes = sw_json_walk(o->json, "metadata", "annotations", NULL);

        sw_text_set(&c->name, o->name);
        connector_set_peers(c, sw_json_str(sw_json_find(notes, SW_CONNECTOR_GATEWAY_IDS)));
        set_places(c, sw_json_str(sw_json_find(notes, SW_CONNECTOR_GATEWAY_ADDRS)));
        if (!c->config->relay)
            set_published_relay(c, sw_json_str(sw_json_find(notes, SW_CONNECTOR_RELAY)));
    }
    if (c->hooks.connector)
        c->hooks.connector(c->hooks.arg, o);
}

/* Logs when the API becomes unreachable or reachable, not every request. */
static void on_answer(void *arg, bool ok, int code, struct sw_slice message)
{
    struct sw_connector *c = arg;
    /* An answer that only means "not there" or "changed meanwhile" is an answer. */
    bool up = ok || code == 404 || code == 409 || code == 422;
    bool denied = code == 401 || code == 403;
    bool news = !c->api.asked || c->api.up != up || (!up && c->api.code != code);

    sw_metric_count(c->meter.shard, SW_METRIC_CONNECTOR_API,
                    up       ? "ok"
                    : denied ? "denied"
                             : "failed");
    sw_request_text(c->api.message, sizeof(c->api.message), up ? SW_SLICE_LIT("") : message);
    c->api.code = code;
    if (sw_reg_live(c->reg)) {
        c->api.foreign = false;
        sw_ready_done(c->ready, "registered");
    }
    join(c, !up);
    if (!news)
        return;
    if (!up && denied)
        sw_log_warn("connector", "API refused the request (%d), keeping open tunnels: %s", code,
                    c->api.message);
    else if (!up)
        sw_log_warn("connector", "API unreachable, retrying: %s", c->api.message);
    else if (c->api.asked)
        sw_log_info("connector", "API reachable again");
    c->api.asked = true;
    c->api.up = up;
    c->api.since_ns = sw_wall_ns();
    if (c->hooks.api)
        c->hooks.api(c->hooks.arg, up, code, sw_slice_str(c->api.message));
}

static void on_fatal(void *arg, const struct sw_err *err)
{
    struct sw_connector *c = arg;

    if (c->hooks.fatal)
        c->hooks.fatal(c->hooks.arg, err);
}

/* ---- the beginning ---- */

static void open_reg(struct sw_connector *c)
{
    struct utsname u = {0};
    struct sw_reg_opts o = {
        .ns = sw_slice_str(c->ns),
        .name = sw_slice_str(c->config->name),
        .any_name = c->config->any_name,
        .take_over = c->config->take_over,
        .class_name = sw_slice_str(c->config->class_name),
        .identity = sw_slice_str(c->identity),
        .key = c->key,
        .connector = on_connector,
        .advertised = connector_advertised,
        .answered = on_answer,
        .foreign = on_foreign,
        .fatal = on_fatal,
        .arg = c,
    };

    if (c->config->standalone) {
        sw_ready_done(c->ready, "registered");
        return;
    }
    (void)uname(&u);
    o.host = sw_slice_str(u.nodename);
    o.os = sw_slice_str(u.sysname);
    c->reg = sw_reg_new(c->client, &o);
}

/* Without an API nothing else publishes our addresses. */
static void log_ticket(const struct sw_connector *c)
{
    SW_ARENA_AUTO a = {0};
    struct sw_quic_target t = {.id = *sw_rawkey_id(c->key),
                               .relay = sw_slice_str(c->home.url),
                               .addrs = c->local.addrs.a,
                               .n_addrs = c->local.addrs.n};
    struct sw_slice text = sw_ticket_write(&a, &t);

    sw_log_info("connector", "ticket %.*s", SW_SLICE_ARG(text));
}

static void begin(struct sw_connector *c)
{
    struct sw_addr admin = sw_admin_addr(c->admin);
    char text[SW_ADDR_TEXT];

    open_reg(c);
    sw_timer_start(c->loop, &c->api.silence, SILENCE, on_silence);
    join(c, false);
    c->local.watch = sw_addr_watch_new(c->loop, on_network, c, NULL);
    connector_use_known(c);
    if (c->config->open)
        sw_log_warn(
            "connector",
            "access control disabled (--open): every client that knows the NodeID may connect");
    sw_log_info("connector", "NodeID %s, status page http://%s/", c->id,
                sw_addr_text(&admin, text));
    if (c->config->relay)
        set_relay(c, sw_slice_str(c->config->relay));
    else if (c->known.relay.n)
        set_published_relay(c, c->known.relay);
    if (!c->home.url)
        connector_publish(c);
    sw_memo_done(&c->known);
    if (c->config->standalone)
        log_ticket(c);
}

static void on_replayed(void *arg, const struct sw_inspect_request *r)
{
    connector_add_request(arg, r);
}

static void open_inspect(struct sw_connector *c)
{
    c->inspect = (struct sw_inspect){
        .on = c->config->inspect,
        .secrets = c->config->inspect_secrets,
        .history = &c->history,
        .shard = c->meter.shard,
        .replays = {.loop = c->loop,
                    .allow = &c->admit.allow,
                    .target = c->config->target,
                    .on_request = on_replayed,
                    .arg = c},
    };
    sw_inspect_open(&c->inspect);
}

struct sw_connector *sw_connector_new(struct sw_loop *l, const struct sw_connector_config *cfg,
                                      const struct sw_connector_hooks *hooks, struct sw_err *err)
{
    struct sw_connector *c = SW_NEW(struct sw_connector);

    c->loop = l;
    c->config = cfg;
    c->hooks = *hooks;
    c->lock_fd = -1;
    c->started_ns = sw_wall_ns();
    sw_list_init(&c->conns);
    c->meter.metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "connector"});
    c->meter.shard = sw_metrics_shard_new(c->meter.metrics);
    open_inspect(c);
    c->ready = sw_ready_new();
    sw_ready_add(c->ready, "registered");
    if (connector_open(c, err) != SW_OK) {
        sw_connector_free(c);
        return NULL;
    }
    begin(c);
    return c;
}

/* ---- the end ---- */

void sw_connector_free(struct sw_connector *c)
{
    if (!c)
        return;
    sw_timer_stop(c->loop, &c->drain.timer);
    sw_timer_stop(c->loop, &c->admit.nobody);
    sw_timer_stop(c->loop, &c->published.timer);
    sw_timer_stop(c->loop, &c->published.again);
    sw_timer_stop(c->loop, &c->api.silence);
    connector_remember_now(c);
    sw_addr_watch_free(c->local.watch);
    sw_observe_free(c->local.observe);
    sw_reg_free(c->reg);
    if (c->client)
        sw_kube_client_free(c->client);
    sw_admin_free(c->admin);
    sw_replays_end(&c->inspect.replays); /* sw_admin_free closed their pages before */
    sw_qserve_free(c->serve);
    sw_captures_done(&c->inspect.captures);
    connector_forget_conns(c);
    sw_quic_free(c->quic);
    sw_egress_free(c->egress);
    sw_rawkey_free(c->key);
    sw_metrics_shard_free(c->meter.shard);
    sw_metrics_free(c->meter.metrics);
    sw_ready_free(c->ready);
    sw_history_done(&c->history);
    sw_allow_done(&c->admit.allow);
    sw_allow_done(&c->admit.allow_fixed);
    sw_peers_done(&c->admit.peers);
    sw_peers_done(&c->admit.peers_named);
    sw_peers_done(&c->admit.peers_fixed);
    sw_slice_free_secret(&c->home.token);
    sw_free(c->home.url);
    sw_free(c->identity);
    sw_free(c->data);
    sw_free(c->ns);
    sw_free(c->server);
    sw_memo_done(&c->known);
    sw_free(c->name);
    if (c->lock_fd >= 0)
        (void)close(c->lock_fd);
    sw_free(c);
}

static void on_drain_look(struct sw_timer *t)
{
    struct sw_connector *c = SW_CONTAINER_OF(t, struct sw_connector, drain.timer);
    size_t active = sw_qserve_active(c->serve);
    bool late = sw_loop_now(c->loop) >= c->drain.until_ns;

    if (late && active)
        sw_log_info("connector", "drain deadline passed, closing %zu tunnels", active);
    if ((late || (active == 0 && c->drain.released)) && !c->drain.done_called) {
        c->drain.done_called = true;
        c->drain.drained(c->drain.drained_arg);
        return;
    }
    sw_timer_start(c->loop, &c->drain.timer, DRAIN_LOOK, on_drain_look);
}

static void on_released(void *arg)
{
    struct sw_connector *c = arg;

    c->drain.released = true;
}

void sw_connector_drain(struct sw_connector *c, void (*done)(void *arg), void *arg)
{
    uint64_t now = sw_loop_now(c->loop);

    if (c->drain.draining) {
        c->drain.until_ns = now;
        return;
    }
    c->drain.draining = true;
    c->drain.drained = done;
    c->drain.drained_arg = arg;
    c->drain.until_ns = now + c->config->drain_ns;
    sw_log_info("connector", "draining for at most %llu ms, %zu tunnels are open",
                (unsigned long long)(c->config->drain_ns / SW_NS_PER_MS),
                sw_qserve_active(c->serve));
    sw_ready_add(c->ready, "draining");
    sw_qserve_drain(c->serve);
    sw_quic_drain(c->quic);
    c->drain.released = !c->reg;
    if (c->reg)
        sw_reg_stop(c->reg, on_released, c);
    sw_timer_start(c->loop, &c->drain.timer, 0, on_drain_look);
}

/* ---- looking in ---- */

struct sw_kube_client *sw_connector_client(struct sw_connector *c)
{
    return c->client;
}

struct sw_slice sw_connector_ns(const struct sw_connector *c)
{
    return sw_slice_str(c->ns);
}

const struct sw_kube_obj *sw_connector_object(const struct sw_connector *c)
{
    return sw_reg_connector(c->reg);
}

struct sw_addr sw_connector_admin(const struct sw_connector *c)
{
    return sw_admin_addr(c->admin);
}

const char *sw_connector_inspect_token(const struct sw_connector *c)
{
    return c->inspect.token;
}

const char *sw_connector_id(const struct sw_connector *c)
{
    return c->id;
}

bool sw_connector_live(const struct sw_connector *c)
{
    return sw_reg_live(c->reg);
}

bool sw_connector_created(const struct sw_connector *c)
{
    return sw_reg_created(c->reg);
}

const struct sw_json *sw_connector_taken_from(const struct sw_connector *c)
{
    return sw_reg_taken_from(c->reg);
}

/* ---- as a process ---- */

struct process {
    struct sw_loop *loop;
    struct sw_connector *c;
    struct sw_err *err;
    int rc;
};

static void on_run_done(void *arg)
{
    struct process *p = arg;

    sw_loop_stop(p->loop);
}

static void on_run_signal(int signo, void *arg)
{
    struct process *p = arg;

    sw_connector_drain(p->c, on_run_done, p);
}

static void on_run_fatal(void *arg, const struct sw_err *err)
{
    struct process *p = arg;

    *p->err = *err;
    p->rc = err->rc;
    sw_loop_stop(p->loop);
}

/* On standard output like expose's: the log may go to others, and the token is the owner's. */
static void print_inspector(const struct sw_connector *c)
{
    struct sw_addr admin = sw_connector_admin(c);
    char at[SW_ADDR_TEXT];

    if (!c->inspect.token[0])
        return;
    (void)printf("Requests in detail: http://%s/requests?token=%s\n", sw_addr_text(&admin, at),
                 c->inspect.token);
    (void)fflush(stdout);
}

int sw_connector_run(const struct sw_connector_config *cfg, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT};
    struct process p = {.err = err};
    struct sw_connector_hooks hooks = {.fatal = on_run_fatal, .arg = &p};
    struct sw_signals *signals;
    int rc = sw_aead_init(SW_AEAD_AUTO, err);

    if (rc != SW_OK)
        return rc;
    p.loop = sw_loop_new(err);
    if (!p.loop)
        return err->rc;
    signals = sw_signals_new(p.loop, signos, SW_ARRAY_LEN(signos), on_run_signal, &p, err);
    if (signals)
        p.c = sw_connector_new(p.loop, cfg, &hooks, err);
    rc = p.c ? SW_OK : err->rc;
    if (rc == SW_OK) {
        print_inspector(p.c);
        sw_loop_run(p.loop);
        rc = p.rc;
    }
    sw_connector_free(p.c);
    sw_resolver_stop();
    sw_signals_free(signals);
    sw_loop_free(p.loop);
    return rc;
}
