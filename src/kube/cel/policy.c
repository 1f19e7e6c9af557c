/* SPDX-License-Identifier: Apache-2.0 */
/* Scope and evaluation of admission expressions. */
#include "kube/cel/policy.h"

#include <assert.h>
#include <pthread.h>

#include "kube/cel/fn.h"
#include "regex/regex.h"

static const struct cel_type t_authorizer = {.k = CEL_AUTHORIZER};
static const struct cel_type t_resource_check = {.k = CEL_RESOURCE_CHECK};

/* ---- types of what is not dynamic ---- */

#define STR          "{\"type\":\"string\"}"
#define STRS         "{\"type\":\"array\",\"items\":" STR "}"
#define MAP(of)      "{\"type\":\"object\",\"additionalProperties\":" of "}"
#define OBJ(fields)  "{\"type\":\"object\",\"properties\":{" fields "}}"
#define F(name, of)  "\"" #name "\":" of
#define G(name, of)  "," F(name, of)
#define GV_AND(last) OBJ(F(group, STR) G(version, STR) G(last, STR))
#define INT          "{\"type\":\"integer\"}"
#define TIME         "{\"type\":\"string\",\"format\":\"date-time\"}"

#define USER OBJ(F(username, STR) G(uid, STR) G(groups, STRS) G(extra, MAP(STRS)))
#define META                                                                                       \
    OBJ(F(name, STR) G(generateName, STR) G(namespace, STR) G(labels, MAP(STR))                    \
            G(annotations, MAP(STR)) G(UID, STR) G(creationTimestamp, TIME)                        \
                G(deletionGracePeriodSeconds, INT) G(deletionTimestamp, TIME) G(generation, INT)   \
                    G(resourceVersion, STR) G(finalizers, STRS))
#define CONDITION                                                                                  \
    OBJ(F(status, STR) G(type, STR) G(lastTransitionTime, TIME) G(message, STR) G(reason, STR))

static const char request_text[] =
    OBJ(F(kind, GV_AND(kind)) G(resource, GV_AND(resource)) G(subResource, STR)
            G(requestKind, GV_AND(kind)) G(requestResource, GV_AND(resource))
                G(requestSubResource, STR) G(name, STR) G(namespace, STR) G(operation, STR)
                    G(userInfo, USER) G(dryRun, "{\"type\":\"boolean\"}")
                        G(options, "{\"x-kubernetes-int-or-string\":true}"));
static const char namespace_text[] = OBJ(F(metadata, META) G(spec, OBJ(F(finalizers, STRS))) G(
    status, OBJ(F(phase, STR) G(conditions, "{\"type\":\"array\",\"items\":" CONDITION "}"))));

static struct sw_schema_set request_set, namespace_set; /* for ever */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void compile_type(struct sw_schema_set *set, const char *text)
{
    struct sw_json *v = NULL;
    struct sw_field_errs e;
    /* As a field: the root of a schema would be an object of the API. */
    const char *wrapped = sw_arena_printf(&set->arena, OBJ(F(v, "%s")), text);
    int rc = sw_json_parse(&set->arena, sw_slice_str(wrapped), NULL, &v, NULL);

    assert(rc == SW_OK);
    sw_field_errs_init(&e, &set->arena);
    rc = sw_schema_read(set, v, NULL, &e);
    assert(rc == SW_OK);
    set->root = set->root->props[0].schema;
}

static void compile_types(void)
{
    compile_type(&request_set, request_text);
    compile_type(&namespace_set, namespace_text);
}

/* ---- names ---- */

static const char *const names[] = {"object", "oldObject",       "request",
                                    "params", "namespaceObject", "authorizer"};

static bool in_scope(const struct sw_cel_scope *s, int var)
{
    return (var != VAR_PARAMS || s->params) && (var != VAR_AUTHORIZER || s->authorizer);
}

int cel_scope_find(struct sw_cel *c, struct sw_slice name, const struct cel_type **ret)
{
    (void)pthread_once(&once, compile_types);
    for (int i = 0; i < VAR_FIXED; i++) {
        if (!sw_slice_eq_str(name, names[i]) || !in_scope(c->scope, i))
            continue;
        *ret = i == VAR_REQUEST      ? cel_type_of(&c->arena, request_set.root, false)
               : i == VAR_NAMESPACE  ? cel_type_of(&c->arena, namespace_set.root, false)
               : i == VAR_AUTHORIZER ? &t_authorizer
                                     : &cel_t_dyn;
        return SLOT_FIRST + i;
    }
    return -1;
}

int cel_scope_variable(const struct sw_cel *c, struct sw_slice name, const struct cel_type **ret)
{
    for (size_t i = 0; i < c->nvars; i++) {
        const struct sw_cel_named *v = &c->scope->vars[i];

        if (!sw_slice_eq(v->name, name))
            continue;
        *ret = v->cel ? v->cel->root->type : &cel_t_dyn;
        return SLOT_FIRST + VAR_FIXED + (int)i;
    }
    return -1;
}

const struct cel_type *cel_scope_request_resource(void)
{
    return &t_resource_check;
}

/* ---- compiling ---- */

static bool result_fits(const struct cel_type *t, enum sw_cel_want want)
{
    switch (want) {
    case SW_CEL_BE_BOOL:
        return t->k == CEL_BOOL;
    case SW_CEL_BE_STRING:
        return t->k == CEL_STRING;
    case SW_CEL_BE_STRING_OR_NULL:
        return t->k == CEL_STRING || t->k == CEL_NULL;
    case SW_CEL_BE_ANYTHING:
        break;
    }
    return true;
}

int sw_cel_compile_policy(struct sw_arena *a, struct sw_slice src, const struct sw_cel_scope *scope,
                          enum sw_cel_want want, struct sw_cel **ret, const char **ret_why)
{
    static const char *const wanted[] = {"bool", "string", "one of [string null_type]", ""};
    struct sw_cel *c = cel_new(src, ret_why);
    const char *got;

    if (!c)
        return SW_EINVAL;
    c->scope = scope;
    c->nvars = scope->nvars;
    if (cel_compile(c) < 0) {
        *ret_why = c->unplaced ? sw_arena_dup(a, sw_slice_str(c->why))
                               : sw_arena_printf(a, "compilation failed: %s", cel_explain(a, c));
        sw_cel_free(c);
        return SW_EINVAL;
    }
    if (!result_fits(c->root->type, want)) {
        got = cel_type_name(&c->arena, c->root->type);
        *ret_why = sw_arena_printf(a, "must evaluate to %s but got %s", wanted[want], got);
        sw_cel_free(c);
        return SW_EINVAL;
    }
    *ret = c;
    return SW_OK;
}

/* ---- evaluating ---- */

struct sw_cel_run {
    struct sw_arena *a;
    const struct sw_cel_scope *scope;
    const struct sw_cel_input *in;
    struct cel_val *vars;  /* of the policy; CEL_DYN: not evaluated yet */
    uint64_t var_cost;     /* of variables evaluated for the current expression */
    struct sw_budget work; /* left for regular expressions */
};

struct sw_cel_run *sw_cel_run_new(struct sw_arena *a, const struct sw_cel_scope *scope,
                                  const struct sw_cel_input *in)
{
    struct sw_cel_run *r = SW_ARENA_NEW(a, struct sw_cel_run);

    r->a = a;
    r->scope = scope;
    r->in = in;
    r->work.steps = SW_REGEX_STEPS;
    r->vars = sw_arena_array(a, scope->nvars + 1, sizeof(*r->vars));
    return r;
}

static struct cel_val value_of(struct cel_env *env, const struct sw_json *v,
                               const struct sw_schema *s)
{
    return v ? cel_from_json(env, v, s) : (struct cel_val){.k = CEL_NULL};
}

static struct cel_val run(struct sw_cel_run *r, const struct sw_cel *c, uint64_t *ret_cost);

struct cel_val cel_run_variable(struct cel_env *env, int slot)
{
    struct sw_cel_run *r = env->run;
    size_t i = (size_t)(slot - SLOT_FIRST - VAR_FIXED);
    struct cel_val *v = &r->vars[i];
    uint64_t cost = 0;

    if (v->k != CEL_DYN)
        return *v;
    *v = r->scope->vars[i].cel ? run(r, r->scope->vars[i].cel, &cost)
                               : cel_error(env, "composited variable \"%.*s\" fails to compile",
                                           SW_SLICE_ARG(r->scope->vars[i].name));
    if (v->k == CEL_ERROR)
        *v = cel_error(env, "composited variable \"%.*s\" fails to evaluate: %.*s",
                       SW_SLICE_ARG(r->scope->vars[i].name), SW_SLICE_ARG(v->s));
    r->var_cost += cost;
    return *v;
}

/* authorizer.requestResource: the resource of the request itself. */
struct cel_val cel_run_request_resource(struct cel_env *env)
{
    const struct sw_json *q = env->run->in->request;
    const struct sw_json *res = sw_json_find(q, "resource");
    struct sw_cel_access *x = SW_ARENA_NEW(env->a, struct sw_cel_access);

    x->group = sw_json_str(sw_json_find(res, "group"));
    x->resource = sw_json_str(sw_json_find(res, "resource"));
    x->subresource = sw_json_str(sw_json_find(q, "subResource"));
    x->ns = sw_json_str(sw_json_find(q, "namespace"));
    x->name = sw_json_str(sw_json_find(q, "name"));
    return (struct cel_val){.k = CEL_RESOURCE_CHECK, .access = x};
}

bool cel_run_allowed(struct cel_env *env, const struct sw_cel_access *x, const char **ret_reason)
{
    const struct sw_cel_input *in = env->run ? env->run->in : NULL;

    return in && in->allowed && in->allowed(in->arg, env->a, x, ret_reason);
}

static struct cel_val run(struct sw_cel_run *r, const struct sw_cel *c, uint64_t *ret_cost)
{
    struct cel_env env = {
        .a = r->a, .limit = SW_CEL_RULE_COST, .run = r, .work = &r->work, .cancel = r->in->cancel};
    struct cel_val *s = sw_arena_array(r->a, (size_t)c->slots + 1, sizeof(*s));
    struct cel_val v;

    (void)pthread_once(&once, compile_types);
    env.slots = s;
    s[SLOT_FIRST + VAR_OBJECT] = value_of(&env, r->in->object, NULL);
    s[SLOT_FIRST + VAR_OLD_OBJECT] = value_of(&env, r->in->old, NULL);
    s[SLOT_FIRST + VAR_REQUEST] = value_of(&env, r->in->request, request_set.root);
    s[SLOT_FIRST + VAR_PARAMS] = value_of(&env, r->in->params, NULL);
    s[SLOT_FIRST + VAR_NAMESPACE] = value_of(&env, r->in->ns, namespace_set.root);
    s[SLOT_FIRST + VAR_AUTHORIZER] =
        (struct cel_val){.k = CEL_AUTHORIZER, .access = SW_ARENA_NEW(r->a, struct sw_cel_access)};
    v = cel_eval(&env, c->root);
    cel_env_done(&env);
    *ret_cost = env.cost;
    return env.cost > env.limit ? cel_over_budget(&env) : v;
}

struct sw_cel_result sw_cel_run_eval(struct sw_cel_run *r, const struct sw_cel *c)
{
    struct sw_cel_result res = {.outcome = SW_CEL_ERROR};
    uint64_t cost = 0;
    struct cel_val v;

    r->var_cost = 0;
    v = run(r, c, &cost);
    res.cost = cost + r->var_cost;
    if (v.k == CEL_BOOL)
        res.outcome = v.b ? SW_CEL_TRUE : SW_CEL_FALSE;
    else if (v.k == CEL_NULL)
        res.outcome = SW_CEL_NOTHING;
    else if (v.k == CEL_STRING)
        res = (struct sw_cel_result){SW_CEL_STRING, v.s, res.cost};
    else if (v.k == CEL_ERROR)
        res.text = v.s;
    else
        res.text = SW_SLICE_LIT("unexpected type of the result");
    return res;
}
