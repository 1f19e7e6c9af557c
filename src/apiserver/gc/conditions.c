/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions of a namespace that goes: what it still waits for. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/gc/gc_int.h"

enum { LISTED_MAX = 1000 };

static const struct {
    const char *type;
    const char *reason;
    const char *message;
} fine[] = {
    {"NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered",
     "All resources successfully discovered"},
    {"NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions",
     "All legacy kube types successfully parsed"},
    {"NamespaceDeletionContentFailure", "ContentDeleted",
     "All content successfully deleted, may be waiting on finalization"},
    {"NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"},
    {"NamespaceFinalizersRemaining", "ContentHasNoFinalizers",
     "All content-preserving finalizers finished"},
};
enum { CONTENT = 3, FINALIZERS = 4 };

void gc_left_done(struct gc_left *l)
{
    sw_vec_done(&l->kinds);
    sw_vec_done(&l->finalizers);
}

#define COUNT(vec, text)                                                                           \
    do {                                                                                           \
        size_t at_ = 0;                                                                            \
        while (at_ < (vec)->n && strcmp((vec)->p[at_].name, (text)) != 0)                          \
            at_++;                                                                                 \
        if (at_ < (vec)->n)                                                                        \
            (vec)->p[at_].n++;                                                                     \
        else if (at_ < LISTED_MAX)                                                                 \
            sw_vec_push((vec), ((struct gc_count){.name = (text), .n = 1}));                       \
    } while (0)

void gc_left_add(struct gc_left *l, const struct api_res *res, const struct sw_store_obj *o)
{
    const char *kind = sw_arena_printf(l->arena, "%s.%s", res->plural, res->group);
    SW_ARENA_AUTO a = {0};

    COUNT(&l->kinds, kind);
    SW_JSON_ITEMS (it, sw_json_walk(api_parse_stored(&a, o), "metadata", "finalizers", NULL)) {
        const char *name = sw_arena_dup(l->arena, sw_json_str(it));

        COUNT(&l->finalizers, name);
    }
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct gc_count *)x)->name, ((const struct gc_count *)y)->name);
}

static const char *listed(struct sw_arena *a, struct gc_count *p, size_t n, const char *head,
                          const char *verb)
{
    SW_BUF_AUTO b = {.max = 1 << 16};

    qsort(p, n, sizeof(*p), by_name);
    if (sw_buf_append_str(&b, head) != SW_OK)
        return head;
    for (size_t i = 0; i < n; i++) {
        if (sw_buf_printf(&b, "%s%s %s %zu resource instances", i ? ", " : "", p[i].name, verb,
                          p[i].n) != SW_OK)
            break;
    }
    return sw_arena_dup(a, sw_buf_slice(&b));
}

bool gc_left_report(struct gc_left *l, struct sw_json *ns)
{
    struct sw_arena *a = l->arena;
    struct sw_json *status = sw_json_need(a, ns, "status", SW_JSON_OBJECT);
    bool changed = false;

    for (size_t i = 0; i < SW_ARRAY_LEN(fine); i++) {
        bool bad = (i == CONTENT && l->kinds.n) || (i == FINALIZERS && l->finalizers.n);
        const char *reason = fine[i].reason;
        const char *message = fine[i].message;

        if (bad && i == CONTENT) {
            reason = "SomeResourcesRemain";
            message = listed(a, l->kinds.p, l->kinds.n, "Some resources are remaining: ", "has");
        } else if (bad) {
            reason = "SomeFinalizersRemain";
            message = listed(a, l->finalizers.p, l->finalizers.n,
                             "Some content in the namespace has finalizers remaining: ", "in");
        }
        changed |= api_set_condition(a, status, fine[i].type, bad, reason, message);
    }
    return changed;
}
