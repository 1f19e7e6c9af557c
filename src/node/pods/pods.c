/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pods the node serves: those of the command line for ever, those of the node agent until it
 * takes them back. A pod that cannot be served (its namespace is gone, another process holds a
 * port) is counted, logged and tried again; the others are not concerned.
 */
#include "node/pods/pods.h"

#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/netns.h"
#include "io/port.h"
#include "node/identities.h"

enum { RETRY_MIN_MS = 20, RETRY_S = 5 };

/* ---- counting ---- */

static void publish(struct sw_node *n)
{
    int64_t up = 0;

    SW_VEC_FOREACH (struct node_pod, p, &n->pods)
        up += p->up;
    sw_metric_set(sw_metric_get1(n->process.shard, SW_METRIC_PROXIES_ACTIVE, NULL), up);
    sw_metric_set(sw_metric_get1(n->process.shard, SW_METRIC_PROXIES_PENDING, NULL),
                  (int64_t)n->pods.n - up);
}

/* ---- one pod ---- */

static int open_namespace(struct node_pod *p, struct sw_err *err)
{
    int rc;

    if (!p->path || p->pod->netns_fd >= 0)
        return SW_OK;
    rc = sw_netns_open(p->path, &p->pod->netns_fd, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "pod '%s'", p->pod->uid);
}

static int bring_up(struct sw_node *n, struct node_pod *p, struct sw_err *err)
{
    struct sw_pod_sockets *all = SW_NEW_ARRAY(struct sw_pod_sockets, n->n_workers);
    int rc = open_namespace(p, err);

    if (rc == SW_OK)
        rc = node_probe_pod(n->config, p->pod, err);
    if (rc == SW_OK)
        rc = node_open_sockets(n, p->pod, all, err);
    if (rc == SW_OK && n->dns && !p->pod->self) {
        rc = sw_dns_proxy_add(n->dns, p->pod, err);
        if (rc != SW_OK)
            node_close_sockets(all, n->n_workers);
    }
    for (size_t w = 0; rc == SW_OK && w < n->n_workers; w++)
        sw_worker_send_pod(&n->workers[w], sw_pod_ref(p->pod), &all[w]);
    sw_free(all);
    p->up = rc == SW_OK;
    if (rc != SW_OK)
        return rc;
    sw_metric_add(sw_metric_get1(n->process.shard, SW_METRIC_PROXIES_STARTED, NULL), 1);
    node_pods_changed(n);
    return SW_OK;
}

static void take_down(struct sw_node *n, struct node_pod *p)
{
    if (!p->up)
        return;
    p->up = false;
    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_pod_gone(&n->workers[w], sw_pod_ref(p->pod));
    sw_dns_proxy_remove(n->dns, p->pod->uid);
    sw_metric_add(sw_metric_get1(n->process.shard, SW_METRIC_PROXIES_STOPPED, NULL), 1);
    node_pods_changed(n);
}

/* ---- retrying ---- */

static void on_retry(struct sw_timer *t);

/*
 * Soon at first: a pod that goes and comes again finds its ports held until the workers have let go
 * of them.
 */
static void retry_later(struct sw_node *n)
{
    if (sw_timer_running(&n->retry))
        return;
    sw_timer_start(n->process.loop, &n->retry, n->retry_ms * SW_NS_PER_MS, on_retry);
    n->retry_ms = sw_min(n->retry_ms * 2, RETRY_S * 1000);
}

/* One more that could not be served. */
static void retry_soon(struct sw_node *n)
{
    n->retry_ms = RETRY_MIN_MS;
    sw_timer_stop(n->process.loop, &n->retry);
    retry_later(n);
}

static void left_out(struct node_pod *p, const struct sw_err *why)
{
    /* The same reason every five seconds would drown the log. */
    if (!sw_port_same_cause(p->why.msg, why->msg))
        sw_log_warn("node", "cannot serve %s/%s: %s; retrying, at last every %d s", p->pod->ns,
                    p->pod->name, why->msg, RETRY_S);
    p->why = *why;
}

static void on_retry(struct sw_timer *t)
{
    struct sw_node *n = SW_CONTAINER_OF(t, struct sw_node, retry);
    bool more = false;

    if (n->process.crew.draining)
        return;
    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        struct sw_err err = {0};

        if (p->up)
            continue;
        if (bring_up(n, p, &err) == SW_OK) {
            sw_log_info("node", "%s/%s is served now", p->pod->ns, p->pod->name);
        } else {
            left_out(p, &err);
            more = true;
        }
    }
    if (more)
        retry_later(n);
    publish(n);
}

/* ---- pods of the command line ---- */

static struct node_pod *push(struct sw_node *n, const char *uid, const struct sw_node_workload *who,
                             int netns_fd)
{
    sw_vec_push(&n->pods, (struct node_pod){.pod = sw_pod_new(uid, who, netns_fd)});
    return &n->pods.p[n->pods.n - 1];
}

static struct node_pod *push_named(struct sw_node *n, const struct sw_node_workload *who)
{
    char *uid = sw_asprintf("%s/%s/%s", who->ns, who->name, who->sa);
    struct node_pod *p = push(n, uid, who, -1);

    sw_free(uid);
    return p;
}

/* Can waiting help? A path that is no namespace stays one. */
static bool passing(const struct sw_err *err)
{
    return err->rc != SW_EINVAL && err->rc != SW_EDENIED;
}

static int start_listed(struct sw_node *n, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    struct sw_err first = {0};
    size_t up = 0;

    for (size_t i = 0; i < c->serve.n_pods; i++) {
        struct node_pod *p = push_named(n, &c->serve.pods[i].who);
        struct sw_err why = {0};

        p->path = c->serve.pods[i].netns;
        if (bring_up(n, p, &why) == SW_OK) {
            up++;
            continue;
        }
        if (!passing(&why)) {
            *err = why;
            return why.rc;
        }
        if (first.rc == SW_OK)
            first = why;
        p->why = why;
    }
    if (c->serve.n_pods && up == 0 && !c->serve.agent_socket) {
        *err = first;
        return first.rc;
    }
    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        struct sw_err why = p->why;

        p->why = (struct sw_err){0};
        if (p->up)
            continue;
        left_out(p, &why);
        retry_soon(n);
    }
    return SW_OK;
}

int node_pods_start(struct sw_node *n, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    int rc = SW_OK;

    if (c->serve.mode == SW_NODE_DEDICATED)
        rc = bring_up(n, push_named(n, &c->serve.workload), err);
    else
        rc = start_listed(n, err);
    if (rc == SW_OK && c->names.self_proxy) {
        struct sw_node_workload self = {c->names.pod_namespace, c->names.pod,
                                        c->names.service_account};
        struct node_pod *p = push_named(n, &self);

        p->pod->self = true;
        rc = bring_up(n, p, err);
    }
    publish(n);
    return rc;
}

/* ---- pods of the agent ---- */

static struct node_pod *find(struct sw_node *n, const char *uid)
{
    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        if (p->by_agent && strcmp(p->pod->uid, uid) == 0)
            return p;
    }
    return NULL;
}

static bool same_namespace(int a, int b)
{
    struct stat sa;
    struct stat sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static void forget(struct sw_node *n, struct node_pod *p)
{
    take_down(n, p);
    (void)sw_pod_unref(p->pod);
    sw_vec_swap_remove(&n->pods, (size_t)(p - n->pods.p));
}

int node_pods_add(struct sw_node *n, const char *uid, const struct sw_node_workload *who,
                  int netns_fd, struct sw_err *err)
{
    struct node_pod *p = find(n, uid);
    int rc;

    if (p && p->up && same_namespace(p->pod->netns_fd, netns_fd)) {
        sw_sock_close(netns_fd);
        return SW_OK;
    }
    if (p)
        forget(n, p); /* the pod's sandbox was made anew */
    if (n->pods.n >= NODE_PODS_MAX) {
        sw_sock_close(netns_fd);
        return sw_err_set(err, SW_ELIMIT, "more than %d pods", NODE_PODS_MAX);
    }
    p = push(n, uid, who, netns_fd);
    p->by_agent = true;
    rc = bring_up(n, p, err);
    if (rc == SW_OK)
        sw_log_info("node", "serving %s/%s", who->ns, who->name);
    if (rc != SW_OK) {
        left_out(p, err);
        retry_soon(n);
    }
    publish(n);
    return rc;
}

bool node_pods_del(struct sw_node *n, const char *uid)
{
    struct node_pod *p = find(n, uid);

    if (!p)
        return false;
    sw_log_info("node", "%s/%s removed", p->pod->ns, p->pod->name);
    forget(n, p);
    publish(n);
    return true;
}

void node_pods_mark(struct sw_node *n, const char *uid, uint64_t seen)
{
    struct node_pod *p = find(n, uid);

    if (p)
        p->seen = seen;
}

void node_pods_sweep(struct sw_node *n, uint64_t seen)
{
    for (size_t i = n->pods.n; i-- > 0;) {
        struct node_pod *p = &n->pods.p[i];

        if (!p->by_agent || p->seen == seen)
            continue;
        sw_log_info("node", "%s/%s is not among the agent's pods any more", p->pod->ns,
                    p->pod->name);
        forget(n, p);
    }
    publish(n);
}

void node_pods_done(struct sw_node *n)
{
    if (n->process.loop)
        sw_timer_stop(n->process.loop, &n->retry);
    SW_VEC_FOREACH (struct node_pod, p, &n->pods)
        (void)sw_pod_unref(p->pod);
    sw_vec_done(&n->pods);
}
