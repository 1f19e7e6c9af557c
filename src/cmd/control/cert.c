/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/cert.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "kube/client/client.h"
#include "kube/client/kinds.h"
#include "kube/client/secret.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"

#define CA_DIR "xds-ca"

enum { NAMES_MAX = 64, PEM_MAX = SW_SECRET_VALUE_MAX };

static const uint64_t leaf_ttl_s = UINT64_C(30) * 86400;
static const uint64_t root_ttl_s = UINT64_C(10) * 365 * 86400;
/* A certificate is renewed after a third of its life; a CA that was replaced shows by then, too. */
static const uint64_t renew_ns = UINT64_C(10) * 86400 * SW_NS_PER_S;
static const uint64_t reread_ns = 600 * SW_NS_PER_S;
static const uint64_t retry_ns = 5 * SW_NS_PER_S;

struct sw_control_cert {
    struct sw_control_cert_opts o;
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_tls_cred *cred;
    struct sw_filewatch *watch;
    struct sw_ca *ca; /* from the Secret; NULL: not read yet */
    struct sw_kube_call *call;
    struct sw_timer timer; /* until the Secret is read again, or the CA issues again */
    uint64_t issued_ns;
    bool published; /* the ConfigMap has its root */
    char why[160];  /* the Secret could not be had */
};

/* ---- credentials ---- */

static struct sw_tls_cred *cred_from(struct sw_slice chain, struct sw_slice key, struct sw_err *err)
{
    /* Clients show tokens, not certificates. */
    return sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .chain = chain, .key = key, .any_identity = true, .trust_nobody = true},
        err);
}

static struct sw_tls_cred *cred_from_files(const struct sw_control_cert_opts *o, struct sw_err *err)
{
    struct sw_slice chain = {0};
    struct sw_slice key = {0};
    struct sw_tls_cred *cred = NULL;

    if (sw_file_read(o->cert, PEM_MAX, &chain, err) == SW_OK &&
        sw_file_read(o->key, PEM_MAX, &key, err) == SW_OK)
        cred = cred_from(chain, key, err);
    sw_slice_free(&chain);
    sw_slice_free_secret(&key);
    return cred;
}

/* A certificate with the names of this replica and those that the options add. */
static struct sw_tls_cred *issue(const struct sw_control_cert *c, const struct sw_ca *ca,
                                 struct sw_err *err)
{
    const char *names[NAMES_MAX + 5] = {"localhost", "127.0.0.1", "::1"};
    char host[256] = "";
    size_t n = 3;
    SW_BUF_AUTO chain = {0};
    SW_BUF_SECRET key = {0};
    struct sw_tls_cred *cred = NULL;

    if (gethostname(host, sizeof(host) - 1) == 0 && host[0])
        names[n++] = host;
    for (size_t i = 0; i < c->o.names->n && i < NAMES_MAX; i++)
        names[n++] = c->o.names->p[i];
    sw_buf_init(&chain, PEM_MAX);
    sw_buf_init(&key, PEM_MAX);
    if (sw_ca_issue_web(
            ca,
            &(struct sw_ca_web){
                .cn = "spanwire-xds", .sans = names, .server = true, .ttl_s = leaf_ttl_s},
            &chain, &key, err) == SW_OK)
        cred = cred_from(sw_buf_slice(&chain), sw_buf_slice(&key), err);
    return cred;
}

static void take_cred(struct sw_control_cert *c, struct sw_tls_cred *cred)
{
    (void)sw_tls_cred_unref(c->cred);
    c->cred = cred;
    c->issued_ns = sw_loop_now(c->loop);
    c->o.renewed(c->o.arg, cred);
}

static void on_files(void *arg)
{
    struct sw_control_cert *c = arg;
    struct sw_err err = {0};
    struct sw_tls_cred *cred = cred_from_files(&c->o, &err);

    if (!cred) {
        sw_log_warn("control", "--xds-cert: %s; the xDS server keeps its certificate", err.msg);
        return;
    }
    take_cred(c, cred);
    sw_log_info("control", "the xDS server has a new certificate");
}

/* Issues anew; the certificate in use stays when that fails. */
static void renew(struct sw_control_cert *c)
{
    struct sw_err err = {0};
    struct sw_tls_cred *cred = issue(c, c->ca, &err);

    if (cred)
        take_cred(c, cred);
    else
        sw_log_warn("control", "cannot renew the xDS server's certificate: %s", err.msg);
}

/* ---- a CA of our own ---- */

static void on_renew(struct sw_timer *t)
{
    struct sw_control_cert *c = SW_CONTAINER_OF(t, struct sw_control_cert, timer);

    renew(c);
    sw_timer_start(c->loop, &c->timer, renew_ns, on_renew);
}

static struct sw_ca *open_ca(const char *dir, struct sw_err *err)
{
    char *cert SW_AUTO_FREE = sw_asprintf("%s/" SW_CA_ROOT_CERT, dir);
    struct sw_ca *ca;
    struct stat st;

    if (stat(cert, &st) == 0)
        return sw_ca_load(dir, err);
    ca = sw_ca_new(SW_SLICE_LIT("spanwire.local"), root_ttl_s, err);
    if (ca && sw_ca_save(ca, dir, err) != SW_OK) {
        sw_ca_free(ca);
        return NULL;
    }
    return ca;
}

static struct sw_tls_cred *cred_of_our_own(struct sw_control_cert *c, struct sw_err *err)
{
    char *dir SW_AUTO_FREE = sw_asprintf("%s/" CA_DIR, c->o.data);

    (void)mkdir(c->o.data, 0700); /* what is wrong with it shows when the CA is made in it */
    c->ca = open_ca(dir, err);
    if (!c->ca)
        return NULL;
    sw_log_info("control", "data planes verify the xDS server with %s/" SW_CA_ROOT_CERT, dir);
    sw_timer_start(c->loop, &c->timer, renew_ns, on_renew);
    return issue(c, c->ca, err);
}

/* ---- a CA in a Secret ---- */

static void read_secret(struct sw_control_cert *c);

static void on_reread(struct sw_timer *t)
{
    read_secret(SW_CONTAINER_OF(t, struct sw_control_cert, timer));
}

/* Later once more: it did not work, or the Secret may be another by then. */
static void later(struct sw_control_cert *c, uint64_t wait_ns)
{
    sw_timer_start(c->loop, &c->timer, wait_ns, on_reread);
}

static void failed(struct sw_control_cert *c, const char *what, struct sw_slice why)
{
    bool news = !c->why[0];

    (void)snprintf(c->why, sizeof(c->why), "%s '%s/%s': %.*s", what, c->o.ns, c->o.secret,
                   SW_SLICE_ARG_MAX(why, 100));
    if (news)
        sw_log_warn("control", "%s; retrying", c->why);
    later(c, retry_ns);
}

static void on_root_written(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_cert *c = arg;

    c->call = NULL;
    if (r->rc != SW_OK) {
        failed(c, "cannot write the root certificate to ConfigMap", r->message);
        return;
    }
    c->why[0] = '\0';
    c->published = true;
    sw_log_info("control", "data planes verify the xDS server with ca.crt of ConfigMap '%s/%s'",
                c->o.ns, c->o.secret);
    later(c, reread_ns);
}

/* Data planes mount it. All replicas write the same. */
static void write_root(struct sw_control_cert *c)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *data;
    struct sw_json *o = sw_secret_object(&a, &sw_configmaps_gvr, c->o.ns, c->o.secret, &data);

    sw_json_put_str(&a, data, "ca.crt", sw_ca_root_pem(c->ca));
    c->call = sw_kube_apply(
        c->client,
        &(struct sw_kube_apply){
            .gvr = &sw_configmaps_gvr, .obj = o, .manager = "spanwire-control", .force = true},
        on_root_written, c);
}

static void take_ca(struct sw_control_cert *c, struct sw_ca *ca)
{
    bool same = c->ca && sw_slice_eq(sw_ca_root_pem(c->ca), sw_ca_root_pem(ca));

    sw_ca_free(c->ca);
    c->ca = ca;
    if (!same || sw_loop_now(c->loop) - c->issued_ns >= renew_ns)
        renew(c);
    c->published = c->published && same;
    if (c->published)
        later(c, reread_ns);
    else
        write_root(c);
}

/* The CA of a Secret of type kubernetes.io/tls; NULL with err. */
static struct sw_ca *parse_secret(const struct sw_json *secret, struct sw_err *err)
{
    SW_BUF_AUTO cert = {.max = PEM_MAX};
    SW_BUF_SECRET key = {.max = PEM_MAX};
    struct sw_ca *ca = NULL;

    if (sw_secret_get(secret, "tls.crt", &cert) != SW_OK ||
        sw_secret_get(secret, "tls.key", &key) != SW_OK)
        (void)sw_err_set(err, SW_EINVAL, "tls.crt or tls.key is missing or not base64");
    else
        ca = sw_ca_from_pem(sw_buf_slice(&cert), sw_buf_slice(&key), err);
    return ca;
}

static void on_created(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_cert *c = arg;

    c->call = NULL;
    if (r->rc == SW_OK || r->code == 409) /* another replica was first */
        read_secret(c);
    else
        failed(c, "cannot create the CA of the xDS server in Secret", r->message);
}

static void create_secret(struct sw_control_cert *c)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_SECRET key = {.max = PEM_MAX};
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("spanwire.local"), root_ttl_s, &err);
    struct sw_json *data;
    struct sw_json *o = sw_secret_object(&a, &sw_secrets_gvr, c->o.ns, c->o.secret, &data);

    if (!ca || sw_ca_key_pem(ca, &key, &err) != SW_OK) {
        sw_ca_free(ca);
        failed(c, "cannot make a CA for Secret", sw_slice_str(err.msg));
        return;
    }
    sw_json_put(&a, o, "type", sw_json_new_str(&a, "kubernetes.io/tls"));
    sw_secret_put(&a, data, "tls.crt", sw_ca_root_pem(ca));
    sw_secret_put(&a, data, "tls.key", sw_buf_slice(&key));
    sw_ca_free(ca);
    c->call = sw_kube_create(c->client, &sw_secrets_gvr, o, on_created, c);
}

static void on_secret(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_cert *c = arg;
    struct sw_err err = {0};
    struct sw_ca *ca;

    c->call = NULL;
    if (r->code == 404) {
        create_secret(c);
        return;
    }
    if (r->rc != SW_OK) {
        failed(c, "cannot read the CA of the xDS server from Secret", r->message);
        return;
    }
    ca = parse_secret(r->object, &err);
    if (ca)
        take_ca(c, ca);
    else
        failed(c, "no CA in Secret", sw_slice_str(err.msg));
}

static void read_secret(struct sw_control_cert *c)
{
    c->call = sw_kube_get(c->client, &sw_secrets_gvr, sw_slice_str(c->o.ns),
                          sw_slice_str(c->o.secret), on_secret, c);
}

/* Something to listen with until the Secret was read: no client trusts it. */
static struct sw_tls_cred *cred_until_read(struct sw_control_cert *c, struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("spanwire.local"), leaf_ttl_s, err);
    struct sw_tls_cred *cred = ca ? issue(c, ca, err) : NULL;

    sw_ca_free(ca);
    if (cred)
        read_secret(c);
    return cred;
}

/* ---- life ---- */

static int open_cred(struct sw_control_cert *c, struct sw_err *err)
{
    const struct sw_control_cert_opts *o = &c->o;

    if (!o->cert != !o->key)
        return sw_err_set(err, SW_EINVAL, "--xds-cert and --xds-key go together");
    if (o->cert && o->secret)
        return sw_err_set(err, SW_EINVAL, "--xds-cert and --xds-secret exclude each other");
    if (!o->cert && !o->secret && !o->data)
        return sw_err_set(err, SW_EINVAL,
                          "a certificate needs --xds-cert, --xds-secret, or --data for a CA");
    if (o->cert)
        c->cred = cred_from_files(o, err);
    else
        c->cred = o->secret ? cred_until_read(c, err) : cred_of_our_own(c, err);
    if (c->cred && o->cert)
        c->watch = sw_filewatch_new(c->loop, o->cert, on_files, c, err);
    return c->cred && (c->watch || !o->cert) ? SW_OK : err->rc;
}

struct sw_control_cert *sw_control_cert_new(struct sw_kube_client *client,
                                            const struct sw_control_cert_opts *o,
                                            struct sw_err *err)
{
    struct sw_control_cert *c = SW_NEW(struct sw_control_cert);

    c->o = *o;
    c->client = client;
    c->loop = sw_kube_client_loop(client);
    if (open_cred(c, err) != SW_OK) {
        sw_control_cert_free(c);
        return NULL;
    }
    return c;
}

void sw_control_cert_free(struct sw_control_cert *c)
{
    if (!c)
        return;
    sw_kube_call_cancel(c->call);
    sw_timer_stop(c->loop, &c->timer);
    sw_filewatch_free(c->watch);
    sw_ca_free(c->ca);
    (void)sw_tls_cred_unref(c->cred);
    sw_free(c);
}

struct sw_tls_cred *sw_control_cert_cred(const struct sw_control_cert *c)
{
    return c->cred;
}

bool sw_control_cert_ready(const struct sw_control_cert *c, struct sw_buf *ret_waits)
{
    if (!c->o.secret || c->ca)
        return true;
    if (ret_waits)
        (void)!sw_buf_printf(ret_waits, "the CA of the xDS server: %s",
                             c->why[0] ? c->why : "its Secret is being read");
    return false;
}
