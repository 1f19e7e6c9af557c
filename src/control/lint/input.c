/* SPDX-License-Identifier: Apache-2.0 */
#include "control/lint/input.h"

#include <string.h>

#include <proto/cluster.pb-c.h>
#include <proto/discovery.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/json.h"
#include "proto/json.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "yaml/yaml.h"

static const struct sw_pb_limits limits = {.bytes = SW_XDS_INPUT_MAX, .memory = (size_t)1 << 30};

void sw_xds_set_done(struct sw_xds_set *s)
{
    sw_vec_done(&s->list);
    sw_arena_clear(&s->arena);
}

/* The name a message gives itself; empty when it is none of the five types. */
static struct sw_slice name_of(struct sw_arena *a, const ProtobufCMessageDescriptor *type,
                               struct sw_slice value)
{
    const ProtobufCMessage *m = sw_pb_unpack(a, type, value, &limits, NULL);
    const void *p = m;

    if (!m)
        return (struct sw_slice){0};
    if (type == &sw__listener__descriptor)
        return SW_PB_SLICE(((const Sw__Listener *)p)->name);
    if (type == &sw__route_configuration__descriptor)
        return SW_PB_SLICE(((const Sw__RouteConfiguration *)p)->name);
    if (type == &sw__cluster__descriptor)
        return SW_PB_SLICE(((const Sw__Cluster *)p)->name);
    if (type == &sw__cluster_load_assignment__descriptor)
        return SW_PB_SLICE(((const Sw__ClusterLoadAssignment *)p)->cluster_name);
    if (type == &sw__secret__descriptor)
        return SW_PB_SLICE(((const Sw__Secret *)p)->name);
    return (struct sw_slice){0};
}

static void add(struct sw_xds_set *s, struct sw_slice type_url, struct sw_slice value,
                struct sw_slice name)
{
    const ProtobufCMessageDescriptor *type = sw_pb_type_find(type_url);
    struct sw_model_resource r = {.type = sw_arena_dup(&s->arena, type_url), .value = value};

    r.name = name.n || !type ? name : name_of(&s->arena, type, value);
    sw_vec_push(&s->list, r);
}

/* --- text --- */

static int add_object(struct sw_xds_set *s, const struct sw_json *v, struct sw_err *err)
{
    struct sw_slice url = sw_json_str(sw_json_find(v, "@type"));
    const ProtobufCMessageDescriptor *type = sw_pb_type_find(url);
    struct sw_json *body;
    struct sw_slice value;
    int rc;

    if (!type)
        return sw_err_set(err, SW_EINVAL, "'@type' is missing or not known: '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(url, 100)));
    body = sw_json_copy(&s->arena, v);
    (void)sw_json_remove(body, SW_SLICE_LIT("@type"));
    rc = sw_pb_from_json(&s->arena, type, body, &value, err);
    if (rc == SW_OK)
        add(s, url, value, (struct sw_slice){0});
    return rc;
}

static int add_document(struct sw_xds_set *s, const struct sw_json *v, struct sw_err *err)
{
    const struct sw_json *list = sw_json_is(v, SW_JSON_ARRAY) ? v : sw_json_find(v, "resources");
    int rc = SW_OK;

    if (!list)
        return add_object(s, v, err);
    for (size_t i = 0; rc == SW_OK && i < sw_json_len(list); i++) {
        rc = add_object(s, sw_json_at(list, i), err);
        if (rc != SW_OK)
            (void)sw_err_prefix(err, "resource %zu", i);
    }
    return rc;
}

static int add_text(struct sw_xds_set *s, struct sw_slice in, struct sw_err *err)
{
    struct sw_yaml_stream docs;
    int rc = sw_yaml_parse(&s->arena, in, NULL, &docs, err); /* JSON is YAML */

    for (size_t i = 0; rc == SW_OK && i < docs.n; i++)
        rc = add_document(s, sw_yaml_to_json(&s->arena, docs.docs[i]), err);
    return rc;
}

/* --- bytes --- */

/* In a delta response an entry's first field is a version, in the other one a type URL. */
static bool is_delta(const Sw__DiscoveryResponse *d)
{
    return d->n_resources && !sw_slice_has_prefix(SW_PB_SLICE(d->resources[0]->type_url),
                                                  SW_SLICE_LIT(SW_TYPE_PREFIX));
}

static int add_delta(struct sw_xds_set *s, struct sw_slice in, struct sw_err *err)
{
    const Sw__DeltaDiscoveryResponse *d = SW_PB_UNPACK(
        &s->arena, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response, in, &limits, err);

    if (!d)
        return SW_EPROTO;
    for (size_t i = 0; i < d->n_resources; i++) {
        const Sw__Resource *r = d->resources[i];

        if (!r->resource)
            return sw_err_set(err, SW_EPROTO, "resource %zu is empty", i);
        add(s, SW_PB_SLICE(r->resource->type_url), SW_PB_SLICE(r->resource->value),
            SW_PB_SLICE(r->name));
    }
    return SW_OK;
}

static int add_bytes(struct sw_xds_set *s, struct sw_slice in, struct sw_err *err)
{
    const Sw__DiscoveryResponse *d =
        SW_PB_UNPACK(&s->arena, Sw__DiscoveryResponse, sw__discovery_response, in, &limits, err);

    if (!d || is_delta(d))
        return add_delta(s, in, err);
    for (size_t i = 0; i < d->n_resources; i++)
        add(s, SW_PB_SLICE(d->resources[i]->type_url), SW_PB_SLICE(d->resources[i]->value),
            (struct sw_slice){0});
    return SW_OK;
}

int sw_xds_set_add(struct sw_xds_set *s, struct sw_slice in, bool text, struct sw_err *err)
{
    return text ? add_text(s, in, err) : add_bytes(s, in, err);
}
