/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open connections judged again. When the epoch changes, the control plane is asked about the
 * grants of all open connections, a batch at a time; those it denies now are closed. A control
 * plane that cannot be asked closes nothing: it is asked again until it answers.
 */
#include "link/review.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "link/link_int.h"

enum {
    BATCH = 500,             /* grants of one question; the server takes 1,000 */
    BATCH_BYTES = 900 << 10, /* it takes 1 MiB */
    RETRY_LEAST_MS = 500,
    RETRY_MOST_MS = 15000,
};

struct link_review {
    struct link_worker *w;
    uint64_t upto; /* ids up to this one were asked about in this pass */
    uint64_t last; /* the newest one when the pass began */
    uint64_t asked[BATCH];
    size_t n_asked;
    unsigned retry_ms;
    bool running;
    bool again; /* the epoch changed meanwhile */
    struct sw_timer timer;
    size_t closed;
};

int link_review_parse(struct sw_slice body, size_t n, link_review_line fn, void *arg)
{
    struct sw_slice rest = body;
    size_t lines = 0;

    if (rest.n && rest.p[rest.n - 1] == '\n')
        rest.n--;
    /* Whole before anything is done: half an answer is none. */
    for (int pass = 0; pass < 2; pass++) {
        struct sw_slice at = rest;

        lines = 0;
        while (at.p) {
            struct sw_slice line = sw_slice_cut(&at, '\n');
            bool ok = sw_slice_eq_str(line, "ok");
            bool denied = sw_slice_eq_str(line, "denied") ||
                          sw_slice_has_prefix(line, SW_SLICE_LIT("denied "));

            if (!ok && !denied)
                return SW_EPROTO;
            if (pass == 1 && denied)
                fn(arg, lines, sw_slice_from(line, 7));
            lines++;
        }
        if (lines != n)
            return SW_EPROTO;
    }
    return SW_OK;
}

static struct link_conn *find(struct link_worker *w, uint64_t id)
{
    SW_LIST_EACH (struct link_conn, c, &w->conns, link) {
        if (c->id == id)
            return c;
    }
    return NULL;
}

static void next_batch(struct link_review *r);

static void on_denied(void *arg, size_t line, struct sw_slice reason)
{
    struct link_review *r = arg;
    struct link_conn *c = find(r->w, r->asked[line]);
    char why[200];

    if (!c)
        return;
    (void)snprintf(why, sizeof(why), "connection closed due to policy change: %.*s",
                   SW_SLICE_ARG_MAX(reason, 120));
    sw_metric_count(r->w->shard, SW_METRIC_LINK_REVIEWS, "denied");
    r->closed++;
    c->kill(c, "policy_change", why);
}

static void on_retry(struct sw_timer *t)
{
    struct link_review *r = SW_CONTAINER_OF(t, struct link_review, timer);

    r->running = false;
    link_review_start(r);
}

static void failed(struct link_review *r, const char *why)
{
    sw_log_warn("link", "review of open connections failed, retrying in %u ms: %s", r->retry_ms,
                why);
    sw_metric_count(r->w->shard, SW_METRIC_LINK_REVIEWS, "failed");
    sw_timer_start(r->w->loop, &r->timer, r->retry_ms * SW_NS_PER_MS, on_retry);
    r->retry_ms = r->retry_ms * 2 < RETRY_MOST_MS ? r->retry_ms * 2 : RETRY_MOST_MS;
}

static void on_answer(void *arg, int rc, struct sw_slice body, const struct sw_err *err)
{
    struct link_review *r = arg;
    size_t before = r->closed;

    if (rc == SW_OK && link_review_parse(body, r->n_asked, on_denied, r) != SW_OK) {
        failed(r, "answer is malformed");
        return;
    }
    if (rc != SW_OK) {
        failed(r, err->msg);
        return;
    }
    r->retry_ms = RETRY_LEAST_MS;
    sw_metric_add(sw_metric_get1(r->w->shard, SW_METRIC_LINK_REVIEWS, "ok"),
                  r->n_asked - (r->closed - before));
    next_batch(r);
}

/* Ids grow along the list. */
static void collect(struct link_review *r, struct sw_buf *out)
{
    r->n_asked = 0;
    SW_LIST_EACH (struct link_conn, c, &r->w->conns, link) {
        if (c->id <= r->upto || c->id > r->last || !c->grant)
            continue;
        if (r->n_asked == BATCH || sw_buf_printf(out, "%s\n", c->grant) != SW_OK)
            return;
        r->asked[r->n_asked++] = c->id;
        r->upto = c->id;
    }
    r->upto = r->last;
}

static void next_batch(struct link_review *r)
{
    SW_BUF_AUTO grants = {.max = BATCH_BYTES};

    collect(r, &grants);
    if (r->n_asked) {
        link_control_review(r->w->control, sw_buf_slice(&grants), on_answer, r);
        return;
    }
    if (r->closed)
        sw_log_info("link", "policy change: %zu open connections closed", r->closed);
    r->running = false;
    if (r->again)
        link_review_start(r);
}

void link_review_start(struct link_review *r)
{
    if (r->running) {
        r->again = true;
        return;
    }
    r->running = true;
    r->again = false;
    r->closed = 0;
    r->upto = 0;
    r->last = r->w->next_id;
    next_batch(r);
}

struct link_review *link_review_new(struct link_worker *w)
{
    struct link_review *r = SW_NEW(struct link_review);

    r->w = w;
    r->retry_ms = RETRY_LEAST_MS;
    return r;
}

void link_review_free(struct link_review *r)
{
    if (!r)
        return;
    sw_timer_stop(r->w->loop, &r->timer);
    sw_free(r);
}
