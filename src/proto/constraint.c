/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/constraint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#define NS_PER_S UINT64_C(1000000000)

static double duration_ns(const Sw__Duration *d)
{
    if (d->seconds < 0 || d->nanos < 0)
        return 0;
    return (double)d->seconds * (double)NS_PER_S + d->nanos;
}

/* Whether a member of a oneof is the one that is set; fields beside oneofs count as set. */
static bool is_member_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
           *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) == f->id;
}

static bool is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return is_member_set(m, f) && (f->type != PROTOBUF_C_TYPE_MESSAGE ||
                                   *(void *const *)(const void *)((const char *)m + f->offset));
}

static bool is_chosen(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) != 0;
}

/* A double is exact enough for bounds that are small, or far apart. */
static bool is_within(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, uint64_t low,
                      uint64_t high)
{
    const void *p = (const char *)m + f->offset;
    double v;

    if (!is_set(m, f))
        return true;
    if (f->type == PROTOBUF_C_TYPE_DOUBLE)
        v = *(const double *)p;
    else if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        v = *(const uint32_t *)p;
    else if (f->descriptor == &sw__uint32_value__descriptor)
        v = (*(Sw__UInt32Value *const *)p)->value;
    else
        v = duration_ns(*(Sw__Duration *const *)p);
    return v >= (double)low && v <= (double)high; /* NaN is neither */
}

static bool is_filled(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)((const char *)m + f->quantifier_offset) > 0;
    return !is_member_set(m, f) ||
           ((const ProtobufCBinaryData *)(const void *)((const char *)m + f->offset))->len > 0;
}

static bool is_defined(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    int v = *(const int *)(const void *)((const char *)m + f->offset);

    return !is_member_set(m, f) || protobuf_c_enum_descriptor_get_value(f->descriptor, v);
}

static bool is_met(const struct sw_pb_constraint *row, const ProtobufCMessage *m,
                   const ProtobufCFieldDescriptor *f)
{
    switch (row->rule) {
    case SW_PB_WITHIN:
        return is_within(m, f, row->low, row->high);
    case SW_PB_SET:
        return is_set(m, f);
    case SW_PB_CHOSEN:
        return is_chosen(m, f);
    case SW_PB_FILLED:
        return is_filled(m, f);
    case SW_PB_DEFINED:
        return is_defined(m, f);
    }
    return false;
}

static void describe(const struct sw_pb_constraint *row, char why[SW_PB_WHY])
{
    static const char *const words[] = {[SW_PB_SET] = "is missing",
                                        [SW_PB_CHOSEN] = "is missing",
                                        [SW_PB_FILLED] = "is empty",
                                        [SW_PB_DEFINED] = "is not defined"};

    if (row->rule != SW_PB_WITHIN)
        (void)snprintf(why, SW_PB_WHY, "%s", row->text ? row->text : words[row->rule]);
    else if (row->high == UINT64_MAX && row->low == 1)
        (void)snprintf(why, SW_PB_WHY, "must be above 0");
    else if (row->high == UINT64_MAX)
        (void)snprintf(why, SW_PB_WHY, "must be at least %" PRIu64, row->low);
    else
        (void)snprintf(why, SW_PB_WHY, "is not in %" PRIu64 "..%" PRIu64, row->low, row->high);
}

bool sw_pb_next_broken(const struct sw_pb_constraint *rows, const struct ProtobufCMessage *m,
                       size_t *at, struct sw_pb_broken *ret)
{
    while (rows[*at].type) {
        const struct sw_pb_constraint *row = &rows[(*at)++];
        const ProtobufCFieldDescriptor *f;

        if (row->type != m->descriptor)
            continue;
        f = protobuf_c_message_descriptor_get_field_by_name(row->type, row->field);
        if (is_met(row, m, f))
            continue;
        ret->row = row;
        ret->field = row->text ? "" : row->field;
        describe(row, ret->why);
        return true;
    }
    return false;
}
