/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of `expose` means: options that go together, names, the file of --ca. */
#include <unistd.h>

#include "base/mem.h"
#include "connector/dirs.h"
#include "connector/expose/expose_int.h"
#include "kube/names.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

enum {
    CA_MAX = 64 << 10, /* what the control plane takes */
    FILE_MAX = 1 << 20,
};

/* What goes with what. */
static int check_use(const struct expose *x)
{
    const struct sw_expose_config *cfg = x->cfg;

    if (!x->target.tcp && (cfg->port || cfg->tls_names.n))
        return sw_err_set(x->err, SW_EINVAL, "--%s is for a tcp:// service",
                          cfg->port ? "port" : "tls-name");
    if (x->target.tcp && (cfg->hostnames.n || cfg->redirect))
        return sw_err_set(x->err, SW_EINVAL, "--%s is not for a tcp:// service%s",
                          cfg->redirect ? "https-redirect" : "hostname",
                          cfg->redirect ? "" : ": --tls-name names one that speaks TLS");
    if (cfg->port && cfg->tls_names.n)
        return sw_err_set(x->err, SW_EINVAL, "--port and --tls-name exclude each other");
    if (cfg->ca && !x->target.https)
        return sw_err_set(x->err, SW_EINVAL, "--ca is for an https:// service");
    return SW_OK;
}

/* Nothing but certificates: they are published, and the file may hold a private key as well. */
static int take_certs(struct sw_slice pem, struct sw_buf *out)
{
    struct sw_slice cert;
    int rc = SW_OK;

    while (rc == SW_OK && (rc = sw_pem_next_cert(&pem, &cert)) == SW_OK) {
        rc = sw_buf_append_slice(out, cert);
        if (rc == SW_OK)
            rc = sw_buf_putc(out, '\n');
    }
    return rc == SW_ENOENT ? SW_OK : rc;
}

static int read_ca(struct expose *x)
{
    struct sw_tls_cred *cred;
    SW_BUF_AUTO file = {.max = FILE_MAX};
    int rc;

    sw_buf_init(&x->ca, CA_MAX);
    if (!x->cfg->ca)
        return SW_OK;
    rc = sw_pemfile_read(x->cfg->ca, &file, x->err);
    if (rc == SW_OK && take_certs(sw_buf_slice(&file), &x->ca) != SW_OK)
        rc = sw_err_set(x->err, SW_EINVAL,
                        "'%.100s': a certificate without an end, or more than %d KiB of them",
                        x->cfg->ca, CA_MAX >> 10);
    if (rc != SW_OK)
        return sw_err_prefix(x->err, "--ca");
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.roots = sw_buf_slice(&x->ca), .any_identity = true}, x->err);
    if (!cred)
        return sw_err_prefix(x->err, "--ca");
    (void)sw_tls_cred_unref(cred);
    return SW_OK;
}

/* Everything that follows from the target. */
int expose_fill_in(struct expose *x)
{
    struct sw_expose_config *cfg = x->cfg;
    char host[256] = "device";
    int rc = sw_target_parse(x->arena, sw_slice_str(cfg->target), &x->target, x->err);

    if (rc == SW_OK)
        rc = check_use(x);
    if (rc == SW_OK)
        rc = read_ca(x);
    if (rc != SW_OK)
        return rc;
    if (x->target.tcp)
        cfg->hostnames = cfg->tls_names;
    (void)gethostname(host, sizeof(host) - 1);
    if (!cfg->name)
        cfg->name = sw_target_name(x->arena, sw_slice_str(host), x->target.port);
    if (sw_name_dns1123_label(sw_slice_str(cfg->name)).n)
        return sw_err_set(x->err, SW_EINVAL, "--name: '%.63s' is not a DNS label", cfg->name);
    if (!cfg->c.data) {
        SW_AUTO_FREE char *base = sw_default_data();

        cfg->c.data = sw_arena_printf(x->arena, "%s/expose/%s", base, cfg->name);
    }
    cfg->c.name = cfg->name;
    cfg->c.target = x->target.host;
    cfg->c.any_name = true;
    if (cfg->hostnames.n) {
        struct sw_json *names = sw_json_new_array(&x->kept);

        for (size_t i = 0; i < cfg->hostnames.n; i++)
            sw_json_push(&x->kept, names, sw_json_new_str(&x->kept, cfg->hostnames.p[i]));
        x->hostnames = names;
    }
    return SW_OK;
}
