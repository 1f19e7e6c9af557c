/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/race.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/link/facts.h"
#include "http/client.h"
#include "http/h2client.h"

/* Until HTTP/2 is tried again at a gateway that did not agree on it. */
static const uint64_t disagreed_ns = 600 * SW_NS_PER_S;

enum { ANSWER_MAX = 64 << 10 };

/* One gateway's part. */
struct leg {
    struct sw_link_race *race;
    struct sw_link_door *door;
    struct sw_http_call *call; /* this and the next NULL: over */
    struct sw_h2call *call2;
    int status;
    bool has_value;
    struct sw_buf value;
    struct sw_buf body;
};

struct sw_link_race {
    struct sw_link_race_opts o;
    struct leg legs[SW_LINK_GATEWAYS_MAX];
    size_t n;
    size_t open;
    uint64_t until_ns;
    struct sw_err err; /* of the first gateway that failed */
};

static void leg_cancel(struct leg *l)
{
    if (l->call)
        sw_http_call_cancel(SW_TAKE(l->call));
    if (l->call2)
        sw_h2call_cancel(SW_TAKE(l->call2));
}

static void race_free(struct sw_link_race *r)
{
    for (size_t i = 0; i < r->n; i++) {
        leg_cancel(&r->legs[i]);
        sw_buf_done(&r->legs[i].value);
        sw_buf_done(&r->legs[i].body);
    }
    sw_free(r);
}

void sw_link_race_cancel(struct sw_link_race *r)
{
    if (r)
        race_free(r);
}

/* ---- answers ---- */

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct leg *l = arg;

    l->status = msg->status;
    for (size_t i = 0; i < msg->nfields && !l->has_value; i++) {
        if (!sw_slice_ieq(msg->fields[i].name, sw_slice_str(l->race->o.field)))
            continue;
        l->has_value = sw_buf_append_slice(&l->value, msg->fields[i].value) == SW_OK;
    }
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct leg *l = arg;

    (void)!sw_buf_append_slice(&l->body, sw_slice_head(data, l->body.max - sw_buf_len(&l->body)));
}

static void finish(struct sw_link_race *r, const struct leg *won)
{
    struct sw_link_race_result res = {.err = &r->err};

    if (won) {
        res.status = won->status;
        res.body = sw_buf_slice(&won->body);
        if (won->has_value)
            res.value = sw_buf_slice(&won->value);
    }
    for (size_t i = 0; i < r->n; i++)
        leg_cancel(&r->legs[i]);
    r->o.done(r->o.arg, &res);
    race_free(r);
}

static void leg_done(struct leg *l, int rc, const struct sw_err *err)
{
    struct sw_link_race *r = l->race;

    r->open--;
    if (rc == SW_OK) {
        finish(r, l);
        return;
    }
    if (r->err.rc == SW_OK && err)
        r->err = *err;
    if (r->open == 0)
        finish(r, NULL);
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct leg *l = arg;

    l->call = NULL;
    leg_done(l, rc, err);
}

/* ---- HTTP/1.1 ---- */

static uint64_t time_left(const struct sw_link_race *r)
{
    uint64_t now = sw_loop_now(r->o.loop);

    return r->until_ns > now ? r->until_ns - now : 1;
}

static bool start_h1(struct leg *l, struct sw_err *err)
{
    static const struct sw_h1_field json = {SW_SLICE_LIT("Content-Type"),
                                            SW_SLICE_LIT("application/json; charset=utf-8")};
    const struct sw_link_race_opts *o = &l->race->o;

    l->call = sw_http_call_start(l->door->h1,
                                 &(struct sw_http_call_opts){.method = sw_slice_str(o->method),
                                                             .target = sw_slice_str(o->path),
                                                             .fields = &json,
                                                             .nfields = o->body.n ? 1 : 0,
                                                             .body = o->body,
                                                             .has_body = o->body.n > 0,
                                                             .timeout_ns = time_left(l->race),
                                                             .body_max = ANSWER_MAX,
                                                             .on_head = on_head,
                                                             .on_body = on_body,
                                                             .on_done = on_done,
                                                             .arg = l},
                                 err);
    return l->call != NULL;
}

/* ---- HTTP/2 ---- */

static void on_head2(void *arg, const struct sw_h2_head *head)
{
    struct leg *l = arg;
    struct sw_slice value = sw_h2_head_get(head, l->race->o.field);

    l->status = (int)head->status;
    l->has_value = value.p && sw_buf_append_slice(&l->value, value) == SW_OK;
}

static void on_done2(void *arg, int rc, struct sw_slice body, const struct sw_err *err)
{
    struct leg *l = arg;
    struct sw_err again = {0};

    l->call2 = NULL;
    if (rc == SW_OK) {
        (void)!sw_buf_append_slice(&l->body, sw_slice_head(body, l->body.max));
    } else if (rc != SW_ETIME && l->door->h1) { /* it is not being closed */
        if (sw_h2client_disagreed(l->door->h2))
            l->door->h1_until_ns = sw_loop_now(l->race->o.loop) + disagreed_ns;
        sw_buf_clear(&l->value);
        l->has_value = false;
        l->status = 0;
        if (start_h1(l, &again))
            return;
    }
    leg_done(l, rc, err);
}

static void start_h2(struct leg *l)
{
    static const struct sw_h2_header json = {SW_SLICE_LIT("content-type"),
                                             SW_SLICE_LIT("application/json; charset=utf-8")};
    const struct sw_link_race_opts *o = &l->race->o;

    l->call2 =
        sw_h2call_start(l->door->h2, &(struct sw_h2call_opts){.method = sw_slice_str(o->method),
                                                              .path = sw_slice_str(o->path),
                                                              .fields = &json,
                                                              .n = o->body.n ? 1 : 0,
                                                              .body = o->body,
                                                              .timeout_ns = time_left(l->race),
                                                              .max_body = ANSWER_MAX,
                                                              .on_head = on_head2,
                                                              .on_done = on_done2,
                                                              .arg = l});
}

/* ---- the start ---- */

static bool start_leg(struct leg *l, struct sw_link_door *door, struct sw_err *err)
{
    l->door = door;
    sw_buf_init(&l->value, SW_LINK_RACE_VALUE);
    sw_buf_init(&l->body, SW_LINK_RACE_BODY);
    if (!door->h1)
        return false;
    if (!door->h2 || sw_loop_now(l->race->o.loop) < door->h1_until_ns)
        return start_h1(l, err);
    start_h2(l);
    return true;
}

struct sw_link_race *sw_link_race_start(const struct sw_link_race_opts *o, struct sw_err *err)
{
    struct sw_link_race *r = SW_NEW(struct sw_link_race);

    r->o = *o;
    r->until_ns = sw_loop_now(o->loop) + o->timeout_ns;
    (void)sw_err_set(err, SW_EINVAL, "peer has no gateways");
    for (size_t i = 0; i < o->n && i < SW_LINK_GATEWAYS_MAX; i++) {
        struct leg *l = &r->legs[r->n++];

        l->race = r;
        r->open += start_leg(l, &o->doors[i], err);
    }
    if (r->open)
        return r;
    race_free(r);
    return NULL;
}
