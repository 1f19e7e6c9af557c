/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a ValidatingAdmissionPolicy or its binding valid; compiles the expressions. */
#include "base/def.h"
#include "base/mem.h"
#include "kube/admission/admission_rules.h"
#include "kube/admission/policy.h"
#include "kube/fields.h"
#include "kube/names.h"
#include "kube/select/selector_check.h"

enum {
    NOTES_MAX = 20,
    NOTE_EXPRESSION_MAX = 5120,
    LIST_MAX = 1000, /* validations and variables: the object bounds them, too */
};

struct compiler {
    struct sw_admission_policy *p;
    struct sw_field_errs *e;
};

/* ---- matching ---- */

static void check_match(const struct sw_json *m, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    static const char *const policies[] = {"Equivalent", "Exact", NULL};
    static const char *const selectors[] = {"namespaceSelector", "objectSelector"};
    static const char *const lists[] = {"resourceRules", "excludeResourceRules"};
    struct sw_fpath at_policy = sw_fpath_str(path, "matchPolicy");

    if (!m)
        return;
    if (!sw_json_find(m, "matchPolicy"))
        sw_ferr_required(e, &at_policy, NULL);
    else
        sw_field_one_of(sw_json_find(m, "matchPolicy"), policies, &at_policy, e);
    for (size_t i = 0; i < SW_ARRAY_LEN(selectors); i++) {
        struct sw_fpath at = sw_fpath_str(path, selectors[i]);

        sw_selector_check(sw_json_find(m, selectors[i]), &at, e);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        const struct sw_json *rules = sw_json_find(m, lists[i]);
        struct sw_fpath up = sw_fpath_str(path, lists[i]);

        for (size_t k = 0; k < sw_json_len(rules); k++) {
            struct sw_fpath at = sw_fpath_index(&up, k);

            sw_admission_rule_check(sw_json_at(rules, k), &at, e);
        }
    }
}

/* ---- expressions ---- */

static struct sw_cel *compile(struct compiler *c, struct sw_slice src,
                              const struct sw_cel_scope *scope, enum sw_cel_want want,
                              const struct sw_fpath *at)
{
    struct sw_cel *cel = NULL;
    const char *why = NULL;

    if (sw_cel_compile_policy(c->e->arena, src, scope, want, &cel, &why) == SW_OK)
        return cel;
    sw_ferr_invalid_str(c->e, at, src, why);
    if (!c->p->broken)
        c->p->broken = sw_arena_dup(&c->p->arena, sw_slice_str(why));
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

static void compile_variables(struct compiler *c, const struct sw_fpath *path)
{
    struct sw_admission_policy *p = c->p;
    const struct sw_json *list = sw_json_find(p->spec, "variables");
    struct sw_fpath up = sw_fpath_str(path, "variables");
    size_t n = sw_min(sw_json_len(list), LIST_MAX);

    p->vars = sw_arena_array(&p->arena, n + 1, sizeof(*p->vars));
    p->scope.vars = p->vars;
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&item, "name");
        struct sw_fpath at = sw_fpath_str(&item, "expression");

        p->vars[i].name = sw_field_text(v, "name");
        if (!sw_slice_trim(p->vars[i].name).n)
            sw_ferr_required(c->e, &at_name, "name is not specified");
        else if (!is_identifier(p->vars[i].name))
            sw_ferr_invalid_str(c->e, &at_name, p->vars[i].name,
                                "name is not a valid CEL identifier");
        if (!sw_slice_trim(sw_field_text(v, "expression")).n)
            sw_ferr_required(c->e, &at, "expression is not specified");
        else
            p->vars[i].cel =
                compile(c, sw_field_text(v, "expression"), &p->scope, SW_CEL_BE_ANYTHING, &at);
        p->scope.nvars = i + 1; /* the next ones may use it */
    }
    p->message_scope.vars = p->vars;
    p->message_scope.nvars = p->scope.nvars;
}

static void compile_conditions(struct compiler *c, const struct sw_fpath *path)
{
    struct sw_admission_policy *p = c->p;
    struct sw_fpath at = sw_fpath_str(path, "matchConditions");

    p->conditions = sw_match_conditions_compile(&p->arena, sw_json_find(p->spec, "matchConditions"),
                                                &p->match_scope, &at, c->e);
    p->broken = p->conditions->broken;
}

static bool has_newline(struct sw_slice s)
{
    return s.n && (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n));
}

static void check_texts(struct compiler *c, const struct sw_json *v, const struct sw_fpath *item)
{
    static const char *const reasons[] = {"Forbidden", "Invalid", "RequestEntityTooLarge",
                                          "Unauthorized", NULL};
    struct sw_slice message = sw_field_text(v, "message");
    struct sw_fpath at_msg = sw_fpath_str(item, "message");
    struct sw_fpath at_reason = sw_fpath_str(item, "reason");

    if (message.n && !sw_slice_trim(message).n)
        sw_ferr_invalid_str(c->e, &at_msg, message, "message must be non-empty if specified");
    else if (has_newline(sw_slice_trim(message)))
        sw_ferr_invalid_str(c->e, &at_msg, message, "message must not contain line breaks");
    if (sw_json_find(v, "reason"))
        sw_field_one_of(sw_json_find(v, "reason"), reasons, &at_reason, c->e);
}

static void compile_validations(struct compiler *c, const struct sw_fpath *path)
{
    struct sw_admission_policy *p = c->p;
    const struct sw_json *list = sw_json_find(p->spec, "validations");
    struct sw_fpath up = sw_fpath_str(path, "validations");
    size_t n = sw_min(sw_json_len(list), LIST_MAX);

    p->validations = sw_arena_array(&p->arena, n + 1, sizeof(*p->validations));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_policy_validation *out = &p->validations[p->nvalidations++];
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at = sw_fpath_str(&item, "expression");
        struct sw_fpath at_msg = sw_fpath_str(&item, "messageExpression");
        struct sw_slice msg = sw_field_text(v, "messageExpression");

        out->expression = sw_field_text(v, "expression");
        out->message = sw_field_text(v, "message");
        out->reason = sw_field_text(v, "reason");
        if (!sw_slice_trim(out->expression).n)
            sw_ferr_required(c->e, &at, "expression is not specified");
        else
            out->cel = compile(c, out->expression, &p->scope, SW_CEL_BE_BOOL, &at);
        if (msg.n && !sw_slice_trim(msg).n)
            sw_ferr_invalid_str(c->e, &at_msg, msg, "must be non-empty if specified");
        else if (msg.n)
            out->cel_msg = compile(c, msg, &p->message_scope, SW_CEL_BE_STRING, &at_msg);
        check_texts(c, v, &item);
    }
}

static void compile_notes(struct compiler *c, const struct sw_fpath *path)
{
    struct sw_admission_policy *p = c->p;
    const struct sw_json *list = sw_json_find(p->spec, "auditAnnotations");
    struct sw_fpath up = sw_fpath_str(path, "auditAnnotations");
    size_t n = sw_json_len(list);

    if (n > NOTES_MAX) {
        sw_ferr_invalid(c->e, &up, list, "must not have more than 20 auditAnnotations");
        n = NOTES_MAX;
    }
    p->notes = sw_arena_array(&p->arena, n + 1, sizeof(*p->notes));
    for (size_t i = 0; i < n; i++) {
        struct sw_policy_note *note = &p->notes[p->nnotes++];
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at_key = sw_fpath_str(&item, "key");
        struct sw_fpath at = sw_fpath_str(&item, "valueExpression");
        struct sw_slice full;

        note->name = sw_field_text(sw_json_at(list, i), "key");
        note->expression = sw_slice_trim(sw_field_text(sw_json_at(list, i), "valueExpression"));
        full = sw_slice_str(sw_arena_printf(c->e->arena, "%.*s/%.*s", SW_SLICE_ARG(p->name),
                                            SW_SLICE_ARG(note->name)));
        sw_name_report(c->e, &at_key, full, sw_name_label_key(full));
        if (!note->expression.n)
            sw_ferr_required(c->e, &at, "valueExpression is not specified");
        else if (note->expression.n > NOTE_EXPRESSION_MAX)
            sw_ferr_required(c->e, &at, "must not exceed 5120 bytes in length");
        else
            note->cel = compile(c, note->expression, &p->scope, SW_CEL_BE_STRING_OR_NULL, &at);
        for (size_t k = 0; k < i; k++) {
            if (sw_slice_eq(p->notes[k].name, note->name))
                sw_ferr_duplicate(c->e, &at_key, sw_json_find(sw_json_at(list, i), "key"));
        }
    }
}

/* ---- the policy ---- */

static void check_param_kind(const struct sw_json *kind, const struct sw_fpath *up,
                             struct sw_field_errs *e)
{
    struct sw_fpath path = sw_fpath_str(up, "paramKind");
    struct sw_fpath at_version = sw_fpath_str(&path, "apiVersion");
    struct sw_fpath at_kind = sw_fpath_str(&path, "kind");
    struct sw_slice version = sw_field_text(kind, "apiVersion");

    if (!kind)
        return;
    if (!version.n)
        sw_ferr_required(e, &at_version, NULL);
    else if (memchr(version.p, '/', version.n) &&
             memchr(version.p, '/', version.n) != memrchr(version.p, '/', version.n))
        sw_ferr_invalid_str(e, &at_version, version,
                            sw_arena_printf(e->arena, "unexpected GroupVersion string: %.*s",
                                            SW_SLICE_ARG(version)));
    if (!sw_field_text(kind, "kind").n)
        sw_ferr_required(e, &at_kind, NULL);
}

static void check_spec(struct compiler *c, const struct sw_fpath *path)
{
    static const char *const policies[] = {"Fail", "Ignore", NULL};
    const struct sw_json *spec = c->p->spec;
    const struct sw_json *match = sw_json_find(spec, "matchConstraints");
    struct sw_fpath at_fail = sw_fpath_str(path, "failurePolicy");
    struct sw_fpath at_match = sw_fpath_str(path, "matchConstraints");
    struct sw_fpath at_rules = sw_fpath_str(&at_match, "resourceRules");

    if (!sw_json_find(spec, "failurePolicy"))
        sw_ferr_required(c->e, &at_fail, NULL);
    else
        sw_field_one_of(sw_json_find(spec, "failurePolicy"), policies, &at_fail, c->e);
    check_param_kind(sw_json_find(spec, "paramKind"), path, c->e);
    if (!match) {
        sw_ferr_required(c->e, &at_match, NULL);
        return;
    }
    check_match(match, &at_match, c->e);
    if (!sw_json_len(sw_json_find(match, "resourceRules")))
        sw_ferr_required(c->e, &at_rules, NULL);
}

static void need_validations(struct compiler *c, const struct sw_fpath *path)
{
    static const char *const keys[] = {"validations", "auditAnnotations"};

    if (sw_json_len(sw_json_find(c->p->spec, keys[0])) ||
        sw_json_len(sw_json_find(c->p->spec, keys[1])))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        struct sw_fpath at = sw_fpath_str(path, keys[i]);

        sw_ferr_required(c->e, &at,
                         "validations or auditAnnotations must contain at least one item");
    }
}

struct sw_admission_policy *sw_policy_compile(const struct sw_json *obj, struct sw_field_errs *e)
{
    struct sw_admission_policy *p = SW_NEW(struct sw_admission_policy);
    struct compiler c = {.p = p, .e = e};
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    const struct sw_json *copy = sw_json_copy(&p->arena, obj);
    size_t before = e->n;
    bool params;

    p->spec = sw_json_find(copy, "spec");
    p->name = sw_json_str(sw_json_walk(copy, "metadata", "name", NULL));
    p->ignore_failures = sw_json_str_eq(sw_json_find(p->spec, "failurePolicy"), "Ignore");
    params = sw_json_find(p->spec, "paramKind");
    p->scope = (struct sw_cel_scope){.params = params, .authorizer = true};
    p->message_scope = (struct sw_cel_scope){.params = params};
    p->match_scope = p->scope;
    check_spec(&c, &path);
    compile_conditions(&c, &path);
    compile_variables(&c, &path);
    need_validations(&c, &path);
    compile_validations(&c, &path);
    compile_notes(&c, &path);
    if (e->n > before && !p->broken)
        p->broken = sw_arena_printf(&p->arena, "%s: %s", e->p[before].field, e->p[before].text);
    return p;
}

/* ---- bindings ---- */

static void check_param_ref(const struct sw_json *ref, const struct sw_fpath *path,
                            struct sw_field_errs *e)
{
    static const char *const actions[] = {"Allow", "Deny", NULL};
    const struct sw_json *sel = sw_json_find(ref, "selector");
    struct sw_slice name = sw_field_text(ref, "name");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_sel = sw_fpath_str(path, "selector");
    struct sw_fpath at_action = sw_fpath_str(path, "parameterNotFoundAction");

    if (!ref)
        return;
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_path_segment(name));
    if (name.n && sel)
        sw_ferr_forbidden(e, &at_name, "name and selector are mutually exclusive");
    if (sel)
        sw_selector_check(sel, &at_sel, e);
    if (name.n && sel)
        sw_ferr_forbidden(e, &at_sel, "name and selector are mutually exclusive");
    if (!name.n && !sel)
        sw_ferr_required(e, path, "one of name or selector must be specified");
    if (!sw_field_text(ref, "parameterNotFoundAction").n)
        sw_ferr_required(e, &at_action, NULL);
    else
        sw_field_one_of(sw_json_find(ref, "parameterNotFoundAction"), actions, &at_action, e);
}

static void check_actions(const struct sw_json *list, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    static const char *const known[] = {"Audit", "Deny", "Warn", NULL};
    bool deny = false;
    bool warn = false;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(path, i);

        sw_field_one_of(v, known, &at, e);
        for (size_t k = 0; k < i; k++) {
            if (sw_slice_eq(sw_json_str(sw_json_at(list, k)), sw_json_str(v)))
                sw_ferr_duplicate(e, &at, v);
        }
        deny = deny || sw_json_str_eq(v, "Deny");
        warn = warn || sw_json_str_eq(v, "Warn");
    }
    if (deny && warn)
        sw_ferr_invalid(
            e, path, list,
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)");
    if (!sw_json_len(list))
        sw_ferr_required(e, path, "at least one validation action is required");
}

void sw_policy_binding_check(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice name = sw_field_text(spec, "policyName");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_name = sw_fpath_str(&path, "policyName");
    struct sw_fpath at_ref = sw_fpath_str(&path, "paramRef");
    struct sw_fpath at_match = sw_fpath_str(&path, "matchResources");
    struct sw_fpath at_actions = sw_fpath_str(&path, "validationActions");

    if (!name.n)
        sw_ferr_required(e, &at_name, NULL);
    else
        sw_name_report(e, &at_name, name, sw_name_dns1123_subdomain(name));
    check_param_ref(sw_json_find(spec, "paramRef"), &at_ref, e);
    check_match(sw_json_find(spec, "matchResources"), &at_match, e);
    check_actions(sw_json_find(spec, "validationActions"), &at_actions, e);
}
