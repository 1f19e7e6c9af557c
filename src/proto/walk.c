/* SPDX-License-Identifier: Apache-2.0 */
/* The walk is recursive; its depth is bounded here and by the bounds of decoding. */
#include "proto/walk.h"

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/buf.h"
#include "proto/field.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    DEPTH_MAX = 64,
    ANYS_MAX = 8,
    PATH_MAX_BYTES = 4096,
};

struct walk {
    struct sw_arena *arena;
    const struct sw_pb_walker *w;
    struct sw_buf path;
    unsigned depth;
    unsigned anys;
};

static int visit(struct walk *w, const ProtobufCMessage *m);

/* Goes into a member under a longer path, and comes back. */
static int enter(struct walk *w, const ProtobufCMessage *m, const char *name, ptrdiff_t index)
{
    size_t before = sw_buf_len(&w->path);
    int rc = before ? sw_buf_putc(&w->path, '.') : SW_OK;

    if (rc == SW_OK)
        rc = index < 0 ? sw_buf_append_str(&w->path, name)
                       : sw_buf_printf(&w->path, "%s[%td]", name, index);
    if (rc == SW_OK)
        rc = visit(w, m);
    w->path.n = w->path.off + before;
    return rc;
}

static int open_any(struct walk *w, const Sw__Any *any)
{
    const ProtobufCMessageDescriptor *type = sw_pb_type_find(SW_PB_SLICE(any->type_url));
    ProtobufCMessage *m = NULL;
    struct sw_err err = {.msg = "type is not known"};
    int rc;

    if (w->anys == ANYS_MAX)
        return SW_ELIMIT;
    if (type)
        m = sw_pb_unpack(w->arena, type, SW_PB_SLICE(any->value), NULL, &err);
    if (!m) {
        if (w->w->closed)
            w->w->closed(w->w->arg, any, sw_buf_slice(&w->path), err.msg);
        return SW_OK;
    }
    w->anys++;
    rc = visit(w, m);
    w->anys--;
    return rc;
}

static int visit_field(struct walk *w, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
    const void *values;
    size_t n = sw_pb_values(m, f, &values);
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < n; i++)
        rc =
            enter(w, ((ProtobufCMessage *const *)values)[i], f->name, repeated ? (ptrdiff_t)i : -1);
    return rc;
}

static int visit(struct walk *w, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    int rc = SW_OK;

    if (w->depth == DEPTH_MAX)
        return SW_ELIMIT;
    w->depth++;
    if (d == &sw__any__descriptor) {
        rc = open_any(w, (const Sw__Any *)(const void *)m);
    } else {
        if (w->w->message)
            w->w->message(w->w->arg, m, sw_buf_slice(&w->path));
        for (unsigned i = 0; rc == SW_OK && i < d->n_fields; i++) {
            if (d->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
                rc = visit_field(w, m, &d->fields[i]);
        }
    }
    w->depth--;
    return rc;
}

int sw_pb_walk(struct sw_arena *a, const struct ProtobufCMessage *m, const struct sw_pb_walker *w)
{
    struct walk walk = {.arena = a, .w = w};
    int rc;

    sw_buf_init(&walk.path, PATH_MAX_BYTES);
    rc = visit(&walk, m);
    sw_buf_done(&walk.path);
    return rc;
}
