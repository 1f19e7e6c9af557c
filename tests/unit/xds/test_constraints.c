/* SPDX-License-Identifier: Apache-2.0 */
/* The table of constraints: every row, by a message that meets it and one that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <protobuf-c/protobuf-c.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/arena.h"
#include "proto/pb.h"
#include "xds/constraints.h"
#include "xds/fields.h"

static const ProtobufCFieldDescriptor *field_of(const struct sw_pb_constraint *row)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(row->type, row->field);

    if (!f)
        fail_msg("%s has no field %s", row->type->name, row->field);
    return f;
}

/* Sets a field to a number, a list to one of that many items, a text to that many bytes. */
static void set(struct sw_arena *a, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                uint64_t v)
{
    static uint8_t text[] = "x";
    void *p = (char *)m + f->offset;
    void *quantifier = (char *)m + f->quantifier_offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        *(size_t *)quantifier = v;
        return;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)quantifier = f->id;
    if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        *(double *)p = (double)v;
    } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
        *(ProtobufCBinaryData *)p = (ProtobufCBinaryData){v, text};
    } else if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(uint32_t *)p = (uint32_t)v;
    } else {
        ProtobufCMessage *inner = *(ProtobufCMessage **)p = sw_pb_new(a, f->descriptor);

        if (f->descriptor == &sw__uint32_value__descriptor)
            ((Sw__UInt32Value *)(void *)inner)->value = (uint32_t)v;
        if (f->descriptor == &sw__duration__descriptor)
            ((Sw__Duration *)(void *)inner)->nanos = (int32_t)v;
    }
}

/* Whether this row, not another one of the type, is broken. */
static bool is_broken(const struct sw_pb_constraint *row, const ProtobufCMessage *m)
{
    struct sw_pb_broken broken;
    size_t at = 0;

    while (sw_pb_next_broken(sw_xds_constraints, m, &at, &broken)) {
        assert_true(broken.why[0]);
        if (broken.row == row) {
            assert_string_equal(broken.field, row->text ? "" : row->field);
            return true;
        }
    }
    return false;
}

static void try_number(const struct sw_pb_constraint *row, uint64_t v, bool ok)
{
    SW_ARENA_AUTO a = {0};
    ProtobufCMessage *m = sw_pb_new(&a, row->type);

    set(&a, m, field_of(row), v);
    if (is_broken(row, m) == ok)
        fail_msg("%s.%s: %llu", row->type->name, row->field, (unsigned long long)v);
}

static void numbers_keep_their_bounds(void **state)
{
    (void)state;
    for (const struct sw_pb_constraint *r = sw_xds_constraints; r->type; r++) {
        if (r->rule != SW_PB_WITHIN)
            continue;
        try_number(r, r->low, true);
        if (r->low)
            try_number(r, r->low - 1, false);
        if (r->high != UINT64_MAX) {
            try_number(r, r->high, true);
            try_number(r, r->high + 1, false);
        }
    }
}

static void what_is_needed_is_set_and_filled(void **state)
{
    (void)state;
    for (const struct sw_pb_constraint *r = sw_xds_constraints; r->type; r++) {
        const ProtobufCFieldDescriptor *f = field_of(r);
        SW_ARENA_AUTO a = {0};
        ProtobufCMessage *m = sw_pb_new(&a, r->type);
        bool member = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;

        if (r->rule == SW_PB_WITHIN || r->rule == SW_PB_DEFINED)
            continue;
        assert_true(r->rule != SW_PB_CHOSEN || member);
        /* A member of a oneof that is not set need not be filled. */
        assert_int_equal(is_broken(r, m), !(r->rule == SW_PB_FILLED && member));
        set(&a, m, f, 0);
        assert_int_equal(is_broken(r, m), r->rule == SW_PB_FILLED);
        set(&a, m, f, 1);
        assert_false(is_broken(r, m));
    }
}

static void enums_have_values_of_their_schema(void **state)
{
    (void)state;
    for (const struct sw_pb_constraint *r = sw_xds_constraints; r->type; r++) {
        const ProtobufCEnumDescriptor *e = field_of(r)->descriptor;

        if (r->rule != SW_PB_DEFINED)
            continue;
        assert_int_equal(field_of(r)->type, PROTOBUF_C_TYPE_ENUM);
        for (unsigned i = 0; i < e->n_values; i++)
            try_number(r, (uint64_t)e->values[i].value, true);
        try_number(r, 1000, false);
        try_number(r, UINT32_MAX, false);
    }
}

static void rows_of_a_type_stand_together_once_each(void **state)
{
    (void)state;
    for (const struct sw_pb_constraint *r = sw_xds_constraints; r->type; r++) {
        for (const struct sw_pb_constraint *o = r + 1; o->type; o++) {
            if (o->type == r->type && o->rule == r->rule && strcmp(o->field, r->field) == 0)
                fail_msg("%s.%s has two rows", r->type->name, r->field);
            if (o->type == r->type && (o - 1)->type != r->type)
                fail_msg("rows of %s stand apart", r->type->name);
        }
    }
}

static void a_number_that_is_none_is_out_of_bounds(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__Percent *p = SW_PB_NEW(&a, Sw__Percent, sw__percent);
    Sw__Cluster *c = SW_PB_NEW(&a, Sw__Cluster, sw__cluster);
    struct sw_err err = {0};

    (void)state;
    p->value = __builtin_nan("");
    assert_int_equal(sw_xds_check_fields(&p->base, &err), SW_EINVAL);
    assert_string_equal(err.msg, "value is not in 0..100");
    c->name = SW_PB_LIT("c");
    c->connect_timeout = SW_PB_NEW(&a, Sw__Duration, sw__duration);
    c->connect_timeout->seconds = -1;
    assert_int_equal(sw_xds_check_fields(&c->base, &err), SW_EINVAL);
    assert_string_equal(err.msg, "connect_timeout must be above 0");
    c->connect_timeout->seconds = 1;
    assert_int_equal(sw_xds_check_fields(&c->base, &err), SW_OK);
}

static void the_gateway_names_the_message_or_its_field(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__Route *r = SW_PB_NEW(&a, Sw__Route, sw__route);
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_xds_check_fields(&r->base, &err), SW_EINVAL);
    assert_string_equal(err.msg, "has no action");
    r->action_case = SW__ROUTE__ACTION_ROUTE;
    r->route = SW_PB_NEW(&a, Sw__RouteAction, sw__route_action);
    assert_int_equal(sw_xds_check_fields(&r->base, &err), SW_EINVAL);
    assert_string_equal(err.msg, "match is missing");
    r->match = SW_PB_NEW(&a, Sw__RouteMatch, sw__route_match);
    assert_int_equal(sw_xds_check_fields(&r->base, &err), SW_EINVAL);
    assert_string_equal(err.msg, "match has no path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_keep_their_bounds),
        cmocka_unit_test(what_is_needed_is_set_and_filled),
        cmocka_unit_test(enums_have_values_of_their_schema),
        cmocka_unit_test(rows_of_a_type_stand_together_once_each),
        cmocka_unit_test(a_number_that_is_none_is_out_of_bounds),
        cmocka_unit_test(the_gateway_names_the_message_or_its_field),
    };

    return cmocka_run_group_tests_name("xds constraints", tests, NULL, NULL);
}
