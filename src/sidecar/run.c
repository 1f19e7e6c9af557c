/* SPDX-License-Identifier: Apache-2.0 */
/* The role: options, the loop with its admin listeners, signals, drain. */

#include "base/log.h"
#include "base/time.h"
#include "io/resolver.h"
#include "quic/quic.h"
#include "sidecar/sidecar.h"
#include "tls/crypto/aead.h"
#include "tunnel/scratch.h"

#define AT(field) .offset = offsetof(struct sw_sidecar_config, field)
#define PROCESS   offsetof(struct sw_sidecar_config, process)

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "The gateway's side"},
    {"listen", "SPANWIRE_SIDECAR_LISTEN", SW_OPT_LIST, AT(listen), .arg = "PATH|ADDR",
     .help = "Unix socket (mode 0660) or loopback address for HTTP/1.1 and HTTP/2 with prior\n"
             "knowledge; may be repeated."},
    {"allow-remote", NULL, SW_OPT_BOOL, AT(allow_remote),
     .help = "Allow other addresses. HTTP/2 over TLS only, and clients need a certificate."},
    {"tls-cert", NULL, SW_OPT_STR, AT(tls_cert), .arg = "FILE",
     .help = "Certificate chain for such listeners."},
    {"tls-key", NULL, SW_OPT_STR, AT(tls_key), .arg = "FILE", .help = "Its key."},
    {"tls-ca", NULL, SW_OPT_STR, AT(tls_ca), .arg = "FILE",
     .help = "Authorities whose certificates clients must have."},
    {"header-alias", NULL, SW_OPT_LIST, AT(aliases), .arg = "NAME=ALIAS",
     .help = "Another name for x-iroh-endpoint-id, x-datum-target-host or\n"
             "x-datum-target-port; may be repeated."},
    {"max-clients", NULL, SW_OPT_U32, AT(max_clients), .def = "4096", .min = 1, .arg = "N",
     .help = "Connections of the gateway at once."},
    {.type = SW_OPT_GROUP, .help = "The nodes' side"},
    {"key-file", "SPANWIRE_SIDECAR_KEY", SW_OPT_STR, AT(key_file), .def = "gateway_key",
     .arg = "FILE", .help = "Our key, 32 bytes; made when there is none."},
    {"bind", "SPANWIRE_SIDECAR_BIND", SW_OPT_ADDR, AT(bind), .arg = "ADDR",
     .help = "UDP address for QUIC; any port of all addresses by default."},
    {"relay", "SPANWIRE_RELAY", SW_OPT_STR, AT(relay), .arg = "URL",
     .help = "Relay to keep a connection to."},
    {"relay-allow", "SPANWIRE_RELAY_ALLOW", SW_OPT_LIST, AT(relay_allow), .arg = "URL",
     .help = "Further relay that devices may name; may be repeated. Allowed anyway: --relay,\n"
             "those of --peer, and those of the control plane. No other is connected to."},
    {"relay-ca", NULL, SW_OPT_STR, AT(relay_ca), .arg = "FILE",
     .help = "Authorities of relays; the system's by default."},
    {"relay-token-file", NULL, SW_OPT_STR, AT(relay_token_file), .arg = "FILE",
     .help = "Bearer token for the relay of --relay; sent to no other, and over https only."},
    {"relay-sign-challenges", NULL, SW_OPT_BOOL, AT(relay_sign_over_tls),
     .help = "Sign challenges of https relays too, for relays behind a proxy that ends TLS."},
    {"max-nodes", NULL, SW_OPT_U32, AT(max_nodes), .def = "1024", .min = 1, .max = 1000000,
     .arg = "N", .help = "Connections to nodes at once; the longest idle one makes room."},
    {"max-buffered", NULL, SW_OPT_U32, AT(max_buffered), .def = "128", .min = 1, .max = 1048576,
     .arg = "MIB",
     .help = "Megabytes kept for readers that are slow, in both directions; what a stream may\n"
             "have in any case (96 KiB) comes on top."},
    {"congestion", "SPANWIRE_CONGESTION", SW_OPT_ENUM, AT(congestion), .def = "bbr",
     .choices = sw_qcc_names,
     .help = "Congestion control of QUIC: bbr keeps its speed on lines that lose packets; cubic "
             "slows down with every loss; bbr2 is a later draft of the first."},
    {"dial-timeout", NULL, SW_OPT_DURATION, AT(dial_ns), .def = "8s",
     .help = "Finding a node and connecting to it may take so long."},
    {"answer-timeout", NULL, SW_OPT_DURATION, AT(answer_ns), .def = "15s",
     .help = "A node has so long to answer a CONNECT or an upgrade, once connected. A request\n"
             "waits no longer for a stream."},
    {"node-idle", NULL, SW_OPT_DURATION, AT(idle_ns), .def = "1h",
     .help = "A connection to a node without requests is closed after this."},
    {"tunnel-idle", NULL, SW_OPT_DURATION, AT(tunnel_idle_ns), .def = "1h",
     .help = "A tunnel that moves nothing is closed after this."},
    {"udp-datagrams", NULL, SW_OPT_BOOL, AT(udp_datagrams),
     .help = "Carry UDP in QUIC datagrams where the node can: no waiting behind lost packets, but\n"
             "payloads too large for one packet are dropped on their way back."},
    {.type = SW_OPT_GROUP, .help = "Where nodes are, asked in this order"},
    {"peer", NULL, SW_OPT_LIST, AT(peers), .arg = "ID=PLACES",
     .help = "Fixed place of a node: ADDR[,ADDR][,relay=URL]; may be repeated."},
    {"kubeconfig", "SPANWIRE_SIDECAR_KUBECONFIG", SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "Control plane to follow: its Connectors tell where nodes are."},
    {"context", NULL, SW_OPT_STR, AT(context), .arg = "NAME", .help = "Context of that file."},
    {"namespace", NULL, SW_OPT_STR, AT(ns), .def = "spanwire-system", .arg = "NAME",
     .help = "Where our NodeID is registered, so that devices admit us."},
    {"no-register", NULL, SW_OPT_BOOL, AT(no_register), .help = "Do not register."},
    {"advertise", NULL, SW_OPT_LIST, AT(advertise), .arg = "ADDR",
     .help = "Addresses to register; those bound to by default."},
    {"dns-origin", "SPANWIRE_DNS_ORIGIN", SW_OPT_STR, AT(dns_origin), .arg = "NAME",
     .help = "Zone with the TXT records of nodes (_iroh.<id>.NAME)."},
    {"dns-resolver", "SPANWIRE_DNS_RESOLVER", SW_OPT_LIST, AT(dns_resolvers), .arg = "ADDR",
     .help = "DNS servers to ask; those of /etc/resolv.conf by default."},
    SW_OPT_UPSTREAM(offsetof(struct sw_sidecar_config, upstream)),
    {.type = SW_OPT_GROUP, .help = "Operation"},
    {"admin-addr", "SPANWIRE_SIDECAR_ADMIN_ADDR", SW_OPT_ADDR, AT(process.admin_addr),
     .def = "127.0.0.1:15050", .help = "Admin pages: /logging, /quitquitquit."},
    SW_OPT_ADMIN(PROCESS + offsetof(struct sw_process_config, access)),
    {"stats-addr", "SPANWIRE_SIDECAR_STATS_ADDR", SW_OPT_ADDR, AT(process.stats_addr),
     .def = "127.0.0.1:9090", .help = "Metrics."},
    {"ready-addr", "SPANWIRE_SIDECAR_READY_ADDR", SW_OPT_ADDR, AT(process.ready_addr),
     .def = "127.0.0.1:15051", .help = "Readiness."},
    {"drain-time", NULL, SW_OPT_DURATION, AT(process.drain_ns), .def = "30s",
     .help = "How long requests may take to end after SIGTERM."},
    SW_OPT_LOG(PROCESS, "sidecar", "Form of the log lines."),
};

const struct sw_opts_cmd sw_sidecar_options = {
    .name = "sidecar",
    .usage = "--listen PATH [options]",
    .summary = "Turns CONNECT and HTTP requests of a gateway (Envoy or ours) into streams to\n"
               "nodes, found by their key.",
    .epilogue = "SIGTERM drains. See spanwire-sidecar(8).",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

int sw_sidecar_config_read(struct sw_sidecar_config *c, int argc, char **argv, struct sw_err *err)
{
    *c = (struct sw_sidecar_config){0};
    return sw_opts_parse(&sw_sidecar_options, c, &c->arena, (struct sw_args){argc, argv}, NULL,
                         err);
}

void sw_sidecar_config_done(struct sw_sidecar_config *c)
{
    sw_arena_clear(&c->arena);
}

struct sw_sidecar_run {
    const struct sw_sidecar_config *c;
    struct sw_process process;
    struct sw_sidecar *s;
    struct sw_timer deadline;
    struct sw_msg stop_msg;
};

static void on_drained(void *arg)
{
    struct sw_sidecar_run *r = arg;

    sw_log_info("sidecar", "drained");
    sw_loop_stop(r->process.loop);
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_sidecar_run *r = SW_CONTAINER_OF(t, struct sw_sidecar_run, deadline);

    sw_log_info("sidecar", "drain deadline passed, closing %zu requests", sw_sidecar_active(r->s));
    sw_loop_stop(r->process.loop);
}

static void drain(void *arg)
{
    struct sw_sidecar_run *r = arg;
    uint64_t time_ns = r->c->process.drain_ns;

    sw_log_info("sidecar", "draining for at most %llu ms",
                (unsigned long long)(time_ns / SW_NS_PER_MS));
    sw_timer_start(r->process.loop, &r->deadline, time_ns, on_deadline);
    sw_sidecar_drain(r->s, on_drained, r);
}

static void on_stop(struct sw_msg *m)
{
    sw_process_drain(&SW_CONTAINER_OF(m, struct sw_sidecar_run, stop_msg)->process);
}

void sw_sidecar_stop(struct sw_sidecar_run *r)
{
    r->stop_msg.cb = on_stop;
    sw_loop_post(r->process.loop, &r->stop_msg);
}

static void on_scrape(void *arg)
{
    struct sw_sidecar_run *r = arg;

    if (r->s)
        sw_sidecar_scrape(r->s);
}

static int start_admin(struct sw_sidecar_run *r, struct sw_err *err)
{
    const struct sw_admin_opts o = {
        .title = "spanwire sidecar",
        .share = "sidecar",
        .on_scrape = on_scrape,
        .egress = sw_sidecar_egress(r->s),
        .arg = r,
    };

    return sw_process_open_admin(&r->process, &o, err);
}

static int start(struct sw_sidecar_run *r, bool signals, struct sw_err *err)
{
    const struct sw_process_opts process = {.name = "sidecar",
                                            .config = &r->c->process,
                                            .awaits = "start",
                                            .no_signals = !signals,
                                            .drain = drain,
                                            .arg = r};
    int rc = sw_aead_init(SW_AEAD_AUTO, err);

    if (rc == SW_OK)
        rc = sw_process_open(&r->process, &process, err);
    if (rc != SW_OK)
        return rc;
    r->s = sw_sidecar_new(r->process.loop, r->c, r->process.metrics, r->process.ready, err);
    if (!r->s)
        return err->rc;
    rc = start_admin(r, err);
    if (rc == SW_OK)
        sw_ready_done(r->process.ready, "start");
    return rc;
}

static void stop(struct sw_sidecar_run *r, bool own)
{
    sw_process_close_admin(&r->process);
    sw_sidecar_free(r->s);
    if (own)
        sw_resolver_stop();
    if (r->process.loop)
        sw_timer_stop(r->process.loop, &r->deadline);
    sw_scratch_done();
    sw_process_close(&r->process);
}

int sw_sidecar_run(const struct sw_sidecar_config *c, bool signals,
                   void (*started)(void *arg, struct sw_sidecar_run *r), void *arg,
                   struct sw_err *err)
{
    struct sw_sidecar_run r = {.c = c};
    int rc = start(&r, signals, err);

    if (rc == SW_OK) {
        sw_log_info("sidecar", "ready");
        if (started)
            started(arg, &r);
        sw_loop_run(r.process.loop);
    }
    stop(&r, signals);
    return rc;
}
