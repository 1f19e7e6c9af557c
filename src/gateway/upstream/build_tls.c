/* SPDX-License-Identifier: Apache-2.0 */
/* Transport sockets of a cluster: internal_upstream, and transport_socket_matches, where members of
 * one cluster use different transports. */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>

#include "base/mem.h"
#include "gateway/config/build.h"
#include "gateway/config/tls.h"
#include "gateway/upstream/build.h"
#include "proto/types.h"

enum { MATCHES_MAX = 1000 };

static int build_internal(struct sw_gw_build *b, const Sw__Any *any,
                          struct sw_gw_cluster_spec *spec, const Sw__TransportSocket **ret_inner)
{
    const Sw__InternalUpstreamTransport *in =
        sw_gw_open_any(b, any, &sw__internal_upstream_transport__descriptor);

    if (!in)
        return SW_EINVAL;
    if (!in->transport_socket)
        return SW_GW_BAD(b, "internal_upstream: transport_socket missing");
    spec->internal_upstream = true;
    spec->passthrough =
        sw_arena_array(b->arena, in->n_passthrough_metadata + 1, sizeof(*spec->passthrough));
    for (size_t i = 0; i < in->n_passthrough_metadata; i++) {
        const Sw__MetadataKind *k = in->passthrough_metadata[i]->kind;

        if (!k || (k->kind_case != SW__METADATA_KIND__KIND_HOST &&
                   k->kind_case != SW__METADATA_KIND__KIND_CLUSTER))
            return SW_GW_BAD(b, "internal_upstream: only host and cluster metadata can be passed");
        spec->passthrough[i].host = k->kind_case == SW__METADATA_KIND__KIND_HOST;
        spec->passthrough[i].name = sw_gw_text(b, &in->passthrough_metadata[i]->name);
        spec->n_passthrough++;
    }
    *ret_inner = in->transport_socket;
    return SW_OK;
}

int sw_gw_build_up_socket(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                          struct sw_gw_cluster_spec *spec, struct sw_gw_tls **ret)
{
    const struct sw_gw_up_names names = {.auto_sni = spec->auto_sni,
                                         .auto_san = spec->auto_san_validation};

    *ret = NULL;
    if (s && sw_pb_any_is(s->typed_config, &sw__internal_upstream_transport__descriptor)) {
        int rc = build_internal(b, s->typed_config, spec, &s);

        if (rc < 0)
            return rc;
    }
    return sw_gw_build_tls_up(b, s, &names, ret);
}

static int build_choice(struct sw_gw_build *b, const Sw__Cluster__TransportSocketMatch *in,
                        struct sw_gw_cluster_spec *spec, struct sw_gw_tls_choice *c)
{
    if (!in->transport_socket)
        return SW_GW_BAD(b, "transport_socket missing");
    if (sw_pb_any_is(in->transport_socket->typed_config,
                     &sw__internal_upstream_transport__descriptor))
        return SW_GW_BAD(b, "internal_upstream is not supported in a match");
    c->match = sw_gw_build_struct(b, in->match);
    return sw_gw_build_up_socket(b, in->transport_socket, spec, &c->tls);
}

int sw_gw_build_tls_matches(struct sw_gw_build *b, const struct Sw__Cluster *in,
                            struct sw_gw_cluster_spec *spec, struct sw_gw_tls **tls)
{
    struct sw_arena *outer = b->arena;
    struct sw_gw_tls *t;
    int rc = SW_OK;

    if (in->n_transport_socket_matches > MATCHES_MAX)
        return SW_GW_BAD(b, "more than %d transport_socket_matches", MATCHES_MAX);
    t = SW_NEW(struct sw_gw_tls);
    atomic_init(&t->refs, 1);
    t->rest = *tls;
    b->arena = &t->arena;
    t->choices = sw_arena_array(b->arena, in->n_transport_socket_matches, sizeof(*t->choices));
    for (size_t i = 0; rc == SW_OK && i < in->n_transport_socket_matches; i++) {
        t->n_choices++; /* first: a half-built one is released too */
        rc = build_choice(b, in->transport_socket_matches[i], spec, &t->choices[i]);
        if (rc < 0)
            rc = sw_err_prefix(b->err, "transport_socket_matches[%zu]", i);
    }
    b->arena = outer;
    *tls = rc == SW_OK ? t : sw_gw_tls_unref(t);
    return rc;
}
