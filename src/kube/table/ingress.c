/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Ingresses and IngressClasses. */
#include "kube/table/table_int.h"
#include "kube/text.h"

/* The first three. How many more counts rules, those without a host as well. */
struct sw_json *table_ingress_hosts(const struct table_row *r, const char *none)
{
    const struct sw_json *rules = sw_json_walk(r->obj, "spec", "rules", NULL);
    size_t n = 0;
    bool more = false;
    SW_BUF_AUTO b = {.max = 4096};

    SW_JSON_ITEMS (item, rules) {
        struct sw_slice host = sw_json_str(sw_json_find(item, "host"));

        more = more || n == 3;
        if (!more && host.n)
            sw_tx_printf(&b, "%s%.*s", n++ ? "," : "", SW_SLICE_ARG(host));
    }
    if (n == 0)
        return sw_json_new_str(r->a, "*");
    if (more)
        sw_tx_printf(&b, " + %zu more...", sw_json_len(rules) - 3);
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_ingress_address(const struct table_row *r, const char *none)
{
    SW_BUF_AUTO b = {.max = 4096};

    table_put_balancers(r, &b, sw_json_walk(r->obj, "status", "loadBalancer", "ingress", NULL));
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_ingress_ports(const struct table_row *r, const char *none)
{
    bool tls = sw_json_len(sw_json_walk(r->obj, "spec", "tls", NULL)) > 0;

    return sw_json_new_str(r->a, tls ? "80, 443" : "80");
}

struct sw_json *table_class_parameters(const struct table_row *r, const char *none)
{
    struct sw_slice group = table_text(r->obj, "spec.parameters.apiGroup");

    if (!sw_json_is(sw_json_walk(r->obj, "spec", "parameters", NULL), SW_JSON_OBJECT))
        return sw_json_new_str(r->a, "<none>");
    return sw_json_new_str(
        r->a, sw_arena_printf(r->a, "%.*s%s%.*s/%.*s",
                              SW_SLICE_ARG(table_text(r->obj, "spec.parameters.kind")),
                              group.n ? "." : "", SW_SLICE_ARG(group),
                              SW_SLICE_ARG(table_text(r->obj, "spec.parameters.name"))));
}
