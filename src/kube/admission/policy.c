/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a policy for a request. */
#include "kube/admission/policy.h"

#include "base/def.h"
#include "base/mem.h"

enum {
    MESSAGE_MAX = 5120, /* bytes of an evaluated message */
    AUDIT_VALUE_MAX = 10240,
};

struct eval {
    const struct sw_admission_policy *p;
    struct sw_arena *a;
    struct sw_policy_result *res;
    uint64_t budget;
    bool stop; /* the budget is spent: one denial stands for all */
};

static void deny(struct eval *e, size_t index, struct sw_slice reason, const char *message)
{
    e->res->denials[e->res->ndenials++] =
        (struct sw_policy_denial){.index = index, .message = message, .reason = reason};
}

/* Something that could not be evaluated. */
static void fail(struct eval *e, size_t index, const char *message)
{
    if (!e->p->ignore_failures)
        deny(e, index, sw_slice("", 0), message);
}

/* Pays for an evaluation; false: that was more than there is, and nothing else is evaluated. */
static bool pay(struct eval *e, const struct sw_cel_result *r)
{
    if (r->cost > e->budget) {
        e->res->ndenials = 0;
        fail(e, 0, SW_CEL_OUT_OF_BUDGET);
        e->stop = true;
        return false;
    }
    e->budget -= r->cost;
    return true;
}

/* True when all conditions hold; an error counts by the failure policy. */
static bool conditions_hold(struct eval *e, struct sw_cel_run *run)
{
    const char *why = NULL;

    switch (sw_match_conditions_eval(e->p->conditions, e->a, run, &why)) {
    case SW_MATCH_HOLDS:
        return true;
    case SW_MATCH_FAILED:
        fail(e, 0, why);
        break;
    case SW_MATCH_EXCLUDES:
        break;
    }
    return false;
}

static const char *message_of(struct eval *e, struct sw_cel_run *run,
                              const struct sw_policy_validation *v)
{
    if (v->cel_msg) {
        struct sw_cel_result m = sw_cel_run_eval(run, v->cel_msg);
        struct sw_slice text = sw_slice_trim(m.text);

        if (m.cost > e->budget)
            return NULL;
        e->budget -= m.cost;
        if (m.outcome == SW_CEL_STRING && text.n && text.n <= MESSAGE_MAX &&
            !memchr(text.p, '\n', text.n))
            return sw_arena_dup(e->a, text);
    }
    if (sw_slice_trim(v->message).n)
        return sw_arena_dup(e->a, sw_slice_trim(v->message));
    return sw_arena_printf(e->a, "failed expression: %.*s",
                           SW_SLICE_ARG(sw_slice_trim(v->expression)));
}

static void validate(struct eval *e, struct sw_cel_run *run)
{
    e->budget = SW_CEL_OBJECT_COST;
    for (size_t i = 0; i < e->p->nvalidations; i++) {
        const struct sw_policy_validation *v = &e->p->validations[i];
        struct sw_cel_result r = sw_cel_run_eval(run, v->cel);
        const char *text;

        if (!pay(e, &r))
            return;
        if (r.outcome == SW_CEL_TRUE)
            continue;
        if (r.outcome != SW_CEL_FALSE) {
            fail(e, i, sw_cel_error_text(e->a, v->expression, &r));
            continue;
        }
        text = message_of(e, run, v);
        if (text)
            deny(e, i, v->reason, text);
        else
            fail(e, i, "failed messageExpression: " SW_CEL_OUT_OF_BUDGET);
    }
}

static void annotate(struct eval *e, struct sw_cel_run *run)
{
    e->budget = SW_CEL_OBJECT_COST;
    for (size_t i = 0; i < e->p->nnotes; i++) {
        const struct sw_policy_note *n = &e->p->notes[i];
        struct sw_cel_result r = sw_cel_run_eval(run, n->cel);
        struct sw_slice value = sw_slice_trim(r.text);

        if (!pay(e, &r))
            return;
        if (r.outcome == SW_CEL_STRING && value.n)
            e->res->audits[e->res->naudits++] =
                (struct sw_policy_audit){n->name, sw_slice_head(value, AUDIT_VALUE_MAX)};
        else if (r.outcome != SW_CEL_STRING && r.outcome != SW_CEL_NOTHING)
            fail(e, 0, sw_cel_error_text(e->a, n->expression, &r));
    }
}

struct sw_policy_result sw_policy_eval(const struct sw_admission_policy *p, struct sw_arena *a,
                                       const struct sw_cel_input *in)
{
    struct sw_policy_result res = {0};
    struct eval e = {.p = p, .a = a, .res = &res};
    struct sw_cel_run *run = sw_cel_run_new(a, &p->scope, in);

    res.denials = sw_arena_array(a, p->nvalidations + p->nnotes + 1, sizeof(*res.denials));
    res.audits = sw_arena_array(a, p->nnotes + 1, sizeof(*res.audits));
    if (p->broken) {
        fail(&e, 0, sw_arena_printf(a, "compilation error: %s", p->broken));
        return res;
    }
    if (!conditions_hold(&e, run))
        return res;
    validate(&e, run);
    if (!e.stop)
        annotate(&e, run);
    return res;
}

void sw_policy_free(struct sw_admission_policy *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->scope.nvars; i++)
        sw_cel_free(p->vars[i].cel);
    sw_match_conditions_done(p->conditions);
    for (size_t i = 0; i < p->nnotes; i++)
        sw_cel_free(p->notes[i].cel);
    for (size_t i = 0; i < p->nvalidations; i++) {
        sw_cel_free(p->validations[i].cel);
        sw_cel_free(p->validations[i].cel_msg);
    }
    sw_arena_clear(&p->arena);
    sw_free(p);
}
