/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectorAdvertisements: what can be reached through a connector. The device is the one that
 * enforces them; here they are tied to their Connector and compared with what HTTPProxies want.
 */
#include "control/connector/connector_int.h"
#include "io/addr.h"

/* ---- objects ---- */

static void tie(struct sw_output *out, const struct sw_kube_obj *o, const struct sw_kube_obj *to)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_json *obj;

    /* Others may own it as well, so it is only written when it is missing. */
    if (cn_owned_by(o, to->uid))
        return;
    obj = cn_object(a, CN_API, "ConnectorAdvertisement", o->ns, o->name);
    sw_json_put_str(a, sw_json_find(obj, "metadata"), "uid", o->uid);
    cn_own(a, obj, to, CN_API, "Connector");
    sw_out_apply(out, SW_HP_ADVERTISEMENT, obj);
}

static void build_one(const struct sw_view *v, struct sw_output *out, const struct sw_kube_obj *o)
{
    static const char *const owned[] = {"Accepted", NULL};
    struct sw_arena *a = sw_out_arena(out);
    struct sw_slice name = sw_json_str(sw_json_walk(o->json, "spec", "connectorRef", "name", NULL));
    const struct sw_kube_obj *to = name.n ? sw_view_find(v, SW_HP_CONNECTOR, o->ns, name) : NULL;
    struct cond c = {"Accepted", true, "Accepted", "The advertisement belongs to its Connector."};

    if (!name.n)
        c = (struct cond){"Accepted", false, "Pending", "connectorRef.name is required"};
    else if (!to || cn_deleting(to))
        c = (struct cond){"Accepted", false, "ConnectorNotFound",
                          cn_text(a, "There is no Connector '%.*s'.", SW_SLICE_ARG(name))};
    else
        tie(out, o, to);
    sw_out_status(out, SW_HP_ADVERTISEMENT, o, status_with(a, o, owned, &c, 1));
}

void cn_advertisements(const struct sw_view *v, struct sw_output *out)
{
    SW_VIEW_EACH (o, v, SW_HP_ADVERTISEMENT) {
        if (!cn_deleting(o))
            build_one(v, out, o);
    }
}

/* ---- matching ---- */

/* "localhost" and the loopback addresses are one place to a device. */
static struct sw_slice plain_host(struct sw_slice s)
{
    struct sw_ip ip;

    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = sw_slice(s.p + 1, s.n - 2);
    if (sw_slice_ieq(s, SW_SLICE_LIT("localhost")) ||
        (sw_ip_parse(s, &ip, NULL) == SW_OK && sw_ip_is_loopback(&ip)))
        return SW_SLICE_LIT("127.0.0.1");
    return s;
}

bool cn_address_matches(struct sw_slice pattern, struct sw_slice host)
{
    struct sw_ip x;
    struct sw_ip y;

    pattern = plain_host(pattern);
    host = plain_host(host);
    if (sw_slice_eq_str(pattern, "*"))
        return true;
    if (sw_ip_parse(pattern, &x, NULL) == SW_OK)
        return sw_ip_parse(host, &y, NULL) == SW_OK && sw_ip_eq(&x, &y);
    if (sw_slice_has_prefix(pattern, SW_SLICE_LIT("*."))) {
        struct sw_slice tail = sw_slice_from(pattern, 1);

        return host.n > tail.n && sw_slice_ieq(sw_slice_from(host, host.n - tail.n), tail);
    }
    return sw_slice_ieq(pattern, host);
}

static bool has_service(const struct sw_json *layer4, struct sw_slice host, uint16_t port)
{
    for (size_t i = 0; i < sw_json_len(layer4); i++) {
        const struct sw_json *services = sw_json_find(sw_json_at(layer4, i), "services");

        SW_JSON_ITEMS (s, services) {
            if (cn_port(sw_json_find(s, "ports"), port, sw_slice(NULL, 0), "TCP") &&
                cn_address_matches(js_or(s, "address", ""), host))
                return true;
        }
    }
    return false;
}

void cn_advert_index(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret)
{
    for (size_t i = sw_view_count(v, SW_HP_ADVERTISEMENT); i-- > 0;) {
        const struct sw_kube_obj *o = sw_view_at(v, SW_HP_ADVERTISEMENT, i);
        struct sw_slice name =
            sw_json_str(sw_json_walk(o->json, "spec", "connectorRef", "name", NULL));
        struct cn_advert *one;
        struct sw_slice key;

        if (!name.n || cn_deleting(o))
            continue;
        one = SW_ARENA_NEW(a, struct cn_advert);
        key = cn_printf(a, "%.*s/%.*s", SW_SLICE_ARG(o->ns), SW_SLICE_ARG(name));
        one->obj = o;
        one->next = sw_map_get(ret, key);
        (void)sw_map_put(ret, key, one);
    }
}

enum cn_advertised cn_advertised(const struct cn_advert *list, struct sw_slice host, uint16_t port)
{
    for (const struct cn_advert *at = list; at; at = at->next) {
        if (has_service(sw_json_walk(at->obj->json, "spec", "layer4", NULL), host, port))
            return CN_ADVERTISED;
    }
    return list ? CN_NOT_ADVERTISED : CN_NO_ADVERTISEMENT;
}
