/* SPDX-License-Identifier: Apache-2.0 */
#include "control/trust.h"

#include "base/mem.h"
#include "control/runtime.h"

enum { NAMESPACES, CONFIGMAPS };

static const struct sw_kube_gvr namespaces = {
    .group = "", .version = "v1", .resource = "namespaces", .kind = "Namespace"};
static const struct sw_kube_gvr configmaps = {.group = "",
                                              .version = "v1",
                                              .resource = "configmaps",
                                              .kind = "ConfigMap",
                                              .namespaced = true};

static const struct sw_control_kind kinds[] = {
    [NAMESPACES] = {.gvr = &namespaces},
    /* All others would be read for nothing. */
    [CONFIGMAPS] = {.gvr = &configmaps, .field_selector = "metadata.name=" SW_TRUST_CONFIGMAP},
};

struct sw_trust {
    struct sw_control *control;
};

/* Nothing may be created in a namespace that goes. */
static bool terminating(const struct sw_kube_obj *ns)
{
    return sw_json_walk(ns->json, "metadata", "deletionTimestamp", NULL) ||
           sw_json_str_eq(sw_json_walk(ns->json, "status", "phase", NULL), "Terminating");
}

static struct sw_json *configmap(struct sw_arena *a, struct sw_slice ns, struct sw_slice roots)
{
    struct sw_json *obj = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);
    struct sw_json *labels = sw_json_new_object(a);
    struct sw_json *data = sw_json_new_object(a);

    sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, "v1"));
    sw_json_put(a, obj, "kind", sw_json_new_str(a, "ConfigMap"));
    sw_json_put(a, labels, "app.kubernetes.io/managed-by", sw_json_new_str(a, "spanwire"));
    sw_json_put(a, meta, "name", sw_json_new_str(a, SW_TRUST_CONFIGMAP));
    sw_json_put_str(a, meta, "namespace", ns);
    sw_json_put(a, meta, "labels", labels);
    sw_json_put(a, obj, "metadata", meta);
    sw_json_put_str(a, data, SW_TRUST_KEY, roots);
    sw_json_put(a, obj, "data", data);
    return obj;
}

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sw_slice roots = sw_view_input(v);

    (void)arg;
    if (!roots.n)
        return; /* an empty bundle would cut everybody off: say nothing instead */
    for (size_t i = 0; i < sw_view_count(v, NAMESPACES); i++) {
        const struct sw_kube_obj *ns = sw_view_at(v, NAMESPACES, i);

        if (!terminating(ns))
            sw_out_apply(out, CONFIGMAPS, configmap(sw_out_arena(out), ns->name, roots));
    }
}

struct sw_trust *sw_trust_new(struct sw_kube_client *c, const struct sw_trust_opts *o,
                              struct sw_err *err)
{
    const struct sw_control_opts co = {.name = "spanwire-trust",
                                       .kinds = kinds,
                                       .n_kinds = SW_ARRAY_LEN(kinds),
                                       .build = build,
                                       .threaded = o->threaded,
                                       .lease_ns = o->lease_ns,
                                       .lease_name = o->lease_name,
                                       .identity = o->identity};
    struct sw_trust *t = SW_NEW(struct sw_trust);

    t->control = sw_control_new(c, &co, err);
    if (!t->control) {
        sw_free(t);
        return NULL;
    }
    sw_control_set_input(t->control, o->roots);
    return t;
}

void sw_trust_free(struct sw_trust *t)
{
    if (!t)
        return;
    sw_control_free(t->control);
    sw_free(t);
}

void sw_trust_start(struct sw_trust *t)
{
    sw_control_start(t->control);
}

void sw_trust_stop(struct sw_trust *t, void (*done)(void *arg), void *arg)
{
    sw_control_stop(t->control, done, arg);
}

void sw_trust_set_roots(struct sw_trust *t, struct sw_slice pem)
{
    sw_control_set_input(t->control, pem);
}

const struct sw_control *sw_trust_control(const struct sw_trust *t)
{
    return t->control;
}
