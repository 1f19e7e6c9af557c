/* SPDX-License-Identifier: Apache-2.0 */
/* What the admin pages show of the store: the resources in force and the state of clusters. */
#include <inttypes.h>

#include <proto/google.pb-c.h>

#include "base/json.h"
#include "base/search.h"
#include "gateway/config/routes.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store.h"
#include "gateway/xds/store_int.h"
#include "proto/json.h"
#include "proto/pb.h"
#include "proto/types.h"

/* The resources of a type, sorted by name; in the arena. */
static struct sw_gw_res **sorted(struct sw_arena *a, const struct sw_gw_store *s, enum sw_gw_type t,
                                 size_t *ret_n)
{
    struct sw_gw_res **out = sw_arena_array(a, s->res[t].n + 1, sizeof(struct sw_gw_res *));
    size_t n = 0;

    SW_MAP_FOREACH (it, &s->res[t])
        out[n++] = it->value;
    SW_SORT_POINTERS_BY(out, n, name);
    *ret_n = n;
    return out;
}

static const char *state_of(const struct sw_gw_res *r)
{
    bool object = r->listener || r->cluster || r->routes;

    if (r->type == SW_GW_TYPE_SECRET || r->type == SW_GW_TYPE_ENDPOINTS)
        return "active";
    if (!r->warming)
        return object ? "active" : "resolving";
    return object ? "active, newer one warming" : "warming";
}

/* Hosts of an accepted table that are not served, and why. */
static void dump_invalid(struct sw_jw *w, const struct sw_gw_routes *t)
{
    sw_jw_put_object(w, "invalid_hosts");
    for (size_t i = 0; i < t->n_vhosts; i++) {
        if (!t->vhosts[i]->invalid)
            continue;
        sw_jw_key(w, t->vhosts[i]->name);
        sw_jw_str(w, t->vhosts[i]->invalid);
    }
    sw_jw_object_end(w);
}

static void dump_one(struct sw_jw *w, const struct sw_gw_res *r)
{
    SW_ARENA_AUTO tmp = {0};
    const struct ProtobufCMessageDescriptor *d =
        sw_pb_type_find(sw_slice_str(sw_gw_type_names[r->type].url));
    const struct ProtobufCMessage *m = sw_pb_unpack(&tmp, d, r->bytes, NULL, NULL);

    sw_jw_object(w);
    sw_jw_put_string(w, "name", r->name);
    sw_jw_put_string(w, "version_info", r->version);
    sw_jw_put_str(w, "state", state_of(r));
    if (r->routes && r->routes->n_invalid)
        dump_invalid(w, r->routes);
    sw_jw_name(w, "resource");
    if (m)
        sw_jw_value(w, sw_pb_to_json(&tmp, m, false));
    else
        sw_jw_null(w);
    sw_jw_object_end(w);
}

int sw_gw_store_dump(struct sw_gw_store *s, struct sw_buf *out)
{
    const struct sw_json_write_opts opts = {.indent = 2};
    SW_ARENA_AUTO tmp = {0};
    struct sw_jw w;

    sw_jw_begin(&w, out, &opts);
    sw_jw_object(&w);
    sw_jw_put_u64(&w, "version", s->version);
    for (int t = 0; t < SW_GW_TYPES; t++) {
        size_t n;
        struct sw_gw_res **list = sorted(&tmp, s, (enum sw_gw_type)t, &n);

        sw_jw_put_array(&w, sw_gw_type_names[t].title);
        for (size_t i = 0; i < n; i++)
            dump_one(&w, list[i]);
        sw_jw_array_end(&w);
    }
    sw_jw_object_end(&w);
    return sw_jw_end(&w);
}

/* ---- /clusters ---- */

static const char *health_text(const struct sw_gw_endpoint *e)
{
    uint32_t h = atomic_load_explicit(&e->member->health, memory_order_relaxed);

    if (h & SW_GW_FAILED_ACTIVE)
        return "/failed_active_hc";
    if (h & SW_GW_FAILED_OUTLIER)
        return "/failed_outlier_check";
    if (h & SW_GW_SET_ASIDE)
        return "/failed_connect";
    if (e->unhealthy)
        return "/failed_eds_health";
    return e->degraded ? "degraded" : "healthy";
}

static int put_member(struct sw_buf *out, struct sw_slice cluster, const struct sw_gw_locality *l,
                      const struct sw_gw_endpoint *e)
{
    const struct sw_gw_member *m = e->member;
    uint64_t rq = 0;
    uint64_t err = 0;
    uint64_t cx_fail = 0;
    uint64_t active = 0;

    for (unsigned i = 0; i < m->n_cells; i++) {
        rq += atomic_load_explicit(&m->cells[i].rq, memory_order_relaxed);
        err += atomic_load_explicit(&m->cells[i].rq_err, memory_order_relaxed);
        cx_fail += atomic_load_explicit(&m->cells[i].cx_fail, memory_order_relaxed);
        active += atomic_load_explicit(&m->cells[i].active, memory_order_relaxed);
    }
#define ROW(format, value)                                                                         \
    (sw_buf_printf(out, "%.*s::%.*s::" format "\n", SW_SLICE_ARG(cluster), SW_SLICE_ARG(m->text),  \
                   (value)) == SW_OK)
    return ROW("rq_total::%" PRIu64, rq) && ROW("rq_error::%" PRIu64, err) &&
                   ROW("cx_connect_fail::%" PRIu64, cx_fail) &&
                   ROW("rq_active::%" PRIu64, active) && ROW("health_flags::%s", health_text(e)) &&
                   ROW("weight::%u", e->weight) && ROW("priority::%u", l->priority)
               ? SW_OK
               : SW_ELIMIT;
#undef ROW
}

static int put_cluster(struct sw_buf *out, const struct sw_gw_res *r)
{
    static const char *const names[] = {"rq_total", "rq_overflow", "rq_retry", "no_host"};
    const struct sw_gw_cluster *c = r->cluster;
    uint64_t sum[4] = {0};
    uint64_t status[6] = {0};
    int rc = SW_OK;

    for (unsigned i = 0; i < c->state->n_cells; i++) {
        struct sw_gw_cluster_cell *cell = &c->state->cells[i];

        sum[0] += atomic_load_explicit(&cell->rq, memory_order_relaxed);
        sum[1] += atomic_load_explicit(&cell->overflow, memory_order_relaxed);
        sum[2] += atomic_load_explicit(&cell->retries, memory_order_relaxed);
        sum[3] += atomic_load_explicit(&cell->no_host, memory_order_relaxed);
        for (int k = 0; k < 6; k++)
            status[k] += atomic_load_explicit(&cell->status[k], memory_order_relaxed);
    }
    for (int k = 0; rc == SW_OK && k < 4; k++)
        rc = sw_buf_printf(out, "%.*s::%s::%" PRIu64 "\n", SW_SLICE_ARG(r->name), names[k], sum[k]);
    if (rc == SW_OK)
        rc = sw_buf_printf(out, "%.*s::rq_failed::%" PRIu64 "\n", SW_SLICE_ARG(r->name), status[0]);
    for (int k = 1; rc == SW_OK && k < 6; k++)
        rc =
            sw_buf_printf(out, "%.*s::rq_%dxx::%" PRIu64 "\n", SW_SLICE_ARG(r->name), k, status[k]);
    for (size_t i = 0; rc == SW_OK && i < c->members->n_localities; i++) {
        const struct sw_gw_locality *l = &c->members->localities[i];

        for (size_t k = 0; rc == SW_OK && k < l->n; k++)
            rc = put_member(out, r->name, l, &l->endpoints[k]);
    }
    return rc;
}

int sw_gw_store_clusters(struct sw_gw_store *s, struct sw_buf *out)
{
    SW_ARENA_AUTO tmp = {0};
    size_t n;
    struct sw_gw_res **list = sorted(&tmp, s, SW_GW_TYPE_CLUSTER, &n);
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < n; i++) {
        if (list[i]->cluster)
            rc = put_cluster(out, list[i]);
        else
            rc = sw_buf_printf(out, "%.*s::state::%s\n", SW_SLICE_ARG(list[i]->name),
                               state_of(list[i]));
    }
    return rc;
}
