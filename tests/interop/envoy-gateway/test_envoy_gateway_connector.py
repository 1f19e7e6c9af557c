# SPDX-License-Identifier: Apache-2.0
"""
Devices behind an Envoy Gateway: 'spanwire expose' makes an HTTPProxy, its Gateway is of Envoy Gateway's class, and
our hooks (or our patches) lead the routes to the device. Three ways, on a real Envoy and on our gateway.
"""
import os
import re
import subprocess

import eg_world as eg
import pytest
import yaml
from harness.device import Device, Web
from harness.envoy import xds_of
from harness.gateway import free_port
from harness.sidecar import Sidecar
from harness.wait import GUARD, until

HOST = "shop.town.example"
HTTP, HTTPS = 10080, 10443
# way: flags of our control plane
WAYS = {
    "hooks": ["--envoy-gateway"],
    "hooks, static tunnel": ["--envoy-gateway", "--envoy-static-tunnel"],
    "patch policies": ["--envoy-patch-policies"],
}
ALL = {"includeAll": True}


def extension_manager(port):
    """Envoy Gateway's settings for our hooks, beside it in its pod."""
    return {"extensionManager": {
        "hooks": {"xdsTranslator": {"post": ["Translation"], "translation": {
            "listener": ALL, "route": ALL, "cluster": ALL, "secret": ALL}}},
        "service": {"ip": {"address": "127.0.0.1", "port": port}}}}


class Street:
    """Control plane, Envoy Gateway, sidecar and an exposed web server; the data planes come and go."""

    def __init__(self, binary, interop, where, way):
        self.binary, self.where, self.way, self.web = binary, where, way, Web()
        self.proxy, self.hooks = where / "side" / "s.sock", free_port()
        self.control = eg.control_for(
            binary, where / "control", "--relaxed-sync", "--connect-proxy", str(self.proxy), "--target-domain",
            "town.example", "--connector-lease", "20s", "--xds-listen", "127.0.0.1:0", "--connector-gateway-class", "eg",
            *(["--extension-listen", f"127.0.0.1:{self.hooks}"] if "hooks" in way else []), *WAYS[way])
        config = extension_manager(self.hooks) if "hooks" in way else None
        self.eg = eg.EnvoyGateway(interop / "envoy-gateway", where / "root", self.control, interop / "crds", config)
        eg.apply(self.control, self.envoy_proxy(), {
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "eg"}, "spec": {
                "controllerName": eg.CONTROLLER, "parametersRef": {
                    "group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "spanwire",
                    "namespace": eg.SYSTEM}}})
        self.sidecar = Sidecar(binary, where / "side", kubeconfig=self.control.kubeconfig).wait_ready()
        self.device = None
        self.expose()

    def envoy_proxy(self):
        """What 'spanwire envoy patch' prints; only the bootstrap extension where the hooks bring the rest."""
        out = subprocess.run([self.binary, "envoy", "patch", "--connect-proxy", str(self.proxy)], capture_output=True,
                             text=True, check=True).stdout
        proxy = yaml.safe_load(out)
        if self.way == "patch policies":
            proxy["spec"]["mergeGateways"] = True  # our policies are for the class
        if self.way == "hooks":
            patches = proxy["spec"]["bootstrap"]["jsonPatches"]
            proxy["spec"]["bootstrap"]["jsonPatches"] = [p for p in patches if p["path"] == "/bootstrap_extensions"]
        return proxy

    def expose(self):
        """There is no data plane to ask yet, or it is not ours: nobody verifies the name."""
        self.device = Device(self.binary, self.where / "device", self.control.kubeconfig, "--name", "shop",
                             "--hostname", HOST, "--no-verify",
                             command=("expose", str(self.web.port)))
        until(lambda: self.gateway() or not self.device.alive, 15, "the Gateway")
        assert self.device.alive, self.device.log()[-2000:]

    def gateway(self):
        items = self.control.get("/apis/gateway.networking.k8s.io/v1/gateways").json["items"]
        return items[0] if items else None

    def patches(self):
        """What Envoy Gateway says to our policies."""
        items = self.control.get("/apis/gateway.envoyproxy.io/v1alpha1/envoypatchpolicies").json["items"]
        return [(i["spec"], i.get("status")) for i in items]

    def plane(self, kind):
        whose = "eg" if self.way == "patch policies" else self.gateway()["metadata"]["name"]
        self.eg.programmed(whose)
        if kind == "spanwire":
            return eg.Ours(self.binary, self.where / "ours", self.eg, whose)
        return eg.Theirs(os.path.join(os.environ["INTEROP_TOP"], "envoy/envoy"), self.where / "theirs", self.eg, whose)

    def close(self):
        if self.device.alive:
            self.device.stop()
        self.device.check()
        self.eg.signal(15)
        self.eg.wait(GUARD)
        self.sidecar.close()
        self.control.close()
        self.web.close()


@pytest.fixture(scope="module", params=list(WAYS))
def street(request, binary, interop_dir, tmp_path_factory):
    s = Street(binary, interop_dir, tmp_path_factory.mktemp("street"), request.param)
    yield s
    s.close()


@pytest.fixture(scope="module", params=["envoy", "spanwire"])
def edge(street, request):
    if request.param == "spanwire" and street.way != "hooks":
        pytest.skip("the tunnel's listener is in Envoy's bootstrap, which our gateway does not read")
    e = street.plane(request.param)
    try:
        until(e.ready, 30, "the data plane")
    except AssertionError as late:
        raise AssertionError(f"{late}\n{street.eg.log()[-3000:]}\n{e.log()[-2000:]}") from None
    yield e
    assert e.refused() == []
    e.end()


def curl(path, *flags, port=HTTP, scheme="http"):
    done = subprocess.run(["curl", "-sS", "-m", "20", "-D", "/dev/stderr", "--resolve", f"{HOST}:{port}:127.0.0.1",
                           "-w", "\n%{http_code}", *flags, f"{scheme}://{HOST}:{port}{path}"],
                          capture_output=True, check=False)
    body, _, status = done.stdout.rpartition(b"\n")
    return int(status or 0), body, done.stderr.decode()


def serves(street):
    until(lambda: curl("/hello")[:2] == (200, b"hello /hello"), 25,
          f"the device to be reached: {curl('/hello')}\n{street.patches()}", interval=0.1)


def test_a_device_is_reached(street, edge):
    serves(street)
    assert curl("/big")[1] == bytes(range(256)) * 20000
    body = os.urandom(300000)
    done = subprocess.run(["curl", "-sS", "-m", "20", "--resolve", f"{HOST}:{HTTP}:127.0.0.1", "--data-binary", "@-",
                           f"http://{HOST}:{HTTP}/echo"], input=body, capture_output=True, check=True)
    assert done.stdout == body
    ca = str(street.control.data / "connect-ca/root.crt")
    status, body, head = curl("/hello", "--cacert", ca, "--http2", port=HTTPS, scheme="https")
    assert (status, body) == (200, b"hello /hello"), head


def test_a_device_that_is_away_is_told_and_comes_back(street, edge):
    serves(street)
    street.device.stop()
    until(lambda: curl("/hello")[0] == 503, 20, f"503 while it is away: {curl('/hello')}", interval=0.1)
    street.expose()
    serves(street)


def test_strangers_get_nothing_from_the_hooks(street):
    """What they tell is about everybody's devices: on the network, who asks shows a token."""
    if "hooks" not in street.way:
        pytest.skip("no hooks")
    ca = str(street.control.data / "pki/root.crt")
    done = subprocess.run(["curl", "-sS", "-m", "40", "-D", "-", "-o", "/dev/null", "--http2-prior-knowledge", "--cacert", ca,
                           "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-",
                           f"https://{xds_of(street.control)}/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify"],
                          input=b"\0\0\0\0\0", capture_output=True, check=False)
    # A refusal may overtake the request, which curl calls an error of the stream.
    assert re.search(rb"grpc-status: 16", done.stdout) or done.returncode == 92, done.stdout + done.stderr
    assert b"grpc-status: 0" not in done.stdout
