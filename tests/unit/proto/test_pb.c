/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/walk.h"

#include <proto/discovery.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

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

/* ---- views ---- */

static struct sw_slice some_service(struct sw_arena *a)
{
    Sw__MeshService *s = SW_PB_NEW(a, Sw__MeshService, sw__mesh_service);
    Sw__MeshNetworkAddress *at = SW_PB_NEW(a, Sw__MeshNetworkAddress, sw__mesh_network_address);
    Sw__MeshLoadBalancing *lb = SW_PB_NEW(a, Sw__MeshLoadBalancing, sw__mesh_load_balancing);
    Sw__MeshPort *ports = sw_arena_array(a, 5, sizeof(*ports));

    s->name = SW_PB_LIT("db");
    s->hostname = SW_PB_LIT("db.shop.svc");
    s->addresses = SW_ARENA_NEW(a, Sw__MeshNetworkAddress *);
    s->addresses[s->n_addresses++] = at;
    at->address = SW_PB_LIT("\012\0\0\1");
    at->length_present_case = SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH;
    at->length = 300;
    s->ports = sw_arena_array(a, 5, sizeof(*s->ports));
    for (uint32_t i = 0; i < 5; i++) {
        sw__mesh_port__init(&ports[i]);
        ports[i].service_port = 80 + i;
        ports[i].target_port = 40000;
        s->ports[s->n_ports++] = &ports[i];
    }
    s->canonical = true;
    s->load_balancing = lb;
    lb->routing_preference = sw_arena_array(a, 3, sizeof(*lb->routing_preference));
    lb->n_routing_preference = 3;
    lb->routing_preference[1] = SW__MESH_LOAD_BALANCING__SCOPE__ZONE;
    s->subject_alt_names = sw_arena_array(a, 2, sizeof(*s->subject_alt_names));
    s->n_subject_alt_names = 2;
    s->subject_alt_names[0] = SW_PB_LIT("spiffe://a/b");
    return sw_pb_pack(a, &s->base);
}

/* Messages differ in unknown fields alone, which a view drops. */
static void drop_unknown(void *arg, const struct ProtobufCMessage *m, struct sw_slice path)
{
    (void)arg;
    (void)path;
    ((struct ProtobufCMessage *)(uintptr_t)m)->n_unknown_fields = 0;
}

/* Two parts of one message, which protobuf-c does not merge as other decoders do. */
static bool has_parts(struct sw_slice in)
{
    struct sw_pb_field f;
    unsigned n[16] = {0};

    while (in.n && sw_pb_next(&in, &f) == SW_OK) {
        if (f.number < SW_ARRAY_LEN(n))
            n[f.number]++;
    }
    return n[7] > 1 || n[8] > 1;
}

/* Whether unpacking alone accepted it. */
static bool check_view(struct sw_slice bytes)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err two = {0};
    Sw__MeshService *m = SW_PB_UNPACK(&a, Sw__MeshService, sw__mesh_service, bytes, NULL, NULL);
    Sw__MeshService *v = SW_PB_VIEW(&a, Sw__MeshService, sw__mesh_service, bytes, NULL, &two);

    if (!v) {
        assert_int_equal(two.rc, SW_EPROTO);
        return m != NULL; /* it takes a bool of another wire type */
    }
    assert_non_null(m);
    assert_int_equal(sw_pb_walk(&a, &m->base, &(struct sw_pb_walker){.message = drop_unknown}),
                     SW_OK);
    assert_true(sw_slice_eq(sw_pb_pack(&a, &m->base), sw_pb_pack(&a, &v->base)));
    return false;
}

static void views_and_unpacked_messages_are_equal(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice whole = some_service(&a);
    char *bytes = sw_arena_alloc(&a, whole.n * 2);
    uint32_t seed = 7;
    int stricter = 0;

    (void)state;
    assert_false(check_view(whole));
    /* Twice the same: repeated fields follow each other, messages are merged. */
    memcpy(bytes, whole.p, whole.n);
    memcpy(bytes + whole.n, whole.p, whole.n);
    assert_false(check_view(sw_slice(bytes, whole.n * 2)));
    for (int i = 0; i < 20000; i++) {
        size_t n;

        memcpy(bytes, whole.p, whole.n);
        for (int k = 0; k <= i % 3; k++) {
            seed = seed * 1664525 + 1013904223;
            bytes[(seed >> 8) % whole.n] = (char)(seed >> 24);
        }
        n = i % 5 ? whole.n : (seed >> 4) % whole.n;
        if (!has_parts(sw_slice(bytes, n)))
            stricter += check_view(sw_slice(bytes, n));
    }
    assert_true(stricter < 20);
}

static void a_view_copies_nothing_and_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_slice in = SW_SLICE_LIT("\x0a\x03"
                                      "abc");
    Sw__Any *any = SW_PB_VIEW(&a, Sw__Any, sw__any, in, NULL, NULL);
    const size_t n = 100000;
    char *many = sw_arena_alloc(&a, 2 * n);

    (void)state;
    assert_non_null(any);
    assert_ptr_equal(any->type_url.data, in.p + 2);
    for (size_t i = 0; i < n; i++)
        many[2 * i] = 0x0a; /* an empty port each */
    assert_null(SW_PB_VIEW(&a, Sw__MeshPortList, sw__mesh_port_list, sw_slice(many, 2 * n),
                           &(struct sw_pb_limits){.memory = 1 << 20}, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
    assert_null(SW_PB_VIEW(&a, Sw__MeshPortList, sw__mesh_port_list, sw_slice(many, 2 * n),
                           &(struct sw_pb_limits){.bytes = 1000}, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
    assert_null(SW_PB_VIEW(&a, Sw__MeshService, sw__mesh_service, some_service(&a),
                           &(struct sw_pb_limits){.depth = 1}, &err));
    assert_int_equal(err.rc, SW_ELIMIT);
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
        cmocka_unit_test(views_and_unpacked_messages_are_equal),
        cmocka_unit_test(a_view_copies_nothing_and_is_bounded),
        cmocka_unit_test(maps_are_sorted_by_key),
        cmocka_unit_test(a_type_url_loses_its_prefix),
    };

    return cmocka_run_group_tests_name("pb", tests, NULL, NULL);
}
