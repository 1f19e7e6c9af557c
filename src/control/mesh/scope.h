/* SPDX-License-Identifier: Apache-2.0 */
/* Which services other clusters and networks see. */
#pragma once

#include "control/mesh/model.h"

/* labels: a set of text.h. */
bool mesh_labels_match(struct sw_arena *a, const struct sw_label_selector *s,
                       const struct mesh_text *labels);
/* By the labels of the service and of its namespace. */
bool mesh_is_global(struct sw_mesh_index *ix, const struct mesh_svc *s);
