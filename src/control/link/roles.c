/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a site has from the start: its namespace, and roles. Data planes need none: they reach the
 * control plane by their certificate and the API not at all.
 */
#include "control/roles.h"
#include "control/link/link_int.h"

#define READ  "'get','list','watch'"
#define WRITE READ ",'create','update','patch','delete'"
#define LINKS "{'apiGroups':['" SW_LINK_GROUP "'],'resources':["

/* Of a control plane on a cluster: what the build reads and writes, and no more. */
static const char control_rules[] =
    "[" LINKS "'peers','exports','accesspolicies','privilegedaccesspolicies'],'verbs':[" READ
    "]}," LINKS "'imports'],'verbs':[" READ ",'patch']}," LINKS
    "'peers/status','exports/status','imports/status'],'verbs':['get','patch']},"
    "{'apiGroups':[''],'resources':['services'],'verbs':[" READ ",'create','patch','delete']},"
    "{'apiGroups':['discovery.k8s.io'],'resources':['endpointslices'],"
    "'verbs':[" READ ",'create','patch','delete']},"
    "{'apiGroups':[''],'resources':['pods','namespaces'],'verbs':[" READ "]},"
    "{'apiGroups':['','events.k8s.io'],'resources':['events'],'verbs':['create','patch']}"
    "]";

/* The same, to be bound in the system namespace: key of tokens, certificate, leadership. */
static const char secret_rules[] =
    "["
    "{'apiGroups':[''],'resources':['secrets'],'verbs':[" READ ",'create','patch']},"
    "{'apiGroups':['coordination.k8s.io'],'resources':['leases'],"
    "'verbs':['get','create','update','patch']}"
    "]";

/* The right to use links in a namespace, to be bound there. No role has a right on statuses. */
#define TENANT "'exports','imports','accesspolicies'"
static const char edit_rules[] = "[" LINKS TENANT "],'verbs':[" WRITE "]}]";
static const char view_rules[] = "[" LINKS TENANT "],'verbs':[" READ "]}]";

/* Who may join sites and overrule namespaces. */
static const char admin_rules[] =
    "[" LINKS TENANT ",'peers','privilegedaccesspolicies','instances'],'verbs':[" WRITE "]}]";

static const struct sw_role roles[] = {
    {"spanwire-link-control", control_rules, NULL}, {"spanwire-link-secrets", secret_rules, NULL},
    {"spanwire-link-edit", edit_rules, NULL},       {"spanwire-link-view", view_rules, NULL},
    {"spanwire-link-admin", admin_rules, NULL},
};

void lk_defaults(struct lk *l)
{
    struct sw_slice ns = l->conf->ns;

    if (!sw_view_find(l->v, SW_LK_NAMESPACE, sw_slice("", 0), ns))
        sw_out_apply(l->out, SW_LK_NAMESPACE,
                     cn_object(l->a, "v1", "Namespace", sw_slice("", 0), ns));
    for (size_t i = 0; i < SW_ARRAY_LEN(roles); i++)
        sw_role_want(l->v, SW_LK_ROLE, l->out, &roles[i]);
}
