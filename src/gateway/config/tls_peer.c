/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a validation context requires of the peer's certificate beyond its chain: names and pins.
 * And the rules a context has to obey so that it can be enforced at all.
 */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/hex.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "proto/pb.h"
#include "tls/cert/x509.h"
#include "tls/crypto/jws.h"

enum { SANS_MAX = 256, SHA256 = 32 };

/* As SubjectAltNameMatcher.SanType counts; 0: any of them (the older, untyped field). */
enum { TYPE_ANY, TYPE_EMAIL, TYPE_DNS, TYPE_URI, TYPE_IP };

/* ---- judging ---- */

static const uint8_t type_of[] = {
    [SW_X509_SAN_EMAIL] = TYPE_EMAIL,
    [SW_X509_SAN_DNS] = TYPE_DNS,
    [SW_X509_SAN_URI] = TYPE_URI,
    [SW_X509_SAN_IP] = TYPE_IP,
};

/* A wildcard of the certificate may match an exact DNS name, as with any host name. */
static bool san_matches(const struct sw_gw_san_match *m, const struct sw_x509_san *san)
{
    if (m->type != TYPE_ANY && m->type != type_of[san->kind])
        return false;
    if (san->kind == SW_X509_SAN_DNS && m->match.kind == SW_GW_STR_EXACT)
        return sw_slice_ieq(m->match.text, san->text) ||
               (sw_slice_find(m->match.text, '*') < 0 &&
                sw_x509_name_covers(san->text, m->match.text));
    return sw_gw_str_matches(&m->match, san->text, NULL);
}

static bool any_rule(const struct sw_x509_san *san, void *arg)
{
    const struct sw_gw_tls *t = arg;

    for (size_t i = 0; i < t->n_sans; i++) {
        if (san_matches(&t->sans[i], san))
            return true;
    }
    return false;
}

static int check_pins(const struct sw_gw_tls *t, struct sw_slice leaf, struct sw_err *err)
{
    uint8_t key[SHA256];
    uint8_t whole[SHA256];

    if (t->n_pins == 0)
        return SW_OK;
    if (sw_x509_spki_sha256(leaf, key, err) != SW_OK)
        return SW_EDENIED;
    sw_digest_sha256(leaf, whole);
    for (size_t i = 0; i < t->n_pins; i++) {
        if (memcmp(t->pins[i].sha256, t->pins[i].spki ? key : whole, SHA256) == 0)
            return SW_OK;
    }
    return sw_err_set(err, SW_EDENIED, "certificate is none of the %zu pinned", t->n_pins);
}

int sw_gw_tls_leaf_ok(void *arg, struct sw_slice leaf, struct sw_err *err)
{
    const struct sw_gw_tls_want *w = arg;
    const struct sw_gw_tls *t = w->tls;
    int rc = SW_OK;

    if (t->n_sans && !t->auto_san) {
        if (!sw_x509_any_san(leaf, any_rule, (void *)(uintptr_t)t))
            rc = sw_err_set(err, SW_EDENIED, "certificate has none of the %zu names asked for",
                            t->n_sans);
    } else if (w->host && *w->host) {
        rc = sw_x509_check_host(leaf, sw_slice_str(w->host), err);
    } else if (t->auto_san || (t->system_roots && t->n_pins == 0)) {
        rc = sw_err_set(err, SW_EDENIED, "no name to check the certificate against");
    }
    return rc == SW_OK ? check_pins(t, leaf, err) : SW_EDENIED;
}

int sw_gw_tls_client_leaf_ok(void *arg, struct sw_slice leaf, struct sw_err *err)
{
    struct sw_gw_tls_want w = {.tls = arg};

    return sw_gw_tls_leaf_ok(&w, leaf, err);
}

void sw_gw_tls_client_params(const struct sw_gw_tls_want *w, struct sw_tls_params *p)
{
    const struct sw_gw_tls *t = w->tls;
    struct sw_ip ip;

    p->web = true;
    p->tls12 = t->min < SW_GW_TLS_13;
    p->tls12_only = t->max == SW_GW_TLS_12;
    p->chacha = true;
    p->without = t->without;
    p->cred = t->creds[0];
    p->alpn = t->alpn;
    p->sni = w->host && sw_ip_parse(sw_slice_str(w->host), &ip, NULL) != SW_OK ? w->host : NULL;
    p->insecure_skip = t->skip_verify || t->pins_only;
    if (!t->skip_verify) {
        p->leaf_ok = sw_gw_tls_leaf_ok;
        p->leaf_arg = (void *)(uintptr_t)w;
    }
}

/* ---- building ---- */

static int add_san(struct sw_gw_build *b, struct sw_gw_tls *t, int type, const Sw__StringMatcher *m)
{
    if (t->n_sans == SANS_MAX)
        return SW_GW_BAD(b, "more than %d name matchers", SANS_MAX);
    if (!t->sans)
        t->sans = sw_arena_array(b->arena, SANS_MAX, sizeof(*t->sans));
    t->sans[t->n_sans].type = (uint8_t)type;
    return sw_gw_build_str_match(b, m, &t->sans[t->n_sans++].match);
}

/* 64 digits, with or without colons between the bytes. */
static bool parse_hex(struct sw_slice in, uint8_t ret[SHA256])
{
    size_t n = 0;

    while (in.n && n < SHA256) {
        if (!sw_hex_read(sw_slice_head(in, 2), &ret[n++], 1))
            return false;
        in = sw_slice_from(in, 2);
        if (in.n > 1 && in.p[0] == ':')
            in = sw_slice_from(in, 1);
    }
    return n == SHA256 && in.n == 0;
}

static bool parse_base64(struct sw_slice in, uint8_t ret[SHA256])
{
    SW_BUF_AUTO raw = {0};

    sw_buf_init(&raw, 64);
    if (sw_base64_decode(&raw, in) < 0 || sw_buf_len(&raw) != SHA256)
        return false;
    memcpy(ret, sw_buf_data(&raw), SHA256);
    return true;
}

static int add_pins(struct sw_gw_build *b, struct sw_gw_tls *t, const ProtobufCBinaryData *in,
                    size_t n, bool spki)
{
    for (size_t i = 0; i < n; i++) {
        struct sw_slice text = SW_PB_SLICE(in[i]);
        struct sw_gw_pin *p;

        if (t->n_pins == SANS_MAX)
            return SW_GW_BAD(b, "more than %d pins", SANS_MAX);
        if (!t->pins)
            t->pins = sw_arena_array(b->arena, SANS_MAX, sizeof(*t->pins));
        p = &t->pins[t->n_pins];
        if (spki ? !parse_base64(text, p->sha256) : !parse_hex(text, p->sha256))
            return SW_GW_BAD(b, "verify_certificate_%s[%zu] is not a SHA-256",
                             spki ? "spki" : "hash", i);
        p->spki = spki;
        t->n_pins++;
    }
    return SW_OK;
}

int sw_gw_build_peer_rules(struct sw_gw_build *b, struct sw_gw_tls *t,
                           const Sw__CertificateValidationContext *v)
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < v->n_match_typed_subject_alt_names; i++) {
        const Sw__SubjectAltNameMatcher *m = v->match_typed_subject_alt_names[i];

        if ((int)m->san_type < TYPE_EMAIL || (int)m->san_type > TYPE_IP)
            return SW_GW_BAD(b, "san_type %d is not supported", (int)m->san_type);
        rc = add_san(b, t, (int)m->san_type, m->matcher);
    }
    for (size_t i = 0; rc == SW_OK && i < v->n_match_subject_alt_names; i++)
        rc = add_san(b, t, TYPE_ANY, v->match_subject_alt_names[i]);
    if (rc == SW_OK)
        rc = add_pins(b, t, v->verify_certificate_spki, v->n_verify_certificate_spki, true);
    if (rc == SW_OK)
        rc = add_pins(b, t, v->verify_certificate_hash, v->n_verify_certificate_hash, false);
    return rc;
}

int sw_gw_check_peer_rules(const struct sw_gw_tls *t, bool roots, bool client, struct sw_err *err)
{
    if (!t->verify || t->accept_untrusted)
        return SW_OK;
    if (!roots && t->n_sans)
        return sw_err_set(err, SW_EINVAL, "names cannot be trusted without a trusted_ca");
    if (!roots && (!client || t->n_pins == 0))
        return sw_err_set(err, SW_EINVAL, "validation context without trusted_ca");
    if (client && t->system_roots && t->n_sans == 0 && t->n_pins == 0 && !t->sni && !t->auto_sni &&
        !t->auto_host_sni)
        return sw_err_set(err, SW_EINVAL, "system roots need a SAN match, SNI or pin");
    return SW_OK;
}

/* ---- accepting ---- */

struct sw_tls *sw_gw_tls_accept(const struct sw_gw_chain *chain, struct sw_slice sni,
                                struct sw_err *err)
{
    const struct sw_gw_tls *t = chain->tls;
    struct sw_tls_params params = {
        .server = true,
        .web = true,
        .tls12 = t->min <= SW_GW_TLS_12,
        .tls12_only = t->max == SW_GW_TLS_12,
        .ticket_key = t->no_tickets ? NULL : t->ticket_key,
        .ticket_life_s = (uint32_t)sw_min(t->session_timeout_ns / SW_NS_PER_S, UINT32_MAX),
        .chacha = true,
        .without = t->without,
        .cred = sw_gw_tls_cred_for(t, sni),
        .alpn = t->alpn,
        .no_client_cert = !t->verify && !t->require_client_cert,
    };

    if (t->verify && !t->accept_untrusted && (t->n_sans || t->n_pins)) {
        params.leaf_ok = sw_gw_tls_client_leaf_ok;
        params.leaf_arg = chain->tls;
    }

    return sw_tls_new(&params, err);
}

bool sw_gw_tls_client_ok(const struct sw_gw_chain *chain, const struct sw_tls *tls,
                         const char **ret_why)
{
    const struct sw_gw_tls *t = chain->tls;
    const struct sw_tls_peer *peer = sw_tls_peer(tls);

    if (!peer && !sw_tls_peer_refused(tls) && t->require_client_cert) {
        *ret_why = "client showed no certificate";
        return false;
    }
    if (sw_tls_peer_refused(tls) && !t->accept_untrusted) {
        *ret_why = "client certificate was not accepted";
        return false;
    }
    return true;
}
