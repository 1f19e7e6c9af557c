/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/unread.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/def.h"
#include "proto/bounds.h"

enum { DEPTH_MAX = 64, PATH_MAX_CHARS = 72 };

/* The way from the outermost message to a field, innermost first. */
struct step {
    const struct step *up;
    const char *field;
    ptrdiff_t index; /* -1: not repeated */
};

struct walk {
    struct sw_pb_unread_table *table;
    struct sw_err *err;
};

/* ---- index ---- */

static size_t slot_of(const void *field)
{
    /* Descriptors of fields lie in arrays, so low bits are alike. */
    return (size_t)(((uintptr_t)field >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 54) %
           SW_PB_TABLE_SLOTS;
}

static void index_rows(struct sw_pb_unread_table *t)
{
    assert(t->n <= SW_PB_TABLE_SLOTS / 2);
    for (size_t i = 0; i < t->n; i++) {
        const void *f =
            protobuf_c_message_descriptor_get_field_by_name(t->rows[i].type, t->rows[i].field);
        size_t at = slot_of(f);

        assert(f); /* tools/check-fields and a unit test look at every row */
        while (t->slots[at].field)
            at = (at + 1) % SW_PB_TABLE_SLOTS;
        t->slots[at].field = f;
        t->slots[at].row = &t->rows[i];
    }
    t->indexed = true;
}

static void prepare(struct sw_pb_unread_table *t)
{
    pthread_mutex_lock(&t->lock);
    if (!t->indexed)
        index_rows(t);
    pthread_mutex_unlock(&t->lock);
}

static const struct sw_pb_unread *find_row(const struct sw_pb_unread_table *t, const void *field)
{
    for (size_t at = slot_of(field); t->slots[at].field; at = (at + 1) % SW_PB_TABLE_SLOTS) {
        if (t->slots[at].field == field)
            return t->slots[at].row;
    }
    return NULL;
}

/* ---- values ---- */

static bool is_zero_bytes(const void *p, size_t n)
{
    static const char zero[sizeof(uint64_t)];

    return memcmp(p, zero, n) == 0;
}

static bool is_zero_message(const ProtobufCMessage *m)
{
    if (m->descriptor == &sw__bool_value__descriptor)
        return !((const Sw__BoolValue *)(const void *)m)->value;
    if (m->descriptor == &sw__uint32_value__descriptor)
        return ((const Sw__UInt32Value *)(const void *)m)->value == 0;
    if (m->descriptor == &sw__duration__descriptor) {
        const Sw__Duration *d = (const void *)m;

        return d->seconds == 0 && d->nanos == 0;
    }
    return false;
}

static bool is_zero(const ProtobufCFieldDescriptor *f, const void *p)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return is_zero_message(*(ProtobufCMessage *const *)p);
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)p)->len == 0;
    case PROTOBUF_C_TYPE_STRING:
        return !*(const char *const *)p || !**(const char *const *)p;
    case PROTOBUF_C_TYPE_BOOL:
        return is_zero_bytes(p, sizeof(protobuf_c_boolean));
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return is_zero_bytes(p, sizeof(uint64_t));
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return is_zero_bytes(p, sizeof(uint32_t));
    }
    return false;
}

static bool is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *p = (const char *)m + f->offset;
    const void *quantifier = (const char *)m + f->quantifier_offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)quantifier != 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)quantifier == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)p != NULL;
    return !is_zero(f, p);
}

/* ---- walk ---- */

/* "a[2].b": the end of the path when all of it is too long. */
static void path_text(const struct step *at, char *buf, size_t cap)
{
    size_t n = cap - 1;

    buf[n] = '\0';
    for (const struct step *s = at; s; s = s->up) {
        char part[96];
        int len = s->index < 0 ? snprintf(part, sizeof(part), "%s%s", s->field, s == at ? "" : ".")
                               : snprintf(part, sizeof(part), "%s[%td]%s", s->field, s->index,
                                          s == at ? "" : ".");

        if (len < 0 || (size_t)len > n || (size_t)len >= sizeof(part))
            break;
        n -= (size_t)len;
        memcpy(buf + n, part, (size_t)len);
    }
    memmove(buf, buf + n, cap - n);
}

static void refuse(struct walk *w, const struct sw_pb_unread *row, const struct step *at)
{
    char path[PATH_MAX_CHARS];

    path_text(at, path, sizeof(path));
    (void)sw_err_set(w->err, SW_EINVAL, "%s is not supported: %s", path, row->reason);
}

static bool visit(struct walk *w, const ProtobufCMessage *m, const struct step *up, unsigned depth);

static bool visit_inner(struct walk *w, const ProtobufCMessage *m,
                        const ProtobufCFieldDescriptor *f, const struct step *up, unsigned depth)
{
    const void *p = (const char *)m + f->offset;
    struct step at = {.up = up, .field = f->name, .index = -1};
    ProtobufCMessage *const *list;

    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return !*(ProtobufCMessage *const *)p ||
               visit(w, *(ProtobufCMessage *const *)p, &at, depth + 1);
    list = *(ProtobufCMessage *const *const *)p;
    for (size_t i = 0; i < *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
         i++) {
        at.index = (ptrdiff_t)i;
        if (!visit(w, list[i], &at, depth + 1))
            return false;
    }
    return true;
}

/* False: stop. Messages were decoded with the same bound of depth. */
static bool visit(struct walk *w, const ProtobufCMessage *m, const struct step *up, unsigned depth)
{
    const struct sw_pb_bound *out;
    char why[SW_PB_BOUND_TEXT];
    size_t next = 0;

    if (depth > DEPTH_MAX)
        return true;
    out = sw_pb_next_out_of_bounds(w->table->bounds, m, &next, why);
    if (out) {
        struct step at = {.up = up, .field = out->field, .index = -1};
        char path[PATH_MAX_CHARS];

        path_text(&at, path, sizeof(path));
        (void)sw_err_set(w->err, SW_EINVAL, "%s %s", path, why);
        return false;
    }
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const struct sw_pb_unread *row;

        if (!is_set(m, f))
            continue;
        row = find_row(w->table, f);
        if (row) {
            struct step at = {.up = up, .field = f->name, .index = -1};
            bool counts = !row->zero_is_unset || f->label == PROTOBUF_C_LABEL_REPEATED ||
                          !is_zero(f, (const char *)m + f->offset);

            if (counts && row->refuse) {
                refuse(w, row, &at);
                return false;
            }
        }
        if (f->type == PROTOBUF_C_TYPE_MESSAGE && !visit_inner(w, m, f, up, depth))
            return false;
    }
    return true;
}

int sw_pb_check_unread(struct sw_pb_unread_table *t, const struct ProtobufCMessage *m,
                       struct sw_err *err)
{
    struct walk w = {.table = t, .err = err};

    prepare(t);
    return visit(&w, m, NULL, 1) ? SW_OK : SW_EINVAL;
}
