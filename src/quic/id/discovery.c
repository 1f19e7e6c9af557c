/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/id/discovery.h"

#include <string.h>

#include "base/mem.h"
#include "quic/id/addrs.h"

enum { RELAY_MAX = 512 };

static int name_below(const struct sw_nodeid *id, const struct sw_dns_name *origin,
                      struct sw_dns_name *ret, struct sw_err *err)
{
    char head[8 + SW_NODEID_B32] = "_iroh.";

    (void)sw_nodeid_z32(id, head + 6);
    return sw_dns_name_join(sw_slice_str(head), origin, ret, err);
}

int sw_discovery_name(const struct sw_nodeid *id, struct sw_slice origin, struct sw_dns_name *ret,
                      struct sw_err *err)
{
    struct sw_dns_name tail;
    int rc = sw_dns_name_parse(origin, &tail, err);

    return rc == SW_OK ? name_below(id, &tail, ret, err) : rc;
}

/* ---- records ---- */

/* What a relay can be: a web address, no spaces or controls in it. */
static bool is_url(struct sw_slice v)
{
    static const char *const schemes[] = {"https://", "http://", "wss://", "ws://"};

    if (v.n > RELAY_MAX)
        return false;
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] <= ' ' || v.p[i] == 127 || v.p[i] == '"' || v.p[i] == '\\')
            return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(schemes); i++) {
        struct sw_slice host = sw_slice_from(v, strlen(schemes[i]));

        if (sw_slice_has_prefix(v, sw_slice_str(schemes[i])))
            return host.n && host.p[0] != '/' && host.p[0] != ':' && host.p[0] != '?';
    }
    return false;
}

static void take_addr(struct sw_slice value, struct sw_addr *addrs, size_t *n)
{
    struct sw_addr a;

    if (*n < SW_QUIC_ADDRS_MAX && sw_addr_parse(value, &a, NULL) == SW_OK && a.port &&
        !sw_ip_is_any(&a.ip) && !sw_addr_among(addrs, *n, &a))
        addrs[(*n)++] = a;
}

int sw_discovery_parse(struct sw_arena *a, const struct sw_nodeid *id, const struct sw_slice *txt,
                       size_t n, struct sw_quic_target *ret, struct sw_err *err)
{
    struct sw_addr *addrs = sw_arena_array(a, SW_QUIC_ADDRS_MAX, sizeof(*addrs));
    struct sw_quic_target t = {.id = *id, .addrs = addrs};

    for (size_t i = 0; i < n; i++) {
        struct sw_slice rest = txt[i];
        struct sw_slice key = sw_slice_cut(&rest, '=');
        struct sw_slice value;

        if (!rest.p)
            return sw_err_set(err, SW_EPROTO, "a TXT record without '='");
        value = sw_slice_cut(&rest, '=');
        if (sw_slice_eq_str(key, "addr")) {
            take_addr(value, addrs, &t.n_addrs);
        } else if (sw_slice_eq_str(key, "relay")) {
            if (!t.relay.n && is_url(value))
                t.relay = sw_arena_slice(a, value);
        } else if (!sw_slice_eq_str(key, "user-data")) {
            return sw_err_set(err, SW_EPROTO, "a TXT record with an unknown key");
        }
    }
    if (!t.relay.n && !t.n_addrs)
        return sw_err_set(err, SW_EPROTO, "no TXT record with a relay or an address");
    *ret = t;
    return SW_OK;
}

size_t sw_discovery_write(struct sw_arena *a, const struct sw_quic_target *t,
                          struct sw_slice **ret_txt)
{
    struct sw_slice *txt = sw_arena_array(a, 1 + t->n_addrs, sizeof(*txt));
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
    size_t n_addrs = sw_addr_sort(t->addrs, t->n_addrs, addrs);
    char text[SW_ADDR_TEXT];
    size_t n = 0;

    if (is_url(t->relay) && sw_slice_find(t->relay, '=') < 0)
        txt[n++] = sw_slice_str(sw_arena_printf(a, "relay=%.*s", SW_SLICE_ARG(t->relay)));
    for (size_t i = 0; i < n_addrs; i++)
        if (addrs[i].port && !sw_ip_is_any(&addrs[i].ip))
            txt[n++] = sw_slice_str(sw_arena_printf(a, "addr=%s", sw_addr_text(&addrs[i], text)));
    *ret_txt = txt;
    return n;
}

/* ---- asking ---- */

struct sw_discovery {
    struct sw_nodeid id;
    struct sw_dns_name name;
    struct sw_dns_lookup *lookup;
    sw_discovery_cb cb;
    void *arg;
};

static void on_txt(void *arg, const struct sw_dns_result *r)
{
    struct sw_discovery *d = arg;
    struct sw_discovery_result out = {.rc = r->rc, .err = r->err};
    SW_ARENA_AUTO arena = {0};
    struct sw_quic_target t;

    if (r->rc == SW_OK) {
        out.rc = sw_discovery_parse(&arena, &d->id, r->txt, r->n_txt, &t, &out.err);
        out.target = out.rc == SW_OK ? &t : NULL;
    }
    d->cb(d->arg, &out);
    sw_free(d);
}

struct sw_discovery *sw_discovery_start(struct sw_dns_stub *s, const struct sw_nodeid *id,
                                        const struct sw_dns_name *origin, sw_discovery_cb cb,
                                        void *arg)
{
    struct sw_discovery *d = SW_NEW(struct sw_discovery);

    d->id = *id;
    d->cb = cb;
    d->arg = arg;
    /* An origin too long to prefix with a node's label: query the origin, which finds nothing. */
    if (name_below(id, origin, &d->name, NULL) != SW_OK)
        d->name = *origin;
    d->lookup = sw_dns_stub_txt(s, &d->name, on_txt, d);
    return d;
}

void sw_discovery_cancel(struct sw_discovery *d)
{
    if (!d)
        return;
    sw_dns_lookup_cancel(d->lookup);
    sw_free(d);
}
