/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `spanwire control`: flags, variables, keys of its file, help and manual page. */
#include "cmd/control/options.h"

#include <stddef.h>

#include "base/time.h"
#include "control/gateway/controller.h"
#include "opts/process.h"

#define AT(field) .offset = offsetof(struct control_options, field)
static const struct sw_opt table[] = {
    {"data", "SPANWIRE_DATA", SW_OPT_STR, AT(data), .arg = "DIR",
     .help = "directory of the store, the keys and admin.kubeconfig; made when missing. Needed "
             "unless controllers work on another cluster"},
    {"listen", "SPANWIRE_LISTEN", SW_OPT_ADDR, AT(listen), .def = "127.0.0.1:6443",
     .help = "address of the API (HTTPS); port 0 takes a free one"},
    {"advertise", "SPANWIRE_ADVERTISE", SW_OPT_STR, AT(advertise), .arg = "HOST:PORT",
     .help = "address clients should use, if not the one listened on"},
    {"name", NULL, SW_OPT_LIST, AT(names), .arg = "NAME",
     .help =
         "further DNS name or address of the server's certificate, on another cluster of the xDS "
         "server's; may be repeated"},
    {"audit-log", "SPANWIRE_AUDIT_LOG", SW_OPT_STR, AT(audit_log), .arg = "FILE",
     .help = "append one JSON line per request"},
    {"relaxed-sync", NULL, SW_OPT_BOOL, AT(relaxed_sync),
     .help = "faster writes; a power failure may lose the last ones"},
    {"max-inflight", NULL, SW_OPT_U32, AT(max_inflight), .def = "400", .min = 1, .max = 100000,
     .help = "requests of one client at a time; more are answered with 429"},
    {"max-watches", NULL, SW_OPT_U32, AT(max_watches), .def = "4096", .min = 1, .max = 1000000,
     .help = "watches of one client; more are answered with 429"},
    {"max-connections", NULL, SW_OPT_U32, AT(max_conns), .def = "4096", .min = 16, .max = 1000000,
     .help = "connections to the API; for further ones idle connections are closed, "
             "unauthenticated ones first"},
    {"max-connections-per-address", NULL, SW_OPT_U32, AT(max_conns_addr), .def = "1024", .min = 1,
     .max = 1000000,
     .help = "connections of one address (IPv6: one /64) to the API; loopback is not limited"},
    {"max-namespace-objects", NULL, SW_OPT_U32, AT(space_objects), .def = "50000", .max = 100000000,
     .help = "objects in one namespace, whoever made them; more are refused with 403 unless a "
             "member of system:masters asks. 0 does not limit. ResourceQuotas limit kinds"},
    {"max-namespace-mib", NULL, SW_OPT_U32, AT(space_mib), .def = "512", .max = 1000000,
     .help = "the same in MiB of stored objects"},
    {"unread-timeout", NULL, SW_OPT_DURATION, AT(unread_timeout), .def = "60s", .min = 100,
     .help = "an answer of which the client reads nothing for so long is given up"},
    {"work-timeout", NULL, SW_OPT_DURATION, AT(work_timeout), .def = "30s", .min = 1,
     .help = "requests that take long (large bodies and lists) are given up after so long, with "
             "504"},
    {"keep-events", NULL, SW_OPT_U32, AT(keep_events), .def = "10000", .min = 1,
     .max = 100000, /* the store holds no more */
     .help = "changes older than --keep-for that are kept for watches that resume"},
    {"keep-for", NULL, SW_OPT_DURATION, AT(keep_for), .def = "5m",
     .help = "keep all changes this young for watches that resume"},
    {"fabric-kinds", NULL, SW_OPT_BOOL, AT(fabric_kinds), .def = "true",
     .help =
         "install the kinds of gateways, connectors, peers and policies where they are missing"},
    {"device-account", NULL, SW_OPT_STR, AT(device_account), .arg = "NAME",
     .help = "also keep a service account NAME in the namespace 'default' with the rights of a "
             "device over its objects, those called NAME, and its credential in "
             "DIR/roles/NAME.kubeconfig"},
    {"loopback-endpoints", "SPANWIRE_LOOPBACK_ENDPOINTS", SW_OPT_BOOL, AT(loopback_endpoints),
     .help = "accept loopback addresses in EndpointSlices and Endpoints, which Kubernetes refuses: "
             "backends on this machine"},
    SW_OPT_UPSTREAM(offsetof(struct control_options, upstream)),
    {"trust-roots", "SPANWIRE_TRUST_ROOTS", SW_OPT_STR, AT(trust_roots), .arg = "FILE",
     .help = "root certificates (PEM) to keep in a ConfigMap 'spanwire-ca-root-cert' of every "
             "namespace"},
    {.type = SW_OPT_GROUP, .help = "Another cluster"},
    {"kubeconfig", "SPANWIRE_KUBECONFIG", SW_OPT_STR, AT(cluster.kubeconfig), .arg = "FILE",
     .help = "controllers work on the Kubernetes API this file leads to, and none is served here; "
             "xDS is. Several such processes elect one that writes"},
    {"context", NULL, SW_OPT_STR, AT(cluster.context), .arg = "NAME",
     .help = "context of the kubeconfig [the current one]"},
    {"in-cluster", "SPANWIRE_IN_CLUSTER", SW_OPT_BOOL, AT(cluster.in_cluster),
     .help = "the same with the service account of the pod this runs in"},
    {"lease-namespace", "SPANWIRE_LEASE_NAMESPACE,POD_NAMESPACE", SW_OPT_STR, AT(cluster.lease_ns),
     .arg = "NS", .help = "where the leases of the election are [the context's namespace]"},
    {"identity", "SPANWIRE_IDENTITY,POD_NAME", SW_OPT_STR, AT(cluster.identity), .arg = "NAME",
     .help = "name in the election, of this replica alone [the host's and a random part]"},
    {"xds-cert", "SPANWIRE_XDS_CERT", SW_OPT_STR, AT(cluster.xds_cert), .arg = "FILE",
     .help = "certificate chain of the xDS server, followed when it changes [from a CA made in "
             "DIR/xds-ca]"},
    {"xds-key", "SPANWIRE_XDS_KEY", SW_OPT_STR, AT(cluster.xds_key), .arg = "FILE",
     .help = "its key"},
    {"xds-secret", "SPANWIRE_XDS_SECRET", SW_OPT_STR, AT(cluster.xds_secret), .arg = "NAME",
     .help = "instead: replicas share a CA in this Secret (tls.crt, tls.key) of the leases' "
             "namespace, made when missing; data planes find its root in the ConfigMap of the "
             "same name (ca.crt)"},
    {"xds-review", "SPANWIRE_XDS_REVIEW", SW_OPT_DURATION, AT(cluster.review_ns), .def = "10s",
     .min = 1000, .max = 240000,
     .help = "how often the token of a connected data plane is reviewed; a stream ends when the "
             "review says no"},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(cluster.admin), .def = "127.0.0.1:15014",
     .help = "metrics, readiness and /debug/xds, which the API has otherwise; also log levels"},
    SW_OPT_ADMIN(offsetof(struct control_options, cluster.access)),
    {"pages-addr", "SPANWIRE_PAGES_ADDR", SW_OPT_ADDR, AT(cluster.pages),
     .help =
         "the read-only pages a second time, for probes, scrapers and 'spanwire status': /ready, "
         "/metrics, /debug/xds"},

    {.type = SW_OPT_GROUP, .help = "Node proxies"},
    {"mesh-listen", "SPANWIRE_MESH_LISTEN", SW_OPT_ADDR, AT(mx.listen),
     .help = "address where node proxies find xDS and the certificate authority (gRPC over TLS); "
             "port 0 takes a free one. Without it there is none"},
    {"ca-dir", "SPANWIRE_CA_DIR", SW_OPT_STR, AT(mx.ca_dir), .arg = "DIR",
     .help = "certificate authority of the mesh: root.crt and root.key, made when missing, and "
             "further roots in roots.pem; or an intermediate CA as ca-cert.pem, ca-key.pem, "
             "cert-chain.pem and root-cert.pem, or as tls.crt, tls.key and ca.crt. Read again when "
             "changed. Without it: mesh-ca in --data"},
    {"ca-secret", "SPANWIRE_CA_SECRET", SW_OPT_BOOL, AT(mx.ca_secret),
     .help = "the certificate authority is in a Secret of --mesh-root-namespace: cacerts, "
             "when an operator made it, or else istio-ca-secret, which is made"},
    {"ca-rotate-wait", NULL, SW_OPT_DURATION, AT(mx.rotate_ns), .def = "90d", .min = 1000,
     .help = "how long a new root of our own is trusted before it signs; node proxies receive it "
             "when they renew certificates, at half of their life"},
    {"ca-ttl", NULL, SW_OPT_DURATION, AT(mx.ttl_ns), .def = "24h", .min = 60000,
     .help = "how long a certificate is valid when the request does not say"},
    {"ca-max-ttl", NULL, SW_OPT_DURATION, AT(mx.max_ttl_ns), .def = "90d", .min = 60000,
     .help = "requests for more are refused"},
    {"ca-renew-by-certificate", "SPANWIRE_CA_RENEW_BY_CERTIFICATE", SW_OPT_BOOL,
     AT(mx.by_certificate),
     .help = "a certificate of the mesh is enough to get the next one, as with istiod. Without it "
             "a token is needed, which ends with its pod or machine"},
    {"trust-domain-alias", NULL, SW_OPT_LIST, AT(mx.trust_aliases), .arg = "NAME",
     .help = "further trust domain whose identities the authority signs; may be repeated"},
    {"mesh-node-account", "CA_TRUSTED_NODE_ACCOUNTS", SW_OPT_LIST, AT(mx.node_accounts),
     .def = "istio-system/ztunnel", .arg = "NAMESPACE/NAME",
     .help = "service account of node proxies: they get the mesh's configuration, and certificates "
             "for the pods of their node; may be repeated"},
    {"mesh-name", NULL, SW_OPT_LIST, AT(mx.names), .arg = "NAME",
     .help = "further DNS name or address of the certificate of --mesh-listen; may be repeated"},
    {"join-address", "SPANWIRE_JOIN_ADDRESS", SW_OPT_STR, AT(mx.join_address), .arg = "HOST:PORT",
     .help =
         "how machines outside the cluster reach --mesh-listen: part of the codes of 'spanwire "
         "token create', and a name of the port's certificate [the address listened on; on another "
         "cluster no machine joins without it]"},
    {"mesh-review", NULL, SW_OPT_DURATION, AT(mx.review_ns), .def = "5s", .min = 1000,
     .help = "how often tokens of open streams are reviewed"},

    {.type = SW_OPT_GROUP, .help = "Gateways"},
    {"gateway", "SPANWIRE_GATEWAY", SW_OPT_BOOL, AT(gateway), .def = "true",
     .help = "turn Gateway API objects and Ingresses into configuration of data planes"},
    {"xds-listen", "SPANWIRE_XDS_LISTEN", SW_OPT_ADDR, AT(gw.listen), .def = "127.0.0.1:15012",
     .help = "address of the xDS server (gRPC over TLS, bearer tokens), for `spanwire gateway` and "
             "Envoy; port 0 takes a free one"},
    {"extension-listen", "SPANWIRE_EXTENSION_LISTEN", SW_OPT_ADDR, AT(gw.hooks),
     .help = "loopback address where Envoy Gateway finds its extension server in plain HTTP/2; on "
             "the xDS port the same hooks want a token"},
    {"gateway-controller", "SPANWIRE_GATEWAY_CONTROLLER", SW_OPT_STR, AT(gw.controller),
     .def = SW_GATEWAY_CONTROLLER_NAME, .arg = "NAME",
     .help = "GatewayClasses with this controllerName are served"},
    {"gateway-addresses", "SPANWIRE_GATEWAY_ADDRESSES", SW_OPT_STR, AT(gw.addresses), .arg = "LIST",
     .help = "addresses of Gateways, ADDRESS[=BIND], HOSTNAME=BIND or "
             "ADDRESS/PREFIX, joined by commas; BIND is where data planes listen for it "
             "[127.0.0.1; on another cluster 127.0.0.1=0.0.0.0]"},
    {"gateway-port-offset", "SPANWIRE_GATEWAY_PORT_OFFSET", SW_OPT_U32, AT(gw.port_offset),
     .def = "8000", .max = 60000,
     .help = "added to listener ports below 1024, which need no root then (80 is served on 8080); "
             "0 serves them as they are"},
    {"gateway-reserved-ports", "SPANWIRE_GATEWAY_RESERVED_PORTS", SW_OPT_STR, AT(gw.reserved),
     .arg = "LIST",
     .help = "TCP ports that no Gateway gets, PORT or FIRST-LAST joined by commas, because other "
             "programs of the machine listen there; with the embedded API its own port and that "
             "of --xds-listen, too, where a Gateway could listen on their address"},
    {"ingress-shared-hosts", "SPANWIRE_INGRESS_SHARED_HOSTS", SW_OPT_BOOL,
     AT(gw.ingress_shared_hosts),
     .help = "Ingresses of different namespaces may serve one host together; without it a host is "
             "the namespace's whose Ingress is the oldest"},
    {"gateway-access-log", NULL, SW_OPT_BOOL, AT(gw.access_log),
     .help = "data planes print a line per request"},
    {"gateway-gzip", "SPANWIRE_GATEWAY_GZIP", SW_OPT_BOOL, AT(gw.gzip),
     .help = "data planes compress text for clients that take gzip"},
    {"gateway-http10", "SPANWIRE_GATEWAY_HTTP10", SW_OPT_BOOL, AT(gw.http10),
     .help = "data planes serve HTTP/1.0 requests that name a host; others are answered with 426"},
    {"envoy-resolves", "SPANWIRE_ENVOY_RESOLVES", SW_OPT_BOOL, AT(gw.envoy_resolves),
     .help = "Envoys look up the host names of backends themselves; without it they get addresses "
             "that were resolved and checked here. Nothing then keeps a name of a tenant from "
             "loopback or a metadata service but a firewall below Envoy"},
    {"gateway-via", "SPANWIRE_GATEWAY_VIA", SW_OPT_STR, AT(gw.via), .arg = "TEXT",
     .help = "data planes append this to the Via header of requests and answers, e.g. "
             "'1.1 edge.example.com' [no Via]"},
    {"connect-proxy", "SPANWIRE_CONNECT_PROXY", SW_OPT_STR, AT(gw.connect_proxy),
     .arg = "ADDR|PATH",
     .help = "where data planes send CONNECT requests for connectors [127.0.0.1:15040]"},

    {.type = SW_OPT_GROUP, .help = "Mesh"},
    {"mesh", "SPANWIRE_MESH", SW_OPT_BOOL, AT(mesh), .def = "true",
     .help = "turn Pods, Services, EndpointSlices, ServiceEntries, WorkloadEntries and waypoint "
             "Gateways into workloads and services of mesh nodes, on --mesh-listen or else "
             "on the gateway's xDS server"},
    {"cluster-id", "CLUSTER_ID", SW_OPT_STR, AT(ms.cluster_id), .def = "Kubernetes", .arg = "NAME",
     .help = "name of the cluster in the names of workloads"},
    {"trust-domain", "SPANWIRE_TRUST_DOMAIN", SW_OPT_STR, AT(ms.trust_domain),
     .def = "cluster.local", .arg = "NAME", .help = "trust domain of the mesh's identities"},
    {"cluster-domain", NULL, SW_OPT_STR, AT(ms.domain), .def = "cluster.local", .arg = "DOMAIN",
     .help = "DNS domain of Services: NAME.NAMESPACE.svc.DOMAIN"},
    {"mesh-root-namespace", NULL, SW_OPT_STR, AT(ms.root_ns), .def = "istio-system",
     .arg = "NAMESPACE",
     .help = "namespace whose label topology.istio.io/network names the network of this cluster"},
    {"mesh-network", "SPANWIRE_MESH_NETWORK", SW_OPT_STR, AT(ms.network), .arg = "NAME",
     .help = "network of this cluster where the label of the root namespace does not say"},
    {"mesh-global", NULL, SW_OPT_LIST, AT(ms.global), .def = "istio.io/global=true",
     .arg = "SELECTOR[;SELECTOR]",
     .help = "Services that other clusters and networks are endpoints of too (scope GLOBAL): a "
             "label selector of Services, after a semicolon one of their namespaces; may be "
             "repeated"},
    {"mesh-clusters", NULL, SW_OPT_BOOL, AT(ms.clusters),
     .help = "read the other clusters of the mesh, too: their kubeconfigs are in Secrets of "
             "--mesh-root-namespace with the label istio/multiCluster=true, a key for each"},
    {"mesh-revision", NULL, SW_OPT_STR, AT(ms.revision), .arg = "NAME",
     .help = "read only ServiceEntries and WorkloadEntries whose label istio.io/rev is NAME or "
             "absent"},
    {"mesh-statuses", NULL, SW_OPT_BOOL, AT(ms.statuses), .def = "true",
     .help = "write conditions of Services, ServiceEntries and WorkloadEntries"},
    {"mesh-allocate", NULL, SW_OPT_BOOL, AT(ms.allocate), .def = "true",
     .help = "give addresses to the hosts of ServiceEntries that have none, in their status"},
    {"mesh-allocate-ipv4", NULL, SW_OPT_STR, AT(ms.prefix4), .def = "240.240.0.0/16", .arg = "CIDR",
     .help = "block of these addresses"},
    {"mesh-allocate-ipv6", NULL, SW_OPT_STR, AT(ms.prefix6), .def = "2001:2::/48", .arg = "CIDR",
     .help = "block of these addresses"},
    {"mesh-entry-visibility", NULL, SW_OPT_LIST, AT(ms.visibility), .def = "unset",
     .arg = "VISIBILITY[;SELECTOR]",
     .help = "who sees ServiceEntries: public, namespace (their own only), none; after a semicolon "
             "a label selector of the namespaces it is for; may be repeated, and of several the "
             "first that matches counts, else public; unset, alone, is public without a condition "
             "that says so"},
    {"mesh-dry-run-policies", NULL, SW_OPT_BOOL, AT(ms.dry_run),
     .help = "send AuthorizationPolicies with the annotation istio.io/dry-run, marked as such"},
    {"mesh-allow-waypoints", NULL, SW_OPT_BOOL, AT(ms.allow_waypoints),
     .help =
         "workloads behind a waypoint accept connections of its service accounts and no others, "
         "unless a policy allows more"},
    {.type = SW_OPT_GROUP, .help = "Links between clusters"},
    {"link-listen", "SPANWIRE_LINK_LISTEN", SW_OPT_ADDR, AT(ln.listen),
     .help = "address where data planes of links (`spanwire link`, ClusterLink's) find xDS and "
             "authorisation, in HTTP/2 over TLS with certificates of the site; port 0 takes a free "
             "one. Without it there are no links"},
    {"link-fabric", "SPANWIRE_LINK_FABRIC", SW_OPT_STR, AT(ln.fabric), .arg = "DIR",
     .help = "CA of the fabric and certificate of this site: ca.pem, cert.pem, key.pem; the "
             "certificate's first DNS name is the site's. Read again when changed; waited for "
             "while there are none. With ca.key other sites may join (spanwire-token(1)) [the "
             "Secret cl-peer of --link-namespace]"},
    {"link-peer-ttl", "SPANWIRE_LINK_PEER_TTL", SW_OPT_DURATION, AT(ln.peer_ttl_ns), .def = "90d",
     .min = 10000,
     .help = "with ca.key in --link-fabric: how long certificates of sites that join, and its own "
             "when renewed, are valid; sites renew them after two thirds of it"},
    {"link-site", "SPANWIRE_LINK_SITE", SW_OPT_STR, AT(ln.site), .arg = "DIR",
     .help = "certificates between this process and its data planes: ca.pem, control.pem, "
             "control.key, dataplane.pem, dataplane.key; made when missing [link-site in --data]"},
    {"link-namespace", "CL_NAMESPACE", SW_OPT_STR, AT(ln.ns), .def = "clusterlink-system",
     .arg = "NAMESPACE",
     .help = "where Peers are, and the Secrets jwk (key of tokens, made when missing) and cl-peer"},
    {"peer-label", NULL, SW_OPT_LIST, AT(ln.labels), .arg = "KEY=VALUE",
     .help = "label of this site that access policies may select; may be repeated"},
    {"link-address", NULL, SW_OPT_LIST, AT(ln.addresses), .arg = "IP",
     .help = "where data planes of links are reached when no pod is labelled app=cl-dataplane; may "
             "be repeated"},
    {"link-gateway", NULL, SW_OPT_LIST, AT(ln.gateways), .arg = "HOST:PORT",
     .help = "where other sites reach data planes of this one, for sites that join with a code; "
             "may be repeated"},
    {"link-export-host", NULL, SW_OPT_LIST, AT(ln.export_hosts), .arg = "HOST",
     .help =
         "what spec.host of an Export may be besides Services of its own namespace: an address, "
         "a block, a name, *.SUFFIX, or * for anything; may be repeated. Data planes judge what "
         "a name resolves to by their own rules"},
    {"link-ports", NULL, SW_OPT_STR, AT(ln.ports), .arg = "FIRST-LAST",
     .help = "target ports that Imports may have; data planes listen there, and gateways connect "
             "to them on behalf of every namespace, so nothing else may listen there where data "
             "planes run [20000-29999 with the embedded API, else 1024-49151]"},
    {"link-known-peers-only", NULL, SW_OPT_BOOL, AT(ln.known_peers_only),
     .help = "peers without a Peer object here get no tokens"},

    {.type = SW_OPT_GROUP, .help = "Connectors"},
    {"connector", "SPANWIRE_CONNECTOR", SW_OPT_BOOL, AT(connector), .def = "true",
     .help = "keep Connectors and their Leases, and serve HTTPProxies"},
    {"connector-lease", NULL, SW_OPT_DURATION, AT(cn.lease), .def = "30s",
     .help = "how long a connector that does not report counts as alive"},
    {"connector-gateway-class", NULL, SW_OPT_STR, AT(cn.gateway_class), .def = "spanwire",
     .arg = "NAME",
     .help = "GatewayClass of the Gateways made for HTTPProxies; made when missing, unless Envoy "
             "Gateway is to serve it"},
    {"target-domain", "SPANWIRE_TARGET_DOMAIN", SW_OPT_STR, AT(cn.target_domain),
     .def = "connect.localhost", .arg = "DOMAIN",
     .help = "every HTTPProxy gets a name below this domain"},
    {"gateway-id", NULL, SW_OPT_LIST, AT(cn.gateway_ids), .arg = "NODEID",
     .help =
         "a gateway that connectors shall let in, besides those that registered themselves; may "
         "be repeated"},
    {"relay-url", "SPANWIRE_RELAY_URL", SW_OPT_STR, AT(cn.relay_url), .arg = "URL",
     .help = "relay advertised to connectors without one of their own, and allowed by sidecars"},
    {"connector-certificates", NULL, SW_OPT_BOOL, AT(cn.certificates), .def = "true",
     .help = "issue certificates for the names of HTTPProxies, from the CA in DIR/connect-ca"},
    {"certificate-domain", NULL, SW_OPT_LIST, AT(cn.cert_domains), .arg = "DOMAIN",
     .help = "domain that CA may sign names of, besides --target-domain and localhost; may be "
             "repeated"},
    {"device-ports", "SPANWIRE_DEVICE_PORTS", SW_OPT_STR, AT(cn.device_ports), .arg = "FIRST-LAST",
     .help = "ports of the gateways that HTTPProxies may have for TCP services [none]"},
    {"envoy-gateway", NULL, SW_OPT_BOOL, AT(cn.envoy_gateway),
     .help = "the Gateways of HTTPProxies are served by Envoy Gateway, with this process as its "
             "extension server: touch them when a connector comes or goes"},
    {"envoy-static-tunnel", NULL, SW_OPT_BOOL, AT(gw.static_tunnel),
     .help =
         "its Envoys have the tunnel's listener and cluster in their bootstrap ('spanwire envoy "
         "patch')"},
    {"envoy-patch-policies", NULL, SW_OPT_BOOL, AT(cn.patch_policies),
     .help = "write EnvoyPatchPolicies for HTTPProxies with connectors, for an Envoy Gateway "
             "without the extension server"},

    {.type = SW_OPT_GROUP, .help = "Discovery DNS"},
    {"dns-listen", "SPANWIRE_DNS_LISTEN", SW_OPT_LIST, AT(dns.listen), .arg = "ADDR",
     .help = "serve the zone of connectors here, UDP and TCP; may be repeated"},
    {"dns-zone", "SPANWIRE_DNS_ZONE", SW_OPT_STR, AT(dns.zone), .arg = "ZONE",
     .help = "where connectors are published: _iroh.<key>.ZONE"},
    {"dns-ns", "SPANWIRE_DNS_NS", SW_OPT_LIST, AT(dns.ns), .arg = "NAME[=IP]",
     .help = "a server of the zone, the first is the primary; a name without a dot stands below "
             "the zone; may be repeated, also for further addresses [ns=the address listened on]"},
    {"dns-ttl", NULL, SW_OPT_U32, AT(dns.ttl), .def = "5", .min = 1, .max = 86400,
     .help = "seconds that resolvers may remember a connector, or that there is none"},
    {"dns-secondary", "SPANWIRE_DNS_SECONDARY", SW_OPT_LIST, AT(dns.secondaries),
     .arg = "IP[:PORT]",
     .help = "told about changes, and allowed to transfer the zone; may be repeated"},
    {"dns-transfer-key", NULL, SW_OPT_LIST, AT(dns.keys), .arg = "FILE",
     .help = "TSIG key (hmac-sha256) that allows to transfer the zone; when there is one, "
             "addresses alone do not; may be repeated"},
    {"dns-rate", NULL, SW_OPT_U32, AT(dns.rate), .def = "200", .max = 1000000,
     .help = "UDP answers per second to one network (/24 or /56); 0 does not limit"},
    {"dns-stale", NULL, SW_OPT_DURATION, AT(dns.stale_ns), .def = "10m",
     .help = "a connector that was not ready for so long is withdrawn, and its key free for "
             "another; 0 keeps it"},
    {"dns-update", "SPANWIRE_DNS_UPDATE", SW_OPT_STR, AT(dns.update), .arg = "IP[:PORT]",
     .help = "keep the records in the zone of this server, by dynamic updates"},
    {"dns-tsig-key", "SPANWIRE_DNS_TSIG_KEY", SW_OPT_STR, AT(dns.tsig_key), .arg = "FILE",
     .help = "TSIG key (hmac-sha256) of updates"},
    {"dns-resync", NULL, SW_OPT_DURATION, AT(dns.resync_ns), .def = "5m", .min = 100,
     .help = "how often that zone is compared with what it should have"},
    {"dns-owner", NULL, SW_OPT_STR, AT(dns.owner), .arg = "NAME",
     .help = "our name among the publishers of that zone [made once, in DIR/dns-owner]"},

    {.type = SW_OPT_GROUP, .help = "Process"},
    {"drain", NULL, SW_OPT_DURATION, AT(drain), .def = "5s",
     .help = "time for begun requests when stopping"},
    {"log-level", "SPANWIRE_LOG,RUST_LOG", SW_OPT_STR, AT(log_level), .def = "info",
     .help = "log filter, e.g. info or debug,api=trace"},
    {"log-format", "LOG_FORMAT", SW_OPT_ENUM, AT(log_format), .def = "plain",
     .choices = sw_log_formats, .help = "form of log lines"},
};

const struct sw_opts_cmd sw_control_options = {
    .name = "control",
    .usage = "--data DIR | --kubeconfig FILE [options]",
    .summary = "Serves a Kubernetes-style API from an embedded store, and runs the\n"
               "controllers on it or on another cluster.",
    SW_OPTS_OF(table),
    .config_file = true,
};
