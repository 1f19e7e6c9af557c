/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/conn/worker.h"

#include "base/mem.h"
#include "gateway/config/config.h"
#include "http/grammar.h"

struct sw_gw_view *sw_gw_view_unref(struct sw_gw_view *v)
{
    if (v && --v->refs == 0) {
        (void)sw_gw_config_unref(v->config);
        sw_free(v);
    }
    return NULL;
}

struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w)
{
    uint64_t now = sw_loop_now(w->loop);
    uint64_t wall;

    if (now >= w->date_until_ns) {
        wall = sw_wall_ns();
        w->date_until_ns = now + SW_NS_PER_S - wall % SW_NS_PER_S;
        (void)sw_http_date(wall / SW_NS_PER_S, w->date);
    }
    return sw_slice(w->date, SW_HTTP_DATE_LEN - 1);
}
