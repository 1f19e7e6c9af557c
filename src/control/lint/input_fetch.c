/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a server's whole state for the linter. */
#include <string.h>

#include "base/time.h"
#include "control/lint/input.h"
#include "io/loop.h"
#include "xds/cache.h"
#include "xds/client.h"

enum {
    TURN_MS = 50,
};

static const char *const types[] = {SW_XDS_CLUSTER, SW_XDS_ENDPOINT, SW_XDS_LISTENER, SW_XDS_ROUTE,
                                    SW_XDS_SECRET};

struct fetch {
    struct sw_xds_set *set;
    uint64_t last_ns;  /* something came */
    struct sw_err why; /* of the last connection that ended */
};

static const char *known_type(struct sw_slice type)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        if (sw_slice_eq_str(type, types[i]))
            return types[i];
    }
    return NULL;
}

static void put(struct fetch *f, const char *type, const struct sw_xds_item *it)
{
    struct sw_arena *a = &f->set->arena;
    struct sw_model_resource r = {
        .type = type, .name = sw_arena_slice(a, it->name), .value = sw_arena_slice(a, it->value)};

    sw_vec_push(&f->set->list, r);
}

/* A resource that comes again replaces the one before. */
static void forget(struct fetch *f, const char *type, struct sw_slice name)
{
    for (size_t i = 0; i < f->set->list.n; i++) {
        if (f->set->list.p[i].type == type && sw_slice_eq(f->set->list.p[i].name, name)) {
            sw_vec_swap_remove(&f->set->list, i);
            return;
        }
    }
}

static int on_update(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct fetch *f = arg;
    const char *type = known_type(u->type);

    if (!type)
        return SW_OK;
    f->last_ns = sw_now_ns();
    for (size_t i = 0; i < u->n_removed; i++)
        forget(f, type, u->removed[i]);
    for (size_t i = 0; i < u->n_added; i++)
        put(f, type, &u->added[i]);
    return SW_OK;
}

static void on_state(void *arg, bool connected, const struct sw_err *err)
{
    struct fetch *f = arg;

    if (!connected && err)
        f->why = *err;
}

/* Everything is there, or everything that will come. */
static bool finished(const struct fetch *f, const struct sw_xds_client *c)
{
    size_t ready = 0;

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++)
        ready += sw_xds_client_ready(c, types[i]);
    if (ready == SW_ARRAY_LEN(types))
        return true;
    return sw_xds_client_ready(c, SW_XDS_CLUSTER) && sw_xds_client_ready(c, SW_XDS_LISTENER) &&
           sw_now_ns() - f->last_ns > SW_NS_PER_S;
}

static int receive(struct fetch *f, struct sw_loop *l, struct sw_xds_client *c, uint64_t timeout_ns,
                   struct sw_err *err)
{
    uint64_t start = sw_now_ns();

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        sw_xds_client_type(c, types[i], on_update, f);
        sw_xds_client_wildcard(c, types[i], true);
    }
    sw_xds_client_start(c);
    while (!finished(f, c)) {
        if (sw_now_ns() - start > timeout_ns)
            return sw_err_set(err, SW_ETIME, "no listeners and clusters came in time%s%s",
                              f->why.msg[0] ? ": " : "", f->why.msg);
        sw_loop_turn(l, TURN_MS);
    }
    return SW_OK;
}

int sw_xds_set_fetch(struct sw_xds_set *s, const struct sw_xds_fetch *f, struct sw_err *err)
{
    struct fetch state = {.set = s};
    struct sw_xds_client_opts o = {.host = f->host,
                                   .port = f->port,
                                   .cred = f->cred,
                                   .token_file = f->token_file,
                                   .node_id = f->node_id,
                                   .node_cluster = SW_SLICE_LIT("lint"),
                                   .on_state = on_state,
                                   .arg = &state};
    struct sw_loop *l = sw_loop_new(err);
    struct sw_xds_client *c;
    int rc = SW_ESYS;

    if (!l)
        return rc;
    c = sw_xds_client_new(l, &o, err);
    rc = c ? receive(&state, l, c, f->timeout_ns, err) : SW_EINVAL;
    sw_xds_client_free(c);
    sw_loop_turn(l, 0); /* what was deferred */
    sw_loop_free(l);
    return rc;
}
