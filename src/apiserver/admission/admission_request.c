/* SPDX-License-Identifier: Apache-2.0 */
/* A request as webhooks and expressions of admission see it. */
#include "apiserver/admission/admission_request.h"
#include "apiserver/auth/auth.h"

static struct sw_json *triple(struct sw_arena *a, const char *group, const char *version,
                              const char *last, const char *name)
{
    struct sw_json *t = sw_json_new_object(a);

    sw_json_put_str(a, t, "group", sw_slice_str(group));
    sw_json_put_str(a, t, "version", sw_slice_str(version));
    sw_json_put_str(a, t, last, sw_slice_str(name));
    return t;
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
    struct sw_arena *a = r->arena;
    struct sw_json *v = sw_json_new_object(a);

    sw_json_put(a, v, "kind", sw_json_new_str(a, names[op]));
    sw_json_put(a, v, "apiVersion", sw_json_new_str(a, "meta.k8s.io/v1"));
    if (r->write.dry_run) {
        struct sw_json *all = sw_json_new_array(a);

        sw_json_push(a, all, sw_json_new_str(a, "All"));
        sw_json_put(a, v, "dryRun", all);
    }
    if (op != API_OP_DELETE && manager.n)
        sw_json_put_str(a, v, "fieldManager", manager);
    return v;
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
    struct sw_slice ns = sw_admission_namespace(r);
    struct sw_arena *a = r->arena;
    struct sw_json *v = sw_json_new_object(a);

    sw_json_put(a, v, "kind", kind_of(r, as));
    sw_json_put(a, v, "resource", resource_of(r, as));
    sw_json_put(a, v, "requestKind", kind_of(r, r->res));
    sw_json_put(a, v, "requestResource", resource_of(r, r->res));
    if (r->sub.n) {
        sw_json_put_str(a, v, "subResource", r->sub);
        sw_json_put_str(a, v, "requestSubResource", r->sub);
    }
    if (r->name.n)
        sw_json_put_str(a, v, "name", r->name);
    if (ns.n)
        sw_json_put_str(a, v, "namespace", ns);
    sw_json_put(a, v, "operation", sw_json_new_str(a, sw_admission_operation(op)));
    sw_json_put(a, v, "userInfo", api_user_info(a, &sw_admission_asker(r)->user));
    sw_json_put(a, v, "dryRun", sw_json_new_bool(a, r->write.dry_run));
    sw_json_put(a, v, "options", options_of(r, op));
    return v;
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
    struct sw_slice groups[3];
    struct api_user account = {.groups = groups, .ngroups = 3};
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
        account.name =
            sw_slice_str(sw_arena_printf(a, "system:serviceaccount:%.*s:%.*s",
                                         SW_SLICE_ARG(x->account_ns), SW_SLICE_ARG(x->account)));
        groups[0] = SW_SLICE_LIT("system:serviceaccounts");
        groups[1] = sw_slice_str(
            sw_arena_printf(a, "system:serviceaccounts:%.*s", SW_SLICE_ARG(x->account_ns)));
        groups[2] = SW_SLICE_LIT("system:authenticated");
        at.user = &account;
    }
    return api_allowed(asker->api, a, &at, ret_reason);
}
