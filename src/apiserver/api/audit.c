/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON line per request, when the operator enables it. */
#include <unistd.h>

#include "apiserver/api/api.h"
#include "base/time.h"

void api_audit_note(struct api_req *r, const char *key, struct sw_slice value)
{
    if (!r->record.audit_notes)
        r->record.audit_notes = sw_json_new_object(r->arena);
    sw_json_put_str(r->arena, r->record.audit_notes, sw_arena_dup(r->arena, sw_slice_str(key)),
                    sw_arena_slice(r->arena, value));
}

/* The user whose credential it was, then the one he acted as. */
static void put_users(struct sw_jw *w, const struct api_req *r)
{
    const struct api_user *real = r->real_user.name.n ? &r->real_user : &r->user;

    sw_jw_put_string(w, "user", sw_slice_head(real->name, 512));
    if (real == &r->user)
        return;
    sw_jw_put_string(w, "impersonatedUser", sw_slice_head(r->user.name, 512));
    sw_jw_put_array(w, "impersonatedGroups");
    for (size_t i = 0; i < r->user.ngroups; i++)
        sw_jw_string(w, sw_slice_head(r->user.groups[i], 256));
    sw_jw_array_end(w);
}

/* The line; false: it is too long. */
static bool write_line(struct sw_buf *b, const struct api_req *r, int code, bool notes)
{
    char now[SW_RFC3339_LEN];
    char peer[SW_ADDR_TEXT];
    struct sw_jw w;

    sw_jw_begin(&w, b, NULL);
    sw_jw_object(&w);
    sw_jw_put_str(&w, "time", sw_rfc3339(sw_wall_ns(), 1, now));
    sw_jw_put_str(&w, "auditID", r->record.audit_id);
    sw_jw_put_str(&w, "verb", r->is_resource ? api_verb_name(r->verb) : "get");
    sw_jw_put_string(&w, "method", sw_slice_head(r->method, 16));
    sw_jw_put_string(&w, "path", sw_slice_head(r->path, 2048));
    put_users(&w, r);
    sw_jw_put_str(&w, "source", sw_addr_text(&r->x->peer, peer));
    sw_jw_name(&w, "code");
    sw_jw_i64(&w, code);
    sw_jw_put_u64(&w, "micros", (sw_now_ns() - r->begin_ns) / 1000);
    if (r->record.audit_notes && notes) {
        sw_jw_name(&w, "annotations");
        sw_jw_value(&w, r->record.audit_notes);
    } else if (r->record.audit_notes) {
        sw_jw_put_bool(&w, "annotationsDropped", true);
    }
    sw_jw_object_end(&w);
    return sw_jw_end(&w) == SW_OK && sw_buf_putc(b, '\n') == SW_OK;
}

void api_audit(const struct api_req *r, int code)
{
    SW_BUF_AUTO whole = {.max = (size_t)512 * 1024};
    SW_BUF_AUTO brief = {.max = (size_t)64 * 1024};
    struct sw_buf *b = &whole;

    if (r->api->audit_fd < 0)
        return;
    /* Annotations of policies and webhooks never cost the line itself. */
    if (!write_line(b, r, code, true)) {
        b = &brief;
        if (!write_line(b, r, code, false))
            return;
    }
    /* O_APPEND: a line is written whole or lost, never mixed. */
    (void)!write(r->api->audit_fd, sw_buf_data(b), sw_buf_len(b));
}
