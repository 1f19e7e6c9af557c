/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mesh/source.h"

#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/trim.h"
#include "base/vec.h"
#include "node/cert/channel.h"
#include "node/mesh/identify.h"
#include "node/mesh/mesh.h"
#include "node/mesh/publish.h"
#include "node/mesh/store.h"
#include "node/state/state_int.h"
#include "proto/types.h"
#include "telemetry/metrics.h"
#include "xds/client.h"

enum {
    RESPONSE_MAX = 200 << 20,
    REQUEST_MAX = 256 << 20, /* a million names with their versions */
    /*
     * Responses are taken in whole, so a window binds no memory, but the server waits for every
     * credit: with 256 KiB a thousand times for a million workloads.
     */
    WINDOW = 4 << 20,
    RESOURCES_MAX = 4000000,
    BACKOFF_LEAST_MS = 10,
    BACKOFF_MOST_S = 15,
    PATIENCE_S = 3,         /* for a first answer before what is stored serves */
    SCRATCH_KEEP = 1 << 16, /* between resources */
    BULK = 1000,            /* resources of a response after which memory is given back */
    BULK_S = 1,             /* and when */
};

struct sw_mesh {
    struct sw_loop *loop;
    struct sw_mesh_opts o;
    struct sw_channel *channel;
    struct sw_xds_client *client;
    struct sw_state_builder *builder;
    struct sw_state *state;
    struct sw_mesh_publish publish;
    struct sw_arena scratch;     /* for one resource */
    struct sw_mesh_store *store; /* NULL: nothing is stored */
    struct sw_timer patience;
    struct sw_timer bulk;
    struct sw_map lookups; /* key -> struct lookup */
    bool stored;           /* the state is what was stored, and nothing newer */
    bool got_addresses;    /* of this process's streams, at least once */
    bool got_policies;
    bool ready;
};

struct lookup {
    bool answered;
    bool absent; /* by the answer that there is no such thing */
    size_t n;
    char key[];
};

/* ---- taking resources in ---- */

typedef int (*put_fn)(struct sw_state_builder *b, const struct sw_mesh_item *it,
                      struct sw_arena *scratch, struct sw_err *err);

static void put_all(struct sw_mesh *m, const struct sw_xds_update *u, const char *type, put_fn put)
{
    for (size_t i = 0; i < u->n_added; i++) {
        const struct sw_xds_item *from = &u->added[i];
        struct sw_mesh_item it = {from->name, from->version, from->value};
        struct sw_err err = {0};

        if (!sw_slice_eq_str(from->type, type))
            sw_xds_client_refuse(m->client, type, from->name, "resource of another type");
        else if (put(m->builder, &it, &m->scratch, &err) != SW_OK)
            sw_xds_client_refuse(m->client, type, from->name, err.msg);
        sw_arena_reset(&m->scratch, SCRATCH_KEEP);
    }
}

static void check_ready(struct sw_mesh *m);

/* The messages of a large response were as large as what is kept of it. */
static void on_bulk(struct sw_timer *t)
{
    sw_trim_heap();
}

static void publish(struct sw_mesh *m)
{
    struct sw_state *s = sw_state_commit(m->builder);

    if (s == m->state) {
        (void)sw_state_unref(s);
        return;
    }
    (void)sw_state_unref(m->state);
    m->state = s;
    if (m->store)
        sw_mesh_store_changed(m->store, s);
    /* On demand an answer releases connections, which look into the snapshot at once. */
    sw_mesh_publish(&m->publish, s, m->ready && !m->o.config->xds.on_demand);
}

/*
 * A response was taken in. Until the node serves there are no readers: what comes in many responses
 * is frozen once, not once for each.
 */
static void taken(struct sw_mesh *m, const struct sw_xds_update *u)
{
    if (u->n_added >= BULK)
        sw_timer_start(m->loop, &m->bulk, BULK_S * SW_NS_PER_S, on_bulk);
    if (m->ready)
        publish(m);
}

/* ---- lookups ---- */

static void answered(struct sw_mesh *m, struct sw_slice key, bool absent)
{
    struct lookup *l = sw_map_get(&m->lookups, key);

    if (!l)
        return;
    l->answered = true;
    l->absent = absent;
    m->o.on_found(m->o.arg, key, false);
}

/* A key is answered by a resource of that name, by one it is an alias of, and by its absence. */
static void answer_lookups(struct sw_mesh *m, const struct sw_xds_update *u)
{
    for (size_t i = 0; m->lookups.n && i < u->n_added; i++) {
        answered(m, u->added[i].name, false);
        for (size_t k = 0; k < u->added[i].n_aliases; k++)
            answered(m, u->added[i].aliases[k], false);
    }
    for (size_t i = 0; m->lookups.n && i < u->n_removed; i++)
        answered(m, u->removed[i], true);
}

/*
 * Every address outside of the mesh that some pod once connected to is subscribed to: without this
 * a pod that tries enough of them would leave no room for the destinations of the others.
 */
static void forget_absent(struct sw_mesh *m)
{
    SW_VEC(struct lookup *) gone = {0};

    SW_MAP_EACH (struct lookup, l, &m->lookups) {
        if (l->absent)
            sw_vec_push(&gone, l);
    }
    SW_VEC_FOREACH (struct lookup *, it, &gone) {
        struct sw_slice key = sw_slice((*it)->key, (*it)->n);

        sw_xds_client_unsubscribe(m->client, SW_TYPE_ADDRESS, key);
        (void)sw_map_del(&m->lookups, key);
        sw_free(*it);
    }
    if (gone.n) {
        sw_log_info("xds", "%zu names that the control plane does not know are forgotten", gone.n);
        m->o.on_forgotten(m->o.arg);
    }
    sw_vec_done(&gone);
}

void sw_mesh_lookup(struct sw_mesh *m, struct sw_slice key)
{
    struct lookup *l = sw_map_get(&m->lookups, key);

    if (l) {
        if (l->answered)
            m->o.on_found(m->o.arg, key, false);
        return;
    }
    if (m->lookups.n >= m->o.config->xds.on_demand_max)
        forget_absent(m);
    if (m->lookups.n >= m->o.config->xds.on_demand_max ||
        sw_xds_client_subscribe(m->client, SW_TYPE_ADDRESS, key) != SW_OK) {
        sw_log_warn("xds", "cannot look up '%.*s': %zu names are subscribed to already",
                    SW_SLICE_ARG_MAX(key, 128), m->lookups.n);
        m->o.on_found(m->o.arg, key, true);
        return;
    }
    l = sw_calloc(1, sizeof(*l) + key.n);
    memcpy(l->key, key.p, key.n);
    l->n = key.n;
    (void)sw_map_put(&m->lookups, sw_slice(l->key, l->n), l);
}

/* ---- responses ---- */

static int on_addresses(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct sw_mesh *m = arg;

    for (size_t i = 0; i < u->n_removed; i++)
        (void)sw_mesh_remove_address(m->builder, u->removed[i]);
    put_all(m, u, SW_TYPE_ADDRESS, sw_mesh_put_address);
    taken(m, u);
    answer_lookups(m, u);
    m->got_addresses = true;
    check_ready(m);
    return SW_OK;
}

static int on_policies(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct sw_mesh *m = arg;

    for (size_t i = 0; i < u->n_removed; i++)
        (void)sw_state_remove_policy(m->builder, u->removed[i]);
    put_all(m, u, SW_TYPE_AUTHORIZATION, sw_mesh_put_policy);
    taken(m, u);
    m->got_policies = true;
    check_ready(m);
    return SW_OK;
}

/* ---- what is held, for the first request of a stream ---- */

static void each_address(void *arg,
                         void (*fn)(void *ctx, struct sw_slice name, struct sw_slice version),
                         void *ctx)
{
    struct sw_mesh *m = arg;

    publish(m);
    SW_SMAP_EACH (const struct sw_workload, w, &m->state->t.by_uid) {
        fn(ctx, sw_workload_uid(w, &m->scratch), sw_workload_version(w, &m->scratch));
        sw_arena_reset(&m->scratch, SCRATCH_KEEP);
    }
    SW_SMAP_EACH (const struct sw_service, s, &m->state->t.by_service)
        fn(ctx, sw_slice(s->ns.p, s->ns.n + 1 + s->hostname.n), s->version);
}

static void each_policy(void *arg,
                        void (*fn)(void *ctx, struct sw_slice name, struct sw_slice version),
                        void *ctx)
{
    struct sw_mesh *m = arg;

    publish(m);
    SW_SMAP_EACH (const struct sw_shared_policy, p, &m->state->t.by_policy)
        fn(ctx, p->p->key, p->version);
}

/* ---- readiness ---- */

static void set_stored(struct sw_mesh *m, bool on)
{
    m->stored = on;
    sw_metric_set(sw_metric_get1(m->o.shard, SW_METRIC_MESH_STORED, NULL), on);
}

static void become_ready(struct sw_mesh *m)
{
    if (m->ready)
        return;
    publish(m);
    m->ready = true;
    sw_timer_stop(m->loop, &m->patience);
    sw_timer_start(m->loop, &m->bulk, BULK_S * SW_NS_PER_S, on_bulk);
    m->o.on_ready(m->o.arg);
}

static void check_ready(struct sw_mesh *m)
{
    /* On demand there may be nothing to say about addresses: policies are what counts then. */
    if (!m->got_policies || !(m->got_addresses || m->o.config->xds.on_demand))
        return;
    if (m->stored)
        sw_log_info("xds", "control plane answered: stored state is no longer in use");
    if (m->stored || !m->ready)
        set_stored(m, false);
    become_ready(m);
}

static void use_stored(struct sw_mesh *m)
{
    if (m->ready || !m->stored)
        return;
    sw_log_warn("xds",
                "control plane %s does not answer: serving the stored state of %zu workloads, %zu "
                "services and %zu policies",
                sw_channel_name(m->channel), sw_state_workload_count(m->state),
                sw_state_service_count(m->state), sw_state_policy_count(m->state));
    set_stored(m, true);
    become_ready(m);
}

static void on_patience(struct sw_timer *t)
{
    use_stored(SW_CONTAINER_OF(t, struct sw_mesh, patience));
}

static void on_connection(void *arg, bool connected, const struct sw_err *err)
{
    if (!connected)
        use_stored(arg);
}

/* ---- life ---- */

static struct sw_grpc_call *open_call(void *arg, struct sw_slice path,
                                      const struct sw_grpc_ops *ops, void *call_arg,
                                      struct sw_err *err)
{
    const struct sw_mesh *m = arg;

    return sw_channel_call(m->channel, path, 0, ops, call_arg, err);
}

static int make_channel(struct sw_mesh *m, struct sw_err *err)
{
    const struct sw_node_config *c = m->o.config;
    struct sw_channel_opts o = {.scope = "xds",
                                .address = c->xds.address,
                                .root = c->xds.root_ca,
                                .alt_name = c->xds.alt_hostname,
                                .token = c->ca.auth_token,
                                .machine = c->ca.machine_dir,
                                .cluster_id = c->names.cluster_id,
                                .mark = c->sockets.packet_mark,
                                .max_message = RESPONSE_MAX,
                                .max_queue = REQUEST_MAX,
                                .window = WINDOW,
                                .header_prefix = "XDS_HEADER_"};

    m->channel = sw_channel_new(m->loop, &o, err);
    return m->channel ? SW_OK : err->rc;
}

static int make_client(struct sw_mesh *m, struct sw_err *err)
{
    const struct sw_node_config *c = m->o.config;
    SW_ARENA_AUTO a = {0};
    struct sw_xds_client_opts o = {.open = open_call,
                                   .open_arg = m,
                                   .bare_wildcard = true,
                                   .node_id = sw_mesh_node_id(c, &a),
                                   .metrics = m->o.shard,
                                   .max_response = RESPONSE_MAX,
                                   .max_resources = RESOURCES_MAX,
                                   .backoff_least_ns = BACKOFF_LEAST_MS * SW_NS_PER_MS,
                                   .backoff_most_ns = BACKOFF_MOST_S * SW_NS_PER_S,
                                   .healthy_ns = 1, /* a stream that answered was a good one */
                                   .on_state = on_connection,
                                   .arg = m};
    int rc = sw_mesh_node_metadata(c, environ, &a, &o.node_metadata, err);

    if (rc != SW_OK)
        return rc;
    m->client = sw_xds_client_new(m->loop, &o, err);
    if (!m->client)
        return err->rc;
    sw_xds_client_type(m->client, SW_TYPE_ADDRESS, on_addresses, m);
    sw_xds_client_type(m->client, SW_TYPE_AUTHORIZATION, on_policies, m);
    sw_xds_client_holder(m->client, SW_TYPE_ADDRESS, each_address, m);
    sw_xds_client_holder(m->client, SW_TYPE_AUTHORIZATION, each_policy, m);
    if (c->xds.on_demand)
        sw_xds_client_on_demand(m->client, SW_TYPE_ADDRESS);
    else
        sw_xds_client_wildcard(m->client, SW_TYPE_ADDRESS, true);
    sw_xds_client_wildcard(m->client, SW_TYPE_AUTHORIZATION, true);
    return SW_OK;
}

/* What cannot be read is as good as nothing: the control plane will say it again. */
static int load_stored(struct sw_mesh *m, struct sw_err *err)
{
    const struct sw_node_config *c = m->o.config;
    struct sw_err why = {0};
    int rc;

    if (!c->xds.state_dir)
        return SW_OK;
    m->store = sw_mesh_store_new(m->loop, c->xds.state_dir, err);
    if (!m->store)
        return err->rc;
    rc = sw_mesh_store_load(m->store, m->builder, &why);
    if (rc == SW_OK) {
        m->stored = true;
        return SW_OK;
    }
    if (rc != SW_ENOENT)
        sw_log_warn("xds", "ignoring the stored state: %s", why.msg);
    sw_state_builder_free(m->builder); /* it may have half of it */
    m->builder = sw_state_builder_new(sw_slice_str(c->names.node), true);
    return SW_OK;
}

struct sw_mesh *sw_mesh_new(struct sw_loop *l, const struct sw_mesh_opts *o, struct sw_err *err)
{
    struct sw_mesh *m = SW_NEW(struct sw_mesh);

    m->loop = l;
    m->o = *o;
    sw_mesh_publish_init(&m->publish, l, o->on_state, o->arg);
    m->builder = sw_state_builder_new(sw_slice_str(o->config->names.node), true);
    if (load_stored(m, err) != SW_OK || make_channel(m, err) != SW_OK ||
        make_client(m, err) != SW_OK) {
        sw_mesh_free(m);
        return NULL;
    }
    m->state = sw_state_commit(m->builder);
    return m;
}

void sw_mesh_start(struct sw_mesh *m)
{
    if (m->stored)
        sw_timer_start(m->loop, &m->patience, PATIENCE_S * SW_NS_PER_S, on_patience);
    sw_xds_client_start(m->client);
}

void sw_mesh_free(struct sw_mesh *m)
{
    if (!m)
        return;
    sw_timer_stop(m->loop, &m->patience);
    sw_timer_stop(m->loop, &m->bulk);
    sw_xds_client_free(m->client);
    sw_channel_free(m->channel);
    sw_mesh_store_free(m->store);
    SW_MAP_DRAIN(&m->lookups, sw_free);
    sw_mesh_publish_done(&m->publish);
    (void)sw_state_unref(m->state);
    sw_state_builder_free(m->builder);
    sw_arena_clear(&m->scratch);
    sw_free(m);
}

const struct sw_state *sw_mesh_state(const struct sw_mesh *m)
{
    return m->state;
}
