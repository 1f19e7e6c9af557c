# SPDX-License-Identifier: Apache-2.0
"""Keys are proved: a NodeID belongs to the Connector whose device signed for it, and to nobody who copied it."""
import base64
import contextlib
import socket

import pytest
from harness.control import Control
from harness.device import Device, ending
from harness.dns import kdig
from harness.fabric import programmed
from harness.keys import PROOF, Key, without_proof
from harness.ports import free_port
from harness.sidecar import Sidecar
from harness.wait import guard, stays, until

DATUM = "/apis/networking.datumapis.com"
LEASE = 4
ZONE = "keys.test"


class World:
    """A fabric with two tenants, a gateway and its sidecar."""

    def __init__(self, binary, where):
        self.binary, self.where = binary, where
        self.dns, self.http, self.parts = free_port(), free_port(), contextlib.ExitStack()
        self.control = self.parts.enter_context(programmed(
            Control, binary, where / "control", "--connector-lease", f"{LEASE}s", "--gateway-port-offset",
            str(self.http - 80), "--connect-proxy", str(where / "sidecar" / "s.sock"), "--target-domain",
            "connect.test", "--dns-zone", ZONE, "--dns-listen", f"127.0.0.1:{self.dns}", "--dns-rate", "0"))
        self.start_sidecar()
        self.parts.callback(lambda: self.sidecar.close())  # the newest one
        self.note = self.parts.enter_context(ending())
        for tenant in ("mine", "theirs"):
            answer = self.control.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                                              "metadata": {"name": tenant}})
            assert answer.status == 201, answer

    def start_sidecar(self):
        self.sidecar = Sidecar(self.binary, self.where / "sidecar", kubeconfig=self.control.kubeconfig).wait_ready()

    def close(self):
        self.parts.close()

    # --- objects ---
    @staticmethod
    def path(kind, name="", ns="mine"):
        group = {"leases": "/apis/coordination.k8s.io/v1", "httpproxies": f"{DATUM}/v1alpha"}.get(
            kind, f"{DATUM}/v1alpha1")
        return f"{group}/namespaces/{ns}/{kind}" + (f"/{name}" if name else "")

    def connector(self, name, ns="mine"):
        return self.control.get(self.path("connectors", name, ns)).json

    def condition(self, name, kind="Ready", ns="mine"):
        found = self.control.get(self.path("connectors", name, ns))
        for c in found.json.get("status", {}).get("conditions", []) if found.status == 200 else ():
            if c["type"] == kind:
                return c["status"], c["reason"]
        return None

    def becomes(self, name, want, kind="Ready", ns="mine"):
        until(lambda: self.condition(name, kind, ns) == want, what=f"{ns}/{name} {kind}={want}")

    def device(self, name, *flags, ns="mine", where=None):
        return self.note(Device(self.binary, self.where / (where or name), self.control.kubeconfig, "--namespace", ns,
                                "--name", name, *flags))

    def forge(self, name, like, ns="theirs", proof=None, class_name="datum-connect", key=None):
        """A Connector by hand: its Lease renewed, with the key of another and a status that says it is Ready."""
        made = self.control.post(self.path("connectors", "", ns), {
            "apiVersion": "networking.datumapis.com/v1alpha1", "kind": "Connector", "metadata": {"name": name},
            "spec": {"connectorClassName": class_name}})
        assert made.status in (201, 409), made
        if proof is not None:
            assert self.control.patch(self.path("connectors", name, ns), {
                "metadata": {"annotations": {PROOF: proof}}}).status == 200
        self.lie(name, ns, key or like["status"]["connectionDetails"]["publicKey"]["id"])

    def lie(self, name, ns, key):
        """What whoever may write the status and the Lease can say."""
        until(lambda: self.control.get(self.path("leases", name, ns)).status == 200)
        self.renew(name, ns)
        now = "2026-01-01T00:00:00Z"
        answer = self.control.patch(self.path("connectors", name, ns) + "/status", {"status": {
            "connectionDetails": {"type": "PublicKey", "publicKey": {
                "id": key, "discoveryMode": "DNS", "addresses": [{"address": "127.0.0.1", "port": 9}]}},
            "conditions": [{"type": t, "status": "True", "reason": "Forged", "message": "", "observedGeneration": 1,
                            "lastTransitionTime": now} for t in ("Accepted", "Ready", "KeyProved")]}})
        assert answer.status == 200, answer

    def renew(self, name, ns):
        answer = self.control.patch(self.path("leases", name, ns), {"spec": {
            "renewTime": "2099-01-01T00:00:00.000000Z"}})
        assert answer.status == 200, answer

    def proxy(self, name, connector, port, ns="mine"):
        answer = self.control.patch(self.path("httpproxies", name, ns), {
            "apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy", "metadata": {"name": name},
            "spec": {"hostnames": [f"{name}.example.test"], "rules": [{"backends": [
                {"endpoint": f"http://127.0.0.1:{port}", "connector": {"name": connector}}]}]}}, "apply",
            "?fieldManager=test&force=true")
        assert answer.status in (200, 201), answer

    # --- traffic ---
    def code(self, name):
        try:
            with socket.create_connection(("127.0.0.1", self.http), timeout=guard(10)) as s:
                s.sendall(f"GET /hello HTTP/1.1\r\nHost: {name}.example.test\r\nConnection: close\r\n\r\n".encode())
                return int(s.makefile("rb").readline().split()[1])
        except (OSError, IndexError):
            return None

    def serves(self, name, code):
        until(lambda: all(self.code(name) == code for _ in range(4)), what=f"{name} to be answered with {code}")

    def published(self, key):
        z32 = "ybndrfg8ejkmcpqxot1uwisza345h769"
        label = base64.b32encode(bytes.fromhex(key)).decode().rstrip("=").translate(
            str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", z32))
        return kdig(self.dns, f"_iroh.{label}.{ZONE}", "TXT").txt()


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("keys"))
    yield w
    w.close()


@pytest.fixture(scope="module")
def laptop(world, file_web):
    """The genuine device, proved and routed."""
    d = world.device("laptop", "--allow", f"127.0.0.1:{file_web.port}")
    world.proxy("app", "laptop", file_web.port)
    world.becomes("laptop", ("True", "ConnectorReady"))
    world.becomes("laptop", ("True", "Proved"), "KeyProved")
    world.serves("app", 200)
    return d


def unharmed(world, laptop):
    """The device whose key was copied goes on."""
    assert world.condition("laptop") == ("True", "ConnectorReady")
    assert world.code("app") == 200
    assert f"addr={laptop.addrs()[0]}" in world.published(laptop.id)


@pytest.mark.parametrize("ns", ["mine", "theirs"])
@pytest.mark.parametrize("what", ["key", "proof", "garbage", "lax"])
def test_a_copied_key_gives_nothing(world, file_web, laptop, ns, what):
    """In the same namespace and in another, with the proof beside it, with garbage, under a class that asks for none."""
    name, real = f"copy-{what}", world.connector("laptop")
    genuine = real["metadata"]["annotations"][PROOF]
    class_name = "datum-connect"
    if what == "lax":
        class_name = "lax"
        without_proof(world.control, "lax")
    world.forge(name, real, ns, {"key": None, "proof": genuine, "garbage": genuine[:-1] + "x", "lax": None}[what],
                class_name)
    world.proxy(f"{name}-{ns}", name, file_web.port, ns)
    world.becomes(name, ("False", "KeyNotProved"), ns=ns)
    until(lambda: world.condition(name, "KeyProved", ns)[0] == "False")
    world.serves(f"{name}-{ns}", 503)
    assert world.condition(name, "IrohDNSPublished", ns) != ("True", "Owner")
    message = [c for c in world.connector(name, ns)["status"]["conditions"] if c["type"] == "Ready"][0]["message"]
    assert "has not proved its key" in message and (what == "lax" or "spanwire.dev/key-proof: NotRequired" in message)
    assert "mine/laptop" not in str(world.connector(name, ns)["status"])  # whose it is stays unsaid
    # Again and again: what the status says for a moment moves no request.
    for _ in range(5):
        world.lie(name, ns, laptop.id)
        assert world.code(f"{name}-{ns}") == 503
        assert world.code("app") == 200
    unharmed(world, laptop)
    until(lambda: f"subject=connector/{ns}/{name}" in world.control.log())
    until(lambda: 'spanwire_connector_refusals_total{reason="KeyNotProved"}' in
          world.control.get("/metrics").body.decode())
    assert world.control.delete(world.path("connectors", name, ns)).status == 200


def test_the_sidecar_dials_where_the_device_is(world, file_web, laptop):
    """A copy that says it is Ready elsewhere is not what the key is looked up by, not even after a new start."""
    world.forge("decoy", world.connector("laptop"))
    world.sidecar.close()
    world.start_sidecar()
    for _ in range(5):
        world.lie("decoy", "theirs", laptop.id)
        world.serves("app", 200)
    assert world.control.delete(world.path("connectors", "decoy", "theirs")).status == 200


def test_a_signature_for_another_object_or_version(world, file_web, laptop):
    """Signed with the right key, for anything but this Connector as it is or was."""
    key = Key(41)
    world.forge("strange", None, "theirs", key=key.id)
    world.proxy("strange", "strange", file_web.port, "theirs")
    world.serves("strange", 503)
    path = world.path("connectors", "strange", "theirs")
    real = world.connector("laptop")["metadata"]
    for other in ({"uid": real["uid"]}, {"namespace": "mine"}, {"name": "laptop"}, {"version": 2**62},
                  {"uid": real["uid"], "namespace": "mine", "name": "laptop"}):
        proof = key.proof(world.control.get(path).json, **other)
        assert world.control.patch(path, {"metadata": {"annotations": {PROOF: proof}}}).status == 200
        world.renew("strange", "theirs")
        world.becomes("strange", ("False", "KeyNotProved"), ns="theirs")
        assert world.code("strange") == 503
    key.prove(world.control, path)
    world.renew("strange", "theirs")
    world.becomes("strange", ("True", "Proved"), "KeyProved", "theirs")
    world.becomes("strange", ("True", "ConnectorReady"), ns="theirs")
    # Another key in the status: the proof of the one before does not count for it.
    world.lie("strange", "theirs", Key(42).id)
    world.becomes("strange", ("False", "KeyNotProved"), ns="theirs")
    assert world.control.delete(path).status == 200


def test_garbage_in_the_annotation_is_put_right(world, file_web, laptop):
    """Whoever may write the Connector can break its proof: the device signs again."""
    path = world.path("connectors", "laptop")
    for text in ("", "v1", "v1.1.", "v2." + "0" * 140, "v1.1." + "0" * 128, "v1.1." + "f" * 100000, "\u0000", None):
        answer = world.control.patch(path, {"metadata": {"annotations": {PROOF: text}}})
        assert answer.status == 200, answer
        until(lambda: str(world.connector("laptop")["metadata"]["annotations"].get(PROOF)).startswith("v1.")
              and world.condition("laptop") == ("True", "ConnectorReady") and len(
                  world.connector("laptop")["metadata"]["annotations"][PROOF]) < 200)
        world.becomes("laptop", ("True", "Proved"), "KeyProved")
    world.serves("app", 200)


def test_restarts_need_no_new_proof(world, file_web, laptop):
    """The proof is the Connector's: the device and the control plane come back to it."""
    proof = world.connector("laptop")["metadata"]["annotations"][PROOF]
    world.control.restart()
    until(lambda: world.condition("laptop") == ("True", "ConnectorReady"))
    world.serves("app", 200)
    laptop.stop()
    world.becomes("laptop", ("False", "ConnectorNotReady"))
    world.serves("app", 503)
    again = world.device("laptop", "--allow", f"127.0.0.1:{file_web.port}")
    again.wait_live()
    world.becomes("laptop", ("True", "ConnectorReady"))
    world.serves("app", 200)
    assert world.connector("laptop")["metadata"]["annotations"][PROOF] == proof
    again.stop()


def test_a_device_that_moves_is_where_it_signed_last(world, file_web):
    """From one tenant's Connector to another's and back: one owner each time, and the old proof is worth nothing."""
    key = world.where / "mover-key"
    here = Device(world.binary, world.where / "mover-1", world.control.kubeconfig, "--namespace", "mine", "--name", "mover",
                  "--allow", f"127.0.0.1:{file_web.port}", data=key)
    world.note(here)
    world.proxy("mover", "mover", file_web.port)
    world.proxy("moved", "moved", file_web.port, "theirs")
    world.serves("mover", 200)
    here.stop()
    there = Device(world.binary, world.where / "mover-2", world.control.kubeconfig, "--namespace", "theirs", "--name",
                   "moved", "--allow", f"127.0.0.1:{file_web.port}", data=key)
    world.note(there)
    world.serves("moved", 200)
    # The first tenant keeps its object Ready with what the device signed before: no request gets there.
    for _ in range(5):
        world.lie("mover", "mine", there.id)
        assert world.code("mover") == 503
        assert world.code("moved") == 200
    world.becomes("mover", ("False", "ProvedElsewhere"), "KeyProved")
    there.stop()
    back = Device(world.binary, world.where / "mover-3", world.control.kubeconfig, "--namespace", "mine", "--name", "mover",
                  "--allow", f"127.0.0.1:{file_web.port}", data=key)
    world.note(back)
    world.serves("mover", 200)
    world.becomes("moved", ("False", "ProvedElsewhere"), "KeyProved", "theirs")
    world.serves("moved", 503)
    back.stop()


def test_devices_that_cannot_prove_their_keys(world, file_web):
    """As upstream's: not Ready, until an administrator says so for their class; and no proof is needed less elsewhere."""
    key, path = Key(43), world.path("connectors", "upstream", "theirs")
    world.proxy("upstream", "upstream", file_web.port, "theirs")
    world.forge("upstream", None, "theirs", class_name="iroh-quic-tunnel", key=key.id)
    world.becomes("upstream", ("False", "KeyNotProved"), ns="theirs")
    assert key.id not in str(world.published(key.id))
    world.serves("upstream", 503)
    without_proof(world.control, "iroh-quic-tunnel")
    until(lambda: world.renew("upstream", "theirs") or
          world.condition("upstream", ns="theirs") == ("True", "ConnectorReady"))
    until(lambda: world.condition("upstream", "KeyProved", "theirs") is None)
    until(lambda: world.published(key.id))
    world.control.patch(f"{DATUM}/v1alpha1/connectorclasses/iroh-quic-tunnel",
                        {"metadata": {"annotations": {PROOF: None}}})
    world.becomes("upstream", ("False", "KeyNotProved"), ns="theirs")
    until(lambda: not world.published(key.id))
    assert world.control.delete(path).status == 200


def test_a_device_of_before_comes_back_when_it_is_new(world, file_web):
    """Its Connector has a key and no proof; the new program signs for it at its first start."""
    d = world.device("veteran", "--allow", f"127.0.0.1:{file_web.port}")
    world.becomes("veteran", ("True", "ConnectorReady"))
    d.stop()
    uid = world.connector("veteran")["metadata"]["uid"]
    world.control.patch(world.path("connectors", "veteran"), {"metadata": {"annotations": {PROOF: None}}})
    world.becomes("veteran", ("False", "NotProved"), "KeyProved")
    d = world.device("veteran", "--allow", f"127.0.0.1:{file_web.port}")
    world.becomes("veteran", ("True", "ConnectorReady"))
    assert world.connector("veteran")["metadata"]["uid"] == uid
    d.stop()


def test_a_lease_of_others_is_not_made_or_taken(world, file_web):
    """status.leaseRef is for the device to read: naming another Lease there does nothing."""
    d = world.device("tenant", "--allow", f"127.0.0.1:{file_web.port}")
    world.becomes("tenant", ("True", "ConnectorReady"))
    world.control.patch(world.path("connectors", "tenant") + "/status", {"status": {"leaseRef": {"name": "spanwire-gateway"}}})
    until(lambda: world.connector("tenant")["status"]["leaseRef"] == {"name": "tenant"})
    stays(lambda: world.control.get(world.path("leases", "spanwire-gateway")).status == 404, 1)
    d.stop()
