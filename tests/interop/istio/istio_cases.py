# SPDX-License-Identifier: Apache-2.0
"""
The questions that every combination of pieces is asked, in the order of the table in doc/conformance/mesh.md. Each is a
function of a world that asserts; its first line of documentation is its name in the table.
"""
import threading

from harness import traffic
from harness.ca_peer import Signer
from harness.wait import guard, until
from istio_world import CLOSED, FIRST, MIB, PORT, SINK, SOURCE, SPARE

CASES = []
ROOT = "istio-system"


def case(function):
    CASES.append(function)
    return function


def title(function):
    return function.__doc__.strip().splitlines()[0].rstrip(".")


def source(**what):
    return [{"from": [{"source": what}]}]


def tunnelled(w, src, dst, to, port=PORT):
    """Served, and both nodes log who the two are. A pod that has just come is plain until its node says otherwise."""
    both = {"src_identity": src.identity, "dst_identity": dst.identity}
    before = w.marks()
    until(lambda: w.served(src, to, port) and w.log_lines(src, "outbound", before[src.node.name], **both),
          what=f"a tunnel from {src.name} to {dst.name}")
    marks = w.marks()
    assert w.served(src, to, port)
    w.log_line(src, "outbound", marks[src.node.name], **both)
    w.log_line(dst, "inbound", marks[dst.node.name], **both)


# -- who reaches whom -----------------------------------------------------------------------------

@case
def pod_v4(w):
    """Pod to pod of another node, IPv4, both identities in both logs."""
    tunnelled(w, w.web, w.db, w.db.ip4)


@case
def pod_v6(w):
    """Pod to pod of another node, IPv6."""
    tunnelled(w, w.web, w.db, w.db.ip6)


@case
def pod_same_node(w):
    """Pod to pod of the same node, IPv4."""
    tunnelled(w, w.web, w.near, w.near.ip4)


@case
def pod_same_node_v6(w):
    """Pod to pod of the same node, IPv6."""
    tunnelled(w, w.web, w.near, w.near.ip6)


@case
def to_itself(w):
    """A pod reaches itself by its address."""
    w.serves(w.db, w.db)


@case
def to_uncaptured(w):
    """Captured to uncaptured pod, same and other node, both families, plain."""
    for dst in (w.bare1, w.bare2):
        w.serves(w.web, dst)
        w.serves(w.web, dst.ip6)


@case
def from_uncaptured(w):
    """Uncaptured to captured pod, same and other node, IPv4."""
    w.serves(w.bare1, w.db)
    w.serves(w.bare2, w.db)
    marks = w.marks()
    assert w.served(w.bare1, w.db)
    line = w.log_line(w.db, "inbound", marks["node2"])
    assert not line.get("src.identity"), line


@case
def from_uncaptured_v6(w):
    """Uncaptured to captured pod, IPv6."""
    w.serves(w.bare1, w.db.ip6)
    w.serves(w.bare2, w.db.ip6)


@case
def outside_in_and_out(w):
    """A machine outside of the mesh, in and out."""
    for src, dst in ((w.outside, w.db), (w.web, w.outside)):
        w.serves(src, dst.ip4)
        w.serves(src, dst.ip6)


@case
def closed_port(w):
    """A port nobody listens on is refused, near and far, and nothing else breaks."""
    for dst in (w.near, w.db):
        assert traffic.refused(w.web, (dst.ip4, CLOSED))
        w.serves(w.web, dst)


# -- Services, entries, names -----------------------------------------------------------------------

def entry(host, app, port, *addresses):
    """The spec of a ServiceEntry that selects workloads."""
    return {"hosts": [host], "resolution": "STATIC", "location": "MESH_INTERNAL", "addresses": list(addresses),
            "ports": [{"number": port, "name": "tcp", "protocol": "TCP", "targetPort": PORT}],
            "workloadSelector": {"labels": {"app": app}}}


def both_replicas(w, src, vip, port):
    """The two endpoints of app db both answer at one address."""
    mark = w.marks()["node2"]

    def both():
        w.serves(src, vip, port)
        lines = w.place_of(w.db).z.access()[mark:]
        return {x.get("dst.identity") for x in lines if x.get("direction") == "inbound"} >= {
            w.db.identity, w.db2.identity}
    until(both, what="both endpoints to be used")


@case
def vip(w):
    """Service address, another target port, all endpoints used."""
    with w.service("c-vip") as s:
        both_replicas(w, w.web, s["spec"]["clusterIP"], 80)


@case
def vip_v6(w):
    """Address of a service, IPv6 (of a ServiceEntry: the embedded API gives Services IPv4 only)."""
    with w.object("ServiceEntry", "c-six", spec=entry("c-six.example", "db", 80, "240.9.0.6", "2001:2::9:6")):
        both_replicas(w, w.web, "2001:2::9:6", 80)


@case
def vip_same_node(w):
    """Service address, endpoint on the node of the client."""
    with w.service("c-near", app="near") as s:
        tunnelled(w, w.web, w.near, s["spec"]["clusterIP"], 80)


@case
def named_port(w):
    """Service with a named target port."""
    with w.service("c-named", ports=[{"name": "tcp", "port": 81, "targetPort": "echo"}]) as s:
        w.serves(w.web, s["spec"]["clusterIP"], 81)


@case
def local_only(w):
    """internalTrafficPolicy Local uses endpoints of the own node, or none."""
    ports = [{"name": "tcp", "port": 80, "targetPort": PORT}]
    with w.service("c-here", app="near", ports=ports, internalTrafficPolicy="Local") as s:
        w.serves(w.web, s["spec"]["clusterIP"], 80)
    with w.service("c-there", app="db", ports=ports, internalTrafficPolicy="Local") as s:
        w.serves(w.db2, s["spec"]["clusterIP"], 80)
        assert not w.served(w.web, s["spec"]["clusterIP"], 80)


@case
def not_ready(w):
    """An endpoint that is not ready gets no connection until it is."""
    status = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    with w.service("c-one", app="near") as s:
        w.serves(w.web, s["spec"]["clusterIP"], 80)
        assert w.api.patch(w.near.path_api + "/status", status).status == 200
        try:
            w.refuses(w.web, s["spec"]["clusterIP"], 80)
            w.serves(w.web, w.near)
        finally:
            w.places[0].rig.running(w.near)
        w.serves(w.web, s["spec"]["clusterIP"], 80)


@case
def slice_outside(w):
    """Service without a selector, its EndpointSlice names a machine outside."""
    with w.service("c-slice", app=None) as s, w.object(
            "EndpointSlice", "c-slice-1", labels={"kubernetes.io/service-name": "c-slice"}, addressType="IPv4",
            ports=[{"name": "tcp", "port": PORT, "protocol": "TCP"}],
            endpoints=[{"addresses": [w.outside.ip4], "conditions": {"ready": True}}]):
        w.serves(w.web, s["spec"]["clusterIP"], 80)


@case
def dns(w):
    """Names: full, short, of another namespace, both families."""
    with w.service("c-name", clusterIP="10.96.0.77"):
        for name in ("c-name.shop.svc.cluster.local.", "c-name.shop.", "c-name."):
            w.answers(w.web, name, ["10.96.0.77"])
        w.answers(w.other, "c-name.shop.svc.cluster.local.", ["10.96.0.77"])
    with w.object("ServiceEntry", "c-two", spec=entry("c-two.example", "db", 80, "240.9.0.7", "2001:2::9:7")):
        w.answers(w.web, "c-two.example.", ["240.9.0.7"])
        w.answers(w.web, "c-two.example.", ["2001:2::9:7"], "AAAA")


@case
def headless(w):
    """Headless Service: its name gives the pods, and they answer."""
    with w.service("c-head", clusterIP="None"):
        w.answers(w.web, "c-head.shop.svc.cluster.local.", [w.db.ip4, w.db2.ip4])
        for ip in w.ask(w.web, "c-head.shop.svc.cluster.local."):
            w.serves(w.web, ip)


@case
def entry_allocated(w):
    """ServiceEntry without addresses gets one, its name gives it, its endpoint answers."""
    spec = {"hosts": ["c-entry.example"], "resolution": "STATIC", "location": "MESH_EXTERNAL",
            "ports": [{"number": 80, "name": "tcp", "protocol": "TCP", "targetPort": PORT}],
            "endpoints": [{"address": w.outside.ip4}]}
    with w.object("ServiceEntry", "c-entry", spec=spec):
        until(lambda: len(w.ask(w.web, "c-entry.example.")) == 1, what="the name of the entry")
        ip, = w.ask(w.web, "c-entry.example.")
        assert ip.startswith("240.240."), ip
        w.serves(w.web, ip, 80)


@case
def entry_selects_pods(w):
    """ServiceEntry with an address that selects pods of the mesh."""
    with w.object("ServiceEntry", "c-pods", spec=entry("c-pods.example", "near", 82, "240.9.0.1")):
        tunnelled(w, w.web, w.near, "240.9.0.1", 82)


@case
def workload_entry(w):
    """WorkloadEntry behind a ServiceEntry, and behind a Service."""
    vm = {"address": w.outside.ip4, "labels": {"app": "vm"}, "serviceAccount": "vm", "ports": {"tcp": PORT}}
    spec = entry("c-vm.example", "vm", 83, "240.9.0.2")
    with w.object("WorkloadEntry", "c-vm", spec=vm), w.object("ServiceEntry", "c-vm", spec=spec), \
            w.service("c-vm-svc", app="vm") as s:
        w.serves(w.web, "240.9.0.2", 83)
        w.serves(w.web, s["spec"]["clusterIP"], 80)


# -- who may ----------------------------------------------------------------------------------------

@case
def strict_namespace(w):
    """STRICT in a namespace refuses plain text there, and PERMISSIVE again lets it in."""
    w.serves(w.bare1, w.db)
    with w.peers("STRICT"):
        w.refuses(w.bare1, w.db)
        w.refuses(w.outside, w.db)
        w.serves(w.web, w.db)
        w.serves(w.web, w.near)
        w.serves(w.bare1, w.other)
    with w.peers("PERMISSIVE"):
        w.serves(w.bare1, w.db)


@case
def strict_mesh(w):
    """STRICT for the mesh, PERMISSIVE for one workload of it."""
    with w.peers("STRICT", ROOT), w.peers("PERMISSIVE", app="near"):
        w.refuses(w.bare1, w.db)
        w.refuses(w.bare1, w.other)
        w.serves(w.bare1, w.near)
        w.serves(w.web, w.db)


@case
def strict_ports(w):
    """STRICT but for one port; the other way round."""
    with w.peers("STRICT", app="db", ports={str(PORT): {"mode": "PERMISSIVE"}}):
        w.refuses(w.bare1, w.db, SPARE)
        w.serves(w.bare1, w.db)
        w.serves(w.web, w.db)
    with w.peers("PERMISSIVE", app="db", ports={str(PORT): {"mode": "STRICT"}}):
        w.refuses(w.bare1, w.db)
        w.serves(w.bare1, w.db, SPARE)
        w.serves(w.web, w.db)


@case
def allow_principal(w):
    """ALLOW by principal: nobody else, no plain text."""
    with w.policy("ALLOW", source(principals=["cluster.local/ns/shop/sa/web"])):
        w.refuses(w.other, w.db)
        w.refuses(w.near, w.db)
        w.refuses(w.bare1, w.db)
        w.serves(w.web, w.db)
        w.serves(w.other, w.near)
    w.serves(w.other, w.db)


@case
def allow_namespace(w):
    """ALLOW by namespace, and by service account."""
    with w.policy("ALLOW", source(namespaces=["annex"])):
        w.refuses(w.web, w.db)
        w.serves(w.other, w.db)
    with w.policy("ALLOW", source(serviceAccounts=["annex/other"])):
        w.refuses(w.web, w.db)
        w.serves(w.other, w.db)


@case
def deny_principal(w):
    """DENY by principal prefix, same and other node."""
    with w.policy("DENY", source(principals=["cluster.local/ns/shop/*"]), app=None):
        w.refuses(w.web, w.db)
        w.refuses(w.web, w.near)
        w.serves(w.other, w.db)
        w.serves(w.bare1, w.db)


@case
def deny_not(w):
    """DENY of all but a namespace."""
    with w.policy("DENY", source(notNamespaces=["annex"])):
        w.refuses(w.web, w.db)
        w.refuses(w.bare1, w.db)
        w.serves(w.other, w.db)


@case
def deny_ip(w):
    """DENY by address of the client, captured and not."""
    with w.policy("DENY", source(ipBlocks=[w.web.ip4 + "/32", w.bare1.ip4])):
        w.refuses(w.web, w.db)
        w.refuses(w.bare1, w.db)
        w.serves(w.other, w.db)
        w.serves(w.bare2, w.db)


@case
def deny_port(w):
    """DENY by port of the pod, also when a Service has another."""
    with w.policy("DENY", [{"to": [{"operation": {"ports": [str(PORT)]}}]}]), w.service("c-port") as s:
        w.refuses(w.web, w.db)
        until(lambda: not w.served(w.web, s["spec"]["clusterIP"], 80), what="the Service to be refused")
        w.serves(w.web, w.db, SPARE)


@case
def allow_nothing(w):
    """ALLOW without rules refuses everybody; DENY before ALLOW."""
    with w.policy("ALLOW"):
        w.refuses(w.web, w.db)
        w.refuses(w.bare2, w.db)
    with w.policy("ALLOW", source(namespaces=["shop", "annex"])), \
            w.policy("DENY", source(principals=["*/sa/web"]), name="case2"):
        w.refuses(w.web, w.db)
        w.serves(w.other, w.db)


@case
def policy_of_the_root(w):
    """A policy of the root namespace, for all and by labels."""
    with w.policy("DENY", source(namespaces=["annex"]), app=None, ns=ROOT):
        w.refuses(w.other, w.db)
        w.refuses(w.other, w.near)
        w.serves(w.web, w.db)
    with w.policy("DENY", source(namespaces=["annex"]), app="near", ns=ROOT):
        w.refuses(w.other, w.near)
        w.serves(w.other, w.db)


@case
def http_attributes(w):
    """HTTP attributes in an ALLOW rule: the rule lets nobody in, others of the policy count."""
    rules = [{"to": [{"operation": {"methods": ["GET"]}}]}, *source(namespaces=["annex"])]
    with w.policy("ALLOW", rules):
        w.refuses(w.web, w.db)
        w.serves(w.other, w.db)


@case
def open_connections(w):
    """A new policy ends open connections that it refuses, tunnelled, plain and of the same node, and no others."""
    ends = [w.open(w.web, w.db), w.open(w.web, w.near), w.open(w.bare1, w.db)]
    kept = [w.open(w.other, w.db), w.open(w.other, w.near)]
    with w.policy("ALLOW", source(namespaces=["annex"]), app=None):
        for sock in ends:
            w.ends(sock)
        for sock in kept:
            traffic.echo_once(sock)


# -- bytes ------------------------------------------------------------------------------------------

@case
def server_first(w):
    """A server that speaks first."""
    for src in (w.web, w.bare1):
        for dst in (w.db, w.near):
            with traffic.connect(src, (dst.ip4, FIRST)) as sock:
                assert traffic.read_exact(sock, 6) == b"hello\n"
                traffic.echo_once(sock)


@case
def half_close(w):
    """A client that has finished still gets its answer."""
    for src in (w.web, w.bare1):
        for dst in (w.db, w.near):
            with traffic.connect(src, (dst.ip4, SINK)) as sock:
                traffic.upload(sock, 3 * MIB)


@case
def large(w):
    """64 MiB up and 16 MiB down, every byte compared."""
    for dst in (w.db, w.near):
        with traffic.connect(w.web, (dst.ip4, SINK)) as sock:
            traffic.upload(sock, 64 * MIB)
        with traffic.connect(w.web, (dst.ip4, SOURCE)) as sock:
            traffic.download(sock, 16 * MIB)


@case
def many(w):
    """200 connections at once, all alive."""
    socks = [w.mesh.connect(w.web, w.db) for _ in range(200)]
    for _ in range(2):
        for sock in socks:
            traffic.echo_once(sock)
    for sock in socks:
        sock.close()


# -- lives ------------------------------------------------------------------------------------------

@case
def control_restarts(w):
    """The control plane is killed: open and new connections go on; back again it is obeyed."""
    kept = w.open(w.web, w.db)
    w.kill_control()
    traffic.echo_once(kept)
    assert w.served(w.web, w.db) and w.served(w.other, w.near) and w.served(w.bare1, w.db)
    w.start_control()
    with w.policy("DENY", source(principals=["*/sa/other"])):
        w.refuses(w.other, w.db)
        traffic.echo_once(kept)
    w.serves(w.other, w.db)


@case
def agent_restarts(w):
    """The node agent is killed: connections go on; back again it brings the next pod in."""
    place = w.places[1]
    kept = w.open(w.web, w.db)
    place.rig.agents[-1].kill()
    traffic.echo_once(kept)
    w.serves(w.web, w.db)
    place.rig.start()
    traffic.echo_once(kept)
    late = w.join("late", 1, 78, "shop")
    w.echo(late)
    tunnelled(w, w.web, late, late.ip4)
    tunnelled(w, late, w.near, w.near.ip4)


@case
def address_used_again(w):
    """A pod goes; another with its address has its own identity."""
    if "late" not in w.pods:
        w.join("late", 1, 78, "shop")
    w.leave("late")
    heir = w.join("heir", 1, 78, "annex")
    w.echo(heir)
    with w.policy("ALLOW", source(namespaces=["annex"]), app="near"):
        w.refuses(w.web, w.near)
        tunnelled(w, heir, w.near, w.near.ip4)
    tunnelled(w, w.web, heir, heir.ip4)


@case
def proxy_restarts(w):
    """The proxy of a node restarts: its pods are served again."""
    for place in w.places:
        place.restart()
        w.serves(w.web, w.db)
        w.serves(w.bare1, w.db)
        tunnelled(w, w.web, w.near, w.near.ip4)


@case
def roots_change(w):
    """The root of the authority is exchanged under traffic."""
    kept = w.open(w.web, w.db)
    over, failed = threading.Event(), []

    def ask():
        while not over.is_set():
            if not w.served(w.web, w.db, timeout=20):
                failed.append(w.ca.roots)
            over.wait(0.2)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        old, new = w.ca.roots[0], Signer("root two")
        w.ca.trust(old, new)
        until(lambda: w.roots_known(2), 90, "all certificates to come with both roots")
        w.ca.sign_with(new)
        w.ca.trust(old, new)
        until(lambda: w.issued_by(new), 90, "all certificates to be signed below the new root")
        w.ca.trust(new)
        until(lambda: w.roots_known(1), 90, "the old root to be gone")
    finally:
        over.set()
        asking.join(guard(60))
    assert not failed, f"{len(failed)} connections failed"
    traffic.echo_once(kept)
    tunnelled(w, w.web, w.db, w.db.ip4)
