/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes by GnuTLS on a memory transport, and the hand-over to our record layer afterwards.
 * What the record layer cannot take (TLS 1.2) stays with GnuTLS behind the same calls.
 */
#include "tls/tls_int.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/mem.h"
#include "base/slice.h"
#include "tls/cert/cred_core.h"
#include "tls/cert/vault.h"
#include "tls/crypto/gnutls.h"
#include "tls/ticket.h"

enum {
    ALPN_MAX = 8,
    EXT_ALPN = 16,
    EXT_RECORD_SIZE_LIMIT = 28,
    EXT_SUPPORTED_VERSIONS = 43,
    IN_MAX = 2 * SW_TLS_HANDSHAKE_OUT_MAX, /* bytes a peer may send before the handshake ends */
    STEPS_MAX = 64, /* of gnutls_handshake in one call: warnings must not keep us busy */
    TICKET_LIFE_S = 7200,
    TICKET_LIFE_MAX_S = 7 * 24 * 3600, /* RFC 8446 4.6.1 */
};

/* --- priorities --- */

/* Last: certificates with such keys exist, and peers without them are not slowed down. */
#define SIGNATURES_RARE                                                                            \
    "+SIGN-ECDSA-SECP521R1-SHA512:+SIGN-RSA-PSS-SHA256:+SIGN-RSA-PSS-SHA384:+SIGN-RSA-PSS-SHA512:" \
    "+SIGN-EDDSA-ED448"
#define SIGNATURES                                                                                 \
    "+SIGN-ECDSA-SECP256R1-SHA256:+SIGN-ECDSA-SECP384R1-SHA384:+SIGN-EDDSA-ED25519:"               \
    "+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-RSAE-SHA384:+SIGN-RSA-PSS-RSAE-SHA512:"               \
    "+SIGN-RSA-SHA256:+SIGN-RSA-SHA384:+SIGN-RSA-SHA512:" SIGNATURES_RARE
/* Which versions and algorithms a session has: bits above the eight of SW_TLS_NO_... */
enum { WITH_TLS12 = 1 << 8, WITHOUT_TLS13 = 1 << 9, PRIORITIES = 1 << 10 };

static gnutls_priority_t priorities[PRIORITIES];
static pthread_mutex_t priorities_lock = PTHREAD_MUTEX_INITIALIZER;

/* Nothing of the system's configuration enters. TLS 1.2 names its signatures without the curve. */
static int make_priority(unsigned which, gnutls_priority_t *ret)
{
    static const struct {
        unsigned mask; /* of 'which' */
        unsigned want;
        const char *text;
    } parts[] = {
        {WITHOUT_TLS13, 0, ":+VERS-TLS1.3"},
        {WITH_TLS12, WITH_TLS12, ":+VERS-TLS1.2"},
        {SW_TLS_NO_AES_128, 0, ":+AES-128-GCM"},
        {SW_TLS_NO_AES_256, 0, ":+AES-256-GCM"},
        {SW_TLS_NO_CHACHA, 0, ":+CHACHA20-POLY1305"},
        {0, 0, ":+AEAD"},
        {WITH_TLS12 | SW_TLS_NO_ECDSA, WITH_TLS12, ":+ECDHE-ECDSA"},
        {WITH_TLS12 | SW_TLS_NO_RSA, WITH_TLS12, ":+ECDHE-RSA"},
        {WITH_TLS12, WITH_TLS12, ":+SIGN-ECDSA-SHA256:+SIGN-ECDSA-SHA384:+SIGN-ECDSA-SHA512"},
        {SW_TLS_NO_X25519, 0, ":+GROUP-X25519"},
        {SW_TLS_NO_P256, 0, ":+GROUP-SECP256R1"},
        {SW_TLS_NO_P384, 0, ":+GROUP-SECP384R1"},
        {0, 0, ":" SIGNATURES ":+CTYPE-X509:+COMP-NULL:%SERVER_PRECEDENCE"},
    };
    char text[1024] = "NONE";
    size_t n = strlen(text);

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        size_t len = strlen(parts[i].text);

        if ((which & parts[i].mask) != parts[i].want)
            continue;
        assert(n + len < sizeof(text));
        memcpy(text + n, parts[i].text, len + 1);
        n += len;
    }
    return gnutls_priority_init(ret, text, NULL);
}

/* Made when it is first asked for: each has 8 KB, and most processes use two. */
static int get_priority(unsigned which, gnutls_priority_t *ret)
{
    int rc = 0;

    (void)pthread_mutex_lock(&priorities_lock);
    if (!priorities[which])
        rc = make_priority(which, &priorities[which]);
    if (rc < 0)
        priorities[which] = NULL;
    *ret = priorities[which];
    (void)pthread_mutex_unlock(&priorities_lock);
    return rc;
}

/* --- transport --- */

static ssize_t on_pull(gnutls_transport_ptr_t arg, void *data, size_t n)
{
    struct sw_tls_lib *l = arg;
    size_t take = sw_min(n, l->in.n);

    if (take == 0) {
        gnutls_transport_set_errno(l->session, EAGAIN);
        return -1;
    }
    memcpy(data, l->in.p, take);
    l->in = sw_slice_from(l->in, take);
    return (ssize_t)take;
}

static int push_one(struct sw_tls_lib *l, const void *p, size_t n)
{
    if (l->out)
        return sw_buf_append(l->out, p, n);
    if (!l->raw_out || n > l->raw_cap - l->raw_n)
        return SW_ELIMIT;
    memcpy(l->raw_out + l->raw_n, p, n);
    l->raw_n += n;
    return SW_OK;
}

static ssize_t on_push(gnutls_transport_ptr_t arg, const giovec_t *iov, int count)
{
    struct sw_tls_lib *l = arg;
    ssize_t total = 0;

    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len && push_one(l, iov[i].iov_base, iov[i].iov_len) != SW_OK) {
            l->out_full = true;
            gnutls_transport_set_errno(l->session, EIO);
            return -1;
        }
        total += (ssize_t)iov[i].iov_len;
    }
    return total;
}

/* --- hooks --- */

static int on_secret(gnutls_session_t s, gnutls_record_encryption_level_t level, const void *rx,
                     const void *tx, size_t n)
{
    struct sw_tls_lib *l = gnutls_session_get_ptr(s);

    if (level != GNUTLS_ENCRYPTION_LEVEL_APPLICATION)
        return 0;
    if (n > SW_RECORD_SECRET_MAX)
        return -1;
    if (rx) {
        memcpy(l->rx_secret, rx, n);
        l->rx_len = n;
    }
    if (tx) {
        memcpy(l->tx_secret, tx, n);
        l->tx_len = n;
    }
    return 0;
}

static int on_keylog(gnutls_session_t s, const char *label, const gnutls_datum_t *secret)
{
    struct sw_tls_lib *l = gnutls_session_get_ptr(s);

    if (strcmp(label, "EXPORTER_SECRET") == 0 && secret->size <= SW_RECORD_SECRET_MAX) {
        if (!l->exporter)
            l->exporter = sw_vault_alloc(SW_RECORD_SECRET_MAX);
        memcpy(l->exporter, secret->data, secret->size);
    }
    return 0;
}

static int on_extension(void *arg, unsigned id, const unsigned char *data, unsigned n)
{
    struct sw_tls_lib *l = arg;

    if (id == EXT_RECORD_SIZE_LIMIT && n == 2)
        l->size_limit = (uint16_t)(data[0] << 8 | data[1]);
    l->alpn_seen = l->alpn_seen || id == EXT_ALPN;
    /* RFC 8446 4.2.1: a byte of length, then versions. */
    for (unsigned i = 1; id == EXT_SUPPORTED_VERSIONS && i + 2 <= n; i += 2)
        l->tls13_seen = l->tls13_seen || (data[i] == 3 && data[i + 1] == 4);
    return 0;
}

/*
 * GnuTLS reports the limit for what we receive; the one for what we send has to be read from the
 * peer's extension. A malformed message is GnuTLS's to refuse.
 */
static int on_hello(struct sw_tls_lib *l, bool request, const gnutls_datum_t *msg)
{
    int rc = gnutls_ext_raw_parse(l, on_extension, msg,
                                  request ? GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO : 0);
    /* GnuTLS would complain about the cipher suites, with handshake_failure. */
    if (rc >= 0 && request && !l->tls13_seen && !l->params.tls12 && !l->params.tls12_only)
        return sw_lib_refuse_version(l);
    return 0;
}

/* Each message before GnuTLS takes it: the peer's signature is checked before on_verify. */
static int on_handshake(gnutls_session_t s, unsigned type, unsigned when, unsigned incoming,
                        const gnutls_datum_t *msg)
{
    struct sw_tls_lib *l = gnutls_session_get_ptr(s);

    if (!incoming)
        return 0;
    if (type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT)
        return sw_lib_check_keys(l, sw_slice(msg->data, msg->size));
    if (type ==
        (l->params.server ? GNUTLS_HANDSHAKE_CLIENT_HELLO : GNUTLS_HANDSHAKE_ENCRYPTED_EXTENSIONS))
        return on_hello(l, l->params.server, msg);
    return 0;
}

static int on_client_hello_done(gnutls_session_t s)
{
    return sw_lib_check_alpn(gnutls_session_get_ptr(s));
}

static int on_verify(gnutls_session_t s)
{
    return sw_lib_judge(gnutls_session_get_ptr(s));
}

/* --- making --- */

static int set_alpn(struct sw_tls_lib *l, struct sw_err *err)
{
    struct sw_slice rest = sw_slice_str(l->params.alpn);
    gnutls_datum_t names[ALPN_MAX];
    unsigned flags = GNUTLS_ALPN_SERVER_PRECEDENCE;
    int rc;

    while (rest.p) {
        struct sw_slice name = sw_slice_cut(&rest, ',');

        if (name.n == 0 || name.n >= sizeof(((struct sw_tls *)0)->alpn) || l->n_alpn == ALPN_MAX)
            return sw_err_set(err, SW_EINVAL, "bad ALPN list '%s'", l->params.alpn);
        names[l->n_alpn++] = SW_DATUM(name);
    }
    /* A server refuses a client that offers nothing we speak (RFC 7301 3.2). */
    if (l->params.server || !l->params.web)
        flags |= GNUTLS_ALPN_MANDATORY;
    rc = gnutls_alpn_set_protocols(l->session, names, l->n_alpn, flags);
    if (rc < 0)
        return sw_err_set(err, SW_EINVAL, "ALPN: %s", gnutls_strerror(rc));
    return SW_OK;
}

static void set_hooks(struct sw_tls_lib *l)
{
    gnutls_session_t s = l->session;

    gnutls_session_set_ptr(s, l);
    gnutls_transport_set_ptr(s, l);
    gnutls_transport_set_pull_function(s, on_pull);
    gnutls_transport_set_vec_push_function(s, on_push);
    gnutls_handshake_set_timeout(s, 0); /* the deadline is the caller's */
    gnutls_handshake_set_max_packet_length(s, SW_TLS_HANDSHAKE_OUT_MAX);
    gnutls_handshake_set_secret_function(s, on_secret);
    gnutls_session_set_verify_function(s, on_verify);
    if (l->params.exporter)
        gnutls_session_set_keylog_function(s, on_keylog);
    gnutls_handshake_set_hook_function(s, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_PRE, on_handshake);
    if (l->params.server) {
        gnutls_handshake_set_post_client_hello_function(s, on_client_hello_done);
        gnutls_certificate_server_set_request(s, !l->params.web || l->params.need_client_cert
                                                     ? GNUTLS_CERT_REQUIRE
                                                 : l->params.no_client_cert ? GNUTLS_CERT_IGNORE
                                                                            : GNUTLS_CERT_REQUEST);
        /* No list of acceptable issuers: it costs bytes and lets clients send nothing at all. */
        gnutls_certificate_send_x509_rdn_sequence(s, 1);
    }
}

static int set_tickets(struct sw_tls_lib *l)
{
    gnutls_datum_t key = SW_DATUM(sw_slice(l->params.ticket_key, SW_TLS_TICKET_KEY));
    uint32_t life = l->params.ticket_life_s ? l->params.ticket_life_s : TICKET_LIFE_S;

    gnutls_db_set_cache_expiration(l->session, (int)sw_min(life, TICKET_LIFE_MAX_S));
    return gnutls_session_ticket_enable_server(l->session, &key);
}

static int set_up(struct sw_tls_lib *l, struct sw_err *err)
{
    unsigned flags = GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL;
    unsigned which = l->params.without | (l->params.chacha ? 0u : SW_TLS_NO_CHACHA) |
                     (l->params.tls12 || l->params.tls12_only ? WITH_TLS12 : 0u) |
                     (l->params.tls12_only ? WITHOUT_TLS13 : 0u);
    gnutls_priority_t priority;
    int rc = get_priority(which, &priority);

    if (rc < 0)
        return sw_err_set(err, SW_EINVAL, "TLS set-up: %s", gnutls_strerror(rc));
    /*
     * One key share: a second would cost a curve operation per handshake, and a server that wants
     * another group sends HelloRetryRequest.
     */
    flags |= l->params.server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET
                              : GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT | GNUTLS_KEY_SHARE_TOP;
    if (!l->params.ticket_key)
        flags |= GNUTLS_NO_TICKETS;
    rc = gnutls_init(&l->session, flags);
    if (rc >= 0)
        rc = gnutls_priority_set(l->session, priority);
    if (rc >= 0 && l->params.ticket_key)
        rc = set_tickets(l);
    l->tickets = l->params.ticket_key != NULL;
    l->params.ticket_key = NULL;
    if (rc >= 0)
        rc = gnutls_credentials_set(l->session, GNUTLS_CRD_CERTIFICATE, sw_cred_gnutls(l->cred));
    if (rc >= 0 && !l->params.server && l->params.sni)
        rc = gnutls_server_name_set(l->session, GNUTLS_NAME_DNS, l->params.sni,
                                    strlen(l->params.sni));
    if (rc < 0)
        return sw_err_set(err, SW_EINVAL, "TLS set-up: %s", gnutls_strerror(rc));
    set_hooks(l);
    return l->params.alpn ? set_alpn(l, err) : SW_OK;
}

static int check(const struct sw_tls_params *p, struct sw_err *err)
{
    if (p->insecure_skip && (p->server || !p->web))
        return sw_err_set(err, SW_EINVAL, "'insecure_skip' is for clients of HTTPS servers");
    /* A client without an expected name would accept any server. */
    if (p->web && !p->server && !p->insecure_skip && !p->leaf_ok && (!p->host || !*p->host))
        return sw_err_set(err, SW_EINVAL, "a client of an HTTPS server needs its name");
    if (p->server && !sw_cred_can_serve(p->cred))
        return sw_err_set(err, SW_EINVAL, "a TLS server needs a certificate and a key");
    if (p->server && !p->web && !sw_tls_cred_id(p->cred))
        return sw_err_set(err, SW_EINVAL, "a mesh server needs a SPIFFE identity");
    return SW_OK;
}

struct sw_tls *sw_tls_new(const struct sw_tls_params *p, struct sw_err *err)
{
    struct sw_tls *t;

    if (check(p, err) != SW_OK)
        return NULL;
    t = sw_vault_alloc(sizeof(*t));
    assert(!p->ticket_key || (p->server && p->web));
    t->lib = SW_NEW(struct sw_tls_lib);
    t->lib->params = *p;
    t->lib->cred = sw_tls_cred_ref(p->cred);
    if (set_up(t->lib, err) != SW_OK) {
        sw_tls_free(t);
        return NULL;
    }
    return t;
}

void sw_lib_free(struct sw_tls_lib *l)
{
    if (!l)
        return;
    if (l->session)
        gnutls_deinit(l->session);
    sw_tls_cred_unref(l->cred);
    sw_peer_unref(l->peer);
    sw_vault_free(l->exporter);
    sw_free_secret(l, sizeof(*l));
}

/* --- hand-over --- */

/*
 * Compares what we derived with what GnuTLS would use and takes the sequence number from it. They
 * can differ only if a newer GnuTLS delivers secrets at another time than the known one.
 */
static bool same_state(gnutls_session_t s, unsigned read, const struct sw_record *r,
                       uint64_t *ret_seq)
{
    const struct sw_record_dir *d = read ? &r->rx : &r->tx;
    size_t key_len = sw_aead_key_len((enum sw_aead_alg)r->alg);
    gnutls_datum_t mac = {0};
    gnutls_datum_t iv = {0};
    gnutls_datum_t key = {0};
    unsigned char seq[8];

    if (gnutls_record_get_state(s, read, &mac, &iv, &key, seq) < 0)
        return false;
    *ret_seq = 0;
    for (size_t i = 0; i < sizeof(seq); i++)
        *ret_seq = *ret_seq << 8 | seq[i];
    return iv.size == sizeof(d->iv) && key.size == key_len &&
           gnutls_memcmp(iv.data, d->iv, iv.size) == 0 &&
           gnutls_memcmp(key.data, d->key, key_len) == 0;
}

static size_t send_limit(const struct sw_tls_lib *l)
{
    size_t max = sw_min(SW_TLS_PLAIN_MAX, gnutls_record_get_max_size(l->session));

    /* GnuTLS ignores limits below 512, so then do we: the peer would have been refused otherwise.
     */
    if (l->size_limit >= 512)
        max = sw_min(max, (size_t)l->size_limit - 1);
    return max;
}

static int take_over(struct sw_tls *t, struct sw_err *err)
{
    struct sw_tls_lib *l = t->lib;
    struct sw_record_keys k = {.server = l->params.server,
                               .secret_len = l->rx_len,
                               .max_plain = send_limit(l),
                               .rx_secret = l->rx_secret,
                               .tx_secret = l->tx_secret};
    int alg = sw_aead_of_gnutls((int)gnutls_cipher_get(l->session));

    if (gnutls_protocol_get_version(l->session) != GNUTLS_TLS1_3 || alg < 0) {
        t->rec.max_plain = (uint16_t)k.max_plain;
        l->out = NULL;
        return SW_OK; /* stays with GnuTLS */
    }
    k.alg = (enum sw_aead_alg)alg;
    if (l->rx_len == 0 || l->rx_len != l->tx_len || (l->rx_len != 32 && l->rx_len != 48) ||
        gnutls_record_check_pending(l->session) != 0)
        return sw_err_set(err, SW_EPROTO, "TLS hand-over: secrets are missing");
    sw_record_init(&t->rec, &k);
    if (!same_state(l->session, 1, &t->rec, &t->rec.rx.seq) ||
        !same_state(l->session, 0, &t->rec, &t->rec.tx.seq)) {
        sw_record_done(&t->rec);
        return sw_err_set(err, SW_EPROTO, "TLS hand-over: keys differ");
    }
    t->exporter = SW_TAKE(l->exporter);
    sw_lib_free(l);
    t->lib = NULL;
    return SW_OK;
}

/*
 * The library does not verify a client that resumes: its certificate is in the ticket and has to
 * pass as if it had been presented just now.
 */
static void judge_resumed(struct sw_tls *t)
{
    t->resumed = gnutls_session_is_resumed(t->lib->session) != 0;
    if (t->resumed)
        (void)on_verify(t->lib->session);
}

/* Before the hand-over: tickets are records of the library's. */
static void send_tickets(struct sw_tls *t)
{
    struct sw_tls_lib *l = t->lib;

    if (l->tickets && !l->refused && gnutls_protocol_get_version(l->session) == GNUTLS_TLS1_3)
        (void)gnutls_session_ticket_send(l->session, t->resumed ? 1 : 2, 0);
}

static int finish(struct sw_tls *t, struct sw_err *err)
{
    struct sw_tls_lib *l = t->lib;
    gnutls_datum_t alpn = {0};
    int rc;

    judge_resumed(t);
    if (!l->peer && !(l->params.web && (l->params.server || l->params.insecure_skip)))
        return sw_err_set(err, SW_EDENIED, "peer was not verified");
    if (sw_lib_check_alpn(l) != 0) {
        *err = l->verdict;
        return err->rc;
    }
    t->peer = l->peer ? sw_peer_ref(l->peer) : NULL;
    t->refused = l->refused;
    if (gnutls_alpn_get_selected_protocol(l->session, &alpn) == 0 && alpn.size < sizeof(t->alpn))
        memcpy(t->alpn, alpn.data, alpn.size);
    send_tickets(t);
    rc = take_over(t, err);
    t->up = rc == SW_OK;
    if (rc != SW_OK)
        t->peer = sw_peer_unref(t->peer);
    return rc;
}

/* --- handshake --- */

int sw_lib_explain(struct sw_tls_lib *l, int rc, struct sw_err *err)
{
    if (l->out_full)
        return sw_err_set(err, SW_ELIMIT, "no room for the handshake's output");
    if (l->verdict.rc != 0) {
        int code = l->verdict.rc == SW_EPROTO ? SW_EPROTO : SW_EDENIED;

        return sw_err_set(err, code, "%s",
                          l->verdict.msg[0] ? l->verdict.msg : "peer refused by policy");
    }
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED) {
        unsigned alert = gnutls_alert_get(l->session);

        if (alert == SW_ALERT_CLOSE_NOTIFY)
            return sw_err_set(err, SW_EOF, "peer closed during the handshake");
        if (sw_alert_is_refusal(alert))
            return sw_err_set(err, SW_EDENIED, "peer refused our certificate (alert %u)", alert);
        return sw_err_set(err, SW_EPROTO, "peer sent alert %u (%s)", alert, sw_alert_name(alert));
    }
    if (rc == GNUTLS_E_CERTIFICATE_REQUIRED || rc == GNUTLS_E_NO_CERTIFICATE_FOUND)
        return sw_err_set(err, SW_EDENIED, "peer sent no certificate");
    return sw_err_set(err, SW_EPROTO, "handshake failed: %s", gnutls_strerror(rc));
}

bool sw_tls_peer_revoked(const struct sw_tls *t)
{
    return t->lib && t->lib->alert == SW_ALERT_CERTIFICATE_REVOKED;
}

/* Leaves the alert that belongs to the failure at the end of l->out, best effort. */
static void send_alert(struct sw_tls_lib *l, int rc)
{
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED || l->out_full)
        return;
    if (l->alert)
        (void)gnutls_alert_send(l->session, GNUTLS_AL_FATAL, (gnutls_alert_description_t)l->alert);
    else
        (void)gnutls_alert_send_appropriate(l->session, rc);
}

static int step(struct sw_tls_lib *l)
{
    int rc = GNUTLS_E_AGAIN;

    for (int i = 0; i < STEPS_MAX; i++) {
        rc = gnutls_handshake(l->session);
        if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED) {
            if (l->in.n == 0)
                return GNUTLS_E_AGAIN;
        } else if (rc == 0 || gnutls_error_is_fatal(rc)) {
            return rc;
        }
    }
    return rc == GNUTLS_E_AGAIN ? GNUTLS_E_UNEXPECTED_PACKET : rc;
}

int sw_tls_handshake(struct sw_tls *t, struct sw_slice in, size_t *ret_used, struct sw_buf *out,
                     struct sw_err *err)
{
    struct sw_tls_lib *l = t->lib;
    struct sw_err local;
    int rc;

    err = err ? err : &local;
    *ret_used = 0;
    if (t->up || !l || l->dead)
        return sw_err_set(err, SW_EINVAL, "no handshake is in progress");
    l->in = in;
    l->out = out;
    rc = step(l);
    *ret_used = in.n - l->in.n;
    l->in_total += *ret_used;
    /* The library would continue collecting a message that promises megabytes. */
    if (rc == GNUTLS_E_AGAIN && l->in_total > IN_MAX)
        rc = GNUTLS_E_HANDSHAKE_TOO_LARGE;
    if (rc == GNUTLS_E_AGAIN && !l->out_full) {
        l->out = NULL;
        return SW_EAGAIN;
    }
    if (rc == 0) {
        rc = finish(t, err);
        if (rc == SW_OK)
            return SW_OK;
        l->alert = l->alert ? l->alert : SW_ALERT_INTERNAL_ERROR;
        send_alert(l, 0);
    } else {
        send_alert(l, rc);
        rc = sw_lib_explain(l, rc, err);
    }
    l->out = NULL;
    l->dead = true;
    t->rec.dead = true;
    return rc;
}
