/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/allow.h"

static const struct sw_ip loopback4 = {.family = 4, .b = {127, 0, 0, 1}};

void sw_allow_done(struct sw_allow *a)
{
    sw_vec_done(&a->entries);
    sw_arena_clear(&a->arena);
}

/* Both loopbacks are one place: applications listen on either, and clients name both. */
static struct sw_ip normal_ip(struct sw_ip ip)
{
    static const struct sw_ip one6 = {.family = 6, .b = {[15] = 1}};

    return sw_ip_eq(&ip, &one6) ? loopback4 : ip;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Labels of letters, digits, '-' and '_', lower case already; no address in disguise ("127.1"). */
static bool name_valid(struct sw_slice s)
{
    struct sw_slice rest = s;

    if (s.n == 0 || s.n > SW_ALLOW_HOST_MAX || sw_host_is_numeric(s))
        return false;
    while (rest.p) {
        struct sw_slice label = sw_slice_cut(&rest, '.');

        if (label.n == 0 || label.n > 63)
            return false;
        for (size_t i = 0; i < label.n; i++) {
            if (!name_char(label.p[i]))
                return false;
        }
    }
    return true;
}

/* Lower case without a final dot, in out; false when it is too long. */
static bool lower_host(struct sw_slice host, char out[SW_ALLOW_HOST_MAX + 1], struct sw_slice *ret)
{
    if (host.n && host.p[host.n - 1] == '.')
        host.n--;
    if (host.n > SW_ALLOW_HOST_MAX)
        return false;
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];

        out[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    *ret = sw_slice(out, host.n);
    return true;
}

/* What a host stands for: an address, or a name. */
static bool read_host(struct sw_slice host, char space[SW_ALLOW_HOST_MAX + 1], struct sw_ip *ret_ip,
                      struct sw_slice *ret_name)
{
    struct sw_slice low;
    struct sw_ip ip = {0};

    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = sw_slice(host.p + 1, host.n - 2);
    if (!lower_host(host, space, &low))
        return false;
    if (sw_slice_eq_str(low, "localhost"))
        ip = loopback4;
    else if (sw_ip_parse(low, &ip, NULL) != SW_OK)
        ip.family = 0;
    *ret_ip = normal_ip(ip);
    *ret_name = low;
    return true;
}

int sw_allow_add(struct sw_allow *a, struct sw_slice host, uint16_t port, bool udp,
                 struct sw_slice from, struct sw_err *err)
{
    struct sw_allow_entry e = {.port = port, .udp = udp};
    char space[SW_ALLOW_HOST_MAX + 1];
    struct sw_slice name;

    if (a->entries.n >= SW_ALLOW_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d destinations", SW_ALLOW_MAX);
    if (port == 0 || !read_host(host, space, &e.ip, &name))
        return sw_err_set(err, SW_EINVAL, "'%.*s': not a destination", SW_SLICE_ARG_MAX(host, 100));
    if (!e.ip.family) {
        if (sw_slice_eq_str(name, "*") || sw_slice_has_prefix(name, SW_SLICE_LIT("*."))) {
            e.wildcard = true;
            name = sw_slice_from(name, 2);
        }
        if (!(e.wildcard && host.n == 1) && !name_valid(name))
            return sw_err_set(err, SW_EINVAL, "'%.*s': neither an address nor a DNS name",
                              SW_SLICE_ARG_MAX(host, 100));
    }
    e.host = sw_arena_slice(&a->arena, name);
    e.from = sw_arena_slice(&a->arena, from);
    sw_vec_push(&a->entries, e);
    return SW_OK;
}

int sw_allow_add_text(struct sw_allow *a, struct sw_slice text, struct sw_err *err)
{
    struct sw_slice in = text;
    struct sw_slice host;
    uint16_t port;
    bool udp = false;

    if (sw_slice_has_suffix(in, SW_SLICE_LIT("/udp")) ||
        sw_slice_has_suffix(in, SW_SLICE_LIT("/tcp"))) {
        udp = in.p[in.n - 3] == 'u';
        in.n -= 4;
    }
    if (sw_authority_split(in, &host, &port, err) != SW_OK)
        return sw_err_prefix(err, "'%.*s'", SW_SLICE_ARG_MAX(text, 100));
    return sw_allow_add(a, host, port, udp, SW_SLICE_LIT("--allow"), err);
}

static size_t add_service(struct sw_allow *a, const struct sw_json *service, struct sw_slice from,
                          struct sw_err *err)
{
    struct sw_slice address = sw_json_str(sw_json_find(service, "address"));
    const struct sw_json *ports = sw_json_find(service, "ports");
    size_t bad = 0;

    SW_JSON_ITEMS (p, ports) {
        const struct sw_json *protocol = sw_json_find(p, "protocol");
        bool udp = sw_json_str_eq(protocol, "UDP");
        int64_t port = 0;

        /* An unknown protocol is none that we could open. */
        if ((protocol && !udp && !sw_json_str_eq(protocol, "TCP")) ||
            !sw_json_i64(sw_json_find(p, "port"), &port) || port < 1 || port > 65535) {
            (void)sw_err_set(err, SW_EINVAL, "a port of '%.*s' cannot be used",
                             SW_SLICE_ARG_MAX(address, 100));
            bad++;
        } else if (sw_allow_add(a, address, (uint16_t)port, udp, from, err) != SW_OK) {
            bad++;
        }
    }
    return bad;
}

size_t sw_allow_add_advertisement(struct sw_allow *a, const struct sw_json *obj, struct sw_err *err)
{
    struct sw_slice from = sw_json_str(sw_json_walk(obj, "metadata", "name", NULL));
    const struct sw_json *groups = sw_json_walk(obj, "spec", "layer4", NULL);
    size_t bad = 0;

    SW_JSON_ITEMS (it, groups) {
        const struct sw_json *services = sw_json_find(it, "services");

        SW_JSON_ITEMS (service, services)
            bad += add_service(a, service, from, err);
    }
    return bad;
}

static bool host_matches(const struct sw_allow_entry *e, const struct sw_ip *ip,
                         struct sw_slice name)
{
    if (e->ip.family || ip->family)
        return e->ip.family && ip->family && sw_ip_eq(&e->ip, ip);
    if (!e->wildcard)
        return sw_slice_eq(e->host, name);
    if (e->host.n == 0)
        return true;
    return name.n > e->host.n + 1 && name.p[name.n - e->host.n - 1] == '.' &&
           sw_slice_has_suffix(name, e->host);
}

const struct sw_allow_entry *sw_allow_find(const struct sw_allow *a, struct sw_slice host,
                                           uint16_t port, bool udp)
{
    char space[SW_ALLOW_HOST_MAX + 1];
    const struct sw_allow_entry *found = NULL;
    struct sw_slice name;
    struct sw_ip ip;

    if (!read_host(host, space, &ip, &name) || (!ip.family && !name_valid(name)))
        return NULL;
    SW_VEC_FOREACH (const struct sw_allow_entry, e, &a->entries) {
        if ((!found || found->wildcard) && e->port == port && e->udp == udp &&
            host_matches(e, &ip, name))
            found = e;
    }
    return found;
}

const char *sw_allow_text(struct sw_arena *arena, const struct sw_allow_entry *e)
{
    struct sw_addr addr = {.ip = e->ip, .port = e->port};
    char text[SW_ADDR_TEXT];
    const char *tail = e->udp ? "/udp" : "";

    if (e->ip.family)
        return sw_arena_printf(arena, "%s%s", sw_addr_text(&addr, text), tail);
    return sw_arena_printf(arena, "%s%.*s:%u%s",
                           !e->wildcard ? ""
                           : e->host.n  ? "*."
                                        : "*",
                           SW_SLICE_ARG(e->host), e->port, tail);
}
