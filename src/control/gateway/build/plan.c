/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What endpoints depend on, as text: it is the input of their own builds, which run without the
 * rest of the model. One item per line; names have neither spaces nor line ends.
 */
#include "base/map.h"
#include "base/vec.h"
#include "control/gateway/build/build.h"
#include "control/gateway/resolved.h"
#include "control/objects.h"

enum { PLAN_MAX = 256 * 1024 * 1024, SHARES_MAX = 64 };

static const char resolved_word[] = "resolved";

static bool plain_text(struct sw_slice s)
{
    return s.n && sw_slice_find(s, ' ') < 0 && sw_slice_find(s, '\n') < 0;
}

static bool is_special(const struct sw_model_cluster *c)
{
    return c->tunnel || c->proto == SW_MODEL_PROTO_UDP;
}

static int write_chain(struct sw_buf *out, const struct sw_model_chain *c)
{
    int rc = sw_buf_printf(out, "udp %.*s\n", SW_SLICE_ARG(c->name));

    for (size_t i = 0; i < c->n_backends && rc == SW_OK; i++) {
        const struct sw_model_backend *b = &c->backends[i];

        rc = sw_buf_printf(out, "share %u %.*s\n", b->weight,
                           b->cluster ? (int)b->cluster->endpoints.n : 1,
                           b->cluster ? b->cluster->endpoints.p : "-");
    }
    return rc;
}

struct sw_slice sw_gateway_plan_write(struct sw_arena *a, const struct sw_model *m)
{
    SW_BUF_AUTO out = {.max = PLAN_MAX};
    int rc = SW_OK;

    for (size_t i = 0; i < m->n_endpoints && rc == SW_OK; i++) {
        const char *word = sw_resolved_parse(m->endpoints[i], NULL, NULL) ? resolved_word : "set";

        if (plain_text(m->endpoints[i]))
            rc = sw_buf_printf(&out, "%s %.*s\n", word, SW_SLICE_ARG(m->endpoints[i]));
    }
    for (size_t i = 0; i < m->n_clusters && rc == SW_OK; i++) {
        const struct sw_model_cluster *c = m->clusters[i];

        if (is_special(c) && plain_text(c->endpoints))
            rc = sw_buf_printf(&out, "%s %.*s\n", c->tunnel ? "tunnel" : "datagrams",
                               SW_SLICE_ARG(c->endpoints));
    }
    for (size_t i = 0; i < m->n_listeners && rc == SW_OK; i++) {
        for (size_t k = 0; m->listeners[i]->udp && k < m->listeners[i]->n_chains; k++)
            rc = write_chain(&out, m->listeners[i]->chains[k]);
    }
    return sw_arena_slice(a, sw_buf_slice(&out));
}

/* ---- reading ---- */

struct reader {
    struct sw_arena *a;
    SW_VEC(struct sw_slice) sets;
    SW_VEC(struct sw_model_cluster *) clusters;
    SW_VEC(struct sw_model_listener *) listeners;
    struct sw_model_chain *chain; /* the last one */
    struct sw_model_backend *shares;
};

static struct sw_model_cluster *read_cluster(struct reader *r, struct sw_slice name, bool tunnel)
{
    struct sw_model_cluster *c = SW_ARENA_NEW(r->a, struct sw_model_cluster);

    c->name = name;
    c->endpoints = name;
    c->tunnel = tunnel;
    c->proto = tunnel ? SW_MODEL_PROTO_HTTP1 : SW_MODEL_PROTO_UDP;
    return c;
}

static void read_chain(struct reader *r, struct sw_slice name)
{
    struct sw_model_listener *l = SW_ARENA_NEW(r->a, struct sw_model_listener);
    const struct sw_model_chain **list = SW_ARENA_NEW(r->a, const struct sw_model_chain *);

    r->chain = SW_ARENA_NEW(r->a, struct sw_model_chain);
    r->shares = sw_arena_array(r->a, SHARES_MAX, sizeof(*r->shares));
    r->chain->name = name;
    r->chain->kind = SW_MODEL_CHAIN_L4;
    r->chain->backends = r->shares;
    list[0] = r->chain;
    l->name = name;
    l->udp = true;
    l->chains = list;
    l->n_chains = 1;
    sw_vec_push(&r->listeners, l);
}

static void read_share(struct reader *r, struct sw_slice rest)
{
    struct sw_slice weight = sw_slice_cut(&rest, ' ');
    struct sw_model_backend *b;
    uint64_t n = 0;

    if (!r->chain || r->chain->n_backends == SHARES_MAX || !sw_slice_to_u64(weight, UINT32_MAX, &n))
        return;
    b = &r->shares[r->chain->n_backends++];
    b->weight = (uint32_t)n;
    if (!sw_slice_eq_str(rest, "-"))
        b->cluster = read_cluster(r, rest, false);
}

static void read_line(struct reader *r, struct sw_slice rest)
{
    struct sw_slice what = sw_slice_cut(&rest, ' ');

    if (!rest.p)
        return;
    if (sw_slice_eq_str(what, "set"))
        sw_vec_push(&r->sets, rest);
    else if (sw_slice_eq_str(what, "tunnel"))
        sw_vec_push(&r->clusters, read_cluster(r, rest, true));
    else if (sw_slice_eq_str(what, "datagrams"))
        sw_vec_push(&r->clusters, read_cluster(r, rest, false));
    else if (sw_slice_eq_str(what, "udp"))
        read_chain(r, rest);
    else if (sw_slice_eq_str(what, "share"))
        read_share(r, rest);
}

void sw_gateway_plan_read(struct sw_arena *a, struct sw_slice text, struct sw_model *ret)
{
    struct reader r = {.a = a};

    while (text.p && text.n)
        read_line(&r, sw_slice_cut(&text, '\n'));
    *ret = (struct sw_model){0};
    ret->endpoints = CN_COPY_VEC(a, &r.sets);
    ret->n_endpoints = r.sets.n;
    ret->clusters = CN_COPY_VEC(a, &r.clusters);
    ret->n_clusters = r.clusters.n;
    ret->listeners = CN_COPY_VEC(a, &r.listeners);
    ret->n_listeners = r.listeners.n;
    sw_vec_done(&r.sets);
    sw_vec_done(&r.clusters);
    sw_vec_done(&r.listeners);
}

/* ---- host names ---- */

struct sw_slice sw_resolved_name(struct sw_arena *a, struct sw_slice host, uint16_t port)
{
    return sw_slice_str(sw_arena_printf(a, SW_RESOLVED_SET "%.*s/%u", SW_SLICE_ARG(host), port));
}

bool sw_resolved_parse(struct sw_slice set, struct sw_slice *ret_host, uint16_t *ret_port)
{
    static const struct sw_slice prefix = SW_SLICE_LIT(SW_RESOLVED_SET);
    struct sw_slice host;
    uint64_t port;

    if (!sw_slice_has_prefix(set, prefix))
        return false;
    set = sw_slice_from(set, prefix.n);
    host = sw_slice_cut(&set, '/');
    if (!host.n || !set.p || !sw_slice_to_u64(set, UINT16_MAX, &port) || !port)
        return false;
    if (ret_host)
        *ret_host = host;
    if (ret_port)
        *ret_port = (uint16_t)port;
    return true;
}

void sw_resolved_wanted(struct sw_slice plan, void (*fn)(void *arg, struct sw_slice set), void *arg)
{
    while (plan.n) {
        struct sw_slice rest = sw_slice_cut(&plan, '\n');

        if (sw_slice_eq_str(sw_slice_cut(&rest, ' '), resolved_word) && rest.n)
            fn(arg, rest);
    }
}
