/* SPDX-License-Identifier: Apache-2.0 */
/* What every server has from its first start: namespaces and the roles everybody counts on. */
#include <string.h>

#include "apiserver/boot/boot_int.h"

/* Texts are JSON with single quotes, to be readable here. */
#define R(groups, resources, verbs)                                                                \
    "{'apiGroups':[" groups "],'resources':[" resources "],'verbs':[" verbs "]}"
#define READ  "'get','list','watch'"
#define WRITE "'create','delete','deletecollection','patch','update'"
#define APPS                                                                                       \
    "'daemonsets','deployments','deployments/scale','replicasets','replicasets/scale',"            \
    "'statefulsets','statefulsets/scale'"
#define APPS_STATUS                                                                                \
    ",'daemonsets/status','deployments/status','replicasets/status','statefulsets/status'"

static const char *const namespaces[] = {"default", "kube-system", "kube-public",
                                         "kube-node-lease"};

static const struct {
    const char *name;
    const char *labels; /* members */
    const char *rules;  /* or NULL */
    const char *aggregate;
} roles[] = {
    {"cluster-admin", "", "[" R("'*'", "'*'", "'*'") ",{'nonResourceURLs':['*'],'verbs':['*']}]",
     NULL},
    {"system:discovery", "",
     "[{'nonResourceURLs':['/api','/api/*','/apis','/apis/*','/healthz','/livez','/openapi',"
     "'/openapi/*','/readyz','/version','/version/'],'verbs':['get']}]",
     NULL},
    {"system:basic-user", "",
     "[" R("'authorization.k8s.io'", "'selfsubjectaccessreviews','selfsubjectrulesreviews'",
           "'create'") "," R("'authentication.k8s.io'", "'selfsubjectreviews'", "'create'") "]",
     NULL},
    {"system:public-info-viewer", "",
     "[{'nonResourceURLs':['/healthz','/livez','/readyz','/version','/version/"
     "'],'verbs':['get']}]",
     NULL},
    {"system:service-account-issuer-discovery", "",
     "[{'nonResourceURLs':['/.well-known/openid-configuration','/.well-known/"
     "openid-configuration/"
     "',"
     "'/openid/v1/jwks','/openid/v1/jwks/'],'verbs':['get']}]",
     NULL},
    {"admin", "", NULL, "admin"},
    {"edit", "'rbac.authorization.k8s.io/aggregate-to-admin':'true'", NULL, "edit"},
    {"view", "'rbac.authorization.k8s.io/aggregate-to-edit':'true'", NULL, "view"},
    {"system:aggregate-to-admin", "'rbac.authorization.k8s.io/aggregate-to-admin':'true'",
     "[" R("'authorization.k8s.io'", "'localsubjectaccessreviews'", "'create'") "," R(
         "'rbac.authorization.k8s.io'", "'rolebindings','roles'",
         "'create','delete','deletecollection','get','list','patch','update','watch'") "]",
     NULL},
    {"system:aggregate-to-edit", "'rbac.authorization.k8s.io/aggregate-to-edit':'true'",
     "[" R("''", "'secrets'", READ) "," R("''", "'serviceaccounts'", "'impersonate'") "," R(
         "''",
         "'pods','configmaps','events','secrets','serviceaccounts','services',"
         "'persistentvolumeclaims','replicationcontrollers','replicationcontrollers/scale'",
         WRITE) "," R("'apps'", APPS,
                      WRITE) "," R("'autoscaling'", "'horizontalpodautoscalers'",
                                   WRITE) "," R("'batch'", "'cronjobs','jobs'",
                                                WRITE) "," R("'policy'", "'poddisruptionbudgets'",
                                                             WRITE) "," R("'events.k8s.io'",
                                                                          "'events'",
                                                                          WRITE) "," R("''",
                                                                                       "'servic"
                                                                                       "eaccoun"
                                                                                       "ts/"
                                                                                       "token'",
                                                                                       "'create"
                                                                                       "'") "," R("'coordination.k8s.io'",
                                                                                                  "'leases'",
                                                                                                  WRITE
                                                                                                  "," READ) "," R("'networking.k8s.io'",
                                                                                                                  "'ingresses'",
                                                                                                                  WRITE) "]",
     NULL},
    {"system:aggregate-to-view", "'rbac.authorization.k8s.io/aggregate-to-view':'true'",
     "[" R(
         "''",
         "'configmaps','endpoints','serviceaccounts','services','services/status','pods',"
         "'pods/status','pods/log','persistentvolumeclaims',"
         "'persistentvolumeclaims/status','replicationcontrollers',"
         "'replicationcontrollers/scale','replicationcontrollers/status'",
         READ) "," R("''",
                     "'events','namespaces','namespaces/status','limitranges','resourcequotas',"
                     "'resourcequotas/status'",
                     READ) "," R("'discovery.k8s.io'", "'endpointslices'",
                                 READ) "," R("'events.k8s.io'", "'events'",
                                             READ) "," R("'networking.k8s.io'",
                                                         "'ingresses','ingresses/status'",
                                                         READ) "," R("'autoscaling'",
                                                                     "'horizontalpodautoscalers"
                                                                     "','"
                                                                     "horizontalpodautoscalers/"
                                                                     "status'",
                                                                     READ) "," R("'batch'",
                                                                                 "'cronjobs','"
                                                                                 "cronjobs/"
                                                                                 "status','"
                                                                                 "jobs','jobs/"
                                                                                 "status'",
                                                                                 READ) "," R("'"
                                                                                             "p"
                                                                                             "o"
                                                                                             "l"
                                                                                             "i"
                                                                                             "c"
                                                                                             "y"
                                                                                             "'",
                                                                                             "'"
                                                                                             "p"
                                                                                             "o"
                                                                                             "d"
                                                                                             "d"
                                                                                             "i"
                                                                                             "s"
                                                                                             "r"
                                                                                             "u"
                                                                                             "p"
                                                                                             "t"
                                                                                             "i"
                                                                                             "o"
                                                                                             "n"
                                                                                             "b"
                                                                                             "u"
                                                                                             "d"
                                                                                             "g"
                                                                                             "e"
                                                                                             "t"
                                                                                             "s"
                                                                                             "'"
                                                                                             ","
                                                                                             "'"
                                                                                             "p"
                                                                                             "o"
                                                                                             "d"
                                                                                             "d"
                                                                                             "i"
                                                                                             "s"
                                                                                             "r"
                                                                                             "u"
                                                                                             "p"
                                                                                             "t"
                                                                                             "i"
                                                                                             "o"
                                                                                             "n"
                                                                                             "b"
                                                                                             "u"
                                                                                             "d"
                                                                                             "g"
                                                                                             "e"
                                                                                             "t"
                                                                                             "s"
                                                                                             "/"
                                                                                             "s"
                                                                                             "t"
                                                                                             "a"
                                                                                             "t"
                                                                                             "u"
                                                                                             "s"
                                                                                             "'",
                                                                                             READ) "," R("'apps'",
                                                                                                         APPS
                                                                                                             APPS_STATUS,
                                                                                                         READ) "]",
     NULL},
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
static const struct {
    const char *name;
    const char *rules;
} before[] = {
    {"system:aggregate-to-edit",
     "[" R("''",
           "'pods','configmaps','events','secrets','serviceaccounts','services','endpoints',"
           "'persistentvolumeclaims','replicationcontrollers','replicationcontrollers/scale'",
           WRITE) "]"},
};

static const char *rules_before(const char *role)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(before); i++) {
        if (strcmp(before[i].name, role) == 0)
            return before[i].rules;
    }
    return "[]";
}

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

    for (size_t i = 0; i < SW_ARRAY_LEN(roles); i++) {
        SW_ARENA_AUTO a = {0};
        const char *sep = *roles[i].labels ? "," : "";
        const char *rest;

        if (roles[i].aggregate)
            rest =
                sw_arena_printf(&a,
                                "'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{'rbac."
                                "authorization.k8s.io/aggregate-to-%s':'true'}}]},'rules':[]",
                                roles[i].aggregate);
        else
            rest = sw_arena_printf(&a, "'rules':%s", roles[i].rules);
        boot_role(api, &at,
                  boot_parse(&a, sw_arena_printf(&a,
                                                 "{'metadata':{'name':'%s','labels':{'kubernetes.io"
                                                 "/bootstrapping':'rbac-defaults'%s%s}},%s}",
                                                 roles[i].name, sep, roles[i].labels, rest)),
                  boot_parse(&a, rules_before(roles[i].name)));
    }
}

static void make_bindings(struct sw_api *api)
{
    static const struct boot_place at = {"rbac.authorization.k8s.io", "clusterrolebindings", ""};

    for (size_t i = 0; i < SW_ARRAY_LEN(bindings); i++) {
        SW_ARENA_AUTO a = {0};
        const char *subjects = "";

        for (size_t k = 0; bindings[i].groups[k]; k++)
            subjects = sw_arena_printf(
                &a, "%s%s{'apiGroup':'rbac.authorization.k8s.io','kind':'Group','name':'%s'}",
                subjects, k ? "," : "", bindings[i].groups[k]);
        boot_binding(
            api, &at,
            boot_parse(&a, sw_arena_printf(
                               &a,
                               "{'metadata':{'name':'%s','labels':{'kubernetes.io/bootstrapping':"
                               "'rbac-defaults'}},'roleRef':{'apiGroup':'rbac.authorization.k8s."
                               "io','kind':'ClusterRole','name':'%s'},'subjects':[%s]}",
                               bindings[i].name, bindings[i].name, subjects)));
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
    api->starting = 1;
    make_roles(api);
    make_bindings(api);
    boot_accounts(api);
    for (size_t i = 0; i < SW_ARRAY_LEN(namespaces); i++)
        make_namespace(api, namespaces[i]);
    if (api->accounts)
        make_namespace(api, API_SYSTEM_NS);
    boot_done(api);
}
