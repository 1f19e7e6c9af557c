/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_fabric.h"

#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/control/link_renew.h"
#include "control/link/auth/certificate.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "kube/client/informer.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

#define SECRET "cl-peer"

enum { PEM_MAX = 256 << 10 };

static const struct sw_kube_gvr secrets = {"", "v1", "secrets", "Secret", true};

struct sw_control_link_fabric {
    struct sw_control_link_fabric_opts o;
    struct sw_filewatch *watch;
    struct sw_informer *informer;
    struct sw_control_link_renew *renew;
    bool have; /* one was used */
};

/* What a certificate of the fabric is made of, as files and as members of the Secret. */
enum { CA, CERT, KEY, PARTS };
static const char *const part_names[PARTS] = {
    [CA] = "ca.pem", [CERT] = "cert.pem", [KEY] = "key.pem"};

/* Their texts; owned. */
struct texts {
    struct sw_buf part[PARTS];
};

static void texts_init(struct texts *t)
{
    for (size_t i = 0; i < PARTS; i++)
        sw_buf_init(&t->part[i], PEM_MAX);
}

static void texts_done(struct texts *t)
{
    if (t->part[KEY].p)
        explicit_bzero(t->part[KEY].p, t->part[KEY].cap);
    for (size_t i = 0; i < PARTS; i++)
        sw_buf_done(&t->part[i]);
}

static void count(const struct sw_control_link_fabric *f, bool ok)
{
    if (f->o.metrics)
        sw_metric_add(
            sw_metric_get1(f->o.metrics, SW_METRIC_LINK_FABRIC_RELOADS, ok ? "ok" : "failed"), 1);
}

/* Uses them, or says why not. */
static int apply(struct sw_control_link_fabric *f, const struct texts *t, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_control_link_identity id = {.chain = sw_buf_slice(&t->part[CERT]),
                                          .key = sw_buf_slice(&t->part[KEY]),
                                          .ca = sw_buf_slice(&t->part[CA])};

    id.cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .chain = id.chain, .key = id.key, .roots = id.ca, .any_identity = true},
        err);
    if (!id.cred)
        return err->rc;
    id.name = sw_link_first_dns(&a, sw_pem_leaf_der(&a, id.chain));
    if (!id.name.n) {
        (void)sw_tls_cred_unref(id.cred);
        return sw_err_set(err, SW_EINVAL, "the certificate has no DNS name");
    }
    f->have = true;
    f->o.changed(f->o.arg, &id);
    sw_control_link_renew_set(f->renew, id.name, id.cred);
    (void)sw_tls_cred_unref(id.cred);
    sw_log_info("link", "fabric certificate of '%.*s' in use", SW_SLICE_ARG(id.name));
    return SW_OK;
}

/* ---- files ---- */

static int read_text(const char *dir, const char *name, struct sw_buf *out, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);
    struct sw_slice text = {0};
    int rc = sw_file_read(path, PEM_MAX, &text, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_buf_append_slice(out, text);
    explicit_bzero((char *)(uintptr_t)text.p, text.n);
    sw_slice_free(&text);
    return rc;
}

static int read_files(struct sw_control_link_fabric *f, struct sw_err *err)
{
    struct texts t;
    int rc = SW_OK;

    texts_init(&t);
    for (size_t i = 0; rc == SW_OK && i < PARTS; i++)
        rc = read_text(f->o.dir, part_names[i], &t.part[i], err);
    if (rc == SW_OK)
        rc = apply(f, &t, err);
    texts_done(&t);
    if (rc != SW_ENOENT || f->have)
        count(f, rc == SW_OK);
    return rc;
}

/* Nothing yet: the site joins a fabric later. */
static bool is_empty(const char *dir)
{
    for (size_t i = 0; i < PARTS; i++) {
        char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, part_names[i]);

        if (access(path, F_OK) == 0)
            return false;
    }
    return true;
}

static int begin_files(struct sw_control_link_fabric *f, struct sw_err *err)
{
    if (!is_empty(f->o.dir))
        return read_files(f, err);
    sw_log_info("link", "no certificate of a fabric in %s yet: 'spanwire join' puts one there",
                f->o.dir);
    return sw_make_dirs(f->o.dir, err);
}

static void on_files(void *arg)
{
    struct sw_control_link_fabric *f = arg;
    struct sw_err err = {0};

    if (read_files(f, &err) != SW_OK && (err.rc != SW_ENOENT || f->have))
        sw_log_warn("link", "fabric certificate in %s not usable, keeping the previous one: %s",
                    f->o.dir, err.msg);
}

/* ---- the Secret ---- */

static int read_member(const struct sw_json *data, const char *name, struct sw_buf *out,
                       struct sw_err *err)
{
    struct sw_slice text = sw_json_str(sw_json_find(data, name));

    if (!text.n || sw_base64_decode(out, text) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "%s is missing or not base64", name);
    return SW_OK;
}

static void on_secret(void *arg, struct sw_kube_obj *o)
{
    struct sw_control_link_fabric *f = arg;
    const struct sw_json *data = sw_json_find(o->json, "data");
    struct sw_err err = {0};
    struct texts t;
    int rc = SW_OK;

    texts_init(&t);
    for (size_t i = 0; rc == SW_OK && i < PARTS; i++)
        rc = read_member(data, part_names[i], &t.part[i], &err);
    if (rc == SW_OK)
        rc = apply(f, &t, &err);
    texts_done(&t);
    count(f, rc == SW_OK);
    if (rc != SW_OK)
        sw_log_warn("link", "Secret " SECRET " not usable, keeping the previous certificate: %s",
                    err.msg);
}

static void on_secret_changed(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_secret(arg, now);
}

static void on_secret_gone(void *arg, struct sw_kube_obj *last)
{
    sw_log_warn("link", "Secret " SECRET " is gone, keeping its certificate");
}

static const struct sw_informer_cbs cbs = {
    .add = on_secret, .update = on_secret_changed, .del = on_secret_gone};

/* ---- life ---- */

struct sw_control_link_fabric *
sw_control_link_fabric_new(struct sw_loop *l, const struct sw_control_link_fabric_opts *o,
                           struct sw_err *err)
{
    struct sw_control_link_fabric *f = SW_NEW(struct sw_control_link_fabric);
    char *dir SW_AUTO_FREE = o->dir ? sw_asprintf("%s/", o->dir) : NULL;

    f->o = *o;
    f->renew = sw_control_link_renew_new(l, o->dir, o->ttl_s, o->metrics);
    if (o->dir) {
        if (begin_files(f, err) == SW_OK)
            f->watch = sw_filewatch_new(l, dir, on_files, f, err);
        if (f->watch)
            return f;
        (void)sw_err_prefix(err, "--link-fabric");
        sw_control_link_fabric_free(f);
        return NULL;
    }
    f->informer =
        sw_informer_new(o->client,
                        &(struct sw_informer_opts){.gvr = &secrets,
                                                   .ns = sw_slice_str(o->ns),
                                                   .field_selector = "metadata.name=" SECRET,
                                                   .slim = true},
                        &cbs, f);
    sw_informer_start(f->informer);
    return f;
}

void sw_control_link_fabric_free(struct sw_control_link_fabric *f)
{
    if (!f)
        return;
    sw_filewatch_free(f->watch);
    sw_informer_free(f->informer);
    sw_control_link_renew_free(f->renew);
    sw_free(f);
}
