/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/frame.h"

#include "base/json.h"

void sw_kube_frames_init(struct sw_kube_frames *f, size_t max)
{
    *f = (struct sw_kube_frames){0};
    sw_buf_init(&f->buf, max);
}

void sw_kube_frames_done(struct sw_kube_frames *f)
{
    sw_buf_done(&f->buf);
}

static void drop_frame(struct sw_kube_frames *f)
{
    sw_buf_consume(&f->buf, f->frame);
    f->scan -= f->frame;
    f->frame = 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void skip_space(struct sw_kube_frames *f)
{
    struct sw_slice s;

    if (f->depth || f->scan)
        return;
    s = sw_buf_slice(&f->buf);
    while (s.n && is_space(s.p[0]))
        s = sw_slice_from(s, 1);
    sw_buf_consume(&f->buf, sw_buf_len(&f->buf) - s.n);
}

int sw_kube_frames_push(struct sw_kube_frames *f, struct sw_slice in)
{
    drop_frame(f);
    skip_space(f);
    return sw_buf_append_slice(&f->buf, in);
}

/* Looks at one byte; true when it closes the object. */
static bool look(struct sw_kube_frames *f, char c)
{
    if (f->in_string) {
        if (f->escaped)
            f->escaped = false;
        else if (c == '\\')
            f->escaped = true;
        else if (c == '"')
            f->in_string = false;
        return false;
    }
    if (c == '"')
        f->in_string = true;
    else if (c == '{' || c == '[')
        f->depth++;
    else if (c == '}' || c == ']')
        return --f->depth == 0;
    return false;
}

int sw_kube_frames_next(struct sw_kube_frames *f, struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice s;

    drop_frame(f);
    skip_space(f);
    s = sw_buf_slice(&f->buf);
    if (s.n == 0)
        return SW_EAGAIN;
    if (f->failed || s.p[0] != '{')
        return sw_err_set(err, SW_EPROTO, "watch stream: an object was expected");
    while (f->scan < s.n) {
        if (look(f, s.p[f->scan++])) {
            f->frame = f->scan;
            *ret = sw_slice_head(s, f->frame);
            return SW_OK;
        }
        if (f->depth > SW_JSON_DEPTH_MAX)
            f->failed = true;
        if (f->failed)
            return sw_err_set(err, SW_EPROTO, "watch stream: nested too deeply");
    }
    return SW_EAGAIN;
}

bool sw_kube_frames_idle(struct sw_kube_frames *f)
{
    drop_frame(f);
    skip_space(f);
    return sw_buf_len(&f->buf) == 0;
}
