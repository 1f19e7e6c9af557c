/* SPDX-License-Identifier: Apache-2.0 */
/* Writes objects of the demo to the API of a site, one after the other, until it has them all. */
#pragma once

#include <stddef.h>

#include "base/json.h"
#include "io/loop.h"
#include "kube/client/request.h"

struct sw_up_objects;

struct sw_up_object {
    const struct sw_kube_gvr *gvr;
    const char *sub; /* "status", or NULL */
    const struct sw_json *json;
};

/* Everything is borrowed and must outlive it. */
struct sw_up_objects_opts {
    const char *site; /* for log lines */
    const char *kubeconfig;
    const struct sw_up_object *list;
    size_t n;
    void (*done)(void *arg);
    void *arg;
};

/*
 * Applies them with force: the ports in them are those of this start. A write that fails is
 * repeated until it does not, and logged when that lasts. done comes once.
 */
struct sw_up_objects *sw_up_objects_new(struct sw_loop *l, const struct sw_up_objects_opts *o);
/* NULL is fine. Not from inside the callback. */
void sw_up_objects_free(struct sw_up_objects *p);
