/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/secret.h"

#include "control/gateway/xds/xds_int.h"

static struct sw_slice encode(struct sw_arena *a, const struct sw_model_secret *s)
{
    struct sw_model_resource one;
    struct enc e = {.a = a, .res = &one, .cap = 1};

    sw_gwx_encode_secret(&e, s);
    return one.value;
}

struct sw_slice sw_link_secret_certificate(struct sw_arena *a, struct sw_slice chain_pem,
                                           struct sw_slice key_pem)
{
    return encode(a, &(struct sw_model_secret){.name = SW_SLICE_LIT(SW_LINK_CERTIFICATE),
                                               .kind = SW_MODEL_SECRET_CERT,
                                               .chain_pem = chain_pem,
                                               .key_pem = key_pem});
}

struct sw_slice sw_link_secret_validation(struct sw_arena *a, struct sw_slice ca_pem)
{
    return encode(a, &(struct sw_model_secret){.name = SW_SLICE_LIT(SW_LINK_VALIDATION),
                                               .kind = SW_MODEL_SECRET_CA,
                                               .chain_pem = ca_pem});
}
