# SPDX-License-Identifier: Apache-2.0
"""The cluster of the replay: objects in the embedded API, and pods as ports of one echo process."""
import itertools
import json
import pathlib
import subprocess
import threading

import yaml
from harness.wait import SLOW

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE.parent / "clients"
GATEWAY_GROUP = "gateway.networking.k8s.io/v1"
# Kind: path of the version, resource, in a namespace
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Service": ("/api/v1", "services", True),
    "Secret": ("/api/v1", "secrets", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "GatewayClass": (f"/apis/{GATEWAY_GROUP}", "gatewayclasses", False),
    "Gateway": (f"/apis/{GATEWAY_GROUP}", "gateways", True),
    "ListenerSet": (f"/apis/{GATEWAY_GROUP}", "listenersets", True),
    "HTTPRoute": (f"/apis/{GATEWAY_GROUP}", "httproutes", True),
    "GRPCRoute": (f"/apis/{GATEWAY_GROUP}", "grpcroutes", True),
    "TLSRoute": (f"/apis/{GATEWAY_GROUP}", "tlsroutes", True),
    "TCPRoute": (f"/apis/{GATEWAY_GROUP}", "tcproutes", True),
    "UDPRoute": (f"/apis/{GATEWAY_GROUP}", "udproutes", True),
    "ReferenceGrant": (f"/apis/{GATEWAY_GROUP}", "referencegrants", True),
    "BackendTLSPolicy": (f"/apis/{GATEWAY_GROUP}", "backendtlspolicies", True),
}


def path_of(kind, name, namespace):
    version, resource, namespaced = KINDS[kind]
    return f"{version}/{f'namespaces/{namespace}/' if namespaced else ''}{resource}/{name}"


class Helper:
    """A node.js program that answers lines of JSON."""

    def __init__(self, script, log):
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "node", str(CLIENTS / script)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.ids = itertools.count(1)
        self.lock = threading.Lock()

    def ask(self, op, **args):
        with self.lock:
            self.process.stdin.write(json.dumps({"id": next(self.ids), "op": op, **args}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        assert line, f"the helper for {op} is gone"
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(f"{op}: {answer['error']}")
        return answer["got"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(40 * SLOW)


class Cluster:
    """Applies manifests and is their kubelet: Deployments run, Services get EndpointSlices."""

    def __init__(self, control, class_name, controller, credentials, log):
        self.control, self.credentials = control, credentials
        self.substitutes = {"{GATEWAY_CLASS_NAME}": class_name, "{GATEWAY_CONTROLLER_NAME}": controller}
        self.echo = Helper("echo.mjs", log)
        self.pods = {}  # (namespace, deployment): [{"ip", "pod", "labels"}]
        self.numbers = itertools.count(1)
        self.local = threading.local()

    # --- objects ---
    def request(self, method, path, body=None, kind="application/json"):
        """One request on this thread's connection."""
        for last in (False, True):
            link = getattr(self.local, "link", None)
            if link is None:
                link = self.local.link = self.control.connection()
            try:
                link.request(method, path, body and json.dumps(body), {"Content-Type": kind})
                answer = link.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
            except OSError:
                link.close()
                self.local.link = None
                if last:
                    raise
        return None

    def get(self, kind, name, namespace=None):
        status, got = self.request("GET", path_of(kind, name, namespace))
        return got if status == 200 else None

    def apply(self, obj):
        path = path_of(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        status, got = self.request("PATCH", path + "?fieldManager=conformance&force=true", obj,
                                   "application/apply-patch+yaml")
        assert status in (200, 201), f"apply {path}: {status} {got}"
        return got

    def patch(self, kind, name, namespace, changes):
        """A merge patch, or a JSON patch when given a list."""
        form = "json" if isinstance(changes, list) else "merge"
        path = path_of(kind, name, namespace)
        status, got = self.request("PATCH", path, changes, f"application/{form}-patch+json")
        assert status == 200, f"patch {path}: {status} {got}"
        return got

    def delete(self, kind, name, namespace=None):
        status, got = self.request("DELETE", path_of(kind, name, namespace))
        assert status in (200, 202, 404), f"delete {kind} {name}: {status} {got}"

    # --- manifests ---
    def read(self, path, **more):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        for old, new in {**self.substitutes, **more}.items():
            text = text.replace(old, new)
        return [d for d in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if d]

    def create(self, documents):
        for d in documents:
            if d["kind"] == "Deployment":
                self._run(d)
        for d in documents:
            if d["kind"] != "Deployment":
                self.apply(d)
            if d["kind"] == "Service" and d["spec"].get("selector"):
                self.apply(self._slice(d))

    def remove(self, documents):
        for d in reversed(documents):
            meta = d["metadata"]
            if d["kind"] == "Deployment":
                for pod in self.pods.pop((meta["namespace"], meta["name"]), ()):
                    self.echo.ask("stop", ip=pod["ip"])
            else:
                self.delete(d["kind"], meta["name"], meta.get("namespace"))
            if d["kind"] == "Service" and d["spec"].get("selector"):
                self.delete("EndpointSlice", meta["name"] + "-pods", meta["namespace"])

    # --- the kubelet ---
    def _run(self, deployment):
        meta, spec = deployment["metadata"], deployment["spec"]
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        env = {e["name"]: e["value"] for e in container.get("env", ()) if "value" in e}
        if "coredns" in container["image"]:
            env["DNS_SERVER"] = "1"
        files = self._files(pod, container)
        pods = self.pods[(meta["namespace"], meta["name"])] = []
        for _ in range(spec.get("replicas", 1)):
            n = next(self.numbers)
            one = {"ip": f"127.100.{n >> 8}.{n & 255}", "pod": f"{meta['name']}-{0x5f3a + n:x}-{n:05d}",
                   "labels": spec["template"]["metadata"]["labels"]}
            self.echo.ask("start", ip=one["ip"], pod=one["pod"], namespace=meta["namespace"], env=env,
                          cert=files.get(env.get("TLS_SERVER_CERT")), ca=files.get(env.get("TLS_CLIENT_CACERTS")),
                          key=files.get(env.get("TLS_SERVER_PRIVKEY") or env.get("TLS_SERVER_PRIV_KEY")))
            pods.append(one)

    def _files(self, pod, container):
        """What the volumes of Secrets and ConfigMaps hold, by path in the container."""
        where = {m["name"]: m["mountPath"] for m in container.get("volumeMounts", ())}
        found = {}
        for volume in pod.get("volumes", ()):
            source = volume.get("secret") or volume["configMap"]
            pair = self.credentials.pairs.get(source.get("secretName") or source.get("name"))
            for item in source.get("items", ()):
                found[f"{where[volume['name']]}/{item['path']}"] = (
                    pair.key_pem if item["key"] == "tls.key" else pair.cert_pem)
        return found

    def pods_of(self, namespace, labels):
        return [p for (ns, _), pods in self.pods.items() if ns == namespace for p in pods
                if labels.items() <= p["labels"].items()]

    def _slice(self, service):
        meta, spec = service["metadata"], service["spec"]
        ports = [{k: v for k, v in {"name": p.get("name", ""), "protocol": p.get("protocol", "TCP"),
                                    "port": p.get("targetPort", p["port"]),
                                    "appProtocol": p.get("appProtocol")}.items() if v is not None}
                 for p in spec["ports"]]
        return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": meta["name"] + "-pods", "namespace": meta["namespace"],
                             "labels": {"kubernetes.io/service-name": meta["name"]}},
                "endpoints": [{"addresses": [p["ip"]], "conditions": {"ready": True}}
                              for p in self.pods_of(meta["namespace"], spec["selector"])],
                "ports": ports}

    def logged(self, namespace, deployment, needle):
        """How many lines the pods of a deployment have logged with this text."""
        ips = [p["ip"] for p in self.pods[(namespace, deployment)]]
        return self.echo.ask("logs", ips=ips, needle=needle)

    def close(self):
        self.echo.close()
