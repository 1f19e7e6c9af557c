/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in the words of the API. Clients branch on reasons and show messages: both are fixed. */
#include <stdarg.h>
#include <string.h>

#include "apiserver/api/api.h"

struct sw_json *api_status_new(struct sw_arena *a, int code, const char *reason,
                               const char *message, struct sw_json *details)
{
    struct sw_json *s = sw_json_new_object(a);

    sw_json_put_str(a, s, "kind", SW_SLICE_LIT("Status"));
    sw_json_put_str(a, s, "apiVersion", SW_SLICE_LIT("v1"));
    sw_json_put(a, s, "metadata", sw_json_new_object(a));
    sw_json_put_str(a, s, "status", SW_SLICE_LIT("Failure"));
    if (message && *message)
        sw_json_put_str(a, s, "message", sw_slice_str(message));
    if (reason && *reason)
        sw_json_put_str(a, s, "reason", sw_slice_str(reason));
    if (details)
        sw_json_put(a, s, "details", details);
    sw_json_put(a, s, "code", sw_json_new_i64(a, code));
    return s;
}

void api_fail_details(struct api_req *r, int code, const char *reason, const char *message,
                      struct sw_json *details)
{
    api_reply(r, code, api_status_new(r->arena, code, reason, message, details));
}

SW_PRINTF(2, 0)
static const char *vformat(struct sw_arena *a, const char *fmt, va_list ap)
{
    struct sw_buf b = {.max = 1 << 20};
    const char *s = "";

    if (sw_buf_vprintf(&b, fmt, ap) == SW_OK)
        s = sw_arena_dup(a, sw_buf_slice(&b));
    sw_buf_done(&b);
    return s;
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
    struct sw_arena *a = r->arena;
    struct sw_json *d = sw_json_new_object(a);
    struct sw_slice group = r->res ? sw_slice_str(r->res->group) : r->group;
    struct sw_slice kind = r->res ? sw_slice_str(r->res->plural) : r->resource;

    if (name.n)
        sw_json_put_str(a, d, "name", name);
    if (group.n)
        sw_json_put_str(a, d, "group", group);
    if (kind.n)
        sw_json_put_str(a, d, "kind", kind);
    return d;
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

void api_invalid_kind(struct api_req *r, const char *kind, const char *group, struct sw_slice name,
                      const struct sw_field_errs *e)
{
    struct sw_arena *a = r->arena;
    struct sw_json *d = sw_json_new_object(a);

    if (name.n)
        sw_json_put_str(a, d, "name", name);
    if (*group)
        sw_json_put_str(a, d, "group", sw_slice_str(group));
    if (*kind)
        sw_json_put_str(a, d, "kind", sw_slice_str(kind));
    sw_json_put(a, d, "causes", sw_invalid_causes(a, e));
    api_fail_details(r, 422, "Invalid", sw_invalid_message(a, kind, group, name, e), d);
}

void api_invalid(struct api_req *r, struct sw_slice name, const struct sw_field_errs *e)
{
    api_invalid_kind(r, r->res->kind, r->res->group, name, e);
}
