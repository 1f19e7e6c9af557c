/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/admission/admission_metrics.h"

#include <string.h>

#include "base/mem.h"

enum { NAMES_MAX = 1024 };

/* Counts of one webhook or policy. */
struct count {
    struct sw_list link;
    char *name;
    enum api_admission_type type;
    uint64_t n[API_ADMISSION_EVENTS];
};

struct api_admission_counts {
    struct sw_list all;
    size_t n;
};

static const struct {
    const char *name;
    const char *help;
    const char *more; /* labels */
} metrics[API_ADMISSION_EVENTS] = {
    [API_HOOK_CALLED] = {"apiserver_admission_webhook_request_total",
                         "Calls of admission webhooks.", ""},
    [API_HOOK_REJECTED] = {"apiserver_admission_webhook_rejection_count",
                           "Requests that webhooks refused.", ""},
    [API_HOOK_FAILED] = {"apiserver_admission_webhook_failure_count",
                         "Calls without a usable answer.", ""},
    [API_HOOK_EXCLUDED] = {"apiserver_admission_match_condition_exclusions_total",
                           "Requests that a match condition kept from a webhook.",
                           ",kind=\"webhook\""},
    [API_HOOK_CONDITION_FAILED] = {"apiserver_admission_match_condition_evaluation_errors_total",
                                   "Match conditions of webhooks that could not be evaluated.",
                                   ",kind=\"webhook\""},
    [API_POLICY_DENIED] = {"apiserver_validating_admission_policy_check_total",
                           "Requests that did not pass a ValidatingAdmissionPolicy.",
                           ",enforcement_action=\"deny\""},
    [API_POLICY_WARNED] = {"apiserver_validating_admission_policy_check_total", NULL,
                           ",enforcement_action=\"warn\""},
    [API_POLICY_AUDITED] = {"apiserver_validating_admission_policy_check_total", NULL,
                            ",enforcement_action=\"audit\""},
};

static struct count *find(struct api_admission_counts *all, struct sw_slice name,
                          enum api_admission_type type)
{
    SW_LIST_EACH (struct count, c, &all->all, link) {
        if (c->type == type && sw_slice_eq_str(name, c->name))
            return c;
    }
    return NULL;
}

static struct count *count_of(struct sw_api *api, struct sw_slice name,
                              enum api_admission_type type)
{
    struct api_admission_counts *all = api->admission.counts;
    struct count *c;

    if (!all) {
        all = api->admission.counts = SW_NEW(struct api_admission_counts);
        sw_list_init(&all->all);
    }
    c = find(all, name, type);
    if (!c && all->n >= NAMES_MAX) {
        name = SW_SLICE_LIT("overflow");
        c = find(all, name, type);
    }
    if (c)
        return c;
    c = SW_NEW(struct count);
    c->name = sw_slice_dup(name);
    c->type = type;
    sw_list_push_back(&all->all, &c->link);
    all->n++;
    return c;
}

void api_admission_count(struct sw_api *api, enum api_admission_event event,
                         enum api_admission_type type, struct sw_slice name)
{
    count_of(api, name, type)->n[event]++;
}

static int write_line(struct sw_buf *out, const struct count *c, enum api_admission_event event)
{
    static const char *const types[] = {"admit", "validating"};
    unsigned long long n = c->n[event];

    if ((c->type == API_BY_POLICY) != (event >= API_POLICY_DENIED))
        return SW_OK;
    if (c->type == API_BY_POLICY)
        return sw_buf_printf(out, "%s{policy=\"%s\"%s} %llu\n", metrics[event].name, c->name,
                             metrics[event].more, n);
    return sw_buf_printf(out, "%s{name=\"%s\",type=\"%s\"%s} %llu\n", metrics[event].name, c->name,
                         types[c->type], metrics[event].more, n);
}

void api_admission_metrics(struct sw_api *api, struct sw_buf *out)
{
    const struct api_admission_counts *all = api->admission.counts;
    int rc = SW_OK;

    for (int e = 0; e < API_ADMISSION_EVENTS && all && rc == SW_OK; e++) {
        if (metrics[e].help)
            rc = sw_buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n", metrics[e].name,
                               metrics[e].help, metrics[e].name);
        SW_LIST_EACH (const struct count, c, &all->all, link) {
            if (rc == SW_OK)
                rc = write_line(out, c, (enum api_admission_event)e);
        }
    }
}

void api_admission_metrics_free(struct sw_api *api)
{
    struct api_admission_counts *all = api->admission.counts;

    if (!all)
        return;
    SW_LIST_EACH (struct count, c, &all->all, link) {
        sw_list_unlink(&c->link);
        sw_free(c->name);
        sw_free(c);
    }
    sw_free(all);
    api->admission.counts = NULL;
}
