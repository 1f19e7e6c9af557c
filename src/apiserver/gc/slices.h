/* SPDX-License-Identifier: Apache-2.0 */
/* The EndpointSlices a Service shall have. A function of its arguments, nothing else. */
#pragma once

#include <stdbool.h>

#include "apiserver/gc/pods.h"
#include "base/vec.h"

#define GC_SLICE_MANAGER "endpointslice-controller.k8s.io"

enum { GC_SLICE_ENDPOINTS = 100 };

/* One slice: as it is, as it shall be. */
struct gc_slice {
    const struct sw_json *old; /* NULL: to be created */
    struct sw_json *want;      /* NULL: to be deleted; the same as old: to be left */
};

struct gc_slices {
    struct sw_arena *arena;
    const struct sw_json *service;
    bool loopback_ok;
    /* The zone of a node, empty when it is not known. */
    struct sw_slice (*zone)(void *arg, struct sw_slice node);
    void *arg;
    SW_VEC(struct gc_slice) all; /* those with 'old' set are there before the call */
};

/*
 * Fills 'want' of all slices of the Service, and adds those to be created. Endpoints stay in the
 * slice they are in; new ones fill the slices that have room. A Service without a selector, or of
 * type ExternalName, has none.
 */
void gc_slices_plan(struct gc_slices *s, const struct gc_pods *pods);
