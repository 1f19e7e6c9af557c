/* SPDX-License-Identifier: Apache-2.0 */
/* TLS contexts and secrets -> credentials. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "gateway/config/cred.h"
#include "gateway/config/ticket.h"
#include "gateway/config/tls.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509.h"

enum { CERTS_MAX = 64 };

/* Requirements on the peer, gathered from the context and its secrets. */
struct trust {
    struct sw_slice roots;
    struct sw_slice crl;
    bool given;
    bool accept_untrusted;
    bool system;
};

static const char system_bundle[] = "/etc/ssl/certs/ca-certificates.crt";

struct sw_tls_cred *sw_gw_tls_cred_for(const struct sw_gw_tls *t, struct sw_slice sni)
{
    for (size_t i = 0; t->n_creds > 1 && sni.n && i < t->n_creds; i++) {
        struct sw_err err;

        if (t->ders[i].n && sw_x509_check_host(t->ders[i], sni, &err) == SW_OK)
            return t->creds[i];
    }
    return t->n_creds ? t->creds[0] : NULL;
}

/* ---- validation contexts ---- */

static int add_validation(struct sw_gw_build *b, struct sw_gw_tls *t,
                          const Sw__CertificateValidationContext *v, struct trust *trust)
{
    struct sw_slice data;
    int rc = sw_gw_build_source(b, v->trusted_ca, SW_TLS_PEM_MAX, &data);

    if (rc == SW_OK && data.n)
        trust->roots = data;
    if (rc == SW_OK)
        rc = sw_gw_build_source(b, v->crl, SW_TLS_PEM_MAX, &data);
    if (rc == SW_OK && data.n)
        trust->crl = data;
    trust->given = true;
    trust->system |= v->system_root_certs != NULL;
    trust->accept_untrusted |=
        v->trust_chain_verification ==
        SW__CERTIFICATE_VALIDATION_CONTEXT__TRUST_CHAIN_VERIFICATION__ACCEPT_UNTRUSTED;
    return rc == SW_OK ? sw_gw_build_peer_rules(b, t, v) : rc;
}

static const Sw__Secret *open_secret(struct sw_gw_build *b, const Sw__SdsSecretConfig *ref)
{
    struct sw_slice bytes = sw_gw_need_secret(b, SW_PB_SLICE(ref->name));

    return bytes.p ? SW_PB_UNPACK(b->tmp, Sw__Secret, sw__secret, bytes, NULL, b->err) : NULL;
}

static int add_secret_validation(struct sw_gw_build *b, struct sw_gw_tls *t,
                                 const Sw__SdsSecretConfig *ref, struct trust *trust)
{
    const Sw__Secret *s;

    if (!ref)
        return SW_GW_BAD(b, "secret without a name");
    s = open_secret(b, ref);
    if (!s)
        return SW_OK; /* it is missing, which was noted */
    if (s->type_case != SW__SECRET__TYPE_VALIDATION_CONTEXT)
        return SW_GW_BAD(b, "secret '%.*s' is not a validation context",
                         SW_SLICE_ARG_MAX(SW_PB_SLICE(ref->name), 60));
    return add_validation(b, t, s->validation_context, trust);
}

static int build_trust(struct sw_gw_build *b, struct sw_gw_tls *t, const Sw__CommonTlsContext *c,
                       struct trust *trust)
{
    int rc = SW_OK;

    switch ((int)c->validation_context_type_case) {
    case SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT:
        rc = add_validation(b, t, c->validation_context, trust);
        break;
    case SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT_SDS_SECRET_CONFIG:
        rc = add_secret_validation(b, t, c->validation_context_sds_secret_config, trust);
        trust->given = true;
        break;
    case SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_COMBINED_VALIDATION_CONTEXT:
        if (c->combined_validation_context->default_validation_context)
            rc = add_validation(b, t, c->combined_validation_context->default_validation_context,
                                trust);
        if (rc == SW_OK)
            rc = add_secret_validation(
                b, t, c->combined_validation_context->validation_context_sds_secret_config, trust);
        trust->given = true;
        break;
    default:
        break;
    }
    if (rc == SW_OK && trust->system && trust->roots.n == 0) {
        struct sw_slice file;

        rc = sw_file_read(system_bundle, SW_TLS_PEM_MAX, &file, b->err);
        if (rc < 0)
            return SW_EINVAL;
        trust->roots = sw_arena_slice(b->arena, file);
        sw_slice_free(&file);
        t->system_roots = true;
    }
    t->verify = trust->given;
    t->accept_untrusted = trust->accept_untrusted;
    return rc;
}

/* ---- certificates ---- */

static int add_cred(struct sw_gw_build *b, struct sw_gw_tls *t, const Sw__TlsCertificate *cert,
                    const struct trust *trust)
{
    struct sw_tls_cred_pem pem = {.roots = trust->roots, .crl = trust->crl, .any_identity = true};
    int rc = SW_OK;

    if (cert) {
        rc = sw_gw_build_source(b, cert->certificate_chain, SW_TLS_PEM_MAX, &pem.chain);
        if (rc == SW_OK)
            rc = sw_gw_build_source(b, cert->private_key, SW_TLS_PEM_MAX, &pem.key);
        if (rc < 0)
            return rc;
        if (pem.chain.n == 0 || pem.key.n == 0)
            return SW_GW_BAD(b, "certificate without chain or key");
    }
    if (t->n_creds == CERTS_MAX)
        return SW_GW_BAD(b, "more than %d certificates", CERTS_MAX);
    pem.trust_nobody = pem.roots.n == 0;
    t->creds[t->n_creds] = sw_gw_cred_get(b->source ? b->source->creds : NULL, &pem, b->err);
    if (!t->creds[t->n_creds])
        return SW_EINVAL;
    t->ders[t->n_creds] = cert ? sw_pem_leaf_der(b->arena, pem.chain) : sw_slice(NULL, 0);
    t->n_creds++;
    if (pem.key.n) { /* the credential has its own copy */
        char *key = (char *)(uintptr_t)pem.key.p;

        explicit_bzero(key, pem.key.n);
    }
    return SW_OK;
}

static int build_certs(struct sw_gw_build *b, struct sw_gw_tls *t, const Sw__CommonTlsContext *c,
                       const struct trust *trust)
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < c->n_tls_certificates; i++)
        rc = add_cred(b, t, c->tls_certificates[i], trust);
    for (size_t i = 0; rc == SW_OK && i < c->n_tls_certificate_sds_secret_configs; i++) {
        const Sw__SdsSecretConfig *ref = c->tls_certificate_sds_secret_configs[i];
        const Sw__Secret *s = open_secret(b, ref);

        if (!s)
            continue;
        if (s->type_case != SW__SECRET__TYPE_TLS_CERTIFICATE)
            return SW_GW_BAD(b, "secret '%.*s' is not a certificate",
                             SW_SLICE_ARG_MAX(SW_PB_SLICE(ref->name), 60));
        rc = add_cred(b, t, s->tls_certificate, trust);
        if (rc < 0)
            return sw_err_prefix(b->err, "secret '%.*s'",
                                 SW_SLICE_ARG_MAX(SW_PB_SLICE(ref->name), 60));
    }
    return rc;
}

static int build_common(struct sw_gw_build *b, struct sw_gw_tls *t, const Sw__CommonTlsContext *c,
                        bool client)
{
    struct trust trust = {0};
    SW_BUF_AUTO alpn = {0};
    int rc;

    sw_buf_init(&alpn, 256);
    t->creds = sw_arena_array(b->arena, CERTS_MAX, sizeof(struct sw_tls_cred *));
    t->ders = sw_arena_array(b->arena, CERTS_MAX, sizeof(*t->ders));
    for (size_t i = 0; i < c->n_alpn_protocols; i++) {
        struct sw_slice p = SW_PB_SLICE(c->alpn_protocols[i]);

        if (p.n == 0 || sw_slice_find(p, ',') >= 0 ||
            sw_buf_printf(&alpn, "%s%.*s", i ? "," : "", SW_SLICE_ARG(p)) < 0)
            return SW_GW_BAD(b, "alpn_protocols: bad list");
    }
    if (sw_buf_len(&alpn))
        t->alpn = sw_arena_dup(b->arena, sw_buf_slice(&alpn));
    if (c->tls_params && sw_gw_build_tls_params(b, c->tls_params, t) < 0)
        return sw_err_prefix(b->err, "tls_params");
    rc = build_trust(b, t, c, &trust);
    if (rc == SW_OK && !b->missing)
        rc = sw_gw_check_peer_rules(t, trust.roots.n != 0, client, b->err);
    t->pins_only = client && t->verify && trust.roots.n == 0 && t->n_pins != 0;
    if (rc == SW_OK)
        rc = build_certs(b, t, c, &trust);
    if (rc == SW_OK && client && t->n_creds == 0)
        rc = add_cred(b, t, NULL, &trust);
    return rc;
}

/* ---- transport sockets ---- */

static int build_down(struct sw_gw_build *b, const void *msg, struct sw_gw_tls *t,
                      const struct sw_gw_up_names *names)
{
    const Sw__DownstreamTlsContext *in = msg;
    int rc;

    if (!in->common_tls_context)
        return SW_GW_BAD(b, "common_tls_context missing");
    t->require_client_cert =
        in->require_client_certificate && in->require_client_certificate->value;
    t->require_sni = in->require_sni && in->require_sni->value;
    t->session_timeout_ns = sw_gw_duration(in->session_timeout, 0);
    rc = build_common(b, t, in->common_tls_context, false);
    if (rc == SW_OK)
        rc = sw_gw_build_tickets(b, in, t);
    if (rc == SW_OK && t->n_creds == 0 && !b->missing)
        return SW_GW_BAD(b, "a listener's TLS needs a certificate");
    if (rc == SW_OK && t->require_client_cert && !t->verify)
        return SW_GW_BAD(b, "require_client_certificate without a validation context");
    return rc;
}

static int build_up(struct sw_gw_build *b, const void *msg, struct sw_gw_tls *t,
                    const struct sw_gw_up_names *names)
{
    const Sw__UpstreamTlsContext *in = msg;
    int rc;

    if (!in->common_tls_context)
        return SW_GW_BAD(b, "common_tls_context missing");
    if (in->sni.len)
        t->sni = sw_arena_dup(b->arena, SW_PB_SLICE(in->sni));
    t->auto_sni = names->auto_sni;
    t->auto_host_sni = in->auto_host_sni;
    t->auto_san = in->auto_sni_san_validation || names->auto_san;
    rc = build_common(b, t, in->common_tls_context, true);
    t->skip_verify = !t->verify || t->accept_untrusted;
    return rc;
}

/* The TLS of one side of the gateway: the message that configures it, and what it becomes. */
struct side {
    const ProtobufCMessageDescriptor *type;
    int (*build)(struct sw_gw_build *b, const void *msg, struct sw_gw_tls *t,
                 const struct sw_gw_up_names *names);
    uint64_t key[2]; /* of the hash: the same bytes differ between the sides */
};

static int build_side(struct sw_gw_build *b, const Sw__TransportSocket *s, const struct side *side,
                      const struct sw_gw_up_names *names, struct sw_gw_tls **ret)
{
    struct sw_arena *outer = b->arena;
    size_t first = b->regexes.n;
    struct sw_gw_tls *t;
    const void *in;
    int rc;

    *ret = NULL;
    if (!s || sw_pb_any_is(s->typed_config, &sw__raw_buffer__descriptor))
        return SW_OK;
    if (!sw_pb_any_is(s->typed_config, side->type))
        return SW_GW_BAD(b, "transport_socket '%.*s': type not supported",
                         SW_SLICE_ARG_MAX(SW_PB_SLICE(s->name), 60));
    in = sw_gw_open_any(b, s->typed_config, side->type);
    if (!in)
        return SW_EINVAL;
    t = SW_NEW(struct sw_gw_tls);
    atomic_init(&t->refs, 1);
    b->arena = &t->arena;
    rc = side->build(b, in, t, names);
    b->arena = outer;
    t->regexes = sw_gw_take_regexes(b, first, &t->n_regexes);
    if (rc == SW_OK)
        t->hash = sw_siphash13(side->key[0], side->key[1], s->typed_config->value.data,
                               s->typed_config->value.len);
    *ret = rc == SW_OK ? t : sw_gw_tls_unref(t);
    return rc;
}

int sw_gw_build_tls_down(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                         struct sw_gw_tls **ret)
{
    static const struct side down = {&sw__downstream_tls_context__descriptor, build_down, {1, 2}};

    return build_side(b, s, &down, NULL, ret);
}

int sw_gw_build_tls_up(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                       const struct sw_gw_up_names *names, struct sw_gw_tls **ret)
{
    static const struct side up = {&sw__upstream_tls_context__descriptor, build_up, {3, 4}};

    return build_side(b, s, &up, names, ret);
}

/* ---- secrets ---- */

int sw_gw_check_secret(struct sw_slice bytes, struct sw_slice *ret_name, struct sw_arena *a,
                       struct sw_err *err)
{
    struct sw_gw_tls t = {0};
    struct sw_tls_cred *creds[CERTS_MAX];
    struct sw_slice ders[CERTS_MAX];
    struct sw_gw_build b = {.arena = a, .tmp = a, .err = err};
    const Sw__Secret *s = sw_gw_unpack(&b, &sw__secret__descriptor, bytes);
    struct trust trust = {0};
    int rc = SW_OK;

    if (!s)
        return SW_EINVAL;
    t.creds = creds;
    t.ders = ders;
    *ret_name = SW_PB_SLICE(s->name);
    switch ((int)s->type_case) {
    case SW__SECRET__TYPE_TLS_CERTIFICATE:
        rc = add_cred(&b, &t, s->tls_certificate, &trust);
        break;
    case SW__SECRET__TYPE_VALIDATION_CONTEXT:
        rc = add_validation(&b, &t, s->validation_context, &trust);
        if (rc == SW_OK && trust.roots.n)
            rc = add_cred(&b, &t, NULL, &trust);
        break;
    case SW__SECRET__TYPE_SESSION_TICKET_KEYS:
    case SW__SECRET__TYPE_GENERIC_SECRET:
        break;
    default:
        rc = sw_err_set(err, SW_EINVAL, "unsupported secret type");
        break;
    }
    for (size_t i = 0; i < t.n_creds; i++)
        (void)sw_tls_cred_unref(t.creds[i]);
    sw_gw_build_done(&b);
    return rc;
}
