/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports what happened to an object, as core/v1 Events: repetitions are counted on one
 * Event, floods of similar ones are combined, and an object that never rests is slowed down.
 * Recording is best effort: it never fails and never waits. All objects together have 100 Events at
 * once and 5 a second: ten thousand bad objects must not fill the API. Where Events may not be
 * written there is one warning, and a pause.
 */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "kube/client/client.h"

struct sw_recorder;

enum sw_event_type {
    SW_EVENT_NORMAL,
    SW_EVENT_WARNING,
};

/* component: "spanwire-gateway" or so; copied. */
SW_NODISCARD struct sw_recorder *sw_recorder_new(struct sw_kube_client *c, const char *component,
                                                 const char *instance);
/* Events not yet sent are dropped. Before the client. */
void sw_recorder_free(struct sw_recorder *r);

/* The object that an Event is about: its apiVersion, kind and metadata are read. */
struct sw_event_about {
    const struct sw_json *object;
    const char *api_version; /* where a list left them out; may be NULL */
    const char *kind;
};

/* reason: one CamelCase word. The message is cut at 1024 bytes. */
void sw_recorder_event(struct sw_recorder *r, const struct sw_event_about *about,
                       enum sw_event_type type, const char *reason, const char *fmt, ...)
    SW_PRINTF(5, 6);

struct sw_recorder_stats {
    uint64_t created;
    uint64_t counted; /* repetitions added to an Event */
    uint64_t dropped; /* slowed down, refused by the server, or too many waiting */
};
struct sw_recorder_stats sw_recorder_stats(const struct sw_recorder *r);
