/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire fabric create|peer`: the certificate authority of sites that are linked. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "identity/fabric.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"

struct settings {
    const char *dir;
    const char *name;
    const char *out;
    const char *csr;
    uint64_t ttl_ns;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"dir", NULL, SW_OPT_STR, AT(dir), .def = "fabric", .arg = "DIR",
     .help = "Directory of the authority, for 'spanwire control --link-fabric'. Made if need be; "
             "no file in it is ever replaced."},
    {"name", NULL, SW_OPT_STR, AT(name), .arg = "NAME",
     .help = "create: what this site is called by others. Default: the host's name."},
    {"ttl", NULL, SW_OPT_DURATION, AT(ttl_ns), .def = "365d", .min = 1000,
     .help = "How long the peer's certificate is valid; the authority is for ten years."},
    {"out", NULL, SW_OPT_STR, AT(out), .arg = "DIR",
     .help = "peer: where to put ca.pem, cert.pem and key.pem. Default: ./NAME."},
    {"csr", NULL, SW_OPT_STR, AT(csr), .arg = "FILE",
     .help = "peer: sign the key of this request (PEM) and print the certificate; nothing is "
             "written."},
};

const struct sw_opts_cmd sw_fabric_options = {
    .name = "fabric",
    .usage = "create [--name NAME] | peer NAME [options]",
    .summary =
        "The certificate authority of sites that are linked. create makes one, and the\n"
        "certificate of this site; peer makes that of another by hand. Sites that reach this one\n"
        "join with a code instead: 'spanwire token create --for peer'.",
    .epilogue = "See spanwire-fabric(1), spanwire-control(8) and spanwire-link(8).",
    SW_OPTS_OF(table),
    .max_args = 2,
};

/* ---- create ---- */

static int own_name(struct sw_arena *a, const char **ret, struct sw_err *err)
{
    char host[254] = "";
    struct sw_slice rest;
    struct sw_slice name;

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = 0;
    rest = sw_slice_str(host);
    name = sw_slice_cut(&rest, '.');
    if (!sw_fabric_name_ok(name))
        return sw_err_set(err, SW_EINVAL, "the host's name is no name of a peer: give --name");
    *ret = sw_arena_dup(a, name);
    return SW_OK;
}

static int create(struct settings *s, struct sw_arena *a, struct sw_err *err)
{
    int rc = s->name ? SW_OK : own_name(a, &s->name, err);

    if (rc == SW_OK)
        rc = sw_fabric_create(s->dir, s->name, s->ttl_ns / SW_NS_PER_S, err);
    if (rc == SW_OK)
        printf("Fabric made in %s, with the certificate of peer '%s'. Keep " SW_FABRIC_CA_KEY
               ": it signs for others.\nNext:\n\n"
               "  spanwire control --link-fabric %s --link-listen ADDR ...\n"
               "  spanwire fabric peer OTHER --dir %s\n",
               s->dir, s->name, s->dir, s->dir);
    return rc;
}

/* ---- peer ---- */

static int sign(const struct settings *s, const struct sw_ca *ca, const char *name,
                struct sw_err *err)
{
    SW_BUF_AUTO csr = {.max = SW_CA_CSR_MAX};
    SW_BUF_AUTO cert = {.max = SW_TLS_PEM_MAX};
    int rc = sw_pemfile_read(s->csr, &csr, err);

    if (rc == SW_OK)
        rc = sw_fabric_sign(ca, name, s->ttl_ns / SW_NS_PER_S, sw_buf_slice(&csr), &cert, err);
    if (rc == SW_OK)
        (void)fwrite(sw_buf_data(&cert), 1, sw_buf_len(&cert), stdout);
    return rc;
}

static int peer(const struct settings *s, const char *name, struct sw_err *err)
{
    struct sw_ca *ca = sw_fabric_load(s->dir, err);
    const char *out = s->out ? s->out : name;
    int rc = ca ? SW_OK : err->rc;

    if (rc == SW_OK && s->csr)
        rc = sign(s, ca, name, err);
    else if (rc == SW_OK)
        rc = sw_fabric_issue(ca, out, name, s->ttl_ns / SW_NS_PER_S, err);
    if (rc == SW_OK && !s->csr)
        printf("Certificate of peer '%s' in %s: take it there, for 'spanwire control "
               "--link-fabric'.\n",
               name, out);
    sw_ca_free(ca);
    return rc;
}

/* ---- the command ---- */

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *a,
               struct sw_err *err)
{
    struct settings *s = settings;
    const char *verb = rest->n_args ? rest->args[0] : "";
    int rc;

    if (strcmp(verb, "create") == 0 && rest->n_args == 1)
        rc = create(s, a, err);
    else if (strcmp(verb, "peer") == 0 && rest->n_args == 2)
        rc = peer(s, rest->args[1], err);
    else
        rc = sw_err_set(err, SW_EINVAL, "say create, or peer NAME (see 'spanwire help fabric')");
    if (rc == SW_OK && fflush(stdout) != 0)
        rc = sw_err_set(err, SW_ESYS, "cannot write to standard output");
    return rc;
}

int sw_cmd_fabric(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_fabric_options, (struct sw_args){argc, argv}, &s, run);
}
