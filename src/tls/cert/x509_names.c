/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a certificate is for the server we meant (RFC 6125, RFC 9525). */
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/mem.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

enum { NAME_ROOM = 256, SAN_ROOM = 4096, SANS_MAX = 1024 };

/* What is looked for: an address, or a name without its final dot. */
struct wanted {
    uint8_t ip[16];
    size_t ip_len; /* 0: a name */
    struct sw_slice name;
};

unsigned sw_x509_ip_bytes(const char *text, uint8_t ret[16])
{
    if (inet_pton(AF_INET, text, ret) == 1)
        return 4;
    return inet_pton(AF_INET6, text, ret) == 1 ? 16 : 0;
}

static int parse_wanted(struct sw_slice host, struct wanted *w, struct sw_err *err)
{
    char text[NAME_ROOM];

    *w = (struct wanted){.name = host};
    if (host.n == 0 || host.n >= sizeof(text) || memchr(host.p, 0, host.n))
        return sw_err_set(err, SW_EDENIED, "no usable server name to check");
    memcpy(text, host.p, host.n);
    text[host.n] = 0;
    w->ip_len = sw_x509_ip_bytes(text, w->ip);
    if (w->ip_len == 0 && host.p[host.n - 1] == '.')
        w->name.n--;
    if (w->ip_len == 0 && (w->name.n == 0 || memchr(w->name.p, '*', w->name.n)))
        return sw_err_set(err, SW_EDENIED, "no usable server name to check");
    return SW_OK;
}

bool sw_x509_name_covers(struct sw_slice pattern, struct sw_slice name)
{
    ptrdiff_t dot;

    if (pattern.n && pattern.p[pattern.n - 1] == '.')
        pattern.n--;
    /* A NUL inside would make others read a shorter name than the one that was certified. */
    if (pattern.n == 0 || memchr(pattern.p, 0, pattern.n))
        return false;
    if (!sw_slice_has_prefix(pattern, SW_SLICE_LIT("*.")))
        return sw_slice_ieq(pattern, name);
    dot = sw_slice_find(name, '.');
    pattern = sw_slice_from(pattern, 1);
    /* "*.com" would match every domain, and a second "*" has no meaning. */
    if (dot <= 0 || sw_slice_find(sw_slice_from(pattern, 1), '.') < 0 ||
        sw_slice_find(pattern, '*') >= 0)
        return false;
    return sw_slice_ieq(pattern, sw_slice_from(name, (size_t)dot));
}

bool sw_x509_name_under(struct sw_slice name, struct sw_slice domain)
{
    if (domain.n == 0 || (name.n > domain.n && name.p[name.n - domain.n - 1] != '.'))
        return false;
    return name.n >= domain.n && sw_slice_ieq(sw_slice_from(name, name.n - domain.n), domain);
}

static bool san_matches(const struct wanted *w, unsigned type, struct sw_slice san)
{
    if (type == GNUTLS_SAN_IPADDRESS && w->ip_len)
        return san.n == w->ip_len && memcmp(san.p, w->ip, san.n) == 0;
    if (type == GNUTLS_SAN_DNSNAME && !w->ip_len)
        return sw_x509_name_covers(san, w->name);
    return false;
}

/* Remembers the first name for the message. */
static void note(char *seen, size_t cap, unsigned type, struct sw_slice san)
{
    char ip[INET6_ADDRSTRLEN] = "";

    if (*seen)
        return;
    if (type == GNUTLS_SAN_DNSNAME)
        (void)snprintf(seen, cap, "%.*s", SW_SLICE_ARG(sw_slice_head(san, 60)));
    else if (type == GNUTLS_SAN_IPADDRESS && (san.n == 4 || san.n == 16) &&
             inet_ntop(san.n == 4 ? AF_INET : AF_INET6, san.p, ip, sizeof(ip)))
        (void)snprintf(seen, cap, "%s", ip);
}

static int check_names(gnutls_x509_crt_t crt, const struct wanted *w, struct sw_slice host,
                       struct sw_err *err)
{
    char seen[64] = "";

    for (unsigned i = 0; i < SANS_MAX; i++) {
        char san[NAME_ROOM];
        size_t n = sizeof(san);
        int type = gnutls_x509_crt_get_subject_alt_name(crt, i, san, &n, NULL);

        if (type == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue; /* longer than any DNS name */
        if (type < 0)
            break;
        if (san_matches(w, (unsigned)type, sw_slice(san, n)))
            return SW_OK;
        note(seen, sizeof(seen), (unsigned)type, sw_slice(san, n));
    }
    if (!*seen)
        return sw_err_set(err, SW_EDENIED, "server certificate names no host, expected '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(host, 60)));
    return sw_err_set(err, SW_EDENIED, "server certificate is for '%s', not for '%.*s'", seen,
                      SW_SLICE_ARG(sw_slice_head(host, 60)));
}

int sw_x509_check_host(struct sw_slice der, struct sw_slice host, struct sw_err *err)
{
    SW_AUTO_CRT crt = NULL;
    struct wanted w;
    int rc = parse_wanted(host, &w, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_crt_import(der, false, &crt);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EDENIED, rc, "server certificate");
    return check_names(crt, &w, host, err);
}

/* ---- for callers with rules of their own ---- */

/* False: of a kind that is not supported, or not fit to be compared. */
static bool to_text(unsigned type, struct sw_slice raw, char ip[INET6_ADDRSTRLEN],
                    struct sw_x509_san *ret)
{
    ret->text = raw;
    switch (type) {
    case GNUTLS_SAN_DNSNAME:
        ret->kind = SW_X509_SAN_DNS;
        break;
    case GNUTLS_SAN_URI:
        ret->kind = SW_X509_SAN_URI;
        break;
    case GNUTLS_SAN_RFC822NAME:
        ret->kind = SW_X509_SAN_EMAIL;
        break;
    case GNUTLS_SAN_IPADDRESS:
        ret->kind = SW_X509_SAN_IP;
        if ((raw.n != 4 && raw.n != 16) ||
            !inet_ntop(raw.n == 4 ? AF_INET : AF_INET6, raw.p, ip, INET6_ADDRSTRLEN))
            return false;
        ret->text = sw_slice_str(ip);
        break;
    default:
        return false;
    }
    return ret->text.n && !memchr(ret->text.p, 0, ret->text.n);
}

bool sw_x509_any_san(struct sw_slice der, bool (*fn)(const struct sw_x509_san *san, void *arg),
                     void *arg)
{
    SW_AUTO_CRT crt = NULL;
    bool found = false;

    if (sw_crt_import(der, false, &crt) < 0)
        return false;
    for (unsigned i = 0; !found && i < SW_X509_SANS_MAX; i++) {
        char raw[SAN_ROOM];
        char ip[INET6_ADDRSTRLEN];
        size_t n = sizeof(raw);
        struct sw_x509_san san;
        int type = gnutls_x509_crt_get_subject_alt_name(crt, i, raw, &n, NULL);

        if (type == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue;
        if (type < 0)
            break;
        found = to_text((unsigned)type, sw_slice(raw, n), ip, &san) && fn(&san, arg);
    }
    return found;
}

int sw_x509_spki_sha256(struct sw_slice der, uint8_t ret[32], struct sw_err *err)
{
    SW_AUTO_CRT crt = NULL;
    size_t n = 32;
    int rc = sw_crt_import(der, false, &crt);

    if (rc < 0)
        rc = GNUTLS_E_ASN1_DER_ERROR;
    else
        rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, ret, &n);
    if (rc < 0 || n != 32)
        return sw_gnutls_err(err, SW_EINVAL, rc, "public key of a certificate");
    return SW_OK;
}
