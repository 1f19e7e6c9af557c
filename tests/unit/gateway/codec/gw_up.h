/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream codecs and their pool below the real exchange core: the client's side is a record of
 * what it was told, the server is the test, the clock is fake.
 */
#pragma once

#include "gw_peer.h"

#include "base/mem.h"
#include "gateway/codec/up.h"
#include "gateway/codec/up_pool.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/exchange/state.h"
#include "gateway/upstream/hosts.h"

enum { UP_REQS = 12 };

/* One request and what its client got. */
struct up_req {
    struct sw_exchange *x; /* NULL: it is over */
    int status;
    uint32_t flags;
    unsigned attempts;
    char failure[96];
    char body[512];
    size_t n_body;
    bool ended;
    bool aborted;
    unsigned pauses;
};

static struct {
    struct sw_gw_store *store;
    struct sw_gw_worker worker;
    struct sw_gw_view *view;
    struct sw_gw_cluster *cluster; /* borrowed: of the view */
    struct sw_gw_cluster_spec *spec;
    struct sw_addr at;
    int listener;
    struct up_req reqs[UP_REQS];
} up;

static inline struct up_req *up_req_of(struct sw_exchange *x)
{
    return x->down.stream;
}

static inline void up_down_head(struct sw_exchange *x, bool end)
{
    struct up_req *r = up_req_of(x);

    (void)end;
    r->status = x->resp.status;
    r->flags = x->flags;
    r->attempts = x->attempts;
    (void)snprintf(r->failure, sizeof(r->failure), "%s", x->failure);
}

static inline void up_down_data(struct sw_exchange *x, struct sw_slice data)
{
    struct up_req *r = up_req_of(x);

    if (r->n_body + data.n < sizeof(r->body))
        memcpy(r->body + r->n_body, data.p, data.n);
    r->n_body += data.n;
}

static inline void up_down_end(struct sw_exchange *x)
{
    up_req_of(x)->ended = true;
}

static inline void up_down_abort(struct sw_exchange *x)
{
    struct up_req *r = gw_side_detach(&x->down);

    (void)snprintf(r->failure, sizeof(r->failure), "%s", x->failure);
    r->aborted = true;
    r->x = NULL;
}

static inline void up_down_done(struct sw_exchange *x)
{
    struct up_req *r = gw_side_detach(&x->down);

    r->ended = true;
    r->x = NULL;
}

static inline void up_down_pause(struct sw_gw_side *s)
{
    ((struct up_req *)s->stream)->pauses++;
}

static const struct sw_gw_side_ops up_down_ops = {
    .send_head = up_down_head,
    .send_data = up_down_data,
    .send_end = up_down_end,
    .flush = gw_side_nothing,
    .blocked = gw_side_never_blocked,
    .pause = up_down_pause,
    .resume = gw_side_nothing,
    .abort = up_down_abort,
    .done = up_down_done,
    .send_info = gw_side_no_info,
};

static inline int up_route(struct sw_exchange *x)
{
    x->rs = SW_ARENA_NEW(&x->arena, struct sw_gw_route_state);
    x->rs->cluster = SW_SLICE_LIT("c");
    return SW_OK;
}

static inline void up_response(struct sw_exchange *x)
{
    (void)x;
}

static const struct sw_gw_calls up_calls = {
    .route = up_route,
    .response = up_response,
    .connect = sw_gw_pool_get,
    .cancel = sw_gw_pool_cancel,
    .release_pool = sw_gw_pool_release,
};

static inline struct up_req *up_prepare(unsigned i, const char *method)
{
    struct sw_exchange *x = sw_exchange_new(&up.worker);
    struct up_req *r = &up.reqs[i];

    assert_true(i < UP_REQS);
    *r = (struct up_req){.x = x};
    x->req.method = sw_slice_str(method);
    x->req.path = sw_slice_str(sw_arena_printf(&x->arena, "/%u", i));
    x->req.authority = SW_SLICE_LIT("h");
    x->req.scheme = SW_SLICE_LIT("http");
    x->req.version = SW_GW_HTTP11;
    x->down.ops = &up_down_ops;
    x->down.stream = r;
    return r;
}

/* A request without a body, or with one that follows. */
static inline struct up_req *up_start(unsigned i, const char *method, bool end)
{
    struct up_req *r = up_prepare(i, method);

    r->x->req.length = end ? SW_GW_LENGTH_NONE : SW_GW_LENGTH_UNKNOWN;
    sw_exchange_start(r->x, end);
    return r;
}

/* A request to speak another protocol from now on. */
static inline struct up_req *up_start_upgrade(unsigned i, struct sw_slice protocol)
{
    struct up_req *r = up_prepare(i, "GET");

    r->x->req.upgrade = protocol;
    r->x->req.length = SW_GW_LENGTH_TUNNEL;
    r->x->plan.upgrade = true;
    sw_exchange_start(r->x, false);
    return r;
}

/* The attempt failed, and another one is due: its time comes. */
static inline void up_repeat(struct up_req *r)
{
    GW_UNTIL(up.worker.loop, !r->x || r->x->state == SW_GW_X_BACKOFF);
    assert_non_null(r->x);
    gw_pass(up.worker.loop, SW_NS_PER_MS);
}

static inline struct sw_gw_cluster_cell *up_cell(void)
{
    return &up.cluster->state->cells[0];
}

static inline struct sw_gw_pool *up_pool(void)
{
    assert_false(sw_list_empty(&up.worker.pools));
    return SW_CONTAINER_OF(up.worker.pools.next, struct sw_gw_pool, link);
}

static inline int up_set_up(void **state)
{
    struct sw_err err = {0};
    char json[512];

    (void)state;
    memset(&up, 0, sizeof(up));
    up.listener = gw_listen(&up.at);
    up.store = gw_store(1);
    (void)snprintf(json, sizeof(json),
                   "{'name':'c','load_assignment':{'cluster_name':'c','endpoints':[{'lb_endpoints':"
                   "[{'endpoint':"
                   "{'address':{'socket_address':{'address':'127.0.0.1','port_value':%u}}}}]}]}}",
                   up.at.port);
    assert_int_equal(gw_put(up.store, SW_GW_TYPE_CLUSTER, "c", json, &err), SW_OK);
    up.worker.calls = &up_calls;
    up.worker.n_workers = 1;
    up.worker.loop = gw_loop();
    sw_list_init(&up.worker.exchanges);
    sw_list_init(&up.worker.ended);
    sw_list_init(&up.worker.pools);
    sw_list_init(&up.worker.downs);
    up.view = SW_NEW(struct sw_gw_view);
    up.view->config = sw_gw_config_ref(gw_flush(up.store));
    up.view->refs = 1;
    up.worker.view = up.view;
    up.worker.hosts = sw_gw_hosts_new(&up.worker);
    up.cluster = sw_gw_config_cluster(up.view->config, SW_SLICE_LIT("c"));
    assert_non_null(up.cluster);
    up.spec = up.cluster->spec;
    return 0;
}

static inline int up_tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < UP_REQS; i++) {
        if (up.reqs[i].x)
            sw_exchange_kill(up.reqs[i].x);
    }
    sw_exchange_reap(&up.worker);
    assert_int_equal(up.worker.n_exchanges, 0);
    sw_gw_pools_close(&up.worker);
    sw_gw_hosts_free(up.worker.hosts);
    gw_turns(up.worker.loop, 4);
    assert_true(sw_list_empty(&up.worker.pools)); /* none is kept by a count that is wrong */
    assert_int_equal(up_cell()->cx, 0);
    assert_int_equal(up_cell()->pending, 0);
    assert_int_equal(up_cell()->active, 0);
    SW_VEC_FOREACH (struct sw_exchange *, it, &up.worker.spare) {
        sw_timer_stop(up.worker.loop, &(*it)->clock.timer);
        sw_arena_clear(&(*it)->arena);
        sw_free(*it);
    }
    sw_vec_done(&up.worker.spare);
    for (int k = 0; k < 2; k++) {
        SW_VEC_FOREACH (struct sw_h1 *, it, &up.worker.parsers[k])
            sw_h1_free(*it);
        sw_vec_done(&up.worker.parsers[k]);
    }
    (void)sw_gw_view_unref(up.view);
    sw_loop_free(up.worker.loop);
    sw_sock_close(up.listener);
    sw_gw_store_free(up.store);
    return 0;
}
