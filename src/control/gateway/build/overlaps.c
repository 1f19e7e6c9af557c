/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners whose names overlap on one socket: a browser that has a connection by one name may use
 * it for another that the same certificate covers, and lands on the wrong listener. Nothing is
 * refused for it; the listeners say so.
 */
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509.h"

/* Certificates are read anew with every build: only where there are few. */
enum { CERTIFICATES_MAX = 64, NAMES_MAX = 1024 };

static void mark_hosts(struct builder *b, struct socket *s)
{
    SW_VEC_EACH (struct listener, l, &s->listeners) {
        struct sw_slice h = listener_host(l);

        while (host_widen(b->a, &h)) {
            struct listener *wider = sw_map_get(&s->hosts, h);

            if (!wider)
                continue;
            l->overlapping = true;
            wider->overlapping = true;
        }
    }
}

/* ---- certificates ---- */

struct names {
    struct builder *b;
    struct listener *of;   /* whose certificate is read */
    struct sw_map holders; /* name of a certificate -> the first listener that has it */
    struct {
        struct sw_slice name;
        struct listener *of;
    } list[NAMES_MAX];
    size_t n;
};

static void mark(struct listener *x, struct listener *y)
{
    if (x == y)
        return;
    x->overlapping_certs = true;
    y->overlapping_certs = true;
}

static bool on_name(const struct sw_x509_san *san, void *arg)
{
    struct names *n = arg;
    struct sw_slice name;
    struct listener *other;

    if (san->kind != SW_X509_SAN_DNS || !san->text.n)
        return false;
    if (n->n == NAMES_MAX)
        return true;
    name = lower_case(n->b, san->text);
    n->list[n->n].name = name;
    n->list[n->n++].of = n->of;
    other = sw_map_get(&n->holders, name);
    if (other)
        mark(other, n->of);
    else
        (void)sw_map_put(&n->holders, name, n->of);
    return false;
}

static void read_certs(struct names *n, struct listener *l)
{
    n->of = l;
    for (size_t i = 0; i < l->n_certs; i++) {
        const struct sw_model_secret *s = sw_map_get(&n->b->secrets, l->certs[i]);
        SW_ARENA_AUTO tmp = {0};

        if (s)
            (void)sw_x509_any_san(sw_pem_leaf_der(&tmp, s->chain_pem), on_name, n);
    }
}

/* "a.b" is covered by "*.b", one label deep. */
static void mark_covered(struct names *n)
{
    for (size_t i = 0; i < n->n; i++) {
        struct sw_slice name = n->list[i].name;
        ptrdiff_t dot = sw_slice_find(name, '.');
        struct listener *other;

        if (dot <= 0 || name.p[0] == '*')
            continue;
        other = sw_map_get(
            &n->holders, gw_printf(n->b, "*%.*s", SW_SLICE_ARG(sw_slice_from(name, (size_t)dot))));
        if (other)
            mark(other, n->list[i].of);
    }
}

static void mark_certs(struct builder *b, struct socket *s)
{
    struct names *n;
    size_t certs = 0;

    for (size_t i = 0; i < s->listeners.n; i++)
        certs += s->listeners.p[i]->n_certs;
    if (s->listeners.n < 2 || certs < 2 || certs > CERTIFICATES_MAX)
        return;
    n = SW_ARENA_NEW(b->a, struct names);
    n->b = b;
    for (size_t i = 0; i < s->listeners.n; i++)
        read_certs(n, s->listeners.p[i]);
    mark_covered(n);
    sw_map_done(&n->holders);
}

void mark_overlaps(struct builder *b, struct socket *s)
{
    if (s->proto != PROTO_HTTPS)
        return;
    mark_hosts(b, s);
    mark_certs(b, s);
}
