/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of webhook configurations. What they cannot mean here is refused, never ignored. */
#include <string.h>

#include "kube/admission/admission.h"
#include "kube/admission/admission_rules.h"
#include "kube/admission/match_conditions.h"
#include "kube/builtin/builtin_int.h"
#include "kube/select/selector.h"

static void check_url(const struct sw_at *at)
{
    struct sw_slice url = sw_at_text(at);
    struct sw_slice host;
    struct sw_slice path;
    uint16_t port;
    const char *why = NULL;
    ptrdiff_t end = sw_slice_find(url, '#');

    if (sw_slice_find(url, '@') >= 0)
        sw_at_invalid(at, "user information is not permitted in the URL");
    if (end >= 0)
        sw_ferr_invalid_str(at->e, &at->path, sw_slice_from(url, (size_t)end + 1),
                            "fragments are not permitted in the URL");
    if (sw_slice_find(url, '?') >= 0)
        sw_at_invalid(at, "query parameters are not permitted in the URL");
    if (!sw_hook_url_split(at->e->arena, url, &host, &port, &path, &why))
        sw_at_invalid_text(at, why);
}

/* A number outside of a range; it is shown as 0 when it is missing. */
static void check_range(const struct sw_at *at, int64_t max, const char *why)
{
    int64_t n = sw_at_int(at);

    if (n < 1 || n > max)
        sw_ferr_invalid(at->e, &at->path, sw_json_new_i64(at->e->arena, n), why);
}

static void check_service(const struct sw_at *service)
{
    const struct sw_at *path = SW_IN(service, "path");
    struct sw_slice where = sw_at_text(path);

    (void)sw_at_need(SW_IN(service, "name"), NULL);
    (void)sw_at_need(SW_IN(service, "namespace"), NULL);
    check_range(SW_IN(service, "port"), 65535,
                "port is not valid: must be between 1 and 65535, inclusive");
    if (where.n && where.p[0] != '/')
        sw_at_invalid(path, "must start with a '/'");
    for (size_t i = 0; i < where.n; i++) {
        if (where.p[i] <= ' ' || where.p[i] > '~' || where.p[i] == '?' || where.p[i] == '#') {
            sw_at_invalid(path, "must be a path");
            break;
        }
    }
}

static void check_client(const struct sw_at *client)
{
    const struct sw_at *url = SW_IN(client, "url");
    const struct sw_at *service = SW_IN(client, "service");

    if ((url->v != NULL) == (service->v != NULL))
        sw_at_required(client, "exactly one of url or service is required");
    else if (url->v)
        check_url(url);
    else
        check_service(service);
}

static void check_selector(const struct sw_at *selector)
{
    struct sw_label_selector parsed;
    const char *why = NULL;

    if (selector->v &&
        sw_label_selector_from_json(selector->e->arena, selector->v, &parsed, &why) != SW_OK)
        sw_at_invalid(selector, why);
}

static void check_versions(const struct sw_at *list)
{
    bool v1 = sw_field_list_has(list->v, SW_SLICE_LIT("v1"));

    if (!sw_at_need(list, "must specify one of v1, v1beta1"))
        return;
    if (!v1 && !sw_field_list_has(list->v, SW_SLICE_LIT("v1beta1")))
        sw_at_invalid(list, "must include at least one of v1, v1beta1");
    else if (!v1)
        sw_at_invalid(list, "this server only sends v1");
}

static void check_name(const struct sw_at *at)
{
    struct sw_slice name = sw_at_text(at);
    size_t dots = 0;

    for (size_t i = 0; i < name.n; i++)
        dots += name.p[i] == '.';
    sw_at_need_name(at, sw_name_dns1123_subdomain);
    if (name.n && dots < 2)
        sw_at_invalid(at, "should be a domain with at least three segments separated by dots");
}

static void check_policies(const struct sw_at *hook)
{
    static const struct {
        const char *key;
        const char *allowed;
    } fields[] = {{"failurePolicy", "Fail Ignore"},
                  {"matchPolicy", "Equivalent Exact"},
                  {"sideEffects", "None NoneOnDryRun"},
                  {"reinvocationPolicy", "IfNeeded Never"}};

    for (size_t i = 0; i < SW_ARRAY_LEN(fields); i++) {
        if (sw_at_text(SW_IN(hook, fields[i].key)).n)
            sw_at_one_of(SW_IN(hook, fields[i].key), fields[i].allowed);
    }
    (void)sw_at_need(SW_IN(hook, "sideEffects"), "must specify one of None, NoneOnDryRun");
    check_range(SW_IN(hook, "timeoutSeconds"), 30,
                "the timeout value must be between 1 and 30 seconds");
}

static void check_hook(const struct sw_at *h)
{
    const struct sw_at *rules = SW_IN(h, "rules");

    check_versions(SW_IN(h, "admissionReviewVersions"));
    SW_AT_FOREACH (rule, rules)
        sw_admission_rule_check(&rule);
    check_policies(h);
    check_selector(SW_IN(h, "namespaceSelector"));
    check_selector(SW_IN(h, "objectSelector"));
    check_client(SW_IN(h, "clientConfig"));
    sw_match_conditions_done(
        sw_match_conditions_compile(h->e->arena, &sw_webhook_scope, SW_IN(h, "matchConditions")));
}

void sw_b_check_webhooks(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *hooks = SW_IN(obj, "webhooks");

    if (old && sw_json_equal(hooks->v, sw_json_find(old, "webhooks"), SW_JSON_EQ_VALUE))
        return;
    SW_AT_FOREACH (h, hooks) {
        const struct sw_at *name = SW_IN(&h, "name");

        check_name(name);
        for (size_t k = 0; k < h.path.index; k++) {
            if (sw_json_equal(name->v, sw_json_find(sw_json_at(hooks->v, k), "name"),
                              SW_JSON_EQ_VALUE))
                sw_at_duplicate(name);
        }
        check_hook(&h);
    }
}
