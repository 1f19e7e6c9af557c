/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a ValidatingAdmissionPolicy or its binding valid; compiles the expressions. */
#include "base/def.h"
#include "base/mem.h"
#include "kube/admission/admission_rules.h"
#include "kube/admission/policy.h"
#include "kube/fields.h"
#include "kube/select/selector_check.h"

enum {
    NOTES_MAX = 20,
    NOTE_EXPRESSION_MAX = 5120,
    LIST_MAX = 1000, /* validations and variables: the object bounds them, too */
};

/* ---- matching ---- */

static void check_match(const struct sw_at *m)
{
    static const char *const lists[] = {"resourceRules", "excludeResourceRules"};
    const struct sw_at *policy = SW_IN(m, "matchPolicy");

    if (!m->v)
        return;
    if (!policy->v)
        sw_at_required(policy, NULL);
    sw_at_set_one_of(policy, "Equivalent Exact");
    sw_selector_check(SW_IN(m, "namespaceSelector"));
    sw_selector_check(SW_IN(m, "objectSelector"));
    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        const struct sw_at *rules = SW_IN(m, lists[i]);

        SW_AT_FOREACH (rule, rules)
            sw_admission_rule_check(&rule);
    }
}

/* ---- expressions ---- */

static struct sw_cel *compile(struct sw_admission_policy *p, const struct sw_at *at,
                              const struct sw_cel_scope *scope, enum sw_cel_want want)
{
    struct sw_cel *cel = NULL;
    const char *why = NULL;

    if (sw_cel_compile_policy(at->e->arena, sw_at_text(at), scope, want, &cel, &why) == SW_OK)
        return cel;
    sw_at_invalid(at, why);
    if (!p->broken)
        p->broken = sw_arena_dup(&p->arena, sw_slice_str(why));
    return NULL;
}

static bool is_identifier(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        char ch = s.p[i];

        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' ||
              (i && ch >= '0' && ch <= '9')))
            return false;
    }
    return s.n > 0;
}

static void compile_variables(struct sw_admission_policy *p, const struct sw_at *list)
{
    size_t n = sw_min(sw_at_len(list), LIST_MAX);

    p->vars = sw_arena_array(&p->arena, n + 1, sizeof(*p->vars));
    p->scope.vars = p->vars;
    for (size_t i = 0; i < n; i++) {
        const struct sw_at *item = SW_ITEM(list, i);
        const struct sw_at *name = SW_IN(item, "name");
        const struct sw_at *expression = SW_IN(item, "expression");

        p->vars[i].name = sw_at_text(name);
        if (!sw_slice_trim(p->vars[i].name).n)
            sw_at_required(name, "name is not specified");
        else if (!is_identifier(p->vars[i].name))
            sw_at_invalid(name, "name is not a valid CEL identifier");
        if (!sw_slice_trim(sw_at_text(expression)).n)
            sw_at_required(expression, "expression is not specified");
        else
            p->vars[i].cel = compile(p, expression, &p->scope, SW_CEL_BE_ANYTHING);
        p->scope.nvars = i + 1; /* the next ones may use it */
    }
    p->message_scope.vars = p->vars;
    p->message_scope.nvars = p->scope.nvars;
}

static bool has_newline(struct sw_slice s)
{
    return s.n && (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n));
}

static void check_texts(const struct sw_at *item)
{
    const struct sw_at *at = SW_IN(item, "message");
    struct sw_slice message = sw_at_text(at);

    if (message.n && !sw_slice_trim(message).n)
        sw_at_invalid(at, "message must be non-empty if specified");
    else if (has_newline(sw_slice_trim(message)))
        sw_at_invalid(at, "message must not contain line breaks");
    sw_at_set_one_of(SW_IN(item, "reason"), "Forbidden Invalid RequestEntityTooLarge Unauthorized");
}

static void compile_validations(struct sw_admission_policy *p, const struct sw_at *list)
{
    size_t n = sw_min(sw_at_len(list), LIST_MAX);

    p->validations = sw_arena_array(&p->arena, n + 1, sizeof(*p->validations));
    for (size_t i = 0; i < n; i++) {
        const struct sw_at *item = SW_ITEM(list, i);
        const struct sw_at *expression = SW_IN(item, "expression");
        const struct sw_at *message = SW_IN(item, "messageExpression");
        struct sw_policy_validation *out = &p->validations[p->nvalidations++];

        out->expression = sw_at_text(expression);
        out->message = sw_at_text(SW_IN(item, "message"));
        out->reason = sw_at_text(SW_IN(item, "reason"));
        if (!sw_slice_trim(out->expression).n)
            sw_at_required(expression, "expression is not specified");
        else
            out->cel = compile(p, expression, &p->scope, SW_CEL_BE_BOOL);
        if (sw_slice_trim(sw_at_text(message)).n)
            out->cel_msg = compile(p, message, &p->message_scope, SW_CEL_BE_STRING);
        else if (sw_at_text(message).n)
            sw_at_invalid(message, "must be non-empty if specified");
        check_texts(item);
    }
}

static void compile_notes(struct sw_admission_policy *p, const struct sw_at *list)
{
    struct sw_arena *a = list->e->arena;
    size_t n = sw_at_len(list);

    if (n > NOTES_MAX) {
        sw_at_invalid(list, "must not have more than 20 auditAnnotations");
        n = NOTES_MAX;
    }
    p->notes = sw_arena_array(&p->arena, n + 1, sizeof(*p->notes));
    for (size_t i = 0; i < n; i++) {
        struct sw_policy_note *note = &p->notes[p->nnotes++];
        const struct sw_at *item = SW_ITEM(list, i);
        const struct sw_at *key = SW_IN(item, "key");
        struct sw_at value = sw_at_field(item, "valueExpression");
        struct sw_slice full;

        note->name = sw_at_text(key);
        note->expression = sw_slice_trim(sw_at_text(&value));
        value.v = sw_json_new_string(a, note->expression);
        full = sw_slice_str(
            sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(p->name), SW_SLICE_ARG(note->name)));
        sw_name_report(key->e, &key->path, full, sw_name_label_key(full));
        if (!note->expression.n)
            sw_at_required(&value, "valueExpression is not specified");
        else if (note->expression.n > NOTE_EXPRESSION_MAX)
            sw_at_required(&value, "must not exceed 5120 bytes in length");
        else
            note->cel = compile(p, &value, &p->scope, SW_CEL_BE_STRING_OR_NULL);
        for (size_t k = 0; k < i; k++) {
            if (sw_slice_eq(p->notes[k].name, note->name))
                sw_at_duplicate(key);
        }
    }
}

/* ---- the policy ---- */

static void check_param_kind(const struct sw_at *kind)
{
    const struct sw_at *at = SW_IN(kind, "apiVersion");
    struct sw_slice version = sw_at_text(at);

    if (!kind->v)
        return;
    if (!version.n)
        sw_at_required(at, NULL);
    else if (memchr(version.p, '/', version.n) &&
             memchr(version.p, '/', version.n) != memrchr(version.p, '/', version.n))
        sw_at_invalid(at, sw_arena_printf(at->e->arena, "unexpected GroupVersion string: %.*s",
                                          SW_SLICE_ARG(version)));
    (void)sw_at_need(SW_IN(kind, "kind"), NULL);
}

static void check_spec(const struct sw_at *spec)
{
    const struct sw_at *policy = SW_IN(spec, "failurePolicy");
    const struct sw_at *match = SW_IN(spec, "matchConstraints");

    if (!policy->v)
        sw_at_required(policy, NULL);
    sw_at_set_one_of(policy, "Fail Ignore");
    check_param_kind(SW_IN(spec, "paramKind"));
    if (!match->v) {
        sw_at_required(match, NULL);
        return;
    }
    check_match(match);
    (void)sw_at_need(SW_IN(match, "resourceRules"), NULL);
}

static void need_validations(const struct sw_at *validations, const struct sw_at *notes)
{
    static const char why[] = "validations or auditAnnotations must contain at least one item";

    if (sw_at_len(validations) || sw_at_len(notes))
        return;
    sw_at_required(validations, why);
    sw_at_required(notes, why);
}

struct sw_admission_policy *sw_policy_compile(const struct sw_json *obj, struct sw_field_errs *e)
{
    struct sw_admission_policy *p = SW_NEW(struct sw_admission_policy);
    const struct sw_at *copy = SW_WHOLE(sw_json_copy(&p->arena, obj), e);
    const struct sw_at *spec = SW_IN(copy, "spec");
    size_t before = e->n;
    bool params = sw_json_find(spec->v, "paramKind");

    p->spec = spec->v;
    p->name = sw_json_str(SW_IN(copy, "metadata.name")->v);
    p->ignore_failures = sw_at_is(SW_IN(spec, "failurePolicy"), "Ignore");
    p->scope = (struct sw_cel_scope){.params = params, .authorizer = true};
    p->message_scope = (struct sw_cel_scope){.params = params};
    p->match_scope = p->scope;
    check_spec(spec);
    p->conditions =
        sw_match_conditions_compile(&p->arena, &p->match_scope, SW_IN(spec, "matchConditions"));
    p->broken = p->conditions->broken;
    compile_variables(p, SW_IN(spec, "variables"));
    need_validations(SW_IN(spec, "validations"), SW_IN(spec, "auditAnnotations"));
    compile_validations(p, SW_IN(spec, "validations"));
    compile_notes(p, SW_IN(spec, "auditAnnotations"));
    if (e->n > before && !p->broken)
        p->broken = sw_arena_printf(&p->arena, "%s: %s", e->p[before].field, e->p[before].text);
    return p;
}

/* ---- bindings ---- */

static void check_param_ref(const struct sw_at *ref)
{
    static const char both[] = "name and selector are mutually exclusive";
    const struct sw_at *name = SW_IN(ref, "name");
    const struct sw_at *sel = SW_IN(ref, "selector");
    const struct sw_at *action = SW_IN(ref, "parameterNotFoundAction");
    bool named = sw_at_text(name).n;

    if (!ref->v)
        return;
    sw_at_name(name, sw_name_path_segment);
    if (named && sel->v)
        sw_at_forbidden(name, both);
    sw_selector_check(sel);
    if (named && sel->v)
        sw_at_forbidden(sel, both);
    if (!named && !sel->v)
        sw_at_required(ref, "one of name or selector must be specified");
    if (sw_at_need(action, NULL))
        sw_at_one_of(action, "Allow Deny");
}

static void check_actions(const struct sw_at *list)
{

    SW_AT_FOREACH (at, list) {
        sw_at_one_of(&at, "Audit Deny Warn");
        for (size_t k = 0; k < at.path.index; k++) {
            if (sw_slice_eq(sw_json_str(sw_json_at(list->v, k)), sw_json_str(at.v)))
                sw_at_duplicate(&at);
        }
    }
    if (sw_field_list_has(list->v, SW_SLICE_LIT("Deny")) &&
        sw_field_list_has(list->v, SW_SLICE_LIT("Warn")))
        sw_at_invalid(list,
                      "must not contain both Deny and Warn (repeating the same validation failure "
                      "information in the API response and headers serves no purpose)");
    (void)sw_at_need(list, "at least one validation action is required");
}

void sw_policy_binding_check(const struct sw_at *obj, const struct sw_json *old)
{
    sw_at_need_name(SW_IN(obj, "spec.policyName"), sw_name_dns1123_subdomain);
    check_param_ref(SW_IN(obj, "spec.paramRef"));
    check_match(SW_IN(obj, "spec.matchResources"));
    check_actions(SW_IN(obj, "spec.validationActions"));
}
