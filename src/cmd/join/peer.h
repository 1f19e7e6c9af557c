/* SPDX-License-Identifier: Apache-2.0 */
/* Sites that join each other: the Peer object by which one knows where the other is. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "identity/join/client.h"
#include "kube/client/request.h"
#include "opts/opts.h"

extern const struct sw_kube_gvr sw_peer_gvr;

/* The API of this site. */
struct sw_peer_api {
    const char *kubeconfig; /* NULL: none */
    const char *ns;         /* of Peers */
};

/* Checks what was given with an option. SW_EINVAL names it. */
SW_NODISCARD int sw_peer_gateways(const struct sw_opt_list *l, const char *option,
                                  struct sw_join_gateways *ret, struct sw_err *err);
/* In the arena. Gateways are HOST:PORT, checked. */
struct sw_json *sw_peer_object(struct sw_arena *a, const char *ns, struct sw_slice name,
                               const struct sw_join_gateways *at);
/* Writes the object of the site that answered to the directory, and to the API if there is one. */
SW_NODISCARD int sw_peer_meet(const struct sw_peer_api *api, const char *dir,
                              const struct sw_join_bundle *b, struct sw_err *err);
