/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a listener, and the choice of a filter chain. */
#include "gateway/config/listener.h"

#include <string.h>

#include "base/mem.h"
#include "gateway/config/routes.h"
#include "regex/regex.h"

struct sw_gw_listener *sw_gw_listener_ref(struct sw_gw_listener *l)
{
    sw_gw_take_ref(&l->refs);
    return l;
}

static void chain_done(struct sw_gw_chain *c)
{
    (void)sw_gw_tls_unref(c->tls);
    (void)sw_gw_routes_unref(c->hcm.inline_routes);
}

struct sw_gw_listener *sw_gw_listener_unref(struct sw_gw_listener *l)
{
    if (!l || !sw_gw_drop_ref(&l->refs))
        return NULL;
    for (size_t i = 0; i < l->n_chains; i++)
        chain_done(&l->chains[i]);
    if (l->default_chain)
        chain_done(l->default_chain);
    for (size_t i = 0; i < l->n_regexes; i++)
        sw_regex_free(l->regexes[i]);
    sw_free(l->regexes);
    for (size_t i = 0; i < l->n_owned_logs; i++)
        (void)l->unref_log(l->owned_logs[i]);
    sw_free(l->owned_logs);
    sw_arena_clear(&l->arena);
    sw_free(l);
    return NULL;
}

/* ---- filter chains ---- */

enum { NO = -1, SNI_MAX = 256 };

/* How well one criterion fits: NO, 0 when the chain does not have it, more for more specific. */
static int fit_cidr(const struct sw_cidr *p, size_t n, const struct sw_ip *ip)
{
    int best = n ? NO : 0;

    for (size_t i = 0; i < n; i++) {
        if (sw_cidr_contains(&p[i], ip) && p[i].len + 1 > best)
            best = p[i].len + 1;
    }
    return best;
}

static int fit_name(const struct sw_gw_chain_match *m, struct sw_slice sni)
{
    int best = m->n_names ? NO : 0;

    for (size_t i = 0; i < m->n_names; i++) {
        struct sw_slice n = m->names[i];

        if (sw_slice_eq(n, sni) && n.n)
            return SNI_MAX * 2;
        if (n.n > 1 && n.p[0] == '.' && sni.n > n.n && sw_slice_has_suffix(sni, n) &&
            (int)n.n > best)
            best = (int)n.n;
    }
    return best;
}

static int fit_alpn(const struct sw_gw_chain_match *m, const struct sw_gw_chain_key *k)
{
    if (m->n_alpn == 0)
        return 0;
    for (size_t i = 0; i < m->n_alpn; i++) {
        for (size_t j = 0; j < k->n_alpn; j++) {
            if (sw_slice_eq(m->alpn[i], k->alpn[j]))
                return 1;
        }
    }
    return NO;
}

static int fit_source(const struct sw_gw_chain_match *m, const struct sw_gw_chain_key *k)
{
    bool local = sw_ip_is_loopback(&k->src.ip) || sw_ip_eq(&k->src.ip, &k->dst.ip);

    if (m->source_type == 0)
        return 0;
    return (m->source_type == 1) == local ? 1 : NO;
}

static int fit_port(const struct sw_gw_chain_match *m, uint16_t port)
{
    if (m->n_src_ports == 0)
        return 0;
    for (size_t i = 0; i < m->n_src_ports; i++) {
        if (m->src_ports[i] == port)
            return 1;
    }
    return NO;
}

enum { CRITERIA = 8 };

static bool fit(const struct sw_gw_chain_match *m, const struct sw_gw_chain_key *k,
                struct sw_slice sni, int ret[CRITERIA])
{
    struct sw_slice transport = k->tls ? SW_SLICE_LIT("tls") : SW_SLICE_LIT("raw_buffer");

    ret[0] = m->port == 0 ? 0 : m->port == k->dst.port ? 1 : NO;
    ret[1] = fit_cidr(m->dst, m->n_dst, &k->dst.ip);
    ret[2] = fit_name(m, sni);
    ret[3] = m->transport.n == 0 ? 0 : sw_slice_eq(m->transport, transport) ? 1 : NO;
    ret[4] = fit_alpn(m, k);
    ret[5] = fit_source(m, k);
    ret[6] = fit_cidr(m->src, m->n_src, &k->src.ip);
    ret[7] = fit_port(m, k->src.port);
    for (int i = 0; i < CRITERIA; i++) {
        if (ret[i] == NO)
            return false;
    }
    return true;
}

static struct sw_slice lower_name(struct sw_slice in, char out[SNI_MAX])
{
    size_t n = sw_min(in.n, SNI_MAX - 1);

    if (n && in.p[n - 1] == '.')
        n--;
    for (size_t i = 0; i < n; i++)
        out[i] = in.p[i] >= 'A' && in.p[i] <= 'Z' ? (char)(in.p[i] - 'A' + 'a') : in.p[i];
    return sw_slice(out, n);
}

/* The first criterion that tells them apart decides. */
static bool better(const int a[CRITERIA], const int b[CRITERIA])
{
    for (int i = 0; i < CRITERIA; i++) {
        if (a[i] != b[i])
            return a[i] > b[i];
    }
    return false;
}

const struct sw_gw_chain *sw_gw_chain_find(const struct sw_gw_listener *l,
                                           const struct sw_gw_chain_key *key)
{
    char lower[SNI_MAX];
    struct sw_slice sni = lower_name(key->sni, lower);
    const struct sw_gw_chain *best = NULL;
    int best_fit[CRITERIA];

    for (size_t i = 0; i < l->n_chains; i++) {
        int now[CRITERIA];

        if (!fit(&l->chains[i].match, key, sni, now) || (best && !better(now, best_fit)))
            continue;
        best = &l->chains[i];
        memcpy(best_fit, now, sizeof(now));
    }
    return best ? best : l->default_chain;
}
