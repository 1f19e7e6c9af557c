/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of those who make pods. */
#include "kube/select/selector.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

static int64_t number(const struct table_row *r, const char *part, const char *key)
{
    int64_t n = 0;

    return sw_json_i64(sw_json_walk(r->obj, part, key, NULL), &n) ? n : 0;
}

static struct sw_json *count(const struct table_row *r, const char *part, const char *key)
{
    return sw_json_new_i64(r->a, number(r, part, key));
}

struct sw_json *table_deployment_ready(const struct table_row *r)
{
    return sw_json_new_str(r->a, sw_arena_printf(r->a, "%lld/%lld",
                                                 (long long)number(r, "status", "readyReplicas"),
                                                 (long long)number(r, "spec", "replicas")));
}

struct sw_json *table_deployment_updated(const struct table_row *r)
{
    return count(r, "status", "updatedReplicas");
}

struct sw_json *table_deployment_available(const struct table_row *r)
{
    return count(r, "status", "availableReplicas");
}

struct sw_json *table_replicas_desired(const struct table_row *r)
{
    return count(r, "spec", "replicas");
}

struct sw_json *table_replicas_current(const struct table_row *r)
{
    return count(r, "status", "replicas");
}

struct sw_json *table_replicas_ready(const struct table_row *r)
{
    return count(r, "status", "readyReplicas");
}

struct sw_json *table_daemons_desired(const struct table_row *r)
{
    return count(r, "status", "desiredNumberScheduled");
}

struct sw_json *table_daemons_current(const struct table_row *r)
{
    return count(r, "status", "currentNumberScheduled");
}

struct sw_json *table_daemons_ready(const struct table_row *r)
{
    return count(r, "status", "numberReady");
}

struct sw_json *table_daemons_updated(const struct table_row *r)
{
    return count(r, "status", "updatedNumberScheduled");
}

struct sw_json *table_daemons_available(const struct table_row *r)
{
    return count(r, "status", "numberAvailable");
}

/* spec: where the template is. */
static struct sw_json *of_containers(const struct table_row *r, const struct sw_json *spec,
                                     const char *key)
{
    const struct sw_json *list = sw_json_walk(spec, "template", "spec", "containers", NULL);
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, 4096);
    for (size_t i = 0; i < sw_json_len(list); i++)
        sw_tx_printf(&b, "%s%.*s", i ? "," : "",
                     SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(list, i), key))));
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_workload_containers(const struct table_row *r)
{
    return of_containers(r, sw_json_find(r->obj, "spec"), "name");
}

struct sw_json *table_workload_images(const struct table_row *r)
{
    return of_containers(r, sw_json_find(r->obj, "spec"), "image");
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

struct sw_json *table_workload_selector(const struct table_row *r)
{
    return selector_text(r, sw_json_walk(r->obj, "spec", "selector", NULL));
}

/* The same of plain labels. */
static struct sw_json *labels_text(const struct table_row *r, const struct sw_json *labels)
{
    struct sw_json *selector = sw_json_new_object(r->a);

    if (sw_json_is(labels, SW_JSON_OBJECT))
        sw_json_put(r->a, selector, "matchLabels", sw_json_copy(r->a, labels));
    return selector_text(r, selector);
}

struct sw_json *table_daemons_nodes(const struct table_row *r)
{
    return labels_text(r, sw_json_walk(r->obj, "spec", "template", "spec", "nodeSelector", NULL));
}

struct sw_json *table_controller_selector(const struct table_row *r)
{
    return labels_text(r, sw_json_walk(r->obj, "spec", "selector", NULL));
}

/* ---- Jobs ---- */

static bool has_condition(const struct table_row *r, const char *type)
{
    const struct sw_json *list = sw_json_walk(r->obj, "status", "conditions", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);

        if (sw_json_str_eq(sw_json_find(c, "type"), type))
            return sw_json_str_eq(sw_json_find(c, "status"), "True");
    }
    return false;
}

struct sw_json *table_job_status(const struct table_row *r)
{
    static const char *const late[] = {"Suspended", "FailureTarget", "SuccessCriteriaMet"};

    if (has_condition(r, "Complete") || has_condition(r, "Failed"))
        return sw_json_new_str(r->a, has_condition(r, "Complete") ? "Complete" : "Failed");
    if (table_text(r->obj, "metadata.deletionTimestamp").n)
        return sw_json_new_str(r->a, "Terminating");
    for (size_t i = 0; i < SW_ARRAY_LEN(late); i++) {
        if (has_condition(r, late[i]))
            return sw_json_new_str(r->a, late[i]);
    }
    return sw_json_new_str(r->a, "Running");
}

struct sw_json *table_job_completions(const struct table_row *r)
{
    long long done = (long long)number(r, "status", "succeeded");
    long long wide = (long long)number(r, "spec", "parallelism");

    if (sw_json_walk(r->obj, "spec", "completions", NULL))
        return sw_json_new_str(r->a, sw_arena_printf(r->a, "%lld/%lld", done,
                                                     (long long)number(r, "spec", "completions")));
    return sw_json_new_str(r->a, wide > 1 ? sw_arena_printf(r->a, "%lld/1 of %lld", done, wide)
                                          : sw_arena_printf(r->a, "%lld/1", done));
}

struct sw_json *table_job_duration(const struct table_row *r)
{
    struct sw_slice begin = table_text(r->obj, "status.startTime");
    struct sw_slice end = table_text(r->obj, "status.completionTime");

    return sw_json_new_str(r->a, begin.n ? table_between(r, begin, end) : "");
}

struct sw_json *table_cron_schedule(const struct table_row *r)
{
    return table_cell(r, "spec.schedule");
}

struct sw_json *table_cron_zone(const struct table_row *r)
{
    struct sw_slice zone = table_text(r->obj, "spec.timeZone");

    return zone.n ? sw_json_new_string(r->a, zone) : sw_json_new_str(r->a, "<none>");
}

struct sw_json *table_cron_suspend(const struct table_row *r)
{
    const struct sw_json *v = sw_json_walk(r->obj, "spec", "suspend", NULL);

    return sw_json_new_str(r->a, !v ? "<unset>" : sw_json_true(v) ? "True" : "False");
}

struct sw_json *table_cron_active(const struct table_row *r)
{
    return sw_json_new_i64(r->a,
                           (int64_t)sw_json_len(sw_json_walk(r->obj, "status", "active", NULL)));
}

struct sw_json *table_cron_last(const struct table_row *r)
{
    struct sw_slice last = table_text(r->obj, "status.lastScheduleTime");

    return sw_json_new_str(r->a, last.n ? table_between(r, last, sw_slice("", 0)) : "<none>");
}

static const struct sw_json *cron_spec(const struct table_row *r)
{
    return sw_json_walk(r->obj, "spec", "jobTemplate", "spec", NULL);
}

struct sw_json *table_cron_containers(const struct table_row *r)
{
    return of_containers(r, cron_spec(r), "name");
}

struct sw_json *table_cron_images(const struct table_row *r)
{
    return of_containers(r, cron_spec(r), "image");
}

struct sw_json *table_cron_selector(const struct table_row *r)
{
    return selector_text(r, sw_json_find(cron_spec(r), "selector"));
}
