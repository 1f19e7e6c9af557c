# SPDX-License-Identifier: Apache-2.0
"""
Routes that end on a device, with a real Envoy in front: visitor, Envoy, CONNECT to our sidecar,
QUIC, 'spanwire expose'. By our xDS, by 'spanwire envoy patch', and by 'spanwire envoy tunnel'.
"""
import json
import os
import socket
import subprocess

import pytest
import yaml
from harness.control import Control
from harness.device import Device
from harness.envoy import Envoy, validate
from harness.gateway import free_port
from harness.sidecar import Sidecar
from harness.wait import until

HOST = "shop.town.example"
HTTP, HTTPS = 8080, 8443


class Street:
    """A control plane, a sidecar and an exposed web server; no data plane yet."""

    def __init__(self, binary, where, web):
        self.binary, self.where, self.web = binary, where, web
        self.proxy = where / "side" / "s.sock"
        self.control = Control(binary, where / "control", "--loopback-endpoints", "--relaxed-sync", "--connect-proxy",
                               str(self.proxy), "--gateway-addresses", "127.0.0.1", "--target-domain", "town.example",
                               "--connector-lease", "20s", "--xds-listen", "127.0.0.1:0")
        self.sidecar = Sidecar(binary, where / "side", kubeconfig=self.control.kubeconfig).wait_ready()
        self.device = None
        self.expose()

    def expose(self):
        self.device = Device(self.binary, self.where / "device", self.control.kubeconfig, "--name", "shop",
                             "--hostname", HOST, "--no-verify", command=("expose", str(self.web.port)))
        # The URL comes with a data plane, which each test starts for itself.
        until(lambda: "this device is online" in self.device.log() or not self.device.alive, 15, "the device to be online")
        assert self.device.alive, self.device.log()[-2000:]

    def close(self):
        if self.device.alive:
            self.device.stop()
        self.device.check()
        self.sidecar.close()
        self.control.close()


@pytest.fixture(scope="module")
def street(binary, tmp_path_factory):
    from harness.device import Web
    web = Web()
    s = Street(binary, tmp_path_factory.mktemp("street"), web)
    yield s
    s.close()
    web.close()


def curl(path, *flags, port=HTTP, scheme="http"):
    """(status, body, head) of a request for the exposed name."""
    done = subprocess.run(["curl", "-sS", "-m", "20", "-D", "/dev/stderr", "--resolve", f"{HOST}:{port}:127.0.0.1",
                           "-w", "\n%{http_code}", *flags, f"{scheme}://{HOST}:{port}{path}"],
                          capture_output=True, check=False)
    body, _, status = done.stdout.rpartition(b"\n")
    return int(status or 0), body, done.stderr.decode()


def serves(port=HTTP, seconds=15):
    until(lambda: curl("/hello", port=port)[:2] == (200, b"hello /hello"), seconds,
          f"the device to be reached: {curl('/hello', port=port)}", interval=0.1)


def check_traffic(port=HTTP):
    serves(port)
    assert curl("/big", port=port)[1] == bytes(range(256)) * 20000
    body = os.urandom(300000)
    done = subprocess.run(["curl", "-sS", "-m", "20", "--resolve", f"{HOST}:{port}:127.0.0.1", "--data-binary", "@-",
                           f"http://{HOST}:{port}/echo"], input=body, capture_output=True, check=True)
    assert done.stdout == body


# ---- by our xDS ----

@pytest.fixture(scope="module")
def edge(street, interop_dir):
    e = Envoy.of_control(interop_dir / "envoy", street.binary, street.where / "envoy", street.control)
    e.wait_ready()
    yield e
    assert e.rejected() == {}
    e.stop()


def test_a_device_is_reached_by_xds(street, edge):
    check_traffic()
    ca = str(street.control.data / "connect-ca/root.crt")
    for version in ("--http1.1", "--http2"):
        status, body, head = curl("/hello", "--cacert", ca, version, port=HTTPS, scheme="https")
        assert (status, body) == (200, b"hello /hello"), head
    assert "HTTP/2 200" in head
    name = "cluster.spanwire-connect-proxy.upstream_cx_total"
    assert edge.stats(name)[name] > 0


def test_a_device_that_is_away_is_told_and_comes_back(street, edge):
    """Public listeners stay as they are; the tunnel's own is there while some device is."""
    def public():
        told = json.loads(edge.admin("/config_dump?resource=dynamic_listeners"))["configs"]
        return {c["name"]: c["active_state"]["last_updated"] for c in told if c["name"] != "spanwire-tunnel"}
    serves()
    before = public()
    street.device.stop()
    # Before our answer for it comes, Envoy may have one of its own for a tunnel that broke.
    _, _, head = until(lambda: (lambda got: got if got[:2] == (503, b"Tunnel not online") else None)(curl("/hello")), 15,
                       "the answer while it is away")
    assert "retry-after: 5" in head.lower(), head
    street.expose()
    serves()
    assert len(before) == 2 and public() == before


# ---- 'spanwire envoy tunnel' ----

def printed(street, *argv):
    done = subprocess.run([street.binary, "envoy", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("http2", ["true", "false"])
@pytest.mark.parametrize("way", ["socket", "address"])
def test_an_envoy_for_one_connector(street, binary, interop_dir, tmp_path, http2, way):
    proxy, sidecar = str(street.proxy), None
    if way == "address":
        proxy = f"127.0.0.1:{free_port()}"
        sidecar = Sidecar(binary, tmp_path / "side", listen=proxy, kubeconfig=street.control.kubeconfig).wait_ready()
    port = free_port()
    text = printed(street, "tunnel", "--connector-id", street.device.id, "--target", f"127.0.0.1:{street.web.port}",
                   "--connect-proxy", proxy, "--connect-http2", http2, "--listen", f"127.0.0.1:{port}")
    e = Envoy(interop_dir / "envoy", tmp_path, text, free_port())
    try:
        check_traffic(port)
    finally:
        assert e.alive, e.log()[-2000:]
        e.signal(15)
        assert e.wait(40) == 0
        if sidecar:
            sidecar.close()


# ---- 'spanwire envoy patch' ----

def patched(street, admin, port):
    """A bootstrap of the kind Envoy Gateway makes, with our patches applied, and a connector's cluster in it."""
    boot = {"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
            "static_resources": {"listeners": [], "clusters": []}}
    proxy = yaml.safe_load(printed(street, "patch", "--connect-proxy", str(street.proxy)))
    for p in proxy["spec"]["bootstrap"]["jsonPatches"]:
        assert p["op"] == "add"
        at, *path = boot, *p["path"].strip("/").split("/")
        for key in path[:-1]:
            at = at[key]
        if path[-1] == "-":
            at.append(p["value"])
        else:
            at[path[-1]] = p["value"]
    kind = "type.googleapis.com/envoy.extensions."
    boot["static_resources"]["listeners"].append({
        "name": "public", "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
            "@type": kind + "filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t", "cluster": "shop"}}]}]})
    boot["static_resources"]["clusters"].append({
        "name": "shop", "type": "STATIC", "load_assignment": {"cluster_name": "shop", "endpoints": [{"lb_endpoints": [{
            "endpoint": {"address": {"envoy_internal_address": {"server_listener_name": "spanwire-tunnel"}}},
            "metadata": {"filter_metadata": {"tunnel": {"address": f"127.0.0.1:{street.web.port}",
                                                        "endpoint_id": street.device.id}}}}]}]},
        "transport_socket": {"name": "internal_upstream", "typed_config": {
            "@type": kind + "transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
            "passthrough_metadata": [{"kind": {"host": {}}, "name": "tunnel"}],
            "transport_socket": {"name": "raw", "typed_config": {
                "@type": kind + "transport_sockets.raw_buffer.v3.RawBuffer"}}}}})
    return yaml.safe_dump(boot)


def test_the_patches_of_envoy_gateway_lead_to_the_device(street, interop_dir, tmp_path):
    admin, port = free_port(), free_port()
    text = patched(street, admin, port)
    (tmp_path / "boot.yaml").write_text(text, encoding="utf-8")
    status, said = validate(interop_dir / "envoy", tmp_path / "boot.yaml")
    assert status == 0, said
    e = Envoy(interop_dir / "envoy", tmp_path, text, admin)
    check_traffic(port)
    e.stop()


def test_a_refusal_of_the_sidecar_ends_the_connection(street, interop_dir, tmp_path):
    """The device allows what was exposed, and nothing else: Envoy gets no tunnel, the visitor nothing."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        text = printed(street, "tunnel", "--connector-id", street.device.id, "--target",
                       f"127.0.0.1:{other.getsockname()[1]}", "--connect-proxy", str(street.proxy),
                       "--listen", f"127.0.0.1:{port}")
        e = Envoy(interop_dir / "envoy", tmp_path, text, free_port())
        try:
            until(lambda: "starting workers" in e.log(), 10)
            status, body, head = curl("/hello", port=port)
            assert (status, body) == (0, b"") and "timed out" not in head, head
        finally:
            e.signal(15)
            e.wait(40)
