/* SPDX-License-Identifier: Apache-2.0 */
/* What every server has from its first start: namespaces and the roles that clients rely on. */
#include "apiserver/boot/boot_int.h"

#define READ  "get list watch"
#define WRITE "create delete deletecollection patch update"
#define APPS                                                                                       \
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets "         \
    "statefulsets/scale"

static const char *const namespaces[] = {"default", "kube-system", "kube-public",
                                         "kube-node-lease"};

/* The rules of roles; see boot_rules. */
static const struct boot_rule cluster_admin_rules[] = {
    {"*", "*", "*", NULL, NULL},
    {NULL, NULL, "*", NULL, "*"},
};
static const struct boot_rule discovery_rules[] = {
    {NULL, NULL, "get", NULL,
     "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"},
};
static const struct boot_rule basic_user_rules[] = {
    {"authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create", NULL,
     NULL},
    {"authentication.k8s.io", "selfsubjectreviews", "create", NULL, NULL},
};
static const struct boot_rule public_info_viewer_rules[] = {
    {NULL, NULL, "get", NULL, "/healthz /livez /readyz /version /version/"},
};
static const struct boot_rule service_account_issuer_discovery_rules[] = {
    {NULL, NULL, "get", NULL,
     "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks "
     "/openid/v1/jwks/"},
};
static const struct boot_rule aggregate_to_admin_rules[] = {
    {"authorization.k8s.io", "localsubjectaccessreviews", "create", NULL, NULL},
    {"rbac.authorization.k8s.io", "rolebindings roles",
     "create delete deletecollection get list patch update watch", NULL, NULL},
};
static const struct boot_rule aggregate_to_edit_rules[] = {
    {"-", "secrets", READ, NULL, NULL},
    {"-", "serviceaccounts", "impersonate", NULL, NULL},
    {"-",
     "pods configmaps events secrets serviceaccounts services persistentvolumeclaims "
     "replicationcontrollers replicationcontrollers/scale",
     WRITE, NULL, NULL},
    {"apps", APPS, WRITE, NULL, NULL},
    {"autoscaling", "horizontalpodautoscalers", WRITE, NULL, NULL},
    {"batch", "cronjobs jobs", WRITE, NULL, NULL},
    {"policy", "poddisruptionbudgets", WRITE, NULL, NULL},
    {"events.k8s.io", "events", WRITE, NULL, NULL},
    {"-", "serviceaccounts/token", "create", NULL, NULL},
    {"coordination.k8s.io", "leases", WRITE " " READ, NULL, NULL},
    {"networking.k8s.io", "ingresses", WRITE, NULL, NULL},
};
static const struct boot_rule aggregate_to_view_rules[] = {
    {"-",
     "configmaps endpoints serviceaccounts services services/status pods pods/status pods/log "
     "persistentvolumeclaims persistentvolumeclaims/status replicationcontrollers "
     "replicationcontrollers/scale replicationcontrollers/status",
     READ, NULL, NULL},
    {"-", "events namespaces namespaces/status limitranges resourcequotas resourcequotas/status",
     READ, NULL, NULL},
    {"discovery.k8s.io", "endpointslices", READ, NULL, NULL},
    {"events.k8s.io", "events", READ, NULL, NULL},
    {"networking.k8s.io", "ingresses ingresses/status", READ, NULL, NULL},
    {"autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ, NULL, NULL},
    {"batch", "cronjobs cronjobs/status jobs jobs/status", READ, NULL, NULL},
    {"policy", "poddisruptionbudgets poddisruptionbudgets/status", READ, NULL, NULL},
    {"apps", APPS " daemonsets/status deployments/status replicasets/status statefulsets/status",
     READ, NULL, NULL},
};

#define RULES(r) r, SW_ARRAY_LEN(r)

static const struct {
    const char *name;
    const struct boot_rule *rules; /* or NULL */
    size_t n;
    const char *part_of;   /* the role that takes over its rules, or NULL */
    const char *aggregate; /* whose parts it takes over, or NULL */
} roles[] = {
    {"cluster-admin", RULES(cluster_admin_rules), NULL, NULL},
    {"system:discovery", RULES(discovery_rules), NULL, NULL},
    {"system:basic-user", RULES(basic_user_rules), NULL, NULL},
    {"system:public-info-viewer", RULES(public_info_viewer_rules), NULL, NULL},
    {"system:service-account-issuer-discovery", RULES(service_account_issuer_discovery_rules), NULL,
     NULL},
    {"admin", NULL, 0, NULL, "admin"},
    {"edit", NULL, 0, "admin", "edit"},
    {"view", NULL, 0, "edit", "view"},
    {"system:aggregate-to-admin", RULES(aggregate_to_admin_rules), "admin", NULL},
    {"system:aggregate-to-edit", RULES(aggregate_to_edit_rules), "edit", NULL},
    {"system:aggregate-to-view", RULES(aggregate_to_view_rules), "view", NULL},
};

static const struct {
    const char *name;
    const char *groups[3];
} bindings[] = {
    {"cluster-admin", {"system:masters"}},
    {"system:discovery", {"system:authenticated"}},
    {"system:basic-user", {"system:authenticated"}},
    {"system:public-info-viewer", {"system:authenticated", "system:unauthenticated"}},
    {"system:service-account-issuer-discovery", {"system:serviceaccounts"}},
};

/*
 * Rules of releases before the roles noted down what they were made of. Those that are not above
 * any more are taken out of old data directories.
 */
static const struct boot_rule edit_before[] = {
    {"-",
     "pods configmaps events secrets serviceaccounts services endpoints persistentvolumeclaims "
     "replicationcontrollers replicationcontrollers/scale",
     WRITE, NULL, NULL},
};

/* The API as a Service of itself, where clients inside a cluster look for it. */
static void make_service(struct sw_api *api)
{
    static const struct boot_place at = {"", "services", "default"};
    SW_ARENA_AUTO a = {0};

    (void)boot_make(
        api, &at, "kubernetes",
        boot_parse(&a, "{'metadata':{'name':'kubernetes','labels':{'component':'apiserver',"
                       "'provider':'kubernetes'}},'spec':{'clusterIP':'10.96.0.1','ports':[{'name':"
                       "'https','port':443,'targetPort':6443}]}}"));
}

void boot_namespace(struct sw_api *api, struct sw_slice name)
{
    if (sw_slice_eq_str(name, "default"))
        make_service(api);
    boot_accounts_in(api, name);
}

static void make_roles(struct sw_api *api)
{
    static const struct boot_place at = {"rbac.authorization.k8s.io", "clusterroles", ""};
    static const char takes[] = "rbac.authorization.k8s.io/aggregate-to-";

    for (size_t i = 0; i < SW_ARRAY_LEN(roles); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *role = boot_named(&a, roles[i].name);
        bool edit = roles[i].rules == aggregate_to_edit_rules;

        if (roles[i].part_of)
            sw_json_put_str(&a, sw_json_walk(role, "metadata", "labels", NULL),
                            sw_arena_printf(&a, "%s%s", takes, roles[i].part_of),
                            SW_SLICE_LIT("true"));
        if (roles[i].aggregate)
            sw_json_put(&a, role, "aggregationRule",
                        boot_parse(&a, sw_arena_printf(&a,
                                                       "{'clusterRoleSelectors':[{'matchLabels':{"
                                                       "'%s%s':'true'}}]}",
                                                       takes, roles[i].aggregate)));
        sw_json_put(&a, role, "rules", boot_rules(&a, roles[i].rules, roles[i].n));
        boot_role(api, &at, role, boot_rules(&a, edit_before, edit ? 1 : 0));
    }
}

static void make_bindings(struct sw_api *api)
{
    static const struct boot_place at = {"rbac.authorization.k8s.io", "clusterrolebindings", ""};

    for (size_t i = 0; i < SW_ARRAY_LEN(bindings); i++) {
        SW_ARENA_AUTO a = {0};
        const char *name = bindings[i].name;
        const char *subjects = "";

        for (size_t k = 0; bindings[i].groups[k]; k++)
            subjects = sw_arena_printf(
                &a, "%s%s{'apiGroup':'rbac.authorization.k8s.io','kind':'Group','name':'%s'}",
                subjects, k ? "," : "", bindings[i].groups[k]);
        boot_binding(api, &at, boot_binding_json(&a, name, "ClusterRole", name, subjects));
    }
}

static void make_namespace(struct sw_api *api, const char *name)
{
    static const struct boot_place at = {"", "namespaces", ""};
    SW_ARENA_AUTO a = {0};

    /* A new one gets what belongs into it when it is there. */
    if (boot_make(api, &at, name,
                  boot_parse(&a, sw_arena_printf(&a, "{'metadata':{'name':'%s'}}", name))))
        boot_namespace(api, sw_slice_str(name));
}

void api_bootstrap(struct sw_api *api)
{
    api->phase.starting = 1;
    make_roles(api);
    make_bindings(api);
    boot_accounts(api);
    for (size_t i = 0; i < SW_ARRAY_LEN(namespaces); i++)
        make_namespace(api, namespaces[i]);
    if (api->accounts)
        make_namespace(api, API_SYSTEM_NS);
    boot_done(api);
}
