/* SPDX-License-Identifier: Apache-2.0 */
#include "node/certs.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "base/vec.h"
#include "io/filewatch.h"
#include "tls/cert/ca.h"

enum {
    BACKOFF_FIRST_S = 1,
    BACKOFF_MOST_S = 150,
    CRL_MAX = 4 << 20,
};

struct cert {
    struct sw_certs *certs;
    char *identity; /* owned */
    struct sw_tls_cred *cred;
    struct sw_timer timer;
    struct sw_metric *expiry;
    uint64_t backoff_s;
    bool wanted;
    char error[200];
};

struct sw_certs {
    struct sw_loop *loop;
    struct sw_certs_opts opts;
    struct sw_slice crl; /* owned text */
    struct sw_filewatch *crl_watch;
    SW_VEC(struct cert *) list; /* sorted by identity */
};

static void issue(struct cert *c);

static void on_due(struct sw_timer *t)
{
    issue(SW_CONTAINER_OF(t, struct cert, timer));
}

/* Half of the lifetime, but never in a tight loop. */
static uint64_t refresh_delay(const struct sw_tls_cred *cred)
{
    uint64_t begin = sw_tls_cred_not_before(cred);
    uint64_t end = sw_tls_cred_not_after(cred);
    uint64_t now_ns = sw_wall_ns();
    uint64_t at_ns = begin * SW_NS_PER_S + (end - begin) * SW_NS_PER_S / 2;

    /* A back-dated begin can put the middle of a short life into the past. */
    if (at_ns <= now_ns)
        at_ns = now_ns + (end * SW_NS_PER_S > now_ns ? (end * SW_NS_PER_S - now_ns) / 2 : 0);
    return sw_max(at_ns - now_ns, SW_NS_PER_S / 2);
}

static void retry_later(struct cert *c, const struct sw_err *err)
{
    uint64_t ns;

    c->backoff_s = c->backoff_s ? sw_min(c->backoff_s * 2, BACKOFF_MOST_S) : BACKOFF_FIRST_S;
    ns = c->backoff_s * SW_NS_PER_S;
    ns = ns - ns / 5 + sw_rand_below(ns * 2 / 5);
    (void)snprintf(c->error, sizeof(c->error), "%s", err->msg);
    sw_log_error("certs", "cannot issue a certificate for %s: %s; retrying in %llu s", c->identity,
                 err->msg, (unsigned long long)(ns / SW_NS_PER_S));
    sw_timer_start(c->certs->loop, &c->timer, ns, on_due);
    if (c->cred && sw_tls_cred_not_after(c->cred) * SW_NS_PER_S < sw_wall_ns())
        c->cred = sw_tls_cred_unref(c->cred);
}

static void install(struct cert *c, struct sw_tls_cred *cred)
{
    (void)sw_tls_cred_unref(c->cred);
    c->cred = cred;
    c->backoff_s = 0;
    c->error[0] = '\0';
    sw_metric_set(c->expiry, (int64_t)sw_tls_cred_not_after(cred));
    c->certs->opts.cb(c->certs->opts.arg, sw_slice_str(c->identity), cred);
}

/* The CA is read again each time: it may have been replaced. */
static void issue(struct cert *c)
{
    struct sw_certs *all = c->certs;
    struct sw_ca_leaf leaf = {.id = sw_slice_str(c->identity),
                              .ttl_s = sw_max(all->opts.ttl_ns / SW_NS_PER_S, 1),
                              .foreign_trust_domain = true};
    struct sw_err err = {0};
    struct sw_tls_cred *cred = NULL;
    struct sw_ca *ca = sw_ca_load(all->opts.dir, &err);

    if (ca)
        cred = sw_ca_issue_cred(ca, &leaf, all->crl, &err);
    sw_ca_free(ca);
    if (!cred) {
        retry_later(c, &err);
        return;
    }
    sw_log_debug("certs", "certificate issued for %s", c->identity);
    install(c, cred);
    sw_timer_start(all->loop, &c->timer, refresh_delay(cred), on_due);
}

static void cert_free(struct cert *c)
{
    sw_timer_stop(c->certs->loop, &c->timer);
    (void)sw_tls_cred_unref(c->cred);
    sw_metric_drop(c->certs->opts.shard, c->expiry);
    sw_free(c->identity);
    sw_free(c);
}

static struct cert *find(const struct sw_certs *c, struct sw_slice identity)
{
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        if (sw_slice_eq_str(identity, (*it)->identity))
            return *it;
    }
    return NULL;
}

static struct cert *cert_new(struct sw_certs *all, struct sw_slice identity)
{
    struct cert *c = SW_NEW(struct cert);
    size_t at;

    c->certs = all;
    c->identity = sw_slice_dup(identity);
    c->expiry = sw_metric_get1(all->opts.shard, SW_METRIC_CERT_EXPIRY, c->identity);
    sw_vec_push(&all->list, c);
    for (at = all->list.n - 1; at > 0 && strcmp(all->list.p[at - 1]->identity, c->identity) > 0;
         at--)
        all->list.p[at] = all->list.p[at - 1];
    all->list.p[at] = c;
    return c;
}

void sw_certs_want(struct sw_certs *c, const struct sw_slice *identities, size_t n)
{
    size_t kept = 0;

    if (!c->opts.dir)
        return;
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        (*it)->wanted = false;
    }
    for (size_t i = 0; i < n; i++) {
        struct cert *known = find(c, identities[i]);

        if (!known) {
            known = cert_new(c, identities[i]);
            issue(known);
        }
        known->wanted = true;
    }
    for (size_t i = 0; i < c->list.n; i++) {
        if (c->list.p[i]->wanted)
            c->list.p[kept++] = c->list.p[i];
        else
            cert_free(c->list.p[i]);
    }
    c->list.n = kept;
}

struct sw_tls_cred *sw_certs_get(const struct sw_certs *c, struct sw_slice identity)
{
    const struct cert *found = find(c, identity);

    return found ? found->cred : NULL;
}

size_t sw_certs_count(const struct sw_certs *c)
{
    return c->list.n;
}

struct sw_certs_entry sw_certs_at(const struct sw_certs *c, size_t i)
{
    const struct cert *x = c->list.p[i];

    return (struct sw_certs_entry){
        .identity = sw_slice_str(x->identity),
        .cred = x->cred,
        .error = x->error[0] ? x->error : NULL,
    };
}

/* ---- revocations ---- */

/* A missing file means no revocations. */
static int read_crl(const struct sw_certs *c, struct sw_slice *ret, struct sw_err *err)
{
    int rc = sw_file_read(c->opts.crl, CRL_MAX, ret, err);

    if (rc == SW_ENOENT) {
        *ret = sw_slice(sw_strdup(""), 0);
        rc = SW_OK;
    }
    return rc;
}

static void on_crl(void *arg)
{
    struct sw_certs *c = arg;
    struct sw_slice text = {0};
    struct sw_err err = {0};

    if (read_crl(c, &text, &err) != SW_OK) {
        sw_log_error("certs", "cannot load the revocation list, keeping the previous one: %s",
                     err.msg);
        return;
    }
    if (sw_slice_eq(text, c->crl)) {
        sw_slice_free(&text);
        return;
    }
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        struct sw_tls_cred *cred;

        if (!(*it)->cred)
            continue;
        cred = sw_tls_cred_with_crl((*it)->cred, text, &err);
        if (!cred) {
            sw_log_error("certs", "cannot load the revocation list, keeping the previous one: %s",
                         err.msg);
            sw_slice_free(&text);
            return;
        }
        install(*it, cred);
    }
    sw_slice_free(&c->crl);
    c->crl = text;
    sw_log_info("certs", "revocation list loaded from '%s'", c->opts.crl);
}

/* A CRL that does not parse must stop the start: going on without it would fail open. */
static int check_crl(struct sw_certs *c, const struct sw_ca *ca, struct sw_err *err)
{
    struct sw_tls_cred_pem pem = {.roots = sw_ca_root_pem(ca), .crl = c->crl};
    struct sw_tls_cred *probe = sw_tls_cred_new(&pem, err);

    if (!probe)
        return sw_err_prefix(err, "'%s'", c->opts.crl);
    (void)sw_tls_cred_unref(probe);
    return SW_OK;
}

static int load(struct sw_certs *c, struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_load(c->opts.dir, err);
    int rc = SW_OK;

    if (!ca)
        return err->rc;
    if (c->opts.crl) {
        rc = read_crl(c, &c->crl, err);
        if (rc == SW_OK)
            rc = check_crl(c, ca, err);
        if (rc == SW_OK) {
            c->crl_watch = sw_filewatch_new(c->loop, c->opts.crl, on_crl, c, err);
            if (!c->crl_watch)
                rc = err->rc;
        }
    }
    sw_ca_free(ca);
    return rc;
}

struct sw_certs *sw_certs_new(struct sw_loop *l, const struct sw_certs_opts *o, struct sw_err *err)
{
    struct sw_certs *c = SW_NEW(struct sw_certs);

    c->loop = l;
    c->opts = *o;
    if (o->dir && load(c, err) != SW_OK) {
        sw_certs_free(c);
        return NULL;
    }
    return c;
}

void sw_certs_free(struct sw_certs *c)
{
    if (!c)
        return;
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        cert_free(*it);
    }
    sw_vec_done(&c->list);
    sw_filewatch_free(c->crl_watch);
    sw_slice_free(&c->crl);
    sw_free(c);
}
