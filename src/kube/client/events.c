/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

enum {
    MESSAGE_MAX = 1024,
    KNOWN_MAX = 4096, /* Events, groups of similar ones and objects remembered, each */
    WAITING_MAX = 1000,
    SIMILAR_MAX = 10,
    TRIES = 12,
    OBJECT_BURST = 25,
    TOTAL_BURST = 100,
};
static const uint64_t similar_ns = 600 * SW_NS_PER_S;
static const uint64_t object_refill_ns = 300 * SW_NS_PER_S;
static const uint64_t retry_ns = 10 * SW_NS_PER_S;
static const uint64_t total_refill_ns = SW_NS_PER_S / 5;
static const uint64_t forbidden_ns = 600 * SW_NS_PER_S;

static const struct sw_kube_gvr event_gvr = {
    .group = "", .version = "v1", .resource = "events", .kind = "Event", .namespaced = true};

/* An Event we made: the next of its kind only counts. */
struct known {
    struct sw_list lru;
    char *key;
    char *ns;
    char *name;
    char first[SW_RFC3339_LEN];
    uint64_t count;
    bool busy; /* a request is under way; what comes meanwhile goes with the next */
    bool dirty;
    bool exists; /* the server has it */
    char last[SW_RFC3339_LEN];
    char *body; /* the whole Event as JSON, for creating it; without the count */
};

/* Similar Events, or Events about one object: how many lately. */
struct tally {
    struct sw_list lru;
    char *key;
    uint64_t since_ns;
    double tokens;
    unsigned n;
};

struct job {
    struct sw_list link;
    struct sw_recorder *r;
    struct known *k;
    struct sw_kube_call *call;
    struct sw_timer timer;
    unsigned tries;
    bool create;
};

struct cache {
    struct sw_map map;
    struct sw_list lru; /* oldest first */
};

struct sw_recorder {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    char *component;
    char *instance;
    struct cache known;
    struct cache similar;
    struct cache objects;
    struct sw_list jobs;
    size_t n_jobs;
    struct sw_recorder_stats stats;
    double tokens; /* of all objects */
    uint64_t tokens_ns;
    uint64_t forbidden_until_ns; /* 0: they may be written */
    uint64_t full_logged_ns;     /* when a flood was logged last */
};

static void known_free(struct known *k)
{
    sw_list_unlink(&k->lru);
    sw_free(k->key);
    sw_free(k->ns);
    sw_free(k->name);
    sw_free(k->body);
    sw_free(k);
}

static void tally_free(struct tally *t)
{
    sw_list_unlink(&t->lru);
    sw_free(t->key);
    sw_free(t);
}

static void job_free(struct job *j)
{
    sw_list_unlink(&j->link);
    j->r->n_jobs--;
    sw_timer_stop(j->r->loop, &j->timer);
    sw_kube_call_cancel(j->call);
    sw_free(j);
}

struct sw_recorder *sw_recorder_new(struct sw_kube_client *c, const char *component,
                                    const char *instance)
{
    struct sw_recorder *r = SW_NEW(struct sw_recorder);

    r->client = c;
    r->loop = sw_kube_client_loop(c);
    r->tokens = TOTAL_BURST;
    r->tokens_ns = sw_loop_now(r->loop);
    r->component = sw_strdup(component);
    r->instance = sw_strdup(instance ? instance : "");
    sw_list_init(&r->known.lru);
    sw_list_init(&r->similar.lru);
    sw_list_init(&r->objects.lru);
    sw_list_init(&r->jobs);
    return r;
}

static void tallies_free(struct cache *c)
{
    while (!sw_list_empty(&c->lru))
        tally_free(SW_CONTAINER_OF(c->lru.next, struct tally, lru));
    sw_map_done(&c->map);
}

void sw_recorder_free(struct sw_recorder *r)
{
    if (!r)
        return;
    while (!sw_list_empty(&r->jobs))
        job_free(SW_CONTAINER_OF(r->jobs.next, struct job, link));
    while (!sw_list_empty(&r->known.lru))
        known_free(SW_CONTAINER_OF(r->known.lru.next, struct known, lru));
    sw_map_done(&r->known.map);
    tallies_free(&r->similar);
    tallies_free(&r->objects);
    sw_free(r->component);
    sw_free(r->instance);
    sw_free(r);
}

/* --- counting --- */

static struct tally *tally_of(struct sw_recorder *r, struct cache *c, const char *key)
{
    struct tally *t = sw_map_get(&c->map, sw_slice_str(key));

    if (!t) {
        if (c->map.n >= KNOWN_MAX) {
            struct tally *old = SW_CONTAINER_OF(c->lru.next, struct tally, lru);

            (void)sw_map_del(&c->map, sw_slice_str(old->key));
            tally_free(old);
        }
        t = SW_NEW(struct tally);
        t->key = sw_strdup(key);
        t->since_ns = sw_loop_now(r->loop);
        t->tokens = OBJECT_BURST;
        (void)sw_map_put(&c->map, sw_slice_str(t->key), t);
    }
    sw_list_unlink(&t->lru);
    sw_list_push_back(&c->lru, &t->lru);
    return t;
}

/* Fills a bucket with what the time since *since_ns is worth. */
static void refill(double *tokens, uint64_t *since_ns, uint64_t now, uint64_t each_ns, double most)
{
    *tokens += (double)(now - *since_ns) / (double)each_ns;
    *tokens = *tokens > most ? most : *tokens;
    *since_ns = now;
}

/* False when the object, or all of them together, had more than their share. */
static bool admit(struct sw_recorder *r, const char *object)
{
    struct tally *t = tally_of(r, &r->objects, object);
    uint64_t now = sw_loop_now(r->loop);

    refill(&t->tokens, &t->since_ns, now, object_refill_ns, OBJECT_BURST);
    refill(&r->tokens, &r->tokens_ns, now, total_refill_ns, TOTAL_BURST);
    if (t->tokens < 1)
        return false;
    if (r->tokens < 1) {
        if (!r->full_logged_ns || now - r->full_logged_ns > similar_ns)
            sw_log_warn("kube", "%s: too many Events, further ones are dropped", r->component);
        r->full_logged_ns = now;
        return false;
    }
    t->tokens -= 1;
    r->tokens -= 1;
    return true;
}

static bool forbidden(struct sw_recorder *r)
{
    if (r->forbidden_until_ns && sw_loop_now(r->loop) >= r->forbidden_until_ns)
        r->forbidden_until_ns = 0;
    return r->forbidden_until_ns != 0;
}

/* One warning in a while; a namespace on its way out takes no Events, and that is fine. */
static void note_refusal(struct sw_recorder *r, const struct sw_kube_reply *reply)
{
    bool leaving = memmem(reply->message.p, reply->message.n, "terminat", 8) != NULL;

    if (reply->code != 403 || leaving || forbidden(r))
        return;
    r->forbidden_until_ns = sw_loop_now(r->loop) + forbidden_ns;
    sw_log_warn("kube", "%s: Events may not be written, none for 10 minutes: %.*s", r->component,
                SW_SLICE_ARG(sw_slice_head(reply->message, 300)));
}

/* True when so many like it came lately that they share one Event from now on. */
static bool combine(struct sw_recorder *r, const char *group)
{
    struct tally *t = tally_of(r, &r->similar, group);
    uint64_t now = sw_loop_now(r->loop);

    if (now - t->since_ns > similar_ns) {
        t->since_ns = now;
        t->n = 0;
    }
    return ++t->n > SIMILAR_MAX;
}

/* --- sending --- */

static void send_job(struct job *j);

static void on_retry(struct sw_timer *t)
{
    send_job(SW_CONTAINER_OF(t, struct job, timer));
}

static void flush(struct sw_recorder *r, struct known *k)
{
    struct job *j;

    if (k->busy || !k->dirty)
        return;
    if (r->n_jobs >= WAITING_MAX) {
        r->stats.dropped++;
        k->dirty = false;
        return;
    }
    j = SW_NEW(struct job);
    j->r = r;
    j->k = k;
    k->busy = true;
    sw_list_push_back(&r->jobs, &j->link);
    r->n_jobs++;
    send_job(j);
}

static void on_sent(void *arg, struct sw_kube_reply *reply)
{
    struct job *j = arg;
    struct sw_recorder *r = j->r;
    struct known *k = j->k;
    bool hopeless = reply->code >= 400 && reply->code < 500 && reply->code != 429;

    j->call = NULL;
    if (reply->rc == SW_OK || (j->create && sw_kube_is(reply, "AlreadyExists"))) {
        if (j->create)
            r->stats.created++;
        else
            r->stats.counted++;
        k->exists = true;
    } else if (!j->create && reply->code == 404) {
        k->exists = false; /* it expired on the server: anew */
        send_job(j);
        return;
    } else if (!hopeless && j->tries < TRIES) {
        sw_timer_start(r->loop, &j->timer, retry_ns / 2 + sw_rand_below(retry_ns), on_retry);
        return;
    } else {
        r->stats.dropped++;
        note_refusal(r, reply);
        sw_log_debug("kube", "event dropped: %.*s",
                     SW_SLICE_ARG(sw_slice_head(reply->message, 200)));
    }
    k->busy = false;
    job_free(j);
    flush(r, k);
}

static void send_job(struct job *j)
{
    struct known *k = j->k;
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = NULL;
    struct sw_kube_req req = {.gvr = &event_gvr,
                              .ns = sw_slice_str(k->ns),
                              .name = sw_slice_str(k->name),
                              .patch = SW_KUBE_PATCH_STRATEGIC};

    j->tries++;
    k->dirty = false;
    j->create = !k->exists;
    if (j->create) {
        if (sw_json_parse(&a, sw_slice_str(k->body), NULL, &body, NULL) != SW_OK)
            return; /* it was written by us */
    } else {
        body = sw_json_new_object(&a);
    }
    sw_json_put(&a, body, "count", sw_json_new_u64(&a, k->count));
    sw_json_put(&a, body, "lastTimestamp", sw_json_new_str(&a, k->last));
    req.verb = j->create ? SW_KUBE_CREATE : SW_KUBE_PATCH;
    req.body = body;
    j->call = sw_kube_do(j->r->client, &req, on_sent, j);
}

/* --- recording --- */

struct about {
    struct sw_slice api_version, kind, ns, name, uid, rv;
};

static struct about read_about(const struct sw_event_about *about)
{
    const struct sw_json *v = about->object;
    const struct sw_json *m = sw_json_find(v, "metadata");
    struct about o = {.api_version = sw_json_str(sw_json_find(v, "apiVersion")),
                      .kind = sw_json_str(sw_json_find(v, "kind")),
                      .ns = sw_json_str(sw_json_find(m, "namespace")),
                      .name = sw_json_str(sw_json_find(m, "name")),
                      .uid = sw_json_str(sw_json_find(m, "uid")),
                      .rv = sw_json_str(sw_json_find(m, "resourceVersion"))};

    if (!o.api_version.n)
        o.api_version = sw_slice_str(about->api_version);
    if (!o.kind.n)
        o.kind = sw_slice_str(about->kind);
    return o;
}

static const char *const types[] = {[SW_EVENT_NORMAL] = "Normal", [SW_EVENT_WARNING] = "Warning"};

/* The Event without its counters. */
static char *body_of(struct sw_recorder *r, const struct known *k, const struct about *o,
                     const char *type, const char *reason, const char *message)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *meta = SW_JSON_OF(&a, {"name", .str = k->name}, {"namespace", .str = k->ns});
    struct sw_json *ref =
        SW_JSON_OF(&a, {"apiVersion", .some = o->api_version}, {"kind", .some = o->kind},
                   {"namespace", .some = o->ns}, {"name", .some = o->name}, {"uid", .some = o->uid},
                   {"resourceVersion", .some = o->rv});
    struct sw_json *e =
        SW_JSON_OF(&a, {"apiVersion", .str = "v1"}, {"kind", .str = "Event"},
                   {"metadata", .json = meta}, {"involvedObject", .json = ref},
                   {"type", .str = type}, {"reason", .str = reason}, {"message", .str = message},
                   {"source", .json = SW_JSON_OF(&a, {"component", .str = r->component})},
                   {"firstTimestamp", .str = k->first}, {"reportingComponent", .str = r->component},
                   {"reportingInstance", .str = r->instance});

    return sw_slice_dup(sw_json_text(&a, e, NULL));
}

/* Makes room; an Event whose request is under way stays. */
static bool make_room(struct sw_recorder *r)
{
    if (r->known.map.n < KNOWN_MAX)
        return true;
    SW_LIST_EACH (struct known, k, &r->known.lru, lru) {
        if (!k->busy) {
            (void)sw_map_del(&r->known.map, sw_slice_str(k->key));
            known_free(k);
            return true;
        }
    }
    return false;
}

static struct known *known_new(struct sw_recorder *r, const char *key, const struct about *o)
{
    struct known *k;

    if (!make_room(r))
        return NULL;
    k = SW_NEW(struct known);
    k->key = sw_strdup(key);
    k->ns = o->ns.n ? sw_slice_dup(o->ns) : sw_strdup("default");
    /* Names of Events end up beside the object's; both together must stay a name. */
    k->name = sw_asprintf("%.*s.%llx", SW_SLICE_ARG(sw_slice_head(o->name, 230)),
                          (unsigned long long)(sw_wall_ns() ^ (sw_rand_u64() & 0xfffff)));
    (void)sw_rfc3339(sw_wall_ns(), 0, k->first);
    (void)sw_map_put(&r->known.map, sw_slice_str(k->key), k);
    return k;
}

void sw_recorder_event(struct sw_recorder *r, const struct sw_event_about *about,
                       enum sw_event_type type, const char *reason, const char *fmt, ...)
{
    struct about o = read_about(about);
    SW_ARENA_AUTO a = {0};
    char message[MESSAGE_MAX + 1];
    const char *object;
    const char *group;
    const char *text = message;
    const char *key;
    struct known *k;
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    object = sw_arena_printf(&a, "%.*s|%.*s|%.*s|%.*s", SW_SLICE_ARG(o.kind), SW_SLICE_ARG(o.ns),
                             SW_SLICE_ARG(o.name), SW_SLICE_ARG(o.uid));
    group = sw_arena_printf(&a, "%s|%s|%s", object, types[type], reason);
    key = sw_arena_printf(&a, "%s|%s", group, message);
    k = sw_map_get(&r->known.map, sw_slice_str(key));
    if (!k && combine(r, group)) {
        text = sw_arena_printf(&a, "(combined from similar events): %s", message);
        key = sw_arena_printf(&a, "%s|*", group);
        k = sw_map_get(&r->known.map, sw_slice_str(key));
    }
    if (!o.name.n || forbidden(r) || !admit(r, object) || (!k && !(k = known_new(r, key, &o)))) {
        r->stats.dropped++;
        return;
    }
    if (!k->body)
        k->body = body_of(r, k, &o, types[type], reason, text);
    sw_list_unlink(&k->lru);
    sw_list_push_back(&r->known.lru, &k->lru);
    k->count++;
    (void)sw_rfc3339(sw_wall_ns(), 0, k->last);
    k->dirty = true;
    flush(r, k);
}

struct sw_recorder_stats sw_recorder_stats(const struct sw_recorder *r)
{
    return r->stats;
}
