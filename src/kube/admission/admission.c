/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/admission/admission.h"

#include <string.h>

#include "base/base64.h"
#include "base/json/patch.h"
#include "io/addr.h"
#include "kube/errs.h"

/* ---- rules ---- */

static bool any_or(const struct sw_json *list, struct sw_slice text)
{
    SW_JSON_ITEMS (item, list) {
        struct sw_slice s = sw_json_str(item);

        if (sw_slice_eq_str(s, "*") || sw_slice_eq(s, text))
            return true;
    }
    return false;
}

/* "pods", "pods/status", "*", "pods/" followed by a star, and a star for both. */
static bool resource_matches(const struct sw_json *list, const struct sw_admit_target *t)
{
    SW_JSON_ITEMS (item, list) {
        struct sw_slice sub = sw_json_str(item);
        struct sw_slice name = sw_slice_cut(&sub, '/');

        if (!sub.p)
            sub = sw_slice("", 0);
        if ((sw_slice_eq_str(name, "*") || sw_slice_eq(name, t->resource)) &&
            (sw_slice_eq_str(sub, "*") || sw_slice_eq(sub, t->sub)))
            return true;
    }
    return false;
}

bool sw_admit_rule_matches(const struct sw_json *rule, const struct sw_admit_target *t)
{
    const struct sw_json *scope = sw_json_find(rule, "scope");

    if (scope && !sw_json_str_eq(scope, "*") &&
        !sw_json_str_eq(scope, t->cluster_scoped ? "Cluster" : "Namespaced"))
        return false;
    return any_or(sw_json_find(rule, "operations"), sw_slice_str(t->operation)) &&
           any_or(sw_json_find(rule, "apiGroups"), t->group) &&
           any_or(sw_json_find(rule, "apiVersions"), t->version) &&
           resource_matches(sw_json_find(rule, "resources"), t);
}

/* ---- responses ---- */

static bool is_member(const struct sw_json *v, const char *key, enum sw_json_type type)
{
    const struct sw_json *x = sw_json_find(v, key);

    return !x || x->type == SW_JSON_NULL || x->type == type;
}

static const struct sw_json *member(const struct sw_json *v, const char *key)
{
    const struct sw_json *x = sw_json_find(v, key);

    return x && x->type != SW_JSON_NULL ? x : NULL;
}

static bool all_strings(const struct sw_json *v)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json *x =
            v->type == SW_JSON_OBJECT ? sw_json_member_at(v, i)->value : sw_json_at(v, i);

        if (x->type != SW_JSON_STRING)
            return false;
    }
    return true;
}

static int check_types(const struct sw_json *resp, struct sw_err *err)
{
    static const struct {
        const char *key;
        enum sw_json_type type;
    } members[] = {{"uid", SW_JSON_STRING},     {"status", SW_JSON_OBJECT},
                   {"patch", SW_JSON_STRING},   {"patchType", SW_JSON_STRING},
                   {"warnings", SW_JSON_ARRAY}, {"auditAnnotations", SW_JSON_OBJECT}};

    if (!sw_json_is(sw_json_find(resp, "allowed"), SW_JSON_BOOL))
        return sw_err_set(err, SW_EPROTO, "response.allowed is not a boolean");
    for (size_t i = 0; i < SW_ARRAY_LEN(members); i++) {
        if (!is_member(resp, members[i].key, members[i].type))
            return sw_err_set(err, SW_EPROTO, "response.%s is of a wrong type", members[i].key);
    }
    if (!all_strings(member(resp, "warnings")) || !all_strings(member(resp, "auditAnnotations")))
        return sw_err_set(err, SW_EPROTO, "response has a warning or annotation that is no string");
    if (sw_json_len(member(resp, "warnings")) > SW_REVIEW_WARNINGS_MAX)
        return sw_err_set(err, SW_ELIMIT, "response has more than %d warnings",
                          SW_REVIEW_WARNINGS_MAX);
    return SW_OK;
}

/* The patch of a response: base64 of a JSON patch. */
static int read_patch(struct sw_arena *a, const struct sw_json *resp, bool mutating,
                      struct sw_review_answer *ret, struct sw_err *err)
{
    struct sw_slice text = sw_json_str(member(resp, "patch"));
    const struct sw_json *type = member(resp, "patchType");
    struct sw_json_opts opts = {.max_depth = SW_REVIEW_DEPTH_MAX};
    struct sw_json *patch = NULL;
    SW_BUF_AUTO b = {.max = SW_REVIEW_BODY_MAX};

    if (!mutating && (text.n || type))
        return sw_err_set(err, SW_EPROTO, "validating webhook may not return response.patch%s",
                          text.n ? "" : "Type");
    if (!text.n && !type)
        return SW_OK;
    if (!text.n || !type)
        return sw_err_set(err, SW_EPROTO, "webhook returned response.patch%s but not response.%s",
                          text.n ? "" : "Type", text.n ? "patchType" : "patch");
    if (!sw_json_str_eq(type, "JSONPatch"))
        return sw_err_set(err, SW_EPROTO, "unsupported patch type '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(sw_json_str(type), 32)));
    if (sw_base64_decode(&b, text) != SW_OK)
        return sw_err_set(err, SW_EPROTO, "response.patch is not base64");
    if (sw_json_parse(a, sw_arena_slice(a, sw_buf_slice(&b)), &opts, &patch, err) != SW_OK)
        return sw_err_set(err, SW_EPROTO, "response.patch is not JSON");
    if (patch->type != SW_JSON_ARRAY)
        return sw_err_set(err, SW_EPROTO, "response.patch is not a list of operations");
    ret->patch = sw_json_len(patch) ? patch : NULL;
    return SW_OK;
}

int sw_review_parse(struct sw_arena *a, struct sw_slice body, const struct sw_review_sent *sent,
                    struct sw_review_answer *ret, struct sw_err *err)
{
    struct sw_json_opts opts = {.max_depth = SW_REVIEW_DEPTH_MAX};
    struct sw_review_answer out = {0};
    struct sw_json *v = NULL;
    const struct sw_json *resp;
    struct sw_slice version;
    int rc;

    if (body.n > SW_REVIEW_BODY_MAX)
        return sw_err_set(err, SW_ELIMIT, "response is longer than %d bytes", SW_REVIEW_BODY_MAX);
    if (sw_json_parse(a, sw_arena_slice(a, body), &opts, &v, NULL) != SW_OK ||
        v->type != SW_JSON_OBJECT)
        return sw_err_set(err, SW_EPROTO, "response is not a JSON object");
    resp = sw_json_find(v, "response");
    version = sw_json_str(sw_json_find(v, "apiVersion"));
    if (!sw_json_is(resp, SW_JSON_OBJECT))
        return sw_err_set(err, SW_EPROTO, "webhook response was absent");
    rc = check_types(resp, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_slice_eq(sw_json_str(member(resp, "uid")), sent->uid))
        return sw_err_set(err, SW_EPROTO, "expected response.uid='%.*s', got '%.*s'",
                          SW_SLICE_ARG(sent->uid),
                          SW_SLICE_ARG(sw_slice_head(sw_json_str(member(resp, "uid")), 64)));
    if (!sw_json_str_eq(sw_json_find(v, "kind"), "AdmissionReview") ||
        !sw_slice_eq_str(version, sent->api_version))
        return sw_err_set(err, SW_EPROTO,
                          "expected webhook response of %s AdmissionReview, got %.*s",
                          sent->api_version, SW_SLICE_ARG(sw_slice_head(version, 64)));
    rc = read_patch(a, resp, sent->mutating, &out, err);
    if (rc != SW_OK)
        return rc;
    out.allowed = sw_json_true(sw_json_find(resp, "allowed"));
    out.status = member(resp, "status");
    out.warnings = member(resp, "warnings");
    out.annotations = member(resp, "auditAnnotations");
    *ret = out;
    return SW_OK;
}

struct sw_json *sw_review_denial(struct sw_arena *a, struct sw_slice hook,
                                 const struct sw_json *status)
{
    struct sw_slice message = sw_json_str(member(status, "message"));
    struct sw_slice reason = sw_json_str(member(status, "reason"));
    const struct sw_json *details = member(status, "details");
    const char *by =
        sw_arena_printf(a, "admission webhook %s denied the request", sw_go_quote(a, hook));
    int64_t code = 0;

    if (!sw_json_i64(sw_json_find(status, "code"), &code) || code < 400 || code > 599)
        code = 400;
    if (!message.n)
        message = reason;
    return SW_JSON_OF(
        a, {"kind", .str = "Status"}, {"apiVersion", .str = "v1"},
        {"metadata", .json = sw_json_new_object(a)}, {"status", .str = "Failure"},
        {"message", .str = message.n ? sw_arena_printf(a, "%s: %.*s", by, SW_SLICE_ARG(message))
                                     : sw_arena_printf(a, "%s without explanation", by)},
        {"reason", .some = reason},
        {"details", .json = sw_json_is(details, SW_JSON_OBJECT) ? sw_json_copy(a, details) : NULL},
        {"code", .json = sw_json_new_i64(a, code)});
}

/* ---- addresses ---- */

bool sw_hook_url_split(struct sw_arena *a, struct sw_slice url, struct sw_slice *ret_host,
                       uint16_t *ret_port, struct sw_slice *ret_path, const char **ret_why)
{
    static const char scheme[] = "https://";
    struct sw_slice rest;
    struct sw_slice host;
    ptrdiff_t slash;
    struct sw_ip ip;
    uint64_t port = 443;

    *ret_why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
    if (!sw_slice_has_prefix(url, sw_slice_str(scheme)))
        return false;
    rest = sw_slice_from(url, sizeof(scheme) - 1);
    slash = sw_slice_find(rest, '/');
    host = slash < 0 ? rest : sw_slice_head(rest, (size_t)slash);
    *ret_path = slash < 0 ? SW_SLICE_LIT("/") : sw_slice_from(rest, (size_t)slash);
    if (host.n && host.p[0] == '[') { /* an IPv6 address */
        ptrdiff_t end = sw_slice_find(host, ']');
        struct sw_slice tail = end < 0 ? host : sw_slice_from(host, (size_t)end + 1);

        *ret_why = "the host of the URL is not valid";
        if (end < 0 || (tail.n && tail.p[0] != ':'))
            return false;
        *ret_host = sw_slice(host.p + 1, (size_t)end - 1);
        host = tail.n ? sw_slice_from(tail, 1) : sw_slice(NULL, 0);
    } else {
        *ret_host = sw_slice_cut(&host, ':');
    }
    *ret_why = "host must be specified; desired format: https://host[/path]";
    if (!ret_host->n)
        return false;
    *ret_why = "the host of the URL is an IPv4 address in disguise: the last label of a host name "
               "must not be a number";
    if (sw_ip_parse(*ret_host, &ip, NULL) != SW_OK && sw_host_is_numeric(*ret_host))
        return false;
    *ret_why = "the port of the URL is not valid";
    if (host.p && (!sw_slice_to_u64(host, 65535, &port) || !port))
        return false;
    *ret_port = (uint16_t)port;
    *ret_host = sw_arena_slice(a, *ret_host);
    *ret_path = sw_arena_slice(a, *ret_path);
    return true;
}
