/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/pages.h"

#include "apiserver/server.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cmd/control/gateway.h"
#include "cmd/control/mesh_xds.h"
#include "store/store.h"
#include "telemetry/metrics.h"

struct sw_control_pages {
    struct sw_api *api; /* may be NULL */
    const struct sw_control_gateway *gateway;
    const struct sw_control_mesh_xds *mesh;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
};

void sw_control_pages_status(const struct sw_control_pages *p, struct sw_buf *out)
{
    struct sw_jw w;

    sw_jw_begin(&w, out, NULL);
    sw_jw_object(&w);
    if (p->gateway)
        sw_control_gateway_put_status(p->gateway, &w);
    sw_jw_name(&w, "clients");
    sw_jw_array(&w);
    if (p->gateway)
        sw_control_gateway_put_clients(p->gateway, &w);
    if (p->mesh)
        sw_control_mesh_xds_status(p->mesh, &w);
    sw_jw_array_end(&w);
    sw_jw_object_end(&w);
    if (sw_jw_end(&w) != SW_OK)
        sw_buf_clear(out);
}

static void status_page(void *arg, struct sw_buf *out)
{
    sw_control_pages_status(arg, out);
}

static void measure_store(struct sw_control_pages *p)
{
    struct sw_store_stats st;

    sw_api_store_stats(p->api, &st);
    sw_metric_set(sw_metric_get1(p->shard, SW_METRIC_STORE_OBJECTS, NULL), (int64_t)st.objects);
    sw_metric_set(sw_metric_get1(p->shard, SW_METRIC_STORE_CHANGES, NULL), (int64_t)st.events);
    sw_metric_set(sw_metric_get1(p->shard, SW_METRIC_STORE_CHANGE_BYTES, NULL),
                  (int64_t)st.event_bytes);
}

static void metrics_page(void *arg, struct sw_buf *out)
{
    struct sw_control_pages *p = arg;

    measure_store(p);
    if (sw_metrics_write(p->metrics, SW_METRICS_PROMETHEUS, out) != SW_OK)
        sw_buf_clear(out);
}

struct sw_control_pages *sw_control_pages_new(struct sw_api *api)
{
    struct sw_control_pages *p = SW_NEW(struct sw_control_pages);

    p->api = api;
    p->metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "control"});
    p->shard = sw_metrics_shard_new(p->metrics);
    if (api) {
        sw_api_page(api, "/debug/xds", "application/json", status_page, p);
        sw_api_page(api, "/metrics", "text/plain; version=0.0.4", metrics_page, p);
    }
    return p;
}

void sw_control_pages_free(struct sw_control_pages *p)
{
    if (!p)
        return;
    sw_metrics_shard_free(p->shard);
    sw_metrics_free(p->metrics);
    sw_free(p);
}

struct sw_metrics_shard *sw_control_pages_metrics(const struct sw_control_pages *p)
{
    return p->shard;
}

struct sw_metrics *sw_control_pages_registry(const struct sw_control_pages *p)
{
    return p->metrics;
}

void sw_control_pages_show(struct sw_control_pages *p, const struct sw_control_gateway *g,
                           const struct sw_control_mesh_xds *m)
{
    p->gateway = g;
    p->mesh = m;
}
