/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster.transport_socket_matches: members of one cluster that are spoken to differently. */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/l4.pb-c.h>

#include "base/mem.h"
#include "gateway/config/config_int.h"
#include "proto/pb.h"
#include "proto/types.h"

enum { MATCHES_MAX = 1000 };

static int build_choice(struct sw_gw_build *b, const Sw__Cluster__TransportSocketMatch *in,
                        struct sw_gw_cluster_spec *spec, struct sw_gw_tls_choice *c)
{
    if (!in->transport_socket)
        return sw_err_set(b->err, SW_EINVAL, "transport_socket missing");
    if (sw_pb_any_is(in->transport_socket->typed_config,
                     &sw__internal_upstream_transport__descriptor))
        return sw_err_set(b->err, SW_EINVAL, "internal_upstream is not supported in a match");
    c->match = sw_gw_build_struct(b, in->match);
    return sw_gw_build_tls_up(b, in->transport_socket, spec, &c->tls);
}

int sw_gw_build_tls_matches(struct sw_gw_build *b, const struct Sw__Cluster *in,
                            struct sw_gw_cluster_spec *spec, struct sw_gw_tls **tls)
{
    struct sw_arena *outer = b->arena;
    struct sw_gw_tls *t;
    int rc = SW_OK;

    if (in->n_transport_socket_matches > MATCHES_MAX)
        return sw_err_set(b->err, SW_EINVAL, "more than %d transport_socket_matches", MATCHES_MAX);
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

/* Every key of the match is in the metadata, with the same value; no match at all is for all. */
static bool matches(const struct sw_json *match, const struct sw_json *has)
{
    for (size_t i = 0; i < sw_json_len(match); i++) {
        const struct sw_json *v = sw_json_get(has, match->obj.members[i].key);

        if (!v || !sw_json_equal(v, match->obj.members[i].value, SW_JSON_EQ_VALUE))
            return false;
    }
    return true;
}

const struct sw_gw_tls *sw_gw_tls_choose(const struct sw_gw_tls *t, const struct sw_json *metadata)
{
    const struct sw_json *has = sw_json_find(metadata, "envoy.transport_socket_match");

    for (size_t i = 0; i < t->n_choices; i++) {
        if (matches(t->choices[i].match, has))
            return t->choices[i].tls;
    }
    return t->rest;
}
