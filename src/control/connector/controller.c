/* SPDX-License-Identifier: Apache-2.0 */
#include "control/connector/controller.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "control/connector/connector_int.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "tls/cert/ca.h"

enum { CERT_TTL_S = 90 * 24 * 3600, PEM_MAX = 1 << 16, FAILED_MAX = 1 << 20 };

/* Between two looks at certificates that are due, and before a write is given up. */
static const uint64_t retry_ns = 2 * SW_NS_PER_S;
static const uint64_t patience_ns = 60 * SW_NS_PER_S;

/* A certificate that the build asks for. */
struct due {
    struct sw_connector_controller *of;
    struct sw_slice name; /* behind the struct */
    char *secret;         /* JSON, owned */
    struct sw_kube_call *call;
    uint64_t next_ns; /* loop time: not before */
};

struct sw_connector_controller {
    struct sw_connector_conf conf;
    const struct sw_ca *ca;
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_control *main;
    struct sw_control *proxies;
    char *proxies_lease;  /* name, which 'proxies' borrows; NULL: no election */
    struct sw_map due;    /* name -> struct due */
    struct sw_map rules;  /* "ns/name/index" -> struct known */
    struct sw_map online; /* "ns/name" -> struct known */
    struct sw_map failed; /* "ns/name" of a Secret -> struct known: not issued */
    struct sw_timer retry;
    struct sw_metrics_shard *metrics;
    bool started;
    void (*done)(void *arg);
    void *done_arg;
};

static void build_main(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_connector_controller *c = arg;

    sw_connector_build(v, &c->conf, out);
}

static void build_proxies(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_connector_controller *c = arg;

    sw_httpproxy_build(v, &c->conf, out);
}

/* ---- what was published last ---- */

struct known {
    struct sw_slice key;   /* behind the struct */
    struct sw_slice value; /* behind that */
};

/* value.p == NULL: it is gone. */
static void set_known(struct sw_map *m, struct sw_slice key, struct sw_slice value)
{
    struct known *k = sw_map_get(m, key);
    char *text;

    if (k) {
        (void)sw_map_del(m, key);
        sw_free(k);
    }
    if (!value.p)
        return;
    k = sw_calloc(1, sizeof(*k) + key.n + value.n);
    text = (char *)(k + 1);
    memcpy(text, key.p, key.n);
    memcpy(text + key.n, value.p, value.n);
    k->key = sw_slice(text, key.n);
    k->value = sw_slice(text + key.n, value.n);
    (void)sw_map_put(m, k->key, k);
}

static void free_known(struct sw_map *m)
{
    SW_MAP_DRAIN(m, sw_free);
}

/* ---- what operators see ---- */

static void count(const struct sw_connector_controller *c, enum sw_metric_id id, const char *label)
{
    if (c->metrics)
        sw_metric_add(sw_metric_get1(c->metrics, id, label), 1);
}

static void log_change(const char *what, struct sw_slice subject, const char *key,
                       struct sw_slice text)
{
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_INFO, "connector", "%s", what);
    sw_log_str(&l, "subject", subject);
    if (text.p)
        sw_log_str(&l, key, text);
    sw_log_end(&l);
}

/* A connector that came or went, or something that was refused. */
static void tell(struct sw_connector_controller *c, const struct sw_change *change)
{
    if (strcmp(change->kind, SW_CONNECTOR_ONLINE) == 0) {
        log_change(change->bytes.p ? "online" : "offline", change->name, "id", change->bytes);
        set_known(&c->online, change->name, change->bytes);
        if (c->metrics)
            sw_metric_set(sw_metric_get1(c->metrics, SW_METRIC_CONNECTORS_ONLINE, NULL),
                          (int64_t)c->online.n);
    } else if (strcmp(change->kind, SW_OUT_NOTE) == 0 && change->bytes.p) {
        log_change("refused", change->name, "text", change->bytes);
        count(c, SW_METRIC_CONNECTOR_REFUSALS, change->reason);
    }
}

/* ---- certificates: making keys is not for a pure build ---- */

static void issue_all(struct sw_connector_controller *c);

static void on_retry(struct sw_timer *t)
{
    issue_all(SW_CONTAINER_OF(t, struct sw_connector_controller, retry));
}

static void due_free(struct due *d)
{
    sw_kube_call_cancel(d->call);
    sw_free(d->secret);
    sw_free(d);
}

/* Statuses tell which certificates failed; why is in the log. why.p == NULL: it did not. */
static void set_failed(struct sw_connector_controller *c, struct sw_slice key, struct sw_slice why)
{
    SW_BUF_AUTO text = {.max = FAILED_MAX};

    if (!sw_map_get(&c->failed, key) == !why.p)
        return;
    set_known(&c->failed, key, why);
    SW_MAP_EACH (const struct known, k, &c->failed) {
        if (sw_buf_printf(&text, "%s%.*s", sw_buf_len(&text) ? "\n" : "", SW_SLICE_ARG(k->key)) !=
            SW_OK)
            break;
    }
    sw_control_set_input(c->proxies, sw_buf_slice(&text));
}

static void fail(struct sw_connector_controller *c, const struct due *d, struct sw_slice why)
{
    struct sw_log_line l;

    set_failed(c, d->name, why.p ? why : SW_SLICE_LIT(""));
    count(c, SW_METRIC_CONNECTOR_CERTS, "failed");
    sw_log_begin(&l, SW_LOG_WARN, "connector", "certificate not issued");
    sw_log_str(&l, "secret", d->name);
    sw_log_str(&l, "reason", why);
    sw_log_end(&l);
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct due *d = arg;
    struct sw_connector_controller *c = d->of;

    d->call = NULL;
    if (r->rc == SW_OK) {
        count(c, SW_METRIC_CONNECTOR_CERTS, "issued");
        set_failed(c, d->name, sw_slice(NULL, 0));
        /* The watch shows it, and then no build wants it any more. */
        d->next_ns = sw_loop_now(c->loop) + patience_ns;
    } else {
        fail(c, d, r->message);
        d->next_ns = sw_loop_now(c->loop) + 2 * retry_ns;
    }
}

static int put_pair(struct sw_arena *a, struct sw_json *secret, const struct sw_buf *chain,
                    const struct sw_buf *key)
{
    struct sw_json *data = sw_json_new_object(a);
    SW_BUF_SECRET text = {.max = (size_t)2 * PEM_MAX};
    int rc = sw_base64_append(&text, sw_buf_slice(chain));

    sw_json_put_str(a, data, "tls.crt", sw_buf_slice(&text));
    sw_buf_clear(&text);
    if (rc == SW_OK)
        rc = sw_base64_append(&text, sw_buf_slice(key));
    sw_json_put_str(a, data, "tls.key", sw_buf_slice(&text));
    sw_json_put(a, secret, "data", data);
    return rc;
}

/* The Secret with a new key and certificate in it. */
static int fill(const struct sw_ca *ca, struct sw_arena *a, struct sw_json *secret,
                struct sw_err *err)
{
    struct sw_slice name =
        sw_json_str(sw_json_walk(secret, "metadata", "annotations", SW_CONNECTOR_CERT_NAME, NULL));
    const char *const sans[] = {sw_arena_dup(a, name), NULL};
    /* A common name has 64 characters at most; the names that count are the others. */
    const struct sw_ca_web web = {.cn = name.n <= 64 ? sans[0] : "spanwire connector",
                                  .sans = sans,
                                  .server = true,
                                  .ttl_s = CERT_TTL_S};
    SW_BUF_AUTO chain = {.max = PEM_MAX};
    SW_BUF_SECRET key = {.max = PEM_MAX};
    char until[SW_RFC3339_LEN];
    int rc = sw_ca_issue_web(ca, &web, &chain, &key, err);

    if (rc == SW_OK) {
        (void)sw_rfc3339(sw_wall_ns() + CERT_TTL_S * SW_NS_PER_S, 0, until);
        cn_meta(a, secret, "annotations", SW_CONNECTOR_CERT_UNTIL, sw_slice_str(until));
        rc = put_pair(a, secret, &chain, &key);
    }
    return rc;
}

static void issue(struct sw_connector_controller *c, struct due *d)
{
    static const struct sw_kube_gvr secrets = {"", "v1", "secrets", "Secret", true};
    SW_ARENA_AUTO a = {0};
    struct sw_json *secret = NULL;
    struct sw_err err = {0};
    int rc = sw_json_parse(&a, sw_slice_str(d->secret), NULL, &secret, &err);

    if (rc == SW_OK)
        rc = fill(c->ca, &a, secret, &err);
    d->next_ns = sw_loop_now(c->loop) + 2 * retry_ns;
    if (rc != SW_OK)
        fail(c, d, sw_slice_str(err.msg));
    else /* not forced: a Secret of another writer keeps its content */
        d->call =
            sw_kube_apply(c->client,
                          &(struct sw_kube_apply){
                              .gvr = &secrets, .obj = secret, .manager = "spanwire-certificates"},
                          on_written, d);
}

static void issue_all(struct sw_connector_controller *c)
{
    uint64_t now = sw_loop_now(c->loop);

    SW_MAP_EACH (struct due, d, &c->due) {
        if (c->ca && c->started && sw_control_leading(c->proxies) && !d->call && now >= d->next_ns)
            issue(c, d);
    }
    if (c->due.n && c->started && !sw_timer_running(&c->retry))
        sw_timer_start(c->loop, &c->retry, retry_ns, on_retry);
}

static void set_due(struct sw_connector_controller *c, struct sw_slice name, struct sw_slice secret)
{
    struct due *d = sw_map_get(&c->due, name);

    if (d) {
        (void)sw_map_del(&c->due, name);
        due_free(d);
    }
    if (!secret.p) {
        set_failed(c, name, sw_slice(NULL, 0));
        return;
    }
    d = sw_calloc(1, sizeof(*d) + name.n + 1);
    memcpy(d + 1, name.p, name.n);
    d->of = c;
    d->name = sw_slice(d + 1, name.n);
    d->secret = sw_slice_dup(secret);
    (void)sw_map_put(&c->due, d->name, d);
}

/* ---- the extension server ---- */

enum sw_extension_rule_state sw_connector_controller_rule(void *controller, struct sw_slice ns,
                                                          struct sw_slice proxy, uint32_t index,
                                                          struct sw_arena *a,
                                                          struct sw_extension_rule *ret)
{
    const struct sw_connector_controller *c = controller;
    const struct known *r = sw_map_get(
        &c->rules, cn_printf(a, "%.*s/%.*s/%u", SW_SLICE_ARG(ns), SW_SLICE_ARG(proxy), index));
    struct sw_slice rest;

    if (!r)
        return SW_EXTENSION_RULE_OTHER;
    rest = sw_arena_slice(a, r->value);
    ret->id = sw_slice_cut(&rest, ' ');
    ret->target = sw_slice_cut(&rest, ' ');
    if (!rest.p)
        return SW_EXTENSION_RULE_OFFLINE;
    ret->tls_name = sw_slice_eq_str(rest, "-") ? sw_slice("", 0) : rest;
    return SW_EXTENSION_RULE_ONLINE;
}

bool sw_connector_resolve(void *controller, const struct sw_json *object, struct sw_arena *a,
                          struct sw_slice *ret_target, struct sw_slice *ret_id)
{
    struct sw_slice target =
        sw_json_str(sw_json_walk(object, "metadata", "annotations", SW_CONNECTOR_DIAL, NULL));
    struct sw_slice ns = sw_json_str(sw_json_walk(object, "metadata", "namespace", NULL));
    struct sw_slice name = sw_json_str(sw_json_walk(object, "metadata", "name", NULL));
    const struct sw_connector_controller *c = controller;
    const struct known *online;

    if (!sw_json_str_eq(sw_json_find(object, "kind"), "Connector") || !target.n)
        return false;
    /* Its status is the word of whoever may write it, and may be old. */
    online =
        sw_map_get(&c->online, cn_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
    if (!online)
        return false;
    *ret_target = sw_arena_slice(a, target);
    *ret_id = sw_arena_slice(a, online->value);
    return true;
}

static void publish_main(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    for (size_t i = 0; i < n; i++)
        tell(arg, &changes[i]);
}

static void publish(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    struct sw_connector_controller *c = arg;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(changes[i].kind, SW_CONNECTOR_CERT) == 0)
            set_due(c, changes[i].name, changes[i].bytes);
        else if (strcmp(changes[i].kind, SW_CONNECTOR_RULE) == 0)
            set_known(&c->rules, changes[i].name, changes[i].bytes);
        else
            tell(c, &changes[i]);
    }
    issue_all(c);
}

/* ---- from outside ---- */

static int make_runtimes(struct sw_connector_controller *c,
                         const struct sw_connector_controller_opts *o, struct sw_err *err)
{
    struct sw_control_opts co = {.name = "spanwire-connector",
                                 .kinds = sw_connector_kinds,
                                 .n_kinds = SW_CN_KINDS,
                                 .build = build_main,
                                 .build_arg = c,
                                 .arg = c,
                                 .stamp = sw_gateway_stamp,
                                 .threaded = o->threaded,
                                 .timed = true,
                                 .events = true,
                                 .election = o->election};

    if (o->election.name.n)
        c->proxies_lease = sw_asprintf("%.*s-proxies", SW_SLICE_ARG(o->election.name));
    co.publish = publish_main;
    c->main = sw_control_new(c->client, &co, err);
    if (!c->main)
        return SW_EINVAL;
    co.name = "spanwire-httpproxy";
    co.kinds = sw_httpproxy_kinds;
    co.n_kinds = SW_HP_KINDS;
    co.build = build_proxies;
    co.publish = publish;
    co.election.name = c->proxies_lease ? sw_slice_str(c->proxies_lease) : sw_slice("", 0);
    c->proxies = sw_control_new(c->client, &co, err);
    return c->proxies ? SW_OK : SW_EINVAL;
}

struct sw_connector_controller *
sw_connector_controller_new(struct sw_kube_client *client,
                            const struct sw_connector_controller_opts *o, struct sw_err *err)
{
    struct sw_connector_controller *c = SW_NEW(struct sw_connector_controller);

    c->conf = o->conf;
    c->ca = o->ca;
    c->metrics = o->metrics;
    c->client = client;
    c->loop = sw_kube_client_loop(client);
    if (!c->ca)
        c->conf.issuer = sw_slice("", 0);
    if (make_runtimes(c, o, err) != SW_OK) {
        sw_connector_controller_free(c);
        return NULL;
    }
    return c;
}

void sw_connector_controller_free(struct sw_connector_controller *c)
{
    if (!c)
        return;
    sw_control_free(c->main);
    sw_control_free(c->proxies);
    sw_free(c->proxies_lease);
    sw_timer_stop(c->loop, &c->retry);
    SW_MAP_DRAIN(&c->due, due_free);
    free_known(&c->rules);
    free_known(&c->online);
    free_known(&c->failed);
    sw_free(c);
}

void sw_connector_controller_start(struct sw_connector_controller *c)
{
    c->started = true;
    sw_control_start(c->main);
    sw_control_start(c->proxies);
}

static void on_main_stopped(void *arg)
{
    struct sw_connector_controller *c = arg;

    sw_control_stop(c->proxies, c->done, c->done_arg);
}

void sw_connector_controller_stop(struct sw_connector_controller *c, void (*done)(void *arg),
                                  void *arg)
{
    c->started = false;
    c->done = done;
    c->done_arg = arg;
    sw_timer_stop(c->loop, &c->retry);
    sw_control_stop(c->main, on_main_stopped, c);
}
