/* SPDX-License-Identifier: Apache-2.0 */
/* Delta responses read in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/pb.h"
#include "xds/client_int.h"

#include <proto/discovery.pb-c.h>

enum { MEMORY = 1 << 20 };

static Sw__Resource *resource(struct sw_arena *a, const char *name, const char *value)
{
    Sw__Resource *r = SW_PB_NEW(a, Sw__Resource, sw__resource);

    r->name = SW_PB_BYTES(sw_slice_str(name));
    r->version = SW_PB_LIT("7");
    r->ttl = SW_PB_NEW(a, Sw__Duration, sw__duration);
    if (!value)
        return r;
    r->resource = SW_PB_NEW(a, Sw__Any, sw__any);
    r->resource->type_url = SW_PB_LIT("t");
    r->resource->value = SW_PB_BYTES(sw_slice_str(value));
    return r;
}

static struct sw_slice response(struct sw_arena *a)
{
    Sw__DeltaDiscoveryResponse *r =
        SW_PB_NEW(a, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response);
    Sw__Resource *resources[3];
    ProtobufCBinaryData aliases[] = {SW_PB_LIT("x"), SW_PB_LIT("y")};
    ProtobufCBinaryData removed[] = {SW_PB_LIT("gone"), SW_PB_LIT("too")};

    resources[0] = resource(a, "a", "1");
    resources[1] = resource(a, "alive", NULL);
    resources[2] = resource(a, "b", "2");
    resources[0]->aliases = &aliases[0];
    resources[1]->aliases = &aliases[1];
    resources[2]->aliases = &aliases[0];
    resources[0]->n_aliases = resources[1]->n_aliases = 1;
    resources[2]->n_aliases = 2;
    r->resources = resources;
    r->n_resources = 3;
    r->system_version_info = SW_PB_LIT("v");
    r->type_url = SW_PB_LIT("T");
    r->nonce = SW_PB_LIT("n");
    r->removed_resources = removed;
    r->n_removed_resources = 2;
    r->control_plane = SW_PB_NEW(a, Sw__ControlPlane, sw__control_plane);
    return sw_pb_pack(a, &r->base);
}

static void assert_slice(struct sw_slice s, const char *text)
{
    assert_true(sw_slice_eq_str(s, text));
}

static void everything_is_found_in_the_message(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct xc_update up;
    const struct sw_xds_item *it;

    (void)state;
    assert_int_equal(xc_update_read(&a, response(&a), MEMORY, &up, NULL), SW_OK);
    assert_slice(up.u.type, "T");
    assert_slice(up.nonce, "n");
    assert_int_equal(up.u.n_added, 2); /* one without a value is none */
    it = up.u.added;
    assert_slice(it[0].name, "a");
    assert_slice(it[0].version, "7");
    assert_slice(it[0].type, "t");
    assert_slice(it[0].value, "1");
    assert_int_equal(it[0].n_aliases, 1);
    assert_slice(it[1].name, "b");
    assert_slice(it[1].value, "2");
    assert_int_equal(it[1].n_aliases, 2);
    assert_slice(it[1].aliases[1], "y");
    assert_int_equal(up.u.n_removed, 2);
    assert_slice(up.u.removed[1], "too");
}

static void an_empty_response_is_one(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct xc_update up;

    (void)state;
    assert_int_equal(xc_update_read(&a, sw_slice("", 0), MEMORY, &up, NULL), SW_OK);
    assert_int_equal(up.u.n_added + up.u.n_removed, 0);
    assert_int_equal(up.u.type.n + up.nonce.n, 0);
}

static void fields_of_later_versions_are_skipped(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct xc_update up;

    (void)state;
    /* Numbers 3, 8 and 100, as a varint, bytes and a fixed32. */
    assert_int_equal(xc_update_read(&a,
                                    SW_SLICE_LIT("\x18\x05"
                                                 "\x42\x01x"
                                                 "\xa5\x06"
                                                 "abcd"
                                                 "\x22\x01T"),
                                    MEMORY, &up, NULL),
                     SW_OK);
    assert_slice(up.u.type, "T");
}

static void malformed_responses_are_refused(void **state)
{
    static const struct sw_slice bad[] = {
        SW_SLICE_LIT("\x10\x05"),                                 /* resources as a varint */
        SW_SLICE_LIT("\x12\x05\x12"),                             /* cut */
        SW_SLICE_LIT("\x12\x02\x18\x01"),                         /* a name as a varint */
        SW_SLICE_LIT("\x12\x02\x12\x05"),                         /* an Any that is cut */
        SW_SLICE_LIT("\x12\x04\x12\x02\x10\x01"),                 /* its value as a varint */
        SW_SLICE_LIT("\x12\x03\x22\x05x"),                        /* an alias that is cut */
        SW_SLICE_LIT("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff"), /* an endless length */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_err err = {0};
        struct xc_update up;

        assert_int_equal(xc_update_read(&a, bad[i], MEMORY, &up, &err), SW_EPROTO);
        assert_int_equal(err.rc, SW_EPROTO);
    }
}

static void memory_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct xc_update up;
    char *many = sw_arena_alloc(&a, 2000);

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        many[2 * i] = 0x12; /* an empty resource each */
    assert_int_equal(xc_update_read(&a, sw_slice(many, 2000), 10000, &up, &err), SW_ELIMIT);
    assert_int_equal(err.rc, SW_ELIMIT);
    assert_int_equal(xc_update_read(&a, sw_slice(many, 2000), MEMORY, &up, NULL), SW_OK);
    assert_int_equal(up.u.n_added, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_found_in_the_message),
        cmocka_unit_test(an_empty_response_is_one),
        cmocka_unit_test(fields_of_later_versions_are_skipped),
        cmocka_unit_test(malformed_responses_are_refused),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
