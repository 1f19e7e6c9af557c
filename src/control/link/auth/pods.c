/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/pods.h"

#include "base/map.h"
#include "base/mem.h"
#include "control/link/auth/attrs.h"
#include "control/objects.h"
#include "kube/names.h"

enum { IPS_MAX = 16 };

struct pod {
    struct sw_arena arena;
    struct sw_slice key; /* "ns/name" */
    struct sw_attrs attrs;
    struct sw_slice ips[IPS_MAX]; /* canonical texts */
    size_t n_ips;
    bool used;
};

struct sw_link_pods {
    struct sw_map by_key;
    struct sw_map by_ip; /* the pod that came last */
    void (*changed)(void *arg);
    void *arg;
};

struct sw_link_pods *sw_link_pods_new(void (*changed)(void *arg), void *arg)
{
    struct sw_link_pods *p = SW_NEW(struct sw_link_pods);

    p->changed = changed;
    p->arg = arg;
    return p;
}

static void pod_free(struct pod *o)
{
    sw_arena_clear(&o->arena);
    sw_free(o);
}

void sw_link_pods_free(struct sw_link_pods *p)
{
    if (!p)
        return;
    SW_MAP_DRAIN(&p->by_key, pod_free);
    sw_map_done(&p->by_ip);
    sw_free(p);
}

/* ---- reading a Pod ---- */

static bool is_host_ip(const struct sw_json *status, struct sw_slice ip)
{
    const struct sw_json *list = sw_json_find(status, "hostIPs");

    return sw_slice_eq(js_or(status, "hostIP", ""), ip) || sw_json_find_item(list, "ip", ip);
}

static void add_ip(struct pod *o, const struct sw_json *status, struct sw_slice text)
{
    char canonical[SW_IP_TEXT];
    struct sw_ip ip;

    if (!text.n || o->n_ips == IPS_MAX || is_host_ip(status, text) ||
        sw_ip_parse(text, &ip, NULL) != SW_OK)
        return;
    o->ips[o->n_ips++] = sw_arena_slice(&o->arena, sw_slice_str(sw_ip_text(&ip, canonical)));
}

/* A pod that has ended does not own its address any more. */
static bool has_ended(const struct sw_json *status)
{
    struct sw_slice phase = js_or(status, "phase", "");

    return sw_slice_eq_str(phase, "Succeeded") || sw_slice_eq_str(phase, "Failed");
}

static void read_ips(struct pod *o, const struct sw_json *json)
{
    const struct sw_json *status = sw_json_find(json, "status");
    const struct sw_json *list = sw_json_find(status, "podIPs");

    if (has_ended(status) || sw_json_true(sw_json_walk(json, "spec", "hostNetwork", NULL)))
        return;
    for (size_t i = 0; i < sw_json_len(list); i++)
        add_ip(o, status, js_or(sw_json_at(list, i), "ip", ""));
}

static void read_attrs(struct pod *o, const struct sw_json *json, struct sw_slice ns)
{
    const struct sw_json *labels = sw_json_walk(json, "metadata", "labels", NULL);
    struct sw_slice account = sw_json_str(sw_json_walk(json, "spec", "serviceAccountName", NULL));
    size_t room = sw_min(sw_json_len(labels), SW_ATTRS_MAX) + 2;
    struct sw_attr *p = sw_arena_array(&o->arena, room, sizeof(*p));
    size_t n = 0;

    p[n++] = (struct sw_attr){SW_SLICE_LIT(SW_LINK_CLIENT_NS), sw_arena_slice(&o->arena, ns)};
    p[n++] =
        (struct sw_attr){SW_SLICE_LIT(SW_LINK_CLIENT_SA),
                         sw_arena_slice(&o->arena, account.n ? account : SW_SLICE_LIT("default"))};
    for (size_t i = 0; n < room; i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);
        struct sw_slice value = sw_json_str(m->value);

        p[n].key = sw_slice_str(
            sw_arena_printf(&o->arena, "%s%.*s", SW_LINK_CLIENT_LABELS, SW_SLICE_ARG(m->key)));
        p[n++].value = sw_arena_slice(&o->arena, value.p ? value : sw_slice("", 0));
    }
    sw_attrs_sort(p, &n);
    o->attrs = (struct sw_attrs){p, n};
}

/* ---- the table ---- */

static bool same(const struct pod *a, const struct pod *b)
{
    if (a->attrs.n != b->attrs.n || a->n_ips != b->n_ips)
        return false;
    for (size_t i = 0; i < a->attrs.n; i++) {
        if (!sw_slice_eq(a->attrs.p[i].key, b->attrs.p[i].key) ||
            !sw_slice_eq(a->attrs.p[i].value, b->attrs.p[i].value))
            return false;
    }
    for (size_t i = 0; i < a->n_ips; i++) {
        if (!sw_slice_eq(a->ips[i], b->ips[i]))
            return false;
    }
    return true;
}

/* Addresses first: another pod may have got them meanwhile. */
static void detach(struct sw_link_pods *p, struct pod *o)
{
    for (size_t i = 0; i < o->n_ips; i++) {
        if (sw_map_get(&p->by_ip, o->ips[i]) == o)
            (void)sw_map_del(&p->by_ip, o->ips[i]);
    }
    (void)sw_map_del(&p->by_key, o->key);
}

static void attach(struct sw_link_pods *p, struct pod *o)
{
    (void)sw_map_put(&p->by_key, o->key, o);
    for (size_t i = 0; i < o->n_ips; i++) {
        struct pod *before = sw_map_put(&p->by_ip, o->ips[i], o);

        o->used |= before && before->used;
    }
}

void sw_link_pods_set(struct sw_link_pods *p, const struct sw_json *json)
{
    struct sw_slice ns = sw_json_str(sw_json_walk(json, "metadata", "namespace", NULL));
    struct sw_slice name = sw_json_str(sw_json_walk(json, "metadata", "name", NULL));
    struct pod *o = SW_NEW(struct pod);
    struct pod *old;
    bool used = false;

    o->key = sw_name_key(&o->arena, ns, name);
    read_attrs(o, json, ns);
    read_ips(o, json);
    old = sw_map_get(&p->by_key, o->key);
    if (old && same(old, o)) {
        pod_free(o);
        return;
    }
    if (old) {
        used = old->used;
        detach(p, old);
        pod_free(old);
    }
    attach(p, o);
    used |= o->used;
    o->used = false;
    if (used && p->changed)
        p->changed(p->arg);
}

void sw_link_pods_del(struct sw_link_pods *p, struct sw_slice ns, struct sw_slice name)
{
    SW_ARENA_AUTO a = {0};
    struct pod *o = sw_map_get(&p->by_key, sw_name_key(&a, ns, name));
    bool used;

    if (!o)
        return;
    used = o->used;
    detach(p, o);
    pod_free(o);
    if (used && p->changed)
        p->changed(p->arg);
}

const struct sw_attrs *sw_link_pods_find(struct sw_link_pods *p, struct sw_slice address)
{
    char canonical[SW_IP_TEXT];
    struct sw_ip ip;
    struct pod *o;

    if (sw_ip_parse(address, &ip, NULL) != SW_OK)
        return NULL;
    o = sw_map_get(&p->by_ip, sw_slice_str(sw_ip_text(&ip, canonical)));
    if (!o)
        return NULL;
    o->used = true;
    return &o->attrs;
}
