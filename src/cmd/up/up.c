/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire up`: control, relay, sidecar and gateway of one machine, in one go and without root. */
#include <assert.h>
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
#include "cmd/supervise.h"
#include "cmd/up/demo.h"
#include "cmd/up/ports.h"
#include "http/client.h"
#include "io/signal.h"
#include "io/sock.h"

enum {
    /* Distances from --port-base. */
    PORT_ADMIN = 0,
    PORT_XDS = 12,
    PORT_STATS = 20,
    PORT_READY = 21,
    PORT_RELAY_ADMIN = 31,
    PORT_RELAY_STATS = 32,
    PORT_RELAY_READY = 33,
    PORT_SIDECAR_ADMIN = 41,
    PORT_SIDECAR_STATS = 42,
    PORT_SIDECAR_READY = 43,
    PORT_EXPOSE_ADMIN = 60,
    PORTS = 64,
};

/* The demo is a device like any other. */
#define DEMO "demo" /* its account and its objects */

static const uint64_t demo_every_ns = 20 * SW_NS_PER_MS;
static const uint64_t demo_timeout_ns = 20 * SW_NS_PER_S;

struct settings {
    const char *data;
    struct sw_addr listen;
    const char *address;
    uint32_t port_offset;
    uint32_t port_base;
    struct sw_addr relay;
    const char *relay_url;
    const char *target_domain;
    const char *device_ports;
    const char *cert_domain;
    bool demo;
    const char *demo_hostname;
    bool verbose;
    uint64_t ready_timeout_ns;
    uint64_t stop_timeout_ns;
    const char *log_level;
    int log_format;
    bool access_log;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const char *const formats[] = {"plain", "json", NULL};

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
     .help = "Also run a small web app and expose it as a device would."},
    {"demo-hostname", NULL, SW_OPT_STR, AT(demo_hostname), .def = "demo.localhost", .arg = "NAME",
     .help = "Its hostname."},
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
     .choices = formats, .help = "Form of the roles' log lines, and of the lines of requests."},
    {"access-log", NULL, SW_OPT_BOOL, AT(access_log), .def = "true", .arg = "BOOL",
     .help = "A line per request in DIR/log/gateway.log; failed ones are logged in any case."},
};

const struct sw_opts_cmd sw_up_options = {
    .name = "up",
    .usage = "[options]",
    .summary = "Runs control, relay, sidecar and gateway on this machine, without root. Ctrl-C "
               "ends them;\nthe state stays in --data.",
    .epilogue = "A role that ends is started again. See spanwire-up(1).",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

struct up {
    const struct settings *set;
    struct sw_arena *arena;
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_supervisor *sup;
    struct sw_supervised roles[SW_SUPERVISED_MAX];
    size_t n_roles;
    struct sw_demo_app *app;
    const char *data;       /* absolute: what is printed works from every directory */
    const char *kubeconfig; /* for people */
    const char *relay_url;
    uint64_t begin_ns;
    /* The demo, asked for through the gateway until it answers. */
    struct sw_http_client *http;
    struct sw_timer ask;
    uint64_t ask_until_ns;
    bool answered;
    struct sw_up_ports *ports;
    bool unbound; /* the first listener could not be bound: that is why it ends */
    int rc;
    struct sw_err *err;
};

/* ---- what is run ---- */

static const char *path(struct up *u, const char *name)
{
    return sw_arena_printf(u->arena, "%s/%s", u->data, name);
}

static struct sw_addr local(const struct up *u, uint32_t port)
{
    return (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}},
                            .port = (uint16_t)(u->set->port_base + port)};
}

static const char *local_text(struct up *u, uint32_t port)
{
    return sw_arena_printf(u->arena, "127.0.0.1:%" PRIu32, u->set->port_base + port);
}

static const char *addr_text(struct up *u, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    return sw_arena_printf(u->arena, "%s", sw_addr_text(a, text));
}

static void give(struct sw_supervised *r, const char *name, const char *value)
{
    size_t n = 0;

    while (r->argv[n])
        n++;
    assert(n + 2 < SW_SUPERVISED_ARGS);
    r->argv[n] = name;
    r->argv[n + 1] = value;
}

static struct sw_supervised *add(struct up *u, const char *name)
{
    struct sw_supervised *r = &u->roles[u->n_roles++];

    r->name = name;
    r->argv[0] = "spanwire";
    r->argv[1] = name;
    give(r, "--log-format", formats[u->set->log_format]);
    if (strcmp(name, "control") != 0) /* whose pages are the API's */
        give(r, "--admin-token-file", path(u, "run/admin.token"));
    return r;
}

static void add_control(struct up *u)
{
    struct sw_supervised *r = add(u, "control");

    r->ready = u->set->listen;
    r->ready_path = "/readyz";
    r->ready_ca = path(u, "pki/root.crt");
    give(r, "--data", u->data);
    give(r, "--listen", addr_text(u, &u->set->listen));
    give(r, "--xds-listen", local_text(u, PORT_XDS));
    give(r, "--gateway-addresses", u->set->address);
    give(r, "--gateway-port-offset", sw_arena_printf(u->arena, "%" PRIu32, u->set->port_offset));
    give(r, "--gateway-reserved-ports",
         sw_arena_printf(u->arena, "%u,%u,%" PRIu32 "-%" PRIu32, u->set->listen.port,
                         u->set->relay.port, u->set->port_base, u->set->port_base + PORTS - 1));
    give(r, "--connect-proxy", path(u, "run/sidecar.sock"));
    give(r, "--target-domain", u->set->target_domain);
    if (u->set->device_ports[0])
        give(r, "--device-ports", u->set->device_ports);
    if (u->set->cert_domain)
        give(r, "--certificate-domain", u->set->cert_domain);
    give(r, "--relay-url", u->relay_url);
    give(r, "--log-level", u->set->log_level);
    give(r, "--loopback-endpoints", NULL);
    if (u->set->demo)
        give(r, "--device-account", DEMO);
    if (u->set->access_log)
        give(r, "--gateway-access-log", NULL);
}

static void add_relay(struct up *u)
{
    struct sw_supervised *r = add(u, "relay");

    r->ready = u->set->relay;
    r->ready_path = "/healthz";
    give(r, "--listen", addr_text(u, &u->set->relay));
    give(r, "--kubeconfig", path(u, "roles/relay.kubeconfig"));
    give(r, "--admin-addr", local_text(u, PORT_RELAY_ADMIN));
    give(r, "--stats-addr", local_text(u, PORT_RELAY_STATS));
    give(r, "--ready-addr", local_text(u, PORT_RELAY_READY));
    give(r, "--log-level", u->set->log_level);
}

/*
 * Backends are on this machine, as devices are: objects may name loopback addresses. The ports of
 * the fabric itself they may not.
 */
static void give_upstreams(struct up *u, struct sw_supervised *r)
{
    static const char *const nets[] = {"127.0.0.0/8", "[::1]"};
    const struct settings *s = u->set;
    const char *ports[] = {
        sw_arena_printf(u->arena, "%" PRIu32 "-%" PRIu32, s->port_base, s->port_base + PORTS - 1),
        sw_arena_printf(u->arena, "%u", s->listen.port),
        sw_arena_printf(u->arena, "%u", s->relay.port),
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(nets); i++) {
        give(r, "--upstream-allow", nets[i]);
        for (size_t k = 0; k < SW_ARRAY_LEN(ports); k++)
            give(r, "--upstream-deny", sw_arena_printf(u->arena, "%s:%s", nets[i], ports[k]));
    }
}

static void add_sidecar(struct up *u)
{
    struct sw_supervised *r = add(u, "sidecar");

    r->ready = local(u, PORT_SIDECAR_READY);
    r->ready_path = "/healthz/ready";
    give(r, "--listen", path(u, "run/sidecar.sock"));
    give(r, "--key-file", path(u, "sidecar.key"));
    give(r, "--kubeconfig", path(u, "roles/sidecar.kubeconfig"));
    give(r, "--relay", u->relay_url);
    give(r, "--admin-addr", local_text(u, PORT_SIDECAR_ADMIN));
    give(r, "--stats-addr", local_text(u, PORT_SIDECAR_STATS));
    give(r, "--ready-addr", local_text(u, PORT_SIDECAR_READY));
    give(r, "--drain-time", "2s");
    give(r, "--log-level", u->set->log_level);
    give_upstreams(u, r);
    give(r, "--upstream-allow", "own"); /* devices of this machine name all of its addresses */
}

static void add_gateway(struct up *u)
{
    struct sw_supervised *r = add(u, "gateway");

    r->ready = local(u, PORT_READY);
    r->ready_path = "/healthz/ready";
    give(r, "--xds-addr", local_text(u, PORT_XDS));
    give(r, "--xds-ca", path(u, "pki/root.crt"));
    give(r, "--xds-token-file", path(u, "roles/gateway.token"));
    give(r, "--admin-addr", local_text(u, PORT_ADMIN));
    give(r, "--stats-addr", local_text(u, PORT_STATS));
    give(r, "--ready-addr", local_text(u, PORT_READY));
    give(r, "--log-level", u->set->log_level);
    give_upstreams(u, r);
    give(r, "--drain-time", "2s");
}

static int add_demo(struct up *u)
{
    struct sw_supervised *r = add(u, "expose");
    struct sw_addr at;

    u->app = sw_demo_app_new(u->loop, u->err);
    if (!u->app)
        return u->err->rc;
    at = sw_demo_app_addr(u->app);
    give(r, sw_arena_printf(u->arena, "http://%s", addr_text(u, &at)), NULL);
    give(r, "--hostname", u->set->demo_hostname);
    give(r, "--name", DEMO);
    give(r, "--data", path(u, "demo"));
    give(r, "--kubeconfig", path(u, "roles/" DEMO ".kubeconfig"));
    give(r, "--relay", u->relay_url);
    give(r, "--admin-addr", local_text(u, PORT_EXPOSE_ADMIN));
    return SW_OK;
}

/* ---- what is said ---- */

static void print_up(const struct up *u)
{
    const struct settings *s = u->set;
    char api[SW_ADDR_TEXT];

    printf("spanwire is up (%.2f s)\n\n", (double)(sw_now_ns() - u->begin_ns) / 1e9);
    printf("  API      https://%s\n", sw_addr_text(&s->listen, api));
    printf("  gateway  http://HOSTNAME:%" PRIu32 "  https://HOSTNAME:%" PRIu32 "\n",
           80 + s->port_offset, 443 + s->port_offset);
    printf("  relay    %s\n", u->relay_url);
    printf("  logs     %s/log/\n\n", s->data);
}

/* A word that a shell reads as it is. */
static const char *shell_word(const struct up *u, const char *text)
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
    const char *dirs = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
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

static void print_next(const struct up *u)
{
    const struct settings *s = u->set;
    const char *dir = dir_to_add(u);

    if (u->answered)
        printf("The demo is served at\n\n  http://%s:%" PRIu32 "/\n\n", s->demo_hostname,
               80 + s->port_offset);
    printf("Try next, in another terminal:\n\n");
    if (dir)
        printf("  export PATH=%s:$PATH\n", shell_word(u, dir));
    printf("  export KUBECONFIG=%s\n", shell_word(u, u->kubeconfig));
    printf("  spanwire expose 3000      # what listens on port 3000 here gets a hostname\n");
    printf("  spanwire status           # data planes and the configuration they serve\n");
    printf("  kubectl get connectors,httpproxies,gateways,httproutes -A  # 1.29 or newer\n\n");
    printf("Ctrl-C ends it; the state stays in %s.\n", s->data);
    (void)fflush(stdout);
}

/* ---- the demo's first answer ---- */

static void ask_later(struct up *u);

static void on_answer_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct up *u = arg;

    (void)call;
    u->answered = msg->status == 200;
}

static void on_answer(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct up *u = arg;

    (void)call;
    (void)err;
    if (rc == SW_ECLOSED)
        return; /* the end */
    if (rc == SW_OK && u->answered) {
        print_next(u);
    } else if (sw_loop_now(u->loop) > u->ask_until_ns) {
        printf("The demo does not answer yet; %s/log/expose.log says why.\n\n", u->set->data);
        print_next(u);
    } else {
        ask_later(u);
    }
}

static void on_ask(struct sw_timer *t)
{
    struct up *u = SW_CONTAINER_OF(t, struct up, ask);
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("GET"),
                                  .target = SW_SLICE_LIT("/"),
                                  .timeout_ns = 2 * SW_NS_PER_S,
                                  .body_max = 1 << 20,
                                  .on_head = on_answer_head,
                                  .on_done = on_answer,
                                  .arg = u};
    struct sw_err err = {0};

    u->answered = false;
    if (!sw_http_call_start(u->http, &o, &err))
        ask_later(u);
}

static void ask_later(struct up *u)
{
    sw_timer_start(u->loop, &u->ask, demo_every_ns, on_ask);
}

static void ask_demo(struct up *u)
{
    struct sw_http_client_opts o = {
        .scope = "up",
        .host = SW_SLICE_LIT("127.0.0.1"),
        .port = (uint16_t)(80 + u->set->port_offset),
        .host_header = sw_slice_str(u->set->demo_hostname),
    };
    struct sw_err err = {0};

    u->http = sw_http_client_new(u->loop, &o, &err);
    u->ask_until_ns = sw_loop_now(u->loop) + demo_timeout_ns;
    if (u->http)
        ask_later(u);
}

/* ---- events ---- */

static void on_up(void *arg)
{
    struct up *u = arg;

    print_up(u);
    if (u->app)
        ask_demo(u);
    else
        print_next(u);
    (void)fflush(stdout);
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
        (void)fprintf(stderr, "gateway: listener %.*s\n", SW_SLICE_ARG(line));
        return;
    }
    u->unbound = true;
    (void)sw_err_set(u->err, SW_ECLOSED, "gateway: listener %.*s", SW_SLICE_ARG(line));
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
    u->kubeconfig = path(u, "admin.kubeconfig");
    rc = sw_make_dirs(path(u, "run"), u->err);
    if (rc == SW_OK)
        rc = sw_make_dirs(path(u, "log"), u->err);
    if (rc != SW_OK)
        return rc;
    u->relay_url = u->set->relay_url;
    if (!u->relay_url)
        u->relay_url = sw_arena_printf(u->arena, "http://%s/", addr_text(u, &u->set->relay));
    add_control(u);
    add_relay(u);
    add_sidecar(u);
    add_gateway(u);
    return u->set->demo ? add_demo(u) : SW_OK;
}

static int check_port(const struct up *u, const struct sw_ip *ip, uint16_t port, const char *what)
{
    static const struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr at = {.ip = *ip, .port = (uint16_t)(port + u->set->port_offset)};
    struct sw_err err = {0};
    char text[SW_ADDR_TEXT];
    int fd;

    if (sw_sock_listen(&at, &o, &fd, &err) == SW_OK) {
        sw_sock_close(fd);
        return SW_OK;
    }
    if (err.sys_errno != EADDRINUSE)
        return SW_OK; /* the gateway knows better */
    return sw_err_set(u->err, SW_ECLOSED,
                      "%s is in use, and the gateway serves %s there (see --port-offset)",
                      sw_addr_text(&at, text), what);
}

/* A gateway whose port is taken says so in its log and tries on: that helps nobody who waits. */
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
        rc = check_port(u, &ip, 80, "HTTP");
        if (rc == SW_OK)
            rc = check_port(u, &ip, 443, "HTTPS");
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
        .down = on_down,
        .arg = u,
    };
    struct sw_up_admin admin;
    int rc = prepare(u);

    if (rc == SW_OK)
        rc = check_gateway_ports(u);
    if (rc != SW_OK)
        return rc;
    o.n = u->n_roles;
    o.log_dir = path(u, "log");
    u->signals = sw_signals_new(u->loop, signos, SW_ARRAY_LEN(signos), on_signal, u, u->err);
    if (!u->signals)
        return u->err->rc;
    u->sup = sw_supervisor_new(u->loop, &o, u->err);
    if (!u->sup)
        return u->err->rc;
    admin.at = local(u, PORT_ADMIN);
    admin.token_file = path(u, "run/admin.token");
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
    if (u->loop)
        sw_timer_stop(u->loop, &u->ask);
    sw_http_client_free(u->http);
    sw_demo_app_free(u->app);
    sw_signals_free(u->signals);
    sw_loop_free(u->loop);
}

int sw_cmd_up(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct settings set = {0};
    struct sw_err err = {0};
    struct up u = {.set = &set, .arena = &arena, .err = &err, .begin_ns = sw_now_ns()};
    int rc = sw_opts_parse(&sw_up_options, &set, &arena, argc, argv, NULL, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(&sw_up_options);
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    u.loop = sw_loop_new(&err);
    rc = u.loop ? run(&u) : err.rc;
    done(&u);
    return rc == SW_OK ? 0 : sw_cmd_fail(&err);
}
