# SPDX-License-Identifier: Apache-2.0
"""go-control-plane on both ends: as the server of our gateway, and as a client of our xDS server."""
import http.client
import json
import queue
import re
import subprocess
import threading

import pytest
from harness import gateway as gw
from harness.control import Control, _Here
from harness.envoy import xds_of
from harness.foreign import BACKENDS, backend_address
from harness.node import Process
from harness.wait import GUARD, until

CDS, EDS, LDS, RDS = (gw.TYPE + t for t in (
    "envoy.config.cluster.v3.Cluster", "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.listener.v3.Listener", "envoy.config.route.v3.RouteConfiguration"))
ADS = {"ads": {}, "resource_api_version": "V3"}


class Plane:
    """The program, its lines as they come."""

    def __init__(self, program, *argv):
        self.proc = subprocess.Popen([str(program), *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.lines.put(json.loads(line))

    def wait(self, what, seconds=GUARD):
        """The first line from now on for which what() holds."""
        while True:
            try:
                line = self.lines.get(timeout=seconds)
            except queue.Empty:
                raise AssertionError(f"no such line, only {self.seen[-10:]}") from None
            self.seen.append(line)
            if what(line):
                return line

    def snapshot(self, version, *resources):
        self.proc.stdin.write(json.dumps({"version": version, "resources": resources}) + "\n")
        self.proc.stdin.flush()

    def kill(self):
        self.proc.kill()
        self.proc.wait()


def cluster(name):
    return {"@type": CDS, "name": name, "type": "EDS", "connect_timeout": "20s", "eds_cluster_config": {"eds_config": ADS}}


def endpoints(name, *ports):
    return {"@type": EDS, "cluster_name": name, "endpoints": [{"lb_endpoints": [
        {"endpoint": {"address": gw.address(p)}} for p in ports]}]}


def listener(port, table="r", **more):
    hcm = {"@type": gw.HCM, "stat_prefix": "s", "rds": {"route_config_name": table, "config_source": ADS},
           "http_filters": [{"name": "router", "typed_config": {"@type": gw.ROUTER}}], **more}
    return {"@type": LDS, "name": "l", "address": gw.address(port),
            "filter_chains": [{"filters": [{"name": "hcm", "typed_config": hcm}]}]}


def table(name, to):
    return {"@type": RDS, "name": name, "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
        {"match": {"prefix": "/"}, "route": {"cluster": to}}]}]}


def ask(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        c.request("GET", "/echo")
        return c.getresponse().status
    except OSError:
        return 0
    finally:
        c.close()


def elsewhere(port, origin):
    """An answer that this backend did not give."""
    before = origin.requests
    return ask(port) == 200 and origin.requests == before


@pytest.fixture
def served(binary, interop_dir, tmp_path):
    plane = Plane(interop_dir / "plane", "serve")
    port = plane.wait(lambda x: "port" in x)["port"]
    admin = [f"127.0.0.1:{gw.free_port()}" for _ in range(3)]
    gateway = Process(_Here(), [binary, "gateway", "--xds-addr", f"127.0.0.1:{port}", "--workers", "2", "--admin-addr",
                                admin[0], "--stats-addr", admin[1], "--ready-addr", admin[2], "--log-level", "debug",
                                "--drain-time", "2s"], tmp_path / "log")
    yield plane, gateway
    gateway.signal(15)
    assert gateway.wait(GUARD) == 0, gateway.log()[-3000:]
    plane.kill()


def test_updates_removals_and_refusals(served):
    plane, gateway = served
    a, b, port = gw.Origin(), gw.Origin(), gw.free_port()
    plane.snapshot("1", cluster("a"), endpoints("a", a.port), listener(port), table("r", "a"))
    until(lambda: ask(port) == 200, 15, "the first answer")
    # A new cluster, then endpoints alone, then routes alone.
    plane.snapshot("2", cluster("a"), cluster("b"), endpoints("a", a.port), endpoints("b", b.port), listener(port),
                   table("r", "b"))
    until(lambda: ask(port) == 200 and b.requests > 0, 15, "the other backend")
    plane.snapshot("3", cluster("b"), endpoints("b", a.port), listener(port), table("r", "b"))
    until(lambda: elsewhere(port, b), 15, "endpoints to move")
    # Refused with the reason; what was there goes on.
    plane.snapshot("4", cluster("b"), endpoints("b", a.port), listener(port, codec_type="HTTP3"), table("r", "b"))
    no = plane.wait(lambda x: x.get("type") == LDS and not x["ok"])
    assert "codec_type" in no["why"]
    assert ask(port) == 200
    plane.snapshot("5", cluster("b"), endpoints("b", a.port), listener(port), table("r", "b"))
    plane.wait(lambda x: x.get("type") == LDS and x["ok"])
    # A listener that goes.
    plane.snapshot("6", cluster("b"), endpoints("b", a.port))
    until(lambda: ask(port) == 0, 15, "the listener to go")
    told = until(lambda: re.findall("response for type", gateway.log()), 15, "a line about the refusal")
    assert len(told) == 1


def test_our_server_for_a_foreign_client(binary, interop_dir, tmp_path):
    backend_address()
    control = Control(binary, tmp_path / "control", "--relaxed-sync", "--xds-listen", "127.0.0.1:0")
    token = control.data / "pki/admin.token"
    watch = [Plane(interop_dir / "plane", "watch", xds_of(control), str(control.data / "pki/root.crt"), str(token), refuse)
             for refuse in ("none", RDS)]
    try:
        def apply(*objects):
            control.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)))

        def route(name):
            return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {
                "name": name, "namespace": "default"}, "spec": {"parentRefs": [{"name": "g"}], "hostnames": [
                    f"{name}.example"], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}}
        apply({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "c"}, "spec": {
            "controllerName": "spanwire.dev/gateway"}},
            {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {
                "name": "g", "namespace": "default"}, "spec": {"gatewayClassName": "c", "listeners": [
                    {"name": "http", "port": 80, "protocol": "HTTP"}]}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {
                "ports": [{"name": "http", "port": 80}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {
                "name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
             "ports": [{"name": "http", "port": 3000}], "endpoints": [
                 {"addresses": [BACKENDS], "conditions": {"ready": True}}]}, route("one"))
        for w in watch:
            w.wait(lambda x, w=w: {CDS, EDS, LDS, RDS} <= {y["type"] for y in w.seen if y["names"]})
        apply(route("two"))
        watch[0].wait(lambda x: x["type"] == RDS and "two.example" in x["hosts"])
        control.kubectl("delete", "gateway", "g")
        watch[0].wait(lambda x: x["type"] == LDS and x["removed"])
        # The refusal is there for people.
        until(lambda: "refused for a test" in json.dumps(control.get("/debug/xds").json), 10, "the refusal in the status")
    finally:
        for w in watch:
            w.kill()
        control.close()
