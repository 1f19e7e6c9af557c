/* SPDX-License-Identifier: Apache-2.0 */
/* The option table of `spanwire node`. One row is all that a new setting needs. */
#include "node/config.h"
#include "opts/process.h"

#define AT(field) .offset = offsetof(struct sw_node_config, field)

static const char *const modes[] = {"shared", "dedicated", NULL};
static const char *const autos[] = {"auto", "true", "false", NULL};

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "Whom to serve"},
    {"mode", "PROXY_MODE", SW_OPT_ENUM, AT(serve.mode), .def = "shared", .choices = modes,
     .help = "Serve the pods of the node agent (--agent-socket) and those named by --pod, each in "
             "its own network namespace, or one workload in this namespace."},
    {"workload", "PROXY_WORKLOAD_INFO", SW_OPT_STR, AT(serve.workload_text), .arg = "NS/NAME/SA",
     .help = "The workload of dedicated mode: namespace, name and service account."},
    {"pod", "SPANWIRE_PODS", SW_OPT_LIST, AT(serve.pod_texts), .arg = "NS/NAME/SA=NETNS",
     .help = "A pod of shared mode and the path of its network namespace. May be repeated."},
    {"agent-socket", "INPOD_UDS", SW_OPT_STR, AT(serve.agent_socket), .arg = "PATH",
     .help = "Socket of the node agent, which hands over pods as they come and go (shared mode). "
             "Default /var/run/ztunnel/ztunnel.sock where neither --pod nor a local configuration "
             "is given."},
    {"enable-proxy", "ENABLE_PROXY", SW_OPT_BOOL, AT(serve.proxy), .def = "true", .arg = "BOOL",
     .help = "Open the proxy ports. Without them only the admin, metrics and readiness ports "
             "answer."},

    {.type = SW_OPT_GROUP, .help = "What is known, and identities"},
    {"local-xds", "LOCAL_XDS_PATH", SW_OPT_STR, AT(xds.local_path), .arg = "FILE",
     .help = "YAML file with workloads, services and policies; read again when it changes. See "
             "spanwire-local-config(5)."},
    {NULL, "LOCAL_XDS", SW_OPT_STR, AT(xds.local_inline),
     .help = "The same YAML as text. Only one of the two may be given."},
    {"xds-address", "XDS_ADDRESS", SW_OPT_STR, AT(xds.address), .arg = "URL",
     .help = "Control plane that sends workloads, services and policies instead of a file "
             "(delta xDS), https://HOST:PORT; empty: none. Default: discoveryAddress of "
             "PROXY_CONFIG, or https://istiod.istio-system.svc:15012 in a Kubernetes pod without "
             "--local-xds. XDS_HEADER_name=value in the environment adds headers, "
             "ISTIO_META_name=value and ISTIO_METAJSON_name=value metadata of the node."},
    {"xds-root", "XDS_ROOT_CA", SW_OPT_STR, AT(xds.root_ca),
     .def = "./var/run/secrets/istio/root-cert.pem", .arg = "FILE|PEM|SYSTEM",
     .help = "Root of the control plane's certificate: a file, which is read again for each "
             "connection, the certificate itself, or the roots of the system."},
    {"xds-alt-name", "ALT_XDS_HOSTNAME", SW_OPT_STR, AT(xds.alt_hostname), .arg = "NAME",
     .help = "Second name that the control plane's certificate may be for."},
    {"xds-on-demand", "XDS_ON_DEMAND", SW_OPT_BOOL, AT(xds.on_demand), .def = "false",
     .help = "Ask the control plane for a workload or service when a connection needs it, instead "
             "of for all of them."},
    {"xds-on-demand-max", "SPANWIRE_XDS_ON_DEMAND_MAX", SW_OPT_U32, AT(xds.on_demand_max),
     .def = "100000", .min = 1, .max = 4000000,
     .help = "Names that are subscribed to on demand at most. Those that the control plane does "
             "not know make room for others."},
    {"state-dir", "SPANWIRE_STATE_DIR", SW_OPT_STR, AT(xds.state_dir), .arg = "DIR",
     .help = "Directory in which what the control plane sent is stored from time to time: a node "
             "that starts while the control plane is unreachable serves what it knew."},
    {"local-ca", "SPANWIRE_LOCAL_CA", SW_OPT_STR, AT(ca.local), .arg = "DIR",
     .help = "Directory made by 'spanwire cert ca': certificates of local workloads are issued "
             "from it and renewed at half of their life."},
    {"ca-address", "CA_ADDRESS", SW_OPT_STR, AT(ca.address), .arg = "URL",
     .help = "Certificate authority that issues certificates to local workloads "
             "(istio.v1.auth.IstioCertificateService), https://HOST:PORT. Default: none, and "
             "https://istiod.istio-system.svc:15012 in a Kubernetes pod without --local-ca."},
    {"ca-root", "CA_ROOT_CA", SW_OPT_STR, AT(ca.root_ca),
     .def = "./var/run/secrets/istio/root-cert.pem", .arg = "FILE|PEM|SYSTEM",
     .help = "Root of the authority's own certificate: a file, which is read again when it "
             "changes, the certificate itself, or the roots of the system."},
    {"ca-alt-name", "ALT_CA_HOSTNAME", SW_OPT_STR, AT(ca.alt_hostname), .arg = "NAME",
     .help = "Second name that the authority's certificate may be for."},
    {"auth-token", "AUTH_TOKEN", SW_OPT_STR, AT(ca.auth_token), .flags = SW_OPT_SECRET,
     .arg = "FILE|TOKEN",
     .help = "Bearer token for the certificate authority and the control plane, or its file, which "
             "is read for every call. Default ./var/run/secrets/tokens/istio-token, if there is "
             "one. CA_HEADER_name=value in the environment adds headers."},
    {"machine-dir", "SPANWIRE_MACHINE_DIR", SW_OPT_STR, AT(ca.machine_dir), .arg = "DIR",
     .help = "Directory of a machine that joined with 'spanwire join': its key signs the tokens "
             "for both, instead of --auth-token."},
    {"crl", "CRL_PATH", SW_OPT_STR, AT(ca.crl), .arg = "FILE",
     .help = "Certificate revocation list, PEM or DER; read again when it changes. Peers on it are "
             "refused and their connections closed. An absent file revokes nothing."},
    {"secret-ttl", "SECRET_TTL", SW_OPT_DURATION, AT(ca.secret_ttl_ns), .def = "24h", .min = 1000,
     .help = "Life of the certificates issued to local workloads."},

    {"tls12", "TLS12_ENABLED", SW_OPT_BOOL, AT(crypto.tls12), .def = "false",
     .help = "Also speak TLS 1.2 on HBONE; without it TLS 1.3 only."},
    {NULL, "COMPLIANCE_POLICY", SW_OPT_STR, AT(crypto.compliance_policy),
     .help = "Restriction of algorithms. 'pqc' asks for X25519MLKEM768 only, which the TLS library "
             "of this build lacks: the node refuses to start."},

    {.type = SW_OPT_GROUP, .help = "Names"},
    {"node-name", "NODE_NAME", SW_OPT_STR, AT(names.node), .def = "", .arg = "NAME",
     .help = "Name of this node; workloads of the same node are local."},
    {"network", "NETWORK", SW_OPT_STR, AT(names.network), .def = "", .arg = "NAME",
     .help = "Network this node is in; other networks are reached through their gateways."},
    {"cluster-id", "ISTIO_META_CLUSTER_ID,CLUSTER_ID", SW_OPT_STR, AT(names.cluster_id),
     .def = "Kubernetes", .arg = "NAME",
     .help = "Name of the cluster; sent to the certificate authority, shown in /config_dump."},
    {"cluster-domain", "CLUSTER_DOMAIN", SW_OPT_STR, AT(names.cluster_domain),
     .def = "cluster.local", .arg = "DOMAIN", .help = "DNS domain of the cluster."},
    {"trust-domain", "TRUST_DOMAIN", SW_OPT_STR, AT(names.trust_domain), .def = "cluster.local",
     .arg = "DOMAIN",
     .help = "Trust domain of the node itself, as /config_dump shows it. Certificates, that of the "
             "node's own pod too, are for the trust domain in the workload's record."},
    {"pod-name", "POD_NAME", SW_OPT_STR, AT(names.pod), .arg = "NAME",
     .help = "Our own pod. With the next two, shared mode also opens 15008 in its own namespace so "
             "that our metrics can be scraped through mutual TLS."},
    {"pod-namespace", "POD_NAMESPACE", SW_OPT_STR, AT(names.pod_namespace), .arg = "NAME",
     .help = "Namespace of our own pod."},
    {"service-account", "SERVICE_ACCOUNT", SW_OPT_STR, AT(names.service_account), .arg = "NAME",
     .help = "Service account of our own pod."},
    {"instance-ip", "INSTANCE_IP", SW_OPT_STR, AT(names.instance_ip), .arg = "IP",
     .help = "Address of our own pod; part of the name the control plane knows the node by."},

    SW_OPT_UPSTREAM(offsetof(struct sw_node_config, upstream)),
    {.type = SW_OPT_GROUP, .help = "Ports"},
    {"listen-ip", "SPANWIRE_LISTEN_IP", SW_OPT_IP, AT(listen.ip),
     .help = "Bind 15001, 15006, 15008 and 15080 to this address instead of the wildcard, so that "
             "several dedicated nodes can share a machine (127.0.0.2, 127.0.0.3)."},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(admin.addr),
     .help = "Admin endpoints. Default 127.0.0.1:15000, with PROXY_CONFIG's proxyAdminPort."},
    SW_OPT_ADMIN(offsetof(struct sw_node_config, admin.access)),
    {"stats-addr", "SPANWIRE_STATS_ADDR", SW_OPT_ADDR, AT(admin.stats_addr),
     .help = "Metrics. Default [::]:15020, with PROXY_CONFIG's statsPort."},
    {"ready-addr", "SPANWIRE_READY_ADDR", SW_OPT_ADDR, AT(admin.ready_addr),
     .help = "Readiness. Default [::]:15021."},
    {"socks5", "UNSTABLE_ENABLE_SOCKS5", SW_OPT_BOOL, AT(listen.socks5), .def = "false",
     .help = "Open the SOCKS5 port 15080 for programs on the same host."},
    {"ipv6", "IPV6_ENABLED", SW_OPT_BOOL, AT(listen.ipv6), .def = "true", .arg = "BOOL",
     .help = "Bind [::] rather than 0.0.0.0."},
    {"dns", "ISTIO_META_DNS_CAPTURE", SW_OPT_STR, AT(dns.capture_text), .arg = "BOOL",
     .flags = SW_OPT_SWITCH,
     .help = "Serve DNS on 15053, by UDP and TCP, in the namespace of each pod: names of the mesh "
             "are answered, others forwarded. Default: DNS_CAPTURE of PROXY_CONFIG's "
             "proxyMetadata, or true."},
    {"dns-addr", "ISTIO_META_DNS_PROXY_ADDR", SW_OPT_STR, AT(dns.addr_text), .arg = "ADDR",
     .help = "Where. localhost means 127.0.0.1 and [::1], or --listen-ip. Default: DNS_PROXY_ADDR "
             "of PROXY_CONFIG's proxyMetadata, or localhost:15053."},
    {"dns-resolv-conf", "SPANWIRE_RESOLV_CONF", SW_OPT_STR, AT(dns.resolv_conf),
     .def = "/etc/resolv.conf", .arg = "FILE",
     .help = "Whose nameservers get the other names, and in dedicated mode whose search list "
             "counts; read again when it changes."},
    {"dns-preferred-namespace", "PREFERED_SERVICE_NAMESPACE", SW_OPT_STR,
     AT(dns.preferred_namespace), .arg = "NAME",
     .help = "Of several services with one host name in other namespaces, DNS prefers the one of "
             "this namespace."},
    {"port-reuse", "INPOD_PORT_REUSE", SW_OPT_BOOL, AT(listen.port_reuse), .def = "true",
     .arg = "BOOL",
     .help = "SO_REUSEPORT on the proxy ports: lets a new process take over from an old one."},

    {.type = SW_OPT_GROUP, .help = "Running"},
    {"workers", "ZTUNNEL_WORKER_THREADS", SW_OPT_STR, AT(cpu.workers_text), .arg = "N|N%",
     .help = "Worker threads: a number, a share of the CPUs, or 0 for all of them. Default auto: "
             "the CPU limit when there is one, else a quarter of the CPUs and at least two."},
    {"cpu-limit", "ZTUNNEL_CPU_LIMIT", SW_OPT_STR, AT(cpu.limit), .arg = "CPUS",
     .help = "CPUs to count on instead of those of the machine."},
    {"resource-cpu-limit", "ZTUNNEL_RESOURCE_CPU_LIMIT", SW_OPT_STR, AT(cpu.resource_limit),
     .arg = "CPUS", .help = "CPU limit of the container, such as 2, 1.5 or 500m."},
    {"resource-cpu-request", "ZTUNNEL_RESOURCE_CPU_REQUEST", SW_OPT_STR, AT(cpu.resource_request),
     .arg = "CPUS", .help = "CPU request of the container."},
    {"drain", "CONNECTION_TERMINATION_DEADLINE", SW_OPT_STR, AT(drain.text), .arg = "DURATION",
     .help = "How long open connections may go on after SIGTERM. Default: from the grace period, "
             "else 5s."},
    {"grace-period", "TERMINATION_GRACE_PERIOD_SECONDS", SW_OPT_STR, AT(drain.grace_text),
     .arg = "SECONDS",
     .help = "Time until the container is killed; --drain becomes a little less."},
    {"packet-mark", "PACKET_MARK", SW_OPT_STR, AT(sockets.packet_mark_text), .arg = "N",
     .help = "SO_MARK on our own sockets, which the redirection rules let through; 0 for none. "
             "Default 1337 in shared mode, none in dedicated mode."},
    {"orig-src", "ENABLE_ORIG_SRC", SW_OPT_ENUM, AT(sockets.orig_src), .def = "auto",
     .choices = autos,
     .help = "Connect to local applications from the client's address (IP_TRANSPARENT): try, "
             "require, or never."},
    {"localhost-app-tunnel", "LOCALHOST_APP_TUNNEL", SW_OPT_BOOL, AT(sockets.localhost_app_tunnel),
     .def = "true", .arg = "BOOL",
     .help = "Reach application tunnels on localhost rather than the pod's address."},

    {.type = SW_OPT_GROUP, .help = "Tunnels"},
    {"enforce-waypoint", "SPANWIRE_ENFORCE_WAYPOINT", SW_OPT_BOOL, AT(tunnel.enforce_waypoint),
     .def = "true", .arg = "BOOL",
     .help = "A destination that has a waypoint takes connections only from it."},
    {"fast-path", "SPANWIRE_FAST_PATH", SW_OPT_BOOL, AT(tunnel.fast_path), .def = "true",
     .arg = "BOOL",
     .help = "Serve destinations of this node in the process, with the same checks, counters and "
             "logs."},
    {"early-data", "SPANWIRE_EARLY_DATA", SW_OPT_BOOL, AT(tunnel.early_data), .def = "true",
     .arg = "BOOL",
     .help = "Send a client's first bytes together with the CONNECT, on connections that are "
             "up, instead of waiting for its answer."},
    {"response-baggage", "ENABLE_RESPONSE_BAGGAGE", SW_OPT_BOOL, AT(tunnel.response_baggage),
     .def = "true", .arg = "BOOL", .help = "Exchange workload names in the baggage header."},
    {"aead", "SPANWIRE_AEAD", SW_OPT_ENUM, AT(crypto.aead), .def = "auto", .choices = sw_aeads,
     .help = "Who seals and opens TLS records: intel-ipsec-mb, GnuTLS, or the first that works."},
    {"pool-max-streams", "POOL_MAX_STREAMS_PER_CONNECTION", SW_OPT_U32, AT(tunnel.pool_max_streams),
     .def = "100", .min = 1, .max = 65535, .help = "Tunnels per pooled HTTP/2 connection."},
    {"pool-unused-release", "POOL_UNUSED_RELEASE_TIMEOUT", SW_OPT_DURATION,
     AT(tunnel.pool_unused_release_ns), .def = "5m",
     .help = "When an idle pooled connection is closed."},
    {"h2-stream-window", "HTTP2_STREAM_WINDOW_SIZE", SW_OPT_U32, AT(h2.stream_window),
     .def = "4194304", .arg = "BYTES", .min = 65535, .max = 2147483647,
     .help = "Flow-control window of a tunnel."},
    {"h2-connection-window", "HTTP2_CONNECTION_WINDOW_SIZE", SW_OPT_U32, AT(h2.connection_window),
     .def = "16777216", .arg = "BYTES", .min = 65535, .max = 2147483647,
     .help = "Flow-control window of a connection."},
    {"h2-frame-size", "HTTP2_FRAME_SIZE", SW_OPT_U32, AT(h2.frame_size), .def = "1048576",
     .arg = "BYTES", .min = 16384, .max = 16777215, .help = "Largest frame accepted."},

    {.type = SW_OPT_GROUP, .help = "TCP keep-alive"},
    {"keepalive", "KEEPALIVE_ENABLED", SW_OPT_BOOL, AT(keepalive.on), .def = "true", .arg = "BOOL",
     .help = "TCP keep-alive on upstream sockets and on those accepted at 15001 and 15006."},
    {"keepalive-time", "KEEPALIVE_TIME", SW_OPT_DURATION, AT(keepalive.time_ns), .def = "180s",
     .min = 1000, .max = 32767000, .help = "Silence before the first probe."},
    {"keepalive-interval", "KEEPALIVE_INTERVAL", SW_OPT_DURATION, AT(keepalive.interval_ns),
     .def = "180s", .min = 1000, .max = 32767000, .help = "Time between probes."},
    {"keepalive-retries", "KEEPALIVE_RETRIES", SW_OPT_U32, AT(keepalive.retries), .def = "9",
     .min = 1, .max = 127, .help = "Unanswered probes before the connection is dropped."},
    {"user-timeout", "USER_TIMEOUT_ENABLED", SW_OPT_BOOL, AT(keepalive.user_timeout),
     .def = "false", .help = "TCP_USER_TIMEOUT of time + retries x interval."},

    {.type = SW_OPT_GROUP, .help = "Logs"},
    {"log-level", "RUST_LOG", SW_OPT_STR, AT(log.level), .def = "info", .arg = "FILTER",
     .help = "off, error, warn, info, debug or trace, and per scope: info,access=debug."},
    {"log-format", "LOG_FORMAT", SW_OPT_ENUM, AT(log.format), .def = "plain",
     .choices = sw_log_formats, .help = "Tab-separated text, or one JSON object per line."},
    {"authz-info-log", "AUTHZ_POLICY_INFO_LOGGING", SW_OPT_BOOL, AT(log.authz_info), .def = "false",
     .help = "Log matches of dry-run policies at level info instead of debug."},
    {NULL, "PROXY_CONFIG", SW_OPT_STR, AT(istio.config),
     .help =
         "Istio ProxyConfig as YAML; proxyAdminPort, statsPort, concurrency, discoveryAddress and "
         "proxyMetadata are read, before it those of defaultConfig in ./etc/istio/config/mesh, if "
         "there is such a file."},
};

const struct sw_opts_cmd sw_node_options = {
    .name = "node",
    .usage = "[options]",
    .summary = "Encrypts, authorises and observes the TCP connections of workloads: plain\n"
               "connections are captured on 15001 and 15006 and carried between nodes as HBONE\n"
               "(mutual TLS and HTTP/2 CONNECT) on 15008.",
    .epilogue = "SIGTERM drains. See spanwire-node(8) and spanwire-local-config(5).",
    SW_OPTS_OF(table),
    .config_file = true,
};
