/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/nodes.h"

#include <string.h>

#include "base/mem.h"
#include "base/search.h"
#include "identity/tokens.h"
#include "io/addr.h"
#include "tls/cert/spiffe.h"

struct sw_nodes {
    struct sw_nodes_opts o;
};

struct sw_nodes *sw_nodes_new(const struct sw_nodes_opts *o, struct sw_err *err)
{
    struct sw_nodes *n;

    for (size_t i = 0; o->accounts[i]; i++) {
        const char *slash = strchr(o->accounts[i], '/');

        if (!slash || slash == o->accounts[i] || !slash[1] || strchr(slash + 1, '/')) {
            (void)sw_err_set(err, SW_EINVAL, "'%s' is not NAMESPACE/ACCOUNT", o->accounts[i]);
            return NULL;
        }
    }
    n = SW_NEW(struct sw_nodes);
    n->o = *o;
    return n;
}

void sw_nodes_free(struct sw_nodes *n)
{
    sw_free(n);
}

bool sw_nodes_trusted(const struct sw_nodes *n, struct sw_slice ns, struct sw_slice account)
{
    for (size_t i = 0; n->o.accounts[i]; i++) {
        struct sw_slice name = sw_slice_str(n->o.accounts[i]);
        struct sw_slice space = sw_slice_cut(&name, '/');

        if (sw_slice_eq(space, ns) && sw_slice_eq(name, account))
            return true;
    }
    return false;
}

bool sw_nodes_own_domain(const struct sw_nodes *n, struct sw_slice trust_domain)
{
    return sw_slice_eq(trust_domain, n->o.trust_domain) ||
           (n->o.aliases && sw_word_in(trust_domain, n->o.aliases));
}

int sw_nodes_may_impersonate(const struct sw_nodes *n, const struct sw_caller *who,
                             struct sw_slice id, struct sw_err *err)
{
    const struct sw_pod_source *pods = &n->o.pods;
    struct sw_pod_place pod;
    struct sw_spiffe s;
    int missing;

    if (!sw_nodes_trusted(n, who->ns, who->account))
        return sw_err_set(err, SW_EDENIED, "it is not an account of node proxies");
    if (sw_spiffe_parse(id, &s, err) != SW_OK)
        return sw_err_set(err, SW_EDENIED, "not an identity of a workload");
    if (!sw_nodes_own_domain(n, s.trust_domain))
        return sw_err_set(err, SW_EDENIED, "the trust domain is not the mesh's");
    if (who->pod.n == 0)
        return sw_err_set(err, SW_EDENIED, "its token is not bound to a pod");
    /* A pod that is not found may only not be read yet. */
    missing = pods->complete(pods->arg) ? SW_EDENIED : SW_EPENDING;
    if (!pods->pod(pods->arg, who->ns, who->pod, who->pod_uid, &pod) ||
        !sw_slice_eq(pod.account, who->account))
        return sw_err_set(err, missing, "its pod '%.*s' is not known, or another one by now",
                          SW_SLICE_ARG(who->pod));
    if (pod.node.n == 0 || !pods->runs(pods->arg, pod.node, s.ns, s.sa))
        return sw_err_set(err, missing, "no pod with that identity runs on its node '%.*s'",
                          SW_SLICE_ARG(pod.node));
    return SW_OK;
}

/* --- what a node says of itself --- */

int sw_nodes_check_id(struct sw_slice node_id, struct sw_slice ns, struct sw_slice account,
                      const struct sw_caller *who, struct sw_err *err)
{
    static const char *const types[] = {"ztunnel", "waypoint",     "sidecar",
                                        "router",  "agentgateway", NULL};
    struct sw_slice rest = node_id;
    struct sw_slice type = sw_slice_cut(&rest, '~');
    struct sw_slice ip = sw_slice_cut(&rest, '~');
    struct sw_slice name = sw_slice_cut(&rest, '~');
    ptrdiff_t dot = sw_slice_rfind(name, '.');
    struct sw_ip at;

    if (node_id.n == 0)
        return sw_err_set(err, SW_EINVAL, "missing node information");
    if (!sw_word_in(type, types) || !rest.p || sw_slice_find(rest, '~') >= 0 ||
        sw_ip_parse(ip, &at, NULL) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "node id '%.*s' is not TYPE~IP~NAME.NAMESPACE~DOMAIN",
                          SW_SLICE_ARG_MAX(node_id, 100));
    if (ns.n == 0 && dot >= 0)
        ns = sw_slice_from(name, (size_t)dot + 1);
    if (!sw_slice_eq(ns, who->ns))
        return sw_err_set(err, SW_EDENIED, "claimed namespace '%.*s', actual '%.*s'",
                          SW_SLICE_ARG_MAX(ns, 63), SW_SLICE_ARG(who->ns));
    if (account.n && !sw_slice_eq(account, who->account))
        return sw_err_set(err, SW_EDENIED, "claimed account '%.*s', actual '%.*s'",
                          SW_SLICE_ARG_MAX(account, 63), SW_SLICE_ARG(who->account));
    return SW_OK;
}
