/* SPDX-License-Identifier: Apache-2.0 */
/* What client.c needs of the watches. Not for others. */
#pragma once

#include "kube/client/client_int.h"

/* Ends all watches with the given reason. */
void kube_watches_end(struct sw_kube_client *c, const struct sw_err *err);
