/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire xds lint`. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "control/lint/input.h"
#include "control/lint/lint.h"
#include "tls/cert/cred.h"

enum { CA_MAX = 1 << 20 };

struct settings {
    const char *server;
    const char *ca;
    const char *token_file;
    const char *node_id;
    bool partial;
    uint64_t timeout_ns;
    size_t errors; /* found */
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"server", NULL, SW_OPT_STR, AT(server), .arg = "HOST:PORT",
     .help = "Take everything from this xDS server instead of files."},
    {"ca", NULL, SW_OPT_STR, AT(ca), .arg = "FILE",
     .help = "Roots for the server's certificate. Without it the stream is not encrypted."},
    {"token-file", NULL, SW_OPT_STR, AT(token_file), .arg = "FILE",
     .help = "Bearer token for the server."},
    {"node-id", NULL, SW_OPT_STR, AT(node_id), .def = "lint", .arg = "ID",
     .help = "Whose configuration to ask the server for."},
    {"partial", NULL, SW_OPT_BOOL, AT(partial), .def = "false", .arg = "BOOL",
     .help = "The input is not everything: names of other resources need not exist."},
    {"timeout", NULL, SW_OPT_DURATION, AT(timeout_ns), .def = "10s", .min = 100, .max = 600000,
     .help = "How long to wait for the server."},
};

const struct sw_opts_cmd sw_xds_options = {
    .name = "xds",
    .usage = "lint FILE... | lint --server HOST:PORT [options]",
    .summary =
        "Says what Envoy would refuse in a set of resources. Files that end in .json, .yaml\n"
        "or .yml hold {\"resources\": [{\"@type\": ...}]}; others an encoded DiscoveryResponse\n"
        "or DeltaDiscoveryResponse. All files together are one set.",
    SW_OPTS_OF(table),
    .max_args = SW_OPTS_ARGS_MAX,
};

static bool is_text(const char *path)
{
    struct sw_slice s = sw_slice_str(path);

    return sw_slice_has_suffix(s, SW_SLICE_LIT(".json")) ||
           sw_slice_has_suffix(s, SW_SLICE_LIT(".yaml")) ||
           sw_slice_has_suffix(s, SW_SLICE_LIT(".yml"));
}

/*
 * No byte at all is a message without resources, but also what a pipe without a writer gives, and a
 * device: not to be taken for a sound set.
 */
static int check_empty(const char *path, struct sw_err *err)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return SW_OK;
    return sw_err_set(err, SW_EINVAL, "'%.100s' is not a regular file, and is empty", path);
}

static int read_files(struct sw_xds_set *set, const struct sw_opts_rest *rest, struct sw_err *err)
{
    int rc = SW_OK;

    for (size_t i = 1; rc == SW_OK && i < rest->n_args; i++) {
        struct sw_slice file = {0};

        rc = sw_file_read(rest->args[i], SW_XDS_INPUT_MAX, &file, err);
        if (rc == SW_OK && file.n == 0)
            rc = check_empty(rest->args[i], err);
        if (rc == SW_OK) {
            /* Binary input borrows nothing, text may: both live in the set. */
            rc =
                sw_xds_set_add(set, sw_arena_slice(&set->arena, file), is_text(rest->args[i]), err);
            if (rc != SW_OK)
                (void)sw_err_prefix(err, "%.100s", rest->args[i]);
        }
        sw_slice_free(&file);
    }
    return rc;
}

static int read_ca(const char *path, struct sw_tls_cred **ret, struct sw_err *err)
{
    struct sw_tls_cred_pem pem = {0};
    struct sw_slice file = {0};
    int rc = sw_file_read(path, CA_MAX, &file, err);

    if (rc != SW_OK)
        return rc;
    pem.roots = file;
    *ret = sw_tls_cred_new(&pem, err);
    sw_slice_free(&file);
    return *ret ? SW_OK : SW_EINVAL;
}

static int fetch(struct sw_xds_set *set, const struct settings *s, struct sw_err *err)
{
    struct sw_xds_fetch f = {.token_file = s->token_file,
                             .node_id = sw_slice_str(s->node_id),
                             .timeout_ns = s->timeout_ns};
    int rc = sw_cmd_host_port("--server", s->server, &f.host, &f.port, err);

    if (rc == SW_OK && s->ca)
        rc = read_ca(s->ca, &f.cred, err);
    if (rc == SW_OK)
        rc = sw_xds_set_fetch(set, &f, err);
    sw_tls_cred_unref(f.cred);
    return rc;
}

/* "error Listener 'x': field: text". */
static void print(void *arg, const struct sw_xds_finding *f)
{
    SW_ARENA_AUTO a = {0};

    (void)printf("%s: %s '%s': %s%s%s\n", f->severity == SW_XDS_ERROR ? "error" : "warning",
                 f->type, sw_cmd_shown(&a, f->resource), sw_cmd_shown(&a, f->field),
                 f->field.n ? ": " : "", sw_cmd_shown(&a, f->text));
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    struct settings *s = settings;
    struct sw_xds_lint_opts o = {.closed = !s->partial};
    struct sw_xds_set set = {0};
    int rc;

    if (rest->n_args == 0 || strcmp(rest->args[0], "lint") != 0 ||
        (rest->n_args == 1) != (s->server != NULL))
        return sw_err_set(err, SW_EINVAL,
                          "say 'lint FILE...' or 'lint --server HOST:PORT' (see 'spanwire help "
                          "xds')");
    rc = s->server ? fetch(&set, s, err) : read_files(&set, rest, err);
    if (rc == SW_OK) {
        s->errors = sw_xds_lint(set.list.p, set.list.n, &o, print, NULL);
        (void)printf("%zu resources, %zu errors\n", set.list.n, s->errors);
    }
    sw_xds_set_done(&set);
    return rc;
}

int sw_cmd_xds(int argc, char **argv)
{
    struct settings s = {0};
    int status = sw_cmd_run(&sw_xds_options, (struct sw_args){argc, argv}, &s, run);

    return s.errors ? 1 : status;
}
