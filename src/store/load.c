/* SPDX-License-Identifier: Apache-2.0 */
/* The loading of a file into index and ring. */
#include "store/load.h"

#include <inttypes.h>
#include <stdbool.h>

struct loading {
    struct sw_load *load;
    const char *path;
    uint64_t last; /* revision of the row before */
};

static int bad_row(const struct loading *g, const struct sw_db_row *row, struct sw_err *err)
{
    return sw_err_set(err, SW_EINVAL, "'%s' is damaged: row %" PRIu64 " does not fit the others",
                      g->path, row->revision);
}

/* True when the row continues what the rows before it left. */
static bool row_fits(const struct loading *g, const struct sw_db_row *row,
                     const struct sw_store_obj *there)
{
    if (row->revision <= g->last || row->type < SW_STORE_CREATED || row->type > SW_STORE_DELETED)
        return false;
    if (row->type != SW_STORE_DELETED && !row->value.p)
        return false;
    /* Up to the floor only the versions current at the floor are left. */
    if (row->revision <= g->load->meta.floor)
        return !there && row->type != SW_STORE_DELETED && row->created <= row->revision;
    if (row->type == SW_STORE_CREATED)
        return !there && row->prev == 0 && row->created == row->revision;
    return there && there->revision == row->prev && there->created == row->created;
}

static int load_row(void *arg, const struct sw_db_row *row, struct sw_err *err)
{
    struct loading *g = arg;
    struct sw_load *l = g->load;
    struct sw_store_obj *there = sw_tree_get(l->tree, row->key);
    struct sw_store_obj *obj = NULL;
    struct sw_store_event *e;

    if (!row_fits(g, row, there))
        return bad_row(g, row, err);
    if (row->value.p) {
        obj = sw_store_obj_new(row->key, row->value);
        obj->revision = row->revision;
        obj->created = row->created;
    }
    if (row->revision > l->meta.floor) {
        e = sw_store_event_new((enum sw_store_change)row->type, row->revision, row->wall_ms, obj,
                               there);
        sw_window_push(&l->window, e);
    }
    if (row->type == SW_STORE_DELETED)
        l->tree = sw_tree_del(l->tree, row->key, 1);
    else
        l->tree = sw_tree_put(l->tree, obj, 1);
    (void)sw_store_obj_unref(obj);
    g->last = row->revision;
    l->rows++;
    return SW_OK;
}

int sw_load_run(struct sw_load *l, struct sw_db *db, const char *path, struct sw_err *err)
{
    struct loading g = {.load = l, .path = path};
    int rc;

    *l = (struct sw_load){0};
    rc = sw_db_meta_get(db, &l->meta, err);
    if (rc == SW_OK)
        rc = sw_db_rows(db, load_row, &g, err);
    if (rc != SW_OK) {
        sw_load_done(l);
        return rc;
    }
    l->revision = g.last;
    if (l->revision < l->meta.floor)
        l->revision = l->meta.floor;
    if (l->revision < l->meta.revision)
        l->revision = l->meta.revision;
    return SW_OK;
}

void sw_load_done(struct sw_load *l)
{
    sw_window_done(&l->window);
    l->tree = sw_tree_unref(l->tree);
}
