/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the rules. What is run, and where, is in apply.c. */
#include "cni/redirect.h"

#include <ctype.h>
#include <string.h>

#include "cni/rules.h"

static const char *const tables[] = {"istio-ambient-nat", "istio-ambient-mangle",
                                     "istio-ambient-raw"};

/* Our own sockets carry MARK_PROXY; replies to spoofed sources are brought back by MARK_REPLY. */
#define NOT_PROXY "meta mark & 0xfff != 0x539"
#define IS_PROXY  "meta mark & 0xfff == 0x539"

void sw_redirect_init(struct sw_redirect *r)
{
    *r = (struct sw_redirect){
        .ipv6 = true,
        .inbound = true,
        .probe4 = {.family = 4, .b = {169, 254, 7, 127}},
        .probe6 = {.family = 6,
                   .b = {0xfd, 0x16, 0x92, 0x54, 0x71, 0x27, 0x13, 0x37, 0xff, 0xff, 0xff, 0xff,
                         0xff, 0xff, 0xff, 0xff}},
    };
}

static bool interface_name_ok(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > 15 || strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (!isalnum(c) && !strchr("_.:@-", c))
            return false;
    }
    return true;
}

int sw_redirect_check(const struct sw_redirect *r, struct sw_err *err)
{
    if (r->n_virtual_ifs > SW_REDIRECT_IFS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d virtual interfaces", SW_REDIRECT_IFS_MAX);
    for (size_t i = 0; i < r->n_virtual_ifs; i++) {
        if (!interface_name_ok(r->virtual_ifs[i]))
            return sw_err_set(err, SW_EINVAL, "'%.40s' is not an interface name",
                              r->virtual_ifs[i]);
    }
    return SW_OK;
}

/* A text being built: the first failure sticks. */
struct text {
    struct sw_buf *out;
    int rc;
};

static void SW_PRINTF(2, 3) line(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (t->rc == SW_OK)
        t->rc = sw_buf_vprintf(t->out, fmt, ap);
    va_end(ap);
    if (t->rc == SW_OK)
        t->rc = sw_buf_putc(t->out, '\n');
}

/* The rule once for IPv4 and, where wanted, once for IPv6: "not to localhost, ...". */
static void not_local(struct text *t, const struct sw_redirect *r, const char *before,
                      const char *rule)
{
    line(t, "\t\t%sip daddr != 127.0.0.1 %s", before, rule);
    if (r->ipv6)
        line(t, "\t\t%sip6 daddr != ::1 %s", before, rule);
}

static void probe(struct text *t, const struct sw_redirect *r, const char *side)
{
    char ip[SW_IP_TEXT];

    if (r->probe4.family)
        line(t, "\t\tip %s %s meta l4proto tcp accept", side, sw_ip_text(&r->probe4, ip));
    if (r->ipv6 && r->probe6.family)
        line(t, "\t\tip6 %s %s meta l4proto tcp accept", side, sw_ip_text(&r->probe6, ip));
}

/* A base chain holds nothing but the jump, so that the rules stand in chains of known names. */
static void chain(struct text *t, const char *type, const char *hook, int priority,
                  const char *target)
{
    line(t, "\tchain %s {", hook);
    line(t, "\t\ttype %s hook %s priority %d; policy accept;", type, hook, priority);
    line(t, "\t\tjump %s", target);
    line(t, "\t}");
    line(t, "\tchain %s {", target);
}

static void nat_table(struct text *t, const struct sw_redirect *r)
{
    line(t, "table inet istio-ambient-nat {");
    chain(t, "nat", "prerouting", -100, "istio-prerouting");
    for (size_t i = 0; i < r->n_virtual_ifs; i++) {
        line(t, "\t\tiifname \"%s\" meta l4proto tcp redirect to :15001", r->virtual_ifs[i]);
        line(t, "\t\tiifname \"%s\" meta l4proto tcp return", r->virtual_ifs[i]);
    }
    if (r->inbound) {
        probe(t, r, "saddr");
        not_local(t, r, "", "tcp dport != 15008 " NOT_PROXY " redirect to :15006");
    }
    line(t, "\t}");
    chain(t, "nat", "output", -100, "istio-output");
    probe(t, r, "daddr");
    if (r->dns) {
        line(t, "\t\t%soifname != \"lo\" udp dport 53 " NOT_PROXY " redirect to :15053",
             r->ipv6 ? "" : "meta nfproto ipv4 ");
        not_local(t, r, "", "tcp dport 53 " NOT_PROXY " redirect to :15053");
    }
    line(t, "\t\tmeta l4proto tcp meta mark & 0xfff == 0x111 accept");
    not_local(t, r, "oifname \"lo\" ", "accept");
    not_local(t, r, "", "meta l4proto tcp " NOT_PROXY " redirect to :15001");
    line(t, "\t}");
    line(t, "}");
}

static void mangle_table(struct text *t)
{
    line(t, "table inet istio-ambient-mangle {");
    chain(t, "filter", "prerouting", -150, "istio-prerouting");
    line(t, "\t\t" IS_PROXY " ct mark set ct mark & 0xfffff000 | 0x111");
    line(t, "\t}");
    chain(t, "route", "output", -150, "istio-output");
    line(t, "\t\tct mark & 0xfff == 0x111 meta mark set ct mark");
    line(t, "\t}");
    line(t, "}");
}

/* The application's query and the proxy's own may use the same ports: two conntrack zones. */
static void raw_table(struct text *t)
{
    line(t, "table inet istio-ambient-raw {");
    chain(t, "filter", "prerouting", -300, "istio-prerouting");
    line(t, "\t\tudp sport 53 " NOT_PROXY " ct zone set 1");
    line(t, "\t}");
    chain(t, "filter", "output", -300, "istio-output");
    line(t, "\t\tudp dport 53 " IS_PROXY " ct zone set 1");
    line(t, "\t}");
    line(t, "}");
}

/* Naming a table makes it, so that deleting it cannot fail. */
static void drop_tables(struct text *t)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(tables); i++) {
        line(t, "table inet %s", tables[i]);
        line(t, "delete table inet %s", tables[i]);
    }
}

static void all_tables(struct text *t, const struct sw_redirect *r)
{
    nat_table(t, r);
    mangle_table(t);
    if (r->dns)
        raw_table(t);
}

int sw_redirect_ruleset(const struct sw_redirect *r, struct sw_buf *out)
{
    struct text t = {.out = out};

    drop_tables(&t);
    all_tables(&t, r);
    return t.rc;
}

int sw_redirect_removal(struct sw_buf *out)
{
    struct text t = {.out = out};

    drop_tables(&t);
    return t.rc;
}

const struct sw_redirect_route sw_redirect_routes[] = {
    {.add = {"ip", "-4", "rule", "add", "fwmark", "0x111/0xfff", "priority", "32764", "lookup",
             "100", NULL},
     .del = {"ip", "-4", "rule", "del", "fwmark", "0x111/0xfff", "priority", "32764", "lookup",
             "100", NULL}},
    {.add = {"ip", "-4", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "100", NULL},
     .del = {"ip", "-4", "route", "del", "local", "0.0.0.0/0", "dev", "lo", "table", "100", NULL}},
    {.ipv6 = true,
     .add = {"ip", "-6", "rule", "add", "fwmark", "0x111/0xfff", "priority", "32764", "lookup",
             "100", NULL},
     .del = {"ip", "-6", "rule", "del", "fwmark", "0x111/0xfff", "priority", "32764", "lookup",
             "100", NULL}},
    {.ipv6 = true,
     .add = {"ip", "-6", "route", "add", "local", "::/0", "dev", "lo", "table", "100", NULL},
     .del = {"ip", "-6", "route", "del", "local", "::/0", "dev", "lo", "table", "100", NULL}},
};
const size_t sw_redirect_n_routes = SW_ARRAY_LEN(sw_redirect_routes);

int sw_redirect_show(const struct sw_redirect *r, struct sw_buf *out)
{
    struct text t = {.out = out};

    line(&t, "# routing: replies to connections made with the client's address come back here");
    for (size_t i = 0; i < sw_redirect_n_routes; i++) {
        const char *const *argv = sw_redirect_routes[i].add;

        if (sw_redirect_routes[i].ipv6 && !r->ipv6)
            continue;
        for (size_t k = 0; argv[k] && t.rc == SW_OK; k++)
            t.rc = sw_buf_printf(out, "%s%s", k ? " " : "", argv[k]);
        line(&t, "%s", "");
    }
    line(&t, "# rules: nft -f -");
    all_tables(&t, r);
    return t.rc;
}
