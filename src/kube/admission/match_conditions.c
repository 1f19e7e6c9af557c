/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/admission/match_conditions.h"

#include "base/def.h"

enum {
    CONDITIONS_MAX = 64,
    COST_MAX = 2500000, /* of all together */
};

const struct sw_cel_scope sw_webhook_scope = {.authorizer = true};

/* ---- compiling ---- */

static void check_name(const struct sw_match_conditions *c, size_t i, const struct sw_at *at)
{
    sw_at_need_name(at, sw_name_label_key);
    for (size_t k = 0; k < i; k++) {
        if (c->p[i].name.n && sw_slice_eq(c->p[k].name, c->p[i].name)) {
            sw_at_duplicate(at);
            return;
        }
    }
}

static void compile_one(struct sw_match_condition *c, const struct sw_cel_scope *scope,
                        const struct sw_at *at)
{
    const char *why = NULL;

    if (!c->expression.n)
        sw_at_required(at, NULL);
    else if (sw_cel_compile_policy(at->e->arena, c->expression, scope, SW_CEL_BE_BOOL, &c->cel,
                                   &why) != SW_OK)
        sw_ferr_invalid_str(at->e, &at->path, c->expression, why);
}

struct sw_match_conditions *sw_match_conditions_compile(struct sw_arena *a,
                                                        const struct sw_cel_scope *scope,
                                                        const struct sw_at *list)
{
    struct sw_match_conditions *c = SW_ARENA_NEW(a, struct sw_match_conditions);
    const struct sw_field_errs *e = list->e;
    size_t before = e->n;
    size_t n = sw_at_max(list, CONDITIONS_MAX) ? sw_at_len(list) : CONDITIONS_MAX;

    c->p = sw_arena_array(a, n + 1, sizeof(*c->p));
    for (; c->n < n; c->n++) {
        const struct sw_at *item = SW_ITEM(list, c->n);
        const struct sw_at *expression = SW_IN(item, "expression");

        c->p[c->n].name = sw_at_text(SW_IN(item, "name"));
        c->p[c->n].expression = sw_slice_trim(sw_at_text(expression));
        compile_one(&c->p[c->n], scope, expression);
        check_name(c, c->n, SW_IN(item, "name"));
    }
    if (e->n > before)
        c->broken = sw_arena_printf(a, "%s: %s", e->p[before].field, e->p[before].text);
    return c;
}

void sw_match_conditions_done(struct sw_match_conditions *c)
{
    for (size_t i = 0; c && i < c->n; i++)
        sw_cel_free(c->p[i].cel);
}

/* ---- evaluating ---- */

const char *sw_cel_error_text(struct sw_arena *a, struct sw_slice expression,
                              const struct sw_cel_result *r)
{
    return sw_arena_printf(a, "expression '%.*s' resulted in error: %.*s", SW_SLICE_ARG(expression),
                           SW_SLICE_ARG(r->text));
}

enum sw_match_outcome sw_match_conditions_eval(const struct sw_match_conditions *c,
                                               struct sw_arena *a, struct sw_cel_run *run,
                                               const char **ret_why)
{
    uint64_t budget = COST_MAX;
    const char *errors = NULL;
    bool many = false;

    if (c->broken) {
        *ret_why = sw_arena_printf(a, "compilation error: %s", c->broken);
        return SW_MATCH_FAILED;
    }
    for (size_t i = 0; i < c->n; i++) {
        struct sw_cel_result r = sw_cel_run_eval(run, c->p[i].cel);

        if (r.cost > budget) {
            *ret_why = SW_CEL_OUT_OF_BUDGET;
            return SW_MATCH_FAILED;
        }
        budget -= r.cost;
        if (r.outcome == SW_CEL_FALSE)
            return SW_MATCH_EXCLUDES;
        if (r.outcome == SW_CEL_TRUE)
            continue;
        many = errors != NULL;
        errors = sw_arena_printf(a, "%s%s%s", errors ? errors : "", errors ? ", " : "",
                                 sw_cel_error_text(a, c->p[i].expression, &r));
    }
    *ret_why = many ? sw_arena_printf(a, "[%s]", errors) : errors;
    return errors ? SW_MATCH_FAILED : SW_MATCH_HOLDS;
}
