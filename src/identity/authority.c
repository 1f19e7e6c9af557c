/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/authority.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "io/filewatch.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

#define EXTRA_ROOTS "roots.pem"

enum { PEM_MAX = 1 << 20, CERTS_MAX = 64 };

static const uint64_t server_ttl_s = UINT64_C(30) * 86400;

/* One reading of the directory. */
struct state {
    struct sw_arena arena;
    struct sw_ca *ca;
    SW_VEC(struct sw_slice) chain; /* of the arena */
    SW_VEC(struct sw_slice) roots; /* each once */
    struct sw_slice bundle;
};

struct sw_authority {
    struct sw_authority_opts o;
    char *dir;
    struct sw_slice trust_domain; /* owned */
    struct state *now;
    struct sw_filewatch *watch;
};

static void state_free(struct state *s)
{
    if (!s)
        return;
    sw_ca_free(s->ca);
    sw_vec_done(&s->chain);
    sw_vec_done(&s->roots);
    sw_arena_clear(&s->arena);
    sw_free(s);
}

/* --- files --- */

/* A file of the directory in the arena; empty and SW_ENOENT when it is not there. */
static int read_file(struct state *s, const char *dir, const char *name, struct sw_slice *ret,
                     struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);
    struct sw_slice text = {0};
    int rc = sw_file_read(path, PEM_MAX, &text, err);

    *ret = rc == SW_OK ? sw_arena_slice(&s->arena, text) : sw_slice("", 0);
    if (text.n)
        explicit_bzero((char *)(uintptr_t)text.p, text.n); /* it may be a key */
    sw_slice_free(&text);
    return rc;
}

static bool has_file(const char *dir, const char *name)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);

    return access(path, F_OK) == 0;
}

static bool contains(const struct sw_slice *certs, size_t n, struct sw_slice cert)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq(certs[i], cert))
            return true;
    }
    return false;
}

static int add_roots(struct state *s, struct sw_slice pem, struct sw_err *err)
{
    struct sw_slice cert;
    int rc;

    while ((rc = sw_pem_next_cert(&pem, &cert)) == SW_OK && s->roots.n < CERTS_MAX) {
        if (!contains(s->roots.p, s->roots.n, cert))
            sw_vec_push(&s->roots, cert);
    }
    return rc == SW_ENOENT ? SW_OK
                           : sw_err_set(err, SW_EINVAL, "bad or too many root certificates");
}

/* What peers need between the leaf and a root they have. */
static int add_chain(struct state *s, struct sw_slice pem, struct sw_err *err)
{
    struct sw_slice cert;
    int rc;

    while ((rc = sw_pem_next_cert(&pem, &cert)) == SW_OK && s->chain.n < CERTS_MAX) {
        if (!contains(s->roots.p, s->roots.n, cert) && !contains(s->chain.p, s->chain.n, cert))
            sw_vec_push(&s->chain, cert);
    }
    return rc == SW_ENOENT ? SW_OK
                           : sw_err_set(err, SW_EINVAL, "bad or too long certificate chain");
}

static int seal(struct state *s, struct sw_err *err)
{
    SW_BUF_AUTO b = {.max = (size_t)PEM_MAX * 2};
    int rc = s->roots.n ? SW_OK : SW_EINVAL;

    for (size_t i = 0; i < s->roots.n && rc == SW_OK; i++)
        rc = sw_buf_printf(&b, "%.*s\n", SW_SLICE_ARG(s->roots.p[i]));
    if (rc != SW_OK)
        return sw_err_set(err, SW_EINVAL, "no root certificates, or too many");
    s->bundle = sw_arena_slice(&s->arena, sw_buf_slice(&b));
    return SW_OK;
}

/* --- plugged in --- */

struct layout {
    const char *cert;
    const char *key;
    const char *chain; /* NULL: the certificate's file has it */
    const char *roots;
};

static const struct layout layouts[] = {
    {"ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"},
    {"tls.crt", "tls.key", NULL, "ca.crt"},
};

static int load_layout(struct state *s, const char *dir, const struct layout *l, struct sw_err *err)
{
    struct sw_slice cert;
    struct sw_slice key;
    struct sw_slice chain = {0};
    struct sw_slice roots;
    int rc = read_file(s, dir, l->cert, &cert, err);

    if (rc == SW_OK)
        rc = read_file(s, dir, l->key, &key, err);
    if (rc == SW_OK && l->chain)
        rc = read_file(s, dir, l->chain, &chain, err);
    if (rc == SW_OK)
        rc = read_file(s, dir, l->roots, &roots, err);
    if (rc != SW_OK)
        return rc;
    s->ca = sw_ca_from_pem(cert, key, err);
    if (!s->ca)
        return err->rc;
    rc = add_roots(s, roots, err);
    if (rc == SW_OK)
        rc = add_chain(s, cert, err);
    return rc == SW_OK && chain.n ? add_chain(s, chain, err) : rc;
}

/* --- our own --- */

static int make_root(const struct sw_authority *a, struct sw_err *err)
{
    const struct sw_ca_scope scope = {.trust_domain = a->trust_domain, .any_trust_domain = false};
    struct sw_ca *ca = sw_ca_new_scoped(&scope, 0, err);
    int rc = ca ? sw_ca_save(ca, a->dir, err) : err->rc;

    sw_ca_free(ca);
    if (rc == SW_OK)
        sw_log_info("ca", "new root for trust domain '%.*s' in '%s'", SW_SLICE_ARG(a->trust_domain),
                    a->dir);
    return rc;
}

static int load_own(const struct sw_authority *a, struct state *s, struct sw_err *err)
{
    struct sw_slice more;
    int rc = SW_OK;

    if (!has_file(a->dir, SW_CA_ROOT_CERT) && !has_file(a->dir, SW_CA_ROOT_KEY))
        rc = make_root(a, err);
    if (rc != SW_OK)
        return rc;
    s->ca = sw_ca_load(a->dir, err);
    if (!s->ca)
        return err->rc;
    rc = add_roots(s, sw_ca_root_pem(s->ca), err);
    if (rc == SW_OK && has_file(a->dir, EXTRA_ROOTS)) {
        rc = read_file(s, a->dir, EXTRA_ROOTS, &more, err);
        if (rc == SW_OK)
            rc = add_roots(s, more, err);
    }
    return rc;
}

static struct state *load(const struct sw_authority *a, struct sw_err *err)
{
    struct state *s = SW_NEW(struct state);
    const struct layout *l = NULL;
    int rc;

    for (size_t i = 0; i < SW_ARRAY_LEN(layouts) && !l; i++) {
        if (has_file(a->dir, layouts[i].cert) || has_file(a->dir, layouts[i].key))
            l = &layouts[i];
    }
    rc = l ? load_layout(s, a->dir, l, err) : load_own(a, s, err);
    if (rc == SW_OK)
        rc = seal(s, err);
    if (rc == SW_OK)
        return s;
    (void)sw_err_prefix(err, "CA in '%s'", a->dir);
    state_free(s);
    return NULL;
}

/* --- changes --- */

static bool covers(const struct state *a, const struct state *b)
{
    for (size_t i = 0; i < b->roots.n; i++) {
        if (!contains(a->roots.p, a->roots.n, b->roots.p[i]))
            return false;
    }
    return true;
}

static void on_files(void *arg)
{
    struct sw_authority *a = arg;
    struct sw_err err = {0};
    struct state *next = load(a, &err);
    struct state *old = a->now;

    if (next && !covers(next, old) && !covers(old, next)) {
        (void)sw_err_set(&err, SW_EINVAL,
                         "the new root bundle neither contains the old one nor is part of it");
        state_free(next);
        next = NULL;
    }
    if (!next) {
        sw_log_warn("ca", "reload failed, keeping the previous CA: %s", err.msg);
        return;
    }
    a->now = next;
    sw_log_info("ca", "CA reloaded from '%s': %zu roots, chain of %zu", a->dir, next->roots.n,
                next->chain.n);
    if (a->o.on_change)
        a->o.on_change(a->o.arg);
    state_free(old);
}

struct sw_authority *sw_authority_new(struct sw_loop *l, const struct sw_authority_opts *o,
                                      struct sw_err *err)
{
    struct sw_authority *a = SW_NEW(struct sw_authority);
    char *watched SW_AUTO_FREE = sw_asprintf("%s/", o->dir);

    a->o = *o;
    a->dir = sw_strdup(o->dir);
    a->trust_domain = sw_slice(sw_slice_dup(o->trust_domain), o->trust_domain.n);
    a->now = load(a, err);
    if (a->now)
        a->watch = sw_filewatch_new(l, watched, on_files, a, err);
    if (a->watch)
        return a;
    sw_authority_free(a);
    return NULL;
}

void sw_authority_free(struct sw_authority *a)
{
    if (!a)
        return;
    sw_filewatch_free(a->watch);
    state_free(a->now);
    sw_slice_free(&a->trust_domain);
    sw_free(a->dir);
    sw_free(a);
}

/* --- use --- */

struct sw_slice sw_authority_trust_domain(const struct sw_authority *a)
{
    return a->trust_domain;
}

size_t sw_authority_chain(const struct sw_authority *a, const struct sw_slice **ret)
{
    *ret = a->now->chain.p;
    return a->now->chain.n;
}

struct sw_slice sw_authority_roots(const struct sw_authority *a)
{
    return a->now->bundle;
}

int sw_authority_sign(const struct sw_authority *a, struct sw_slice id, uint64_t ttl_s,
                      struct sw_slice csr, struct sw_buf *ret_cert, struct sw_ca_signed *ret,
                      struct sw_err *err)
{
    const struct sw_ca_leaf leaf = {.id = id, .ttl_s = ttl_s};

    return sw_ca_sign(a->now->ca, &leaf, csr, ret_cert, ret, err);
}

struct sw_tls_cred *sw_authority_cred(const struct sw_authority *a, const char *const *names,
                                      struct sw_err *err)
{
    SW_BUF_AUTO chain = {.max = PEM_MAX};
    SW_BUF_AUTO key = {.max = PEM_MAX};
    struct sw_tls_cred *cred = NULL;
    int rc = sw_ca_issue_web(
        a->now->ca,
        &(struct sw_ca_web){.cn = names[0], .sans = names, .server = true, .ttl_s = server_ttl_s},
        &chain, &key, err);

    for (size_t i = 0; i < a->now->chain.n && rc == SW_OK; i++)
        rc = sw_buf_printf(&chain, "%.*s\n", SW_SLICE_ARG(a->now->chain.p[i]));
    if (rc == SW_OK)
        cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                         .key = sw_buf_slice(&key),
                                                         .roots = a->now->bundle,
                                                         .any_identity = true},
                               err);
    if (key.p)
        explicit_bzero(key.p, key.cap);
    return cred;
}
