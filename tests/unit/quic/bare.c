/* SPDX-License-Identifier: Apache-2.0 */
#include "bare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "base/rand.h"
#include "io/dgram.h"

#define COMMON "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519:%DISABLE_TLS13_COMPAT_MODE"

static int on_message(gnutls_session_t session, gnutls_record_encryption_level_t level,
                      gnutls_handshake_description_t type, const void *p, size_t n)
{
    return ngtcp2_conn_submit_crypto_data(gnutls_session_get_ptr(session),
                                          NGTCP2_CRYPTO_LEVEL_INITIAL, p, n);
}

static void on_rand(uint8_t *p, size_t n, const ngtcp2_rand_ctx *ctx)
{
    sw_rand_bytes(p, n);
}

static int on_new_cid(ngtcp2_conn *nc, ngtcp2_cid *cid, uint8_t *token, size_t n, void *user)
{
    sw_rand_bytes(cid->data, n);
    cid->datalen = n;
    return 0;
}

static int on_crypto(ngtcp2_conn *nc, ngtcp2_crypto_level level, uint64_t offset, const uint8_t *p,
                     size_t n, void *user)
{
    return 0; /* nothing is read */
}

static ngtcp2_conn *make_conn(const struct sw_addr *to)
{
    ngtcp2_callbacks cb = {.client_initial = ngtcp2_crypto_client_initial_cb,
                           .recv_crypto_data = on_crypto,
                           .encrypt = ngtcp2_crypto_encrypt_cb,
                           .decrypt = ngtcp2_crypto_decrypt_cb,
                           .hp_mask = ngtcp2_crypto_hp_mask_cb,
                           .recv_retry = ngtcp2_crypto_recv_retry_cb,
                           .rand = on_rand,
                           .get_new_connection_id = on_new_cid,
                           .update_key = ngtcp2_crypto_update_key_cb,
                           .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
                           .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
                           .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
                           .version_negotiation = ngtcp2_crypto_version_negotiation_cb};
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(to, &ss);
    ngtcp2_path path = {.local = {(ngtcp2_sockaddr *)&ss, len},
                        .remote = {(ngtcp2_sockaddr *)&ss, len}};
    ngtcp2_cid scid = {.datalen = 8};
    ngtcp2_cid dcid = {.datalen = 8};
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_conn *nc;

    ngtcp2_settings_default(&settings);
    ngtcp2_transport_params_default(&params);
    sw_rand_bytes(scid.data, 8);
    sw_rand_bytes(dcid.data, 8);
    assert_int_equal(ngtcp2_conn_client_new(&nc, &dcid, &scid, &path, NGTCP2_PROTO_VER_V1, &cb,
                                            &settings, &params, NULL, NULL),
                     0);
    return nc;
}

/* The pair of a raw key, as credentials want it (RFC 8410). */
static void give_key(gnutls_certificate_credentials_t cred, const struct sw_rawkey *key)
{
    uint8_t pub[44] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
    uint8_t priv[48] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                        0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
    gnutls_datum_t spki = {.data = pub, .size = sizeof(pub)};
    gnutls_datum_t pkcs8 = {.data = priv, .size = sizeof(priv)};

    memcpy(pub + 12, sw_rawkey_id(key)->b, SW_NODEID_LEN);
    memcpy(priv + 16, sw_rawkey_seed(key), SW_SEED_LEN);
    assert_int_equal(gnutls_certificate_set_rawpk_key_mem(cred, &spki, &pkcs8, GNUTLS_X509_FMT_DER,
                                                          NULL, GNUTLS_KEY_DIGITAL_SIGNATURE, NULL,
                                                          0, 0),
                     0);
}

void bare_hello(int fd, const struct sw_addr *to, const char *alpn, const struct sw_rawkey *key)
{
    gnutls_certificate_credentials_t cred;
    gnutls_session_t s;
    char name[64];
    gnutls_datum_t protocol = {.data = (unsigned char *)name, .size = (unsigned)strlen(alpn)};
    ngtcp2_conn *nc = make_conn(to);
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    uint8_t out[1200];

    memcpy(name, alpn, protocol.size);
    assert_int_equal(gnutls_certificate_allocate_credentials(&cred), 0);
    if (key)
        give_key(cred, key);
    assert_int_equal(gnutls_init(&s, GNUTLS_CLIENT | GNUTLS_ENABLE_RAWPK), 0);
    assert_int_equal(
        gnutls_priority_set_direct(
            s, key ? COMMON ":-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK" : COMMON, NULL),
        0);
    assert_int_equal(gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, cred), 0);
    assert_int_equal(gnutls_alpn_set_protocols(s, &protocol, 1, 0), 0);
    gnutls_handshake_set_read_function(s, on_message);
    gnutls_session_set_ptr(s, nc);
    ngtcp2_conn_set_tls_native_handle(nc, s);
    ngtcp2_path_storage_zero(&ps);
    assert_int_equal(ngtcp2_conn_write_pkt(nc, &ps.path, &pi, out, sizeof(out), 1), sizeof(out));
    assert_int_equal(sw_dgram_send(fd, out, sizeof(out), to), SW_OK);
    ngtcp2_conn_del(nc);
    gnutls_deinit(s);
    gnutls_certificate_free_credentials(cred);
}
