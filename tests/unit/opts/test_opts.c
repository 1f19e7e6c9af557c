/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "io/addr.h"
#include "opts/opts.h"

struct dest {
    const char *str;
    bool yes;
    bool on;
    uint32_t n;
    uint64_t wait_ns;
    int choice;
    struct sw_ip ip;
    struct sw_addr addr;
    struct sw_opt_list list;
    const char *hidden;
};

#define AT(field) .offset = offsetof(struct dest, field)

static const char *const colours[] = {"red", "green", NULL};

static const struct sw_opt table[] = {
    {"str", "T_STR,T_STR2", SW_OPT_STR, AT(str), .help = "A text."},
    {"yes", "T_YES", SW_OPT_BOOL, AT(yes), .help = "A switch."},
    {"on", "T_ON", SW_OPT_BOOL, AT(on), .def = "true", .arg = "BOOL", .help = "On."},
    {"n", "T_N", SW_OPT_U32, AT(n), .def = "7", .min = 2, .max = 4096, .help = "A number."},
    {.type = SW_OPT_GROUP, .help = "More"},
    {"wait", "T_WAIT", SW_OPT_DURATION, AT(wait_ns), .def = "5s", .min = 10, .max = 60000,
     .help = "A time."},
    {"colour", "T_COLOUR", SW_OPT_ENUM, AT(choice), .def = "green", .choices = colours,
     .help = "A choice."},
    {"ip", NULL, SW_OPT_IP, AT(ip), .help = "An address."},
    {"addr", "T_ADDR", SW_OPT_ADDR, AT(addr), .help = "An address and a port."},
    {"item", "T_ITEMS", SW_OPT_LIST, AT(list), .help = "Some."},
    {NULL, "T_HIDDEN", SW_OPT_STR, AT(hidden), .help = "Not read_*."},
};

static const struct sw_opts_cmd cmd = {
    .name = "test",
    .usage = "[options] [FILE]",
    .summary = "Tests.",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .max_args = 1,
    .config_file = true,
};

static struct {
    struct sw_arena arena;
    struct dest d;
    struct sw_opts_rest rest;
    struct sw_err err;
    char file[64];
} t;

static int setup(void **state)
{
    static const char *const names[] = {"T_STR",    "T_STR2",          "T_YES",   "T_ON",
                                        "T_N",      "T_WAIT",          "T_ADDR",  "T_ITEMS",
                                        "T_HIDDEN", "SPANWIRE_CONFIG", "T_COLOUR"};

    (void)state;
    memset(&t, 0, sizeof(t));
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++)
        (void)unsetenv(names[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (t.file[0])
        (void)unlink(t.file);
    sw_arena_clear(&t.arena);
    return 0;
}

static void write_file(const char *text)
{
    int fd;

    (void)snprintf(t.file, sizeof(t.file), "/tmp/test_opts.XXXXXX");
    fd = mkstemp(t.file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

/* Splits at spaces; "@" stands for the configuration file. */
static int parse(const char *line)
{
    static char words[512];
    char *argv[32] = {words};
    int argc = 1;
    char *at = words + 1;

    words[0] = '\0';
    (void)snprintf(at, sizeof(words) - 1, "%s", line);
    while (*at) {
        char *end = strchrnul(at, ' ');
        bool last = *end == '\0';

        *end = '\0';
        argv[argc++] = strcmp(at, "@") == 0 ? t.file : at;
        at = last ? end : end + 1;
    }
    return sw_opts_parse(&cmd, &t.d, &t.arena, (struct sw_args){argc, argv}, &t.rest, &t.err);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(""), SW_OK);
    assert_null(t.d.str);
    assert_false(t.d.yes);
    assert_true(t.d.on);
    assert_int_equal(t.d.n, 7);
    assert_int_equal(t.d.wait_ns, 5 * SW_NS_PER_S);
    assert_int_equal(t.d.choice, 1);
    assert_int_equal(t.d.ip.family, 0);
    assert_int_equal(t.d.addr.ip.family, 0);
    assert_int_equal(t.d.list.n, 0);
}

static void test_flags_of_every_type(void **state)
{
    (void)state;
    assert_int_equal(parse("--str a=b --yes --no-on --n=0x10 --wait 250ms --colour red --ip ::1 "
                           "--addr [::]:80 --item x --item=y --item z file"),
                     SW_OK);
    assert_string_equal(t.d.str, "a=b");
    assert_true(t.d.yes);
    assert_false(t.d.on);
    assert_int_equal(t.d.n, 16);
    assert_int_equal(t.d.wait_ns, 250 * SW_NS_PER_MS);
    assert_int_equal(t.d.choice, 0);
    assert_int_equal(t.d.ip.family, 6);
    assert_int_equal(t.d.addr.port, 80);
    assert_int_equal(t.d.list.n, 3);
    assert_string_equal(t.d.list.p[0], "x");
    assert_string_equal(t.d.list.p[2], "z");
    assert_int_equal(t.rest.n_args, 1);
    assert_string_equal(t.rest.args[0], "file");
}

static void test_booleans_may_carry_their_value(void **state)
{
    (void)state;
    assert_int_equal(parse("--yes true --on=off"), SW_OK);
    assert_true(t.d.yes);
    assert_false(t.d.on);
    assert_int_equal(parse("--yes false --on yes.txt"), SW_OK);
    assert_false(t.d.yes);
    assert_true(t.d.on);
    assert_string_equal(t.rest.args[0], "yes.txt");
}

static void test_order_of_sources(void **state)
{
    (void)state;
    write_file("str: file\nn: 11\ncolour: red\nitem: [f1, f2]\nyes: true\n");
    assert_int_equal(parse("--config @"), SW_OK);
    assert_string_equal(t.d.str, "file");
    assert_int_equal(t.d.n, 11);
    assert_int_equal(t.d.list.n, 2);
    assert_true(t.d.yes);

    memset(&t.d, 0, sizeof(t.d));
    (void)setenv("T_STR2", "env2", 1);
    (void)setenv("T_N", "12", 1);
    (void)setenv("T_ITEMS", "e1, e2,e3", 1);
    (void)setenv("SPANWIRE_CONFIG", t.file, 1);
    assert_int_equal(parse("--item flag --str flag"), SW_OK);
    assert_string_equal(t.d.str, "flag");
    assert_int_equal(t.d.n, 12);
    assert_int_equal(t.d.choice, 0);
    assert_int_equal(t.d.list.n, 1);

    memset(&t.d, 0, sizeof(t.d));
    (void)setenv("T_STR", "env1", 1);
    assert_int_equal(parse(""), SW_OK);
    assert_string_equal(t.d.str, "env1");
    assert_int_equal(t.d.list.n, 3);
    assert_string_equal(t.d.list.p[1], "e2");
}

static void test_an_empty_variable_is_unset(void **state)
{
    (void)state;
    (void)setenv("T_N", "", 1);
    assert_int_equal(parse(""), SW_OK);
    assert_int_equal(t.d.n, 7);
}

static const struct {
    const char *line;
    const char *message;
} mistakes[] = {
    {"--nope", "test: --nope: unknown option (see 'spanwire help test')"},
    {"-x", "test: -x: unknown option (see 'spanwire help test')"},
    {"--no-n", "test: --no-n: unknown option (see 'spanwire help test')"},
    {"--no-on=true", "test: --no-on: takes no value"},
    {"--n", "test: --n: needs a value"},
    {"--n 5x", "test: --n: '5x' is not a number"},
    {"--n 1", "test: --n: 1 is not between 2 and 4096"},
    {"--n 4097", "test: --n: 4097 is not between 2 and 4096"},
    {"--n -1", "test: --n: '-1' is not a number"},
    {"--n 0x", "test: --n: '0x' is not a number"},
    {"--yes=maybe", "test: --yes: 'maybe' is neither true nor false"},
    {"--wait 5", "test: --wait: duration '5' needs a unit: ns, us, ms, s, m, h or d"},
    {"--wait 2m", "test: --wait: '2m' is not between 10ms and 60000ms"},
    {"--colour blue", "test: --colour: 'blue' is not one of red, green"},
    {"--item=", "test: --item: empty value"},
    {"a b", "test: 'b': unexpected argument"},
    {"--config", "test: --config: needs a value"},
    {"--config /nonexistent/x", "test: cannot read '/nonexistent/x': No such file or directory"},
};

static void test_mistakes_name_the_option(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(mistakes); i++) {
        assert_true(parse(mistakes[i].line) < 0);
        assert_string_equal(t.err.msg, mistakes[i].message);
    }
    (void)setenv("T_N", "x", 1);
    assert_int_equal(parse(""), SW_EINVAL);
    assert_string_equal(t.err.msg, "test: T_N: 'x' is not a number");
}

static const struct {
    const char *text;
    const char *message; /* after "test: FILE: " */
} bad_files[] = {
    {"nope: 1\n", "line 1 column 1: unknown option 'nope'"},
    {"str: a\nn: many\n", "line 2 column 4: n: 'many' is not a number"},
    {"n: [1]\n", "line 1 column 4: n: one value is needed, this is a list"},
};

static void test_mistakes_in_the_file_name_the_place(void **state)
{
    char want[256];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad_files); i++) {
        write_file(bad_files[i].text);
        assert_int_equal(parse("--config @"), SW_EINVAL);
        (void)snprintf(want, sizeof(want), "test: %s: %s", t.file, bad_files[i].message);
        assert_string_equal(t.err.msg, want);
        (void)unlink(t.file);
    }
    write_file("- not\n- a map\n");
    assert_int_equal(parse("--config @"), SW_EINVAL);
    (void)unlink(t.file);
    write_file("");
    assert_int_equal(parse("--config @"), SW_OK);
}

static void test_help_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(parse("--n 3 --help"), SW_EOF);
    assert_int_equal(parse("-h"), SW_EOF);
}

static void test_an_option_of_the_environment_alone(void **state)
{
    (void)state;
    (void)setenv("T_HIDDEN", "x", 1);
    assert_int_equal(parse(""), SW_OK);
    assert_string_equal(t.d.hidden, "x");
}

static void test_help_text(void **state)
{
    SW_BUF_AUTO b = {.max = 65536};
    const char *s;

    (void)state;
    assert_int_equal(sw_opts_help(&cmd, &b), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
    s = sw_buf_data(&b);
    assert_non_null(strstr(s, "Usage: spanwire test [options] [FILE]\n"));
    assert_non_null(strstr(s, "  --n N\n      A number. [T_N] (default 7)\n"));
    assert_non_null(strstr(s, "\nMore:\n"));
    assert_non_null(strstr(s, "  --colour red|green\n"));
    assert_non_null(strstr(s, "  T_HIDDEN (environment only)\n"));
    assert_non_null(strstr(s, "--config FILE"));
}

static void test_man_text(void **state)
{
    SW_BUF_AUTO b = {.max = 65536};
    const char *s;

    (void)state;
    assert_int_equal(sw_opts_man(&cmd, &b), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
    s = sw_buf_data(&b);
    assert_non_null(strstr(s, "*--n* _N_\n\tA number. Environment: T\\_N. Default: 7.\n"));
    assert_non_null(strstr(s, "## More\n"));
    assert_non_null(strstr(s, "\tNot read\\_\\*.\n"));
}

static void test_text_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    for (size_t max = 0; max < 600; max += 37) {
        SW_BUF_AUTO b = {.max = max};
        SW_BUF_AUTO m = {.max = max};

        assert_int_equal(sw_opts_help(&cmd, &b), SW_ELIMIT);
        assert_int_equal(sw_opts_man(&cmd, &m), SW_ELIMIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flags_of_every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(test_booleans_may_carry_their_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_of_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_empty_variable_is_unset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mistakes_name_the_option, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mistakes_in_the_file_name_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_option_of_the_environment_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_man_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_that_does_not_fit_is_an_error, setup, teardown),
    };

    return cmocka_run_group_tests_name("opts", tests, NULL, NULL);
}
