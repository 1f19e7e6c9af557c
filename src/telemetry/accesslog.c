/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/accesslog.h"

#include <stdio.h>

#include "base/log.h"
#include "base/time.h"

static const char scope[] = "access";

const char *sw_direction_text(enum sw_direction d)
{
    return d == SW_OUTBOUND ? "outbound" : "inbound";
}

static void put_addr(struct sw_log_line *l, const char *key, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    if (a->ip.family)
        sw_log_str(l, key, sw_slice_str(sw_addr_text(a, text)));
}

static void put_text(struct sw_log_line *l, const char *key, struct sw_slice v)
{
    if (v.n)
        sw_log_quoted(l, key, v);
}

static void put_parties(struct sw_log_line *l, const struct sw_access *a)
{
    put_addr(l, "src.addr", &a->src.addr);
    put_text(l, "src.workload", a->src.workload);
    put_text(l, "src.namespace", a->src.ns);
    put_text(l, "src.identity", a->src.identity);
    put_text(l, "src.cluster", a->src.cluster);
    put_addr(l, "dst.addr", &a->dst.addr);
    if (a->hbone_addr.n)
        sw_log_str(l, "dst.hbone_addr", a->hbone_addr);
    put_text(l, "dst.service", a->dst_service);
    put_text(l, "dst.workload", a->dst.workload);
    put_text(l, "dst.namespace", a->dst.ns);
    put_text(l, "dst.identity", a->dst.identity);
    put_text(l, "dst.cluster", a->dst.cluster);
    put_text(l, "direction", sw_slice_str(sw_direction_text(a->direction)));
}

static void put_tail(struct sw_log_line *l, const struct sw_access *a)
{
    if (a->error)
        put_text(l, "error", sw_slice_str(a->error));
    put_text(l, "trace_id", a->trace_id);
    put_text(l, "link.peer", a->link);
    put_text(l, "policy", a->policy);
    sw_log_end(l);
}

void sw_accesslog_opened(const struct sw_access *a)
{
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_DEBUG, scope, "connection opened");
    if (!l.on)
        return;
    put_parties(&l, a);
    put_tail(&l, a);
}

void sw_accesslog_complete(const struct sw_access *a)
{
    bool out = a->direction == SW_OUTBOUND;
    struct sw_log_line l;
    char ms[32];

    sw_log_begin(&l, a->error ? SW_LOG_ERROR : SW_LOG_INFO, scope, "connection complete");
    if (!l.on)
        return;
    put_parties(&l, a);
    /* From the proxied workload's point of view: the client's side out, the server's side in. */
    sw_log_u64(&l, "bytes_sent", out ? a->received : a->sent);
    sw_log_u64(&l, "bytes_recv", out ? a->sent : a->received);
    (void)snprintf(ms, sizeof(ms), "%llums", (unsigned long long)(a->duration_ns / SW_NS_PER_MS));
    put_text(&l, "duration", sw_slice_str(ms));
    put_tail(&l, a);
}

void sw_accesslog_failed(const struct sw_access *a)
{
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_WARN, scope, "connection failed");
    if (!l.on)
        return;
    put_addr(&l, "src.addr", &a->src.addr);
    put_addr(&l, "dst.addr", &a->dst.addr);
    put_text(&l, "direction", sw_slice_str(sw_direction_text(a->direction)));
    put_tail(&l, a);
}
