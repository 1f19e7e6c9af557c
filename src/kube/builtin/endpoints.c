/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Endpoints and EndpointSlices, and of addresses in general. */
#include <arpa/inet.h>
#include <string.h>

#include "io/egress.h"
#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"

enum {
    MAX_ENDPOINTS = 1000,
    MAX_ADDRESSES = 100,
    MAX_PORTS = 20000,
    MAX_TOPOLOGY = 16,
    MAX_ZONES = 8
};

/* ---- addresses ---- */

bool sw_b_ip(const struct sw_at *ip)
{
    if (sw_is_ipv4(sw_at_text(ip)) || sw_is_ipv6(sw_at_text(ip)))
        return true;
    sw_at_invalid_text(ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    return false;
}

/* In the form of IPv6, so that one test does for both. */
static bool parse(struct sw_slice ip, struct in6_addr *ret)
{
    char text[64];

    if (ip.n >= 48)
        return false;
    (void)memcpy(text, "::ffff:", 7);
    memcpy(text + 7, ip.p, ip.n);
    text[7 + ip.n] = 0;
    return inet_pton(AF_INET6, sw_is_ipv4(ip) ? text : text + 7, ret) == 1;
}

/* Addresses that carry one of these inside, and the rest of 0.0.0.0/8, which Linux routes here. */
static void check_disguise(const struct sw_at *at)
{
    struct sw_ip ip;
    enum sw_egress_class c;

    if (sw_ip_parse(sw_at_text(at), &ip, NULL) != SW_OK || sw_ip_is_any(&ip) ||
        sw_ip_is_loopback(&ip) || (ip.family == 4 && ip.b[0] != 0))
        return;
    c = sw_egress_classify(&ip);
    if (ip.family == 6 && ip.b[0] >= 0xfe) /* reported above */
        return;
    if (c == SW_EGRESS_LOOPBACK || c == SW_EGRESS_LINK_LOCAL || c == SW_EGRESS_UNSPECIFIED)
        sw_at_invalid_text(at,
                           sw_arena_printf(at->e->arena, "may not stand for an address that is %s",
                                           sw_egress_class_text(c)));
}

void sw_b_special_ip(const struct sw_at *at)
{
    struct sw_slice ip = sw_at_text(at);
    struct in6_addr in;
    const uint8_t *b = in.s6_addr;
    bool v4;

    if (!parse(ip, &in)) {
        sw_at_invalid_text(at, "must be a valid IP address");
        return;
    }
    v4 = IN6_IS_ADDR_V4MAPPED(&in);
    b += v4 ? 12 : 0;
    if (v4 ? memcmp(b, "\0\0\0", 4) == 0 : IN6_IS_ADDR_UNSPECIFIED(&in))
        sw_at_invalid_text(
            at, sw_arena_printf(at->e->arena, "may not be unspecified (%.*s)", SW_SLICE_ARG(ip)));
    if (!at->e->loopback_ok && (v4 ? b[0] == 127 : IN6_IS_ADDR_LOOPBACK(&in)))
        sw_at_invalid_text(at, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    if (v4 ? b[0] == 169 && b[1] == 254 : IN6_IS_ADDR_LINKLOCAL(&in))
        sw_at_invalid_text(at, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    if (v4 ? b[0] == 224 && b[1] == 0 && b[2] == 0 : IN6_IS_ADDR_MC_LINKLOCAL(&in))
        sw_at_invalid_text(
            at, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    check_disguise(at);
}

void sw_b_domain(const struct sw_at *at, bool two_labels)
{
    struct sw_slice name = sw_at_text(at);

    if (sw_slice_has_suffix(name, SW_SLICE_LIT(".")))
        name.n--; /* fully qualified */
    if (sw_name_dns1123_subdomain(name).n)
        sw_name_report(at->e, &at->path, name, sw_name_dns1123_subdomain(name));
    else if (two_labels && sw_slice_find(name, '.') < 0)
        sw_ferr_invalid_str(at->e, &at->path, name,
                            "should be a domain with at least two segments separated by dots");
    else if (sw_host_is_numeric(name))
        sw_ferr_invalid_str(at->e, &at->path, name,
                            "an IPv4 address in disguise: the last label of a host name must not "
                            "be a number");
}

void sw_b_no_ip(const struct sw_at *host)
{
    if (sw_is_ipv4(sw_at_text(host)) || sw_is_ipv6(sw_at_text(host)))
        sw_at_invalid(host, "must be a DNS name, not an IP address");
}

/* ---- Endpoints ---- */

/* The nodeName of an address in the old object; NULL: none. */
static const struct sw_json *old_node(const struct sw_json *old, struct sw_slice ip)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    const struct sw_json *subsets = sw_json_find(old, "subsets");
    const struct sw_json *found = NULL;

    SW_JSON_ITEMS (item, subsets) {
        for (size_t l = 0; l < 2; l++) {
            const struct sw_json *list = sw_json_find(item, lists[l]);

            SW_JSON_ITEMS (a, list) {
                if (sw_slice_eq(sw_field_text(a, "ip"), ip) && sw_json_find(a, "nodeName"))
                    found = sw_json_find(a, "nodeName");
            }
        }
    }
    return found;
}

static void check_endpoint_address(const struct sw_at *addr, const struct sw_json *old)
{
    const struct sw_at *ip = SW_IN(addr, "ip");
    const struct sw_at *node = SW_IN(addr, "nodeName");
    const struct sw_json *was = old_node(old, sw_at_text(ip));
    size_t before = addr->e->n;

    (void)sw_b_ip(ip);
    sw_at_name(SW_IN(addr, "hostname"), sw_name_dns1123_label);
    sw_at_set_name(node, sw_name_dns1123_subdomain);
    if (node->v && was && !sw_json_equal(node->v, was, 0))
        sw_at_forbidden(
            node, sw_arena_printf(addr->e->arena, "Cannot change NodeName for %.*s to %.*s",
                                  SW_SLICE_ARG(sw_at_text(ip)), SW_SLICE_ARG(sw_at_text(node))));
    if (addr->e->n == before)
        sw_b_special_ip(ip);
}

static void check_subset(const struct sw_at *set, const struct sw_json *old)
{
    const struct sw_at *ready = SW_IN(set, "addresses");
    const struct sw_at *other = SW_IN(set, "notReadyAddresses");
    const struct sw_at *ports = SW_IN(set, "ports");

    if (!sw_at_len(ready) && !sw_at_len(other))
        sw_at_required(set, "must specify `addresses` or `notReadyAddresses`");
    SW_AT_FOREACH (addr, ready)
        check_endpoint_address(&addr, old);
    SW_AT_FOREACH (addr, other)
        check_endpoint_address(&addr, old);
    SW_AT_FOREACH (p, ports) {
        if (sw_at_len(ports) > 1)
            (void)sw_at_need(SW_IN(&p, "name"), NULL);
        sw_at_name(SW_IN(&p, "name"), sw_name_dns1123_label);
        sw_b_port_number(SW_IN(&p, "port"));
        sw_at_one_of(SW_IN(&p, "protocol"), SW_B_PROTOCOLS);
        sw_at_set_name(SW_IN(&p, "appProtocol"), sw_name_label_key);
    }
}

void sw_b_check_endpoints(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *subsets = SW_IN(obj, "subsets");

    if (old && sw_json_equal(subsets->v, sw_json_find(old, "subsets"), SW_JSON_EQ_VALUE))
        return;
    SW_AT_FOREACH (set, subsets)
        check_subset(&set, old);
}

/* ---- EndpointSlice ---- */

static void check_address(const struct sw_at *addr, const struct sw_at *list,
                          const struct sw_json *type)
{
    struct sw_slice ip = sw_at_text(addr);
    bool v4 = sw_json_str_eq(type, "IPv4");

    if (sw_json_str_eq(type, "FQDN") && sw_at_need(addr, NULL))
        sw_b_domain(addr, true);
    if ((!v4 && !sw_json_str_eq(type, "IPv6")) || !sw_b_ip(addr))
        return;
    /* This one names the list, not the item. */
    if (v4 ? !sw_is_ipv4(ip) : !sw_is_ipv6(ip))
        sw_ferr_invalid_str(list->e, &list->path, ip,
                            v4 ? "must be an IPv4 address" : "must be an IPv6 address");
    sw_b_special_ip(addr);
}

static void check_zones(const struct sw_at *zones)
{
    struct sw_map seen = {0};

    if (!sw_at_max(zones, MAX_ZONES))
        return;
    SW_AT_FOREACH (zone, zones) {
        const struct sw_at *at = SW_IN(&zone, "name");
        struct sw_slice name = sw_at_text(at);

        if (sw_map_put(&seen, name, &seen))
            sw_ferr_duplicate(at->e, &at->path, sw_json_new_string(at->e->arena, name));
        sw_name_report(at->e, &at->path, name, sw_name_label_value(name));
    }
    sw_map_done(&seen);
}

static void check_endpoint(const struct sw_at *ep, const struct sw_json *type)
{
    const struct sw_at *addrs = SW_IN(ep, "addresses");
    const struct sw_at *topology = SW_IN(ep, "deprecatedTopology");

    if (sw_at_need(addrs, "must contain at least 1 address"))
        (void)sw_at_max(addrs, MAX_ADDRESSES);
    SW_AT_FOREACH (addr, addrs)
        check_address(&addr, addrs, type);
    sw_at_set_name(SW_IN(ep, "nodeName"), sw_name_dns1123_subdomain);
    (void)sw_at_max(topology, MAX_TOPOLOGY);
    sw_labels_validate(topology);
    sw_at_set_name(SW_IN(ep, "hostname"), sw_name_dns1123_label);
    check_zones(SW_IN(ep, "hints.forZones"));
}

static void check_slice_ports(const struct sw_at *ports)
{
    struct sw_map seen = {0};

    if (!sw_at_max(ports, MAX_PORTS))
        return;
    SW_AT_FOREACH (p, ports) {
        const struct sw_at *name = SW_IN(&p, "name");

        sw_at_name(name, sw_name_dns1123_label);
        if (sw_map_put(&seen, sw_at_text(name), &seen))
            sw_at_duplicate(name);
        sw_at_one_of(SW_IN(&p, "protocol"), SW_B_PROTOCOLS);
        sw_at_set_name(SW_IN(&p, "appProtocol"), sw_name_label_key);
    }
    sw_map_done(&seen);
}

void sw_b_check_endpoint_slice(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *type = SW_IN(obj, "addressType");
    const struct sw_at *endpoints = SW_IN(obj, "endpoints");

    if (sw_at_need(type, NULL))
        sw_at_one_of(type, "FQDN IPv4 IPv6");
    /* What did not change was judged under the address type it was written for. */
    if ((!old || !sw_json_equal(endpoints->v, sw_json_find(old, "endpoints"), SW_JSON_EQ_VALUE)) &&
        sw_at_max(endpoints, MAX_ENDPOINTS)) {
        SW_AT_FOREACH (ep, endpoints)
            check_endpoint(&ep, type->v);
    }
    check_slice_ports(SW_IN(obj, "ports"));
    if (old)
        sw_at_same(type, sw_json_find(old, "addressType"));
}
