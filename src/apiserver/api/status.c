/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in the words of the API. Clients branch on reasons and show messages: both are fixed. */
#include <stdarg.h>
#include <string.h>

#include "apiserver/api/api.h"

struct sw_json *api_status_new(struct sw_arena *a, int code, const char *reason,
                               const char *message, struct sw_json *details)
{
    return SW_JSON_OF(a, {"kind", .str = "Status"}, {"apiVersion", .str = "v1"},
                      {"metadata", .json = sw_json_new_object(a)}, {"status", .str = "Failure"},
                      {"message", .some = sw_slice_str(message)},
                      {"reason", .some = sw_slice_str(reason)}, {"details", .json = details},
                      {"code", .json = sw_json_new_i64(a, code)});
}

void api_fail_details(struct api_req *r, int code, const char *reason, const char *message,
                      struct sw_json *details)
{
    api_reply(r, code, api_status_new(r->arena, code, reason, message, details));
}

SW_PRINTF(2, 0)
static const char *vformat(struct sw_arena *a, const char *fmt, va_list ap)
{
    SW_BUF_AUTO b = {.max = 1 << 20};

    return sw_buf_vprintf(&b, fmt, ap) == SW_OK ? sw_arena_dup(a, sw_buf_slice(&b)) : "";
}

void api_fail(struct api_req *r, int code, const char *reason, const char *fmt, ...)
{
    va_list ap;
    const char *m;

    va_start(ap, fmt);
    m = vformat(r->arena, fmt, ap);
    va_end(ap);
    api_fail_details(r, code, reason, m, NULL);
}

static struct sw_json *res_details(struct api_req *r, struct sw_slice name)
{
    return SW_JSON_OF(r->arena, {"name", .some = name},
                      {"group", .some = r->res ? sw_slice_str(r->res->group) : r->group},
                      {"kind", .some = r->res ? sw_slice_str(r->res->plural) : r->resource});
}

void api_fail_res(struct api_req *r, int code, const char *reason, struct sw_slice name,
                  const char *fmt, ...)
{
    va_list ap;
    const char *m;

    va_start(ap, fmt);
    m = vformat(r->arena, fmt, ap);
    va_end(ap);
    api_fail_details(r, code, reason, m, res_details(r, name));
}

void api_not_found(struct api_req *r)
{
    api_fail_res(r, 404, "NotFound", r->name, "%s \"%.*s\" not found", api_gr(r->arena, r->res),
                 SW_SLICE_ARG(r->name));
}

void api_no_such_resource(struct api_req *r)
{
    api_fail_details(r, 404, "NotFound", "the server could not find the requested resource",
                     sw_json_new_object(r->arena));
}

void api_conflict(struct api_req *r, const char *why)
{
    api_fail_res(r, 409, "Conflict", r->name, "Operation cannot be fulfilled on %s \"%.*s\": %s",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(r->name), why);
}

void api_bad_request(struct api_req *r, const char *fmt, ...)
{
    va_list ap;
    const char *m;

    va_start(ap, fmt);
    m = vformat(r->arena, fmt, ap);
    va_end(ap);
    api_fail_details(r, 400, "BadRequest", m, NULL);
}

void api_internal_error(struct api_req *r, const char *why)
{
    api_fail(r, 500, "InternalError", "Internal error occurred: %s", why);
}

void api_not_allowed(struct api_req *r)
{
    api_fail_details(r, 405, "MethodNotAllowed",
                     "the server does not allow this method on the requested resource",
                     sw_json_new_object(r->arena));
}

void api_shutting_down(struct api_req *r)
{
    api_fail(r, 503, "ServiceUnavailable", "the server is shutting down");
}

void api_invalid_kind(struct api_req *r, const char *kind, const char *group, struct sw_slice name,
                      const struct sw_field_errs *e)
{
    struct sw_arena *a = r->arena;
    struct sw_json *d = SW_JSON_OF(
        a, {"name", .some = name}, {"group", .some = sw_slice_str(group)},
        {"kind", .some = sw_slice_str(kind)}, {"causes", .json = sw_invalid_causes(a, e)});

    api_fail_details(r, 422, "Invalid", sw_invalid_message(a, kind, group, name, e), d);
}

bool api_options_ok(struct api_req *r, const char *kind, const struct sw_field_errs *e)
{
    if (e->n)
        api_invalid_kind(r, kind, "meta.k8s.io", sw_slice("", 0), e);
    return !e->n;
}

void api_invalid(struct api_req *r, struct sw_slice name, const struct sw_field_errs *e)
{
    api_invalid_kind(r, r->res->kind, r->res->group, name, e);
}
