/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TlsParameters -> versions, ciphers and groups of a handshake. Names are BoringSSL's. Lists say
 * what is allowed: an algorithm that this program does not have is passed over, as long as one is
 * left.
 */
#include <proto/tls.pb-c.h>

#include "base/def.h"
#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "proto/pb.h"

enum { KEYS = 2, CIPHERS = 3 };

static const struct {
    const char *prefix;
    uint8_t without;
} keys[KEYS] = {{"ECDHE-ECDSA-", SW_TLS_NO_ECDSA}, {"ECDHE-RSA-", SW_TLS_NO_RSA}};

static const struct {
    const char *name;
    uint8_t without;
} ciphers[CIPHERS] = {{"AES128-GCM-SHA256", SW_TLS_NO_AES_128},
                      {"AES256-GCM-SHA384", SW_TLS_NO_AES_256},
                      {"CHACHA20-POLY1305", SW_TLS_NO_CHACHA}};

static const struct {
    const char *name;
    uint8_t without;
} groups[] = {{"X25519", SW_TLS_NO_X25519}, {"P-256", SW_TLS_NO_P256}, {"P-384", SW_TLS_NO_P384}};

static void allow_suite(struct sw_slice name, bool allowed[KEYS][CIPHERS])
{
    for (size_t k = 0; k < KEYS; k++) {
        struct sw_slice prefix = sw_slice_str(keys[k].prefix);

        for (size_t c = 0; sw_slice_has_prefix(name, prefix) && c < CIPHERS; c++) {
            if (sw_slice_eq_str(sw_slice_from(name, prefix.n), ciphers[c].name))
                allowed[k][c] = true;
        }
    }
}

/* "[A|B]" is two suites of the same rank; the order among them is ours either way. */
static void allow_entry(struct sw_slice entry, bool allowed[KEYS][CIPHERS])
{
    if (entry.n > 1 && entry.p[0] == '[' && entry.p[entry.n - 1] == ']')
        entry = sw_slice(entry.p + 1, entry.n - 2);
    while (entry.p)
        allow_suite(sw_slice_cut(&entry, '|'), allowed);
}

/*
 * The library chooses keys and ciphers apart from each other, so both kinds of keys need the same
 * ciphers, or one of the two kinds none at all.
 */
static int build_suites(struct sw_gw_build *b, const Sw__TlsParameters *in, struct sw_gw_tls *t)
{
    bool allowed[KEYS][CIPHERS] = {{false}};
    bool key[KEYS] = {false};
    bool cipher[CIPHERS] = {false};

    for (size_t i = 0; i < in->n_cipher_suites; i++)
        allow_entry(SW_PB_SLICE(in->cipher_suites[i]), allowed);
    for (size_t i = 0; i < KEYS * CIPHERS; i++) {
        key[i / CIPHERS] |= allowed[i / CIPHERS][i % CIPHERS];
        cipher[i % CIPHERS] |= allowed[i / CIPHERS][i % CIPHERS];
    }
    if (!key[0] && !key[1])
        return SW_GW_BAD(b, "cipher_suites: none of them is supported");
    for (size_t i = 0; i < KEYS * CIPHERS; i++) {
        size_t k = i / CIPHERS;
        size_t c = i % CIPHERS;

        if (key[k] && cipher[c] && !allowed[k][c])
            return SW_GW_BAD(b,
                             "cipher_suites: %s%s is missing: ECDSA and RSA keys need the same "
                             "ciphers",
                             keys[k].prefix, ciphers[c].name);
    }
    for (size_t k = 0; k < KEYS; k++)
        t->without |= key[k] ? 0 : keys[k].without;
    for (size_t c = 0; c < CIPHERS; c++)
        t->without |= cipher[c] ? 0 : ciphers[c].without;
    return SW_OK;
}

static int build_groups(struct sw_gw_build *b, const Sw__TlsParameters *in, struct sw_gw_tls *t)
{
    size_t left = 0;

    for (size_t g = 0; g < SW_ARRAY_LEN(groups); g++) {
        bool listed = false;

        for (size_t i = 0; i < in->n_ecdh_curves; i++)
            listed |= sw_slice_eq_str(SW_PB_SLICE(in->ecdh_curves[i]), groups[g].name);
        left += listed;
        t->without |= listed ? 0 : groups[g].without;
    }
    return left ? SW_OK : SW_GW_BAD(b, "ecdh_curves: none of them is supported");
}

int sw_gw_build_tls_params(struct sw_gw_build *b, const struct Sw__TlsParameters *in,
                           struct sw_gw_tls *t)
{
    int rc = SW_OK;

    t->min = (enum sw_gw_tls_version)in->tls_minimum_protocol_version;
    t->max = (enum sw_gw_tls_version)in->tls_maximum_protocol_version;
    if ((unsigned)t->min > SW_GW_TLS_13 || (unsigned)t->max > SW_GW_TLS_13)
        return SW_GW_BAD(b, "unknown version");
    if (t->max == SW_GW_TLS_10 || t->max == SW_GW_TLS_11)
        return SW_GW_BAD(b, "TLS below 1.2 is not supported");
    /* The list is about TLS 1.2: the suites of TLS 1.3 cannot be chosen. */
    if (in->n_cipher_suites && t->min != SW_GW_TLS_13)
        rc = build_suites(b, in, t);
    if (rc == SW_OK && in->n_ecdh_curves)
        rc = build_groups(b, in, t);
    return rc;
}
