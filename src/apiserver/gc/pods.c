/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/gc/pods.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "kube/fields.h"

struct pod {
    char *name;             /* owned */
    struct sw_slice digest; /* owned */
};

struct service {
    char *key; /* owned */
    struct sw_arena arena;
    const struct sw_json *selector;
    uint64_t next_ns; /* see gc_pods_pace */
};

struct space {
    char *name; /* owned */
    struct sw_map pods;
    struct sw_map services; /* those with a selector */
};

struct gc_pods {
    struct sw_map spaces;
};

struct gc_pods *gc_pods_new(void)
{
    return SW_NEW(struct gc_pods);
}

static void pod_free(struct pod *p)
{
    sw_slice_free(&p->digest);
    sw_free(p->name);
    sw_free(p);
}

static void service_free(struct service *s)
{
    sw_arena_clear(&s->arena);
    sw_free(s->key);
    sw_free(s);
}

static void space_free(struct space *s)
{
    SW_MAP_DRAIN(&s->pods, pod_free);
    SW_MAP_DRAIN(&s->services, service_free);
    sw_free(s->name);
    sw_free(s);
}

void gc_pods_free(struct gc_pods *p)
{
    if (!p)
        return;
    SW_MAP_DRAIN(&p->spaces, space_free);
    sw_free(p);
}

static struct space *space_of(struct gc_pods *p, struct sw_slice ns)
{
    struct space *s = sw_map_get(&p->spaces, ns);

    if (s)
        return s;
    s = SW_NEW(struct space);
    s->name = sw_slice_dup(ns);
    (void)sw_map_put(&p->spaces, sw_slice(s->name, ns.n), s);
    return s;
}

static void space_rest(struct gc_pods *p, struct space *s)
{
    if (s->pods.n + s->services.n)
        return;
    (void)sw_map_del(&p->spaces, sw_slice_str(s->name));
    space_free(s);
}

/* ---- digests ---- */

static bool is_ready(const struct sw_json *pod)
{
    const struct sw_json *list = sw_json_walk(pod, "status", "conditions", NULL);

    return sw_field_is(sw_json_find_item(list, "type", SW_SLICE_LIT("Ready")), "status", "True");
}

static struct sw_json *addresses(struct sw_arena *a, const struct sw_json *status)
{
    const struct sw_json *list = sw_json_find(status, "podIPs");
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (it, list) {
        struct sw_slice ip = sw_field_text(it, "ip");

        if (ip.n)
            sw_json_push(a, out, sw_json_new_string(a, ip));
    }
    if (sw_json_len(out) == 0 && sw_field_text(status, "podIP").n)
        sw_json_push(a, out, sw_json_new_string(a, sw_field_text(status, "podIP")));
    return out;
}

static void add_ports(struct sw_arena *a, struct sw_json *out, const struct sw_json *container)
{
    const struct sw_json *ports = sw_json_find(container, "ports");

    SW_JSON_ITEMS (p, ports) {
        struct sw_slice name = sw_field_text(p, "name");
        struct sw_slice protocol = sw_field_text(p, "protocol");

        if (name.n)
            sw_json_push(
                a, out,
                SW_JSON_OF(a, {"name", .text = name},
                           {"port", .json = sw_json_new_i64(a, sw_field_int(p, "containerPort"))},
                           {"protocol", .text = protocol.n ? protocol : SW_SLICE_LIT("TCP")}));
    }
}

/* Of containers, and of init containers that stay. */
static struct sw_json *named_ports(struct sw_arena *a, const struct sw_json *spec)
{
    const struct sw_json *list = sw_json_find(spec, "containers");
    const struct sw_json *init = sw_json_find(spec, "initContainers");
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (it, list)
        add_ports(a, out, it);
    SW_JSON_ITEMS (it, init) {
        if (sw_field_is(it, "restartPolicy", "Always"))
            add_ports(a, out, it);
    }
    return out;
}

struct sw_slice gc_pod_digest(struct sw_arena *a, const struct sw_json *pod)
{
    const struct sw_json *meta = sw_json_find(pod, "metadata");
    const struct sw_json *spec = sw_json_find(pod, "spec");
    const struct sw_json *status = sw_json_find(pod, "status");
    const struct sw_json *labels = sw_json_find(meta, "labels");
    struct sw_json *ips = addresses(a, status);
    bool going = sw_json_find(meta, "deletionTimestamp") != NULL;

    if (sw_json_len(ips) == 0 || sw_field_is(status, "phase", "Failed") ||
        sw_field_is(status, "phase", "Succeeded"))
        return sw_slice("", 0);
    return sw_json_sorted_text(
        a, SW_JSON_OF(a, {"uid", .text = sw_field_text(meta, "uid")},
                      {"node", .text = sw_field_text(spec, "nodeName")},
                      {"hostname", .text = sw_field_text(spec, "hostname")},
                      {"subdomain", .text = sw_field_text(spec, "subdomain")},
                      {"labels", .json = labels ? sw_json_copy(a, labels) : sw_json_new_object(a)},
                      {"ips", .json = ips}, {"ports", .json = named_ports(a, spec)},
                      {"ready", .json = sw_json_new_bool(a, is_ready(pod))},
                      {"terminating", .json = sw_json_new_bool(a, going)}));
}

/* ---- selecting ---- */

static bool selects(const struct sw_json *selector, const struct sw_json *digest)
{
    const struct sw_json *labels = sw_json_find(digest, "labels");

    SW_JSON_MEMBERS (m, selector) {
        if (!sw_json_equal(m->value, sw_json_get(labels, m->key), SW_JSON_EQ_TEXT))
            return false;
    }
    return sw_json_len(selector) > 0;
}

static const struct sw_json *parse(struct sw_arena *a, struct sw_slice digest)
{
    struct sw_json *v = NULL;

    if (!digest.n ||
        sw_json_parse(a, digest, &(struct sw_json_opts){.borrow = true}, &v, NULL) != SW_OK)
        return NULL;
    return v;
}

static void report(const struct space *s, struct sw_slice was, struct sw_slice is, gc_service_fn f,
                   void *arg)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *x = parse(&a, was);
    const struct sw_json *y = parse(&a, is);

    SW_MAP_EACH (const struct service, svc, &s->services) {
        if ((x && selects(svc->selector, x)) || (y && selects(svc->selector, y)))
            f(arg, sw_slice_str(svc->key));
    }
}

void gc_pods_set(struct gc_pods *p, struct sw_slice ns, struct sw_slice name,
                 struct sw_slice digest, gc_service_fn f, void *arg)
{
    struct space *s = space_of(p, ns);
    struct pod *was = sw_map_get(&s->pods, name);
    struct pod *is;

    if (was ? !sw_slice_eq(was->digest, digest) : digest.n > 0) {
        report(s, was ? was->digest : sw_slice("", 0), digest, f, arg);
        if (was) {
            (void)sw_map_del(&s->pods, name);
            pod_free(was);
        }
        if (digest.n) {
            is = SW_NEW(struct pod);
            is->name = sw_slice_dup(name);
            is->digest = sw_slice(sw_slice_dup(digest), digest.n);
            (void)sw_map_put(&s->pods, sw_slice(is->name, name.n), is);
        }
    }
    space_rest(p, s);
}

void gc_pods_set_service(struct gc_pods *p, struct sw_slice ns, struct sw_slice key,
                         const struct sw_json *selector)
{
    struct space *s = space_of(p, ns);
    struct service *svc = sw_map_del(&s->services, key);
    uint64_t next_ns = svc ? svc->next_ns : 0;

    if (svc)
        service_free(svc);
    if (sw_json_len(selector)) {
        svc = SW_NEW(struct service);
        svc->next_ns = next_ns;
        svc->key = sw_slice_dup(key);
        svc->selector = sw_json_copy(&svc->arena, selector);
        (void)sw_map_put(&s->services, sw_slice(svc->key, key.n), svc);
    }
    space_rest(p, s);
}

uint64_t *gc_pods_pace(struct gc_pods *p, struct sw_slice ns, struct sw_slice key)
{
    const struct space *s = sw_map_get(&p->spaces, ns);
    struct service *svc = s ? sw_map_get(&s->services, key) : NULL;

    return svc ? &svc->next_ns : NULL;
}

void gc_pods_select(const struct gc_pods *p, struct sw_slice ns, const struct sw_json *selector,
                    gc_pod_fn f, void *arg)
{
    const struct space *s = sw_map_get(&p->spaces, ns);

    if (!s)
        return;
    SW_MAP_EACH (const struct pod, pod, &s->pods) {
        SW_ARENA_AUTO a = {0};
        const struct sw_json *digest = parse(&a, pod->digest);

        if (digest && selects(selector, digest))
            f(arg, sw_slice_str(pod->name), digest);
    }
}
