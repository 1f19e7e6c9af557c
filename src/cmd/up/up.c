/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire up`: control, relay, sidecar and gateway of one machine, in one go and without root. */
#include "cmd/up/up.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/up/demo.h"
#include "cmd/up/page.h"
#include "cmd/up/ports.h"
#include "cmd/up/up_int.h"
#include "io/signal.h"
#include "io/sock.h"

#define AT(field) .offset = offsetof(struct up_settings, field)

static const struct sw_opt table[] = {
    {"data", "SPANWIRE_DATA", SW_OPT_STR, AT(data), .def = "./spanwire-data", .arg = "DIR",
     .help = "Where everything is kept: objects, keys, admin.kubeconfig, logs; made when missing."},
    {"listen", "SPANWIRE_LISTEN", SW_OPT_ADDR, AT(listen), .def = "127.0.0.1:6443",
     .help = "Address of the API."},
    {"address", NULL, SW_OPT_STR, AT(address), .def = "127.0.0.1", .arg = "LIST",
     .help = "Addresses of the gateway, as in control's --gateway-addresses; 0.0.0.0 behind '=' "
             "opens it to the network."},
    {"port-offset", NULL, SW_OPT_U32, AT(port_offset), .def = "8000", .max = 60000,
     .help = "Added to listener ports below 1024: 80 is served on 8080, 443 on 8443."},
    {"port-base", NULL, SW_OPT_U32, AT(port_base), .def = "15000", .min = 1024, .max = 65000,
     .help = "The roles' own loopback ports (xDS, admin pages, metrics) count from here."},
    {"relay-listen", NULL, SW_OPT_ADDR, AT(relay), .def = "127.0.0.1:3340",
     .help = "Address of the relay."},
    {"relay-url", NULL, SW_OPT_STR, AT(relay_url), .arg = "URL",
     .help = "How devices reach the relay, if not by that address."},
    {"target-domain", NULL, SW_OPT_STR, AT(target_domain), .def = "connect.localhost",
     .arg = "DOMAIN", .help = "Where devices without a hostname of their own get one."},
    {"certificate-domain", NULL, SW_OPT_STR, AT(cert_domain), .arg = "DOMAIN",
     .help = "Another domain whose hostnames get certificates, as in control; localhost does."},
    {"device-ports", NULL, SW_OPT_STR, AT(device_ports), .def = "20000-20999", .arg = "FIRST-LAST",
     .help = "Ports of the gateway that devices may have for TCP services; empty: none."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Demonstration"},
    {"demo", NULL, SW_OPT_BOOL, AT(demo), .def = "false", .arg = "BOOL",
     .help = "Also run a small web app and expose it as a device would, and a second site that "
             "exports another to this one."},
    {"demo-hostname", NULL, SW_OPT_STR, AT(demo_hostname), .def = "demo.localhost", .arg = "NAME",
     .help = "Its hostname; the other's is second.NAME."},
    {"import-port", NULL, SW_OPT_U32, AT(import_port), .def = "15100", .min = 1024, .max = 49142,
     .help = "Where the second site's web app is imported, on 127.0.0.1; this port and the nine "
             "behind it are for Imports."},
    {NULL, NULL, SW_OPT_GROUP, 0, .help = "Process"},
    {"verbose", NULL, SW_OPT_BOOL, AT(verbose), .def = "false", .arg = "BOOL",
     .help = "Show the roles' log lines here too, not only in DIR/log."},
    {"ready-timeout", NULL, SW_OPT_DURATION, AT(ready_timeout_ns), .def = "20s", .min = 100,
     .max = 600000, .help = "How long each role may take to become ready."},
    {"stop-timeout", NULL, SW_OPT_DURATION, AT(stop_timeout_ns), .def = "10s", .min = 100,
     .max = 600000, .help = "How long each role may take to end before it is killed."},
    {"log-level", "SPANWIRE_LOG", SW_OPT_STR, AT(log_level), .def = "info", .arg = "FILTER",
     .help = "Log filter of the roles."},
    {"log-format", "SPANWIRE_LOG_FORMAT", SW_OPT_ENUM, AT(log_format), .def = "plain",
     .choices = sw_log_formats,
     .help = "Form of the roles' log lines, and of the lines of requests."},
    {"access-log", NULL, SW_OPT_BOOL, AT(access_log), .def = "true", .arg = "BOOL",
     .help = "A line per request in DIR/log/gateway.log; failed ones are logged in any case."},
};

const struct sw_opts_cmd sw_up_options = {
    .name = "up",
    .usage = "[options]",
    .summary = "Runs control, relay, sidecar and gateway on this machine, without root. Ctrl-C "
               "ends them;\nthe state stays in --data.",
    .epilogue = "A role that ends is started again. See spanwire-up(1).",
    SW_OPTS_OF(table),
    .config_file = true,
};

/* ---- output ---- */

static void print_up(const struct up *u)
{
    const struct up_settings *s = u->set;
    char api[SW_ADDR_TEXT];

    printf("spanwire is up (%.2f s)\n\n", (double)(sw_now_ns() - u->begin_ns) / 1e9);
    printf("  API      https://%s\n", sw_addr_text(&s->listen, api));
    printf("  gateway  http://HOSTNAME:%" PRIu32 "  https://HOSTNAME:%" PRIu32 "\n",
           80 + s->port_offset, 443 + s->port_offset);
    printf("  relay    %s\n", u->relay_url);
    printf("  logs     %s/log/\n\n", s->data);
}

const char *up_shell_word(const struct up *u, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+:@,=";
    char *out;
    size_t n = 0;

    if (text[strspn(text, plain)] == '\0')
        return text;
    out = sw_arena_alloc(u->arena, 4 * strlen(text) + 3);
    out[n++] = '\'';
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            memcpy(out + n, "'\\'", 3); /* out of the quotes, one quote, and in again */
            n += 3;
        }
        out[n++] = *p;
    }
    out[n++] = '\'';
    out[n] = '\0';
    return out;
}

/* The directory of this program; NULL: unknown, or the shell finds 'spanwire' there by itself. */
static const char *dir_to_add(const struct up *u)
{
    const char *dirs = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): never set */
    struct sw_slice list = sw_slice_str(dirs ? dirs : "");
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *name = n > 0 ? strrchr(self, '/') : NULL;

    if (!name || strcmp(name, "/spanwire") != 0)
        return NULL;
    *name = '\0';
    while (list.p && list.n) {
        if (sw_slice_eq_str(sw_slice_cut(&list, ':'), self))
            return NULL;
    }
    return sw_arena_printf(u->arena, "%s", self);
}

static void print_next(const struct up *u, bool answered)
{
    const struct up_settings *s = u->set;
    const char *dir = dir_to_add(u);

    if (answered)
        printf("The demo is served at\n\n  http://%s:%" PRIu32 "/\n\n", s->demo_hostname,
               80 + s->port_offset);
    printf("Try next, in another terminal:\n\n");
    if (dir)
        printf("  export PATH=%s:$PATH\n", up_shell_word(u, dir));
    printf("  export KUBECONFIG=%s\n", up_shell_word(u, u->kubeconfig));
    printf("  spanwire expose 3000      # what listens on port 3000 here gets a hostname\n");
    printf("  spanwire status           # data planes and the configuration they serve\n");
    printf("  kubectl get connectors,httpproxies,gateways,httproutes -A  # 1.29 or newer\n\n");
    printf("Ctrl-C ends it; the state stays in %s.\n", s->data);
    (void)fflush(stdout);
}

/* ---- the demo's first answer ---- */

static void on_page(void *arg, bool answered)
{
    struct up *u = arg;

    if (!answered)
        printf("The demo does not answer yet; %s/log/expose.log says why.\n\n", u->set->data);
    print_next(u, answered);
    sw_supervisor_start_rest(u->sup);
}

static void ask_demo(struct up *u)
{
    struct sw_err err = {0};

    u->page = sw_up_page_new(u->loop, (uint16_t)(80 + u->set->port_offset),
                             sw_slice_str(u->set->demo_hostname), on_page, u, &err);
    if (!u->page)
        on_page(u, false);
}

/* ---- events ---- */

static void on_up(void *arg)
{
    struct up *u = arg;

    print_up(u);
    if (u->app)
        ask_demo(u);
    else
        print_next(u, false);
    (void)fflush(stdout);
}

static void on_rest_up(void *arg)
{
    up_second_link(arg);
}

static void on_down(void *arg, int rc, const struct sw_err *err)
{
    struct up *u = arg;

    u->rc = u->unbound ? u->err->rc : rc;
    if (rc != SW_OK && !u->unbound)
        *u->err = *err;
    sw_loop_stop(u->loop);
}

/*
 * With the first listener's port taken nothing is served, and another program answers in its place:
 * that ends it. A later one costs the others nothing.
 */
static void on_unbound(void *arg, struct sw_slice lines, bool served)
{
    struct up *u = arg;
    struct sw_slice line = sw_slice_cut(&lines, '\n');

    if (!line.n) {
        (void)fputs("gateway: all listeners are bound\n", stderr);
        return;
    }
    if (served) {
        (void)fprintf(stderr, "gateway: listener %s\n", sw_cmd_shown(u->arena, line));
        return;
    }
    u->unbound = true;
    (void)sw_err_set(u->err, SW_EINVAL, "gateway: listener %.*s", SW_SLICE_ARG(line));
    sw_supervisor_stop(u->sup);
}

static void on_signal(int signo, void *arg)
{
    struct up *u = arg;

    if (signo == SIGCHLD)
        sw_supervisor_reap(u->sup);
    else
        sw_supervisor_stop(u->sup);
}

/* ---- set-up ---- */

static int prepare(struct up *u)
{
    char real[PATH_MAX];
    int rc = sw_make_dirs(u->set->data, u->err);

    if (rc == SW_OK && !realpath(u->set->data, real))
        rc = sw_err_sys(u->err, errno, "%s", u->set->data);
    if (rc != SW_OK)
        return rc;
    u->data = sw_arena_printf(u->arena, "%s", real);
    u->kubeconfig = up_path(u, "admin.kubeconfig");
    rc = sw_make_dirs(up_path(u, "run"), u->err);
    if (rc == SW_OK)
        rc = sw_make_dirs(up_path(u, "log"), u->err);
    if (rc != SW_OK)
        return rc;
    u->relay_url = u->set->relay_url;
    if (!u->relay_url)
        u->relay_url = sw_arena_printf(u->arena, "http://%s/", up_addr_text(u, &u->set->relay));
    if (u->set->demo)
        rc = up_second_prepare(u);
    if (rc != SW_OK)
        return rc;
    up_add_control(u);
    up_add_relay(u);
    up_add_sidecar(u);
    up_add_gateway(u);
    if (u->set->demo)
        rc = up_add_demo(u);
    u->n_first = u->n_roles;
    if (u->set->demo)
        up_second_add_roles(u);
    return rc;
}

int up_check_port(const struct up *u, const struct sw_addr *at, const char *what,
                  const char *option)
{
    static const struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    char text[SW_ADDR_TEXT];
    int fd;

    if (sw_sock_listen(at, &o, &fd, &err) == SW_OK) {
        sw_sock_close(fd);
        return SW_OK;
    }
    if (err.sys_errno != EADDRINUSE)
        return SW_OK; /* the role knows better */
    return sw_err_set(u->err, SW_EINVAL, "%s is in use, and %s there (see %s)",
                      sw_addr_text(at, text), what, option);
}

static int check_gateway_port(const struct up *u, const struct sw_ip *ip, uint16_t port,
                              const char *what)
{
    struct sw_addr at = {.ip = *ip, .port = (uint16_t)(port + u->set->port_offset)};

    return up_check_port(u, &at, what, "--port-offset");
}

/* A gateway whose port is taken logs it and retries, which does not help a user who waits. */
static int check_gateway_ports(const struct up *u)
{
    struct sw_slice list = sw_slice_str(u->set->address);
    int rc = SW_OK;

    while (rc == SW_OK && list.p && list.n) {
        struct sw_slice at = sw_slice_cut(&list, ',');
        struct sw_slice told = sw_slice_cut(&at, '=');
        struct sw_ip ip;

        if (sw_ip_parse(sw_slice_trim(at.p ? at : told), &ip, NULL) != SW_OK)
            continue; /* control looks at them */
        rc = check_gateway_port(u, &ip, 80, "the gateway serves HTTP");
        if (rc == SW_OK)
            rc = check_gateway_port(u, &ip, 443, "the gateway serves HTTPS");
    }
    return rc;
}

static int run(struct up *u)
{
    static const int signos[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    struct sw_supervisor_opts o = {
        .verbose = u->set->verbose,
        .roles = u->roles,
        .ready_timeout_ns = u->set->ready_timeout_ns,
        .stop_timeout_ns = u->set->stop_timeout_ns,
        .up = on_up,
        .rest_up = on_rest_up,
        .down = on_down,
        .arg = u,
    };
    struct sw_up_admin admin;
    int rc = prepare(u);

    if (rc == SW_OK)
        rc = check_gateway_ports(u);
    if (rc == SW_OK && u->second)
        rc = up_second_check_ports(u);
    if (rc != SW_OK)
        return rc;
    o.n = u->n_roles;
    o.n_first = u->n_first;
    o.log_dir = up_path(u, "log");
    u->signals = sw_signals_new(u->loop, signos, SW_ARRAY_LEN(signos), on_signal, u, u->err);
    if (!u->signals)
        return u->err->rc;
    u->sup = sw_supervisor_new(u->loop, &o, u->err);
    if (!u->sup)
        return u->err->rc;
    admin.at = up_local(u, PORT_ADMIN);
    admin.token_file = up_path(u, "run/admin.token");
    u->ports = sw_up_ports_new(u->loop, &admin, on_unbound, u, u->err);
    if (!u->ports)
        return u->err->rc;
    sw_supervisor_start(u->sup);
    sw_loop_run(u->loop);
    return u->rc;
}

static void done(struct up *u)
{
    sw_supervisor_free(u->sup);
    sw_up_ports_free(u->ports);
    sw_up_page_free(u->page);
    up_second_done(u);
    sw_demo_app_free(u->app);
    sw_signals_free(u->signals);
    sw_loop_free(u->loop);
}

int sw_cmd_up(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct up_settings set = {0};
    struct sw_err err = {0};
    struct up u = {.set = &set, .arena = &arena, .err = &err, .begin_ns = sw_now_ns()};
    int rc = sw_opts_parse(&sw_up_options, &set, &arena, (struct sw_args){argc, argv}, NULL, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(&sw_up_options);
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    u.loop = sw_loop_new(&err);
    rc = u.loop ? run(&u) : err.rc;
    done(&u);
    return rc == SW_OK ? 0 : sw_cmd_fail(&err);
}
