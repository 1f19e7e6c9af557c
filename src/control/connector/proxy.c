/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPProxies one by one: what each asks for, then children and status. */
#include "control/connector/proxy_int.h"

/* ---- backends ---- */

static bool is_strict(const struct hp *h, const struct sw_kube_obj *connector)
{
    struct sw_slice class =
        sw_json_str(sw_json_walk(connector->json, "spec", "connectorClassName", NULL));
    const struct sw_kube_obj *o = sw_view_find(h->v, SW_HP_CLASS, sw_slice("", 0), class);

    return o && sw_slice_eq_str(cn_meta_of(o, "annotations", SW_CONNECTOR_STRICT), "Strict");
}

/* As far as its advertisements go. */
static enum cn_advertised advertised_by(struct hp *h, const struct hp_backend *b,
                                        const struct sw_kube_obj *o)
{
    return cn_advertised(sw_map_get(h->adverts, o->key), b->ep.host, b->ep.port);
}

const char *hp_refusal(struct hp *h, const struct hp_backend *b, const struct sw_kube_obj *o)
{
    const char *why;

    if (sw_connector_lacks(o->json, "ConnectTCP", &why))
        return "no-capability";
    if (advertised_by(h, b, o) != CN_ADVERTISED && is_strict(h, o))
        return "not-advertised";
    return NULL;
}

static void note_capability(struct hp *h, const struct hp_backend *b)
{
    const char *why = NULL;
    const char *reason = sw_connector_lacks(b->cn->json, "ConnectTCP", &why);

    if (!reason || h->incapable.reason)
        return;
    h->incapable = (struct verdict){reason, cn_text(h->a,
                                                    "The endpoint needs ConnectTCP, and "
                                                    "Connector '%.*s' %s.",
                                                    SW_SLICE_ARG(b->cn->name), why)};
    cn_note(h->out, reason, "httpproxy", h->obj, h->incapable.msg);
}

static void note_advertised(struct hp *h, const struct hp_backend *b)
{
    enum cn_advertised found = b->cn ? advertised_by(h, b, b->cn) : CN_NO_ADVERTISEMENT;

    if (found == CN_ADVERTISED || h->unadvertised)
        return;
    h->unadvertised =
        cn_text(h->a, "%s of Connector '%.*s' has %.*s, port %u.%s",
                found == CN_NOT_ADVERTISED ? "None of the ConnectorAdvertisements"
                                           : "No ConnectorAdvertisement",
                SW_SLICE_ARG(b->cn ? b->cn->name : b->connector), SW_SLICE_ARG(b->ep.host),
                b->ep.port, b->cn && is_strict(h, b->cn) ? " Its class asks for one." : "");
}

static void read_connector(struct hp *h, struct hp_backend *b)
{
    h->any_connector = true;
    hp_select(h, b);
    b->refused = b->cn ? hp_refusal(h, b, b->cn) : NULL;
    if (!b->cn || !sw_connector_online(h->keys, b->cn).n)
        h->n_offline++;
    if (b->cn)
        note_capability(h, b);
    note_advertised(h, b);
}

static void read_instance(struct hp *h, const struct sw_json *instance, struct hp_backend *b)
{
    const struct sw_kube_obj *slice;

    b->instance = js_or(instance, "name", "");
    b->instance_port = (uint16_t)js_int(instance, "port", UINT16_MAX, 0);
    slice = sw_view_find(h->v, SW_HP_SLICE, h->obj->ns, b->instance);
    if (!slice && !h->missing_instance)
        h->missing_instance =
            cn_text(h->a, "There is no EndpointSlice '%.*s'.", SW_SLICE_ARG(b->instance));
}

static void read_backends(struct hp *h)
{
    const struct sw_json *rules = sw_json_find(h->spec, "rules");

    h->n_rules = sw_min(sw_json_len(rules), HP_RULES_MAX);
    for (size_t i = 0; i < h->n_rules; i++) {
        const struct sw_json *j = sw_json_at(sw_json_find(sw_json_at(rules, i), "backends"), 0);
        struct hp_backend *b = &h->backends[i];

        if (!j)
            continue;
        b->used = true;
        if (sw_json_find(j, "instance")) {
            read_instance(h, sw_json_find(j, "instance"), b);
            continue;
        }
        (void)hp_endpoint_read(h->a, js_or(j, "endpoint", ""), &b->ep); /* hp_check did */
        b->slice = cn_printf(h->a, "%.*s-%zu-0", SW_SLICE_ARG(h->obj->name), i);
        b->connector = js_or(sw_json_find(j, "connector"), "name", "");
        b->tls_name = js_or(sw_json_find(j, "tls"), "hostname", "");
        if (b->ep.tls && !b->tls_name.n)
            b->tls_name = b->ep.host;
        if (b->connector.n)
            read_connector(h, b);
    }
}

/* What the extension server has to know. */
static void publish_rules(struct hp *h)
{
    for (size_t i = 0; i < h->n_rules; i++) {
        const struct hp_backend *b = &h->backends[i];
        struct sw_slice id = hp_online(h, b);
        struct sw_slice value = SW_SLICE_LIT("offline");

        if (!b->connector.n)
            continue;
        if (id.n)
            value = cn_printf(h->a, "%.*s %.*s %.*s", SW_SLICE_ARG(id),
                              SW_SLICE_ARG(sw_connector_target(h->a, b->ep.host, b->ep.port)),
                              b->ep.tls ? (int)b->tls_name.n : 1, b->ep.tls ? b->tls_name.p : "-");
        sw_out_publish(h->out, SW_CONNECTOR_RULE,
                       cn_printf(h->a, "%.*s/%zu", SW_SLICE_ARG(h->obj->key), i), value);
    }
}

struct sw_slice hp_online(const struct hp *h, const struct hp_backend *b)
{
    return b->cn && !b->refused ? sw_connector_online(h->keys, b->cn) : sw_slice("", 0);
}

/* ---- one HTTPProxy ---- */

static void check_child(struct hp *h, const struct sw_kube_obj *child, const char *kind)
{
    if (child && !cn_owned_by(child, h->obj->uid) && !h->conflict.reason)
        h->conflict = (struct verdict){"Conflict", cn_text(h->a,
                                                           "%s '%.*s' exists and has another "
                                                           "owner.",
                                                           kind, SW_SLICE_ARG(child->name))};
}

static void find_children(struct hp *h)
{
    const char *route;
    size_t kind = hp_route_kind(h, &route);

    h->gateway = sw_view_find(h->v, SW_HP_GATEWAY, h->obj->ns, h->obj->name);
    h->route = sw_view_find(h->v, kind, h->obj->ns, h->obj->name);
    check_child(h, h->gateway, "Gateway");
    check_child(h, h->route, route);
    if (h->ca.n)
        check_child(h, sw_view_find(h->v, SW_HP_CA, h->obj->ns, h->ca), "ConfigMap");
    for (size_t i = 0; i < h->n_rules; i++) {
        if (h->backends[i].slice.n)
            check_child(h, sw_view_find(h->v, SW_HP_SLICE, h->obj->ns, h->backends[i].slice),
                        "EndpointSlice");
        if (h->backends[i].slice.n && hp_for_envoy_gateway(h))
            check_child(h, sw_view_find(h->v, SW_HP_BACKEND, h->obj->ns, h->backends[i].slice),
                        "Backend");
    }
}

/* The address to type, for people and for `spanwire expose`. */
static void put_url(struct hp *h)
{
    struct sw_json *obj;

    /* One without its port is nowhere yet. */
    if (h->l4.kind == HP_L4_TCP && h->l4.state != HP_NAME_OURS)
        return;
    h->url = hp_url(h);
    if (sw_slice_eq(cn_meta_of(h->obj, "annotations", SW_CONNECTOR_URL), h->url))
        return;
    obj = cn_object(h->a, HP_API, "HTTPProxy", h->obj->ns, h->obj->name);
    sw_json_put_str(h->a, sw_json_find(obj, "metadata"), "uid", h->obj->uid);
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_URL, h->url);
    sw_out_apply(h->out, SW_HP_PROXY, obj);
}

static void want_all(struct hp *h)
{
    if (!h->n_hosts) {
        hp_gateway(h); /* its uid makes the name */
        return;
    }
    if (h->l4.kind == HP_L4_NONE)
        hp_certificates(h);
    hp_children(h);
    put_url(h);
    if (h->l4.kind == HP_L4_NONE)
        publish_rules(h);
    if (h->conf->patch_policies)
        hp_patches(h);
}

static void build_one(struct hp *h)
{
    const char *invalid = hp_check(h->a, h->obj);

    if (!invalid)
        invalid = hp_l4_read(h->a, h->conf, h->obj, &h->l4);
    if (!invalid)
        invalid = hp_ca_read(h);
    /* What was made for an earlier, valid spec keeps serving. */
    if (!invalid) {
        hp_read_hosts(h);
        hp_read_port(h);
        read_backends(h);
        find_children(h);
        if (!h->conflict.reason) {
            sw_out_finalizer(h->out, SW_HP_PROXY, h->obj, SW_SLICE_LIT(SW_CONNECTOR_PROXY_CLEANUP),
                             true);
            want_all(h);
        }
    }
    hp_status(h, invalid);
}

static void index_secrets(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret)
{
    SW_VIEW_EACH (o, v, SW_HP_SECRET) {
        struct sw_slice of = cn_meta_of(o, "labels", PROXY);
        struct hp_secret *s = SW_ARENA_NEW(a, struct hp_secret);
        struct sw_slice key = cn_printf(a, "%.*s/%.*s", SW_SLICE_ARG(o->ns), SW_SLICE_ARG(of));

        s->obj = o;
        s->next = sw_map_get(ret, key);
        (void)sw_map_put(ret, key, s);
    }
}

void sw_httpproxy_build(const struct sw_view *v, const struct sw_connector_conf *conf,
                        struct sw_output *out)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_map adverts = {0};
    struct hp_names names = {0};
    struct sw_map secrets = {0};
    struct sw_connector_keys keys;

    cn_advertisements(v, out);
    cn_advert_index(v, a, &adverts);
    sw_connector_keys_init(
        &keys, v, &(const struct sw_connector_kinds){SW_HP_CONNECTOR, SW_HP_CLASS, SW_HP_CLAIM}, a);
    index_secrets(v, a, &secrets);
    hp_claim_names(v, conf, out, &names);
    hp_claim_ports(v, conf, out, &names);
    for (size_t i = 0; i < sw_view_count(v, SW_HP_PROXY); i++) {
        struct hp h = {.v = v,
                       .conf = conf,
                       .out = out,
                       .a = a,
                       .adverts = &adverts,
                       .names = &names,
                       .secrets = &secrets,
                       .keys = &keys,
                       .obj = sw_view_at(v, SW_HP_PROXY, i)};

        h.spec = sw_json_find(h.obj->json, "spec");
        if (cn_deleting(h.obj))
            hp_cleanup(&h);
        else
            build_one(&h);
    }
    sw_map_done(&adverts);
    sw_map_done(&names.canonical);
    sw_map_done(&names.claims);
    sw_map_done(&names.others);
    sw_map_done(&names.ports);
    sw_map_done(&names.held_ports);
    sw_map_done(&names.other_ports);
    sw_map_done(&secrets);
    sw_connector_keys_done(&keys);
}
