/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/bounds.h"

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

/* False: it is not set. A double is exact enough for bounds that are small, or far apart. */
static bool number_of(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, double *ret)
{
    const void *p = (const char *)m + f->offset;
    const ProtobufCMessage *inner;

    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
        *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) != f->id)
        return false;
    if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        *ret = *(const double *)p;
        return true;
    }
    if (f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_ENUM) {
        *ret = *(const uint32_t *)p;
        return true;
    }
    inner = f->type == PROTOBUF_C_TYPE_MESSAGE ? *(ProtobufCMessage *const *)p : NULL;
    if (!inner)
        return false;
    if (inner->descriptor == &sw__uint32_value__descriptor)
        *ret = ((const Sw__UInt32Value *)(const void *)inner)->value;
    else if (inner->descriptor == &sw__duration__descriptor)
        *ret = duration_ns((const void *)inner);
    else
        return false;
    return true;
}

static void describe(const struct sw_pb_bound *row, char why[SW_PB_BOUND_TEXT])
{
    if (row->high == UINT64_MAX && row->low == 1)
        (void)snprintf(why, SW_PB_BOUND_TEXT, "must be above 0");
    else if (row->high == UINT64_MAX)
        (void)snprintf(why, SW_PB_BOUND_TEXT, "must be at least %" PRIu64, row->low);
    else
        (void)snprintf(why, SW_PB_BOUND_TEXT, "is not in %" PRIu64 "..%" PRIu64, row->low,
                       row->high);
}

const struct sw_pb_bound *sw_pb_next_out_of_bounds(const struct sw_pb_bound *rows,
                                                   const struct ProtobufCMessage *m, size_t *at,
                                                   char why[SW_PB_BOUND_TEXT])
{
    while (rows[*at].type) {
        const struct sw_pb_bound *row = &rows[(*at)++];
        const ProtobufCFieldDescriptor *f;
        double v;

        if (row->type != m->descriptor)
            continue;
        f = protobuf_c_message_descriptor_get_field_by_name(row->type, row->field);
        if (!f || !number_of(m, f, &v))
            continue;
        if (v >= (double)row->low && v <= (double)row->high) /* NaN is neither */
            continue;
        describe(row, why);
        return row;
    }
    return NULL;
}
