/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of session tickets. Each chain of each listener has one of its own, made from the secret
 * (configured, or random) and everything a client had to satisfy: a ticket opens only where it was
 * given out, and not after the rules or certificates changed.
 */
#include <proto/core.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/vec.h"
#include "gateway/config/build.h"
#include "gateway/config/ticket.h"
#include "proto/pb.h"
#include "tls/cert/x509.h"

enum { KEY_LEN = 80, KEYS_MAX = 16 }; /* as Envoy has them: name, HMAC key, AES key */

static int take_keys(struct sw_gw_build *b, struct sw_gw_tls *t, const Sw__TlsSessionTicketKeys *in)
{
    if (in->n_keys == 0 || in->n_keys > KEYS_MAX)
        return SW_GW_BAD(b, "session_ticket_keys: 1 to %d are needed", KEYS_MAX);
    for (size_t i = 0; i < in->n_keys; i++) {
        struct sw_slice key;
        int rc = sw_gw_build_source(b, in->keys[i], 4096, &key);

        if (rc != SW_OK)
            return rc;
        if (key.n != KEY_LEN)
            return SW_GW_BAD(b, "session_ticket_keys: a key has %d bytes", KEY_LEN);
        /* Tickets under the others cost their holder a full handshake. */
        if (i == 0)
            t->ticket_master = key;
    }
    return SW_OK;
}

int sw_gw_build_tickets(struct sw_gw_build *b, const Sw__DownstreamTlsContext *in,
                        struct sw_gw_tls *t)
{
    const Sw__SdsSecretConfig *ref;
    const Sw__Secret *s;
    struct sw_slice bytes;

    switch ((int)in->session_ticket_keys_type_case) {
    case SW__DOWNSTREAM_TLS_CONTEXT__SESSION_TICKET_KEYS_TYPE_DISABLE_STATELESS_SESSION_RESUMPTION:
        t->no_tickets = in->disable_stateless_session_resumption;
        return SW_OK;
    case SW__DOWNSTREAM_TLS_CONTEXT__SESSION_TICKET_KEYS_TYPE_SESSION_TICKET_KEYS:
        return take_keys(b, t, in->session_ticket_keys);
    case SW__DOWNSTREAM_TLS_CONTEXT__SESSION_TICKET_KEYS_TYPE_SESSION_TICKET_KEYS_SDS_SECRET_CONFIG:
        break;
    default:
        return SW_OK;
    }
    ref = in->session_ticket_keys_sds_secret_config;
    bytes = sw_gw_need_secret(b, SW_PB_SLICE(ref->name));
    if (!bytes.p)
        return SW_OK; /* it is missing, which was noted */
    s = SW_PB_UNPACK(b->tmp, Sw__Secret, sw__secret, bytes, NULL, b->err);
    if (!s)
        return SW_EINVAL;
    if (s->type_case != SW__SECRET__TYPE_SESSION_TICKET_KEYS)
        return SW_GW_BAD(b, "secret '%.*s' does not hold session ticket keys",
                         SW_SLICE_ARG_MAX(SW_PB_SLICE(ref->name), 60));
    return take_keys(b, t, s->session_ticket_keys);
}

typedef SW_VEC(struct sw_slice) slices;

static int seal_chain(const struct sw_gw_listener *l, const struct sw_gw_chain *c,
                      struct sw_err *err)
{
    struct sw_gw_tls *t = c->tls;
    uint64_t hashes[2] = {c->hash, t ? t->hash : 0};
    uint8_t scope[32];
    slices parts = {0};

    if (!t || t->no_tickets)
        return SW_OK;
    sw_vec_push(&parts, l->name);
    sw_vec_push(&parts, sw_slice(hashes, sizeof(hashes)));
    for (size_t i = 0; i < t->n_creds; i++) {
        const struct sw_tls_cert_info *roots;
        size_t n = sw_tls_cred_roots(t->creds[i], &roots);

        sw_vec_push(&parts, t->ders[i]);
        for (size_t k = 0; k < n; k++)
            sw_vec_push(&parts, roots[k].pem);
    }
    sw_x509_digest(parts.p, parts.n, scope);
    sw_vec_done(&parts);
    return sw_tls_ticket_key(t->ticket_master, sw_slice(scope, sizeof(scope)), t->ticket_key, err);
}

int sw_gw_seal_tickets(struct sw_gw_listener *l, struct sw_err *err)
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < l->n_chains; i++)
        rc = seal_chain(l, &l->chains[i], err);
    if (rc == SW_OK && l->default_chain)
        rc = seal_chain(l, l->default_chain, err);
    return rc;
}
