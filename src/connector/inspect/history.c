/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/history.h"

#include "base/mem.h"
#include "base/time.h"

void sw_request_text(char *to, size_t size, struct sw_slice from)
{
    size_t n = sw_min(from.n, size - 1);

    for (size_t i = 0; i < n; i++)
        to[i] = from.p[i] >= 0x20 && from.p[i] < 0x7f ? from.p[i] : '?';
    to[n] = '\0';
}

void sw_history_done(struct sw_history *h)
{
    sw_free(h->ring);
    *h = (struct sw_history){0};
}

void sw_history_add(struct sw_history *h, const struct sw_inspect_request *r)
{
    if (!h->ring)
        h->ring = SW_NEW_ARRAY(struct sw_inspect_request, SW_HISTORY_MAX);
    h->ring[h->next] = *r;
    h->next = (h->next + 1) % SW_HISTORY_MAX;
    h->total++;
}

size_t sw_history_count(const struct sw_history *h)
{
    return (size_t)sw_min(h->total, SW_HISTORY_MAX);
}

const struct sw_inspect_request *sw_history_at(const struct sw_history *h, size_t i)
{
    return &h->ring[(h->next + SW_HISTORY_MAX - 1 - i) % SW_HISTORY_MAX];
}

void sw_request_json(struct sw_jw *w, const struct sw_inspect_request *r)
{
    char when[SW_RFC3339_LEN];
    uint64_t duration_us = r->duration_ns / 1000;

    sw_jw_object(w);
    sw_jw_put_str(w, "time", sw_rfc3339(r->wall_ns, 1, when));
    sw_jw_put_str(w, "kind", r->kind);
    sw_jw_put_str(w, "method", r->method);
    sw_jw_put_str(w, "host", r->host);
    sw_jw_put_str(w, "path", r->path);
    sw_jw_put_u64(w, "status", r->status);
    if (r->reason)
        sw_jw_put_str(w, "reason", r->reason);
    if (r->note)
        sw_jw_put_str(w, "note", r->note);
    if (r->target[0])
        sw_jw_put_str(w, "target", r->target);
    if (r->id[0])
        sw_jw_put_str(w, "requestId", r->id);
    sw_jw_name(w, "durationMs");
    sw_jw_double(w, (double)duration_us / 1000.0);
    sw_jw_put_u64(w, "bytesIn", r->bytes_in);
    sw_jw_put_u64(w, "bytesOut", r->bytes_out);
    sw_jw_put_str(w, "peer", r->peer);
    sw_jw_object_end(w);
}
