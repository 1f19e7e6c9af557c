/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link knows its clients by their address and the Pod that has it. The gateway connects from
 * 127.0.0.1: a Pod object says so, and the policies of both sites allow its account this one
 * service and nothing else.
 */
#include "cmd/up/second_objects.h"

#include <assert.h>
#include <string.h>

#define LINK     "clusterlink.net", "v1alpha1"
#define LINK_API "'apiVersion':'clusterlink.net/v1alpha1'"
#define SYSTEM   "clusterlink-system"
#define EXPORT   "web"
#define CLIENT                                                                                     \
    "'client.clusterlink.net/namespace':'default','client.clusterlink.net/service-account':"       \
    "'gateway'"

static const struct sw_kube_gvr peers = {LINK, "peers", "Peer", true};
static const struct sw_kube_gvr imports = {LINK, "imports", "Import", true};
static const struct sw_kube_gvr exports = {LINK, "exports", "Export", true};
static const struct sw_kube_gvr policies = {LINK, "accesspolicies", "AccessPolicy", true};
static const struct sw_kube_gvr pods = {"", "v1", "pods", "Pod", true};
static const struct sw_kube_gvr gateways = {"gateway.networking.k8s.io", "v1", "gateways",
                                            "Gateway", true};
static const struct sw_kube_gvr routes = {"gateway.networking.k8s.io", "v1", "httproutes",
                                          "HTTPRoute", true};

struct list {
    struct sw_arena *a;
    struct sw_up_object *p;
    size_t *n;
    int rc;
    struct sw_err *err;
};

/* JSON with single quotes. The object, or NULL once one could not be read. */
static const struct sw_json *add(struct list *l, const struct sw_kube_gvr *gvr, char *text)
{
    struct sw_json *o = NULL;

    for (char *c = text; *c; c++) {
        if (*c == '\'')
            *c = '"';
    }
    if (l->rc == SW_OK)
        l->rc = sw_json_parse(l->a, sw_slice_str(text), NULL, &o, l->err);
    if (l->rc != SW_OK)
        return NULL;
    assert(*l->n < SW_UP_SECOND_OBJECTS);
    l->p[(*l->n)++] = (struct sw_up_object){.gvr = gvr, .json = o};
    return o;
}

static void add_peer(struct list *l, const char *name, const struct sw_addr *at)
{
    (void)add(l, &peers,
              sw_arena_printf(l->a,
                              "{" LINK_API
                              ",'kind':'Peer','metadata':{'name':'%s','namespace':'" SYSTEM "'},"
                              "'spec':{'gateways':[{'host':'127.0.0.1','port':%u}]}}",
                              name, at->port));
}

static const struct sw_json *add_policy(struct list *l, const char *name, const char *from,
                                        const char *to)
{
    return add(
        l, &policies,
        sw_arena_printf(
            l->a,
            "{" LINK_API ",'kind':'AccessPolicy',"
            "'metadata':{'name':'%s','namespace':'default'},'spec':{'action':'allow',"
            "'from':[{'workloadSelector':{'matchLabels':{'peer.clusterlink.net/name':'%s'," CLIENT
            "}}}],'to':[{'workloadSelector':{'matchLabels':{'peer.clusterlink.net/name':'%s',"
            "'export.clusterlink.net/name':'" EXPORT "',"
            "'export.clusterlink.net/namespace':'default'}}}]}}",
            name, from, to));
}

/* Its status is an object of its own to the API. */
static void add_pod(struct list *l)
{
    const struct sw_json *pod = add(
        l, &pods,
        sw_arena_printf(
            l->a,
            "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'gateway','namespace':'default'},"
            "'spec':{'serviceAccountName':'gateway',"
            "'containers':[{'name':'gateway','image':'spanwire'}]}}"));

    if (!pod)
        return;
    (void)add(
        l, &pods,
        sw_arena_printf(
            l->a,
            "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'gateway','namespace':'default'},"
            "'status':{'phase':'Running','podIP':'127.0.0.1','podIPs':[{'ip':'127.0.0.1'}]}}"));
    if (l->rc == SW_OK)
        l->p[*l->n - 1].sub = "status";
}

static void add_route(struct list *l, const char *hostname)
{
    (void)add(l, &gateways,
              sw_arena_printf(
                  l->a,
                  "{'apiVersion':'gateway.networking.k8s.io/v1','kind':'Gateway',"
                  "'metadata':{'name':'" SW_UP_SECOND "','namespace':'default'},"
                  "'spec':{'gatewayClassName':'spanwire',"
                  "'listeners':[{'name':'http','protocol':'HTTP','port':80,'hostname':'%s'}]}}",
                  hostname));
    (void)add(l, &routes,
              sw_arena_printf(l->a,
                              "{'apiVersion':'gateway.networking.k8s.io/v1','kind':'HTTPRoute',"
                              "'metadata':{'name':'" SW_UP_SECOND "','namespace':'default'},"
                              "'spec':{'parentRefs':[{'name':'" SW_UP_SECOND
                              "'}],'hostnames':['%s'],"
                              "'rules':[{'backendRefs':[{'group':'clusterlink.net','kind':'Import',"
                              "'name':'" SW_UP_SECOND "','port':80}]}]}}",
                              hostname));
}

static void fill_here(struct list *l, const struct sw_up_second_facts *f,
                      struct sw_up_second_objects *ret)
{
    add_peer(l, SW_UP_SECOND, &f->there);
    add_pod(l);
    (void)add(l, &imports,
              sw_arena_printf(l->a,
                              "{" LINK_API ",'kind':'Import',"
                              "'metadata':{'name':'" SW_UP_SECOND "','namespace':'default'},"
                              "'spec':{'port':80,'targetPort':%u,'sources':[{'peer':'" SW_UP_SECOND
                              "',"
                              "'exportName':'" EXPORT "','exportNamespace':'default'}]}}",
                              f->import_port));
    add_route(l, f->hostname);
    ret->policy = add_policy(l, SW_UP_SECOND, SW_UP_HOME, SW_UP_SECOND);
    if (!f->policies)
        ret->n_here--;
}

static void fill_there(struct list *l, const struct sw_up_second_facts *f)
{
    add_peer(l, SW_UP_HOME, &f->here);
    (void)add(l, &exports,
              sw_arena_printf(l->a,
                              "{" LINK_API ",'kind':'Export',"
                              "'metadata':{'name':'" EXPORT "','namespace':'default'},"
                              "'spec':{'host':'127.0.0.1','port':%u}}",
                              f->app.port));
    if (f->policies)
        (void)add_policy(l, SW_UP_HOME, SW_UP_HOME, SW_UP_SECOND);
}

int sw_up_second_objects(struct sw_arena *a, const struct sw_up_second_facts *f,
                         struct sw_up_second_objects *ret, struct sw_err *err)
{
    struct list here = {.a = a, .p = ret->here, .n = &ret->n_here, .err = err};
    struct list there = {.a = a, .p = ret->there, .n = &ret->n_there, .err = err};

    if (strpbrk(f->hostname, "'\"\\"))
        return sw_err_set(err, SW_EINVAL, "--demo-hostname: '%.100s' is no hostname", f->hostname);
    fill_here(&here, f, ret);
    fill_there(&there, f);
    return here.rc != SW_OK ? here.rc : there.rc;
}
