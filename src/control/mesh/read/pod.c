/* SPDX-License-Identifier: Apache-2.0 */
/* Pods and WorkloadEntries. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "control/mesh/names.h"
#include "control/mesh/read/ports.h"
#include "control/mesh/read/read.h"
#include "control/objects.h"

enum { PORTS_BYTES = 16384 };

struct ips {
    char bytes[MESH_IPS_MAX * 17];
    size_t n;
    size_t count;
};

static bool add_ip(struct ips *out, struct sw_slice text)
{
    struct sw_ip ip;
    struct sw_err err;

    if (sw_ip_parse(text, &ip, &err) != SW_OK)
        return false;
    if (out->count == MESH_IPS_MAX)
        return true; /* no node has so many */
    out->count++;
    out->bytes[out->n++] = (char)ip.family;
    memcpy(out->bytes + out->n, ip.b, sw_ip_len(&ip));
    out->n += sw_ip_len(&ip);
    return true;
}

/* False when there is none, or one of them is not an address. */
static bool read_ips(const struct sw_json *status, struct ips *out)
{
    const struct sw_json *list = sw_json_find(status, "podIPs");
    struct sw_slice one = js_or(status, "podIP", "");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (!add_ip(out, js_or(sw_json_at(list, i), "ip", "")))
            return false;
    }
    if (!out->n && one.n)
        return add_ip(out, one);
    return out->n > 0;
}

/* A record with its key and addresses behind it. */
static struct mesh_workload *make(const struct mesh_meta *m, const struct ips *ips)
{
    size_t key_len = m->ns.n + 1 + m->name.n;
    struct mesh_workload *w = sw_calloc(1, sizeof(*w) + key_len + ips->n);
    char *p = w->key;

    memcpy(p, m->ns.p, m->ns.n);
    p[m->ns.n] = '/';
    memcpy(p + m->ns.n + 1, m->name.p, m->name.n);
    memcpy(p + key_len, ips->bytes, ips->n);
    w->key_len = (uint16_t)key_len;
    w->ips_len = (uint16_t)ips->n;
    sw_list_init(&w->in_group);
    sw_list_init(&w->in_node);
    sw_list_init(&w->dirty);
    return w;
}

static void read_tunnel(struct mesh_workload *w, const struct mesh_meta *m,
                        const struct mesh_text *labels)
{
    w->native = mesh_read_has_word(mesh_labels_get(labels, MESH_TUNNEL), "http");
    w->hbone = w->native || sw_slice_eq_str(js(m->annotations, MESH_REDIRECTION), "enabled");
}

/* ---- the name of what made the pod ---- */

static const struct sw_json *controller_of(const struct sw_json *meta)
{
    const struct sw_json *list = sw_json_find(meta, "ownerReferences");

    SW_JSON_ITEMS (o, list) {
        if (sw_json_true(sw_json_find(o, "controller")))
            return o;
    }
    return NULL;
}

/* "NAME-HASH" without the hash; false when it does not end in it. */
static bool strip_hash(struct sw_slice *name, struct sw_slice hash)
{
    if (!hash.n || !sw_slice_has_suffix(*name, hash))
        return false;
    name->n -= hash.n;
    if (name->n && name->p[name->n - 1] == '-')
        name->n--;
    return true;
}

/* A CronJob's Job: "NAME-" and 8 to 10 digits. */
static void strip_time(struct sw_slice *name)
{
    size_t n = name->n;
    size_t digits;

    while (n && name->p[n - 1] >= '0' && name->p[n - 1] <= '9')
        n--;
    digits = name->n - n;
    if (digits >= 8 && digits <= 10 && n > 1 && name->p[n - 1] == '-')
        name->n = n - 1;
}

static struct sw_slice workload_name(const struct sw_json *obj, const struct mesh_meta *m)
{
    const struct sw_json *meta = sw_json_find(obj, "metadata");
    const struct sw_json *owner = controller_of(meta);
    struct sw_slice fixed = js(m->labels, MESH_WORKLOAD_NAME);
    struct sw_slice kind = js_or(owner, "kind", "");
    struct sw_slice name = js_or(owner, "name", "");

    if (fixed.n)
        return fixed;
    if (!js_or(meta, "generateName", "").n || !name.n)
        return m->name;
    if (sw_slice_eq_str(kind, "ReplicaSet")) {
        struct sw_slice rest = name;

        if (strip_hash(&rest, js_or(m->labels, "pod-template-hash", "")) ||
            strip_hash(&rest, js_or(m->labels, "rollouts-pod-template-hash", "")))
            return rest;
    } else if (sw_slice_eq_str(kind, "ReplicationController")) {
        struct sw_slice config = js_or(m->labels, "deploymentconfig", "");

        return config.n ? config : name;
    } else if (sw_slice_eq_str(kind, "Job")) {
        strip_time(&name);
    }
    return name;
}

/* ---- pods ---- */

static struct mesh_text *container_ports(struct sw_mesh_index *ix, const struct sw_json *spec)
{
    const struct sw_json *list = sw_json_find(spec, "containers");
    SW_BUF_AUTO b = {.max = PORTS_BYTES};

    for (size_t i = 0; i < sw_json_len(list); i++)
        mesh_ports_add(&b, sw_json_find(sw_json_at(list, i), "ports"), "containerPort", false);
    list = sw_json_find(spec, "initContainers");
    SW_JSON_ITEMS (c, list) {
        if (sw_slice_eq_str(js(c, "restartPolicy"), "Always"))
            mesh_ports_add(&b, sw_json_find(c, "ports"), "containerPort", false);
    }
    return mesh_text(&ix->pool, sw_buf_slice(&b));
}

struct mesh_workload *mesh_read_pod(struct sw_mesh_index *ix, const struct sw_json *obj,
                                    const struct mesh_meta *m, struct mesh_place *ret)
{
    const struct sw_json *meta = sw_json_find(obj, "metadata");
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *status = sw_json_find(obj, "status");
    struct sw_slice phase = js_or(status, "phase", "");
    struct sw_slice uid = js_or(meta, "uid", "");
    struct mesh_workload *w;
    struct ips ips = {.n = 0};

    if (sw_slice_eq_str(phase, "Failed") || sw_slice_eq_str(phase, "Succeeded") ||
        !read_ips(status, &ips))
        return NULL;
    w = make(m, &ips);
    w->uid = uid.n ? sw_hash(uid.p, uid.n) | 1 : 0;
    w->host_network = sw_json_true(sw_json_find(spec, "hostNetwork"));
    w->healthy = cn_is_true(sw_json_find(status, "conditions"), "Ready") &&
                 !sw_json_find(meta, "deletionTimestamp");
    w->account = mesh_text(&ix->pool, js_or(spec, "serviceAccountName", ""));
    w->workload_name = mesh_text(&ix->pool, workload_name(obj, m));
    w->ports = container_ports(ix, spec);
    ret->labels = mesh_labels(&ix->pool, m->labels, NULL);
    ret->node = js_or(spec, "nodeName", "");
    read_tunnel(w, m, ret->labels);
    return w;
}

/* ---- WorkloadEntries ---- */

static struct mesh_text *entry_ports(struct sw_mesh_index *ix, const struct sw_json *spec)
{
    SW_BUF_AUTO b = {.max = PORTS_BYTES};

    mesh_ports_add_map(&b, sw_json_find(spec, "ports"));
    return mesh_text(&ix->pool, sw_buf_slice(&b));
}

struct mesh_workload *mesh_read_workload_entry(struct sw_mesh_index *ix, const struct sw_json *obj,
                                               const struct mesh_meta *m, struct mesh_place *ret,
                                               const char **ret_why)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice address = js_or(spec, "address", "");
    struct sw_slice name = js_or(m->annotations, MESH_AUTO_REGISTRATION, "");
    struct mesh_workload *w;
    struct ips ips = {.n = 0};
    bool is_ip = add_ip(&ips, address);

    if (!is_ip && address.n &&
        (!mesh_read_is_name(address) || sw_slice_has_prefix(address, SW_SLICE_LIT("unix:")))) {
        *ret_why = "spec.address is neither an address nor a host name";
        return NULL;
    }
    w = make(m, &ips);
    w->healthy = true;
    w->we = SW_NEW(struct mesh_we);
    w->we->network = mesh_text(&ix->pool, js_or(spec, "network", ""));
    w->we->hostname = is_ip ? NULL : mesh_text(&ix->pool, address);
    w->we->locality = mesh_text(&ix->pool, js_or(spec, "locality", ""));
    w->we->weight = (uint32_t)js_int(spec, "weight", UINT32_MAX, 0);
    w->account = mesh_text(&ix->pool, js_or(spec, "serviceAccount", ""));
    w->ports = entry_ports(ix, spec);
    ret->labels = mesh_labels(&ix->pool, sw_json_find(spec, "labels"), m->labels);
    ret->node = sw_slice("", 0);
    if (!name.n)
        name = mesh_labels_get(ret->labels, MESH_WORKLOAD_NAME);
    w->workload_name = mesh_text(&ix->pool, name.n ? name : m->name);
    read_tunnel(w, m, ret->labels);
    return w;
}

void mesh_workload_free(struct sw_mesh_index *ix, struct mesh_workload *w)
{
    if (!w)
        return;
    if (w->we) {
        mesh_text_drop(&ix->pool, &w->we->network);
        mesh_text_drop(&ix->pool, &w->we->hostname);
        mesh_text_drop(&ix->pool, &w->we->locality);
        sw_free(w->we);
    }
    mesh_text_drop(&ix->pool, &w->account);
    mesh_text_drop(&ix->pool, &w->workload_name);
    mesh_text_drop(&ix->pool, &w->ports);
    sw_free(w);
}
