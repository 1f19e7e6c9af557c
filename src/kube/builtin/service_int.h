/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about Services share: kinds of them, and one being settled. */
#pragma once

#include "kube/builtin/builtin_int.h"
#include "kube/builtin/service.h"

static inline bool svc_type_is(const struct sw_json *spec, const char *type)
{
    return sw_field_is(spec, "type", type);
}

static inline bool svc_external_name(const struct sw_json *spec)
{
    return svc_type_is(spec, "ExternalName");
}

static inline bool svc_balanced(const struct sw_json *spec)
{
    return svc_type_is(spec, "LoadBalancer");
}

static inline bool svc_headless(const struct sw_json *spec)
{
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");

    return sw_json_len(ips) == 1 && sw_json_str_eq(sw_json_at(ips, 0), "None");
}

static inline bool svc_needs_node_ports(const struct sw_json *spec)
{
    return svc_type_is(spec, "NodePort") || svc_type_is(spec, "LoadBalancer");
}

static inline bool svc_needs_health_check(const struct sw_json *spec)
{
    return svc_type_is(spec, "LoadBalancer") && sw_field_is(spec, "externalTrafficPolicy", "Local");
}

static inline bool svc_externally_accessible(const struct sw_json *spec)
{
    return svc_needs_node_ports(spec) ||
           (svc_type_is(spec, "ClusterIP") && sw_json_len(sw_json_find(spec, "externalIPs")));
}

enum { SERVICE_PORTS = SW_SERVICE_PORT_MAX - SW_SERVICE_PORT_MIN + 1 };

struct svc_settle {
    struct sw_arena *a;
    struct sw_json *svc;
    struct sw_json *spec;
    const struct sw_json *was; /* stored spec, NULL when new */
    const struct sw_service_pool *pool;
    struct sw_field_errs *e;
    const char *why;
    uint8_t mine[(SERVICE_PORTS + 7) / 8]; /* ports taken by this very call */
};

/* A place in the Service that is settled: "spec.clusterIPs". */
static inline struct sw_at svc_at(const struct svc_settle *s, const char *keys)
{
    return sw_at_field(SW_WHOLE(s->svc, s->e), keys);
}

/* ---- builtin_service.c ---- */
bool svc_same(const struct sw_json *x, const struct sw_json *y, const char *key);
/* Takes a member over from the stored spec. */
void svc_carry(struct svc_settle *s, const char *key);
/* Makes a member a list of one text. */
void svc_put_list(struct svc_settle *s, const char *key, struct sw_slice one);

/* ---- builtin_service_family.c ---- */
/* ipFamilyPolicy and ipFamilies; errors are added. */
void svc_settle_families(struct svc_settle *s);

/* ---- builtin_service_port.c: node ports; these return as sw_service_settle ---- */
/* A port that has its name back gets its node port back, unless another port took it. */
void svc_carry_node_ports(struct svc_settle *s);
/* What the stored one has is not free for another port of it. */
void svc_keep_own_ports(struct svc_settle *s);
/* Of a new Service. The same port with two protocols shares one node port. */
int svc_take_new_ports(struct svc_settle *s);
int svc_take_changed_ports(struct svc_settle *s);
int svc_take_health_check(struct svc_settle *s);
/* Every requested node port is one of the stored spec. */
bool svc_no_new_node_port(const struct svc_settle *s);

/* ---- builtin_service_check_ip.c ---- */
void svc_check_source_ranges(const struct sw_at *obj, const struct sw_at *spec);
