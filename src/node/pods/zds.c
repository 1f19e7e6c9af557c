/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the node agent: connects to its socket, says hello and fulfils its requests one by
 * one, each with its acknowledgement. A lost connection ends no pod: the agent names all of them
 * again when it is back, and what it does not name then goes.
 */
#include <string.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/unix/packet.h"
#include "node/pods/pods.h"
#include "zds/zds.h"

enum {
    BACKOFF_MIN_MS = 10,
    BACKOFF_MAX_MS = 15000,
    REQUESTS_PER_TURN = 64,
    SNAPSHOT_S = 60, /* how long the agent may take to name its pods */
};

/* As the reference names it in /healthz/ready. */
#define TASK "workload proxy manager"

struct node_zds {
    struct sw_node *node;
    const char *path;
    struct sw_watch watch;
    struct sw_timer timer; /* to connect again, or of the snapshot */
    struct sw_defer more;
    int fd; /* -1: not connected */
    uint64_t generation;
    struct sw_backoff backoff;
    bool snapshot; /* the agent has named all its pods */
    bool logged;   /* that the agent is not there */
};

static void step(struct node_zds *z);

static struct sw_metric *counter(const struct node_zds *z, const char *reason)
{
    return sw_metric_get1(z->node->process.shard, SW_METRIC_ZDS_REFUSALS, reason);
}

static void connect_later(struct node_zds *z);

static void drop(struct node_zds *z, const char *why)
{
    sw_watch_stop(&z->watch);
    sw_defer_cancel(&z->more);
    sw_sock_close(z->fd);
    z->fd = -1;
    z->snapshot = false;
    sw_ready_add(z->node->process.ready, TASK);
    sw_metric_set(sw_metric_get1(z->node->process.shard, SW_METRIC_ZDS_CONNECTED, NULL), 0);
    sw_log_warn("zds", "connection to the node agent closed: %s; keeping its pods, reconnecting",
                why);
    connect_later(z);
}

/* ---- requests ---- */

static int on_add(struct node_zds *z, const struct sw_zds_request *r, struct sw_packet *pk,
                  struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    const char *uid = sw_arena_dup(&a, r->uid);
    struct sw_node_workload who = {
        .ns = sw_arena_dup(&a, r->ns),
        .name = sw_arena_dup(&a, r->name),
        .sa = sw_arena_dup(&a, r->sa),
    };
    int rc;

    if (pk->n_fds != 1)
        return sw_err_set(err, SW_EINVAL, "AddWorkload came with %u descriptors instead of one",
                          pk->n_fds);
    /* Its workers open no port any more: the pod would start redirected to nothing. */
    if (z->node->process.crew.draining) {
        node_pods_mark(z->node, uid, z->generation); /* one that it has stays */
        return sw_err_set(err, SW_EUNAVAIL, "the node proxy is draining");
    }
    rc = node_pods_add(z->node, uid, &who, SW_TAKE_FD(pk->fd), err);
    node_pods_mark(z->node, uid, z->generation);
    return rc;
}

static void on_snapshot(struct node_zds *z)
{
    z->snapshot = true;
    sw_backoff_reset(&z->backoff);
    sw_timer_stop(z->node->process.loop, &z->timer);
    node_pods_sweep(z->node, z->generation);
    sw_ready_done(z->node->process.ready, TASK);
    sw_log_info("zds", "the node agent named all its pods");
}

/* Fatal for the connection: after these both sides could disagree on what there is. */
static int out_of_turn(const struct node_zds *z, const struct sw_zds_request *r, struct sw_err *err)
{
    if (z->snapshot && r->kind == SW_ZDS_KEEP)
        return sw_err_set(err, SW_EPROTO, "KeepWorkload after SnapshotSent");
    if (z->snapshot && r->kind == SW_ZDS_SNAPSHOT)
        return sw_err_set(err, SW_EPROTO, "second SnapshotSent");
    return SW_OK;
}

static int fulfil(struct node_zds *z, const struct sw_zds_request *r, struct sw_packet *pk,
                  struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    int rc = out_of_turn(z, r, err);

    if (rc != SW_OK)
        return rc;
    if (r->kind != SW_ZDS_ADD && pk->n_fds)
        return sw_err_set(err, SW_EINVAL, "descriptor with a request that takes none");
    switch (r->kind) {
    case SW_ZDS_ADD:
        return on_add(z, r, pk, err);
    case SW_ZDS_KEEP:
        node_pods_mark(z->node, sw_arena_dup(&a, r->uid), z->generation);
        break;
    case SW_ZDS_DEL:
        /* Before the snapshot the pod only counts as not named: the snapshot ends it. */
        if (z->snapshot)
            (void)node_pods_del(z->node, sw_arena_dup(&a, r->uid));
        else
            node_pods_mark(z->node, sw_arena_dup(&a, r->uid), 0);
        break;
    case SW_ZDS_SNAPSHOT:
        on_snapshot(z);
        break;
    }
    return SW_OK;
}

static int answer(struct node_zds *z, const struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice out = sw_zds_response_encode(&a, sw_slice_str(err->rc ? err->msg : ""));

    return sw_packet_send(z->fd, out.p, out.n, -1);
}

/* False: the connection is no more. */
static bool handle(struct node_zds *z, const char *bytes, struct sw_packet *pk)
{
    SW_ARENA_AUTO a = {0};
    struct sw_zds_request r;
    struct sw_err err = {0};
    bool fatal;
    int rc = SW_OK;

    if (pk->cut)
        rc = sw_err_set(&err, SW_EPROTO, "packet longer than %d bytes", SW_ZDS_PACKET_MAX);
    if (rc == SW_OK)
        rc = sw_zds_request_decode(&a, sw_slice(bytes, pk->n), &r, &err);
    if (rc == SW_OK)
        rc = fulfil(z, &r, pk, &err);
    sw_sock_close(pk->fd);
    err.rc = rc;
    fatal = rc == SW_EPROTO;
    if (rc != SW_OK) {
        sw_metric_add(counter(z, fatal ? "protocol" : "pod"), 1);
        sw_log_warn("zds", "request of the node agent refused: %s", err.msg);
    }
    rc = answer(z, &err);
    if (fatal || rc != SW_OK) {
        drop(z, fatal ? err.msg : "cannot answer");
        return false;
    }
    return true;
}

static void on_more(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct node_zds, more));
}

static void step(struct node_zds *z)
{
    char bytes[SW_ZDS_PACKET_MAX];

    for (int i = 0; i < REQUESTS_PER_TURN; i++) {
        struct sw_packet pk;
        int rc = sw_packet_recv(z->fd, bytes, sizeof(bytes), &pk);

        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            drop(z, rc == SW_EOF ? "the agent closed it" : "cannot read");
            return;
        }
        if (!handle(z, bytes, &pk))
            return;
    }
    sw_loop_defer(z->node->process.loop, &z->more, on_more);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    step(SW_CONTAINER_OF(w, struct node_zds, watch));
}

/* ---- connecting ---- */

static void on_snapshot_late(struct sw_timer *t)
{
    drop(SW_CONTAINER_OF(t, struct node_zds, timer), "no SnapshotSent in time");
}

static int send_hello(struct node_zds *z, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice hello = sw_zds_hello_encode(&a);

    if (sw_packet_send(z->fd, hello.p, hello.n, -1) != SW_OK)
        return sw_err_set(err, SW_ECLOSED, "cannot send the hello");
    return SW_OK;
}

static int connect_now(struct node_zds *z, struct sw_err *err)
{
    int rc = sw_sock_connect_unix(SOCK_SEQPACKET, z->path, &z->fd, err);

    if (rc == SW_OK)
        rc = send_hello(z, err);
    if (rc == SW_OK)
        rc = sw_watch_start(z->node->process.loop, &z->watch, z->fd, on_event, err);
    if (rc != SW_OK) {
        sw_sock_close(z->fd);
        z->fd = -1;
    }
    return rc;
}

static void on_connect(struct sw_timer *t)
{
    struct node_zds *z = SW_CONTAINER_OF(t, struct node_zds, timer);
    struct sw_err err = {0};

    if (z->node->process.crew.draining)
        return;
    if (connect_now(z, &err) != SW_OK) {
        if (!z->logged)
            sw_log_warn("zds", "node agent unreachable: %s; retrying", err.msg);
        z->logged = true;
        connect_later(z);
        return;
    }
    z->logged = false;
    z->generation++;
    sw_metric_set(sw_metric_get1(z->node->process.shard, SW_METRIC_ZDS_CONNECTED, NULL), 1);
    sw_log_info("zds", "connected to the node agent");
    sw_timer_start(z->node->process.loop, &z->timer, SNAPSHOT_S * SW_NS_PER_S, on_snapshot_late);
    step(z);
}

static void connect_later(struct node_zds *z)
{
    uint64_t wait =
        sw_backoff_next(&z->backoff, BACKOFF_MIN_MS * SW_NS_PER_MS, BACKOFF_MAX_MS * SW_NS_PER_MS);

    sw_timer_start(z->node->process.loop, &z->timer, wait, on_connect);
}

struct node_zds *node_zds_new(struct sw_node *n, const char *path)
{
    struct node_zds *z = SW_NEW(struct node_zds);

    z->node = n;
    z->path = path;
    z->fd = -1;
    sw_ready_add(n->process.ready, TASK);
    sw_metric_set(sw_metric_get1(n->process.shard, SW_METRIC_ZDS_CONNECTED, NULL), 0);
    sw_timer_start(n->process.loop, &z->timer, 0, on_connect);
    return z;
}

void node_zds_free(struct node_zds *z)
{
    if (!z)
        return;
    sw_timer_stop(z->node->process.loop, &z->timer);
    sw_defer_cancel(&z->more);
    sw_watch_stop(&z->watch);
    sw_sock_close(z->fd);
    sw_free(z);
}
