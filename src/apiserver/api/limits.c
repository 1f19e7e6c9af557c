/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/api/limits.h"

#include <stdatomic.h>

#include "base/log.h"

static const char *const names[API_WORKS] = {
#define X(id, name) [API_WORK_##id] = name,
    API_WORK_REFUSALS(X)
#undef X
};

/* Of the process: there is one API in it. */
static atomic_ullong counts[API_WORKS];

void api_work_refused(struct api_req *r, enum api_work what, const char *where)
{
    atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed);
    sw_log_warn("api", "request refused: its %s takes too much work: user '%.*s', %s %s%s%s",
                names[what], SW_SLICE_ARG(sw_slice_head(r->user.name, 128)), api_verb_name(r->verb),
                r->res ? r->res->plural : "", where ? ", at " : "", where ? where : "");
}

bool api_default(struct api_req *r, struct sw_json *obj)
{
    struct sw_budget b = {.bytes = API_DEFAULT_BYTES};
    const char *where = "";

    if (sw_schema_default_within(r->arena, obj, api_res_schema(r->res), &b, &where))
        return true;
    api_work_refused(r, API_WORK_DEFAULTS, where);
    api_fail(r, 413, "RequestEntityTooLarge",
             "Request entity too large: with the defaults of its schema, at %s", where);
    return false;
}

void api_work_metrics(struct sw_buf *out)
{
    int rc = sw_buf_append_str(out, "# HELP spanwire_api_work_refused_total Requests refused "
                                    "because they would take too much work.\n"
                                    "# TYPE spanwire_api_work_refused_total counter\n");

    for (int i = 0; i < API_WORKS && rc == SW_OK; i++)
        rc = sw_buf_printf(out, "spanwire_api_work_refused_total{work=\"%s\"} %llu\n", names[i],
                           atomic_load_explicit(&counts[i], memory_order_relaxed));
    (void)rc;
}
