/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the rules. What is run, and where, is in redirect_apply.c. */
#include "cni/redirect.h"

#include <ctype.h>
#include <string.h>

#include "cni/redirect_int.h"

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

static void SW_PRINTF(2, 3) line(struct sw_print *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (p->rc == SW_OK)
        p->rc = sw_buf_vprintf(p->to, fmt, ap);
    va_end(ap);
    sw_print_char(p, '\n');
}

/* The rule once for IPv4 and, where wanted, once for IPv6: "not to localhost, ...". */
static void not_local(struct sw_print *t, const struct sw_redirect *r, const char *before,
                      const char *rule)
{
    line(t, "\t\t%sip daddr != 127.0.0.1 %s", before, rule);
    if (r->ipv6)
        line(t, "\t\t%sip6 daddr != ::1 %s", before, rule);
}

static void probe(struct sw_print *t, const struct sw_redirect *r, const char *side)
{
    char ip[SW_IP_TEXT];

    if (r->probe4.family)
        line(t, "\t\tip %s %s meta l4proto tcp accept", side, sw_ip_text(&r->probe4, ip));
    if (r->ipv6 && r->probe6.family)
        line(t, "\t\tip6 %s %s meta l4proto tcp accept", side, sw_ip_text(&r->probe6, ip));
}

/* A base chain holds nothing but the jump, so that the rules stand in chains of known names. */
static void chain(struct sw_print *t, const char *type, const char *hook, int priority,
                  const char *target)
{
    line(t, "\tchain %s {", hook);
    line(t, "\t\ttype %s hook %s priority %d; policy accept;", type, hook, priority);
    line(t, "\t\tjump %s", target);
    line(t, "\t}");
    line(t, "\tchain %s {", target);
}

static void nat_table(struct sw_print *t, const struct sw_redirect *r)
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

static void mangle_table(struct sw_print *t)
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
static void raw_table(struct sw_print *t)
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
static void drop_tables(struct sw_print *t)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(tables); i++) {
        line(t, "table inet %s", tables[i]);
        line(t, "delete table inet %s", tables[i]);
    }
}

static void all_tables(struct sw_print *t, const struct sw_redirect *r)
{
    nat_table(t, r);
    mangle_table(t);
    if (r->dns)
        raw_table(t);
}

int sw_redirect_ruleset(const struct sw_redirect *r, struct sw_buf *out)
{
    struct sw_print t = {.to = out};

    drop_tables(&t);
    all_tables(&t, r);
    return t.rc;
}

int sw_redirect_removal(struct sw_buf *out)
{
    struct sw_print t = {.to = out};

    drop_tables(&t);
    return t.rc;
}

/* Replies to what carries the mark come back to us. */
#define MARKED                                                                                     \
    {                                                                                              \
        "fwmark", "0x111/0xfff", "priority", "32764", "lookup", "100", NULL                        \
    }
#define LOCAL(dest)                                                                                \
    {                                                                                              \
        "local", dest, "dev", "lo", "table", "100", NULL                                           \
    }

const struct sw_redirect_route sw_redirect_routes[] = {
    {.object = "rule", .args = MARKED},
    {.object = "route", .args = LOCAL("0.0.0.0/0")},
    {.ipv6 = true, .object = "rule", .args = MARKED},
    {.ipv6 = true, .object = "route", .args = LOCAL("::/0")},
};
const size_t sw_redirect_n_routes = SW_ARRAY_LEN(sw_redirect_routes);

void sw_redirect_command(const struct sw_redirect_route *r, const char *verb,
                         const char *ret[SW_REDIRECT_ARGV])
{
    const char *const head[] = {"ip", r->ipv6 ? "-6" : "-4", r->object, verb};

    memcpy(ret, head, sizeof(head));
    memcpy(ret + SW_ARRAY_LEN(head), r->args, sizeof(r->args));
    ret[SW_REDIRECT_ARGV - 1] = NULL;
}

int sw_redirect_show(const struct sw_redirect *r, struct sw_buf *out)
{
    struct sw_print t = {.to = out};

    line(&t, "# routing: replies to connections made with the client's address come back here");
    for (size_t i = 0; i < sw_redirect_n_routes; i++) {
        const char *argv[SW_REDIRECT_ARGV];

        if (sw_redirect_routes[i].ipv6 && !r->ipv6)
            continue;
        sw_redirect_command(&sw_redirect_routes[i], "add", argv);
        for (size_t k = 0; argv[k]; k++)
            sw_print_fmt(&t, "%s%s", k ? " " : "", argv[k]);
        line(&t, "%s", "");
    }
    line(&t, "# rules: nft -f -");
    all_tables(&t, r);
    return t.rc;
}
