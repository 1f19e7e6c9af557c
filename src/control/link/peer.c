/* SPDX-License-Identifier: Apache-2.0 */
/* Peers, of which the heartbeats say how they are, and access policies, which have no status. */
#include "control/link/link_int.h"
#include "io/addr.h"

/* ---- Peers ---- */

/* Gateways with a usable address; an unusable one is reported once. */
static size_t read_gateways(struct lk *l, const struct sw_kube_obj *o, struct lk_endpoint *out)
{
    const struct sw_json *list = sw_json_walk(o->json, "spec", "gateways", NULL);
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(list) && n < SW_LINK_GATEWAYS_MAX; i++) {
        const struct sw_json *g = sw_json_at(list, i);
        struct sw_slice host = js_or(g, "host", "");
        uint16_t port = (uint16_t)js_int(g, "port", UINT16_MAX, 0);
        struct sw_err err = {0};
        struct sw_ip ip;

        if (port && sw_host_parse(host, &ip, &err) == SW_OK) {
            out[n++] = (struct lk_endpoint){host, port};
            continue;
        }
        sw_out_notice(l->out, SW_LK_PEER, o, "InvalidGateway",
                      cn_printf(l->a, "spec.gateways[%zu] is not used: %s.", i,
                                err.msg[0] ? err.msg : "the port must be in the range 1 to 65535"));
    }
    return n;
}

/*
 * The labels to write, with null for those that go: statuses are merged into what is there. NULL:
 * none are, and none shall be.
 */
static struct sw_json *labels_of(struct lk *l, const struct sw_kube_obj *o,
                                 const struct sw_json *wanted)
{
    const struct sw_json *have = sw_json_walk(o->json, "status", "labels", NULL);
    struct sw_json *out =
        sw_json_is(wanted, SW_JSON_OBJECT) ? sw_json_copy(l->a, wanted) : sw_json_new_object(l->a);

    for (size_t i = 0; sw_json_is(have, SW_JSON_OBJECT) && i < sw_json_len(have); i++) {
        const struct sw_json_member *m = sw_json_member_at(have, i);

        if (!sw_json_get(out, m->key))
            sw_json_set(l->a, out, m->key, sw_json_new_null(l->a));
    }
    return sw_json_len(out) ? out : NULL;
}

/* Absent from the snapshot: not probed yet, or not by this process; the status stays. */
static void judge_reach(struct lk *l, const struct sw_kube_obj *o)
{
    static const char *const owned[] = {"PeerReachable", NULL};
    const struct sw_json *reach =
        sw_json_get(sw_json_walk(l->input, "reach", "peers", NULL), o->name);
    bool up = sw_json_true(sw_json_find(reach, "reachable"));
    struct cond want = {"PeerReachable", up, "Heartbeat", ""};
    struct sw_json *status;
    struct sw_json *labels;

    if (!sw_json_is(reach, SW_JSON_OBJECT))
        return;
    status = status_with(l->a, o, owned, &want, 1);
    labels = labels_of(l, o, up ? sw_json_find(reach, "labels") : NULL);
    if (labels)
        sw_json_put(l->a, status, "labels", labels);
    sw_out_status(l->out, SW_LK_PEER, o, status);
}

void lk_peers(struct lk *l)
{
    SW_VIEW_EACH (o, l->v, SW_LK_PEER) {
        struct lk_endpoint gateways[SW_LINK_GATEWAYS_MAX];
        size_t n;

        if (!sw_slice_eq(o->ns, l->conf->ns) || cn_deleting(o))
            continue;
        n = read_gateways(l, o, gateways);
        /* Without an endpoint: a data plane of ClusterLink would crash. */
        if (n)
            lk_publish_peer(l, o->name, gateways, n, cn_meta_of(o, "annotations", SW_LINK_FORM));
        judge_reach(l, o);
        sw_link_facts_add_peer(l->facts, o->json);
    }
}

/* ---- policies ---- */

/*
 * A policy that cannot be read is reported by an Event: these kinds have no status. An
 * 'allow' that cannot be read allows nothing, a 'deny' denies everything of its tier: the version
 * before it must not stay in force unseen.
 */
static void add_policies(struct lk *l, size_t kind)
{
    SW_VIEW_EACH (o, l->v, kind) {
        struct sw_err err = {0};

        if (cn_deleting(o) || sw_link_facts_add_policy(l->facts, o->json, &err) == SW_OK)
            continue;
        sw_out_notice(l->out, kind, o, "InvalidPolicy",
                      cn_printf(l->a,
                                "%s. An allow policy has no effect until fixed, "
                                "a deny policy denies every connection.",
                                err.msg));
        lk_note(l, "InvalidPolicy",
                kind == SW_LK_POLICY ? "accesspolicy" : "privilegedaccesspolicy", o,
                sw_arena_dup(l->a, sw_slice_str(err.msg)));
    }
}

void lk_policies(struct lk *l)
{
    add_policies(l, SW_LK_PRIVILEGED);
    add_policies(l, SW_LK_POLICY);
}
