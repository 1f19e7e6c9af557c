/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/authority.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "base/vec.h"
#include "identity/ca_secret.h"
#include "identity/material.h"
#include "identity/rotation.h"
#include "io/filewatch.h"
#include "telemetry/metrics.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

enum { CHAIN_MAX = 64 };

static const uint64_t server_ttl_s = UINT64_C(30) * 86400;
static const uint64_t check_max_s = 3600; /* how often the time of a root is looked at */
static const uint64_t retry_s = 5;

/* One reading of the material. */
struct state {
    struct sw_arena arena;
    struct sw_ca_material material;
    struct sw_ca *ca;
    SW_VEC(struct sw_slice) chain; /* of the arena */
    struct sw_ca_roots roots;
    struct sw_slice bundle;
};

struct sw_authority {
    struct sw_authority_opts o;
    struct sw_loop *loop;
    char *dir;
    struct sw_slice trust_domain; /* owned */
    struct state *now;            /* NULL: the Secret has not been read */
    struct sw_filewatch *watch;
    struct sw_ca_secret *secret;
    struct sw_timer timer; /* until a step of a rotation may be due */
};

static void state_free(struct state *s)
{
    if (!s)
        return;
    sw_ca_free(s->ca);
    sw_slice_wipe(s->material.part[SW_CA_KEY]);
    sw_slice_wipe(s->material.part[SW_CA_NEXT_KEY]);
    sw_vec_done(&s->chain);
    sw_arena_clear(&s->arena);
    sw_free(s);
}

/* --- from material to a CA that signs --- */

/* What peers need between the leaf and a root they have. */
static int add_chain(struct state *s, struct sw_slice pem, struct sw_err *err)
{
    struct sw_slice cert;
    int rc;

    while ((rc = sw_pem_next_cert(&pem, &cert)) == SW_OK && s->chain.n < CHAIN_MAX) {
        bool known = sw_ca_roots_have(&s->roots, cert);

        for (size_t i = 0; i < s->chain.n && !known; i++)
            known = sw_slice_eq(s->chain.p[i], cert);
        if (!known)
            sw_vec_push(&s->chain, cert);
    }
    return rc == SW_ENOENT ? SW_OK
                           : sw_err_set(err, SW_EINVAL, "bad or too long certificate chain");
}

/* The rest of the state follows from its material. */
static int complete(struct state *s, struct sw_err *err)
{
    const struct sw_ca_material *m = &s->material;
    int rc;

    s->ca = sw_ca_from_pem(m->part[SW_CA_CERT], m->part[SW_CA_KEY], err);
    if (!s->ca)
        return err->rc;
    rc = sw_ca_material_roots(m, &s->roots, err);
    if (rc == SW_OK && !m->own)
        rc = add_chain(s, m->part[SW_CA_CERT], err);
    if (rc == SW_OK)
        rc = add_chain(s, m->part[SW_CA_CHAIN], err);
    s->bundle = sw_ca_roots_text(&s->arena, &s->roots);
    return rc;
}

static bool covers(const struct state *a, const struct state *b)
{
    for (size_t i = 0; i < b->roots.n; i++) {
        if (!sw_ca_roots_have(&a->roots, b->roots.cert[i]))
            return false;
    }
    return true;
}

static bool same(const struct sw_ca_material *a, const struct sw_ca_material *b)
{
    bool equal = a->own == b->own;

    for (size_t i = 0; i < SW_CA_PARTS; i++)
        equal &= sw_slice_eq(a->part[i], b->part[i]);
    return equal;
}

static void schedule(struct sw_authority *a, bool failed);

/* Takes a state over, or frees it. */
static int use(struct sw_authority *a, struct state *next, struct sw_err *err)
{
    struct state *old = a->now;
    int rc = complete(next, err);

    if (rc == SW_OK && old && !covers(next, old) && !covers(old, next))
        rc = sw_err_set(err, SW_EINVAL,
                        "the new root bundle neither contains the old one nor is part of it");
    if (rc != SW_OK) {
        state_free(next);
        return rc;
    }
    a->now = next;
    sw_metric_gauge(a->o.metrics, SW_METRIC_CA_ROOT_EXPIRES, NULL,
                    (int64_t)sw_ca_not_after(next->ca));
    if (!old || !same(&old->material, &next->material)) {
        sw_log_info("ca", "CA read from %s '%s': %zu roots, chain of %zu",
                    a->dir ? "directory" : "namespace", a->dir ? a->dir : a->o.secret_ns,
                    next->roots.n, next->chain.n);
        if (a->o.on_change)
            a->o.on_change(a->o.arg);
    }
    state_free(old);
    schedule(a, false);
    return SW_OK;
}

/* --- directories --- */

static int make_root(const struct sw_authority *a, struct sw_err *err)
{
    const struct sw_ca_material none = {0};
    struct sw_ca_material m;
    SW_ARENA_AUTO arena = {0};
    int rc = sw_ca_material_new(&arena, a->trust_domain, &m, err);

    if (rc == SW_OK)
        rc = sw_ca_material_write(a->dir, &none, &m, err);
    if (rc == SW_OK)
        sw_log_info("ca", "new root for trust domain '%.*s' in '%s'", SW_SLICE_ARG(a->trust_domain),
                    a->dir);
    return rc;
}

static int read_dir(struct sw_authority *a, struct sw_err *err)
{
    struct state *s = SW_NEW(struct state);
    int rc = sw_ca_material_read(&s->arena, a->dir, &s->material, err);

    if (rc == SW_ENOENT) {
        rc = make_root(a, err);
        if (rc == SW_OK)
            rc = sw_ca_material_read(&s->arena, a->dir, &s->material, err);
    }
    if (rc == SW_OK)
        rc = use(a, s, err);
    else
        state_free(s);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "CA in '%s'", a->dir);
}

static void on_files(void *arg)
{
    struct sw_authority *a = arg;
    struct sw_err err = {0};

    if (read_dir(a, &err) != SW_OK)
        sw_log_warn("ca", "reload failed, keeping the previous CA: %s", err.msg);
}

/* --- Secrets --- */

/* There is no CA, or our own was deleted: it is written (again). */
static void write_missing(struct sw_authority *a)
{
    struct sw_ca_material m;
    SW_ARENA_AUTO arena = {0};
    struct sw_err err = {0};

    if (a->now && !a->now->material.own) {
        sw_log_warn("ca", "Secret '%s/" SW_CA_SECRET_PLUGGED "' is gone, keeping the previous CA",
                    a->o.secret_ns);
        return;
    }
    if (a->now)
        sw_ca_secret_write(a->secret, &a->now->material);
    else if (sw_ca_material_new(&arena, a->trust_domain, &m, &err) == SW_OK)
        sw_ca_secret_write(a->secret, &m);
    else
        sw_log_warn("ca", "cannot make a root: %s", err.msg);
    schedule(a, true); /* until it can be read */
}

static void on_secret(void *arg, const struct sw_json *secret)
{
    struct sw_authority *a = arg;
    struct sw_err err = {0};
    struct state *s;
    int rc;

    if (!secret) {
        write_missing(a);
        return;
    }
    s = SW_NEW(struct state);
    rc = sw_ca_material_from_secret(&s->arena, secret, &s->material, &err);
    if (rc == SW_OK)
        rc = use(a, s, &err);
    else
        state_free(s);
    if (rc != SW_OK)
        sw_log_warn("ca", "no CA in Secret '%s/%.*s': %s; %s", a->o.secret_ns,
                    SW_SLICE_ARG(sw_json_str(sw_json_walk(secret, "metadata", "name", NULL))),
                    err.msg,
                    a->now ? "keeping the previous CA" : "node proxies get no certificates");
}

/* --- rotation --- */

static struct sw_rotation_opts rotation_of(const struct sw_authority *a)
{
    return (struct sw_rotation_opts){
        .trust_domain = a->trust_domain, .wait_s = a->o.wait_s, .linger_s = a->o.linger_s};
}

/* The next step, written where the material is; the watch there brings it back. */
static int rotate(struct sw_authority *a, struct sw_err *err)
{
    const struct sw_ca_material *m = &a->now->material;
    const struct sw_rotation_opts o = rotation_of(a);
    enum sw_rotation_step step = sw_rotation_next(m);
    struct sw_ca_material next;
    SW_ARENA_AUTO arena = {0};
    int rc = sw_rotation_do(&arena, m, &o, sw_wall_ns() / SW_NS_PER_S, &next, err);

    if (rc == SW_OK && a->dir)
        rc = sw_ca_material_write(a->dir, m, &next, err);
    if (rc != SW_OK)
        return rc;
    sw_log_info("ca", "rotation of the root for trust domain '%.*s': %s",
                SW_SLICE_ARG(a->trust_domain), sw_rotation_name(step));
    sw_metric_count(a->o.metrics, SW_METRIC_CA_ROTATIONS, sw_rotation_name(step));
    if (a->secret)
        sw_ca_secret_write(a->secret, &next);
    return a->dir ? read_dir(a, err) : SW_OK;
}

static void on_timer(struct sw_timer *t)
{
    struct sw_authority *a = SW_CONTAINER_OF(t, struct sw_authority, timer);
    const struct sw_rotation_opts o = rotation_of(a);
    struct sw_err err = {0};
    uint64_t due = UINT64_MAX;
    int rc = SW_OK;

    if (!a->now) {
        write_missing(a);
        return;
    }
    rc = sw_rotation_due(&a->now->material, &o, &due, &err);
    if (rc == SW_OK && due > sw_wall_ns() / SW_NS_PER_S && !a->now->material.hurry) {
        schedule(a, false);
        return;
    }
    if (rc == SW_OK)
        rc = rotate(a, &err);
    if (rc != SW_OK)
        sw_log_warn("ca", "cannot rotate the root: %s; retrying", err.msg);
    /* A Secret comes back when it is written; until then it is tried again. */
    if (rc != SW_OK || a->secret)
        schedule(a, true);
}

static void schedule(struct sw_authority *a, bool failed)
{
    const struct sw_rotation_opts o = rotation_of(a);
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    uint64_t wait = retry_s;
    uint64_t due = UINT64_MAX;

    if (!failed && sw_rotation_due(&a->now->material, &o, &due, NULL) == SW_OK)
        wait = a->now->material.hurry || due <= now ? 0 : sw_min(due - now, check_max_s);
    sw_timer_start(a->loop, &a->timer, wait * SW_NS_PER_S, on_timer);
}

/* --- life --- */

static int start(struct sw_authority *a, struct sw_err *err)
{
    char *watched SW_AUTO_FREE = a->dir ? sw_asprintf("%s/", a->dir) : NULL;
    int rc = a->dir ? read_dir(a, err) : SW_OK;

    if (rc != SW_OK)
        return rc;
    if (a->dir) {
        a->watch = sw_filewatch_new(a->loop, watched, on_files, a, err);
        return a->watch ? SW_OK : err->rc;
    }
    a->secret = sw_ca_secret_new(&(struct sw_ca_secret_opts){
        .client = a->o.client, .ns = a->o.secret_ns, .on_secret = on_secret, .arg = a});
    return SW_OK;
}

struct sw_authority *sw_authority_new(struct sw_loop *l, const struct sw_authority_opts *o,
                                      struct sw_err *err)
{
    struct sw_authority *a = SW_NEW(struct sw_authority);

    a->o = *o;
    a->loop = l;
    a->dir = o->dir ? sw_strdup(o->dir) : NULL;
    a->trust_domain = sw_slice_copy(o->trust_domain);
    a->o.on_change = NULL; /* whoever makes it has not got it yet */
    if (start(a, err) != SW_OK) {
        sw_authority_free(a);
        return NULL;
    }
    a->o.on_change = o->on_change;
    return a;
}

void sw_authority_free(struct sw_authority *a)
{
    if (!a)
        return;
    sw_timer_stop(a->loop, &a->timer);
    sw_filewatch_free(a->watch);
    sw_ca_secret_free(a->secret);
    state_free(a->now);
    sw_slice_free(&a->trust_domain);
    sw_free(a->dir);
    sw_free(a);
}

/* --- use --- */

bool sw_authority_ready(const struct sw_authority *a)
{
    return a->now != NULL;
}

struct sw_slice sw_authority_trust_domain(const struct sw_authority *a)
{
    return a->trust_domain;
}

size_t sw_authority_chain(const struct sw_authority *a, const struct sw_slice **ret)
{
    *ret = a->now->chain.p;
    return a->now->chain.n;
}

struct sw_slice sw_authority_roots(const struct sw_authority *a)
{
    return a->now->bundle;
}

struct sw_slice sw_authority_crl(const struct sw_authority *a)
{
    return a->now->material.part[SW_CA_CRL];
}

int sw_authority_sign(const struct sw_authority *a, const struct sw_ca_leaf *leaf,
                      struct sw_slice csr, struct sw_buf *ret_cert, struct sw_ca_signed *ret,
                      struct sw_err *err)
{
    return sw_ca_sign(a->now->ca, leaf, csr, ret_cert, ret, err);
}

struct sw_tls_cred *sw_authority_cred(const struct sw_authority *a, const char *const *names,
                                      struct sw_err *err)
{
    SW_BUF_AUTO chain = {.max = SW_CA_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_CA_PEM_MAX};
    struct sw_tls_cred *cred = NULL;
    int rc = sw_ca_issue_web(
        a->now->ca,
        &(struct sw_ca_web){.cn = names[0], .sans = names, .server = true, .ttl_s = server_ttl_s},
        &chain, &key, err);

    for (size_t i = 0; i < a->now->chain.n && rc == SW_OK; i++)
        rc = sw_buf_printf(&chain, "%.*s\n", SW_SLICE_ARG(a->now->chain.p[i]));
    if (rc == SW_OK)
        cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                         .key = sw_buf_slice(&key),
                                                         .roots = a->now->bundle,
                                                         .any_identity = true},
                               err);
    return cred;
}
