/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which webhooks are called, and what becomes of the write. */
#include "apiserver/admission/webhook.h"

#include <string.h>

#include "apiserver/admission/webhook_int.h"
#include "apiserver/api/body.h"
#include "base/json/patch.h"
#include "base/log.h"
#include "kube/names.h"

enum {
    OPS_MAX = 10000,
    PASSES = 2,
    NOTES_MAX = 64, /* audit annotations of one answer */
};

static void api_call_failed(struct hook_call *c)
{
    api_internal_error(c->q.r, sw_arena_printf(c->q.r->arena, "failed calling webhook %s: %s",
                                               sw_go_quote(c->q.r->arena, c->hook->name), c->why));
}

static void take_warnings(struct hook_call *c)
{
    SW_JSON_ITEMS (it, c->answer.warnings)
        api_warn(c->q.r, "%.*s", SW_SLICE_ARG(sw_json_str(it)));
}

/* auditAnnotations of an answer: "<webhook>/<key>" in the audit log, as many as are allowed. */
static void take_annotations(struct hook_call *c)
{
    struct api_req *r = c->q.r;
    struct api_req *asker = r->own.on_behalf ? r->own.on_behalf : r;
    size_t n = sw_json_len(c->answer.annotations);
    size_t kept = 0;

    if (r->api->audit_fd < 0)
        return;
    for (size_t i = 0; i < sw_min(n, NOTES_MAX); i++) {
        const struct sw_json_member *m = sw_json_member_at(c->answer.annotations, i);
        const char *key = sw_arena_printf(r->arena, "%.*s/%.*s", SW_SLICE_ARG(c->hook->name),
                                          SW_SLICE_ARG(m->key));

        if (sw_name_label_key(sw_slice_str(key)).n)
            continue;
        api_audit_note(asker, key, sw_json_str(m->value));
        kept++;
    }
    if (kept < n)
        sw_log_warn(
            "webhook",
            "webhook '%.*s' of '%.*s': dropping %zu audit annotations (invalid key, or more "
            "than %d)",
            SW_SLICE_ARG(c->hook->name), SW_SLICE_ARG(c->hook->config), n - kept, NOTES_MAX);
}

static void deny(struct hook_call *c)
{
    struct sw_json *s = sw_review_denial(c->q.r->arena, c->hook->name, c->answer.status);
    int64_t code = 400;

    if (!sw_json_i64(sw_json_find(s, "code"), &code))
        code = 400;
    sw_log_info("webhook", "%s of %s '%.*s' by '%.*s' refused: %.*s",
                sw_admission_operation(c->q.op), api_gr(c->q.r->arena, c->q.r->res),
                SW_SLICE_ARG(c->q.r->name), SW_SLICE_ARG(sw_admission_asker(c->q.r)->user.name),
                SW_SLICE_ARG(sw_slice_head(api_str(s, "message"), 512)));
    api_reply(c->q.r, (int)code, s);
}

/* A server that drains (stopping) still finishes the writes it took. */
static bool shutting_down(struct api_req *r)
{
    if (r->api->store && !r->api->phase.closing)
        return false;
    api_shutting_down(r);
    return true;
}

/* --- mutating --------------------------------------------------------------------------- */

/* Lives in the request's arena, which may end with the answer; the set's reference does not. */
struct mutation {
    struct api_write *w;
    void (*then)(struct api_write *w, struct sw_json *obj);
    struct hook_set *set;
    struct hook_question q;
    struct sw_json *obj; /* as it is now */
    size_t next;
    unsigned pass;
    size_t changes; /* patches that changed something */
    size_t *seen;   /* per hook: changes when it was called, +1; 0: not called */
    struct hook_call *call;
};

static void mutation_step(struct mutation *m);

static struct hook_question question(struct api_write *w, const struct sw_json *obj)
{
    return (struct hook_question){.r = w->r,
                                  .op = w->live ? API_OP_UPDATE : API_OP_CREATE,
                                  .object = w->view ? w->view(w->r, obj) : obj,
                                  .old = w->live && w->view ? w->view(w->r, w->live) : w->live};
}

bool api_webhooks_mutate(struct api_write *w, const struct sw_json *obj)
{
    struct hook_set *set;
    struct hook_question q;
    bool found = false;

    if (!sw_admission_asker(w->r)->x)
        return false;
    set = hook_set_now(w->r->api);
    if (set->all.n) {
        q = question(w, obj);
        for (size_t i = 0; i < set->all.n && !found; i++)
            found = set->all.p[i].mutating && hook_wants(&set->all.p[i], &q);
    }
    hook_set_unref(set);
    return found;
}

/* What no webhook may change comes from the object as it was. */
static void keep_identity(struct api_req *r, struct sw_json *obj, const struct sw_json *was)
{
    static const char *const fixed[] = {"name",          "namespace",
                                        "uid",           "creationTimestamp",
                                        "generation",    "resourceVersion",
                                        "managedFields", "deletionTimestamp",
                                        "generateName",  "deletionGracePeriodSeconds"};
    struct sw_json *meta = api_meta(r->arena, obj);

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++) {
        struct sw_json *v = sw_json_walk(was, "metadata", fixed[i], NULL);

        if (v)
            sw_json_put(r->arena, meta, fixed[i], v);
        else
            (void)sw_json_remove(meta, sw_slice_str(fixed[i]));
    }
}

/* A new object has neither uid nor time before it is admitted. */
static struct sw_json *draft_of(struct mutation *m)
{
    struct sw_arena *a = m->w->r->arena;
    struct sw_json *obj = sw_json_copy(a, m->obj);

    if (!m->w->live) {
        (void)sw_json_remove(api_meta(a, obj), SW_SLICE_LIT("uid"));
        (void)sw_json_remove(api_meta(a, obj), SW_SLICE_LIT("creationTimestamp"));
    }
    return obj;
}

/* Applies a patch; false: the request was answered. */
static bool apply_patch(struct mutation *m, struct hook_call *c)
{
    struct api_req *r = m->w->r;
    struct sw_json_patch_opts o = {.max_ops = OPS_MAX};
    enum api_validation mode = r->write.validation;
    struct sw_json *sent = api_convert(r->arena, r->res, c->as, draft_of(m));
    struct sw_json *made = NULL;
    struct sw_err err = {0};

    if (m->w->view) {
        api_internal_error(r, sw_arena_printf(r->arena,
                                              "admission webhook %s attempted to modify the "
                                              "object, which is not supported for this operation",
                                              sw_go_quote(r->arena, c->hook->name)));
        return false;
    }
    if (sw_json_patch(r->arena, sent, c->answer.patch, &o, &made, &err) != SW_OK) {
        api_internal_error(r, err.msg);
        return false;
    }
    made = api_convert(r->arena, c->as, r->res, made);
    if (sw_json_is(made, SW_JSON_OBJECT))
        keep_identity(r, made, m->obj);
    r->write.validation = API_VALIDATE_IGNORE;
    if (!api_admit_object(r, made, NULL, false))
        return false;
    r->write.validation = mode;
    if (!sw_json_equal(made, m->obj, SW_JSON_EQ_VALUE))
        m->changes++;
    m->obj = made;
    return true;
}

/* Takes over what a call changed; false: the request was answered. */
static bool take_mutation(struct mutation *m, struct hook_call *c)
{
    if (shutting_down(m->w->r))
        return false;
    if (c->why) {
        if (!hook_call_failed(c)) {
            api_call_failed(c);
            return false;
        }
    } else {
        take_warnings(c);
        take_annotations(c);
        if (!c->answer.allowed) {
            deny(c);
            return false;
        }
        if (c->answer.patch && !apply_patch(m, c))
            return false;
    }
    m->seen[c->hook - m->set->all.p] = m->changes + 1;
    return true;
}

static void on_mutated(struct hook_call *c)
{
    struct mutation *m = c->arg;
    struct hook_set *set = m->set;

    if (take_mutation(m, c))
        mutation_step(m);
    else
        hook_set_unref(set);
}

/*
 * The second pass calls hooks with reinvocationPolicy IfNeeded again if later ones changed the
 * object.
 */
static bool due(const struct mutation *m, size_t i)
{
    const struct hook *h = &m->set->all.p[i];

    if (!h->mutating)
        return false;
    return m->pass == 0 || (h->again && m->seen[i] && m->seen[i] != m->changes + 1);
}

enum step { STEP_CALLED, STEP_ANSWERED, STEP_LAST };

/* Starts the next call, unless the request is answered or there is none left. */
static enum step start_next(struct mutation *m)
{
    struct api_req *r = m->w->r;

    for (; m->pass < PASSES; m->pass++, m->next = 0) {
        while (m->next < m->set->all.n) {
            size_t i = m->next++;
            enum sw_match_outcome match;
            struct hook_call *c;

            if (!due(m, i))
                continue;
            m->q = question(m->w, m->w->view ? m->obj : draft_of(m));
            c = SW_ARENA_NEW(r->arena, struct hook_call);
            *c = (struct hook_call){.hook = &m->set->all.p[i],
                                    .q = m->q,
                                    .as = hook_wants(&m->set->all.p[i], &m->q),
                                    .done = on_mutated,
                                    .arg = m};
            if (!c->as)
                continue;
            match = hook_conditions(c->hook, &c->q, c->as);
            if (match == SW_MATCH_EXCLUDES)
                continue;
            if (match == SW_MATCH_FAILED)
                return STEP_ANSWERED;
            m->call = c;
            if (hook_call_start(c))
                return STEP_CALLED;
            if (!hook_call_failed(c)) {
                api_call_failed(c);
                return STEP_ANSWERED;
            }
        }
    }
    return STEP_LAST;
}

static void mutation_step(struct mutation *m)
{
    struct hook_set *set = m->set;
    enum step step = start_next(m);

    if (step == STEP_CALLED)
        return;
    hook_set_unref(set);
    if (step == STEP_LAST)
        m->then(m->w, m->obj);
}

void api_webhooks_run(struct api_write *w, void (*then)(struct api_write *w, struct sw_json *obj))
{
    struct mutation *m = SW_ARENA_NEW(w->r->arena, struct mutation);

    m->w = w;
    m->then = then;
    m->obj = w->draft;
    m->set = hook_set_now(w->r->api);
    m->seen = sw_arena_array(w->r->arena, m->set->all.n + 1, sizeof(*m->seen));
    mutation_step(m);
}

/* --- validating ------------------------------------------------------------------------- */

/* As struct mutation. */
struct validation {
    struct api_admission *ad;
    struct hook_set *set;
    struct hook_call **calls;
    size_t n;
    size_t waiting;
};

/* What the calls decide; false: the request was answered. */
static bool admits(struct validation *v)
{
    if (shutting_down(v->ad->r))
        return false;
    for (size_t i = 0; i < v->n; i++) {
        take_warnings(v->calls[i]);
        take_annotations(v->calls[i]);
    }
    for (size_t i = 0; i < v->n; i++) {
        struct hook_call *c = v->calls[i];

        if (c->why && !hook_call_failed(c)) {
            api_call_failed(c);
            return false;
        }
        if (!c->why && !c->answer.allowed) {
            deny(c);
            return false;
        }
        if (c->answer.patch) { /* a mutating one, at a deletion */
            c->why = "the webhook attempted to modify the object, which is not supported for this "
                     "operation";
            api_call_failed(c);
            return false;
        }
    }
    return true;
}

static void validation_end(struct validation *v)
{
    struct api_admission *ad = v->ad;
    struct hook_set *set = v->set;
    bool admitted = admits(v);

    hook_set_unref(set);
    if (admitted)
        sw_admission_next(ad);
}

static void on_validated(struct hook_call *c)
{
    struct validation *v = c->arg;

    if (--v->waiting == 0)
        validation_end(v);
}

/* The webhooks to call; false: a match condition failed, and the request was answered. */
static bool collect(struct validation *v, const struct hook_question *q)
{
    for (size_t i = 0; i < v->set->all.n; i++) {
        const struct hook *h = &v->set->all.p[i];
        const struct api_res *as;
        enum sw_match_outcome match;
        struct hook_call *c;

        /* A deletion has nothing to change: mutating webhooks only validate. */
        if (h->mutating && q->op != API_OP_DELETE)
            continue;
        as = hook_wants(h, q);
        match = as ? hook_conditions(h, q, as) : SW_MATCH_EXCLUDES;
        if (match == SW_MATCH_FAILED)
            return false;
        if (match == SW_MATCH_EXCLUDES)
            continue;
        c = SW_ARENA_NEW(q->r->arena, struct hook_call);
        *c = (struct hook_call){.hook = h, .q = *q, .as = as, .done = on_validated, .arg = v};
        v->calls[v->n++] = c;
    }
    return true;
}

void api_webhooks_validate(struct api_admission *ad)
{
    struct validation *v = SW_ARENA_NEW(ad->r->arena, struct validation);
    struct hook_question q = {.r = ad->r, .op = ad->op, .object = ad->object, .old = ad->old};
    struct hook_set *set = hook_set_now(ad->r->api);

    v->ad = ad;
    v->set = set;
    v->calls = sw_arena_array(ad->r->arena, set->all.n + 1, sizeof(*v->calls));
    v->waiting = 1; /* us, until all are on their way */
    if (!collect(v, &q)) {
        hook_set_unref(set);
        return;
    }
    for (size_t i = 0; i < v->n; i++)
        v->waiting += hook_call_start(v->calls[i]);
    if (--v->waiting == 0)
        validation_end(v);
}
