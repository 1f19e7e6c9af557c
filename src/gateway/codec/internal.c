/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/codec/internal.h"

#include "base/json.h"
#include "gateway/conn/worker.h"
#include "gateway/upstream/host.h"
#include "io/sock.h"

/* The namespaces the cluster passes on, from the host or the cluster; kept with the host. */
static const struct sw_json *passed(struct sw_gw_host *h)
{
    const struct sw_gw_cluster_spec *s = h->cluster->spec;
    struct sw_json *out;

    if (h->passed_known)
        return h->passed;
    h->passed_known = true;
    if (s->n_passthrough == 0)
        return NULL;
    out = sw_json_new_object(&h->arena);
    for (size_t i = 0; i < s->n_passthrough; i++) {
        const struct sw_json *from = s->passthrough[i].host ? h->member->metadata : s->metadata;
        const struct sw_json *v = from ? sw_json_get(from, s->passthrough[i].name) : NULL;

        if (v)
            sw_json_set(&h->arena, out, s->passthrough[i].name, sw_json_copy(&h->arena, v));
    }
    h->passed = out;
    return out;
}

int sw_gw_internal_connect(struct sw_gw_worker *w, const struct sw_gw_host *h,
                           const struct sw_exchange *cause, int *ret_fd, struct sw_err *err)
{
    struct sw_gw_host *host = (struct sw_gw_host *)(uintptr_t)h; /* the worker's own */
    struct sw_gw_listener *l = sw_map_get(&w->view->config->listeners->map, h->addr.name);
    struct sw_gw_accepted a = {.listener = l, .keep = host, .cause = cause};
    int pair[2];
    int rc;

    if (!l || l->kind != SW_GW_LISTEN_INTERNAL)
        return sw_err_set(err, SW_ENOENT, "no internal listener '%.*s'",
                          SW_SLICE_ARG_MAX(h->addr.name, 60));
    rc = sw_sock_pair(pair, err);
    if (rc != SW_OK)
        return rc;
    a.fd = pair[1];
    a.metadata = passed(host);
    w->calls->accept_fd(w, &a);
    *ret_fd = pair[0];
    return SW_OK;
}
