/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: from the text of a rule to its verdict. */
#include "kube/cel/cel.h"

#include "base/mem.h"
#include "kube/cel/cel_priv.h"
#include "kube/text.h"
#include "regex/regex.h"

const char *cel_explain(struct sw_arena *a, const struct sw_cel *c)
{
    size_t at = sw_min(c->why_pos, c->src.n);
    size_t start = at;
    size_t end = at;
    size_t line = 1;
    size_t col;
    SW_BUF_AUTO b = {.max = 65536};

    while (start > 0 && c->src.p[start - 1] != '\n')
        start--;
    while (end < c->src.n && c->src.p[end] != '\n')
        end++;
    for (size_t i = 0; i < start; i++)
        line += c->src.p[i] == '\n';
    col = sw_rune_count(sw_slice(c->src.p + start, at - start));
    sw_tx_printf(&b, "ERROR: <input>:%zu:%zu: %s\n | %.*s\n | ", line, col + 1, c->why,
                 (int)(end - start), c->src.p + start);
    for (size_t i = 0; i < col; i++)
        sw_tx_c(&b, '.');
    sw_tx_c(&b, '^');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

int cel_compile(struct sw_cel *c)
{
    cel_parse(c);
    if (!c->failed)
        cel_check(c);
    if (!c->failed)
        cel_check_literals(c);
    return c->failed ? SW_EINVAL : SW_OK;
}

struct sw_cel *cel_new(struct sw_slice src, const char **ret_why)
{
    struct sw_cel *c;

    if (src.n > SW_CEL_SOURCE_MAX) {
        *ret_why = "expression is too long";
        return NULL;
    }
    c = SW_NEW(struct sw_cel);
    c->src = sw_arena_slice(&c->arena, src);
    return c;
}

int sw_cel_compile(struct sw_arena *a, struct sw_slice src, const struct sw_schema *self,
                   unsigned flags, struct sw_cel **ret, const char **ret_why)
{
    struct sw_cel *c = cel_new(src, ret_why);

    if (!c)
        return SW_EINVAL;
    c->flags = flags;
    c->self = self;
    if (cel_compile(c) < 0) {
        *ret_why = c->unplaced ? sw_arena_dup(a, sw_slice_str(c->why)) : cel_explain(a, c);
        sw_cel_free(c);
        return SW_EINVAL;
    }
    *ret = c;
    return SW_OK;
}

void sw_cel_free(struct sw_cel *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->regexes.n; i++)
        sw_regex_free(c->regexes.p[i]);
    sw_vec_done(&c->regexes);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

void cel_env_done(struct cel_env *env)
{
    sw_regex_free(env->re);
    env->re = NULL;
}

bool sw_cel_uses_old(const struct sw_cel *c)
{
    return c->uses_old;
}

struct sw_cel_result sw_cel_eval(const struct sw_cel *c, struct sw_arena *a,
                                 const struct sw_json *self, const struct sw_json *old,
                                 uint64_t limit, struct sw_budget *b)
{
    struct sw_budget own = {.steps = SW_REGEX_STEPS};
    struct cel_env env = {.a = a, .limit = limit, .work = b ? b : &own, .cancel = b};
    struct sw_cel_result r = {.outcome = SW_CEL_ERROR};
    struct cel_val v;

    env.slots = sw_arena_array(a, (size_t)c->slots + 1, sizeof(*env.slots));
    env.slots[SLOT_SELF] = cel_from_json(&env, self, c->self);
    if (c->flags & SW_CEL_OPTIONAL_OLD)
        env.slots[SLOT_OLD] = old ? cel_some(&env, cel_from_json(&env, old, c->self)) : cel_none();
    else if (old)
        env.slots[SLOT_OLD] = cel_from_json(&env, old, c->self);
    else
        env.slots[SLOT_OLD] = cel_error(&env, "oldSelf is not available");
    v = cel_eval(&env, c->root);
    cel_env_done(&env);
    r.cost = env.cost;
    if (env.cost > env.limit) {
        r.outcome = SW_CEL_COST;
        r.text = SW_SLICE_LIT(CEL_OVER_BUDGET);
    } else if (v.k == CEL_BOOL) {
        r.outcome = v.b ? SW_CEL_TRUE : SW_CEL_FALSE;
    } else if (v.k == CEL_STRING) {
        r.outcome = SW_CEL_STRING;
        r.text = v.s;
    } else {
        r.text = v.k == CEL_ERROR ? v.s : SW_SLICE_LIT("no such overload");
    }
    return r;
}
