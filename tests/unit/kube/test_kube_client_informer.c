/* SPDX-License-Identifier: Apache-2.0 */
/* The informer against a small server that restarts, compacts, cuts and lies as the tests ask. */
#include "kube/client/informer.h"

#include "base/log.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "http/url.h"

#include "test_kube_client.h"

static const struct sw_kube_gvr things = {"x.example", "v1", "things", "Thing", true};

enum { NAMES = 40 };

struct change {
    uint64_t rev;
    int name;
    char type; /* A, M, D */
    uint64_t uid;
};

struct watcher {
    struct fake_conn *c;
    size_t at; /* changes already sent */
};

/* The server's side. */
struct api {
    struct bench b;
    uint64_t rev;
    uint64_t floor;      /* revisions below are compacted */
    uint64_t obj[NAMES]; /* revision of the current state, 0: none */
    uint64_t uid[NAMES];
    SW_VEC(struct change) log;
    SW_VEC(struct watcher) watchers;
    bool no_stream;     /* 422 */
    bool deaf;          /* ignores sendInitialEvents */
    bool missing;       /* 404 */
    bool forbidden;     /* 403 */
    const char *served; /* version; NULL: v1 */
    bool expire_pages;
    int lists;
    int streams;
    int watches;
    /* the informer's side */
    struct sw_informer *inf;
    struct {
        uint64_t rv;
        uint64_t uid;
    } seen[NAMES];
    uint64_t last_rv; /* of handlers called for live events */
    int adds, updates, dels, syncs, resyncs;
    bool check_order;
    bool hollow;
};

static void obj_text(const struct api *a, struct sw_buf *out, int name, uint64_t rev, uint64_t uid)
{
    (void)a;
    assert_int_equal(
        sw_buf_printf(out,
                      "{\"kind\":\"Thing\",\"apiVersion\":\"x.example/v1\",\"metadata\":"
                      "{\"namespace\":\"n\",\"name\":\"t%d\",\"uid\":\"u%llu\","
                      "\"resourceVersion\":\"%llu\"}}",
                      name, (unsigned long long)uid, (unsigned long long)rev),
        SW_OK);
}

static void send_event(struct api *a, struct fake_conn *c, const char *type, int name, uint64_t rev,
                       uint64_t uid)
{
    SW_BUF_AUTO t;

    sw_buf_init(&t, 1 << 16);
    assert_int_equal(sw_buf_printf(&t, "{\"type\":\"%s\",\"object\":", type), SW_OK);
    obj_text(a, &t, name, rev, uid);
    assert_int_equal(sw_buf_append_str(&t, "}\n"), SW_OK);
    {
        char *s = sw_buf_take_str(&t);

        fake_chunk(c, s);
        sw_free(s);
    }
}

static void send_bookmark(struct fake_conn *c, uint64_t rev, bool end)
{
    char *t = sw_asprintf("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Thing\",\"apiVersion\":"
                          "\"x.example/v1\",\"metadata\":{\"resourceVersion\":\"%llu\"%s}}}\n",
                          (unsigned long long)rev,
                          end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");

    fake_chunk(c, t);
    sw_free(t);
}

/* Sends what the watchers have not got yet. */
static void pump(struct api *a)
{
    static const char *const types[] = {['A'] = "ADDED", ['M'] = "MODIFIED", ['D'] = "DELETED"};

    for (size_t k = 0; k < a->watchers.n; k++) {
        struct watcher *w = &a->watchers.p[k];

        for (; w->at < a->log.n; w->at++) {
            const struct change *ch = &a->log.p[w->at];

            send_event(a, w->c, types[(unsigned char)ch->type], ch->name, ch->rev, ch->uid);
        }
    }
}

static void change(struct api *a, int name, bool del)
{
    struct change ch = {.rev = ++a->rev, .name = name};

    if (del && !a->obj[name])
        del = false;
    ch.type = del ? 'D' : a->obj[name] ? 'M' : 'A';
    if (ch.type == 'A')
        a->uid[name] = a->rev;
    ch.uid = a->uid[name];
    a->obj[name] = del ? 0 : a->rev;
    sw_vec_push(&a->log, ch);
    pump(a);
}

static void compact(struct api *a)
{
    a->floor = a->rev;
}

static void on_gone(struct fake_conn *c, void *arg)
{
    struct api *a = arg;

    for (size_t k = 0; k < a->watchers.n; k++) {
        if (a->watchers.p[k].c == c)
            sw_vec_swap_remove(&a->watchers, k--);
    }
}

static void drop_all(struct api *a)
{
    fake_drop_conns(&a->b.server);
}

static void serve_watch(struct api *a, struct fake_conn *c, const struct sw_query *q)
{
    const struct sw_query_param *rv = sw_query_get(q, "resourceVersion");
    bool initial = sw_query_get(q, "sendInitialEvents") != NULL;
    struct watcher w = {.c = c, .at = a->log.n};
    uint64_t from = 0;

    if (initial && a->no_stream) {
        fake_reply(c, 422, NULL, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"code\":422}");
        return;
    }
    fake_stream_begin(c);
    if (initial || !rv) {
        a->streams++;
        for (int k = 0; k < NAMES; k++) {
            if (a->obj[k])
                send_event(a, c, "ADDED", k, a->obj[k], a->uid[k]);
        }
        if (!a->deaf)
            send_bookmark(c, a->rev, true);
    } else {
        a->watches++;
        assert_true(sw_slice_to_u64(rv->value, UINT64_MAX, &from));
        if (from < a->floor) {
            fake_chunk(c, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
                          "\"reason\":\"Expired\",\"message\":\"too old resource version\"}}\n");
            fake_stream_end(c);
            return;
        }
        while (w.at && a->log.p[w.at - 1].rev > from)
            w.at--;
    }
    sw_vec_push(&a->watchers, w);
    pump(a);
}

static void serve_list(struct api *a, struct fake_conn *c, const struct sw_query *q)
{
    const struct sw_query_param *cont = sw_query_get(q, "continue");
    const struct sw_query_param *limit = sw_query_get(q, "limit");
    uint64_t from = 0;
    uint64_t max = NAMES;
    uint64_t n = 0;
    SW_BUF_AUTO t;
    char *s;
    int k;

    sw_buf_init(&t, 1 << 20);
    a->lists++;
    if (cont)
        assert_true(sw_slice_to_u64(cont->value, NAMES, &from));
    if (limit)
        assert_true(sw_slice_to_u64(limit->value, NAMES * 100, &max));
    if (cont && a->expire_pages) {
        fake_reply(c, 410, NULL, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}");
        return;
    }
    assert_int_equal(sw_buf_append_str(&t, "{\"kind\":\"ThingList\",\"items\":["), SW_OK);
    for (k = (int)from; k < NAMES && n < max; k++) {
        if (!a->obj[k])
            continue;
        if (n++)
            assert_int_equal(sw_buf_putc(&t, ','), SW_OK);
        obj_text(a, &t, k, a->obj[k], a->uid[k]);
    }
    assert_int_equal(sw_buf_printf(&t, "],\"metadata\":{\"resourceVersion\":\"%llu\"",
                                   (unsigned long long)a->rev),
                     SW_OK);
    if (k < NAMES)
        assert_int_equal(sw_buf_printf(&t, ",\"continue\":\"%d\"", k), SW_OK);
    assert_int_equal(sw_buf_append_str(&t, "}}"), SW_OK);
    s = sw_buf_take_str(&t);
    fake_reply(c, 200, NULL, s);
    sw_free(s);
}

static void on_request(struct fake_conn *c, void *arg)
{
    struct api *a = arg;
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice path;
    struct sw_slice query;
    struct sw_slice version;
    struct sw_query q = {0};

    sw_target_split(sw_slice_str(c->target), &path, &query);
    assert_true(sw_slice_has_prefix(path, SW_SLICE_LIT("/base/apis/x.example/")));
    assert_true(sw_slice_has_suffix(path, SW_SLICE_LIT("/things")));
    version = sw_slice_from(path, strlen("/base/apis/x.example/"));
    version.n -= strlen("/things");
    assert_int_equal(sw_query_parse(&tmp, query, &q, NULL), SW_OK);
    if (a->forbidden)
        fake_reply(c, 403, NULL,
                   "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":"
                   "\"things.x.example is forbidden: User \\\"u\\\" cannot watch resource\"}");
    else if (a->missing || !sw_slice_eq_str(version, a->served ? a->served : "v1"))
        fake_reply(c, 404, NULL, "404 page not found");
    else if (sw_query_get(&q, "watch"))
        serve_watch(a, c, &q);
    else
        serve_list(a, c, &q);
}

/* --- the handlers check that every step is possible --- */

static int index_of(const struct sw_kube_obj *o)
{
    uint64_t n = 0;

    assert_true(sw_slice_eq_str(o->ns, "n"));
    assert_true(sw_slice_to_u64(sw_slice_from(o->name, 1), NAMES - 1, &n));
    return (int)n;
}

static uint64_t num(struct sw_slice s)
{
    uint64_t n = 0;

    assert_true(sw_slice_to_u64(s, UINT64_MAX, &n));
    return n;
}

static void in_order(struct api *a, const struct sw_kube_obj *o)
{
    if (a->check_order)
        assert_true(num(o->rv) > a->last_rv);
    a->last_rv = num(o->rv);
}

static void on_add(void *arg, struct sw_kube_obj *o)
{
    struct api *a = arg;
    int k = index_of(o);

    assert_int_equal(a->seen[k].rv, 0);
    a->seen[k].rv = num(o->rv);
    a->seen[k].uid = num(sw_slice_from(o->uid, 1));
    if (!a->hollow)
        assert_ptr_equal(sw_informer_get(a->inf, o->key), o);
    a->adds++;
    in_order(a, o);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    struct api *a = arg;
    int k = index_of(now);

    if (old == now) {
        a->resyncs++;
        return;
    }
    assert_int_equal(old == NULL, a->hollow);
    if (old)
        assert_int_equal(a->seen[k].rv, num(old->rv));
    assert_int_equal(a->seen[k].uid, num(sw_slice_from(now->uid, 1)));
    assert_true(num(now->rv) > a->seen[k].rv);
    a->seen[k].rv = num(now->rv);
    a->updates++;
    in_order(a, now);
}

static void on_del(void *arg, struct sw_kube_obj *last)
{
    struct api *a = arg;
    int k = index_of(last);

    assert_true(a->seen[k].rv != 0);
    if (!a->hollow || last->uid.n)
        assert_int_equal(a->seen[k].uid, num(sw_slice_from(last->uid, 1)));
    assert_true(sw_informer_get(a->inf, last->key) == NULL);
    a->seen[k].rv = 0;
    a->dels++;
    if (last->rv.n)
        in_order(a, last);
}

static void on_synced(void *arg)
{
    ((struct api *)arg)->syncs++;
}

static const struct sw_informer_cbs cbs = {
    .add = on_add, .update = on_update, .del = on_del, .synced = on_synced};

static int set_up(void **state)
{
    struct api *a = SW_NEW(struct api);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    bench_open(&a->b, on_request, a);
    a->b.server.on_gone = on_gone;
    a->rev = 100;
    *state = a;
    return 0;
}

static int tear_down(void **state)
{
    struct api *a = *state;

    sw_informer_free(a->inf);
    bench_close(&a->b);
    sw_vec_done(&a->log);
    sw_vec_done(&a->watchers);
    sw_free(a);
    return 0;
}

static void start(struct api *a, const struct sw_informer_opts *extra)
{
    struct sw_informer_opts o = {0};

    if (extra)
        o = *extra;
    o.gvr = &things;
    a->inf = sw_informer_new(a->b.client, &o, &cbs, a);
    sw_informer_start(a->inf);
}

static bool same_state(const struct api *a)
{
    size_t n = 0;

    for (int k = 0; k < NAMES; k++) {
        if (a->seen[k].rv != a->obj[k])
            return false;
        n += a->obj[k] != 0;
    }
    return sw_informer_synced(a->inf) && sw_informer_count(a->inf) == n;
}

static void fill(struct api *a, int n)
{
    for (int k = 0; k < n; k++)
        change(a, k, false);
}

static void streaming_list(void **state)
{
    struct api *a = *state;
    struct sw_kube_obj **all = NULL;
    size_t n;

    fill(a, 20);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->lists, 0);
    assert_int_equal(a->streams, 1);
    assert_int_equal(a->syncs, 1);
    a->check_order = true;
    change(a, 3, false);
    change(a, 3, true);
    change(a, 3, false);
    change(a, 30, false);
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->adds, 22);
    assert_int_equal(a->updates, 1);
    assert_int_equal(a->dels, 1);
    assert_int_equal(a->watches, 0); /* one stream for both */
    n = sw_informer_list(a->inf, &all);
    assert_int_equal(n, 21);
    for (size_t k = 0; k < n; k++) {
        if (k)
            assert_true(sw_slice_cmp(all[k - 1]->key, all[k]->key) < 0);
        sw_kube_obj_unref(all[k]);
    }
    sw_free(all);
}

static void plain_list_where_streams_are_refused(void **state)
{
    struct api *a = *state;

    fill(a, 23);
    a->no_stream = true;
    start(a, &(struct sw_informer_opts){.page = 5});
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->streams, 0);
    assert_int_equal(a->lists, 5);
    change(a, 1, false);
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->watches, 1);
    /* And it is not asked again. */
    compact(a);
    change(a, 2, false);
    compact(a);
    drop_all(a);
    bench_until(&a->b, sw_informer_stats(a->inf).lists == 1 || same_state(a));
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->streams, 0);
}

/* The bookmark never comes: some servers do not know what they were asked. */
static void deaf_servers_are_noticed(void **state)
{
    struct api *a = *state;

    fill(a, 5);
    a->deaf = true;
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->lists, 1);
    assert_int_equal(a->adds, 5);
}

static void pages_that_expire(void **state)
{
    struct api *a = *state;

    fill(a, 23);
    a->expire_pages = true;
    start(a, &(struct sw_informer_opts){.page = 5, .plain_list = true});
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->adds, 23);
    assert_int_equal(a->lists, 3); /* a page, the refusal, everything */
}

static void disconnects_lose_and_repeat_nothing(void **state)
{
    struct api *a = *state;
    int before;

    fill(a, 10);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    a->check_order = true;
    before = a->adds + a->updates + a->dels;
    for (int k = 0; k < 30; k++) {
        change(a, k % 7, k % 3 == 0);
        if (k % 5 == 0)
            drop_all(a);
        change(a, (k + 3) % 7, false);
        if (k % 2)
            bench_until(&a->b, same_state(a));
    }
    bench_until(&a->b, same_state(a));
    /* Every revision was one event, none twice, in order. */
    assert_int_equal(a->adds + a->updates + a->dels - before, 60);
    assert_int_equal(sw_informer_stats(a->inf).lists, 1);
}

static void compaction_leads_to_a_new_list(void **state)
{
    struct api *a = *state;

    fill(a, 10);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    drop_all(a);
    change(a, 1, true);
    change(a, 2, true);
    change(a, 2, false); /* another object of the same name */
    change(a, 5, false);
    compact(a);
    change(a, 11, false);
    bench_until(&a->b, same_state(a));
    assert_int_equal(sw_informer_stats(a->inf).lists, 2);
    assert_int_equal(a->dels, 2);
    assert_int_equal(a->adds, 12);
    assert_int_equal(a->updates, 1);
    assert_int_equal(a->syncs, 1);
}

static void restarts(void **state)
{
    struct api *a = *state;
    uint16_t port = a->b.server.addr.port;
    uint64_t began;

    fill(a, 10);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    for (int k = 0; k < 5; k++) {
        fake_down(&a->b.server);
        change(a, k, k % 2);
        for (int i = 0; i < 3000; i++) {
            test_now += SW_NS_PER_MS;
            sw_loop_turn(a->b.loop, 0);
        }
        fake_listen(&a->b.server, port);
        began = test_now;
        bench_until(&a->b, same_state(a));
        assert_true(test_now - began < 20 * SW_NS_PER_S);
    }
    assert_int_equal(sw_informer_stats(a->inf).lists, 1);
}

static void pass(struct api *a, uint64_t ns)
{
    for (uint64_t end = test_now + ns; test_now < end;) {
        test_now += 10 * SW_NS_PER_MS;
        sw_loop_turn(a->b.loop, 0);
    }
}

static void on_asked(void *arg, struct sw_kube_reply *r)
{
    *(int *)arg = r->code ? r->code : -1;
}

/*
 * After a long outage a watch would be begun half a minute late: any answer to the same client says
 * that the API is back. An eager informer finds out by itself.
 */
static void a_return_is_noticed(void **state)
{
    struct api *a = *state;
    uint16_t port = a->b.server.addr.port;

    fill(a, 3);
    for (int eager = 0; eager < 2; eager++) {
        uint64_t began;
        uint64_t failures;
        int asked = 0;

        start(a, &(struct sw_informer_opts){.eager = eager});
        bench_until(&a->b, same_state(a));
        fake_down(&a->b.server);
        change(a, eager, false);
        pass(a, 300 * SW_NS_PER_S);
        failures = sw_informer_stats(a->inf).failures;
        assert_true(eager ? failures > 100 : failures < 20);
        fake_listen(&a->b.server, port);
        began = test_now;
        if (!eager)
            (void)sw_kube_do(a->b.client,
                             &(struct sw_kube_req){.path = "/apis/x.example/v1/things"}, on_asked,
                             &asked);
        bench_until(&a->b, same_state(a));
        assert_true(test_now - began < 3 * SW_NS_PER_S);
        sw_informer_free(a->inf);
        a->inf = NULL;
        memset(a->seen, 0, sizeof(a->seen));
    }
}

/* A server that closes every watch at once must not be hammered. */
static void hopeless_servers_are_left_alone(void **state)
{
    struct api *a = *state;

    start(a, NULL);
    bench_until(&a->b, sw_informer_synced(a->inf));
    for (int i = 0; i < 60000; i++) {
        test_now += SW_NS_PER_MS;
        drop_all(a);
        sw_loop_turn(a->b.loop, 0);
    }
    assert_true(a->watches < 40);
    change(a, 1, false);
    bench_until(&a->b, same_state(a));
}

static void optional_kinds(void **state)
{
    struct api *a = *state;

    a->missing = true;
    start(a, &(struct sw_informer_opts){.optional = true});
    bench_until(&a->b, sw_informer_synced(a->inf));
    assert_int_equal(sw_informer_count(a->inf), 0);
    a->missing = false;
    fill(a, 3);
    bench_until(&a->b, same_state(a));
    /* The kind goes away again, and its objects with it. */
    a->missing = true;
    drop_all(a);
    bench_until(&a->b, sw_informer_count(a->inf) == 0);
    assert_int_equal(a->dels, 3);
    assert_int_equal(a->syncs, 1);
}

static const struct sw_kube_gvr things_beta = {"x.example", "v1beta1", "things", "Thing", true};
static const struct sw_kube_gvr things_alpha = {"x.example", "v1alpha2", "things", "Thing", true};
static const struct sw_kube_gvr *const older[] = {&things_beta, &things_alpha, NULL};

static void older_versions_are_read_where_the_newest_is_not_served(void **state)
{
    struct api *a = *state;

    a->served = "v1alpha2";
    fill(a, 3);
    start(a, &(struct sw_informer_opts){.optional = true, .older = older});
    bench_until(&a->b, same_state(a));
    assert_ptr_equal(sw_informer_gvr(a->inf), &things_alpha);
    assert_false(sw_informer_absent(a->inf));
    /* An upgrade: the objects are the same, and nobody hears of it. */
    a->served = "v1";
    drop_all(a);
    bench_until(&a->b, sw_informer_gvr(a->inf) == &things && sw_informer_stats(a->inf).lists == 2);
    change(a, 5, false);
    bench_until(&a->b, same_state(a));
    assert_int_equal(a->adds, 4);
    assert_int_equal(a->updates + a->dels, 0);
    /* None of the versions. */
    a->missing = true;
    drop_all(a);
    bench_until(&a->b, sw_informer_absent(a->inf));
    assert_int_equal(sw_informer_count(a->inf), 0);
}

static bool waits_for(const struct api *a, const char *words)
{
    SW_BUF_AUTO out = {.max = 4096};
    bool synced = sw_kube_synced(a->b.client, &out);
    SW_AUTO_FREE char *text = sw_buf_take_str(&out);

    return !synced && strstr(text, words);
}

static void what_is_waited_for_is_said_in_words(void **state)
{
    struct api *a = *state;

    a->forbidden = true;
    start(a, &(struct sw_informer_opts){.optional = true, .needed = true});
    bench_until(&a->b, waits_for(a, "missing rights: watch things.x.example"));
    a->forbidden = false;
    a->missing = true;
    bench_until(&a->b, waits_for(a, "does not serve: things.x.example"));
    a->missing = false;
    bench_until(&a->b, sw_kube_synced(a->b.client, NULL));
    sw_informer_free(a->inf);
    a->inf = NULL;
    /* Without a server: the first list cannot come. */
    a->deaf = true;
    start(a, NULL);
    assert_true(waits_for(a, "the first list of things.x.example"));
}

static void resync_and_stop(void **state)
{
    struct api *a = *state;
    int adds;

    fill(a, 4);
    start(a, &(struct sw_informer_opts){.resync_ns = 30 * SW_NS_PER_S});
    bench_until(&a->b, same_state(a));
    bench_until(&a->b, a->resyncs == 8);
    sw_informer_stop(a->inf);
    adds = a->adds;
    change(a, 20, false);
    bench_turns(&a->b, 50);
    assert_int_equal(a->adds, adds);
    assert_int_equal(sw_informer_count(a->inf), 4);
    sw_informer_start(a->inf);
    bench_until(&a->b, same_state(a));
    assert_int_equal(sw_informer_stats(a->inf).lists, 1); /* it went on where it was */
}

/* What is no event ends the watch, and the next one goes on from the last good revision. */
static void garbage_on_the_stream(void **state)
{
    static const char *const junk[] = {
        "not json\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"INVENTED\",\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":}}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n",
        "{\"type\":\"ERROR\",\"object\":null}\n",
        "[]\n",
    };
    struct api *a = *state;
    int before;

    fill(a, 5);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    before = a->adds + a->updates + a->dels;
    a->check_order = true;
    for (size_t k = 0; k < SW_ARRAY_LEN(junk); k++) {
        bench_until(&a->b, a->watchers.n == 1);
        fake_chunk(a->watchers.p[0].c, junk[k]);
        bench_until(&a->b, a->watchers.n == 0);
        change(a, (int)k % 5, false);
        bench_until(&a->b, same_state(a));
    }
    assert_int_equal(a->adds + a->updates + a->dels - before, SW_ARRAY_LEN(junk));
    /* An object without a name is of no use, and no harm. */
    bench_until(&a->b, a->watchers.n == 1);
    fake_chunk(a->watchers.p[0].c, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}\n");
    change(a, 1, false);
    bench_until(&a->b, same_state(a));
}

/* Events that come byte by byte, over chunks that split them anywhere. */
static void slow_bodies(void **state)
{
    static const char event[] =
        "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Thing\",\"metadata\":"
        "{\"namespace\":\"n\",\"name\":\"t1\",\"uid\":\"u%llu\","
        "\"resourceVersion\":\"%llu\"}}}";
    struct api *a = *state;
    char *text;

    fill(a, 5);
    start(a, NULL);
    bench_until(&a->b, same_state(a));
    a->rev++;
    a->obj[1] = a->rev;
    text = sw_asprintf(event, (unsigned long long)a->uid[1], (unsigned long long)a->rev);
    for (const char *p = text; *p; p++) {
        char one[2] = {*p, 0};

        assert_false(same_state(a));
        fake_chunk(a->watchers.p[0].c, one);
        bench_turns(&a->b, 2);
    }
    bench_until(&a->b, same_state(a)); /* the brace ends it, no line feed needed */
    sw_free(text);
    assert_int_equal(a->updates, 1);
}

/* Everything at once, by chance. */
static void run_chaos(struct api *a)
{
    uint16_t port = a->b.server.addr.port;

    start(a, &(struct sw_informer_opts){.page = 3, .hollow = a->hollow});
    for (int round = 0; round < 60; round++) {
        bool down = sw_rand_below(8) == 0;

        a->no_stream = sw_rand_below(2);
        a->expire_pages = sw_rand_below(4) == 0;
        if (down) {
            fake_down(&a->b.server);
        }
        for (uint64_t k = sw_rand_below(30); k; k--) {
            change(a, (int)sw_rand_below(NAMES), sw_rand_below(3) == 0);
            if (sw_rand_below(10) == 0)
                drop_all(a);
            if (sw_rand_below(10) == 0)
                compact(a);
            test_now += SW_NS_PER_MS * sw_rand_below(500);
            bench_turns(&a->b, (int)sw_rand_below(5));
        }
        if (down)
            fake_listen(&a->b.server, port);
        if (round % 4 == 0)
            bench_until(&a->b, same_state(a));
    }
    bench_until(&a->b, same_state(a));
}

static void chaos(void **state)
{
    run_chaos(*state);
}

/* Handlers hear the same where the store keeps names only. */
static void chaos_without_objects(void **state)
{
    struct api *a = *state;

    a->hollow = true;
    run_chaos(a);
    assert_true(a->updates > 0 && a->dels > 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(streaming_list),
        T(plain_list_where_streams_are_refused),
        T(deaf_servers_are_noticed),
        T(pages_that_expire),
        T(disconnects_lose_and_repeat_nothing),
        T(compaction_leads_to_a_new_list),
        T(restarts),
        T(a_return_is_noticed),
        T(hopeless_servers_are_left_alone),
        T(optional_kinds),
        T(older_versions_are_read_where_the_newest_is_not_served),
        T(what_is_waited_for_is_said_in_words),
        T(resync_and_stop),
        T(garbage_on_the_stream),
        T(slow_bodies),
        T(chaos),
        T(chaos_without_objects),
    };

    return cmocka_run_group_tests_name("kube client informer", tests, NULL, NULL);
}
