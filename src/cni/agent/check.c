/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CHECK of the plugin: the pod's labels, the network namespace that the runtime names, the
 * addresses of prevResult and the rules have to agree. What is not known is not called right.
 */
#include "base/mem.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "cni/agent/netns.h"
#include "io/netns.h"

struct check {
    struct sw_http_resp *resp; /* NULL: the client went away */
};

static void on_gone(void *arg)
{
    ((struct check *)arg)->resp = NULL;
}

static void on_checked(void *arg, int rc, const struct sw_err *err)
{
    struct check *c = arg;

    if (c->resp)
        sw_http_send_text(c->resp, rc == SW_OK ? 200 : 500, "%s\n", rc == SW_OK ? "ok" : err->msg);
    sw_free(c);
}

/* The addresses that the runtime has for the pod. */
static size_t ips_of(const struct sw_json *body, struct sw_ip ret[SW_ENROL_IPS_MAX])
{
    const struct sw_json *list = sw_json_find(body, "IPs");
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(list) && n < SW_ENROL_IPS_MAX; i++) {
        struct sw_slice s = sw_json_str(sw_json_walk(sw_json_at(list, i), "Address", "IP", NULL));

        n += s.n && sw_ip_parse(s, &ret[n], NULL) == SW_OK;
    }
    return n;
}

static int compare_namespace(const struct agent_pod *p, const char *path,
                             const struct sw_json *body, struct sw_err *err)
{
    struct sw_ip ips[SW_ENROL_IPS_MAX];
    size_t n = ips_of(body, ips);
    SW_AUTO_FD fd = -1;
    int rc = sw_netns_open(path, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (!agent_same_namespace(p->netns_fd, fd))
        return sw_err_set(err, SW_EINVAL,
                          "CNI_NETNS is not the network namespace that was redirected");
    if (!sw_pod_netns_has(fd, ips, n))
        return sw_err_set(err, SW_EINVAL,
                          "the network namespace has none of the addresses of prevResult");
    return SW_OK;
}

static const char *why_outside(const struct agent *g, const struct sw_kube_obj *o)
{
    if (g->uninstalling)
        return "the mesh is being uninstalled";
    if (sw_enrol_terminal(o->json))
        return "the pod has ended";
    return sw_enrol_why_not(o->json, agent_namespace_of(g, o), g->config->excluded.p,
                            g->config->excluded.n);
}

static void check_rules(struct agent *g, const struct agent_pod *p, struct sw_http_resp *resp)
{
    struct check *c = SW_NEW(struct check);

    c->resp = resp;
    sw_http_on_gone(resp, on_gone, c);
    sw_jobs_add(g->jobs,
                &(struct sw_job){
                    .kind = SW_JOB_CHECK, .netns_fd = p->netns_fd, .cb = on_checked, .arg = c});
}

void agent_check(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    SW_ARENA_AUTO a = {0};
    const struct agent_pod *p;
    const struct sw_kube_obj *o;
    const char *why = NULL;
    struct agent_add call;
    struct sw_err err = {0};

    if (!agent_add_parse(&a, body, &call)) {
        sw_http_send_text(resp, 400, "Netns, PodName or PodNamespace is missing or malformed\n");
        return;
    }
    o = agent_pod_of(g, sw_slice_str(sw_arena_printf(&a, "%s/%s", call.ns, call.name)),
                     sw_slice_str(call.uid), &why);
    if (!o) {
        sw_http_send_text(resp, 503, "%s\n", why);
        return;
    }
    why = why_outside(g, o);
    p = agent_pods_find(g, o->uid);
    if (why)
        sw_http_send_text(resp, 200, "not in the mesh: %s\n", why);
    else if (!p || p->detached)
        sw_http_send_text(resp, 500, "the pod belongs to the mesh and is not redirected\n");
    else if (!p->wanted || !p->handed || p->netns_fd < 0)
        sw_http_send_text(resp, 503, "%s\n", p->why.msg[0] ? p->why.msg : "not in the mesh yet");
    else if (compare_namespace(p, sw_arena_printf(&a, "%s%s", g->config->netns_prefix, call.netns),
                               body, &err) != SW_OK)
        sw_http_send_text(resp, 500, "%s\n", err.msg);
    else
        check_rules(g, p, resp);
}
