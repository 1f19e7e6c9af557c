/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: its loop, its listeners, and the orders of the main thread. */
#include "base/time.h"
#include "io/sock.h"
#include "link/link_int.h"
#include "tls/cert/cred.h"
#include "tunnel/scratch.h"

static struct link_worker *worker_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct link_worker, thread);
}

/* ---- orders ---- */

/* Sessions opened with another certificate take no new streams. */
static void drain_old(struct sw_session *s, const void *owner, void *arg)
{
    if (owner != arg)
        sw_session_drain(s);
}

static bool epoch_changed(const struct link_snap *old, const struct link_snap *now)
{
    return old && now->n_epoch &&
           !sw_slice_eq(sw_slice(old->epoch, old->n_epoch), sw_slice(now->epoch, now->n_epoch));
}

static void take_snap(struct sw_crew_thread *t, void *arg)
{
    struct link_worker *w = worker_of(t);
    struct link_snap *old = w->snap;

    if (t->stopped) {
        (void)link_snap_unref(arg);
        return;
    }
    w->snap = arg;
    if (!t->draining) {
        if (w->snap->cred)
            sw_accept_hold(&w->accept, false);
        link_listen_apply(w);
    }
    if (old && old->cred_version && old->cred_version != w->snap->cred_version) {
        sw_pool_each(w->pool, drain_old, (void *)(uintptr_t)w->snap->cred_version);
        link_servers_drain(w, true);
    }
    link_reach_sweep(w);
    if (epoch_changed(old, w->snap)) {
        w->epochs++;
        link_review_start(w->review);
    }
    (void)link_snap_unref(old);
}

void link_worker_send_snap(struct link_worker *w, struct link_snap *s)
{
    sw_crew_order(&w->thread, take_snap, s);
}

static void take_site(struct sw_crew_thread *t, void *arg)
{
    struct link_worker *w = worker_of(t);

    if (!t->stopped)
        link_control_set_cred(w->control, arg);
    (void)sw_tls_cred_unref(arg);
}

void link_worker_send_site(struct link_worker *w, struct sw_tls_cred *cred)
{
    sw_crew_order(&w->thread, take_site, cred);
}

/* ---- the end ---- */

static void worker_drain(struct sw_crew_thread *t)
{
    struct link_worker *w = worker_of(t);

    link_listen_finish(w);
    for (size_t i = 0; i < w->n_ports; i++)
        sw_accept_finish(&w->ports[i].acceptor);
    link_servers_drain(w, false);
}

static bool worker_idle(struct sw_crew_thread *t)
{
    const struct link_worker *w = worker_of(t);

    return w->n_conns == 0 && w->n_servers == 0;
}

static void worker_kill(struct sw_crew_thread *t)
{
    struct link_worker *w = worker_of(t);

    link_listen_close(w);
    sw_accept_done(&w->accept);
    while (!sw_list_empty(&w->conns)) {
        struct link_conn *c = SW_CONTAINER_OF(w->conns.next, struct link_conn, link);

        c->kill(c, "drained", "connection closed: the process ends");
    }
    link_servers_kill(w);
}

static void worker_end(struct sw_crew_thread *t)
{
    struct link_worker *w = worker_of(t);

    link_review_free(SW_TAKE(w->review));
    link_control_free(SW_TAKE(w->control));
    sw_pool_free(SW_TAKE(w->pool));
    w->snap = link_snap_unref(w->snap);
    link_reach_sweep(w);
    sw_map_done(&w->far);
    sw_map_done(&w->peers);
    sw_vec_done(&w->bad);
}

static const struct sw_crew_ops worker_ops = {
    .drain = worker_drain,
    .idle = worker_idle,
    .kill = worker_kill,
    .end = worker_end,
    .leave = sw_scratch_done,
};

/* ---- the beginning ---- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    link_server_accept(SW_CONTAINER_OF(a, struct link_port, acceptor)->w, fd, peer);
}

static void on_pause(struct sw_accept_group *g)
{
    struct link_worker *w = SW_CONTAINER_OF(g, struct link_worker, accept);

    sw_metric_count(w->shard, SW_METRIC_ACCEPT_PAUSES, NULL);
}

static int open_port(struct link_worker *w, struct sw_addr *at, struct sw_err *err)
{
    struct link_port *p = &w->ports[w->n_ports];
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    char text[SW_ADDR_TEXT];
    int fd = -1;
    int rc;

    *p = (struct link_port){.acceptor = {.fd = -1, .mark = -1}, .w = w};
    o.share = w->link->port_group;
    o.ret_mark = &p->acceptor.mark;
    rc = sw_sock_listen(at, &o, &fd, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--listen %s", sw_addr_text(at, text));
    *at = sw_sock_local(fd); /* a port of 0 is the same one for all workers */
    w->n_ports++;
    return sw_accept_open(&w->accept, &p->acceptor, fd, on_accept, err);
}

static int open_clients(struct link_worker *w, struct sw_err *err)
{
    const struct sw_link *l = w->link;
    struct link_control_opts o = {
        .loop = w->loop,
        .shard = w->shard,
        .clusterlink = w->config->form == SW_LINK_CONTROL_CLUSTERLINK,
        .host = l->control_host,
        .port = l->control_port,
        .tls_name = sw_slice_str(w->config->control_name),
        .cred = l->site,
        .timeout_ns = w->config->authorise_ns,
    };
    struct sw_pool_config pool = {
        .max_streams = 10000,
        .unused_release_ns = w->config->pool_unused_ns,
        .connect_timeout_ns = w->config->connect_ns,
        .tls12 = true,
        .alpn = "h2,http/1.1",
        .on_other = link_reach_other,
        .session = {.stream_window = 4 << 20,
                    .connection_window = 16 << 20,
                    .max_frame = 1 << 20,
                    .handshake_ns = 5 * SW_NS_PER_S,
                    .ping_interval_ns = 30 * SW_NS_PER_S,
                    .ping_timeout_ns = 20 * SW_NS_PER_S},
    };

    w->control = link_control_new(&o, err);
    w->pool = sw_pool_new(w->loop, &pool);
    w->review = link_review_new(w);
    return w->control ? SW_OK : err->rc;
}

int link_worker_init(struct link_worker *w, struct sw_link *l, struct sw_err *err)
{
    int rc;

    *w = (struct link_worker){.link = l, .config = l->config};
    sw_list_init(&w->sockets);
    sw_list_init(&w->conns);
    sw_list_init(&w->servers);
    w->shard = sw_metrics_shard_new(l->process.metrics);
    rc = sw_crew_thread_init(&w->thread, &l->process.crew, &worker_ops, err);
    if (rc != SW_OK)
        return rc;
    w->loop = w->thread.loop;
    sw_accept_init(&w->accept, w->loop, "link");
    sw_accept_keep_spare(&w->accept);
    w->accept.on_pause = on_pause;
    sw_accept_hold(&w->accept, true); /* until there is a certificate */
    for (size_t i = 0; i < l->n_listen && rc == SW_OK; i++)
        rc = open_port(w, &l->listen[i], err);
    return rc == SW_OK ? open_clients(w, err) : rc;
}

void link_worker_done(struct link_worker *w)
{
    if (w->loop && !w->thread.started) /* it never ran: these have no other owner */
        worker_end(&w->thread);
    sw_accept_done(&w->accept);
    sw_crew_thread_done(&w->thread);
    sw_metrics_shard_free(w->shard);
}
