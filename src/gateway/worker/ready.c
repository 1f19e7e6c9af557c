/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/ready.h"

#include "base/log.h"
#include "base/trim.h"
#include "gateway/worker/process.h"
#include "telemetry/ready.h"

void sw_gateway_log_ready(struct sw_gateway *g)
{
    if (g->logged_ready || !sw_ready_check(g->process.ready, NULL))
        return;
    g->logged_ready = true;
    sw_log_info("gateway", "ready");
}

static void on_serving(struct sw_msg *m)
{
    struct sw_gateway *g = SW_CONTAINER_OF(m, struct sw_gateway, serving_msg);

    sw_ready_done(g->process.ready, "config");
    sw_gateway_log_ready(g);
    sw_trim_heap();
}

void sw_gateway_worker_serves(struct sw_gateway *g)
{
    if (atomic_fetch_add(&g->serving, 1) + 1 == g->n_workers) {
        g->serving_msg.cb = on_serving;
        sw_loop_post(g->process.loop, &g->serving_msg);
    }
}
