/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire cert ca|issue|crl|rotate|show`. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "identity/material.h"
#include "identity/rotation.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509text.h"

/* One struct for all: each table names the members it uses. */
struct settings {
    const char *dir;
    const char *trust_domain;
    const char *id;
    const char *out;
    uint64_t ttl_ns;
    uint64_t backdate_ns;
    bool foreign;
    bool any_trust_domain;
    bool now;
    struct sw_opt_list revoke;
};

enum { SHOW_MAX = 16 << 20 }; /* bytes of explanation */

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt ca_table[] = {
    {"dir", NULL, SW_OPT_STR, AT(dir), .arg = "DIR", .flags = SW_OPT_NEEDED,
     .help = "Directory to put " SW_CA_ROOT_CERT " and " SW_CA_ROOT_KEY " into. It is made if "
             "need be; a CA that is already there is never replaced."},
    {"trust-domain", NULL, SW_OPT_STR, AT(trust_domain), .def = "cluster.local", .arg = "NAME",
     .help = "Trust domain the CA issues identities for; the root is constrained to it."},
    {"any-trust-domain", NULL, SW_OPT_BOOL, AT(any_trust_domain), .def = "false",
     .help = "A root without name constraints, for identities of several trust domains."},
    {"ttl", NULL, SW_OPT_DURATION, AT(ttl_ns), .def = "3652d", .min = 1000,
     .help = "How long the root is valid."},
};

static const struct sw_opt issue_table[] = {
    {"dir", NULL, SW_OPT_STR, AT(dir), .arg = "DIR", .flags = SW_OPT_NEEDED,
     .help = "Directory of the CA."},
    {"id", NULL, SW_OPT_STR, AT(id), .arg = "URI", .flags = SW_OPT_NEEDED,
     .help = "Identity: spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT."},
    {"out", NULL, SW_OPT_STR, AT(out), .arg = "PREFIX", .flags = SW_OPT_NEEDED,
     .help = "Writes PREFIX.crt and PREFIX.key, replacing older ones."},
    {"ttl", NULL, SW_OPT_DURATION, AT(ttl_ns), .def = "24h", .min = 1000,
     .help = "How long the certificate is valid; never longer than the root."},
    {"backdate", NULL, SW_OPT_DURATION, AT(backdate_ns), .def = "0",
     .help = "Moves the whole validity into the past, to test with expired certificates."},
    {"allow-foreign-trust-domain", NULL, SW_OPT_BOOL, AT(foreign), .def = "false",
     .help = "Sign an identity outside the CA's trust domain. Its root must be without name "
             "constraints."},
};

static const struct sw_opt crl_table[] = {
    {"dir", NULL, SW_OPT_STR, AT(dir), .arg = "DIR", .flags = SW_OPT_NEEDED,
     .help = "Directory of the CA."},
    {"revoke", NULL, SW_OPT_LIST, AT(revoke), .arg = "FILE",
     .help = "Certificate to revoke. May be repeated; plain arguments count as well."},
    {"out", NULL, SW_OPT_STR, AT(out), .arg = "FILE", .flags = SW_OPT_NEEDED,
     .help = "Where to write the list, replacing an older one."},
};

static const struct sw_opt rotate_table[] = {
    {"dir", NULL, SW_OPT_STR, AT(dir), .arg = "DIR", .flags = SW_OPT_NEEDED,
     .help = "Directory of the CA."},
    {"now", NULL, SW_OPT_BOOL, AT(now), .def = "false",
     .help =
         "Do the next step of a rotation that has begun without waiting: use the new root, then "
         "forget the old one."},
};

static const struct sw_opts_cmd ca_cmd = {
    .name = "cert ca",
    .usage = "--dir DIR [options]",
    .summary = "Makes a certificate authority: one root with an ECDSA P-256 key.",
    SW_OPTS_OF(ca_table),
};

static const struct sw_opts_cmd issue_cmd = {
    .name = "cert issue",
    .usage = "--dir DIR --id URI --out PREFIX [options]",
    .summary = "Makes a new key and a workload certificate for it.",
    SW_OPTS_OF(issue_table),
};

static const struct sw_opts_cmd crl_cmd = {
    .name = "cert crl",
    .usage = "--dir DIR --out FILE --revoke FILE [FILE...]",
    .summary = "Writes a list of revoked certificates, for --crl of `spanwire node`. Each list\n"
               "stands alone: name every certificate that is to stay revoked.",
    SW_OPTS_OF(crl_table),
    .max_args = SW_OPTS_ARGS_MAX,
};

static const struct sw_opts_cmd rotate_cmd = {
    .name = "cert rotate",
    .usage = "--dir DIR [--now]",
    .summary =
        "Makes a second root that follows the one of a mesh's CA: `spanwire control` trusts\n"
        "both, signs with the new one when every proxy has it, and then forgets the old one.",
    SW_OPTS_OF(rotate_table),
};

static const struct sw_opts_cmd show_cmd = {
    .name = "cert show",
    .usage = "FILE...",
    .summary = "Explains the certificates, revocation lists and keys in files. Of a private key\n"
               "only the public half is shown.",
    .max_args = SW_OPTS_ARGS_MAX,
};

static int run_ca(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
                  struct sw_err *err)
{
    const struct settings *s = settings;
    const struct sw_ca_scope scope = {.trust_domain = sw_slice_str(s->trust_domain),
                                      .any_trust_domain = s->any_trust_domain};
    struct sw_ca *ca = sw_ca_new_scoped(&scope, s->ttl_ns / SW_NS_PER_S, err);
    int rc;

    if (!ca)
        return err->rc;
    rc = sw_ca_save(ca, s->dir, err);
    sw_ca_free(ca);
    return rc;
}

static int write_issued(const char *prefix, struct sw_slice chain, struct sw_slice key,
                        struct sw_err *err)
{
    SW_AUTO_FREE char *crt_path = sw_asprintf("%s.crt", prefix);
    SW_AUTO_FREE char *key_path = sw_asprintf("%s.key", prefix);
    int rc = sw_file_write(key_path, key, 0600, true, err);

    return rc == SW_OK ? sw_file_write(crt_path, chain, 0644, true, err) : rc;
}

/* "--out DIR/root" would replace the CA itself. */
static int check_prefix(const struct settings *s, struct sw_err *err)
{
    SW_AUTO_FREE char *crt_path = sw_asprintf("%s.crt", s->out);
    SW_AUTO_FREE char *root_path = sw_asprintf("%s/%s", s->dir, SW_CA_ROOT_CERT);

    if (sw_pemfile_same(crt_path, root_path))
        return sw_err_set(err, SW_EINVAL, "'%s' would replace the CA", s->out);
    return SW_OK;
}

static int run_issue(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
                     struct sw_err *err)
{
    const struct settings *s = settings;
    struct sw_ca_leaf leaf = {.id = sw_slice_str(s->id),
                              .ttl_s = s->ttl_ns / SW_NS_PER_S,
                              .backdate_s = s->backdate_ns / SW_NS_PER_S,
                              .foreign_trust_domain = s->foreign};
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    struct sw_ca *ca = NULL;
    int rc = check_prefix(s, err);

    if (rc == SW_OK) {
        ca = sw_ca_load(s->dir, err);
        rc = ca ? sw_ca_issue(ca, &leaf, &chain, &key, err) : err->rc;
    }
    if (rc == SW_OK)
        rc = write_issued(s->out, sw_buf_slice(&chain), sw_buf_slice(&key), err);
    sw_ca_free(ca);
    return rc;
}

static int run_crl(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
                   struct sw_err *err)
{
    const struct settings *s = settings;
    size_t n = s->revoke.n + rest->n_args;
    struct sw_slice *certs = sw_arena_array(arena, n + 1, sizeof(*certs));
    SW_BUF_AUTO pem = {.max = SW_TLS_PEM_MAX};
    struct sw_ca *ca = sw_ca_load(s->dir, err);
    int rc = ca ? SW_OK : err->rc;

    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        const char *path = i < s->revoke.n ? s->revoke.p[i] : rest->args[i - s->revoke.n];
        SW_BUF_AUTO text = {.max = SW_TLS_PEM_MAX};

        rc = sw_pemfile_read(path, &text, err);
        certs[i] = sw_arena_slice(arena, sw_buf_slice(&text));
        if (rc == SW_OK) { /* alone first, so that the message can name the file */
            SW_BUF_AUTO trial = {.max = SW_TLS_PEM_MAX};

            rc = sw_ca_make_crl(ca, &certs[i], 1, &trial, err);
            if (rc != SW_OK)
                (void)sw_err_prefix(err, "'%.80s'", path);
        }
    }
    if (rc == SW_OK)
        rc = sw_ca_make_crl(ca, certs, n, &pem, err);
    if (rc == SW_OK)
        rc = sw_file_write(s->out, sw_buf_slice(&pem), 0644, true, err);
    sw_ca_free(ca);
    return rc;
}

static int run_rotate(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
                      struct sw_err *err)
{
    const struct settings *s = settings;
    const struct sw_rotation_opts o = {0};
    struct sw_ca_material m;
    struct sw_ca_material next;
    int rc = sw_ca_material_read(arena, s->dir, &m, err);
    enum sw_rotation_step step = rc == SW_OK ? sw_rotation_next(&m) : SW_ROTATION_NONE;

    if (rc == SW_OK && !s->now && (step == SW_ROTATION_SWITCH || step == SW_ROTATION_FORGET))
        rc = sw_err_set(err, SW_EINVAL, "a rotation is under way; its next step is '%s' (--now)",
                        sw_rotation_name(step));
    if (rc == SW_OK)
        rc = sw_rotation_do(arena, &m, &o, sw_wall_ns() / SW_NS_PER_S, &next, err);
    if (rc == SW_OK)
        rc = sw_ca_material_write(s->dir, &m, &next, err);
    if (rc == SW_OK)
        (void)printf("%s\n", sw_rotation_name(step));
    return rc;
}

static int run_show(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
                    struct sw_err *err)
{
    if (rest->n_args == 0)
        return sw_err_set(err, SW_EINVAL, "which file?");
    for (size_t i = 0; i < rest->n_args; i++) {
        SW_BUF_SECRET content = {.max = SW_TLS_PEM_MAX};
        SW_BUF_AUTO text = {.max = SHOW_MAX};
        int rc = sw_pemfile_read(rest->args[i], &content, err);

        if (rc == SW_OK) {
            rc = sw_x509_explain(sw_buf_slice(&content), sw_wall_ns() / SW_NS_PER_S, &text, err);
            if (rc != SW_OK)
                (void)sw_err_prefix(err, "'%.80s'", rest->args[i]);
        }
        if (rc != SW_OK)
            return rc;
        (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    }
    if (fflush(stdout) != 0)
        return sw_err_set(err, SW_ESYS, "cannot write to standard output");
    return SW_OK;
}

static const struct verb {
    const char *name;
    const char *what;
    const struct sw_opts_cmd *cmd;
    sw_cmd_fn run;
} verbs[] = {
    {"ca", "make a certificate authority", &ca_cmd, run_ca},
    {"issue", "issue a workload certificate", &issue_cmd, run_issue},
    {"crl", "write a list of revoked certificates", &crl_cmd, run_crl},
    {"rotate", "let another root follow the one of a mesh's CA", &rotate_cmd, run_rotate},
    {"show", "explain certificates, revocation lists and keys", &show_cmd, run_show},
};

static int usage(void)
{
    (void)printf("Usage: spanwire cert VERB [options]\n\nVerbs:\n");
    for (size_t i = 0; i < SW_ARRAY_LEN(verbs); i++)
        (void)printf("  %-6s %s\n", verbs[i].name, verbs[i].what);
    (void)printf("\n'spanwire cert VERB --help' lists the options of one.\n");
    return fflush(stdout) == 0 ? 0 : 1;
}

int sw_cmd_cert(int argc, char **argv)
{
    struct settings s = {0};
    struct sw_err err;

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage();
    for (size_t i = 0; argc >= 2 && i < SW_ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return sw_cmd_run(verbs[i].cmd, (struct sw_args){argc - 1, argv + 1}, &s, verbs[i].run);
    }
    if (argc < 2)
        (void)sw_err_set(&err, SW_EINVAL, "cert: which verb? One of ca, issue, crl, rotate, show");
    else
        (void)sw_err_set(&err, SW_EINVAL,
                         "cert: '%.60s': unknown verb (ca, issue, crl, rotate, show)", argv[1]);
    return sw_cmd_fail(&err);
}
