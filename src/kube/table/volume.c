/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of volumes, claims, quotas and autoscalers. */
#include <string.h>

#include "kube/builtin/builtin.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

/* ---- volumes ---- */

static struct sw_json *access_modes(const struct table_row *r, const char *part)
{
    static const char *const names[][2] = {{"ReadWriteOnce", "RWO"},
                                           {"ReadOnlyMany", "ROX"},
                                           {"ReadWriteMany", "RWX"},
                                           {"ReadWriteOncePod", "RWOP"}};
    const struct sw_json *list = sw_json_walk(r->obj, part, "accessModes", NULL);
    SW_BUF_AUTO b = {.max = 64};

    for (size_t k = 0; k < SW_ARRAY_LEN(names); k++) {
        bool found = false;

        SW_JSON_ITEMS (item, list)
            found = found || sw_json_str_eq(item, names[k][0]);
        if (found)
            sw_tx_printf(&b, "%s%s", sw_buf_len(&b) ? "," : "", names[k][1]);
    }
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

/* A quantity as it is written: a text, or a number without unit. */
static struct sw_json *quantity(const struct table_row *r, const struct sw_json *q)
{
    return q ? sw_json_new_string(r->a, q->text) : sw_json_new_str(r->a, "0");
}

struct sw_json *table_volume_phase(const struct table_row *r, const char *none)
{
    if (table_text(r->obj, "metadata.deletionTimestamp").n)
        return sw_json_new_str(r->a, "Terminating");
    return table_cell(r, "status.phase");
}

struct sw_json *table_volume_class(const struct table_row *r, const char *none)
{
    static const char note[] = "volume.beta.kubernetes.io/storage-class";
    const struct sw_json *old = sw_json_walk(r->obj, "metadata", "annotations", note, NULL);

    return old ? sw_json_new_string(r->a, sw_json_str(old))
               : table_cell(r, "spec.storageClassName");
}

struct sw_json *table_volume_size(const struct table_row *r, const char *none)
{
    return quantity(r, sw_json_walk(r->obj, "spec", "capacity", "storage", NULL));
}

struct sw_json *table_volume_access(const struct table_row *r, const char *none)
{
    return access_modes(r, "spec");
}

/* What a claim has, it has from its volume. */
struct sw_json *table_claim_size(const struct table_row *r, const char *none)
{
    if (!table_text(r->obj, "spec.volumeName").n)
        return sw_json_new_str(r->a, "");
    return quantity(r, sw_json_walk(r->obj, "status", "capacity", "storage", NULL));
}

struct sw_json *table_claim_access(const struct table_row *r, const char *none)
{
    return table_text(r->obj, "spec.volumeName").n ? access_modes(r, "status")
                                                   : sw_json_new_str(r->a, "");
}

/* ---- autoscalers ---- */

/* "cpu: 12%/80%": what is measured and what is wanted. */
static const char *one_target(const struct table_row *r, const struct sw_json *metric,
                              const struct sw_json *seen)
{
    static const char *const sources[] = {"resource", "containerResource", "pods", "object",
                                          "external"};

    for (size_t i = 0; i < SW_ARRAY_LEN(sources); i++) {
        const struct sw_json *m = sw_json_find(metric, sources[i]);
        const struct sw_json *target = sw_json_find(m, "target");
        const struct sw_json *current = sw_json_walk(seen, sources[i], "current", NULL);
        bool named = i < 2;
        const char *key = sw_json_find(target, "averageValue") ? "averageValue"
                          : named                              ? "averageUtilization"
                                                               : "value";
        const struct sw_json *want = sw_json_find(target, key);
        const struct sw_json *have = sw_json_find(current, key);
        const char *unit = strcmp(key, "averageUtilization") == 0 ? "%" : "";

        if (!m)
            continue;
        return sw_arena_printf(
            r->a, "%.*s%s%.*s%s/%.*s%s%s", SW_SLICE_ARG(sw_json_str(sw_json_find(m, "name"))),
            named ? ": " : "", SW_SLICE_ARG(have ? have->text : SW_SLICE_LIT("<unknown>")),
            have ? unit : "", SW_SLICE_ARG(want ? want->text : SW_SLICE_LIT("<auto>")),
            want ? unit : "", i >= 3 && *key == 'a' ? " (avg)" : "");
    }
    return "<unknown type>";
}

struct sw_json *table_scaler_targets(const struct table_row *r, const char *none)
{
    enum { SHOWN = 2 };
    struct sw_json *full = sw_json_copy(r->a, r->obj);
    const struct sw_json *metrics;
    const struct sw_json *seen;
    size_t n;
    SW_BUF_AUTO b = {.max = 4096};

    if (!sw_json_walk(full, "spec", "metrics", NULL))
        sw_hpa_from_v1(r->a, full); /* autoscaling/v1 has them elsewhere */
    metrics = sw_json_walk(full, "spec", "metrics", NULL);
    seen = sw_json_walk(full, "status", "currentMetrics", NULL);
    n = sw_json_len(metrics);

    if (!n)
        return sw_json_new_str(r->a, "<none>");
    for (size_t i = 0; i < n && i < SHOWN; i++)
        sw_tx_printf(&b, "%s%s", i ? ", " : "",
                     one_target(r, sw_json_at(metrics, i),
                                i < sw_json_len(seen) ? sw_json_at(seen, i) : NULL));
    if (n > SHOWN)
        sw_tx_printf(&b, " + %zu more...", n - SHOWN);
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_scaler_min(const struct table_row *r, const char *none)
{
    const struct sw_json *n = sw_json_walk(r->obj, "spec", "minReplicas", NULL);

    return n ? sw_json_new_string(r->a, n->text) : sw_json_new_str(r->a, "<unset>");
}

/* ---- quotas ---- */

/* "count/configmaps: 3/10", names in order; limits of pods stand apart. */
struct sw_json *table_quota(const struct table_row *r, const char *arg)
{
    const struct sw_json *hard = sw_json_walk(r->obj, "status", "hard", NULL);
    const struct sw_json *used = sw_json_walk(r->obj, "status", "used", NULL);
    struct sw_slice last = sw_slice("", 0);
    SW_BUF_AUTO b = {.max = 1 << 16};

    for (size_t n = 0; n < sw_json_len(hard); n++) {
        const struct sw_json_member *next = NULL;
        const struct sw_json *u;

        SW_JSON_MEMBERS (m, hard) {
            if (sw_slice_cmp(m->key, last) > 0 && (!next || sw_slice_cmp(m->key, next->key) < 0))
                next = m;
        }
        if (!next)
            break;
        last = next->key;
        if (sw_slice_has_prefix(last, SW_SLICE_LIT("limits.")) != (*arg != 0))
            continue;
        u = sw_json_get(used, last);
        sw_tx_printf(&b, "%s%.*s: %.*s/%.*s", sw_buf_len(&b) ? ", " : "", SW_SLICE_ARG(last),
                     SW_SLICE_ARG(u ? u->text : SW_SLICE_LIT("0")),
                     SW_SLICE_ARG(next->value->text));
    }
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}
