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

#define ISTIO_ROOTS "istio-ca-root-cert"
#define ISTIO_CRL   "istio-ca-crl"

/* All other ConfigMaps would be read for nothing. */
#define KINDS(name)                                                                                \
    {                                                                                              \
        [NAMESPACES] = {.gvr = &namespaces},                                                       \
        [CONFIGMAPS] = {.gvr = &configmaps, .field_selector = "metadata.name=" name},              \
    }

static const struct form {
    const char *manager;
    const char *name; /* of the ConfigMap */
    const char *key;
    bool istio; /* its label, and not in every system namespace */
    struct sw_control_kind kinds[2];
} forms[] = {
    [SW_TRUST_ROOTS] = {"spanwire-trust", SW_TRUST_CONFIGMAP, SW_TRUST_KEY, false,
                        KINDS(SW_TRUST_CONFIGMAP)},
    [SW_TRUST_ISTIO_ROOTS] = {"spanwire-mesh-trust", ISTIO_ROOTS, SW_TRUST_KEY, true,
                              KINDS(ISTIO_ROOTS)},
    [SW_TRUST_ISTIO_CRL] = {"spanwire-mesh-crl", ISTIO_CRL, "ca-crl.pem", true, KINDS(ISTIO_CRL)},
};

struct sw_trust {
    struct sw_control *control;
    const struct form *form;
};

/* Nothing may be created in a namespace that goes. */
static bool terminating(const struct sw_kube_obj *ns)
{
    return sw_json_walk(ns->json, "metadata", "deletionTimestamp", NULL) ||
           sw_json_str_eq(sw_json_walk(ns->json, "status", "phase", NULL), "Terminating");
}

/* Istio leaves these out. */
static bool is_left_out(struct sw_slice ns)
{
    static const char *const names[] = {"kube-public", "kube-node-lease", "local-path-storage"};

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_eq_str(ns, names[i]))
            return true;
    }
    return false;
}

static struct sw_json *configmap(struct sw_arena *a, const struct form *f, struct sw_slice ns,
                                 struct sw_slice pem)
{
    struct sw_json *labels = SW_JSON_OF(a, {"app.kubernetes.io/managed-by", .str = "spanwire"},
                                        {"istio.io/config", .str = f->istio ? "true" : NULL});
    struct sw_json *meta = SW_JSON_OF(a, {"name", .str = f->name}, {"namespace", .text = ns},
                                      {"labels", .json = labels});

    return SW_JSON_OF(a, {"apiVersion", .str = "v1"}, {"kind", .str = "ConfigMap"},
                      {"metadata", .json = meta},
                      {"data", .json = SW_JSON_OF(a, {f->key, .text = pem})});
}

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_trust *t = arg;
    struct sw_slice pem = sw_view_input(v);

    if (!pem.n)
        return; /* an empty bundle would cut all clients off: publish nothing instead */
    SW_VIEW_EACH (ns, v, NAMESPACES) {
        if (!terminating(ns) && !(t->form->istio && is_left_out(ns->name)))
            sw_out_apply(out, CONFIGMAPS, configmap(sw_out_arena(out), t->form, ns->name, pem));
    }
}

struct sw_trust *sw_trust_new(struct sw_kube_client *c, const struct sw_trust_opts *o,
                              struct sw_err *err)
{
    struct sw_trust *t = SW_NEW(struct sw_trust);
    const struct form *f = &forms[o->what];
    const struct sw_control_opts co = {.name = f->manager,
                                       .kinds = f->kinds,
                                       .n_kinds = SW_ARRAY_LEN(f->kinds),
                                       .build = build,
                                       .build_arg = t,
                                       .threaded = o->threaded,
                                       .election = o->election};

    t->form = f;
    t->control = sw_control_new(c, &co, err);
    if (!t->control) {
        sw_free(t);
        return NULL;
    }
    sw_control_set_input(t->control, o->pem);
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

void sw_trust_set(struct sw_trust *t, struct sw_slice pem)
{
    sw_control_set_input(t->control, pem);
}

const struct sw_control *sw_trust_control(const struct sw_trust *t)
{
    return t->control;
}
