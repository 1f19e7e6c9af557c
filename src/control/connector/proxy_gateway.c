/* SPDX-License-Identifier: Apache-2.0 */
/* The Gateway of an HTTPProxy: a listener for each of its names, or for its port. */
#include "control/connector/proxy_int.h"

#define CERT_ISSUER_OPTION "gateway.networking.datumapis.com/certificate-issuer"

static struct sw_json *tls_part(struct hp *h, struct sw_slice secret)
{
    struct sw_json *ref =
        SW_JSON_OF(h->a, {"group", .str = ""}, {"kind", .str = "Secret"}, {"name", .text = secret});

    return SW_JSON_OF(h->a, {"mode", .str = "Terminate"},
                      {"certificateRefs", .json = sw_json_new_list(h->a, ref)},
                      {"options", .json = SW_JSON_OF(h->a, {CERT_ISSUER_OPTION, .str = "auto"})});
}

/* What a listener speaks. */
static const struct speech {
    const char *name; /* in names of listeners */
    const char *protocol;
    uint16_t port; /* 0: one of its own */
} of_http = {"http", "HTTP", 80};
static const struct speech of_https = {"https", "HTTPS", 443};
static const struct speech of_tls = {"tls", "TLS", 443};
static const struct speech of_tcp = {"tcp", "TCP", 0};

/* host NULL: all hosts. */
static void add_listener(struct hp *h, struct sw_json *list, const struct hp_host *host,
                         const struct speech *s)
{
    struct sw_slice name = !host || host->canonical
                               ? cn_printf(h->a, "default-%s", s->name)
                               : cn_printf(h->a, "%s-hostname-%zu", s->name, host->index);
    struct sw_json *from = SW_JSON_OF(h->a, {"from", .str = "Same"});
    struct sw_json *tls = NULL;

    if (host && s == &of_https)
        tls = tls_part(h, host->secret);
    if (s == &of_tls)
        tls = SW_JSON_OF(h->a, {"mode", .str = "Passthrough"});
    sw_json_push(
        h->a, list,
        SW_JSON_OF(h->a, {"name", .text = name},
                   {"hostname", .text = host ? host->name : sw_slice(NULL, 0)},
                   {"port", .json = sw_json_new_i64(h->a, s->port ? s->port : h->l4.port)},
                   {"protocol", .str = s->protocol},
                   {"allowedRoutes", .json = SW_JSON_OF(h->a, {"namespaces", .json = from})},
                   {"tls", .json = tls}));
}

static void add_listeners(struct hp *h, struct sw_json *list, const struct hp_host *host)
{
    if (host->state != HP_NAME_OURS)
        return;
    if (h->l4.kind == HP_L4_TLS) {
        add_listener(h, list, host, &of_tls);
        return;
    }
    add_listener(h, list, host, &of_http);
    if (host->secret.n)
        add_listener(h, list, host, &of_https);
}

/* A Gateway has to have a listener; no client requests this name. */
static struct hp_host nobody(struct hp *h)
{
    return (struct hp_host){.name =
                                cn_printf(h->a, "%.*s.unnamed.invalid", SW_SLICE_ARG(h->obj->uid)),
                            .canonical = true};
}

/* "true/<id>" or "false/" for each connector, in order of the rules. */
struct sw_slice hp_ready_text(struct hp *h)
{
    struct sw_slice text = SW_SLICE_LIT("");

    for (size_t i = 0; i < h->n_rules; i++) {
        const struct hp_backend *b = &h->backends[i];
        struct sw_slice id = hp_online(h, b);

        if (b->connector.n)
            text = cn_printf(h->a, "%.*s%s%s/%.*s", SW_SLICE_ARG(text), text.n ? "," : "",
                             id.n ? "true" : "false", SW_SLICE_ARG(id));
    }
    return text;
}

static struct sw_json *gateway(struct hp *h)
{
    struct sw_json *obj = hp_child(h, GW_API, "Gateway", h->obj->name);
    struct sw_json *list = sw_json_new_array(h->a);
    struct sw_slice class = h->conf->gateway_class;

    if (h->l4.kind == HP_L4_TCP && h->l4.state == HP_NAME_OURS)
        add_listener(h, list, NULL, &of_tcp);
    for (size_t i = 0; h->l4.kind != HP_L4_TCP && i < h->n_hosts; i++)
        add_listeners(h, list, &h->hosts[i]);
    if (!sw_json_len(list)) {
        const struct hp_host none = nobody(h);

        add_listener(h, list, &none, &of_http);
    }
    hp_put_spec(h, obj,
                SW_JSON_OF(h->a,
                           {"gatewayClassName", .text = class.n ? class : SW_SLICE_LIT("spanwire")},
                           {"listeners", .json = list}));
    if (h->conf->envoy_gateway && h->any_connector)
        cn_meta(h->a, obj, "annotations", SW_CONNECTOR_READY, hp_ready_text(h));
    return obj;
}

void hp_gateway(struct hp *h)
{
    sw_out_apply(h->out, SW_HP_GATEWAY, gateway(h));
}
