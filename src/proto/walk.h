/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through a message and everything inside it, Anys of known types opened. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct ProtobufCMessage;
struct Sw__Any;

struct sw_pb_walker {
    /* Every message, outer ones first; path is "a.b[2].c", empty for the outermost. */
    void (*message)(void *arg, const struct ProtobufCMessage *m, struct sw_slice path);
    /* An Any that cannot be opened: a type that is not in the table, or bytes that do not decode.
     */
    void (*closed)(void *arg, const struct Sw__Any *any, struct sw_slice path, const char *why);
    void *arg;
};

/*
 * Messages taken out of Anys live in the arena, so pointers to them stay good. Either function may
 * be NULL. SW_OK, or SW_ELIMIT when the nesting passes 64 messages or 8 Anys, or paths get absurd;
 * what was visited until then was visited.
 */
SW_NODISCARD int sw_pb_walk(struct sw_arena *a, const struct ProtobufCMessage *m,
                            const struct sw_pb_walker *w);
