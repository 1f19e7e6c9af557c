/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs of keys: a text that is accepted is the only one for its content; a Connector is judged
 * the same each time; and one that is proved is not any more with another uid, namespace, name, key
 * or resourceVersion signed.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "quic/id/keyproof.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void one_form(struct sw_slice text)
{
    uint8_t sig[SW_ED25519_SIG];
    char again[SW_KEYPROOF_TEXT];
    uint64_t version;
    int at;

    if (sw_keyproof_parse(text, &version, sig) != SW_OK)
        return;
    at = snprintf(again, sizeof(again), "v1.%llu.", (unsigned long long)version);
    for (size_t i = 0; i < sizeof(sig); i++)
        at += snprintf(again + at, sizeof(again) - (size_t)at, "%02x", sig[i]);
    assert(sw_slice_eq_str(text, again));
}

static void changed(struct sw_arena *a, const struct sw_json *obj, const char *field)
{
    struct sw_json *copy = sw_json_copy(a, obj);
    struct sw_json *meta = sw_json_find(copy, "metadata");
    struct sw_slice was = sw_json_str(sw_json_find(meta, field));

    sw_json_put_str(a, meta, field, sw_slice_str(sw_arena_printf(a, "%.*sx", SW_SLICE_ARG(was))));
    assert(sw_keyproof_check(copy, NULL) != SW_KEYPROOF_VALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *obj = NULL;
    struct sw_json *copy;
    uint64_t version;
    uint64_t again;
    enum sw_keyproof state;

    if (n > 1 << 14)
        return 0;
    one_form(sw_slice(p, n));
    if (sw_json_parse(&a, sw_slice(p, n), NULL, &obj, NULL) != SW_OK)
        return 0;
    one_form(sw_json_str(sw_json_walk(obj, "metadata", "annotations", SW_KEYPROOF, NULL)));
    state = sw_keyproof_check(obj, &version);
    assert(sw_keyproof_text(state)[0]);
    assert(sw_keyproof_check(obj, &again) == state && again == version);
    if (state != SW_KEYPROOF_VALID) {
        assert(version == 0);
        return 0;
    }
    assert(version <= sw_keyproof_version(obj));
    changed(&a, obj, "uid");
    changed(&a, obj, "namespace");
    changed(&a, obj, "name");
    copy = sw_json_copy(&a, obj);
    sw_json_put_str(
        &a, sw_json_walk(copy, "status", "connectionDetails", "publicKey", NULL), "id",
        SW_SLICE_LIT("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
    assert(sw_json_equal(copy, obj, SW_JSON_EQ_TEXT) ||
           sw_keyproof_check(copy, NULL) == SW_KEYPROOF_WRONG);
    return 0;
}
