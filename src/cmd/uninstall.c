/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `spanwire uninstall`: before the objects of an installation are deleted, ends the node agents
 * while they still have their account, then control, and deletes what control made.
 */
#include <poll.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/api.h"
#include "cmd/cmd.h"

enum { AGAIN_MS = 500 };

#define MADE_BY_US "app.kubernetes.io/managed-by=spanwire"

struct settings {
    const char *ns;
    const char *kubeconfig;
    const char *context;
    uint64_t timeout_ns;
    bool keep_secrets;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"namespace", "POD_NAMESPACE", SW_OPT_STR, AT(ns), .arg = "NS",
     .help = "Namespace of the installation. Default: that of the kubeconfig's context."},
    {"timeout", NULL, SW_OPT_DURATION, AT(timeout_ns), .def = "4m", .min = 1000,
     .help = "How long the node agents may take, and control."},
    {"keep-secrets", NULL, SW_OPT_BOOL, AT(keep_secrets), .def = "false", .arg = "BOOL",
     .help = "Leave the Secrets with the keys of the authorities for a later installation."},
    {"kubeconfig", NULL, SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "Default: $KUBECONFIG, the pod's account, ~/.kube/config."},
    {"context", NULL, SW_OPT_STR, AT(context), .arg = "NAME",
     .help = "Context of the kubeconfig. Default: the current one."},
};

const struct sw_opts_cmd sw_uninstall_options = {
    .name = "uninstall",
    .usage = "[options]",
    .summary = "Takes an installation off a cluster as far as its objects do not say: pods leave\n"
               "the mesh, and what the control plane made is deleted. Run by the chart before\n"
               "'helm uninstall' deletes the rest.",
    .epilogue = "See spanwire-uninstall(8).",
    SW_OPTS_OF(table),
};

/* Kinds and names as deploy/ has them. */
static const struct sw_kube_gvr daemonsets = {"apps", "v1", "daemonsets", "DaemonSet", true};
static const struct sw_kube_gvr deployments = {"apps", "v1", "deployments", "Deployment", true};
static const struct sw_kube_gvr secrets = {"", "v1", "secrets", "Secret", true};
static const struct sw_kube_gvr configmaps = {"", "v1", "configmaps", "ConfigMap", true};
static const struct sw_kube_gvr leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};

static const struct {
    const struct sw_kube_gvr *gvr;
    const char *name;
} made[] = {
    {&secrets, "spanwire-xds"},       {&secrets, "istio-ca-secret"},  {&configmaps, "spanwire-xds"},
    {&configmaps, "spanwire-relays"}, {&configmaps, "spanwire-join"},
};
#define LEASE_PREFIX "spanwire-" /* of leaders, and what each replica says of its data planes */
/* In every namespace. */
static const char *const bundles[] = {"istio-ca-root-cert", "istio-ca-crl"};

struct uninstall {
    const struct settings *set;
    struct sw_cmd_api api;
    struct sw_slice ns;
    struct sw_err *err;
};

/* SW_OK also when it was not there. */
static int delete_one(struct uninstall *u, const struct sw_kube_req *req)
{
    SW_ARENA_AUTO a = {0};
    int rc = sw_cmd_api_ask(&u->api, req, NULL, u->err);

    if (rc == SW_ENOENT)
        return SW_OK;
    if (rc != SW_OK)
        return sw_err_prefix(u->err, "%s %.*s", req->gvr->kind, SW_SLICE_ARG(req->name));
    (void)printf("%s %s/%s deleted\n", req->gvr->kind, sw_cmd_shown(&a, req->ns),
                 sw_cmd_shown(&a, req->name));
    return SW_OK;
}

/* With its pods: until the API has neither. */
static int end(struct uninstall *u, const struct sw_kube_gvr *gvr, const char *name)
{
    uint64_t deadline_ns = sw_now_ns() + u->set->timeout_ns;
    struct sw_kube_req req = {.verb = SW_KUBE_DELETE,
                              .gvr = gvr,
                              .ns = u->ns,
                              .name = sw_slice_str(name),
                              .propagation = "Foreground"};
    int rc = delete_one(u, &req);

    req = (struct sw_kube_req){
        .verb = SW_KUBE_GET, .gvr = gvr, .ns = u->ns, .name = sw_slice_str(name)};
    while (rc == SW_OK) {
        rc = sw_cmd_api_ask(&u->api, &req, NULL, u->err);
        if (rc == SW_ENOENT)
            return SW_OK;
        if (rc != SW_OK)
            return sw_err_prefix(u->err, "%s %s", gvr->kind, name);
        if (sw_now_ns() >= deadline_ns)
            return sw_err_set(u->err, SW_ETIME, "%s %s: its pods have not ended in time", gvr->kind,
                              name);
        (void)poll(NULL, 0, AGAIN_MS);
    }
    return rc;
}

static int delete_made(struct uninstall *u)
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(made); i++) {
        if (made[i].gvr != &secrets || !u->set->keep_secrets)
            rc = delete_one(u, &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                                     .gvr = made[i].gvr,
                                                     .ns = u->ns,
                                                     .name = sw_slice_str(made[i].name)});
    }
    return rc;
}

static bool is_lease(struct sw_slice name)
{
    return sw_slice_has_prefix(name, SW_SLICE_LIT(LEASE_PREFIX));
}

static bool is_bundle(struct sw_slice name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(bundles); i++) {
        if (sw_slice_eq_str(name, bundles[i]))
            return true;
    }
    return false;
}

static int delete_some(struct uninstall *u, const struct sw_kube_gvr *gvr,
                       const struct sw_json *items, bool (*is_ours)(struct sw_slice name))
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < sw_json_len(items); i++) {
        const struct sw_json *meta = sw_json_find(sw_json_at(items, i), "metadata");
        struct sw_slice name = sw_json_str(sw_json_find(meta, "name"));

        if (is_ours(name))
            rc = delete_one(
                u, &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                         .gvr = gvr,
                                         .ns = sw_json_str(sw_json_find(meta, "namespace")),
                                         .name = name,
                                         .if_uid = sw_json_str(sw_json_find(meta, "uid"))});
    }
    return rc;
}

static int delete_listed(struct uninstall *u, const struct sw_kube_req *list,
                         bool (*is_ours)(struct sw_slice name))
{
    struct sw_kube_req req = *list;
    int rc;

    do {
        const struct sw_json *items;

        rc = sw_cmd_api_page(&u->api, &req, &items, u->err);
        if (rc != SW_OK)
            return sw_err_prefix(u->err, "list of %ss", list->gvr->kind);
        rc = delete_some(u, list->gvr, items, is_ours);
    } while (rc == SW_OK && req.continue_token.n);
    return rc;
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    const struct settings *s = settings;
    struct uninstall u = {.set = s, .err = err};
    int rc = sw_log_filter(SW_SLICE_LIT("warn"), true, err);

    if (rc == SW_OK)
        rc = sw_cmd_api_open(&u.api, s->kubeconfig, s->context, err);
    if (rc == SW_OK) {
        u.ns = s->ns ? sw_slice_str(s->ns) : sw_kube_client_ns(u.api.client);
        rc = end(&u, &daemonsets, "spanwire-cni");
    }
    /* Control would make again what is deleted while it runs. */
    if (rc == SW_OK)
        rc = end(&u, &deployments, "spanwire-control");
    if (rc == SW_OK)
        rc = delete_made(&u);
    if (rc == SW_OK)
        rc = delete_listed(&u, &(struct sw_kube_req){.gvr = &leases, .ns = u.ns}, is_lease);
    /* Only those with our label: another control plane may have made its own. */
    if (rc == SW_OK)
        rc = delete_listed(
            &u, &(struct sw_kube_req){.gvr = &configmaps, .label_selector = MADE_BY_US}, is_bundle);
    sw_cmd_api_close(&u.api);
    return rc;
}

int sw_cmd_uninstall(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_uninstall_options, (struct sw_args){argc, argv}, &s, run);
}
