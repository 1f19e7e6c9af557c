# SPDX-License-Identifier: Apache-2.0
"""
Two sites, each with an embedded API of its own, a control plane, a data plane and a pod, in network namespaces: ours or
ClusterLink's in each place. Certificates, Secrets and roles are what ClusterLink's own command line makes.
"""
import base64
import contextlib
import os
import pathlib
import signal
import ssl
import subprocess
import zlib

from clusterlink_combos import ENVOY, OURS
from harness import rights, traffic
from harness.control import Control
from harness.forward import Forward
from harness.link_control import API, SYSTEM, Site
from harness.netns import NetNs, _quiet, plugged
from harness.node import Process
from harness.wait import GUARD, guard, until

CONTROL_PORT, EXTERNAL_PORT = 4444, 4443
BULK = 16 << 20
BANNER = b"220 service speaks first\r\n"
CONTAINER = pathlib.Path(__file__).resolve().parent / "container"


class Fabric:
    """A fabric and two peers by `clusterlink create`, and what `deploy peer --start none` makes of them."""

    def __init__(self, programs, directory):
        self.programs, self.dir = programs, directory
        self.cli("create", "fabric")
        for name in ("east", "west"):
            self.cli("create", "peer-cert", "--name", name)
            self.cli("deploy", "peer", "--name", name, "--start", "none", "--label", f"zone={name}", "--dataplane", "go",
                     "--ingress", "NodePort")

    def cli(self, *argv, env=None):
        done = subprocess.run([str(self.programs / "clusterlink"), *argv, "--path", str(self.dir)], capture_output=True,
                              text=True, timeout=guard(GUARD * 3), check=False, env={**os.environ, **(env or {})})
        assert done.returncode == 0, f"clusterlink {argv}: {done.stdout}{done.stderr}"

    def top(self):
        return self.dir / "default_fabric"

    def manifest(self, name):
        return self.top() / name / "k8s.yaml"

    def context(self, name):
        """For a client that has the certificate of a peer."""
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.load_cert_chain(str(self.top() / name / "cert.pem"), str(self.top() / name / "key.pem"))
        c.load_verify_locations(str(self.top() / "cert.pem"))
        return c


class Foreign(Process):
    """One of ClusterLink's programs, with its files at the paths it knows; it ends with all that it started."""

    def __init__(self, ns, root, argv, log, env=None):
        super().__init__(ns, ["unshare", "--mount", "--propagation", "slave", str(CONTAINER), str(root), *argv], str(log), env)

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.proc.wait()


def bulk(sock, _peer):
    """16 MiB in, then their checksum and all of them back."""
    data = traffic.read_exact(sock, BULK)
    sock.sendall(zlib.crc32(data).to_bytes(4, "big") + data)
    traffic.read_all(sock)


class LinkSite(Site):
    """One site. Its objects are made as in the tests of our own control plane."""

    def __init__(self, world, name, index, kind):
        self.world, self.name, self.kind, self.stack = world, name, kind, contextlib.ExitStack()
        self.dir = world.dir / name
        self.addresses = [f"172.172.{10 + index}.{n}" for n in (1, 2, 3)]
        self.plane_process = None
        self.dir.mkdir()
        self.machine, self.app = (self._machine(f"{n}-{name}", a) for n, a in (("dp", self.addresses[1]),
                                                                             ("app", self.addresses[2])))
        self._control()
        self.start_plane()
        self._serve()

    @property
    def gateway(self):
        return self.addresses[1]

    @property
    def client(self):
        return self.addresses[2]

    def _machine(self, name, address):
        ns = NetNs(name)
        self.stack.callback(ns.delete)
        _quiet(ns)
        fabric = self.world.here
        fabric.ip(f"link add {name} type veth peer name eth0 netns {name}", f"link set {name} master br0 up")
        self.stack.callback(fabric.ip, f"link del {name}")  # the kernel takes its time with a namespace that ended
        ns.ip("link set eth0 up", f"addr add {address}/16 dev eth0")
        plugged(ns)
        return ns

    # -- control plane --
    def _control(self):
        flags = []
        if self.kind.control == OURS:
            here = self.world.here
            here.ip(f"addr add {self.addresses[0]}/16 dev br0")
            self.stack.callback(here.ip, f"addr del {self.addresses[0]}/16 dev br0")
            flags = ["--link-listen", f"{self.addresses[0]}:{CONTROL_PORT}", "--peer-label", f"zone={self.name}",
                     "--link-export-host", "172.172.0.0/16", "--upstream-allow", "172.172.0.0/16"]
        self.control = Control(self.world.binary, self.dir / "control", *flags)
        self.stack.callback(self.control.close)
        rights.namespace(self.control, SYSTEM)
        self.control.kubectl("apply", "-f", str(self.world.fabric.manifest(self.name)))
        self._files()
        if self.kind.control != OURS:
            self._foreign_control()

    def secret(self, name, key):
        a = self.control.get(f"/api/v1/namespaces/{SYSTEM}/secrets/{name}")
        assert a.status == 200, a
        return base64.b64decode(a.json["data"][key])

    def _files(self):
        """What is mounted into ClusterLink's pods, and the same for `spanwire link`."""
        root = self.dir / "root"
        account = root / "secrets/kubernetes.io/serviceaccount"
        for d in ("ssl/certs/clink", "ssl/key", "bin", account):
            (root / d).mkdir(parents=True)
        self.root, self.site = root, self.dir / "site"
        if self.kind.control == OURS:
            self.site = self.control.data / "link-site"
            until((self.site / "dataplane.key").exists, what="the site's certificates")
            ca, cert, key = ((self.site / n).read_bytes() for n in ("ca.pem", "dataplane.pem", "dataplane.key"))
        else:
            ca, cert, key = self.secret("cl-ca", "ca"), *(self.secret("cl-dataplane", k) for k in ("cert", "key"))
            self.site.mkdir()
            for n, data in (("ca.pem", ca), ("dataplane.pem", cert), ("dataplane.key", key)):
                (self.site / n).write_bytes(data)
            os.chmod(self.site / "dataplane.key", 0o600)
            for d, k in (("certs", "cert"), ("key", "key")):
                (root / f"ssl/{d}/clink-controlplane.pem").write_bytes(self.secret("cl-controlplane", k))
            for k in ("ca.pem", "cert.pem", "key.pem"):
                (root / "ssl/certs/clink" / k).write_bytes(self.secret("cl-peer", k))
            (account / "ca.crt").write_bytes(self.control._secret("certificate-authority-data"))
            (account / "namespace").write_text(SYSTEM, encoding="ascii")
            (account / "token").write_text(rights.token_of(self.control, SYSTEM, "default"), encoding="ascii")
        (root / "ssl/certs/clink_ca.pem").write_bytes(ca)
        (root / "ssl/certs/clink-dataplane.pem").write_bytes(cert)
        (root / "ssl/key/clink-dataplane.pem").write_bytes(key)
        if self.kind.plane == ENVOY:
            os.symlink((self.world.programs / "envoy").resolve(), root / "bin/envoy")

    def _foreign_control(self):
        ns = self._machine(f"cp-{self.name}", self.addresses[0])
        forward = Forward(ns, self.control.port)
        self.stack.callback(forward.stop)
        p = Foreign(ns, self.root, [str(self.world.programs / "cl-controlplane"), "--log-level", "info", "--peer-label",
                                    f"zone={self.name}"], self.dir / "cl-controlplane.log", {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.control.port),
            "CL_NAMESPACE": SYSTEM})
        self.stack.callback(p.close)

    # -- data plane --
    def start_plane(self):
        log = self.dir / "plane.log"
        if self.kind.plane == OURS:
            form = "spanwire" if self.kind.control == OURS else "clusterlink"
            p = Process(self.machine, [self.world.binary, "link", "--control", f"{self.addresses[0]}:{CONTROL_PORT}", "--site",
                                       str(self.site), "--control-form", form, "--listen", f"0.0.0.0:{EXTERNAL_PORT}",
                                       "--upstream-allow", "172.172.0.0/16", "--drain-time", "1s", "--workers", "2",
                                       "--admin-addr", "127.0.0.1:15000", "--stats-addr", "127.0.0.1:15020", "--ready-addr",
                                       "127.0.0.1:15021", "--admin-auth", "none", "--log-level", "debug"], str(log))
        else:
            program = "cl-dataplane" if self.kind.plane == ENVOY else "cl-go-dataplane"
            p = Foreign(self.machine, self.root, [str(self.world.programs / program), "--log-level", "info",
                                                  "--controlplane-host", self.addresses[0]], log)
        self.plane_process = p

    def stop_plane(self):
        p = self.plane_process
        if isinstance(p, Foreign):
            p.close()
            return
        p.signal(signal.SIGTERM)
        try:
            assert p.wait() == 0, p.log()[-3000:]
        finally:
            p.kill()

    # -- the pod --
    def _serve(self):
        self.servers = {"echo": traffic.EchoServer(self.app, (self.client, 7000)),
                        "first": traffic.EchoServer(self.app, (self.client, 7001), greeting=BANNER),
                        "bulk": traffic.HandlerServer(self.app, (self.client, 7002), bulk),
                        "upload": traffic.HandlerServer(self.app, (self.client, 7003), traffic.upload_handler)}
        for s in self.servers.values():
            self.stack.callback(s.stop)
        self.pod("client", self.client, {"app": f"shop-{self.name}"})

    def offer(self, name, port):
        self.put("exports", "Export", name, {"host": self.client, "port": port}, labels={"tier": name})

    def meet(self, other):
        """Exports of all services here, Imports of all those there, and policies that allow everything."""
        self.peer(other.name, EXTERNAL_PORT, host=other.gateway)
        self.policy("all")
        for name, server in self.servers.items():
            self.offer(name, server.addr[1])
            self.imports(name, (other.name, name))
        self.offer("down", 7999)
        self.imports("down", (other.name, "down"))

    def target(self, name):
        """Where a client finds an Import: the port that the control plane chose."""
        def valid():
            o = self.control.get(f"{API}/namespaces/default/imports/{name}").json
            ok = [c for c in o.get("status", {}).get("conditions", []) if c["type"] == "ImportTargetPortValid"]
            return o["spec"].get("targetPort") if ok and ok[0]["status"] == "True" else None
        return self.gateway, until(valid, what=f"a port for {name}")

    def peer_status(self, name):
        """(PeerReachable, labels)."""
        o = self.control.get(f"{API}/namespaces/{SYSTEM}/peers/{name}").json.get("status", {})
        found = [c["status"] for c in o.get("conditions", []) if c["type"] == "PeerReachable"]
        return found[0] if found else None, o.get("labels")

    def open(self, name):
        return traffic.connect(self.app, self.target(name))

    def echoes(self):
        try:
            with self.open("echo") as s:
                traffic.echo_once(s)
                return True
        except (OSError, EOFError):
            return False

    def refused(self, name="echo"):
        return traffic.refused(self.app, self.target(name))

    def logs(self):
        for path in (self.dir / "cl-controlplane.log", self.dir / "plane.log", self.control.log_path):
            if path.exists():
                yield f"{self.name}: {path.name}", path.read_text(encoding="utf-8", errors="replace")[-6000:]

    def close(self):
        with contextlib.ExitStack() as all_:
            all_.push(self.stack.pop_all())
            all_.callback(self.stop_plane)


class World:
    """Both sites of a combination, as they find each other."""

    def __init__(self, topology, binary, programs, fabric, directory, combo):
        self.here, self.binary, self.programs, self.fabric = topology.fabric, binary, programs, fabric
        self.dir, self.combo, self.sites = pathlib.Path(directory), combo, []
        try:
            for i, (name, kind) in enumerate(zip(("east", "west"), combo.kinds)):
                self.sites.append(LinkSite(self, name, i, kind))
            for here, there in self.ways():
                here.meet(there)
        except BaseException:
            self.close()
            raise

    def ways(self):
        """(importer, exporter), both ways."""
        return [(self.sites[0], self.sites[1]), (self.sites[1], self.sites[0])]

    def report(self):
        return [line for s in self.sites for line in s.logs()]

    def close(self):
        with contextlib.ExitStack() as stack:
            for s in self.sites:
                stack.callback(s.close)
