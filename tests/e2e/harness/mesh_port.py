# SPDX-License-Identifier: Apache-2.0
"""A `spanwire control` with the mesh's port, some pods, and a gRPC client of another make (npm's) for it."""
import json
import pathlib
import re
import subprocess

from .control import Control
from .wait import GUARD, SLOW, until

CLIENT = pathlib.Path(__file__).resolve().parent.parent / "clients" / "mesh.mjs"
UNAUTHENTICATED, DENIED, INVALID, UNIMPLEMENTED, EXHAUSTED = 16, 7, 3, 12, 8
ADDRESS = "type.googleapis.com/istio.workload.Address"
AUTHORIZATION = "type.googleapis.com/istio.security.Authorization"
WEB = "spiffe://cluster.local/ns/shop/sa/web"
NODE = "ztunnel~10.0.0.1~ztunnel-1.istio-system~istio-system.svc.cluster.local"
ROOTS = "configmaps/istio-ca-root-cert"
DAY = 86400


def ask(address, roots, steps, cert=()):
    """Starts the client with its steps; its answers are lines."""
    child = subprocess.Popen(["node", str(CLIENT), address, str(roots), *cert], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdin.write(json.dumps(steps))
    child.stdin.close()
    return child


def answers(child, n):
    """What it said to n steps, when it has ended."""
    lines = child.stdout.read().splitlines()
    child.wait(GUARD * SLOW)
    assert len(lines) == n, f"run tools/setup test first?\n{child.stderr.read()[-3000:]}"
    return [json.loads(line) for line in lines]


class MeshPort:
    def __init__(self, binary, top, *flags):
        self.top = top
        self.control = Control(binary, top / "control", "--mesh-listen", "127.0.0.1:0", *flags)
        for ns in ("istio-system", "shop"):
            self.control.post("/api/v1/namespaces", {"metadata": {"name": ns}})
        self.port = until(self.ports, GUARD, "the mesh's port")[-1]
        self.roots = self.control.data / "mesh-ca" / "root.crt"
        for ns, name in (("istio-system", "ztunnel"), ("shop", "web"), ("shop", "db"), ("shop", "gone")):
            self.control.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
        self.pod("istio-system", "ztunnel-1", "ztunnel", "node-1")
        self.pod("istio-system", "ztunnel-2", "ztunnel", "node-2")
        self.pod("shop", "web-1", "web", "node-1")
        self.pod("shop", "db-1", "db", "node-2")
        self.pod("shop", "gone-1", "gone", "node-1", "Failed")
        self.key = top / "key.pem"
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.key))
        self.csr = self.openssl("req", "-new", "-key", str(self.key), "-subj", "/")

    def ports(self):
        """Where it listened, start after start."""
        return [int(port) for port in re.findall(r"mesh on 127\.0\.0\.1:(\d+)", self.control.log())]

    def restart(self):
        starts = len(self.ports())
        self.control.restart()
        self.port = until(lambda: self.ports()[starts:], GUARD, "the mesh's port")[-1]
        self.knows_pods()

    def knows_pods(self):
        """They are known when a request for one of them is granted."""
        until(lambda: self.sign(identity=WEB)["code"] == 0, GUARD, "the authority to know the pods")
        return self

    def object(self, name, ns="shop"):
        """An object of a namespace, as configmaps/NAME; None: there is none."""
        answer = self.control.get(f"/api/v1/namespaces/{ns}/{name}")
        return answer.json if answer.status == 200 else None

    def bundle(self, ns="shop"):
        """The roots that a namespace has, also as a file for clients."""
        text = until(lambda: self.object(ROOTS, ns), GUARD, "the ConfigMap")["data"]["root-cert.pem"]
        path = self.top / "bundle.pem"
        path.write_text(text)
        return path

    def verify(self, leaf, roots, *more):
        path = self.top / "verified.pem"
        path.write_text(leaf)
        return subprocess.run(["openssl", "verify", "-CAfile", str(roots), *more, str(path)], capture_output=True,
                              text=True, timeout=GUARD * SLOW, check=False).returncode == 0

    def count(self, family, **labels):
        want = ",".join(f'{k}="{v}"' for k, v in labels.items())
        text = self.control.get("/metrics").body.decode()
        return sum(int(n) for n in re.findall(rf"^{family}(?:_total)?{{{re.escape(want)}}} (\d+)", text, re.M))

    def openssl(self, *args, stdin=None):
        done = subprocess.run(["openssl", *args], input=stdin, capture_output=True, text=True, timeout=GUARD * SLOW,
                              check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pod(self, ns, name, account, node, phase="Running"):
        path = f"/api/v1/namespaces/{ns}/pods"
        made = self.control.post(path, {"metadata": {"name": name}, "spec": {
            "serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
        assert made.status == 201, made
        done = self.control.patch(f"{path}/{name}/status", {"status": {"phase": phase}})
        assert done.status == 200, done

    def token(self, ns="istio-system", account="ztunnel", pod="ztunnel-1", audience="istio-ca", seconds=3600):
        spec = {"audiences": [audience], "expirationSeconds": seconds}
        if pod:
            uid = self.control.get(f"/api/v1/namespaces/{ns}/pods/{pod}").json["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        answer = self.control.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token", {"spec": spec})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def start(self, steps, roots=None, cert=()):
        return ask(f"127.0.0.1:{self.port}", roots or self.roots, steps, cert)

    def run(self, *steps, **kw):
        return answers(self.start(steps, **kw), len(steps))

    def sign(self, **fields):
        [got] = self.run({"do": "sign", "csr": self.csr, "token": self.token(), "ttl": DAY, **fields})
        return got

    def text(self, pem, *what):
        return self.openssl("x509", "-noout", *what, stdin=pem)

    def refusal(self, why):
        until(lambda: re.search(why, self.control.log()), GUARD, f"a line in the log that says {why}")
