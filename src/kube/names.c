/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of names; see names.h. */
#include "kube/names.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define LABEL_TEXT                                                                                 \
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "   \
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "     \
    "used "                                                                                        \
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
#define SUBDOMAIN_TEXT                                                                             \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "   \
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "  \
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
#define DNS1035_TEXT                                                                               \
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "   \
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123'," \
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
#define QUALIFIED_TAIL                                                                             \
    " must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "   \
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "         \
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

static void add(struct sw_name_msgs *m, const char *text)
{
    if (m->n < SW_NAME_MSGS)
        m->p[m->n++] = text;
}

static bool lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool alnum(char c)
{
    return lower(c) || digit(c) || (c >= 'A' && c <= 'Z');
}

static bool dns_label(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        bool edge = i == 0 || i == s.n - 1;

        if (!lower(s.p[i]) && !digit(s.p[i]) && (s.p[i] != '-' || edge))
            return false;
    }
    return s.n > 0;
}

static bool dns_subdomain(struct sw_slice s)
{
    while (s.p) {
        if (!dns_label(sw_slice_cut(&s, '.')))
            return false;
    }
    return true;
}

/* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9] */
static bool qualified(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!alnum(s.p[i]) && !(strchr("-_.", s.p[i]) && s.p[i]))
            return false;
    }
    return s.n > 0 && alnum(s.p[0]) && alnum(s.p[s.n - 1]);
}

struct sw_name_msgs sw_name_dns1123_label(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (s.n > 63)
        add(&m, "must be no more than 63 characters");
    if (!dns_label(s))
        add(&m, dns_subdomain(s) && s.n ? "must not contain dots" : LABEL_TEXT);
    return m;
}

struct sw_name_msgs sw_name_dns1123_subdomain(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (s.n > 253)
        add(&m, "must be no more than 253 characters");
    if (!s.n || !dns_subdomain(s))
        add(&m, SUBDOMAIN_TEXT);
    return m;
}

struct sw_name_msgs sw_name_wildcard(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (s.n > 253)
        add(&m, "must be no more than 253 characters");
    if (!sw_slice_has_prefix(s, SW_SLICE_LIT("*.")) || !dns_subdomain(sw_slice_from(s, 2)))
        add(&m,
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS "
            "subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and "
            "end with an alphanumeric character (e.g. '*.example.com', regex used for validation "
            "is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
    return m;
}

struct sw_name_msgs sw_name_dns1035_label(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (s.n > 63)
        add(&m, "must be no more than 63 characters");
    if (!dns_label(s) || !lower(s.p[0]))
        add(&m, DNS1035_TEXT);
    return m;
}

struct sw_name_msgs sw_name_path_segment(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (sw_slice_eq_str(s, "."))
        add(&m, "may not be '.'");
    else if (sw_slice_eq_str(s, ".."))
        add(&m, "may not be '..'");
    else if (sw_slice_find(s, '/') >= 0)
        add(&m, "may not contain '/'");
    else if (sw_slice_find(s, '%') >= 0)
        add(&m, "may not contain '%'");
    return m;
}

struct sw_name_msgs sw_name_namespace(struct sw_slice s)
{
    return sw_name_dns1123_label(s);
}

struct sw_name_msgs sw_name_label_key(struct sw_slice s)
{
    struct sw_name_msgs m = {0};
    ptrdiff_t slash = sw_slice_find(s, '/');
    struct sw_slice name = slash < 0 ? s : sw_slice_from(s, (size_t)slash + 1);

    if (sw_slice_find(name, '/') >= 0) {
        add(&m, "a qualified name" QUALIFIED_TAIL
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
        return m;
    }
    if (slash >= 0) {
        struct sw_slice prefix = sw_slice_head(s, (size_t)slash);

        if (!prefix.n) {
            add(&m, "prefix part must be non-empty");
        } else {
            if (prefix.n > 253)
                add(&m, "prefix part must be no more than 253 characters");
            if (!dns_subdomain(prefix))
                add(&m, "prefix part " SUBDOMAIN_TEXT);
        }
    }
    if (!name.n)
        add(&m, "name part must be non-empty");
    else if (name.n > 63)
        add(&m, "name part must be no more than 63 characters");
    if (!qualified(name))
        add(&m, "name part" QUALIFIED_TAIL);
    return m;
}

struct sw_name_msgs sw_name_label_value(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (s.n > 63)
        add(&m, "must be no more than 63 characters");
    if (s.n && !qualified(s))
        add(&m, "a valid label must be an empty string or consist of alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
    return m;
}

struct sw_name_msgs sw_name_config_key(struct sw_slice s)
{
    struct sw_name_msgs m = {0};
    bool ok = s.n > 0;

    if (s.n > 253)
        add(&m, "must be no more than 253 characters");
    for (size_t i = 0; i < s.n; i++)
        ok = ok && (alnum(s.p[i]) || (s.p[i] && strchr("-._", s.p[i])));
    if (!ok)
        add(&m, "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                "'[-._a-zA-Z0-9]+')");
    if (sw_slice_eq_str(s, "."))
        add(&m, "must not be '.'");
    else if (sw_slice_eq_str(s, ".."))
        add(&m, "must not be '..'");
    else if (sw_slice_has_prefix(s, SW_SLICE_LIT("..")))
        add(&m, "must not start with '..'");
    return m;
}

struct sw_name_msgs sw_name_port(struct sw_slice s)
{
    struct sw_name_msgs m = {0};
    bool charset = s.n > 0;
    bool letter = false;

    if (s.n > 15)
        add(&m, "must be no more than 15 characters");
    for (size_t i = 0; i < s.n; i++) {
        charset = charset && (lower(s.p[i]) || digit(s.p[i]) || s.p[i] == '-');
        letter = letter || lower(s.p[i]);
    }
    if (!charset)
        add(&m, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    if (!letter)
        add(&m, "must contain at least one letter (a-z)");
    if (memmem(s.p, s.n, "--", 2))
        add(&m, "must not contain consecutive hyphens");
    if (s.n && (s.p[0] == '-' || s.p[s.n - 1] == '-'))
        add(&m, "must not begin or end with a hyphen");
    return m;
}

static bool parse_ip(int family, struct sw_slice s)
{
    char text[64];
    unsigned char out[16];

    if (s.n == 0 || s.n >= sizeof(text) || memchr(s.p, 0, s.n))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    return inet_pton(family, text, out) == 1;
}

bool sw_is_ipv4(struct sw_slice s)
{
    return parse_ip(AF_INET, s);
}

bool sw_is_ipv6(struct sw_slice s)
{
    return parse_ip(AF_INET6, s);
}

bool sw_is_cidr(struct sw_slice s)
{
    ptrdiff_t slash = sw_slice_find(s, '/');
    struct sw_slice ip;
    uint64_t bits;

    if (slash < 0)
        return false;
    ip = sw_slice_head(s, (size_t)slash);
    s = sw_slice_from(s, (size_t)slash + 1);
    if (s.n > 1 && s.p[0] == '0')
        return false;
    if (sw_is_ipv4(ip))
        return sw_slice_to_u64(s, 32, &bits);
    return sw_is_ipv6(ip) && sw_slice_to_u64(s, 128, &bits);
}

void sw_name_report(struct sw_field_errs *e, const struct sw_fpath *path, struct sw_slice value,
                    struct sw_name_msgs msgs)
{
    for (size_t i = 0; i < msgs.n; i++)
        sw_ferr_invalid_str(e, path, value, msgs.p[i]);
}

const char *sw_name_join(struct sw_arena *a, struct sw_name_msgs msgs, const char *sep)
{
    const char *out = "";

    for (size_t i = 0; i < msgs.n; i++)
        out = i ? sw_arena_printf(a, "%s%s%s", out, sep, msgs.p[i]) : msgs.p[i];
    return out;
}

struct sw_slice sw_name_key(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
}
