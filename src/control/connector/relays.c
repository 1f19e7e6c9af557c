/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which relays are the fabric's own. Connectors name the relay of their device, and tenants write
 * those; sidecars believe this ConfigMap instead, which stands where tenants cannot write.
 */
#include "control/connector/connector_int.h"

void cn_relays(const struct sw_view *v, const struct sw_connector_conf *conf, struct sw_output *out)
{
    const struct sw_slice ns = SW_SLICE_LIT(SW_CONNECTOR_SYSTEM_NS);
    const struct sw_slice name = SW_SLICE_LIT(SW_CONNECTOR_RELAYS);
    const struct sw_kube_obj *have = sw_view_find(v, SW_CN_RELAYS, ns, name);
    struct sw_arena *a = sw_out_arena(out);
    struct sw_json *obj;

    if (!conf->relay_url.n || !sw_view_find(v, SW_CN_NAMESPACE, sw_slice("", 0), ns))
        return;
    if (have &&
        sw_slice_eq(sw_json_str(sw_json_walk(have->json, "data", "urls", NULL)), conf->relay_url))
        return;
    obj = cn_object(a, "v1", "ConfigMap", ns, name);
    cn_meta(a, obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    sw_json_put(a, obj, "data", SW_JSON_OF(a, {"urls", .text = conf->relay_url}));
    sw_out_apply(out, SW_CN_RELAYS, obj);
}
