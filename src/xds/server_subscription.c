/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream subscribed to of one type, and how it answered. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/types.h"
#include "xds/server_int.h"

enum { NACK_HEAD = 256, NACK_TAIL = 768, DETAIL_MAX = 64 << 10, NAME_BYTES_MAX = 64 << 20 };

static const struct xds_kind kinds[] = {
    {.url = SW_XDS_SECRET, .rank = 1, .named = true, .removed_last = true},
    {.url = SW_XDS_CLUSTER, .rank = 2, .full = true, .removed_last = true},
    {.url = SW_XDS_ENDPOINT, .rank = 3, .named = true, .removed_last = true},
    {.url = SW_XDS_LISTENER, .rank = 4, .full = true},
    {.url = SW_XDS_SCOPED, .rank = 5},
    {.url = SW_XDS_ROUTE, .rank = 6, .named = true},
    {.url = SW_XDS_VHOST, .rank = 7, .named = true},
    {.url = SW_TYPE_AUTHORIZATION, .rank = 8, .removed_last = true},
    {.url = SW_TYPE_ADDRESS, .rank = 9},
    {.url = SW_TYPE_WORKLOAD, .rank = 10},
};
static const struct xds_kind any_kind;

const struct xds_kind *xds_kind_of(struct sw_slice url)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(url, kinds[i].url))
            return &kinds[i];
    }
    return &any_kind;
}

struct xds_sub *xds_sub_find(const struct xds_stream *st, struct sw_slice url)
{
    SW_LIST_EACH (struct xds_sub, u, &st->subs, link) {
        if (sw_slice_eq_str(url, u->url))
            return u;
    }
    return NULL;
}

bool xds_sub_before(const struct xds_sub *u)
{
    SW_LIST_EACH (const struct xds_sub, o, &u->stream->subs, link) {
        if (o->follow && o->kind->removed_last && o->kind->rank < u->kind->rank)
            return true;
    }
    return false;
}

/* Kept by rank; those without one come last, in the order of their arrival. */
static void insert(struct xds_stream *st, struct xds_sub *u)
{
    unsigned rank = u->kind->rank ? u->kind->rank : UINT32_MAX;
    struct sw_list *at = st->subs.prev;

    while (at != &st->subs) {
        const struct xds_sub *o = SW_CONTAINER_OF(at, struct xds_sub, link);

        if ((o->kind->rank ? o->kind->rank : UINT32_MAX) <= rank)
            break;
        at = at->prev;
    }
    sw_list_insert_after(at, &u->link);
}

struct xds_sub *xds_sub_get(struct xds_stream *st, struct sw_slice url, bool *ret_new)
{
    struct xds_sub *u = xds_sub_find(st, url);

    *ret_new = !u;
    if (u)
        return u;
    if (st->n_subs >= st->server->o.max_types)
        return NULL;
    u = SW_NEW(struct xds_sub);
    u->stream = st;
    u->url = sw_slice_dup(url);
    u->kind = xds_kind_of(url);
    sw_list_init(&u->forced);
    sw_list_init(&u->patient);
    sw_list_init(&u->gone);
    sw_list_init(&u->leaving);
    /* A client that subscribes by name has nothing yet, and gets each name on request. */
    u->base = sw_xds_snap_ref(xds_stream_snap(st, url));
    if (sw_xds_cache_table(st->cache, url))
        u->follow = xds_follow_new(sw_xds_cache_table(st->cache, url));
    st->n_subs++;
    insert(st, u);
    return u;
}

static void name_free(struct xds_name *n)
{
    sw_list_unlink(&n->forced);
    sw_xds_res_unref(n->ahead);
    sw_slice_free(&n->name);
    sw_free(n);
}

void xds_names_done(struct sw_list *l)
{
    SW_LIST_EACH (struct xds_name, n, l, forced)
        name_free(n);
}

void xds_initial_done(struct xds_sub *u)
{
    SW_MAP_FOREACH (it, &u->initial) {
        struct sw_slice key = it->key;

        sw_free(it->value);
        sw_slice_free(&key);
    }
    sw_map_done(&u->initial);
}

void xds_sub_free(struct xds_sub *u)
{
    sw_list_unlink(&u->link);
    u->stream->n_subs--;
    u->stream->n_names -= u->names.n;
    SW_MAP_DRAIN(&u->names, name_free);
    xds_names_done(&u->gone);
    xds_names_done(&u->leaving);
    xds_initial_done(u);
    xds_follow_free(u);
    sw_xds_snap_unref(u->base);
    sw_xds_snap_unref(u->stray);
    sw_xds_snap_unref(u->target);
    sw_free(u->nack);
    sw_free(u->detail);
    sw_free(u->url);
    sw_free(u);
}

static struct xds_name *name_new(struct sw_slice name)
{
    struct xds_name *n = SW_NEW(struct xds_name);

    n->name = sw_slice_copy(name);
    sw_list_init(&n->forced);
    return n;
}

int xds_sub_add(struct xds_sub *u, struct sw_slice name, bool force)
{
    struct xds_name *n = sw_map_get(&u->names, name);

    if (!n) {
        if (name.n > SW_XDS_NAME_MAX || u->stream->n_names >= u->stream->server->o.max_names ||
            u->stream->name_bytes + name.n > NAME_BYTES_MAX)
            return SW_ELIMIT;
        n = name_new(name);
        (void)sw_map_put(&u->names, n->name, n);
        u->stream->n_names++;
        u->stream->name_bytes += name.n;
    }
    u->explicit_seen = true;
    if (force)
        xds_sub_force(u, name);
    return SW_OK;
}

void xds_sub_force(struct xds_sub *u, struct sw_slice name)
{
    struct xds_name *n = sw_map_get(&u->names, name);

    if (!n)
        return;
    sw_list_unlink(&n->forced);
    sw_list_push_back(&u->forced, &n->forced);
}

void xds_sub_await(struct xds_sub *u, struct sw_slice name)
{
    struct xds_name *n = sw_map_get(&u->names, name);

    if (n && !sw_list_linked(&n->forced))
        sw_list_push_back(&u->patient, &n->forced);
}

void xds_sub_drop(struct xds_sub *u, struct sw_slice name)
{
    struct xds_name *n = sw_map_del(&u->names, name);

    if (!n)
        return;
    u->stream->n_names--;
    u->stream->name_bytes -= n->name.n;
    u->n_owed -= n->owed;
    u->n_ahead -= n->ahead != NULL;
    name_free(n);
}

void xds_sub_echo(struct xds_sub *u, struct sw_slice name)
{
    struct xds_name *n = name_new(name);

    sw_list_push_back(&u->gone, &n->forced);
    u->n_gone++;
}

void xds_sub_leave(struct xds_sub *u, struct sw_slice name)
{
    sw_list_push_back(&u->leaving, &name_new(name)->forced);
}

void xds_sub_stray(struct xds_sub *u, struct sw_xds_snap *s)
{
    struct sw_xds_snap *all;

    if (!s)
        return;
    all = sw_xds_snap_union(u->stray, s);
    sw_xds_snap_set(&u->stray, all);
}

void xds_sub_set_wildcard(struct xds_sub *u, bool on)
{
    if (on == u->wildcard)
        return;
    if (u->stream->delta) {
        xds_sub_stray(u, u->base);
        xds_sub_stray(u, u->target);
    }
    u->wildcard = on;
    sw_xds_snap_set(&u->target, NULL);
    if (!on)
        return;
    /* Nothing of it was sent: the difference to nothing is all. */
    sw_xds_snap_set(&u->base, NULL);
    u->answer = true;
}

bool xds_sub_wants(const struct xds_sub *u, struct sw_slice name)
{
    return u->wildcard || sw_map_get(&u->names, name) != NULL;
}

const char *xds_sub_label(const struct xds_sub *u)
{
    bool known = u->kind != &any_kind || xds_stream_snap(u->stream, sw_slice_str(u->url))->n > 0;

    return known ? u->url : "other";
}

static void count_answer(const struct xds_sub *u, const char *result)
{
    struct sw_metrics_shard *m = u->stream->server->o.metrics;
    struct sw_slice labels[] = {sw_slice_str(xds_sub_label(u)), sw_slice_str(result)};

    if (m)
        sw_metric_add(sw_metric_get(m, SW_METRIC_XDS_ANSWERS, labels), 1);
}

static bool holds(struct sw_slice text, struct sw_slice what)
{
    return text.n && memmem(text.p, text.n, what.p, what.n);
}

/*
 * Envoy quotes the resource it refuses, private keys included, and what is wrong on a line behind.
 * Of that only the line may be logged and shown.
 */
static struct sw_slice without_keys(const struct xds_sub *u, struct sw_slice text)
{
    ptrdiff_t line;

    if (strcmp(u->url, SW_XDS_SECRET) != 0 && !holds(text, SW_SLICE_LIT("PRIVATE KEY")))
        return text;
    while (text.n && text.p[text.n - 1] == '\n')
        text.n--;
    line = sw_slice_rfind(text, '\n');
    if (line >= 0)
        text = sw_slice_from(text, (size_t)line + 1);
    if (holds(text, SW_SLICE_LIT("inline_")) || holds(text, SW_SLICE_LIT("-----BEGIN")))
        return SW_SLICE_LIT("the reason quotes a secret and is not kept");
    return text;
}

/*
 * A bounded copy. Envoy quotes whole resources in front of the error: of a long text the middle is
 * cut.
 */
static char *reason_of(struct sw_slice text)
{
    size_t head = NACK_HEAD;
    size_t tail = text.n - sw_min(text.n, NACK_TAIL);

    if (text.n <= NACK_HEAD + NACK_TAIL)
        return sw_slice_dup(text);
    while (head && ((unsigned char)text.p[head] & 0xc0) == 0x80)
        head--; /* not in the middle of a character */
    while (tail < text.n && ((unsigned char)text.p[tail] & 0xc0) == 0x80)
        tail++;
    return sw_asprintf("%.*s ... %.*s", (int)head, text.p, (int)(text.n - tail), text.p + tail);
}

/* Logs a NACK with another text than the one before (owned, freed). */
static void log_refusal(const struct xds_sub *u, char *before)
{
    const struct xds_stream *st = u->stream;
    struct sw_xds_server *s = st->server;
    bool same = before && strcmp(before, u->nack) == 0;
    struct sw_log_line l;

    sw_free(before);
    if (same || !sw_log_limit_take(&s->nacks, sw_loop_now(s->loop)))
        return;
    sw_log_begin(&l, SW_LOG_WARN, "xds", "client refused a response");
    sw_log_str(&l, "node", st->node_id);
    sw_log_cstr(&l, "type", u->url);
    sw_log_cstr(&l, "version", u->sent);
    sw_log_cstr(&l, "reason", u->nack);
    sw_log_limit_put(&s->nacks, &l);
    sw_log_end(&l);
}

static void set_detail(struct xds_sub *u, const struct sw_slice *text)
{
    sw_free(u->detail);
    u->detail = NULL;
    if (text && strcmp(u->url, SW_XDS_LISTENER) == 0)
        u->detail = sw_slice_dup(sw_slice_head(*text, sw_min(text->n, DETAIL_MAX)));
}

void xds_sub_answered(struct xds_sub *u, const struct sw_slice *text, bool retries)
{
    struct xds_stream *st = u->stream;
    char *before = u->nack;

    u->pending = false;
    xds_follow_release(u);
    u->nack = NULL;
    u->retries = retries;
    set_detail(u, text);
    count_answer(u, text ? "nack" : "ack");
    xds_server_changed(st->server);
    if (!text) {
        sw_free(before);
        u->acks++;
        memcpy(u->acked, u->sent, sizeof(u->acked));
        if (u->kind->rank)
            st->answered_ns = sw_loop_now(st->server->loop);
        return;
    }
    u->nacks++;
    u->nack = reason_of(without_keys(u, *text));
    log_refusal(u, before);
}
