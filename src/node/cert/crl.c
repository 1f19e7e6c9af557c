/* SPDX-License-Identifier: Apache-2.0 */
#include "node/cert/crl.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/filewatch.h"
#include "tls/cert/cred.h"

struct sw_crl {
    struct sw_crl_opts o;
    struct sw_slice text; /* owned */
    struct sw_filewatch *watch;
};

/* Whether it parses; whose signature it needs is known only with the roots of a credential. */
static int check(struct sw_slice text, struct sw_err *err)
{
    struct sw_tls_cred_pem pem = {.trust_nobody = true, .crl = text};
    struct sw_tls_cred *probe = sw_tls_cred_new(&pem, err);

    if (!probe)
        return err->rc;
    (void)sw_tls_cred_unref(probe);
    return SW_OK;
}

static int read_text(const struct sw_crl *c, struct sw_slice *ret, struct sw_err *err)
{
    int rc = sw_file_read(c->o.path, SW_TLS_PEM_MAX, ret, err);

    if (rc == SW_ENOENT) {
        *ret = sw_slice(sw_strdup(""), 0);
        return SW_OK;
    }
    if (rc == SW_OK)
        rc = check(*ret, err);
    if (rc != SW_OK) {
        sw_slice_free(ret);
        return sw_err_prefix(err, "'%s'", c->o.path);
    }
    return SW_OK;
}

static void on_change(void *arg)
{
    struct sw_crl *c = arg;
    struct sw_slice text = {0};
    struct sw_err err = {0};
    int rc = read_text(c, &text, &err);

    if (rc == SW_OK && sw_slice_eq(text, c->text)) {
        sw_slice_free(&text);
        return;
    }
    if (rc == SW_OK)
        rc = c->o.apply(c->o.arg, text, &err);
    sw_metric_add(sw_metric_get1(c->o.shard, SW_METRIC_CRL_RELOADS, rc == SW_OK ? "ok" : "failed"),
                  1);
    if (rc != SW_OK) {
        sw_log_error("certs", "cannot load the revocation list, keeping the previous one: %s",
                     err.msg);
        sw_slice_free(&text);
        return;
    }
    sw_slice_free(&c->text);
    c->text = text;
    sw_log_info("certs", "revocation list loaded from '%s'", c->o.path);
}

struct sw_crl *sw_crl_new(struct sw_loop *l, const struct sw_crl_opts *o, struct sw_err *err)
{
    struct sw_crl *c = SW_NEW(struct sw_crl);

    c->o = *o;
    if (read_text(c, &c->text, err) == SW_OK)
        c->watch = sw_filewatch_new(l, o->path, on_change, c, err);
    if (!c->watch) {
        sw_crl_free(c);
        return NULL;
    }
    return c;
}

void sw_crl_free(struct sw_crl *c)
{
    if (!c)
        return;
    sw_filewatch_free(c->watch);
    sw_slice_free(&c->text);
    sw_free(c);
}

struct sw_slice sw_crl_text(const struct sw_crl *c)
{
    return c ? c->text : sw_slice("", 0);
}
