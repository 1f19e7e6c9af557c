/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "connector/memo.h"

#define ID   "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define PEER "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"

static struct sw_nodeid id_of(const char *hex)
{
    struct sw_nodeid id;

    assert_int_equal(sw_nodeid_parse(sw_slice_str(hex), &id, NULL), SW_OK);
    return id;
}

static struct sw_memo example(void)
{
    struct sw_memo m = {.id = id_of(ID),
                        .server = SW_SLICE_LIT("api.example:6443"),
                        .ns = SW_SLICE_LIT("default"),
                        .connector = SW_SLICE_LIT("laptop"),
                        .relay = SW_SLICE_LIT("https://relay.example/"),
                        .ports = {4433, 4434},
                        .n_ports = 2};
    struct sw_nodeid peer = id_of(PEER);

    assert_int_equal(sw_peers_add(&m.gateways, &peer, NULL), SW_OK);
    assert_int_equal(sw_allow_add_text(&m.allow, SW_SLICE_LIT("flag.example:1"), NULL), SW_OK);
    assert_int_equal(
        sw_allow_add(&m.allow, SW_SLICE_LIT("::1"), 80, false, SW_SLICE_LIT("web"), NULL), SW_OK);
    assert_int_equal(
        sw_allow_add(&m.allow, SW_SLICE_LIT("*.lan"), 53, true, SW_SLICE_LIT("dns"), NULL), SW_OK);
    assert_int_equal(
        sw_allow_add(&m.allow, SW_SLICE_LIT("*"), 443, false, SW_SLICE_LIT("any"), NULL), SW_OK);
    return m;
}

static struct sw_slice text_of(struct sw_buf *b)
{
    struct sw_memo m = example();

    assert_int_equal(sw_memo_write(&m, 1, b), SW_OK);
    sw_memo_done(&m);
    return sw_buf_slice(b);
}

static void test_what_is_written_is_read(void **state)
{
    SW_BUF_AUTO b = {.max = SW_MEMO_MAX};
    SW_BUF_AUTO again = {.max = SW_MEMO_MAX};
    struct sw_memo m = {0};
    struct sw_nodeid peer = id_of(PEER);
    const struct sw_allow_entry *e;

    (void)state;
    assert_int_equal(sw_memo_parse(text_of(&b), &m, NULL), SW_OK);
    assert_true(sw_slice_eq_str(m.server, "api.example:6443"));
    assert_true(sw_slice_eq_str(m.ns, "default"));
    assert_true(sw_slice_eq_str(m.connector, "laptop"));
    assert_true(sw_slice_eq_str(m.relay, "https://relay.example/"));
    assert_true(m.n_ports == 2 && m.ports[0] == 4433 && m.ports[1] == 4434);
    assert_true(sw_peers_has(&m.gateways, &peer));
    /* What a flag allowed is not remembered. */
    assert_int_equal(m.allow.entries.n, 3);
    assert_null(sw_allow_find(&m.allow, SW_SLICE_LIT("flag.example"), 1, false));
    e = sw_allow_find(&m.allow, SW_SLICE_LIT("localhost"), 80, false);
    assert_true(e && sw_slice_eq_str(e->from, "web"));
    assert_non_null(sw_allow_find(&m.allow, SW_SLICE_LIT("a.lan"), 53, true));
    assert_null(sw_allow_find(&m.allow, SW_SLICE_LIT("a.lan"), 53, false));
    assert_non_null(sw_allow_find(&m.allow, SW_SLICE_LIT("example.com"), 443, false));
    assert_int_equal(sw_memo_write(&m, 0, &again), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&again), sw_buf_slice(&b)));
    sw_memo_done(&m);
}

static void test_every_damage_is_found(void **state)
{
    SW_BUF_AUTO b = {.max = SW_MEMO_MAX};
    struct sw_slice text = text_of(&b);
    SW_AUTO_FREE char *copy = sw_slice_dup(text);
    struct sw_memo m = {0};

    (void)state;
    for (size_t n = 0; n < text.n; n++)
        assert_int_not_equal(sw_memo_parse(sw_slice_head(text, n), &m, NULL), SW_OK);
    for (size_t i = 0; i < text.n; i++) {
        copy[i] ^= 1;
        assert_int_not_equal(sw_memo_parse(sw_slice(copy, text.n), &m, NULL), SW_OK);
        copy[i] ^= 1;
    }
    assert_int_equal(sw_memo_parse(sw_slice(copy, text.n), &m, NULL), SW_OK);
    sw_memo_done(&m);
}

static void test_only_our_members_are_read(void **state)
{
    static const char *const bad[] = {
        "null",
        "[]",
        "{}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"ports\":[],\"gateways\":[]}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[],\"destinations\":[],\"more\":1}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[65536],\"destinations\":[]}",
        "{\"id\":\"00\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[],\"destinations\":[]}",
        "{\"id\":\"" ID "\",\"server\":1,\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[],\"destinations\":[]}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[\"x\"],\"ports\":[],\"destinations\":[]}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[],\"destinations\":[[\"a:0\",\"\"]]}",
        "{\"id\":\"" ID "\",\"server\":\"\",\"namespace\":\"\",\"connector\":\"\",\"relay\":\"\","
        "\"gateways\":[],\"ports\":[],\"destinations\":[[\"a:1\"]]}",
        "{\"id\":\"" ID "\",\"server\":\"a\\u0000b\",\"namespace\":\"\",\"connector\":\"\","
        "\"relay\":\"\",\"gateways\":[],\"ports\":[],\"destinations\":[]}",
    };
    struct sw_memo m = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct sw_err err = {0};

        assert_int_not_equal(sw_memo_parse_body(sw_slice_str(bad[i]), &m, &err), SW_OK);
        assert_true(err.msg[0]);
    }
}

static void test_files_of_others_are_not_trusted(void **state)
{
    char dir[] = "/tmp/sw-memo-XXXXXX";
    SW_BUF_AUTO b = {.max = SW_MEMO_MAX};
    struct sw_memo m = {0};
    struct sw_err err = {0};
    char path[64];
    char link_path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/known", dir);
    (void)snprintf(link_path, sizeof(link_path), "%s/link", dir);
    assert_int_equal(sw_memo_load(path, &m, &err), SW_ENOENT);
    assert_int_equal(sw_file_write(path, text_of(&b), 0600, true, &err), SW_OK);
    assert_int_equal(sw_memo_load(path, &m, &err), SW_OK);
    sw_memo_done(&m);
    assert_int_equal(symlink(path, link_path), 0);
    assert_int_equal(sw_memo_load(link_path, &m, &err), SW_EDENIED);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(sw_memo_load(path, &m, &err), SW_EDENIED);
    (void)unlink(link_path);
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_every_damage_is_found),
        cmocka_unit_test(test_only_our_members_are_read),
        cmocka_unit_test(test_files_of_others_are_not_trusted),
    };

    return cmocka_run_group_tests_name("connector memo", tests, NULL, NULL);
}
