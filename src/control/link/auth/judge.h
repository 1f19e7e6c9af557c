/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides' decisions about one connection, as functions of a snapshot. */
#pragma once

#include "control/link/auth/attrs.h"
#include "control/link/facts.h"
#include "policy/attr.h"

/* This site. */
struct sw_link_self {
    struct sw_slice name;   /* first DNS name of the fabric certificate; empty: there is none yet */
    struct sw_attrs labels; /* as attributes: SW_LINK_PEER_LABELS and the key */
};

/*
 * Attributes of a client of this site, copied; client (NULL: not known) as sw_link_pods_find gives
 * them.
 */
struct sw_attrs sw_link_src_attrs(struct sw_arena *a, const struct sw_link_self *self,
                                  const struct sw_attrs *client);

/*
 * May the client use this source of the Import? peer_labels are attributes, too. A source without
 * attributes is denied where a policy looks at sources. The verdict's text says why not.
 */
bool sw_link_judge_egress(struct sw_arena *a, const struct sw_link_facts *f,
                          const struct sw_link_import *i, const struct sw_link_source *s,
                          const struct sw_attrs *const ends[2], struct sw_policy_verdict *ret);
/* ends of sw_link_judge_egress */
enum { SW_LINK_END_SRC = 0, SW_LINK_END_PEER = 1 };

bool sw_link_judge_ingress(struct sw_arena *a, const struct sw_link_facts *f,
                           const struct sw_link_self *self, const struct sw_link_export *e,
                           const struct sw_attrs *src, struct sw_policy_verdict *ret);
