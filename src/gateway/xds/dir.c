/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from the files of a directory, for tests and for gateways without a control plane. */
#include <dirent.h>
#include <errno.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/vec.h"
#include "gateway/xds/dir.h"
#include "gateway/xds/store.h"
#include "gateway/xds/store_int.h"
#include "io/filewatch.h"
#include "proto/json.h"
#include "proto/types.h"
#include "yaml/yaml.h"

enum { FILE_MAX = 64 << 20, FILES_MAX = 10000 };

struct sw_gw_dir {
    struct sw_gw_store *store; /* borrowed */
    struct sw_filewatch *watch;
    char *path; /* owned */
};

/* ---- resources ---- */

struct batch {
    struct sw_arena arena;
    SW_VEC(struct sw_gw_resource) res[SW_GW_TYPES];
};

static int add_resource(struct batch *b, const struct sw_json *v, struct sw_err *err)
{
    struct sw_slice url = sw_json_str(sw_json_find(v, "@type"));
    struct sw_gw_resource r = {0};
    enum sw_gw_type t;
    struct sw_json *body;
    int rc;

    if (!url.p)
        return sw_err_set(err, SW_EINVAL, "a resource without '@type'");
    if (!sw_gw_type_parse(sw_slice_has_prefix(url, SW_SLICE_LIT(SW_TYPE_PREFIX))
                              ? sw_slice_from(url, sizeof(SW_TYPE_PREFIX) - 1)
                              : url,
                          &t))
        return sw_err_set(err, SW_EINVAL, "'%.*s' is not a type of resource",
                          SW_SLICE_ARG_MAX(url, 80));
    body = sw_json_copy(&b->arena, v);
    (void)sw_json_remove(body, SW_SLICE_LIT("@type"));
    r.name = sw_json_str(sw_json_find(body, t == SW_GW_TYPE_ENDPOINTS ? "cluster_name" : "name"));
    if (t == SW_GW_TYPE_ENDPOINTS && !r.name.p)
        r.name = sw_json_str(sw_json_find(body, "clusterName"));
    if (r.name.n == 0)
        return sw_err_set(err, SW_EINVAL, "a resource without a name");
    rc = sw_pb_from_json(&b->arena, sw_pb_type_find(url), body, &r.bytes, err);
    if (rc < 0)
        return sw_err_prefix(err, "'%.*s'", SW_SLICE_ARG_MAX(r.name, 60));
    if (!r.bytes.p)
        r.bytes = sw_slice("", 0);
    sw_vec_push(&b->res[t], r);
    return SW_OK;
}

static int add_document(struct batch *b, const struct sw_json *v, struct sw_err *err)
{
    const struct sw_json *list = sw_json_find(v, "resources");
    int rc = SW_OK;

    if (v->type == SW_JSON_NULL)
        return SW_OK;
    if (!list && v->type == SW_JSON_ARRAY)
        list = v;
    if (!list)
        return add_resource(b, v, err);
    if (list->type != SW_JSON_ARRAY)
        return sw_err_set(err, SW_EINVAL, "'resources' is not a list");
    for (size_t i = 0; rc == SW_OK && i < list->arr.n; i++)
        rc = add_resource(b, list->arr.items[i], err);
    return rc;
}

static int add_file(struct batch *b, const char *path, struct sw_err *err)
{
    struct sw_slice text;
    struct sw_yaml_stream docs;
    int rc = sw_file_read(path, FILE_MAX, &text, err);

    if (rc < 0)
        return rc;
    rc = sw_yaml_parse(&b->arena, text, NULL, &docs, err); /* JSON is YAML */
    for (size_t i = 0; rc == SW_OK && i < docs.n; i++)
        rc = add_document(b, sw_yaml_to_json(&b->arena, docs.docs[i]), err);
    sw_slice_free(&text);
    return rc;
}

/* All of a file or nothing. */
static bool add_whole_file(struct batch *b, const char *path)
{
    struct sw_err err = {0};
    size_t had[SW_GW_TYPES];

    for (int t = 0; t < SW_GW_TYPES; t++)
        had[t] = b->res[t].n;
    if (add_file(b, path, &err) == SW_OK)
        return true;
    sw_log_warn("config", "%s: %s", path, err.msg);
    for (int t = 0; t < SW_GW_TYPES; t++)
        b->res[t].n = had[t];
    return false;
}

static bool wanted_file(const char *name)
{
    struct sw_slice s = sw_slice_str(name);

    return name[0] != '.' && (sw_slice_has_suffix(s, SW_SLICE_LIT(".yaml")) ||
                              sw_slice_has_suffix(s, SW_SLICE_LIT(".yml")) ||
                              sw_slice_has_suffix(s, SW_SLICE_LIT(".json")));
}

/* SW_OK when every file could be read; each failure is logged. */
static int read_dir(struct sw_gw_dir *d, struct batch *b)
{
    DIR *dir = opendir(d->path);
    SW_VEC(char *) names = {0};
    struct dirent *e;
    int rc = SW_OK;

    if (!dir) {
        struct sw_err err;

        (void)sw_err_sys(&err, errno, "cannot read '%s'", d->path);
        sw_log_warn("config", "%s", err.msg);
        return SW_ESYS;
    }
    while ((e = readdir(dir)) != NULL && names.n < FILES_MAX) { /* NOLINT(concurrency-mt-unsafe) */
        if (wanted_file(e->d_name))
            sw_vec_push(&names, sw_arena_printf(&b->arena, "%s/%s", d->path, e->d_name));
    }
    (void)closedir(dir);
    if (names.n)
        sw_text_sort(names.p, names.n);
    for (size_t i = 0; i < names.n; i++) {
        if (!add_whole_file(b, names.p[i]))
            rc = SW_EINVAL;
    }
    sw_vec_done(&names);
    return rc;
}

/* ---- the whole truth ---- */

static int apply_type(struct sw_gw_dir *d, struct batch *b, enum sw_gw_type t, bool remove)
{
    SW_VEC(struct sw_slice) gone = {0};
    struct sw_map have = {0};
    struct sw_gw_delta delta = {.type = t};
    int rc;

    if (!remove) {
        delta.changed = b->res[t].p;
        delta.n_changed = b->res[t].n;
        return sw_gw_store_update(d->store, &delta, NULL);
    }
    for (size_t i = 0; i < b->res[t].n; i++)
        (void)sw_map_put(&have, b->res[t].p[i].name, &b->res[t].p[i]);
    SW_MAP_FOREACH (it, &d->store->res[t]) {
        if (!sw_map_get(&have, it->key))
            sw_vec_push(&gone, sw_arena_slice(&b->arena, it->key));
    }
    delta.removed = gone.p;
    delta.n_removed = gone.n;
    rc = sw_gw_store_update(d->store, &delta, NULL);
    sw_vec_done(&gone);
    sw_map_done(&have);
    return rc;
}

int sw_gw_dir_reload(struct sw_gw_dir *d)
{
    /* Make before break: what others need first, removals last. */
    static const enum sw_gw_type order[] = {SW_GW_TYPE_SECRET, SW_GW_TYPE_ENDPOINTS,
                                            SW_GW_TYPE_CLUSTER, SW_GW_TYPE_ROUTES,
                                            SW_GW_TYPE_LISTENER};
    struct batch b = {0};
    int rc = read_dir(d, &b);
    bool whole = rc == SW_OK;

    for (size_t i = 0; rc != SW_ESYS && i < SW_ARRAY_LEN(order); i++) {
        if (apply_type(d, &b, order[i], false) < 0)
            rc = SW_EINVAL;
    }
    /* What a broken file held is not known: nothing goes. */
    for (size_t i = SW_ARRAY_LEN(order); whole && i-- > 0;)
        (void)!apply_type(d, &b, order[i], true);
    for (int i = 0; i < SW_GW_TYPES; i++)
        sw_vec_done(&b.res[i]);
    sw_arena_clear(&b.arena);
    return rc;
}

static void on_change(void *arg)
{
    struct sw_gw_dir *d = arg;

    if (sw_gw_dir_reload(d) == SW_OK)
        sw_log_info("config", "resources of '%s' loaded", d->path);
}

struct sw_gw_dir *sw_gw_dir_new(struct sw_gw_store *s, struct sw_loop *l, const char *path,
                                struct sw_err *err)
{
    struct sw_gw_dir *d = SW_NEW(struct sw_gw_dir);
    char *inside = sw_asprintf("%s/", path);

    d->store = s;
    d->path = sw_strdup(path);
    d->watch = sw_filewatch_new(l, inside, on_change, d, err);
    sw_free(inside);
    if (!d->watch) {
        sw_gw_dir_free(d);
        return NULL;
    }
    (void)!sw_gw_dir_reload(d); /* what is good serves */
    return d;
}

void sw_gw_dir_free(struct sw_gw_dir *d)
{
    if (!d)
        return;
    sw_filewatch_free(d->watch);
    sw_free(d->path);
    sw_free(d);
}
