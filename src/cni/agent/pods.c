/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings pods into the mesh and out of it, one step after the other: namespace, rules, node proxy,
 * annotation. Every step can be repeated; what fails is tried again, with the reason in the log and
 * in the pod's events. Rules come before the hand-over: a pod waits, but never talks in the clear.
 */
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "cni/agent/netns.h"
#include "io/port.h"
#include "io/sock.h"

enum { RETRY_MIN_MS = 250, RETRY_MAX_MS = 10000 };

/* ---- records ---- */

struct agent_pod *agent_pods_find(const struct agent *g, struct sw_slice uid)
{
    return sw_map_get(&g->pods, uid);
}

static void publish(struct agent *g)
{
    int64_t enrolled = 0;

    SW_MAP_EACH (const struct agent_pod, p, &g->pods)
        enrolled += p->handed;
    sw_metric_gauge(g->shard, SW_METRIC_CNI_PODS, "enrolled", enrolled);
    sw_metric_gauge(g->shard, SW_METRIC_CNI_PODS, "pending", (int64_t)g->pods.n - enrolled);
}

static struct agent_pod *pod_new(struct agent *g, struct sw_kube_obj *o)
{
    struct agent_pod *p;

    if (g->pods.n >= AGENT_PODS_MAX || o->uid.n == 0 || o->uid.n > SW_ZDS_UID_MAX)
        return NULL;
    p = SW_NEW(struct agent_pod);
    p->agent = g;
    p->uid = sw_slice_dup(o->uid);
    p->obj = sw_kube_obj_ref(o);
    p->netns_fd = -1;
    if (sw_slice_eq_str(sw_enrol_state(o->json), agent_enabled))
        p->annotated = agent_enabled;
    (void)sw_map_put(&g->pods, sw_slice_str(p->uid), p);
    return p;
}

static void pod_free(struct agent_pod *p)
{
    struct agent *g = p->agent;

    sw_timer_stop(g->loop, &p->retry);
    (void)sw_map_del(&g->pods, sw_slice_str(p->uid));
    (void)sw_kube_obj_unref(p->obj);
    sw_sock_close(p->netns_fd);
    sw_free(p->container_id);
    sw_free(p->netns_path);
    sw_free(p->uid);
    sw_free(p);
}

static struct sw_slice label(const struct agent_pod *p)
{
    return p->obj->key;
}

/* ---- retrying ---- */

static void on_retry(struct sw_timer *t)
{
    agent_pods_step(SW_CONTAINER_OF(t, struct agent_pod, retry));
}

void agent_pods_retry(struct agent_pod *p, uint64_t delay_ns)
{
    if (!sw_timer_running(&p->retry))
        sw_timer_start(p->agent->loop, &p->retry, delay_ns, on_retry);
}

static void failed(struct agent_pod *p, const char *reason, const struct sw_err *err)
{
    struct agent *g = p->agent;
    uint64_t delay_ms = sw_min((uint64_t)RETRY_MIN_MS << sw_min(p->failures, 10), RETRY_MAX_MS);

    if (p->failures++ == 0 || !sw_port_same_cause(p->why.msg, err->msg)) {
        sw_log_warn("agent", "pod %.*s waits: %s", SW_SLICE_ARG(label(p)), err->msg);
        sw_recorder_event(g->events, &(struct sw_event_about){p->obj->json, "v1", "Pod"},
                          SW_EVENT_WARNING, reason, "Waiting to join the mesh: %s", err->msg);
    }
    p->why = *err;
    sw_metric_count(g->shard, SW_METRIC_CNI_FAILURES, reason);
    sw_timer_start(g->loop, &p->retry, delay_ms * SW_NS_PER_MS, on_retry);
}

/* ---- in ---- */

/*
 * What an earlier agent noted. A path by process id (/proc/PID/ns/net) may be another pod's by now,
 * which must not get this one's identity.
 */
static bool have_recorded(struct agent_pod *p, const struct sw_ip *ips, size_t n)
{
    if (!agent_record_open(p->agent->config, p->uid, &p->netns_fd, &p->container_id))
        return false;
    if (sw_pod_netns_has(p->netns_fd, ips, n))
        return true;
    sw_log_warn("agent", "pod %.*s: the recorded network namespace has none of its addresses",
                SW_SLICE_ARG(label(p)));
    agent_record_remove(p->agent->config, p->uid);
    sw_sock_close(SW_TAKE_FD(p->netns_fd));
    sw_free(SW_TAKE(p->container_id));
    return false;
}

static bool have_namespace(struct agent_pod *p, struct sw_err *err)
{
    const struct sw_agent_config *c = p->agent->config;
    struct sw_slice static_uid = sw_enrol_static_uid(p->obj->json);
    struct sw_ip ips[SW_ENROL_IPS_MAX];
    size_t n = sw_enrol_ips(p->obj->json, ips);

    if (p->netns_fd >= 0)
        return true;
    if (have_recorded(p, ips, n))
        return true;
    if (sw_pod_netns_find(c->host_proc, sw_slice_str(p->uid), ips, n, &p->netns_fd, err) == SW_OK)
        return true;
    return static_uid.n &&
           sw_pod_netns_find(c->host_proc, static_uid, ips, n, &p->netns_fd, err) == SW_OK;
}

/* True when what the job did still counts. */
static bool job_done(struct agent_pod *p)
{
    bool stale = p->stale;

    p->busy = false;
    p->stale = false;
    if (stale)
        agent_pods_step(p);
    return !stale && !p->agent->ending;
}

static void on_applied(void *arg, int rc, const struct sw_err *err)
{
    struct agent_pod *p = arg;

    if (!job_done(p))
        return;
    p->rules = rc == SW_OK;
    if (rc != SW_OK)
        failed(p, "RedirectionFailed", err);
    else
        agent_pods_step(p);
}

bool agent_same_namespace(int a, int b)
{
    struct stat sa;
    struct stat sb;

    return a >= 0 && fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static void apply_rules(struct agent_pod *p)
{
    const struct sw_agent_config *c = p->agent->config;
    SW_ARENA_AUTO a = {0};
    struct sw_job job = {.kind = SW_JOB_APPLY, .netns_fd = p->netns_fd, .cb = on_applied, .arg = p};

    if (p->agent->host_fd >= 0 && agent_same_namespace(p->agent->host_fd, p->netns_fd)) {
        struct sw_err err = {0};

        (void)sw_err_set(&err, SW_EINVAL, "this is the host's own network namespace, not a pod's");
        failed(p, "RedirectionFailed", &err);
        return;
    }
    sw_redirect_init(&job.redirect);
    job.redirect.dns = c->dns;
    job.redirect.ipv6 = c->ipv6;
    sw_enrol_redirect(p->obj->json, &a, &job.redirect);
    p->busy = true;
    sw_jobs_add(p->agent->jobs, &job);
}

static struct sw_zds_request add_request(const struct agent_pod *p)
{
    return (struct sw_zds_request){
        .kind = SW_ZDS_ADD,
        .uid = sw_slice_str(p->uid),
        .ns = p->obj->ns,
        .name = p->obj->name,
        .sa = sw_enrol_account(p->obj->json),
    };
}

static void hand_over(struct agent_pod *p)
{
    struct sw_zds_conn *c = sw_zds_server_newest(p->agent->zds);
    struct sw_zds_request add = add_request(p);
    struct sw_err err = {0};

    if (p->sent)
        return;
    if (!c) {
        (void)sw_err_set(&err, SW_EUNAVAIL, "the node proxy is not connected");
        failed(p, "NodeProxyMissing", &err);
        if (!p->annotated)
            agent_annotate(p, agent_pending);
        return;
    }
    p->sent = sw_zds_conn_send(c, &add, p->netns_fd, &err) == SW_OK;
    if (!p->sent)
        failed(p, "HandOverFailed", &err);
}

static void bring_in(struct agent_pod *p)
{
    struct sw_err err = {0};

    if (!have_namespace(p, &err)) {
        failed(p, "NamespaceMissing", &err);
    } else if (!p->rules) {
        apply_rules(p);
    } else if (!p->handed) {
        hand_over(p);
    } else {
        p->failures = 0;
        agent_annotate(p, agent_enabled);
    }
}

/* ---- out ---- */

static void leave_proxy(struct agent_pod *p)
{
    if (p->sent || p->handed)
        sw_zds_server_del(p->agent->zds, sw_slice_str(p->uid));
    p->sent = false;
    p->handed = false;
}

static void on_removed(void *arg, int rc, const struct sw_err *err)
{
    struct agent_pod *p = arg;

    if (!job_done(p))
        return;
    if (rc != SW_OK && !p->gone && !p->wanted) {
        failed(p, "RemovalFailed", err);
        return;
    }
    p->rules = false;
    agent_pods_step(p);
}

/* Rules first: as long as they stand, the pod needs its proxy. */
static void bring_out(struct agent_pod *p)
{
    struct agent *g = p->agent;

    if (p->rules && !p->gone && have_namespace(p, NULL)) {
        struct sw_job job = {
            .kind = SW_JOB_REMOVE, .netns_fd = p->netns_fd, .cb = on_removed, .arg = p};

        p->busy = true;
        sw_jobs_add(g->jobs, &job);
        return;
    }
    leave_proxy(p);
    agent_record_remove(g->config, p->uid); /* the API may be unreachable by now */
    if (!p->gone)
        agent_annotate(p, NULL);
    if (!p->gone && (p->patching || p->annotated))
        return; /* until the API knows */
    sw_log_info("agent", "pod %.*s left the mesh", SW_SLICE_ARG(label(p)));
    pod_free(p);
    agent_probes_changed(g);
}

void agent_pods_step(struct agent_pod *p)
{
    struct agent *g = p->agent;

    if (p->busy || g->ending)
        return;
    sw_timer_stop(g->loop, &p->retry);
    if (p->wanted)
        bring_in(p);
    else
        bring_out(p);
    publish(g);
    agent_calls_step(g);
}

/* ---- events ---- */

static void update(struct agent_pod *p, struct sw_kube_obj *o)
{
    if (p->obj != o) {
        (void)sw_kube_obj_unref(p->obj);
        p->obj = sw_kube_obj_ref(o);
    }
}

/*
 * A namespace that is deleted may be gone before the watch of pods says that its pods are: they
 * keep their rules, or their last connections would be in the clear.
 */
static bool belongs(const struct agent *g, const struct agent_pod *p, const struct sw_kube_obj *o)
{
    const struct sw_json *ns = agent_namespace_of(g, o);

    if (g->uninstalling || sw_enrol_terminal(o->json))
        return false;
    if (!ns)
        return p && p->wanted;
    return !sw_enrol_why_not(o->json, ns, g->config->excluded.p, g->config->excluded.n);
}

void agent_pods_consider(struct agent *g, struct sw_kube_obj *o)
{
    struct agent_pod *p = agent_pods_find(g, o->uid);
    bool wanted = belongs(g, p, o);
    bool marked = sw_slice_eq_str(sw_enrol_state(o->json), agent_enabled);
    struct sw_ip ips[SW_ENROL_IPS_MAX];

    if (!g->synced)
        return;
    if (!p && wanted && sw_enrol_ips(o->json, ips) > 0) {
        p = pod_new(g, o);
    } else if (!p && !wanted && marked && agent_namespace_of(g, o) && !sw_enrol_terminal(o->json)) {
        /* Unlabelled while no agent ran. */
        p = pod_new(g, o);
        if (p)
            p->rules = true;
    }
    if (!p)
        return;
    update(p, o);
    if (p->wanted != wanted)
        p->failures = 0;
    p->wanted = wanted;
    /* An end of its life is not a change of mind: the namespace is about to go. */
    p->gone = sw_enrol_terminal(o->json);
    if (!p->patching && !marked && p->annotated == agent_enabled)
        p->annotated = NULL; /* removed by another process */
    agent_probes_changed(g);
    if (!p->detached || !wanted)
        agent_pods_step(p);
}

void agent_pods_deleted(struct agent *g, struct sw_kube_obj *o)
{
    struct agent_pod *p = agent_pods_find(g, o->uid);

    if (!p) {
        SW_ARENA_AUTO a = {0};

        /* An earlier agent may have noted it. */
        agent_record_remove(g->config, sw_arena_dup(&a, o->uid));
        return;
    }
    p->wanted = false;
    p->gone = true;
    agent_pods_step(p);
}

/* Nothing of the old namespace holds: no rules, no hand-over, no result that is under way. */
static void change_namespace(struct agent_pod *p, int netns_fd)
{
    sw_sock_close(p->netns_fd);
    p->netns_fd = netns_fd;
    p->n_stale_adds += p->sent && !p->handed;
    p->stale = p->busy;
    p->rules = false;
    p->sent = false;
    p->handed = false;
}

struct agent_pod *agent_pods_attach(struct agent *g, struct sw_kube_obj *o, int netns_fd,
                                    const char *path, const char *container_id)
{
    struct agent_pod *p = agent_pods_find(g, o->uid);

    p = p ? p : pod_new(g, o);
    if (!p) {
        sw_sock_close(netns_fd);
        return NULL;
    }
    update(p, o);
    if (agent_same_namespace(p->netns_fd, netns_fd))
        sw_sock_close(netns_fd);
    else
        change_namespace(p, netns_fd);
    sw_text_set(&p->container_id, sw_slice_str(container_id));
    sw_text_set(&p->netns_path, sw_slice_str(path));
    p->wanted = true;
    p->gone = false;
    p->detached = false;
    p->failures = 0;
    agent_record_write(p);
    agent_pods_step(p);
    return agent_pods_find(g, o->uid);
}

void agent_pods_detach(struct agent_pod *p)
{
    bool adding = p->sent && !p->handed;

    leave_proxy(p);
    agent_record_remove(p->agent->config, p->uid);
    p->n_stale_adds += adding;
    change_namespace(p, -1);
    p->detached = true;
    sw_text_set(&p->container_id, sw_slice(NULL, 0));
    sw_text_set(&p->netns_path, sw_slice(NULL, 0));
    publish(p->agent);
    /* Until the runtime makes another sandbox there is nothing to do. */
    sw_timer_stop(p->agent->loop, &p->retry);
}

/* ---- the node proxy ---- */

static void on_snapshot(void *arg, struct sw_zds_conn *c)
{
    struct agent *g = arg;

    SW_MAP_EACH (struct agent_pod, p, &g->pods) {
        struct sw_zds_request r = add_request(p);
        struct sw_err err = {0};

        p->handed = false;
        p->n_stale_adds = 0;
        p->sent = p->wanted && p->rules && p->netns_fd >= 0;
        if (!p->wanted || p->detached)
            continue;
        if (p->sent && sw_zds_conn_send(c, &r, p->netns_fd, &err) == SW_OK)
            continue;
        if (p->sent)
            failed(p, "HandOverFailed", &err);
        p->sent = false;
        r.kind = SW_ZDS_KEEP;
        (void)!sw_zds_conn_send(c, &r, -1, &err); /* what it serves it may keep until then */
    }
    publish(g);
}

static void on_added(void *arg, struct sw_slice uid, struct sw_slice error)
{
    struct agent *g = arg;
    struct agent_pod *p = agent_pods_find(g, uid);
    struct sw_err err = {0};

    if (p && p->n_stale_adds) {
        p->n_stale_adds--;
        return;
    }
    if (!p || !p->sent)
        return;
    p->sent = error.n == 0;
    p->handed = error.n == 0;
    if (error.n == 0) {
        sw_log_info("agent", "pod %.*s is in the mesh", SW_SLICE_ARG(label(p)));
        agent_probes_changed(g);
        agent_pods_step(p);
        return;
    }
    (void)sw_err_set(&err, SW_EDENIED, "node proxy: %.*s", SW_SLICE_ARG_MAX(error, 150));
    failed(p, "NodeProxyRefused", &err);
    agent_calls_step(g);
}

static void on_lost(void *arg)
{
    struct agent *g = arg;

    SW_MAP_EACH (struct agent_pod, p, &g->pods) {
        p->sent = false;
        p->handed = false;
        p->n_stale_adds = 0;
        if (!sw_timer_running(&p->retry) && p->wanted && p->rules && !p->busy)
            sw_timer_start(g->loop, &p->retry, RETRY_MIN_MS * SW_NS_PER_MS, on_retry);
    }
    publish(g);
}

const struct sw_zds_server_ops agent_pods_zds = {
    .snapshot = on_snapshot, .added = on_added, .lost = on_lost};

/* ---- all of them ---- */

static void on_verified(void *arg, int rc, const struct sw_err *err)
{
    struct agent_pod *p = arg;

    if (!job_done(p))
        return;
    if (rc == SW_ENOENT && p->wanted) {
        sw_log_warn("agent", "pod %.*s: %s; repairing", SW_SLICE_ARG(label(p)), err->msg);
        sw_metric_count(p->agent->shard, SW_METRIC_CNI_FAILURES, "RulesMissing");
        p->rules = false;
    }
    agent_pods_step(p);
}

void agent_pods_verify(struct agent *g)
{
    SW_MAP_EACH (struct agent_pod, p, &g->pods) {
        struct sw_job job = {
            .kind = SW_JOB_CHECK, .netns_fd = p->netns_fd, .cb = on_verified, .arg = p};

        if (!p->wanted || !p->rules || p->busy || p->netns_fd < 0)
            continue;
        p->busy = true;
        sw_jobs_add(g->jobs, &job);
    }
}

/* Stepping may free the pod, and move the map. */
void agent_pods_leave(struct agent *g)
{
    SW_VEC(char *) uids = {0};

    SW_MAP_FOREACH (it, &g->pods)
        sw_vec_push(&uids, sw_slice_dup(it->key));
    SW_VEC_FOREACH (char *, uid, &uids) {
        struct agent_pod *p = agent_pods_find(g, sw_slice_str(*uid));

        if (p) {
            p->wanted = false;
            agent_pods_step(p);
        }
        sw_free(*uid);
    }
    sw_vec_done(&uids);
}

void agent_pods_done(struct agent *g)
{
    SW_MAP_DRAIN(&g->pods, pod_free);
}
