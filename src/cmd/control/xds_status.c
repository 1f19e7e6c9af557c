/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/xds_status.h"

#include "base/json.h"
#include "base/time.h"
#include "xds/server.h"

static void put_status(const struct sw_xds_status *st, void *arg)
{
    struct sw_jw *w = arg;
    char addr[SW_ADDR_TEXT];

    sw_jw_object(w);
    sw_jw_put_string(w, "node", st->node_id);
    sw_jw_put_string(w, "cluster", st->node_cluster);
    sw_jw_put_str(w, "address", sw_addr_text(&st->addr, addr));
    sw_jw_put_string(w, "type", st->type);
    sw_jw_put_str(w, "protocol", st->delta ? "delta" : "sotw");
    sw_jw_put_bool(w, "wildcard", st->wildcard);
    sw_jw_put_u64(w, "names", st->names);
    sw_jw_put_string(w, "sent", st->sent);
    sw_jw_put_string(w, "acked", st->acked);
    sw_jw_put_bool(w, "pending", st->pending);
    sw_jw_put_u64(w, "acks", st->acks);
    sw_jw_put_u64(w, "nacks", st->nacks);
    sw_jw_put_string(w, "nack", st->nack);
    sw_jw_put_u64(w, "pushedSeconds", st->pushed_ns / SW_NS_PER_S);
    sw_jw_put_u64(w, "connectedSeconds", st->connected_ns / SW_NS_PER_S);
    sw_jw_object_end(w);
}

void sw_control_put_clients(struct sw_jw *w, const struct sw_xds_server *s)
{
    sw_xds_server_status(s, put_status, w);
}
