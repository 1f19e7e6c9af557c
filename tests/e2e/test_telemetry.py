# SPDX-License-Identifier: Apache-2.0
"""What a node says about itself: metrics, access log, configuration dump, log levels."""
import base64
import gzip
import json
import re

import pytest
from harness import istioctl, traffic
from harness.hbone_peer import hbone_client
from harness.mesh import PORT
from harness.traffic import http
from harness.wait import until

TRAFFIC_LABELS = [
    "reporter", "source_workload", "source_canonical_service", "source_canonical_revision",
    "source_workload_namespace", "source_principal", "source_app", "source_version",
    "source_cluster", "destination_service", "destination_service_namespace",
    "destination_service_name", "destination_workload", "destination_canonical_service",
    "destination_canonical_revision", "destination_workload_namespace", "destination_principal",
    "destination_app", "destination_version", "destination_cluster", "request_protocol",
    "response_flags", "connection_security_policy"]


@pytest.fixture
def pair(mesh):
    mesh.world.service("web", ["10.96.0.10"], {80: PORT}, ["s2"])
    mesh.node1, mesh.node2 = mesh.both()
    mesh.app = mesh.echo(mesh.s2)
    return mesh


def lower(headers):
    return {k.lower(): v for k, v in headers.items()}


def exchange(mesh, src, dst, port, up=100):
    with traffic.connect(src, (dst, port)) as sock:
        traffic.echo_once(sock, up)


@pytest.mark.tsan
def test_traffic_metrics(pair):
    exchange(pair, pair.c1, "10.96.0.10", 80, 1234)
    until(lambda: pair.node1.metrics().find("istio_tcp_connections_closed_total"), 5)
    until(lambda: pair.node2.metrics().find("istio_tcp_connections_closed_total"), 5)
    for node, reporter in ((pair.node1, "source"), (pair.node2, "destination")):
        metrics = node.metrics()
        for name, value in (("istio_tcp_connections_opened_total", 1),
                            ("istio_tcp_connections_closed_total", 1),
                            ("istio_tcp_received_bytes_total", 1234),
                            ("istio_tcp_sent_bytes_total", 1234)):
            found = metrics.find(name, reporter=reporter)
            assert [v for _, v in found] == [value], (name, found)
            labels = found[0][0]
            assert set(TRAFFIC_LABELS) <= set(labels), set(TRAFFIC_LABELS) - set(labels)
            assert labels["source_workload"] == labels["source_canonical_service"] == "c1"
            assert labels["source_canonical_revision"] == labels["source_version"] == "v1"
            assert labels["source_workload_namespace"] == "default"
            assert labels["source_principal"] == pair.c1.identity
            assert labels["source_app"] == "c1" and labels["source_cluster"] == "Kubernetes"
            assert labels["destination_workload"] == labels["destination_app"] == "s2"
            assert labels["destination_principal"] == pair.s2.identity
            assert labels["destination_service"] == "web.default.svc.cluster.local"
            assert labels["destination_service_name"] == "web"
            assert labels["destination_service_namespace"] == "default"
            assert labels["request_protocol"] == "tcp" and labels["response_flags"] == "-"
            assert labels["connection_security_policy"] == "mutual_tls"


def test_label_order_on_the_wire(pair):
    exchange(pair, pair.c1, pair.s2.ip4, PORT)
    until(lambda: pair.node1.metrics().find("istio_tcp_connections_closed_total"), 5)
    line = next(li for li in pair.node1.metrics().text.splitlines()
                if li.startswith("istio_tcp_connections_opened_total{"))
    assert re.findall(r'(\w+)="', line)[:len(TRAFFIC_LABELS)] == TRAFFIC_LABELS


def test_plaintext_metrics(pair):
    exchange(pair, pair.topo.outside, pair.s2.ip4, PORT)
    until(lambda: pair.node2.metrics().find("istio_tcp_connections_closed_total"), 5)
    labels = pair.node2.metrics().find("istio_tcp_connections_closed_total")[0][0]
    assert labels["reporter"] == "destination"
    assert labels["source_workload"] == labels["source_principal"] == "unknown"
    assert labels["connection_security_policy"] == "unknown"


def test_locality_labels(pair):
    pair.world.workloads["c1"]["locality"] = {"region": "r1", "zone": "z1", "subzone": ""}
    pair.apply()
    exchange(pair, pair.c1, pair.s2.ip4, PORT)
    until(lambda: pair.node1.metrics().find("istio_tcp_connections_closed_total"), 5)
    labels = pair.node1.metrics().find("istio_tcp_connections_closed_total")[0][0]
    assert labels["source_region"] == "r1" and labels["source_zone"] == "z1"


def test_bytes_are_counted_live(pair):
    sock = pair.connect(pair.c1, pair.s2)
    traffic.echo_once(sock, 5000)
    until(lambda: pair.node1.metrics().sum("istio_tcp_received_bytes_total") == 5000, 5)
    assert pair.node1.metrics().sum("istio_tcp_connections_closed_total") == 0
    traffic.echo_once(sock, 3000)
    until(lambda: pair.node1.metrics().sum("istio_tcp_sent_bytes_total") == 8000, 5)
    until(lambda: pair.node2.metrics().sum("istio_tcp_sent_bytes_total") == 8000, 5)


def test_failures_are_counted_with_their_flag(pair):
    assert pair.refused(pair.c1, pair.s2, 9999)
    until(lambda: pair.node1.metrics().sum("istio_tcp_connections_failed_total",
                                           response_flags="CONNECT") == 1, 5)
    until(lambda: pair.node2.metrics().sum("istio_tcp_connections_failed_total",
                                           response_flags="CONNECT") == 1)


def test_open_sockets_gauge(pair):
    socks = [pair.connect(pair.u1, pair.s2) for _ in range(5)]
    for sock in socks:
        traffic.echo_once(sock)
    until(lambda: pair.node2.metrics().sum("istio_tcp_sockets_open",
                                           reporter="destination") == 5, 5)
    for sock in socks:
        sock.close()
    until(lambda: pair.node2.metrics().sum("istio_tcp_sockets_open",
                                           reporter="destination") == 0, 5)


def test_process_and_manager_metrics(pair):
    metrics = pair.node2.metrics()
    pods = [p for p in pair.topo.nodes["node2"].pods.values() if p.captured == "shared"]
    assert metrics.sum("workload_manager_active_proxy_count") == len(pods)
    assert metrics.sum("workload_manager_proxies_started_total") == len(pods)
    assert metrics.sum("workload_manager_pending_proxy_count") == 0
    assert 0 < metrics.sum("process_open_fds") < metrics.sum("process_max_fds")
    build = metrics.find("istio_build")
    assert build[0][1] == 1 and build[0][0]["component"] == "ztunnel" and "tag" in build[0][0]


def test_metric_formats(pair):
    exchange(pair, pair.c1, pair.s2.ip4, PORT)
    until(lambda: pair.node1.metrics().find("istio_tcp_connections_closed_total"), 5)
    status, headers, body = http(pair.node1.ns, pair.node1.stats_addr, "/metrics")
    assert status == 200 and lower(headers)["content-type"].startswith("text/plain")
    until(lambda: pair.node1.metrics("/stats/prometheus").names() == pair.node1.metrics().names())
    status, headers, body = http(pair.node1.ns, pair.node1.stats_addr, "/metrics", headers={
        "Accept": "application/openmetrics-text; version=1.0.0"})
    assert lower(headers)["content-type"].startswith("application/openmetrics-text")
    assert body.decode().endswith("# EOF\n")
    status, headers, body = http(pair.node1.ns, pair.node1.stats_addr, "/metrics",
                                 headers={"Accept-Encoding": "gzip"})
    if lower(headers).get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    assert b"istio_build" in body
    metrics = pair.node1.metrics()
    declared = set(re.findall(r"^# TYPE (\S+)", metrics.text, re.M))
    for name in metrics.names():
        base = re.sub(r"_(bucket|sum|count|total)$", "", name)
        assert {name, base} & declared, name


def test_only_metrics_on_the_metrics_port(pair):
    assert http(pair.node1.ns, pair.node1.stats_addr, "/config_dump")[0] == 404
    assert http(pair.node1.ns, pair.node1.ready_addr, "/metrics")[0] == 404


def test_access_log_fields_and_order(pair):
    sock = pair.connect(pair.c1, "10.96.0.10", 80)
    traffic.echo_once(sock, 700)
    local = sock.getsockname()
    sock.close()
    out = pair.node1.wait_access(message="connection complete", direction="outbound")[-1]
    inb = pair.node2.wait_access(message="connection complete", direction="inbound")[-1]
    order = ["src.addr", "src.workload", "src.namespace", "src.identity", "src.cluster",
             "dst.addr", "dst.hbone_addr", "dst.service", "dst.workload", "dst.namespace",
             "dst.identity", "dst.cluster", "direction", "bytes_sent", "bytes_recv", "duration"]
    for line in (out, inb):
        known = [k for k in line.fields if k in order]
        assert known == [k for k in order if k in line.fields]
        assert set(order) - {"src.cluster", "dst.cluster"} <= set(line.fields), line
        assert line.level == "info"
        assert re.fullmatch(r"\d+ms", line["duration"])
        assert line["src.namespace"] == line["dst.namespace"] == "default"
        assert line["dst.service"] == "web.default.svc.cluster.local"
        assert line["dst.hbone_addr"] == f"{pair.s2.ip4}:{PORT}"
        assert line["bytes_sent"] == line["bytes_recv"] == "700"
    # The port may differ from the application's: redirection moves it when another captured
    # connection has the same one.
    assert out["src.addr"].rsplit(":", 1)[0] == local[0]
    assert out["dst.addr"] == inb["dst.addr"] == f"{pair.s2.ip4}:15008"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", out.time)


def test_bytes_are_from_the_workloads_point_of_view(mesh):
    node1, node2 = mesh.both()
    mesh.serve(mesh.s2, lambda sock, _: (traffic.read_exact(sock, 10), sock.sendall(b"y" * 300)))
    with traffic.connect(mesh.c1, (mesh.s2.ip4, PORT)) as sock:
        sock.sendall(b"x" * 10)
        assert len(traffic.read_all(sock)) == 300
    out = node1.wait_access(direction="outbound")[-1]
    inb = node2.wait_access(direction="inbound")[-1]
    assert (out["bytes_sent"], out["bytes_recv"]) == ("10", "300")
    assert (inb["bytes_sent"], inb["bytes_recv"]) == ("300", "10")
    # The counters are not flipped.
    for node, reporter in ((node1, "source"), (node2, "destination")):
        assert node.metrics().sum("istio_tcp_received_bytes_total", reporter=reporter) == 10
        assert node.metrics().sum("istio_tcp_sent_bytes_total", reporter=reporter) == 300


def test_json_log(mesh):
    node = mesh.shared("node1", "--log-format", "json")
    mesh.echo(mesh.s1)
    mesh.roundtrip(mesh.c1, mesh.s1)
    node.wait_access(message="connection complete")
    whole = node.log().rpartition("\n")[0].splitlines()
    for line in whole:
        value = json.loads(line)
        assert {"level", "time", "scope", "message"} <= set(value)
    access = [json.loads(li) for li in whole if '"access"' in li]
    assert any(v.get("direction", v.get("fields", {}).get("direction")) == "outbound"
               for v in access)


def test_failed_before_there_is_a_record(pair):
    """'connection failed' at WARN with addresses, direction and error only."""
    with traffic.connect(pair.p1, (pair.s2.ip4, 15008)) as sock:
        sock.sendall(b"this is not TLS, not even nearly" * 20)
    line = pair.node2.wait_access(message="connection failed")[-1]
    assert line.level == "warn"
    assert line["direction"] == "inbound" and line["error"]
    assert line["src.addr"].startswith(pair.p1.ip4 + ":")


@pytest.mark.tsan
def test_error_texts_are_those_of_ztunnel(pair):
    """Alerts and searches that know its lines find ours; refusals name whom they were for."""
    assert pair.refused(pair.c1, pair.s2, 9999)
    out = pair.node1.wait_access(message="connection complete", direction="outbound")[-1]
    inb = pair.node2.wait_access(message="connection complete", direction="inbound")[-1]
    assert out["error"] == "http status: 503 Service Unavailable"
    assert inb["error"] == "connection failed: Connection refused (os error 111)"
    assert out["dst.identity"] == inb["dst.identity"] == pair.s2.identity
    assert out["dst.addr"] == inb["dst.addr"] == f"{pair.s2.ip4}:15008"
    assert out["dst.hbone_addr"] == inb["dst.hbone_addr"] == f"{pair.s2.ip4}:9999"

    pair.world.match_policy("p", "Deny", destinationPorts=[PORT])
    pair.apply()
    assert pair.refused(pair.c1, pair.s2)
    pair.node1.wait_access(error="http status: 401 Unauthorized")
    pair.node2.wait_access(
        error="connection closed due to policy rejection: explicitly denied by: default/p")

    peer = pair.hbone(pair.s2)
    assert peer.tunnel("10.9.9.9:80").status == 400
    assert peer.tunnel("nobody.example:80").status == 503
    assert peer.tunnel(f"{pair.s2.ip4}:15001").status == 503
    errors = [line["error"] for line in pair.node2.wait_access(3, "connection failed")]
    assert errors == [f"ip mismatch: {pair.s2.ip4} != 10.9.9.9",
                      "no service or workload for hostname: nobody.example",
                      "attempted recursive call to ourselves"]

    pair.world.service("empty", ["10.96.0.99"], {80: PORT}, [])
    pair.apply()
    assert pair.refused(pair.c1, "10.96.0.99", 80)
    line = pair.node1.wait_access(message="connection failed")[-1]
    assert line["error"] == "no healthy upstream: 10.96.0.99:80"


def test_opened_is_logged_at_debug(mesh):
    node1, _ = mesh.both("--log-level", "debug")
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    line = node1.wait_access(message="connection opened", direction="outbound")[-1]
    assert line.level == "debug"


def test_log_cannot_be_forged(mesh):
    """Text from peers is quoted: no line breaks, no fields of their making."""
    node2 = mesh.shared("node2")
    mesh.echo(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    evil = 'x" error="forged" direction="sideways'
    stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}", ("baggage", f"k8s.pod.name={evil}"),
                         ("forwarded", f'for="{evil}";host={evil}'), ("x-forwarded-network", "z"))
    peer.end(stream)
    for line in node2.wait_access(direction="inbound"):
        assert line.get("error") is None


# -- admin ------------------------------------------------------------------------------------

def test_config_dump_keys(pair):
    pair.world.match_policy("p", "Deny", destinationPorts=[1])
    pair.apply()
    sock = pair.connect(pair.c1, pair.s2)
    traffic.echo_once(sock)
    plain = pair.connect(pair.u1, pair.s2)
    traffic.echo_once(plain)
    dump = pair.node2.config_dump()
    for key in ("workloads", "services", "policies", "stagedServices", "staticConfig", "version",
                "config", "certificates", "workloadState", "complete"):
        assert key in dump, key
    uids = [w["uid"] for w in dump["workloads"]]
    assert uids == sorted(uids) and "Kubernetes//Pod/default/s2" in uids
    hosts = [s["hostname"] for s in dump["services"]]
    assert hosts == sorted(hosts)
    assert [p["name"] for p in dump["policies"]] == ["p"]
    state = next(v for v in dump["workloadState"].values() if v["info"]["name"] == "s2")
    assert state["state"] == "Up"
    assert {"name": "s2", "namespace": "default", "serviceAccount": "s2"}.items() <= \
        state["info"].items()
    inbound = state["connections"]["inbound"]
    assert {(c["protocol"], c["src"].rsplit(":", 1)[0]) for c in inbound} == {
        ("HBONE", pair.c1.ip4), ("TCP", pair.u1.ip4)}
    assert all(c["actualDst"] == f"{pair.s2.ip4}:{PORT}" for c in inbound)
    dump = pair.node1.config_dump()
    state = next(v for v in dump["workloadState"].values() if v["info"]["name"] == "c1")
    conn = state["connections"]["outbound"][0]
    assert conn["originalDst"] == f"{pair.s2.ip4}:{PORT}"
    assert conn["actualDst"] == f"{pair.s2.ip4}:15008"


def test_config_dump_as_istioctl_reads_it(pair):
    """All tables of `istioctl ztunnel-config`, from a reader that takes nothing but its fields."""
    pair.world.match_policy("p", "Deny", destinationPorts=[1])
    pair.world.workloads["s2"]["services"]["default/later.default.svc.cluster.local"] = {80: 8080}
    pair.apply()
    traffic.echo_once(pair.connect(pair.c1, "10.96.0.10", 80))
    dump = istioctl.Dump(pair.node1.admin("/config_dump")[1])
    rows = {r[1]: r for r in dump.workloads()}
    assert rows["s2"] == ("default", "s2", f"{pair.s2.ip4},{pair.s2.ip6}", "node2", "None", "HBONE")
    assert ("default", "web", "10.96.0.10", "None", "1/1") in dump.services()
    assert dump.policies() == [("default", "p", "Deny", "Namespace")]
    leaf, root = [c for c in dump.certificates() if c[0] == pair.c1.identity]
    assert leaf[1:4] == ("Leaf", "Available", True) and root[1:4] == ("Root", "Available", True)
    assert [c[:2] + c[3:] for c in dump.connections()] == [
        ("c1.default", "Outbound", "s2.default:15008", "web.default.svc.cluster.local:80", "HBONE")]
    # What it passes through as it is.
    raw = dump.raw
    uid = next(w["uid"] for w in raw["workloads"] if w["name"] == "s2")
    web = next(s for s in raw["services"] if s["name"] == "web")
    assert web["endpoints"] == {uid: {"workloadUid": uid, "port": {"80": PORT}, "status": "Healthy"}}
    assert raw["stagedServices"] == {"default/later.default.svc.cluster.local": {
        uid: {"workloadUid": uid, "port": {"80": 8080}, "status": "Healthy"}}}


ZTUNNEL_CONFIG = {
    "proxy", "dnsProxy", "windowSize", "connectionWindowSize", "frameSize", "poolMaxStreamsPerConn",
    "poolUnusedReleaseTimeout", "socks5Addr", "adminAddr", "statsAddr", "readinessAddr", "inboundAddr",
    "inboundPlaintextAddr", "outboundAddr", "dnsProxyAddr", "illegalPorts", "network", "localNode",
    "proxyMode", "proxyWorkloadInformation", "clusterId", "clusterDomain", "caAddress", "caRootCert",
    "altCaHostname", "xdsAddress", "xdsRootCert", "altXdsHostname", "preferedServiceNamespace",
    "secretTtl", "xdsOnDemand", "fakeCa", "fakeSelfInbound", "selfTerminationDeadline", "proxyMetadata",
    "numWorkerThreads", "requireOriginalSource", "inpodUds", "inpodPortReuse", "packetMark",
    "socketConfig", "localhostAppTunnel", "ztunnelIdentity", "ztunnelWorkload", "ipv6Enabled", "crlPath",
    "enableEnhancedBaggage"}


def test_config_of_the_dump_has_the_names_of_ztunnel(mesh):
    node = mesh.shared("node1", "--secret-ttl", "90m", env={"PACKET_MARK": "1337"})
    config = node.config_dump()["config"]
    assert set(config) == ZTUNNEL_CONFIG
    assert config["secretTtl"] == {"secs": 5400, "nanos": 0}
    assert config["proxyMode"] == "Shared" and config["localNode"] == "node1"
    assert config["inboundAddr"] == "[::]:15008" and config["illegalPorts"] == [15001, 15006, 15008]
    assert config["socketConfig"]["keepaliveRetries"] == 9 and config["packetMark"] == 1337


def test_config_dump_holds_no_private_keys(pair):
    assert "PRIVATE KEY" not in pair.node1.admin("/config_dump")[1]
    for cert in pair.node1.config_dump()["certificates"]:
        for item in cert["certChain"] + cert["rootCerts"]:
            assert b"PRIVATE" not in base64.b64decode(item["pem"])


def test_logging_levels(mesh):
    node1, _ = mesh.both()
    status, body = node1.admin("/logging", "POST")
    assert status == 200 and "info" in body
    assert node1.admin("/logging")[0] == 405
    assert node1.admin("/logging?level=nonsense", "POST")[0] == 400
    assert node1.admin("/logging?level=debug", "POST")[0] == 200
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    node1.wait_access(message="connection opened")
    node1.wait_access(message="connection complete")
    assert node1.admin("/logging?level=access=off", "POST")[0] == 200
    mesh.roundtrip(mesh.c1, mesh.s2)
    until(lambda: node1.metrics().sum("istio_tcp_connections_closed_total") == 2, what="its end")
    assert node1.admin("/logging?reset", "POST")[0] == 200
    mesh.roundtrip(mesh.c1, mesh.s2)
    node1.wait_access(2, message="connection complete")
    assert len(node1.access()) == 3, "one of which was opened at level debug"


def test_admin_index_and_unknown_paths(mesh):
    node = mesh.shared("node1")
    status, body = node.admin("/")
    assert status == 200 and "config_dump" in body
    assert node.admin("/nothing")[0] == 404


def test_admin_is_on_loopback_only(mesh):
    node = mesh.shared("node1")
    with pytest.raises(ConnectionRefusedError):
        traffic.connect(mesh.topo.outside, (mesh.topo.nodes["node1"].ip4, 15000))
    assert http(mesh.topo.outside, (mesh.topo.nodes["node1"].ip4, 15021),
                "/healthz/ready")[0] == 200
    assert node.alive


def test_admin_survives_bad_requests(mesh):
    node = mesh.shared("node1")
    for payload in (b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                    b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
                    b"POST /logging HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
                    bytes(range(256))):
        for addr in (node.admin_addr, node.stats_addr, node.ready_addr):
            with traffic.connect(node.ns, addr) as sock:
                try:
                    sock.sendall(payload)
                except OSError:
                    pass
    assert node.admin("/")[0] == 200


def test_slow_admin_client_is_dropped(mesh):
    node = mesh.shared("node1")
    sock = mesh.connect(node.ns, "127.0.0.1", 15000)
    sock.sendall(b"GET / HTTP/1.1\r\nHo")
    until(lambda: traffic.ended(sock), 5, "two seconds for the header")
    assert node.admin("/")[0] == 200


def test_hbone_metrics_access(mesh):
    """Self-proxy: a scraper reaches the node's own port 15020 through mTLS and policy."""
    ns = mesh.topo.nodes["node2"]
    mesh.world.workload("zt", [ns.ip4], namespace="istio-system", serviceAccount="ztunnel",
                        node="node2")
    mesh.shared("node2", env={"POD_NAME": "zt", "POD_NAMESPACE": "istio-system",
                              "SERVICE_ACCOUNT": "ztunnel"})
    mesh.shared("node1")
    status, _, body = http(mesh.c1, (ns.ip4, 15020), "/metrics")
    assert status == 200 and b"istio_build" in body
    identity = "spiffe://cluster.local/ns/istio-system/sa/ztunnel"
    peer = mesh.keep(hbone_client(mesh.p1, (ns.ip4, 15008), mesh.client_context()))
    assert peer.peer_identity == identity
    assert peer.tunnel(f"{ns.ip4}:15020").status == 200
    mesh.world.policy("no-scrape", "Deny", [[[{"destinationPorts": [15020]}]]],
                      namespace="istio-system")
    mesh.apply()
    assert peer.tunnel(f"{ns.ip4}:15020").status == 401
