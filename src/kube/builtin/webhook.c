/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of webhook configurations. What they cannot mean here is refused, never ignored. */
#include <string.h>

#include "kube/admission/admission.h"
#include "kube/admission/admission_rules.h"
#include "kube/admission/match_conditions.h"
#include "kube/builtin/builtin_int.h"
#include "kube/select/selector.h"

static void check_url(struct sw_slice url, const struct sw_fpath *at, struct sw_field_errs *e)
{
    struct sw_slice host;
    struct sw_slice path;
    uint16_t port;
    const char *why = NULL;
    ptrdiff_t end = sw_slice_find(url, '#');

    if (memchr(url.p, '@', url.n))
        sw_ferr_invalid_str(e, at, url, "user information is not permitted in the URL");
    if (end >= 0)
        sw_ferr_invalid_str(e, at, sw_slice_from(url, (size_t)end + 1),
                            "fragments are not permitted in the URL");
    if (memchr(url.p, '?', url.n))
        sw_ferr_invalid_str(e, at, url, "query parameters are not permitted in the URL");
    if (!sw_hook_url_split(e->arena, url, &host, &port, &path, &why))
        sw_ferr_invalid_str(e, at, url, why);
}

static void check_service(const struct sw_json *service, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");
    struct sw_fpath at_port = sw_fpath_str(path, "port");
    struct sw_fpath at_path = sw_fpath_str(path, "path");
    struct sw_slice where = sw_field_text(service, "path");
    int64_t port = sw_field_int(service, "port");

    if (!sw_field_text(service, "name").n)
        sw_ferr_required(e, &at_name, NULL);
    if (!sw_field_text(service, "namespace").n)
        sw_ferr_required(e, &at_ns, NULL);
    if (port < 1 || port > 65535)
        sw_ferr_invalid(e, &at_port, sw_json_new_i64(e->arena, port),
                        "port is not valid: must be between 1 and 65535, inclusive");
    if (where.n && where.p[0] != '/')
        sw_ferr_invalid_str(e, &at_path, where, "must start with a '/'");
    for (size_t i = 0; i < where.n; i++) {
        if (where.p[i] <= ' ' || where.p[i] > '~' || where.p[i] == '?' || where.p[i] == '#') {
            sw_ferr_invalid_str(e, &at_path, where, "must be a path");
            break;
        }
    }
}

static void check_client(const struct sw_json *hook, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    const struct sw_json *cc = sw_json_find(hook, "clientConfig");
    const struct sw_json *url = sw_json_find(cc, "url");
    const struct sw_json *service = sw_json_find(cc, "service");
    struct sw_fpath at = sw_fpath_str(path, "clientConfig");
    struct sw_fpath at_url = sw_fpath_str(&at, "url");
    struct sw_fpath at_service = sw_fpath_str(&at, "service");

    if ((url != NULL) == (service != NULL))
        sw_ferr_required(e, &at, "exactly one of url or service is required");
    else if (url)
        check_url(sw_field_text(cc, "url"), &at_url, e);
    else
        check_service(service, &at_service, e);
}

static void check_selector(const struct sw_json *hook, const char *key, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    const struct sw_json *selector = sw_json_find(hook, key);
    struct sw_fpath at = sw_fpath_str(path, key);
    struct sw_label_selector parsed;
    const char *why = NULL;

    if (selector && sw_label_selector_from_json(e->arena, selector, &parsed, &why) != SW_OK)
        sw_ferr_invalid(e, &at, selector, why);
}

static void check_versions(const struct sw_json *hook, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(hook, "admissionReviewVersions");
    struct sw_fpath at = sw_fpath_str(path, "admissionReviewVersions");

    if (!sw_json_len(list))
        sw_ferr_required(e, &at, "must specify one of v1, v1beta1");
    else if (!sw_field_list_has(list, "v1") && !sw_field_list_has(list, "v1beta1"))
        sw_ferr_invalid(e, &at, list, "must include at least one of v1, v1beta1");
    else if (!sw_field_list_has(list, "v1"))
        sw_ferr_invalid(e, &at, list, "this server only sends v1");
}

static void check_name(struct sw_slice name, const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, "name");
    size_t dots = 0;

    for (size_t i = 0; i < name.n; i++)
        dots += name.p[i] == '.';
    if (!name.n) {
        sw_ferr_required(e, &at, NULL);
        return;
    }
    sw_name_report(e, &at, name, sw_name_dns1123_subdomain(name));
    if (dots < 2)
        sw_ferr_invalid_str(e, &at, name,
                            "should be a domain with at least three segments separated by dots");
}

static void check_policies(const struct sw_json *hook, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    static const struct {
        const char *key;
        const char *allowed[3];
    } fields[] = {{"failurePolicy", {"Fail", "Ignore", NULL}},
                  {"matchPolicy", {"Equivalent", "Exact", NULL}},
                  {"sideEffects", {"None", "NoneOnDryRun", NULL}},
                  {"reinvocationPolicy", {"IfNeeded", "Never", NULL}}};
    struct sw_fpath at_side = sw_fpath_str(path, "sideEffects");
    struct sw_fpath at_timeout = sw_fpath_str(path, "timeoutSeconds");
    int64_t timeout = sw_field_int(hook, "timeoutSeconds");

    for (size_t i = 0; i < SW_ARRAY_LEN(fields); i++) {
        struct sw_fpath at = sw_fpath_str(path, fields[i].key);

        if (sw_field_text(hook, fields[i].key).n)
            sw_field_one_of(sw_json_find(hook, fields[i].key), fields[i].allowed, &at, e);
    }
    if (!sw_field_text(hook, "sideEffects").n)
        sw_ferr_required(e, &at_side, "must specify one of None, NoneOnDryRun");
    if (timeout < 1 || timeout > 30)
        sw_ferr_invalid(e, &at_timeout, sw_json_new_i64(e->arena, timeout),
                        "the timeout value must be between 1 and 30 seconds");
}

static void check_conditions(const struct sw_json *hook, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    struct sw_match_conditions *c;
    struct sw_fpath at = sw_fpath_str(path, "matchConditions");

    c = sw_match_conditions_compile(e->arena, sw_json_find(hook, "matchConditions"),
                                    &sw_webhook_scope, &at, e);
    sw_match_conditions_done(c);
}

void sw_b_check_webhooks(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    const struct sw_json *hooks = sw_json_find(obj, "webhooks");
    struct sw_fpath up = sw_fpath_str(NULL, "webhooks");

    if (old && sw_json_equal(hooks, sw_json_find(old, "webhooks"), SW_JSON_EQ_VALUE))
        return;
    for (size_t i = 0; i < sw_json_len(hooks); i++) {
        const struct sw_json *h = sw_json_at(hooks, i);
        const struct sw_json *rules = sw_json_find(h, "rules");
        struct sw_fpath path = sw_fpath_index(&up, i);
        struct sw_fpath at_rules = sw_fpath_str(&path, "rules");

        check_name(sw_field_text(h, "name"), &path, e);
        for (size_t k = 0; k < i; k++) {
            struct sw_fpath at_name = sw_fpath_str(&path, "name");

            if (sw_json_equal(sw_json_find(h, "name"), sw_json_find(sw_json_at(hooks, k), "name"),
                              SW_JSON_EQ_VALUE))
                sw_ferr_duplicate(e, &at_name, sw_json_find(h, "name"));
        }
        check_versions(h, &path, e);
        for (size_t k = 0; k < sw_json_len(rules); k++) {
            struct sw_fpath at = sw_fpath_index(&at_rules, k);

            sw_admission_rule_check(sw_json_at(rules, k), &at, e);
        }
        check_policies(h, &path, e);
        check_selector(h, "namespaceSelector", &path, e);
        check_selector(h, "objectSelector", &path, e);
        check_client(h, &path, e);
        check_conditions(h, &path, e);
    }
}
