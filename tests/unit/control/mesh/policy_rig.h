/* SPDX-License-Identifier: Apache-2.0 */
/* An index of policies with all that came out of it, and what nodes would decide. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/vec.h"
#include "control/mesh/policy/policy.h"
#include "policy/policy.h"

struct rig {
    struct sw_mesh_policies *ix;
    struct sw_map resources; /* key -> struct resource */
    struct sw_arena arena;
    size_t changes; /* resources handed out since */
    SW_VEC(struct sw_mesh_policy_scope) scopes;
    SW_VEC(const char *) statuses; /* "ns/name TYPE=True Reason message" */
};

struct resource {
    struct sw_slice key;
    struct sw_slice value;
};

void rig_open(struct rig *r, const struct sw_mesh_policy_conf *conf);
void rig_close(struct rig *r);
/* JSON with ' for ". */
struct sw_json *rig_json(struct sw_arena *a, const char *text);
/* An object of that name with the spec given so. */
void rig_set(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name,
             const char *spec);
void rig_set_created(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name,
                     const char *spec, const char *created);
void rig_del(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name);
void rig_flush(struct rig *r);
/* The keys of a workload with labels like "app=a,tier=b", newlines as spaces. */
const char *rig_keys(struct rig *r, const char *ns, const char *labels);
/* "app=a,tier=b" as labels, in the arena. */
const struct sw_mesh_label *rig_labels(struct sw_arena *a, const char *text, size_t *ret_n);

/* A resource read again, by a reader of its own; fails the test when it is none. */
struct sw_policy *rig_policy(struct sw_arena *a, struct sw_slice value);
/* What the resource says, in one line; "-" when there is none. */
const char *rig_text(struct rig *r, const char *key);
/* What a node decides for a workload with these labels. Every key it lists must be there. */
bool rig_allowed(struct rig *r, const char *ns, const char *labels,
                 const struct sw_policy_request *req);
