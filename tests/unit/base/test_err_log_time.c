/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, times, durations and the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/utf8.h"

static void errors_carry_code_offset_and_text(void **state)
{
    struct sw_err e;
    char longer[300];

    assert_int_equal(sw_err_set(&e, SW_EPROTO, "bad %s %d", "thing", 7), SW_EPROTO);
    assert_int_equal(e.rc, SW_EPROTO);
    assert_string_equal(e.msg, "bad thing 7");
    assert_int_equal(sw_err_prefix(&e, "peer '%s'", "x"), SW_EPROTO);
    assert_string_equal(e.msg, "peer 'x': bad thing 7");
    assert_int_equal(sw_err_at(&e, SW_EINVAL, 42, "here"), SW_EINVAL);
    assert_int_equal(e.offset, 42);
    assert_int_equal(sw_err_sys(&e, ENOENT, "open '%s'", "f"), SW_ESYS);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_int_equal(e.offset, 0);
    assert_string_equal(e.msg, "open 'f': No such file or directory");
    assert_int_equal(sw_err_set(NULL, SW_EOF, "nobody listens"), SW_EOF);
    assert_int_equal(sw_err_sys(NULL, EIO, "x"), SW_ESYS);
    assert_int_equal(sw_err_prefix(NULL, "x"), SW_EINVAL);
    memset(longer, 'l', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)sw_err_set(&e, SW_EINVAL, "%s", longer);
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
    (void)sw_err_prefix(&e, "%s", longer);
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
}

static void every_code_has_a_name(void **state)
{
    for (int rc = SW_EUNAVAIL; rc <= SW_OK; rc++)
        assert_string_not_equal(sw_rc_name(rc), "unknown");
    assert_string_equal(sw_rc_name(-1000), "unknown");
    assert_string_equal(sw_errno_text(EAGAIN), "Resource temporarily unavailable");
    assert_string_equal(sw_errno_text(99999), "unknown error");
}

static void times_have_a_text_form(void **state)
{
    char out[SW_RFC3339_LEN];

    assert_string_equal(sw_rfc3339(0, 0, out), "1970-01-01T00:00:00Z");
    assert_string_equal(sw_rfc3339(UINT64_C(1794746096123456789), 1, out),
                        "2026-11-15T12:34:56.123456Z");
    assert_string_equal(sw_rfc3339(UINT64_C(951782400) * SW_NS_PER_S, 0, out),
                        "2000-02-29T00:00:00Z");
    assert_true(sw_now_ns() <= sw_now_ns());
    assert_true(sw_wall_ns() > UINT64_C(1700000000) * SW_NS_PER_S);
}

static const struct {
    const char *in;
    int rc;
    uint64_t ns;
} durations[] = {
    {"0", SW_OK, 0},
    {"0s", SW_OK, 0},
    {"5s", SW_OK, 5 * SW_NS_PER_S},
    {"250ms", SW_OK, 250 * SW_NS_PER_MS},
    {"7us", SW_OK, 7000},
    {"9ns", SW_OK, 9},
    {"1h30m", SW_OK, 5400 * SW_NS_PER_S},
    {"2d", SW_OK, 172800 * SW_NS_PER_S},
    {"1m1s1ms", SW_OK, 61001 * SW_NS_PER_MS},
    {"", SW_EINVAL, 0},
    {"5", SW_EINVAL, 0},
    {"s", SW_EINVAL, 0},
    {"5x", SW_EINVAL, 0},
    {"-5s", SW_EINVAL, 0},
    {"5 s", SW_EINVAL, 0},
    {"1.5s", SW_EINVAL, 0},
    {"5s ", SW_EINVAL, 0},
    {"40000d", SW_EINVAL, 0},
    {"99999999999999999999s", SW_EINVAL, 0},
    {"1s1", SW_EINVAL, 0},
};

static void durations_need_units(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(durations); i++) {
        struct sw_err err = {0};
        uint64_t ns = 0;

        assert_int_equal(sw_duration_parse(sw_slice_str(durations[i].in), &ns, &err),
                         durations[i].rc);
        assert_int_equal(ns, durations[i].ns);
        if (durations[i].rc != SW_OK)
            assert_true(err.msg[0] != '\0');
    }
}

/* ---- log ---- */

static char *read_all(int fd)
{
    static char text[1 << 21];
    size_t n = 0;
    ssize_t k;

    while (n < sizeof(text) - 1 && (k = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)k;
    text[n] = '\0';
    return text;
}

static char *logged(enum sw_log_format format, void (*what)(void))
{
    int fds[2];
    char *text;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    sw_log_start(fds[1], format);
    what();
    sw_log_flush();
    sw_log_stop();
    (void)close(fds[1]);
    text = read_all(fds[0]);
    (void)close(fds[0]);
    return text;
}

static void say_things(void)
{
    struct sw_log_line l;

    sw_log_info("node", "ready in %d ms", 5);
    sw_log_debug("node", "not shown");
    sw_log_begin(&l, SW_LOG_WARN, "access", "forged\nline");
    sw_log_str(&l, "src", SW_SLICE_LIT("10.0.0.1:80"));
    sw_log_str(&l, "path", SW_SLICE_LIT("a \"b\"\n\xff"));
    sw_log_cstr(&l, "absent", NULL);
    sw_log_cstr(&l, "name", "x");
    sw_log_u64(&l, "bytes", 123);
    sw_log_end(&l);
}

/* A thousand lines at once, another at the end of a second, one when all is forgiven. */
static void say_too_often(void)
{
    const uint64_t later_ns[] = {0, SW_NS_PER_S, 60 * SW_NS_PER_S};
    const size_t n[] = {1000, 1, 1};
    struct sw_log_limit limit = {.suppressed = 0};

    for (size_t i = 0; i < SW_ARRAY_LEN(n); i++) {
        for (size_t k = 0; k < n[i]; k++)
            sw_log_limited(&limit, SW_NS_PER_S + later_ns[i], SW_LOG_WARN, "ca", "refused %zu", i);
    }
    sw_log_limited(&limit, SW_NS_PER_S, SW_LOG_DEBUG, "ca", "filtered");
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void lines_that_others_cause_are_bounded(void **state)
{
    char *text;

    (void)state;
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("info"), true, NULL), SW_OK);
    text = logged(SW_LOG_PLAIN, say_too_often);
    assert_int_equal(count_of(text, "refused 0"), SW_LOG_LIMIT_BURST);
    assert_int_equal(count_of(text, "refused 1\tsuppressed_lines=980\n"), 1);
    assert_int_equal(count_of(text, "refused 2\n"), 1);
}

static void plain_lines_cannot_be_forged(void **state)
{
    char *text;
    char *second;

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("info"), true, NULL), SW_OK);
    text = logged(SW_LOG_PLAIN, say_things);
    second = strchr(text, '\n');
    assert_non_null(second);
    *second++ = '\0';
    assert_non_null(strstr(text, "\tinfo\tnode\tready in 5 ms"));
    assert_non_null(strstr(second, "\twarn\taccess\tforged line\tsrc=10.0.0.1:80 "
                                   "path=\"a \\\"b\\\"\\u000a\\u00ff\" name=x bytes=123\n"));
    assert_null(strchr(strchr(second, '\n') + 1, '\n')); /* exactly two lines */
}

static void say_controls(void)
{
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_INFO, "node", "%s",
                 "a\033[2J\177\302\233"
                 "31m\303\251\377z");
    sw_log_cstr(&l, "key", "a\302\233\302\240\177");
    sw_log_end(&l);
}

/* C1 controls too, which have two bytes in UTF-8. */
static void lines_do_not_control_the_terminal(void **state)
{
    (void)state;
    assert_non_null(strstr(logged(SW_LOG_PLAIN, say_controls),
                           "\ta [2J   31m\303\251 z\tkey=\"a\\u009b\302\240\\u007f\"\n"));
    assert_non_null(strstr(logged(SW_LOG_JSON, say_controls),
                           "\"a\\u001b[2J\\u007f\\u009b31m\303\251\\u00ffz\""));
}

static void json_lines_are_json(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice rest = sw_slice_str(logged(SW_LOG_JSON, say_things));
    struct sw_json *v;
    size_t lines = 0;

    while (rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');

        assert_int_equal(sw_json_parse(&a, line, NULL, &v, NULL), SW_OK);
        lines++;
        if (lines == 2) {
            assert_true(sw_json_str_eq(sw_json_find(v, "level"), "warn"));
            assert_true(sw_json_str_eq(sw_json_find(v, "scope"), "access"));
            assert_true(sw_json_str_eq(sw_json_find(v, "message"), "forged\nline"));
            assert_true(sw_json_str_eq(sw_json_find(v, "src"), "10.0.0.1:80"));
        }
    }
    assert_int_equal(lines, 2);
}

static void say_too_much(void)
{
    struct sw_log_line l;
    char big[4000];

    memset(big, 'x', sizeof(big));
    sw_log_begin(&l, SW_LOG_INFO, "node", "long");
    for (int i = 0; i < 5; i++)
        sw_log_str(&l, "big", sw_slice(big, sizeof(big)));
    sw_log_end(&l);
}

static void long_lines_are_cut(void **state)
{
    char *text = logged(SW_LOG_PLAIN, say_too_much);

    assert_true(strlen(text) <= 2048);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

/* Wherever the line ends: behind a key, inside an escape, inside a character. */
static void say_too_much_of_everything(void)
{
    static const char *const bits[] = {"\"", "\xff", "\xe2\x82\xac", "x\\", "\n", "\xf0\x9f\x98"};
    struct sw_log_line l;
    char big[1900];

    for (size_t cut = 0; cut < 24; cut++) {
        size_t n = 0;
        const char *bit = bits[cut % SW_ARRAY_LEN(bits)];

        while (n + strlen(bit) < sizeof(big)) {
            memcpy(big + n, bit, strlen(bit));
            n += strlen(bit);
        }
        sw_log_begin(&l, SW_LOG_INFO, "node", "long");
        sw_log_str(&l, "pad", sw_slice("yyyyyyyyyyyyyyyyyyyyyyyy", cut));
        sw_log_str(&l, "big", sw_slice(big, n));
        sw_log_u64(&l, "number", UINT64_MAX);
        sw_log_str(&l, "more", sw_slice(big, n));
        sw_log_u64(&l, "last", 1);
        sw_log_end(&l);
    }
}

static void cut_json_lines_are_json(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice rest = sw_slice_str(logged(SW_LOG_JSON, say_too_much_of_everything));
    size_t lines = 0;

    while (rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        struct sw_json *v;

        assert_true(line.n < 2048);
        assert_true(sw_utf8_valid(line));
        assert_int_equal(sw_json_parse(&a, line, NULL, &v, NULL), SW_OK);
        assert_true(sw_json_str(sw_json_find(v, "big")).n > 100);
        lines++;
    }
    assert_int_equal(lines, 24);
}

static void *write_lines(void *arg)
{
    const char *name = arg;

    for (int i = 0; i < 200; i++)
        sw_log_info("node", "%s %d end", name, i);
    return NULL;
}

static void say_from_threads(void)
{
    static char names[3][4] = {"one", "two", "six"};
    pthread_t t[3];

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, write_lines, names[i]), 0);
    for (int i = 0; i < 3; i++)
        (void)pthread_join(t[i], NULL);
}

static void lines_of_threads_stay_whole(void **state)
{
    struct sw_slice rest = sw_slice_str(logged(SW_LOG_PLAIN, say_from_threads));
    size_t lines = 0;

    while (rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');

        assert_true(sw_slice_has_suffix(line, SW_SLICE_LIT(" end")));
        lines++;
    }
    assert_int_equal(lines + sw_log_dropped(), 600);
}

static void filters_by_scope(void **state)
{
    struct sw_err err;
    char *text;

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("warn,access=off,tls=trace"), true, &err), SW_OK);
    assert_false(sw_log_enabled(SW_LOG_INFO, "node"));
    assert_true(sw_log_enabled(SW_LOG_WARN, "node"));
    assert_false(sw_log_enabled(SW_LOG_ERROR, "access"));
    assert_true(sw_log_enabled(SW_LOG_TRACE, "tls"));
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("node=debug"), false, &err), SW_OK);
    assert_true(sw_log_enabled(SW_LOG_DEBUG, "node"));
    assert_true(sw_log_enabled(SW_LOG_TRACE, "tls"));
    text = sw_log_filter_text();
    assert_non_null(strstr(text, "node=debug"));
    assert_non_null(strstr(text, "access=off"));
    sw_free(text);
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("tls=loud"), false, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "tls=loud"));
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("=info"), false, &err), SW_EINVAL);
    assert_true(sw_log_enabled(SW_LOG_TRACE, "tls")); /* unchanged */
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("INFO"), true, &err), SW_OK);
    assert_true(sw_log_enabled(SW_LOG_INFO, "access"));
    sw_log_stop(); /* harmless without a start */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_carry_code_offset_and_text),
        cmocka_unit_test(every_code_has_a_name),
        cmocka_unit_test(times_have_a_text_form),
        cmocka_unit_test(durations_need_units),
        cmocka_unit_test(plain_lines_cannot_be_forged),
        cmocka_unit_test(lines_that_others_cause_are_bounded),
        cmocka_unit_test(lines_do_not_control_the_terminal),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(cut_json_lines_are_json),
        cmocka_unit_test(lines_of_threads_stay_whole),
        cmocka_unit_test(filters_by_scope),
    };

    return cmocka_run_group_tests_name("err_log_time", tests, NULL, NULL);
}
