/* SPDX-License-Identifier: Apache-2.0 */
#include "control/device/keys.h"

#include "control/claims.h"
#include "control/objects.h"

struct key_owner {
    const struct sw_kube_obj *obj;
    bool proved;
    uint64_t version; /* that was signed */
    bool claimed;     /* without a proof: a recorded claim says so */
};

static struct sw_slice key_of(const struct sw_json *connector)
{
    return sw_json_str(
        sw_json_walk(connector, "status", "connectionDetails", "publicKey", "id", NULL));
}

bool sw_connector_class_unproved(const struct sw_kube_obj *connector_class)
{
    return connector_class &&
           sw_slice_eq_str(cn_meta_of(connector_class, "annotations", SW_KEYPROOF),
                           SW_KEYPROOF_OFF);
}

static bool may_do_without(const struct sw_connector_keys *k, const struct sw_kube_obj *o)
{
    struct sw_slice class = sw_json_str(sw_json_walk(o->json, "spec", "connectorClassName", NULL));

    return class.n && sw_connector_class_unproved(
                          sw_view_find(k->v, k->kinds.classes, sw_slice("", 0), class));
}

static bool is_claimed(const struct sw_connector_keys *k, const struct sw_kube_obj *o,
                       struct sw_arena *a)
{
    struct sw_slice name = sw_claim_name(a, SW_CLAIM_KEY, key_of(o->json));
    const struct sw_kube_obj *c = sw_view_find(k->v, k->kinds.claims, sw_slice("", 0), name);

    return c && o->uid.n &&
           sw_slice_eq(sw_json_str(sw_json_walk(c->json, "spec", "holder", "uid", NULL)), o->uid);
}

/* False: it cannot own its key. */
static bool read_one(const struct sw_connector_keys *k, const struct sw_kube_obj *o,
                     struct sw_arena *a, struct key_owner *ret)
{
    enum sw_keyproof p = sw_keyproof_check(o->json, &ret->version);

    ret->obj = o;
    ret->proved = p == SW_KEYPROOF_VALID;
    if (ret->proved)
        return true;
    if (p == SW_KEYPROOF_NO_KEY || !may_do_without(k, o))
        return false;
    ret->claimed = is_claimed(k, o, a);
    return true;
}

static bool before(const struct key_owner *x, const struct key_owner *y)
{
    if (x->proved != y->proved)
        return x->proved;
    if (x->version != y->version)
        return x->version > y->version;
    if (x->claimed != y->claimed)
        return x->claimed;
    return by_age(x->obj, y->obj) < 0;
}

void sw_connector_keys_init(struct sw_connector_keys *k, const struct sw_view *v,
                            const struct sw_connector_kinds *kinds, struct sw_arena *a)
{
    *k = (struct sw_connector_keys){.v = v, .kinds = *kinds};
    SW_VIEW_EACH (o, v, kinds->connectors) {
        struct sw_slice key = key_of(o->json);
        struct key_owner mine = {0};
        struct key_owner *have;

        if (!key.n || cn_deleting(o) || !read_one(k, o, a, &mine))
            continue;
        have = sw_map_get(&k->owners, key);
        if (have && before(have, &mine))
            continue;
        if (!have) {
            have = SW_ARENA_NEW(a, struct key_owner);
            (void)sw_map_put(&k->owners, key, have);
        }
        *have = mine;
    }
}

void sw_connector_keys_done(struct sw_connector_keys *k)
{
    sw_map_done(&k->owners);
}

static const struct key_owner *find(const struct sw_connector_keys *k,
                                    const struct sw_kube_obj *connector)
{
    struct sw_slice key = key_of(connector->json);

    return key.n ? sw_map_get(&k->owners, key) : NULL;
}

const struct sw_kube_obj *sw_connector_key_owner(const struct sw_connector_keys *k,
                                                 const struct sw_kube_obj *connector)
{
    const struct key_owner *o = find(k, connector);

    return o ? o->obj : NULL;
}

void sw_connector_key_claim(const struct sw_connector_keys *k, const struct sw_kube_obj *connector,
                            bool *ret_asks, bool *ret_unproved)
{
    const struct key_owner *o = find(k, connector);
    struct sw_slice class =
        sw_json_str(sw_json_walk(connector->json, "spec", "connectorClassName", NULL));
    SW_ARENA_AUTO tmp = {0};

    *ret_asks = o && (o->obj == connector || (!o->proved && may_do_without(k, connector)));
    /* While its class is gone its requirements are unknown: what it has claimed stays its own. */
    if (!o && key_of(connector->json).n &&
        !sw_view_find(k->v, k->kinds.classes, sw_slice("", 0), class))
        *ret_asks = is_claimed(k, connector, &tmp);
    *ret_unproved =
        key_of(connector->json).n && !*ret_asks && !sw_connector_key_proved(connector->json);
}

bool sw_connector_key_proved(const struct sw_json *connector)
{
    return sw_keyproof_check(connector, NULL) == SW_KEYPROOF_VALID;
}

static bool is_ready(const struct sw_kube_obj *o)
{
    return cn_is_true(cn_conditions(o), "Ready");
}

struct sw_slice sw_connector_online(const struct sw_connector_keys *k,
                                    const struct sw_kube_obj *connector)
{
    if (cn_deleting(connector) || !is_ready(connector) ||
        sw_connector_key_owner(k, connector) != connector)
        return sw_slice(NULL, 0);
    return key_of(connector->json);
}

bool sw_connector_keys_same(const struct sw_kube_obj *x, const struct sw_kube_obj *y)
{
    uint64_t vx;
    uint64_t vy;

    return sw_slice_eq(x->uid, y->uid) && cn_deleting(x) == cn_deleting(y) &&
           is_ready(x) == is_ready(y) && sw_slice_eq(key_of(x->json), key_of(y->json)) &&
           sw_keyproof_check(x->json, &vx) == sw_keyproof_check(y->json, &vy) && vx == vy;
}
