/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/networks.h"

#include "base/mem.h"
#include "control/mesh/far.h"
#include "control/mesh/joint.h"
#include "control/mesh/ledger.h"
#include "control/mesh/links.h"
#include "control/mesh/model.h"
#include "control/mesh/netgw.h"
#include "control/mesh/read/read.h"

enum { TMP_KEEP = 16384 };

/* Another cluster. */
struct sw_mesh_part {
    struct sw_mesh_networks *of;
    struct sw_mesh_index *ix;
    char *cluster; /* owned */
    bool ready;
    bool leaving;
};

/* A workload on another network, of any cluster. */
struct member {
    struct mesh_text *network;
    struct mesh_text *identity;
    uint32_t weight;
    size_t n;
    size_t n_counted; /* the first ones */
    char *name;       /* owned */
    struct mesh_text *keys[];
};

/* Borrows the text of its members. */
struct net {
    struct mesh_text *network;
    size_t members;
};

struct sw_mesh_networks {
    struct sw_mesh_index *home;
    struct mesh_pool pool;
    SW_VEC(struct sw_mesh_part *) parts;
    struct sw_map members; /* by name of the resource */
    struct sw_map joints;  /* by key of the service */
    SW_VEC(struct net) nets;
    struct sw_list dirty;
    struct mesh_text *network; /* of home, as the others' indexes know it */
    uint64_t netgws_renewed;
    sw_mesh_emit_fn emit;
    void *emit_arg;
};

struct sw_mesh_networks *sw_mesh_networks_new(struct sw_mesh_index *home)
{
    struct sw_mesh_networks *n = SW_NEW(struct sw_mesh_networks);

    n->home = home;
    sw_list_init(&n->dirty);
    return n;
}

/* ---- services ---- */

static void mark(struct sw_mesh_networks *n, struct mesh_joint *j)
{
    if (!sw_list_linked(&j->dirty))
        sw_list_push_back(&n->dirty, &j->dirty);
}

static struct mesh_joint *joint_of(struct sw_mesh_networks *n, struct sw_slice key)
{
    struct mesh_joint *j = sw_map_get(&n->joints, key);

    if (j)
        return j;
    j = SW_NEW(struct mesh_joint);
    j->key = mesh_text(&n->pool, key);
    j->emitted = 1; /* perhaps: our own cluster's went out without us */
    sw_list_init(&j->dirty);
    (void)sw_map_put(&n->joints, mesh_str(j->key), j);
    return j;
}

static bool is_service(struct sw_slice name)
{
    struct sw_slice rest = name;

    (void)sw_slice_cut(&rest, '/');
    return rest.p && sw_slice_find(rest, '/') < 0;
}

static void home_service(struct sw_mesh_networks *n, const struct sw_mesh_change *c)
{
    struct mesh_joint *j = sw_map_get(&n->joints, c->name);

    /* Whether the others' of that name count may have changed. */
    for (size_t i = 0; i < n->parts.n; i++)
        mesh_mark_host(n->parts.p[i]->ix, c->name);
    if (!j && c->global)
        j = joint_of(n, c->name);
    if (j)
        mark(n, j);
    else
        n->emit(n->emit_arg, c);
}

/* ---- workloads ---- */

static void count(struct sw_mesh_networks *n, const struct member *m, bool on)
{
    const struct sw_mesh_far of = {
        .network = mesh_str(m->network), .identity = mesh_str(m->identity), .weight = m->weight};

    for (size_t i = 0; i < m->n; i++) {
        struct mesh_joint *j = joint_of(n, mesh_str(m->keys[i]));

        mesh_joint_count(&n->pool, j, &of, i < m->n_counted, on);
        mark(n, j);
    }
}

static void member_free(struct sw_mesh_networks *n, struct member *m)
{
    mesh_text_drop(&n->pool, &m->network);
    mesh_text_drop(&n->pool, &m->identity);
    for (size_t i = 0; i < m->n; i++)
        mesh_text_drop(&n->pool, &m->keys[i]);
    sw_free(m->name);
    sw_free(m);
}

/* How many of another network there are, by network. */
static void count_network(struct sw_mesh_networks *n, struct mesh_text *network, bool on)
{
    size_t i = 0;

    while (i < n->nets.n && n->nets.p[i].network != network)
        i++;
    if (i == n->nets.n)
        sw_vec_push(&n->nets, (struct net){.network = network});
    n->nets.p[i].members += on ? 1 : (size_t)-1;
    if (!n->nets.p[i].members)
        (void)sw_vec_swap_remove(&n->nets, i);
}

static void leave(struct sw_mesh_networks *n, struct member *m)
{
    count_network(n, m->network, false);
    count(n, m, false);
    member_free(n, m);
}

static void join(struct sw_mesh_networks *n, const struct sw_mesh_change *c)
{
    const struct sw_mesh_far *far = c->far;
    size_t all = far->n_counted + c->n_services;
    struct member *m = sw_calloc(1, sizeof(*m) + all * sizeof(*m->keys));

    m->network = mesh_text(&n->pool, far->network);
    m->identity = mesh_text(&n->pool, far->identity);
    m->weight = far->weight;
    m->n_counted = far->n_counted;
    m->name = sw_slice_dup(c->name);
    for (size_t i = 0; i < far->n_counted; i++)
        m->keys[m->n++] = mesh_text(&n->pool, far->counted[i]);
    for (size_t i = 0; i < c->n_services; i++)
        m->keys[m->n++] = mesh_text(&n->pool, c->services[i]);
    (void)sw_map_put(&n->members, sw_slice_str(m->name), m);
    count_network(n, m->network, true);
    count(n, m, true);
}

/* True when it was on another network before. */
static bool renew_member(struct sw_mesh_networks *n, const struct sw_mesh_change *c)
{
    struct member *old = n->members.n ? sw_map_del(&n->members, c->name) : NULL;

    /* The new one first: what they share is not made anew. */
    if (c->value.p && c->far)
        join(n, c);
    if (old)
        leave(n, old);
    return old != NULL;
}

/* ---- what the indexes say ---- */

static void on_home(void *arg, const struct sw_mesh_change *c)
{
    struct sw_mesh_networks *n = arg;

    if (is_service(c->name)) {
        home_service(n, c);
        return;
    }
    (void)renew_member(n, c);
    n->emit(n->emit_arg, c);
}

static void on_part(void *arg, const struct sw_mesh_change *c)
{
    const struct sw_mesh_part *p = arg;
    struct sw_mesh_networks *n = p->of;
    bool was_far;

    if (is_service(c->name)) {
        struct mesh_joint *j = joint_of(n, c->name);

        mesh_joint_elsewhere(j, p->ix, c->value.p != NULL);
        mark(n, j);
        return;
    }
    was_far = renew_member(n, c);
    if (c->value.p && !c->far)
        n->emit(n->emit_arg, c);
    else if (!was_far) /* it may have been on our network */
        n->emit(n->emit_arg, &(struct sw_mesh_change){.name = c->name});
}

/* ---- clusters ---- */

static struct sw_mesh_part *part_of(const struct sw_mesh_networks *n, struct sw_slice cluster)
{
    for (size_t i = 0; i < n->parts.n; i++) {
        if (!n->parts.p[i]->leaving && sw_slice_eq_str(cluster, n->parts.p[i]->cluster))
            return n->parts.p[i];
    }
    return NULL;
}

struct sw_mesh_part *sw_mesh_networks_add(struct sw_mesh_networks *n, struct sw_slice cluster)
{
    struct sw_mesh_conf conf = n->home->conf;
    struct sw_mesh_part *p;

    if (!mesh_read_is_name(cluster) || sw_slice_eq(cluster, conf.cluster) || part_of(n, cluster))
        return NULL;
    p = SW_NEW(struct sw_mesh_part);
    p->of = n;
    p->cluster = sw_slice_dup(cluster);
    conf.cluster = sw_slice_str(p->cluster);
    conf.network = sw_slice("", 0);
    conf.policies = NULL;
    conf.home = n->home;
    p->ix = sw_mesh_index_new(&conf);
    sw_vec_push(&n->parts, p);
    return p;
}

void sw_mesh_networks_set(struct sw_mesh_part *p, enum sw_mesh_kind kind, const struct sw_json *obj,
                          const char **ret_why)
{
    sw_mesh_index_set(p->ix, kind, obj, ret_why);
    if (kind == SW_MESH_GATEWAY && mesh_set_far_gateway(p->of->home, sw_slice_str(p->cluster), obj))
        mesh_mark_all(p->of->home);
}

void sw_mesh_networks_del(struct sw_mesh_part *p, enum sw_mesh_kind kind, struct sw_slice ns,
                          struct sw_slice name)
{
    sw_mesh_index_del(p->ix, kind, ns, name);
    if (kind == SW_MESH_GATEWAY &&
        mesh_del_far_gateway(p->of->home, sw_slice_str(p->cluster), ns, name))
        mesh_mark_all(p->of->home);
}

void sw_mesh_networks_ready(struct sw_mesh_part *p)
{
    p->ready = true;
}

void sw_mesh_networks_remove(struct sw_mesh_part *p)
{
    p->leaving = true;
    sw_mesh_index_clear(p->ix);
    if (mesh_drop_far_gateways(p->of->home, sw_slice_str(p->cluster)))
        mesh_mark_all(p->of->home);
}

static void part_free(struct sw_mesh_part *p)
{
    sw_mesh_index_free(p->ix);
    sw_free(p->cluster);
    sw_free(p);
}

/* ---- the flush ---- */

static void network_changed(struct sw_mesh_networks *n)
{
    struct mesh_text *now = mesh_text(&n->pool, mesh_str(n->home->network));
    bool same = now == n->network;

    mesh_text_drop(&n->pool, &n->network);
    n->network = now;
    for (size_t i = 0; !same && i < n->parts.n; i++)
        mesh_mark_all(n->parts.p[i]->ix);
}

/* Those that leave before all others: one that comes back has the same names. */
static bool flush_leaving(struct sw_mesh_networks *n, size_t most)
{
    for (size_t i = 0; i < n->parts.n;) {
        struct sw_mesh_part *p = n->parts.p[i];

        if (!p->leaving) {
            i++;
            continue;
        }
        if (!sw_mesh_index_flush(p->ix, most, on_part, p))
            return false;
        part_free(p);
        (void)sw_vec_swap_remove(&n->parts, i);
    }
    return true;
}

static bool flush_parts(struct sw_mesh_networks *n, size_t most)
{
    if (!flush_leaving(n, most))
        return false;
    SW_VEC_EACH (struct sw_mesh_part, p, &n->parts) {
        if (p->ready && !sw_mesh_index_flush(p->ix, most, on_part, p))
            return false;
    }
    return true;
}

static void renew_joint(struct sw_mesh_networks *n, struct mesh_joint *j)
{
    mesh_joint_emit(n->home, j);
    sw_arena_reset(&n->home->tmp, TMP_KEEP);
    if (mesh_joint_needed(n->home, j))
        return;
    (void)sw_map_del(&n->joints, mesh_str(j->key));
    mesh_joint_free(n->home, &n->pool, j);
}

static bool flush_joints(struct sw_mesh_networks *n, size_t most)
{
    size_t left = most ? most : SIZE_MAX;

    if (n->netgws_renewed != n->home->netgws_renewed) {
        n->netgws_renewed = n->home->netgws_renewed;
        SW_MAP_FOREACH (it, &n->joints)
            mark(n, it->value);
    }
    while (!sw_list_empty(&n->dirty) && left--)
        renew_joint(n, SW_CONTAINER_OF(sw_list_pop_front(&n->dirty), struct mesh_joint, dirty));
    return sw_list_empty(&n->dirty);
}

bool sw_mesh_networks_flush(struct sw_mesh_networks *n, size_t most, sw_mesh_emit_fn emit,
                            void *arg)
{
    n->emit = emit;
    n->emit_arg = arg;
    if (!sw_mesh_index_flush(n->home, most, on_home, n))
        return false;
    network_changed(n);
    if (!flush_parts(n, most))
        return false;
    n->home->emit = emit;
    n->home->emit_arg = arg;
    if (!flush_joints(n, most))
        return false;
    mesh_gone_flush(n->home);
    return true;
}

/* ---- questions, the end ---- */

struct sw_mesh_networks_stats sw_mesh_networks_stats(const struct sw_mesh_networks *n)
{
    struct sw_mesh_networks_stats st = {
        .clusters = n->parts.n, .far = n->members.n, .joined = n->joints.n};

    for (size_t i = 0; i < n->nets.n; i++)
        st.doorless += !mesh_netgw_first(n->home, mesh_str(n->nets.p[i].network));
    return st;
}

void sw_mesh_networks_free(struct sw_mesh_networks *n)
{
    if (!n)
        return;
    SW_MAP_FOREACH (it, &n->members)
        member_free(n, it->value);
    SW_MAP_FOREACH (it, &n->joints)
        mesh_joint_free(n->home, &n->pool, it->value);
    sw_vec_done(&n->nets);
    sw_map_done(&n->members);
    sw_map_done(&n->joints);
    for (size_t i = 0; i < n->parts.n; i++)
        part_free(n->parts.p[i]);
    sw_vec_done(&n->parts);
    mesh_text_drop(&n->pool, &n->network);
    mesh_pool_done(&n->pool);
    sw_free(n);
}
