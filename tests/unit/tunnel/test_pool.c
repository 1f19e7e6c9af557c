/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"
#include "tunnel/pool.h"

enum { WANTS = 64 };

struct fix;

/* Somebody who wants a tunnel. */
struct want {
    struct sw_pool_wait wait;
    struct sw_tstream stream;
    struct fix *f;
    int calls;
    int rc;
    enum sw_pool_stage stage;
    enum sw_pool_use use;
    bool again; /* asks again from the callback when it fails */
    bool open;
    int done;
    unsigned status;
};

struct fix {
    struct sw_loop *loop;
    struct creds creds;
    struct sw_pool *pool;
    struct sw_pool_config config;
    struct sw_pool_target target;
    struct sw_session_config server_config;
    int listener;
    struct sw_watch watch;
    int accepted;
    bool hang; /* accept and say nothing */
    int hung[16];
    size_t n_hung;
    struct sw_session *servers[16];
    int server_requests;
    struct want w[WANTS];
};

static int owner_a;
static int owner_b;
static const struct sw_slice server_san = SW_SLICE_LIT(SERVER_ID);
static const struct sw_slice other_san = SW_SLICE_LIT("spiffe://td/ns/a/sa/other");

/* ---- the server ---- */

static void server_ready(struct sw_session *s)
{
    (void)s;
}

static void on_moved(struct sw_tstream *t, size_t up, size_t down)
{
    (void)t;
    (void)up;
    (void)down;
}

struct served {
    struct sw_tstream stream;
    struct sw_defer reap;
    struct sw_loop *loop;
};

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct served, reap));
}

static void server_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct served *x = SW_CONTAINER_OF(t, struct served, stream);

    (void)rc;
    (void)err;
    sw_loop_defer(x->loop, &x->reap, on_reap);
}

static const struct sw_tstream_ops server_stream = {.on_moved = on_moved, .on_done = server_done};

static void server_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    struct fix *f = sw_session_owner(s);
    struct served *x = SW_NEW(struct served);

    (void)head;
    f->server_requests++;
    x->loop = f->loop;
    sw_tstream_attach(s, id, &x->stream, &server_stream);
    sw_tstream_accept(&x->stream, NULL, 0);
}

static void server_closed(struct sw_session *s, int rc, const struct sw_err *err, bool handshaken)
{
    struct fix *f = sw_session_owner(s);

    (void)rc;
    (void)err;
    (void)handshaken;
    for (size_t i = 0; i < SW_ARRAY_LEN(f->servers); i++) {
        if (f->servers[i] == s)
            f->servers[i] = NULL;
    }
}

static const struct sw_session_ops server_ops = {
    .on_ready = server_ready, .on_request = server_request, .on_closed = server_closed};

static void on_accept(struct sw_watch *w, unsigned events)
{
    struct fix *f = SW_CONTAINER_OF(w, struct fix, watch);
    struct sw_tls_params sp = {.server = true, .cred = f->creds.server, .alpn = "h2"};
    int fd;

    (void)events;
    while (sw_sock_accept(f->listener, &fd, NULL, NULL) == SW_OK) {
        assert_true(f->accepted < 16);
        if (f->hang) {
            f->hung[f->n_hung++] = fd;
            f->accepted++;
        } else {
            f->servers[f->accepted++] = sw_session_new(
                f->loop, fd, &(struct sw_session_setup){&sp, &f->server_config, &server_ops, f},
                NULL);
        }
    }
}

static void begin(struct fix *f)
{
    struct sw_addr at;

    f->loop = rig_loop();
    creds_make(&f->creds);
    f->server_config = rig_config();
    f->config = (struct sw_pool_config){
        .max_streams = f->config.max_streams ? f->config.max_streams : 100,
        .unused_release_ns = 300 * SW_NS_PER_S,
        .connect_timeout_ns = 10 * SW_NS_PER_S,
        .session = rig_config(),
    };
    f->pool = sw_pool_new(f->loop, &f->config);
    f->listener = tcp_listener(&at);
    assert_int_equal(sw_watch_start_listener(f->loop, &f->watch, f->listener, on_accept, NULL),
                     SW_OK);
    f->target = (struct sw_pool_target){
        .owner = &owner_a,
        .cred = f->creds.client,
        .sans = &server_san,
        .n_sans = 1,
        .addr = at,
        .sock = SW_SOCK_OPTS_INIT,
    };
}

static void end(struct fix *f)
{
    if (f->pool)
        sw_pool_free(f->pool);
    for (size_t i = 0; i < SW_ARRAY_LEN(f->servers); i++) {
        if (f->servers[i])
            sw_session_close(f->servers[i], SW_OK, NULL);
    }
    rig_settle(f->loop);
    for (size_t i = 0; i < f->n_hung; i++)
        sw_sock_close(f->hung[i]);
    sw_watch_stop(&f->watch);
    sw_sock_close(f->listener);
    creds_done(&f->creds);
    rig_loop_done(f->loop);
}

/* ---- the wanting side ---- */

static void client_response(struct sw_tstream *t, const struct sw_h2_head *head)
{
    SW_CONTAINER_OF(t, struct want, stream)->status = head->status;
}

static void client_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct want *w = SW_CONTAINER_OF(t, struct want, stream);

    (void)rc;
    (void)err;
    w->open = false;
    w->done++;
}

static const struct sw_tstream_ops client_stream = {
    .on_response = client_response, .on_moved = on_moved, .on_done = client_done};

static void open_stream(struct want *w, struct sw_session *s)
{
    static const struct sw_h2_header f[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("10.0.0.1:80")},
    };

    assert_int_equal(sw_tstream_open(s, &w->stream, &client_stream, f, 2, NULL), SW_OK);
    w->open = true;
}

static void ask(struct fix *f, struct want *w);

static void on_pool(struct sw_pool_wait *wait, struct sw_session *s, int rc,
                    enum sw_pool_stage stage, const struct sw_err *err)
{
    struct want *w = SW_CONTAINER_OF(wait, struct want, wait);

    (void)err;
    w->calls++;
    w->rc = rc;
    w->stage = stage;
    if (rc == SW_OK)
        open_stream(w, s);
    else if (w->again && w->calls < 5)
        ask(w->f, w);
}

static void ask(struct fix *f, struct want *w)
{
    struct sw_session *s;

    w->f = f;
    s = sw_pool_get(f->pool, &f->target, &w->wait, on_pool, &w->use);
    if (s)
        open_stream(w, s);
}

static size_t open_count(const struct fix *f)
{
    size_t n = 0;

    for (size_t i = 0; i < WANTS; i++)
        n += f->w[i].open;
    return n;
}

static void many_at_once_share_one_connection(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    for (int i = 0; i < WANTS; i++)
        ask(&f, &f.w[i]);
    assert_int_equal(f.w[0].use, SW_POOL_NEW);
    assert_int_equal(f.w[1].use, SW_POOL_HIT);
    assert_int_equal(sw_pool_count(f.pool), 1);
    RUN_UNTIL(f.loop, open_count(&f) == WANTS && f.server_requests == WANTS);
    assert_int_equal(f.accepted, 1);
    end(&f);
}

static void different_keys_never_share(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    f.target.owner = &owner_b;
    ask(&f, &f.w[1]);
    f.target.src = (struct sw_ip){.family = 4, .b = {10, 0, 0, 1}};
    ask(&f, &f.w[2]);
    f.target.cred = f.creds.server;
    ask(&f, &f.w[3]);
    f.target.sans = (const struct sw_slice[]){server_san, other_san};
    f.target.n_sans = 2;
    ask(&f, &f.w[4]);
    f.target.sans = (const struct sw_slice[]){other_san, server_san};
    ask(&f, &f.w[5]);
    assert_int_equal(sw_pool_count(f.pool), 6);
    RUN_UNTIL(f.loop, open_count(&f) == 6);
    assert_int_equal(f.accepted, 6);
    end(&f);
}

/* Names so long that a key of fixed size would cut them off before they differ. */
static void long_names_are_compared_to_their_end(void **state)
{
    static char a[70000];
    static char b[70000];
    struct sw_slice one[2] = {{a, sizeof(a)}, server_san};
    struct sw_slice two[2] = {{b, sizeof(b)}, server_san};
    struct fix f = {0};

    (void)state;
    memset(a, 'x', sizeof(a));
    memset(b, 'x', sizeof(b));
    b[sizeof(b) - 1] = 'y';
    begin(&f);
    f.target.sans = one;
    f.target.n_sans = 2;
    ask(&f, &f.w[0]);
    f.target.sans = two;
    ask(&f, &f.w[1]);
    assert_int_equal(sw_pool_count(f.pool), 2);
    end(&f);
}

static void a_full_connection_gets_a_sibling_and_is_reused_later(void **state)
{
    struct fix f = {.config.max_streams = 4};

    (void)state;
    begin(&f);
    for (int i = 0; i < 10; i++)
        ask(&f, &f.w[i]);
    RUN_UNTIL(f.loop, open_count(&f) == 10);
    assert_int_equal(f.accepted, 3);
    assert_int_equal(sw_pool_count(f.pool), 3);
    for (int i = 0; i < 4; i++) {
        sw_tstream_abort(&f.w[i].stream, SW_H2_CANCEL);
        f.w[i].open = false;
    }
    for (int i = 10; i < 16; i++) {
        ask(&f, &f.w[i]);
        assert_int_equal(f.w[i].use, SW_POOL_HIT);
    }
    rig_settle(f.loop);
    assert_int_equal(f.accepted, 3);
    assert_int_equal(open_count(&f), 12);
    end(&f);
}

/* Sends on a tunnel whose server never reads until nothing more is taken; *ret_app: the other end.
 */
static void stuff(struct fix *f, struct want *w, int *ret_app)
{
    struct feed sent = {.total = 64 << 20};
    size_t before = 0;
    int fds[2];

    RUN_UNTIL(f->loop, w->status == 200);
    unix_pair(fds);
    sw_tstream_relay(&w->stream, fds[1]);
    for (int same = 0; same < 20;) {
        feed_write(&sent, fds[0]);
        sw_loop_turn(f->loop, 0);
        same = sent.at == before ? same + 1 : 0;
        before = sent.at;
    }
    *ret_app = fds[0];
}

/* Tunnels that nobody reads use up a connection's window: the next tunnel gets a sibling. */
static void a_stalled_connection_gets_a_sibling_up_to_a_bound(void **state)
{
    struct fix f = {0};
    struct sw_session *first;
    int apps[WANTS];
    int n = 0;
    int siblings = 0;

    (void)state;
    begin(&f);
    /* Small windows, so that a few tunnels do it on every sibling. */
    f.server_config.stream_window = 65535;
    f.server_config.connection_window = 65536;
    do {
        assert_true(n < WANTS);
        ask(&f, &f.w[n]);
        siblings += f.w[n].use == SW_POOL_SIBLING;
        stuff(&f, &f.w[n], &apps[n]);
    } while (f.w[n++].use != SW_POOL_STALLED);
    assert_int_equal(siblings, SW_POOL_STALLED_MAX - 1);
    assert_int_equal(f.accepted, SW_POOL_STALLED_MAX);
    /* The tunnels of one connection are given up: it serves again. */
    first = f.w[0].stream.session;
    for (int i = 0; i < n; i++) {
        if (f.w[i].stream.session == first)
            sw_tstream_abort(&f.w[i].stream, SW_H2_CANCEL);
    }
    rig_settle(f.loop);
    ask(&f, &f.w[n]);
    assert_int_equal(f.w[n].use, SW_POOL_HIT);
    for (int i = 0; i < n; i++)
        sw_sock_close(apps[i]);
    end(&f);
}

static void the_peers_lower_limit_sends_waiters_elsewhere(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    f.server_config.max_streams = 2;
    ask(&f, &f.w[0]);
    RUN_UNTIL(f.loop, f.w[0].status == 200);
    for (int i = 1; i < 4; i++)
        ask(&f, &f.w[i]);
    RUN_UNTIL(f.loop, f.w[3].status == 200 && f.w[2].status == 200 && f.w[1].status == 200);
    assert_int_equal(f.accepted, 2);
    end(&f);
}

static void an_unused_connection_is_released(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    for (int aborted = 0; aborted < 2; aborted++) {
        struct want *w = &f.w[aborted];

        ask(&f, w);
        RUN_UNTIL(f.loop, w->status == 200);
        rig_advance(f.loop, 7 * SW_NS_PER_S);
        if (aborted) /* no on_done: the pool learns it all the same */
            sw_tstream_abort(&w->stream, SW_H2_CANCEL);
        else
            sw_session_close(f.servers[f.accepted - 1], SW_OK, NULL);
        w->open = false;
        rig_settle(f.loop);
        if (!aborted)
            continue;
        for (int i = 0; i < 42; i++)
            rig_advance(f.loop, 7 * SW_NS_PER_S);
        assert_int_equal(sw_pool_count(f.pool), 1);
        rig_advance(f.loop, 7 * SW_NS_PER_S);
        RUN_UNTIL(f.loop, sw_pool_count(f.pool) == 0);
    }
    end(&f);
}

static void a_used_connection_is_kept(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    RUN_UNTIL(f.loop, f.w[0].status == 200);
    for (int i = 0; i < 60; i++)
        rig_advance(f.loop, 7 * SW_NS_PER_S);
    assert_int_equal(sw_pool_count(f.pool), 1);
    assert_true(f.w[0].open);
    end(&f);
}

static void a_goaway_makes_the_next_one_dial(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    RUN_UNTIL(f.loop, f.w[0].status == 200);
    sw_session_drain(f.servers[0]);
    rig_settle(f.loop);
    ask(&f, &f.w[1]);
    assert_int_equal(f.w[1].use, SW_POOL_NEW);
    RUN_UNTIL(f.loop, f.w[1].status == 200);
    assert_true(f.w[0].open);
    assert_int_equal(f.accepted, 2);
    end(&f);
}

static bool gone_x(struct sw_slice place, const struct sw_ip *ip, void *arg)
{
    const struct fix *f = arg;

    assert_true(sw_ip_eq(ip, &f->target.addr.ip));
    return sw_slice_eq_str(place, "x");
}

/* A peer that is gone: its idle connection ends, the one in use takes no more. */
static void connections_to_a_peer_that_is_gone_are_retired(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    f.target.place = SW_SLICE_LIT("x");
    ask(&f, &f.w[0]);
    f.target.place = SW_SLICE_LIT("y");
    ask(&f, &f.w[1]);
    RUN_UNTIL(f.loop, f.w[0].status == 200 && f.w[1].status == 200);
    assert_int_equal(f.accepted, 2);
    assert_int_equal(sw_pool_retire(f.pool, gone_x, &f), 1);
    rig_settle(f.loop);
    assert_true(f.w[0].open);
    assert_int_equal(sw_pool_count(f.pool), 2);
    ask(&f, &f.w[2]);
    assert_int_equal(f.w[2].use, SW_POOL_HIT);
    f.target.place = SW_SLICE_LIT("x");
    ask(&f, &f.w[3]);
    assert_int_equal(f.w[3].use, SW_POOL_NEW);
    RUN_UNTIL(f.loop, f.w[3].status == 200);
    sw_tstream_abort(&f.w[3].stream, SW_H2_CANCEL);
    sw_tstream_abort(&f.w[0].stream, SW_H2_CANCEL);
    RUN_UNTIL(f.loop, sw_pool_count(f.pool) == 2);
    assert_int_equal(sw_pool_retire(f.pool, gone_x, &f), 1);
    RUN_UNTIL(f.loop, sw_pool_count(f.pool) == 1);
    end(&f);
}

static void a_refused_dial_fails_every_waiter(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    sw_watch_stop(&f.watch);
    sw_sock_close(f.listener);
    f.listener = -1;
    for (int i = 0; i < 3; i++)
        ask(&f, &f.w[i]);
    assert_int_equal(f.w[0].calls, 0); /* never from inside the call */
    RUN_UNTIL(f.loop, f.w[2].calls);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f.w[i].calls, 1);
        assert_int_equal(f.w[i].rc, SW_ESYS);
        assert_int_equal(f.w[i].stage, SW_POOL_DIAL);
    }
    assert_int_equal(sw_pool_count(f.pool), 0);
    end(&f);
}

/* Who asks again from the callback gets a new connection, not the one that is being buried. */
static void waiters_may_ask_again_at_once(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct fix f = {0};

        begin(&f);
        if (how == 0) {
            sw_watch_stop(&f.watch);
            sw_sock_close(f.listener);
            f.listener = -1;
        } else {
            f.target.sans = &other_san; /* the server turns out to be somebody else */
        }
        for (int i = 0; i < 3; i++) {
            f.w[i].again = true;
            ask(&f, &f.w[i]);
        }
        RUN_UNTIL(f.loop, f.w[0].calls == 5 && f.w[1].calls == 5 && f.w[2].calls == 5);
        rig_settle(f.loop);
        assert_int_equal(f.w[0].calls, 5);
        assert_int_equal(f.w[0].stage, how ? SW_POOL_TLS : SW_POOL_DIAL);
        assert_int_equal(sw_pool_count(f.pool), 0);
        end(&f);
    }
}

static void a_handshake_that_hangs_fails_its_waiters(void **state)
{
    struct fix f = {.hang = true};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    ask(&f, &f.w[1]);
    RUN_UNTIL(f.loop, f.accepted);
    sw_pool_cancel(&f.w[1].wait);
    rig_advance(f.loop, 9 * SW_NS_PER_S);
    assert_int_equal(f.w[0].calls, 0);
    rig_advance(f.loop, 2 * SW_NS_PER_S);
    assert_int_equal(f.w[0].calls, 1);
    assert_int_equal(f.w[0].rc, SW_ETIME);
    assert_int_equal(f.w[0].stage, SW_POOL_TLS);
    assert_int_equal(f.w[1].calls, 0);
    end(&f);
}

static void a_connection_nobody_waits_for_any_more_is_released(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    sw_pool_cancel(&f.w[0].wait);
    sw_pool_cancel(&f.w[0].wait);
    rig_settle(f.loop);
    assert_int_equal(sw_pool_count(f.pool), 1);
    assert_int_equal(f.w[0].calls, 0);
    for (int i = 0; i < 44; i++)
        rig_advance(f.loop, 7 * SW_NS_PER_S);
    RUN_UNTIL(f.loop, sw_pool_count(f.pool) == 0);
    end(&f);
}

struct seen {
    struct fix *f;
    int n;
};

static void close_each(struct sw_session *s, const void *owner, void *arg)
{
    struct seen *x = arg;
    struct sw_err err = {0};
    char name[64];

    (void)owner;
    x->n++;
    (void)sw_err_set(&err, SW_EDENIED, "revoked");
    sw_session_close(s, SW_EDENIED, &err);
    /* As an owner would: straight to somewhere else, so the map grows under the walk. */
    for (int i = 0; i < 20; i++) {
        struct sw_slice san = {name, 0};
        struct want *w = &x->f->w[20 + i];

        if (x->n > 1)
            break;
        san.n = (size_t)snprintf(name, sizeof(name), "spiffe://td/ns/a/sa/%d", i);
        x->f->target.sans = &san;
        ask(x->f, w);
    }
}

static void every_session_can_be_closed_while_owners_ask_for_new_ones(void **state)
{
    struct fix f = {0};
    struct seen x = {.f = &f};

    (void)state;
    begin(&f);
    ask(&f, &f.w[0]);
    f.target.owner = &owner_b;
    ask(&f, &f.w[1]);
    f.target.src = (struct sw_ip){.family = 4, .b = {10, 0, 0, 1}};
    ask(&f, &f.w[2]);
    RUN_UNTIL(f.loop, open_count(&f) == 3);
    f.hang = true;
    sw_watch_stop(&f.watch);
    sw_pool_each(f.pool, close_each, &x);
    assert_int_equal(x.n, 3);
    end(&f);
}

static void the_pool_can_be_freed_at_any_stage(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct fix f = {0};

        begin(&f);
        for (int i = 0; i < 3; i++)
            ask(&f, &f.w[i]);
        f.target.owner = &owner_b;
        ask(&f, &f.w[3]);
        for (int i = 0; i < turns; i++)
            sw_loop_turn(f.loop, 1);
        sw_pool_free(f.pool);
        f.pool = NULL;
        rig_settle(f.loop);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once_share_one_connection),
        cmocka_unit_test(different_keys_never_share),
        cmocka_unit_test(long_names_are_compared_to_their_end),
        cmocka_unit_test(a_full_connection_gets_a_sibling_and_is_reused_later),
        cmocka_unit_test(a_stalled_connection_gets_a_sibling_up_to_a_bound),
        cmocka_unit_test(the_peers_lower_limit_sends_waiters_elsewhere),
        cmocka_unit_test(an_unused_connection_is_released),
        cmocka_unit_test(a_used_connection_is_kept),
        cmocka_unit_test(a_goaway_makes_the_next_one_dial),
        cmocka_unit_test(connections_to_a_peer_that_is_gone_are_retired),
        cmocka_unit_test(a_refused_dial_fails_every_waiter),
        cmocka_unit_test(waiters_may_ask_again_at_once),
        cmocka_unit_test(a_handshake_that_hangs_fails_its_waiters),
        cmocka_unit_test(a_connection_nobody_waits_for_any_more_is_released),
        cmocka_unit_test(every_session_can_be_closed_while_owners_ask_for_new_ones),
        cmocka_unit_test(the_pool_can_be_freed_at_any_stage),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
