/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/health.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum { WORDS_MAX = 8192 };

/* Everything that is missing shows within this time of the first of it. */
static const uint64_t gather_ns = 2 * SW_NS_PER_S;

/* ---- words ---- */

/* Text that is cut where it does not fit. */
static void put(struct sw_buf *out, const char *text)
{
    if (out)
        (void)!sw_buf_append_str(out, text);
}

/* "gateways.gateway.networking.k8s.io/status", as kubectl takes it. */
static void put_resource(struct sw_buf *out, const struct sw_kube_gvr *gvr, const char *sub)
{
    put(out, gvr->resource);
    put(out, *gvr->group ? "." : "");
    put(out, gvr->group);
    put(out, *sub ? "/" : "");
    put(out, sub);
}

/* "patch a, b; watch c" */
static void put_denied(const struct kube_health *h, struct sw_buf *out)
{
    const char *verb = "";

    for (size_t i = 0; i < h->n_denied; i++) {
        const struct kube_right *r = &h->denied[i];
        bool same = strcmp(verb, r->verb) == 0;

        put(out, i ? same ? ", " : "; " : "");
        put(out, same ? "" : r->verb);
        put(out, same ? "" : " ");
        put_resource(out, r->gvr, r->sub);
        verb = r->verb;
    }
}

static bool same_kind(const struct sw_kube_gvr *a, const struct sw_kube_gvr *b)
{
    return strcmp(a->resource, b->resource) == 0 && strcmp(a->group, b->group) == 0;
}

static bool is_denied(const struct kube_health *h, const struct sw_kube_gvr *gvr)
{
    for (size_t i = 0; i < h->n_denied; i++) {
        if (same_kind(h->denied[i].gvr, gvr) && !h->denied[i].sub[0])
            return true;
    }
    return false;
}

typedef bool (*reader_test)(const struct kube_health *h, const struct kube_reader *r);

static bool not_served(const struct kube_health *h, const struct kube_reader *r)
{
    return r->absent;
}

static bool needed_not_served(const struct kube_health *h, const struct kube_reader *r)
{
    return r->absent && (r->needed || !r->optional);
}

static bool still_reading(const struct kube_health *h, const struct kube_reader *r)
{
    return !r->synced && !r->absent && !is_denied(h, r->gvr);
}

static struct kube_reader *reader_at(struct sw_list *it)
{
    return SW_CONTAINER_OF(it, struct kube_reader, link);
}

/* Lists the kinds that pass, each once, after the lead; returns their number. */
static size_t put_kinds(const struct kube_health *h, reader_test test, const char *lead,
                        struct sw_buf *out)
{
    const struct sw_kube_gvr *named[64];
    size_t n = 0;

    SW_LIST_FOREACH (it, &h->readers) {
        const struct kube_reader *r = reader_at(it);
        bool again = !test(h, r) || n == SW_ARRAY_LEN(named);

        for (size_t k = 0; k < n && !again; k++)
            again = same_kind(named[k], r->gvr);
        if (again)
            continue;
        put(out, n ? ", " : lead);
        put_resource(out, r->gvr, "");
        named[n++] = r->gvr;
    }
    return n;
}

/* True when a right that is missing keeps an informer from its first complete state. */
static bool reader_denied(const struct kube_health *h)
{
    SW_LIST_FOREACH (it, &h->readers) {
        if (!reader_at(it)->synced && is_denied(h, reader_at(it)->gvr))
            return true;
    }
    return false;
}

static const char *sep(size_t n)
{
    return n ? "; " : "";
}

bool kube_health_synced(const struct kube_health *h, struct sw_buf *ret_waits)
{
    SW_BUF_AUTO kinds = {.max = WORDS_MAX};
    size_t n = 0;
    size_t reading = put_kinds(h, still_reading, "", &kinds);

    if (reader_denied(h)) {
        put(ret_waits, "missing rights: ");
        if (ret_waits)
            put_denied(h, ret_waits);
        n++;
    }
    if (put_kinds(h, needed_not_served, "", NULL)) {
        put(ret_waits, sep(n++));
        (void)put_kinds(h, needed_not_served,
                        "kinds that the API server does not serve: ", ret_waits);
    }
    if (!reading)
        return n == 0;
    put(ret_waits, sep(n));
    put(ret_waits, h->away[0] ? "the API server: " : "the first list of ");
    put(ret_waits, h->away);
    if (!h->away[0] && ret_waits)
        (void)!sw_buf_append_slice(ret_waits, sw_buf_slice(&kinds));
    return false;
}

/* ---- the line ---- */

static void log_missing(const struct kube_health *h, struct sw_slice denied, struct sw_slice kinds)
{
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_WARN, "kube",
                 h->away[0] ? "API unreachable, retrying" : "missing rights or kinds, retrying");
    sw_log_cstr(&l, "reason", h->away[0] ? h->away : NULL);
    if (denied.n)
        sw_log_str(&l, "forbidden", denied);
    if (kinds.n)
        sw_log_str(&l, "not_served", kinds);
    sw_log_end(&l);
}

static void on_gathered(struct sw_timer *t)
{
    struct kube_health *h = SW_CONTAINER_OF(t, struct kube_health, timer);
    SW_BUF_AUTO denied = {.max = WORDS_MAX};
    SW_BUF_AUTO kinds = {.max = WORDS_MAX};
    char *now;

    put_denied(h, &denied);
    (void)put_kinds(h, not_served, "", &kinds);
    now = sw_asprintf("%s|%.*s|%.*s", h->away[0] ? "away" : "", SW_SLICE_ARG(sw_buf_slice(&denied)),
                      SW_SLICE_ARG(sw_buf_slice(&kinds)));
    if (strcmp(now, h->logged ? h->logged : "||") == 0) {
        sw_free(now);
        return;
    }
    if (strcmp(now, "||") != 0)
        log_missing(h, sw_buf_slice(&denied), sw_buf_slice(&kinds));
    else
        sw_log_info("kube", "API server reachable, all kinds and permissions present");
    sw_free(h->logged);
    h->logged = now;
}

void kube_health_changed(struct kube_health *h)
{
    if (!h->closing && !sw_timer_running(&h->timer))
        sw_timer_start(h->loop, &h->timer, gather_ns, on_gathered);
}

/* ---- reports ---- */

struct kube_right kube_right_of(const struct sw_kube_req *req, bool watch)
{
    static const char *const verbs[] = {
        [SW_KUBE_GET] = "get",
        [SW_KUBE_LIST] = "list",
        [SW_KUBE_CREATE] = "create",
        [SW_KUBE_UPDATE] = "update",
        [SW_KUBE_PATCH] = "patch",
        [SW_KUBE_DELETE] = "delete",
        [SW_KUBE_DELETE_COLLECTION] = "deletecollection",
    };
    struct kube_right r = {.gvr = req->gvr};

    if (!req->gvr || req->path || req->may_lack)
        return r;
    r.verb = watch ? "watch" : verbs[req->verb];
    (void)snprintf(r.sub, sizeof(r.sub), "%s", req->sub ? req->sub : "");
    return r;
}

static int right_cmp(const struct kube_right *a, const struct kube_right *b)
{
    int cmp = strcmp(a->verb, b->verb);

    if (cmp == 0)
        cmp = strcmp(a->gvr->group, b->gvr->group);
    if (cmp == 0)
        cmp = strcmp(a->gvr->resource, b->gvr->resource);
    return cmp == 0 ? strcmp(a->sub, b->sub) : cmp;
}

/* Keeps the list of missing rights sorted. */
static void note_right(struct kube_health *h, const struct kube_right *right, bool denied)
{
    size_t at = 0;
    bool found;

    if (!right->verb || (!denied && !h->n_denied))
        return;
    while (at < h->n_denied && right_cmp(&h->denied[at], right) < 0)
        at++;
    found = at < h->n_denied && right_cmp(&h->denied[at], right) == 0;
    if (found == denied || (denied && h->n_denied == KUBE_DENIED_MAX))
        return;
    if (denied) {
        memmove(h->denied + at + 1, h->denied + at, (h->n_denied - at) * sizeof(*right));
        h->denied[at] = *right;
        h->n_denied++;
    } else {
        h->n_denied--;
        memmove(h->denied + at, h->denied + at + 1, (h->n_denied - at) * sizeof(*right));
    }
    kube_health_changed(h);
}

static void note_away(struct kube_health *h, const char *lead, struct sw_slice why)
{
    bool news = !h->away[0] != !(*lead || why.n);

    (void)snprintf(h->away, sizeof(h->away), "%s%.*s", lead, (int)sw_min(why.n, 160), why.p);
    if (!news)
        return;
    kube_health_changed(h);
    if (!h->away[0]) {
        SW_LIST_FOREACH (it, &h->readers)
            reader_at(it)->wake(reader_at(it));
    }
}

bool sw_kube_lacks_right(const struct sw_kube_reply *r)
{
    return r->code == 403 && memmem(r->message.p, r->message.n, "\" cannot ", 9);
}

void kube_health_accepted(struct kube_health *h, const struct kube_right *right)
{
    note_away(h, "", sw_slice("", 0));
    note_right(h, right, false);
}

void kube_health_answered(struct kube_health *h, const struct kube_right *right,
                          const struct sw_kube_reply *r)
{
    if (r->code == 401) {
        note_away(h, "it refuses our credentials: ", r->message);
        return;
    }
    note_away(h, "", sw_slice("", 0));
    /* Objects that do not exist and conflicts are judged after the right. */
    note_right(h, right, sw_kube_lacks_right(r));
}

void kube_health_failed(struct kube_health *h, const struct sw_err *err)
{
    if (!h->closing && err && err->rc != SW_EINVAL && err->rc != SW_ECANCELED)
        note_away(h, "", sw_slice_str(err->msg));
}

void kube_health_init(struct kube_health *h, struct sw_loop *loop)
{
    h->loop = loop;
    sw_list_init(&h->readers);
}

void kube_health_done(struct kube_health *h)
{
    sw_timer_stop(h->loop, &h->timer);
    sw_free(h->logged);
}
