/* SPDX-License-Identifier: Apache-2.0 */
/* /config_dump: what the control plane configured, without secrets. */
#include <stdio.h>

#include "base/hex.h"
#include "base/json.h"
#include "link/link_int.h"
#include "tls/cert/cred.h"

static void put_ends(struct sw_jw *j, const struct link_res *r)
{
    sw_jw_put_array(j, r->kind == LINK_PEER ? "gateways" : "endpoints");
    for (size_t i = 0; i < r->n_ends; i++) {
        const struct link_endpoint *e = &r->ends[i];
        bool v6 = e->ip.family == 6;
        char text[300];

        (void)snprintf(text, sizeof(text), "%s%.*s%s:%u", v6 ? "[" : "", SW_SLICE_ARG(e->host),
                       v6 ? "]" : "", (unsigned)e->port);
        sw_jw_str(j, text);
    }
    sw_jw_array_end(j);
}

static void put_map(struct sw_jw *j, const char *key, const struct sw_map *m)
{
    static const char *const wires[] = {"auto", "spanwire", "clusterlink"};
    char at[SW_ADDR_TEXT];

    sw_jw_put_array(j, key);
    SW_MAP_EACH (const struct link_res, r, m) {
        sw_jw_object(j);
        sw_jw_put_string(j, "name", r->name);
        if (r->kind == LINK_IMPORT)
            sw_jw_put_str(j, "address", sw_addr_text(&r->at, at));
        else
            put_ends(j, r);
        if (r->kind == LINK_PEER)
            sw_jw_put_str(j, "form", wires[r->wire]);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

static void put_certificate(struct sw_jw *j, const struct sw_tls_cred *cred)
{
    const struct sw_tls_cert_info *chain = NULL;

    sw_jw_put_object(j, "certificate");
    if (sw_tls_cred_chain(cred, &chain)) {
        sw_jw_put_string(j, "serialNumber", chain[0].serial);
        sw_jw_put_string(j, "pem", chain[0].pem);
    }
    sw_jw_put_u64(j, "notAfter", sw_tls_cred_not_after(cred));
    sw_jw_object_end(j);
}

int link_dump(struct sw_link *l, struct sw_buf *out)
{
    const struct link_snap *s = l->xds ? link_xds_snap(l->xds) : NULL;
    struct sw_json_write_opts opts = {.indent = 2};
    char epoch[2 * LINK_EPOCH_MAX + 1] = "";
    struct sw_jw j;

    sw_jw_begin(&j, out, &opts);
    sw_jw_object(&j);
    sw_jw_put_str(&j, "control", l->config->control);
    sw_jw_put_str(&j, "controlForm",
                  l->config->form == SW_LINK_CONTROL_OURS ? "spanwire" : "clusterlink");
    sw_jw_put_bool(&j, "connected", l->xds && link_xds_connected(l->xds));
    sw_jw_put_u64(&j, "connections", atomic_load_explicit(&l->n_conns, memory_order_relaxed));
    if (s) {
        *sw_hex_write(epoch, s->epoch, s->n_epoch) = 0;
        sw_jw_put_u64(&j, "version", s->version);
        sw_jw_put_str(&j, "epoch", epoch);
        put_map(&j, "peers", &s->peers);
        put_map(&j, "exports", &s->exports);
        put_map(&j, "imports", &s->imports);
        if (s->cred)
            put_certificate(&j, s->cred);
    }
    sw_jw_object_end(&j);
    return sw_jw_end(&j);
}
