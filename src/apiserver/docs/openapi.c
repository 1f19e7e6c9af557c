/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenAPI v3, one document per group and version: what kubectl needs to validate, to explain and to
 * choose a patch. Paths hold the object's PATCH only, schemas are complete.
 */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/docs/docs.h"
#include "apiserver/docs/docs_int.h"
#include "base/vec.h"
#include "tls/crypto/jws.h"

#define META_PREFIX   "io.k8s.apimachinery.pkg.apis.meta.v1."
#define INT_OR_STRING "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

struct gv {
    const char *group;
    const char *version;
};

struct maker {
    struct sw_arena *a;
    struct sw_json *schemas;
    struct sw_json *paths;
    struct gv gv;
};

static const char *type_name(struct sw_arena *a, struct sw_slice ref)
{
    static const char *const meta[] = {"ObjectMeta", "OwnerReference", "ManagedFieldsEntry",
                                       "ListMeta",   "LabelSelector",  "LabelSelectorRequirement",
                                       "Condition",  "DeleteOptions",  "Preconditions"};

    for (size_t i = 0; i < SW_ARRAY_LEN(meta); i++) {
        if (sw_slice_eq_str(ref, meta[i]))
            return sw_arena_printf(a, META_PREFIX "%s", meta[i]);
    }
    return sw_arena_printf(a, "io.k8s.api.v1.%.*s", SW_SLICE_ARG(ref));
}

static struct sw_json *ref_json(struct sw_arena *a, const char *name)
{
    const char *path = sw_arena_printf(a, "#/components/schemas/%s", name);

    return SW_JSON_OF(a,
                      {"allOf", .json = sw_json_new_list(a, SW_JSON_OF(a, {"$ref", .str = path}))});
}

static struct sw_json *schema_json(struct maker *m, const struct sw_schema *s, bool inline_it);

/* "leaseDurationSeconds" -> "Lease duration seconds.": for fields without a description. */
static const char *words(struct sw_arena *a, struct sw_slice name)
{
    SW_BUF_AUTO b = {.max = 512};

    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool upper = c >= 'A' && c <= 'Z';
        bool next_lower = i + 1 < name.n && name.p[i + 1] >= 'a' && name.p[i + 1] <= 'z';
        bool prev_lower = i > 0 && name.p[i - 1] >= 'a' && name.p[i - 1] <= 'z';

        if (upper && i && (prev_lower || next_lower) && sw_buf_putc(&b, ' ') != SW_OK)
            break;
        if (upper && i && next_lower)
            c = (char)(c + 32);
        if (i == 0 && c >= 'a' && c <= 'z')
            c = (char)(c - 32);
        if (sw_buf_putc(&b, c) != SW_OK)
            break;
    }
    return sw_arena_printf(a, "%.*s.", SW_SLICE_ARG(sw_buf_slice(&b)));
}

static void ensure_description(struct sw_arena *a, struct sw_json *v, struct sw_slice name)
{
    if (sw_json_is(v, SW_JSON_OBJECT) && !sw_json_find(v, "description"))
        sw_json_put(a, v, "description", sw_json_new_str(a, words(a, name)));
}

/* Adds a type of the built-in table once. */
static void add_type(struct maker *m, const struct sw_schema *s, const char *name)
{
    struct sw_json *v;

    if (sw_json_find(m->schemas, name))
        return;
    sw_json_put(m->a, m->schemas, name, sw_json_new_null(m->a)); /* types may contain themselves */
    v = schema_json(m, s, true);
    ensure_description(m->a, v, s->ref);
    sw_json_put(m->a, m->schemas, name, v);
}

static void put_object(struct maker *m, struct sw_json *v, const struct sw_schema *s)
{
    struct sw_arena *a = m->a;
    struct sw_json *props;
    struct sw_json *req;

    if (s->additional)
        sw_json_put(a, v, "additionalProperties", schema_json(m, s->additional, false));
    if (s->nprops == 0)
        return;
    props = sw_json_new_object(a);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_json *p = schema_json(m, s->props[i].schema, false);

        ensure_description(a, p, s->props[i].name);
        sw_json_set(a, props, s->props[i].name, p);
    }
    sw_json_put(a, v, "properties", props);
    if (s->nrequired) {
        req = sw_json_new_array(a);
        for (size_t i = 0; i < s->nrequired; i++)
            sw_json_push(a, req, sw_json_new_string(a, s->required[i]));
        sw_json_put(a, v, "required", req);
    }
}

static struct sw_json *int_or_string(struct sw_arena *a)
{
    struct sw_json *types = sw_json_new_list(a, SW_JSON_OF(a, {"type", .str = "integer"}));

    sw_json_push(a, types, SW_JSON_OF(a, {"type", .str = "string"}));
    return SW_JSON_OF(a, {"description", .str = "A number or a text."},
                      {"format", .str = "int-or-string"}, {"oneOf", .json = types});
}

static struct sw_json *schema_json(struct maker *m, const struct sw_schema *s, bool inline_it)
{
    struct sw_arena *a = m->a;
    struct sw_json *v;

    if (s->int_or_string) {
        if (!sw_json_find(m->schemas, INT_OR_STRING))
            sw_json_put(a, m->schemas, INT_OR_STRING, int_or_string(a));
        return ref_json(a, INT_OR_STRING);
    }
    if (s->ref.n && !inline_it && s->type == SW_T_OBJECT) {
        const char *name = type_name(a, s->ref);

        add_type(m, s, name);
        v = ref_json(a, name);
        if (s->description.n)
            sw_json_put_str(a, v, "description", s->description);
        return v;
    }
    /* Free JSON is shown as an object: clients stumble over a schema without type. */
    v = SW_JSON_OF(a, {"description", .some = s->description},
                   {"type", .str = s->type == SW_T_NONE ? "object" : sw_stype_name(s->type)},
                   {"format", .some = s->format});
    if (s->type == SW_T_ARRAY && s->items)
        sw_json_put(a, v, "items", schema_json(m, s->items, false));
    if (s->type == SW_T_OBJECT)
        put_object(m, v, s);
    return v;
}

static void put_gvk(struct sw_arena *a, struct sw_json *v, const struct api_res *res, bool list)
{
    struct sw_json *g = SW_JSON_OF(a, {"group", .str = res->group},
                                   {"version", .str = res->version}, {"kind", .str = res->kind});

    sw_json_put(a, v, "x-kubernetes-group-version-kind", list ? sw_json_new_list(a, g) : g);
}

static struct sw_json *text_prop(struct sw_arena *a, const char *description)
{
    return SW_JSON_OF(a, {"description", .str = description}, {"type", .str = "string"});
}

/* apiVersion, kind and metadata of every object. */
static void put_type_meta(struct maker *m, struct sw_json *schema)
{
    struct sw_arena *a = m->a;
    struct sw_json *props = sw_json_need(a, schema, "properties", SW_JSON_OBJECT);
    struct sw_json *meta = ref_json(a, META_PREFIX "ObjectMeta");

    add_type(m, sw_object_meta_schema(), META_PREFIX "ObjectMeta");
    sw_json_put(a, props, "apiVersion",
                text_prop(a, "Version of the API this object is written for."));
    sw_json_put(a, props, "kind", text_prop(a, "What kind of object this is."));
    sw_json_put(a, meta, "description",
                sw_json_new_str(a, "Name, labels and the other things every object has."));
    sw_json_put(a, props, "metadata", meta);
    if (!sw_json_find(schema, "type"))
        sw_json_put(a, schema, "type", sw_json_new_str(a, "object"));
}

/* "example.com" -> "com.example" */
static const char *reversed(struct sw_arena *a, const char *group)
{
    struct sw_slice rest = sw_slice_str(group);
    const char *out = "";

    while (rest.p) {
        struct sw_slice part = sw_slice_cut(&rest, '.');

        out = sw_arena_printf(a, "%.*s%s%s", SW_SLICE_ARG(part), *out ? "." : "", out);
    }
    return out;
}

static const char *kind_name(struct sw_arena *a, const struct api_res *res)
{
    if (res->builtin)
        return sw_arena_printf(a, "io.k8s.api.%s.%s.%s", *res->group ? res->group : "core",
                               res->version, res->kind);
    return sw_arena_printf(a, "%s.%s.%s", reversed(a, res->group), res->version, res->kind);
}

static void add_path(struct maker *m, const struct api_res *res)
{
    static const char *const names[] = {"dryRun", "fieldManager", "fieldValidation", "force",
                                        "pretty"};
    static const char *const types[] = {"application/apply-patch+yaml",
                                        "application/json-patch+json",
                                        "application/merge-patch+json"};
    struct sw_arena *a = m->a;
    const char *key =
        sw_arena_printf(a, "%s/%s%s/%s/{name}", *res->group ? "/apis" : "/api", res->api_version,
                        res->namespaced ? "/namespaces/{namespace}" : "", res->plural);
    struct sw_json *params = sw_json_new_array(a);
    struct sw_json *content = sw_json_new_object(a);
    struct sw_json *op =
        SW_JSON_OF(a, {"parameters", .json = params},
                   {"requestBody", .json = SW_JSON_OF(a, {"content", .json = content})});

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        const char *type = strcmp(names[i], "force") == 0 ? "boolean" : "string";

        sw_json_push(a, params,
                     SW_JSON_OF(a, {"name", .str = names[i]}, {"in", .str = "query"},
                                {"schema", .json = SW_JSON_OF(a, {"type", .str = type})}));
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++)
        sw_json_put(a, content, types[i],
                    SW_JSON_OF(a, {"schema", .json = SW_JSON_OF(a, {"type", .str = "object"})}));
    put_gvk(a, op, res, false);
    sw_json_put(a, m->paths, key, SW_JSON_OF(a, {"patch", .json = op}));
}

static void add_kind(const struct api_res *res, void *arg)
{
    struct maker *m = arg;
    struct sw_arena *a = m->a;
    struct sw_json *s;
    const char *name;

    if (strcmp(res->group, m->gv.group) != 0 || strcmp(res->version, m->gv.version) != 0)
        return;
    name = kind_name(a, res);
    s = res->builtin ? schema_json(m, res->schema, true)
                     : (res->raw ? sw_json_copy(a, res->raw) : sw_json_new_object(a));
    put_type_meta(m, s);
    put_gvk(a, s, res, true);
    if (res->builtin)
        ensure_description(a, s, sw_slice_str(res->kind));
    sw_json_put(a, m->schemas, name, s);
    /* Kinds without PATCH too: it is where kubectl looks whether the server checks fields. */
    add_path(m, res);
}

static struct sw_slice make_document(struct sw_api *api, struct sw_arena *a, const char *group,
                                     const char *version)
{
    SW_ARENA_AUTO tmp = {0};
    struct maker m = {.a = &tmp,
                      .schemas = sw_json_new_object(&tmp),
                      .paths = sw_json_new_object(&tmp),
                      .gv = {group, version}};
    struct sw_json *info =
        SW_JSON_OF(&tmp, {"title", .str = "Spanwire"}, {"version", .str = SW_VERSION});
    const struct sw_json *doc = SW_JSON_OF(
        &tmp, {"openapi", .str = "3.0.0"}, {"info", .json = info}, {"paths", .json = m.paths},
        {"components", .json = SW_JSON_OF(&tmp, {"schemas", .json = m.schemas})});

    api_registry_each(&api->reg, add_kind, &m);
    return sw_arena_slice(a, sw_json_text(&tmp, doc, NULL));
}

/* --- the root: all documents with their hashes ------------------------------------------ */

struct gvs {
    SW_VEC(struct gv) all;
};

static void add_gv(const struct api_res *res, void *arg)
{
    struct gvs *g = arg;

    if (g->all.n && strcmp(g->all.p[g->all.n - 1].group, res->group) == 0 &&
        strcmp(g->all.p[g->all.n - 1].version, res->version) == 0)
        return;
    sw_vec_push(&g->all, (struct gv){res->group, res->version});
}

/*
 * The hash of a document is that of its sources, so that no client waits for all documents to be
 * made. With uids in it, a client's cache does not take another server on the same port for this
 * one.
 */
static struct sw_slice source_hash(struct sw_api *api, struct sw_arena *a, const struct gv *gv)
{
    struct api_doc d = {
        .text = sw_slice_str(sw_arena_printf(a, "%s/%s " SW_VERSION, gv->group, gv->version))};

    SW_MAP_EACH (const struct api_crd, c, &api->reg.crds) {
        if (strcmp(c->group, gv->group) == 0)
            d.text = sw_slice_str(sw_arena_printf(a, "%.*s %s %llu", SW_SLICE_ARG(d.text), c->uid,
                                                  (unsigned long long)c->revision));
    }
    api_doc_tag(a, &d);
    return d.hash;
}

static void make_root(struct sw_api *api)
{
    struct api_docs *d = api->docs;
    struct sw_arena *a = &d->arena;
    struct gvs g = {0};
    struct sw_json *paths;

    if (d->openapi)
        return;
    api_registry_each(&api->reg, add_gv, &g);
    d->openapi = sw_arena_array(a, g.all.n + 1, sizeof(*d->openapi));
    d->n_openapi = g.all.n;
    paths = sw_json_new_object(a);
    for (size_t i = 0; i < g.all.n; i++) {
        const struct gv *gv = &g.all.p[i];
        const char *url;

        d->openapi[i].key =
            sw_slice_str(*gv->group ? sw_arena_printf(a, "apis/%s/%s", gv->group, gv->version)
                                    : sw_arena_printf(a, "api/%s", gv->version));
        d->openapi[i].hash = source_hash(api, a, gv);
        url = sw_arena_printf(a, "/openapi/v3/%.*s?hash=%.*s", SW_SLICE_ARG(d->openapi[i].key),
                              SW_SLICE_ARG(d->openapi[i].hash));
        sw_json_set(a, paths, d->openapi[i].key, SW_JSON_OF(a, {"serverRelativeURL", .str = url}));
    }
    d->openapi_root.text = sw_json_text(a, SW_JSON_OF(a, {"paths", .json = paths}), NULL);
    api_doc_tag(a, &d->openapi_root);
    sw_vec_done(&g.all);
}

static void send_document(struct api_req *r, struct api_doc *doc)
{
    struct sw_slice hash = api_param(r, "hash");
    struct sw_slice rest = doc->key;
    struct sw_slice first = sw_slice_cut(&rest, '/');
    struct sw_slice group =
        sw_slice_eq_str(first, "apis") ? sw_slice_cut(&rest, '/') : sw_slice("", 0);
    struct sw_buf none = {.max = 1};

    if (hash.n && !sw_slice_eq(hash, doc->hash)) {
        const char *to = sw_arena_printf(r->arena, "/openapi/v3/%.*s?hash=%.*s",
                                         SW_SLICE_ARG(doc->key), SW_SLICE_ARG(doc->hash));

        sw_xchg_set(r->x, "Location", sw_slice_str(to));
        api_reply_buf(r, 301, NULL, &none);
        return;
    }
    if (!doc->text.p)
        doc->text = make_document(r->api, &r->api->docs->arena, sw_arena_dup(r->arena, group),
                                  sw_arena_dup(r->arena, rest));
    if (hash.n) {
        sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("public, immutable"));
        sw_xchg_set(r->x, "Expires", SW_SLICE_LIT("Thu, 01 Jan 2099 00:00:00 GMT"));
    }
    sw_xchg_set(r->x, "Vary", SW_SLICE_LIT("Accept"));
    api_doc_reply(r, doc, "application/json");
}

/*
 * The older document, without any definitions: clients that find nothing about a kind in it leave
 * validation to the server, as they should. They request it before they send a list or a kind that
 * is not served, and treat a missing answer as a failure.
 */
static void send_v2(struct api_req *r)
{
    /* Document{1 swagger "2.0", 2 Info{1 title "Kubernetes", 2 version "unversioned"}, 8 Paths{}}
     */
    static const char proto[] = "\x0a\x03"
                                "2.0"
                                "\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned"
                                "\x42\x00";
    static const char json[] = "{\"swagger\":\"2.0\",\"info\":{\"title\":\"Kubernetes\","
                               "\"version\":\"unversioned\"},\"paths\":{}}";
    struct sw_slice accept = sw_xchg_field(r->x, "accept");
    bool binary = accept.p && memmem(accept.p, accept.n, "+protobuf", 9);
    struct api_doc doc = {.text = binary ? sw_slice(proto, sizeof(proto) - 1)
                                         : sw_slice(json, sizeof(json) - 1)};

    sw_xchg_set(r->x, "Vary", SW_SLICE_LIT("Accept"));
    api_doc_tag(r->arena, &doc);
    api_doc_reply(r, &doc,
                  binary ? "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
                         : "application/json");
}

void api_openapi(struct api_req *r)
{
    struct api_docs *d = r->api->docs;
    struct sw_slice key;

    if (r->path_segments.n == 2 && sw_slice_eq_str(r->path_segments.rest[1], "v2")) {
        send_v2(r);
        return;
    }
    if (r->path_segments.n < 2 || !sw_slice_eq_str(r->path_segments.rest[1], "v3")) {
        api_no_such_resource(r);
        return;
    }
    api_docs_refresh(r->api);
    make_root(r->api);
    if (r->path_segments.n == 2) {
        sw_xchg_set(r->x, "Vary", SW_SLICE_LIT("Accept"));
        api_doc_reply(r, &d->openapi_root, "application/json");
        return;
    }
    key = sw_slice_from(r->path, strlen("/openapi/v3/"));
    for (size_t i = 0; i < d->n_openapi; i++) {
        if (sw_slice_eq(d->openapi[i].key, key)) {
            send_document(r, &d->openapi[i]);
            return;
        }
    }
    api_no_such_resource(r);
}
