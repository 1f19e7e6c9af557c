/* SPDX-License-Identifier: Apache-2.0 */
/* What every server has from its first start: namespaces and the roles everybody counts on. */
#include <string.h>

#include "apiserver/api.h"
#include "base/log.h"

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
         "'pods','configmaps','events','secrets','serviceaccounts','services','endpoints',"
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

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    char *p = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;
    struct sw_err err = {0};

    for (char *c = p; *c; c++) {
        if (*c == '\'')
            *c = '"';
    }
    if (sw_json_parse(a, sw_slice_str(p), NULL, &v, &err) != SW_OK) {
        sw_log_error("api", "built-in object: %s", err.msg);
        return sw_json_new_object(a);
    }
    return v;
}

/* The API as a Service of itself, where clients inside a cluster look for it. */
static void make_service(struct sw_api *api);

static void on_made(struct api_req *r, int code, const struct sw_json *body)
{
    struct sw_api *api = r->api;

    if (code >= 400 && code != 409)
        sw_log_warn("api", "cannot make a built-in object: %.*s",
                    SW_SLICE_ARG(api_str(body, "message")));
    if (sw_slice_eq_str(r->resource, "namespaces") &&
        sw_slice_eq_str(api_meta_str(r->body_json, "name"), "default"))
        make_service(api);
    if (--api->starting == 0)
        api->ready = true;
}

/* Makes it, unless it is there; true when it is. */
static bool make(struct sw_api *api, const char *group, const char *plural, const char *in,
                 const char *name, const char *text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice ns = sw_slice_str(in);
    const struct api_res *res =
        api_registry_find(&api->reg, sw_slice_str(group), SW_SLICE_LIT("v1"), sw_slice_str(plural));
    struct sw_store_obj *o =
        res ? sw_store_get(api->store, api_key(&a, res, ns, sw_slice_str(name))) : NULL;

    if (!res || o) {
        if (o)
            sw_store_obj_unref(o);
        return o;
    }
    api->starting++;
    (void)api_internal(api, API_CREATE, res, ns, sw_slice("", 0), NULL, parse(&a, text), on_made,
                       NULL);
    return false;
}

static void make_service(struct sw_api *api)
{
    (void)make(api, "", "services", "default", "kubernetes",
               "{'metadata':{'name':'kubernetes','labels':{'component':'apiserver','provider':"
               "'kubernetes'}},'spec':{'clusterIP':'10.96.0.1','ports':[{'name':'https','port':443,"
               "'targetPort':6443}]}}");
}

static void on_updated(struct api_req *r, int code, const struct sw_json *body)
{
    if (code >= 400)
        sw_log_warn("api", "cannot update the built-in role '%.*s': %.*s", SW_SLICE_ARG(r->name),
                    SW_SLICE_ARG(api_str(body, "message")));
}

static bool has_rule(const struct sw_json *rules, const struct sw_json *rule)
{
    for (size_t i = 0; i < sw_json_len(rules); i++) {
        if (sw_json_equal(sw_json_at(rules, i), rule, SW_JSON_EQ_VALUE))
            return true;
    }
    return false;
}

/* A role made by an older release gets the rules it lacks; those that were added stay. */
static void update_role(struct sw_api *api, const char *name, const char *text)
{
    static const char note[] = "rbac.authorization.kubernetes.io/autoupdate";
    SW_ARENA_AUTO a = {0};
    const struct api_res *res =
        api_registry_find(&api->reg, SW_SLICE_LIT("rbac.authorization.k8s.io"), SW_SLICE_LIT("v1"),
                          SW_SLICE_LIT("clusterroles"));
    struct sw_store_obj *o =
        sw_store_get(api->store, api_key(&a, res, sw_slice("", 0), sw_slice_str(name)));
    const struct sw_json *have = o ? sw_json_copy(&a, api_load(&a, res, o)) : NULL;
    const struct sw_json *want = parse(&a, text);
    struct sw_json *rules = sw_json_new_array(&a);
    struct sw_json *patch = sw_json_new_object(&a);
    bool lacks = false;

    if (o)
        sw_store_obj_unref(o);
    for (size_t i = 0; i < sw_json_len(sw_json_find(have, "rules")); i++)
        sw_json_push(&a, rules, sw_json_at(sw_json_find(have, "rules"), i));
    for (size_t i = 0; i < sw_json_len(want); i++) {
        if (has_rule(rules, sw_json_at(want, i)))
            continue;
        sw_json_push(&a, rules, sw_json_at(want, i));
        lacks = true;
    }
    if (!have || !lacks ||
        sw_json_str_eq(sw_json_walk(have, "metadata", "annotations", note, NULL), "false"))
        return;
    sw_json_put(&a, patch, "rules", rules);
    (void)api_internal(api, API_PATCH, res, sw_slice("", 0), sw_slice_str(name), NULL, patch,
                       on_updated, NULL);
}

static void make_roles(struct sw_api *api)
{
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
        if (make(api, "rbac.authorization.k8s.io", "clusterroles", "", roles[i].name,
                 sw_arena_printf(&a,
                                 "{'metadata':{'name':'%s','labels':{'kubernetes.io/bootstrapping':"
                                 "'rbac-defaults'%s%s}},%s}",
                                 roles[i].name, sep, roles[i].labels, rest)) &&
            roles[i].rules)
            update_role(api, roles[i].name, roles[i].rules);
    }
}

static void make_bindings(struct sw_api *api)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(bindings); i++) {
        SW_ARENA_AUTO a = {0};
        const char *subjects = "";

        for (size_t k = 0; bindings[i].groups[k]; k++)
            subjects = sw_arena_printf(
                &a, "%s%s{'apiGroup':'rbac.authorization.k8s.io','kind':'Group','name':'%s'}",
                subjects, k ? "," : "", bindings[i].groups[k]);
        (void)make(
            api, "rbac.authorization.k8s.io", "clusterrolebindings", "", bindings[i].name,
            sw_arena_printf(&a,
                            "{'metadata':{'name':'%s','labels':{'kubernetes.io/bootstrapping':"
                            "'rbac-defaults'}},'roleRef':{'apiGroup':'rbac.authorization.k8s.io',"
                            "'kind':'ClusterRole','name':'%s'},'subjects':[%s]}",
                            bindings[i].name, bindings[i].name, subjects));
    }
}

void api_bootstrap(struct sw_api *api)
{
    api->starting = 1;
    for (size_t i = 0; i < SW_ARRAY_LEN(namespaces); i++) {
        SW_ARENA_AUTO a = {0};

        /* A new one gets its Service when it is there. */
        if (make(api, "", "namespaces", "", namespaces[i],
                 sw_arena_printf(&a, "{'metadata':{'name':'%s'}}", namespaces[i])) &&
            strcmp(namespaces[i], "default") == 0)
            make_service(api);
    }
    make_roles(api);
    make_bindings(api);
    if (--api->starting == 0)
        api->ready = true;
}
