# SPDX-License-Identifier: Apache-2.0
"""
A real kube-apiserver on a real etcd, as 'prepare' built them, with RBAC and tokens of ServiceAccounts; nothing else of
Kubernetes runs. It answers to the methods of harness.control.Control.
"""
import base64
import pathlib
import subprocess

import yaml
from harness.control import Control, _Here
from harness.node import Process
from harness.ports import free_port
from harness.wait import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
RBAC = ROOT / "deploy/kubernetes/rbac.yaml"
# Where clients find it, and what the server is told to have: it takes no loopback address for that.
ADVERTISED = "10.80.0.1"
NAMESPACE = "spanwire-system"
START = 120  # seconds; it makes dozens of objects before it is ready


def _openssl(*argv):
    subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)


def _certificate(where, name, subject, ca=None, san=None):
    """A certificate of the CA, or a new CA."""
    key, crt = where / f"{name}.key", where / f"{name}.crt"
    extra = ["-CA", where / f"{ca}.crt", "-CAkey", where / f"{ca}.key"] if ca else []
    usage = ["-addext", "basicConstraints=critical,CA:FALSE"] if ca else []
    names = ["-addext", f"subjectAltName={san}"] if san else []
    _openssl("req", "-x509", *extra, "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", crt, "-subj", subject,
             "-days", "2", *usage, *names)
    return crt, key


class RealApi(Control):
    """etcd and kube-apiserver until closed; its kubeconfig is a cluster administrator's."""

    def __init__(self, peer, where):
        # pylint: disable=super-init-not-called
        self.peer, self.dir = pathlib.Path(peer), pathlib.Path(where)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.port, self._context = free_port(), None
        self._certificates()
        self.kubeconfig = self.dir / "admin.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._config()), encoding="utf-8")
        self.etcd = self._etcd()
        Process.__init__(self, _Here(), self._command(), self.dir / "apiserver.log")
        until(self._ready, START, "kube-apiserver to be ready")

    def _certificates(self):
        _certificate(self.dir, "ca", "/CN=test-ca")
        _certificate(self.dir, "server", "/CN=kube-apiserver", "ca", f"IP:127.0.0.1,IP:{ADVERTISED},DNS:localhost")
        _certificate(self.dir, "admin", "/O=system:masters/CN=admin", "ca")
        _openssl("genrsa", "-out", self.dir / "accounts.key", "2048")

    def _config(self):
        def data(name):
            return base64.b64encode((self.dir / name).read_bytes()).decode()
        return {"apiVersion": "v1", "kind": "Config", "current-context": "real",
                "clusters": [{"name": "real", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                          "certificate-authority-data": data("ca.crt")}}],
                "users": [{"name": "admin", "user": {"client-certificate-data": data("admin.crt"),
                                                     "client-key-data": data("admin.key")}}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}]}

    def _etcd(self):
        self.store, peers = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        return Process(_Here(), [str(self.peer / "etcd"), "--data-dir", str(self.dir / "etcd"), "--listen-client-urls",
                                 self.store, "--advertise-client-urls", self.store, "--listen-peer-urls", peers,
                                 "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
                                 "--unsafe-no-fsync"], self.dir / "etcd.log")

    def _command(self):
        d = self.dir
        return [str(self.peer / "kube-apiserver"), "--etcd-servers", self.store, "--secure-port", str(self.port),
                "--bind-address", "127.0.0.1", "--advertise-address", ADVERTISED, "--endpoint-reconciler-type", "none",
                "--authorization-mode", "RBAC", "--client-ca-file", f"{d}/ca.crt", "--tls-cert-file", f"{d}/server.crt",
                "--tls-private-key-file", f"{d}/server.key", "--service-account-issuer", "https://kubernetes.default.svc",
                "--service-account-key-file", f"{d}/accounts.key", "--service-account-signing-key-file",
                f"{d}/accounts.key", "--service-cluster-ip-range", "10.96.0.0/16",
                # Nothing here makes the account that every pod would be given.
                "--disable-admission-plugins", "ServiceAccount", "--authentication-token-webhook-cache-ttl", "0s"]

    def _ready(self):
        assert self.etcd.alive, f"etcd ended:\n{self.etcd.log()[-3000:]}"
        assert self.alive, f"kube-apiserver ended:\n{self.log()[-3000:]}"
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def kubectl(self, *argv, stdin=None, check=True, timeout=180, env=None):
        done = subprocess.run([str(self.peer / "kubectl"), "--kubeconfig", str(self.kubeconfig), "--cache-dir",
                               str(self.dir / "cache"), *map(str, argv)], input=stdin, capture_output=True, text=True,
                              timeout=timeout, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(self.dir)})
        if check:
            assert done.returncode == 0, f"kubectl {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
            return done.stdout
        return done

    def apply_file(self, *paths):
        for path in paths:
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", path)

    def apply(self, *objects):
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def token(self, account, namespace=NAMESPACE):
        answer = self.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def kubeconfig_of(self, account, path):
        """A kubeconfig with a new token of the account."""
        config = self._config()
        config["users"][0]["user"] = {"token": self.token(account)}
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def close(self):
        self.stop(kill=True)
        self.etcd.kill()
