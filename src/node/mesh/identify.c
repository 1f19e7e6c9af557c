/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mesh/identify.h"

#include "base/json.h"
#include "base/utf8.h"
#include "proto/json.h"

#include <proto/google.pb-c.h>

enum { JSON_DEPTH = 32, JSON_BYTES = 1 << 20 };

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

static const char *own_ip(const struct sw_node_config *c)
{
    return c->names.instance_ip && c->names.instance_ip[0] ? c->names.instance_ip : "1.1.1.1";
}

struct sw_slice sw_mesh_node_id(const struct sw_node_config *c, struct sw_arena *a)
{
    const char *ns = or_empty(c->names.pod_namespace);

    return sw_slice_str(sw_arena_printf(a, "ztunnel~%s~%s.%s~%s.svc.cluster.local", own_ip(c),
                                        or_empty(c->names.pod), ns, ns));
}

static int put_env(struct sw_arena *a, struct sw_json *to, const char *entry, struct sw_err *err)
{
    static const struct sw_json_opts bounds = {.max_bytes = JSON_BYTES, .max_depth = JSON_DEPTH};
    const struct sw_slice plain = SW_SLICE_LIT("ISTIO_META_");
    const struct sw_slice json = SW_SLICE_LIT("ISTIO_METAJSON_");
    struct sw_slice value = sw_slice_str(entry);
    struct sw_slice name = sw_slice_cut(&value, '=');
    struct sw_json *v;

    if (!value.p)
        return SW_OK;
    if (sw_slice_has_prefix(name, plain)) {
        /* The environment may hold any bytes; messages hold UTF-8. */
        if (sw_utf8_valid(value))
            sw_json_set(a, to, sw_slice_from(name, plain.n), sw_json_new_string(a, value));
        return SW_OK;
    }
    if (!sw_slice_has_prefix(name, json))
        return SW_OK;
    if (sw_json_parse(a, value, &bounds, &v, err) != SW_OK)
        return sw_err_prefix(err, "%.*s", SW_SLICE_ARG_MAX(name, 80));
    sw_json_set(a, to, sw_slice_from(name, json.n), v);
    return SW_OK;
}

int sw_mesh_node_metadata(const struct sw_node_config *c, char *const *env, struct sw_arena *a,
                          struct sw_slice *ret, struct sw_err *err)
{
    const struct {
        struct sw_slice key;
        const char *value;
    } own[] = {{SW_SLICE_LIT("NAME"), c->names.pod},
               {SW_SLICE_LIT("NAMESPACE"), c->names.pod_namespace},
               {SW_SLICE_LIT("INSTANCE_IPS"), own_ip(c)},
               {SW_SLICE_LIT("NODE_NAME"), c->names.node},
               {SW_SLICE_LIT("CLUSTER_ID"), c->names.cluster_id}};
    struct sw_json *m = sw_json_new_object(a);
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ARRAY_LEN(own); i++)
        sw_json_set(a, m, own[i].key, sw_json_new_str(a, or_empty(own[i].value)));
    for (size_t i = 0; i < c->istio.n_metadata; i++)
        sw_json_set(a, m, c->istio.metadata[i].key,
                    sw_json_new_string(a, c->istio.metadata[i].value));
    for (; env && *env && rc == SW_OK; env++)
        rc = put_env(a, m, *env, err);
    return rc == SW_OK ? sw_pb_from_json(a, &sw__struct__descriptor, m, ret, err) : rc;
}
