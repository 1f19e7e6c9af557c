/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/facts.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "control/objects.h"
#include "kube/names.h"

/* Every entry begins with its key: one comparison for all of them. */
struct sw_link_facts {
    atomic_uint refs;
    struct sw_arena arena;
    struct sw_link_import *imports;
    size_t n_imports;
    struct sw_link_export *exports;
    size_t n_exports;
    struct sw_link_peer *peers;
    size_t n_peers;
    const struct sw_attr_list *policies;
    uint64_t hash;
};

struct sw_link_facts_builder {
    struct sw_arena arena;
    SW_VEC(struct sw_link_import) imports;
    SW_VEC(struct sw_link_export) exports;
    SW_VEC(struct sw_link_peer) peers;
    SW_VEC(const struct sw_attr_policy *) policies;
    struct sw_map terms; /* of the policies of each namespace, as numbers */
    uint64_t hash;       /* of all objects, in any order */
};

struct sw_link_facts *sw_link_facts_ref(struct sw_link_facts *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

struct sw_link_facts *sw_link_facts_unref(struct sw_link_facts *f)
{
    if (f && atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1) {
        sw_arena_clear(&f->arena);
        sw_free(f);
    }
    return NULL;
}

/* ---- finding ---- */

static int key_cmp(const void *key, const void *entry)
{
    return sw_slice_cmp(*(const struct sw_slice *)key, *(const struct sw_slice *)entry);
}

#define FIND(f, what, key)                                                                         \
    ((f)->n_##what ? bsearch(&(key), (f)->what, (f)->n_##what, sizeof((f)->what[0]), key_cmp)      \
                   : NULL)

const struct sw_link_import *sw_link_facts_import(const struct sw_link_facts *f,
                                                  struct sw_slice key)
{
    return FIND(f, imports, key);
}

const struct sw_link_export *sw_link_facts_export(const struct sw_link_facts *f,
                                                  struct sw_slice key)
{
    return FIND(f, exports, key);
}

const struct sw_link_peer *sw_link_facts_peer(const struct sw_link_facts *f, struct sw_slice name)
{
    return FIND(f, peers, name);
}

size_t sw_link_facts_peers(const struct sw_link_facts *f, const struct sw_link_peer **ret)
{
    *ret = f->peers;
    return f->n_peers;
}

const struct sw_attr_list *sw_link_facts_policies(const struct sw_link_facts *f)
{
    return f->policies;
}

uint64_t sw_link_facts_hash(const struct sw_link_facts *f)
{
    return f->hash;
}

/* ---- objects ---- */

static const struct sw_json *meta(const struct sw_json *obj, const char *member)
{
    return sw_json_walk(obj, "metadata", member, NULL);
}

static struct sw_slice copy(struct sw_arena *a, struct sw_slice s)
{
    return sw_arena_slice(a, s.p ? s : sw_slice("", 0));
}

/* What decisions depend on, and nothing else: labels, annotations of ours, the specification. */
static void mix(struct sw_link_facts_builder *b, const char *kind, const struct sw_json *obj,
                struct sw_slice why)
{
    static const struct sw_json_write_opts sorted = {.flags = SW_JSON_SORT_KEYS};
    SW_BUF_AUTO text = {.max = SIZE_MAX / 2};
    const struct sw_json *const parts[] = {meta(obj, "namespace"), meta(obj, "name"),
                                           meta(obj, "labels"), sw_json_find(obj, "spec")};
    int rc = sw_buf_append_str(&text, kind);

    for (size_t i = 0; i < SW_ARRAY_LEN(parts) && rc == SW_OK; i++) {
        rc = sw_buf_putc(&text, '\n');
        if (rc == SW_OK && parts[i])
            rc = sw_json_write(&text, parts[i], &sorted);
    }
    if (rc == SW_OK)
        rc = sw_buf_append_slice(&text, why);
    if (rc == SW_OK)
        b->hash += sw_siphash13(7, 9, sw_buf_data(&text), sw_buf_len(&text));
}

static struct sw_attrs read_labels(struct sw_arena *a, const char *prefix,
                                   const struct sw_json *labels)
{
    size_t n = sw_min(sw_json_len(labels), SW_ATTRS_MAX);
    struct sw_attr *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);

        p[i].key = sw_slice_str(sw_arena_printf(a, "%s%.*s", prefix, SW_SLICE_ARG(m->key)));
        p[i].value = copy(a, sw_json_str(m->value));
    }
    sw_attrs_sort(p, &n);
    return (struct sw_attrs){p, n};
}

/* Why the object's own status says it is not usable; empty: it does not say so. */
static struct sw_slice refused(const struct sw_json *obj, const char *type)
{
    const struct sw_json *c = cn_condition(sw_json_walk(obj, "status", "conditions", NULL), type);
    struct sw_slice message = js(c, "message");

    if (!sw_json_str_eq(sw_json_find(c, "status"), "False"))
        return sw_slice("", 0);
    return message.n ? message : sw_slice_str(type);
}

/* ---- imports ---- */

static enum sw_link_scheme read_scheme(const struct sw_json *spec)
{
    static const char *const names[] = {[SW_LINK_ROUND_ROBIN] = "round-robin",
                                        [SW_LINK_RANDOM] = "random",
                                        [SW_LINK_STATIC] = "static",
                                        [SW_LINK_WEIGHTED] = "weighted",
                                        [SW_LINK_LOCALITY] = "locality"};
    struct sw_slice s = js_or(spec, "lbScheme", "");

    if (s.n == 0)
        return SW_LINK_ROUND_ROBIN;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_eq_str(s, names[i]))
            return (enum sw_link_scheme)i;
    }
    return SW_LINK_SCHEME_UNKNOWN;
}

/* The weight of a peer in "peer1=3,peer2=1". */
static uint32_t weight_of(struct sw_slice weights, struct sw_slice peer)
{
    while (weights.n) {
        struct sw_slice item = sw_slice_trim(sw_slice_cut(&weights, ','));
        struct sw_slice name = sw_slice_trim(sw_slice_cut(&item, '='));
        uint64_t n;

        if (sw_slice_eq(name, peer) && item.p &&
            sw_slice_to_u64(sw_slice_trim(item), SW_LINK_WEIGHT_MAX, &n))
            return (uint32_t)n;
    }
    return 1;
}

static void read_sources(struct sw_arena *a, const struct sw_json *obj, struct sw_link_import *i)
{
    const struct sw_json *list = sw_json_walk(obj, "spec", "sources", NULL);
    struct sw_slice weights = sw_json_str(sw_json_find(meta(obj, "annotations"), SW_LINK_WEIGHTS));
    size_t n = sw_min(sw_json_len(list), SW_LINK_SOURCES_MAX);
    struct sw_link_source *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t k = 0; k < n; k++) {
        const struct sw_json *s = sw_json_at(list, k);

        p[k].peer = copy(a, js(s, "peer"));
        p[k].export_name = copy(a, js(s, "exportName"));
        p[k].export_ns = copy(a, js(s, "exportNamespace"));
        p[k].weight = weight_of(weights, p[k].peer);
        if (!p[k].export_name.n)
            p[k].export_name = i->name;
        if (!p[k].export_ns.n)
            p[k].export_ns = i->ns;
    }
    i->sources = p;
    i->n = n;
}

void sw_link_facts_add_import(struct sw_link_facts_builder *b, const struct sw_json *obj,
                              struct sw_slice why)
{
    struct sw_arena *a = &b->arena;
    struct sw_link_import i = {.ns = copy(a, sw_json_str(meta(obj, "namespace"))),
                               .name = copy(a, sw_json_str(meta(obj, "name"))),
                               .scheme = read_scheme(sw_json_find(obj, "spec"))};

    if (!why.n)
        why = refused(obj, "ImportTargetPortValid");
    if (!why.n && i.scheme == SW_LINK_SCHEME_UNKNOWN)
        why = SW_SLICE_LIT("unknown lbScheme");
    i.key = sw_name_key(a, i.ns, i.name);
    i.labels = read_labels(a, SW_LINK_EXPORT_LABELS, meta(obj, "labels"));
    i.valid = why.n == 0;
    i.why = copy(a, why);
    read_sources(a, obj, &i);
    sw_vec_push(&b->imports, i);
    mix(b, "import", obj, why);
}

void sw_link_facts_add_export(struct sw_link_facts_builder *b, const struct sw_json *obj,
                              struct sw_slice why)
{
    struct sw_arena *a = &b->arena;
    struct sw_link_export e = {.ns = copy(a, sw_json_str(meta(obj, "namespace"))),
                               .name = copy(a, sw_json_str(meta(obj, "name")))};

    if (!why.n)
        why = refused(obj, "ExportValid");
    e.key = sw_name_key(a, e.ns, e.name);
    e.labels = read_labels(a, SW_LINK_EXPORT_LABELS, meta(obj, "labels"));
    e.valid = why.n == 0;
    e.why = copy(a, why);
    sw_vec_push(&b->exports, e);
    mix(b, "export", obj, why);
}

/* ---- peers ---- */

static enum sw_link_form read_form(const struct sw_json *obj)
{
    const struct sw_json *form = sw_json_find(meta(obj, "annotations"), SW_LINK_FORM);

    if (sw_json_str_eq(form, "clusterlink"))
        return SW_LINK_CLUSTERLINK;
    return sw_json_str_eq(form, "spanwire") ? SW_LINK_SPANWIRE : SW_LINK_AUTO;
}

void sw_link_facts_add_peer(struct sw_link_facts_builder *b, const struct sw_json *obj)
{
    const struct sw_json *list = sw_json_walk(obj, "spec", "gateways", NULL);
    size_t max = sw_min(sw_json_len(list), SW_LINK_GATEWAYS_MAX);
    const struct sw_json *labels = sw_json_walk(obj, "status", "labels", NULL);
    struct sw_link_gateway *p = sw_arena_array(&b->arena, max, sizeof(*p));
    struct sw_link_peer peer = {.name = copy(&b->arena, sw_json_str(meta(obj, "name"))),
                                .gateways = p,
                                .form = read_form(obj),
                                .labels = read_labels(&b->arena, "", labels)};

    for (size_t i = 0; i < max; i++) {
        const struct sw_json *g = sw_json_at(list, i);
        struct sw_slice host = js_or(g, "host", "");
        int64_t port = js_int(g, "port", UINT16_MAX, 0);

        if (host.n && port)
            p[peer.n++] =
                (struct sw_link_gateway){.host = copy(&b->arena, host), .port = (uint16_t)port};
    }
    sw_vec_push(&b->peers, peer);
    mix(b, "peer", obj, sw_slice("", 0));
}

/* ---- policies ---- */

/* A deny that cannot be read denies everything where it counts. */
static const struct sw_attr_policy *deny_all(struct sw_arena *a, struct sw_slice ns,
                                             struct sw_slice name)
{
    struct sw_attr_policy *p = SW_ARENA_NEW(a, struct sw_attr_policy);
    struct sw_attr_selector *all = SW_ARENA_NEW(a, struct sw_attr_selector);

    p->name = copy(a, name);
    p->ns = copy(a, ns);
    p->key = p->ns.n ? sw_name_key(a, ns, name) : p->name;
    p->action = SW_POLICY_DENY;
    p->from = p->to = (struct sw_attr_selectors){all, 1};
    return p;
}

/* Decisions look at all policies of a namespace, whose writers are tenants. */
static int add_terms(struct sw_link_facts_builder *b, const struct sw_attr_policy *p,
                     struct sw_err *err)
{
    uintptr_t n;

    if (!p->ns.n) /* the operator's */
        return SW_OK;
    n = (uintptr_t)sw_map_get(&b->terms, p->ns) + sw_attr_policy_terms(p);
    if (n > SW_LINK_TERMS_MAX)
        return sw_err_set(err, SW_ELIMIT,
                          "the policies of the namespace, by their names up to this one, have more "
                          "than %d selectors, keys and values",
                          SW_LINK_TERMS_MAX);
    (void)sw_map_put(&b->terms, p->ns, (void *)n);
    return SW_OK;
}

int sw_link_facts_add_policy(struct sw_link_facts_builder *b, const struct sw_json *obj,
                             struct sw_err *err)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice ns = copy(&b->arena, sw_json_str(meta(obj, "namespace")));
    struct sw_slice name = copy(&b->arena, sw_json_str(meta(obj, "name")));
    struct sw_attr_policy *p = NULL;
    int rc = sw_attr_policy_parse(&b->arena, ns, name, spec, &p, err);

    mix(b, "policy", obj, sw_slice("", 0));
    if (rc == SW_OK)
        rc = add_terms(b, p, err);
    if (rc == SW_OK)
        sw_vec_push(&b->policies, p);
    else if (sw_json_str_eq(sw_json_find(spec, "action"), "deny"))
        sw_vec_push(&b->policies, deny_all(&b->arena, ns, name));
    return rc;
}

/* ---- the snapshot ---- */

static int by_key(const void *x, const void *y)
{
    return key_cmp(x, y);
}

struct sw_link_facts_builder *sw_link_facts_begin(void)
{
    return SW_NEW(struct sw_link_facts_builder);
}

/* Moves a vector into the arena, sorted by key, names once. */
static void *settle(struct sw_arena *a, const void *from, size_t *n, size_t size)
{
    char *p = sw_arena_array(a, *n, size);
    size_t kept = 0;

    if (*n == 0)
        return p;
    memcpy(p, from, *n * size);
    qsort(p, *n, size, by_key);
    for (size_t i = 0; i < *n; i++) {
        if (kept && by_key(p + (kept - 1) * size, p + i * size) == 0)
            continue;
        memmove(p + kept * size, p + i * size, size);
        kept++;
    }
    *n = kept;
    return p;
}

struct sw_link_facts *sw_link_facts_end(struct sw_link_facts_builder *b)
{
    struct sw_link_facts *f = SW_NEW(struct sw_link_facts);

    atomic_init(&f->refs, 1);
    f->n_imports = b->imports.n;
    f->n_exports = b->exports.n;
    f->n_peers = b->peers.n;
    f->imports = settle(&b->arena, b->imports.p, &f->n_imports, sizeof(*f->imports));
    f->exports = settle(&b->arena, b->exports.p, &f->n_exports, sizeof(*f->exports));
    f->peers = settle(&b->arena, b->peers.p, &f->n_peers, sizeof(*f->peers));
    f->policies = sw_attr_list_new(&b->arena, b->policies.p, b->policies.n);
    f->hash = b->hash;
    f->arena = b->arena;
    b->arena = (struct sw_arena){0};
    sw_link_facts_abort(b);
    return f;
}

void sw_link_facts_abort(struct sw_link_facts_builder *b)
{
    if (!b)
        return;
    sw_arena_clear(&b->arena);
    sw_vec_done(&b->imports);
    sw_vec_done(&b->exports);
    sw_vec_done(&b->peers);
    sw_vec_done(&b->policies);
    sw_map_done(&b->terms);
    sw_free(b);
}
