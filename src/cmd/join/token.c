/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire token create|list|delete`: codes for machines that join. */
#include "cmd/join/token.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/control/join.h"
#include "identity/join/record.h"
#include "kube/client/kinds.h"

#define AT(field) .offset = offsetof(struct sw_token_settings, field)

static const char *const kinds[] = {"node", "device", "gateway", "peer", NULL};

static const struct sw_opt table[] = {
    {"for", NULL, SW_OPT_ENUM, AT(kind), .def = "node", .choices = kinds,
     .help = "What joins: a node of the mesh, a device, a gateway, or a peer."},
    {"name", NULL, SW_OPT_STR, AT(name), .arg = "NAME",
     .help = "What the machine is called: its WorkloadEntry, or its account. Needed by create."},
    {"namespace", NULL, SW_OPT_STR, AT(ns), .arg = "NS",
     .help = "Namespace of the machine. Default: that of the kubeconfig's context."},
    {"ttl", NULL, SW_OPT_DURATION, AT(ttl_ns), .def = "15m", .min = 1000, .max = 604800000,
     .help = "How long the code can be used; once in any case."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Nodes"},
    {"service-account", NULL, SW_OPT_STR, AT(account), .arg = "NAME",
     .help = "Identity of the machine in the mesh. Default 'default'."},
    {"label", NULL, SW_OPT_LIST, AT(labels), .arg = "KEY=VALUE",
     .help = "Label of its WorkloadEntry, by which Services and policies select it; may be "
             "repeated."},
    {"network", NULL, SW_OPT_STR, AT(network), .arg = "NAME",
     .help = "Network it is in. Default: that of the cluster."},
    {"address", NULL, SW_OPT_STR, AT(address), .arg = "IP",
     .help = "How the mesh reaches it. Default: the address it calls from."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Devices and gateways"},
    {"server", NULL, SW_OPT_STR, AT(server), .arg = "URL",
     .help = "How the machine reaches the API. Default: as the kubeconfig does."},
    {"gateway", NULL, SW_OPT_LIST, AT(gateways), .arg = "NS/NAME",
     .help = "Gateway that it serves; may be repeated."},
    {"xds-address", NULL, SW_OPT_STR, AT(xds_address), .arg = "HOST:PORT",
     .help = "Where it finds xDS."},
    {"xds-ca", NULL, SW_OPT_STR, AT(xds_ca), .arg = "FILE",
     .help = "Roots of the xDS server. Default: those of the API."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "API"},
    {"join-address", NULL, SW_OPT_STR, AT(join_address), .arg = "HOST:PORT",
     .help = "Where machines join, if not where the control plane says."},
    {"all-namespaces", NULL, SW_OPT_BOOL, AT(all), .def = "false", .arg = "BOOL",
     .help = "list: of every namespace."},
    {"system-namespace", NULL, SW_OPT_STR, AT(system_ns), .def = SW_CONTROL_JOIN_SYSTEM_NS,
     .arg = "NS", .help = "Namespace of the control plane's own objects."},
    {"kubeconfig", NULL, SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "Default: $KUBECONFIG, the pod's account, ~/.kube/config."},
    {"context", NULL, SW_OPT_STR, AT(context), .arg = "NAME",
     .help = "Context of the kubeconfig. Default: the current one."},
};

const struct sw_opts_cmd sw_token_options = {
    .name = "token",
    .usage = "create --for KIND --name NAME | list | delete ID... [options]",
    .summary = "Codes by which machines join. create prints the one line to run on the machine;\n"
               "list shows codes and the machines that used them; delete revokes a code, or\n"
               "removes the machine with its WorkloadEntry or account.",
    .epilogue = "See spanwire-token(1) and spanwire-join(1).",
    SW_OPTS_OF(table),
    .max_args = SW_OPTS_ARGS_MAX,
};

/* ---- list ---- */

static void print_record(struct sw_token_cmd *t, const struct sw_json *secret)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    struct sw_join_record r;
    struct sw_err err = {0};
    char until[SW_RFC3339_LEN];
    const char *state;

    if (sw_join_record_read(&t->api.arena, secret, &r, &err) != SW_OK) {
        (void)sw_err_prefix(
            &err, "token: '%.*s/%.*s' is not a record",
            SW_SLICE_ARG(sw_json_str(sw_json_walk(secret, "metadata", "namespace", NULL))),
            SW_SLICE_ARG(sw_json_str(sw_json_walk(secret, "metadata", "name", NULL))));
        (void)sw_cmd_fail(&err);
        return;
    }
    state = r.key.n ? "joined" : now < r.expires_s ? "waiting" : "expired";
    sw_cmd_print_cell(r.id, 32);
    printf("%-8s ", sw_join_kind_name(r.kind));
    sw_cmd_print_cell(r.name, 24);
    printf("%-8s ", state);
    if (r.key.n)
        printf("%s from %s\n", sw_cmd_shown(&t->api.arena, r.redeemed_at),
               sw_cmd_shown(&t->api.arena, r.from));
    else
        printf("%s %s\n", now < r.expires_s ? "until" : "since",
               sw_rfc3339(r.expires_s * SW_NS_PER_S, 0, until));
}

static int list(struct sw_token_cmd *t, struct sw_err *err)
{
    struct sw_kube_req req = {.gvr = &sw_secrets_gvr,
                              .ns = t->set->all ? sw_slice("", 0) : sw_slice_str(t->ns),
                              .label_selector = SW_JOIN_LABEL};

    printf("%-32s %-8s %-24s %-8s %s\n", "ID", "FOR", "NAME", "STATE", "WHEN");
    do {
        const struct sw_json *items;
        int rc = sw_cmd_api_page(&t->api, &req, &items, err);

        if (rc != SW_OK)
            return rc;
        SW_JSON_ITEMS (it, items)
            print_record(t, it);
    } while (req.continue_token.n);
    return fflush(stdout) == 0 ? SW_OK : sw_err_set(err, SW_ESYS, "cannot write the list");
}

/* ---- delete ---- */

void sw_token_drop_cluster_role(struct sw_token_cmd *t, struct sw_slice id)
{
    static const struct sw_kube_gvr both[] = {
        {"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false},
        {"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false}};
    struct sw_err ignored = {0};

    (void)sw_slice_cut(&id, '/');
    for (size_t i = 0; i < SW_ARRAY_LEN(both); i++)
        (void)!sw_cmd_api_ask(
            &t->api,
            &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                  .gvr = &both[i],
                                  .name = sw_slice_str(sw_arena_printf(
                                      &t->api.arena, "spanwire-%.*s", SW_SLICE_ARG(id)))},
            NULL, &ignored);
}

/* Only what is a record: no other Secret is deleted by a name that was mistyped. */
static int delete_one(struct sw_token_cmd *t, const char *arg, struct sw_err *err)
{
    const char *id = strchr(arg, '/') ? arg : sw_arena_printf(&t->api.arena, "%s/%s", t->ns, arg);
    struct sw_slice name = sw_slice_str(id);
    struct sw_slice ns = sw_slice_cut(&name, '/');
    struct sw_json *o;
    struct sw_join_record r;
    int rc = sw_join_id_ok(sw_slice_str(id)) ? SW_OK : SW_EINVAL;

    if (rc != SW_OK)
        return sw_err_set(err, rc, "'%.80s' is not NAMESPACE/NAME of a code", arg);
    rc = sw_cmd_api_ask(
        &t->api,
        &(struct sw_kube_req){.verb = SW_KUBE_GET, .gvr = &sw_secrets_gvr, .ns = ns, .name = name},
        &o, err);
    if (rc == SW_OK)
        rc = sw_join_record_read(&t->api.arena, o, &r, err);
    if (rc == SW_OK)
        rc = sw_cmd_api_ask(&t->api,
                            &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                                  .gvr = &sw_secrets_gvr,
                                                  .ns = ns,
                                                  .name = name,
                                                  .if_uid = r.uid,
                                                  .propagation = "Background"},
                            NULL, err);
    if (rc == SW_OK && r.kind == SW_JOIN_GATEWAY)
        sw_token_drop_cluster_role(t, r.id);
    if (rc != SW_OK)
        return sw_err_prefix(err, "%.80s", id);
    printf("%s: %s\n", id, r.key.n ? "the machine is removed" : "the code is revoked");
    return SW_OK;
}

static int delete_all(struct sw_token_cmd *t, const struct sw_opts_rest *rest, struct sw_err *err)
{
    int rc = rest->n_args > 1 ? SW_OK : sw_err_set(err, SW_EINVAL, "delete needs an ID");

    for (size_t i = 1; rc == SW_OK && i < rest->n_args; i++)
        rc = delete_one(t, rest->args[i], err);
    return rc;
}

/* ---- the command ---- */

static int read_ca(struct sw_token_cmd *t, const struct sw_kube_config *c, struct sw_err *err)
{
    struct sw_slice file = {0};

    t->ca = sw_arena_slice(&t->api.arena, c->ca.data);
    if (t->ca.n || !c->ca.file)
        return SW_OK;
    if (sw_file_read(c->ca.file, SW_KUBE_FILE_MAX, &file, err) != SW_OK)
        return err->rc;
    t->ca = sw_arena_slice(&t->api.arena, file);
    sw_slice_free(&file);
    return SW_OK;
}

static int open_client(struct sw_token_cmd *t, struct sw_err *err)
{
    struct sw_kube_config c = {0};
    int rc = sw_kube_config_find(t->set->kubeconfig, t->set->context, &c, err);
    bool v6;

    if (rc != SW_OK)
        return rc;
    v6 = sw_slice_find(c.host, ':') >= 0;
    t->server = sw_slice_str(sw_arena_printf(
        &t->api.arena, "%s://%s%.*s%s:%u%.*s", c.tls ? "https" : "http", v6 ? "[" : "",
        SW_SLICE_ARG(c.host), v6 ? "]" : "", (unsigned)c.port, SW_SLICE_ARG(c.base)));
    rc = read_ca(t, &c, err);
    if (rc != SW_OK) {
        sw_kube_config_done(&c);
        return rc;
    }
    rc = sw_cmd_api_start(&t->api, &c, err);
    if (rc == SW_OK)
        t->ns =
            t->set->ns ? t->set->ns : sw_arena_dup(&t->api.arena, sw_kube_client_ns(t->api.client));
    return rc;
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    const char *verb = rest->n_args ? rest->args[0] : "";
    struct sw_token_cmd t = {.set = settings};
    int rc = sw_log_filter(SW_SLICE_LIT("warn"), true, err);

    if (rc == SW_OK && strcmp(verb, "create") != 0 && strcmp(verb, "list") != 0 &&
        strcmp(verb, "delete") != 0)
        rc =
            sw_err_set(err, SW_EINVAL, "say create, list or delete ID (see 'spanwire help token')");
    if (rc == SW_OK)
        rc = open_client(&t, err);
    if (rc == SW_OK)
        rc = strcmp(verb, "create") == 0   ? sw_token_create(&t, err)
             : strcmp(verb, "delete") == 0 ? delete_all(&t, rest, err)
                                           : list(&t, err);
    sw_cmd_api_close(&t.api);
    return rc;
}

int sw_cmd_token(int argc, char **argv)
{
    struct sw_token_settings s = {0};

    return sw_cmd_run(&sw_token_options, (struct sw_args){argc, argv}, &s, run);
}
