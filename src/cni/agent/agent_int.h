/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the agent share. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "cni/agent/agent.h"
#include "cni/agent/jobs.h"
#include "cni/agent/zds.h"
#include "cni/install/install.h"
#include "http/server.h"
#include "io/accept.h"
#include "io/loop.h"
#include "io/signal.h"
#include "kube/client/client.h"
#include "kube/client/events.h"
#include "kube/client/informer.h"
#include "telemetry/admin.h"
#include "telemetry/metrics.h"
#include "telemetry/ready.h"

enum { AGENT_PODS_MAX = 4096, AGENT_CALLS_MAX = 1024 };

struct agent {
    const struct sw_agent_config *config; /* borrowed */
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_ready *ready;
    struct sw_admin *admin;
    struct sw_kube_client *client;
    struct sw_informer *pods_of_node;
    struct sw_informer *namespaces;
    struct sw_recorder *events;
    struct sw_jobs *jobs;
    struct sw_zds_server *zds;
    struct sw_http_server *plugin_http;
    struct sw_accept_group plugin_group;
    struct sw_acceptor plugin_acceptor;
    struct sw_install *install;
    struct sw_arena arena;
    int host_fd; /* the host's network namespace; -1: our own */
    unsigned probe_uid;
    struct sw_map pods; /* struct agent_pod by uid, owned */
    struct sw_list calls;
    size_t n_calls;
    struct sw_defer calls_due;
    struct sw_timer calls_again;
    bool synced;
    bool asking; /* for the DaemonSet, to end */
    struct sw_timer ask;
    unsigned ask_turns;
    bool uninstalling;
    bool ending; /* callbacks do nothing any more */
    struct sw_timer uninstall;
    unsigned uninstall_turns;
    struct sw_http_resp *uninstall_resp;
    struct sw_timer probes;
    unsigned host_jobs; /* changes of the host's rules under way */
    struct sw_timer verify;
};

/* A pod that is, shall be, or was in the mesh. */
struct agent_pod {
    struct agent *agent;
    char *uid;               /* owned, like the next ones */
    char *container_id;      /* of the runtime's ADD; NULL: unknown */
    char *netns_path;        /* the same */
    struct sw_kube_obj *obj; /* the last state; a reference */
    int netns_fd;            /* owned; -1: not known */
    bool wanted;             /* it belongs to the mesh, and lives */
    bool gone;               /* deleted: its namespace goes by itself */
    bool busy;               /* a job is under way */
    bool stale;              /* and it is about a namespace of the past */
    bool rules;              /* redirected */
    bool sent;               /* ADD is on its way to the newest proxy */
    bool handed;             /* and was acknowledged */
    unsigned n_stale_adds;   /* acknowledgements to come that are about a namespace of the past */
    bool detached;           /* the runtime took its sandbox away, and may make another */
    bool patching;           /* the annotation is */
    const char *annotated;   /* its value as written last, a literal; NULL: none */
    unsigned failures;       /* in a row */
    struct sw_err why;       /* of the last one */
    struct sw_timer retry;
};

/* ---- pods.c ---- */
/* A Pod was seen in this state; brings it in or out as its labels say. */
void agent_pods_consider(struct agent *g, struct sw_kube_obj *o);
void agent_pods_deleted(struct agent *g, struct sw_kube_obj *o);
/* True when both are open and the same network namespace. */
bool agent_same_namespace(int a, int b);
/* The runtime made the namespace: takes the descriptor. */
struct agent_pod *agent_pods_attach(struct agent *g, struct sw_kube_obj *o, int netns_fd,
                                    const char *path, const char *container_id);
struct agent_pod *agent_pods_find(const struct agent *g, struct sw_slice uid);
/* Takes the pod out of the node proxy: its sandbox is gone. The record stays while the Pod does. */
void agent_pods_detach(struct agent_pod *p);
/* Takes all pods out of the mesh. */
void agent_pods_leave(struct agent *g);
void agent_pods_done(struct agent *g);
extern const struct sw_zds_server_ops agent_pods_zds;
/* Checks the rules of all pods, and repairs what is missing. */
void agent_pods_verify(struct agent *g);

/* The next step of the pod, as far as there is one. It may be freed. */
void agent_pods_step(struct agent_pod *p);
/* The same later, unless it is due already. */
void agent_pods_retry(struct agent_pod *p, uint64_t delay_ns);

/* ---- annotate.c ---- */
/* Values of the annotation; compared by address. */
extern const char agent_enabled[];
extern const char agent_pending[];
/* Sees to it that the annotation gets the value; NULL: goes. One patch at a time. */
void agent_annotate(struct agent_pod *p, const char *value);

/* ---- record.c: what is remembered of pods across restarts of the agent ---- */
void agent_record_write(const struct agent_pod *p);
void agent_record_remove(const struct sw_agent_config *c, const char *uid);
/* Opens the namespace recorded for the pod. False: none, or it is no more. */
bool agent_record_open(const struct sw_agent_config *c, const char *uid, int *ret_fd,
                       char **ret_container_id);
struct agent_record {
    const char *netns;
    const char *container_id; /* empty: unknown */
};
/* Texts in the arena. False: not a record. */
bool agent_record_parse(struct sw_arena *a, struct sw_slice text, struct agent_record *ret);
/* Calls fn with the namespace of every record; forgets all. */
void agent_record_each(const struct sw_agent_config *c, void (*fn)(int netns_fd, void *arg),
                       void *arg);

/* Forgets the pods that keep is false for: they ended while no agent ran. */
void agent_record_prune(const struct sw_agent_config *c, bool (*keep)(const char *uid, void *arg),
                        void *arg);

/* ---- calls.c: the plugin's socket ---- */
/* What a call says of a pod. */
struct agent_add {
    const char *netns; /* an absolute path */
    const char *name;
    const char *ns;
    const char *uid; /* empty: the runtime did not say; the same for the next one */
    const char *container_id;
};
/* The body of a call: a JSON object. */
SW_NODISCARD int agent_body_parse(struct sw_arena *a, struct sw_slice text, struct sw_json **ret,
                                  struct sw_err *err);
/* Texts in the arena. False: a member is missing or malformed. */
bool agent_add_parse(struct sw_arena *a, const struct sw_json *body, struct agent_add *ret);
/*
 * The Pod "namespace/name" of the cache, borrowed; the uid counts when it is not empty. NULL:
 * *ret_waits says what is missing (a literal).
 */
struct sw_kube_obj *agent_pod_of(const struct agent *g, struct sw_slice key, struct sw_slice uid,
                                 const char **ret_waits);
SW_NODISCARD int agent_calls_start(struct agent *g, struct sw_err *err);
/* Something changed for the pod: calls that wait for it may be answered. */
void agent_calls_step(struct agent *g);
void agent_calls_done(struct agent *g);

/* ---- check.c ---- */
/* Answers CHECK: 200 when the pod is as its labels want it, 503 when that is not known yet. */
void agent_check(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp);

/* ---- agent.c ---- */
/* The addresses or ports of enrolled pods changed: the host's rules follow. */
void agent_probes_changed(struct agent *g);
/* The Namespace object of a pod, NULL: not known (yet). */
const struct sw_json *agent_namespace_of(const struct agent *g, const struct sw_kube_obj *pod);
/* Begins to take everything off the node; the answer (NULL: no caller) follows when it is done.
 */
void agent_uninstall(struct agent *g, struct sw_http_resp *resp);
