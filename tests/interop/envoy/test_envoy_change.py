# SPDX-License-Identifier: Apache-2.0
"""
Everything changes under load and no request fails, with a real Envoy as the data plane: the tests
of tests/e2e/test_gateway_change.py, over delta and over state of the world, and what only Envoy
can tell: that a change of endpoints or certificates touches nothing else, and that it comes back
after a break with what it has.
"""
import http.client
import json
import re
import socket
import ssl
import subprocess

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.envoy import Envoy
from harness.load import Load
from harness.wait import stays, until
from test_gateway_change import (World, test_a_certificate_is_replaced,  # noqa: F401
                                 test_a_route_moves_to_services_that_nothing_used_before,
                                 test_a_thousand_route_changes_fail_no_request, test_endpoints_come_and_go)

# What an update that is not meant for them must leave alone.
BUILT = ("listener_manager.listener_added", "listener_manager.listener_modified", "listener_manager.listener_removed",
         "cluster_manager.cluster_added", "cluster_manager.cluster_modified", "cluster_manager.cluster_removed")


class EnvoyFabric(fb.Fabric):
    delta, envoy = True, None

    def start_gateway(self, *flags, **kw):
        e = Envoy.of_control(self.envoy, self.binary, self.dir, self.control, *flags, delta=self.delta, node="edge")
        self.gateways.append(e)
        if kw.get("wait", True):
            e.wait_ready()
        return e


@pytest.fixture(scope="module", name="w", params=["delta", "state of the world"])
def _w(request, binary, interop_dir, tmp_path_factory):
    def fabric(binary, tmp):
        kind = type("It", (EnvoyFabric,), {"delta": request.param == "delta", "envoy": interop_dir / "envoy"})
        return kind(binary, tmp)
    world = World(binary, tmp_path_factory.mktemp("change"), fabric)
    yield world
    assert world.gateway.rejected() == {}
    world.close()


def built(envoy):
    return {k: v for k, v in envoy.stats("_manager").items() if k in BUILT}


def rds_updates(envoy):
    return sum(v for k, v in envoy.stats("rds").items() if k.endswith("config_reload"))


def ask_tls(w, path):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    c = http.client.HTTPSConnection("127.0.0.1", w.https, context=context, timeout=40)
    try:
        c.request("GET", path, headers={"Host": "load.test"})
        return c.getresponse().status
    finally:
        c.close()


def settle(w):
    """Whatever earlier tests asked for has arrived in both tables: changes come in order, and these are the last."""
    w.fabric.apply(fb.route("settled", "edge", [fb.prefix("/settled", fb.to("a"))]))
    until(lambda: w.ask("/settled")[0] == ask_tls(w, "/settled") == 200, what="a route at both listeners")
    w.fabric.delete("HTTPRoute", "settled")
    until(lambda: w.ask("/settled")[0] == ask_tls(w, "/settled") == 404, what="it to go from both")


def test_endpoints_and_certificates_rebuild_nothing(w):
    f, ports = w.fabric, [b.port for b in w.backends.values()]
    settle(w)
    before, tables = built(w.gateway), rds_updates(w.gateway)
    for i in range(30):
        f.endpoints("many", ports[:1 + i % 3])
    f.secret("cert", *fb.make_cert(w.tmp, "load.test"))
    f.endpoints("many", ports[1:2])
    until(lambda: all(w.ask("/many") == (200, "b") for _ in range(10)), 5, "only b to be left")
    f.endpoints("many", ports)
    until(lambda: {w.ask("/many")[1] for _ in range(20)} == {"a", "b", "c"}, 5, "all to be back")
    assert (built(w.gateway), rds_updates(w.gateway)) == (before, tables)


def test_it_comes_back_with_what_it_has(w):
    f, e = w.fabric, w.gateway
    with Load(w.http, ["/load", "/many"]) as load:
        load.more(200)
        settle(w)
        before, tables = built(e), rds_updates(e)
        f.control.kill()
        until(lambda: e.stats("control_plane.connected")["control_plane.connected_state"] == 0, 10)
        load.more(1000)
        f.control.restart()
        until(lambda: e.stats("control_plane.connected")["control_plane.connected_state"] == 1, 40)
        f.apply(fb.route("after", "edge", [fb.prefix("/after", fb.to("a"))]))
        w.serves("/after", (200, "a"), 10)
        # One table has changed, nothing else was even touched.
        until(lambda: rds_updates(e) - tables >= 2, what="the table of the other listener")
        assert built(e) == before
        assert rds_updates(e) - tables == 2  # one for each listener
        load.more(200)
    load.good(1000)
    f.delete("HTTPRoute", "after")
    until(lambda: w.ask("/after")[0] == 404, 5, "the route to go")


def test_after_a_break_only_the_difference_comes(w):
    """Delta says on reconnect what one has; what comes back is an empty answer."""
    if not w.fabric.delta:
        pytest.skip("state of the world cannot say what it has")
    e = w.gateway
    mark = len(e.log())
    w.fabric.control.restart()
    said = until(lambda: re.search(r"(cds: added/updated.*)\n", e.log()[mark:]), 40, "an answer").group(1)
    assert said == "cds: added/updated 0 cluster(s) (skipped 0 unmodified cluster(s)); removed 0 cluster(s)"
    stays(lambda: "lds: add/update listener" not in e.log()[mark:], 0.5)


def status(w, *flags):
    done = subprocess.run([w.fabric.binary, "status", "--kubeconfig", str(w.fabric.control.kubeconfig), *flags],
                          capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout


def test_a_refusal_is_seen(w):
    """A port that somebody else has: Envoy cannot serve that listener, says so, and all others stay."""
    f, port = w.fabric, gw.free_port()
    with socket.create_server(("127.0.0.1", port)):
        f.gateway_object("taken", [("http", "HTTP", port)])
        until(lambda: "REFUSED" in status(w)[1], 10, "the refusal to be told")
        code, told = status(w)
        assert code == 2
        line = next(x for x in told.splitlines() if "REFUSED" in x)
        assert line.startswith("edge") and "Listener" in line and str(port) in line, told
        clients = json.loads(status(w, "--json", "true")[1])["clients"]
        assert [c["type"].rsplit(".", 1)[1] for c in clients if c["nacks"]] == ["Listener"]
        assert w.ask("/load")[0] == 200
    f.delete("Gateway", "taken")
    until(lambda: "REFUSED" not in status(w)[1], 10, "the refusal to be over")
    assert w.gateway.rejected() == {"listener_manager.lds.update_rejected": 1}
    w.gateway.admin("/reset_counters", "POST")
