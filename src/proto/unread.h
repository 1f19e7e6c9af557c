/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of a schema that a program does not act on, as a table, and the walk that finds them in a
 * decoded message. The table is the program's (xds/fields.h); nothing here knows a message.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ProtobufCMessage;
struct sw_pb_constraint;
struct ProtobufCMessageDescriptor;

struct sw_pb_unread {
    const struct ProtobufCMessageDescriptor *type;
    const char *field;
    bool refuse;        /* false: accepted without effect */
    bool zero_is_unset; /* 0 and false, in a wrapper or a Duration too, mean the same as not set */
    const char *reason; /* plain words, at most 100 bytes; ends without a full stop */
};

enum { SW_PB_TABLE_SLOTS = 1024, SW_PB_UNREAD_REASON_MAX = 100 };

/* A table and its index. Zero but for the first three members, and lives as long as the program. */
struct sw_pb_unread_table {
    const struct sw_pb_unread *rows;
    size_t n;                                   /* at most half of SW_PB_TABLE_SLOTS */
    const struct sw_pb_constraint *constraints; /* of fields that are read; ends with a NULL type */
    pthread_mutex_t lock;                       /* while the index is made */
    bool indexed;
    struct {
        const void *field; /* its descriptor */
        const struct sw_pb_unread *row;
    } slots[SW_PB_TABLE_SLOTS];
};

/*
 * SW_EINVAL when a field of a row with 'refuse' is set in m or in a message inside, or a
 * constraint is broken, with the path to the field and the reason in err. Anys stay closed: what
 * opens one checks what it holds.
 */
SW_NODISCARD int sw_pb_check_unread(struct sw_pb_unread_table *t, const struct ProtobufCMessage *m,
                                    struct sw_err *err);
