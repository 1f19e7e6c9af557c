/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <proto/discovery.pb-c.h>
#include <proto/google.pb-c.h>

static void what_is_packed_is_unpacked(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__DiscoveryRequest *r = SW_PB_NEW(&a, Sw__DiscoveryRequest, sw__discovery_request);
    Sw__DiscoveryRequest *back;
    ProtobufCBinaryData names[] = {SW_PB_LIT("one"), SW_PB_LIT("a\0b"), SW_PB_LIT("")};
    struct sw_slice bytes;
    struct sw_slice again;

    (void)state;
    r->node = SW_PB_NEW(&a, Sw__Node, sw__node);
    r->node->id = SW_PB_LIT("n1");
    r->type_url = SW_PB_LIT("t");
    r->resource_names = names;
    r->n_resource_names = SW_ARRAY_LEN(names);
    bytes = sw_pb_pack(&a, &r->base);
    assert_int_equal(bytes.n, sw_pb_size(&r->base));
    back = SW_PB_UNPACK(&a, Sw__DiscoveryRequest, sw__discovery_request, bytes, NULL, NULL);
    assert_non_null(back);
    assert_int_equal(back->n_resource_names, 3);
    /* A NUL does not shorten a name. */
    assert_int_equal(back->resource_names[1].len, 3);
    assert_true(sw_slice_eq_str(SW_PB_SLICE(back->node->id), "n1"));
    assert_null(back->error_detail);
    again = sw_pb_pack(&a, &back->base);
    assert_true(sw_slice_eq(bytes, again));
}

static void writing_by_hand_gives_the_same_bytes(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b;
    char big[300] = {'x'};
    Sw__Any any = SW__ANY__INIT;
    Sw__Duration d = SW__DURATION__INIT;

    (void)state;
    sw_buf_init(&b, 1000);
    any.type_url = SW_PB_LIT("type");
    any.value = SW_PB_BYTES(sw_slice(big, sizeof(big)));
    assert_int_equal(sw_pb_put_bytes(&b, 1, SW_SLICE_LIT("type")), SW_OK);
    assert_int_equal(sw_pb_put_head(&b, 2, sizeof(big)), SW_OK);
    assert_int_equal(sw_buf_append(&b, big, sizeof(big)), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&b), sw_pb_pack(&a, &any.base)));
    assert_int_equal(sw_buf_len(&b), sw_pb_bytes_size(1, 4) + sw_pb_bytes_size(2, sizeof(big)));
    sw_buf_clear(&b);
    d.seconds = 1234567;
    assert_int_equal(sw_pb_put_varint(&b, 1, 1234567), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&b), sw_pb_pack(&a, &d.base)));
}

static void a_full_buffer_is_left_alone(void **state)
{
    SW_BUF_AUTO b;

    (void)state;
    sw_buf_init(&b, 6);
    assert_int_equal(sw_pb_put_bytes(&b, 1, SW_SLICE_LIT("12345")), SW_ELIMIT);
    assert_int_equal(sw_buf_len(&b), 0);
    assert_int_equal(sw_pb_put_bytes(&b, 1, SW_SLICE_LIT("1234")), SW_OK);
    assert_int_equal(sw_pb_put_varint(&b, 1, 0), SW_ELIMIT);
    assert_int_equal(sw_buf_len(&b), 6);
}

/* Value.list_value (6) -> ListValue.values (1) -> Value ... */
static struct sw_slice nested(struct sw_arena *a, unsigned levels)
{
    Sw__Value *v = SW_PB_NEW(a, Sw__Value, sw__value);

    for (unsigned i = 0; i < levels; i++) {
        Sw__Value *outer = SW_PB_NEW(a, Sw__Value, sw__value);
        Sw__ListValue *l = SW_PB_NEW(a, Sw__ListValue, sw__list_value);

        l->n_values = 1;
        l->values = sw_arena_alloc(a, sizeof(*l->values));
        l->values[0] = v;
        outer->kind_case = SW__VALUE__KIND_LIST_VALUE;
        outer->list_value = l;
        v = outer;
    }
    return sw_pb_pack(a, &v->base);
}

static void nesting_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_slice deep = nested(&a, 200);

    (void)state;
    assert_non_null(SW_PB_UNPACK(&a, Sw__Value, sw__value, nested(&a, 20), NULL, &err));
    assert_null(SW_PB_UNPACK(&a, Sw__Value, sw__value, deep, NULL, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
    assert_non_null(
        SW_PB_UNPACK(&a, Sw__Value, sw__value, deep, &(struct sw_pb_limits){.depth = 401}, &err));
    assert_null(
        SW_PB_UNPACK(&a, Sw__Value, sw__value, deep, &(struct sw_pb_limits){.depth = 400}, &err));
}

static void memory_and_size_are_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    size_t n = 100000;
    char *many = sw_arena_alloc(&a, 2 * n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        many[2 * i] = 0x0a; /* an empty Value each */
    assert_null(SW_PB_UNPACK(&a, Sw__ListValue, sw__list_value, sw_slice(many, 2 * n),
                             &(struct sw_pb_limits){.memory = 1 << 20}, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
    assert_null(SW_PB_UNPACK(&a, Sw__ListValue, sw__list_value, sw_slice(many, 2 * n),
                             &(struct sw_pb_limits){.bytes = 1000}, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
}

static void broken_bytes_are_refused(void **state)
{
    static const struct sw_slice bad[] = {
        SW_SLICE_LIT("\x0a"), /* no length */
        SW_SLICE_LIT("\x0a\x05"
                     "abc"),                                          /* cut */
        SW_SLICE_LIT("\x02\x00"),                                     /* field 0 */
        SW_SLICE_LIT("\x0b\x0c"),                                     /* a group */
        SW_SLICE_LIT("\x0f"),                                         /* wire type 7 */
        SW_SLICE_LIT("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), /* endless varint */
        SW_SLICE_LIT("\x0d\x01\x02"),                                 /* cut fixed32 */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_err err = {0};

        assert_null(SW_PB_UNPACK(&a, Sw__Any, sw__any, bad[i], NULL, &err));
        assert_int_equal(err.rc, SW_EPROTO);
    }
}

static void maps_are_sorted_by_key(void **state)
{
    SW_ARENA_AUTO a = {0};
    static const char *keys[] = {"b", "a", "ab", ""};
    Sw__StructField *f[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        f[i] = SW_PB_NEW(&a, Sw__StructField, sw__struct_field);
        f[i]->key = SW_PB_BYTES(sw_slice_str(keys[i]));
    }
    sw_pb_sort_entries(f, 4);
    assert_true(sw_slice_eq_str(SW_PB_SLICE(f[0]->key), ""));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(f[1]->key), "a"));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(f[2]->key), "ab"));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(f[3]->key), "b"));
}

static void a_type_url_loses_its_prefix(void **state)
{
    (void)state;
    assert_true(sw_slice_eq_str(sw_pb_type_name(SW_SLICE_LIT("type.googleapis.com/a.B")), "a.B"));
    assert_true(sw_slice_eq_str(sw_pb_type_name(SW_SLICE_LIT("x/a.B")), "x/a.B"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_is_unpacked),
        cmocka_unit_test(writing_by_hand_gives_the_same_bytes),
        cmocka_unit_test(a_full_buffer_is_left_alone),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(memory_and_size_are_bounded),
        cmocka_unit_test(broken_bytes_are_refused),
        cmocka_unit_test(maps_are_sorted_by_key),
        cmocka_unit_test(a_type_url_loses_its_prefix),
    };

    return cmocka_run_group_tests_name("pb", tests, NULL, NULL);
}
