# SPDX-License-Identifier: Apache-2.0
"""
What a cluster has besides its API, as far as the conformance suite needs it: Deployments get pods,
pods run (each in a network namespace of its own), Services get EndpointSlices, and logs can be read.
"""
import base64
import http.client
import http.server
import json
import os
import pathlib
import queue
import subprocess
import threading
import time
import urllib.parse
from datetime import datetime

from harness.netns import NetNs, new_bridge, run
from harness.wait import until

BRIDGE = "pods0"
NODE = "node-1"
WATCHED = {"Deployment": "/apis/apps/v1/deployments", "Service": "/api/v1/services"}


def owned_by(obj, api_version, kind):
    meta = obj["metadata"]
    return [{"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"],
             "controller": True, "blockOwnerDeletion": True}]


class Pod:
    """A process in a namespace, and the lines it wrote with their times."""

    def __init__(self, name, number, deployment):
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        self.name, self.namespace, self.number = name, meta["namespace"], number
        self.ip = f"10.244.{number >> 8}.{number & 255}"
        self.labels = template["metadata"]["labels"]
        self.spec = template["spec"]
        self.owner = deployment
        self.lines = []
        self.ns = self.process = None
        self.gone = False

    @property
    def path(self):
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def plug(self):
        self.ns = NetNs(f"pod{self.number}")
        run("ip", "link", "add", f"p{self.number}", "type", "veth", "peer", "name", "eth0", "netns", self.ns.name)
        run("ip", "link", "set", f"p{self.number}", "master", BRIDGE, "up")
        self.ns.ip("link set lo up", f"addr add {self.ip}/16 dev eth0", "link set eth0 up",
                   "route add default via 10.244.0.1")

    def start(self, program, env):
        self.plug()
        with self.ns.entered():
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", str(program)], env=env,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True, errors="replace")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line))

    def listens(self):
        """Whether there is a socket that waits for somebody, in any family."""
        with open(f"/proc/{self.process.pid}/net/tcp6", encoding="ascii") as tcp6, \
                open(f"/proc/{self.process.pid}/net/tcp", encoding="ascii") as tcp, \
                open(f"/proc/{self.process.pid}/net/udp6", encoding="ascii") as udp6:
            return (any(line.split()[3] == "0A" for f in (tcp6, tcp) for line in list(f)[1:])
                    or len(list(udp6)) > 1)

    def log(self, since):
        return "".join(line for at, line in list(self.lines) if at >= since)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        if self.ns:
            self.ns.delete()


class Kubelet:
    """
    Follows Deployments and Services until closed. A Deployment has its Pods at once, so that whoever waits
    for them to be ready has something to wait for; another thread starts them one by one.
    """

    def __init__(self, control, where, programs):
        """programs: {part of an image's name: path of what runs instead}"""
        self.control, self.where, self.programs = control, pathlib.Path(where), programs
        self.lock = threading.Lock()  # for the next two
        self.pods = {}  # (namespace, deployment): [Pod]
        self.services = {}  # (namespace, name): object
        self.waiting = []  # pods whose volumes are not there yet
        self.tasks = queue.Queue()
        self.local = threading.local()
        self.numbers = iter(range(2, 60000))
        self.closing = False
        self.trouble = []
        run("ip", *new_bridge(BRIDGE).split())
        run("ip", "addr", "add", "10.244.0.1/16", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        self._apply(f"/api/v1/nodes/{NODE}", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.worker = threading.Thread(target=self._work, daemon=True)
        self.worker.start()
        for task in (self.server.serve_forever, *(lambda k=k: self._follow(k) for k in WATCHED)):
            threading.Thread(target=task, daemon=True).start()

    def close(self):
        self.closing = True
        self.tasks.put(None)
        self.worker.join(30)
        self.server.shutdown()
        self.server.server_close()
        for pod in self._all():
            pod.stop()
        run("ip", "link", "del", BRIDGE)

    def _all(self, namespace=None):
        with self.lock:
            return [p for (ns, _), pods in self.pods.items() if namespace in (None, ns) for p in pods]

    # --- the API ---
    def _follow(self, kind):
        """Everything there is and every change of it, in order."""
        version = ""
        while not self.closing:
            try:
                watch = self.control.watch(f"{WATCHED[kind]}?watch=true&resourceVersion={version}", timeout=3600)
                for event in watch:
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._handle(kind, event["type"], event["object"])
            except (OSError, ValueError, http.client.HTTPException) as e:
                if not self.closing:
                    self.trouble.append(f"watch of {kind}: {e}")
            time.sleep(0.1)

    def _request(self, method, path, body=None, kind="application/json"):
        """One request on this thread's connection."""
        for last in (False, True):
            link = getattr(self.local, "link", None)
            if link is None:
                link = self.local.link = self.control.connection()
            try:
                link.request(method, path, body and json.dumps(body), {"Content-Type": kind})
                answer = link.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
            except (OSError, http.client.HTTPException):
                link.close()
                self.local.link = None
                if last:
                    raise
        return None

    def _apply(self, path, obj, sub=""):
        status, told = self._request("PATCH", f"{path}{sub}?fieldManager=kubelet&force=true", obj,
                                     "application/apply-patch+yaml")
        # What is gone meanwhile, or goes, needs no status and takes nothing new.
        if status not in (200, 201, 403, 404, 409):
            self.trouble.append(f"{path}{sub}: {status} {told}")

    def _data(self, namespace, kind, name):
        """The files of a Secret or ConfigMap; None while it is not there."""
        status, told = self._request("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        if status != 200:
            return None
        data = told.get("data", {})
        if kind == "configmaps":
            return {k: v.encode() for k, v in data.items()}
        return {k: base64.b64decode(v) for k, v in data.items()}

    # --- as changes come ---
    def _handle(self, kind, change, obj):
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        gone = change == "DELETED" or obj["metadata"].get("deletionTimestamp")
        if kind == "Service":
            with self.lock:
                if gone:
                    self.services.pop(key, None)
                else:
                    self.services[key] = obj
            self.tasks.put((self._publish, key))
        elif gone:
            with self.lock:
                pods = self.pods.pop(key, ())
            for pod in pods:
                pod.gone = True
                self._request("DELETE", pod.path + "?gracePeriodSeconds=0")
                self.tasks.put((self._stop, pod))
        elif key not in self.pods:
            self._deploy(key, obj)

    def _deploy(self, key, deployment):
        pods = []
        for _ in range(deployment["spec"].get("replicas", 1)):
            number = next(self.numbers)
            pods.append(Pod(f"{key[1]}-{0x5f3a0000 + number:x}-{number:05d}", number, deployment))
        with self.lock:
            self.pods[key] = pods
        for pod in pods:
            self._apply(pod.path, {"apiVersion": "v1", "kind": "Pod", "metadata": {
                "name": pod.name, "namespace": pod.namespace, "labels": pod.labels,
                "ownerReferences": owned_by(deployment, "apps/v1", "Deployment")},
                "spec": {**pod.spec, "nodeName": NODE}})
            self.tasks.put((self._run, pod))

    # --- what takes longer ---
    def _work(self):
        while True:
            try:
                task = self.tasks.get(timeout=0.2)
                if task is None:
                    return
                task[0](task[1])
            except queue.Empty:
                again, self.waiting = self.waiting, []
                for pod in again:
                    self._run(pod)
            except Exception as e:  # pylint: disable=broad-except
                self.trouble.append(f"{type(e).__name__}: {e}")

    def _run(self, pod):
        """Starts a pod when its volumes can be filled; the gateway hears of it when it listens."""
        container = pod.spec["containers"][0]
        env = None if pod.gone else self._environment(pod, container)
        if env is None:
            if not pod.gone:
                self.waiting.append(pod)
            return
        program = next(p for image, p in self.programs.items() if image in container["image"])
        pod.start(program, env)
        until(lambda: pod.listens() or pod.gone, 10, f"{pod.name} to listen")
        self._publish_all(pod.namespace)
        self._status(pod, container)

    def _stop(self, pod):
        pod.stop()
        self._publish_all(pod.namespace)

    def _environment(self, pod, container):
        fields = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "status.podIP": pod.ip}
        mounts = self._volumes(pod, container)
        if mounts is None:
            return None
        env = {"PATH": os.environ["PATH"]}
        for e in container.get("env", ()):
            if "valueFrom" in e:
                env[e["name"]] = fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
                continue
            value = e.get("value", "")
            for inside, outside in mounts.items():
                if value == inside or value.startswith(inside + "/"):
                    value = outside + value[len(inside):]
            env[e["name"]] = value
        return env

    def _volumes(self, pod, container):
        """{path in the container: directory}, filled; None while something is missing."""
        where = {m["name"]: m["mountPath"] for m in container.get("volumeMounts", ())}
        mounts = {}
        for volume in pod.spec.get("volumes", ()):
            kind, name = (("secrets", volume["secret"]["secretName"]) if "secret" in volume
                          else ("configmaps", volume["configMap"]["name"]))
            source = volume.get("secret") or volume["configMap"]
            data = self._data(pod.namespace, kind, name)
            if data is None:
                return None
            top = self.where / pod.name / volume["name"]
            top.mkdir(parents=True, exist_ok=True)
            for item in source.get("items") or [{"key": k, "path": k} for k in data]:
                (top / item["path"]).write_bytes(data[item["key"]])
            mounts[where[volume["name"]]] = str(top)
        return mounts

    def _status(self, pod, container):
        now = datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")
        true = [{"type": t, "status": "True", "lastTransitionTime": now}
                for t in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
        self._apply(pod.path, {"apiVersion": "v1", "kind": "Pod",
                               "metadata": {"name": pod.name, "namespace": pod.namespace},
                               "status": {"phase": "Running", "podIP": pod.ip, "podIPs": [{"ip": pod.ip}],
                                          "startTime": now, "conditions": true,
                                          "containerStatuses": [{
                                              "name": container["name"], "image": container["image"],
                                              "imageID": "", "restartCount": 0, "ready": True, "started": True,
                                              "state": {"running": {"startedAt": now}}}]}}, "/status")
        meta = pod.owner["metadata"]
        with self.lock:
            ready = len([p for p in self.pods.get((meta["namespace"], meta["name"]), ()) if p.process])
        self._apply(f"/apis/apps/v1/namespaces/{meta['namespace']}/deployments/{meta['name']}",
                    {"apiVersion": "apps/v1", "kind": "Deployment",
                     "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
                     "status": {"observedGeneration": meta["generation"], "replicas": ready, "readyReplicas": ready,
                                "availableReplicas": ready, "updatedReplicas": ready}}, "/status")

    # --- EndpointSlices ---
    def _publish_all(self, namespace):
        with self.lock:
            keys = [k for k in self.services if k[0] == namespace]
        for key in keys:
            self._publish(key)

    def _publish(self, key):
        with self.lock:
            service = self.services.get(key)
        if not service or not service["spec"].get("selector"):
            return
        meta, spec = service["metadata"], service["spec"]
        pods = [p for p in self._all(meta["namespace"])
                if p.process and spec["selector"].items() <= p.labels.items()]
        ports = [{k: v for k, v in {"name": p.get("name", ""), "protocol": p.get("protocol", "TCP"),
                                    "port": p.get("targetPort", p["port"]),
                                    "appProtocol": p.get("appProtocol")}.items() if v is not None}
                 for p in spec["ports"]]
        name = meta["name"] + "-pods"
        said = json.dumps([[p.name for p in pods], ports])
        if service.get("said") == said:
            return
        service["said"] = said
        self._apply(f"/apis/discovery.k8s.io/v1/namespaces/{meta['namespace']}/endpointslices/{name}", {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": meta["namespace"],
                         "labels": {"kubernetes.io/service-name": meta["name"]},
                         "ownerReferences": owned_by(service, "v1", "Service")},
            "endpoints": [{"addresses": [p.ip], "conditions": {"ready": True, "serving": True, "terminating": False},
                           "nodeName": NODE, "targetRef": {"kind": "Pod", "name": p.name, "namespace": p.namespace}}
                          for p in pods],
            "ports": ports})

    # --- logs ---
    def _log(self, target):
        """What GET .../pods/NAME/log answers; None: no such pod."""
        parts = urllib.parse.urlsplit(target)
        words = parts.path.split("/")  # "", api, v1, namespaces, NS, pods, NAME, log
        since = urllib.parse.parse_qs(parts.query).get("sinceTime")
        start = datetime.fromisoformat(since[0].replace("Z", "+00:00")).timestamp() if since else 0
        for pod in self._all():
            if len(words) == 8 and (pod.namespace, pod.name) == (words[4], words[6]):
                return pod.log(start)
        return None

    def _handler(kubelet):  # pylint: disable=no-self-argument
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                text = kubelet._log(self.path)
                body = (text or "").encode()
                self.send_response(404 if text is None else 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass
        return Handler
