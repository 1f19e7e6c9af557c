/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the parser over a byte string cut into pieces of 'step' bytes and writes down what it
 * said, one line per fact. Two cuts of the same bytes must give the same text.
 */
#pragma once

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/h1.h"

static inline void trace_ok(int rc)
{
    if (rc != SW_OK)
        abort();
}

static inline void trace_fields(struct sw_buf *out, const char *what, const struct sw_h1_field *f,
                                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        trace_ok(sw_buf_printf(out, "%s ", what));
        trace_ok(sw_buf_append_slice(out, f[i].name));
        trace_ok(sw_buf_append_str(out, "="));
        trace_ok(sw_buf_append_slice(out, f[i].value));
        trace_ok(sw_buf_append_str(out, "\n"));
    }
}

static inline void trace_head(struct sw_buf *out, const struct sw_h1_msg *m)
{
    static const char *const framings[] = {"none", "length", "chunked", "close", "tunnel"};
    static const char *const forms[] = {"origin", "absolute", "authority", "asterisk"};

    if (m->kind == SW_H1_REQUEST) {
        trace_ok(sw_buf_append_slice(out, m->method));
        trace_ok(sw_buf_append_str(out, " "));
        trace_ok(sw_buf_append_slice(out, m->target));
        trace_ok(sw_buf_printf(out, " %s scheme=%.*s authority=%.*s path=", forms[m->form],
                               SW_SLICE_ARG(m->scheme), SW_SLICE_ARG(m->authority)));
        trace_ok(sw_buf_append_slice(out, m->path_query));
    } else {
        trace_ok(sw_buf_printf(out, "%d ", m->status));
        trace_ok(sw_buf_append_slice(out, m->reason));
    }
    trace_ok(sw_buf_printf(out, " 1.%d %s %llu%s%s%s upgrade=", m->minor, framings[m->framing],
                           (unsigned long long)m->content_length, m->keep_alive ? " keep" : "",
                           m->close ? " close" : "", m->expect_continue ? " expect" : ""));
    trace_ok(sw_buf_append_slice(out, m->upgrade));
    trace_ok(sw_buf_append_str(out, "\n"));
    trace_fields(out, "field", m->fields, m->nfields);
}

struct trace {
    struct sw_buf out;
    struct sw_buf body; /* of the message being read */
    unsigned messages;
    int status; /* of the refusal, 0 = none */
    int rc;
};

/* One event; false when nothing more can follow. */
static inline bool trace_event(struct trace *t, struct sw_h1 *p, enum sw_h1_event ev)
{
    const struct sw_h1_field *f;
    size_t n;

    switch (ev) {
    case SW_H1_HEAD:
        trace_head(&t->out, sw_h1_msg(p));
        return true;
    case SW_H1_BODY:
        if (sw_h1_data(p).n == 0)
            abort();
        trace_ok(sw_buf_append_slice(&t->body, sw_h1_data(p)));
        return true;
    case SW_H1_TRAILERS:
        f = sw_h1_trailers(p, &n);
        trace_fields(&t->out, "trailer", f, n);
        return true;
    case SW_H1_END:
        trace_ok(sw_buf_append_str(&t->out, "body "));
        trace_ok(sw_buf_append_slice(&t->out, sw_buf_slice(&t->body)));
        trace_ok(sw_buf_append_str(&t->out, "\nend\n"));
        sw_buf_clear(&t->body);
        t->messages++;
        return sw_h1_msg(p)->framing != SW_H1_TUNNEL;
    }
    return false;
}

/*
 * Every piece is handed over in a fresh heap block of exact size, so the parser cannot rely on
 * old addresses and ASan sees a read past the end.
 */
static inline void trace_run(struct trace *t, enum sw_h1_kind kind,
                             const struct sw_h1_limits *limits, struct sw_slice answers,
                             struct sw_slice in, size_t step)
{
    struct sw_h1 *p = sw_h1_new(kind, limits);
    struct sw_err err = {0};
    size_t have = 0;
    size_t from = 0;
    bool go = true;

    *t = (struct trace){.out = {.max = 1 << 24}, .body = {.max = 1 << 24}};
    sw_h1_answer_to(p, answers);
    while (go) {
        char *copy = sw_strndup(in.p + from, have - from);
        char *exact = sw_malloc(have - from ? have - from : 1);
        enum sw_h1_event ev;
        size_t used = 0;

        memcpy(exact, copy, have - from);
        sw_free(copy);
        t->rc = sw_h1_next(p, sw_slice(exact, have - from), &used, &ev, &err);
        if (used > have - from)
            abort();
        if (t->rc == SW_OK) {
            go = trace_event(t, p, ev);
            if (ev == SW_H1_END && go)
                sw_h1_reset(p);
        } else if (t->rc == SW_EAGAIN && have < in.n) {
            have += sw_min(step, in.n - have);
        } else if (t->rc == SW_EAGAIN) {
            t->rc = sw_h1_eof(p, &err);
            go = t->rc == SW_OK && !sw_h1_idle(p);
        } else {
            go = false;
        }
        from += used;
        sw_free(exact);
    }
    if (t->rc != SW_OK) {
        t->status = sw_h1_error_status(p);
        trace_ok(sw_buf_append_slice(&t->out, sw_buf_slice(&t->body)));
        trace_ok(sw_buf_printf(&t->out, "\nrefused %d %d at %zu: %s\n", t->status, t->rc,
                               err.offset, err.msg));
    }
    sw_h1_free(p);
}

static inline void trace_done(struct trace *t)
{
    sw_buf_done(&t->out);
    sw_buf_done(&t->body);
}
