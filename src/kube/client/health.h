/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server withholds from its client: answers, rights, kinds. Every request and informer
 * of a client reports here; the log gets one warning that lists all of it, and again when the list
 * changes.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct sw_kube_client;
struct sw_kube_reply;

/*
 * True when every informer of the client that runs has been complete and every kind that one of
 * them needs is served. Otherwise appends what is waited for, in words, joined by "; " (may be
 * NULL; what does not fit is left out).
 */
bool sw_kube_synced(const struct sw_kube_client *c, struct sw_buf *ret_waits);
/* True from the first request without an answer to the next one with. */
bool sw_kube_away(const struct sw_kube_client *c);
/* True for the refusal of an authorizer: a right is missing. Admission refuses with 403 as well. */
bool sw_kube_lacks_right(const struct sw_kube_reply *r);
