/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of a node: from the command line, then the control plane, then DNS. The handshake
 * proves the key in any case, so a wrong answer costs time and nothing else.
 */
#include "base/mem.h"
#include "dns/stub.h"
#include "quic/id/discovery.h"
#include "sidecar/sidecar_int.h"

struct peer {
    struct sw_quic_target target;
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
};

/* A question to DNS, or one that waits for the control plane's first list. */
struct ask {
    struct sw_list link;
    struct side_where *w;
    struct sw_qlookup *l;
    struct sw_discovery *d; /* NULL: waits */
};

struct side_where {
    struct sw_sidecar *s;
    struct sw_map peers; /* id -> struct peer */
    struct sw_arena arena;
    struct sw_dns_stub *stub; /* NULL: without DNS */
    struct sw_dns_name origin;
    struct sw_list asks;
};

/* ---- the command line ---- */

static int parse_place(struct side_where *w, struct peer *p, struct sw_slice text,
                       struct sw_err *err)
{
    int rc;

    if (sw_slice_has_prefix(text, SW_SLICE_LIT("relay="))) {
        p->target.relay = sw_arena_slice(&w->arena, sw_slice_from(text, 6));
        return side_relays_add(w->s->relays, p->target.relay, err);
    }
    if (p->target.n_addrs == SW_QUIC_ADDRS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", SW_QUIC_ADDRS_MAX);
    rc = sw_addr_parse(text, &p->addrs[p->target.n_addrs], err);
    if (rc == SW_OK)
        p->target.n_addrs++;
    return rc;
}

/* "ID=ADDR[,ADDR][,relay=URL]" */
static int parse_peer(struct side_where *w, const char *text, struct sw_err *err)
{
    struct sw_slice rest = sw_slice_str(text);
    struct sw_slice id = sw_slice_cut(&rest, '=');
    struct peer *p = SW_ARENA_NEW(&w->arena, struct peer);
    int rc = sw_nodeid_parse(id, &p->target.id, err);

    p->target.addrs = p->addrs;
    if (rc == SW_OK && !rest.p)
        rc = sw_err_set(err, SW_EINVAL, "no address");
    while (rc == SW_OK && rest.p)
        rc = parse_place(w, p, sw_slice_cut(&rest, ','), err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--peer '%.80s'", text);
    (void)sw_map_put(&w->peers, sw_slice(p->target.id.b, SW_NODEID_LEN), p);
    return SW_OK;
}

static int start_dns(struct side_where *w, struct sw_err *err)
{
    const struct sw_sidecar_config *c = w->s->c;
    struct sw_dns_stub_opts o = {0};
    int rc = sw_dns_name_parse(sw_slice_str(c->dns_origin), &w->origin, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "--dns-origin");
    if (c->dns_resolvers.n > SW_DNS_SERVERS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d --dns-resolver", SW_DNS_SERVERS_MAX);
    for (size_t i = 0; i < c->dns_resolvers.n; i++) {
        rc = sw_dns_server_parse(sw_slice_str(c->dns_resolvers.p[i]), &o.servers[i], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "--dns-resolver");
        o.n_servers++;
    }
    w->stub = sw_dns_stub_new(w->s->loop, &o, err);
    return w->stub ? SW_OK : err->rc;
}

struct side_where *side_where_new(struct sw_sidecar *s, struct sw_err *err)
{
    struct side_where *w = SW_NEW(struct side_where);
    int rc = SW_OK;

    w->s = s;
    sw_list_init(&w->asks);
    for (size_t i = 0; i < s->c->peers.n && rc == SW_OK; i++)
        rc = parse_peer(w, s->c->peers.p[i], err);
    if (rc == SW_OK && s->c->dns_origin)
        rc = start_dns(w, err);
    if (rc == SW_OK)
        return w;
    side_where_free(w);
    return NULL;
}

static void ask_free(struct ask *a)
{
    sw_list_unlink(&a->link);
    sw_free(a);
}

void side_where_free(struct side_where *w)
{
    if (!w)
        return;
    SW_LIST_EACH (struct ask, a, &w->asks, link) {
        sw_discovery_cancel(a->d);
        ask_free(a);
    }
    sw_dns_stub_free(w->stub);
    sw_map_done(&w->peers);
    sw_arena_clear(&w->arena);
    sw_free(w);
}

/* ---- asking ---- */

static struct ask *ask_new(struct side_where *w, struct sw_qlookup *l)
{
    struct ask *a = SW_NEW(struct ask);

    a->w = w;
    a->l = l;
    sw_qlookup_set(l, a);
    sw_list_push_back(&w->asks, &a->link);
    return a;
}

/* The publisher of the records chose the addresses: those that the filter denies are left out. */
static void found_by_dns(struct sw_egress *egress, struct sw_qlookup *l,
                         const struct sw_quic_target *t)
{
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
    struct sw_quic_target to = *t;

    to.addrs = addrs;
    to.n_addrs = 0;
    for (size_t i = 0; i < t->n_addrs && to.n_addrs < SW_QUIC_ADDRS_MAX; i++) {
        if (sw_egress_check(egress, &t->addrs[i], NULL) == SW_OK)
            addrs[to.n_addrs++] = t->addrs[i];
    }
    if (to.n_addrs || to.relay.n)
        sw_qlookup_found(l, &to);
    else
        sw_qlookup_failed(l, SW_QFAIL_UNKNOWN_NODE, "all addresses of the node are denied");
}

static void on_dns(void *arg, const struct sw_discovery_result *r)
{
    struct ask *a = arg;
    struct sw_qlookup *l = a->l;
    struct sw_egress *egress = a->w->s->egress;

    ask_free(a);
    if (r->rc == SW_OK)
        found_by_dns(egress, l, r->target);
    else if (r->rc == SW_ENOENT)
        sw_qlookup_failed(l, SW_QFAIL_UNKNOWN_NODE, "the node is not published");
    else
        sw_qlookup_failed(l, SW_QFAIL_LOOKUP, r->err.msg);
}

static void ask_dns(struct side_where *w, struct sw_qlookup *l)
{
    struct ask *a;

    if (!w->stub) {
        sw_qlookup_failed(l, SW_QFAIL_UNKNOWN_NODE, "NodeID not found in any source");
        return;
    }
    a = ask_new(w, l);
    a->d = sw_discovery_start(w->stub, sw_qlookup_id(l), &w->origin, on_dns, a);
}

/* The control plane's word, then DNS. */
static void ask_others(struct side_where *w, struct sw_qlookup *l)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_quic_target t = {0};
    enum side_known known =
        w->s->api ? side_api_find(w->s->api, sw_qlookup_id(l), &tmp, &t) : SIDE_UNKNOWN;

    switch (known) {
    case SIDE_ONLINE:
        if (t.n_addrs || t.relay.n)
            sw_qlookup_found(l, &t);
        else
            ask_dns(w, l); /* it is there but did not say where */
        break;
    case SIDE_OFFLINE:
        sw_qlookup_failed(l, SW_QFAIL_OFFLINE, "the connector is not online");
        break;
    case SIDE_NOT_SYNCED:
        if (w->stub)
            ask_dns(w, l);
        else
            (void)ask_new(w, l); /* until the first list is there */
        break;
    case SIDE_UNKNOWN:
        ask_dns(w, l);
        break;
    }
}

void side_where_resolve(struct side_where *w, struct sw_qlookup *l)
{
    const struct peer *p = sw_map_get(&w->peers, sw_slice(sw_qlookup_id(l)->b, SW_NODEID_LEN));

    if (p)
        sw_qlookup_found(l, &p->target);
    else
        ask_others(w, l);
}

void side_where_cancel(struct side_where *w, struct sw_qlookup *l)
{
    struct ask *a = sw_qlookup_get(l);

    if (!a)
        return;
    sw_discovery_cancel(a->d);
    ask_free(a);
}

void side_where_synced(struct side_where *w)
{
    struct sw_list waiting;
    struct ask *a;

    sw_list_init(&waiting);
    SW_LIST_EACH (struct ask, it, &w->asks, link) {
        if (!it->d) {
            sw_list_unlink(&it->link);
            sw_list_push_back(&waiting, &it->link);
        }
    }
    while ((a = SW_LIST_FIRST(&waiting, struct ask, link))) {
        struct sw_qlookup *l = a->l;

        ask_free(a);
        sw_qlookup_set(l, NULL);
        ask_others(w, l);
    }
}

void side_where_failed(struct side_where *w, const struct sw_nodeid *id)
{
    struct sw_dns_name name;

    if (!w->stub || sw_map_get(&w->peers, sw_slice(id->b, SW_NODEID_LEN)))
        return;
    if (sw_discovery_name(id, sw_slice_str(w->s->c->dns_origin), &name, NULL) == SW_OK)
        sw_dns_stub_forget(w->stub, &name);
}
