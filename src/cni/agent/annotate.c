/* SPDX-License-Identifier: Apache-2.0 */
/* The annotation by which the control plane knows whether a pod is redirected. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "kube/client/kinds.h"

enum { RETRY_S = 10 };

const char agent_enabled[] = "enabled";
const char agent_pending[] = "pending";
static const char UNKNOWN[] = "?"; /* a patch failed: it has to be repeated */

/* A patch under way; the pod may go meanwhile. */
struct patch {
    struct agent *agent;
    struct sw_kube_obj *obj; /* a reference */
    const char *value;       /* NULL: away with the annotation */
    bool whole;              /* of the object itself, not of its status */
};

static void send_patch(struct patch *patch);

/* One at a time: two on their way could arrive in either order. */
static void patched(struct agent_pod *p, const char *value, bool ok)
{
    const char *wish = p->annotated;

    p->patching = false;
    if (!ok) {
        p->annotated = UNKNOWN;
        agent_pods_retry(p, RETRY_S * SW_NS_PER_S);
    } else if (wish != value) {
        p->annotated = value;
        agent_annotate(p, wish);
    } else if (!p->wanted) {
        agent_pods_step(p);
    }
}

static bool took(const struct patch *patch, const struct sw_json *now)
{
    struct sw_slice has = sw_enrol_state(now);

    return patch->value ? sw_slice_eq_str(has, patch->value) : has.n == 0;
}

static void on_patched(void *arg, struct sw_kube_reply *r)
{
    struct patch *patch = arg;
    struct agent *g = patch->agent;
    struct agent_pod *p = g->ending ? NULL : agent_pods_find(g, patch->obj->uid);

    /* Clusters take annotations with the status, by which an agent needs no more rights; where
     * metadata is not part of it the object itself has to be patched. */
    if (r->rc == SW_OK && !patch->whole && !took(patch, r->object) && !g->ending) {
        patch->whole = true;
        send_patch(patch);
        return;
    }
    if (r->rc != SW_OK && r->rc != SW_ENOENT && !g->ending) {
        sw_log_warn("agent", "cannot annotate pod %.*s: %.*s", SW_SLICE_ARG(patch->obj->key),
                    SW_SLICE_ARG(r->message));
        sw_metric_count(g->shard, SW_METRIC_CNI_FAILURES, "Annotation");
    }
    if (p)
        patched(p, patch->value, r->rc == SW_OK || r->rc == SW_ENOENT);
    (void)sw_kube_obj_unref(patch->obj);
    sw_free(patch);
}

static void send_patch(struct patch *patch)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = sw_json_new_object(&a);
    struct sw_json *meta = sw_json_put_object(&a, body, "metadata");

    sw_json_put(&a, sw_json_put_object(&a, meta, "annotations"), SW_ENROL_ANNOTATION,
                patch->value ? sw_json_new_str(&a, patch->value) : sw_json_new_null(&a));
    sw_json_put_str(&a, meta, "uid", patch->obj->uid); /* not another pod of this name */
    (void)sw_kube_do(patch->agent->client,
                     &(struct sw_kube_req){.verb = SW_KUBE_PATCH,
                                           .gvr = &sw_pods_gvr,
                                           .ns = patch->obj->ns,
                                           .name = patch->obj->name,
                                           .sub = patch->whole ? NULL : "status",
                                           .body = body,
                                           .patch = SW_KUBE_PATCH_MERGE,
                                           .field_manager = "spanwire-cni"},
                     on_patched, patch);
}

void agent_annotate(struct agent_pod *p, const char *value)
{
    struct patch *patch;

    if (p->annotated == value)
        return;
    p->annotated = value;
    if (p->patching)
        return; /* follows when the one under way is done */
    p->patching = true;
    patch = SW_NEW(struct patch);
    *patch = (struct patch){.agent = p->agent, .obj = sw_kube_obj_ref(p->obj), .value = value};
    send_patch(patch);
}
