/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations of a root: when a step is due, what it leaves, and in which states files may be read.
 */
#include "identity/rotation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "identity/material.h"

enum { DAY = 86400 };

static const struct sw_rotation_opts opts = {
    .trust_domain = SW_SLICE_LIT("td"), .wait_s = 10 * DAY, .linger_s = 30 * DAY};

static struct sw_ca_material fresh(struct sw_arena *a)
{
    struct sw_ca_material m;

    assert_int_equal(sw_ca_material_new(a, SW_SLICE_LIT("td"), &m, NULL), SW_OK);
    return m;
}

static struct sw_ca_material step(struct sw_arena *a, const struct sw_ca_material *m, uint64_t now)
{
    struct sw_ca_material next;

    assert_int_equal(sw_rotation_do(a, m, &opts, now, &next, NULL), SW_OK);
    return next;
}

static uint64_t due(const struct sw_ca_material *m)
{
    uint64_t s = 0;

    assert_int_equal(sw_rotation_due(m, &opts, &s, NULL), SW_OK);
    return s;
}

static bool is_near(uint64_t a, uint64_t b)
{
    return a < b ? b - a < DAY : a - b < DAY;
}

static size_t count_roots(const struct sw_ca_material *m)
{
    struct sw_ca_roots roots;

    assert_int_equal(sw_ca_material_roots(m, &roots, NULL), SW_OK);
    return roots.n;
}

static void two_roots_are_trusted_while_one_follows_the_other(void **state)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material m = fresh(&a);
    struct sw_slice old = m.part[SW_CA_CERT];
    struct sw_slice next;

    (void)state;
    /* A fifth of ten years is left. */
    assert_int_equal(sw_rotation_next(&m), SW_ROTATION_ANNOUNCE);
    assert_true(is_near(due(&m), now + UINT64_C(3652) * DAY * 4 / 5));
    m = step(&a, &m, now);
    next = m.part[SW_CA_NEXT_CERT];
    assert_int_equal(count_roots(&m), 2);
    assert_true(sw_slice_eq(m.part[SW_CA_CERT], old));
    assert_false(sw_slice_eq(next, old));
    assert_int_equal(sw_rotation_next(&m), SW_ROTATION_SWITCH);
    assert_true(is_near(due(&m), now + 10 * DAY));
    m = step(&a, &m, now + 10 * DAY);
    assert_int_equal(count_roots(&m), 2);
    assert_true(sw_slice_eq(m.part[SW_CA_CERT], next));
    assert_int_equal(sw_rotation_next(&m), SW_ROTATION_FORGET);
    assert_int_equal(due(&m), now + 40 * DAY);
    m = step(&a, &m, now + 40 * DAY);
    assert_int_equal(count_roots(&m), 1);
    assert_true(sw_slice_eq(m.part[SW_CA_CERT], next));
    assert_int_equal(sw_rotation_next(&m), SW_ROTATION_ANNOUNCE);
}

static void an_old_root_is_not_waited_out(void **state)
{
    const struct sw_rotation_opts slow = {.wait_s = UINT64_C(20000) * DAY};
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material m = fresh(&a);
    uint64_t at = 0;

    (void)state;
    m = step(&a, &m, now);
    assert_int_equal(sw_rotation_due(&m, &slow, &at, NULL), SW_OK);
    assert_true(is_near(at, now + UINT64_C(1826) * DAY));
}

static void what_is_plugged_in_is_not_ours_to_rotate(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material m = fresh(&a);
    struct sw_ca_material next;
    struct sw_err err = {0};

    (void)state;
    m.own = false;
    m.part[SW_CA_ROOTS] = m.part[SW_CA_CERT];
    assert_int_equal(due(&m), UINT64_MAX);
    assert_int_equal(sw_rotation_do(&a, &m, &opts, 0, &next, &err), SW_EINVAL);
}

static void a_secret_keeps_what_it_is_made_of(void **state)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material m = fresh(&a);
    struct sw_ca_material back;
    struct sw_json *o = sw_ca_material_to_secret(&a, &m, NULL, "sys", "istio-ca-secret");
    struct sw_json *data = sw_json_find(o, "data");

    (void)state;
    sw_json_put(&a, data, "other", sw_json_new_str(&a, "eA=="));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sw_ca_material_from_secret(&a, o, &back, NULL), SW_OK);
        assert_true(back.own);
        assert_int_equal(count_roots(&back), i == 1 || i == 2 ? 2 : 1);
        for (size_t k = 0; k < SW_CA_PARTS; k++)
            assert_true(k == SW_CA_ROOTS || sw_slice_eq(back.part[k], m.part[k]));
        m = step(&a, &back, now);
        o = sw_ca_material_to_secret(&a, &m, o, "sys", "istio-ca-secret");
    }
    assert_true(sw_json_str_eq(sw_json_walk(o, "data", "other", NULL), "eA=="));
    assert_true(sw_json_str_eq(sw_json_find(o, "type"), "istio.io/ca-root"));
}

static void secrets_that_are_no_ca_are_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{'data':{}}",
        "{'data':[]}",
        "{'data':{'ca-cert.pem':'eA=='}}",
        "{'data':{'ca-cert.pem':'eA==','ca-key.pem':'*','cert-chain.pem':'','root-cert.pem':''}}",
        "{'data':{'ca-cert.pem':'eA==','ca-key.pem':'eA==','cert-chain.pem':'eA=='}}",
        "{'data':{'tls.crt':'eA==','tls.key':'eA=='}}",
        "{'type':'istio.io/ca-root','data':{'ca-cert.pem':'eA=='}}",
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        SW_ARENA_AUTO a = {0};
        char *text = sw_arena_printf(&a, "%s", texts[i]);
        struct sw_ca_material m;
        struct sw_err err = {0};
        struct sw_json *o = NULL;

        for (char *c = text; *c; c++)
            *c = (char)(*c == '\'' ? '"' : *c);
        assert_int_equal(sw_json_parse(&a, sw_slice_str(text), NULL, &o, NULL), SW_OK);
        assert_int_equal(sw_ca_material_from_secret(&a, o, &m, &err), SW_EINVAL);
        assert_true(err.msg[0]);
    }
}

/* --- directories --- */

static const char *const files[] = {"root.crt", "root.key", "next.crt", "next.key", "previous.crt"};

static char dir[] = "/tmp/spanwire-rotation-XXXXXX";

static char *path_of(struct sw_arena *a, const char *name)
{
    return sw_arena_printf(a, "%s/%s", dir, name);
}

static void remove_files(void)
{
    SW_ARENA_AUTO a = {0};

    for (size_t i = 0; i < SW_ARRAY_LEN(files); i++)
        (void)unlink(path_of(&a, files[i]));
}

static struct sw_ca_material read_back(struct sw_arena *a)
{
    struct sw_ca_material m;

    assert_int_equal(sw_ca_material_read(a, dir, &m, NULL), SW_OK);
    return m;
}

/* As if the power had failed after each of the writes of a switch. */
static void an_interrupted_switch_is_as_before_or_as_after(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_ca_material none = {0};
    struct sw_ca_material before = fresh(&a);
    struct sw_ca_material after;

    (void)state;
    before = step(&a, &before, 1);
    after = step(&a, &before, 2);
    for (size_t writes = 0; writes <= 5; writes++) {
        const struct {
            const char *name;
            struct sw_slice text;
        } order[] = {{"previous.crt", after.part[SW_CA_PREVIOUS]},
                     {"root.key", after.part[SW_CA_KEY]},
                     {"root.crt", after.part[SW_CA_CERT]},
                     {"next.key", sw_slice("", 0)},
                     {"next.crt", sw_slice("", 0)}};
        struct sw_ca_material m;

        remove_files();
        assert_int_equal(sw_ca_material_write(dir, &none, &before, NULL), SW_OK);
        for (size_t i = 0; i < writes; i++) {
            if (order[i].text.n)
                assert_int_equal(
                    sw_file_write(path_of(&a, order[i].name), order[i].text, 0600, true, NULL),
                    SW_OK);
            else
                assert_int_equal(unlink(path_of(&a, order[i].name)), 0);
        }
        m = read_back(&a);
        assert_int_equal(count_roots(&m), 2);
        assert_true(sw_slice_eq(m.part[SW_CA_KEY],
                                writes < 2 ? before.part[SW_CA_KEY] : after.part[SW_CA_KEY]));
        assert_true(sw_slice_eq(m.part[SW_CA_CERT],
                                writes < 2 ? before.part[SW_CA_CERT] : after.part[SW_CA_CERT]));
        assert_int_equal(m.part[SW_CA_NEXT_CERT].n == 0, writes >= 2);
    }
}

static void files_follow_each_step(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_ca_material none = {0};
    struct sw_ca_material m = fresh(&a);

    (void)state;
    remove_files();
    assert_int_equal(sw_ca_material_write(dir, &none, &m, NULL), SW_OK);
    for (size_t i = 0; i < 3; i++) {
        struct sw_ca_material next = step(&a, &m, 5);

        assert_int_equal(sw_ca_material_write(dir, &m, &next, NULL), SW_OK);
        m = read_back(&a);
        for (size_t k = 0; k < SW_CA_PARTS; k++)
            assert_true(sw_slice_eq(m.part[k], next.part[k]));
    }
    assert_int_equal(count_roots(&m), 1);
    assert_int_equal(access(path_of(&a, "previous.crt"), F_OK), -1);
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_roots_are_trusted_while_one_follows_the_other),
        cmocka_unit_test(an_old_root_is_not_waited_out),
        cmocka_unit_test(what_is_plugged_in_is_not_ours_to_rotate),
        cmocka_unit_test(a_secret_keeps_what_it_is_made_of),
        cmocka_unit_test(secrets_that_are_no_ca_are_refused),
        cmocka_unit_test(an_interrupted_switch_is_as_before_or_as_after),
        cmocka_unit_test(files_follow_each_step),
    };
    int rc;

    if (!mkdtemp(dir))
        return 1;
    rc = cmocka_run_group_tests_name("identity rotation", tests, NULL, NULL);
    (void)rmdir(dir);
    return rc;
}
