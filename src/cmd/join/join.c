/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire join`: brings this machine into a fabric with a code of `spanwire token create`. */
#include "cmd/join/join.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/join/peer.h"
#include "cmd/join/run.h"
#include "cmd/join/state.h"
#include "identity/fabric.h"
#include "identity/join/client.h"
#include "identity/join/token.h"

struct settings {
    const char *state;
    bool redirect;
    bool run;
    struct sw_opt_list node_flags;
    bool renew;
    bool leave;
    bool force;
    bool unit;
    struct sw_opt_list gateways;
    struct sw_peer_api peer;
    uint64_t wait_ns;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"state", "SPANWIRE_MACHINE_DIR", SW_OPT_STR, AT(state), .arg = "DIR",
     .help = "Where the machine's key and what it got are kept. Default /var/lib/spanwire/machine "
             "for root, ~/.local/state/spanwire/machine otherwise."},
    {"redirect", NULL, SW_OPT_BOOL, AT(redirect), .def = "false", .arg = "BOOL",
     .help = "Nodes: redirect the TCP connections of this machine's network namespace to the "
             "proxy; needs root, nft and ip. Without it programs use SOCKS5 on 127.0.0.1:15080."},
    {"run", NULL, SW_OPT_BOOL, AT(run), .def = "true", .arg = "BOOL",
     .help = "Nodes: start the proxy and keep it running. --no-run only joins."},
    {"node-flag", NULL, SW_OPT_LIST, AT(node_flags), .arg = "FLAG",
     .help = "Nodes: further flag of 'spanwire node', as in --node-flag=--dns=false; may be "
             "repeated."},
    {"wait", NULL, SW_OPT_DURATION, AT(wait_ns), .def = "60s", .min = 1,
     .help = "How long to go on asking a control plane that does not answer."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Peers"},
    {"gateway", NULL, SW_OPT_LIST, AT(gateways), .arg = "HOST:PORT",
     .help = "Where other sites reach the data planes of this one; the other site then has a Peer "
             "object for this one. May be repeated."},
    {"kubeconfig", "KUBECONFIG", SW_OPT_STR, AT(peer.kubeconfig), .arg = "FILE",
     .help = "API of this site, for the Peer object of the other. Without it the object is only "
             "written to the state."},
    {"link-namespace", "CL_NAMESPACE", SW_OPT_STR, AT(peer.ns), .def = "clusterlink-system",
     .arg = "NAMESPACE", .help = "Where Peers are."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Machines that joined"},
    {"renew", NULL, SW_OPT_BOOL, AT(renew), .def = "false", .arg = "BOOL",
     .help = "Get a new token (devices, gateways) or certificate (peers), or tell the address "
             "this machine has now (nodes)."},
    {"leave", NULL, SW_OPT_BOOL, AT(leave), .def = "false", .arg = "BOOL",
     .help = "Leave: the WorkloadEntry or account is removed and the state is deleted."},
    {"force", NULL, SW_OPT_BOOL, AT(force), .def = "false", .arg = "BOOL",
     .help = "With --leave: delete the state although the control plane did not agree."},
    {"print-unit", NULL, SW_OPT_BOOL, AT(unit), .def = "false", .arg = "BOOL",
     .help = "Nodes: print a systemd unit that runs the proxy."},
};

const struct sw_opts_cmd sw_join_options = {
    .name = "join",
    .usage = "CODE|- [options]",
    .summary =
        "Brings this machine into a fabric. CODE comes from 'spanwire token create'; '-' reads it\n"
        "from standard input. Without a code, a machine that joined as a node runs its proxy.",
    .epilogue = "See spanwire-join(1) and spanwire-token(1).",
    SW_OPTS_OF(table),
    .max_args = 1,
};

struct join {
    const struct settings *set;
    struct sw_arena *arena;
    const char *dir;
    struct sw_machine machine;
    bool joined;
    struct sw_join_gateways gateways; /* of this site */
    struct sw_join_bundle bundle;
};

/* ---- the code ---- */

/* Other users see the arguments of a process: it is there for as long as it takes to read it. */
static void wipe(const char *arg)
{
    explicit_bzero((char *)(uintptr_t)arg, strlen(arg));
}

static int read_stdin(char out[SW_JOIN_CODE_MAX + 2], size_t *ret_n, struct sw_err *err)
{
    size_t n = 0;

    while (n < SW_JOIN_CODE_MAX + 1) {
        ssize_t got = read(STDIN_FILENO, out + n, SW_JOIN_CODE_MAX + 1 - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sw_err_sys(err, errno, "standard input");
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret_n = n;
    return SW_OK;
}

static int read_code(const char *arg, struct sw_join_code *ret, struct sw_err *err)
{
    char text[SW_JOIN_CODE_MAX + 2];
    size_t n = 0;
    int rc;

    if (strcmp(arg, "-") != 0) {
        rc = sw_join_code_read(sw_slice_str(arg), ret, err);
        wipe(arg);
        return rc;
    }
    rc = read_stdin(text, &n, err);
    if (rc == SW_OK)
        rc = sw_join_code_read(sw_slice(text, n), ret, err);
    explicit_bzero(text, sizeof(text));
    return rc;
}

/* ---- joining ---- */

static void print_joined(struct join *j)
{
    const struct sw_machine *m = &j->machine;
    const char *name = sw_cmd_shown(j->arena, sw_slice_str(m->name));

    printf("Joined as %s %s/%s. The key and what belongs to it are in %s.\n",
           sw_join_kind_name(m->kind), sw_cmd_shown(j->arena, sw_slice_str(m->ns)), name, j->dir);
    switch (m->kind) {
    case SW_JOIN_NODE:
        break;
    case SW_JOIN_DEVICE:
        printf("Next:\n\n  spanwire connector run --name %s --kubeconfig %s/kubeconfig\n"
               "  spanwire expose PORT --name %s --kubeconfig %s/kubeconfig\n\n"
               "Renew the token from time to time: spanwire join --state %s --renew\n",
               name, j->dir, name, j->dir, j->dir);
        break;
    case SW_JOIN_GATEWAY:
        printf("Next:\n\n  spanwire gateway --xds-addr %s --xds-ca %s/xds-ca.pem "
               "--xds-token-file %s/token\n\n"
               "Renew the token from time to time: spanwire join --state %s --renew\n",
               sw_cmd_shown(j->arena, sw_slice_str(m->xds_address)), j->dir, j->dir, j->dir);
        break;
    case SW_JOIN_PEER:
        printf("Next, unless it runs:\n\n  spanwire control --link-fabric %s --link-listen ADDR "
               "...\n\nRenew the certificate from time to time: spanwire join --state %s --renew\n",
               j->dir, j->dir);
        break;
    }
    (void)fflush(stdout);
}

static int redeem(struct join *j, const struct sw_join_code *code, struct sw_err *err)
{
    SW_BUF_AUTO csr = {.max = 64 << 10};
    struct sw_join_self self = {.gateways = &j->gateways};
    int rc = sw_machine_begin(j->dir, &csr, err);

    self.csr = sw_buf_slice(&csr);
    if (rc == SW_OK)
        rc = sw_join_redeem(code, &self, j->set->wait_ns, j->arena, &j->bundle, err);
    if (rc == SW_OK)
        rc = sw_machine_save(j->dir, code->id, code->address, &j->bundle, err);
    return rc == SW_OK ? sw_machine_load(j->arena, j->dir, &j->machine, err) : rc;
}

/* A peer: this site learns where the other is. */
static int meet(struct join *j, struct sw_err *err)
{
    const struct sw_join_bundle *b = &j->bundle;
    int rc;

    if (j->machine.kind != SW_JOIN_PEER)
        return SW_OK;
    if (!b->gateways.n || !b->site.n) {
        printf("The other site announces no gateways (its control plane has no --link-gateway): "
               "write its Peer object by hand.\n");
        return SW_OK;
    }
    rc = sw_peer_meet(&j->set->peer, j->dir, b, err);
    if (rc != SW_OK)
        return sw_err_prefix(err,
                             "joined, but the Peer object was not written ('kubectl apply -f "
                             "%s/" SW_MACHINE_PEER "')",
                             j->dir);
    if (j->set->peer.kubeconfig)
        printf("Peer '%s' is written.\n", sw_cmd_shown(j->arena, b->site));
    else
        printf("Tell this site about '%s': kubectl apply -f %s/" SW_MACHINE_PEER "\n",
               sw_cmd_shown(j->arena, b->site), j->dir);
    return SW_OK;
}

static int join_with(struct join *j, const char *arg, struct sw_err *err)
{
    struct sw_join_code code = {0};
    int rc = read_code(arg, &code, err);

    if (rc == SW_OK && j->joined)
        rc = sw_err_set(err, SW_EINVAL,
                        "this machine has joined already, as %s %s/%s: 'spanwire join --leave' "
                        "first, or another --state",
                        sw_join_kind_name(j->machine.kind), j->machine.ns, j->machine.name);
    if (rc == SW_OK)
        rc = redeem(j, &code, err);
    explicit_bzero(code.secret, sizeof(code.secret));
    if (rc == SW_OK)
        print_joined(j);
    return rc == SW_OK ? meet(j, err) : rc;
}

/* ---- machines that joined ---- */

static int renew(struct join *j, struct sw_err *err)
{
    struct sw_join_bundle *b = &j->bundle;
    int rc;

    j->machine.gateways = &j->gateways;
    rc = sw_machine_renew(j->arena, j->dir, &j->machine, j->set->wait_ns, b, err);
    if (rc != SW_OK)
        return rc;
    if (b->kind == SW_JOIN_PEER)
        printf("Renewed; the certificate is %s/" SW_FABRIC_CERT ".\n", j->dir);
    else if (b->expires.n)
        printf("Renewed; the token is good until %s.\n", sw_cmd_shown(j->arena, b->expires));
    else
        printf("Renewed; the address is %s.\n", sw_cmd_shown(j->arena, b->address));
    return j->set->peer.kubeconfig ? meet(j, err) : SW_OK;
}

static int leave(struct join *j, struct sw_err *err)
{
    int rc = sw_machine_leave(j->arena, j->dir, &j->machine, j->set->wait_ns, err);

    if (rc != SW_OK && !j->set->force)
        return sw_err_prefix(err, "cannot leave (--force deletes the state all the same)");
    if (rc != SW_OK) {
        (void)sw_err_prefix(err, "join: cannot remove this machine from the control plane");
        (void)sw_cmd_fail(err);
    }
    sw_machine_forget(j->dir);
    printf("Left; the state in %s is deleted.\n", j->dir);
    return SW_OK;
}

/* ---- the command ---- */

static int serve(struct join *j, struct sw_err *err)
{
    const struct sw_machine_run o = {.dir = j->dir,
                                     .machine = &j->machine,
                                     .redirect = j->set->redirect,
                                     .flags = &j->set->node_flags};
    SW_BUF_AUTO unit = {.max = 16 << 10};
    int rc;

    if (j->set->redirect && geteuid() != 0)
        return sw_err_set(err, SW_EINVAL, "--redirect needs root; without it SOCKS5 serves");
    if (j->set->node_flags.n > 16)
        return sw_err_set(err, SW_EINVAL, "--node-flag: more than 16");
    if (!j->set->unit)
        return sw_machine_serve(&o, err);
    rc = sw_machine_unit(&o, &unit, err);
    if (rc == SW_OK)
        (void)fwrite(sw_buf_data(&unit), 1, sw_buf_len(&unit), stdout);
    return rc;
}

static int find_state(struct join *j, struct sw_err *err)
{
    char cwd[PATH_MAX];
    int rc = SW_OK;

    j->dir = j->set->state;
    if (!j->dir)
        rc = sw_machine_default_dir(j->arena, &j->dir, err);
    if (rc != SW_OK)
        return rc;
    if (j->dir[0] != '/') {
        if (!getcwd(cwd, sizeof(cwd)))
            return sw_err_sys(err, errno, "current directory");
        j->dir = sw_arena_printf(j->arena, "%s/%s", cwd, j->dir);
    }
    rc = sw_machine_load(j->arena, j->dir, &j->machine, err);
    j->joined = rc == SW_OK;
    return rc == SW_ENOENT ? SW_OK : rc;
}

static int act(struct join *j, const char *arg, struct sw_err *err)
{
    int rc = find_state(j, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_peer_gateways(&j->set->gateways, "--gateway", &j->gateways, err);
    if (rc != SW_OK)
        return rc;
    if (arg && (j->set->renew || j->set->leave))
        return sw_err_set(err, SW_EINVAL, "--renew and --leave take no code");
    if (arg)
        rc = join_with(j, arg, err);
    else if (!j->joined)
        rc = sw_err_set(err, SW_EINVAL,
                        "this machine has not joined (no %s/" SW_MACHINE_FILE
                        "): give a code of 'spanwire token create'",
                        j->dir);
    if (rc != SW_OK)
        return rc;
    if (j->set->leave)
        return leave(j, err);
    if (j->set->renew)
        return renew(j, err);
    if (j->machine.kind == SW_JOIN_NODE && (j->set->run || j->set->unit))
        return serve(j, err);
    if (!arg)
        print_joined(j);
    return SW_OK;
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    struct join j = {.set = settings, .arena = arena};
    int rc = sw_log_filter(SW_SLICE_LIT("warn"), true, err);

    return rc == SW_OK ? act(&j, rest->n_args ? rest->args[0] : NULL, err) : rc;
}

int sw_cmd_join(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_join_options, (struct sw_args){argc, argv}, &s, run);
}
