/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/mesh.h"

#include "base/mem.h"
#include "control/mesh/controller.h"

struct sw_control_mesh {
    struct sw_mesh_controller *controller;
    struct sw_arena arena;
};

static int read_prefix(const char *flag, const char *text, uint8_t family, struct sw_cidr *ret,
                       struct sw_err *err)
{
    if (sw_cidr_parse(sw_slice_str(text), ret, err) != SW_OK)
        return sw_err_prefix(err, "%s", flag);
    return ret->ip.family == family
               ? SW_OK
               : sw_err_set(err, SW_EINVAL, "%s: '%.60s' is of the other family", flag, text);
}

/* Names of resources are made of it, with slashes between the parts. */
static int check_name(const char *flag, const char *text, struct sw_err *err)
{
    struct sw_slice s = sw_slice_str(text);

    if (!s.n || s.n > 253 || sw_slice_find(s, '/') >= 0 || sw_slice_find(s, ' ') >= 0)
        return sw_err_set(err, SW_EINVAL, "%s: '%.60s' is not a name", flag, text);
    return SW_OK;
}

/* "SELECTOR of Services[;SELECTOR of namespaces]", each, in the arena. */
static int read_scopes(const struct sw_opt_list *l, struct sw_arena *a, struct sw_mesh_conf *ret,
                       struct sw_err *err)
{
    struct sw_mesh_scope *all = sw_arena_array(a, l->n + 1, sizeof(*all));

    for (size_t i = 0; i < l->n; i++) {
        struct sw_slice spaces = sw_slice_str(l->p[i]);
        struct sw_slice services = sw_slice_cut(&spaces, ';');
        const char *why = NULL;

        if (sw_label_selector_parse(a, services, &all[i].services, &why) != SW_OK ||
            sw_label_selector_parse(a, spaces.p ? spaces : sw_slice("", 0), &all[i].namespaces,
                                    &why) != SW_OK)
            return sw_err_set(err, SW_EINVAL, "--mesh-global '%.60s': %s", l->p[i], why);
    }
    ret->scopes = all;
    ret->n_scopes = l->n;
    return SW_OK;
}

static bool visibility_named(struct sw_slice name, enum sw_mesh_visibility *ret)
{
    static const char *const names[] = {[SW_MESH_VISIBILITY_UNSET] = "unset",
                                        [SW_MESH_VISIBILITY_PUBLIC] = "public",
                                        [SW_MESH_VISIBILITY_NAMESPACE] = "namespace",
                                        [SW_MESH_VISIBILITY_NONE] = "none"};

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (!sw_slice_eq_str(name, names[i]))
            continue;
        *ret = (enum sw_mesh_visibility)i;
        return true;
    }
    return false;
}

/* "VISIBILITY[;SELECTOR of namespaces]", each, in the arena. */
static int read_visibilities(const struct sw_opt_list *l, struct sw_arena *a,
                             struct sw_mesh_conf *ret, struct sw_err *err)
{
    struct sw_mesh_visibility_rule *all = sw_arena_array(a, l->n + 1, sizeof(*all));

    for (size_t i = 0; i < l->n; i++) {
        struct sw_slice spaces = sw_slice_str(l->p[i]);
        struct sw_slice name = sw_slice_cut(&spaces, ';');
        const char *why = "not one of: unset, public, namespace, none";

        if (!visibility_named(name, &all[i].visibility))
            return sw_err_set(err, SW_EINVAL, "--mesh-entry-visibility '%.60s': %s", l->p[i], why);
        if (all[i].visibility == SW_MESH_VISIBILITY_UNSET && (l->n > 1 || spaces.p))
            return sw_err_set(err, SW_EINVAL,
                              "--mesh-entry-visibility: unset stands alone, without a selector");
        if (sw_label_selector_parse(a, spaces.p ? spaces : sw_slice("", 0), &all[i].namespaces,
                                    &why) != SW_OK)
            return sw_err_set(err, SW_EINVAL, "--mesh-entry-visibility '%.60s': %s", l->p[i], why);
    }
    ret->visibilities = all;
    ret->n_visibilities = l->n;
    ret->visibility = SW_MESH_VISIBILITY_PUBLIC;
    return SW_OK;
}

static int read_conf(const struct sw_control_mesh_opts *o, struct sw_arena *a,
                     struct sw_mesh_status_conf *ret, struct sw_err *err)
{
    const struct {
        const char *flag;
        const char *text;
    } names[] = {{"--cluster-id", o->cluster_id},
                 {"--trust-domain", o->trust_domain},
                 {"--cluster-domain", o->domain},
                 {"--mesh-root-namespace", o->root_ns},
                 {"--mesh-network", o->network}};
    int rc = SW_OK;

    *ret = (struct sw_mesh_status_conf){
        .mesh = {.cluster = sw_slice_str(o->cluster_id),
                 .trust_domain = sw_slice_str(o->trust_domain),
                 .domain = sw_slice_str(o->domain),
                 .root_ns = sw_slice_str(o->root_ns),
                 .network = sw_slice_str(o->network ? o->network : ""),
                 .revision = sw_slice_str(o->revision ? o->revision : "")},
        .policy = {.root_ns = sw_slice_str(o->root_ns),
                   .trust_domain = sw_slice_str(o->trust_domain),
                   .revision = sw_slice_str(o->revision ? o->revision : ""),
                   .dry_run = o->dry_run,
                   .allow_waypoints = o->allow_waypoints},
        .allocate = o->allocate};
    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(names); i++) {
        if (names[i].text) /* a network need not be given */
            rc = check_name(names[i].flag, names[i].text, err);
    }
    if (rc == SW_OK)
        rc = read_scopes(&o->global, a, &ret->mesh, err);
    if (rc == SW_OK)
        rc = read_visibilities(&o->visibility, a, &ret->mesh, err);
    if (rc == SW_OK)
        rc = read_prefix("--mesh-allocate-ipv4", o->prefix4, 4, &ret->prefix4, err);
    if (rc == SW_OK)
        rc = read_prefix("--mesh-allocate-ipv6", o->prefix6, 6, &ret->prefix6, err);
    return rc;
}

struct sw_control_mesh *sw_control_mesh_new(struct sw_kube_client *client,
                                            struct sw_xds_cache *cache,
                                            struct sw_metrics_shard *metrics,
                                            const struct sw_control_mesh_opts *o,
                                            struct sw_err *err)
{
    struct sw_control_mesh *m = SW_NEW(struct sw_control_mesh);
    struct sw_mesh_controller_opts co = {
        .cache = cache,
        .metrics = metrics,
        .statuses = o->statuses,
        .clusters = o->clusters,
        .threaded = true,
        .election = sw_control_election(o->lease_ns, "spanwire-mesh", o->identity),
    };

    if (read_conf(o, &m->arena, &co.conf, err) == SW_OK)
        m->controller = sw_mesh_controller_new(client, &co, err);
    if (!m->controller) {
        sw_control_mesh_free(m);
        return NULL;
    }
    sw_mesh_controller_start(m->controller);
    return m;
}

void sw_control_mesh_stop(struct sw_control_mesh *m, void (*done)(void *arg), void *arg)
{
    sw_mesh_controller_stop(m->controller, done, arg);
}

void sw_control_mesh_free(struct sw_control_mesh *m)
{
    if (!m)
        return;
    sw_mesh_controller_free(m->controller);
    sw_arena_clear(&m->arena);
    sw_free(m);
}
