/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/certificate.h"

#include "base/hex.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509.h"
#include "tls/crypto/jws.h"

enum { CERT_MAX = 64 << 10 };

struct first_name {
    struct sw_arena *arena;
    struct sw_slice name;
};

static bool take_dns(const struct sw_x509_san *san, void *arg)
{
    struct first_name *f = arg;

    if (san->kind != SW_X509_SAN_DNS)
        return false;
    f->name = sw_arena_slice(f->arena, san->text);
    return true;
}

struct sw_slice sw_link_first_dns(struct sw_arena *a, struct sw_slice der)
{
    struct first_name f = {.arena = a, .name = sw_slice("", 0)};

    (void)sw_x509_any_san(der, take_dns, &f);
    return f.name;
}

/* '%' escapes undone; a broken one ends it. */
static struct sw_slice unescape(struct sw_arena *a, struct sw_slice in)
{
    char *out = sw_arena_alloc(a, in.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < in.n; i++) {
        int escaped = sw_hex_escape(in, i);

        if (in.p[i] == '%' && escaped < 0)
            break;
        out[n++] = escaped < 0 ? in.p[i] : (char)escaped;
        i += escaped < 0 ? 0 : 2;
    }
    return sw_slice(out, n);
}

static struct sw_slice hex(struct sw_arena *a, const uint8_t *p, size_t n)
{
    char *out = sw_arena_alloc(a, 2 * n + 1);

    return sw_slice(out, (size_t)(sw_hex_write(out, p, n) - out));
}

struct sw_link_caller sw_link_caller_of(struct sw_arena *a, struct sw_slice principal,
                                        struct sw_slice certificate)
{
    struct sw_link_caller who = {.name = principal, .thumb = sw_slice("", 0)};
    struct sw_slice der;
    uint8_t digest[32];

    if (certificate.n == 0 || certificate.n > CERT_MAX)
        return who;
    der = sw_pem_leaf_der(a, unescape(a, certificate));
    if (der.n == 0)
        return who;
    sw_digest_sha256(der, digest);
    who.thumb = hex(a, digest, sizeof(digest));
    who.name = sw_link_first_dns(a, der);
    return who;
}
