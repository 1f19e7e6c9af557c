/* SPDX-License-Identifier: Apache-2.0 */
/* Which services other clusters and networks see, and which namespaces see ServiceEntries. */
#pragma once

#include "control/mesh/model.h"

/* labels: a set of text.h. */
bool mesh_labels_match(struct sw_arena *a, const struct sw_label_selector *s,
                       const struct mesh_text *labels);
/* Of ServiceEntries of a namespace with these labels. */
enum sw_mesh_visibility mesh_visibility(struct sw_mesh_index *ix, const struct mesh_text *labels);
/* True for a ServiceEntry that is not published at all. */
bool mesh_is_hidden(const struct mesh_svc *s);
/* By the labels of the service and of its namespace. */
bool mesh_is_global(struct sw_mesh_index *ix, const struct mesh_svc *s);
