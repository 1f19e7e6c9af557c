/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/join.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "identity/authority.h"
#include "identity/join/index.h"
#include "identity/join/service.h"
#include "identity/join/token.h"
#include "identity/tokens.h"
#include "kube/client/client.h"

static const uint64_t retry_ns = 2 * SW_NS_PER_S;

static const struct sw_kube_gvr configmaps = {"", "v1", "configmaps", "ConfigMap", true};

struct sw_control_join {
    struct sw_control_join_opts o;
    struct sw_kube_client *client;
    struct sw_joins *joins;
    struct sw_join_service *service;
    struct sw_kube_call *call; /* the ConfigMap being written */
    struct sw_timer retry;
    struct sw_addr bound;
    bool failed; /* and was logged */
};

/* ---- the ConfigMap ---- */

static void publish(struct sw_control_join *j);

static void on_retry(struct sw_timer *t)
{
    publish(SW_CONTAINER_OF(t, struct sw_control_join, retry));
}

static void on_published(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_join *j = arg;

    j->call = NULL;
    if (r->rc != SW_OK) {
        if (!j->failed)
            sw_log_warn("join", "cannot write ConfigMap %s/%s, retrying: %.*s", j->o.system_ns,
                        SW_CONTROL_JOIN_CONFIG, SW_SLICE_ARG(r->message));
        sw_timer_start(sw_kube_client_loop(j->client), &j->retry, retry_ns, on_retry);
    }
    j->failed = r->rc != SW_OK;
}

static void publish(struct sw_control_join *j)
{
    SW_ARENA_AUTO a = {0};
    char text[SW_ADDR_TEXT];
    const char *address = j->o.address                 ? j->o.address
                          : sw_ip_is_any(&j->bound.ip) ? NULL
                                                       : sw_addr_text(&j->bound, text);
    const char *kinds = j->o.peers ? "node device gateway peer" : "node device gateway";
    struct sw_json *o = SW_JSON_OF(
        &a, {"apiVersion", .str = "v1"}, {"kind", .str = "ConfigMap"},
        {"metadata", .json = SW_JSON_OF(&a, {"namespace", .str = j->o.system_ns},
                                        {"name", .str = SW_CONTROL_JOIN_CONFIG})},
        {"data", .json = SW_JSON_OF(&a, {"roots", .text = sw_authority_roots(j->o.authority)},
                                    {"kinds", .str = kinds}, {"address", .str = address})});

    sw_kube_call_cancel(j->call);
    j->call =
        sw_kube_apply(j->client,
                      &(struct sw_kube_apply){
                          .gvr = &configmaps, .obj = o, .manager = "spanwire-join", .force = true},
                      on_published, j);
}

/* ---- life ---- */

struct sw_control_join *sw_control_join_new(struct sw_kube_client *client,
                                            const struct sw_control_join_opts *o)
{
    struct sw_control_join *j = SW_NEW(struct sw_control_join);
    const struct sw_joins_opts jo = {.trust_domain = sw_authority_trust_domain(o->authority),
                                     .system_ns = sw_slice_str(o->system_ns),
                                     .on_gone = o->on_gone,
                                     .arg = o->arg};

    j->o = *o;
    j->client = client;
    j->joins = sw_joins_new(client, &jo);
    j->service =
        sw_join_service_new(sw_kube_client_loop(client),
                            &(struct sw_join_service_opts){.client = client,
                                                           .authority = o->authority,
                                                           .joins = j->joins,
                                                           .metrics = o->metrics,
                                                           .peers = o->peers,
                                                           .cluster = sw_slice_str(o->cluster_id)});
    return j;
}

void sw_control_join_free(struct sw_control_join *j)
{
    if (!j)
        return;
    sw_kube_call_cancel(j->call);
    sw_timer_stop(sw_kube_client_loop(j->client), &j->retry);
    sw_join_service_free(j->service);
    sw_joins_free(j->joins);
    sw_free(j);
}

void sw_control_join_serve(struct sw_control_join *j, struct sw_grpc_server *g,
                           const struct sw_addr *bound)
{
    j->bound = *bound;
    sw_join_service_serve(j->service, g);
    publish(j);
}

void sw_control_join_roots(struct sw_control_join *j)
{
    if (j->bound.port)
        publish(j);
}

/* ---- machines ---- */

int sw_control_join_node(void *join, struct sw_slice token, struct sw_caller *ret,
                         struct sw_err *err)
{
    const struct sw_control_join *j = join;
    const struct sw_join *m;
    int rc = j ? sw_joins_check(j->joins, token, &m, err) : SW_ENOENT;

    if (rc != SW_OK)
        return rc;
    if (m->r.kind != SW_JOIN_NODE)
        return sw_err_set(err, SW_EDENIED, "machine '%.*s' joined as a %s, not as a node",
                          SW_SLICE_ARG(m->r.id), sw_join_kind_name(m->r.kind));
    *ret = (struct sw_caller){.ns = m->r.ns, .account = m->r.account};
    return SW_OK;
}

int sw_control_join_review(const struct sw_control_join *j, struct sw_slice token,
                           struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};

    if (!j || !sw_machine_token_id(&a, token).p)
        return SW_ENOENT;
    return sw_joins_still_good(j->joins, token, err) ? SW_OK : SW_EDENIED;
}
