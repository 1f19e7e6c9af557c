/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Deployments, ReplicaSets and DaemonSets. */
#include "kube/selector.h"
#include "kube/table_int.h"
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

static struct sw_json *of_containers(const struct table_row *r, const char *key)
{
    const struct sw_json *list =
        sw_json_walk(r->obj, "spec", "template", "spec", "containers", NULL);
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, 4096);
    for (size_t i = 0; i < sw_json_len(list); i++)
        sw_tx_printf(&b, "%s%.*s", i ? "," : "",
                     SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(list, i), key))));
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

struct sw_json *table_workload_containers(const struct table_row *r)
{
    return of_containers(r, "name");
}

struct sw_json *table_workload_images(const struct table_row *r)
{
    return of_containers(r, "image");
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

struct sw_json *table_daemons_nodes(const struct table_row *r)
{
    const struct sw_json *labels =
        sw_json_walk(r->obj, "spec", "template", "spec", "nodeSelector", NULL);
    struct sw_json *selector = sw_json_new_object(r->a);

    if (sw_json_is(labels, SW_JSON_OBJECT))
        sw_json_put(r->a, selector, "matchLabels", sw_json_copy(r->a, labels));
    return selector_text(r, selector);
}
