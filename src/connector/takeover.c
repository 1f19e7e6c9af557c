/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/takeover.h"

#include "base/time.h"
#include "connector/details.h"

#define CALL_NS (15 * SW_NS_PER_S)

static const struct sw_kube_gvr review_gvr = {.group = "authorization.k8s.io",
                                              .version = "v1",
                                              .resource = "selfsubjectaccessreviews",
                                              .kind = "SelfSubjectAccessReview"};

struct sw_kube_call *sw_takeover_ask(struct sw_kube_client *c, const char *resource,
                                     struct sw_slice ns, struct sw_slice name, sw_kube_cb cb,
                                     void *arg)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = sw_json_new_object(&a);
    struct sw_json *spec = sw_json_new_object(&a);
    struct sw_json *of = sw_json_new_object(&a);
    const struct sw_kube_req req = {
        .verb = SW_KUBE_CREATE, .gvr = &review_gvr, .body = body, .timeout_ns = CALL_NS};

    sw_json_put(&a, of, "group", sw_json_new_str(&a, SW_CONNECTOR_GROUP));
    sw_json_put(&a, of, "resource", sw_json_new_str(&a, resource));
    sw_json_put(&a, of, "verb", sw_json_new_str(&a, "take-over"));
    sw_json_put_str(&a, of, "namespace", ns);
    sw_json_put_str(&a, of, "name", name);
    sw_json_put(&a, spec, "resourceAttributes", of);
    sw_json_put(&a, body, "apiVersion", sw_json_new_str(&a, "authorization.k8s.io/v1"));
    sw_json_put(&a, body, "kind", sw_json_new_str(&a, review_gvr.kind));
    sw_json_put(&a, body, "spec", spec);
    return sw_kube_do(c, &req, cb, arg);
}

bool sw_takeover_allowed(const struct sw_kube_reply *r)
{
    return r->rc == SW_OK && sw_json_true(sw_json_walk(r->object, "status", "allowed", NULL));
}
