/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Endpoints and EndpointSlices, and of addresses in general. */
#include <arpa/inet.h>
#include <string.h>

#include "base/map.h"
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

static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};

/* ---- addresses ---- */

bool sw_b_ip(struct sw_slice ip, const struct sw_fpath *at, struct sw_field_errs *e)
{
    if (sw_is_ipv4(ip) || sw_is_ipv6(ip))
        return true;
    sw_ferr_invalid_str(e, at, ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
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
static void check_disguise(struct sw_slice text, const struct sw_fpath *at, struct sw_field_errs *e)
{
    struct sw_ip ip;
    enum sw_egress_class c;

    if (sw_ip_parse(text, &ip, NULL) != SW_OK || sw_ip_is_any(&ip) || sw_ip_is_loopback(&ip) ||
        (ip.family == 4 && ip.b[0] != 0))
        return;
    c = sw_egress_classify(&ip);
    if (ip.family == 6 && ip.b[0] >= 0xfe) /* said above */
        return;
    if (c == SW_EGRESS_LOOPBACK || c == SW_EGRESS_LINK_LOCAL || c == SW_EGRESS_UNSPECIFIED)
        sw_ferr_invalid_str(e, at, text,
                            sw_arena_printf(e->arena, "may not stand for an address that is %s",
                                            sw_egress_class_text(c)));
}

void sw_b_special_ip(struct sw_slice ip, const struct sw_fpath *at, struct sw_field_errs *e)
{
    struct in6_addr in;
    const uint8_t *b = in.s6_addr;
    bool v4;

    if (!parse(ip, &in)) {
        sw_ferr_invalid_str(e, at, ip, "must be a valid IP address");
        return;
    }
    v4 = IN6_IS_ADDR_V4MAPPED(&in);
    b += v4 ? 12 : 0;
    if (v4 ? memcmp(b, "\0\0\0", 4) == 0 : IN6_IS_ADDR_UNSPECIFIED(&in))
        sw_ferr_invalid_str(
            e, at, ip,
            sw_arena_printf(e->arena, "may not be unspecified (%.*s)", SW_SLICE_ARG(ip)));
    if (!e->loopback_ok && (v4 ? b[0] == 127 : IN6_IS_ADDR_LOOPBACK(&in)))
        sw_ferr_invalid_str(e, at, ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    if (v4 ? b[0] == 169 && b[1] == 254 : IN6_IS_ADDR_LINKLOCAL(&in))
        sw_ferr_invalid_str(e, at, ip,
                            "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    if (v4 ? b[0] == 224 && b[1] == 0 && b[2] == 0 : IN6_IS_ADDR_MC_LINKLOCAL(&in))
        sw_ferr_invalid_str(e, at, ip,
                            "may not be in the link-local multicast range (224.0.0.0/24, "
                            "ff02::/10)");
    check_disguise(ip, at, e);
}

void sw_b_not_numeric(struct sw_slice name, const struct sw_fpath *at, struct sw_field_errs *e)
{
    if (sw_host_is_numeric(name))
        sw_ferr_invalid_str(e, at, name,
                            "an IPv4 address in disguise: the last label of a host name must not "
                            "be a number");
}

/* ---- Endpoints ---- */

/* The node an address was said to be on; NULL when nothing was said. */
static const struct sw_json *old_node(const struct sw_json *old, struct sw_slice ip)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    const struct sw_json *subsets = sw_json_find(old, "subsets");
    const struct sw_json *found = NULL;

    for (size_t i = 0; i < sw_json_len(subsets); i++) {
        for (size_t l = 0; l < 2; l++) {
            const struct sw_json *list = sw_json_find(sw_json_at(subsets, i), lists[l]);

            for (size_t k = 0; k < sw_json_len(list); k++) {
                const struct sw_json *a = sw_json_at(list, k);

                if (sw_slice_eq(sw_field_text(a, "ip"), ip) && sw_json_find(a, "nodeName"))
                    found = sw_json_find(a, "nodeName");
            }
        }
    }
    return found;
}

static void check_endpoint_address(const struct sw_json *addr, const struct sw_json *old,
                                   const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at_ip = sw_fpath_str(path, "ip");
    struct sw_fpath at_host = sw_fpath_str(path, "hostname");
    struct sw_fpath at_node = sw_fpath_str(path, "nodeName");
    struct sw_slice ip = sw_field_text(addr, "ip");
    struct sw_slice host = sw_field_text(addr, "hostname");
    const struct sw_json *node = sw_json_find(addr, "nodeName");
    const struct sw_json *was = old_node(old, ip);
    size_t before = e->n;

    (void)sw_b_ip(ip, &at_ip, e);
    if (host.n)
        sw_name_report(e, &at_host, host, sw_name_dns1123_label(host));
    if (node)
        sw_name_report(e, &at_node, sw_json_str(node),
                       sw_name_dns1123_subdomain(sw_json_str(node)));
    if (node && was && !sw_json_equal(node, was, 0))
        sw_ferr_forbidden(e, &at_node,
                          sw_arena_printf(e->arena, "Cannot change NodeName for %.*s to %.*s",
                                          SW_SLICE_ARG(ip), SW_SLICE_ARG(sw_json_str(node))));
    if (e->n == before)
        sw_b_special_ip(ip, &at_ip, e);
}

static void check_endpoint_port(const struct sw_json *p, bool need_name,
                                const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_port = sw_fpath_str(path, "port");
    struct sw_fpath at_proto = sw_fpath_str(path, "protocol");
    struct sw_fpath at_app = sw_fpath_str(path, "appProtocol");
    struct sw_slice name = sw_field_text(p, "name");
    const struct sw_json *app = sw_json_find(p, "appProtocol");

    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
    else if (need_name)
        sw_ferr_required(e, &at_name, NULL);
    sw_b_port_number(sw_json_find(p, "port"), &at_port, e);
    sw_field_one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
    if (app)
        sw_name_report(e, &at_app, sw_json_str(app), sw_name_label_key(sw_json_str(app)));
}

static void check_subset(const struct sw_json *set, const struct sw_json *old,
                         const struct sw_fpath *path, struct sw_field_errs *e)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    const struct sw_json *ports = sw_json_find(set, "ports");
    struct sw_fpath up;

    if (!sw_json_len(sw_json_find(set, lists[0])) && !sw_json_len(sw_json_find(set, lists[1])))
        sw_ferr_required(e, path, "must specify `addresses` or `notReadyAddresses`");
    for (size_t l = 0; l < 2; l++) {
        const struct sw_json *list = sw_json_find(set, lists[l]);

        up = sw_fpath_str(path, lists[l]);
        for (size_t i = 0; i < sw_json_len(list); i++) {
            struct sw_fpath at = sw_fpath_index(&up, i);

            check_endpoint_address(sw_json_at(list, i), old, &at, e);
        }
    }
    up = sw_fpath_str(path, "ports");
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_endpoint_port(sw_json_at(ports, i), sw_json_len(ports) > 1, &at, e);
    }
}

void sw_b_check_endpoints(const struct sw_json *obj, const struct sw_json *old,
                          struct sw_field_errs *e)
{
    const struct sw_json *subsets = sw_json_find(obj, "subsets");
    struct sw_fpath up = sw_fpath_str(NULL, "subsets");

    if (old && sw_json_equal(subsets, sw_json_find(old, "subsets"), SW_JSON_EQ_VALUE))
        return;
    for (size_t i = 0; i < sw_json_len(subsets); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_subset(sw_json_at(subsets, i), old, &at, e);
    }
}

/* ---- EndpointSlice ---- */

/* At least two labels, a dot at the end or not. */
static void check_fqdn(struct sw_slice name, const struct sw_fpath *at, struct sw_field_errs *e)
{
    struct sw_slice bare = name;

    if (!name.n) {
        sw_ferr_required(e, at, NULL);
        return;
    }
    if (sw_slice_has_suffix(bare, SW_SLICE_LIT(".")))
        bare.n--;
    if (sw_name_dns1123_subdomain(bare).n)
        sw_name_report(e, at, bare, sw_name_dns1123_subdomain(bare));
    else if (sw_slice_find(bare, '.') < 0)
        sw_ferr_invalid_str(e, at, bare,
                            "should be a domain with at least two segments separated by dots");
    else
        sw_b_not_numeric(bare, at, e);
}

static void check_address(struct sw_slice addr, const struct sw_json *type,
                          const struct sw_fpath *up, size_t i, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_index(up, i);

    if (sw_json_str_eq(type, "FQDN")) {
        check_fqdn(addr, &at, e);
        return;
    }
    if (!sw_json_str_eq(type, "IPv4") && !sw_json_str_eq(type, "IPv6"))
        return;
    if (!sw_b_ip(addr, &at, e))
        return;
    /* This one names the list, not the item. */
    if (sw_json_str_eq(type, "IPv4") && !sw_is_ipv4(addr))
        sw_ferr_invalid_str(e, up, addr, "must be an IPv4 address");
    else if (sw_json_str_eq(type, "IPv6") && !sw_is_ipv6(addr))
        sw_ferr_invalid_str(e, up, addr, "must be an IPv6 address");
    sw_b_special_ip(addr, &at, e);
}

static void check_hints(const struct sw_json *hints, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    const struct sw_json *zones = sw_json_find(hints, "forZones");
    struct sw_fpath up = sw_fpath_str(path, "forZones");
    struct sw_map seen = {0};

    if (sw_json_len(zones) > MAX_ZONES) {
        sw_ferr_too_many(e, &up, sw_json_len(zones), MAX_ZONES);
        return;
    }
    for (size_t i = 0; i < sw_json_len(zones); i++) {
        struct sw_slice name = sw_field_text(sw_json_at(zones, i), "name");
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at = sw_fpath_str(&item, "name");

        if (sw_map_put(&seen, name, &seen))
            sw_ferr_duplicate(e, &at, sw_json_new_string(e->arena, name));
        sw_name_report(e, &at, name, sw_name_label_value(name));
    }
    sw_map_done(&seen);
}

static void check_endpoint(const struct sw_json *ep, const struct sw_json *type,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *addrs = sw_json_find(ep, "addresses");
    const struct sw_json *node = sw_json_find(ep, "nodeName");
    const struct sw_json *host = sw_json_find(ep, "hostname");
    const struct sw_json *topology = sw_json_find(ep, "deprecatedTopology");
    struct sw_fpath at_addr = sw_fpath_str(path, "addresses");
    struct sw_fpath at_node = sw_fpath_str(path, "nodeName");
    struct sw_fpath at_topology = sw_fpath_str(path, "deprecatedTopology");
    struct sw_fpath at_host = sw_fpath_str(path, "hostname");
    struct sw_fpath at_hints = sw_fpath_str(path, "hints");

    if (!sw_json_len(addrs))
        sw_ferr_required(e, &at_addr, "must contain at least 1 address");
    else if (sw_json_len(addrs) > MAX_ADDRESSES)
        sw_ferr_too_many(e, &at_addr, sw_json_len(addrs), MAX_ADDRESSES);
    for (size_t k = 0; k < sw_json_len(addrs); k++)
        check_address(sw_json_str(sw_json_at(addrs, k)), type, &at_addr, k, e);
    if (node)
        sw_name_report(e, &at_node, sw_json_str(node),
                       sw_name_dns1123_subdomain(sw_json_str(node)));
    if (sw_json_len(topology) > MAX_TOPOLOGY)
        sw_ferr_too_many(e, &at_topology, sw_json_len(topology), MAX_TOPOLOGY);
    sw_labels_validate(topology, &at_topology, e);
    if (host)
        sw_name_report(e, &at_host, sw_json_str(host), sw_name_dns1123_label(sw_json_str(host)));
    check_hints(sw_json_find(ep, "hints"), &at_hints, e);
}

static void check_slice_endpoints(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(obj, "endpoints");
    struct sw_fpath up = sw_fpath_str(NULL, "endpoints");

    if (sw_json_len(list) > MAX_ENDPOINTS) {
        sw_ferr_too_many(e, &up, sw_json_len(list), MAX_ENDPOINTS);
        return;
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_endpoint(sw_json_at(list, i), sw_json_find(obj, "addressType"), &at, e);
    }
}

static void check_slice_ports(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *ports = sw_json_find(obj, "ports");
    struct sw_fpath up = sw_fpath_str(NULL, "ports");
    struct sw_map seen = {0};

    if (sw_json_len(ports) > MAX_PORTS) {
        sw_ferr_too_many(e, &up, sw_json_len(ports), MAX_PORTS);
        return;
    }
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        const struct sw_json *p = sw_json_at(ports, i);
        const struct sw_json *app = sw_json_find(p, "appProtocol");
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_fpath at_proto = sw_fpath_str(&at, "protocol");
        struct sw_fpath at_app = sw_fpath_str(&at, "appProtocol");
        struct sw_slice name = sw_field_text(p, "name");

        if (name.n)
            sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
        if (sw_map_put(&seen, name, &seen))
            sw_ferr_duplicate(e, &at_name, sw_json_find(p, "name"));
        sw_field_one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
        if (app)
            sw_name_report(e, &at_app, sw_json_str(app), sw_name_label_key(sw_json_str(app)));
    }
    sw_map_done(&seen);
}

void sw_b_check_endpoint_slice(const struct sw_json *obj, const struct sw_json *old,
                               struct sw_field_errs *e)
{
    static const char *const types[] = {"FQDN", "IPv4", "IPv6", NULL};
    const struct sw_json *type = sw_json_find(obj, "addressType");
    struct sw_fpath at_type = sw_fpath_str(NULL, "addressType");

    if (!sw_json_str(type).n)
        sw_ferr_required(e, &at_type, NULL);
    else
        sw_field_one_of(type, types, &at_type, e);
    /* What did not change was judged under the address type it was written for. */
    if (!old || !sw_json_equal(sw_json_find(obj, "endpoints"), sw_json_find(old, "endpoints"),
                               SW_JSON_EQ_VALUE))
        check_slice_endpoints(obj, e);
    check_slice_ports(obj, e);
    if (old && !sw_json_equal(type, sw_json_find(old, "addressType"), SW_JSON_EQ_VALUE))
        sw_ferr_invalid(e, &at_type, type, "field is immutable");
}
