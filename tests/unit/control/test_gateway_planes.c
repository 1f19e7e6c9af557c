/* SPDX-License-Identifier: Apache-2.0 */
/* What data planes say of listeners: read out of refusals, written and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "control/gateway/planes.h"

static bool known(void *arg, struct sw_slice name)
{
    (void)arg;
    return sw_slice_has_prefix(name, SW_SLICE_LIT("tcp/"));
}

static const struct {
    const char *text;
    const char *name; /* of a fault; NULL: there is none */
    const char *why;
    const char *reason;
} refusals[] = {
    /* Envoy's words */
    {"Error adding/updating listener(s) tcp/127.0.0.1/80: cannot bind '127.0.0.1:8080': Address "
     "already in use\n",
     "tcp/127.0.0.1/80", "cannot bind '127.0.0.1:8080': Address already in use", "AddressInUse"},
    {"Error adding/updating listener(s) other: no\ntcp/::1/443: cannot bind '[::1]:8443': Cannot "
     "assign requested address",
     "tcp/::1/443", "cannot bind '[::1]:8443': Cannot assign requested address",
     "AddressNotUsable"},
    {"tcp/10.0.0.1/80: unknown\tfilter\x01", "tcp/10.0.0.1/80", "unknown filter ", "Invalid"},
    {"Error adding/updating listener(s) foreign: cannot bind", NULL, NULL, NULL},
    {"tcp/127.0.0.1/80", NULL, NULL, NULL},
    {"tcp/a b/80: x", NULL, NULL, NULL},
    {": x", NULL, NULL, NULL},
    {"", NULL, NULL, NULL},
};

static void faults_are_read_out_of_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(refusals); i++) {
        struct sw_planes p = {0};
        const struct sw_plane_fault *f;

        sw_planes_refusal(&p, SW_SLICE_LIT("edge"), sw_slice_str(refusals[i].text), known, NULL);
        if (!refusals[i].name) {
            assert_int_equal(p.faults.n, 0);
            sw_planes_done(&p);
            continue;
        }
        assert_int_equal(p.faults.n, 1);
        f = sw_map_get(&p.faults, sw_slice_str(refusals[i].name));
        assert_non_null(f);
        assert_true(sw_slice_eq_str(f->why, refusals[i].why));
        assert_true(sw_slice_eq_str(f->node, "edge"));
        assert_string_equal(sw_plane_reason(f), refusals[i].reason);
        sw_planes_done(&p);
    }
}

static void what_is_written_is_read_again(void **state)
{
    struct sw_planes p = {.starting = true, .n = 3};
    struct sw_planes q = {0};
    SW_BUF_AUTO one = {.max = 4096};
    SW_BUF_AUTO two = {.max = 4096};

    (void)state;
    sw_planes_hold(&p, SW_SLICE_LIT("tcp/b/2"));
    sw_planes_hold(&p, SW_SLICE_LIT("tcp/a/1"));
    sw_planes_fault(&p, SW_SLICE_LIT("tcp/a/1"), SW_SLICE_LIT("n\to\nde"),
                    SW_SLICE_LIT("why\nheld x"));
    sw_planes_fault(&p, SW_SLICE_LIT("tcp/a/1"), SW_SLICE_LIT("second"), SW_SLICE_LIT("no"));
    assert_int_equal(sw_planes_write(&p, &one), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&one),
                                "starting\nplanes 3\nheld tcp/a/1\nheld tcp/b/2\n"
                                "fault tcp/a/1\tn o de\twhy held x\n"));
    sw_planes_read(&q, sw_buf_slice(&one));
    assert_int_equal(sw_planes_write(&q, &two), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&one), sw_buf_slice(&two)));
    sw_planes_read(&q, SW_SLICE_LIT("planes 2\nplanes x\nheld\nfault\nwhatever\n\nheld c"));
    assert_int_equal(q.n, 5);
    assert_int_equal(q.held.n, 3);
    assert_int_equal(q.faults.n, 1);
    sw_planes_done(&p);
    sw_planes_done(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_read_out_of_refusals),
        cmocka_unit_test(what_is_written_is_read_again),
    };

    return cmocka_run_group_tests_name("gateway planes", tests, NULL, NULL);
}
