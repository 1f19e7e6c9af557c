/* SPDX-License-Identifier: Apache-2.0 */
/* A request as webhooks and expressions of admission see it. */
#include "apiserver/admission/admission_request.h"
#include "apiserver/api/body.h"
#include "apiserver/auth/auth.h"

static struct sw_json *triple(struct sw_arena *a, const char *group, const char *version,
                              const char *last, const char *name)
{
    return SW_JSON_OF(a, {"group", .str = group}, {"version", .str = version}, {last, .str = name});
}

/* The kind of what is sent to the endpoint. */
static struct sw_json *kind_of(const struct api_req *r, const struct api_res *as)
{
    if (sw_slice_eq_str(r->sub, "scale"))
        return triple(r->arena, "autoscaling", "v1", "kind", "Scale");
    return triple(r->arena, as->group, as->version, "kind", as->kind);
}

static struct sw_json *resource_of(const struct api_req *r, const struct api_res *as)
{
    return triple(r->arena, as->group, as->version, "resource", as->plural);
}

/* Options of what is done: a patch creates or updates. */
static struct sw_json *options_of(const struct api_req *r, enum api_operation op)
{
    static const char *const names[] = {"CreateOptions", "UpdateOptions", "DeleteOptions"};
    struct sw_slice manager = sw_admission_asker(r)->write.manager;

    return SW_JSON_OF(r->arena, {"kind", .str = names[op]}, {"apiVersion", .str = "meta.k8s.io/v1"},
                      {"dryRun", .json = api_dry_run_json(r)},
                      {"fieldManager", .some = op == API_OP_DELETE ? sw_slice("", 0) : manager});
}

struct sw_slice sw_admission_namespace(const struct api_req *r)
{
    if (sw_admission_is_namespace(r->res))
        return r->name;
    return r->res->namespaced ? r->ns : sw_slice("", 0);
}

struct sw_json *sw_admission_request(const struct api_req *r, enum api_operation op,
                                     const struct api_res *as)
{
    struct sw_arena *a = r->arena;

    return SW_JSON_OF(a, {"kind", .json = kind_of(r, as)}, {"resource", .json = resource_of(r, as)},
                      {"requestKind", .json = kind_of(r, r->res)},
                      {"requestResource", .json = resource_of(r, r->res)},
                      {"subResource", .some = r->sub}, {"requestSubResource", .some = r->sub},
                      {"name", .some = r->name}, {"namespace", .some = sw_admission_namespace(r)},
                      {"operation", .str = sw_admission_operation(op)},
                      {"userInfo", .json = api_user_info(a, &sw_admission_asker(r)->user)},
                      {"dryRun", .json = sw_json_new_bool(a, r->write.dry_run)},
                      {"options", .json = options_of(r, op)});
}

struct sw_json *sw_admission_object(const struct api_req *r, const struct api_res *as,
                                    const struct sw_json *obj)
{
    struct sw_json *v;

    if (!obj)
        return NULL;
    v = sw_json_copy(r->arena, obj);
    if (sw_slice_eq_str(r->sub, "scale"))
        return v; /* has a version of its own */
    if (!sw_json_find(v, "kind"))
        sw_json_put_str(r->arena, v, "kind", sw_slice_str(as->kind));
    if (!sw_json_find(v, "apiVersion"))
        sw_json_put_str(r->arena, v, "apiVersion", sw_slice_str(as->api_version));
    return api_convert(r->arena, r->res, as, v);
}

bool sw_admission_allowed(void *arg, struct sw_arena *a, const struct sw_cel_access *x,
                          const char **ret_reason)
{
    const struct api_req *asker = sw_admission_asker(arg);
    struct api_user account = {0};
    struct api_attrs at = {.user = &asker->user,
                           .verb = x->verb,
                           .is_resource = !x->is_path,
                           .group = x->group,
                           .resource = x->resource,
                           .sub = x->subresource,
                           .ns = x->ns,
                           .name = x->name,
                           .path = x->path};

    if (x->account.p) {
        account.name = api_account_name(a, x->account_ns, x->account);
        api_account_groups(a, x->account_ns, &account);
        at.user = &account;
    }
    return api_allowed(asker->api, a, &at, ret_reason);
}
