/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/pool.h"

#include <assert.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "tunnel/dial.h"

struct pool_key {
    struct sw_slice bytes; /* owned */
    struct sw_slice place; /* owned */
    struct sw_ip ip;
    struct sw_list conns;
};

struct sw_pool {
    struct sw_loop *loop;
    struct sw_pool_config config;
    struct sw_map keys; /* struct pool_key */
    size_t n_conns;
    bool closing;
};

/* Memory of its own, so that an idle connection does not carry it. */
struct pool_dial {
    struct sw_dial dial;
    struct sw_pool_conn *conn;
};

struct sw_pool_conn {
    struct sw_list link; /* in its key */
    struct sw_pool *pool;
    struct pool_key *key;
    const void *owner;
    struct sw_tls_cred *cred; /* owned, until the handshake starts */
    struct sw_slice *sans;    /* owned copies, until the handshake ends */
    size_t n_sans;
    char *host; /* owned, until the handshake ends; NULL: sans count */
    const char *alpn;
    bool alone;                 /* not for other waiters until it turns out to be HTTP/2 */
    struct pool_dial *dial;     /* owned, while connecting */
    struct sw_session *session; /* from then on */
    bool ready;                 /* TLS is done */
    bool over;                  /* failed, about to be freed: takes no more waiters */
    struct sw_list waiters;
    size_t n_waiters;
    struct sw_timer unused;
};

static void key_put(struct sw_buf *b, const void *p, size_t n)
{
    uint32_t len = (uint32_t)n;

    /* Lengths keep "ab"+"c" and "a"+"bc" apart. */
    (void)!sw_buf_append(b, &len, sizeof(len));
    (void)!sw_buf_append(b, p, n);
}

static void make_key(const struct sw_pool_target *t, struct sw_buf *b)
{
    struct sw_slice id = sw_tls_cred_uri(t->cred);

    sw_buf_init(b, SIZE_MAX); /* a cut key could stand for other names; callers bound theirs */
    key_put(b, &t->owner, sizeof(t->owner));
    key_put(b, &t->addr.ip, sizeof(t->addr.ip));
    key_put(b, &t->addr.port, sizeof(t->addr.port));
    key_put(b, &t->src, sizeof(t->src));
    key_put(b, id.p, id.n);
    key_put(b, t->place.p, t->place.n);
    if (t->host)
        key_put(b, t->host, strlen(t->host));
    for (size_t i = 0; i < t->n_sans; i++)
        key_put(b, t->sans[i].p, t->sans[i].n);
}

struct sw_pool *sw_pool_new(struct sw_loop *l, const struct sw_pool_config *c)
{
    struct sw_pool *p = SW_NEW(struct sw_pool);

    p->loop = l;
    p->config = *c;
    return p;
}

static void drop_sans(struct sw_pool_conn *c)
{
    for (size_t i = 0; i < c->n_sans; i++)
        sw_slice_free(&c->sans[i]);
    sw_free(SW_TAKE(c->sans));
    c->n_sans = 0;
    sw_free(SW_TAKE(c->host));
}

static void conn_free(struct sw_pool_conn *c)
{
    struct sw_pool *p = c->pool;
    struct pool_key *k = c->key;

    sw_timer_stop(p->loop, &c->unused);
    if (c->dial)
        sw_dial_cancel(&c->dial->dial);
    sw_free(c->dial);
    c->cred = sw_tls_cred_unref(c->cred);
    drop_sans(c);
    sw_list_unlink(&c->link);
    p->n_conns--;
    if (sw_list_empty(&k->conns)) {
        (void)sw_map_del(&p->keys, k->bytes);
        sw_slice_free(&k->bytes);
        sw_slice_free(&k->place);
        sw_free(k);
    }
    sw_free(c);
    if (p->closing && p->n_conns == 0) {
        sw_map_done(&p->keys);
        sw_free(p);
    }
}

static void fail_waiters(struct sw_pool_conn *c, int rc, enum sw_pool_stage stage,
                         const struct sw_err *err)
{
    struct sw_list failed;
    struct sw_pool_wait *w;

    /* They may retry at once, and must not find this connection. */
    sw_list_init(&failed);
    sw_list_splice(&failed, &c->waiters);
    c->n_waiters = 0;
    while ((w = SW_LIST_POP(&failed, struct sw_pool_wait, link)))
        w->cb(w, NULL, rc, stage, err);
}

static void on_unused(struct sw_timer *t)
{
    struct sw_pool_conn *c = SW_CONTAINER_OF(t, struct sw_pool_conn, unused);

    sw_session_drain(c->session);
}

static void serve_waiters(struct sw_pool_conn *c)
{
    struct sw_pool_wait *w;

    while (sw_session_room(c->session, c->pool->config.max_streams) &&
           (w = SW_LIST_POP(&c->waiters, struct sw_pool_wait, link)))
        w->cb(w, c->session, SW_OK, SW_POOL_H2, NULL);
    if (!sw_list_empty(&c->waiters)) {
        struct sw_err full = {0};

        (void)sw_err_set(&full, SW_ELIMIT, "connection has no room for more streams");
        fail_waiters(c, SW_ELIMIT, SW_POOL_H2, &full);
    }
    if (sw_session_streams(c->session) == 0)
        sw_timer_start(c->pool->loop, &c->unused, c->pool->config.unused_release_ns, on_unused);
    else
        sw_timer_stop(c->pool->loop, &c->unused);
}

static void on_session_ready(struct sw_session *s)
{
    struct sw_pool_conn *c = sw_session_owner(s);

    c->ready = true;
    c->alone = false;
    drop_sans(c);
    serve_waiters(c);
}

static void on_session_other(struct sw_session *s)
{
    struct sw_pool_conn *c = sw_session_owner(s);
    sw_pool_other_cb tell = c->pool->config.on_other;
    struct sw_session_parts parts;
    struct sw_list waiters;
    struct sw_pool_wait *w;

    sw_session_take(s, &parts);
    c->session = NULL;
    c->over = true;
    sw_list_init(&waiters);
    sw_list_splice(&waiters, &c->waiters);
    w = SW_LIST_POP(&waiters, struct sw_pool_wait, link);
    if (w)
        tell(w, &parts);
    else
        sw_session_parts_close(&parts); /* all of them gave up */
    while ((w = SW_LIST_POP(&waiters, struct sw_pool_wait, link)))
        tell(w, NULL);
    conn_free(c);
}

static void on_session_room(struct sw_session *s)
{
    serve_waiters(sw_session_owner(s));
}

static void on_session_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    sw_session_refuse(s, id, 400); /* clients accept no streams */
}

static void on_session_closed(struct sw_session *s, int rc, const struct sw_err *err,
                              bool handshaken)
{
    struct sw_pool_conn *c = sw_session_owner(s);
    struct sw_err gone = {0};

    c->session = NULL;
    c->over = true;
    if (rc == SW_OK) {
        rc = sw_err_set(&gone, SW_ECLOSED, "connection closed");
        err = &gone;
    }
    fail_waiters(c, rc, c->ready ? SW_POOL_H2 : SW_POOL_TLS, err);
    conn_free(c);
}

static const struct sw_session_ops pool_session_ops = {
    .on_ready = on_session_ready,
    .on_request = on_session_request,
    .on_room = on_session_room,
    .on_closed = on_session_closed,
};

/* For pools that offer other protocols. */
static const struct sw_session_ops pool_other_ops = {
    .on_ready = on_session_ready,
    .on_other = on_session_other,
    .on_request = on_session_request,
    .on_room = on_session_room,
    .on_closed = on_session_closed,
};

static void conn_fail(struct sw_pool_conn *c, int rc, enum sw_pool_stage stage,
                      const struct sw_err *err)
{
    c->over = true;
    fail_waiters(c, rc, stage, err);
    conn_free(c);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct sw_pool_conn *c = SW_CONTAINER_OF(d, struct pool_dial, dial)->conn;
    const struct sw_pool_config *config = &c->pool->config;
    const struct sw_tls_params tls = {.cred = c->cred,
                                      .alpn = c->alpn ? c->alpn : "h2",
                                      .expect = c->sans,
                                      .n_expect = c->n_sans,
                                      .tls12 = config->tls12,
                                      .web = c->host != NULL,
                                      .host = c->host,
                                      .sni = c->host};
    const struct sw_session_setup setup = {
        .tls = &tls,
        .config = &config->session,
        .ops = config->on_other ? &pool_other_ops : &pool_session_ops,
        .owner = c,
    };
    struct sw_err failed = {0};
    struct sw_dialled dialled;

    if (rc != SW_OK) {
        conn_fail(c, rc, SW_POOL_DIAL, err);
        return;
    }
    sw_dial_take(d, &dialled);
    c->session = sw_session_new(c->pool->loop, sw_dialled_fd(&dialled), &setup, &failed);
    sw_free(SW_TAKE(c->dial));
    c->cred = sw_tls_cred_unref(c->cred);
    if (!c->session)
        conn_fail(c, failed.rc, SW_POOL_TLS, &failed);
}

static struct sw_pool_conn *conn_new(struct sw_pool *p, const struct sw_pool_target *t,
                                     struct pool_key *k)
{
    struct sw_pool_conn *c = SW_NEW(struct sw_pool_conn);

    c->pool = p;
    c->key = k;
    c->owner = t->owner;
    c->cred = sw_tls_cred_ref(t->cred);
    c->sans = SW_NEW_ARRAY(struct sw_slice, t->n_sans);
    c->n_sans = t->n_sans;
    for (size_t i = 0; i < t->n_sans; i++)
        c->sans[i] = sw_slice_copy(t->sans[i]);
    c->host = t->host ? sw_strdup(t->host) : NULL;
    c->alone = t->alone;
    c->alpn = t->alpn ? t->alpn : p->config.alpn;
    sw_list_init(&c->waiters);
    sw_list_push_front(&k->conns, &c->link);
    p->n_conns++;
    c->dial = SW_NEW(struct pool_dial);
    c->dial->conn = c;
    sw_dial_start(&c->dial->dial, p->loop,
                  &(struct sw_dial_target){.to = &t->addr,
                                           .src = t->bind_src ? &t->src : NULL,
                                           .opts = &t->sock,
                                           .timeout_ns = p->config.connect_timeout_ns},
                  on_dialled);
    return c;
}

/*
 * A connection that is open with room, or still being made with room among its waiters. One whose
 * window is used up serves only when there are too many of them.
 */
static struct sw_pool_conn *find(struct sw_pool *p, struct pool_key *k, enum sw_pool_use *ret_use)
{
    struct sw_pool_conn *making = NULL;
    struct sw_pool_conn *stalled = NULL;
    size_t n_stalled = 0;

    *ret_use = SW_POOL_HIT;
    SW_LIST_EACH (struct sw_pool_conn, c, &k->conns, link) {
        if (c->over || c->alone)
            continue;
        if (!c->ready) {
            if (c->n_waiters < p->config.max_streams)
                making = c;
        } else if (sw_session_stalled(c->session)) {
            n_stalled++;
            if (sw_session_room(c->session, p->config.max_streams))
                stalled = c;
        } else if (sw_session_room(c->session, p->config.max_streams)) {
            return c;
        }
    }
    if (making)
        return making;
    if (stalled && n_stalled >= SW_POOL_STALLED_MAX) {
        *ret_use = SW_POOL_STALLED;
        return stalled;
    }
    *ret_use = stalled ? SW_POOL_SIBLING : SW_POOL_NEW;
    return NULL;
}

struct sw_session *sw_pool_get(struct sw_pool *p, const struct sw_pool_target *t,
                               struct sw_pool_wait *w, sw_pool_cb cb, enum sw_pool_use *ret_use)
{
    struct sw_buf key;
    struct pool_key *k;
    struct sw_pool_conn *c;

    make_key(t, &key);
    k = sw_map_get(&p->keys, sw_buf_slice(&key));
    if (!k) {
        k = SW_NEW(struct pool_key);
        sw_list_init(&k->conns);
        k->bytes.n = sw_buf_len(&key);
        k->bytes.p = sw_buf_take_str(&key);
        k->place = sw_slice_copy(t->place);
        k->ip = t->addr.ip;
        (void)sw_map_put(&p->keys, k->bytes, k);
    }
    sw_buf_done(&key);
    *ret_use = SW_POOL_NEW;
    c = t->alone ? NULL : find(p, k, ret_use);
    if (c && c->ready) {
        sw_timer_stop(p->loop, &c->unused);
        return c->session;
    }
    if (!c)
        c = conn_new(p, t, k);
    w->cb = cb;
    sw_list_push_back(&c->waiters, &w->link);
    c->n_waiters++;
    return NULL;
}

void sw_pool_cancel(struct sw_pool_wait *w)
{
    /* n_waiters stays one too high: it only bounds how many may queue on a connection. */
    sw_list_unlink(&w->link);
}

static void close_conn(struct sw_pool_conn *c)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ECLOSED, "connection pool closed");
    while (sw_list_pop_front(&c->waiters))
        ;
    if (c->session)
        sw_session_close(c->session, SW_ECLOSED, &err);
    else
        conn_free(c);
}

struct conns {
    SW_VEC(struct sw_pool_conn *) v;
};

/* Closing one calls back into owners, which may open connections: never walk the live map. */
static void list_conns(struct sw_pool *p, struct conns *ret)
{
    SW_MAP_EACH (struct pool_key, k, &p->keys) {
        SW_LIST_EACH (struct sw_pool_conn, c, &k->conns, link) {
            if (!c->over)
                sw_vec_push(&ret->v, c);
        }
    }
}

/* owner NULL: of all. */
static void close_conns(struct sw_pool *p, const void *owner)
{
    struct conns all = {0};

    list_conns(p, &all);
    for (size_t i = 0; i < all.v.n; i++) {
        if (!owner || all.v.p[i]->owner == owner)
            close_conn(all.v.p[i]);
    }
    sw_vec_done(&all.v);
}

void sw_pool_close_owner(struct sw_pool *p, const void *owner)
{
    close_conns(p, owner);
}

void sw_pool_free(struct sw_pool *p)
{
    if (!p)
        return;
    close_conns(p, NULL);
    if (p->n_conns == 0) {
        sw_map_done(&p->keys);
        sw_free(p);
        return;
    }
    p->closing = true; /* sessions report their end from the loop; the last one frees the pool */
}

size_t sw_pool_retire(struct sw_pool *p,
                      bool (*gone)(struct sw_slice place, const struct sw_ip *ip, void *arg),
                      void *arg)
{
    struct conns all = {0};
    size_t n = 0;

    list_conns(p, &all);
    for (size_t i = 0; i < all.v.n; i++) {
        struct sw_pool_conn *c = all.v.p[i];

        if (!c->ready || !gone(c->key->place, &c->key->ip, arg))
            continue;
        sw_timer_stop(p->loop, &c->unused);
        sw_session_drain(c->session);
        n++;
    }
    sw_vec_done(&all.v);
    return n;
}

void sw_pool_each(struct sw_pool *p, void (*fn)(struct sw_session *s, const void *owner, void *arg),
                  void *arg)
{
    struct conns all = {0};

    list_conns(p, &all);
    for (size_t i = 0; i < all.v.n; i++) {
        struct sw_pool_conn *c = all.v.p[i];

        if (c->session && c->ready)
            fn(c->session, c->owner, arg);
    }
    sw_vec_done(&all.v);
}

size_t sw_pool_count(const struct sw_pool *p)
{
    return p->n_conns;
}
