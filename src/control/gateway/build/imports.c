/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that are Imports: services of other sites, reached through the data planes of links of
 * this one. A plain cluster: the data plane knows the Import by the port, and asks for leave.
 *
 * Which port that is comes from the leases, not from the Import, whose writer may ask for any.
 */
#include "control/gateway/build/build_int.h"
#include "control/linkname.h"

static void read_leases(struct builder *b)
{
    size_t count = sw_view_count(b->v, SW_MODEL_IMPORT);
    struct sw_link_lease *list = sw_arena_array(b->a, count + 1, sizeof(*list));
    size_t n = 0;

    b->leases_read = true;
    for (size_t i = 0; i < count; i++) {
        const struct sw_kube_obj *o = sw_view_at(b->v, SW_MODEL_IMPORT, i);

        if (!cn_deleting(o))
            list[n++].import = o;
    }
    sw_link_leases(b->a, b->conf->link_reserved, b->conf->n_link_reserved, list, n);
    for (size_t i = 0; i < n; i++)
        (void)sw_map_put(&b->leases, list[i].import->key, &list[i]);
}

static const struct sw_link_lease *lease_of(struct builder *b, const struct sw_gateway_ref *r)
{
    if (!b->leases_read)
        read_leases(b);
    return sw_map_get(&b->leases,
                      gw_printf(b, "%.*s/%.*s", SW_SLICE_ARG(r->ns), SW_SLICE_ARG(r->name)));
}

static struct verdict refuse(struct builder *b, const struct sw_gateway_ref *r, const char *reason,
                             const char *why)
{
    return VERDICT(b, reason, "Import '%.*s/%.*s' %s", SW_SLICE_ARG(r->ns), SW_SLICE_ARG(r->name),
                   why);
}

struct sw_model_cluster *import_backend(struct builder *b, const struct backend_ctx *ctx,
                                        const struct sw_gateway_ref *r, struct verdict *ret)
{
    struct sw_slice system =
        b->conf->link_ns.n ? b->conf->link_ns : SW_SLICE_LIT(SW_LINK_NAMESPACE);
    const struct sw_link_lease *l = lease_of(b, r);
    int64_t port = l ? js_int(sw_json_find(l->import->json, "spec"), "port", UINT16_MAX, 0) : 0;

    ctx->route->importing = true;
    if (!l)
        *ret = refuse(b, r, "BackendNotFound", "does not exist");
    else if (ctx->route->kind == RK_UDP)
        *ret = refuse(b, r, "UnsupportedProtocol", "carries TCP only");
    else if (!port || (r->port && r->port != port))
        *ret = refuse(b, r, "BackendNotFound",
                      sw_arena_printf(b->a, "has port %lld only", (long long)port));
    else if (!l->target || l->unwritten)
        *ret = refuse(b, r, "BackendNotFound",
                      sw_arena_printf(b->a, "has no target port: %s",
                                      l->why ? l->why : "it is about to be leased"));
    if (ret->reason)
        return NULL;
    return intern_cluster(b,
                          gw_printf(b, SW_MODEL_IMPORT_SET "%.*s/%.*s/%.*s/%u",
                                    SW_SLICE_ARG(system), SW_SLICE_ARG(r->ns),
                                    SW_SLICE_ARG(r->name), l->target),
                          ctx->http2 ? SW_MODEL_PROTO_HTTP2 : route_protos[ctx->route->kind], NULL);
}
