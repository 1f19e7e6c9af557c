/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/takeover.h"

#include "base/time.h"
#include "kube/client/kinds.h"
#include "kube/client/review.h"

#define CALL_NS (15 * SW_NS_PER_S)

static const struct sw_kube_gvr review_gvr = {
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false};

struct sw_kube_call *sw_takeover_ask(struct sw_kube_client *c, const char *resource,
                                     struct sw_slice ns, struct sw_slice name, sw_kube_cb cb,
                                     void *arg)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *spec;
    struct sw_json *body = sw_kube_review_new(&a, &review_gvr, &spec);
    struct sw_json *of = sw_json_put_object(&a, spec, "resourceAttributes");
    const struct sw_kube_req req = {
        .verb = SW_KUBE_CREATE, .gvr = &review_gvr, .body = body, .timeout_ns = CALL_NS};

    sw_json_put_text(&a, of, "group", SW_CONNECTOR_GROUP);
    sw_json_put_text(&a, of, "resource", resource);
    sw_json_put_text(&a, of, "verb", "take-over");
    sw_json_put_str(&a, of, "namespace", ns);
    sw_json_put_str(&a, of, "name", name);
    return sw_kube_do(c, &req, cb, arg);
}

bool sw_takeover_allowed(const struct sw_kube_reply *r)
{
    return r->rc == SW_OK && sw_json_true(sw_json_walk(r->object, "status", "allowed", NULL));
}
