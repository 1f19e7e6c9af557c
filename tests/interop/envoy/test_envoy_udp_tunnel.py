# SPDX-License-Identifier: Apache-2.0
"""Envoy's udp_proxy with tunneling_config, as tests/golden/xds/udp-tunnel.txt has it, through our
sidecar to a resolver on a device behind NAT."""
import json
import signal
import socket
import subprocess

import pytest

from harness.control import find_kubectl
from harness.envoy import validate
from harness.node import Process
from harness.town import EDGE, RELAY, resolver
from harness.wait import SLOW, until


CONFIG = """
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}
static_resources:
  clusters:
  - name: spanwire-connect-proxy-udp
    type: STATIC
    connect_timeout: 10s
    load_assignment:
      cluster_name: spanwire-connect-proxy-udp
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: SOCKET}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
  listeners:
  - name: udp
    address: {socket_address: {protocol: UDP, address: 203.0.113.10, port_value: 5300}}
    listener_filters:
    - name: envoy.filters.udp_listener.udp_proxy
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
        stat_prefix: udp
        idle_timeout: 120s
        matcher:
          on_no_match:
            action:
              name: route
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route
                cluster: spanwire-connect-proxy-udp
        session_filters:
        - name: envoy.filters.udp.session.http_capsule
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.session.http_capsule.v3.FilterConfig
        tunneling_config:
          proxy_host: connector.local
          target_host: 127.0.0.1
          default_target_port: PORT
          headers_to_add:
          - header: {key: x-iroh-endpoint-id, value: NODE}
            append_action: OVERWRITE_IF_EXISTS_OR_ADD
          buffer_options: {max_buffered_datagrams: 64, max_buffered_bytes: 16384}
"""

ADVERTISED = """
apiVersion: networking.datumapis.com/v1alpha1
kind: ConnectorAdvertisement
metadata: {name: dns}
spec:
  connectorRef: {name: dns}
  layer4:
  - name: default
    services: [{address: 127.0.0.1, ports: [{name: dns, port: PORT, protocol: UDP}]}]
"""


def kubectl(edge, *argv, **kw):
    path = find_kubectl()
    if not path:
        pytest.skip("no kubectl here")
    with edge.ns.entered():
        done = subprocess.run([path, "--kubeconfig", str(edge.kubeconfig), *argv], capture_output=True,
                              text=True, check=False, timeout=120, **kw)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_envoy_tunnels_datagrams_to_a_device(town, edge, binary, tmp_path, interop_dir):
    upstream = resolver(town["home1"])
    port = upstream.port
    device = Process(town["home1"], [
        binary, "connector", "run", "--name", "dns", "--data", str(tmp_path / "d"), "--kubeconfig",
        str(edge.kubeconfig), "--relay", f"http://{EDGE}:{RELAY}/", "--admin-addr", "127.0.0.1:0",
        "--udp"], tmp_path / "d.log")
    envoy = None
    try:
        kubectl(edge, "apply", "-f", "-", input=ADVERTISED.replace("PORT", str(port)))

        def node():
            assert device.alive, device.log()
            got = json.loads(kubectl(edge, "get", "connectors", "-o", "json"))["items"]
            return got and got[0].get("status", {}).get("connectionDetails", {}) \
                .get("publicKey", {}).get("id")
        key = until(node, 20, device.log()[-1500:])
        config = tmp_path / "envoy.yaml"
        config.write_text(CONFIG.replace("PORT", str(port)).replace("NODE", key)
                          .replace("SOCKET", str(edge.data / "run/sidecar.sock")), encoding="utf-8")
        assert validate(interop_dir / "envoy", config)[0] == 0
        envoy = Process(town["edge"], [str(interop_dir / "envoy"), "-c", str(config), "--concurrency",
                                       "1", "--disable-hot-restart", "-l", "info"],
                        tmp_path / "envoy.log")

        def answered():
            assert envoy.alive, envoy.log()[-2000:]
            with town["visitor"].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
                c.settimeout(1 * SLOW)
                c.sendto(b"\1\2\3 question", (EDGE, 5300))
                try:
                    return c.recvfrom(65536)[0] == b"\1\2\x83 question"
                except TimeoutError:
                    return False
        until(answered, 20, f"{envoy.log()[-1500:]}\n{edge.role_log('sidecar')[-1500:]}")
        dig = ["dig", f"@{EDGE}", "-p", "5300", "+time=20", "name.test"]
        with town["visitor"].entered():
            told = subprocess.run(dig, capture_output=True, text=True, check=False).stdout
        assert "status: NOERROR" in told, told
    finally:
        upstream.close()
        for p in (envoy, device):
            if p and p.alive:
                p.signal(signal.SIGTERM)
                p.wait(40)
