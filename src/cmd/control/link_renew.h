/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of this site's fabric certificate. In a directory made by `spanwire join`, a new one is
 * requested from the site that signed it after two thirds of its life, and again until it is there;
 * with the authority's key beside it (`spanwire fabric create`) the site signs it for itself.
 * Elsewhere the log warns from then on.
 */
#pragma once

#include "base/def.h"
#include "base/slice.h"

struct sw_control_link_renew;
struct sw_loop;
struct sw_metrics_shard;
struct sw_tls_cred;

/* dir: of --link-fabric, borrowed; NULL: the certificate comes from elsewhere. ttl_s: of a
 * certificate that this site signs for itself. */
SW_NODISCARD struct sw_control_link_renew *
sw_control_link_renew_new(struct sw_loop *l, const char *dir, uint64_t ttl_s,
                          struct sw_metrics_shard *metrics);
/* The certificate in use from now on, and the site's name in it. */
void sw_control_link_renew_set(struct sw_control_link_renew *r, struct sw_slice name,
                               const struct sw_tls_cred *cred);
/* NULL is fine. */
void sw_control_link_renew_free(struct sw_control_link_renew *r);
