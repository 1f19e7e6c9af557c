/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/review.h"

static const struct sw_kube_gvr token_reviews = {"authentication.k8s.io", "v1", "tokenreviews",
                                                 "TokenReview", false};

struct sw_json *sw_kube_review_new(struct sw_arena *a, const struct sw_kube_gvr *gvr,
                                   struct sw_json **ret_spec)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_put_text(a, o, "apiVersion", sw_arena_printf(a, "%s/%s", gvr->group, gvr->version));
    sw_json_put_text(a, o, "kind", gvr->kind);
    *ret_spec = sw_json_put_object(a, o, "spec");
    return o;
}

struct sw_kube_call *sw_kube_review_token(struct sw_kube_client *c, struct sw_slice token,
                                          const char *audience, sw_kube_cb cb, void *arg)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *spec;
    struct sw_json *o = sw_kube_review_new(&a, &token_reviews, &spec);

    sw_json_put_str(&a, spec, "token", token);
    if (audience)
        sw_json_push(&a, sw_json_put_array(&a, spec, "audiences"), sw_json_new_str(&a, audience));
    return sw_kube_create(c, &token_reviews, o, cb, arg);
}
