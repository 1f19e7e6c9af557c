/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#include "test.h"

static char dir[64];
static char captured[1 << 16];

/* Runs the command with both outputs caught. Arguments are cut at spaces; "@" stands for the
 * directory. */
static int run(const char *line)
{
    char *text = sw_strdup(line);
    char *argv[32] = {NULL};
    char *args[32] = {NULL};
    char *rest = text;
    char path[128];
    int argc = 0;
    int saved[2] = {dup(1), dup(2)};
    FILE *f;
    int rc;

    (void)snprintf(path, sizeof(path), "%s/output", dir);
    for (char *word; (word = strsep(&rest, " ")) && argc < 30;) {
        args[argc] = word[0] == '@' ? sw_asprintf("%s%s", dir, word + 1) : sw_strdup(word);
        argv[argc] = args[argc];
        argc++;
    }
    (void)fflush(stdout);
    (void)fflush(stderr);
    f = freopen(path, "w", stdout);
    assert_non_null(f);
    assert_int_equal(dup2(1, 2), 2);
    rc = sw_cmd_cert(argc, argv);
    (void)fflush(stdout);
    (void)fflush(stderr);
    (void)dup2(saved[0], 1);
    (void)dup2(saved[1], 2);
    (void)close(saved[0]);
    (void)close(saved[1]);
    f = fopen(path, "r");
    captured[fread(captured, 1, sizeof(captured) - 1, f)] = '\0';
    (void)fclose(f);
    for (int i = 0; i < argc; i++)
        sw_free(args[i]);
    sw_free(text);
    return rc;
}

static void expect(const char *line, int rc, const char *has)
{
    int got = run(line);

    if (got != rc || !strstr(captured, has))
        fail_msg("'%s' gave %d and '%s'", line, got, captured);
    /* Errors are one line. */
    if (rc == 1)
        assert_ptr_equal(strchr(captured, '\n') + 1, captured + strlen(captured));
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/spanwire-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"ca/root.crt", "ca/root.key", "cb/root.crt", "cb/root.key",
                                        "output",      "a.crt",       "a.key",       "b.crt",
                                        "b.key",       "crl.pem",     "junk"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/ca", dir);
    (void)rmdir(path);
    (void)snprintf(path, sizeof(path), "%s/cb", dir);
    (void)rmdir(path);
    return rmdir(dir);
}

static void whole_life(void **state)
{
    struct stat st;
    char path[128];

    (void)state;
    expect("cert ca --dir @/ca", 0, "");
    expect("cert ca --dir @/ca", 1, "already holds a CA");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/ns/n/sa/s --out @/a", 0, "");
    (void)snprintf(path, sizeof(path), "%s/a.key", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    expect("cert show @/a.crt", 0, "identity     spiffe://cluster.local/ns/n/sa/s");
    expect("cert show @/a.crt", 0, "valid, ");
    expect("cert show @/a.crt @/a.key @/ca/root.crt", 0, "self-signed");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/ns/n/sa/s --out @/b --ttl 10s", 0,
           "");
    expect("cert show @/b.crt", 0, "valid, ");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/ns/n/sa/s --out @/b --backdate 2h "
           "--ttl 1h",
           0, "");
    expect("cert show @/b.crt", 0, "EXPIRED 1h0m ago");
    expect("cert crl --dir @/ca --revoke @/a.crt --revoke @/b.crt --out @/crl.pem", 0, "");
    expect("cert show @/crl.pem", 0, "certificates 2");
    expect("cert crl --dir @/ca --out @/crl.pem --revoke @/a.crt @/b.crt", 0, "");
    expect("cert show @/crl.pem", 0, "certificates 2");
}

static void foreign_trust_domain(void **state)
{
    (void)state;
    expect("cert ca --dir @/ca --trust-domain here --ttl 1h", 0, "");
    expect("cert issue --dir @/ca --id spiffe://there/ns/n/sa/s --out @/a", 1,
           "spanwire: cert issue: trust domain of");
    expect("cert issue --dir @/ca --id spiffe://there/ns/n/sa/s --out @/a "
           "--allow-foreign-trust-domain",
           1, "outside the name constraints");
    expect("cert show @/ca/root.crt", 0, "permitted    URI:here");
    expect("cert ca --dir @/cb --trust-domain here --ttl 1h --any-trust-domain", 0, "");
    expect("cert issue --dir @/cb --id spiffe://there/ns/n/sa/s --out @/a "
           "--allow-foreign-trust-domain",
           0, "");
    /* Nothing outlives the root. */
    assert_int_equal(run("cert show @/a.crt"), 0);
    assert_true(strstr(captured, "valid, 59m") || strstr(captured, "valid, 1h0m"));
}

static void errors_are_one_line(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/junk", dir);
    assert_int_equal(sw_file_write(path, SW_SLICE_LIT("junk"), 0644, true, NULL), SW_OK);
    expect("cert", 1, "spanwire: cert: which verb?");
    expect("cert frob", 1, "spanwire: cert: 'frob': unknown verb");
    expect("cert ca", 1, "spanwire: cert ca: ");
    expect("cert ca --dir @/ca --ttl soon", 1, "spanwire: cert ca: ");
    expect("cert ca --dir @/ca --trust-domain a/b", 1, "spanwire: cert ca: 'a/b' is not");
    expect("cert ca --dir @/ca --trust-domain 10.0.0.1", 1, "'10.0.0.1' is not a trust domain");
    expect("cert ca --dir @/junk/ca", 1, "spanwire: cert ca: cannot make directory");
    expect("cert issue --dir @/ca --id spiffe://a/ns/b/sa/c --out @/a", 1,
           "spanwire: cert issue: '");
    expect("cert show", 1, "spanwire: cert show: which file?");
    expect("cert show @/junk", 1, "no certificate, CRL or key");
    expect("cert show @/nothing", 1, "does not exist");
    expect("cert show @", 1, "not a regular file");
    expect("cert ca --dir @/ca", 0, "");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/x --out @/a", 1,
           "spanwire: cert issue: identity");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/ns/b/sa/c --out @/ca/root", 1,
           "would replace the CA");
    expect("cert issue --dir @/ca --id spiffe://cluster.local/ns/b/sa/c --out @/no/a", 1,
           "cannot write");
    expect("cert crl --dir @/ca --out @/crl.pem --revoke @/junk", 1, "junk");
    expect("cert ca --dir @/cb", 0, "");
    expect("cert issue --dir @/cb --id spiffe://cluster.local/ns/b/sa/c --out @/a", 0, "");
    expect("cert crl --dir @/ca --out @/crl.pem --revoke @/a.crt", 1, "not issued by this CA");
}

static void helps(void **state)
{
    (void)state;
    expect("cert --help", 0, "Usage: spanwire cert VERB");
    expect("cert ca --help", 0, "--trust-domain");
    expect("cert issue --help", 0, "--id");
    expect("cert crl --help", 0, "--revoke");
    expect("cert show --help", 0, "FILE");
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {T(whole_life), T(foreign_trust_domain),
                                       T(errors_are_one_line), T(helps)};

    return cmocka_run_group_tests_name("cert", tests, NULL, NULL);
}
