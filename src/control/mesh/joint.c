/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/joint.h"

#include <stdlib.h>
#include <string.h>

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

#include "base/mem.h"
#include "base/search.h"
#include "control/mesh/ledger.h"
#include "control/mesh/message.h"
#include "control/mesh/netgw.h"
#include "control/mesh/service.h"
#include "proto/pb.h"

/* ---- counting ---- */

static void count_cell(struct mesh_pool *p, struct mesh_joint *j, const struct sw_mesh_far *of,
                       bool on)
{
    size_t i = 0;

    while (i < j->cells.n && !sw_slice_eq(mesh_str(j->cells.p[i].network), of->network))
        i++;
    if (i == j->cells.n)
        sw_vec_push(&j->cells, (struct mesh_cell){.network = mesh_text(p, of->network)});
    j->cells.p[i].weight += on ? of->weight : -(uint64_t)of->weight;
    j->cells.p[i].n += on ? 1 : (size_t)-1;
    if (j->cells.p[i].n)
        return;
    mesh_text_drop(p, &j->cells.p[i].network);
    (void)sw_vec_swap_remove(&j->cells, i);
}

static void count_san(struct mesh_pool *p, struct mesh_joint *j, struct sw_slice identity, bool on)
{
    size_t i = 0;

    if (!identity.n)
        return;
    while (i < j->sans.n && !sw_slice_eq(mesh_str(j->sans.p[i].identity), identity))
        i++;
    if (i == j->sans.n)
        sw_vec_push(&j->sans, (struct mesh_san){.identity = mesh_text(p, identity)});
    j->sans.p[i].n += on ? 1 : (size_t)-1;
    if (j->sans.p[i].n)
        return;
    mesh_text_drop(p, &j->sans.p[i].identity);
    (void)sw_vec_swap_remove(&j->sans, i);
}

void mesh_joint_count(struct mesh_pool *p, struct mesh_joint *j, const struct sw_mesh_far *of,
                      bool weighs, bool on)
{
    if (weighs)
        count_cell(p, j, of, on);
    count_san(p, j, of->identity, on);
}

void mesh_joint_elsewhere(struct mesh_joint *j, struct sw_mesh_index *ix, bool on)
{
    for (size_t i = 0; i < j->elsewhere.n; i++) {
        if (j->elsewhere.p[i] == ix) {
            (void)sw_vec_swap_remove(&j->elsewhere, i);
            break;
        }
    }
    if (on)
        sw_vec_push(&j->elsewhere, ix);
}

bool mesh_joint_needed(const struct sw_mesh_index *home, const struct mesh_joint *j)
{
    const struct mesh_offer *o = mesh_offer_find(home, mesh_str(j->key));

    return j->cells.n || j->sans.n || j->elsewhere.n || (o && o->of->global);
}

/* ---- the service ---- */

static int by_address(const void *a, const void *b)
{
    const Sw__MeshNetworkAddress *const *x = a;
    const Sw__MeshNetworkAddress *const *y = b;
    int d = sw_slice_cmp(SW_PB_SLICE((*x)->network), SW_PB_SLICE((*y)->network));

    if (!d)
        d = sw_slice_cmp(SW_PB_SLICE((*x)->address), SW_PB_SLICE((*y)->address));
    return d ? d : ((*x)->length > (*y)->length) - ((*x)->length < (*y)->length);
}

/* The addresses of another cluster's service join those of m. */
static void add_addresses(struct sw_arena *a, Sw__MeshService *m, const Sw__MeshService *other)
{
    Sw__MeshNetworkAddress **all =
        sw_arena_array(a, m->n_addresses + other->n_addresses + 1, sizeof(*all));
    size_t n = 0;

    for (size_t i = 0; i < m->n_addresses; i++)
        all[n++] = m->addresses[i];
    for (size_t i = 0; i < other->n_addresses; i++)
        all[n++] = other->addresses[i];
    qsort(all, n, sizeof(*all), by_address);
    m->n_addresses = 0;
    for (size_t i = 0; i < n; i++) {
        if (!i || by_address(&all[i - 1], &all[i]) != 0)
            all[m->n_addresses++] = all[i];
    }
    m->addresses = all;
}

static int by_bytes(const void *a, const void *b)
{
    const ProtobufCBinaryData *x = a;
    const ProtobufCBinaryData *y = b;

    return sw_slice_cmp(SW_PB_SLICE(*x), SW_PB_SLICE(*y));
}

static void add_sans(struct sw_arena *a, Sw__MeshService *m, const ProtobufCBinaryData *more,
                     size_t n_more)
{
    ProtobufCBinaryData *all = sw_arena_array(a, m->n_subject_alt_names + n_more + 1, sizeof(*all));
    size_t n = 0;

    if (!n_more)
        return;
    for (size_t i = 0; i < m->n_subject_alt_names; i++)
        all[n++] = m->subject_alt_names[i];
    for (size_t i = 0; i < n_more; i++)
        all[n++] = more[i];
    qsort(all, n, sizeof(*all), by_bytes);
    m->n_subject_alt_names = 0;
    for (size_t i = 0; i < n; i++) {
        if (!i || by_bytes(&all[i - 1], &all[i]) != 0)
            all[m->n_subject_alt_names++] = all[i];
    }
    m->subject_alt_names = all;
}

static Sw__MeshService *message_of(struct sw_mesh_index *ix, struct sw_slice key,
                                   struct sw_arena *a)
{
    struct mesh_offer *o = mesh_offer_find(ix, key);

    return o ? mesh_service_message(ix, o, a) : NULL;
}

/* Our own, else that of the first other cluster, with what the others add. NULL: none. */
static Sw__MeshService *merged(struct sw_mesh_index *home, struct mesh_joint *j, struct sw_arena *a)
{
    struct sw_slice key = mesh_str(j->key);
    Sw__MeshService *m = message_of(home, key, a);
    ProtobufCBinaryData *sans = sw_arena_array(a, j->sans.n + 1, sizeof(*sans));

    if (j->elsewhere.n > 1)
        SW_SORT_POINTERS_BY(j->elsewhere.p, j->elsewhere.n, conf.cluster);
    for (size_t i = 0; i < j->elsewhere.n; i++) {
        Sw__MeshService *other = message_of(j->elsewhere.p[i], key, a);

        if (m && other) {
            add_addresses(a, m, other);
            add_sans(a, m, other->subject_alt_names, other->n_subject_alt_names);
        }
        m = m ? m : other;
    }
    for (size_t i = 0; i < j->sans.n; i++)
        sans[i] = SW_PB_BYTES(mesh_str(j->sans.p[i].identity));
    if (m)
        add_sans(a, m, sans, j->sans.n);
    return m;
}

/* ---- split horizon ---- */

/* As the service says; where the workload decides by name, only the far side knows. */
static Sw__MeshServicePorts *ports_of(struct sw_arena *a, struct sw_slice key,
                                      const Sw__MeshService *s)
{
    Sw__MeshServicePorts *m = SW_PB_NEW(a, Sw__MeshServicePorts, sw__mesh_service_ports);

    m->key = SW_PB_BYTES(key);
    m->value = SW_PB_NEW(a, Sw__MeshPortList, sw__mesh_port_list);
    m->value->ports = sw_arena_array(a, s->n_ports + 1, sizeof(void *));
    for (size_t i = 0; i < s->n_ports; i++) {
        Sw__MeshPort *p = SW_PB_NEW(a, Sw__MeshPort, sw__mesh_port);

        p->service_port = s->ports[i]->service_port;
        p->target_port = s->ports[i]->target_port ? s->ports[i]->target_port : p->service_port;
        m->value->ports[m->value->n_ports++] = p;
    }
    return m;
}

/* One for each gateway, between which the weight is shared: where one fails another is tried. */
static void emit_split(struct sw_mesh_index *home, struct mesh_joint *j, const Sw__MeshService *s,
                       const struct mesh_netgw *g, uint64_t weight)
{
    struct sw_arena *a = &home->tmp;
    struct sw_slice key = mesh_str(j->key);
    Sw__MeshWorkload *m = mesh_msg_workload(home, a);
    struct sw_slice uid = sw_slice_str(sw_arena_printf(
        a, "%.*s/SplitHorizonWorkload/%.*s/%.*s/%.*s", SW_SLICE_ARG(g->network),
        SW_SLICE_ARG(g->gateway->key), SW_SLICE_ARG(g->address), SW_SLICE_ARG(key)));
    struct sw_mesh_change c;

    if (mesh_outs_has(&j->outs, uid))
        return; /* two clusters know this gateway */
    m->uid = SW_PB_BYTES(uid);
    m->cluster_id = (ProtobufCBinaryData){0};
    m->namespace_ = s->namespace_;
    m->network = SW_PB_BYTES(g->network);
    m->tunnel_protocol = SW__MESH_WORKLOAD__TUNNEL_PROTOCOL__HBONE;
    m->network_gateway = mesh_msg_netgw(a, g);
    m->capacity = mesh_msg_capacity(a, (uint32_t)sw_min(weight, UINT32_MAX));
    m->locality = mesh_msg_locality(a, &g->gateway->locality);
    m->services = sw_arena_array(a, 1, sizeof(void *));
    m->services[m->n_services++] = ports_of(a, key, s);
    c = mesh_msg_change(a, m);
    mesh_outs_put(home, &j->outs, &c);
}

static void emit_cell(struct sw_mesh_index *home, struct mesh_joint *j, const Sw__MeshService *s,
                      const struct mesh_cell *cell)
{
    const struct mesh_netgw *first = mesh_netgw_first(home, mesh_str(cell->network));
    size_t n = first && cell->weight ? mesh_netgw_count(home, first) : 0;

    for (size_t i = 0; i < n; i++)
        emit_split(home, j, s, &first[i], (cell->weight + n - 1) / n);
}

void mesh_joint_emit(struct sw_mesh_index *home, struct mesh_joint *j)
{
    Sw__MeshService *s = merged(home, j, &home->tmp);
    struct sw_mesh_change c;

    mesh_outs_retire(home, &j->outs);
    if (!s) {
        mesh_retire(home, &j->emitted, mesh_str(j->key));
        return;
    }
    for (size_t i = 0; i < j->cells.n; i++)
        emit_cell(home, j, s, &j->cells.p[i]);
    c = mesh_service_change(&home->tmp, mesh_str(j->key), s);
    mesh_publish(home, &j->emitted, &c);
}

void mesh_joint_free(struct sw_mesh_index *home, struct mesh_pool *p, struct mesh_joint *j)
{
    mesh_outs_retire(home, &j->outs);
    for (size_t i = 0; i < j->cells.n; i++)
        mesh_text_drop(p, &j->cells.p[i].network);
    for (size_t i = 0; i < j->sans.n; i++)
        mesh_text_drop(p, &j->sans.p[i].identity);
    sw_vec_done(&j->cells);
    sw_vec_done(&j->sans);
    sw_vec_done(&j->elsewhere);
    sw_list_unlink(&j->dirty);
    mesh_text_drop(p, &j->key);
    sw_free(j);
}
