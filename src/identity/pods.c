/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/pods.h"

#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"

/* How many pods of an account a node has. */
struct place {
    struct sw_slice key; /* node, namespace, account; behind the struct */
    size_t n;
};

struct entry {
    struct sw_pod_info pod; /* slices into what is behind the struct */
    struct sw_slice key;    /* namespace, name */
    struct place *place;    /* NULL: none */
};

struct sw_pods {
    struct sw_map pods;   /* key -> struct entry */
    struct sw_map places; /* key -> struct place */
    bool complete;
};

struct sw_pods *sw_pods_new(void)
{
    return SW_NEW(struct sw_pods);
}

void sw_pods_free(struct sw_pods *p)
{
    if (!p)
        return;
    SW_MAP_DRAIN(&p->pods, sw_free);
    SW_MAP_DRAIN(&p->places, sw_free);
    sw_free(p);
}

/* Copies with a NUL behind, which no part has. */
static struct sw_slice put(char **at, struct sw_slice s)
{
    struct sw_slice copy = sw_slice(*at, s.n);

    if (s.n)
        memcpy(*at, s.p, s.n);
    (*at)[s.n] = 0;
    *at += s.n + 1;
    return copy;
}

static struct sw_slice join(struct sw_arena *a, const struct sw_slice *parts, size_t n)
{
    size_t len = 0;
    char *text;
    char *at;

    for (size_t i = 0; i < n; i++)
        len += parts[i].n + 1;
    text = at = sw_arena_text(a, len);
    for (size_t i = 0; i < n; i++)
        (void)put(&at, parts[i]);
    return sw_slice(text, len);
}

static void leave(struct sw_pods *p, struct entry *e)
{
    struct place *at = e->place;

    e->place = NULL;
    if (!at || --at->n)
        return;
    (void)sw_map_del(&p->places, at->key);
    sw_free(at);
}

static void enter(struct sw_pods *p, struct entry *e)
{
    const struct sw_slice parts[] = {e->pod.node, e->pod.ns, e->pod.account};
    SW_ARENA_AUTO a = {0};
    struct sw_slice key = join(&a, parts, SW_ARRAY_LEN(parts));
    struct place *at;

    if (e->pod.failed || e->pod.node.n == 0)
        return;
    at = sw_map_get(&p->places, key);
    if (!at) {
        at = sw_calloc(1, sizeof(*at) + key.n);
        memcpy(at + 1, key.p, key.n);
        at->key = sw_slice(at + 1, key.n);
        (void)sw_map_put(&p->places, at->key, at);
    }
    at->n++;
    e->place = at;
}

static struct entry *entry_of(const struct sw_pods *p, struct sw_slice ns, struct sw_slice name)
{
    const struct sw_slice parts[] = {ns, name};
    SW_ARENA_AUTO a = {0};

    return sw_map_get(&p->pods, join(&a, parts, SW_ARRAY_LEN(parts)));
}

void sw_pods_del(struct sw_pods *p, struct sw_slice ns, struct sw_slice name)
{
    struct entry *e = entry_of(p, ns, name);

    if (!e)
        return;
    leave(p, e);
    (void)sw_map_del(&p->pods, e->key);
    sw_free(e);
}

void sw_pods_set(struct sw_pods *p, const struct sw_pod_info *pod)
{
    size_t n = pod->ns.n + pod->name.n + pod->uid.n + pod->account.n + pod->node.n + 5;
    struct entry *e = sw_calloc(1, sizeof(*e) + n);
    char *at = (char *)(e + 1);

    e->pod.ns = put(&at, pod->ns);
    e->pod.name = put(&at, pod->name);
    e->key = sw_slice(e->pod.ns.p, pod->ns.n + pod->name.n + 2);
    e->pod.uid = put(&at, pod->uid);
    e->pod.account = put(&at, pod->account);
    e->pod.node = put(&at, pod->node);
    e->pod.failed = pod->failed;
    sw_pods_del(p, pod->ns, pod->name);
    (void)sw_map_put(&p->pods, e->key, e);
    enter(p, e);
}

static bool find(const void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice uid,
                 struct sw_pod_place *ret)
{
    const struct entry *e = entry_of(arg, ns, name);

    if (!e || e->pod.failed || !sw_slice_eq(e->pod.uid, uid))
        return false;
    *ret = (struct sw_pod_place){.account = e->pod.account, .node = e->pod.node};
    return true;
}

static bool runs(const void *arg, struct sw_slice node, struct sw_slice ns, struct sw_slice account)
{
    const struct sw_pods *p = arg;
    const struct sw_slice parts[] = {node, ns, account};
    SW_ARENA_AUTO a = {0};

    return sw_map_get(&p->places, join(&a, parts, SW_ARRAY_LEN(parts))) != NULL;
}

void sw_pods_complete(struct sw_pods *p)
{
    p->complete = true;
}

static bool complete(const void *arg)
{
    const struct sw_pods *p = arg;

    return p->complete;
}

struct sw_pod_source sw_pods_source(const struct sw_pods *p)
{
    return (struct sw_pod_source){.pod = find, .runs = runs, .complete = complete, .arg = p};
}
