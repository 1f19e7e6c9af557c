/* SPDX-License-Identifier: Apache-2.0 */
/* Rules at the nodes of a schema: admission of the CRD, and the walk over an object. */
#include "kube/cel/rules.h"

#include "base/budget.h"
#include "kube/cel/cel.h"
#include "kube/errs.h"

/* ---- compiling ---- */

enum { EXPENSIVE_MAX = 4 }; /* rules named when the sum of all is too much */

struct compiler {
    struct sw_schema_set *set;
    struct sw_field_errs *e;
    const struct sw_schema_opts *o;
    const struct sw_fpath *uncorrelatable; /* first list or map above whose parts have no history */
    uint64_t times; /* values of this node in an object, by declared bounds */
    bool unbounded; /* some list or map above has no declared bound */
    uint64_t total;
    struct {
        const char *path;
        uint64_t cost;
    } most[EXPENSIVE_MAX + 1];
    size_t nmost;
};

static uint64_t times(uint64_t x, uint64_t y)
{
    uint64_t r;

    return __builtin_mul_overflow(x, y, &r) ? UINT64_MAX : r;
}

static bool has_newline(struct sw_slice s)
{
    return s.n && (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n));
}

/* A rule as the reference prints the struct it keeps rules in. */
static const char *rule_value(struct sw_arena *a, const struct sw_rule *r)
{
    const char *reason = "(*apiextensions.FieldValueErrorReason)(nil)";

    if (r->given_reason.n)
        reason = "(*apiextensions.FieldValueErrorReason)(0xc000000000)";
    return sw_arena_printf(
        a,
        "apiextensions.ValidationRule{Rule:%s, Message:%s, MessageExpression:%s, Reason:%s, "
        "FieldPath:%s, OptionalOldSelf:%s}",
        sw_go_quote(a, r->rule), sw_go_quote(a, r->message), sw_go_quote(a, r->message_expr),
        reason, sw_go_quote(a, r->field_path),
        r->has_optional_old ? "(*bool)(0xc000000000)" : "(*bool)(nil)");
}

/* ---- cost ---- */

static const char *cost_text(struct sw_arena *a, const char *what, uint64_t cost, uint64_t limit)
{
    double factor = (double)cost / (double)limit;
    const char *by = factor > 100   ? "more than 100x"
                     : factor < 1.5 ? sw_arena_printf(a, "%fx", factor)
                                    : sw_arena_printf(a, "%.1fx", factor);

    return sw_arena_printf(a,
                           "%s exceeds budget by factor of %s (try simplifying the rule, or adding "
                           "maxItems, maxProperties, and maxLength where arrays, maps, and strings "
                           "are declared)",
                           what, by);
}

/* Adds to the sum of all rules, and keeps the most expensive ones in order. */
static void note_cost(struct compiler *c, const struct sw_fpath *at, uint64_t cost)
{
    size_t i = c->nmost;

    if (__builtin_add_overflow(c->total, cost, &c->total))
        c->total = UINT64_MAX;
    if (cost < SW_CEL_SCHEMA_COST / 100)
        return;
    while (i > 0 && c->most[i - 1].cost < cost) {
        c->most[i] = c->most[i - 1];
        i--;
    }
    c->most[i].path = sw_fpath_text(c->e->arena, at);
    c->most[i].cost = cost;
    if (c->nmost < EXPENSIVE_MAX)
        c->nmost++;
}

static void judge_cost(struct compiler *c, const char *what, uint64_t cost,
                       const struct sw_fpath *at)
{
    if (c->o->stored)
        return;
    if (!c->o->unchanged && cost > SW_CEL_STATIC_COST)
        sw_ferr_forbidden(c->e, at, cost_text(c->e->arena, what, cost, SW_CEL_STATIC_COST));
    note_cost(c, at, cost);
}

static void judge_total(struct compiler *c, const struct sw_fpath *path)
{
    if (c->total <= SW_CEL_SCHEMA_COST)
        return;
    for (size_t i = 0; i < c->nmost; i++) {
        struct sw_fpath at = sw_fpath_str(NULL, c->most[i].path);

        sw_ferr_forbidden(c->e, &at,
                          "contributed to estimated rule cost total exceeding cost limit for "
                          "entire OpenAPIv3 schema");
    }
    sw_ferr_forbidden(c->e, path,
                      cost_text(c->e->arena,
                                "x-kubernetes-validations estimated rule cost total for entire "
                                "OpenAPIv3 schema",
                                c->total, SW_CEL_SCHEMA_COST));
}

/* ---- expressions ---- */

/* True when some rule below v has this text: it was admitted before. */
static bool was_there(const struct sw_json *v, const char *key, struct sw_slice text)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = v->type == SW_JSON_OBJECT ? sw_json_member_at(v, i) : NULL;
        const struct sw_json *in = m ? m->value : sw_json_at(v, i);

        if (m && in->type == SW_JSON_STRING) {
            if (sw_slice_eq_str(m->key, key) && sw_slice_eq(in->text, text))
                return true;
        } else if ((in->type == SW_JSON_OBJECT || in->type == SW_JSON_ARRAY) &&
                   was_there(in, key, text)) {
            return true;
        }
    }
    return false;
}

/* One expression; reports under 'at'. */
static struct sw_cel *compile_one(struct compiler *c, const struct sw_schema *s,
                                  const struct sw_rule *r, struct sw_slice src, unsigned flags,
                                  const struct sw_fpath *at)
{
    struct sw_arena *a = c->e->arena;
    bool message = (flags & SW_CEL_WANT_STRING) != 0;
    struct sw_cel *cel;
    const char *why;

    if (c->o->stored ||
        (c->o->rules && was_there(c->o->rules, message ? "messageExpression" : "rule", src)))
        flags |= SW_CEL_STORED;
    if (sw_cel_compile(a, src, s, flags, &cel, &why) < 0) {
        bool placed = sw_slice_has_prefix(sw_slice_str(why), SW_SLICE_LIT("ERROR: "));

        sw_ferr(c->e, SW_CAUSE_INVALID, at,
                sw_arena_printf(a, "Invalid value: %s: %s%s%s", rule_value(a, r),
                                placed && message ? "messageExpression " : "",
                                placed ? "compilation failed: " : "", why));
        return NULL;
    }
    c->set->cel_free = sw_cel_free;
    sw_vec_push(&c->set->cels, cel);
    return cel;
}

/* The schema node that ".a.b" or "['a'].b" leads to; NULL when there is none. */
static const struct sw_schema *field_path_target(const struct sw_schema *s, struct sw_slice path,
                                                 struct sw_arena *a, const char **ret_text)
{
    const char *text = "";

    while (s && path.n) {
        struct sw_slice name;

        if (path.p[0] == '.') {
            size_t i = 1;

            while (i < path.n && path.p[i] != '.' && path.p[i] != '[')
                i++;
            name = sw_slice(path.p + 1, i - 1);
            path = sw_slice_from(path, i);
        } else if (path.n > 4 && path.p[0] == '[' && path.p[1] == '\'') {
            const char *end = memmem(path.p, path.n, "']", 2);

            if (!end)
                return NULL;
            name = sw_slice(path.p + 2, (size_t)(end - path.p) - 2);
            path = sw_slice_from(path, (size_t)(end - path.p) + 2);
        } else {
            return NULL;
        }
        if (sw_schema_declared(s, name))
            text = sw_arena_printf(a, "%s%s%.*s", text, *text ? "." : "", SW_SLICE_ARG(name));
        else
            text = sw_arena_printf(a, "%s[%.*s]", text, SW_SLICE_ARG(name));
        s = sw_schema_prop(s, name);
    }
    *ret_text = text;
    return s;
}

static void check_reason(struct compiler *c, const struct sw_rule *r, const struct sw_fpath *path)
{
    static const char *const known[] = {"FieldValueDuplicate", "FieldValueForbidden",
                                        "FieldValueInvalid", "FieldValueRequired", NULL};
    struct sw_fpath at = sw_fpath_str(path, "reason");

    for (size_t i = 0; known[i]; i++) {
        if (!r->given_reason.n || sw_slice_eq_str(r->given_reason, known[i]))
            return;
    }
    sw_ferr_unsupported(c->e, &at, sw_json_new_string(c->e->arena, r->given_reason), known);
}

/* What is wrong with a rule before anything is compiled. */
static void check_texts(struct compiler *c, const struct sw_schema *s, struct sw_rule *r,
                        const struct sw_fpath *path)
{
    struct sw_fpath at_rule = sw_fpath_str(path, "rule");
    struct sw_fpath at_msg = sw_fpath_str(path, "message");
    struct sw_fpath at_expr = sw_fpath_str(path, "messageExpression");
    struct sw_fpath at_fp = sw_fpath_str(path, "fieldPath");
    const char *text;

    if (!sw_slice_trim(r->rule).n)
        sw_ferr_required(c->e, &at_rule, "rule is not specified");
    else if (r->blank_message)
        sw_ferr_invalid_str(c->e, &at_msg, r->message, "message must be non-empty if specified");
    else if (has_newline(r->message))
        sw_ferr_invalid_str(c->e, &at_msg, r->message, "message must not contain line breaks");
    else if (has_newline(sw_slice_trim(r->rule)) && !r->message.n)
        sw_ferr_required(c->e, &at_msg, "message must be specified if rule contains line breaks");
    if (r->blank_message_expr)
        sw_ferr_required(c->e, &at_expr, "messageExpression must be non-empty if specified");
    check_reason(c, r, path);
    if (!r->field_path.n)
        return;
    if (has_newline(r->field_path))
        sw_ferr_invalid_str(c->e, &at_fp, r->field_path, "fieldPath must not contain line breaks");
    if (!field_path_target(s, r->field_path, &c->set->arena, &text))
        sw_ferr_invalid_str(c->e, &at_fp, r->field_path, "fieldPath must be a valid path");
    else
        r->field_path = sw_slice_str(text);
}

static void compile_rule(struct compiler *c, const struct sw_schema *s, struct sw_rule *r,
                         bool root, const struct sw_fpath *path)
{
    struct sw_fpath at_rule = sw_fpath_str(path, "rule");
    struct sw_fpath at_msg = sw_fpath_str(path, "messageExpression");
    struct sw_fpath at_opt = sw_fpath_str(path, "optionalOldSelf");
    unsigned flags =
        (root || s->embedded ? SW_CEL_RESOURCE : 0) | (r->optional_old ? SW_CEL_OPTIONAL_OLD : 0);

    r->cel = compile_one(c, s, r, r->rule, flags, &at_rule);
    if (r->cel) {
        uint64_t often = c->unbounded ? sw_cel_cardinality(s, flags & SW_CEL_RESOURCE) : c->times;

        judge_cost(c, "estimated rule cost", times(sw_cel_cost(r->cel), often), &at_rule);
        r->uses_old = sw_cel_uses_old(r->cel);
    }
    if (r->cel && r->message_expr.n) {
        r->cel_msg = compile_one(c, s, r, r->message_expr, flags | SW_CEL_WANT_STRING, &at_msg);
        if (r->cel_msg)
            judge_cost(c, "estimated messageExpression cost", sw_cel_cost(r->cel_msg), &at_msg);
    }
    if (r->uses_old && c->uncorrelatable)
        sw_ferr_invalid_str(
            c->e, &at_rule, r->rule,
            sw_arena_printf(c->e->arena,
                            "oldSelf cannot be used on the uncorrelatable portion of the schema "
                            "within %s",
                            sw_fpath_text(c->e->arena, c->uncorrelatable)));
    if (r->has_optional_old && !r->uses_old)
        sw_ferr_invalid(c->e, &at_opt, sw_json_new_bool(c->e->arena, r->optional_old),
                        "may not be set if oldSelf is not used in rule");
}

/* How often a value below this node can be there, for one of the node itself. */
static void enter_container(struct compiler *c, const struct sw_schema *s)
{
    int64_t bound = 1;

    if (s->type == SW_T_ARRAY)
        bound = s->max_items;
    else if (s->type == SW_T_OBJECT && (s->additional || s->additional_any))
        bound = s->max_props;
    if (bound < 0)
        c->unbounded = true;
    else
        c->times = times(c->times, (uint64_t)bound);
}

/* Calls 'visit' for every node with rules, children first, as errors are collected there. */
static void
each_node(struct compiler *c, struct sw_schema *s, bool root, const struct sw_fpath *path,
          void (*visit)(struct compiler *, struct sw_schema *, bool, const struct sw_fpath *))
{
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_more = sw_fpath_str(path, "additionalProperties");
    struct sw_fpath up = sw_fpath_str(path, "properties");
    const struct sw_fpath *outer = c->uncorrelatable;
    uint64_t outer_times = c->times;
    bool outer_unbounded = c->unbounded;

    if (!s->rules_below)
        return;
    enter_container(c, s);
    if (s->additional)
        each_node(c, s->additional, false, &at_more, visit);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_fpath at = sw_fpath_key(&up, s->props[i].name);

        c->uncorrelatable = !outer && s->map_atomic ? path : outer;
        each_node(c, s->props[i].schema, false, &at, visit);
    }
    c->uncorrelatable = !outer && s->list_type != SW_LIST_MAP ? path : outer;
    if (s->items)
        each_node(c, s->items, false, &at_items, visit);
    c->uncorrelatable = outer;
    c->times = outer_times;
    c->unbounded = outer_unbounded;
    visit(c, s, root, path);
}

static void visit_texts(struct compiler *c, struct sw_schema *s, bool root,
                        const struct sw_fpath *path)
{
    struct sw_fpath at_rules = sw_fpath_str(path, "x-kubernetes-validations");

    for (size_t i = 0; i < s->nrules; i++) {
        struct sw_fpath at = sw_fpath_index(&at_rules, i);

        check_texts(c, s, &s->rules[i], &at);
    }
}

static void visit_compile(struct compiler *c, struct sw_schema *s, bool root,
                          const struct sw_fpath *path)
{
    struct sw_fpath at_rules = sw_fpath_str(path, "x-kubernetes-validations");

    for (size_t i = 0; i < s->nrules; i++) {
        struct sw_fpath at = sw_fpath_index(&at_rules, i);

        compile_rule(c, s, &s->rules[i], root, &at);
    }
}

/* Defaults are held to the rules too. */
static void visit_default(struct compiler *c, struct sw_schema *s, bool root,
                          const struct sw_fpath *path)
{
    struct sw_fpath at = sw_fpath_str(path, "default");
    struct sw_json *copy;

    if (!s->def || s->def->type == SW_JSON_NULL)
        return;
    copy = sw_json_copy(c->e->arena, s->def);
    sw_schema_default(c->e->arena, copy, s);
    sw_rules_check(s, copy, NULL, &at, c->e);
}

void sw_rules_compile(struct sw_schema_set *set, struct sw_schema *root,
                      const struct sw_schema_opts *o, const struct sw_fpath *path,
                      struct sw_field_errs *e)
{
    static const struct sw_schema_opts none = {0};
    struct compiler c = {.set = set, .e = e, .o = o ? o : &none, .times = 1};
    size_t before = e->n;

    each_node(&c, root, true, path, visit_texts);
    if (e->n == before) {
        each_node(&c, root, true, path, visit_compile);
        judge_total(&c, path);
    }
    if (e->n == before)
        each_node(&c, root, true, path, visit_default);
}

/* ---- evaluating ---- */

struct runner {
    struct sw_arena *tmp;
    struct sw_field_errs *e;
    uint64_t budget;
    bool stop;
};

static const char *rule_text(struct sw_arena *a, const struct sw_rule *r)
{
    return sw_arena_dup(a, r->message.n ? r->message : sw_slice_trim(r->rule));
}

/* The message of a broken rule: the expression's, the fixed one, or the rule itself. */
static const char *broken_text(struct runner *w, const struct sw_rule *r, const struct sw_json *v,
                               const struct sw_json *old)
{
    struct sw_arena *a = w->e->arena;

    if (r->cel_msg) {
        struct sw_cel_result m =
            sw_cel_eval(r->cel_msg, w->tmp, v, old, SW_CEL_RULE_COST, w->e->budget);

        w->budget -= w->budget < m.cost ? w->budget : m.cost;
        if (m.outcome == SW_CEL_STRING && sw_slice_trim(m.text).n && !has_newline(m.text) &&
            m.text.n <= 5120)
            return sw_arena_dup(a, sw_slice_trim(m.text));
    }
    return r->message.n ? rule_text(a, r) : sw_arena_printf(a, "failed rule: %s", rule_text(a, r));
}

static void report(struct sw_field_errs *e, const struct sw_schema *s, const struct sw_rule *r,
                   const struct sw_fpath *path, const char *text)
{
    struct sw_slice type = sw_slice_str(sw_stype_name(s->type));
    struct sw_fpath at = {0};
    const struct sw_fpath *where = path;

    if (r->field_path.n) {
        at = sw_fpath_field(path, r->field_path);
        if (r->field_path.p[0] == '[' && path)
            at = sw_fpath_str(NULL,
                              sw_arena_printf(e->arena, "%s%.*s", sw_fpath_text(e->arena, path),
                                              SW_SLICE_ARG(r->field_path)));
        where = &at;
    }
    if (r->reason == SW_CAUSE_REQUIRED)
        sw_ferr_required(e, where, text);
    else if (r->reason == SW_CAUSE_FORBIDDEN)
        sw_ferr_forbidden(e, where, text);
    else if (r->reason == SW_CAUSE_DUPLICATE)
        sw_ferr_duplicate(e, where, sw_json_new_string(e->arena, type));
    else
        sw_ferr_invalid_str(e, where, type, text);
}

/* A value that did not change is only warned about. */
static void warn(struct sw_field_errs *e, const struct sw_schema *s, const struct sw_rule *r,
                 const struct sw_fpath *path, const char *text)
{
    struct sw_field_errs one;

    if (!e->warnings)
        return;
    sw_field_errs_init(&one, e->arena);
    report(&one, s, r, path, text);
    sw_texts_add(e->warnings, sw_arena_printf(e->arena, "%s: %s", one.p[0].field, one.p[0].text));
}

static void eval_failed(struct runner *w, const struct sw_schema *s, const struct sw_rule *r,
                        const struct sw_fpath *path, const struct sw_cel_result *res)
{
    struct sw_arena *a = w->e->arena;
    const char *text;

    if (res->outcome == SW_CEL_COST) {
        text = sw_arena_printf(a,
                               "'%.*s': no further validation rules will be run due to call cost "
                               "exceeds limit for rule: %s",
                               SW_SLICE_ARG(res->text), rule_text(a, r));
        w->stop = true;
    } else if (sw_slice_has_prefix(res->text, SW_SLICE_LIT("no such overload"))) {
        text = sw_arena_printf(a,
                               "'%.*s': call arguments did not match a supported operator, "
                               "function or macro signature for rule: %s",
                               SW_SLICE_ARG(res->text), rule_text(a, r));
    } else {
        text = sw_arena_printf(a, "%.*s evaluating rule: %s", SW_SLICE_ARG(res->text),
                               rule_text(a, r));
    }
    sw_ferr_invalid_str(w->e, path, sw_slice_str(sw_stype_name(s->type)), text);
}

/* What one evaluation may cost of what is left; one unit of CEL's is some steps. */
static uint64_t rule_limit(const struct sw_budget *b)
{
    return b && b->steps / SW_CEL_STEPS < SW_CEL_RULE_COST ? b->steps / SW_CEL_STEPS
                                                           : SW_CEL_RULE_COST;
}

/* What a rule judges. */
struct subject {
    const struct sw_json *v;
    const struct sw_json *old;
    bool same; /* the value, or the nearest thing around it that has a history, did not change */
    const struct sw_fpath *path;
};

static void run_rule(struct runner *w, const struct sw_schema *s, const struct sw_rule *r,
                     const struct subject *on)
{
    struct sw_cel_result res;
    uint64_t limit;

    if (r->uses_old && !on->old && !r->optional_old)
        return;
    if (!r->cel) { /* admitted before, and no longer understood: nothing passes it */
        sw_ferr_invalid_str(
            w->e, on->path, sw_slice_str(sw_stype_name(s->type)),
            sw_arena_printf(w->e->arena, "rule does not compile: %s", rule_text(w->e->arena, r)));
        return;
    }
    limit = rule_limit(w->e->budget);
    res = sw_cel_eval(r->cel, w->tmp, on->v, on->old, limit, w->e->budget);
    if (res.cost > w->budget || (res.outcome == SW_CEL_COST && limit < SW_CEL_RULE_COST) ||
        !sw_budget_step(w->e->budget, res.cost * SW_CEL_STEPS)) {
        if (limit < SW_CEL_RULE_COST)
            w->e->budget->spent = true;
        sw_ferr_invalid_str(w->e, on->path, sw_slice_str(sw_stype_name(s->type)),
                            "validation failed due to running out of cost budget, no further "
                            "validation rules will be run");
        w->stop = true;
        return;
    }
    w->budget -= res.cost;
    if (res.outcome == SW_CEL_ERROR || res.outcome == SW_CEL_COST || res.outcome == SW_CEL_STRING ||
        res.outcome == SW_CEL_NOTHING)
        eval_failed(w, s, r, on->path, &res);
    else if (res.outcome == SW_CEL_FALSE && on->same && !r->uses_old)
        warn(w->e, s, r, on->path, broken_text(w, r, on->v, on->old));
    else if (res.outcome == SW_CEL_FALSE)
        report(w->e, s, r, on->path, broken_text(w, r, on->v, on->old));
}

static void walk(struct runner *w, const struct sw_schema *s, const struct sw_json *v,
                 const struct sw_json *old, bool same, const struct sw_fpath *path)
{
    if (!s->rules_below || w->stop || v->type == SW_JSON_NULL)
        return;
    if (old && !same)
        same = sw_json_equal(v, old, SW_JSON_EQ_VALUE);
    for (size_t i = 0; i < s->nrules && !w->stop; i++)
        run_rule(w, s, &s->rules[i], &(struct subject){v, old, same, path});
    if (v->type == SW_JSON_OBJECT) {
        SW_JSON_MEMBERS (m, v) {
            struct sw_fpath at;
            const struct sw_schema *p = sw_schema_step(s, m->key, path, &at);

            if (p)
                walk(w, p, m->value, sw_json_get(old, m->key), same, &at);
        }
    } else if (v->type == SW_JSON_ARRAY && s->items) {
        struct sw_correlator was;

        sw_correlate_begin(&was, s, old);
        for (size_t i = 0; i < sw_json_len(v); i++) {
            struct sw_fpath at = sw_fpath_index(path, i);
            const struct sw_json *item = sw_json_at(v, i);

            walk(w, s->items, item, sw_correlate_find(&was, item), same, &at);
        }
        sw_correlate_end(&was);
    }
}

void sw_rules_check(const struct sw_schema *s, const struct sw_json *v, const struct sw_json *old,
                    const struct sw_fpath *path, struct sw_field_errs *e)
{
    SW_ARENA_AUTO tmp = {0};
    struct runner w = {.tmp = &tmp, .e = e, .budget = SW_CEL_OBJECT_COST};

    walk(&w, s, v, old, false, path);
}
