/* SPDX-License-Identifier: Apache-2.0 */
/* The Gateway of an HTTPProxy: a listener for each of its names, or for its port. */
#include "control/connector/proxy_int.h"

#define CERT_ISSUER_OPTION "gateway.networking.datumapis.com/certificate-issuer"

static struct sw_json *tls_part(struct hp *h, struct sw_slice secret)
{
    struct sw_json *tls = sw_json_new_object(h->a);
    struct sw_json *refs = sw_json_new_array(h->a);
    struct sw_json *ref = sw_json_new_object(h->a);
    struct sw_json *options = sw_json_new_object(h->a);

    sw_json_put(h->a, ref, "group", sw_json_new_str(h->a, ""));
    sw_json_put(h->a, ref, "kind", sw_json_new_str(h->a, "Secret"));
    sw_json_put_str(h->a, ref, "name", secret);
    sw_json_push(h->a, refs, ref);
    sw_json_put(h->a, options, CERT_ISSUER_OPTION, sw_json_new_str(h->a, "auto"));
    sw_json_put(h->a, tls, "mode", sw_json_new_str(h->a, "Terminate"));
    sw_json_put(h->a, tls, "certificateRefs", refs);
    sw_json_put(h->a, tls, "options", options);
    return tls;
}

static struct sw_json *passthrough(struct hp *h)
{
    struct sw_json *tls = sw_json_new_object(h->a);

    sw_json_put(h->a, tls, "mode", sw_json_new_str(h->a, "Passthrough"));
    return tls;
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
    struct sw_json *l = sw_json_new_object(h->a);
    struct sw_json *allowed = sw_json_new_object(h->a);
    struct sw_json *from = sw_json_new_object(h->a);

    sw_json_put_str(h->a, l, "name",
                    !host || host->canonical
                        ? cn_printf(h->a, "default-%s", s->name)
                        : cn_printf(h->a, "%s-hostname-%zu", s->name, host->index));
    if (host)
        sw_json_put_str(h->a, l, "hostname", host->name);
    sw_json_put(h->a, l, "port", sw_json_new_i64(h->a, s->port ? s->port : h->l4.port));
    sw_json_put(h->a, l, "protocol", sw_json_new_str(h->a, s->protocol));
    sw_json_put(h->a, from, "from", sw_json_new_str(h->a, "Same"));
    sw_json_put(h->a, allowed, "namespaces", from);
    sw_json_put(h->a, l, "allowedRoutes", allowed);
    if (host && s == &of_https)
        sw_json_put(h->a, l, "tls", tls_part(h, host->secret));
    if (s == &of_tls)
        sw_json_put(h->a, l, "tls", passthrough(h));
    sw_json_push(h->a, list, l);
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
    struct sw_json *spec = sw_json_new_object(h->a);
    struct sw_json *list = sw_json_new_array(h->a);

    if (h->l4.kind == HP_L4_TCP && h->l4.state == HP_NAME_OURS)
        add_listener(h, list, NULL, &of_tcp);
    for (size_t i = 0; h->l4.kind != HP_L4_TCP && i < h->n_hosts; i++)
        add_listeners(h, list, &h->hosts[i]);
    if (!sw_json_len(list)) {
        const struct hp_host none = nobody(h);

        add_listener(h, list, &none, &of_http);
    }
    sw_json_put_str(h->a, spec, "gatewayClassName",
                    h->conf->gateway_class.n ? h->conf->gateway_class : SW_SLICE_LIT("spanwire"));
    sw_json_put(h->a, spec, "listeners", list);
    hp_put_spec(h, obj, spec);
    if (h->conf->envoy_gateway && h->any_connector)
        cn_meta(h->a, obj, "annotations", SW_CONNECTOR_READY, hp_ready_text(h));
    return obj;
}

void hp_gateway(struct hp *h)
{
    sw_out_apply(h->out, SW_HP_GATEWAY, gateway(h));
}
