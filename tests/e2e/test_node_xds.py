# SPDX-License-Identifier: Apache-2.0
"""Nodes that learn everything from a control plane: an xDS server written for the tests feeds a pair of them."""
import datetime
import ssl
import struct

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from harness import traffic
from harness.mesh import PORT
from harness.mesh_control import ADDRESS, AUTHORIZATION, MeshControl, Resource, field, fields, message, workload
from harness.wait import stays, until


@pytest.fixture
def control(mesh):
    return mesh.keep(MeshControl(mesh, list(mesh.topo.nodes.values())))


def start(mesh, control, *flags, **kw):
    mesh.node1, mesh.node2 = mesh.both("--xds-address", control.address, *flags, without=("--local-xds",), **kw)
    return mesh


def test_a_pair_serves_what_the_control_plane_sends(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    line = mesh.node2.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == mesh.c1.identity

    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    control.push()
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)
    dump = mesh.node1.config_dump()
    (svc,) = dump["services"]
    assert svc["hostname"] == "echo.default.svc.cluster.local" and len(svc["endpoints"]) == 1
    assert {w["name"] for w in dump["workloads"]} == set(mesh.world.workloads)
    mesh.world.services.clear()
    mesh.world.workloads["s2"]["services"].clear()
    control.push()
    assert mesh.node1.config_dump()["services"] == []


def test_what_a_node_says_of_itself(mesh, control, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    env = {"XDS_HEADER_x-team": "blue", "ISTIO_META_FLAVOUR": "plain", "ISTIO_METAJSON_LABELS": '{"a": ["b", 1]}',
           "POD_NAME": "zt-1", "POD_NAMESPACE": "istio-system", "INSTANCE_IP": "10.9.9.9", "CLUSTER_ID": "east",
           "PROXY_CONFIG": "proxyMetadata: {KIND: ambient}", "AUTH_TOKEN": str(token)}
    start(mesh, control, env=env)
    stream = next(s for s in control.streams if b"node1" in s.requests[0].node)
    assert [r.type for r in stream.requests[:2]] == [ADDRESS, AUTHORIZATION]
    assert not any(r.subscribe or r.unsubscribe or r.versions for r in stream.requests[:2])
    node = dict(fields(stream.requests[0].node))
    assert node[1] == b"ztunnel~10.9.9.9~zt-1.istio-system~istio-system.svc.cluster.local"
    names = {dict(fields(f))[1].decode() for at, f in fields(node[3]) if at == 1}
    assert names >= {"NAME", "NAMESPACE", "INSTANCE_IPS", "NODE_NAME", "FLAVOUR", "LABELS", "KIND"}
    assert stream.headers["authorization"] == "Bearer first"
    assert stream.headers["clusterid"] == "east" and stream.headers["x-team"] == "blue"

    token.write_text("second\n")
    control.close_streams()
    until(lambda: any(s.headers.get("authorization") == "Bearer second" for s in control.streams),
          what="a stream with the new token")


def server_cert(directory, name):
    """A self-signed certificate for a name; the file has the key as well."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
            .add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256()))
    path = directory / f"{name}.pem"
    path.write_bytes(cert.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.set_alpn_protocols(["h2"])
    return path, context


def test_the_control_plane_proves_its_name(mesh, tmp_path):
    path, context = server_cert(tmp_path, "istiod.test")
    other, _ = server_cert(tmp_path, "other.test")
    root = tmp_path / "root.pem"
    root.write_bytes(other.read_bytes())
    control = mesh.keep(MeshControl(mesh, list(mesh.topo.nodes.values()), context=context))
    address = control.address.replace("127.0.0.1", "localhost")
    flags = ("--xds-address", address, "--xds-root", str(root))
    nodes = [mesh.shared("node1", *flags, without=("--local-xds",), wait=False),
             mesh.shared("node2", *flags, "--xds-alt-name", "istiod.test", without=("--local-xds",), wait=False)]
    for node in nodes:
        node.wait_log("stream to the control plane ended: ")
    assert control.requests() == []
    root.write_bytes(path.read_bytes())  # read again for each connection
    nodes[1].wait_ready()
    nodes[0].wait_log("certificate.*(localhost|name|host)")
    assert nodes[0].ready()[0] != 200 and len(control.streams) == 1
    assert nodes[1].config_dump()["config"]["xdsAddress"] == address


def test_a_workload_may_name_a_policy_before_it_comes(mesh, control):
    """istiod sends Addresses before Authorizations: in between nothing is cut or refused."""
    start(mesh, control)
    mesh.echo(mesh.s2)
    kept, cut = mesh.connect(mesh.c1, mesh.s2), mesh.connect(mesh.s1, mesh.s2)
    for sock in (kept, cut):
        traffic.echo_once(sock)
    mesh.world.workloads["s2"]["authorizationPolicies"] = ["default/no-s1"]
    control.push()
    traffic.echo_once(kept)
    traffic.echo_once(cut)
    mesh.roundtrip(mesh.s1, mesh.s2)
    mesh.world.match_policy("no-s1", "Deny", scope="WorkloadSelector",
                            principals=[{"Exact": mesh.s1.identity.removeprefix("spiffe://")}])
    control.push()
    until(lambda: mesh.refused(mesh.s1, mesh.s2), what="the policy to be enforced")
    until(lambda: traffic.ended(cut), what="the open connection to end")
    traffic.echo_once(kept)
    mesh.roundtrip(mesh.c1, mesh.s2)

    # One that does not come: refused in the end, with the reason in the log.
    mesh.world.workloads["s2"]["authorizationPolicies"] += ["default/never"]
    control.push()
    until(lambda: mesh.refused(mesh.c1, mesh.s2), what="the unknown policy to count")
    until(lambda: traffic.ended(kept), what="the open connection to end")
    mesh.node2.wait_log("lists policy 'default/never'")


def test_policies_change_live(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    mesh.world.match_policy("no-c1", "Deny", principals=[{"Exact": mesh.c1.identity.removeprefix("spiffe://")}])
    control.push()
    until(lambda: traffic.ended(sock), what="the open connection to be closed")
    assert mesh.refused(mesh.c1, mesh.s2)
    mesh.world.policies.clear()
    control.push()
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_a_bad_resource_is_refused_alone(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    legacy = message(1, field(20, "bad-1") + b"\x28\x02")  # tunnel_protocol LEGACY_ISTIO_MTLS
    control.extra = {ADDRESS: {"bad-1": Resource(legacy), "bad-2": Resource(b"")}}
    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    control.push()
    (first, *_) = set(control.errors())
    parts = dict(p.split(": ", 1) for p in first.split("; "))
    assert set(parts) == {"bad-1", "bad-2"} and "LEGACY_ISTIO_MTLS" in parts["bad-1"]
    assert all(e == first for e in control.errors()) and len(control.errors()) == 2
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)  # the rest of the response counts
    assert mesh.node1.metrics().sum("spanwire_xds_refused_total") == 1
    mesh.node1.wait_log("bad-1: ")


def test_a_uid_that_comes_twice_is_refused(mesh, control):
    """Under another resource's name alone; twice in one response with all of it. What is known stays in both cases."""
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    s2 = mesh.world.workloads["s2"]
    before = mesh.node1.config_dump()["workloads"]
    elsewhere = Resource(workload({**s2, "workloadIps": ["10.9.9.9"]}))
    control.extra = {ADDRESS: {"another": elsewhere}}
    control.push()
    assert set(control.errors()) == {f"another: it calls itself '{s2['uid']}'"}
    mesh.roundtrip(mesh.c1, mesh.s2)
    with control.lock:
        control.resources[ADDRESS][s2["uid"]] = elsewhere
        for stream in control.streams:
            stream.respond(ADDRESS, [s2["uid"], s2["uid"]], [])
    said = f"resource '{s2['uid']}' appears twice"
    until(lambda: all(any(a.error and said in a.error for a in s.answers) for s in control.streams), what="both to refuse it")
    mesh.roundtrip(mesh.c1, mesh.s2)
    assert mesh.node1.config_dump()["workloads"] == before


def test_nothing_breaks_while_the_control_plane_is_away(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    control.stop()
    until(lambda: mesh.node1.metrics().sum("spanwire_xds_connected") == 0, what="node1 to see the loss")
    traffic.echo_once(sock)
    mesh.roundtrip(mesh.c1, mesh.s2)
    assert mesh.node1.ready()[0] == 200
    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    gone = mesh.world.workloads.pop("p2")
    again = mesh.keep(MeshControl(mesh, list(mesh.topo.nodes.values())))
    until(lambda: len(again.streams) == 2 and all(len(s.answers) >= 2 for s in again.streams), what="both to return")
    stream = again.streams[0]
    assert gone["uid"] in stream.requests[0].versions  # what is held is said, so that only differences come
    assert set(stream.requests[0].versions) == set(control.past[0].sent[ADDRESS])
    traffic.echo_once(sock)
    until(lambda: gone["uid"] not in mesh.node1.admin("/config_dump")[1], what="the removal")
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)
    assert mesh.node1.metrics().sum("istio_xds_connection_terminations_total") >= 1


def test_ports_open_when_both_types_are_known(mesh, control):
    control.mute = True
    node = mesh.shared("node1", "--xds-address", control.address, without=("--local-xds",), wait=False)
    until(lambda: len(control.requests()) >= 2, what="two requests")
    until(lambda: node.ready()[0] != 200 and "xds" in node.ready()[1], what="not ready, and why")
    with pytest.raises(ConnectionRefusedError):
        traffic.connect(mesh.c1, (mesh.c1.ip4, 15008)).close()
    control.mute = False
    control.close_streams()
    node.wait_ready()
    until(lambda: node.ready()[0] == 200, what="readiness")


def test_stored_state_serves_while_the_control_plane_is_away(mesh, control, tmp_path):
    dirs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        dirs.append(tmp_path / name)
    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    mesh.world.match_policy("no-s1", "Deny", principals=[{"Exact": mesh.s1.identity.removeprefix("spiffe://")}])
    control.push()
    flags = ("--xds-address", control.address)
    nodes = [mesh.shared(f"node{i + 1}", *flags, "--state-dir", str(d), without=("--local-xds",))
             for i, d in enumerate(dirs)]
    for node in nodes:
        node.terminate()
        node.wait()
    control.stop()
    for d in dirs:
        assert (d / "mesh.state").stat().st_size > 0 and (d / "mesh.state").stat().st_mode & 0o077 == 0
    nodes = [mesh.shared(f"node{i + 1}", *flags, "--state-dir", str(d), without=("--local-xds",))
             for i, d in enumerate(dirs)]
    nodes[0].wait_log("serving the stored state of")
    assert nodes[0].metrics().sum("spanwire_mesh_stored_state") == 1
    mesh.app = mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)
    assert mesh.refused(mesh.s1, mesh.s2)
    mesh.world.policies.clear()
    again = mesh.keep(MeshControl(mesh, list(mesh.topo.nodes.values())))
    until(lambda: nodes[1].metrics().sum("spanwire_mesh_stored_state") == 0, what="the control plane to take over")
    assert set(again.streams[0].requests[0].versions) == set(again.resources[ADDRESS])
    until(lambda: not mesh.refused(mesh.s1, mesh.s2), what="the policy to go")


def test_a_damaged_store_is_ignored(mesh, control, tmp_path):
    (tmp_path / "mesh.state").write_bytes(b"spanwire mesh 1\n" + struct.pack(">I", 99) + b"short")
    node = mesh.shared("node1", "--xds-address", control.address, "--state-dir", str(tmp_path),
                       without=("--local-xds",))
    node.wait_log("ignoring the stored state: .*cut off")


def test_a_message_beyond_the_limit_ends_the_stream(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    with control.lock:
        for stream in control.streams:
            stream.queue += struct.pack(">BI", 0, (200 << 20) + 1) + b"x" * 1000
            stream.flush()
    until(lambda: all(s.opened == 2 and len(s.answers) == 2 for s in control.streams), what="both to open another stream")
    mesh.roundtrip(mesh.c1, mesh.s2)
    mesh.node1.wait_log("stream to the control plane ended: .*209715201")


def test_a_large_message_below_the_limit(mesh, control):
    """64 MiB in one response: as many resources of a megabyte that no node knows the fields of, and one that it does."""
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    pad = field(1000, b"x" * (1 << 20))
    mesh.world.workloads["s2"]["services"]["default/late.test"] = {80: PORT}
    control.extra = {ADDRESS: {f"default/large-{i}.test": Resource(message(2, (
        field(1, f"large-{i}") + field(2, "default") + field(3, f"large-{i}.test") +
        message(4, field(2, bytes([10, 97, 0, i + 1]))) + message(5, b"\x08\x50") + pad))) for i in range(64)}}
    control.extra[ADDRESS]["default/late.test"] = Resource(message(2, (
        field(1, "late") + field(2, "default") + field(3, "late.test") +
        message(4, field(2, bytes([10, 96, 0, 9]))) + message(5, b"\x08\x50"))))
    control.push()
    until(lambda: all(len(s.answers) >= 3 for s in control.streams), what="an answer of both")
    assert all(s.opened == 1 and not a.error for s in control.streams for a in s.answers)
    mesh.roundtrip(mesh.c1, "10.96.0.9", 80)
    assert len([s for s in mesh.node1.config_dump()["services"] if s["name"].startswith("large-")]) == 64


def test_endpoints_of_an_unknown_service_are_staged(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    mesh.world.workloads["s2"]["services"]["default/late.test"] = {80: PORT}
    control.push()
    assert list(mesh.node1.config_dump()["stagedServices"]) == ["default/late.test"]
    control.extra = {ADDRESS: {"default/late.test": Resource(message(2, (
        field(1, "late") + field(2, "default") + field(3, "late.test") +
        message(4, field(2, bytes([10, 96, 0, 9]))) + message(5, b"\x08\x50"))))}}
    control.push()
    mesh.roundtrip(mesh.c1, "10.96.0.9", 80)
    assert mesh.node1.config_dump()["stagedServices"] == {}


def test_churn_elsewhere_leaves_connections_alone(mesh, control):
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    socks = [mesh.connect(mesh.c1, mesh.s2) for _ in range(10)]
    for _ in range(5):
        for i in range(100):
            mesh.world.workload(f"other-{i}", [f"10.77.0.{i + 1}"], node="elsewhere")
        control.push()
        for i in range(100):
            del mesh.world.workloads[f"other-{i}"]
        control.push()
        for sock in socks:
            traffic.echo_once(sock)
    assert len(mesh.node1.config_dump()["workloads"]) == len(mesh.world.workloads)
    stays(lambda: not any(traffic.ended(s) for s in socks), 0.2)


def test_on_demand_lookups_wait_for_their_answer(mesh, control):
    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    control.push()
    control.always = {w["uid"] for w in mesh.world.workloads.values()}
    start(mesh, control, "--xds-on-demand", "true", "--dns", "false")
    first = control.requests(ADDRESS)[0]
    assert first.subscribe == ["*"] and first.unsubscribe == ["*"]
    mesh.app = mesh.echo(mesh.s2)
    assert mesh.node1.config_dump()["services"] == []
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)  # by an alias: the answer is named namespace/hostname
    asked = [n for r in control.requests(ADDRESS) for n in r.subscribe]
    assert asked.count("/10.96.0.1") == 1
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)
    assert [n for r in control.requests(ADDRESS) for n in r.subscribe].count("/10.96.0.1") == 1
    assert mesh.node1.metrics().sum("spanwire_mesh_lookups_total", result="answered") >= 1


@pytest.fixture
def outside(mesh):
    """Addresses outside of the mesh, where nothing listens."""
    mesh.topo.fabric.ip("route add local 172.172.9.0/24 dev lo")
    yield [f"172.172.9.{i}" for i in range(1, 21)]
    mesh.topo.fabric.ip("route del local 172.172.9.0/24 dev lo")


def test_addresses_that_nothing_has_make_room(mesh, control, outside):
    """A pod that tries many addresses outside of the mesh keeps no other from reaching something new."""
    mesh.world.service("echo", ["10.96.0.1"], {80: PORT}, ["s2"])
    control.push()
    control.always = {w["uid"] for w in mesh.world.workloads.values()}
    start(mesh, control, "--xds-on-demand", "true", "--xds-on-demand-max", "8", "--dns", "false")
    mesh.app = mesh.echo(mesh.s2)
    for ip in outside:
        assert mesh.refused(mesh.s1, ip, 80)
    mesh.roundtrip(mesh.c1, "10.96.0.1", 80)
    left = [n for r in control.requests(ADDRESS) for n in r.unsubscribe]
    assert f"/{outside[0]}" in left
    assert mesh.refused(mesh.s1, outside[0], 80)  # by itself: the limit refuses nobody
    asked = [n for r in control.requests(ADDRESS) for n in r.subscribe]
    assert asked.count(f"/{outside[0]}") == 2
    assert mesh.node1.metrics().sum("spanwire_mesh_lookups_total", result="limit") == 0


def test_an_unanswered_lookup_is_refused_in_time(mesh, control):
    control.always = {w["uid"] for w in mesh.world.workloads.values()}
    start(mesh, control, "--xds-on-demand", "true", "--dns", "false")
    mesh.app = mesh.echo(mesh.s2)
    control.mute = True
    assert mesh.refused(mesh.c1, "10.96.0.7", 80)
    mesh.node1.wait_log("did not answer the lookup of '/10.96.0.7'")
    assert mesh.node1.metrics().sum("spanwire_mesh_lookups_total", result="timeout") == 1
    mesh.roundtrip(mesh.c1, mesh.s2)  # what is known needs no answer


def test_a_caller_that_is_not_known_yet_is_looked_up(mesh, control):
    """On demand a node knows its own pods only; who calls them it asks, and logs the answer."""
    caller = mesh.world.workloads["p1"]["uid"]
    control.always = {w["uid"] for w in mesh.world.workloads.values()} - {caller}
    start(mesh, control, "--xds-on-demand", "true", "--dns", "false")
    mesh.app = mesh.echo(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    for _ in range(2):
        stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}")
        assert stream.status == 200
        peer.end(stream)
    for line in mesh.node2.wait_access(2, direction="inbound"):
        assert line["src.workload"] == "p1"
    asked = [n for r in control.requests(ADDRESS) for n in r.subscribe]
    assert asked.count(f"/{mesh.p1.ip4}") == 1


def test_a_caller_nobody_knows_is_served_all_the_same(mesh, control):
    control.always = {w["uid"] for w in mesh.world.workloads.values()} - {mesh.world.workloads["p1"]["uid"]}
    start(mesh, control, "--xds-on-demand", "true", "--dns", "false")
    mesh.app = mesh.echo(mesh.s2)
    control.mute = True
    peer = mesh.hbone(mesh.s2)
    assert peer.tunnel(f"{mesh.s2.ip4}:{PORT}").status == 200
    mesh.node2.wait_log(f"did not answer the lookup of '/{mesh.p1.ip4}'")


def test_carriers_to_a_workload_that_is_gone_end(mesh, control):
    """Its address may be another's soon, and nobody is left who would say goodbye."""
    start(mesh, control)
    mesh.app = mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    gone = mesh.world.workloads.pop("s2")
    control.push()
    until(lambda: mesh.node1.metrics().sum("spanwire_pool_retired_total") == 1, what="the carrier to end")
    mesh.world.workloads["s2"] = gone
    control.push()
    mesh.roundtrip(mesh.c1, mesh.s2)
    assert mesh.node1.metrics().sum("spanwire_pool_misses_total") == 2


def test_on_demand_excludes_dns_capture(mesh):
    node = mesh.shared("node1", "--xds-address", "http://127.0.0.1:1", "--xds-on-demand", "true",
                       without=("--local-xds",), wait=False, env={"ISTIO_META_DNS_CAPTURE": "true"})
    node.expect_status = 1
    assert node.wait() == 1
    node.wait_log("ISTIO_META_DNS_CAPTURE")
