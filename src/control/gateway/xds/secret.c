/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, keys and trusted roots. Only these resources hold key material. */
#include <proto/core.pb-c.h>
#include <proto/tls.pb-c.h>

#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"

static Sw__DataSource *inline_bytes(struct enc *e, struct sw_slice s)
{
    Sw__DataSource *d = SW_PB_NEW(e->a, Sw__DataSource, sw__data_source);

    d->specifier_case = SW__DATA_SOURCE__SPECIFIER_INLINE_BYTES;
    d->inline_bytes = SW_PB_BYTES(s);
    return d;
}

void sw_gwx_encode_secret(struct enc *e, const struct sw_model_secret *s)
{
    Sw__Secret *to = SW_PB_NEW(e->a, Sw__Secret, sw__secret);

    to->name = SW_PB_BYTES(s->name);
    switch (s->kind) {
    case SW_MODEL_SECRET_CERT:
        to->type_case = SW__SECRET__TYPE_TLS_CERTIFICATE;
        to->tls_certificate = SW_PB_NEW(e->a, Sw__TlsCertificate, sw__tls_certificate);
        to->tls_certificate->certificate_chain = inline_bytes(e, s->chain_pem);
        to->tls_certificate->private_key = inline_bytes(e, s->key_pem);
        break;
    case SW_MODEL_SECRET_CA:
        to->type_case = SW__SECRET__TYPE_VALIDATION_CONTEXT;
        to->validation_context =
            SW_PB_NEW(e->a, Sw__CertificateValidationContext, sw__certificate_validation_context);
        to->validation_context->trusted_ca = inline_bytes(e, s->chain_pem);
        break;
    }
    sw_gwx_enc_add(e, SW_TYPE_SECRET, s->name, &to->base);
}
