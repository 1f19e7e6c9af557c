/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/message/fields.h"

static void grpc_is_known_by_its_content_type(void **state)
{
    static const struct {
        const char *type;
        bool grpc;
    } cases[] = {
        {"application/grpc", true},        {"application/grpc+proto", true},
        {"application/grpc;x=y", true},    {"Application/gRPC+JSON", true},
        {"application/grpc-web", false},   {"application/grp", false},
        {"application/grpcx+json", false}, {"", false},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_gw_fields f;

        sw_gw_fields_init(&a, &f, 4);
        assert_false(sw_gw_fields_grpc(&f));
        sw_gw_fields_add(&a, &f, SW_SLICE_LIT("content-type"), sw_slice_str(cases[i].type));
        if (sw_gw_fields_grpc(&f) != cases[i].grpc)
            fail_msg("%s", cases[i].type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpc_is_known_by_its_content_type),
    };

    return cmocka_run_group_tests_name("gateway fields", tests, NULL, NULL);
}
