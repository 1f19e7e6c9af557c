# SPDX-License-Identifier: Apache-2.0
"""One HTTPRoute whose backends are a pod over HBONE, a device over QUIC and an Import of another site, by weight."""
import contextlib
import http.client
import select
import socket
from types import SimpleNamespace

import pytest
from harness import fabric as fb
from harness.device import Device
from harness.link_control import SYSTEM
from harness.link_control import Site as Objects
from harness.ports import free_port
from harness.serve import Each
from harness.sidecar import Sidecar
from harness.sites import LISTEN, Plane, World
from harness.wait import GUARD, SLOW, until

HERE, INSIDE = "198.51.100.254", "172.172.0.254"  # for sites, and for pods
PLACES = {"pod", "laptop", "siteb"}


def web(name):
    """An application that answers with its name."""
    def app(conn):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = conn.recv(4096)
            if not piece:
                return
            head += piece
        conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\nConnection: close\r\n\r\n{name}".encode())
    return app


def ask(ns, port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD * SLOW)
    with contextlib.closing(c):
        with ns.entered():
            c.connect()
        c.request("GET", "/")
        r = c.getresponse()
        return r.status, r.read().decode()


@contextlib.contextmanager
def passed_on(ns, here, port):
    """A port inside a namespace that leads to one of ours, which listens on loopback only."""
    def app(conn):
        with here.entered():
            out = socket.create_connection(("127.0.0.1", port))
        with out:
            other = {conn: out, out: conn}
            while True:
                for s in select.select(list(other), [], [])[0]:
                    data = s.recv(65536)
                    if not data:
                        return
                    other[s].sendall(data)
    with ns.entered():
        server = Each(app)
    yield server.port
    server.close()


@pytest.fixture
def parts(binary, tmp_path, mesh):
    """The gateway is the pod c1 of node1; control plane, link and tunnels are on the machine between the nodes."""
    with contextlib.ExitStack() as stack:
        world = World(binary, tmp_path)
        stack.callback(world.close)
        world.here.ip(f"addr add {HERE}/24 dev sites", "addr add 2001:db8::fe/64 dev sites nodad")
        far = world.site("siteb")
        far.policy("all")
        far.export("web", far.serve(web("siteb")))
        for n in mesh.topo.nodes.values():
            world.here.ip(f"route add 10.0.{n.index}.0/24 via {n.ip4}")
            stack.callback(world.here.ip, f"route del 10.0.{n.index}.0/24")
        own = world.fabric.peer("home", where=tmp_path / "home")
        sidecar = tmp_path / "sidecar"
        fabric = fb.Fabric(binary, tmp_path / "fb", "--link-listen", "127.0.0.1:0", "--link-fabric", str(own),
                           "--link-address", INSIDE, "--connect-proxy", str(sidecar / "s.sock"))
        stack.callback(fabric.close)
        control = fabric.control
        home = Objects(control, control.data / "link-site", "home")
        link = Plane(binary, SimpleNamespace(ns=world.here, site=home.site, ip4=HERE, ip6="2001:db8::fe",
                                             where=tmp_path), control=home.port)
        stack.callback(link.close)
        gateway = fb.XdsGateway(binary, fabric.dir, SimpleNamespace(
            xds_port=stack.enter_context(passed_on(mesh.c1, world.here, fabric.xds_port)), ca=fabric.ca,
            token=fabric.token), ns=mesh.c1)
        stack.callback(gateway.stop)
        tunnels = Sidecar(binary, sidecar, kubeconfig=control.kubeconfig).wait_ready()
        stack.callback(tunnels.close)
        yield SimpleNamespace(stack=stack, far=far, fabric=fabric, home=home, link=link, gateway=gateway, tmp=tmp_path,
                              binary=binary, mesh=mesh)


def test_one_route_to_a_pod_a_device_and_another_site(parts):
    home, fabric = parts.home, parts.fabric
    mesh, edge = parts.mesh, parts.mesh.c1
    one, two = mesh.both()
    with mesh.s2.entered():
        pod = Each(web("pod"), host=mesh.s2.ip4)
    laptop = Each(web("laptop"))
    for s in (pod, laptop):
        parts.stack.callback(s.close)
    fabric.service("near", [(mesh.s2.ip4, pod.port)])
    device = Device(parts.binary, parts.tmp / "device", fabric.control.kubeconfig, "--name", "laptop", "--allow",
                    f"127.0.0.1:{laptop.port}")
    parts.stack.callback(device.stop)
    device.wait_live()
    home.pod("c1", edge.ip4, {"app": "edge"}, account="c1")
    home.put("peers", "Peer", "siteb", {"gateways": [{"host": parts.far.ip4, "port": LISTEN}]}, SYSTEM)
    home.policy("edge", src={"matchLabels": {"client.clusterlink.net/service-account": "c1"}})
    home.imports("web", ("siteb", "web"))
    port = free_port()
    fabric.gateway_object("gw", [("http", "HTTP", port)])
    fabric.apply(fb.route("all", "gw", [{"backendRefs": [
        {"name": "near", "port": 80, "weight": 1},
        {"group": fb.DATUM, "kind": "Connector", "name": "laptop", "port": laptop.port, "weight": 1},
        {"group": "clusterlink.net", "kind": "Import", "name": "web", "port": 80, "weight": 1}]}]))

    def all_of_them():
        with contextlib.suppress(OSError, http.client.HTTPException):
            got = [ask(edge, port) for _ in range(30)]
            return all(status == 200 for status, _ in got) and {text for _, text in got} == PLACES
        return False
    until(all_of_them, what=f"all three: {parts.gateway.log()[-1500:]}")
    # Who it is, is the same for nodes and for both sites: the account of whoever asked.
    for node, side in ((one, "outbound"), (two, "inbound")):
        assert node.wait_access(direction=side, src_identity=edge.identity, dst_identity=mesh.s2.identity)
    for link, side in ((parts.link, "outbound"), (parts.far.link, "inbound")):
        link.wait_log(f'connection complete.*src.workload="default/c1".*direction="{side}"')
    # What the link denies is the gateway's failure for that share, and for no other.
    home.drop("accesspolicies", "edge")

    def only_the_others():
        got = [ask(edge, port) for _ in range(30)]
        return {text for status, text in got if status == 200} == PLACES - {"siteb"} \
            and any(status in (502, 503) for status, _ in got)
    until(only_the_others, what="the denial")
