/* SPDX-License-Identifier: Apache-2.0 */
#include "node/cert/ca_answer.h"

#include <string.h>

#include "base/buf.h"
#include "proto/pb.h"
#include "tls/cert/pemfile.h"

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

struct sw_slice sw_ca_request(struct sw_arena *a, struct sw_slice csr, uint64_t ttl_s,
                              struct sw_slice impersonate)
{
    Sw__IstioCertificateRequest *r =
        SW_PB_NEW(a, Sw__IstioCertificateRequest, sw__istio_certificate_request);
    Sw__StructField *f;

    r->csr = SW_PB_BYTES(csr);
    r->validity_duration = (int64_t)sw_min(ttl_s, (uint64_t)INT64_MAX);
    if (impersonate.n) {
        f = SW_PB_NEW(a, Sw__StructField, sw__struct_field);
        f->key = SW_PB_LIT("ImpersonatedIdentity");
        f->value = SW_PB_NEW(a, Sw__Value, sw__value);
        f->value->kind_case = SW__VALUE__KIND_STRING_VALUE;
        f->value->string_value = SW_PB_BYTES(impersonate);
        r->metadata = SW_PB_NEW(a, Sw__Struct, sw__struct);
        r->metadata->fields = sw_arena_array(a, 1, sizeof(*r->metadata->fields));
        r->metadata->fields[r->metadata->n_fields++] = f;
    }
    return sw_pb_pack(a, &r->base);
}

static int join_chain(const Sw__IstioCertificateResponse *r, struct sw_buf *out, struct sw_err *err)
{
    for (size_t i = 0; i + 1 < r->n_cert_chain; i++) {
        struct sw_slice rest = SW_PB_SLICE(r->cert_chain[i]);
        struct sw_slice pem;

        if (sw_pem_next_cert(&rest, &pem) != SW_OK)
            return sw_err_set(err, SW_EPROTO, "element %zu of the answer is not a certificate", i);
        if (sw_buf_append(out, pem.p, pem.n) != SW_OK || sw_buf_append(out, "\n", 1) != SW_OK)
            return sw_err_set(err, SW_ELIMIT, "certificate chain of the answer is too long");
    }
    return SW_OK;
}

/* Fail closed: a certificate of another workload must never be shown as this one's. */
static int check(const struct sw_tls_cred *cred, struct sw_slice identity, struct sw_err *err)
{
    struct sw_slice got = sw_tls_cred_uri(cred);

    if (!sw_slice_eq(got, identity))
        return sw_err_set(err, SW_EDENIED, "the authority issued a certificate for '%.*s'",
                          SW_SLICE_ARG_MAX(got, 120));
    return sw_tls_cred_check_chain(cred, err);
}

struct sw_tls_cred *sw_ca_answer(struct sw_slice msg, const struct sw_ca_expect *e,
                                 struct sw_err *err)
{
    static const struct sw_pb_limits limits = {
        .bytes = SW_CA_ANSWER_MAX, .memory = (size_t)4 << 20, .depth = 4};
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO chain = {.max = SW_CA_ANSWER_MAX};
    const Sw__IstioCertificateResponse *r = SW_PB_UNPACK(
        &a, Sw__IstioCertificateResponse, sw__istio_certificate_response, msg, &limits, err);
    struct sw_tls_cred *cred;

    if (!r)
        return NULL;
    if (r->n_cert_chain < 2 || r->n_cert_chain > SW_CA_ELEMENTS_MAX) {
        (void)sw_err_set(err, SW_EPROTO,
                         "answer has %zu elements: needs a leaf and a root bundle, at most %d",
                         r->n_cert_chain, SW_CA_ELEMENTS_MAX);
        return NULL;
    }
    if (join_chain(r, &chain, err) != SW_OK)
        return NULL;
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                  .key = e->key,
                                  .roots = SW_PB_SLICE(r->cert_chain[r->n_cert_chain - 1]),
                                  .crl = e->crl},
        err);
    if (cred && check(cred, e->identity, err) != SW_OK)
        cred = sw_tls_cred_unref(cred);
    return cred;
}
