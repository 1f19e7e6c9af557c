/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer controls of an inbound request: one byte that picks receiver and caller, then the
 * authority, a newline, and the Forwarded value. Whatever it says, the connection ends at the
 * receiver's own address, never at a port of ours, and nobody but a waypoint names the client.
 */
#include <assert.h>
#include <stdlib.h>

#include "node/local/localconfig.h"
#include "node/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char mesh[] =
    "workloads:\n"
    "- {uid: pod, namespace: a, workloadIps: [10.0.0.1], trustDomain: td, serviceAccount: pod,\n"
    "   services: {a/echo: {80: 8080}}, waypoint: {destination: /10.0.0.9, hboneMtlsPort: 15008}}\n"
    "- {uid: wp, namespace: a, workloadIps: [10.0.0.9], trustDomain: td, serviceAccount: wp,\n"
    "   services: {}}\n"
    "- {uid: tun, namespace: a, workloadIps: [10.0.0.8], trustDomain: td, serviceAccount: tun,\n"
    "   services: {}, applicationTunnel: {protocol: PROXY, port: 15088}}\n"
    "services:\n"
    "- {name: echo, namespace: a, hostname: echo, vips: [/10.96.0.1], ports: {80: 80, 81: 15008}}\n"
    "- {name: way, namespace: a, hostname: way, vips: [/10.96.0.2], ports: {80: 80},\n"
    "   waypoint: {destination: /10.0.0.9, hboneMtlsPort: 15008}}\n";

static struct sw_state *made;

/* The maps of a state keep bits of a hash in their pointers, so LeakSanitizer cannot follow them.
 */
static void free_world(void)
{
    made = sw_state_unref(made);
}

static const struct sw_state *world(void)
{
    if (made)
        return made;
    if (sw_localconfig_parse(&(struct sw_localconfig){.file = "mesh", .text = sw_slice_str(mesh)},
                             &made, NULL) != SW_OK ||
        atexit(free_world) != 0)
        abort();
    return made;
}

static void check(const struct sw_route_env *env, const struct sw_route_inbound_request *req,
                  const struct sw_route_inbound *r)
{
    struct sw_addr a;

    assert(r->status == 200 || r->status == 400 || r->status == 401 || r->status == 503);
    assert((r->status == 200) == (r->reason[0] == '\0'));
    if (r->status != 200)
        return;
    assert(sw_ip_eq(&r->rbac_dst.ip, &req->conn_dst.ip) && r->rbac_dst.port != 0);
    assert(!sw_route_own_port(env, r->connect.port));
    assert(r->from_loopback ? sw_ip_is_loopback(&r->connect.ip)
                            : sw_addr_eq(&r->connect, &r->rbac_dst));
    assert(!r->forwarded_honoured || r->from_waypoint);
    assert(r->forwarded_honoured || sw_ip_eq(&r->spoof.ip, &req->peer_ip));
    assert(!sw_ip_is_loopback(&r->spoof.ip));
    if (sw_addr_parse(req->authority, &a, NULL) == SW_OK &&
        sw_workload_is(req->local, SW_SLICE_LIT("pod")))
        assert(sw_ip_eq(&a.ip, &req->conn_dst.ip) && a.port == r->connect.port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const uids[] = {"pod", "wp", "tun"};
    static const struct sw_spiffe callers[] = {
        {SW_SLICE_LIT("td"), SW_SLICE_LIT("a"), SW_SLICE_LIT("wp")},
        {SW_SLICE_LIT("td"), SW_SLICE_LIT("b"), SW_SLICE_LIT("x")}};
    const struct sw_state *s = world();
    struct sw_route_env env = {.localhost_app_tunnel = true};
    struct sw_route_inbound_request req = {.peer_ip = {.family = 4, .b = {10, 1, 1, 1}}};
    struct sw_route_inbound r;
    struct sw_slice rest;

    if (n == 0)
        return 0;
    env.enforce_waypoint = data[0] & 1;
    req.src = data[0] & 2 ? &callers[data[0] >> 2 & 1] : NULL;
    req.local = sw_state_workload_by_uid(s, sw_slice_str(uids[(data[0] >> 3) % 3]));
    req.conn_dst = (struct sw_addr){.ip = sw_workload_ip(req.local, 0), .port = SW_PORT_HBONE};
    rest = sw_slice(data + 1, n - 1);
    req.authority = sw_slice_cut(&rest, '\n');
    req.forwarded = rest;
    sw_route_inbound_hbone(s, &env, &req, &r);
    check(&env, &req, &r);
    return 0;
}
