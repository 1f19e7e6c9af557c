/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/hold.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/client/kinds.h"

#define BACKOFF_MIN (2 * SW_NS_PER_S)
#define BACKOFF_MAX (30 * SW_NS_PER_S)
#define AWAY_MIN    (500 * SW_NS_PER_MS) /* the same without an answer */
#define AWAY_MAX    (3 * SW_NS_PER_S)
#define LOOK_NS     SW_NS_PER_S /* while another process holds the Lease */
#define CALL_NS     (5 * SW_NS_PER_S)
#define URGENT_NS   (2 * SW_NS_PER_S) /* the connection may have died with the old address */
#define RELEASES    5 /* calls to give it back: three, with a look before the second and third */

#define AGREE_NS (2 * SW_NS_PER_S) /* a Date is whole seconds, and an answer takes its time */

struct sw_hold {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_hold_opts o;
    char *ns;
    char *name;
    char *identity;
    struct sw_timer timer;
    struct sw_kube_call *call; /* at most one */
    char *rv;                  /* of the known state; NULL: look first */
    uint32_t duration_s;
    uint64_t live_until_ns; /* loop time */
    unsigned failures;      /* in a row */
    char *other;            /* a foreign holder's renewTime when we first saw it; NULL: none */
    uint64_t other_ns;      /* when that was */
    struct sw_api_clock clock;
    uint64_t sent_ns;  /* of the call under way */
    bool logged_wrong; /* the log knows that our clock is off */
    bool urgent;       /* the network changed */
    bool stopped;
    unsigned releases; /* calls that were made to give it back */
    void (*released)(void *arg);
    void *released_arg;
};

/* ---- the API's clock ---- */

void sw_api_clock_note(struct sw_api_clock *c, uint64_t date_s, uint64_t sent_ns, uint64_t now_ns)
{
    uint64_t there = date_s * SW_NS_PER_S + SW_NS_PER_S / 2;

    if (date_s == 0 || date_s > UINT64_C(9000000000))
        return;
    c->known = true;
    c->ahead_ns = (int64_t)(there - (sent_ns / 2 + now_ns / 2));
}

uint64_t sw_api_clock_now(const struct sw_api_clock *c, uint64_t now_ns, uint64_t wall_ns)
{
    uint64_t there = now_ns + (uint64_t)c->ahead_ns;
    uint64_t apart = there > wall_ns ? there - wall_ns : wall_ns - there;

    return c->known && apart > AGREE_NS ? there : wall_ns;
}

/* Now, as the Lease counts it. */
static uint64_t api_now(const struct sw_hold *h)
{
    return sw_api_clock_now(&h->clock, sw_now_ns(), sw_wall_ns());
}

static void note_clock(struct sw_hold *h, const struct sw_kube_reply *r)
{
    uint64_t now = sw_now_ns();
    uint64_t wall = sw_wall_ns();
    uint64_t there;

    sw_api_clock_note(&h->clock, r->date_s, h->sent_ns, now);
    there = sw_api_clock_now(&h->clock, now, wall);
    if ((there != wall) == h->logged_wrong)
        return;
    h->logged_wrong = there != wall;
    if (!h->logged_wrong)
        sw_log_info("connector", "this machine's clock agrees with the API's again");
    else
        sw_log_warn(
            "connector", "this machine's clock is %llu s %s the API's: using the API's",
            (unsigned long long)((there > wall ? there - wall : wall - there) / SW_NS_PER_S),
            there > wall ? "behind" : "ahead of");
}

/* ---- judging a Lease ---- */

uint32_t sw_hold_duration_s(const struct sw_json *lease)
{
    int64_t s = 0;

    if (!sw_json_i64(sw_json_walk(lease, "spec", "leaseDurationSeconds", NULL), &s) || s < 1 ||
        s > 86400)
        s = 30;
    return (uint32_t)s;
}

uint64_t sw_hold_interval_ns(uint32_t duration_s, uint64_t random)
{
    uint64_t half = sw_max(1, duration_s / 2) * SW_NS_PER_S;
    uint64_t tenth = sw_max(1, duration_s / 10) * SW_NS_PER_S;

    return half + random % tenth;
}

/* Trying as often as we would renew is no burden. */
uint64_t sw_hold_retry_ns(unsigned failures, uint32_t duration_s, bool answered, uint64_t random)
{
    uint64_t most = sw_hold_interval_ns(duration_s, 0);
    uint64_t first = answered ? BACKOFF_MIN : AWAY_MIN;
    uint64_t wait = sw_min(first << sw_min(failures - 1, 8), answered ? BACKOFF_MAX : AWAY_MAX);

    wait = sw_min(wait, most);
    return wait / 2 + random % (wait / 2 + 1);
}

bool sw_hold_foreign(const struct sw_json *lease, struct sw_slice identity, uint64_t wall_ns)
{
    struct sw_slice holder = sw_json_str(sw_json_walk(lease, "spec", "holderIdentity", NULL));
    struct sw_slice renewed = sw_json_str(sw_json_walk(lease, "spec", "renewTime", NULL));
    uint64_t patience = sw_hold_duration_s(lease) * SW_NS_PER_S * 3 / 2;
    char oldest[SW_RFC3339_LEN];

    if (holder.n == 0 || sw_slice_eq(holder, identity) || renewed.n < 20)
        return false;
    /* Other zones than Z are legal, but no client writes them: such a time counts as fresh. */
    if (renewed.p[renewed.n - 1] != 'Z' || wall_ns < patience)
        return true;
    (void)sw_rfc3339(wall_ns - patience, 0, oldest);
    return sw_slice_cmp(sw_slice_head(renewed, 19), sw_slice(oldest, 19)) >= 0;
}

/* ---- asking and renewing ---- */

static void look(struct sw_hold *h);
static void renew(struct sw_hold *h);

static void on_timer(struct sw_timer *t)
{
    struct sw_hold *h = SW_CONTAINER_OF(t, struct sw_hold, timer);

    if (h->rv)
        renew(h);
    else
        look(h);
}

static void failed(struct sw_hold *h, struct sw_kube_reply *r)
{
    sw_text_set(&h->rv, sw_slice(NULL, 0)); /* the known state may be old: look first */
    h->o.renewed(h->o.arg, false, r->code, r->message);
    if (r->code == 404) {
        h->o.gone(h->o.arg);
        return;
    }
    if (r->code == 409) {
        sw_timer_start(h->loop, &h->timer, 0, on_timer);
        return;
    }
    h->failures++;
    sw_timer_start(h->loop, &h->timer,
                   sw_hold_retry_ns(h->failures, h->duration_s, r->code != 0, sw_rand_u64()),
                   on_timer);
}

/* What every answer does; false: the call failed, and the timer tries again. */
static bool answered(struct sw_hold *h, struct sw_kube_reply *r)
{
    h->call = NULL;
    note_clock(h, r);
    if (r->rc != SW_OK)
        failed(h, r);
    return r->rc == SW_OK;
}

static void on_renewed(void *arg, struct sw_kube_reply *r)
{
    struct sw_hold *h = arg;

    if (!answered(h, r))
        return;
    h->failures = 0;
    h->urgent = false;
    h->duration_s = sw_hold_duration_s(r->object);
    h->live_until_ns = sw_loop_now(h->loop) + h->duration_s * SW_NS_PER_S;
    sw_text_set(&h->rv, sw_json_str(sw_json_walk(r->object, "metadata", "resourceVersion", NULL)));
    sw_timer_start(h->loop, &h->timer, sw_hold_interval_ns(h->duration_s, sw_rand_u64()), on_timer);
    h->o.renewed(h->o.arg, true, r->code, sw_slice(NULL, 0));
}

static struct sw_kube_req lease_req(const struct sw_hold *h, enum sw_kube_verb verb)
{
    return (struct sw_kube_req){.verb = verb,
                                .gvr = &sw_leases_gvr,
                                .ns = sw_slice_str(h->ns),
                                .name = sw_slice_str(h->name),
                                .timeout_ns = h->urgent ? URGENT_NS : CALL_NS,
                                .once = true};
}

static void ask(struct sw_hold *h, const struct sw_kube_req *req, sw_kube_cb cb)
{
    h->sent_ns = sw_now_ns();
    h->call = sw_kube_do(h->client, req, cb, h);
}

static void get(struct sw_hold *h, sw_kube_cb cb)
{
    struct sw_kube_req req = lease_req(h, SW_KUBE_GET);

    ask(h, &req, cb);
}

/* Only if it still is what we saw: two holders would otherwise overwrite each other for ever. */
static void patch(struct sw_hold *h, bool release, sw_kube_cb cb)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = sw_json_new_object(&a);
    struct sw_kube_req req = lease_req(h, SW_KUBE_PATCH);
    struct sw_json *spec;
    char now[SW_RFC3339_LEN];

    sw_json_put_text(&a, sw_json_put_object(&a, body, "metadata"), "resourceVersion", h->rv);
    spec = sw_json_put_object(&a, body, "spec");
    if (release) {
        sw_json_put(&a, spec, "holderIdentity", sw_json_new_null(&a));
        sw_json_put(&a, spec, "renewTime", sw_json_new_null(&a));
    } else {
        sw_json_put_text(&a, spec, "holderIdentity", h->identity);
        sw_json_put_text(&a, spec, "renewTime", sw_rfc3339(api_now(h), 1, now));
    }
    req.body = body;
    req.patch = SW_KUBE_PATCH_MERGE;
    ask(h, &req, cb);
}

static void renew(struct sw_hold *h)
{
    if (!h->call && !h->stopped)
        patch(h, false, on_renewed);
}

/*
 * Another process holds the Lease and renewed it lately. It may have died since: we take over when
 * renewTime stays still for as long as the Lease claims to last, and give up when it moves.
 */
static void on_foreign(struct sw_hold *h, const struct sw_json *lease)
{
    struct sw_slice holder = sw_json_str(sw_json_walk(lease, "spec", "holderIdentity", NULL));
    struct sw_slice renewed = sw_json_str(sw_json_walk(lease, "spec", "renewTime", NULL));
    uint64_t now = sw_loop_now(h->loop);

    if (!h->other) {
        sw_log_warn("connector", "Lease '%s' is held by '%.*s': waiting until it expires", h->name,
                    SW_SLICE_ARG_MAX(holder, 200));
        sw_text_set(&h->other, renewed);
        h->other_ns = now;
        h->live_until_ns = 0;
        h->o.foreign(h->o.arg);
    } else if (!sw_slice_eq_str(renewed, h->other)) {
        h->stopped = true;
        h->live_until_ns = 0; /* not ours to give back */
        h->o.taken(h->o.arg, holder);
        return;
    } else if (now - h->other_ns > sw_hold_duration_s(lease) * SW_NS_PER_S) {
        sw_log_info("connector", "Lease '%s' expired: taking it over", h->name);
        renew(h);
        return;
    }
    sw_text_set(&h->rv, sw_slice(NULL, 0));
    sw_timer_start(h->loop, &h->timer, LOOK_NS, on_timer);
}

static void on_looked(void *arg, struct sw_kube_reply *r)
{
    struct sw_hold *h = arg;

    if (!answered(h, r))
        return;
    sw_text_set(&h->rv, sw_json_str(sw_json_walk(r->object, "metadata", "resourceVersion", NULL)));
    if (sw_hold_foreign(r->object, sw_slice_str(h->identity), api_now(h))) {
        on_foreign(h, r->object);
        return;
    }
    sw_text_set(&h->other, sw_slice(NULL, 0));
    renew(h);
}

static void look(struct sw_hold *h)
{
    if (!h->call && !h->stopped)
        get(h, on_looked);
}

/* ---- life ---- */

struct sw_hold *sw_hold_new(struct sw_kube_client *c, const struct sw_hold_opts *o)
{
    struct sw_hold *h = SW_NEW(struct sw_hold);

    h->client = c;
    h->loop = sw_kube_client_loop(c);
    h->o = *o;
    h->ns = sw_slice_dup(o->ns);
    h->name = sw_slice_dup(o->name);
    h->identity = sw_slice_dup(o->identity);
    h->duration_s = 30;
    sw_timer_start(h->loop, &h->timer, 0, on_timer);
    return h;
}

void sw_hold_free(struct sw_hold *h)
{
    if (!h)
        return;
    sw_timer_stop(h->loop, &h->timer);
    sw_kube_call_cancel(h->call);
    sw_free(h->ns);
    sw_free(h->name);
    sw_free(h->identity);
    sw_free(h->rv);
    sw_free(h->other);
    sw_free(h);
}

void sw_hold_network_changed(struct sw_hold *h, bool slept)
{
    if (slept)
        h->live_until_ns = 0;
    h->failures = 0;
    h->urgent = true;
    if (h->stopped)
        return;
    /* One under way may wait for a connection that is dead. */
    sw_kube_call_cancel(SW_TAKE(h->call));
    sw_text_set(&h->rv, sw_slice(NULL, 0));
    sw_timer_start(h->loop, &h->timer, 0, on_timer);
}

void sw_hold_again(struct sw_hold *h)
{
    if (h->failures && !h->call && !h->stopped)
        sw_timer_start(h->loop, &h->timer, 0, on_timer);
}

void sw_hold_renew_now(struct sw_hold *h)
{
    if (sw_timer_running(&h->timer) && !h->stopped)
        sw_timer_start(h->loop, &h->timer, 0, on_timer);
}

static void give_back(struct sw_hold *h);

/*
 * The renewal that was cancelled may have arrived: then the known state of the Lease is old, and it
 * is ours all the same.
 */
static void on_released(void *arg, struct sw_kube_reply *r)
{
    struct sw_hold *h = arg;

    h->call = NULL;
    if (r->code == 409) {
        sw_text_set(&h->rv, sw_slice(NULL, 0));
        give_back(h);
        return;
    }
    if (r->rc != SW_OK)
        sw_log_debug("connector", "cannot release Lease '%s': %.*s", h->name,
                     SW_SLICE_ARG_MAX(r->message, 200));
    h->released(h->released_arg);
}

static void on_looked_last(void *arg, struct sw_kube_reply *r)
{
    struct sw_hold *h = arg;
    struct sw_slice holder;

    h->call = NULL;
    holder = r->rc == SW_OK ? sw_json_str(sw_json_walk(r->object, "spec", "holderIdentity", NULL))
                            : sw_slice(NULL, 0);
    if (!sw_slice_eq_str(holder, h->identity)) {
        h->released(h->released_arg);
        return;
    }
    sw_text_set(&h->rv, sw_json_str(sw_json_walk(r->object, "metadata", "resourceVersion", NULL)));
    give_back(h);
}

static void give_back(struct sw_hold *h)
{
    if (h->releases++ == RELEASES)
        h->released(h->released_arg);
    else if (h->rv)
        patch(h, true, on_released);
    else
        get(h, on_looked_last);
}

static void on_release_now(struct sw_timer *t)
{
    struct sw_hold *h = SW_CONTAINER_OF(t, struct sw_hold, timer);

    if (sw_hold_live(h))
        give_back(h);
    else
        h->released(h->released_arg);
}

void sw_hold_release(struct sw_hold *h, void (*done)(void *arg), void *arg)
{
    h->released = done;
    h->released_arg = arg;
    h->stopped = true;
    sw_kube_call_cancel(SW_TAKE(h->call));
    sw_timer_start(h->loop, &h->timer, 0, on_release_now);
}

bool sw_hold_live(const struct sw_hold *h)
{
    return h->live_until_ns > sw_loop_now(h->loop);
}
