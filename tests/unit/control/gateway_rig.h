/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the gateway's build: YAML manifests become views, results become text. What is in
 * a file stands for what an API would serve, defaults not filled in.
 */
#pragma once

#include "control/gateway/build/build.h"

enum { RIG_OBJECTS_MAX = 40000 };

struct rig {
    struct sw_kube_obj *objs[SW_MODEL_KINDS + SW_MODEL_EP_KINDS][RIG_OBJECTS_MAX];
    size_t n[SW_MODEL_KINDS + SW_MODEL_EP_KINDS];
    struct sw_gateway_conf conf;
    struct sw_slice planes; /* what data planes say (planes.h); empty: nobody asks them */
    struct sw_arena arena;  /* of the configuration */
};

struct rig *rig_new(void);
void rig_free(struct rig *r);
/* Forgets the objects. */
void rig_clear(struct rig *r);
/* All documents of the file, "{GATEWAY_CLASS_NAME}" read as 'sw'. False when it cannot be read. */
bool rig_load(struct rig *r, const char *path);
bool rig_load_text(struct rig *r, struct sw_slice text);
/* The same without a word when it fails. */
bool rig_load_quiet(struct rig *r, struct sw_slice text);
/* Turns the order of what was loaded around: the views are the same. */
void rig_shuffle(struct rig *r, unsigned seed);

struct sw_view *rig_view(struct rig *r);
struct sw_view *rig_endpoint_view(struct rig *r);
/* Asserts what every model promises (model.h). */
void rig_check(const struct sw_model *m);
/* Model, endpoints, statuses and notes of one build as text; heap string. */
char *rig_run(struct rig *r, bool *ret_any_status);
/* Writes the statuses of a build into the objects, as an API would. Returns how many there were. */
size_t rig_apply_statuses(struct rig *r, uint64_t wall_ns);
