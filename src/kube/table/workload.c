/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of workloads. */
#include "kube/select/selector.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

struct sw_json *table_workload_ready(const struct table_row *r, const char *none)
{
    return sw_json_new_str(r->a,
                           sw_arena_printf(r->a, "%lld/%lld",
                                           (long long)table_number(r->obj, "status.readyReplicas"),
                                           (long long)table_number(r->obj, "spec.replicas")));
}

static struct sw_json *of_containers(const struct table_row *r, const char *path, const char *key)
{
    const struct sw_json *list =
        sw_json_walk(table_at(r->obj, path), "template", "spec", "containers", NULL);
    SW_BUF_AUTO b = {.max = 4096};

    for (size_t i = 0; i < sw_json_len(list); i++)
        sw_tx_printf(&b, "%s%.*s", i ? "," : "",
                     SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(list, i), key))));
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_container_names(const struct table_row *r, const char *path)
{
    return of_containers(r, path, "name");
}

struct sw_json *table_container_images(const struct table_row *r, const char *path)
{
    return of_containers(r, path, "image");
}

/* The canonical text of a LabelSelector; none and everything look the same. */
static struct sw_json *selector_text(const struct table_row *r, const struct sw_json *selector)
{
    struct sw_label_selector parsed;
    const char *why;

    if (!selector || sw_label_selector_from_json(r->a, selector, &parsed, &why) != SW_OK ||
        parsed.n == 0)
        return sw_json_new_str(r->a, "<none>");
    return sw_json_new_str(r->a, sw_label_selector_text(r->a, &parsed));
}

struct sw_json *table_selector(const struct table_row *r, const char *path)
{
    return selector_text(r, table_at(r->obj, path));
}

struct sw_json *table_labels(const struct table_row *r, const char *path)
{
    const struct sw_json *labels = table_at(r->obj, path);
    struct sw_json *selector = sw_json_new_object(r->a);

    if (sw_json_is(labels, SW_JSON_OBJECT))
        sw_json_put(r->a, selector, "matchLabels", sw_json_copy(r->a, labels));
    return selector_text(r, selector);
}

/* ---- Jobs ---- */

struct sw_json *table_job_status(const struct table_row *r, const char *none)
{
    static const char *const late[] = {"Suspended", "FailureTarget", "SuccessCriteriaMet"};

    if (table_condition_true(r->obj, sw_slice_str("Complete")) ||
        table_condition_true(r->obj, sw_slice_str("Failed")))
        return sw_json_new_str(
            r->a, table_condition_true(r->obj, sw_slice_str("Complete")) ? "Complete" : "Failed");
    if (table_text(r->obj, "metadata.deletionTimestamp").n)
        return sw_json_new_str(r->a, "Terminating");
    for (size_t i = 0; i < SW_ARRAY_LEN(late); i++) {
        if (table_condition_true(r->obj, sw_slice_str(late[i])))
            return sw_json_new_str(r->a, late[i]);
    }
    return sw_json_new_str(r->a, "Running");
}

struct sw_json *table_job_completions(const struct table_row *r, const char *none)
{
    long long done = (long long)table_number(r->obj, "status.succeeded");
    long long wide = (long long)table_number(r->obj, "spec.parallelism");

    if (sw_json_walk(r->obj, "spec", "completions", NULL))
        return sw_json_new_str(
            r->a, sw_arena_printf(r->a, "%lld/%lld", done,
                                  (long long)table_number(r->obj, "spec.completions")));
    return sw_json_new_str(r->a, wide > 1 ? sw_arena_printf(r->a, "%lld/1 of %lld", done, wide)
                                          : sw_arena_printf(r->a, "%lld/1", done));
}

struct sw_json *table_job_duration(const struct table_row *r, const char *none)
{
    struct sw_slice begin = table_text(r->obj, "status.startTime");
    struct sw_slice end = table_text(r->obj, "status.completionTime");

    return sw_json_new_str(r->a, begin.n ? table_between(r, begin, end) : "");
}

struct sw_json *table_cron_suspend(const struct table_row *r, const char *none)
{
    const struct sw_json *v = sw_json_walk(r->obj, "spec", "suspend", NULL);

    return sw_json_new_str(r->a, !v ? "<unset>" : sw_json_true(v) ? "True" : "False");
}

struct sw_json *table_cron_last(const struct table_row *r, const char *none)
{
    struct sw_slice last = table_text(r->obj, "status.lastScheduleTime");

    return sw_json_new_str(r->a, last.n ? table_between(r, last, sw_slice("", 0)) : "<none>");
}
