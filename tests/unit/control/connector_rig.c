/* SPDX-License-Identifier: Apache-2.0 */
#include "connector_rig.h"

#include <stdlib.h>

#include "base/time.h"

/* ---- objects ---- */

static struct sw_connector_conf conf;

static const struct sw_slice cert_domains[] = {
    SW_SLICE_LIT("connect.test"), SW_SLICE_LIT("example.com"), SW_SLICE_LIT("example.test")};

static void configure(struct world *w, const struct sw_json *v)
{
    const struct sw_json *ids = sw_json_find(v, "gatewayIds");
    struct sw_slice *list =
        sw_arena_array(&w->arena, sw_json_len(ids) + 1, sizeof(struct sw_slice));

    for (size_t i = 0; i < sw_json_len(ids); i++)
        list[i] = sw_json_str(sw_json_at(ids, i));
    conf.gateway_ids = list;
    conf.n_gateway_ids = sw_json_len(ids);
    conf.issuer = js_or(v, "issuer", "");
    conf.cert_domains = cert_domains;
    conf.n_cert_domains = SW_ARRAY_LEN(cert_domains);
    w->input = js_or(v, "failedCertificates", "");
    conf.relay_url = js_or(v, "relay", "");
    conf.patch_policies = sw_json_true(sw_json_find(v, "patchPolicies"));
    conf.envoy_gateway = sw_json_true(sw_json_find(v, "envoyGateway"));
    conf.port_first = (uint16_t)js_int(v, "portFirst", UINT16_MAX, 0);
    conf.port_last = (uint16_t)js_int(v, "portLast", UINT16_MAX, 0);
    conf.dns = sw_json_true(sw_json_find(v, "dns"));
    conf.dns_stale_ns = 600 * SW_NS_PER_S;
}

void world_begin(struct world *w)
{
    *w = (struct world){.revision = UINT64_MAX, .configure = configure};
    conf = (struct sw_connector_conf){.gateway_class = SW_SLICE_LIT("spanwire"),
                                      .gateway_controller = SW_SLICE_LIT("spanwire.dev/gateway"),
                                      .target_domain = SW_SLICE_LIT("connect.test"),
                                      .port_offset = 8000};
    if (!cn_time(SW_SLICE_LIT("2026-11-15T12:00:00Z"), &w->now))
        abort();
}

/* ---- builds ---- */

const struct both both[2] = {{sw_connector_kinds, SW_CN_KINDS, sw_connector_build},
                             {sw_httpproxy_kinds, SW_HP_KINDS, sw_httpproxy_build}};

struct builds build(struct world *w)
{
    struct builds b;

    for (size_t i = 0; i < 2; i++) {
        struct sw_view *v = world_view(w, both[i].kinds, both[i].n);

        b.out[i] = output_new();
        both[i].build(v, &conf, b.out[i]);
        view_unref(v);
    }
    return b;
}

void builds_free(struct builds *b)
{
    for (size_t i = 0; i < 2; i++)
        output_free(b->out[i]);
}

size_t obey(struct world *w, struct builds *b)
{
    size_t did = 0;

    for (size_t at = 0; at < 2; at++)
        did += world_obey(w, both[at].kinds, b->out[at]);
    return did;
}
