/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a certificate authority is made of, wherever it is kept: PEM texts by part. Kept in a
 * directory as a root of our own (root.crt, root.key), or plugged in below another root
 * (ca-cert.pem and so on, or tls.crt and so on); or in a Secret of the forms that Istio knows.
 * A root of our own has successors, see identity/rotation.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_json;

enum sw_ca_part {
    SW_CA_CERT,
    SW_CA_KEY,
    SW_CA_CHAIN,     /* between the certificate and a root */
    SW_CA_ROOTS,     /* further roots to trust */
    SW_CA_CRL,       /* of all CAs concerned */
    SW_CA_NEXT_CERT, /* the root that follows: trusted already, does not sign yet */
    SW_CA_NEXT_KEY,
    SW_CA_PREVIOUS, /* the root before: trusted still */
    SW_CA_PARTS,
};

struct sw_ca_material {
    struct sw_slice part[SW_CA_PARTS]; /* empty: not there */
    bool own;                          /* a root of our own, not plugged in */
    bool hurry;                        /* an operator asked for the next step of its rotation */
};

enum { SW_CA_ROOTS_MAX = 64, SW_CA_PEM_MAX = 1 << 20 };

/* The trusted roots, each once, the signer's first: own roots of all ages, and further ones. */
struct sw_ca_roots {
    struct sw_slice cert[SW_CA_ROOTS_MAX]; /* slices of the material */
    size_t n;
};
SW_NODISCARD int sw_ca_material_roots(const struct sw_ca_material *m, struct sw_ca_roots *ret,
                                      struct sw_err *err);
/* They are one text, each certificate with a line end behind; in the arena. */
struct sw_slice sw_ca_roots_text(struct sw_arena *a, const struct sw_ca_roots *roots);
/* True when the roots have this certificate, compared as text. */
bool sw_ca_roots_have(const struct sw_ca_roots *roots, struct sw_slice cert);

/* A new root of our own for the trust domain; texts in the arena. */
SW_NODISCARD int sw_ca_material_new(struct sw_arena *a, struct sw_slice trust_domain,
                                    struct sw_ca_material *ret, struct sw_err *err);

/* --- directories --- */

/*
 * Reads a directory. SW_ENOENT: there is no CA in it; SW_EINVAL, SW_ELIMIT, SW_ESYS with err: not
 * all of one, or not readable.
 */
SW_NODISCARD int sw_ca_material_read(struct sw_arena *a, const char *dir,
                                     struct sw_ca_material *ret, struct sw_err *err);
/*
 * Writes a root of our own, what changed from old only, in an order in which every state between
 * can be read: interrupted, it is as before or as after.
 */
SW_NODISCARD int sw_ca_material_write(const char *dir, const struct sw_ca_material *old,
                                      const struct sw_ca_material *now, struct sw_err *err);

/* --- Secrets --- */

/* An operator's wish for the next step, on the Secret of a root of our own. */
#define SW_CA_ROTATE_ANNOTATION "spanwire.dev/rotate-root"

/* Reads a Secret. SW_EINVAL: not all of a CA. */
SW_NODISCARD int sw_ca_material_from_secret(struct sw_arena *a, const struct sw_json *secret,
                                            struct sw_ca_material *ret, struct sw_err *err);
/*
 * A Secret for a root of our own, on the basis of one that was read (NULL: a new one of that name);
 * members of data that are not ours stay.
 */
struct sw_json *sw_ca_material_to_secret(struct sw_arena *a, const struct sw_ca_material *m,
                                         const struct sw_json *basis, const char *ns,
                                         const char *name);
