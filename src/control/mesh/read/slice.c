/* SPDX-License-Identifier: Apache-2.0 */
/* EndpointSlices: names of pods, and addresses that belong to no pod. */
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "control/mesh/names.h"
#include "control/mesh/read/ports.h"
#include "control/mesh/read/read.h"
#include "control/objects.h"

enum { PORTS_BYTES = 16384, PODS_BYTES = 4 << 20, NAME_MAX_LEN = 253 };

bool mesh_slice_pods_next(struct sw_slice *list, struct mesh_slice_pod *ret)
{
    uint8_t n;

    if (list->n < sizeof(ret->uid) + 1)
        return false;
    memcpy(&ret->uid, list->p, sizeof(ret->uid));
    n = (uint8_t)list->p[sizeof(ret->uid)];
    ret->name = sw_slice(list->p + sizeof(ret->uid) + 1, n);
    *list = sw_slice_from(*list, sizeof(ret->uid) + 1 + n);
    return true;
}

/* Endpoints are of the slice's own namespace. */
static void add_pod(struct sw_buf *out, const struct sw_json *ref, struct sw_slice ns)
{
    struct sw_slice said = js_or(ref, "namespace", "");
    struct sw_slice name = js_or(ref, "name", "");
    struct sw_slice uid = js_or(ref, "uid", "");
    uint64_t hash = uid.n ? sw_hash(uid.p, uid.n) | 1 : 0;
    uint8_t n = (uint8_t)name.n;

    if ((said.n && !sw_slice_eq(said, ns)) || !name.n || name.n > NAME_MAX_LEN ||
        sw_buf_len(out) + sizeof(hash) + 1 + n > out->max)
        return;
    (void)!sw_buf_append(out, &hash, sizeof(hash));
    (void)!sw_buf_append(out, &n, 1);
    (void)!sw_buf_append_slice(out, name);
}

static void add_foreign(struct mesh_slice *s, const struct sw_json *endpoint)
{
    const struct sw_json *list = sw_json_find(endpoint, "addresses");
    const struct sw_json *ready = sw_json_walk(endpoint, "conditions", "ready", NULL);
    size_t n = sw_json_is(list, SW_JSON_ARRAY) ? sw_min(sw_json_len(list), MESH_IPS_MAX) : 0;
    struct mesh_foreign *f = &s->foreign[s->n_foreign];
    struct sw_err err;

    f->ips = sw_arena_array(&s->arena, n + 1, sizeof(*f->ips));
    for (size_t i = 0; i < n; i++) {
        if (sw_ip_parse(sw_json_str(sw_json_at(list, i)), &f->ips[f->n_ips], &err) == SW_OK)
            f->n_ips++;
    }
    f->ready = !sw_json_is(ready, SW_JSON_BOOL) || ready->boolean;
    s->n_foreign += f->n_ips > 0;
}

static void read_endpoints(struct mesh_slice *s, const struct sw_json *list, struct sw_slice ns)
{
    size_t n = sw_json_is(list, SW_JSON_ARRAY) ? sw_min(sw_json_len(list), MESH_ENDPOINTS_MAX) : 0;
    SW_BUF_AUTO pods = {.max = PODS_BYTES};
    size_t others = 0;

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *ref = sw_json_find(sw_json_at(list, i), "targetRef");

        if (sw_slice_eq_str(js(ref, "kind"), "Pod"))
            add_pod(&pods, ref, ns);
        else
            others++;
    }
    if (sw_buf_len(&pods)) {
        s->pods_len = sw_buf_len(&pods);
        s->pods = sw_malloc(s->pods_len);
        memcpy(s->pods, sw_buf_data(&pods), s->pods_len);
    }
    if (!others)
        return;
    s->foreign = sw_arena_array(&s->arena, others, sizeof(*s->foreign));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *e = sw_json_at(list, i);

        if (!sw_slice_eq_str(js(sw_json_find(e, "targetRef"), "kind"), "Pod"))
            add_foreign(s, e);
    }
}

struct mesh_slice *mesh_read_slice(struct sw_mesh_index *ix, const struct sw_json *obj,
                                   const struct mesh_meta *m)
{
    struct sw_slice service = js_or(m->labels, MESH_SERVICE_NAME, "");
    SW_BUF_AUTO ports = {.max = PORTS_BYTES};
    struct mesh_slice *s;
    char *key;

    if (!service.n || sw_slice_eq_str(js(obj, "addressType"), "FQDN"))
        return NULL;
    s = sw_calloc(1, sizeof(*s) + m->ns.n + 1 + m->name.n);
    key = (char *)(s + 1);
    memcpy(key, m->ns.p, m->ns.n);
    key[m->ns.n] = '/';
    memcpy(key + m->ns.n + 1, m->name.p, m->name.n);
    s->key = sw_slice(key, m->ns.n + 1 + m->name.n);
    s->name = sw_slice_from(s->key, m->ns.n + 1);
    sw_list_init(&s->in_ns);
    sw_list_init(&s->dirty);
    s->service = mesh_text(&ix->pool, service);
    mesh_ports_add(&ports, sw_json_find(obj, "ports"), "port", true);
    s->ports = mesh_text(&ix->pool, sw_buf_slice(&ports));
    read_endpoints(s, sw_json_find(obj, "endpoints"), m->ns);
    return s;
}

void mesh_slice_free(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    if (!s)
        return;
    mesh_text_drop(&ix->pool, &s->service);
    mesh_text_drop(&ix->pool, &s->ports);
    sw_vec_done(&s->outs);
    sw_arena_clear(&s->arena);
    sw_free(s->pods);
    sw_free(s);
}
