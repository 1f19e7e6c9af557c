/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/rotation.h"

#include <inttypes.h>
#include <string.h>

#include "identity/material.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"

/* Text before a certificate is a comment in PEM (RFC 7468 section 2). */
#define REPLACED "# replaced "

const char *sw_rotation_name(enum sw_rotation_step step)
{
    static const char *const names[] = {
        [SW_ROTATION_NONE] = "none",
        [SW_ROTATION_ANNOUNCE] = "announce",
        [SW_ROTATION_SWITCH] = "switch",
        [SW_ROTATION_FORGET] = "forget",
    };

    return names[step];
}

enum sw_rotation_step sw_rotation_next(const struct sw_ca_material *m)
{
    if (!m->own)
        return SW_ROTATION_NONE;
    if (m->part[SW_CA_NEXT_CERT].n)
        return SW_ROTATION_SWITCH;
    return m->part[SW_CA_PREVIOUS].n ? SW_ROTATION_FORGET : SW_ROTATION_ANNOUNCE;
}

/* --- when --- */

static int life_of(struct sw_slice cert, struct sw_slice key, uint64_t *ret_from, uint64_t *ret_to,
                   struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_from_pem(cert, key, err);

    if (!ca)
        return err->rc;
    *ret_from = sw_ca_not_before(ca);
    *ret_to = sw_ca_not_after(ca);
    sw_ca_free(ca);
    return SW_OK;
}

/* When the root before was replaced; 0: unknown, so any time. */
static uint64_t replaced_at(struct sw_slice previous)
{
    const char *at = memmem(previous.p, previous.n, REPLACED, strlen(REPLACED));
    uint64_t s = 0;

    for (at = at ? at + strlen(REPLACED) : NULL;
         at && at < previous.p + previous.n && *at >= '0' && *at <= '9' && s < UINT32_MAX; at++)
        s = s * 10 + (uint64_t)(*at - '0');
    return s;
}

/* Half of what is left to the old root is for certificates of the new one to spread. */
static int switch_due(const struct sw_ca_material *m, const struct sw_rotation_opts *o,
                      uint64_t ends_s, uint64_t *ret_s, struct sw_err *err)
{
    uint64_t from = 0;
    uint64_t to = 0;
    int rc = life_of(m->part[SW_CA_NEXT_CERT], m->part[SW_CA_NEXT_KEY], &from, &to, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "the next root");
    *ret_s = from + sw_min(o->wait_s, ends_s > from ? (ends_s - from) / 2 : 0);
    return SW_OK;
}

int sw_rotation_due(const struct sw_ca_material *m, const struct sw_rotation_opts *o,
                    uint64_t *ret_s, struct sw_err *err)
{
    enum sw_rotation_step next = sw_rotation_next(m);
    uint64_t from = 0;
    uint64_t to = 0;
    int rc = next == SW_ROTATION_NONE
                 ? SW_OK
                 : life_of(m->part[SW_CA_CERT], m->part[SW_CA_KEY], &from, &to, err);

    if (rc != SW_OK)
        return rc;
    switch (next) {
    case SW_ROTATION_NONE:
        *ret_s = UINT64_MAX;
        break;
    case SW_ROTATION_ANNOUNCE:
        *ret_s = to - (to - from) / 5;
        break;
    case SW_ROTATION_SWITCH:
        return switch_due(m, o, to, ret_s, err);
    case SW_ROTATION_FORGET:
        *ret_s = replaced_at(m->part[SW_CA_PREVIOUS]) + o->linger_s;
        break;
    }
    return SW_OK;
}

/* --- steps --- */

static int announce(struct sw_arena *a, const struct sw_rotation_opts *o, struct sw_ca_material *m,
                    struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_from_pem(m->part[SW_CA_CERT], m->part[SW_CA_KEY], err);
    struct sw_ca_material fresh;
    struct sw_slice named;
    int rc;

    if (!ca)
        return err->rc;
    named = sw_ca_trust_domain(ca);
    rc = sw_ca_material_new(a, named.n ? named : o->trust_domain, &fresh, err);
    sw_ca_free(ca);
    if (rc != SW_OK)
        return rc;
    m->part[SW_CA_NEXT_CERT] = fresh.part[SW_CA_CERT];
    m->part[SW_CA_NEXT_KEY] = fresh.part[SW_CA_KEY];
    return SW_OK;
}

static void use_next(struct sw_arena *a, uint64_t now_s, struct sw_ca_material *m)
{
    m->part[SW_CA_PREVIOUS] = sw_slice_str(
        sw_arena_printf(a, REPLACED "%" PRIu64 "\n%.*s", now_s, SW_SLICE_ARG(m->part[SW_CA_CERT])));
    m->part[SW_CA_CERT] = m->part[SW_CA_NEXT_CERT];
    m->part[SW_CA_KEY] = m->part[SW_CA_NEXT_KEY];
    m->part[SW_CA_NEXT_CERT] = m->part[SW_CA_NEXT_KEY] = sw_slice("", 0);
}

/* Where all roots stand in one text, the old one is taken out of it, too. */
static void forget(struct sw_arena *a, struct sw_ca_material *m)
{
    struct sw_slice rest = m->part[SW_CA_ROOTS];
    struct sw_slice old = m->part[SW_CA_PREVIOUS];
    struct sw_slice kept = sw_slice("", 0);
    struct sw_slice gone;
    struct sw_slice cert;

    if (sw_pem_next_cert(&old, &gone) != SW_OK)
        gone = sw_slice("", 0);
    while (sw_pem_next_cert(&rest, &cert) == SW_OK) {
        if (!sw_slice_eq(cert, gone))
            kept = sw_slice_str(
                sw_arena_printf(a, "%.*s%.*s\n", SW_SLICE_ARG(kept), SW_SLICE_ARG(cert)));
    }
    m->part[SW_CA_ROOTS] = kept;
    m->part[SW_CA_PREVIOUS] = sw_slice("", 0);
}

int sw_rotation_do(struct sw_arena *a, const struct sw_ca_material *m,
                   const struct sw_rotation_opts *o, uint64_t now_s, struct sw_ca_material *ret,
                   struct sw_err *err)
{
    struct sw_ca_material next = *m;
    int rc = SW_OK;

    next.hurry = false;
    switch (sw_rotation_next(m)) {
    case SW_ROTATION_NONE:
        return sw_err_set(err, SW_EINVAL, "the CA is plugged in: its owner rotates it");
    case SW_ROTATION_ANNOUNCE:
        rc = announce(a, o, &next, err);
        break;
    case SW_ROTATION_SWITCH:
        use_next(a, now_s, &next);
        break;
    case SW_ROTATION_FORGET:
        forget(a, &next);
        break;
    }
    if (rc == SW_OK)
        *ret = next;
    return rc;
}
