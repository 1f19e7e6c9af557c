/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/join/peer.h"

#include "base/file.h"
#include "base/mem.h"
#include "cmd/api.h"
#include "cmd/join/state.h"
#include "io/addr.h"

const struct sw_kube_gvr sw_peer_gvr = {"clusterlink.net", "v1alpha1", "peers", "Peer", true};

int sw_peer_gateways(const struct sw_opt_list *l, const char *option, struct sw_join_gateways *ret,
                     struct sw_err *err)
{
    if (l->n > SW_JOIN_GATEWAYS_MAX)
        return sw_err_set(err, SW_EINVAL, "%s: more than %d", option, SW_JOIN_GATEWAYS_MAX);
    for (size_t i = 0; i < l->n; i++) {
        ret->at[i] = sw_slice_str(l->p[i]);
        if (!sw_join_gateway_ok(ret->at[i]))
            return sw_err_set(err, SW_EINVAL, "%s: '%.100s' is not HOST:PORT", option, l->p[i]);
    }
    ret->n = l->n;
    return SW_OK;
}

struct sw_json *sw_peer_object(struct sw_arena *a, const char *ns, struct sw_slice name,
                               const struct sw_join_gateways *at)
{
    struct sw_json *list = sw_json_new_array(a);

    for (size_t i = 0; i < at->n; i++) {
        struct sw_slice host;
        uint16_t port;

        if (sw_authority_split(at->at[i], &host, &port, NULL) == SW_OK)
            sw_json_push(
                a, list,
                SW_JSON_OF(a, {"host", .text = host}, {"port", .json = sw_json_new_u64(a, port)}));
    }
    return SW_JSON_OF(
        a, {"apiVersion", .str = "clusterlink.net/v1alpha1"}, {"kind", .str = sw_peer_gvr.kind},
        {"metadata", .json = SW_JSON_OF(a, {"name", .text = name}, {"namespace", .str = ns})},
        {"spec", .json = SW_JSON_OF(a, {"gateways", .json = list})});
}

/* ---- writing it ---- */

static int apply(const char *kubeconfig, const struct sw_json *o, struct sw_err *err)
{
    struct sw_cmd_api api = {0};
    int rc = sw_cmd_api_open(&api, kubeconfig, NULL, err);

    if (rc == SW_OK)
        rc = sw_cmd_api_apply(
            &api,
            &(struct sw_kube_apply){.gvr = &sw_peer_gvr, .obj = o, .manager = "spanwire-join"},
            err);
    sw_cmd_api_close(&api);
    return rc;
}

int sw_peer_meet(const struct sw_peer_api *api, const char *dir, const struct sw_join_bundle *b,
                 struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *o = sw_peer_object(&a, api->ns, b->site, &b->gateways);
    int rc = sw_file_write(sw_machine_path(&a, dir, SW_MACHINE_PEER), sw_json_text(&a, o, NULL),
                           0600, true, err);

    return rc == SW_OK && api->kubeconfig ? apply(api->kubeconfig, o, err) : rc;
}
