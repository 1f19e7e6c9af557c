/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/material.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/secret.h"
#include "kube/client/kinds.h"
#include "kube/client/secret.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"

#define OWN_TYPE "istio.io/ca-root"
#define GENERATED                                                                                  \
    "istio-generated" /* marks a Secret of the plugged-in form that is self-signed                 \
                       */

/* --- roots --- */

bool sw_ca_roots_have(const struct sw_ca_roots *roots, struct sw_slice cert)
{
    for (size_t i = 0; i < roots->n; i++) {
        if (sw_slice_eq(roots->cert[i], cert))
            return true;
    }
    return false;
}

static int add_roots(struct sw_ca_roots *roots, struct sw_slice pem, struct sw_err *err)
{
    struct sw_slice cert;
    int rc;

    while ((rc = sw_pem_next_cert(&pem, &cert)) == SW_OK) {
        if (sw_ca_roots_have(roots, cert))
            continue;
        if (roots->n == SW_CA_ROOTS_MAX)
            break;
        roots->cert[roots->n++] = cert;
    }
    return rc == SW_ENOENT ? SW_OK
                           : sw_err_set(err, SW_EINVAL, "bad or too many root certificates");
}

int sw_ca_material_roots(const struct sw_ca_material *m, struct sw_ca_roots *ret,
                         struct sw_err *err)
{
    static const enum sw_ca_part own[] = {SW_CA_CERT, SW_CA_NEXT_CERT, SW_CA_PREVIOUS};
    struct sw_ca_roots roots = {0};
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ARRAY_LEN(own) && m->own && rc == SW_OK; i++)
        rc = add_roots(&roots, m->part[own[i]], err);
    if (rc == SW_OK)
        rc = add_roots(&roots, m->part[SW_CA_ROOTS], err);
    if (rc == SW_OK && roots.n == 0)
        rc = sw_err_set(err, SW_EINVAL, "no root certificates");
    if (rc == SW_OK)
        *ret = roots;
    return rc;
}

struct sw_slice sw_ca_roots_text(struct sw_arena *a, const struct sw_ca_roots *roots)
{
    struct sw_slice text = sw_slice("", 0);

    for (size_t i = 0; i < roots->n; i++)
        text = sw_slice_str(
            sw_arena_printf(a, "%.*s%.*s\n", SW_SLICE_ARG(text), SW_SLICE_ARG(roots->cert[i])));
    return text;
}

/* No name constraints: the verifier of ztunnel refuses every certificate below a root with some of
 * URIs. */
int sw_ca_material_new(struct sw_arena *a, struct sw_slice trust_domain, struct sw_ca_material *ret,
                       struct sw_err *err)
{
    SW_BUF_SECRET key = {.max = SW_CA_PEM_MAX};
    struct sw_ca *ca = sw_ca_new(trust_domain, 0, err);
    int rc = ca ? sw_ca_key_pem(ca, &key, err) : err->rc;

    if (rc == SW_OK) {
        *ret = (struct sw_ca_material){.own = true};
        ret->part[SW_CA_CERT] = sw_arena_slice(a, sw_ca_root_pem(ca));
        ret->part[SW_CA_KEY] = sw_arena_slice(a, sw_buf_slice(&key));
    }
    sw_ca_free(ca);
    return rc;
}

/* --- Secrets --- */

static const char *const secret_names[SW_CA_PARTS] = {
    [SW_CA_CERT] = "ca-cert.pem",      [SW_CA_KEY] = "ca-key.pem",
    [SW_CA_CHAIN] = "cert-chain.pem",  [SW_CA_ROOTS] = "root-cert.pem",
    [SW_CA_CRL] = "ca-crl.pem",        [SW_CA_NEXT_CERT] = "next-cert.pem",
    [SW_CA_NEXT_KEY] = "next-key.pem", [SW_CA_PREVIOUS] = "previous-cert.pem",
};
static const char *const tls_names[SW_CA_PARTS] = {[SW_CA_CERT] = "tls.crt",
                                                   [SW_CA_KEY] = "tls.key",
                                                   [SW_CA_ROOTS] = "ca.crt",
                                                   [SW_CA_CRL] = "ca-crl.pem"};

static int decode(struct sw_arena *a, const struct sw_json *secret, const char *name,
                  struct sw_slice *ret, struct sw_err *err)
{
    SW_BUF_SECRET out = {.max = SW_CA_PEM_MAX};
    int rc = sw_secret_get(secret, name, &out);

    if (rc == SW_OK)
        *ret = sw_arena_slice(a, sw_buf_slice(&out));
    return rc == SW_OK || rc == SW_ENOENT
               ? SW_OK
               : sw_err_set(err, SW_EINVAL, "'%s' is not base64, or too long", name);
}

static int check_complete(const struct sw_ca_material *m, const char *const *names,
                          struct sw_err *err)
{
    for (size_t i = SW_CA_CERT; i <= SW_CA_ROOTS; i++) {
        bool needed = names[i] && (i != SW_CA_CHAIN || !m->own) && (i != SW_CA_ROOTS || !m->own);

        if (needed && m->part[i].n == 0)
            return sw_err_set(err, SW_EINVAL, "'%s' is missing", names[i]);
    }
    return SW_OK;
}

int sw_ca_material_from_secret(struct sw_arena *a, const struct sw_json *secret,
                               struct sw_ca_material *ret, struct sw_err *err)
{
    const struct sw_json *data = sw_json_find(secret, "data");
    const struct sw_json *notes = sw_json_walk(secret, "metadata", "annotations", NULL);
    const char *const *names = sw_json_find(data, "tls.crt") ? tls_names : secret_names;
    struct sw_ca_material m = {.own = sw_json_str_eq(sw_json_find(secret, "type"), OWN_TYPE) ||
                                      sw_json_find(data, GENERATED),
                               .hurry = sw_json_find(notes, SW_CA_ROTATE_ANNOTATION) != NULL};
    int rc = SW_OK;

    for (size_t i = 0; i < SW_CA_PARTS && rc == SW_OK; i++)
        rc = names[i] ? decode(a, secret, names[i], &m.part[i], err) : SW_OK;
    if (rc == SW_OK)
        rc = check_complete(&m, names, err);
    if (rc == SW_OK)
        *ret = m;
    return rc;
}

static struct sw_json *new_secret(struct sw_arena *a, const char *ns, const char *name)
{
    struct sw_json *data;
    struct sw_json *o = sw_secret_object(a, &sw_secrets_gvr, ns, name, &data);

    sw_json_put_text(a, o, "type", OWN_TYPE);
    return o;
}

struct sw_json *sw_ca_material_to_secret(struct sw_arena *a, const struct sw_ca_material *m,
                                         const struct sw_json *basis, const char *ns,
                                         const char *name)
{
    struct sw_json *o = basis ? sw_json_copy(a, basis) : new_secret(a, ns, name);
    struct sw_json *data = sw_json_get(o, SW_SLICE_LIT("data"));
    struct sw_json *notes =
        sw_json_get(sw_json_get(o, SW_SLICE_LIT("metadata")), SW_SLICE_LIT("annotations"));
    struct sw_ca_roots roots = {0};

    for (size_t i = 0; i < SW_CA_PARTS; i++) {
        if (m->part[i].n || i <= SW_CA_ROOTS)
            sw_secret_put(a, data, secret_names[i], m->part[i]);
        else
            (void)sw_json_remove(data, sw_slice_str(secret_names[i]));
    }
    /* Others who mount the Secret find all roots at the place they know. */
    if (sw_ca_material_roots(m, &roots, NULL) == SW_OK)
        sw_secret_put(a, data, secret_names[SW_CA_ROOTS], sw_ca_roots_text(a, &roots));
    if (sw_json_is(notes, SW_JSON_OBJECT))
        (void)sw_json_remove(notes, SW_SLICE_LIT(SW_CA_ROTATE_ANNOTATION));
    return o;
}
