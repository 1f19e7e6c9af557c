/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy objects of a mesh, as a list of JSON objects. Whatever they are: each resource that comes
 * out can be read, each key that a workload lists has one, the order of the objects does not
 * matter, and nothing is left when they are gone.
 */
#include <stdlib.h>
#include <string.h>

#include <proto/workload.pb-c.h>

#include "base/map.h"
#include "base/mem.h"
#include "control/mesh/policy/policy.h"
#include "control/mesh/policy/target.h"
#include "proto/pb.h"

enum { OBJECTS_MAX = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void insist(bool ok)
{
    if (!ok)
        abort();
}

struct outcome {
    struct sw_map all; /* key -> the bytes */
};

struct bytes {
    struct sw_slice key;
    struct sw_slice value;
};

static void bytes_free(struct bytes *b)
{
    sw_slice_free(&b->key);
    sw_slice_free(&b->value);
    sw_free(b);
}

static void on_resource(void *arg, struct sw_slice key, struct sw_slice value)
{
    SW_ARENA_AUTO a = {0};
    struct outcome *o = arg;
    struct bytes *old = sw_map_del(&o->all, key);
    struct bytes *b;

    if (old)
        bytes_free(old);
    if (!value.p)
        return;
    insist(SW_PB_UNPACK(&a, Sw__MeshAuthorization, sw__mesh_authorization, value, NULL, NULL));
    b = SW_NEW(struct bytes);
    b->key = sw_slice(sw_slice_dup(key), key.n);
    b->value = sw_slice(sw_slice_dup(value), value.n);
    (void)sw_map_put(&o->all, b->key, b);
}

static void flush(struct sw_mesh_policies *ix, struct outcome *o)
{
    const struct sw_mesh_policy_sink sink = {.resource = on_resource, .arg = o};

    sw_mesh_policies_flush(ix, &sink);
}

static void done(struct outcome *o)
{
    SW_MAP_FOREACH (it, &o->all)
        bytes_free(it->value);
    sw_map_done(&o->all);
}

static enum sw_mesh_policy_kind kind_of(const struct sw_json *obj)
{
    return sw_json_str_eq(sw_json_find(obj, "kind"), "PeerAuthentication")
               ? SW_MESH_PEER_AUTHENTICATION
               : SW_MESH_AUTHORIZATION_POLICY;
}

static struct sw_slice meta(const struct sw_json *obj, const char *key)
{
    return sw_json_str(sw_json_walk(obj, "metadata", key, NULL));
}

/* The last of several objects of one kind and name is what counts: only those are compared. */
static bool is_last(const struct sw_json *list, size_t i)
{
    const struct sw_json *x = sw_json_at(list, i);

    for (size_t k = i + 1; k < sw_json_len(list); k++) {
        const struct sw_json *y = sw_json_at(list, k);

        if (kind_of(x) == kind_of(y) && sw_slice_eq(meta(x, "name"), meta(y, "name")) &&
            sw_slice_eq(meta(x, "namespace"), meta(y, "namespace")))
            return false;
    }
    return true;
}

/* Every key that workloads of the namespaces list has a resource. */
static void check_keys(struct sw_mesh_policies *ix, const struct sw_json *list, struct outcome *o)
{
    static const struct sw_mesh_label labels[] = {{{"app", 3}, {"a", 1}}, {{"tier", 4}, {"x", 1}}};

    for (size_t i = 0; i < sw_json_len(list); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice rest = sw_mesh_workload_policies(ix, meta(sw_json_at(list, i), "namespace"),
                                                         labels, SW_ARRAY_LEN(labels), &a);

        while (rest.n)
            insist(sw_map_get(&o->all, sw_slice_cut(&rest, '\n')) != NULL);
    }
}

static void check_same(const struct outcome *x, const struct outcome *y)
{
    insist(x->all.n == y->all.n);
    SW_MAP_FOREACH (it, &x->all) {
        const struct bytes *a = it->value;
        const struct bytes *b = sw_map_get(&y->all, a->key);

        insist(b && sw_slice_eq(a->value, b->value));
    }
}

/* Services and entries with an "s" in front are there; those with "sw" are bound. */
static bool find_bound(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret)
{
    (void)arg;
    (void)ns;
    *ret = sw_slice_has_prefix(name, SW_SLICE_LIT("sw")) ? SW_SLICE_LIT("n/w") : sw_slice("", 0);
    return sw_slice_has_prefix(name, SW_SLICE_LIT("s"));
}

static bool find_waypoint(void *arg, struct sw_slice ns, struct sw_slice name)
{
    (void)arg;
    (void)ns;
    return sw_slice_has_prefix(name, SW_SLICE_LIT("w"));
}

static bool find_class(void *arg, struct sw_slice name, struct sw_slice *ret)
{
    (void)arg;
    *ret = SW_SLICE_LIT("istio.io/mesh-controller");
    return sw_slice_has_prefix(name, SW_SLICE_LIT("istio"));
}

/* A condition of targets has a reason that says whether it is good. */
static void check_targets(const struct sw_json *obj)
{
    static const struct sw_mesh_target_lookup lookup = {
        .service = find_bound, .entry = find_bound, .waypoint = find_waypoint, .class = find_class};
    SW_ARENA_AUTO a = {0};
    struct sw_mesh_condition c;

    if (!sw_mesh_policy_targets(&a, obj, SW_SLICE_LIT("root"), &lookup, &c))
        return;
    insist(c.reason[0] && c.message.n);
    insist(c.status ||
           (strcmp(c.reason, "Accepted") != 0 && strcmp(c.reason, "PartiallyInvalid") != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct sw_mesh_policy_conf conf = {.dry_run = true};
    SW_ARENA_AUTO a = {0};
    struct sw_json *list = NULL;
    struct outcome one = {0};
    struct outcome two = {0};
    struct sw_mesh_policies *x;
    struct sw_mesh_policies *y;

    if (sw_json_parse(&a, sw_slice(data, n), NULL, &list, NULL) != SW_OK ||
        !sw_json_is(list, SW_JSON_ARRAY) || sw_json_len(list) > OBJECTS_MAX)
        return 0;
    x = sw_mesh_policies_new(&conf);
    y = sw_mesh_policies_new(&conf);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        sw_mesh_policies_set(x, kind_of(sw_json_at(list, i)), sw_json_at(list, i));
        flush(x, &one);
        check_keys(x, list, &one);
        check_targets(sw_json_at(list, i));
    }
    for (size_t i = sw_json_len(list); i > 0; i--) {
        if (is_last(list, i - 1))
            sw_mesh_policies_set(y, kind_of(sw_json_at(list, i - 1)), sw_json_at(list, i - 1));
    }
    flush(y, &two);
    check_same(&one, &two);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *obj = sw_json_at(list, i);

        sw_mesh_policies_del(x, kind_of(obj), meta(obj, "namespace"), meta(obj, "name"));
    }
    flush(x, &one);
    insist(one.all.n == 0);
    sw_mesh_policies_free(x);
    sw_mesh_policies_free(y);
    done(&one);
    done(&two);
    return 0;
}
