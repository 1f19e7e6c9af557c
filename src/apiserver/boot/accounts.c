/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles of the fabric as clients of the API: an account for each, with the rights it uses and
 * no others. What people use is admin.kubeconfig.
 */
#include "apiserver/boot/boot_int.h"

#define RBAC     "rbac.authorization.k8s.io"
#define GW       "gateway.networking.k8s.io"
#define DATUM    "networking.datumapis.com"
#define ENVOY    "gateway.envoyproxy.io"
#define ISTIO    "networking.istio.io"
#define SECURITY "security.istio.io"
#define LINK     "clusterlink.net"
#define CHILD    "list watch create patch delete"

/* The controllers of 'spanwire control'. */
static const struct boot_rule control_rules[] = {
    /* What they read. */
    {GW,
     "gatewayclasses gateways listenersets httproutes grpcroutes tlsroutes tcproutes udproutes "
     "referencegrants backendtlspolicies",
     "list watch", NULL, NULL},
    {"networking.k8s.io", "ingresses ingressclasses", "list watch", NULL, NULL},
    {"-", "namespaces nodes pods services endpoints secrets configmaps", "list watch", NULL, NULL},
    {ISTIO, "serviceentries workloadentries", "list watch", NULL, NULL},
    {SECURITY, "authorizationpolicies peerauthentications", "list watch", NULL, NULL},
    {"discovery.k8s.io", "endpointslices", "list watch", NULL, NULL},
    {LINK, "peers exports imports accesspolicies privilegedaccesspolicies", "list watch", NULL,
     NULL},
    {"apiextensions.k8s.io", "customresourcedefinitions", "list watch", NULL, NULL},
    {RBAC, "clusterroles", "list watch", NULL, NULL},
    /* Authentication of node proxies. */
    {"authentication.k8s.io", "tokenreviews", "create", NULL, NULL},
    /* Status of the objects above. */
    {GW,
     "gatewayclasses/status gateways/status listenersets/status httproutes/status "
     "grpcroutes/status tlsroutes/status tcproutes/status udproutes/status "
     "backendtlspolicies/status",
     "patch", NULL, NULL},
    {"networking.k8s.io", "ingresses/status", "patch", NULL, NULL},
    {"-", "services/status", "patch", NULL, NULL},
    {ISTIO, "serviceentries/status workloadentries/status", "patch", NULL, NULL},
    {SECURITY, "authorizationpolicies/status", "patch", NULL, NULL},
    {LINK, "peers/status exports/status imports/status", "patch", NULL, NULL},
    {LINK, "imports", "patch", NULL, NULL}, /* the lease of a target port */
    {"-", "events", "create patch", NULL, NULL},
    /* What they make: the fabric's own kinds, and what follows from these. */
    {DATUM, "*", "get list watch create patch update delete", NULL, NULL},
    {"spanwire.dev", "claims", "get list watch create patch update delete", NULL, NULL},
    {GW, "gatewayclasses", "create patch", NULL, NULL},
    {GW, "gateways httproutes tcproutes tlsroutes", "create patch delete", NULL, NULL},
    {"discovery.k8s.io", "endpointslices", "create patch delete", NULL, NULL},
    {ENVOY, "envoypatchpolicies backends", CHILD, NULL, NULL},
    {"-", "serviceaccounts", CHILD, NULL, NULL},
    {"-", "services", "create patch delete", NULL, NULL},
    /* What machines that join get: a WorkloadEntry, or a token of the account made for them. */
    {ISTIO, "workloadentries", "get create patch delete", NULL, NULL},
    {"-", "serviceaccounts/token", "create", NULL, NULL},
    {LINK, "peers", "create patch", NULL, NULL}, /* of sites that join */
    {"-", "secrets", "create patch delete", NULL, NULL},
    {"-", "secrets", "update", "cacerts istio-ca-secret", NULL}, /* the mesh's CA */
    {"-", "configmaps namespaces", "create patch", NULL, NULL},
    {"-", "configmaps", "delete", NULL, NULL},
    {"coordination.k8s.io", "leases", "get list watch create patch update delete", NULL, NULL},
    /*
     * Roles for devices and gateways: these, whatever they grant. The right to take names over
     * flows into 'admin', so it has to be held.
     */
    {RBAC, "clusterroles", "create", NULL, NULL},
    {RBAC, "clusterroles", "patch escalate",
     "spanwire-connector spanwire-gateway spanwire-gateway-identity spanwire-take-over "
     "spanwire-link-control spanwire-link-secrets spanwire-link-edit spanwire-link-view "
     "spanwire-link-admin",
     NULL},
    {DATUM, "connectors httpproxies", "take-over", NULL, NULL},
    {"admissionregistration.k8s.io",
     "validatingadmissionpolicies validatingadmissionpolicybindings", "list watch create patch",
     NULL, NULL},
};

/* A data plane: the configuration of all Gateways. */
static const struct boot_rule gateway_rules[] = {{NULL, NULL, "get", NULL, "/xds"}};

/* The way to devices. */
static const struct boot_rule sidecar_rules[] = {{DATUM, "connectors", "list watch", NULL, NULL}};

/* In API_SYSTEM_NS: the key by which devices know it, and the relays it may dial. */
static const struct boot_rule identity_rules[] = {
    {"-", "configmaps", "create patch", NULL, NULL},
    {"-", "configmaps", "list watch", "spanwire-relays", NULL},
};

/* Which devices and gateways may use it. */
static const struct boot_rule relay_rules[] = {{DATUM, "connectors", "list watch", NULL, NULL}};
static const struct boot_rule relay_system_rules[] = {
    {"-", "configmaps", "list watch", NULL, NULL}};

struct account {
    const char *name;
    const char *role;
    const struct boot_rule *rules;
    size_t n;
    const char *ns; /* a Role there; NULL: a ClusterRole */
};

static const struct account accounts[] = {
    {"spanwire-control", "system:spanwire:control", control_rules, SW_ARRAY_LEN(control_rules),
     NULL},
    {"spanwire-gateway", "system:spanwire:gateway", gateway_rules, SW_ARRAY_LEN(gateway_rules),
     NULL},
    {"spanwire-sidecar", "system:spanwire:sidecar", sidecar_rules, SW_ARRAY_LEN(sidecar_rules),
     NULL},
    {"spanwire-sidecar", "system:spanwire:sidecar-identity", identity_rules,
     SW_ARRAY_LEN(identity_rules), API_SYSTEM_NS},
    {"spanwire-relay", "system:spanwire:relay", relay_rules, SW_ARRAY_LEN(relay_rules), NULL},
    {"spanwire-relay", "system:spanwire:relay-gateways", relay_system_rules,
     SW_ARRAY_LEN(relay_system_rules), API_SYSTEM_NS},
};

static const char *subject_text(struct sw_arena *a, const char *ns, const char *name)
{
    return sw_arena_printf(a, "{'kind':'ServiceAccount','name':'%s','namespace':'%s'}", name, ns);
}

/* in: the namespace of the account. */
static void grant(struct sw_api *api, const struct account *n, const char *in)
{
    SW_ARENA_AUTO a = {0};
    const char *ns = n->ns ? n->ns : "";
    const struct boot_place role = {RBAC, *ns ? "roles" : "clusterroles", ns};
    const struct boot_place binding = {RBAC, *ns ? "rolebindings" : "clusterrolebindings", ns};

    struct sw_json *obj = boot_named(&a, n->role);

    sw_json_put(&a, obj, "rules", boot_rules(&a, n->rules, n->n));
    boot_role(api, &role, obj, NULL);
    boot_binding(api, &binding,
                 boot_binding_json(&a, n->role, *ns ? "Role" : "ClusterRole", n->role,
                                   subject_text(&a, in, n->name)));
}

static void make_account(struct sw_api *api, const char *ns, const char *name)
{
    const struct boot_place at = {"", "serviceaccounts", ns};
    SW_ARENA_AUTO a = {0};

    (void)boot_make(api, &at, name,
                    boot_parse(&a, sw_arena_printf(&a, "{'metadata':{'name':'%s'}}", name)));
}

/* With the rights that `spanwire connector role` prints: over the objects of its name. */
static void make_device(struct sw_api *api, const char *name)
{
    const struct boot_rule rules[] = {
        {DATUM, "connectors connectoradvertisements httpproxies",
         "get list watch create patch delete", name, NULL},
        {DATUM, "connectors/status", "patch", name, NULL},
        {"coordination.k8s.io", "leases", "get patch", name, NULL},
    };
    SW_ARENA_AUTO a = {0};
    const struct account device = {name, sw_arena_printf(&a, "spanwire-device-%s", name), rules,
                                   SW_ARRAY_LEN(rules), "default"};

    make_account(api, "default", name);
    grant(api, &device, "default");
}

void boot_accounts(struct sw_api *api)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(accounts) && api->accounts; i++) {
        if (!accounts[i].ns)
            grant(api, &accounts[i], API_SYSTEM_NS);
    }
}

void boot_accounts_in(struct sw_api *api, struct sw_slice ns)
{
    const char *device = api->accounts ? api_accounts_device(api) : NULL;

    if (device && sw_slice_eq_str(ns, "default"))
        make_device(api, device);
    if (!api->accounts || !sw_slice_eq_str(ns, API_SYSTEM_NS))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(accounts); i++) {
        if (accounts[i].ns)
            grant(api, &accounts[i], API_SYSTEM_NS);
        else
            make_account(api, API_SYSTEM_NS, accounts[i].name);
    }
}
