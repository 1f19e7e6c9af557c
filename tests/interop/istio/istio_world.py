# SPDX-License-Identifier: Apache-2.0
"""
One mesh made of exchangeable pieces: a control plane, a node proxy on each of two nodes, a node agent on each of them.
Whatever they are, the pods, objects and questions are the same.

    node1   web     captured, shop      asks
            near    captured, shop      serves, on the node of web
            other   captured, annex     asks, from another namespace
            bare1   not captured        asks and serves, plain
    node2   db      captured, shop      serves
            db2     captured, shop      serves, a second one behind the same Services
            bare2   not captured        asks and serves, plain
    outside a machine that is in no mesh
"""
import base64
import contextlib
import pathlib

from cryptography import x509
from harness import traffic
from harness.ca_peer import Signer, _pem
from harness.certs import _key_pem
from harness.cni import MODE, Rig
from harness.control import Control
from harness.dns import Reply
from harness.mesh import PORT, Mesh
from harness.ports import free_port
from harness.wait import until
from istio_peers import CONTROL, NAME, IstioRig, Istiod, Ztunnel

SHORT_LIFE = "140s"  # 120 of them lie before the certificate was made: it is renewed after 10
PODS = {"web": (0, 71, "shop"), "near": (0, 72, "shop"), "other": (0, 73, "annex"), "bare1": (0, 74, "plain"),
        "db": (1, 75, "shop"), "db2": (1, 76, "shop"), "bare2": (1, 77, "plain")}
FIRST, SINK, SOURCE, SPARE, CLOSED = 8081, 8082, 8083, 8084, 8099
MIB = 1 << 20
GROUPS = {"AuthorizationPolicy": ("security.istio.io/v1", "authorizationpolicies"),
          "PeerAuthentication": ("security.istio.io/v1", "peerauthentications"),
          "ServiceEntry": ("networking.istio.io/v1", "serviceentries"),
          "WorkloadEntry": ("networking.istio.io/v1", "workloadentries"),
          "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"), "Service": ("v1", "services"),
          "Pod": ("v1", "pods")}


class Authority:
    """The files of an intermediate authority, in the names that both control planes read."""

    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir()
        self.root_file = self.dir.parent / "roots.pem"
        self.roots = [Signer("root one")]
        self.sign_with(self.roots[0])

    def _put(self, name, text):
        path = self.dir / (name + ".new")
        path.write_text(text, encoding="ascii")
        path.rename(self.dir / name)

    def trust(self, *roots):
        """The bundle that nodes are told, and the one they know the control plane by."""
        self.roots = list(roots)
        text = "".join(_pem(r.cert) for r in roots)
        self._put("root-cert.pem", text)
        self.root_file.write_text(text, encoding="ascii")

    def sign_with(self, root):
        middle = Signer("intermediate", root)
        self._put("ca-key.pem", _key_pem(middle.key).decode())
        self._put("ca-cert.pem", _pem(middle.cert))
        self._put("cert-chain.pem", _pem(middle.cert))
        self.trust(*self.roots)


class Place:
    """A node: its agent and its proxy, of either kind."""

    def __init__(self, world, name, agent, proxy):
        self.world, self.name, self.proxy_kind = world, name, proxy
        kind = IstioRig if agent == "istio" else Rig
        self.rig = kind(world.mesh, world.binary, world.dir, name, world.api)
        self.rig.known = lambda box: None
        self.node = world.mesh.topo.nodes[name]
        self.z = None

    def secret(self):
        """A token bound to the proxy's own pod."""
        api, pod = self.world.api, f"ztunnel-{self.name}"
        path = "/api/v1/namespaces/istio-system"
        a = api.post(f"{path}/pods", {"metadata": {"name": pod, "labels": {"app": "ztunnel"}}, "spec": {
            "serviceAccountName": "ztunnel", "nodeName": self.name, "hostNetwork": True,
            "containers": [{"name": "z", "image": "z"}]}})
        assert a.status == 201, a
        a = api.post(f"{path}/serviceaccounts/ztunnel/token", {"spec": {"audiences": ["istio-ca"], "boundObjectRef": {
            "kind": "Pod", "apiVersion": "v1", "name": pod, "uid": a.json["metadata"]["uid"]}}})
        assert a.status == 201, a
        self.token = self.world.dir / f"{pod}.token"
        self.token.write_text(a.json["status"]["token"], encoding="ascii")

    def up(self):
        self.secret()
        self.rig.start()
        self.serve()

    def serve(self):
        """The proxy, ready."""
        w, where = self.world, f"https://{CONTROL}:{self.world.port}"
        env = {"POD_NAME": f"ztunnel-{self.name}", "POD_NAMESPACE": "istio-system", "SERVICE_ACCOUNT": "ztunnel",
               "NODE_NAME": self.name, "INSTANCE_IP": self.node.ip4, "XDS_ADDRESS": where, "CA_ADDRESS": where,
               "XDS_ROOT_CA": str(w.ca.root_file), "CA_ROOT_CA": str(w.ca.root_file), "ALT_XDS_HOSTNAME": NAME,
               "ALT_CA_HOSTNAME": NAME, "AUTH_TOKEN": str(self.token), "INPOD_UDS": str(self.rig.zds),
               "SECRET_TTL": SHORT_LIFE}
        if self.proxy_kind == "ztunnel":
            self.z = Ztunnel(self.node, self.name, w.mesh._log_path(self.name), env)
            w.mesh.nodes.append(self.z)
            self.z.wait_ready()
        else:
            self.z = w.mesh.shared(self.name, pods=[], without=("--local-xds", "--local-ca"), env=env)

    def restart(self):
        self.z.finish()
        self.serve()


class World:
    def __init__(self, topology, authority, binary, directory, combo, own_root=False):
        """With 'own_root' the control plane, ours, makes its authority itself."""
        self.binary, self.dir, self.combo = binary, pathlib.Path(directory), combo
        self.mesh = Mesh(topology, authority, binary, self.dir)
        self.places, self.pods, self.listening, self.istiod = [], {}, {}, None
        self.ca = Authority(self.dir / "ca")
        self.port = free_port()
        ours = combo.control == "spanwire"
        flags = ["--mesh-listen", f"{CONTROL}:{self.port}", "--mesh-name", NAME, "--mesh-name", CONTROL,
                 *([] if own_root else ["--ca-dir", str(self.ca.dir)])] if ours else ["--mesh=false"]
        self.api = Control(binary, self.dir / "control", "--gateway=false", "--connector=false", "--relaxed-sync", *flags)
        if own_root:
            self.ca.root_file = self.api.data / "mesh-ca" / "root.crt"
        try:
            self._fill(ours)
        except BaseException:
            self.close()
            raise

    def _fill(self, ours):
        for ns, mode in (("istio-system", {}), ("shop", {MODE: "ambient"}), ("annex", {MODE: "ambient"}), ("plain", {})):
            a = self.api.post("/api/v1/namespaces", {"metadata": {"name": ns, "labels": mode}})
            assert a.status == 201, a
        for n in ("node1", "node2"):
            self.api.post("/api/v1/nodes", {"metadata": {"name": n, "labels": {"topology.kubernetes.io/region": "r1"}}})
        self.api.post("/api/v1/namespaces/istio-system/serviceaccounts", {"metadata": {"name": "ztunnel"}})
        if not ours:
            self.istiod = Istiod(self.api, self.dir / "istiod", self.ca.dir, self.port)
        for name, proxy in zip(("node1", "node2"), self.combo.nodes):
            self.places.append(Place(self, name, self.combo.agent, proxy))
            self.places[-1].up()
        for name, (place, host, ns) in PODS.items():
            self.join(name, place, host, ns)
        self._serve()

    def _serve(self):
        """What listens in the pods and outside."""
        keep = self.mesh.keep
        for box in (*self.pods.values(), self.mesh.topo.outside):
            self.echo(box)
            self.echo(box, ip=box.ip6)
        for box in (self.db, self.near):
            self.echo(box, port=FIRST, greeting=b"hello\n")
            self.echo(box, port=SPARE)
            keep(traffic.HandlerServer(box, (box.ip4, SINK), traffic.upload_handler))
            keep(traffic.HandlerServer(box, (box.ip4, SOURCE), traffic.download_handler(16 * MIB)))

    def __getattr__(self, name):
        """world.db is the pod db."""
        try:
            return self.__dict__["pods"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def outside(self):
        return self.mesh.topo.outside

    def join(self, name, place, host, ns, labels=None):
        """A pod that a runtime made, attached and running."""
        self.api.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
        rig = self.places[place].rig
        box = rig.pod(name, host, namespace=ns, labels={"app": name.rstrip("2"), "pod": name, **(labels or {})}, containers=[
            {"name": "app", "image": "app", "ports": [{"name": "echo", "containerPort": PORT}]}])
        rig.running(box)
        status, out = rig.call("ADD", box)
        assert status == 0, (out, rig.log()[-3000:])
        if ns != "plain":
            rig.enabled(box)
        box.identity = f"spiffe://cluster.local/ns/{ns}/sa/{name}"
        self.pods[name] = box
        return box

    def leave(self, name):
        """The pod ends, as a runtime ends it: nothing of its namespace is left."""
        box = self.pods.pop(name)
        rig = self.place_of(box).rig
        for server in self.listening.pop(name, ()):
            server.stop()
        rig.call("DEL", box)
        a = self.api.delete(box.path_api + "?gracePeriodSeconds=0")
        assert a.status in (200, 202), a
        rig.sandboxes.remove(box)
        box.node.ip(f"link del {box.name}")
        box.delete()

    def echo(self, box, **kw):
        self.listening.setdefault(box.name, []).append(self.mesh.echo(box, **kw))

    def place_of(self, box):
        return self.places[0 if box.node.name == "node1" else 1]

    # -- objects ------------------------------------------------------------------------------
    def path(self, kind, ns, name=""):
        api, plural = GROUPS[kind]
        top = "/api/v1" if api == "v1" else f"/apis/{api}"
        return f"{top}/namespaces/{ns}/{plural}" + (f"/{name}" if name else "")

    @contextlib.contextmanager
    def object(self, kind, name, ns="shop", labels=None, **body):
        """An object that is there during the block."""
        meta = {"name": name, "namespace": ns, "labels": labels or {}}
        a = self.api.post(self.path(kind, ns), {"apiVersion": GROUPS[kind][0], "kind": kind, "metadata": meta, **body})
        assert a.status == 201, a
        try:
            yield a.json
        finally:
            self.api.delete(self.path(kind, ns, name))

    def policy(self, action, rules=None, app="db", ns="shop", name="case"):
        spec = {"action": action, **({"rules": rules} if rules is not None else {})}
        if app:
            spec["selector"] = {"matchLabels": {"app": app}}
        return self.object("AuthorizationPolicy", name, ns, spec=spec)

    def peers(self, mode, ns="shop", app=None, ports=None):
        spec = {"mtls": {"mode": mode}, **({"portLevelMtls": ports} if ports else {})}
        if app:
            spec["selector"] = {"matchLabels": {"app": app}}
        return self.object("PeerAuthentication", "case", ns, spec=spec)

    def service(self, name, ports=None, app="db", ns="shop", **spec):
        ports = ports or [{"name": "tcp", "port": 80, "targetPort": PORT}]
        return self.object("Service", name, ns, spec={"selector": {"app": app} if app else None, "ports": ports, **spec})

    # -- traffic ------------------------------------------------------------------------------
    def served(self, src, dst, port=PORT, timeout=5):
        ip = dst if isinstance(dst, str) else dst.ip4
        try:
            with traffic.connect(src, (ip, port), timeout) as sock:
                traffic.echo_once(sock)
            return True
        except (OSError, EOFError):
            return False

    def serves(self, src, dst, port=PORT, what=""):
        until(lambda: self.served(src, dst, port), what=f"{src.name} to be served {what}")

    def refuses(self, src, dst, port=PORT, what=""):
        until(lambda: not self.served(src, dst, port), what=f"{src.name} to be refused {what}")

    def open(self, src, dst, port=PORT):
        sock = self.mesh.connect(src, dst, port)
        traffic.echo_once(sock)
        return sock

    def calm(self):
        """What the question before has left is gone: everybody is served."""
        for src in (self.web, self.other, self.bare1):
            for dst in (self.db, self.near):
                self.serves(src, dst, what=dst.name)

    def ends(self, sock, what="the open connection to end"):
        until(lambda: traffic.ended(sock), what=what)

    def ask(self, box, name, kind="A"):
        """Asks any resolver at all: the pod's rules bring the question to its node."""
        out = box.run("kdig", "@10.96.0.53", "+noidn", "+timeout=5", "+retry=1", name, kind, check=False)
        return sorted(row[4] for row in Reply(out).answer if row[3] == kind)

    def answers(self, box, name, expect, kind="A"):
        seen = []

        def right():
            seen[:] = [self.ask(box, name, kind)]
            return seen[0] == sorted(expect)
        try:
            until(right)
        except AssertionError:
            raise AssertionError(f"{name} {kind}: {seen}, expected {expect}") from None

    def log_lines(self, box, direction, since, **fields):
        return [x for x in self.place_of(box).z.access()[since:] if x.get("direction") == direction
                and all(x.get(k.replace("_", ".")) == v for k, v in fields.items())]

    def log_line(self, box, direction, since, **fields):
        """The access line of a connection, at the node of a pod."""
        z = self.place_of(box).z
        return until(lambda: self.log_lines(box, direction, since, **fields), what=f"a line {direction} {fields} at {z.name}: {z.access()[since:]}")[-1]

    def marks(self):
        return {p.name: len(p.z.access()) for p in self.places}

    # -- the control plane ----------------------------------------------------------------------
    def kill_control(self):
        if self.istiod:
            self.istiod.kill()
        else:
            self.api.stop(kill=True)

    def start_control(self):
        if self.istiod:
            self.istiod.start()
        else:
            self.api.restart()

    def roots_known(self, count):
        """True when every certificate of every node came with so many roots."""
        for p in self.places:
            for c in p.z.config_dump()["certificates"]:
                if c["state"] == "Available" and len(c["rootCerts"]) != count:
                    return False
        return True

    def issued_by(self, root):
        """True when every certificate of every node has this root's own signature in its chain."""
        for p in self.places:
            for c in p.z.config_dump()["certificates"]:
                chain = [x509.load_pem_x509_certificate(base64.b64decode(x["pem"])) for x in c.get("certChain", ())]
                if c["state"] == "Available" and not any(x.issuer == root.name for x in chain):
                    return False
        return True

    def close(self):
        problems = []
        for step in (*(p.rig.close for p in self.places), self.mesh.close,
                     *([self.istiod.close] if self.istiod else []), self.api.close):
            try:
                step()
            except Exception as err:  # noqa: BLE001 - the others have to end too
                problems.append(f"{step}: {err}")
        assert not problems, "\n".join(problems)
