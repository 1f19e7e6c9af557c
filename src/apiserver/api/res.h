/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources as they are served: built-in kinds and those of CustomResourceDefinitions behind one
 * struct, so that verbs need not know which they handle.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/list.h"
#include "base/map.h"
#include "kube/builtin/builtin.h"
#include "kube/schema/schema.h"

struct sw_api;
struct api_crd;

/* One resource in one version. Built-ins live for ever, the others as long as their CRD. */
struct api_res {
    const char *group; /* "" = core */
    const char *version;
    const char *api_version; /* "group/version" or "v1" */
    const char *plural, *singular;
    const char *kind, *list_kind;
    const char *short_names, *categories; /* comma-separated */
    const char *prefix;                   /* of its keys in the store: "group/plural/" */
    bool namespaced;
    unsigned verbs; /* enum sw_verbs */
    unsigned flags; /* enum sw_builtin_flags */
    bool has_status;
    bool has_scale;
    const struct sw_builtin *builtin; /* NULL: custom */
    struct api_crd *crd;              /* NULL: built-in */
    const struct sw_schema *schema;   /* of the whole object; built-in kinds only */
    const char *const *selectors;     /* field selectors, ends with NULL */
    /* custom resources only */
    size_t index;                  /* in the CRD's versions */
    const struct sw_json *columns; /* additionalPrinterColumns, may be NULL */
    const struct sw_json *raw;     /* openAPIV3Schema */
    const char *scale_spec;        /* JSON paths of the scale subresource */
    const char *scale_status;
    const char *scale_selector; /* may be NULL */
    const char *deprecated;     /* warning text; NULL: not deprecated */
    bool served;
    bool storage;
};

/* A CRD as compiled from its object. Counted: requests hold what they began with. */
struct api_crd {
    unsigned refs;
    uint64_t revision; /* of the object this was made from */
    struct sw_arena arena;
    const char *name;
    const char *uid;
    const char *group;
    const char *plural;
    bool established;
    bool terminating;
    const struct sw_json *spec;
    bool by_webhook;   /* conversion.strategy Webhook: only the storage version can be served */
    bool same_schemas; /* all versions have the same schema: stored data fits every one */
    struct api_res *vers;
    struct sw_schema_set *sets;               /* parallel to vers, as is the next */
    _Atomic(const struct sw_schema *) *ready; /* NULL until compiled */
    size_t n;
};

/*
 * Why objects of the resource cannot be shown in the version 'as': a conversion webhook would have
 * to be called. NULL: they can.
 */
const char *api_no_conversion(struct sw_arena *a, const struct api_res *res,
                              const struct api_res *as);
struct api_crd *api_crd_ref(struct api_crd *c);
struct api_crd *api_crd_unref(struct api_crd *c);

/* All resources of the server. */
struct api_registry {
    struct api_res *builtins;
    size_t n_builtins;
    struct sw_map crds;  /* name -> struct api_crd, one reference */
    uint64_t generation; /* grows with every change; documents made from it compare this */
    struct sw_arena arena;
};

void api_registry_init(struct api_registry *g);
void api_registry_done(struct api_registry *g);

/* The resource at group, version and plural; NULL when it is not served. Borrowed. */
const struct api_res *api_registry_find(const struct api_registry *g, struct sw_slice group,
                                        struct sw_slice version, struct sw_slice plural);
/* The resource of a group, or of the core group, in its version v1. */
const struct api_res *api_registry_v1(const struct api_registry *g, const char *group,
                                      const char *plural);
const struct api_res *api_registry_core(const struct api_registry *g, const char *plural);
/* By group and kind, in its preferred version. */
const struct api_res *api_registry_kind(const struct api_registry *g, struct sw_slice group,
                                        struct sw_slice version, struct sw_slice kind);
/* True when some resource of the group (and version, when not empty) is served. */
bool api_registry_has_group(const struct api_registry *g, struct sw_slice group,
                            struct sw_slice version);

/* Puts a CRD in place of an older one of that name (or removes it: NULL). Takes the reference. */
void api_registry_set_crd(struct api_registry *g, struct sw_slice name, struct api_crd *crd);

/* The schema, compiled at first use, on any thread. Never NULL for stored kinds. */
const struct sw_schema *api_res_schema(const struct api_res *res);
/* False: api_res_schema takes its time. */
bool api_res_compiled(const struct api_res *res);

/* "widgets.lab.example.com" or "configmaps". */
const char *api_gr(struct sw_arena *a, const struct api_res *res);
/* Store key of an object. */
struct sw_slice api_key(struct sw_arena *a, const struct api_res *res, struct sw_slice ns,
                        struct sw_slice name);

/* Calls f for each served resource: groups in order, preferred versions first, plurals sorted. */
typedef void (*api_res_fn)(const struct api_res *res, void *arg);
void api_registry_each(const struct api_registry *g, api_res_fn f, void *arg);
/* Resources (in their storage version) that can be listed and deleted, for controllers. */
void api_registry_each_stored(const struct api_registry *g, api_res_fn f, void *arg);
