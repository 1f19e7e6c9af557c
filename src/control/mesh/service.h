/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a host name: which of them count, and their resources. */
#pragma once

#include "control/mesh/model.h"

/*
 * Settles who wins and emits the winners. Calls 'flipped' for each service of which an offer won or
 * lost.
 */
void mesh_host_renew(struct sw_mesh_index *ix, struct mesh_host *h,
                     void (*flipped)(struct sw_mesh_index *ix, struct mesh_svc *s));
