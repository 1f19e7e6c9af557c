/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about the requesting user, which only the API knows: ValidatingAdmissionPolicies, which our
 * API and Kubernetes enforce alike, whatever the client is. Kept as they are here: a policy that
 * was weakened is restored.
 *
 * Replacing one device by another needs the verb 'take-over' on its HTTPProxy or Connector. Of the
 * ConfigMaps of the system namespace, gateways and sidecars write their own ("gateway-<id>", a name
 * that no role can list beforehand): all others, such as the list of relays, need the right to
 * create Secrets there, which the control plane has.
 */
#include "base/json.h"
#include "control/connector/connector_int.h"

#define ADMISSION "admissionregistration.k8s.io/v1"
#define RBAC      "rbac.authorization.k8s.io/v1"

/* Every Connector that one version names, the other names too. */
#define NAMES_ALL_OF(y, x)                                                                         \
    x ".spec.rules.all(r, !has(r.backends) || r.backends.all(b, !has(b.connector) || " y           \
      ".spec.rules.exists(q, has(q.backends) && q.backends.exists(c, has(c.connector) && "         \
      "c.connector.name == b.connector.name))))"
#define NOTE(o, key)                                                                               \
    "(has(" o ".metadata.annotations) && '" key "' in " o ".metadata.annotations ? " o             \
    ".metadata.annotations['" key "'] : '')"
#define KEY(o)                                                                                     \
    "(has(" o ".status) && has(" o ".status.connectionDetails) && has(" o                          \
    ".status.connectionDetails.publicKey) && has(" o                                               \
    ".status.connectionDetails.publicKey.id) ? " o ".status.connectionDetails.publicKey.id : '')"

#define MAY_TAKE_OVER(resource)                                                                    \
    "authorizer.group('" SW_CONNECTOR_GROUP "').resource('" resource                               \
    "').namespace(object.metadata.namespace).name(object.metadata.name).check('take-over')"        \
    ".allowed()"

struct guarded {
    const char *policy;
    const char *group;
    const char *resource; /* that the policy is about, with its subresource */
    const char *operations[2];
    const char *name;  /* of the condition */
    const char *when;  /* CEL: this needs the right */
    const char *right; /* CEL: the user has it */
    const char *message;
};

static const struct guarded guards[] = {
    /* One without a device may get one; from then on it is that device's. */
    {"spanwire-take-over-httpproxies",
     SW_CONNECTOR_GROUP,
     "httpproxies",
     {"UPDATE", NULL},
     "another-device",
     "oldObject.spec.rules.exists(r, has(r.backends) && r.backends.exists(b, has(b.connector))) && "
     "(!" NAMES_ALL_OF("object", "oldObject") " || !" NAMES_ALL_OF(
         "oldObject",
         "object") " || " NOTE("oldObject",
                               SW_CONNECTOR_SELECTOR) " != " NOTE("object",
                                                                  SW_CONNECTOR_SELECTOR) ")",
     MAY_TAKE_OVER("httpproxies"),
     "The HTTPProxy goes to another device: changing that needs the verb 'take-over' on it."},
    {"spanwire-take-over-connectors",
     SW_CONNECTOR_GROUP,
     "connectors/status",
     {"UPDATE", NULL},
     "another-device",
     KEY("oldObject") " != '' && " KEY("object") " != " KEY("oldObject"),
     MAY_TAKE_OVER("connectors"),
     "The Connector belongs to a device with another key: changing that needs the verb 'take-over' "
     "on it."},
    /* Kubernetes' own controllers put the root certificate into every namespace. */
    {"spanwire-system-configmaps",
     "",
     "configmaps",
     {"CREATE", "UPDATE"},
     "not-an-identity",
     "request.namespace == '" SW_CONNECTOR_SYSTEM_NS
     "' && !(has(object.metadata.name) && object.metadata.name.startsWith('gateway-')) && "
     "request.userInfo.username != 'system:kube-controller-manager' && "
     "!request.userInfo.groups.exists(g, g == 'system:serviceaccounts:kube-system')",
     "authorizer.group('').resource('secrets').namespace('" SW_CONNECTOR_SYSTEM_NS
     "').check('create').allowed()",
     "ConfigMaps of " SW_CONNECTOR_SYSTEM_NS " other than 'gateway-<id>' are the control plane's: "
     "writing them needs the right to create Secrets there."},
};

static void put_texts(struct sw_arena *a, struct sw_json *in, const char *key, const char *one,
                      const char *two)
{
    struct sw_json *list = sw_json_new_array(a);

    sw_json_push(a, list, sw_json_new_str(a, one));
    if (two)
        sw_json_push(a, list, sw_json_new_str(a, two));
    sw_json_put(a, in, key, list);
}

static struct sw_json *ours(struct sw_arena *a, const char *api, const char *kind, const char *name)
{
    struct sw_json *obj = cn_object(a, api, kind, sw_slice("", 0), sw_slice_str(name));

    cn_meta(a, obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    return obj;
}

static void want_policy(struct sw_output *out, const struct guarded *r)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_json *obj = ours(a, ADMISSION, "ValidatingAdmissionPolicy", r->policy);
    struct sw_json *spec = sw_json_put_object(a, obj, "spec");
    struct sw_json *on =
        cn_put_item(a, sw_json_put_object(a, spec, "matchConstraints"), "resourceRules");
    struct sw_json *when = cn_put_item(a, spec, "matchConditions");
    struct sw_json *check = cn_put_item(a, spec, "validations");

    sw_json_put_text(a, spec, "failurePolicy", "Fail");
    put_texts(a, on, "apiGroups", r->group, NULL);
    put_texts(a, on, "apiVersions", "*", NULL);
    put_texts(a, on, "operations", r->operations[0], r->operations[1]);
    put_texts(a, on, "resources", r->resource, NULL);
    sw_json_put_text(a, when, "name", r->name);
    sw_json_put_text(a, when, "expression", r->when);
    sw_json_put_text(a, check, "expression", r->right);
    sw_json_put_text(a, check, "message", r->message);
    sw_json_put_text(a, check, "reason", "Forbidden");
    sw_out_apply(out, SW_CN_POLICY, obj);
}

static void want_binding(struct sw_output *out, const struct guarded *r)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_json *obj = ours(a, ADMISSION, "ValidatingAdmissionPolicyBinding", r->policy);
    struct sw_json *spec = sw_json_put_object(a, obj, "spec");

    sw_json_put_text(a, spec, "policyName", r->policy);
    put_texts(a, spec, "validationActions", "Deny", NULL);
    sw_out_apply(out, SW_CN_BINDING, obj);
}

/* For whoever administers a namespace, and to be bound to others. */
static void want_role(struct sw_output *out)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_json *obj = ours(a, RBAC, "ClusterRole", "spanwire-take-over");
    struct sw_json *rule = cn_put_item(a, obj, "rules");

    cn_meta(a, obj, "labels", "rbac.authorization.k8s.io/aggregate-to-admin", SW_SLICE_LIT("true"));
    put_texts(a, rule, "apiGroups", SW_CONNECTOR_GROUP, NULL);
    put_texts(a, rule, "resources", "connectors", "httpproxies");
    put_texts(a, rule, "verbs", "take-over", NULL);
    sw_out_apply(out, SW_CN_ROLE, obj);
}

void cn_takeover(const struct sw_view *v, struct sw_output *out)
{
    want_role(out);
    if (!sw_view_served(v, SW_CN_POLICY) || !sw_view_served(v, SW_CN_BINDING))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(guards); i++) {
        want_policy(out, &guards[i]);
        want_binding(out, &guards[i]);
    }
}
