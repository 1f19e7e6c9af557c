/* SPDX-License-Identifier: Apache-2.0 */
/* What other ports and controllers of the same process need of the API server. */
#include <string.h>

#include "apiserver/admission/admission_metrics.h"
#include "apiserver/admission/quota.h"
#include "apiserver/api/api.h"
#include "apiserver/api/limits.h"
#include "apiserver/api/work.h"
#include "apiserver/server.h"
#include "base/buf.h"

enum { PAGE_MAX = 16 << 20 };

struct sw_tls_cred *sw_api_cred(const struct sw_api *a)
{
    return a->cred;
}

int sw_api_may(struct sw_api *a, struct sw_slice token, const struct sw_api_urls *urls,
               bool *ret_allowed, struct sw_err *err)
{
    SW_ARENA_AUTO arena = {0};
    struct api_user user = {0};
    struct api_attrs at = {.user = &user, .verb = SW_SLICE_LIT("get")};
    const char *why = "";

    if (token.n == 0)
        return sw_err_set(err, SW_EDENIED, "no bearer token");
    if (!api_token_user(a, &arena, token, NULL, &user, NULL, &why))
        return sw_err_set(err, SW_EDENIED, "bearer token: %s", why);
    for (size_t i = 0; i < urls->n; i++) {
        at.path = sw_slice_str(urls->p[i]);
        ret_allowed[i] = api_allowed(a, &arena, &at, NULL);
    }
    return SW_OK;
}

void sw_api_store_stats(const struct sw_api *a, struct sw_store_stats *ret)
{
    sw_store_stats(a->store, ret);
}

void sw_api_page(struct sw_api *a, const char *path, const char *content_type, sw_api_page_fn fn,
                 void *arg)
{
    if (a->n_pages < SW_ARRAY_LEN(a->pages))
        a->pages[a->n_pages++] = (struct api_page){path, content_type, fn, arg};
}

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

    for (size_t i = 0; i < r->api->n_pages; i++) {
        const struct api_page *p = &r->api->pages[i];

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
