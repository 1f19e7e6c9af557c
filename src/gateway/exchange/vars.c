/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/vars.h"

#include "gateway/exchange/exchange.h"
#include "gateway/exchange/state.h"

void sw_gw_vars_fill(struct sw_exchange *x, struct sw_gw_vars *v)
{
    const struct sw_gw_route_state *rs = x->rs;
    const struct sw_gw_cluster *c = x->host ? x->host->cluster : NULL;

    *v = (struct sw_gw_vars){
        .req = &x->req,
        .resp = &x->resp,
        .peer = x->from.peer,
        .local = x->from.local,
        .sni = x->from.sni,
        .metadata = x->from.metadata,
        .cluster_metadata = c ? c->spec->metadata : NULL,
        .listener = x->from.listener ? x->from.listener->name : sw_slice(NULL, 0),
        .chain = x->from.chain ? x->from.chain->name : sw_slice(NULL, 0),
        .status = x->resp.status,
        .flags = x->flags,
        .detail = x->detail,
        .failure = x->failure[0] ? x->failure : NULL,
        .rx_bytes = x->rx_bytes,
        .tx_bytes = x->tx_bytes,
        .attempts = x->attempts,
        .connection_id = x->from.connection_id,
        .client = x->from.client,
        .cipher = x->from.cipher,
        .http = x->hcm != NULL,
    };
    v->start_wall_ns = sw_exchange_start_wall(x);
    if (x->route)
        v->route = x->route->name;
    if (rs) {
        v->original_path = rs->original_path;
        v->cluster = rs->cluster;
        v->member = x->host ? x->host->member : rs->member;
        if (rs->vhost)
            v->vhost = rs->vhost->name;
    }
}
