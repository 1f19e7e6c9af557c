/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/join/run.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/supervise.h"
#include "cni/redirect.h"
#include "identity/join/token.h"
#include "io/netns.h"
#include "io/signal.h"

#define READY_TEXT "127.0.0.1:15021"

enum { READY_PORT = 15021 };

static const uint64_t refresh_ns = UINT64_C(3600) * SW_NS_PER_S;
static const uint64_t refresh_wait_ns = 5 * SW_NS_PER_S;

struct serve {
    const struct sw_machine_run *o;
    struct sw_arena arena;
    struct sw_loop *loop;
    struct sw_supervisor *sup;
    struct sw_timer refresh;
    struct sw_supervised role;
    int rc;
    struct sw_err *err;
};

/* ---- the proxy's command line ---- */

static void give(struct serve *s, const char *name, const char *value)
{
    size_t n = 0;

    while (s->role.argv[n])
        n++;
    if (n + 3 > SW_SUPERVISED_ARGS)
        return; /* the flags given were counted */
    s->role.argv[n] = name;
    s->role.argv[n + 1] = value;
}

static void fill(struct serve *s)
{
    const struct sw_machine *m = s->o->machine;
    struct sw_arena *a = &s->arena;
    const char *dir = s->o->dir;
    const char *url = sw_arena_printf(a, "https://%s", m->join_address);
    const char *roots = sw_machine_path(a, dir, SW_MACHINE_ROOTS);

    s->role.name = "node";
    s->role.ready = (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = READY_PORT};
    s->role.ready_path = "/healthz/ready";
    s->role.argv[0] = "spanwire";
    s->role.argv[1] = "node";
    give(s, "--mode", "dedicated");
    give(s, "--workload", sw_arena_printf(a, "%s/%s/%s", m->ns, m->name, m->account));
    give(s, "--xds-address", url);
    give(s, "--xds-root", roots);
    give(s, "--ca-address", url);
    give(s, "--ca-root", roots);
    give(s, "--machine-dir", dir);
    give(s, "--cluster-id", m->cluster);
    give(s, "--trust-domain", m->trust_domain);
    give(s, "--pod-name", m->name);
    give(s, "--pod-namespace", m->ns);
    if (m->network[0])
        give(s, "--network", m->network);
    if (m->address[0])
        give(s, "--instance-ip", m->address);
    give(s, "--ready-addr", READY_TEXT);
    give(s, "--state-dir", sw_machine_path(a, dir, "run"));
    give(s, "--admin-token-file", sw_machine_path(a, dir, "run/admin.token"));
    if (s->o->redirect) {
        give(s, "--packet-mark", "1337"); /* its own connections pass the rules */
    } else {
        give(s, "--socks5", NULL);
        give(s, "--orig-src", "false"); /* nothing would bring replies back */
    }
    for (size_t i = 0; i < s->o->flags->n; i++)
        give(s, s->o->flags->p[i], NULL);
}

/* ---- redirection ---- */

static int change_redirection(bool apply, struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    struct sw_redirect r;
    int rc = sw_netns_open("/proc/self/ns/net", &fd, err);

    if (rc != SW_OK)
        return rc;
    sw_redirect_init(&r);
    r.whole_machine = true;
    return apply ? sw_redirect_apply(fd, &r, err) : sw_redirect_remove(fd, err);
}

/* ---- running ---- */

static void on_up(void *arg)
{
    const struct serve *s = arg;

    printf("%s/%s is in the mesh, %s\n", s->o->machine->ns, s->o->machine->name,
           s->o->redirect ? "by redirection" : "by SOCKS5 on port 15080");
    (void)fflush(stdout);
}

static void on_down(void *arg, int rc, const struct sw_err *err)
{
    struct serve *s = arg;

    s->rc = rc;
    if (rc != SW_OK)
        *s->err = *err;
    sw_loop_stop(s->loop);
}

static void on_signal(int signo, void *arg)
{
    struct serve *s = arg;

    if (signo == SIGCHLD)
        sw_supervisor_reap(s->sup);
    else
        sw_supervisor_stop(s->sup);
}

/* A root that will follow is announced days before it signs: the file has it in time. */
static void on_refresh(struct sw_timer *t)
{
    struct serve *s = SW_CONTAINER_OF(t, struct serve, refresh);
    SW_ARENA_AUTO a = {0};
    struct sw_join_bundle b;
    struct sw_err err = {0};

    if (sw_machine_renew(&a, s->o->dir, s->o->machine, refresh_wait_ns, &b, &err) != SW_OK) {
        (void)sw_err_prefix(&err, "join: cannot refresh the roots, retrying in an hour");
        (void)sw_cmd_fail(&err);
    }
    sw_timer_start(s->loop, &s->refresh, refresh_ns, on_refresh);
}

static int supervise(struct serve *s)
{
    static const int signos[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    const struct sw_supervisor_opts o = {.log_dir = sw_machine_path(&s->arena, s->o->dir, "log"),
                                         .verbose = true,
                                         .roles = &s->role,
                                         .n = 1,
                                         .ready_timeout_ns = 30 * SW_NS_PER_S,
                                         .stop_timeout_ns = 10 * SW_NS_PER_S,
                                         .up = on_up,
                                         .down = on_down,
                                         .arg = s};
    struct sw_signals *signals =
        sw_signals_new(s->loop, signos, SW_ARRAY_LEN(signos), on_signal, s, s->err);

    if (signals)
        s->sup = sw_supervisor_new(s->loop, &o, s->err);
    if (s->sup) {
        sw_timer_start(s->loop, &s->refresh, refresh_ns, on_refresh);
        sw_supervisor_start(s->sup);
        sw_loop_run(s->loop);
        sw_timer_stop(s->loop, &s->refresh);
    } else {
        s->rc = s->err->rc;
    }
    sw_supervisor_free(s->sup);
    sw_signals_free(signals);
    return s->rc;
}

static int run(struct serve *s)
{
    struct sw_err ignored = {0};
    SW_AUTO_FD lock = -1;
    int rc = sw_machine_lock_run(s->o->dir, &lock, s->err);

    if (rc == SW_OK)
        rc = sw_make_dirs(sw_machine_path(&s->arena, s->o->dir, "log"), s->err);
    if (rc == SW_OK && s->o->redirect)
        rc = change_redirection(true, s->err);
    if (rc != SW_OK)
        return rc;
    rc = supervise(s);
    if (s->o->redirect && change_redirection(false, &ignored) != SW_OK) {
        (void)sw_err_prefix(&ignored, "join: the redirection stays");
        (void)sw_cmd_fail(&ignored);
    }
    return rc;
}

int sw_machine_serve(const struct sw_machine_run *o, struct sw_err *err)
{
    struct serve s = {.o = o, .err = err, .loop = sw_loop_new(err)};
    int rc;

    if (!s.loop)
        return err->rc;
    fill(&s);
    rc = run(&s);
    sw_loop_free(s.loop);
    sw_arena_clear(&s.arena);
    return rc;
}

/* What every systemd can take away, that of a user too. */
static const char unit_common[] = "NoNewPrivileges=yes\n"
                                  "LimitNOFILE=1048576\n"
                                  "LimitCORE=0\n"
                                  "UMask=0077\n"
                                  "LockPersonality=yes\n"
                                  "MemoryDenyWriteExecute=yes\n"
                                  "RestrictRealtime=yes\n"
                                  "RestrictSUIDSGID=yes\n"
                                  "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK\n"
                                  "RestrictNamespaces=yes\n"
                                  "SystemCallArchitectures=native\n"
                                  "SystemCallFilter=@system-service\n"
                                  "SystemCallFilter=~@privileged @mount\n"
                                  "SystemCallErrorNumber=EPERM\n";

/* What takes root: as deploy/systemd/spanwire-node.service, but for where the state is. */
static const char unit_root[] = "ProtectSystem=strict\n"
                                "ProtectHome=read-only\n"
                                "PrivateTmp=yes\n"
                                "PrivateDevices=yes\n"
                                "ProtectClock=yes\n"
                                "ProtectHostname=yes\n"
                                "ProtectControlGroups=yes\n"
                                "ProtectKernelLogs=yes\n"
                                "ProtectKernelModules=yes\n"
                                "ProtectKernelTunables=yes\n"
                                "ProtectProc=invisible\n"
                                "RemoveIPC=yes\n";

static int put_hardening(const struct sw_machine_run *o, struct sw_buf *out)
{
    int rc = sw_buf_append_str(out, unit_common);

    if (rc != SW_OK || geteuid() != 0)
        return rc;
    rc = sw_buf_append_str(out, unit_root);
    /* For rules of the machine, and for the proxy's packet mark and source addresses. */
    return rc == SW_OK ? sw_buf_printf(out, "CapabilityBoundingSet=%s\nReadWritePaths=\"%s\"\n",
                                       o->redirect ? "CAP_NET_ADMIN CAP_NET_RAW" : "", o->dir)
                       : rc;
}

/* A word of ExecStart: systemd takes '%' and '$' for variables. */
static int put_word(struct sw_buf *out, const char *option, const char *value)
{
    int rc = sw_buf_printf(out, " \"%s", option);

    for (const char *p = value; *p && rc == SW_OK; p++) {
        if (strchr("%$", *p))
            rc = sw_buf_putc(out, *p);
        else if (strchr("\"\\", *p))
            rc = sw_buf_putc(out, '\\');
        if (rc == SW_OK)
            rc = sw_buf_putc(out, *p);
    }
    return rc == SW_OK ? sw_buf_putc(out, '"') : rc;
}

static int put_flags(const struct sw_machine_run *o, struct sw_buf *out)
{
    int rc = SW_OK;

    for (size_t i = 0; i < o->flags->n && rc == SW_OK; i++)
        rc = put_word(out, "--node-flag=", o->flags->p[i]);
    return rc;
}

int sw_machine_unit(const struct sw_machine_run *o, struct sw_buf *out, struct sw_err *err)
{
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int rc;

    if (n <= 0)
        return sw_err_set(err, SW_ESYS, "cannot find this program's own path");
    rc = sw_buf_printf(out,
                       "# /etc/systemd/system/spanwire-join.service\n"
                       "[Unit]\n"
                       "Description=Spanwire node proxy of %s/%s\n"
                       "After=network-online.target\n"
                       "Wants=network-online.target\n\n"
                       "[Service]\n"
                       "Type=exec\n"
                       "ExecStart=\"%s\" join --state \"%s\"%s",
                       o->machine->ns, o->machine->name, self, o->dir,
                       o->redirect ? " --redirect" : "");
    if (rc == SW_OK)
        rc = put_flags(o, out);
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "\nRestart=always\nRestartSec=1\n");
    if (rc == SW_OK)
        rc = put_hardening(o, out);
    if (rc == SW_OK)
        rc = sw_buf_printf(out, "\n[Install]\nWantedBy=%s\n",
                           geteuid() == 0 ? "multi-user.target" : "default.target");
    return rc == SW_OK ? SW_OK : sw_err_set(err, SW_ELIMIT, "the unit is too long");
}
