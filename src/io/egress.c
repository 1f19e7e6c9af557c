/* SPDX-License-Identifier: Apache-2.0 */
#include "io/egress.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/localroutes.h"
#include "io/netchange.h"

enum {
    OWN_MAX = 4096,
    EMBEDDED_MAX = 4,
    LINES_PER_PERIOD = 10,
};

#define POLL_NS   (2 * SW_NS_PER_S) /* between looks at the addresses, without netlink */
#define PERIOD_NS (10 * SW_NS_PER_S)

struct rule {
    struct sw_cidr net;
    uint16_t first; /* ports */
    uint16_t last;
};

struct rules {
    struct rule *p; /* owned */
    size_t n;
    bool own; /* the word "own" is in the list */
};

struct sw_egress {
    struct sw_loop *loop;
    struct sw_netchange *net; /* NULL: the kernel does not report it */
    struct sw_timer poll;
    struct rules allow;
    struct rules deny;
    bool only_listed;
    pthread_mutex_t lock;
    struct sw_cidr *own; /* owned; under the lock, like the next three */
    size_t n_own;
    uint64_t period_ns;
    unsigned lines;
    _Atomic uint64_t denied[SW_EGRESS_CLASSES];
};

const char *sw_egress_class_text(enum sw_egress_class c)
{
    static const char *const texts[SW_EGRESS_CLASSES] = {
        [SW_EGRESS_OK] = "ok",
        [SW_EGRESS_LISTED] = "listed",
        [SW_EGRESS_LOOPBACK] = "loopback",
        [SW_EGRESS_LINK_LOCAL] = "link-local",
        [SW_EGRESS_UNSPECIFIED] = "unspecified",
        [SW_EGRESS_MULTICAST] = "multicast",
        [SW_EGRESS_METADATA] = "metadata",
        [SW_EGRESS_OWN] = "own",
    };

    return c < SW_EGRESS_CLASSES ? texts[c] : "unknown";
}

/* ---- what an address is ---- */

static enum sw_egress_class classify4(const uint8_t b[4])
{
    /* Metadata services outside 169.254/16: Alibaba Cloud, Azure, Oracle Cloud. */
    static const uint8_t metadata[][4] = {
        {100, 100, 100, 200}, {168, 63, 129, 16}, {192, 0, 0, 192}};

    if (b[0] == 0)
        return SW_EGRESS_UNSPECIFIED;
    if (b[0] == 127)
        return SW_EGRESS_LOOPBACK;
    if (b[0] == 169 && b[1] == 254)
        return SW_EGRESS_LINK_LOCAL;
    if ((b[0] & 0xf0) == 224 || memcmp(b, "\xff\xff\xff\xff", 4) == 0)
        return SW_EGRESS_MULTICAST;
    for (size_t i = 0; i < SW_ARRAY_LEN(metadata); i++) {
        if (memcmp(b, metadata[i], 4) == 0)
            return SW_EGRESS_METADATA;
    }
    return SW_EGRESS_OK;
}

static enum sw_egress_class classify6(const struct sw_ip *ip)
{
    static const uint8_t ec2[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};

    if (sw_ip_is_any(ip))
        return SW_EGRESS_UNSPECIFIED;
    if (sw_ip_is_loopback(ip))
        return SW_EGRESS_LOOPBACK;
    if (ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80)
        return SW_EGRESS_LINK_LOCAL;
    if (ip->b[0] == 0xff)
        return SW_EGRESS_MULTICAST;
    return memcmp(ip->b, ec2, sizeof(ec2)) == 0 ? SW_EGRESS_METADATA : SW_EGRESS_OK;
}

static enum sw_egress_class classify_one(const struct sw_ip *ip)
{
    if (ip->family == 4)
        return classify4(ip->b);
    return ip->family == 6 ? classify6(ip) : SW_EGRESS_UNSPECIFIED;
}

static void add_ip4(struct sw_ip out[EMBEDDED_MAX], size_t *n, const uint8_t b[4])
{
    out[(*n)++] = (struct sw_ip){.family = 4, .b = {b[0], b[1], b[2], b[3]}};
}

static bool zeros(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

/* IPv4 addresses that something on the way may take an IPv6 address for. */
static size_t embedded(const struct sw_ip *ip, struct sw_ip out[EMBEDDED_MAX])
{
    static const uint8_t nat64[4] = {0x00, 0x64, 0xff, 0x9b};
    const uint8_t *b = ip->b;
    size_t n = 0;

    if (ip->family != 6)
        return 0;
    /* ::a.b.c.d (compatible), ::ffff:a.b.c.d (mapped), ::ffff:0:a.b.c.d (translated) */
    if (zeros(b, 8) && (zeros(b + 8, 4) || memcmp(b + 8, "\0\0\xff\xff", 4) == 0 ||
                        memcmp(b + 8, "\xff\xff\0\0", 4) == 0))
        add_ip4(out, &n, b + 12);
    if (memcmp(b, nat64, 4) == 0) {
        const uint8_t in48[4] = {b[6], b[7], b[9], b[10]};

        /* RFC 6052, and RFC 8215's prefix, where the address stands in one of two places. */
        if (b[5] != 1 || !zeros(b + 12, 4))
            add_ip4(out, &n, b + 12);
        if (b[4] == 0 && b[5] == 1 && !zeros(in48, 4))
            add_ip4(out, &n, in48);
    }
    if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 */
        add_ip4(out, &n, b + 2);
    if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0) /* Teredo: the client, inverted */
        add_ip4(
            out, &n,
            (const uint8_t[]){(uint8_t)~b[12], (uint8_t)~b[13], (uint8_t)~b[14], (uint8_t)~b[15]});
    if ((b[8] & 0xfd) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe) /* ISATAP */
        add_ip4(out, &n, b + 12);
    return n;
}

enum sw_egress_class sw_egress_classify(const struct sw_ip *ip)
{
    struct sw_ip inside[EMBEDDED_MAX];
    size_t n = embedded(ip, inside);
    enum sw_egress_class c = classify_one(ip);

    for (size_t i = 0; i < n && c == SW_EGRESS_OK; i++)
        c = classify_one(&inside[i]);
    return c;
}

/* ---- rules ---- */

static bool port_range(struct sw_slice in, struct rule *r)
{
    struct sw_slice first = sw_slice_cut(&in, '-');
    uint64_t a;
    uint64_t b;

    if (!sw_slice_to_u64(first, UINT16_MAX, &a))
        return false;
    b = a;
    if (in.p && !sw_slice_to_u64(in, UINT16_MAX, &b))
        return false;
    r->first = (uint16_t)a;
    r->last = (uint16_t)b;
    return a && a <= b;
}

static int read_rule(const char *text, struct rule *ret, struct sw_err *err)
{
    struct sw_slice in = sw_slice_str(text);
    struct sw_slice net = in;
    struct sw_slice ports = {0};
    ptrdiff_t end = in.n && in.p[0] == '[' ? sw_slice_find(in, ']') : -1;
    ptrdiff_t colon = sw_slice_rfind(in, ':');

    *ret = (struct rule){.first = 0, .last = UINT16_MAX};
    if (end > 0) {
        net = sw_slice(in.p + 1, (size_t)end - 1);
        if ((size_t)end + 1 < in.n && in.p[end + 1] == ':')
            ports = sw_slice_from(in, (size_t)end + 2);
        else if ((size_t)end + 1 != in.n)
            return sw_err_set(err, SW_EINVAL, "'%.64s': text behind ']'", text);
    } else if (colon >= 0 && sw_slice_find(in, ':') == colon) {
        net = sw_slice_head(in, (size_t)colon);
        ports = sw_slice_from(in, (size_t)colon + 1);
    }
    if (ports.p && !port_range(ports, ret))
        return sw_err_set(err, SW_EINVAL, "'%.64s' has a bad port or range of ports", text);
    return sw_cidr_parse(net, &ret->net, err);
}

static int read_rules(const char *const *texts, size_t n, struct rules *ret, struct sw_err *err)
{
    if (n > SW_EGRESS_RULES_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d rules", SW_EGRESS_RULES_MAX);
    ret->p = SW_NEW_ARRAY(struct rule, n + 1);
    for (size_t i = 0; i < n; i++) {
        int rc;

        if (strcmp(texts[i], "own") == 0) {
            ret->own = true;
            continue;
        }
        rc = read_rule(texts[i], &ret->p[ret->n++], err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static bool listed(const struct rules *r, const struct sw_ip *ip, uint16_t port)
{
    for (size_t i = 0; i < r->n; i++) {
        if (port >= r->p[i].first && port <= r->p[i].last && sw_cidr_contains(&r->p[i].net, ip))
            return true;
    }
    return false;
}

/* ---- the addresses of this machine ---- */

static bool covered(const struct sw_localroutes *all, const struct sw_ip *ip)
{
    for (size_t i = 0; i < all->n; i++) {
        if (sw_cidr_contains(&all->p[i], ip))
            return true;
    }
    return false;
}

/* Addresses of interfaces that no local route covers: those of interfaces that are down. */
static bool add_addresses(struct sw_localroutes *to)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return false;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sw_ip ip = sw_addr_from_ifaddr(i->ifa_addr).ip;

        if (!ip.family || covered(to, &ip))
            continue;
        to->full |= to->n == to->max;
        if (to->n < to->max)
            to->p[to->n++] = (struct sw_cidr){ip, (uint8_t)(8 * sw_ip_len(&ip))};
    }
    freeifaddrs(all);
    return true;
}

/* What cannot be read stays as it was known before. */
static void refresh(struct sw_egress *e)
{
    struct sw_localroutes now = {.p = SW_NEW_ARRAY(struct sw_cidr, OWN_MAX), .max = OWN_MAX};
    bool routes = sw_localroutes_get(&now);

    if (!routes) {
        now.n = 0;
        sw_log_warn("egress", "cannot read the table of local routes: destinations that only local "
                              "routes make this machine's own are filtered as last known");
    }
    if (add_addresses(&now) && (routes || !e->n_own)) {
        struct sw_cidr *old;

        now.p = sw_realloc(now.p, now.n * sizeof(*now.p)); /* nearly always a handful */
        (void)pthread_mutex_lock(&e->lock);
        old = e->own;
        e->own = now.p;
        e->n_own = now.n;
        (void)pthread_mutex_unlock(&e->lock);
        now.p = old;
    }
    if (now.full)
        sw_log_warn("egress",
                    "more than %d local routes and addresses on this machine: "
                    "the rest is not filtered",
                    OWN_MAX);
    sw_free(now.p);
}

static void on_change(void *arg, bool route)
{
    refresh(arg);
}

static void on_poll(struct sw_timer *t)
{
    struct sw_egress *e = SW_CONTAINER_OF(t, struct sw_egress, poll);

    refresh(e);
    sw_timer_start(e->loop, &e->poll, POLL_NS, on_poll);
}

static bool is_own(struct sw_egress *e, const struct sw_ip *ip)
{
    bool found = false;

    (void)pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < e->n_own && !found; i++)
        found = sw_cidr_contains(&e->own[i], ip);
    (void)pthread_mutex_unlock(&e->lock);
    return found;
}

/* ---- the filter ---- */

struct sw_egress *sw_egress_new(struct sw_loop *l, const struct sw_egress_opts *o,
                                struct sw_err *err)
{
    struct sw_egress *e = SW_NEW(struct sw_egress);
    struct sw_err ignored = {0};

    e->loop = l;
    e->only_listed = o->only_listed;
    (void)pthread_mutex_init(&e->lock, NULL);
    if (read_rules(o->allow, o->n_allow, &e->allow, err) != SW_OK ||
        read_rules(o->deny, o->n_deny, &e->deny, err) != SW_OK) {
        sw_egress_free(e);
        return NULL;
    }
    refresh(e);
    e->net = sw_netchange_new(l, on_change, e, &ignored);
    if (!e->net)
        sw_timer_start(l, &e->poll, POLL_NS, on_poll);
    return e;
}

void sw_egress_free(struct sw_egress *e)
{
    if (!e)
        return;
    sw_netchange_free(e->net);
    sw_timer_stop(e->loop, &e->poll);
    (void)pthread_mutex_destroy(&e->lock);
    sw_free(e->allow.p);
    sw_free(e->deny.p);
    sw_free(e->own);
    sw_free(e);
}

/* One address as it stands; *ret_named: a rule allows it. */
static enum sw_egress_class judge_one(struct sw_egress *e, const struct sw_ip *ip, uint16_t port,
                                      bool *ret_named)
{
    enum sw_egress_class c = classify_one(ip);
    bool own = (c == SW_EGRESS_OK || c == SW_EGRESS_LOOPBACK || c == SW_EGRESS_LINK_LOCAL) &&
               is_own(e, ip);

    *ret_named = false;
    if (ip->family == 0)
        return SW_EGRESS_UNSPECIFIED;
    if (listed(&e->deny, ip, port) || (e->deny.own && own))
        return SW_EGRESS_LISTED;
    if (listed(&e->allow, ip, port) || (e->allow.own && own && c == SW_EGRESS_OK)) {
        *ret_named = true;
        return SW_EGRESS_OK;
    }
    if (e->only_listed)
        return SW_EGRESS_OK;
    return c == SW_EGRESS_OK && own ? SW_EGRESS_OWN : c;
}

enum sw_egress_class sw_egress_judge(struct sw_egress *e, const struct sw_addr *to)
{
    struct sw_ip inside[EMBEDDED_MAX];
    enum sw_egress_class c;
    bool named;
    size_t n;

    if (!e)
        return SW_EGRESS_OK;
    c = judge_one(e, &to->ip, to->port, &named);
    if (c != SW_EGRESS_OK || named)
        return c;
    n = embedded(&to->ip, inside);
    for (size_t i = 0; i < n && c == SW_EGRESS_OK; i++)
        c = judge_one(e, &inside[i], to->port, &named);
    return c;
}

bool sw_egress_allowed(struct sw_egress *e, const struct sw_addr *to)
{
    bool named;

    return e && judge_one(e, &to->ip, to->port, &named) == SW_EGRESS_OK && named;
}

static bool may_log(struct sw_egress *e)
{
    uint64_t now = sw_now_ns();
    bool yes;

    (void)pthread_mutex_lock(&e->lock);
    if (now - e->period_ns >= PERIOD_NS) {
        e->period_ns = now;
        e->lines = 0;
    }
    yes = e->lines++ < LINES_PER_PERIOD;
    (void)pthread_mutex_unlock(&e->lock);
    return yes;
}

int sw_egress_check(struct sw_egress *e, const struct sw_addr *to, struct sw_err *err)
{
    enum sw_egress_class c = sw_egress_judge(e, to);
    char text[SW_ADDR_TEXT];

    if (c == SW_EGRESS_OK)
        return SW_OK;
    atomic_fetch_add_explicit(&e->denied[c], 1, memory_order_relaxed);
    (void)sw_addr_text(to, text);
    if (may_log(e))
        sw_log_warn("egress", "connection to %s denied: %s address, not in --upstream-allow", text,
                    sw_egress_class_text(c));
    return sw_err_set(err, SW_EDENIED, "connection to %s denied: %s address", text,
                      sw_egress_class_text(c));
}

uint64_t sw_egress_denied(const struct sw_egress *e, enum sw_egress_class c)
{
    return e ? atomic_load_explicit(&e->denied[c], memory_order_relaxed) : 0;
}
