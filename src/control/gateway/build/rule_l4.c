/* SPDX-License-Identifier: Apache-2.0 */
/* TLSRoutes, TCPRoutes, UDPRoutes: one rule, shares of connections. */
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"

enum { BACKENDS_MAX = 16 };

/* A listener's datagrams go through one tunnel or through none: Envoy knows no shares of them. */
static void refuse_shares(struct route *route, struct sw_model_backend *list, size_t n,
                          bool complain)
{
    size_t all = 0;

    for (size_t i = 0; i < n; i++)
        all += list[i].weight && list[i].cluster;
    for (size_t i = 0; i < n && all > 1; i++) {
        if (!sw_model_is_udp_tunnel(list[i].cluster))
            continue;
        list[i].cluster = NULL;
        if (complain)
            note_unresolved(route, (struct verdict){"UnsupportedProtocol",
                                                    "a Connector takes all datagrams of a UDPRoute "
                                                    "or none: make it the only backend"});
    }
}

static struct sw_model_backend *read_backends(struct builder *b, struct route *route,
                                              const struct sw_json *refs,
                                              const struct backend_ctx *ctx, size_t n,
                                              bool complain)
{
    struct sw_model_backend *list = sw_arena_array(b->a, n + 1, sizeof(*list));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *ref = sw_json_at(refs, i);
        struct verdict v;

        list[i].weight = (uint32_t)js_int(ref, "weight", 1000000, 1);
        list[i].cluster = resolve_backend(b, ctx, ref, &v);
        if (!list[i].cluster && complain)
            note_unresolved(route, v);
    }
    if (route->kind == RK_UDP)
        refuse_shares(route, list, n, complain);
    return list;
}

void compile_l4(struct builder *b, struct route *route, struct compiled *c, bool first)
{
    const struct sw_json *rules = sw_json_find(route->spec, "rules");
    const struct sw_json *refs = sw_json_find(sw_json_at(rules, 0), "backendRefs");
    struct backend_ctx ctx = {.route = route, .client_cert = c->client_cert};

    c->n_backends = sw_min(sw_json_len(refs), BACKENDS_MAX);
    c->plain = read_backends(b, route, refs, &ctx, c->n_backends, first);
    c->tls = c->plain;
    if (route->kind == RK_TLS) {
        ctx.use_policies = true;
        c->tls = read_backends(b, route, refs, &ctx, c->n_backends, false);
    }
    if (first)
        route->n_rules = 1;
}
