/* SPDX-License-Identifier: Apache-2.0 */
/* Webhook configurations as an index, and which of them match a request. */
#include <string.h>

#include "apiserver/admission/admission_request.h"
#include "apiserver/admission/webhook.h"
#include "apiserver/admission/webhook_int.h"
#include "apiserver/api/work.h"
#include "base/log.h"
#include "base/mem.h"

static const char *const kinds[] = {"mutatingwebhookconfigurations",
                                    "validatingwebhookconfigurations"};
static const char admission_group[] = "admissionregistration.k8s.io";

struct hook_set *hook_set_ref(struct hook_set *s)
{
    s->refs++;
    return s;
}

struct hook_set *hook_set_unref(struct hook_set *s)
{
    if (s && --s->refs == 0) {
        for (size_t i = 0; i < s->all.n; i++)
            sw_match_conditions_done(s->all.p[i].conditions);
        sw_vec_done(&s->all);
        sw_arena_clear(&s->arena);
        sw_free(s);
    }
    return NULL;
}

static void add_hook(struct hook_set *s, struct sw_slice config, const struct sw_json *def,
                     bool mutating)
{
    struct sw_field_errs errs;
    const char *why = NULL;
    const struct sw_json *ns = sw_json_find(def, "namespaceSelector");
    const struct sw_json *objects = sw_json_find(def, "objectSelector");
    struct hook h = {
        .config = config,
        .name = api_str(def, "name"),
        .def = def,
        .mutating = mutating,
        .fail = !sw_json_str_eq(sw_json_find(def, "failurePolicy"), "Ignore"),
        .equivalent = !sw_json_str_eq(sw_json_find(def, "matchPolicy"), "Exact"),
        .again = sw_json_str_eq(sw_json_find(def, "reinvocationPolicy"), "IfNeeded"),
    };

    if (!sw_json_i64(sw_json_find(def, "timeoutSeconds"), &h.timeout_s) || h.timeout_s < 1 ||
        h.timeout_s > 30)
        h.timeout_s = 10;
    /* They were valid when admitted; one that is not any more selects everything. */
    if (ns && sw_label_selector_from_json(&s->arena, ns, &h.namespaces, &why) != SW_OK)
        h.namespaces = (struct sw_label_selector){0};
    if (objects && sw_label_selector_from_json(&s->arena, objects, &h.objects, &why) != SW_OK)
        h.objects = (struct sw_label_selector){0};
    sw_field_errs_init(&errs, &s->arena);
    h.conditions = sw_match_conditions_compile(&s->arena, &sw_webhook_scope,
                                               SW_IN(SW_WHOLE(def, &errs), "matchConditions"));
    sw_vec_push(&s->all, h);
}

static void load_kind(struct sw_api *api, struct hook_set *s, const char *plural, bool mutating)
{
    const struct api_res *res = api_registry_v1(&api->reg, admission_group, plural);
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(api->store);

    /* Keys come sorted, so configurations are called by name. */
    SW_STORE_EACH (o, snap, sw_slice_str(res->prefix)) {
        SW_ARENA_AUTO tmp = {0};
        struct sw_json *loaded = api_load(&tmp, res, o);
        const struct sw_json *obj = loaded ? sw_json_copy(&s->arena, loaded) : NULL;
        const struct sw_json *list = sw_json_find(obj, "webhooks");

        SW_JSON_ITEMS (def, list)
            add_hook(s, api_meta_str(obj, "name"), def, mutating);
    }
}

struct hook_set *hook_set_now(struct sw_api *api)
{
    struct hook_set *s = api->admission.hook_set;

    if (!s) {
        s = SW_NEW(struct hook_set);
        s->refs = 1;
        load_kind(api, s, kinds[0], true);
        load_kind(api, s, kinds[1], false);
        api->admission.hook_set = s;
    }
    return hook_set_ref(s);
}

void api_webhooks_changed(struct sw_api *api)
{
    api->admission.hook_set = hook_set_unref(api->admission.hook_set);
}

/* --- matching --------------------------------------------------------------------------- */

static bool rules_match(const struct hook *h, const struct hook_question *q,
                        const struct api_res *res)
{
    const struct sw_json *rules = sw_json_find(h->def, "rules");
    struct sw_admit_target t = {.operation = sw_admission_operation(q->op),
                                .group = sw_slice_str(res->group),
                                .version = sw_slice_str(res->version),
                                .resource = sw_slice_str(res->plural),
                                .sub = q->r->sub,
                                .cluster_scoped = !res->namespaced};

    SW_JSON_ITEMS (it, rules) {
        if (sw_admit_rule_matches(it, &t))
            return true;
    }
    return false;
}

static bool labels_match(const struct sw_label_selector *s, const struct sw_json *obj)
{
    return obj && sw_label_selector_match(s, sw_json_walk(obj, "metadata", "labels", NULL));
}

/* Namespaces are judged by their own labels, what is in none is always wanted. */
static bool namespace_matches(const struct hook *h, const struct hook_question *q)
{
    struct api_req *r = q->r;

    if (!h->namespaces.n)
        return true;
    if (sw_admission_is_namespace(r->res))
        return labels_match(&h->namespaces, q->object ? q->object : q->old);
    if (!r->res->namespaced)
        return true;
    return labels_match(
        &h->namespaces,
        api_in_snap(r, api_registry_core(&r->api->reg, "namespaces"), sw_slice("", 0), r->ns));
}

static const struct api_res *version_for(const struct hook *h, const struct hook_question *q)
{
    const struct api_res *res = q->r->res;

    if (rules_match(h, q, res))
        return res;
    for (size_t i = 0; h->equivalent && res->crd && i < res->crd->n; i++) {
        if (res->crd->vers[i].served && rules_match(h, q, &res->crd->vers[i]))
            return &res->crd->vers[i];
    }
    return NULL;
}

const struct api_res *hook_wants(const struct hook *h, const struct hook_question *q)
{
    const struct api_res *res = q->r->res;
    const struct api_res *as;

    /* Webhooks must not lock users out of the configuration of admission. */
    if (res->builtin && strcmp(res->group, admission_group) == 0)
        return NULL;
    as = version_for(h, q);
    if (!as || !namespace_matches(h, q))
        return NULL;
    if (h->objects.n && !labels_match(&h->objects, q->object) && !labels_match(&h->objects, q->old))
        return NULL;
    return as;
}

/* --- conditions ------------------------------------------------------------------------- */

void hook_count(struct sw_api *api, const struct hook *h, enum api_admission_event event)
{
    api_admission_count(api, event, h->mutating ? API_BY_MUTATING_HOOK : API_BY_VALIDATING_HOOK,
                        h->name);
}

static void conditions_failed(const struct hook *h, const struct hook_question *q, const char *why)
{
    struct api_req *r = q->r;

    hook_count(r->api, h, API_HOOK_CONDITION_FAILED);
    sw_log_warn("webhook",
                "match conditions of webhook '%.*s' of '%.*s' failed: %.512s; %s (failurePolicy)",
                SW_SLICE_ARG(h->name), SW_SLICE_ARG(h->config), why,
                h->fail ? "the request is refused" : "the webhook is not called");
    if (h->fail)
        api_fail_res(r, 403, "Forbidden", r->name, "%s \"%.*s\" is forbidden: %s",
                     api_gr(r->arena, r->res), SW_SLICE_ARG(r->name), why);
}

enum sw_match_outcome hook_conditions(const struct hook *h, const struct hook_question *q,
                                      const struct api_res *as)
{
    struct sw_cel_input in = {
        .allowed = sw_admission_allowed, .arg = q->r, .cancel = api_work_budget()};
    struct sw_arena *a = q->r->arena;
    enum sw_match_outcome outcome;
    const char *why = api_no_conversion(a, q->r->res, as);

    if (!why && !h->conditions->n && !h->conditions->broken)
        return SW_MATCH_HOLDS;
    if (why) {
        conditions_failed(h, q, why);
        return h->fail ? SW_MATCH_FAILED : SW_MATCH_EXCLUDES;
    }
    in.object = sw_admission_object(q->r, as, q->object);
    in.old = sw_admission_object(q->r, as, q->old);
    in.request = sw_admission_request(q->r, q->op, as);
    outcome =
        sw_match_conditions_eval(h->conditions, a, sw_cel_run_new(a, &sw_webhook_scope, &in), &why);
    if (outcome == SW_MATCH_EXCLUDES)
        hook_count(q->r->api, h, API_HOOK_EXCLUDED);
    if (outcome != SW_MATCH_FAILED)
        return outcome;
    conditions_failed(h, q, why);
    return h->fail ? SW_MATCH_FAILED : SW_MATCH_EXCLUDES;
}
