/* SPDX-License-Identifier: Apache-2.0 */
/* Text forms: Prometheus 0.0.4, OpenMetrics 1.0.0 and the reference page. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "telemetry/metrics_int.h"

static const char *const types[] = {"counter", "gauge", "histogram"};

/* Remembers the first failure, so that writers need not check every line. */
struct writer {
    struct sw_buf *out;
    bool open; /* OpenMetrics */
    int rc;
};

static void put(struct writer *w, struct sw_slice s)
{
    if (w->rc == SW_OK)
        w->rc = sw_buf_append_slice(w->out, s);
}

static void put_str(struct writer *w, const char *s)
{
    put(w, sw_slice_str(s));
}

SW_PRINTF(2, 3) static void put_format(struct writer *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (w->rc == SW_OK)
        w->rc = sw_buf_vprintf(w->out, fmt, ap);
    va_end(ap);
}

/* OpenMetrics wants floats to look like floats. */
static void put_double(struct writer *w, double v)
{
    char text[40];

    (void)snprintf(text, sizeof(text), "%.9g", v);
    put_str(w, text);
    if (w->open && !strpbrk(text, ".en"))
        put_str(w, ".0");
}

static void put_escaped(struct writer *w, struct sw_slice s)
{
    size_t from = 0;

    for (size_t i = 0; i < s.n; i++) {
        const char *e = s.p[i] == '\\' ? "\\\\" : s.p[i] == '"' ? "\\\"" : "\\n";

        if (s.p[i] != '\\' && s.p[i] != '"' && s.p[i] != '\n')
            continue;
        put(w, sw_slice(s.p + from, i - from));
        put_str(w, e);
        from = i + 1;
    }
    put(w, sw_slice_from(s, from));
}

/* Takes the next value out of a key. */
static struct sw_slice key_value(struct sw_slice *rest)
{
    size_t n = (size_t)(unsigned char)rest->p[0] << 8 | (unsigned char)rest->p[1];
    struct sw_slice v = sw_slice(rest->p + 2, n);

    *rest = sw_slice_from(*rest, 2 + n);
    return v;
}

static void put_label(struct writer *w, struct sw_slice name, struct sw_slice value, bool first)
{
    if (!first)
        put_str(w, ",");
    put(w, name);
    put_str(w, "=\"");
    put_escaped(w, value.n ? value : SW_SLICE_LIT("unknown"));
    put_str(w, "\"");
}

static void put_label_str(struct writer *w, const char *name, const char *value)
{
    put_label(w, sw_slice_str(name), sw_slice_str(value), false);
}

/* HELP and TYPE. Only OpenMetrics names the family without the counter's suffix. */
static void put_family(struct writer *w, const char *name, enum metric_type type, const char *help)
{
    const char *suffix = type == TYPE_COUNTER && !w->open ? "_total" : "";

    put_format(w, "# HELP %s%s %s.\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
               types[type]);
}

/* --- traffic ---------------------------------------------------------------------------- */

enum traffic_metric {
#define TRAFFIC_ID(id, name, help) TRAFFIC_##id,
    SW_TRAFFIC_METRICS(TRAFFIC_ID) TRAFFIC_METRICS
#undef TRAFFIC_ID
};

static const struct {
    const char *name;
    const char *help;
} traffic_table[TRAFFIC_METRICS] = {
#define TRAFFIC_INFO(id, name, help) {name, help},
    SW_TRAFFIC_METRICS(TRAFFIC_INFO)
#undef TRAFFIC_INFO
};

static void put_traffic_labels(struct writer *w, struct sw_slice key, enum sw_response_flag flag)
{
    struct sw_slice rest = sw_slice_from(key, 3);
    bool locality = false;

    put_label(w, SW_SLICE_LIT("reporter"),
              key.p[1] ? SW_SLICE_LIT("destination") : SW_SLICE_LIT("source"), true);
#define PUT(name) put_label(w, SW_SLICE_LIT(#name), key_value(&rest), false);
    SW_TRAFFIC_LABELS(PUT)
    put_label_str(w, "request_protocol", "tcp");
    put_label_str(w, "response_flags", sw_response_flag_text(flag));
    put_label_str(w, "connection_security_policy", key.p[2] ? "mutual_tls" : "unknown");
    for (struct sw_slice look = rest; look.n;)
        locality |= key_value(&look).n > 0;
    if (locality) {
        SW_TRAFFIC_LOCALITY(PUT)
    }
#undef PUT
}

static void put_traffic_sample(struct writer *w, enum traffic_metric t, struct sw_slice key,
                               enum sw_response_flag flag, uint64_t v)
{
    put_str(w, traffic_table[t].name);
    put_str(w, "_total{");
    put_traffic_labels(w, key, flag);
    put_format(w, "} %" PRIu64 "\n", v);
}

enum {
    CELL_OPENED = offsetof(struct sw_traffic, opened) / sizeof(sw_cell),
    CELL_RECEIVED = offsetof(struct sw_traffic, received) / sizeof(sw_cell),
    CELL_SENT = offsetof(struct sw_traffic, sent) / sizeof(sw_cell),
    CELL_CLOSED = offsetof(struct sw_traffic, closed) / sizeof(sw_cell),
};

/* Returns how many samples there are; writes them when w is given. */
static size_t traffic_row(struct writer *w, enum traffic_metric t, const struct row *r)
{
    struct sw_slice key = r->metric->key;
    const size_t plain[TRAFFIC_METRICS] = {
        [TRAFFIC_OPENED] = CELL_OPENED,
        [TRAFFIC_RECEIVED] = CELL_RECEIVED,
        [TRAFFIC_SENT] = CELL_SENT,
    };
    size_t n = 0;

    if (t != TRAFFIC_CLOSED && t != TRAFFIC_FAILED) {
        uint64_t v = r->v[plain[t]];

        if (v == 0 && r->v[CELL_OPENED] == 0)
            return 0;
        if (w)
            put_traffic_sample(w, t, key, SW_FLAG_NONE, v);
        return 1;
    }
    for (int f = t == TRAFFIC_FAILED ? 1 : 0; f < SW_FLAG_COUNT; f++) {
        if (!r->v[CELL_CLOSED + f])
            continue;
        n++;
        if (w)
            put_traffic_sample(w, t, key, (enum sw_response_flag)f, r->v[CELL_CLOSED + f]);
    }
    return n;
}

static void put_traffic(struct writer *w, struct row **rows, size_t n)
{
    for (int t = 0; t < TRAFFIC_METRICS; t++) {
        size_t samples = 0;

        for (size_t i = 0; i < n && !samples; i++)
            samples = traffic_row(NULL, (enum traffic_metric)t, rows[i]);
        if (!samples)
            continue;
        put_family(w, traffic_table[t].name, TYPE_COUNTER, traffic_table[t].help);
        for (size_t i = 0; i < n && w->rc == SW_OK; i++)
            (void)traffic_row(w, (enum traffic_metric)t, rows[i]);
    }
}

/* --- the rest --------------------------------------------------------------------------- */

/* name[suffix]{labels[,le="..."]}, with the braces only when there is something in them. */
static void put_name(struct writer *w, const struct metric_info *info, const char *suffix,
                     struct sw_slice key, const char *le)
{
    struct sw_slice names = sw_slice_str(info->labels);
    struct sw_slice rest = sw_slice_from(key, 1);
    bool first = true;

    put_str(w, info->name);
    put_str(w, suffix);
    if (names.n == 0 && !le)
        return;
    put_str(w, "{");
    while (names.n && names.p) {
        put_label(w, sw_slice_cut(&names, ','), key_value(&rest), first);
        first = false;
    }
    if (le)
        put_label(w, SW_SLICE_LIT("le"), sw_slice_str(le), first);
    put_str(w, "}");
}

static void put_bucket(struct writer *w, const struct metric_info *info, struct sw_slice key,
                       const char *le, uint64_t v)
{
    put_name(w, info, "_bucket", key, le);
    put_format(w, " %" PRIu64 "\n", v);
}

static void put_histogram(struct writer *w, enum sw_metric_id id, const struct row *r)
{
    const struct metric_info *info = &metric_table[id];
    struct sw_slice key = r->metric->key;
    uint64_t total = 0;
    double sum;
    size_t n;
    const double *bounds = metric_bounds(id, &n);

    for (size_t i = 0; i < n; i++) {
        char le[40];

        (void)snprintf(le, sizeof(le), "%.9g%s", bounds[i], w->open && bounds[i] >= 1 ? ".0" : "");
        total += r->v[i];
        put_bucket(w, info, key, le, total);
    }
    total += r->v[n];
    put_bucket(w, info, key, "+Inf", total);
    memcpy(&sum, &r->v[n + 1], sizeof(sum));
    put_name(w, info, "_sum", key, NULL);
    put_str(w, " ");
    put_double(w, sum);
    put_str(w, "\n");
    put_name(w, info, "_count", key, NULL);
    put_format(w, " %" PRIu64 "\n", total);
}

static void put_metric(struct writer *w, enum sw_metric_id id, const struct row *r)
{
    const struct metric_info *info = &metric_table[id];

    switch (info->type) {
    case TYPE_HISTOGRAM:
        put_histogram(w, id, r);
        return;
    case TYPE_COUNTER:
        put_name(w, info, "_total", r->metric->key, NULL);
        put_format(w, " %" PRIu64 "\n", r->v[0]);
        return;
    case TYPE_GAUGE:
        put_name(w, info, "", r->metric->key, NULL);
        put_format(w, " %" PRId64 "\n", (int64_t)r->v[0]);
        return;
    }
}

/* --- all -------------------------------------------------------------------------------- */

static int row_cmp(const void *a, const void *b)
{
    const struct row *const *x = a;
    const struct row *const *y = b;

    return sw_slice_cmp((*x)->metric->key, (*y)->metric->key);
}

static void put_all(struct writer *w, struct row **rows, size_t n)
{
    size_t i = 0;

    while (i < n && w->rc == SW_OK) {
        unsigned char family = metric_family(rows[i]->metric);
        size_t end = i;

        while (end < n && metric_family(rows[end]->metric) == family)
            end++;
        if (family == FAMILY_TRAFFIC) {
            put_traffic(w, rows + i, end - i);
        } else {
            const struct metric_info *info = &metric_table[family];

            put_family(w, info->name, info->type, info->help);
            for (; i < end && w->rc == SW_OK; i++)
                put_metric(w, (enum sw_metric_id)family, rows[i]);
        }
        i = end;
    }
}

int sw_metrics_write(struct sw_metrics *m, enum sw_metrics_format f, struct sw_buf *out)
{
    struct writer w = {.out = out, .open = f == SW_METRICS_OPENMETRICS};
    struct snapshot snap;
    struct row **rows;
    size_t n = 0;

    snapshot_take(m, &snap);
    rows = SW_NEW_ARRAY(struct row *, snap.by_key.n ? snap.by_key.n : 1);
    SW_MAP_FOREACH (it, &snap.by_key)
        rows[n++] = it->value;
    qsort(rows, n, sizeof(struct row *), row_cmp);
    put_all(&w, rows, n);
    if (w.open)
        put_str(&w, "# EOF\n");
    sw_free(rows);
    snapshot_done(&snap);
    return w.rc;
}

static bool refuses(struct sw_slice params)
{
    while (params.p) {
        struct sw_slice p = sw_slice_trim(sw_slice_cut(&params, ';'));

        if (sw_slice_eq_str(p, "q=0") || sw_slice_eq_str(p, "q=0.0"))
            return true;
    }
    return false;
}

enum sw_metrics_format sw_metrics_negotiate(struct sw_slice accept)
{
    while (accept.p) {
        struct sw_slice params = sw_slice_cut(&accept, ',');
        struct sw_slice type = sw_slice_trim(sw_slice_cut(&params, ';'));

        if (sw_slice_ieq(type, SW_SLICE_LIT("application/openmetrics-text")) && !refuses(params))
            return SW_METRICS_OPENMETRICS;
    }
    return SW_METRICS_PROMETHEUS;
}

const char *sw_metrics_content_type(enum sw_metrics_format f)
{
    return f == SW_METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

int sw_metrics_reference(struct sw_buf *out)
{
    struct writer w = {.out = out};

    put_str(&w, "| Name | Type | Labels | Meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < TRAFFIC_METRICS; i++)
        put_format(&w, "| `%s_total` | counter | traffic labels | %s |\n", traffic_table[i].name,
                   traffic_table[i].help);
    for (const struct metric_info *m = metric_table; m < metric_table + SW_METRIC_COUNT; m++)
        put_format(&w, "| `%s%s` | %s | %s | %s |\n", m->name,
                   m->type == TYPE_COUNTER ? "_total" : "", types[m->type], m->labels, m->help);
    put_str(&w, "\nTraffic labels, in order: reporter");
#define PUT(name) put_str(&w, ", " #name);
    SW_TRAFFIC_LABELS(PUT)
    put_str(&w, ", request_protocol, response_flags, connection_security_policy; when one of them "
                "is known also");
    SW_TRAFFIC_LOCALITY(PUT)
#undef PUT
    put_str(&w, ".\nA value that is not known is `unknown`.\n");
    return w.rc;
}
