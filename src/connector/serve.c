/* SPDX-License-Identifier: Apache-2.0 */
/* Which peers may connect, and where tunnels may go. Counters and logs of them are in tell.c. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/connector_int.h"

enum { ID_MAX = 64 };

/* The control plane gets so long to name gateways before their lack is worth a line. */
#define NOBODY_NS (5 * SW_NS_PER_S)

/* ---- admission ---- */

bool connector_admit(void *arg, const struct sw_nodeid *peer, struct sw_slice alpn)
{
    struct sw_connector *c = arg;
    struct sw_log_line line;
    char hex[SW_NODEID_HEX];

    if (!c->drain.draining && (c->config->open || sw_peers_has(&c->admit.peers, peer)))
        return true;
    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS,
                    c->drain.draining ? "draining" : "unknown_gateway");
    if (!sw_log_limit_take(&c->admit.refused, sw_loop_now(c->loop)))
        return false;
    sw_log_begin(&line, SW_LOG_WARN, "connector", "connection refused");
    sw_log_cstr(&line, "reason", c->drain.draining ? "draining" : "unknown gateway");
    sw_log_cstr(&line, "peer", sw_nodeid_hex(peer, hex));
    sw_log_str(&line, "alpn", alpn);
    sw_log_limit_put(&c->admit.refused, &line);
    sw_log_end(&line);
    return false;
}

void connector_accepted(void *arg, struct sw_qconn *q)
{
    struct sw_connector *c = arg;
    struct conn *k = SW_NEW(struct conn);
    char peer[SW_NODEID_SHORT];

    k->q = q;
    k->since_ns = sw_wall_ns();
    sw_list_push_back(&c->conns, &k->link);
    c->n_conns++;
    sw_log_info("connector", "gateway %s connected, %s", sw_nodeid_short(sw_qconn_peer(q), peer),
                sw_qconn_path(q) == SW_QPATH_RELAY ? "through the relay" : "directly");
    connector_path_seen(c, q);
    sw_qserve_adopt(c->serve, q);
}

static struct conn *find_conn(struct sw_connector *c, const struct sw_qconn *q)
{
    SW_LIST_EACH (struct conn, k, &c->conns, link) {
        if (k->q == q)
            return k;
    }
    return NULL;
}

static void drop_conn(struct sw_connector *c, struct conn *k)
{
    sw_list_unlink(&k->link);
    c->n_conns--;
    sw_free(k);
}

void connector_forget_conns(struct sw_connector *c)
{
    SW_LIST_EACH (struct conn, k, &c->conns, link)
        drop_conn(c, k);
}

static void on_conn_closed(void *arg, struct sw_qconn *q, const struct sw_qclose *why)
{
    struct sw_connector *c = arg;
    struct conn *k = find_conn(c, q);
    char peer[SW_NODEID_SHORT];

    sw_log_info("connector", "gateway %s disconnected%s%.*s",
                sw_nodeid_short(sw_qconn_peer(q), peer), why->text.n ? ": " : "",
                SW_SLICE_ARG_MAX(why->text, 200));
    if (k)
        drop_conn(c, k);
}

static void on_conn_path(void *arg, struct sw_qconn *q)
{
    struct sw_addr at = sw_qconn_addr(q);
    char peer[SW_NODEID_SHORT];
    char text[SW_ADDR_TEXT];

    connector_path_seen(arg, q);
    sw_log_info("connector", "path to gateway %s changed to %s%s%s",
                sw_nodeid_short(sw_qconn_peer(q), peer),
                sw_qconn_path(q) == SW_QPATH_RELAY ? "relay" : "direct", at.ip.family ? " " : "",
                at.ip.family ? sw_addr_text(&at, text) : "");
}

static void on_nobody(struct sw_timer *t)
{
    sw_log_warn("connector", "no gateway is admitted: the control plane names none, and neither "
                             "does --allow-gateway");
}

static void add_peers(struct sw_peers *to, const struct sw_peers *from)
{
    for (size_t i = 0; i < from->ids.n; i++)
        (void)!sw_peers_add(to, &from->ids.p[i], NULL);
}

void connector_set_peers(struct sw_connector *c, struct sw_slice list)
{
    struct sw_peers named = {0};
    struct sw_err err = {0};
    size_t bad = sw_peers_add_list(&named, list, &err);

    if (bad)
        sw_log_warn("connector", "%zu ids in annotation " SW_CONNECTOR_GATEWAY_IDS " ignored: %s",
                    bad, err.msg);
    connector_admit_peers(c, &named);
    sw_peers_done(&named);
    connector_remember(c);
}

void connector_admit_peers(struct sw_connector *c, const struct sw_peers *named)
{
    struct sw_peers now = {0};

    sw_peers_done(&c->admit.peers_named);
    add_peers(&c->admit.peers_named, named);
    add_peers(&now, named);
    add_peers(&now, &c->admit.peers_fixed);
    if (now.ids.n || c->config->open)
        sw_timer_stop(c->loop, &c->admit.nobody);
    else if (!sw_timer_running(&c->admit.nobody))
        sw_timer_start(c->loop, &c->admit.nobody, NOBODY_NS, on_nobody);
    if (sw_peers_equal(&now, &c->admit.peers)) {
        sw_peers_done(&now);
        return;
    }
    sw_peers_done(&c->admit.peers);
    c->admit.peers = now;
    sw_log_info("connector", "%zu gateways are admitted", now.ids.n);
    connector_review_paths(c);
    if (c->config->open)
        return;
    SW_LIST_EACH (struct conn, k, &c->conns, link) {
        if (!sw_peers_has(&c->admit.peers, sw_qconn_peer(k->q))) {
            sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, "gateway_revoked");
            sw_log_warn("connector", "disconnecting a gateway that is no longer admitted");
            sw_qconn_close(k->q, 0, "not admitted any more");
        }
    }
}

/* ---- what ---- */

static void add_fixed(const struct sw_connector *c, struct sw_allow *to)
{
    SW_VEC_FOREACH (const struct sw_allow_entry, e, &c->admit.allow_fixed.entries) {
        struct sw_allow_entry copy = *e; /* texts live with 'fixed' */

        sw_vec_push(&to->entries, copy);
    }
}

/* Takes what 'now' has. */
static void set_allow(struct sw_connector *c, struct sw_allow *now)
{
    size_t before = c->admit.allow.entries.n;

    sw_allow_done(&c->admit.allow);
    c->admit.allow = *now;
    if (now->entries.n != before)
        sw_log_info("connector", "%zu destinations allowed", now->entries.n);
    if (c->serve)
        sw_qserve_recheck(c->serve);
}

void connector_allow(struct sw_connector *c, const struct sw_allow *advertised)
{
    struct sw_allow now = {0};

    add_fixed(c, &now);
    SW_VEC_FOREACH (const struct sw_allow_entry, e, &advertised->entries) {
        struct sw_allow_entry copy = *e;

        copy.host = sw_arena_slice(&now.arena, e->host);
        copy.from = sw_arena_slice(&now.arena, e->from);
        sw_vec_push(&now.entries, copy);
    }
    set_allow(c, &now);
}

void connector_advertised(void *arg)
{
    struct sw_connector *c = arg;
    struct sw_kube_obj **all;
    size_t n = sw_reg_advertisements(c->reg, &all);
    const char *name = sw_reg_name(c->reg);
    struct sw_allow now = {0};

    add_fixed(c, &now);
    for (size_t i = 0; i < n; i++) {
        struct sw_err err = {0};
        struct sw_slice of =
            sw_json_str(sw_json_walk(all[i]->json, "spec", "connectorRef", "name", NULL));
        size_t bad = 0;

        if (name && sw_slice_eq_str(of, name))
            bad = sw_allow_add_advertisement(&now, all[i]->json, &err);

        if (bad)
            sw_log_warn("connector", "advertisement '%.*s': %zu services ignored: %s",
                        SW_SLICE_ARG(all[i]->name), bad, err.msg);
        sw_kube_obj_unref(all[i]);
    }
    sw_free(all);
    set_allow(c, &now);
    connector_remember(c);
}

static void refuse(struct sw_connector *c, const struct sw_qserve_ask *ask,
                   struct sw_qserve_verdict *ret)
{
    struct sw_log_line line;
    char hex[SW_NODEID_HEX];

    ret->status = 403;
    ret->reason = "not_advertised";
    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, ret->reason);
    sw_log_begin(&line, SW_LOG_WARN, "connector", "destination refused");
    sw_log_cstr(&line, "reason", "not advertised");
    sw_log_cstr(&line, "kind", sw_qkind_text(ask->kind));
    sw_log_str(&line, "host", sw_slice_head(ask->host, 253));
    sw_log_u64(&line, "port", ask->port);
    sw_log_cstr(&line, "peer", sw_nodeid_hex(ask->peer, hex));
    if (ask->request_id.n)
        sw_log_str(&line, "request_id", sw_slice_head(ask->request_id, ID_MAX));
    sw_log_end(&line);
}

static void authorise(void *arg, const struct sw_qserve_ask *ask, struct sw_qserve_verdict *ret)
{
    struct sw_connector *c = arg;
    struct exchange *e;

    if (!sw_allow_find(&c->admit.allow, ask->host, ask->port, ask->kind == SW_QKIND_UDP)) {
        refuse(c, ask, ret);
        return;
    }
    if (ret->tag) /* review of a running exchange */
        return;
    e = SW_NEW(struct exchange);
    e->c = c;
    (void)sw_nodeid_short(ask->peer, e->peer);
    if (ask->host.n < sizeof(e->host))
        memcpy(e->host, ask->host.p, ask->host.n);
    e->port = ask->port;
    ret->tag = e;
    if (ask->kind == SW_QKIND_TCP)
        ret->tap = connector_tap;
}

/*
 * The addresses of a name are the name's owner's choice. Names that the device's owner gave are
 * believed; behind others, and behind wildcards, are only addresses that the filter lets through or
 * that are allowed themselves.
 */
static bool permit(void *arg, const struct sw_qserve_ask *ask, const struct sw_addr *to)
{
    struct sw_connector *c = arg;
    bool udp = ask->kind == SW_QKIND_UDP;
    const struct sw_allow_entry *given =
        sw_allow_find(&c->admit.allow_fixed, ask->host, ask->port, udp);
    char text[SW_IP_TEXT];

    if ((given && !given->wildcard) || sw_slice_ieq(ask->host, c->config->target))
        return true;
    if (sw_allow_find(&c->admit.allow, sw_slice_str(sw_ip_text(&to->ip, text)), to->port, udp))
        return true;
    if (sw_egress_check(c->egress, to, NULL) == SW_OK)
        return true;
    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, "address_denied");
    return false;
}

struct sw_qserve *connector_serve_new(struct sw_connector *c)
{
    struct sw_qserve_config o = {
        .max_streams = c->config->max_streams,
        .no_udp = !c->config->udp,
        .authorise = authorise,
        .permit = permit,
        .ended = connector_ended,
        .conn_closed = on_conn_closed,
        .conn_path = on_conn_path,
        .arg = c,
    };

    return sw_qserve_new(c->loop, &o);
}
