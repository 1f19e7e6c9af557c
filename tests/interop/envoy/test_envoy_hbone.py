# SPDX-License-Identifier: Apache-2.0
"""HBONE with a real Envoy at the other end: as a client of 'spanwire node', and as the server it dials."""
import pytest
import yaml
from harness import traffic
from harness.mesh import PORT
from harness.node import Process
from harness.wait import until

EXTENSION = "type.googleapis.com/envoy.extensions."
OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def address(ip, port):
    return {"socket_address": {"address": ip, "port_value": port}}


def tls(mesh, kind, identity, peer):
    """A certificate of ours in a TLS socket that admits one other identity, or anybody of the mesh."""
    cert = mesh.ca.issue(identity)
    trust = {"trusted_ca": {"filename": str(mesh.ca.root)}}
    if peer:
        trust["match_typed_subject_alt_names"] = [{"san_type": "URI", "matcher": {"exact": peer}}]
    context = {"@type": EXTENSION + f"transport_sockets.tls.v3.{kind}TlsContext", "common_tls_context": {
        "alpn_protocols": ["h2"], "validation_context": trust,
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificates": [{"certificate_chain": {"filename": cert.crt}, "private_key": {"filename": cert.key}}]}}
    if kind == "Downstream":
        context["require_client_certificate"] = True
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}


def cluster(name, ip, port, **more):
    return {"name": name, "type": "STATIC", "load_assignment": {"cluster_name": name, "endpoints": [
        {"lb_endpoints": [{"endpoint": {"address": address(ip, port)}}]}]}, **more}


def start(mesh, interop_dir, pod, listening, **resources):
    """An Envoy in a pod."""
    path = mesh.dir / f"envoy-{pod.name}.yaml"
    path.write_text(yaml.safe_dump({"static_resources": resources}), encoding="utf-8")
    proc = Process(pod, [str(interop_dir / "envoy"), "-c", str(path), "--concurrency", "1", "--disable-hot-restart",
                         "-l", "info"], str(mesh.dir / f"envoy-{pod.name}.log"))

    class Stop:
        @staticmethod
        def stop():
            proc.signal(15)
            proc.wait(40)
    mesh.keep(Stop)

    def up():
        assert proc.alive, proc.log()[-3000:]
        return "starting workers" in proc.log()
    until(up, 15, f"Envoy to listen at {listening}")
    return proc


def as_client(mesh, interop_dir, target, peer):
    """Connections to p1's port 9000 become CONNECT streams for an address behind s2's node."""
    p1 = mesh.p1
    return start(
        mesh, interop_dir, p1, 9000,
        listeners=[{"name": "in", "address": address(p1.ip4, 9000), "filter_chains": [{"filters": [{
            "name": "tcp", "typed_config": {
                "@type": EXTENSION + "filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t", "cluster": "hbone",
                "tunneling_config": {"hostname": target}}}]}]}],
        clusters=[cluster("hbone", mesh.s2.ip4, 15008, transport_socket=tls(mesh, "Upstream", p1.identity, peer),
                          typed_extension_protocol_options={OPTIONS: {
                              "@type": "type.googleapis.com/" + OPTIONS,
                              "explicit_http_config": {"http2_protocol_options": {}}}})])


def test_envoy_dials_a_node(mesh, interop_dir):
    node = mesh.shared("node2")
    app = mesh.echo(mesh.s2)
    as_client(mesh, interop_dir, f"{mesh.s2.ip4}:{PORT}", mesh.s2.identity)
    for _ in range(20):
        mesh.roundtrip(mesh.u1, mesh.p1, 9000)
    assert app.peer_ips() == {mesh.p1.ip4}, "the client's address is kept"
    line = node.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == mesh.p1.identity


def test_a_policy_of_the_node_ends_the_connection(mesh, interop_dir):
    mesh.world.match_policy("no-p1", "Deny", principals=[{"Exact": mesh.p1.identity.removeprefix("spiffe://")}])
    node = mesh.shared("node2")
    mesh.echo(mesh.s2)
    as_client(mesh, interop_dir, f"{mesh.s2.ip4}:{PORT}", mesh.s2.identity)
    with traffic.connect(mesh.u1, (mesh.p1.ip4, 9000), 40) as sock:
        try:
            sock.sendall(b"hello")
            assert sock.recv(100) == b""
        except ConnectionError:
            pass
    assert "default/no-p1" in node.wait_access(direction="inbound")[-1]["error"]


def test_envoy_that_expects_another_workload_is_not_connected(mesh, interop_dir):
    mesh.shared("node2")
    mesh.echo(mesh.s2)
    as_client(mesh, interop_dir, f"{mesh.s2.ip4}:{PORT}", mesh.t2.identity)
    with traffic.connect(mesh.u1, (mesh.p1.ip4, 9000), 40) as sock:
        try:
            assert sock.recv(100) == b""
        except ConnectionError:
            pass


def as_server(mesh, interop_dir, pod):
    """Envoy on a pod's port 15008: terminates CONNECT and goes on to the application."""
    router = {"name": "r", "typed_config": {"@type": EXTENSION + "filters.http.router.v3.Router"}}
    route = {"match": {"connect_matcher": {}}, "route": {"cluster": "app", "upgrade_configs": [
        {"upgrade_type": "CONNECT", "connect_config": {}}]}}
    manager = {"@type": EXTENSION + "filters.network.http_connection_manager.v3.HttpConnectionManager",
               "stat_prefix": "h", "codec_type": "HTTP2", "http2_protocol_options": {"allow_connect": True},
               "upgrade_configs": [{"upgrade_type": "CONNECT"}], "http_filters": [router],
               "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route]}]}}
    return start(
        mesh, interop_dir, pod, 15008,
        listeners=[{"name": "hbone", "address": address(pod.ip4, 15008), "filter_chains": [{
            "transport_socket": tls(mesh, "Downstream", pod.identity, None),
            "filters": [{"name": "hcm", "typed_config": manager}]}]}],
        clusters=[cluster("app", pod.ip4, PORT)])


@pytest.mark.parametrize("early", ["true", "false"])
def test_a_node_dials_envoy(mesh, interop_dir, early):
    node = mesh.shared("node1", "--early-data", early)
    mesh.echo(mesh.p2)
    as_server(mesh, interop_dir, mesh.p2)
    for _ in range(20):
        mesh.roundtrip(mesh.c1, mesh.p2)
    line = node.wait_access(direction="outbound")[-1]
    assert line["dst.identity"] == mesh.p2.identity
