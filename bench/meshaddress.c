/* SPDX-License-Identifier: Apache-2.0 */
#include "meshaddress.h"

#include <stdint.h>

#include <proto/workload.pb-c.h>

#include "base/arena.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/cache.h"
#include "xds/txn.h"

enum {
    PER_NODE = 30,
    PER_APP = 10,
    APPS_PER_NS = 50,
    TXN = 10000, /* resources of one commit */
};

static size_t app_of(size_t i)
{
    return i / PER_APP;
}

static size_t ns_of(size_t app)
{
    return app / APPS_PER_NS;
}

/* As Deployments name pods: both suffixes have no meaning, but a length. */
static const char *pod_name(struct sw_arena *a, size_t i)
{
    uint32_t mix = (uint32_t)i * 2654435761U;

    return sw_arena_printf(a, "app-%zu-%08x-%05x", app_of(i), (uint32_t)app_of(i) * 40503U,
                           mix >> 12);
}

static const char *host_of(struct sw_arena *a, size_t app)
{
    return sw_arena_printf(a, "app-%zu.ns-%zu.svc.cluster.local", app, ns_of(app));
}

static const char *service_key(struct sw_arena *a, size_t app)
{
    return sw_arena_printf(a, "ns-%zu/%s", ns_of(app), host_of(a, app));
}

static ProtobufCBinaryData text(const char *s)
{
    return SW_PB_BYTES(sw_slice_str(s));
}

static ProtobufCBinaryData ip(struct sw_arena *a, uint8_t first, size_t i)
{
    const char b[] = {(char)first, (char)(i >> 16), (char)(i >> 8), (char)i};

    return SW_PB_BYTES(sw_arena_slice(a, sw_slice(b, sizeof(b))));
}

static struct sw_slice alias(struct sw_arena *a, uint8_t first, size_t i)
{
    return sw_slice_str(
        sw_arena_printf(a, "/%u.%zu.%zu.%zu", first, i >> 16 & 255, i >> 8 & 255, i & 255));
}

static Sw__MeshPort **one_port(struct sw_arena *a)
{
    Sw__MeshPort **ports = sw_arena_array(a, 1, sizeof(*ports));

    ports[0] = SW_PB_NEW(a, Sw__MeshPort, sw__mesh_port);
    ports[0]->service_port = 80;
    ports[0]->target_port = 8080;
    return ports;
}

static Sw__MeshWorkload *workload(struct sw_arena *a, size_t i)
{
    Sw__MeshWorkload *w = SW_PB_NEW(a, Sw__MeshWorkload, sw__mesh_workload);
    Sw__MeshServicePorts *in = SW_PB_NEW(a, Sw__MeshServicePorts, sw__mesh_service_ports);
    size_t app = app_of(i);
    const char *ns = sw_arena_printf(a, "ns-%zu", ns_of(app));
    const char *name = pod_name(a, i);

    w->uid = text(sw_arena_printf(a, "Kubernetes//Pod/%s/%s", ns, name));
    w->namespace_ = text(ns);
    w->name = text(name);
    w->network = text("");
    w->cluster_id = text("Kubernetes");
    w->trust_domain = text("mesh.example");
    w->service_account = text(sw_arena_printf(a, "app-%zu", app));
    w->workload_name = text(sw_arena_printf(a, "app-%zu", app));
    w->canonical_name = text(sw_arena_printf(a, "app-%zu", app));
    w->canonical_revision = text("v1");
    w->workload_type = SW__MESH_WORKLOAD__TYPE__POD;
    w->tunnel_protocol = SW__MESH_WORKLOAD__TUNNEL_PROTOCOL__HBONE;
    w->status = SW__MESH_WORKLOAD__STATUS__HEALTHY;
    w->node = text(sw_arena_printf(a, "node-%zu", i / PER_NODE));
    w->locality = SW_PB_NEW(a, Sw__MeshLocality, sw__mesh_locality);
    w->locality->region = text("eu-west-1");
    w->locality->zone = text(sw_arena_printf(a, "eu-west-1%c", (int)('a' + i / PER_NODE % 3)));
    w->addresses = sw_arena_array(a, 1, sizeof(*w->addresses));
    w->addresses[0] = ip(a, 10, i);
    w->n_addresses = 1;
    in->key = text(service_key(a, app));
    in->value = SW_PB_NEW(a, Sw__MeshPortList, sw__mesh_port_list);
    in->value->ports = one_port(a);
    in->value->n_ports = 1;
    w->services = sw_arena_array(a, 1, sizeof(*w->services));
    w->services[0] = in;
    w->n_services = 1;
    return w;
}

static int put_workload(struct sw_xds_txn *t, struct sw_arena *a, size_t i)
{
    Sw__MeshAddress *m = SW_PB_NEW(a, Sw__MeshAddress, sw__mesh_address);
    struct sw_slice aliases[] = {alias(a, 10, i)};
    struct sw_slice services[1];

    m->type_case = SW__MESH_ADDRESS__TYPE_WORKLOAD;
    m->workload = workload(a, i);
    services[0] = SW_PB_SLICE(m->workload->services[0]->key);
    return sw_xds_txn_set_extra(t, SW_TYPE_ADDRESS, SW_PB_SLICE(m->workload->uid),
                                sw_pb_pack(a, &m->base),
                                &(struct sw_xds_extra){.aliases = aliases,
                                                       .n_aliases = 1,
                                                       .node = SW_PB_SLICE(m->workload->node),
                                                       .services = services,
                                                       .n_services = 1},
                                NULL);
}

static int put_service(struct sw_xds_txn *t, struct sw_arena *a, size_t app)
{
    Sw__MeshAddress *m = SW_PB_NEW(a, Sw__MeshAddress, sw__mesh_address);
    Sw__MeshService *s = SW_PB_NEW(a, Sw__MeshService, sw__mesh_service);
    struct sw_slice aliases[] = {alias(a, 172, app)};

    m->type_case = SW__MESH_ADDRESS__TYPE_SERVICE;
    m->service = s;
    s->name = text(sw_arena_printf(a, "app-%zu", app));
    s->namespace_ = text(sw_arena_printf(a, "ns-%zu", ns_of(app)));
    s->hostname = text(host_of(a, app));
    s->canonical = true;
    s->ip_families = SW__MESH_IPFAMILIES__IPV4_ONLY;
    s->addresses = sw_arena_array(a, 1, sizeof(*s->addresses));
    s->addresses[0] = SW_PB_NEW(a, Sw__MeshNetworkAddress, sw__mesh_network_address);
    s->addresses[0]->address = ip(a, 172, app);
    s->n_addresses = 1;
    s->ports = one_port(a);
    s->n_ports = 1;
    return sw_xds_txn_set_extra(t, SW_TYPE_ADDRESS, sw_slice_str(service_key(a, app)),
                                sw_pb_pack(a, &m->base),
                                &(struct sw_xds_extra){.aliases = aliases, .n_aliases = 1}, NULL);
}

int mesh_address_fill(struct sw_xds_cache *cache, size_t workloads)
{
    SW_ARENA_AUTO a = {0};
    int rc = SW_OK;

    for (size_t from = 0; from < workloads && rc == SW_OK; from += TXN) {
        struct sw_xds_txn *t = sw_xds_txn_new();

        for (size_t i = from; i < workloads && i < from + TXN && rc == SW_OK; i++) {
            rc = put_workload(t, &a, i);
            if (rc == SW_OK && i % PER_APP == 0)
                rc = put_service(t, &a, app_of(i));
            sw_arena_reset(&a, 1 << 16);
        }
        if (rc == SW_OK)
            (void)sw_xds_cache_commit(cache, t);
        else
            sw_xds_txn_free(t);
    }
    return rc;
}
