/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/up/objects.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/client/client.h"

static const uint64_t again_ns = 50 * SW_NS_PER_MS;
static const uint64_t patience_ns = 5 * SW_NS_PER_S; /* then failures are logged, as often */

struct sw_up_objects {
    struct sw_loop *loop;
    struct sw_up_objects_opts o;
    struct sw_kube_client *client;
    struct sw_kube_call *call;
    struct sw_timer again;
    size_t at;
    uint64_t log_ns; /* not before */
};

static void write_next(struct sw_up_objects *p);

static void on_again(struct sw_timer *t)
{
    write_next(SW_CONTAINER_OF(t, struct sw_up_objects, again));
}

static void retry(struct sw_up_objects *p, struct sw_slice why)
{
    uint64_t now = sw_loop_now(p->loop);

    if (now >= p->log_ns) {
        const struct sw_up_object *o = &p->o.list[p->at];

        sw_log_warn("up", "cannot write %s '%.*s' to the API of site '%s', retrying: %.*s",
                    o->gvr->kind,
                    SW_SLICE_ARG(sw_json_str(sw_json_walk(o->json, "metadata", "name", NULL))),
                    p->o.site, SW_SLICE_ARG_MAX(why, 200));
        p->log_ns = now + patience_ns;
    }
    sw_timer_start(p->loop, &p->again, again_ns, on_again);
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct sw_up_objects *p = arg;

    p->call = NULL;
    if (r->rc != SW_OK) {
        retry(p, r->message);
        return;
    }
    p->at++;
    if (p->at < p->o.n)
        write_next(p);
    else
        p->o.done(p->o.arg);
}

static int connect_api(struct sw_up_objects *p, struct sw_err *err)
{
    struct sw_kube_config config = {0};
    int rc = sw_kube_config_find(p->o.kubeconfig, NULL, &config, err);

    if (rc != SW_OK)
        return rc;
    p->client = sw_kube_client_new(p->loop, &config, NULL, err);
    return p->client ? SW_OK : err->rc;
}

static void write_next(struct sw_up_objects *p)
{
    const struct sw_up_object *o = &p->o.list[p->at];
    struct sw_err err = {0};

    if (!p->client && connect_api(p, &err) != SW_OK)
        retry(p, sw_slice_str(err.msg));
    else
        p->call = sw_kube_apply(p->client,
                                &(struct sw_kube_apply){.gvr = o->gvr,
                                                        .obj = o->json,
                                                        .sub = o->sub,
                                                        .manager = "spanwire-up",
                                                        .force = true},
                                on_written, p);
}

struct sw_up_objects *sw_up_objects_new(struct sw_loop *l, const struct sw_up_objects_opts *o)
{
    struct sw_up_objects *p = SW_NEW(struct sw_up_objects);

    p->loop = l;
    p->o = *o;
    p->log_ns = sw_loop_now(l) + patience_ns;
    write_next(p);
    return p;
}

void sw_up_objects_free(struct sw_up_objects *p)
{
    if (!p)
        return;
    sw_kube_call_cancel(p->call);
    if (p->client)
        sw_kube_client_free(p->client);
    sw_timer_stop(p->loop, &p->again);
    sw_free(p);
}
