# SPDX-License-Identifier: Apache-2.0
"""A pod of the mesh reaches a service of another site by the name of the Import, with nothing but objects."""
import contextlib
from types import SimpleNamespace

import pytest
from harness import traffic
from harness.dns import KDIG
from harness.link_control import SYSTEM
from harness.link_control import Site as Objects
from harness.sites import LISTEN, Plane, World
from harness.wait import until
from test_link import echo
from test_link_route import HERE, INSIDE
from test_mesh_dns import ask as dig
from test_mesh_dns import records
from test_mesh_whole import Whole, served


@pytest.fixture
def parts(mesh, binary, tmp_path):
    """The control plane of the mesh is the home site's, too; its data plane is on the machine between the nodes."""
    with contextlib.ExitStack() as stack:
        world = World(binary, tmp_path)
        stack.callback(world.close)
        world.here.ip(f"addr add {HERE}/24 dev sites", "addr add 2001:db8::fe/64 dev sites nodad")
        far = world.site("siteb")
        far.policy("all")
        far.export("web", far.serve(echo))
        for n in mesh.topo.nodes.values():
            world.here.ip(f"route add 10.0.{n.index}.0/24 via {n.ip4}")
            stack.callback(world.here.ip, f"route del 10.0.{n.index}.0/24")
        own = world.fabric.peer("home", where=tmp_path / "home")
        whole = Whole(mesh, binary, tmp_path, "--link-listen", "127.0.0.1:0", "--link-fabric", str(own),
                      "--link-address", INSIDE, nodes=("node1",))
        stack.callback(whole.close)
        home = Objects(whole.api, whole.api.data / "link-site", "home")
        link = Plane(binary, SimpleNamespace(ns=world.here, site=home.site, ip4=HERE, ip6="2001:db8::fe",
                                             where=tmp_path), control=home.port)
        stack.callback(link.close)
        yield SimpleNamespace(far=far, whole=whole, home=home, link=link, mesh=mesh)


@pytest.mark.skipif(not KDIG, reason="kdig is not installed")
def test_a_pod_reaches_an_import_by_its_name(parts):
    mesh, home, [node] = parts.mesh, parts.home, parts.whole.nodes
    shop, other = node.join("shop", 71), node.join("other", 72)
    home.put("peers", "Peer", "siteb", {"gateways": [{"host": parts.far.ip4, "port": LISTEN}]}, SYSTEM)
    home.put("imports", "Import", "web", {"port": 80, "lbScheme": "round-robin", "sources": [
        {"peer": "siteb", "exportName": "web", "exportNamespace": "default"}]}, "shop")
    home.put("accesspolicies", "AccessPolicy", "shop", {"action": "allow", "to": [{"workloadSelector": {}}], "from": [
        {"workloadSelector": {"matchLabels": {"client.clusterlink.net/service-account": "shop"}}}]}, "shop")
    found = until(lambda: records(dig(shop, "web.shop.svc.cluster.local")), what="an address for the name")
    assert found == [parts.whole.api.get("/api/v1/namespaces/shop/services/web").json["spec"]["clusterIP"]]
    until(lambda: served(mesh, shop, found[0], 80), what=f"the other site: {home.control.log()[-1500:]}")
    for link, side in ((parts.link, "outbound"), (parts.far.link, "inbound")):
        link.wait_log(f'connection complete.*src.workload="shop/shop".*direction="{side}"')
    # It is the pod that is judged, not the proxy of its node: another pod of the same node has no permission.
    kept = mesh.connect(shop, found[0], 80)
    traffic.echo_once(kept)
    assert not served(mesh, other, found[0], 80)
    home.drop("accesspolicies", "shop", "shop")
    until(lambda: traffic.ended(kept), what="the end of what is not allowed any more")
