/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission expressions. A JSON object is a ValidatingAdmissionPolicy, any other text an expression
 * in matchConditions of a webhook. Nothing that did not compile admits a request, a false condition
 * excludes whatever the others are, and the same request gets the same verdict twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "kube/admission/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char object_text[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"labels\":{\"k\":"
    "\"v\"}},\"data\":{\"x\":\"1\"}}";
static const char request_text[] =
    "{\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"ConfigMap\"},\"resource\":{\"group\":"
    "\"\",\"version\":\"v1\",\"resource\":\"configmaps\"},\"name\":\"a\",\"namespace\":\"default\","
    "\"operation\":\"UPDATE\",\"userInfo\":{\"username\":\"ann\",\"groups\":[\"g\"]},\"dryRun\":"
    "false,\"options\":{\"kind\":\"UpdateOptions\"}}";

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    require(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL) == SW_OK);
    return v;
}

static bool allowed(void *arg, struct sw_arena *a, const struct sw_cel_access *x,
                    const char **ret_reason)
{
    (void)arg;
    (void)a;
    *ret_reason = "";
    return sw_slice_eq_str(x->verb, "get");
}

static bool out_of_budget(const char *why)
{
    return strcmp(why, SW_CEL_OUT_OF_BUDGET) == 0;
}

static bool same(const struct sw_policy_result *x, const struct sw_policy_result *y)
{
    if (x->ndenials != y->ndenials || x->naudits != y->naudits)
        return false;
    for (size_t i = 0; i < x->ndenials; i++) {
        if (strcmp(x->denials[i].message, y->denials[i].message) != 0)
            return false;
    }
    return true;
}

static void check_policy(struct sw_arena *a, const struct sw_json *v, struct sw_cel_input *in)
{
    struct sw_field_errs e;
    struct sw_policy_result x, y;
    struct sw_admission_policy *p;

    sw_field_errs_init(&e, a);
    p = sw_policy_compile(v, &e);
    require((e.n > 0) == (p->broken != NULL));
    x = sw_policy_eval(p, a, in);
    y = sw_policy_eval(p, a, in);
    require(same(&x, &y));
    require(!p->broken || x.ndenials == !p->ignore_failures);
    require(!p->broken || x.naudits == 0);
    require(x.ndenials <= p->nvalidations + p->nnotes + 1 && x.naudits <= p->nnotes);
    sw_policy_free(p);
}

static struct sw_match_conditions *conditions(struct sw_arena *a, struct sw_slice first,
                                              const char *second)
{
    struct sw_fpath path = sw_fpath_str(NULL, "matchConditions");
    struct sw_json *list = sw_json_new_array(a);
    struct sw_field_errs e;
    struct sw_at at;

    sw_field_errs_init(&e, a);
    for (int i = 0; i < 1 + (second != NULL); i++) {
        struct sw_json *c = sw_json_new_object(a);

        sw_json_put(a, c, "name", sw_json_new_str(a, i ? "second" : "first"));
        sw_json_put_str(a, c, "expression", i ? sw_slice_str(second) : first);
        sw_json_push(a, list, c);
    }
    at = sw_at_path(list, &path, &e);
    return sw_match_conditions_compile(a, &sw_webhook_scope, &at);
}

static void check_expression(struct sw_arena *a, struct sw_slice src, struct sw_cel_input *in)
{
    struct sw_match_conditions *one = conditions(a, src, NULL);
    struct sw_match_conditions *two = conditions(a, src, "false");
    struct sw_cel_run *run = sw_cel_run_new(a, &sw_webhook_scope, in);
    const char *why = NULL;
    const char *why2 = NULL;
    enum sw_match_outcome x = sw_match_conditions_eval(one, a, run, &why);
    enum sw_match_outcome y = sw_match_conditions_eval(two, a, run, &why2);

    require(x == sw_match_conditions_eval(one, a, run, &why));
    require(!one->broken || x == SW_MATCH_FAILED);
    require((x == SW_MATCH_FAILED) == (why != NULL));
    require((one->broken != NULL) == (two->broken != NULL));
    require(y == SW_MATCH_EXCLUDES || two->broken || out_of_budget(why2));
    sw_match_conditions_done(one);
    sw_match_conditions_done(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_opts opts = {.max_depth = 50};
    struct sw_cel_input in = {.allowed = allowed};
    struct sw_json *v = NULL;

    if (size > 4096)
        return 0;
    in.object = in.old = parse(&a, object_text);
    in.request = parse(&a, request_text);
    if (sw_json_parse(&a, sw_arena_slice(&a, sw_slice(data, size)), &opts, &v, NULL) == SW_OK &&
        v->type == SW_JSON_OBJECT)
        check_policy(&a, v, &in);
    else
        check_expression(&a, sw_slice(data, size), &in);
    return 0;
}
