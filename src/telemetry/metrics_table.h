/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every metric there is, in one list: X(id, type, name, labels, help). Code, output and the
 * reference page come from it. Counter names carry no '_total' here: the output adds it.
 * 'labels' is a comma separated list in output order.
 */
#pragma once

/* clang-format off */
#define SW_METRICS(X) \
    X(ISTIO_BUILD, GAUGE, "istio_build", "component,tag", "Component and version, always 1") \
    X(SOCKETS_OPEN, GAUGE, "istio_tcp_sockets_open", "reporter", \
      "Accepted sockets that are alive (unstable)") \
    X(ON_DEMAND_DNS, COUNTER, "istio_on_demand_dns", \
      "source_workload,source_canonical_service,source_canonical_revision," \
      "source_workload_namespace,source_principal,source_app,source_version,source_cluster," \
      "hostname", \
      "Names resolved while a connection waited (unstable)") \
    X(CRL_REJECTIONS, COUNTER, "istio_crl_policy_rejections", "reporter", \
      "Connections refused because a certificate is revoked (unstable)") \
    X(CRL_UNTRACKED, COUNTER, "istio_crl_untracked_connections", "reporter", \
      "Connections a new revocation list could not be applied to (unstable)") \
    X(XDS_TERMINATIONS, COUNTER, "istio_xds_connection_terminations", "reason", \
      "Streams to the control plane that ended, by reason") \
    X(XDS_MESSAGES, COUNTER, "istio_xds_message", "url", \
      "Messages from the control plane, by resource type") \
    X(XDS_MESSAGE_BYTES, COUNTER, "istio_xds_message_bytes", "url", \
      "Bytes of messages from the control plane, by resource type") \
    X(XDS_STREAMS, GAUGE, "spanwire_xds_streams", "", "Streams open at the xDS server") \
    X(XDS_RESPONSES, COUNTER, "spanwire_xds_responses", "url", \
      "Responses sent by the xDS server, by resource type") \
    X(XDS_RESPONSE_BYTES, COUNTER, "spanwire_xds_response_bytes", "url", \
      "Bytes of responses sent by the xDS server, by resource type") \
    X(XDS_ANSWERS, COUNTER, "spanwire_xds_answers", "url,result", \
      "Responses of the xDS server that clients accepted (ack) or refused (nack)") \
    X(XDS_REFUSALS, COUNTER, "spanwire_xds_refusals", "reason", \
      "Streams that the xDS server refused or ended: unauthenticated, forbidden, type, invalid, limit, unavailable") \
    X(LINK_DECISIONS, COUNTER, "spanwire_link_decisions", "side,result,reason", \
      "Decisions about links: egress, token, ingress, review; allowed, denied or failed, and why") \
    X(LINK_TOKENS, COUNTER, "spanwire_link_tokens", "result", \
      "Tokens for links: minted, used, expired, replayed, older (than the process), stolen, invalid, full (too many to remember)") \
    X(LINK_HEARTBEATS, COUNTER, "spanwire_link_heartbeats", "peer,result", \
      "Heartbeats to peers, by result (ok, failed)") \
    X(LINK_PEER_REACHABLE, GAUGE, "spanwire_link_peer_reachable", "peer", \
      "1 while the last heartbeat of a peer was answered") \
    X(LINK_FABRIC_RELOADS, COUNTER, "spanwire_link_fabric_reloads", "result", \
      "Times the fabric's certificate was read, by result (ok, failed)") \
    X(LINK_FABRIC_RENEWALS, COUNTER, "spanwire_link_fabric_renewals", "result", \
      "Times a new fabric certificate was requested, by result (ok, failed)") \
    X(CA_REQUESTS, COUNTER, "spanwire_ca_requests", "result", \
      "Certificate requests: issued, unauthenticated, invalid, failed") \
    X(CA_ROOT_EXPIRES, GAUGE, "spanwire_ca_root_expires_seconds", "", \
      "When the root or intermediate that signs expires, in seconds since the epoch") \
    X(CA_ROTATIONS, COUNTER, "spanwire_ca_rotations", "step", \
      "Steps of rotations of the root: announce, switch, forget") \
    X(JOIN_REQUESTS, COUNTER, "spanwire_join_requests", "result", \
      "Machines that joined, renewed or left, and requests refused, limited because an address caused too many refusals, or failed") \
    X(XDS_CONNECTED, GAUGE, "spanwire_xds_connected", "", \
      "1 while a stream to the control plane is up") \
    X(XDS_REFUSED, COUNTER, "spanwire_xds_refused", "url", \
      "Responses of the control plane that were refused, by resource type") \
    X(MESH_STORED, GAUGE, "spanwire_mesh_stored_state", "", \
      "1 while the node serves what it stored, because the control plane has not answered yet") \
    X(MESH_LOOKUPS, COUNTER, "spanwire_mesh_lookups", "result", \
      "Connections that waited for a destination lookup: answered, timeout, limit") \
    X(CONNECTORS_ONLINE, GAUGE, "spanwire_connectors_online", "", \
      "Connectors that are alive and have a valid key") \
    X(CONNECTOR_REFUSALS, COUNTER, "spanwire_connector_refusals", "reason", \
      "Connectors and HTTPProxies refused, by the reason of their condition") \
    X(LINK_REFUSALS, COUNTER, "spanwire_link_refusals", "reason", \
      "Objects of links that cannot be used: PortConflict, ServiceConflict, UnknownScheme, InvalidExport, InvalidPolicy") \
    X(GATEWAY_REFUSALS, COUNTER, "spanwire_gateway_refusals", "reason", \
      "What is not served: host names of others (HostnameInUse), special addresses of endpoints (EndpointAddress), host names beyond the limit (EndpointNames)") \
    X(CONNECTOR_CERTS, COUNTER, "spanwire_connector_certificates", "result", \
      "Certificates for names of HTTPProxies: issued or failed") \
    X(MESH_OBJECTS, GAUGE, "spanwire_mesh_objects", "kind", \
      "Objects that the mesh's workloads and services are made of") \
    X(MESH_WAYPOINTLESS, GAUGE, "spanwire_mesh_waypointless_services", "traffic", \
      "Services bound to a waypoint that is not ready or not allowed: held (refused) or passed (sent past it)") \
    X(MESH_CHANGES, COUNTER, "spanwire_mesh_changes", "what", \
      "Changes of workloads and services that were published: set, removed") \
    X(MESH_REFUSALS, COUNTER, "spanwire_mesh_refusals", "what", \
      "What the mesh does not publish: objects that make no sense, resources that are too large") \
    X(DNS_ANSWERS, COUNTER, "spanwire_dns_answers", "transport,rcode", \
      "Answers of the discovery DNS server, by code") \
    X(DNS_DROPPED, COUNTER, "spanwire_dns_dropped", "reason", \
      "What it did not answer in full: malformed, rate, slip (sent to TCP), connections") \
    X(DNS_TRANSFERS, COUNTER, "spanwire_dns_transfers", "result", \
      "Zone transfers to secondaries: sent, stalled") \
    X(DNS_NOTIFIES, COUNTER, "spanwire_dns_notifies", "result", \
      "NOTIFY sent to secondaries: acknowledged, refused, lost") \
    X(DNS_SERIAL, GAUGE, "spanwire_dns_serial", "", "Serial of the zone that is served") \
    X(DNS_SETS, GAUGE, "spanwire_dns_record_sets", "", "Record sets of the zone that is served") \
    X(DNS_UPDATES, COUNTER, "spanwire_dns_updates", "result", \
      "Dynamic updates sent: done, foreign (owned by another publisher), refused, failed") \
    X(DNS_REQUESTS, COUNTER, "istio_dns_requests", \
      "request_query_type,request_protocol,source_canonical_service,source_canonical_revision", \
      "Queries that reached the DNS proxy (unstable)") \
    X(DNS_UPSTREAM_REQUESTS, COUNTER, "istio_dns_upstream_requests", \
      "request_query_type,request_protocol,source_canonical_service,source_canonical_revision", \
      "Queries forwarded to the upstream resolver (unstable)") \
    X(DNS_UPSTREAM_FAILURES, COUNTER, "istio_dns_upstream_failures", \
      "request_query_type,request_protocol,source_canonical_service,source_canonical_revision", \
      "Forwarded queries without an answer (unstable)") \
    X(DNS_UPSTREAM_SECONDS, HISTOGRAM, "istio_dns_upstream_request_duration_seconds", \
      "request_query_type,request_protocol,source_canonical_service,source_canonical_revision", \
      "Time the upstream resolver took (unstable)") \
    X(PROXIES_ACTIVE, GAUGE, "workload_manager_active_proxy_count", "", \
      "Workloads that are served now") \
    X(PROXIES_PENDING, GAUGE, "workload_manager_pending_proxy_count", "", \
      "Workloads whose listeners could not be started yet") \
    X(PROXIES_STARTED, COUNTER, "workload_manager_proxies_started", "", \
      "Workloads that came under service") \
    X(PROXIES_STOPPED, COUNTER, "workload_manager_proxies_stopped", "", \
      "Workloads that left service") \
    X(ZDS_CONNECTED, GAUGE, "spanwire_zds_connected", "", "1 while the node agent is connected") \
    X(ZDS_REFUSALS, COUNTER, "spanwire_zds_refusals", "reason", \
      "Requests of the node agent that were refused") \
    X(CNI_PODS, GAUGE, "spanwire_cni_pods", "state", \
      "Pods of the node agent: enrolled, or pending on the way in or out") \
    X(CNI_ADDS, COUNTER, "spanwire_cni_adds", "result", \
      "Calls of the plugin for new pods, by what came of them") \
    X(CNI_FAILURES, COUNTER, "spanwire_cni_failures", "reason", \
      "Steps into or out of the mesh that failed and are tried again") \
    X(LINK_CONNECTIONS, COUNTER, "spanwire_link_connections", "side,peer,result", \
      "Connections of imports and exports that ended, by the other site and by what came of them") \
    X(LINK_OPEN, GAUGE, "spanwire_link_connections_open", "side", \
      "Connections of imports and exports whose bytes flow") \
    X(LINK_BYTES, COUNTER, "spanwire_link_bytes", "side,peer,direction", \
      "Bytes received from and sent to the connecting side, by the other site") \
    X(LINK_AUTHORISATIONS, COUNTER, "spanwire_link_authorisations", "kind,result", \
      "Questions to the control plane (egress, ingress, token, health): allowed, denied, failed, unreachable") \
    X(LINK_AUTHORISE_SECONDS, HISTOGRAM, "spanwire_link_authorisation_duration_seconds", "kind", \
      "Time the control plane took to answer") \
    X(LINK_REVIEWS, COUNTER, "spanwire_link_reviews", "result", \
      "Open connections judged again after a policy change: ok, denied and closed; failed: questions without an answer") \
    X(LINK_REFUSED, COUNTER, "spanwire_link_refused", "reason", \
      "Connections and requests refused before they were authorised, by reason") \
    X(LINK_UNBOUND, GAUGE, "spanwire_link_sockets_unbound", "", \
      "Sockets of imports that cannot be opened, over all workers: the port is taken, for example") \
    X(OPEN_FDS, GAUGE, "process_open_fds", "", "Open file descriptors of the process") \
    X(MAX_FDS, GAUGE, "process_max_fds", "", "Most file descriptors the process may open") \
    X(STORE_OBJECTS, GAUGE, "spanwire_store_objects", "", "Objects of the embedded store") \
    X(STORE_CHANGES, GAUGE, "spanwire_store_changes", "", \
      "Changes kept in memory for watches that resume") \
    X(STORE_CHANGE_BYTES, GAUGE, "spanwire_store_change_bytes", "", \
      "Size of the objects of those changes") \
    X(GW_REQUESTS, COUNTER, "spanwire_gateway_requests", "listener,code_class", \
      "Requests answered, by class of the status (none: the client left before)") \
    X(GW_SECONDS, HISTOGRAM, "spanwire_gateway_request_duration_seconds", "listener", \
      "From the head of a request to the end of its answer") \
    X(GW_CONNECTIONS, GAUGE, "spanwire_gateway_connections", "listener", \
      "Connections of clients that are open") \
    X(GW_REFUSED, COUNTER, "spanwire_gateway_connections_refused", "listener,reason", \
      "Connections of clients that were refused and closed, by reason") \
    X(GW_EVICTED, COUNTER, "spanwire_gateway_connections_evicted", "", \
      "Idle connections of clients that were closed for lack of file descriptors") \
    X(GW_TLS_FAILURES, COUNTER, "spanwire_gateway_tls_failures", "listener,reason", \
      "Handshakes with clients that failed, by reason") \
    X(GW_LOCAL_REPLIES, COUNTER, "spanwire_gateway_local_replies", "listener,reason", \
      "Requests the gateway answered itself, by reason: refusals, failures, redirects") \
    X(GW_UNBOUND, GAUGE, "spanwire_gateway_sockets_unbound", "", \
      "Listening sockets that cannot be opened, over all workers: the port is taken, for example") \
    X(GW_IO_URING, GAUGE, "spanwire_gateway_io_uring", "", \
      "1 when many connections are read and written with one system call (io_uring)") \
    X(GW_GZIP_BYTES, COUNTER, "spanwire_gateway_gzip_bytes", "direction", \
      "Bytes of answers before (in) and after (out) compression") \
    X(GW_LOG_LOST, COUNTER, "spanwire_gateway_access_log_lost", "", \
      "Access-log lines that could not be written") \
    X(GW_FAILURES_UNLOGGED, COUNTER, "spanwire_gateway_failures_unlogged", "", \
      "Requests that failed without a log line of their own: too many in one second") \
    X(GW_CONFIG_REFUSED, COUNTER, "spanwire_gateway_config_refused", "type", \
      "Resources of the control plane that were rejected, previous version kept") \
    X(CONTROL_OBJECTS_LIMITED, COUNTER, "spanwire_control_objects_limited", "", \
      "Routes and Ingresses found beyond a limit of the table they stand in; the log names them") \
    X(GW_HOSTS_INVALID, GAUGE, "spanwire_gateway_hosts_invalid", "", \
      "Virtual hosts beyond a limit: their requests get an error, the others of the table are served") \
    X(GW_CLUSTER_REQUESTS, COUNTER, "spanwire_gateway_cluster_requests", "cluster,code_class", \
      "Attempts at members of a cluster, by class of the answer (none: failed without one)") \
    X(GW_CLUSTER_FAILURES, COUNTER, "spanwire_gateway_cluster_failures", "cluster,reason", \
      "What went wrong: connect, tls, timeout, overflow (a circuit limit), no_host") \
    X(GW_CLUSTER_RETRIES, COUNTER, "spanwire_gateway_cluster_retries", "cluster", \
      "Attempts that repeat a failed one") \
    X(GW_CLUSTER_FAILOVERS, COUNTER, "spanwire_gateway_cluster_failovers", "cluster", \
      "Attempts at another member because the first accepted no connection") \
    X(GW_CLUSTER_EJECTIONS, COUNTER, "spanwire_gateway_cluster_ejections", "cluster", \
      "Members taken out for their errors or for refused connections") \
    X(GW_CLUSTER_ACTIVE, GAUGE, "spanwire_gateway_cluster_active_requests", "cluster", \
      "Requests and tunnels under way") \
    X(GW_CLUSTER_CONNECTIONS, GAUGE, "spanwire_gateway_cluster_connections", "cluster", \
      "Connections open or being opened") \
    X(GW_CLUSTER_MEMBERS, GAUGE, "spanwire_gateway_cluster_members", "cluster,state", \
      "Members by state (healthy, failing, ejected, set_aside)") \
    X(CONNECTOR_CONNECTIONS, GAUGE, "spanwire_connector_connections", "path", \
      "Gateways connected to this device, by path (direct, relay)") \
    X(CONNECTOR_EXCHANGES, COUNTER, "spanwire_connector_exchanges", "kind,result", \
      "Tunnels and requests this device served, by kind (tcp, udp, http, upgrade) and result") \
    X(CONNECTOR_BYTES, COUNTER, "spanwire_connector_bytes", "direction", \
      "Bytes to (in) and from (out) the services of this device") \
    X(CONNECTOR_API, COUNTER, "spanwire_connector_api_calls", "result", \
      "Answers of the API to this device (ok, denied, failed)") \
    X(CONNECTOR_LIVE, GAUGE, "spanwire_connector_live", "", \
      "1 while the Lease of this device is renewed in time") \
    X(CONNECTOR_QUIC, COUNTER, "spanwire_connector_quic_events", "event", \
      "Of this device's endpoint: accepted, failed, refused, retry, stream_reset, dropped (packets), path_slower (congestion control began anew), held_back (a stream, by what all hold), probe_sent, probe_received, probe_dropped (see spanwire-connector(8), Direct paths), direct_failed (a connection stays on the relay)") \
    X(QUIC_RTT, GAUGE, "spanwire_quic_rtt_microseconds", "path", \
      "Largest round trip of the connections by this kind of path (direct, relay)") \
    X(QUIC_BUFFERED, GAUGE, "spanwire_quic_buffered_bytes", "", \
      "Bytes streams hold, to be sent or not taken yet (--max-buffered)") \
    X(RELAY_CLIENTS, GAUGE, "spanwire_relay_clients", "", "Clients connected to the relay") \
    X(RELAY_ACCEPTS, COUNTER, "spanwire_relay_accepts", "", "Clients that were let in") \
    X(RELAY_DISCONNECTS, COUNTER, "spanwire_relay_disconnects", "", "Clients that left") \
    X(RELAY_UNIQUE_KEYS, COUNTER, "spanwire_relay_unique_client_keys", "", \
      "NodeIDs that connected while they had no other connection") \
    X(RELAY_INACTIVE_ADDED, COUNTER, "spanwire_relay_clients_inactive_added", "", \
      "Connections another one of the same NodeID took over from") \
    X(RELAY_INACTIVE_REMOVED, COUNTER, "spanwire_relay_clients_inactive_removed", "", \
      "Connections of a NodeID that ended while it had others") \
    X(RELAY_BYTES_SENT, COUNTER, "spanwire_relay_bytes_sent", "", "Payload forwarded to clients") \
    X(RELAY_BYTES_RECV, COUNTER, "spanwire_relay_bytes_recv", "", "Payload received from clients") \
    X(RELAY_PACKETS_SENT, COUNTER, "spanwire_relay_send_packets_sent", "", \
      "Datagram frames forwarded to clients") \
    X(RELAY_PACKETS_RECV, COUNTER, "spanwire_relay_send_packets_recv", "", \
      "Datagram frames received from clients") \
    X(RELAY_PACKETS_DROPPED, COUNTER, "spanwire_relay_send_packets_dropped", "reason", \
      "Datagram frames dropped: unknown (no client with that NodeID), queue (the receiver is too slow)") \
    X(RELAY_GOT_PING, COUNTER, "spanwire_relay_got_ping", "", "Pings of clients") \
    X(RELAY_SENT_PONG, COUNTER, "spanwire_relay_sent_pong", "", "Answers to them") \
    X(RELAY_UNKNOWN_FRAMES, COUNTER, "spanwire_relay_unknown_frames", "", \
      "Messages that are none of the relay protocol") \
    X(RELAY_LIMITED_BYTES, COUNTER, "spanwire_relay_bytes_rx_ratelimited", "", \
      "Bytes after which a client had to wait for its rate") \
    X(RELAY_LIMITED_CONNS, COUNTER, "spanwire_relay_conns_rx_ratelimited", "", \
      "Connections that had to wait for their rate at least once") \
    X(RELAY_HTTP_CONNECTIONS, COUNTER, "spanwire_relay_http_connections", "", \
      "Connections accepted") \
    X(RELAY_HTTP_CLOSED, COUNTER, "spanwire_relay_http_connections_closed", "", \
      "Connections that ended, or became clients") \
    X(RELAY_HTTP_ERRORED, COUNTER, "spanwire_relay_http_connections_errored", "", \
      "Connections that broke the rules before they became clients") \
    X(RELAY_ROSTER, GAUGE, "spanwire_relay_roster", "kind", \
      "NodeIDs that may connect because the control plane knows them: device, gateway") \
    X(RELAY_QAD_INCOMING, COUNTER, "spanwire_relay_qad_incoming", "", \
      "Handshakes of address discovery that began") \
    X(RELAY_QAD_CONNECTIONS, COUNTER, "spanwire_relay_qad_connections", "", \
      "Connections of address discovery that were established") \
    X(RELAY_QAD_CLOSED, COUNTER, "spanwire_relay_qad_connections_closed", "", \
      "Those that are over") \
    X(RELAY_QAD_ERRORED, COUNTER, "spanwire_relay_qad_errored", "", \
      "Handshakes and connections of address discovery that ended by an error") \
    X(RELAY_QAD_REPORTS, COUNTER, "spanwire_relay_qad_reports", "", \
      "Addresses reported to clients: once per connection, and again when it changed") \
    X(RELAY_QAD_RETRIES, COUNTER, "spanwire_relay_qad_retries", "", \
      "Clients that had to prove their address before the handshake") \
    X(REFUSALS, COUNTER, "spanwire_refusals", "reason", \
      "Connections and streams refused, by reason") \
    X(UPSTREAM_DENIED, COUNTER, "spanwire_upstream_denied", "reason", \
      "Addresses that the egress filter denies, by their class: of connections; of host names of backends (control)") \
    X(SIDE_REQUESTS, COUNTER, "iroh_gateway_requests", "kind", \
      "Requests of the sidecar, by kind (connect, origin, upgrade, connect_udp)") \
    X(SIDE_REQUESTS_SOURCE, COUNTER, "iroh_gateway_requests_by_source", "source", \
      "Requests of the sidecar, by listener (uds, tcp)") \
    X(SIDE_REQUESTS_SOURCE_KIND, COUNTER, "iroh_gateway_requests_by_source_and_kind", \
      "source,kind", "Requests of the sidecar, by listener and kind") \
    X(SIDE_REUSE, COUNTER, "iroh_gateway_upstream_reuse_attempts", "kind,peer_conn_state", \
      "Requests by the state of the connection to their node (none, dialing, connected)") \
    X(SIDE_DENIED_REASON, COUNTER, "iroh_gateway_denied_requests", "reason", \
      "Requests the sidecar refused, by reason") \
    X(SIDE_ERRORS, COUNTER, "iroh_gateway_error_responses", "class", \
      "Error answers to the gateway, by class (4xx, 5xx)") \
    X(SIDE_ERRORS_STATUS, COUNTER, "iroh_gateway_error_responses_by_status", "status", \
      "Error answers to the gateway, by status") \
    X(SIDE_FAILURES, COUNTER, "iroh_gateway_upstream_failures", "class,peer_conn_state", \
      "Failures on the way to a node, by reason and state of its connection") \
    X(SIDE_RX, COUNTER, "iroh_gateway_iroh_recv_bytes", "", \
      "Bytes received from nodes, as packets") \
    X(SIDE_TX, COUNTER, "iroh_gateway_iroh_send_bytes", "", "Bytes sent to nodes, as packets") \
    X(SIDE_CONNS_OPENED, COUNTER, "iroh_gateway_quic_connections_opened", "path", \
      "Connections to nodes opened, by path (direct, relay)") \
    X(SIDE_CONNS_CLOSED, COUNTER, "iroh_gateway_quic_connections_closed", "path", \
      "Connections to nodes closed, by path") \
    X(SIDE_CONNS, GAUGE, "iroh_gateway_quic_connections_current", "path", \
      "Connections to nodes, by path") \
    X(SIDE_EVENTS, COUNTER, "iroh_gateway_tunnel_connectivity_events", "event", \
      "Changes of connections to nodes (opened, closed, lost, dial_failed, path_changed, path_slower, silent, recovered, full), and of direct paths (direct_found, direct_failed, probe_sent, probe_received, probe_dropped)") \
    X(SIDE_PATHS, GAUGE, "iroh_gateway_active_paths", "transport", \
      "Paths to nodes in use, by transport") \
    X(SIDE_HELD_BACK, COUNTER, "iroh_gateway_streams_held_back", "", \
      "Times a stream had to wait because of what all of them hold (--max-buffered)") \
    X(SIDE_ACCEPTED, COUNTER, "iroh_gateway_requests_accepted", "", \
      "Requests the sidecar passed on") \
    X(SIDE_ACCEPTED_H1, COUNTER, "iroh_gateway_requests_accepted_h1", "", \
      "Of these: ordinary ones over HTTP/1.1") \
    X(SIDE_ACCEPTED_H1_CONNECT, COUNTER, "iroh_gateway_requests_accepted_h1_connect", "", \
      "Of these: CONNECT over HTTP/1.1") \
    X(SIDE_ACCEPTED_H1_UPGRADE, COUNTER, "iroh_gateway_requests_accepted_h1_upgrade", "", \
      "Of these: upgrades over HTTP/1.1") \
    X(SIDE_ACCEPTED_H2, COUNTER, "iroh_gateway_requests_accepted_h2", "", \
      "Of these: ordinary ones over HTTP/2") \
    X(SIDE_ACCEPTED_H2_CONNECT, COUNTER, "iroh_gateway_requests_accepted_h2_connect", "", \
      "Of these: CONNECT over HTTP/2") \
    X(SIDE_ACCEPTED_H2_EXTENDED_CONNECT, COUNTER, \
      "iroh_gateway_requests_accepted_h2_extended_connect", "", \
      "Of these: extended CONNECT over HTTP/2") \
    X(SIDE_DENIED, COUNTER, "iroh_gateway_requests_denied", "", \
      "Requests the sidecar did not pass on") \
    X(SIDE_COMPLETED, COUNTER, "iroh_gateway_requests_completed", "", "Requests that ended well") \
    X(SIDE_FAILED, COUNTER, "iroh_gateway_requests_failed", "", "Requests that did not") \
    X(SIDE_POOL_OPENED, COUNTER, "iroh_gateway_iroh_connections_opened", "", \
      "Connections to nodes opened") \
    X(SIDE_POOL_CLOSED_IDLE, COUNTER, "iroh_gateway_iroh_connections_closed_idle", "", \
      "Idle connections to nodes closed") \
    X(SIDE_POOL_CLOSED_ERROR, COUNTER, "iroh_gateway_iroh_connections_closed_error", "", \
      "Connections to nodes that broke") \
    X(SIDE_UP, COUNTER, "iroh_gateway_bytes_to_upstream", "", "Payload bytes to nodes") \
    X(SIDE_DOWN, COUNTER, "iroh_gateway_bytes_from_upstream", "", "Payload bytes from nodes") \
    X(POOL_HITS, COUNTER, "spanwire_pool_hits", "", "Tunnels opened on a pooled connection") \
    X(POOL_MISSES, COUNTER, "spanwire_pool_misses", "", "Tunnels that needed a new connection") \
    X(POOL_STALLS, COUNTER, "spanwire_pool_stalls", "result", \
      "Tunnels that found the connection window of their peer used up by others: given a sibling connection, or shared") \
    X(POOL_RETIRED, COUNTER, "spanwire_pool_retired", "", \
      "Pooled connections that take no more tunnels because their workload is gone") \
    X(ACCEPT_PAUSES, COUNTER, "spanwire_accept_pauses", "", \
      "Times accepting stopped for lack of file descriptors or memory") \
    X(FAST_PATH, COUNTER, "spanwire_fast_path_connections", "", \
      "Connections to workloads of the same node that stayed inside the process") \
    X(LOG_DROPPED, COUNTER, "spanwire_log_lines_dropped", "", \
      "Log lines lost because the queue was full") \
    X(CONFIG_RELOADS, COUNTER, "spanwire_config_reloads", "result", \
      "Configuration reloads, by result (ok, failed)") \
    X(CERT_EXPIRY, GAUGE, "spanwire_certificate_expiry_seconds", "identity", \
      "When the certificate of an identity expires, in seconds since 1970") \
    X(CERT_REQUESTS, COUNTER, "spanwire_certificate_requests", "result", \
      "Certificates asked for, by result: issued, unavailable (no answer of the authority), " \
      "denied, invalid (unusable answer)") \
    X(CRL_RELOADS, COUNTER, "spanwire_crl_reloads", "result", \
      "Revocation list reloads, by result (ok, failed)") \
    X(SERIES, GAUGE, "spanwire_metrics_series", "", "Time series held, all threads together") \
    X(SERIES_OVERFLOW, COUNTER, "spanwire_metrics_overflow", "", \
      "Label sets that found the table full and were counted under 'overflow'")

/* The families that share one label set per connection. */
#define SW_TRAFFIC_METRICS(X) \
    X(OPENED, "istio_tcp_connections_opened", "TCP connections opened") \
    X(CLOSED, "istio_tcp_connections_closed", "TCP connections closed") \
    X(FAILED, "istio_tcp_connections_failed", \
      "TCP connections that ended with a response flag (unstable)") \
    X(RECEIVED, "istio_tcp_received_bytes", \
      "Bytes from the connecting side toward the destination") \
    X(SENT, "istio_tcp_sent_bytes", "Bytes back to the connecting side")

/* Fields of struct sw_traffic_labels in output order; T is text, the rest is written by code. */
#define SW_TRAFFIC_LABELS(T) \
    T(source_workload) \
    T(source_canonical_service) \
    T(source_canonical_revision) \
    T(source_workload_namespace) \
    T(source_principal) \
    T(source_app) \
    T(source_version) \
    T(source_cluster) \
    T(destination_service) \
    T(destination_service_namespace) \
    T(destination_service_name) \
    T(destination_workload) \
    T(destination_canonical_service) \
    T(destination_canonical_revision) \
    T(destination_workload_namespace) \
    T(destination_principal) \
    T(destination_app) \
    T(destination_version) \
    T(destination_cluster)

/* Written after connection_security_policy, and only when one of them is known. */
#define SW_TRAFFIC_LOCALITY(T) \
    T(source_region) \
    T(source_zone) \
    T(destination_region) \
    T(destination_zone)

/* Response flags: X(id, text). */
#define SW_RESPONSE_FLAGS(X) \
    X(NONE, "-") \
    X(DENY, "DENY") \
    X(CONNECT, "CONNECT") \
    X(TLS_FAILURE, "TLS_FAILURE") \
    X(H2_HANDSHAKE_FAILURE, "H2_HANDSHAKE_FAILURE") \
    X(NETWORK_POLICY, "NETWORK_POLICY") \
    X(IDENTITY_ERROR, "IDENTITY_ERROR") \
    X(CERT_REVOKED, "CERT_REVOKED")
/* clang-format on */
