/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/pages.h"

#include <string.h>

#include "apiserver/admission/admission_metrics.h"
#include "apiserver/admission/quota.h"
#include "apiserver/api/api.h"
#include "apiserver/api/limits.h"
#include "apiserver/api/work.h"

enum { PAGE_MAX = 16 << 20 };

static void front_metrics(const struct sw_front *f, struct sw_buf *out)
{
    struct sw_front_stats st;

    sw_front_stats(f, &st);
    (void)!sw_buf_printf(
        out,
        "# HELP spanwire_api_connections Connections to the API\n"
        "# TYPE spanwire_api_connections gauge\n"
        "spanwire_api_connections %zu\n"
        "# HELP spanwire_api_unread_bytes Bytes of answers that wait for their readers\n"
        "# TYPE spanwire_api_unread_bytes gauge\n"
        "spanwire_api_unread_bytes %zu\n"
        "# HELP spanwire_api_cut_total Connections, streams and answers given up, by reason\n"
        "# TYPE spanwire_api_cut_total counter\n"
        "spanwire_api_cut_total{reason=\"idle_evicted\"} %llu\n"
        "spanwire_api_cut_total{reason=\"connection_refused\"} %llu\n"
        "spanwire_api_cut_total{reason=\"not_read\"} %llu\n"
        "spanwire_api_cut_total{reason=\"too_much_unread\"} %llu\n",
        st.conns, st.unread_bytes, (unsigned long long)st.evicted, (unsigned long long)st.refused,
        (unsigned long long)st.unread, (unsigned long long)st.full);
}

static void refusal_metrics(const struct sw_api *api, struct sw_buf *out)
{
    int rc = sw_buf_printf(
        out,
        "# HELP spanwire_api_refusals_total What the API refused beyond single requests.\n"
        "# TYPE spanwire_api_refusals_total counter\n"
        "spanwire_api_refusals_total{reason=\"escalation\"} %llu\n"
        "spanwire_api_refusals_total{reason=\"revoked\"} %llu\n",
        (unsigned long long)api->refused.escalations, (unsigned long long)api->refused.revoked);

    (void)rc; /* a page that is full says so elsewhere */
}

static void api_metrics(struct sw_api *api, struct sw_buf *out)
{
    api_admission_metrics(api, out);
    api_workers_metrics(api->work, out);
    api_work_metrics(out);
    front_metrics(api->front, out);
    refusal_metrics(api, out);
    (void)!sw_buf_printf(out,
                         "# HELP spanwire_api_quota_refused_total Writes refused for want of "
                         "quota\n# TYPE spanwire_api_quota_refused_total counter\n"
                         "spanwire_api_quota_refused_total %llu\n",
                         (unsigned long long)api_quota_refused(api->quota));
}

bool api_embedded_page(struct api_req *r)
{
    struct sw_buf out = {.max = PAGE_MAX};

    for (size_t i = 0; i < r->api->page.n; i++) {
        const struct api_page *p = &r->api->page.pages[i];

        if (!sw_slice_eq_str(r->path, p->path))
            continue;
        p->fn(p->arg, &out);
        if (strcmp(p->path, "/metrics") == 0)
            api_metrics(r->api, &out);
        api_reply_buf(r, 200, p->type, &out);
        return true;
    }
    if (!sw_slice_eq_str(r->path, "/metrics"))
        return false;
    api_metrics(r->api, &out);
    api_reply_buf(r, 200, "text/plain; version=0.0.4", &out);
    return true;
}
