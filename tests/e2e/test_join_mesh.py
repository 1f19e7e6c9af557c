# SPDX-License-Identifier: Apache-2.0
"""
Machines outside any cluster in the mesh: they join by the printed line and talk mutual TLS with a pod, one by redirection
as root, one by SOCKS5 without any privilege. What the credential of one is good for, and what it is not.
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

import pytest
from harness import traffic
from harness.join import Fabric, words
from harness.mesh import PORT
from harness.mesh_port import ADDRESS, CLIENT
from harness.netns import NetNs, _quiet, plugged
from harness.node import Process
from harness.wait import GUARD, SLOW, until
from test_mesh_whole import CONTROL, Node, served
from test_socks5 import V4, ask, reply

# What the unit of --print-unit leaves of root.
UNIT = ("setpriv", "--bounding-set=-all,+net_admin,+net_raw")
UNPRIVILEGED = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


class Machine(NetNs):
    """A Linux host on the fabric's network, with its own address and nothing of ours."""

    def __init__(self, topo, name, host):
        super().__init__(name)
        self.ip4 = f"172.172.2.{host}"
        _quiet(self)
        topo.fabric.ip(f"link add {name} type veth peer name eth0 netns {name}", f"link set {name} master br0 up")
        self.ip("link set eth0 up", f"addr add {self.ip4}/16 dev eth0")
        for n in topo.nodes.values():
            self.ip(f"route add 10.0.{n.index}.0/24 via {n.ip4}")
        plugged(self)
        self.proc = None

    def start(self, fabric, line, state, *flags, prefix=()):
        self.state = state
        self.proc = Process(self, [*prefix, fabric.binary, *words(line), "--state", str(state), "--node-flag=--drain=1s",
                                   *flags], state.with_suffix(".log"))
        return self.ready()

    def again(self, fabric, *flags):
        self.proc = Process(self, [fabric.binary, "join", "--state", str(self.state), *flags],
                            self.state.with_suffix(".again.log"))
        return self.ready()

    def ready(self):
        until(lambda: "is in the mesh" in self.proc.log() or not self.proc.alive, what="the machine in the mesh")
        assert self.proc.alive, self.proc.log()
        return self

    def until(self, check, what):
        """As harness.wait.until, with the machine's own words when it fails."""
        try:
            until(check, what=what)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.proc.log()[-4000:]}") from None

    def stop(self):
        if self.proc and self.proc.alive:
            self.proc.signal(15)
            self.proc.wait()
        self.delete()


class Site:
    def __init__(self, mesh, binary, where):
        self.mesh, self.where = mesh, where
        self.fabric = Fabric(binary, where, at=f"{CONTROL}:0")
        self.api = self.fabric.control
        self.machines = []
        for ns, labels in (("istio-system", {}), ("shop", {"istio.io/dataplane-mode": "ambient"})):
            assert self.api.post("/api/v1/namespaces", {"metadata": {"name": ns, "labels": labels}}).status == 201
        self.api.post("/api/v1/namespaces/istio-system/serviceaccounts", {"metadata": {"name": "ztunnel"}})
        self.node = Node(mesh, binary, where, "node1", self.api)
        self.dir, self.port, self.node_flags = where, self.fabric.port, ()
        self.roots = self.api.data / "mesh-ca" / "root.crt"
        self.node.up(self)
        self.pod = self.node.join("db", 72, labels={"app": "db"})
        mesh.echo(self.pod)

    def machine(self, name, host):
        m = Machine(self.mesh.topo, name, host)
        self.machines.append(m)
        return m

    def close(self):
        for m in self.machines:
            m.stop()
        self.node.close()
        self.fabric.close()


@pytest.fixture
def site(mesh, binary, tmp_path):
    s = Site(mesh, binary, tmp_path)
    yield s
    s.close()


def identity(account, ns="site"):
    return f"spiffe://cluster.local/ns/{ns}/sa/{account}"


def test_by_redirection_as_root(site):
    fabric, mesh = site.fabric, site.mesh
    line = fabric.create("vm", "--service-account", "legacy", "--label", "app=legacy")
    vm = site.machine("vm", 1).start(fabric, line, site.where / "vm", "--redirect", prefix=UNIT)
    assert fabric.entry("vm").json["spec"]["address"] == vm.ip4
    vm.until(lambda: served(mesh, vm, site.pod), "the machine to reach the pod")
    seen = site.node.z.wait_access(direction="inbound", src_identity=identity("legacy"))[-1]
    assert seen["dst.identity"] == identity("db", "shop"), seen
    # A second one with the same state would take the ports, and the log, of the first.
    before = [p.read_bytes() for p in (vm.state / "log").iterdir()]
    second = fabric.command("join", "--state", str(vm.state), "--redirect", ns=vm, check=False)
    assert second.returncode == 1 and "another 'spanwire join' runs" in second.stderr, second
    assert before and all(p.read_bytes().startswith(b) for p, b in zip((vm.state / "log").iterdir(), before))
    assert served(mesh, vm, site.pod) and "istio" in vm.run("nft", "list", "tables")
    # And the other way, where the machine is the server.
    mesh.echo(vm)
    vm.until(lambda: served(mesh, site.pod, vm), "the pod to reach the machine")
    seen = site.node.z.wait_access(direction="outbound", dst_identity=identity("legacy"))[-1]
    assert seen["src.identity"] == identity("db", "shop"), seen
    # Policies hold for it like for any other.
    deny = {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "no-legacy"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}, "action": "DENY",
                     "rules": [{"from": [{"source": {"principals": ["cluster.local/ns/site/sa/legacy"]}}]}]}}
    path = "/apis/security.istio.io/v1/namespaces/shop/authorizationpolicies"
    assert site.api.post(path, deny).status == 201
    until(lambda: not served(mesh, vm, site.pod), what="the policy to be enforced")
    assert site.api.delete(f"{path}/no-legacy").status == 200
    # The end of the process takes the redirection with it; without a code it starts again.
    vm.proc.signal(15)
    assert vm.proc.wait() == 0, vm.proc.log()
    assert "istio" not in vm.run("nft", "list", "tables")
    vm.again(fabric, "--redirect")
    until(lambda: served(mesh, vm, site.pod), what="the machine to be back")
    # Removed, it is out: its stream ends, and a restart gets nothing.
    record = fabric.records()["vm"]["metadata"]["name"]
    fabric.token("delete", f"site/{record}")
    until(lambda: fabric.entry("vm").status == 404, what="the WorkloadEntry to go")
    until(lambda: "no machine 'site/" in site.api.log(), what="the stream to be refused")


def test_by_socks5_without_privileges(site):
    if subprocess.run([*UNPRIVILEGED, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no unprivileged user namespaces here")
    fabric, mesh = site.fabric, site.mesh
    line = fabric.create("box", "--service-account", "batch")
    box = site.machine("box", 2).start(fabric, line, site.where / "box", prefix=UNPRIVILEGED)

    def roundtrip():
        with traffic.connect(box, ("127.0.0.1", 15080), GUARD) as sock:
            sock.sendall(b"\5\1\0")
            assert traffic.read_exact(sock, 2) == b"\5\0"
            ask(sock, V4, socket.inet_aton(site.pod.ip4), PORT)
            if reply(sock) == 0:
                traffic.echo_once(sock)
                return True
        return False
    box.until(roundtrip, "the machine to reach the pod")
    seen = site.node.z.wait_access(direction="inbound", src_identity=identity("batch"))[-1]
    assert seen["dst.identity"] == identity("db", "shop"), seen
    mesh.echo(box)
    box.until(lambda: served(mesh, site.pod, box), "the pod to reach the machine")
    site.node.z.wait_access(direction="outbound", dst_identity=identity("batch"))
    # The control plane is killed: what is there goes on, and it is found again.
    site.api.flags = tuple(f"{CONTROL}:{fabric.port}" if x == f"{CONTROL}:0" else x for x in site.api.flags)
    site.api.stop(kill=True)
    assert roundtrip()
    site.api.restart()
    until(roundtrip, what="SOCKS5 after the restart")


# -- the rights of a machine ----------------------------------------------------------------------
def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(state, sub=None, aud="cluster.local", now=None, life=600, alg="ES256"):
    """A token as the machine makes them, with whatever is asked for, signed with its key by openssl."""
    machine = json.loads((state / "machine.json").read_text())
    now = int(now or time.time())
    head = b64(json.dumps({"alg": alg}).encode())
    body = b64(json.dumps({"iss": "spanwire-machine", "sub": sub or machine["id"], "aud": aud, "iat": now,
                           "exp": now + life}).encode())
    if alg == "none":
        return f"{head}.{body}."
    der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(state / "machine.key")], input=f"{head}.{body}".encode(),
                         capture_output=True, check=True).stdout
    n = der[3]
    r, s = der[4:4 + n], der[6 + n:]
    return f"{head}.{body}.{b64(r[-32:].rjust(32, bytes(1)) + s[-32:].rjust(32, bytes(1)))}"


@pytest.fixture(scope="module")
def rights(binary, tmp_path_factory):
    where = tmp_path_factory.mktemp("rights")
    if not shutil.which("node"):
        pytest.skip("no node: the foreign gRPC client cannot run")
    f = Fabric(binary, where)
    at = ("--address", "192.0.2.1")
    for name, account, ns in (("vm", "legacy", "site"), ("nas", "files", "site"), ("far", "legacy", "other")):
        f.join(f.create(name, "--service-account", account, *at, ns=ns), where / name, "--no-run", check=True)
    f.join(f.create("phone", "--for", "device"), where / "phone", check=True)
    f.state = where
    yield f
    f.close()


def mesh_steps(f, steps, cert=()):
    roots = f.control.data / "mesh-ca" / "root.crt"
    done = subprocess.run(["node", str(CLIENT), f"127.0.0.1:{f.port}", str(roots), *cert], input=json.dumps(steps),
                          text=True, capture_output=True, timeout=GUARD * SLOW, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == len(steps), f"run tools/setup test first?\n{done.stderr[-3000:]}"
    return [json.loads(line) for line in lines]


def test_the_credential_of_a_machine_is_for_its_own_identity_alone(rights, tmp_path):
    f, vm = rights, rights.state / "vm"
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)], check=True)
    csr = subprocess.run(["openssl", "req", "-new", "-key", str(key), "-subj", "/"], check=True, capture_output=True,
                         text=True).stdout

    def sign(token, who=None):
        return {"do": "sign", "csr": csr, "token": token, "ttl": 3600, **({"identity": who} if who else {})}

    def stream(token, node="ztunnel~192.0.2.1~vm.site~site.svc.cluster.local", **meta):
        return {"do": "stream", "id": node, "metadata": meta or {"NAMESPACE": "site"}, "token": token, "types": [ADDRESS]}
    good = signed(vm)
    [own, opened] = mesh_steps(f, [sign(good), stream(good)])
    assert own["code"] == 0 and "open" in opened, (own, opened)
    leaf = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"], input=own["chain"][0], text=True,
                          capture_output=True, check=True).stdout
    assert f"URI:{identity('legacy')}" in leaf and leaf.count("URI:") == 1
    nas = json.loads((rights.state / "nas" / "machine.json").read_text())["id"]
    attempts = {
        "the identity of another machine": sign(good, identity("files")),
        "its account in another namespace": sign(good, identity("legacy", "other")),
        "the default account": sign(good, identity("default")),
        "a node proxy": sign(good, identity("ztunnel", "istio-system")),
        "the control plane": sign(good, identity("spanwire-control", "spanwire-system")),
        "another trust domain": sign(good, "spiffe://elsewhere/ns/site/sa/legacy"),
        "no identity at all": sign(good, "legacy"),
        "another machine's id with its own key": sign(signed(vm, sub=nas)),
        "a machine that never was": sign(signed(vm, sub="site/join-nobody")),
        "for another mesh": sign(signed(vm, aud="elsewhere")),
        "of yesterday": sign(signed(vm, now=time.time() - 86400)),
        "of tomorrow": sign(signed(vm, now=time.time() + 86400)),
        "for a year": sign(signed(vm, life=86400 * 365)),
        "without a signature": sign(signed(vm, alg="none")),
        "with a cut signature": sign(good[:-4]),
        "as a device": sign(signed(rights.state / "phone")),
        "the configuration as a device": stream(signed(rights.state / "phone")),
        "the configuration of another namespace": stream(good, "ztunnel~192.0.2.1~vm.other~x", NAMESPACE="other"),
        "the configuration as another account": stream(good, NAMESPACE="site", SERVICE_ACCOUNT="files"),
        "the configuration with an old token": stream(signed(vm, now=time.time() - 86400)),
    }
    got = mesh_steps(f, list(attempts.values()))
    done = [name for name, r in zip(attempts, got) if r.get("code", 0) not in (7, 16)]
    assert not done, [(n, r) for n, r in zip(attempts, got) if n in done]
    # At the API it is nobody.
    head, plain = {"Authorization": f"Bearer {good}"}, f.control.context(cert=False)
    for path in ("/api/v1/namespaces/site/secrets", "/api/v1/namespaces/site/serviceaccounts", "/api/v1/nodes",
                 "/apis/networking.istio.io/v1/namespaces/site/workloadentries", "/xds", "/metrics"):
        assert f.control.request("GET", path, headers=head, context=plain).status == 401, path
    assert f.control.log().count("a machine has no identity but its own") >= 6
    assert pathlib.Path(vm / "machine.key").stat().st_uid == os.getuid()


def test_a_machine_that_was_removed_gets_no_certificate(binary, tmp_path):
    """Neither with its key nor with the certificate that it has."""
    if not shutil.which("node"):
        pytest.skip("no node: the foreign gRPC client cannot run")
    f, vm = Fabric(binary, tmp_path), tmp_path / "vm"
    try:
        f.join(f.create("vm", "--service-account", "legacy", "--address", "192.0.2.1"), vm, "--no-run", check=True)
        key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)], check=True)
        csr = subprocess.run(["openssl", "req", "-new", "-key", str(key), "-subj", "/"], check=True, capture_output=True,
                             text=True).stdout
        step = {"do": "sign", "csr": csr, "ttl": 3600}
        [got] = mesh_steps(f, [{**step, "token": signed(vm)}])
        assert got["code"] == 0, got
        cert.write_text(got["chain"][0])
        name = f.records()["vm"]["metadata"]["name"]
        assert f.control.delete(f"/api/v1/namespaces/site/secrets/{name}").status == 200
        until(lambda: mesh_steps(f, [{**step, "token": signed(vm)}])[0]["code"] == 16, what="the machine to be unknown")
        [got] = mesh_steps(f, [step], cert=(str(cert), str(key)))
        assert got["code"] == 16, got
    finally:
        f.close()
