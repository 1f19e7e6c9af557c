/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/request.h"

#include "io/addr.h"
#include "kube/names.h"
#include "proto/pb.h"

#include <proto/join.pb-c.h>

bool sw_join_gateway_ok(struct sw_slice at)
{
    struct sw_slice host;
    struct sw_ip ip;
    uint16_t port;

    if (at.n > SW_JOIN_ADDRESS_MAX || sw_authority_split(at, &host, &port, NULL) != SW_OK)
        return false;
    return sw_ip_parse(host, &ip, NULL) == SW_OK || sw_name_dns1123_subdomain(host).n == 0;
}

static int read_gateways(const Sw__JoinRequest *m, struct sw_join_gateways *ret, struct sw_err *err)
{
    if (m->n_gateways > SW_JOIN_GATEWAYS_MAX)
        return sw_err_set(err, SW_EINVAL, "more than %d gateways", SW_JOIN_GATEWAYS_MAX);
    for (size_t i = 0; i < m->n_gateways; i++) {
        ret->at[i] = SW_PB_SLICE(m->gateways[i]);
        if (!sw_join_gateway_ok(ret->at[i]))
            return sw_err_set(err, SW_EINVAL, "a gateway is not HOST:PORT");
    }
    ret->n = m->n_gateways;
    return SW_OK;
}

static const Sw__JoinRequest *unpack(struct sw_arena *a, struct sw_slice msg, struct sw_err *err)
{
    const struct sw_pb_limits limits = {.bytes = SW_JOIN_REQUEST_MAX, .depth = 2};

    return SW_PB_UNPACK(a, Sw__JoinRequest, sw__join_request, msg, &limits, err);
}

int sw_join_request_read(struct sw_arena *a, struct sw_slice msg, struct sw_join_request *ret,
                         struct sw_err *err)
{
    const Sw__JoinRequest *m = unpack(a, msg, err);
    struct sw_slice host;

    if (!m)
        return err ? err->rc : SW_EPROTO;
    if (!sw_join_id_ok(SW_PB_SLICE(m->id)))
        return sw_err_set(err, SW_EINVAL, "the id is not NAMESPACE/NAME");
    if (m->secret.len != SW_JOIN_SECRET)
        return sw_err_set(err, SW_EINVAL, "the secret has %zu bytes", m->secret.len);
    host = SW_PB_SLICE(m->host);
    *ret = (struct sw_join_request){
        .id = SW_PB_SLICE(m->id),
        .secret = m->secret.data,
        .csr = SW_PB_SLICE(m->csr),
        .host = sw_name_dns1123_subdomain(host).n == 0 ? host : sw_slice("", 0)};
    return read_gateways(m, &ret->gateways, err);
}

int sw_join_renewal_read(struct sw_arena *a, struct sw_slice msg, struct sw_join_request *ret,
                         struct sw_err *err)
{
    const Sw__JoinRequest *m = unpack(a, msg, err);

    if (!m)
        return err ? err->rc : SW_EPROTO;
    *ret = (struct sw_join_request){.csr = SW_PB_SLICE(m->csr)};
    return read_gateways(m, &ret->gateways, err);
}
