/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other clusters of the mesh: Secrets with the label istio/multiCluster=true in the root namespace,
 * each key a cluster's name, each value a kubeconfig. Their objects are read as long as the Secret
 * names them. Everything runs on the loop of the client.
 */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

struct sw_kube_client;
struct sw_mesh_clusters;
struct sw_mesh_networks;
struct sw_metrics_shard;

struct sw_mesh_clusters_opts {
    struct sw_mesh_networks *nets;
    struct sw_slice ns;               /* of the Secrets */
    struct sw_metrics_shard *metrics; /* may be NULL */
    void (*changed)(void *arg);       /* there is something to flush, or to publish at last */
    void *arg;
};

/* Everything is borrowed and must outlive it. */
SW_NODISCARD struct sw_mesh_clusters *sw_mesh_clusters_new(struct sw_kube_client *c,
                                                           const struct sw_mesh_clusters_opts *o);
void sw_mesh_clusters_start(struct sw_mesh_clusters *m);
void sw_mesh_clusters_stop(struct sw_mesh_clusters *m);
/* NULL is fine. */
void sw_mesh_clusters_free(struct sw_mesh_clusters *m);
/*
 * False until the Secrets and every cluster they name were read once; a cluster that does not
 * answer is not waited for longer than half a minute.
 */
bool sw_mesh_clusters_settled(const struct sw_mesh_clusters *m);
