/* SPDX-License-Identifier: Apache-2.0 */
/* What a field of a message must hold, as rows of a table that several checks share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

enum sw_pb_rule {
    /*
     * A number, or the number in a wrapper, is within low..high; a Duration counts in nanoseconds,
     * a negative one as 0. What is not set is within its bounds.
     */
    SW_PB_WITHIN,
    SW_PB_SET,     /* a message, or a member of a oneof, is set */
    SW_PB_CHOSEN,  /* a member of the oneof that the field belongs to is set */
    SW_PB_FILLED,  /* a text or list is not empty; a member of a oneof: when it is set */
    SW_PB_DEFINED, /* an enum has one of the values of its schema; a member of a oneof: when set */
};

struct sw_pb_constraint {
    const struct ProtobufCMessageDescriptor *type;
    const char *field;
    enum sw_pb_rule rule;
    const char
        *text;     /* SW_PB_CHOSEN: what is wrong with the message; NULL: the field "is missing" */
    uint64_t low;  /* SW_PB_WITHIN */
    uint64_t high; /* UINT64_MAX: none */
};

/* A row: the message as its descriptor is called, "http_uri"; a oneof by one of its members. */
#define SW_PB_ROW(message, field, rule, text, low, high)                                           \
    {                                                                                              \
        &sw__##message##__descriptor, #field, rule, text, low, high                                \
    }
#define SW_PB_ROW_WITHIN(message, field, low, high)                                                \
    SW_PB_ROW(message, field, SW_PB_WITHIN, NULL, low, high)
#define SW_PB_ROW_AT_LEAST(message, field, low) SW_PB_ROW_WITHIN(message, field, low, UINT64_MAX)
#define SW_PB_ROW_SET(message, field)           SW_PB_ROW(message, field, SW_PB_SET, NULL, 0, 0)
#define SW_PB_ROW_FILLED(message, field)        SW_PB_ROW(message, field, SW_PB_FILLED, NULL, 0, 0)
#define SW_PB_ROW_DEFINED(message, field)       SW_PB_ROW(message, field, SW_PB_DEFINED, NULL, 0, 0)
#define SW_PB_ROW_CHOSEN(message, field, text)  SW_PB_ROW(message, field, SW_PB_CHOSEN, text, 0, 0)
#define SW_PB_ROW_END                                                                              \
    {                                                                                              \
        NULL, NULL, SW_PB_WITHIN, NULL, 0, 0                                                       \
    }

enum { SW_PB_WHY = 64 };

/* A constraint that a message does not meet. */
struct sw_pb_broken {
    const struct sw_pb_constraint *row;
    const char *field;   /* empty: the message itself */
    char why[SW_PB_WHY]; /* "is not in 1..100" */
};

/*
 * The next row from *at on, of a table that ends with a NULL type, that m itself, not a message
 * inside, breaks. False: none. *at starts at 0 and is moved on. Rows of one type stand together.
 */
bool sw_pb_next_broken(const struct sw_pb_constraint *rows, const struct ProtobufCMessage *m,
                       size_t *at, struct sw_pb_broken *ret);
