/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Services, EndpointSlices and Endpoints. */
#include "kube/table/table_int.h"
#include "kube/text.h"

void table_put_balancers(const struct table_row *r, struct sw_buf *b, const struct sw_json *in)
{
    struct sw_slice *p = sw_arena_array(r->a, sw_json_len(in) + 1, sizeof(*p));
    size_t n = 0;

    SW_JSON_ITEMS (item, in) {
        p[n] = sw_json_str(sw_json_find(item, "ip"));
        if (!p[n].n)
            p[n] = sw_json_str(sw_json_find(item, "hostname"));
        n += p[n].n > 0;
    }
    table_put_sorted(b, p, n);
}

struct sw_json *table_service_external(const struct table_row *r, const char *none)
{
    SW_BUF_AUTO b = {.max = 4096};
    const struct sw_json *ips = sw_json_walk(r->obj, "spec", "externalIPs", NULL);
    const struct sw_json *in = sw_json_walk(r->obj, "status", "loadBalancer", "ingress", NULL);
    bool balanced = sw_slice_eq_str(table_text(r->obj, "spec.type"), "LoadBalancer");

    if (sw_slice_eq_str(table_text(r->obj, "spec.type"), "ExternalName"))
        return table_cell(r, "spec.externalName");
    if (balanced)
        table_put_balancers(r, &b, in);
    SW_JSON_ITEMS (item, ips)
        sw_tx_printf(&b, "%s%.*s", sw_buf_len(&b) ? "," : "", SW_SLICE_ARG(sw_json_str(item)));
    if (!sw_buf_len(&b) && balanced)
        return sw_json_new_str(r->a, "<pending>");
    return table_or(r, sw_buf_slice(&b), "<none>");
}

struct sw_json *table_service_ports(const struct table_row *r, const char *none)
{
    const struct sw_json *ports = sw_json_walk(r->obj, "spec", "ports", NULL);
    SW_BUF_AUTO b = {.max = 4096};

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        const struct sw_json *p = sw_json_at(ports, i);
        const struct sw_json *port = sw_json_find(p, "port");
        const struct sw_json *np = sw_json_find(p, "nodePort");

        sw_tx_printf(&b, "%s%.*s", i ? "," : "",
                     SW_SLICE_ARG(sw_json_is(port, SW_JSON_NUMBER) ? port->text : sw_slice("", 0)));
        if (sw_json_is(np, SW_JSON_NUMBER))
            sw_tx_printf(&b, ":%.*s", SW_SLICE_ARG(np->text));
        sw_tx_printf(&b, "/%.*s", SW_SLICE_ARG(sw_json_str(sw_json_find(p, "protocol"))));
    }
    return table_or(r, sw_buf_slice(&b), "<none>");
}

struct sw_json *table_service_selector(const struct table_row *r, const char *none)
{
    const struct sw_json *sel = sw_json_walk(r->obj, "spec", "selector", NULL);
    struct sw_json *sorted = sel ? sw_json_copy(r->a, sel) : NULL;
    SW_BUF_AUTO b = {.max = 4096};

    if (sw_json_is(sorted, SW_JSON_OBJECT))
        sw_json_sort_members(sorted);
    for (size_t i = 0; i < sw_json_len(sorted); i++) {
        const struct sw_json_member *m = sw_json_member_at(sorted, i);

        sw_tx_printf(&b, "%s%.*s=%.*s", i ? "," : "", SW_SLICE_ARG(m->key),
                     SW_SLICE_ARG(sw_json_str(m->value)));
    }
    return table_or(r, sw_buf_slice(&b), "<none>");
}

/* At most three, then how many more. */
static struct sw_json *first_three(const struct table_row *r, const struct sw_json *const *p,
                                   size_t n)
{
    SW_BUF_AUTO b = {.max = 4096};

    for (size_t i = 0; i < n && i < 3; i++)
        sw_tx_printf(&b, "%s%.*s", i ? "," : "", SW_SLICE_ARG(p[i]->text));
    if (n > 3)
        sw_tx_printf(&b, " + %zu more...", n - 3);
    return table_or(r, sw_buf_slice(&b), "<unset>");
}

struct sw_json *table_slice_ports(const struct table_row *r, const char *none)
{
    const struct sw_json *ports = sw_json_find(r->obj, "ports");
    const struct sw_json **p = sw_arena_array(r->a, sw_json_len(ports) + 1, sizeof(const void *));
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        const struct sw_json *x = sw_json_find(sw_json_at(ports, i), "port");

        if (!sw_json_is(x, SW_JSON_NUMBER))
            x = sw_json_find(sw_json_at(ports, i), "name");
        p[n++] = sw_json_is(x, SW_JSON_NUMBER) || sw_json_is(x, SW_JSON_STRING)
                     ? x
                     : sw_json_new_str(r->a, "*");
    }
    return first_three(r, p, n);
}

struct sw_json *table_slice_addresses(const struct table_row *r, const char *none)
{
    const struct sw_json *eps = sw_json_find(r->obj, "endpoints");
    const struct sw_json **p;
    size_t total = 0, n = 0;

    SW_JSON_ITEMS (ep, eps)
        total += sw_json_len(sw_json_find(ep, "addresses"));
    p = sw_arena_array(r->a, total + 1, sizeof(const void *));
    SW_JSON_ITEMS (ep, eps) {
        SW_JSON_ITEMS (address, sw_json_find(ep, "addresses")) {
            if (sw_json_is(address, SW_JSON_STRING))
                p[n++] = address;
        }
    }
    return first_three(r, p, n);
}

/* "ip:port", or the address alone. */
static void put_address(struct sw_buf *b, struct sw_slice ip, int64_t port)
{
    bool v6 = sw_slice_find(ip, ':') >= 0;

    sw_tx_str(b, sw_buf_len(b) ? "," : "");
    if (port)
        sw_tx_printf(b, "%s%.*s%s:%lld", v6 ? "[" : "", SW_SLICE_ARG(ip), v6 ? "]" : "",
                     (long long)port);
    else
        sw_tx_slice(b, ip);
}

/* Every address that is ready with every port; the first three of them. */
struct sw_json *table_endpoints(const struct table_row *r, const char *none)
{
    const struct sw_json *subsets = sw_json_find(r->obj, "subsets");
    size_t n = 0;
    SW_BUF_AUTO b = {.max = 4096};

    if (!sw_json_len(subsets))
        return sw_json_new_str(r->a, "<none>");
    SW_JSON_ITEMS (set, subsets) {
        const struct sw_json *addrs = sw_json_find(set, "addresses");
        const struct sw_json *ports = sw_json_find(set, "ports");

        for (size_t p = 0; p < sw_json_len(ports) || p == 0; p++) {
            int64_t port = 0;

            if (!sw_json_exact_i64(sw_json_find(sw_json_at(ports, p), "port"), &port))
                port = 0;
            SW_JSON_ITEMS (address, addrs) {
                if (n++ < 3)
                    put_address(&b, sw_json_str(sw_json_find(address, "ip")), port);
            }
        }
    }
    if (n > 3)
        sw_tx_printf(&b, " + %zu more...", n - 3);
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}
