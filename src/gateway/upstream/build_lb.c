/* SPDX-License-Identifier: Apache-2.0 */
/* How a cluster chooses among its members: the old enum with its settings, or a list of policies.
 */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>

#include "gateway/config/build.h"
#include "gateway/upstream/build.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    RING_MAX = 8 << 20,
    CHOICES_MAX = 64, /* more of them find the idlest host no better, and each costs */
    POLICY_DEPTH = 2,
};

static void set_choices(const Sw__UInt32Value *v, struct sw_gw_cluster_spec *s)
{
    s->choice_count = (uint32_t)sw_min(sw_gw_u32(v, 2), CHOICES_MAX);
}

static int set_ring(struct sw_gw_build *b, const Sw__UInt64Value *least,
                    const Sw__UInt64Value *most, const char *where, struct sw_gw_cluster_spec *s)
{
    if (least)
        s->ring_min = least->value;
    if (most)
        s->ring_max = most->value;
    if (s->ring_max > RING_MAX)
        return SW_GW_BAD(b, "%s.maximum_ring_size is above %d", where, RING_MAX);
    if (s->ring_min > s->ring_max)
        return SW_GW_BAD(b, "%s.minimum_ring_size is above the maximum", where);
    return SW_OK;
}

static int cluster_provided(struct sw_gw_build *b, const struct sw_gw_cluster_spec *s)
{
    if (s->discovery != SW_GW_ORIGINAL_DST)
        return SW_GW_BAD(b, "CLUSTER_PROVIDED is for ORIGINAL_DST only");
    return SW_OK;
}

/* ---- Cluster.lb_policy ---- */

static int build_enum(struct sw_gw_build *b, const Sw__Cluster *in, struct sw_gw_cluster_spec *s)
{
    static const struct {
        Sw__Cluster__LbPolicy policy;
        enum sw_gw_lb_kind kind;
    } known[] = {
        {SW__CLUSTER__LB_POLICY__ROUND_ROBIN, SW_GW_LB_ROUND_ROBIN},
        {SW__CLUSTER__LB_POLICY__LEAST_REQUEST, SW_GW_LB_LEAST_REQUEST},
        {SW__CLUSTER__LB_POLICY__RING_HASH, SW_GW_LB_RING_HASH},
        {SW__CLUSTER__LB_POLICY__RANDOM, SW_GW_LB_RANDOM},
        {SW__CLUSTER__LB_POLICY__MAGLEV, SW_GW_LB_MAGLEV},
    };

    if (in->lb_policy == SW__CLUSTER__LB_POLICY__CLUSTER_PROVIDED)
        return cluster_provided(b, s);
    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (in->lb_policy == known[i].policy) {
            s->lb = known[i].kind;
            return SW_OK;
        }
    }
    return SW_GW_BAD(b, "lb_policy %d is not supported", (int)in->lb_policy);
}

static int build_settings(struct sw_gw_build *b, const Sw__Cluster *in,
                          struct sw_gw_cluster_spec *s)
{
    if (in->lb_config_case == SW__CLUSTER__LB_CONFIG_LEAST_REQUEST_LB_CONFIG)
        set_choices(in->least_request_lb_config->choice_count, s);
    if (in->lb_config_case == SW__CLUSTER__LB_CONFIG_RING_HASH_LB_CONFIG)
        return set_ring(b, in->ring_hash_lb_config->minimum_ring_size,
                        in->ring_hash_lb_config->maximum_ring_size, "ring_hash_lb_config", s);
    if (in->lb_config_case == SW__CLUSTER__LB_CONFIG_ORIGINAL_DST_LB_CONFIG)
        s->dst_port = (uint16_t)sw_gw_u32(in->original_dst_lb_config->upstream_port_override, 0);
    return SW_OK;
}

/* ---- Cluster.load_balancing_policy ---- */

/* Zones play no part: Envoy, too, looks at them only where a local cluster is named. */
static void set_locality(const Sw__LocalityLbConfig *in, struct sw_gw_cluster_spec *s)
{
    if (in && in->locality_config_specifier_case ==
                  SW__LOCALITY_LB_CONFIG__LOCALITY_CONFIG_SPECIFIER_LOCALITY_WEIGHTED_LB_CONFIG)
        s->locality_weighted = true;
}

static int read_least_request(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s)
{
    const Sw__LbLeastRequest *in = msg;

    set_locality(in->locality_lb_config, s);
    set_choices(in->choice_count, s);
    return SW_OK;
}

static int read_round_robin(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s)
{
    const Sw__LbRoundRobin *in = msg;

    set_locality(in->locality_lb_config, s);
    return SW_OK;
}

static int read_random(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s)
{
    const Sw__LbRandom *in = msg;

    set_locality(in->locality_lb_config, s);
    return SW_OK;
}

static int read_ring_hash(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s)
{
    const Sw__LbRingHash *in = msg;

    s->locality_weighted |= in->locality_weighted_lb_config != NULL;
    return set_ring(b, in->minimum_ring_size, in->maximum_ring_size, "ring_hash", s);
}

static int read_maglev(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s)
{
    const Sw__LbMaglev *in = msg;

    s->locality_weighted |= in->locality_weighted_lb_config != NULL;
    return SW_OK;
}

static const struct policy {
    const ProtobufCMessageDescriptor *type;
    enum sw_gw_lb_kind kind;
    int (*read)(struct sw_gw_build *b, const void *msg, struct sw_gw_cluster_spec *s);
} policies[] = {
    {&sw__lb_least_request__descriptor, SW_GW_LB_LEAST_REQUEST, read_least_request},
    {&sw__lb_round_robin__descriptor, SW_GW_LB_ROUND_ROBIN, read_round_robin},
    {&sw__lb_random__descriptor, SW_GW_LB_RANDOM, read_random},
    {&sw__lb_ring_hash__descriptor, SW_GW_LB_RING_HASH, read_ring_hash},
    {&sw__lb_maglev__descriptor, SW_GW_LB_MAGLEV, read_maglev},
};

static int build_policy(struct sw_gw_build *b, const struct policy *p, const Sw__Any *any,
                        struct sw_gw_cluster_spec *s)
{
    const void *msg = sw_gw_open_any(b, any, p->type);

    if (!msg)
        return SW_EINVAL;
    s->lb = p->kind;
    return p->read(b, msg, s);
}

/* The first supported policy of the list, as the rules of that list are. */
static int build_policies(struct sw_gw_build *b, const Sw__LoadBalancingPolicy *in, unsigned depth,
                          struct sw_gw_cluster_spec *s)
{
    struct sw_slice last = {"", 0};

    for (size_t i = 0; i < in->n_policies; i++) {
        const Sw__TypedExtensionConfig *t = in->policies[i]->typed_extension_config;
        const Sw__Any *any = t ? t->typed_config : NULL;

        for (size_t k = 0; k < SW_ARRAY_LEN(policies); k++) {
            if (sw_pb_any_is(any, policies[k].type))
                return build_policy(b, &policies[k], any, s);
        }
        if (sw_pb_any_is(any, &sw__lb_cluster_provided__descriptor))
            return cluster_provided(b, s);
        if (depth && sw_pb_any_is(any, &sw__lb_wrr_locality__descriptor)) {
            const Sw__LbWrrLocality *w = sw_gw_open_any(b, any, &sw__lb_wrr_locality__descriptor);

            if (!w)
                return SW_EINVAL;
            if (!w->endpoint_picking_policy)
                return SW_GW_BAD(b, "wrr_locality: endpoint_picking_policy missing");
            s->locality_weighted = true;
            return build_policies(b, w->endpoint_picking_policy, depth - 1, s);
        }
        if (any)
            last = sw_pb_type_name(SW_PB_SLICE(any->type_url));
    }
    return SW_GW_BAD(b, "load_balancing_policy: '%.*s' is not supported",
                     SW_SLICE_ARG_MAX(last, 100));
}

int sw_gw_build_lb(struct sw_gw_build *b, const struct Sw__Cluster *in,
                   struct sw_gw_cluster_spec *s)
{
    int rc;

    s->choice_count = 2;
    s->ring_min = 1024;
    s->ring_max = RING_MAX;
    s->panic_percent = 50;
    if (in->common_lb_config) {
        if (in->common_lb_config->healthy_panic_threshold)
            s->panic_percent = in->common_lb_config->healthy_panic_threshold->value;
        s->locality_weighted =
            in->common_lb_config->locality_config_specifier_case ==
            SW__CLUSTER__COMMON_LB_CONFIG__LOCALITY_CONFIG_SPECIFIER_LOCALITY_WEIGHTED_LB_CONFIG;
    }
    if (in->load_balancing_policy)
        return build_policies(b, in->load_balancing_policy, POLICY_DEPTH, s);
    rc = build_enum(b, in, s);
    return rc == SW_OK ? build_settings(b, in, s) : rc;
}
