/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_facts.h"

#include "base/mem.h"
#include "control/link/auth/pods.h"
#include "control/link/facts.h"
#include "kube/client/informer.h"

static const struct sw_kube_gvr pods_gvr = {"", "v1", "pods", "Pod", true};

struct sw_control_link_facts {
    struct sw_control_link_facts_opts o;
    struct sw_link_controller *controller;
    struct sw_informer *pods;
    struct sw_link_facts *early; /* that came before all pods were read; owned */
};

/* Without its pods no client is known, and policies about them would have no attributes. */
static void on_facts(void *arg, struct sw_link_facts *facts)
{
    struct sw_control_link_facts *f = arg;

    if (sw_informer_synced(f->pods)) {
        f->o.controller.on_facts(f->o.controller.arg, facts);
        return;
    }
    (void)sw_link_facts_unref(f->early);
    f->early = sw_link_facts_ref(facts);
}

static void on_pods_synced(void *arg)
{
    struct sw_control_link_facts *f = arg;
    struct sw_link_facts *early = SW_TAKE(f->early);

    if (early)
        f->o.controller.on_facts(f->o.controller.arg, early);
    (void)sw_link_facts_unref(early);
}

static void on_pod(void *arg, struct sw_kube_obj *o)
{
    struct sw_control_link_facts *f = arg;

    sw_link_pods_set(f->o.pods, o->json);
}

static void on_pod_changed(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_pod(arg, now);
}

static void on_pod_gone(void *arg, struct sw_kube_obj *last)
{
    struct sw_control_link_facts *f = arg;

    sw_link_pods_del(f->o.pods, last->ns, last->name);
}

static const struct sw_informer_cbs pod_cbs = {
    .add = on_pod, .update = on_pod_changed, .del = on_pod_gone, .synced = on_pods_synced};

struct sw_control_link_facts *sw_control_link_facts_new(struct sw_kube_client *client,
                                                        const struct sw_control_link_facts_opts *o,
                                                        struct sw_err *err)
{
    struct sw_control_link_facts *f = SW_NEW(struct sw_control_link_facts);
    struct sw_link_controller_opts co = o->controller;

    f->o = *o;
    co.on_facts = on_facts;
    co.arg = f;
    f->controller = sw_link_controller_new(client, &co, err);
    if (!f->controller) {
        sw_control_link_facts_free(f);
        return NULL;
    }
    f->pods = sw_informer_new(client, &(struct sw_informer_opts){.gvr = &pods_gvr, .hollow = true},
                              &pod_cbs, f);
    sw_informer_start(f->pods);
    sw_link_controller_start(f->controller);
    return f;
}

void sw_control_link_facts_free(struct sw_control_link_facts *f)
{
    if (!f)
        return;
    sw_link_controller_free(f->controller);
    if (f->pods)
        sw_informer_free(f->pods);
    (void)sw_link_facts_unref(f->early);
    sw_free(f);
}

struct sw_link_controller *sw_control_link_controller(const struct sw_control_link_facts *f)
{
    return f->controller;
}
