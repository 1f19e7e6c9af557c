/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/roster.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"
#include "kube/client/kubeconfig.h"
#include "quic/id/nodeid.h"

/* As the control plane has them (control/connector/connector.h). */
#define SYSTEM_NS   "spanwire-system"
#define IS_GATEWAY  "spanwire.dev/gateway-identity=true"
#define GATHER_NS   (50 * SW_NS_PER_MS)
#define ROSTER_ROOM 1000000 /* ids; more are not known */

static const struct sw_kube_gvr connectors = {.group = "networking.datumapis.com",
                                              .version = "v1alpha1",
                                              .resource = "connectors",
                                              .kind = "Connector",
                                              .namespaced = true};

/* ---- snapshots ---- */

struct ids {
    struct sw_nodeid *p; /* sorted */
    size_t n;
};

struct relay_roster {
    _Atomic unsigned refs;
    struct ids devices;
    struct ids gateways;
};

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, SW_NODEID_LEN);
}

static bool has(const struct ids *s, const struct sw_nodeid *id)
{
    return s->n && bsearch(id, s->p, s->n, sizeof(*s->p), by_bytes) != NULL;
}

enum relay_kin relay_roster_find(const struct relay_roster *r, const struct sw_nodeid *id)
{
    if (has(&r->gateways, id))
        return RELAY_GATEWAY;
    return has(&r->devices, id) ? RELAY_DEVICE : RELAY_STRANGER;
}

size_t relay_roster_count(const struct relay_roster *r, enum relay_kin kin)
{
    return kin == RELAY_DEVICE ? r->devices.n : kin == RELAY_GATEWAY ? r->gateways.n : 0;
}

struct relay_roster *relay_roster_ref(struct relay_roster *r)
{
    (void)atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

struct relay_roster *relay_roster_unref(struct relay_roster *r)
{
    if (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
        sw_free(r->devices.p);
        sw_free(r->gateways.p);
        sw_free(r);
    }
    return NULL;
}

/* ---- following ---- */

struct source {
    struct sw_informer *informer;
    struct relay_roster_follow *f;
    bool synced;
};

struct relay_roster_follow {
    struct sw_loop *loop;
    struct sw_kube_client *client;
    struct source devices;
    struct source gateways;
    struct sw_timer gather;
    relay_roster_cb cb;
    void *arg;
};

static struct sw_slice id_text(const struct source *s, const struct sw_kube_obj *o)
{
    if (s == &s->f->gateways)
        return sw_json_str(sw_json_walk(o->json, "data", "id", NULL));
    return sw_json_str(
        sw_json_walk(o->json, "status", "connectionDetails", "publicKey", "id", NULL));
}

static void read_ids(const struct source *s, struct ids *ret)
{
    struct sw_kube_obj **list = NULL;
    size_t n = sw_informer_list(s->informer, &list);

    ret->p = SW_NEW_ARRAY(struct sw_nodeid, n + 1);
    for (size_t i = 0; i < n; i++) {
        if (ret->n < ROSTER_ROOM &&
            sw_nodeid_parse(id_text(s, list[i]), &ret->p[ret->n], NULL) == SW_OK)
            ret->n++;
        (void)sw_kube_obj_unref(list[i]);
    }
    sw_free(list);
    qsort(ret->p, ret->n, sizeof(*ret->p), by_bytes);
}

static void on_gathered(struct sw_timer *t)
{
    struct relay_roster_follow *f = SW_CONTAINER_OF(t, struct relay_roster_follow, gather);
    struct relay_roster *r = SW_NEW(struct relay_roster);

    atomic_init(&r->refs, 1);
    read_ids(&f->devices, &r->devices);
    read_ids(&f->gateways, &r->gateways);
    f->cb(f->arg, r, f->devices.synced && f->gateways.synced);
}

/* Many changes come together: one snapshot for all. */
static void changed(struct source *s)
{
    if (!sw_timer_running(&s->f->gather))
        sw_timer_start(s->f->loop, &s->f->gather, GATHER_NS, on_gathered);
}

static void on_add(void *arg, struct sw_kube_obj *o)
{
    struct source *s = arg;

    if (id_text(s, o).n)
        changed(s);
}

/* Leases and conditions change statuses all the time; keys do not. */
static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    struct source *s = arg;

    if (!sw_slice_eq(id_text(s, old), id_text(s, now)))
        changed(s);
}

static void on_synced(void *arg)
{
    struct source *s = arg;

    s->synced = true;
    changed(s);
}

static const struct sw_informer_cbs cbs = {
    .add = on_add, .update = on_update, .del = on_add, .synced = on_synced};

static void follow(struct relay_roster_follow *f, struct source *s,
                   const struct sw_informer_opts *o)
{
    s->f = f;
    s->informer = sw_informer_new(f->client, o, &cbs, s);
    sw_informer_start(s->informer);
}

struct relay_roster_follow *relay_roster_follow(struct sw_loop *l, const char *kubeconfig,
                                                relay_roster_cb cb, void *arg, struct sw_err *err)
{
    struct sw_kube_config cfg = {0};
    struct sw_kube_client *client = NULL;
    struct relay_roster_follow *f;

    if (sw_kubeconfig_load(kubeconfig, NULL, &cfg, err) == SW_OK)
        client = sw_kube_client_new(l, &cfg, NULL, err);
    if (!client)
        return NULL;
    f = SW_NEW(struct relay_roster_follow);
    f->loop = l;
    f->client = client;
    f->cb = cb;
    f->arg = arg;
    follow(f, &f->devices,
           &(struct sw_informer_opts){.gvr = &connectors, .optional = true, .slim = true});
    follow(f, &f->gateways,
           &(struct sw_informer_opts){.gvr = &sw_configmaps_gvr,
                                      .ns = SW_SLICE_LIT(SYSTEM_NS),
                                      .label_selector = IS_GATEWAY});
    on_gathered(&f->gather); /* empty at first */
    return f;
}

void relay_roster_unfollow(struct relay_roster_follow *f)
{
    if (!f)
        return;
    sw_timer_stop(f->loop, &f->gather);
    sw_informer_free(f->devices.informer);
    sw_informer_free(f->gateways.informer);
    sw_kube_client_free(f->client);
    sw_free(f);
}
