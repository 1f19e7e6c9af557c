/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes Events of a controller: what its build notices, conditions that turn bad or good with
 * a status it writes, and its elections. The leader's only, but for the elections. A fault is
 * reported when it lasts: objects that are created together arrive one after the other, which is no
 * fault.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/runtime_int.h"
#include "kube/fields.h"

static const uint64_t grace_ns = 2 * SW_NS_PER_S;

/* A fault: its Event is pending, or was written and the fault may end. */
struct trouble {
    struct sw_list link; /* pending, in order of due_ns */
    char *id;            /* "kind|ns/name|where|type": unique */
    size_t kind;
    char *key;
    char *where;  /* of a condition: "", or the parent or listener it is about */
    char *type;   /* of a condition; NULL: a notice of the build */
    char *reason; /* one word */
    char *text;
    uint64_t due_ns;
};

static void trouble_free(struct trouble *t)
{
    sw_list_unlink(&t->link);
    sw_free(t->id);
    sw_free(t->key);
    sw_free(t->where);
    sw_free(t->type);
    sw_free(t->reason);
    sw_free(t->text);
    sw_free(t);
}

static void forget(struct sw_control *c, struct trouble *t)
{
    (void)sw_map_del(&c->troubles, sw_slice_str(t->id));
    trouble_free(t);
}

void control_events_clear(struct sw_control *c)
{
    SW_MAP_DRAIN(&c->troubles, trouble_free);
    c->troubles = (struct sw_map){0};
    sw_timer_stop(c->loop, &c->grace);
}

/* ---- telling ---- */

static void tell(struct sw_control *c, const struct trouble *t, enum sw_event_type type)
{
    const struct sw_kube_gvr *gvr = c->o.kinds[t->kind].gvr;
    const struct sw_kube_obj *o = sw_informer_get(c->kinds[t->kind].informer, sw_slice_str(t->key));
    char version[200];
    struct sw_event_about about = {.api_version = version, .kind = gvr->kind};

    if (!o)
        return;
    about.object = o->json;
    (void)snprintf(version, sizeof(version), "%s%s%s", gvr->group, gvr->group[0] ? "/" : "",
                   gvr->version);
    sw_recorder_event(c->recorder, &about, type, t->reason, "%s", t->text);
}

static void await_due(struct sw_control *c);

static void on_grace(struct sw_timer *timer)
{
    struct sw_control *c = SW_CONTAINER_OF(timer, struct sw_control, grace);
    uint64_t now = sw_loop_now(c->loop);

    while (!sw_list_empty(&c->pending)) {
        struct trouble *t = SW_CONTAINER_OF(c->pending.next, struct trouble, link);

        if (t->due_ns > now)
            break;
        sw_list_unlink(&t->link);
        tell(c, t, SW_EVENT_WARNING);
        if (t->type) /* the status remembers it */
            forget(c, t);
    }
    await_due(c);
}

static void await_due(struct sw_control *c)
{
    uint64_t now = sw_loop_now(c->loop);
    const struct trouble *t;

    if (sw_list_empty(&c->pending) || sw_timer_running(&c->grace))
        return;
    t = SW_CONTAINER_OF(c->pending.next, struct trouble, link);
    sw_timer_start(c->loop, &c->grace, t->due_ns > now ? t->due_ns - now : 1, on_grace);
}

/* Adds a pending fault; one with the same reason and text stays as it is. Copies everything. */
static void add(struct sw_control *c, const struct trouble *like)
{
    struct trouble *t = sw_map_get(&c->troubles, sw_slice_str(like->id));

    if (t && strcmp(t->reason, like->reason) == 0 && strcmp(t->text, like->text) == 0)
        return;
    if (t)
        forget(c, t);
    if (c->troubles.n >= SW_CONTROL_TROUBLES_MAX) {
        c->stats.events_dropped++;
        return;
    }
    t = SW_NEW(struct trouble);
    sw_list_init(&t->link);
    t->id = sw_strdup(like->id);
    t->kind = like->kind;
    t->key = sw_strdup(like->key);
    t->where = like->where ? sw_strdup(like->where) : NULL;
    t->type = like->type ? sw_strdup(like->type) : NULL;
    t->reason = sw_strdup(like->reason);
    t->text = sw_strdup(like->text);
    t->due_ns = sw_loop_now(c->loop) + grace_ns;
    (void)sw_map_put(&c->troubles, sw_slice_str(t->id), t);
    sw_list_push_back(&c->pending, &t->link);
    await_due(c);
}

/* ---- what the build notices ---- */

void sw_out_notice(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                   const char *reason, struct sw_slice text)
{
    struct out_notice *n;

    if (out->notices.n >= SW_CONTROL_TROUBLES_MAX)
        return;
    n = SW_ARENA_NEW(&out->arena, struct out_notice);
    n->id = sw_slice_str(
        sw_arena_printf(&out->arena, "%zu|%.*s|notice|%s", kind, SW_SLICE_ARG(of->key), reason));
    if (sw_map_get(&out->notices, n->id))
        return;
    n->kind = kind;
    n->key = sw_arena_dup(&out->arena, of->key);
    n->reason = sw_arena_dup(&out->arena, sw_slice_str(reason));
    n->text = sw_arena_dup(&out->arena, text);
    (void)sw_map_put(&out->notices, n->id, n);
}

/* Notices that the newest output has no more are over: the same may be reported again later. */
static void sweep(struct sw_control *c)
{
    SW_MAP_EACH (struct trouble, t, &c->troubles) {
        if (!t->type && !sw_map_get(&c->last->notices, sw_slice_str(t->id)))
            forget(c, t);
    }
}

void control_events_renew(struct sw_control *c)
{
    if (!c->recorder || !c->leading || !c->last)
        return;
    sweep(c);
    SW_MAP_EACH (const struct out_notice, n, &c->last->notices) {
        struct trouble like = {.kind = n->kind};
        SW_ARENA_AUTO a = {0};

        like.id = sw_arena_dup(&a, n->id);
        like.key = sw_arena_dup(&a, sw_slice_str(n->key));
        like.reason = sw_arena_dup(&a, sw_slice_str(n->reason));
        like.text = sw_arena_dup(&a, sw_slice_str(n->text));
        add(c, &like);
    }
}

/* ---- conditions ---- */

/* The conditions of one part of a status, as they are and as they shall be. */
struct part {
    struct sw_control *c;
    size_t kind;
    struct sw_slice key;
    const char *where; /* "", "listener 'http': " */
};

/* Types that are bad when they are true (Gateway API). */
static bool negative(struct sw_slice type)
{
    static const char *const types[] = {"Conflicted", "OverlappingTLSConfig", "PartiallyInvalid"};

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        if (sw_slice_eq_str(type, types[i]))
            return true;
    }
    return false;
}

enum verdict { VERDICT_NONE, VERDICT_GOOD, VERDICT_BAD };

/* What is under way is neither. */
static enum verdict judge(const struct sw_json *condition)
{
    struct sw_slice status = sw_field_text(condition, "status");
    bool yes = sw_slice_eq_str(status, "True");

    if ((!yes && !sw_slice_eq_str(status, "False")) ||
        sw_slice_eq_str(sw_field_text(condition, "reason"), "Pending"))
        return VERDICT_NONE;
    return yes != negative(sw_field_text(condition, "type")) ? VERDICT_GOOD : VERDICT_BAD;
}

static void look_at_condition(const struct part *p, const struct sw_json *have,
                              const struct sw_json *want)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice type = sw_field_text(want, "type");
    struct sw_slice reason = sw_field_text(want, "reason");
    enum verdict now = judge(want);
    struct trouble like = {.kind = p->kind};
    struct trouble *waits;

    if (now == VERDICT_NONE ||
        (now == judge(have) && sw_slice_eq(reason, sw_field_text(have, "reason"))))
        return;
    like.id = sw_arena_printf(&a, "%zu|%.*s|%s|%.*s", p->kind, SW_SLICE_ARG(p->key), p->where,
                              SW_SLICE_ARG(type));
    like.key = sw_arena_dup(&a, p->key);
    like.where = sw_arena_dup(&a, sw_slice_str(p->where));
    like.type = sw_arena_dup(&a, type);
    like.reason = sw_arena_dup(&a, reason.n ? reason : type);
    like.text = sw_arena_printf(&a, "%s%.*s is %.*s: %.*s", p->where, SW_SLICE_ARG(type),
                                SW_SLICE_ARG(sw_field_text(want, "status")),
                                SW_SLICE_ARG(sw_slice_head(sw_field_text(want, "message"), 800)));
    if (now == VERDICT_BAD) {
        add(p->c, &like);
        return;
    }
    waits = sw_map_get(&p->c->troubles, sw_slice_str(like.id));
    if (waits)
        forget(p->c, waits); /* the fault ended before its Event was written */
    else if (judge(have) == VERDICT_BAD)
        tell(p->c, &like, SW_EVENT_NORMAL);
}

static void look_at_part(const struct part *p, const struct sw_json *have,
                         const struct sw_json *want)
{
    const struct sw_json *list = sw_json_find(want, "conditions");
    const struct sw_json *old = sw_json_find(have, "conditions");

    SW_JSON_ITEMS (c, list) {
        look_at_condition(p, sw_json_find_item(old, "type", sw_field_text(c, "type")), c);
    }
}

/* Lists in a status whose elements have conditions, and what tells the elements apart. */
static const struct {
    const char *list;
    const char *by;
    const char *word;
} lists[] = {
    {"parents", "parentRef", "parent"},
    {"listeners", "name", "listener"},
    {"ancestors", "ancestorRef", "ancestor"},
};

static const char *name_of(struct sw_arena *a, const struct sw_json *element, size_t which)
{
    const struct sw_json *by = sw_json_find(element, lists[which].by);
    struct sw_slice section = sw_field_text(by, "sectionName");
    struct sw_slice name = sw_json_str(by);

    if (!name.p)
        name = sw_field_text(by, "name");
    return sw_arena_printf(a, "%s '%.*s%s%.*s': ", lists[which].word, SW_SLICE_ARG(name),
                           section.n ? "/" : "", SW_SLICE_ARG(section));
}

static const struct sw_json *same_element(const struct sw_json *list, const struct sw_json *like,
                                          size_t which)
{
    SW_JSON_ITEMS (e, list) {
        if (sw_json_equal(sw_json_find(e, lists[which].by), sw_json_find(like, lists[which].by),
                          SW_JSON_EQ_VALUE) &&
            sw_slice_eq(sw_field_text(e, "controllerName"), sw_field_text(like, "controllerName")))
            return e;
    }
    return NULL;
}

void control_events_status(struct sw_control *c, const struct out_write *w,
                           const struct sw_kube_obj *o)
{
    const struct sw_json *have = sw_json_find(o->json, "status");
    struct part p = {.c = c, .kind = w->kind, .key = w->key, .where = ""};

    if (!c->recorder)
        return;
    look_at_part(&p, have, w->json);
    for (size_t k = 0; k < SW_ARRAY_LEN(lists); k++) {
        const struct sw_json *list = sw_json_find(w->json, lists[k].list);

        SW_JSON_ITEMS (e, list) {
            SW_ARENA_AUTO a = {0};

            p.where = name_of(&a, e, k);
            look_at_part(&p, same_element(sw_json_find(have, lists[k].list), e, k), e);
        }
    }
}

/* ---- elections, as client-go tells them ---- */

void control_events_election(struct sw_control *c, const char *what)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *lease;

    if (!c->recorder || !c->lease)
        return;
    lease =
        SW_JSON_OF(&a, {"metadata", .json = SW_JSON_OF(&a, {"namespace", .text = c->o.election.ns},
                                                       {"name", .text = c->o.election.name},
                                                       {"uid", .some = sw_lease_uid(c->lease)})});
    sw_recorder_event(c->recorder,
                      &(struct sw_event_about){lease, "coordination.k8s.io/v1", "Lease"},
                      SW_EVENT_NORMAL, "LeaderElection", "%.*s %s",
                      SW_SLICE_ARG(sw_lease_identity(c->lease)), what);
}
