/* SPDX-License-Identifier: Apache-2.0 */
/* Resources decoded, and the snapshots made of them. */
#include "link/snap.h"

#include <proto/cluster.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/mem.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "tls/cert/cred.h"

static const struct sw_slice peer_prefix = SW_SLICE_LIT("remote-peer-");
static const struct sw_slice export_prefix = SW_SLICE_LIT("export-");
static const struct sw_slice import_prefix = SW_SLICE_LIT("import-");

struct link_res *link_res_ref(struct link_res *r)
{
    if (r)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

struct link_res *link_res_unref(struct link_res *r)
{
    if (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
        sw_arena_clear(&r->arena);
        sw_free(r);
    }
    return NULL;
}

struct link_snap *link_snap_ref(struct link_snap *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

struct link_snap *link_snap_unref(struct link_snap *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    SW_MAP_DRAIN(&s->peers, link_res_unref);
    SW_MAP_DRAIN(&s->exports, link_res_unref);
    SW_MAP_DRAIN(&s->imports, link_res_unref);
    (void)sw_tls_cred_unref(s->cred);
    sw_free(s);
    return NULL;
}

/* ---- decoding ---- */

static struct link_res *res_new(enum link_kind kind, struct sw_slice name)
{
    struct link_res *r = SW_NEW(struct link_res);

    atomic_init(&r->refs, 1);
    r->kind = kind;
    r->name = sw_slice(sw_arena_dup(&r->arena, name), name.n);
    return r;
}

static int read_address(struct sw_arena *a, const Sw__Address *in, struct link_endpoint *ret,
                        struct sw_err *err)
{
    const Sw__SocketAddress *s;
    struct sw_slice host;

    if (!in || in->address_case != SW__ADDRESS__ADDRESS_SOCKET_ADDRESS || !in->socket_address)
        return sw_err_set(err, SW_EINVAL, "endpoint without a socket address");
    s = in->socket_address;
    if (s->port_specifier_case != SW__SOCKET_ADDRESS__PORT_SPECIFIER_PORT_VALUE ||
        s->port_value == 0 || s->port_value > UINT16_MAX)
        return sw_err_set(err, SW_EINVAL, "port is not between 1 and 65535");
    host = SW_PB_SLICE(s->address);
    if (host.n == 0 || host.n >= 256)
        return sw_err_set(err, SW_EINVAL, "address is empty or too long");
    if (sw_host_parse(host, &ret->ip, err) != SW_OK)
        return SW_EINVAL;
    ret->host = sw_arena_slice(a, host);
    ret->port = (uint16_t)s->port_value;
    return SW_OK;
}

/* One LbEndpoint. Those that cannot be read are left out: another gateway may serve. */
static void read_endpoint(struct link_res *r, const Sw__LbEndpoint *in, struct sw_err *why)
{
    const Sw__Endpoint *e;
    struct link_endpoint *to = &r->ends[r->n_ends];

    if (r->n_ends == LINK_GATEWAYS_MAX ||
        in->host_identifier_case != SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT)
        return;
    e = in->endpoint;
    if (read_address(&r->arena, e->address, to, why) != SW_OK)
        return;
    r->n_ends++;
    if (!r->authority.n && e->hostname.len && e->hostname.len < 300)
        r->authority = sw_arena_slice(&r->arena, SW_PB_SLICE(e->hostname));
}

static void read_endpoints(struct link_res *r, const Sw__Cluster *in, struct sw_err *why)
{
    const Sw__ClusterLoadAssignment *all = in->load_assignment;

    for (size_t i = 0; all && i < all->n_endpoints; i++) {
        for (size_t k = 0; k < all->endpoints[i]->n_lb_endpoints; k++)
            read_endpoint(r, all->endpoints[i]->lb_endpoints[k], why);
    }
}

/* The annotation of a Peer that forces a form, as metadata of its cluster. */
static enum link_wire read_wire(const Sw__Cluster *in)
{
    const Sw__Metadata *m = in->metadata;

    for (size_t i = 0; m && i < m->n_filter_metadata; i++) {
        const Sw__Struct *fields = m->filter_metadata[i]->value;

        if (!sw_slice_eq_str(SW_PB_SLICE(m->filter_metadata[i]->key), SW_LINK_METADATA))
            continue;
        for (size_t k = 0; fields && k < fields->n_fields; k++) {
            const Sw__Value *v = fields->fields[k]->value;

            if (!sw_slice_eq_str(SW_PB_SLICE(fields->fields[k]->key), "form") || !v ||
                v->kind_case != SW__VALUE__KIND_STRING_VALUE)
                continue;
            if (sw_slice_eq_str(SW_PB_SLICE(v->string_value), "clusterlink"))
                return LINK_WIRE_CLUSTERLINK;
            if (sw_slice_eq_str(SW_PB_SLICE(v->string_value), "spanwire"))
                return LINK_WIRE_SPANWIRE;
        }
    }
    return LINK_WIRE_AUTO;
}

static bool is_peer_name(struct sw_slice name)
{
    struct sw_ip ip;

    return sw_host_parse(name, &ip, NULL) == SW_OK && ip.family == 0;
}

static int check_name(struct sw_slice name, struct sw_err *err)
{
    if (name.n > LINK_NAME_MAX)
        return sw_err_set(err, SW_ELIMIT, "name is longer than %d bytes", LINK_NAME_MAX);
    return SW_OK;
}

static int fill_cluster(struct link_res *r, const Sw__Cluster *in, struct sw_err *err)
{
    struct sw_err why = {0};

    read_endpoints(r, in, &why);
    r->wire = read_wire(in);
    if (r->n_ends == 0)
        return sw_err_set(err, SW_EINVAL, "no endpoint%s%s", why.msg[0] ? ": " : "", why.msg);
    if (r->kind != LINK_PEER)
        return SW_OK;
    if (!is_peer_name(r->name))
        return sw_err_set(err, SW_EINVAL, "peer's name is not a DNS name");
    r->host = r->name.p;
    if (!r->authority.n)
        r->authority = sw_slice_str(sw_arena_printf(&r->arena, "%s:443", r->host));
    return SW_OK;
}

struct link_res *link_res_cluster(struct sw_slice name, struct sw_slice bytes, struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    bool peer = sw_slice_has_prefix(name, peer_prefix);
    struct link_res *r;
    const Sw__Cluster *in;

    if (!peer && !sw_slice_has_prefix(name, export_prefix)) {
        (void)sw_err_set(err, SW_ENOENT, "neither a peer nor an export");
        return NULL;
    }
    if (check_name(name, err) != SW_OK)
        return NULL;
    in = SW_PB_UNPACK(&tmp, Sw__Cluster, sw__cluster, bytes, NULL, err);
    if (!in)
        return NULL;
    r = res_new(peer ? LINK_PEER : LINK_EXPORT,
                sw_slice_from(name, peer ? peer_prefix.n : export_prefix.n));
    if (fill_cluster(r, in, err) != SW_OK)
        r = link_res_unref(r);
    return r;
}

struct link_res *link_res_listener(struct sw_slice name, struct sw_slice bytes, struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    struct link_endpoint at = {0};
    struct link_res *r;
    struct sw_slice rest;
    const Sw__Listener *in;

    if (!sw_slice_has_prefix(name, import_prefix)) {
        (void)sw_err_set(err, SW_ENOENT, "not an import");
        return NULL;
    }
    if (check_name(name, err) != SW_OK)
        return NULL;
    in = SW_PB_UNPACK(&tmp, Sw__Listener, sw__listener, bytes, NULL, err);
    if (!in || read_address(&tmp, in->address, &at, err) != SW_OK)
        return NULL;
    if (!at.ip.family) {
        (void)sw_err_set(err, SW_EINVAL, "listener's address is not an IP address");
        return NULL;
    }
    r = res_new(LINK_IMPORT, sw_slice_from(name, import_prefix.n));
    rest = r->name;
    r->ns = sw_slice_cut(&rest, '/');
    r->base = rest;
    r->at = (struct sw_addr){.ip = at.ip, .port = at.port};
    if (!r->ns.n || !r->base.p || !r->base.n) {
        (void)sw_err_set(err, SW_EINVAL, "name is not 'import-NAMESPACE/NAME'");
        r = link_res_unref(r);
    }
    return r;
}

static struct sw_slice inline_of(struct sw_arena *a, const Sw__DataSource *s)
{
    if (s && s->specifier_case == SW__DATA_SOURCE__SPECIFIER_INLINE_BYTES)
        return sw_arena_slice(a, SW_PB_SLICE(s->inline_bytes));
    if (s && s->specifier_case == SW__DATA_SOURCE__SPECIFIER_INLINE_STRING)
        return sw_arena_slice(a, SW_PB_SLICE(s->inline_string));
    return sw_slice(NULL, 0);
}

int link_secret_parse(struct sw_arena *a, struct sw_slice bytes, struct link_secret *ret,
                      struct sw_err *err)
{
    const Sw__Secret *in = SW_PB_UNPACK(a, Sw__Secret, sw__secret, bytes, NULL, err);

    if (!in)
        return err->rc;
    if (in->type_case == SW__SECRET__TYPE_TLS_CERTIFICATE) {
        ret->chain = inline_of(a, in->tls_certificate->certificate_chain);
        ret->key = inline_of(a, in->tls_certificate->private_key);
        if (!ret->chain.n || !ret->key.n)
            return sw_err_set(err, SW_EINVAL, "certificate or key is not inline");
        return SW_OK;
    }
    if (in->type_case == SW__SECRET__TYPE_VALIDATION_CONTEXT) {
        ret->roots = inline_of(a, in->validation_context->trusted_ca);
        return ret->roots.n ? SW_OK : sw_err_set(err, SW_EINVAL, "trusted CA is not inline");
    }
    return sw_err_set(err, SW_EINVAL, "neither a certificate nor a validation context");
}
