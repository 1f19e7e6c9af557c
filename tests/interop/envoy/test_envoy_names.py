# SPDX-License-Identifier: Apache-2.0
"""
Names of tenants that lead a real Envoy to loopback: to its own admin port, to what listens beside it. Control sends
addresses that it found and checked, so Envoy has no name to look up. With the defaults as they are shipped.
"""
import http.server
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from harness.dns import Names
from harness.envoy import Envoy
from harness.fabric import Fabric, thing
from harness.ports import free_port
from harness.wait import until, working

GOOD = "10.222.0.2"  # an address like any other, but for being on this machine


class Server:
    """Says a word and the host it was asked for."""

    def __init__(self, address, port, word):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.headers["Host"])
                self.send_response(200)
                self.send_header("Content-Length", str(len(word)))
                self.end_headers()
                self.wfile.write(word.encode())

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class World:
    def __init__(self, binary, envoy, where, *flags, delta=True):
        self.names = Names(where)
        subprocess.run(["ip", "addr", "add", f"{GOOD}/32", "dev", "lo"], check=True)
        self.port = free_port()
        self.good = Server(GOOD, self.port, "good")
        self.inside = Server("127.0.0.1", self.port, "secret")
        self.fabric = Fabric(binary, where, "--target-domain", "connect.test", "--upstream-allow", GOOD, *flags)
        self.envoy = Envoy.of_control(envoy, binary, where, self.fabric.control, delta=delta)
        self.envoy.wait_ready()

    def proxy(self, name, port):
        self.fabric.apply(thing("HTTPProxy", name, {"hostnames": [f"{name}.connect.test"], "rules": [
            {"backends": [{"endpoint": f"http://{name}.test:{port}"}]}]}))

    def ask(self, name, path="/"):
        """Status and text; None where nobody listens yet."""
        request = urllib.request.Request(f"http://127.0.0.1:80{path}", headers={"Host": f"{name}.connect.test"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(errors="replace")
        except OSError:
            return None, ""

    def close(self):
        self.envoy.stop()
        self.fabric.close()
        self.good.close()
        self.inside.close()
        subprocess.run(["ip", "addr", "del", f"{GOOD}/32", "dev", "lo"], check=True)
        self.names.close()


@pytest.fixture(params=["delta", "state of the world"])
def world(request, binary, interop_dir, as_shipped, tmp_path):
    del as_shipped
    w = World(binary, interop_dir / "envoy", tmp_path, delta=request.param == "delta")
    yield w
    w.close()


def test_names_reach_nothing_on_loopback(world):
    """Envoy's admin port by a name, then a name that changes from a good address to loopback under requests."""
    world.names.known.update({"admin.test": ["127.0.0.1"], "rebind.test": [GOOD], "both.test": ["127.0.0.1", GOOD]})
    world.proxy("admin", world.envoy.admin_port)
    world.proxy("rebind", world.port)
    world.proxy("both", world.port)
    until(lambda: world.ask("rebind") == (200, "good"), what=lambda: world.ask("rebind"))
    until(lambda: world.ask("both") == (200, "good"), what=lambda: world.ask("both"))
    assert {world.ask("both") for _ in range(20)} == {(200, "good")}
    until(lambda: world.ask("admin")[0] == 503, what=lambda: world.ask("admin"))
    for path in ("/config_dump", "/quitquitquit", "/"):
        status, text = world.ask("admin", path)
        assert status == 503 and "configs" not in text, (path, status, text[:200])
    world.names.known["rebind.test"] = ["127.0.0.1"]

    def stopped():
        got = world.ask("rebind")
        assert got[1] != "secret", got
        return got[0] == 503
    until(stopped, what="the endpoint to go")
    assert {world.ask("rebind")[0] for _ in range(20)} == {503}
    assert world.inside.seen == [] and not world.envoy.rejected()
    world.names.known["rebind.test"] = [GOOD]
    until(lambda: world.ask("rebind") == (200, "good"), what="it to come back")
    assert set(world.good.seen) == {"rebind.test", "both.test"}  # the name, not the address


def test_addresses_stay_while_control_restarts(world):
    """A control plane that has resolved nothing yet must not say that there is no address."""
    world.names.known.update({"stays.test": [GOOD], "after.test": [GOOD]})
    world.proxy("stays", world.port)
    until(lambda: world.ask("stays") == (200, "good"), what=lambda: world.ask("stays"))
    got = set()
    world.names.delay = 0.35

    with working(1, lambda i: got.add(world.ask("stays"))):
        world.fabric.control.restart()
        until(lambda: world.envoy.stats("control_plane.connected")["control_plane.connected_state"] == 1,
              what="Envoy to come back")
        world.proxy("after", world.port)
        until(lambda: world.ask("after") == (200, "good"), what="a change to get there")
    assert got == {(200, "good")}


def test_the_attack_works_where_envoy_resolves(binary, interop_dir, as_shipped, tmp_path):
    """--envoy-resolves gives this protection up: it is what a firewall has to be for."""
    del as_shipped
    w = World(binary, interop_dir / "envoy", tmp_path, "--envoy-resolves")
    try:
        w.names.known["rebind.test"] = ["127.0.0.1"]
        w.proxy("rebind", w.port)
        until(lambda: w.ask("rebind") == (200, "secret"), what=lambda: w.ask("rebind"))
        assert set(w.inside.seen) == {"rebind.test"}
    finally:
        w.close()
