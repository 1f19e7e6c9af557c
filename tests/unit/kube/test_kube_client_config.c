/* SPDX-License-Identifier: Apache-2.0 */
/* Kubeconfigs, in-cluster files, and the framing of watch streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rand.h"
#include "kube/client/frame.h"
#include "kube/client/kubeconfig.h"

#define FULL                                                                                       \
    "apiVersion: v1\nkind: Config\ncurrent-context: two\npreferences: {colors: true}\n"            \
    "clusters:\n"                                                                                  \
    "- name: a\n  cluster: {server: 'https://a.example', certificate-authority: ca.pem}\n"         \
    "- name: b\n  cluster:\n    server: https://[2001:db8::1]:6443/k8s/x/\n"                       \
    "    certificate-authority-data: aGVsbG8=\n    tls-server-name: b.example\n"                   \
    "users:\n"                                                                                     \
    "- name: cert\n  user: {client-certificate-data: Y2VydA==, client-key: /abs/key.pem}\n"        \
    "- name: token\n  user: {token: sesame, tokenFile: tok/en, as: bob, as-uid: '7',\n"            \
    "    as-groups: [dev, ops]}\n"                                                                 \
    "contexts:\n"                                                                                  \
    "- name: one\n  context: {cluster: a, user: cert}\n"                                           \
    "- name: two\n  context: {cluster: b, user: token, namespace: shop}\n"                         \
    "- name: dangling\n  context: {cluster: nope, user: token}\n"                                  \
    "- name: anonymous\n  context: {cluster: a}\n"

static int read_text(const char *text, const char *context, struct sw_kube_config *c,
                     struct sw_err *err)
{
    const struct sw_kubeconfig_src src = {
        .text = sw_slice_str(text), .name = "test", .dir = "/etc/conf"};

    return sw_kubeconfig_read(&src, 1, context, c, err);
}

static void contexts_are_followed(void **state)
{
    struct sw_kube_config c;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(read_text(FULL, NULL, &c, &err), SW_OK);
    assert_true(c.tls && !c.insecure);
    assert_true(sw_slice_eq_str(c.host, "2001:db8::1"));
    assert_int_equal(c.port, 6443);
    assert_true(sw_slice_eq_str(c.base, "/k8s/x"));
    assert_true(sw_slice_eq_str(c.tls_name, "b.example"));
    assert_true(sw_slice_eq_str(c.ca.data, "hello"));
    assert_true(sw_slice_eq_str(c.token.data, "sesame"));
    assert_string_equal(c.token.file, "/etc/conf/tok/en");
    assert_true(sw_slice_eq_str(c.as_user, "bob"));
    assert_true(sw_slice_eq_str(c.as_uid, "7"));
    assert_int_equal(c.n_as_groups, 2);
    assert_true(sw_slice_eq_str(c.ns, "shop"));
    sw_kube_config_done(&c);
    assert_int_equal(read_text(FULL, "one", &c, &err), SW_OK);
    assert_true(sw_slice_eq_str(c.host, "a.example"));
    assert_int_equal(c.port, 443);
    assert_string_equal(c.ca.file, "/etc/conf/ca.pem");
    assert_true(sw_slice_eq_str(c.cert.data, "cert"));
    assert_string_equal(c.key.file, "/abs/key.pem");
    assert_true(sw_slice_eq_str(c.ns, "default"));
    sw_kube_config_done(&c);
    assert_int_equal(read_text(FULL, "anonymous", &c, &err), SW_OK);
    sw_kube_config_done(&c);
    assert_int_equal(read_text(FULL, "dangling", &c, &err), SW_ENOENT);
    assert_int_equal(read_text(FULL, "missing", &c, &err), SW_ENOENT);
    assert_non_null(strstr(err.msg, "missing"));
    assert_int_equal(read_text("", NULL, &c, &err), SW_ENOENT);
}

#define ONE(cluster, user)                                                                         \
    "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"                  \
    "clusters: [{name: x, cluster: {" cluster "}}]\nusers: [{name: x, user: {" user "}}]\n"

static void what_cannot_be_honoured_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {ONE("server: 'https://h'", "exec: {command: aws}"), "exec"},
        {ONE("server: 'https://h'", "auth-provider: {name: gcp}"), "auth-provider"},
        {ONE("server: 'https://h', proxy-url: 'http://p:1'", ""), "proxy-url"},
        {ONE("server: 'https://h'", "as: a, as-user-extra: {k: [v]}"), "as-user-extra"},
        {ONE("server: 'h:6443'", ""), "https://"},
        {ONE("server: 'ftp://h'", ""), "https://"},
        {ONE("server: 'https://u:p@h'", ""), "user name"},
        {ONE("server: 'https://h?x=1'", ""), "bad"},
        {ONE("server: 'https://h/a b'", ""), "bad path"},
        {ONE("server: 'https://h:0'", ""), "port"},
        {ONE("server: 'https://h:65536'", ""), "port"},
        {ONE("server: 'https://[::1'", ""), "]"},
        {ONE("server: 'https://'", ""), "host"},
        {ONE("", ""), "server"},
        {ONE("server: 'https://h', certificate-authority-data: '***'", ""), "base64"},
        {ONE("server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: x", ""),
         "exclude"},
        {ONE("server: 'https://h', insecure-skip-tls-verify: perhaps", ""), "line"},
        {ONE("server: 'https://h'", "client-certificate: x"), "together"},
        {ONE("server: 'https://h'", "token: \"a\\nX-Evil: 1\""), "printable"},
        {ONE("server: 'https://h'", "as-groups: [g]"), "'as'"},
        {"[]", "kubeconfig"},
        {"{", "test"},
    };
    struct sw_kube_config c;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};
        int rc = read_text(cases[i].text, NULL, &c, &err);

        if (rc == SW_OK || !strstr(err.msg, cases[i].says))
            fail_msg("%zu: rc %d '%s', expected '%s'", i, rc, err.msg, cases[i].says);
        assert_null(c.arena.chunk);
    }
}

static void the_first_file_wins(void **state)
{
    const struct sw_kubeconfig_src srcs[] = {
        {.text = SW_SLICE_LIT(""), .name = "empty", .dir = "/0"},
        {.text = SW_SLICE_LIT("clusters: [{name: x, cluster: {server: 'https://first', "
                              "certificate-authority: ca}}]"),
         .name = "1",
         .dir = "/1"},
        {.text = SW_SLICE_LIT(ONE("server: 'https://second'", "token: t")),
         .name = "2",
         .dir = "/2"},
    };
    struct sw_kube_config c;

    (void)state;
    assert_int_equal(sw_kubeconfig_read(srcs, 3, NULL, &c, NULL), SW_OK);
    assert_true(sw_slice_eq_str(c.host, "first"));
    assert_string_equal(c.ca.file, "/1/ca");
    assert_true(sw_slice_eq_str(c.token.data, "t"));
    sw_kube_config_done(&c);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static void files_are_found(void **state)
{
    char dir[] = "/tmp/sw-kubeconfig-XXXXXX";
    char list[256];
    struct sw_kube_config c;
    struct sw_err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    write_file(dir, "config", ONE("server: 'https://h'", "tokenFile: t"));
    write_file(dir, "namespace", "here\n");
    (void)snprintf(list, sizeof(list), "%s/missing::%s/config", dir, dir);
    assert_int_equal(sw_kubeconfig_load(list, NULL, &c, &err), SW_OK);
    assert_true(strncmp(c.token.file, dir, strlen(dir)) == 0);
    sw_kube_config_done(&c);
    (void)snprintf(list, sizeof(list), "%s/missing", dir);
    assert_int_equal(sw_kubeconfig_load(list, NULL, &c, &err), SW_ENOENT);
    (void)unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(sw_kube_config_in_cluster(dir, &c, &err), SW_ENOENT);
    (void)setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    (void)setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_int_equal(sw_kube_config_in_cluster(dir, &c, &err), SW_OK);
    assert_true(sw_slice_eq_str(c.ns, "here"));
    assert_true(sw_slice_eq_str(c.host, "fd00::1"));
    assert_true(c.tls && c.token.file && c.ca.file);
    sw_kube_config_done(&c);
    (void)snprintf(list, sizeof(list), "%s/config", dir);
    (void)unlink(list);
    (void)snprintf(list, sizeof(list), "%s/namespace", dir);
    (void)unlink(list);
    (void)rmdir(dir);
}

/* However the bytes are cut, the frames are the same. */
static void frames_do_not_depend_on_the_cut(void **state)
{
    static const char stream[] =
        "{\"a\":1}\n{\"b\":\"}\\\"{\"}\r\n\n  {\n  \"c\": [1, {\"d\": {}}]\n}{}"
        "{\"e\":\"\\\\\"}\n";
    static const char *const want[] = {"{\"a\":1}", "{\"b\":\"}\\\"{\"}",
                                       "{\n  \"c\": [1, {\"d\": {}}]\n}", "{}", "{\"e\":\"\\\\\"}"};

    (void)state;
    for (size_t cut = 1; cut < sizeof(stream); cut++) {
        struct sw_kube_frames f;
        size_t n = 0;

        sw_kube_frames_init(&f, 1000);
        for (size_t at = 0; at < sizeof(stream) - 1; at += cut) {
            struct sw_slice s = sw_slice(stream + at, sw_min(cut, sizeof(stream) - 1 - at));
            struct sw_slice frame;

            assert_int_equal(sw_kube_frames_push(&f, s), SW_OK);
            while (sw_kube_frames_next(&f, &frame, NULL) == SW_OK) {
                assert_true(n < SW_ARRAY_LEN(want));
                assert_true(sw_slice_eq_str(frame, want[n]));
                n++;
            }
        }
        assert_int_equal(n, SW_ARRAY_LEN(want));
        assert_true(sw_kube_frames_idle(&f));
        sw_kube_frames_done(&f);
    }
}

static void bad_frames(void **state)
{
    struct sw_kube_frames f;
    struct sw_slice frame;
    struct sw_err err = {0};
    char deep[1100];

    (void)state;
    sw_kube_frames_init(&f, 2000);
    assert_int_equal(sw_kube_frames_push(&f, SW_SLICE_LIT(" [1]")), SW_OK);
    assert_int_equal(sw_kube_frames_next(&f, &frame, &err), SW_EPROTO);
    assert_int_equal(sw_kube_frames_next(&f, &frame, &err), SW_EPROTO);
    sw_kube_frames_done(&f);
    sw_kube_frames_init(&f, 2000);
    memset(deep, '{', sizeof(deep));
    assert_int_equal(sw_kube_frames_push(&f, sw_slice(deep, sizeof(deep))), SW_OK);
    assert_int_equal(sw_kube_frames_next(&f, &frame, &err), SW_EPROTO);
    assert_int_equal(sw_kube_frames_next(&f, &frame, &err), SW_EPROTO);
    assert_int_equal(sw_kube_frames_push(&f, sw_slice(deep, sizeof(deep))), SW_ELIMIT);
    assert_false(sw_kube_frames_idle(&f));
    sw_kube_frames_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_followed),
        cmocka_unit_test(what_cannot_be_honoured_is_refused),
        cmocka_unit_test(the_first_file_wins),
        cmocka_unit_test(files_are_found),
        cmocka_unit_test(frames_do_not_depend_on_the_cut),
        cmocka_unit_test(bad_frames),
    };

    return cmocka_run_group_tests_name("kube client config", tests, NULL, NULL);
}
