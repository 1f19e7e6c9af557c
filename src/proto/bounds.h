/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of single fields, as rows of a table that several checks share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/*
 * A number, or the number in a wrapper; a Duration counts in nanoseconds, a negative one as 0. What
 * is not set is within its bounds.
 */
struct sw_pb_bound {
    const struct ProtobufCMessageDescriptor *type;
    const char *field;
    uint64_t low;
    uint64_t high; /* UINT64_MAX: none */
};

enum { SW_PB_BOUND_TEXT = 64 };

/*
 * The next row from *at on, of a table that ends with a NULL type, whose field of m, not of
 * messages inside, is out of bounds; why gets "is not in 1..100". NULL: none. *at starts at 0 and
 * is moved on.
 */
const struct sw_pb_bound *sw_pb_next_out_of_bounds(const struct sw_pb_bound *rows,
                                                   const struct ProtobufCMessage *m, size_t *at,
                                                   char why[SW_PB_BOUND_TEXT]);
