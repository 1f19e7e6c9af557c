/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ValidatingAdmissionPolicies in force: an index of the stored policies with their bindings,
 * rebuilt at the first use after one of them changed, and the admission plugin that evaluates them.
 */
#include "apiserver/admission/policies.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/admission/admission_metrics.h"
#include "apiserver/admission/admission_request.h"
#include "apiserver/api/work.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/admission/admission_match.h"
#include "kube/admission/policy.h"

static const char group[] = "admissionregistration.k8s.io";

struct entry {
    struct sw_admission_policy *policy; /* owned */
    SW_VEC(const struct sw_json *) bindings;
};

/* Immutable once made; a request keeps the one it began with. */
struct api_policies {
    unsigned refs;
    struct sw_arena arena; /* trees of bindings */
    struct sw_store_snap *snap;
    SW_VEC(struct entry *) all; /* with at least one binding, by name */
};

/* ---- index ---- */

void api_policies_free(struct api_policies *x)
{
    if (!x || --x->refs)
        return;
    for (size_t i = 0; i < x->all.n; i++) {
        sw_policy_free(x->all.p[i]->policy);
        sw_vec_done(&x->all.p[i]->bindings);
        sw_free(x->all.p[i]);
    }
    sw_arena_clear(&x->arena);
    sw_store_snap_unref(x->snap);
    sw_vec_done(&x->all);
    sw_free(x);
}

void api_policies_changed(struct sw_api *api)
{
    api_policies_free(api->admission.policies);
    api->admission.policies = NULL;
}

static struct entry *add_policy(struct api_policies *x, const struct sw_json *obj)
{
    struct entry *e = SW_NEW(struct entry);
    struct sw_field_errs errs;
    SW_ARENA_AUTO tmp = {0};

    sw_field_errs_init(&errs, &tmp);
    e->policy = sw_policy_compile(obj, &errs);
    if (e->policy->broken)
        sw_log_warn("api", "ValidatingAdmissionPolicy '%.*s' cannot be evaluated, %s: %s",
                    SW_SLICE_ARG(e->policy->name),
                    e->policy->ignore_failures ? "ignoring it" : "denying the requests it matches",
                    e->policy->broken);
    sw_vec_push(&x->all, e);
    return e;
}

static struct entry *find_policy(struct sw_api *api, struct api_policies *x, struct sw_slice name)
{
    const struct api_res *res = api_registry_v1(&api->reg, group, "validatingadmissionpolicies");
    const struct sw_store_obj *o;

    for (size_t i = 0; i < x->all.n; i++) {
        if (sw_slice_eq(x->all.p[i]->policy->name, name))
            return x->all.p[i];
    }
    o = sw_store_snap_get(x->snap, api_key(&x->arena, res, sw_slice("", 0), name));
    return o ? add_policy(x, api_load(&x->arena, res, o)) : NULL;
}

static int by_name(const void *p, const void *q)
{
    const struct entry *const *x = p;
    const struct entry *const *y = q;

    return sw_slice_cmp((*x)->policy->name, (*y)->policy->name);
}

static struct api_policies *policies_new(struct sw_api *api)
{
    struct api_policies *x = SW_NEW(struct api_policies);
    const struct api_res *res =
        api_registry_v1(&api->reg, group, "validatingadmissionpolicybindings");

    x->refs = 1;
    x->snap = sw_store_snapshot(api->store);
    SW_STORE_EACH (o, x->snap, sw_slice_str(res->prefix)) {
        const struct sw_json *b = api_load(&x->arena, res, o);
        struct entry *e =
            b ? find_policy(api, x, api_str(sw_json_find(b, "spec"), "policyName")) : NULL;

        if (e)
            sw_vec_push(&e->bindings, b);
    }
    if (x->all.n)
        qsort(x->all.p, x->all.n, sizeof(*x->all.p), by_name);
    return x;
}

/* A reference to those in force. */
static struct api_policies *in_force(struct sw_api *api)
{
    if (!api->admission.policies)
        api->admission.policies = policies_new(api);
    api->admission.policies->refs++;
    return api->admission.policies;
}

/* ---- the request as expressions see it ---- */

struct question {
    struct api_admission *ad;
    struct api_req *r;     /* of the object */
    struct api_req *asker; /* of the client */
    struct sw_arena *a;
    struct sw_match_attrs at;
    const struct sw_json *ns_object;
    struct sw_json *denied; /* {message, reason} of the first denial */
};

/* The resource in the version that matched. */
static const struct api_res *res_in(const struct question *q, struct sw_slice version)
{
    const struct api_res *res = q->r->res;

    for (size_t i = 0; res->crd && i < res->crd->n; i++) {
        if (sw_slice_eq_str(version, res->crd->vers[i].version))
            return &res->crd->vers[i];
    }
    return res;
}

static const struct sw_json *load_namespace(struct question *q)
{
    return q->r->res->namespaced
               ? api_in_snap(q->r, api_registry_core(&q->r->api->reg, "namespaces"),
                             sw_slice("", 0), q->r->ns)
               : NULL;
}

/* ---- verdicts ---- */

static void note_denial(struct question *q, const struct entry *e, const struct sw_json *binding,
                        const char *text, struct sw_slice reason)
{
    struct sw_slice b = api_meta_str(binding, "name");
    const char *message =
        binding ? sw_arena_printf(q->a,
                                  "ValidatingAdmissionPolicy '%.*s' with binding '%.*s' denied "
                                  "request: %s",
                                  SW_SLICE_ARG(e->policy->name), SW_SLICE_ARG(b), text)
                : sw_arena_printf(q->a, "ValidatingAdmissionPolicy '%.*s' denied request: %s",
                                  SW_SLICE_ARG(e->policy->name), text);

    api_admission_count(q->r->api, API_POLICY_DENIED, API_BY_POLICY, e->policy->name);
    if (q->denied)
        return;
    q->denied = SW_JSON_OF(q->a, {"message", .str = message},
                           {"reason", .text = reason.n ? reason : SW_SLICE_LIT("Invalid")});
}

/* A policy or binding that cannot be used. */
static void misconfigured(struct question *q, const struct entry *e, const struct sw_json *binding,
                          const char *why)
{
    if (!e->policy->ignore_failures)
        note_denial(q, e, binding,
                    sw_arena_printf(q->a, "failed to configure %s: %s",
                                    binding ? "binding" : "policy", why),
                    sw_slice("", 0));
}

/* validation.policy.admission.k8s.io/validation_failure of the audit log */
static void audit_failure(struct question *q, const struct entry *e, const struct sw_json *binding,
                          const struct sw_policy_denial *d)
{
    struct sw_arena *a = q->a;
    const struct sw_json *actions = sw_json_walk(binding, "spec", "validationActions", NULL);
    struct sw_json *v =
        SW_JSON_OF(a, {"message", .str = d->message}, {"policy", .text = e->policy->name},
                   {"binding", .text = api_meta_str(binding, "name")},
                   {"expressionIndex", .json = sw_json_new_i64(a, (int64_t)d->index)},
                   {"validationActions", .json = sw_json_copy(a, actions)});

    api_admission_count(q->r->api, API_POLICY_AUDITED, API_BY_POLICY, e->policy->name);
    api_audit_note(q->asker, "validation.policy.admission.k8s.io/validation_failure",
                   sw_json_text(a, sw_json_new_list(a, v), NULL));
}

static void warn(struct question *q, const struct entry *e, const struct sw_json *binding,
                 const struct sw_policy_denial *d)
{
    api_admission_count(q->r->api, API_POLICY_WARNED, API_BY_POLICY, e->policy->name);
    api_warn(
        q->asker, "Validation failed for ValidatingAdmissionPolicy '%.*s' with binding '%.*s': %s",
        SW_SLICE_ARG(e->policy->name), SW_SLICE_ARG(api_meta_str(binding, "name")), d->message);
}

static void act(struct question *q, const struct entry *e, const struct sw_json *binding,
                const struct sw_policy_denial *d)
{
    const struct sw_json *actions = sw_json_walk(binding, "spec", "validationActions", NULL);

    SW_JSON_ITEMS (action, actions) {
        if (sw_json_str_eq(action, "Deny"))
            note_denial(q, e, binding, d->message, d->reason);
        else if (sw_json_str_eq(action, "Audit"))
            audit_failure(q, e, binding, d);
        else if (sw_json_str_eq(action, "Warn"))
            warn(q, e, binding, d);
    }
}

/* The roles are the loop's. */
static bool allowed(void *arg, struct sw_arena *a, const struct sw_cel_access *at,
                    const char **ret_why)
{
    bool yes;

    api_on_loop();
    yes = sw_admission_allowed(arg, a, at, ret_why);
    api_off_loop();
    return yes;
}

static void evaluate(struct question *q, const struct entry *e, const struct sw_json *binding,
                     const struct sw_json *params, struct sw_slice version)
{
    const struct api_res *as = res_in(q, version);
    struct sw_cel_input in = {
        .object = sw_admission_object(q->r, as, q->ad->object),
        .old = sw_admission_object(q->r, as, q->ad->old),
        .request = sw_admission_request(q->r, q->ad->op, as),
        .params = params,
        .ns = q->ns_object,
        .allowed = allowed,
        .arg = q->r,
        .cancel = api_work_budget(),
    };
    struct sw_policy_result res;

    api_off_loop();
    res = sw_policy_eval(e->policy, q->a, &in);
    api_on_loop();
    for (size_t i = 0; i < res.ndenials; i++)
        act(q, e, binding, &res.denials[i]);
    for (size_t i = 0; i < res.naudits; i++)
        api_audit_note(q->asker,
                       sw_arena_printf(q->a, "%.*s/%.*s", SW_SLICE_ARG(e->policy->name),
                                       SW_SLICE_ARG(res.audits[i].key)),
                       res.audits[i].value);
}

/* ---- parameters ---- */

static const struct api_res *param_resource(struct question *q, const struct entry *e)
{
    const struct sw_json *kind = sw_json_find(e->policy->spec, "paramKind");
    struct sw_slice version = api_str(kind, "apiVersion");
    struct sw_slice g = sw_slice("", 0);

    if (memchr(version.p, '/', version.n))
        g = sw_slice_cut(&version, '/');
    return api_registry_kind(&q->r->api->reg, g, version, api_str(kind, "kind"));
}

/* Objects in the namespace (or of the cluster) that the selector takes. */
static size_t select_params(struct question *q, const struct entry *e,
                            const struct sw_json *binding, const struct api_res *res,
                            struct sw_slice ns, struct sw_slice version)
{
    const struct sw_json *sel = sw_json_walk(binding, "spec", "paramRef", "selector", NULL);
    struct sw_label_selector s;
    const char *why = NULL;
    size_t n = 0;
    struct api_crd *crd;

    if (sw_label_selector_from_json(q->a, sel, &s, &why) != SW_OK) {
        misconfigured(q, e, binding, why);
        return 1;
    }
    crd = res->crd ? api_crd_ref(res->crd) : NULL; /* it may change while one is evaluated */
    SW_STORE_EACH (o, q->r->snap, api_prefix(q->a, res, ns)) {
        const struct sw_json *v = api_load(q->a, res, o);

        if (!v || !sw_label_selector_match(&s, sw_json_walk(v, "metadata", "labels", NULL)))
            continue;
        evaluate(q, e, binding, v, version);
        n++;
    }
    api_crd_unref(crd);
    return n;
}

static void with_params(struct question *q, const struct entry *e, const struct sw_json *binding,
                        struct sw_slice version)
{
    const struct sw_json *ref = sw_json_walk(binding, "spec", "paramRef", NULL);
    const struct api_res *res = param_resource(q, e);
    struct sw_slice ns = api_str(ref, "namespace");
    const struct sw_json *param;
    size_t found = 0;

    if (!res->namespaced && ns.n) {
        misconfigured(q, e, binding,
                      "paramRef.namespace must not be provided for a cluster-scoped `paramKind`");
        return;
    }
    if (res->namespaced && !ns.n)
        ns = q->at.ns;
    if (res->namespaced && !ns.n) {
        misconfigured(q, e, binding,
                      "cannot use namespaced paramRef in policy binding that matches "
                      "cluster-scoped resources");
        return;
    }
    if (sw_json_find(ref, "selector")) {
        found = select_params(q, e, binding, res, res->namespaced ? ns : sw_slice("", 0), version);
    } else {
        param = api_in_snap(q->r, res, ns, api_str(ref, "name"));
        found = param != NULL;
        if (param)
            evaluate(q, e, binding, param, version);
    }
    if (!found && sw_json_str_eq(sw_json_find(ref, "parameterNotFoundAction"), "Deny"))
        misconfigured(q, e, binding,
                      "no params found for policy binding with `Deny` parameterNotFoundAction");
}

/* ---- the plugin ---- */

static void ask_binding(struct question *q, const struct entry *e, const struct sw_json *binding,
                        struct sw_slice version)
{
    struct sw_slice own = version;
    const char *why = NULL;

    if (!sw_match_resources(q->a, sw_json_walk(binding, "spec", "matchResources", NULL), &q->at,
                            &own, &why))
        return;
    if (why)
        misconfigured(q, e, binding, why);
    else if (sw_json_find(e->policy->spec, "paramKind") &&
             sw_json_walk(binding, "spec", "paramRef", NULL))
        with_params(q, e, binding, version);
    else
        evaluate(q, e, binding, NULL, version);
}

static void ask(struct question *q, const struct entry *e)
{
    const struct sw_json *kind = sw_json_find(e->policy->spec, "paramKind");
    struct sw_slice version = q->at.version;
    const char *why = NULL;

    if (!sw_match_resources(q->a, sw_json_find(e->policy->spec, "matchConstraints"), &q->at,
                            &version, &why))
        return;
    if (!why)
        why = api_no_conversion(q->a, q->r->res, res_in(q, version));
    if (!why && kind && !param_resource(q, e))
        why = sw_arena_printf(
            q->a, "failed to find resource referenced by paramKind: '%.*s, Kind=%.*s'",
            SW_SLICE_ARG(api_str(kind, "apiVersion")), SW_SLICE_ARG(api_str(kind, "kind")));
    if (!why && kind)
        why = api_no_conversion(q->a, param_resource(q, e), param_resource(q, e));
    if (why) {
        misconfigured(q, e, NULL, why);
        return;
    }
    for (size_t i = 0; i < e->bindings.n; i++)
        ask_binding(q, e, e->bindings.p[i], version);
}

/* Policies do not apply to themselves: a wrong one could not be removed. */
static bool exempt(const struct api_res *res)
{
    return strcmp(res->group, group) == 0 &&
           (strcmp(res->plural, "validatingadmissionpolicies") == 0 ||
            strcmp(res->plural, "validatingadmissionpolicybindings") == 0);
}

static void fill_attrs(struct question *q)
{
    struct api_req *r = q->r;
    struct sw_slice *versions;
    size_t n = 0;

    q->at = (struct sw_match_attrs){
        .operation = sw_admission_operation(q->ad->op),
        .group = sw_slice_str(r->res->group),
        .version = sw_slice_str(r->res->version),
        .resource = sw_slice_str(r->res->plural),
        .sub = r->sub,
        .ns = sw_admission_namespace(r),
        .name = r->name,
        .is_namespace = sw_admission_is_namespace(r->res),
        .object = q->ad->object,
        .old = q->ad->old,
        .ns_object = q->ns_object,
    };
    if (!r->res->crd)
        return;
    versions = sw_arena_array(q->a, r->res->crd->n + 1, sizeof(*versions));
    for (size_t i = 0; i < r->res->crd->n; i++) {
        if (r->res->crd->vers[i].served)
            versions[n++] = sw_slice_str(r->res->crd->vers[i].version);
    }
    q->at.versions = versions;
    q->at.nversions = n;
}

static int code_of(struct sw_slice reason)
{
    return sw_slice_eq_str(reason, "Forbidden")               ? 403
           : sw_slice_eq_str(reason, "Unauthorized")          ? 401
           : sw_slice_eq_str(reason, "RequestEntityTooLarge") ? 413
                                                              : 422;
}

static void refuse(struct question *q)
{
    struct sw_arena *a = q->a;
    struct sw_slice message = api_str(q->denied, "message");
    struct sw_slice reason = api_str(q->denied, "reason");
    struct sw_json *cause = SW_JSON_OF(a, {"message", .text = message});
    const struct api_res *res = q->r->res;

    sw_log_info("api", "%s of %s '%.*s' by '%.*s' refused: %.*s", q->at.operation, api_gr(a, res),
                SW_SLICE_ARG(q->r->name), SW_SLICE_ARG(q->asker->user.name),
                SW_SLICE_ARG(sw_slice_head(message, 512)));
    api_fail_details(
        q->r, code_of(reason), sw_arena_dup(a, reason),
        sw_arena_printf(a, "%s \"%.*s\" is forbidden: %.*s", api_gr(a, res),
                        SW_SLICE_ARG(q->r->name), SW_SLICE_ARG(message)),
        SW_JSON_OF(a, {"name", .text = q->r->name}, {"group", .some = sw_slice_str(res->group)},
                   {"kind", .str = res->plural}, {"causes", .json = sw_json_new_list(a, cause)}));
}

void api_policies_admit(struct api_admission *ad)
{
    struct api_policies *x = in_force(ad->r->api);
    struct api_req *r = ad->r;
    struct question q = {
        .ad = ad, .r = r, .asker = r->own.on_behalf ? r->own.on_behalf : r, .a = r->arena};

    if (!x->all.n || exempt(ad->r->res)) {
        api_policies_free(x);
        sw_admission_next(ad);
        return;
    }
    q.ns_object = load_namespace(&q);
    fill_attrs(&q);
    for (size_t i = 0; i < x->all.n; i++)
        ask(&q, x->all.p[i]);
    api_policies_free(x);
    if (api_work_ended(r))
        return;
    if (q.denied)
        refuse(&q);
    else
        sw_admission_next(ad);
}
