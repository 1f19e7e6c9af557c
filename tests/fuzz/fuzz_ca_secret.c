/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON as the Secret of a certificate authority: what is taken from it can be written back and
 * read again, and its roots are within bounds.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "identity/material.h"
#include "identity/rotation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_roots(struct sw_arena *a, const struct sw_ca_material *m)
{
    struct sw_ca_roots roots = {0};
    struct sw_err err = {0};
    struct sw_slice text;

    if (sw_ca_material_roots(m, &roots, &err) != SW_OK) {
        assert(err.msg[0]);
        return;
    }
    assert(roots.n > 0 && roots.n <= SW_CA_ROOTS_MAX);
    text = sw_ca_roots_text(a, &roots);
    for (size_t i = 0; i < roots.n; i++)
        assert(sw_ca_roots_have(&roots, roots.cert[i]) && roots.cert[i].n < text.n);
}

/* Nothing but what is derived, the text of all roots, may differ. */
static void check_writing(struct sw_arena *a, const struct sw_ca_material *m,
                          const struct sw_json *secret)
{
    struct sw_json *again = sw_ca_material_to_secret(a, m, secret, "ns", "name");
    struct sw_ca_material back;
    struct sw_err err = {0};

    if (sw_json_find(sw_json_find(again, "data"), "tls.crt"))
        return; /* another form, which is never written */
    assert(sw_ca_material_from_secret(a, again, &back, &err) == SW_OK);
    for (size_t i = 0; i < SW_CA_PARTS; i++)
        assert(i == SW_CA_ROOTS || sw_slice_eq(back.part[i], m->part[i]));
    assert(!back.hurry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sw_rotation_opts o = {.wait_s = 60, .linger_s = 60};
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material m;
    struct sw_json *secret;
    struct sw_err err = {0};
    uint64_t due;

    if (sw_json_parse(&a, sw_slice(data, size), NULL, &secret, &err) != SW_OK)
        return 0;
    err = (struct sw_err){0};
    if (sw_ca_material_from_secret(&a, secret, &m, &err) != SW_OK) {
        assert(err.msg[0]);
        return 0;
    }
    check_roots(&a, &m);
    if (m.own)
        check_writing(&a, &m, secret);
    if (sw_rotation_due(&m, &o, &due, &err) != SW_OK)
        assert(err.msg[0]);
    return 0;
}
