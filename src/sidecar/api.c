/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the control plane: Connectors, indexed by their NodeID. We publish our own NodeID in
 * turn (a ConfigMap), so that devices admit it.
 */

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"
#include "quic/id/keyproof.h"
#include "quic/quic.h"
#include "sidecar/sidecar_int.h"
#include "telemetry/ready.h"

#define MANAGER "spanwire-sidecar"

static const struct sw_kube_gvr connectors = {.group = "networking.datumapis.com",
                                              .version = "v1alpha1",
                                              .resource = "connectors",
                                              .kind = "Connector",
                                              .namespaced = true};
static const struct sw_kube_gvr namespaces = {
    .group = "", .version = "v1", .resource = "namespaces", .kind = "Namespace"};

static const uint64_t refresh_ns = 300 * SW_NS_PER_S;
static const uint64_t settle_ns = 200 * SW_NS_PER_MS;
static const uint64_t retry_min_ns = SW_NS_PER_S;
static const uint64_t retry_max_ns = 30 * SW_NS_PER_S;

/*
 * A Connector that names a key. Several may name the same, and their statuses are as trustworthy as
 * their writers: the one whose device signed for it last counts, online or not. Without a
 * signature, any that is online will do: the control plane sends no requests to such keys unless
 * its administrator allows that.
 */
struct entry {
    struct sw_list same;     /* others with the same key; the head is in by_id */
    struct sw_kube_obj *obj; /* a reference */
    struct sw_nodeid id;
    bool proved;
    uint64_t version; /* that was signed */
    bool online;
    bool udp; /* it advertises UDP */
};

struct side_api {
    struct sw_sidecar *s;
    struct sw_kube_client *client;
    struct sw_informer *informer;
    struct sw_map by_key; /* ns/name -> entry */
    struct sw_map by_id;  /* id -> entry, one of those that have it */
    struct sw_timer timer;
    struct sw_kube_call *call;
    uint64_t retry_ns;
    bool registered; /* once */
    bool made_ns;
    bool moved; /* while a call was under way */
};

/* ---- Connectors ---- */

static const struct sw_json *details(const struct sw_kube_obj *o)
{
    return sw_json_walk(o->json, "status", "connectionDetails", "publicKey", NULL);
}

/* The one of a list whose type is this; NULL: none. */
static const struct sw_json *of_type(const struct sw_json *list, const char *type)
{
    SW_JSON_ITEMS (it, list) {
        if (sw_json_str_eq(sw_json_find(it, "type"), type))
            return it;
    }
    return NULL;
}

static bool is_ready(const struct sw_json *conditions)
{
    return sw_json_str_eq(sw_json_find(of_type(conditions, "Ready"), "status"), "True");
}

static bool offers_udp(const struct sw_kube_obj *o)
{
    const struct sw_json *list = sw_json_walk(o->json, "status", "capabilities", NULL);

    return is_ready(sw_json_find(of_type(list, "ConnectUDP"), "conditions"));
}

static struct sw_slice id_key(const struct entry *e)
{
    return sw_slice(e->id.b, SW_NODEID_LEN);
}

static void drop_entry(struct side_api *a, struct entry *e, bool gone)
{
    (void)sw_map_del(&a->by_key, e->obj->key);
    if (sw_map_get(&a->by_id, id_key(e)) == e) {
        struct entry *other = SW_CONTAINER_OF(e->same.next, struct entry, same);

        (void)sw_map_del(&a->by_id, id_key(e));
        if (other != e)
            (void)sw_map_put(&a->by_id, id_key(other), other);
        else if (gone)
            sw_qdial_forget(a->s->dial, &e->id);
    }
    sw_list_unlink(&e->same);
    (void)sw_kube_obj_unref(e->obj);
    sw_free(e);
}

static bool before(const struct entry *x, const struct entry *y)
{
    if (x->proved != y->proved)
        return x->proved;
    if (x->version != y->version)
        return x->version > y->version;
    return x->online && !y->online;
}

/* The Connector that speaks for a key; NULL: none names it. */
static const struct entry *owner_of(const struct side_api *a, const struct sw_nodeid *id)
{
    const struct entry *first = sw_map_get(&a->by_id, sw_slice(id->b, SW_NODEID_LEN));
    const struct entry *best = first;

    for (const struct entry *e = first ? SW_CONTAINER_OF(first->same.next, struct entry, same)
                                       : NULL;
         e && e != first; e = SW_CONTAINER_OF(e->same.next, struct entry, same)) {
        if (before(e, best))
            best = e;
    }
    return best;
}

static void learn(struct side_api *a, const struct entry *e)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_quic_target t = {0};

    if (e->online && side_api_find(a, &e->id, &tmp, &t) == SIDE_ONLINE)
        sw_qdial_learn(a->s->dial, &t);
}

static void put_entry(struct side_api *a, struct sw_kube_obj *o)
{
    struct sw_nodeid id;
    struct entry *e;
    struct entry *head;

    if (sw_nodeid_parse(sw_json_str(sw_json_find(details(o), "id")), &id, NULL) != SW_OK)
        return;
    e = SW_NEW(struct entry);
    e->obj = sw_kube_obj_ref(o);
    e->id = id;
    e->online = is_ready(sw_json_walk(o->json, "status", "conditions", NULL));
    e->udp = offers_udp(o);
    e->proved = sw_keyproof_check(o->json, &e->version) == SW_KEYPROOF_VALID;
    sw_list_init(&e->same);
    head = sw_map_get(&a->by_id, id_key(e));
    if (head)
        sw_list_push_back(&head->same, &e->same);
    else
        (void)sw_map_put(&a->by_id, id_key(e), e);
    (void)sw_map_put(&a->by_key, e->obj->key, e);
    learn(a, e);
}

static void on_add(void *arg, struct sw_kube_obj *o)
{
    put_entry(arg, o);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    struct side_api *a = arg;
    struct entry *e = sw_map_get(&a->by_key, old->key);

    if (e)
        drop_entry(a, e, false);
    put_entry(a, now);
}

static void on_del(void *arg, struct sw_kube_obj *last)
{
    struct side_api *a = arg;
    struct entry *e = sw_map_get(&a->by_key, last->key);

    if (e)
        drop_entry(a, e, true);
}

static void on_synced(void *arg)
{
    struct side_api *a = arg;

    sw_log_info("sidecar", "%zu connectors known", a->by_key.n);
    if (a->s->ready)
        sw_ready_done(a->s->ready, "connectors");
    side_where_synced(a->s->where);
}

static const struct sw_informer_cbs cbs = {
    .add = on_add, .update = on_update, .del = on_del, .synced = on_synced};

/* Addresses are the device's word: those that the filter denies are left out. */
static void read_target(struct side_api *a, struct sw_arena *arena, const struct entry *e,
                        struct sw_quic_target *ret)
{
    const struct sw_json *d = details(e->obj);
    const struct sw_json *list = sw_json_find(d, "addresses");
    struct sw_addr *addrs = sw_arena_array(arena, SW_QUIC_ADDRS_MAX, sizeof(*addrs));
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(list) && n < SW_QUIC_ADDRS_MAX; i++) {
        const struct sw_json *it = sw_json_at(list, i);
        const struct sw_json *port = sw_json_find(it, "port");
        uint64_t v = 0;

        if (!sw_json_is(port, SW_JSON_NUMBER) || !sw_slice_to_u64(port->text, 65535, &v) || !v ||
            sw_ip_parse(sw_json_str(sw_json_find(it, "address")), &addrs[n].ip, NULL) != SW_OK)
            continue;
        addrs[n].port = (uint16_t)v;
        n += sw_egress_check(a->s->egress, &addrs[n], NULL) == SW_OK;
    }
    *ret = (struct sw_quic_target){.id = e->id, .addrs = addrs, .n_addrs = n};
    ret->relay = sw_arena_slice(arena, sw_json_str(sw_json_find(d, "homeRelay")));
}

enum side_known side_api_find(struct side_api *a, const struct sw_nodeid *id,
                              struct sw_arena *arena, struct sw_quic_target *ret)
{
    const struct entry *e = owner_of(a, id);

    if (!e)
        return sw_informer_synced(a->informer) ? SIDE_UNKNOWN : SIDE_NOT_SYNCED;
    if (!e->online)
        return SIDE_OFFLINE;
    read_target(a, arena, e, ret);
    return SIDE_ONLINE;
}

bool side_api_refuses_udp(const struct side_api *a, const struct sw_nodeid *id)
{
    const struct entry *e = owner_of(a, id);

    return e && !e->udp; /* one that is not the control plane's decides itself */
}

/* ---- our own name ---- */

static void try_register(struct side_api *a);

static void on_timer(struct sw_timer *t)
{
    try_register(SW_CONTAINER_OF(t, struct side_api, timer));
}

static void again(struct side_api *a, uint64_t ns)
{
    sw_timer_start(a->s->loop, &a->timer, ns + sw_rand_below(ns / 4 + 1), on_timer);
}

static void on_ns_made(void *arg, struct sw_kube_reply *r)
{
    struct side_api *a = arg;

    a->call = NULL;
    again(a, retry_min_ns / 10);
}

/* The namespace is the control plane's to make; a plain API server does not know it. */
static void make_ns(struct side_api *a)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_json *meta = SW_JSON_OF(&tmp, {"name", .str = a->s->c->ns});

    a->made_ns = true;
    a->call = sw_kube_create(a->client, &namespaces,
                             SW_JSON_OF(&tmp, {"apiVersion", .str = "v1"},
                                        {"kind", .str = "Namespace"}, {"metadata", .json = meta}),
                             on_ns_made, a);
}

static void on_applied(void *arg, struct sw_kube_reply *r)
{
    struct side_api *a = arg;

    a->call = NULL;
    if (r->rc == SW_OK) {
        if (!a->registered)
            sw_log_info("sidecar", "registered with the control plane");
        a->registered = true;
        a->retry_ns = retry_min_ns;
        if (a->s->ready)
            sw_ready_done(a->s->ready, "registration");
        again(a, a->moved ? settle_ns : refresh_ns);
        a->moved = false;
        return;
    }
    if (r->rc == SW_ENOENT && !a->made_ns) {
        make_ns(a);
        return;
    }
    sw_log_warn("sidecar", "cannot register: %.*s", SW_SLICE_ARG(r->message));
    again(a, a->retry_ns);
    a->retry_ns = sw_min(a->retry_ns * 2, retry_max_ns);
}

/* "ip:port,..." as registered. */
static void put_addresses(const struct side_api *a, struct sw_buf *out)
{
    const struct sw_addr_list *list = &a->s->places.list;
    char text[SW_ADDR_TEXT];
    int rc = SW_OK;

    for (size_t i = 0; i < list->n && rc == SW_OK; i++)
        rc = sw_buf_printf(out, "%s%s", i ? "," : "", sw_addr_text(&list->a[i], text));
}

void side_api_moved(struct side_api *a)
{
    /* A call under way ends with a timer of its own, and what it says may be old. */
    if (!a->s->c->no_register && a->registered && !a->call)
        again(a, settle_ns);
    else
        a->moved = true;
}

static void try_register(struct side_api *a)
{
    SW_ARENA_AUTO tmp = {0};
    SW_BUF_AUTO addrs = {.max = 4096};
    struct sw_json *o;
    struct sw_json *meta;
    struct sw_json *data;
    char hex[SW_NODEID_HEX];
    char id[SW_NODEID_SHORT];
    char *name = sw_arena_printf(&tmp, "gateway-%s", sw_nodeid_short(sw_sidecar_id(a->s), id));

    put_addresses(a, &addrs);
    meta = SW_JSON_OF(
        &tmp, {"name", .str = name}, {"namespace", .str = a->s->c->ns},
        {"labels", .json = SW_JSON_OF(&tmp, {"spanwire.dev/gateway-identity", .str = "true"})});
    data = SW_JSON_OF(&tmp, {"id", .str = sw_nodeid_hex(sw_sidecar_id(a->s), hex)},
                      {"addresses", .text = sw_buf_slice(&addrs)});
    o = SW_JSON_OF(&tmp, {"apiVersion", .str = "v1"}, {"kind", .str = "ConfigMap"},
                   {"metadata", .json = meta}, {"data", .json = data});
    a->call =
        sw_kube_apply(a->client,
                      &(struct sw_kube_apply){
                          .gvr = &sw_configmaps_gvr, .obj = o, .manager = MANAGER, .force = true},
                      on_applied, a);
}

/* ---- life ---- */

struct side_api *side_api_new(struct sw_sidecar *s, struct sw_err *err)
{
    struct sw_informer_opts o = {.gvr = &connectors, .optional = true, .eager = true};
    struct sw_kube_config cfg;
    struct sw_kube_client *client;
    struct side_api *a;

    if (sw_kube_config_find(s->c->kubeconfig, s->c->context, &cfg, err) != SW_OK)
        return NULL;
    client = sw_kube_client_new(s->loop, &cfg, NULL, err);
    if (!client)
        return NULL;
    a = SW_NEW(struct side_api);
    a->s = s;
    a->client = client;
    a->retry_ns = retry_min_ns;
    a->informer = sw_informer_new(client, &o, &cbs, a);
    if (s->ready)
        sw_ready_add(s->ready, "connectors");
    sw_informer_start(a->informer);
    side_relays_follow(s->relays, client, s->c->ns);
    if (!s->c->no_register) {
        if (s->ready)
            sw_ready_add(s->ready, "registration");
        try_register(a);
    }
    return a;
}

void side_api_free(struct side_api *a)
{
    if (!a)
        return;
    sw_timer_stop(a->s->loop, &a->timer);
    sw_kube_call_cancel(a->call);
    sw_informer_free(a->informer);
    side_relays_unfollow(a->s->relays);
    SW_MAP_EACH (struct entry, e, &a->by_key) {
        (void)sw_kube_obj_unref(e->obj);
        sw_free(e);
    }
    sw_map_done(&a->by_key);
    sw_map_done(&a->by_id);
    sw_kube_client_free(a->client);
    sw_free(a);
}
