/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/unread.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/def.h"
#include "proto/constraint.h"
#include "proto/field.h"

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
    return f->type == PROTOBUF_C_TYPE_MESSAGE ? is_zero_message(*(ProtobufCMessage *const *)p)
                                              : sw_pb_value_is_default(f, p);
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

static bool visit_inner(struct walk *w, ProtobufCMessage *const *list, size_t n,
                        const ProtobufCFieldDescriptor *f, const struct step *up, unsigned depth)
{
    struct step at = {.up = up, .field = f->name, .index = -1};

    for (size_t i = 0; i < n; i++) {
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            at.index = (ptrdiff_t)i;
        if (!visit(w, list[i], &at, depth + 1))
            return false;
    }
    return true;
}

/* False: stop. Messages were decoded with the same bound of depth. */
static bool visit(struct walk *w, const ProtobufCMessage *m, const struct step *up, unsigned depth)
{
    struct sw_pb_broken broken;
    size_t next = 0;

    if (depth > DEPTH_MAX)
        return true;
    if (sw_pb_next_broken(w->table->constraints, m, &next, &broken)) {
        struct step at = {.up = up, .field = broken.field, .index = -1};
        char path[PATH_MAX_CHARS];

        path_text(broken.field[0] ? &at : up, path, sizeof(path));
        (void)sw_err_set(w->err, SW_EINVAL, "%s%s%s", path, path[0] ? " " : "", broken.why);
        return false;
    }
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const struct sw_pb_unread *row;
        const void *values;
        size_t n = sw_pb_values(m, f, &values);

        if (n == 0)
            continue;
        row = find_row(w->table, f);
        if (row && row->refuse &&
            (!row->zero_is_unset || f->label == PROTOBUF_C_LABEL_REPEATED || !is_zero(f, values))) {
            refuse(w, row, &(struct step){.up = up, .field = f->name, .index = -1});
            return false;
        }
        if (f->type == PROTOBUF_C_TYPE_MESSAGE && !visit_inner(w, values, n, f, up, depth))
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
