/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An API in a few lines: objects by path, one revision for all, lists, watches with a log, apply by
 * merging, status patches with their guard, deletes. No conflicts between managers, no validation.
 */
#pragma once

#include "base/json/patch.h"
#include "base/map.h"
#include "base/vec.h"
#include "http/url.h"

#include "../kube/test_kube_client.h"

struct mini_obj {
    char *path; /* "/api/v1/namespaces/a/configmaps/x" */
    char *json;
    uint64_t rev;
};

struct mini_event {
    char *collection; /* "configmaps" */
    char *path;
    char *line;
    uint64_t rev;
};

struct mini_watcher {
    struct fake_conn *c;
    char *collection;
    char *selector; /* name, or "" */
    size_t at;
};

struct mini {
    struct bench b;
    uint64_t rev;
    SW_VEC(struct mini_obj) objs;
    SW_VEC(struct mini_event) log;
    SW_VEC(struct mini_watcher) watchers;
    int writes;
    int conflicts;    /* answer so many writes with 409 first */
    int failures;     /* ... 500 */
    int no_namespace; /* so many applies with 404 first */
    bool hold_events; /* the watch lags behind */
    bool prune_seen;  /* the schema has no status.seen */
};

static inline const char *mini_last(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* "configmaps" of an object's path. */
static inline char *mini_collection(const char *path)
{
    const char *name = strrchr(path, '/');
    const char *p = name;

    while (p > path && p[-1] != '/')
        p--;
    return sw_strndup(p, (size_t)(name - p));
}

static inline void mini_pump(struct mini *m)
{
    if (m->hold_events)
        return;
    for (size_t k = 0; k < m->watchers.n; k++) {
        struct mini_watcher *w = &m->watchers.p[k];

        for (; w->at < m->log.n; w->at++) {
            const struct mini_event *e = &m->log.p[w->at];

            if (strcmp(e->collection, w->collection) == 0 &&
                (!*w->selector || strcmp(w->selector, mini_last(e->path)) == 0))
                fake_chunk(w->c, e->line);
        }
    }
}

static inline struct mini_obj *mini_find(struct mini *m, const char *path)
{
    for (size_t k = 0; k < m->objs.n; k++) {
        if (strcmp(m->objs.p[k].path, path) == 0)
            return &m->objs.p[k];
    }
    return NULL;
}

static inline void mini_log(struct mini *m, const char *type, const struct mini_obj *o)
{
    struct mini_event e = {.collection = mini_collection(o->path),
                           .path = sw_strdup(o->path),
                           .line = sw_asprintf("{\"type\":\"%s\",\"object\":%s}\n", type, o->json),
                           .rev = m->rev};

    sw_vec_push(&m->log, e);
    mini_pump(m);
}

/* Stores v (changed: it gets its revision). */
static inline void mini_store(struct mini *m, struct sw_arena *a, const char *path,
                              struct sw_json *v)
{
    struct mini_obj *o = mini_find(m, path);
    struct sw_json *meta = sw_json_find(v, "metadata");
    const char *type = o ? "MODIFIED" : "ADDED";
    const char *rest = strstr(path, "/namespaces/");

    m->rev++;
    if (!meta) {
        meta = sw_json_new_object(a);
        sw_json_put(a, v, "metadata", meta);
    }
    sw_json_put(a, meta, "name", sw_json_new_str(a, mini_last(path)));
    if (rest && strchr(rest + 12, '/'))
        sw_json_put_str(a, meta, "namespace", sw_slice(rest + 12, strcspn(rest + 12, "/")));
    sw_json_put(a, meta, "resourceVersion",
                sw_json_new_str(a, sw_arena_printf(a, "%llu", (unsigned long long)m->rev)));
    if (!sw_json_find(meta, "uid"))
        sw_json_put(a, meta, "uid",
                    sw_json_new_str(a, sw_arena_printf(a, "u%llu", (unsigned long long)m->rev)));
    if (!o) {
        sw_vec_push(&m->objs, (struct mini_obj){.path = sw_strdup(path)});
        o = &m->objs.p[m->objs.n - 1];
    }
    sw_free(o->json);
    o->json = sw_slice_dup(sw_json_text(a, v, NULL));
    o->rev = m->rev;
    mini_log(m, type, o);
}

static inline void mini_put(struct mini *m, const char *path, const char *json)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(&a, sw_slice_str(json), NULL, &v, NULL), SW_OK);
    mini_store(m, &a, path, v);
}

static inline bool mini_delete(struct mini *m, const char *path)
{
    struct mini_obj *o = mini_find(m, path);

    if (!o)
        return false;
    m->rev++;
    mini_log(m, "DELETED", o);
    sw_free(o->path);
    sw_free(o->json);
    sw_vec_swap_remove(&m->objs, (size_t)(o - m->objs.p));
    return true;
}

static inline const char *mini_get(struct mini *m, const char *path)
{
    struct mini_obj *o = mini_find(m, path);

    return o ? o->json : NULL;
}

static inline void mini_merge(struct sw_arena *a, struct sw_json *into, const struct sw_json *from)
{
    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json_member *f = sw_json_member_at(from, i);
        struct sw_json *old = sw_json_get(into, f->key);

        if (sw_json_is(old, SW_JSON_OBJECT) && sw_json_is(f->value, SW_JSON_OBJECT))
            mini_merge(a, old, f->value);
        else
            sw_json_set(a, into, f->key, sw_json_copy(a, f->value));
    }
}

static inline void mini_patch(struct mini *m, struct fake_conn *c, char *path)
{
    SW_ARENA_AUTO a = {0};
    char *status = strstr(path, "/status");
    struct sw_json *patch = NULL;
    struct sw_json *v = NULL;
    struct sw_json *rv;
    struct mini_obj *o;
    char *before;

    if (status)
        *status = 0;
    o = mini_find(m, path);
    assert_int_equal(sw_json_parse(&a, sw_slice_str(c->body), NULL, &patch, NULL), SW_OK);
    if (!o && status) {
        fake_reply(c, 404, NULL, "{}");
        return;
    }
    if (o)
        assert_int_equal(sw_json_parse(&a, sw_slice_str(o->json), NULL, &v, NULL), SW_OK);
    else
        v = sw_json_new_object(&a);
    rv = sw_json_walk(patch, "metadata", "resourceVersion", NULL);
    if (rv && !sw_json_equal(rv, sw_json_walk(v, "metadata", "resourceVersion", NULL), 0)) {
        fake_reply(c, 409, NULL, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}");
        return;
    }
    before = sw_slice_dup(sw_json_text(&a, v, NULL));
    mini_merge(&a, v, patch);
    if (m->prune_seen)
        (void)sw_json_remove(sw_json_find(v, "status"), SW_SLICE_LIT("seen"));
    if (!o || strcmp(before, sw_json_text(&a, v, NULL).p) != 0)
        mini_store(m, &a, path, v);
    sw_free(before);
    fake_reply(c, 200, NULL, mini_get(m, path));
}

static inline void mini_list(struct mini *m, struct fake_conn *c, const char *collection,
                             const char *selector)
{
    SW_BUF_AUTO t;
    bool first = true;
    char *s;

    sw_buf_init(&t, 16 << 20);
    assert_int_equal(sw_buf_append_str(&t, "{\"items\":["), SW_OK);
    for (size_t k = 0; k < m->objs.n; k++) {
        char *own = mini_collection(m->objs.p[k].path);

        if (strcmp(own, collection) == 0 &&
            (!*selector || strcmp(selector, mini_last(m->objs.p[k].path)) == 0)) {
            assert_int_equal(sw_buf_printf(&t, "%s%s", first ? "" : ",", m->objs.p[k].json), SW_OK);
            first = false;
        }
        sw_free(own);
    }
    assert_int_equal(sw_buf_printf(&t, "],\"metadata\":{\"resourceVersion\":\"%llu\"}}",
                                   (unsigned long long)m->rev),
                     SW_OK);
    s = sw_buf_take_str(&t);
    fake_reply(c, 200, NULL, s);
    sw_free(s);
}

static inline void mini_read(struct mini *m, struct fake_conn *c, const char *path,
                             const struct sw_query *q)
{
    const struct sw_query_param *sel = sw_query_get(q, "fieldSelector");
    const struct sw_query_param *rv = sw_query_get(q, "resourceVersion");
    struct mini_watcher w = {.c = c, .at = m->log.n, .collection = sw_strdup(mini_last(path))};
    uint64_t from = 0;

    w.selector =
        sel ? sw_slice_dup(sw_slice_from(sel->value, strlen("metadata.name="))) : sw_strdup("");
    if (sw_query_get(q, "sendInitialEvents")) {
        fake_reply(c, 422, NULL, "{}");
    } else if (sw_query_get(q, "watch")) {
        assert_true(rv && sw_slice_to_u64(rv->value, UINT64_MAX, &from));
        while (w.at && m->log.p[w.at - 1].rev > from)
            w.at--;
        fake_stream_begin(c);
        sw_vec_push(&m->watchers, w);
        mini_pump(m);
        return;
    } else if (mini_find(m, path)) {
        fake_reply(c, 200, NULL, mini_get(m, path));
    } else if (strcmp(w.collection, "leases") != 0 && strstr(path, "/leases/") == NULL) {
        mini_list(m, c, w.collection, w.selector);
    } else {
        fake_reply(c, 404, NULL, "{}");
    }
    sw_free(w.collection);
    sw_free(w.selector);
}

static inline void mini_on_request(struct fake_conn *c, void *arg)
{
    struct mini *m = arg;
    SW_ARENA_AUTO a = {0};
    struct sw_slice p;
    struct sw_slice query;
    struct sw_query q = {0};
    struct sw_json *v = NULL;
    char *path;

    sw_target_split(sw_slice_str(c->target), &p, &query);
    path = sw_arena_dup(&a, sw_slice_from(p, strlen("/base")));
    assert_int_equal(sw_query_parse(&a, query, &q, NULL), SW_OK);
    if (strcmp(c->method, "GET") == 0) {
        mini_read(m, c, path, &q);
        return;
    }
    if (!strstr(path, "/leases")) {
        if (m->conflicts) {
            m->conflicts--;
            fake_reply(c, 409, NULL, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}");
            return;
        }
        if (m->failures) {
            m->failures--;
            fake_reply(c, 500, NULL, "{}");
            return;
        }
        if (m->no_namespace && strcmp(c->method, "PATCH") == 0 && !strstr(path, "/status")) {
            m->no_namespace--;
            fake_reply(c, 404, NULL, "{\"kind\":\"Status\",\"reason\":\"NotFound\"}");
            return;
        }
        m->writes++;
    }
    if (strcmp(c->method, "PATCH") == 0) {
        mini_patch(m, c, path);
    } else if (strcmp(c->method, "DELETE") == 0) {
        fake_reply(c, mini_delete(m, path) ? 200 : 404, NULL, "{}");
    } else {
        assert_int_equal(sw_json_parse(&a, sw_slice_str(c->body), NULL, &v, NULL), SW_OK);
        if (strcmp(c->method, "POST") == 0)
            path = sw_arena_printf(
                &a, "%s/%.*s", path,
                SW_SLICE_ARG(sw_json_str(sw_json_walk(v, "metadata", "name", NULL))));
        mini_store(m, &a, path, v);
        fake_reply(c, 200, NULL, mini_get(m, path));
    }
}

static inline void mini_on_gone(struct fake_conn *c, void *arg)
{
    struct mini *m = arg;

    for (size_t k = 0; k < m->watchers.n; k++) {
        if (m->watchers.p[k].c == c) {
            sw_free(m->watchers.p[k].collection);
            sw_free(m->watchers.p[k].selector);
            sw_vec_swap_remove(&m->watchers, k--);
        }
    }
}

static inline void mini_open(struct mini *m)
{
    *m = (struct mini){.rev = 10};
    bench_open(&m->b, mini_on_request, m);
    m->b.server.on_gone = mini_on_gone;
}

static inline void mini_close(struct mini *m)
{
    bench_close(&m->b);
    for (size_t k = 0; k < m->objs.n; k++) {
        sw_free(m->objs.p[k].path);
        sw_free(m->objs.p[k].json);
    }
    for (size_t k = 0; k < m->log.n; k++) {
        sw_free(m->log.p[k].collection);
        sw_free(m->log.p[k].path);
        sw_free(m->log.p[k].line);
    }
    sw_vec_done(&m->objs);
    sw_vec_done(&m->log);
    sw_vec_done(&m->watchers);
}
