/* SPDX-License-Identifier: Apache-2.0 */
/* Reviews, which are answered and not stored: tokens, access, SelfSubjectReview. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/auth/auth.h"
#include "kube/at.h"

/* Answers with the review and its status. */
static void answer(struct api_req *r, struct sw_json *obj, struct sw_json *status)
{
    sw_json_put(r->arena, obj, "status", status);
    api_reply(r, 201, obj);
}

static void token_review(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct api_bearer bearer = {.token = api_str(spec, "token"),
                                      .audiences = sw_json_find(spec, "audiences")};
    struct sw_json *aud = NULL;
    struct api_user u = {0};
    const char *why = "";

    if (bearer.token.n == 0) {
        api_bad_request(r, "token is required for TokenReview in authentication");
        return;
    }
    if (api_token_user(r->api, a, &bearer, &u, &aud, &why))
        answer(r, obj,
               SW_JSON_OF(a, {"authenticated", .json = sw_json_new_bool(a, true)},
                          {"user", .json = api_user_info(a, &u)}, {"audiences", .json = aud}));
    else
        answer(r, obj,
               SW_JSON_OF(a, {"user", .json = sw_json_new_object(a)}, {"error", .str = why}));
}

static void self_review(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;

    sw_json_put_str(a, api_meta(a, obj), "creationTimestamp", sw_slice_str(api_now(a)));
    answer(r, obj, SW_JSON_OF(a, {"userInfo", .json = api_user_info(a, &r->user)}));
}

/* --- access ----------------------------------------------------------------------------- */

static void read_attrs(const struct sw_json *spec, struct api_attrs *at)
{
    const struct sw_json *res = sw_json_find(spec, "resourceAttributes");
    const struct sw_json *url = sw_json_find(spec, "nonResourceAttributes");

    if (sw_json_is(res, SW_JSON_OBJECT)) {
        at->is_resource = true;
        at->verb = api_str(res, "verb");
        at->group = api_str(res, "group");
        at->resource = api_str(res, "resource");
        at->sub = api_str(res, "subresource");
        at->ns = api_str(res, "namespace");
        at->name = api_str(res, "name");
    } else {
        at->verb = api_str(url, "verb");
        at->path = api_str(url, "path");
    }
}

enum { GROUPS_MAX = 1024 }; /* each is looked for in every binding */

static bool check_spec(struct api_req *r, const struct sw_json *obj, bool self, bool local)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *res = sw_json_find(spec, "resourceAttributes");
    const struct sw_json *url = sw_json_find(spec, "nonResourceAttributes");
    size_t groups = sw_json_len(sw_json_find(spec, "groups"));
    struct sw_field_errs e;
    const struct sw_at *at = SW_IN(SW_WHOLE(obj, &e), "spec");
    const struct sw_at *at_url = SW_IN(at, "nonResourceAttributes");

    res = sw_json_is(res, SW_JSON_OBJECT) ? res : NULL;
    url = sw_json_is(url, SW_JSON_OBJECT) ? url : NULL;
    sw_field_errs_init(&e, r->arena);
    if (res && url)
        sw_at_invalid(at_url, "cannot be specified in combination with resourceAttributes");
    if (!res && !url)
        sw_ferr(&e, SW_CAUSE_INVALID, &SW_IN(at, "resourceAttributes")->path,
                "Invalid value: \"null\": exactly one of nonResourceAttributes or "
                "resourceAttributes must be specified");
    if (groups > GROUPS_MAX)
        sw_ferr_too_many(&e, &SW_IN(at, "groups")->path, groups, GROUPS_MAX);
    if (!self && !api_str(spec, "user").n && groups == 0)
        sw_at_invalid_text(SW_IN(at, "user"), "at least one of user or group must be specified");
    if (local && res && !sw_slice_eq(api_str(res, "namespace"), r->ns))
        sw_at_invalid_text(SW_IN(at, "resourceAttributes.namespace"),
                           "must match metadata.namespace");
    if (local && url)
        sw_at_invalid(at_url, "disallowed on this kind of request");
    if (e.n == 0)
        return true;
    api_invalid_kind(r, "", "", sw_slice("", 0), &e);
    return false;
}

static void access_review(struct api_req *r, struct sw_json *obj, bool self, bool local)
{
    struct sw_arena *a = r->arena;
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *groups = sw_json_find(spec, "groups");
    struct api_user u = r->user;
    struct api_attrs at = {.user = &u};
    const char *why = "";
    bool ok;

    if (!check_spec(r, obj, self, local))
        return;
    if (!self) {
        u = (struct api_user){.name = api_str(spec, "user"), .uid = api_str(spec, "uid")};
        u.groups = sw_arena_array(a, sw_json_len(groups) + 1, sizeof(*u.groups));
        SW_JSON_ITEMS (it, groups)
            u.groups[u.ngroups++] = sw_json_str(it);
    }
    read_attrs(spec, &at);
    ok = api_allowed(r->api, a, &at, &why);
    answer(r, obj,
           SW_JSON_OF(a, {"allowed", .json = sw_json_new_bool(a, ok)},
                      {"reason", .some = sw_slice_str(why)}));
}

static void rules_review(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    struct sw_slice ns = api_str(sw_json_find(obj, "spec"), "namespace");
    struct sw_json *res = sw_json_new_array(a);
    struct sw_json *urls = sw_json_new_array(a);
    const char *amiss;

    if (ns.n == 0) {
        api_bad_request(r, "no namespace on request");
        return;
    }
    amiss = api_user_rules(r->api, a, &r->user, ns, res, urls);
    answer(r, obj,
           SW_JSON_OF(a, {"resourceRules", .json = res}, {"nonResourceRules", .json = urls},
                      {"incomplete", .json = sw_json_new_bool(a, amiss == api_rules_cut)},
                      {"evaluationError", .str = amiss}));
}

/* Reviews are never stored: they get no time, and no name of ours. */
static bool settle_meta(struct api_req *r, struct sw_json *meta)
{
    if (!api_check_namespace(r, api_str(meta, "namespace")))
        return false;
    if (r->res->namespaced)
        sw_json_put_str(r->arena, meta, "namespace", r->ns);
    sw_json_put(r->arena, meta, "creationTimestamp", sw_json_new_null(r->arena));
    return true;
}

void api_review(struct api_req *r)
{
    struct sw_json_dups dups;
    struct sw_json *obj = NULL;
    const char *k = r->res->kind;

    if (!api_write_options(r, "CreateOptions") || !api_decode_body(r, &obj, &dups) ||
        !api_admit_object(r, obj, &dups, false))
        return;
    if (!settle_meta(r, api_meta(r->arena, obj)))
        return;
    if (strcmp(k, "TokenReview") == 0)
        token_review(r, obj);
    else if (strcmp(k, "SelfSubjectReview") == 0)
        self_review(r, obj);
    else if (strcmp(k, "SubjectAccessReview") == 0)
        access_review(r, obj, false, false);
    else if (strcmp(k, "LocalSubjectAccessReview") == 0)
        access_review(r, obj, false, true);
    else if (strcmp(k, "SelfSubjectAccessReview") == 0)
        access_review(r, obj, true, false);
    else if (strcmp(k, "SelfSubjectRulesReview") == 0)
        rules_review(r, obj);
    else
        api_no_such_resource(r);
}
