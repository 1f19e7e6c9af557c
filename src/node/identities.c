/* SPDX-License-Identifier: Apache-2.0 */
#include "node/identities.h"

enum { IDENTITIES_MAX = 100000 };

static void send_cred(struct sw_node *n, const struct node_pod *p, struct sw_tls_cred *cred,
                      const char *error)
{
    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_cred(&n->workers[w], sw_pod_ref(p->pod), cred ? sw_tls_cred_ref(cred) : NULL,
                            error);
}

void node_take_cred(void *arg, struct sw_slice identity, struct sw_tls_cred *cred,
                    const char *error)
{
    struct sw_node *n = arg;

    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        const struct sw_workload *wl = sw_pod_workload(n->state, p->pod);

        if (p->up && wl && sw_slice_eq(wl->c->identity, identity))
            send_cred(n, p, cred, error);
    }
}

static bool on_this_node(const struct sw_node *n, const struct sw_workload *wl)
{
    return n->config->names.node && sw_slice_eq_str(wl->at->node, n->config->names.node) &&
           (wl->c->protocol == SW_TUNNEL_HBONE || wl->c->native_tunnel);
}

struct wanted {
    const struct sw_node *n;
    SW_VEC(struct sw_slice) ids;
};

static void want_local(void *arg, const struct sw_workload *wl)
{
    struct wanted *to = arg;

    if (to->ids.n < IDENTITIES_MAX && on_this_node(to->n, wl))
        sw_vec_push(&to->ids, wl->c->identity);
}

void node_want_identities(struct sw_node *n)
{
    struct wanted want = {.n = n};
    size_t n_served;

    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        const struct sw_workload *wl = sw_pod_workload(n->state, p->pod);

        if (wl)
            sw_vec_push(&want.ids, wl->c->identity);
    }
    n_served = want.ids.n;
    if (n->config->serve.mode == SW_NODE_SHARED && n->config->names.node[0])
        sw_state_each_local(n->state, want_local, &want);
    sw_certs_want(n->certs, want.ids.p, n_served, want.ids.n);
    sw_vec_done(&want.ids);
}

void node_need_cred(void *arg, struct sw_pod *pod)
{
    struct sw_node *n = arg;
    /* None at the end: messages of workers that are gone. */
    const struct sw_workload *wl = n->certs ? sw_pod_workload(n->state, pod) : NULL;

    if (wl)
        sw_certs_need(n->certs, wl->c->identity);
    (void)sw_pod_unref(pod);
}

void node_send_creds(struct sw_node *n, bool only_new)
{
    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        const struct sw_workload *wl = sw_pod_workload(n->state, p->pod);
        struct sw_certs_entry e = {0};

        if (!p->up || (only_new && p->published))
            continue;
        p->published = true;
        if (wl)
            e = sw_certs_find(n->certs, wl->c->identity);
        send_cred(n, p, e.cred, e.error);
    }
}

static void on_refresh(struct sw_defer *d)
{
    struct sw_node *n = SW_CONTAINER_OF(d, struct sw_node, refresh);

    node_want_identities(n);
    node_send_creds(n, true);
}

void node_pods_changed(struct sw_node *n)
{
    sw_loop_defer(n->process.loop, &n->refresh, on_refresh);
}
