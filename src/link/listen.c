/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of imports, one per worker and address. An update keeps the sockets whose import and port
 * are the same; a port that cannot be bound is logged once, counted, and tried again every second.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "link/link_int.h"

enum { TRIES_PER_TURN = 1000 }; /* of sockets that could not be opened */

struct link_socket {
    struct sw_list link;
    struct sw_acceptor acceptor; /* its fd is -1: not open */
    struct link_worker *w;
    struct link_res *import; /* a reference */
    struct sw_addr at;
    bool keep;
    bool logged; /* that it cannot be opened */
};

static void on_rebind(struct sw_timer *t);

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct link_socket *s = SW_CONTAINER_OF(a, struct link_socket, acceptor);

    link_import_start(s->w, s->import, fd, peer);
}

static void set_unbound(struct link_worker *w)
{
    size_t n = 0;

    SW_LIST_EACH (const struct link_socket, s, &w->sockets, link)
        n += s->acceptor.fd < 0;
    sw_metric_gauge(w->shard, SW_METRIC_LINK_UNBOUND, NULL, (int64_t)n);
    if (n && !sw_timer_running(&w->rebind))
        sw_timer_start(w->loop, &w->rebind, SW_NS_PER_S, on_rebind);
}

static void open_socket(struct link_socket *s)
{
    struct link_worker *w = s->w;
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    char at[SW_ADDR_TEXT];
    int mark = -1;
    int fd = -1;
    int rc;

    o.share = w->link->port_group;
    o.ret_mark = &mark;
    o.unnamed = w->thread.index > 0 || s->logged; /* log the holder of the port once */
    rc = sw_sock_listen(&s->at, &o, &fd, &err);
    if (rc == SW_OK)
        rc = sw_accept_open(&w->accept, &s->acceptor, fd, on_accept, &err);
    if (rc == SW_OK) {
        s->acceptor.mark = mark;
        if (s->logged && w->thread.index == 0)
            sw_log_info("link", "import '%.*s' listens on %s now", SW_SLICE_ARG(s->import->name),
                        sw_addr_text(&s->at, at));
        s->logged = false;
        return;
    }
    s->acceptor.fd = -1;
    sw_sock_close(mark);
    if (!s->logged && w->thread.index == 0)
        sw_log_error("link", "import '%.*s' cannot listen on %s, retrying: %s",
                     SW_SLICE_ARG(s->import->name), sw_addr_text(&s->at, at), err.msg);
    s->logged = true;
}

static void on_rebind(struct sw_timer *t)
{
    struct link_worker *w = SW_CONTAINER_OF(t, struct link_worker, rebind);
    int tries = 0;

    SW_LIST_EACH (struct link_socket, s, &w->sockets, link) {
        if (s->acceptor.fd < 0 && tries++ < TRIES_PER_TURN)
            open_socket(s);
    }
    set_unbound(w);
}

static void socket_free(struct link_socket *s)
{
    sw_accept_close(&s->acceptor);
    sw_list_unlink(&s->link);
    (void)link_res_unref(s->import);
    sw_free(s);
}

static void socket_new(struct link_worker *w, struct link_res *import, const struct sw_addr *at)
{
    struct link_socket *s = SW_NEW(struct link_socket);

    *s = (struct link_socket){
        .acceptor = {.fd = -1, .mark = -1}, .w = w, .import = link_res_ref(import), .at = *at};
    s->keep = true;
    sw_list_push_back(&w->sockets, &s->link);
    open_socket(s);
}

/* Sockets that stay. Those of the same place with another import pass to it. */
static void mark_kept(struct link_worker *w, struct sw_map *have)
{
    SW_LIST_EACH (struct link_socket, s, &w->sockets, link) {
        struct link_res *now = sw_map_get(&w->snap->imports, s->import->name);

        s->keep = now && now->at.port == s->at.port &&
                  (w->link->n_import_ips || sw_ip_is_any(&s->at.ip) == sw_ip_is_any(&now->at.ip));
        if (!s->keep)
            continue;
        (void)link_res_ref(now);
        (void)link_res_unref(s->import);
        s->import = now;
        (void)sw_map_put(have, now->name, now);
    }
}

static void open_import(struct link_worker *w, struct link_res *import)
{
    static const struct sw_ip any = {.family = 6};
    const struct sw_link *l = w->link;
    struct sw_addr at = {.port = import->at.port};

    for (size_t i = 0; i < l->n_import_ips; i++) {
        at.ip = l->import_ips[i];
        socket_new(w, import, &at);
    }
    if (l->n_import_ips == 0) {
        /* ClusterLink says 0.0.0.0 whatever it means. */
        at.ip = sw_ip_is_any(&import->at.ip) ? any : import->at.ip;
        socket_new(w, import, &at);
    }
}

void link_listen_apply(struct link_worker *w)
{
    struct sw_map have = {0};

    mark_kept(w, &have);
    SW_LIST_EACH (struct link_socket, s, &w->sockets, link) {
        if (!s->keep)
            socket_free(s);
    }
    SW_MAP_FOREACH (slot, &w->snap->imports) {
        if (!sw_map_get(&have, slot->key))
            open_import(w, slot->value);
    }
    sw_map_done(&have);
    set_unbound(w);
}

void link_listen_finish(struct link_worker *w)
{
    sw_timer_stop(w->loop, &w->rebind);
    SW_LIST_EACH (struct link_socket, s, &w->sockets, link)
        sw_accept_finish(&s->acceptor);
}

void link_listen_close(struct link_worker *w)
{
    sw_timer_stop(w->loop, &w->rebind);
    SW_LIST_EACH (struct link_socket, s, &w->sockets, link)
        socket_free(s);
}
