/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/conn/worker.h"

#include "base/mem.h"
#include "gateway/config/config.h"

struct sw_gw_view *sw_gw_view_unref(struct sw_gw_view *v)
{
    if (v && --v->refs == 0) {
        (void)sw_gw_config_unref(v->config);
        sw_free(v);
    }
    return NULL;
}
