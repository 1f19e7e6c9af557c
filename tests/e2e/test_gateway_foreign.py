# SPDX-License-Identifier: Apache-2.0
"""What other control planes want of the gateway and of the API; `make interop` has those control planes themselves."""
import http.client
import json
import pathlib
import re
import subprocess

import pytest
from harness import gateway as gw
from harness.control import Control, needs_kubectl
from harness.wait import GUARD, until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
EXT = gw.TYPE + "envoy.extensions."


def ask(port, path="/echo", host="x"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        c.request("GET", path, headers={"Host": host})
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """A CA, a server's certificate for another name than its address, a client's."""
    where = tmp_path_factory.mktemp("pki")
    gw.make_cert(where, "ca")
    for name, usage in (("server", "serverAuth"), ("client", "clientAuth")):
        alt = "DNS:control.example" if name == "server" else "DNS:proxy.example"
        (where / "ext").write_text(f"subjectAltName={alt}\nextendedKeyUsage={usage}\n")
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                        where / f"{name}.key", "-out", where / "csr", "-subj", f"/CN={name}"], check=True,
                       capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", where / "csr", "-CA", where / "ca.crt", "-CAkey", where / "ca.key",
                        "-CAcreateserial", "-days", "30", "-extfile", where / "ext", "-out", where / f"{name}.crt"],
                       check=True, capture_output=True)
    return where


@pytest.fixture
def server(pki):
    p = subprocess.Popen(["node", str(CLIENTS / "xds_mtls.mjs"), *(str(pki / f) for f in ("ca.crt", "server.crt",
                                                                                          "server.key"))],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.port = json.loads(p.stdout.readline())["port"]
    yield p
    p.stdin.close()
    p.wait(GUARD)


def start(binary, log, *flags):
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.Popen([binary, "gateway", "--admin-addr", f"127.0.0.1:{gw.free_port()}", "--stats-addr",
                                 f"127.0.0.1:{gw.free_port()}", "--ready-addr", f"127.0.0.1:{gw.free_port()}",
                                 "--workers", "1", *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def test_a_client_certificate_for_the_control_plane(binary, pki, server, tmp_path):
    log = tmp_path / "log"
    g = start(binary, log, "--xds-addr", f"127.0.0.1:{server.port}", "--xds-ca", str(pki / "ca.crt"), "--xds-cert",
              str(pki / "client.crt"), "--xds-key", str(pki / "client.key"), "--xds-server-name", "control.example",
              "--xds-node-id", "pod-1", "--xds-node-cluster", "ns/edge")
    try:
        first = json.loads(server.stdout.readline())["first"]
        assert "pod-1" in first and "ns/edge" in first
        # The kubelet renews what it mounted.
        (pki / "client.crt").write_text((pki / "client.crt").read_text())
        until(lambda: "xDS credential reloaded" in log.read_text(), 10, "the renewed credential")
    finally:
        g.terminate()
        assert g.wait(GUARD) == 0, log.read_text()


def test_without_it_there_is_no_stream(binary, pki, server, tmp_path):
    log = tmp_path / "log"
    g = start(binary, log, "--xds-addr", f"127.0.0.1:{server.port}", "--xds-ca", str(pki / "ca.crt"),
              "--xds-server-name", "control.example")
    try:
        until(lambda: "stream to the control plane ended" in log.read_text(), 10, "the refusal")
        assert "xds\tconnected" not in log.read_text()
    finally:
        g.terminate()
        g.wait(GUARD)


@pytest.mark.parametrize("flags, why", [
    (["--xds-cert", "x"], "--xds-cert and --xds-key belong together"),
    (["--xds-cert", "x", "--xds-key", "y"], "--xds-cert needs --xds-ca"),
    (["--xds-server-name", "x"], "--xds-server-name needs --xds-ca"),
    (["--xds-ca", "/nowhere"], "--xds-ca"),
])
def test_flags_that_do_not_fit(binary, flags, why, tmp_path):
    g = start(binary, tmp_path / "log", "--xds-addr", "127.0.0.1:1", *flags)
    assert g.wait(GUARD) == 1
    assert why in (tmp_path / "log").read_text()


def test_filters_that_are_not_here(binary, tmp_path):
    """Switched off they are in nobody's way; a route that needs one answers 500, and the others serve."""
    origin, port = gw.Origin(), gw.free_port()
    filters = [{"name": "guard", "disabled": True, "typed_config": {
        "@type": EXT + "filters.listener.tls_inspector.v3.TlsInspector"}},
        {"name": "health", "typed_config": {
            "@type": EXT + "filters.http.health_check.v3.HealthCheck", "pass_through_mode": False,
            "headers": [{"name": ":path", "string_match": {"exact": "/ready"}}]}},
        {"name": "router", "typed_config": {"@type": gw.ROUTER, "suppress_envoy_headers": True}}]
    switch = {"@type": gw.TYPE + "envoy.config.route.v3.FilterConfig"}
    routes = [{"match": {"prefix": "/guarded"}, "route": {"cluster": "c"}, "typed_per_filter_config": {"guard": switch}},
              {"match": {"prefix": "/open"}, "route": {"cluster": "c"},
               "typed_per_filter_config": {"guard": {**switch, "disabled": True}}},
              {"match": {"prefix": "/"}, "route": {"cluster": "c", "prefix_rewrite": "/echo/new/"}}]
    g = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(routes, http_filters=filters)]}]), gw.cluster("c", [origin.port])])
    try:
        assert ask(port, "/guarded")[0] == 500
        assert ask(port, "/open")[0] == 200
        assert ask(port, "/ready") == (200, b"")
        status, body = ask(port, "/echo")
        told = json.loads(body)
        assert status == 200 and told["target"].startswith("/echo/new/")
        assert "x-envoy-original-path" not in told["headers"]
    finally:
        g.stop()
        origin.close()


def test_members_are_spoken_to_by_their_metadata(binary, tmp_path):
    """One cluster, a member with TLS and one without, as Envoy Gateway writes backends of different kinds."""
    plain, port = gw.Origin(), gw.free_port()
    context = {"@type": gw.UPSTREAM_TLS, "common_tls_context": {}}
    cluster = gw.cluster("c", [plain.port], load_balancing_policy={"policies": [{"typed_extension_config": {
        "name": "lr", "typed_config": {"@type": EXT + "load_balancing_policies.least_request.v3.LeastRequest",
                                       "locality_lb_config": {"locality_weighted_lb_config": {}}}}}]},
        transport_socket={"name": "tls", "typed_config": context},
        transport_socket_matches=[{"name": "plain", "match": {"name": "plain"}, "transport_socket": {
            "name": "raw", "typed_config": {"@type": EXT + "transport_sockets.raw_buffer.v3.RawBuffer"}}}])
    member = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
    member["metadata"] = {"filter_metadata": {"envoy.transport_socket_match": {"name": "plain"}}}
    resources = [gw.listener("l", port, [{"filters": [gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "c"}}])]}]),
                 cluster]
    g = gw.Gateway(binary, tmp_path, resources)
    try:
        assert ask(port)[0] == 200
        member["metadata"]["filter_metadata"]["envoy.transport_socket_match"]["name"] = "other"
        g.apply(resources)
        until(lambda: ask(port)[0] == 503, 10, "TLS where nobody speaks it")
    finally:
        g.stop()
        plain.close()


def test_the_hooks_are_for_those_who_may(binary, tmp_path):
    """Envoy Gateway's hooks: with a token on the xDS port, for everybody on a loopback address that was asked for."""
    hooks = gw.free_port()
    control = Control(binary, tmp_path / "control", "--relaxed-sync", "--xds-listen", "127.0.0.1:0", "--extension-listen",
                      f"127.0.0.1:{hooks}")
    try:
        xds = until(lambda: re.findall(r"xDS on (\S+)", control.log()), 10, "the xDS server")[-1]
        token = (control.data / "pki/admin.token").read_text().strip()

        def call(url, *flags):
            done = subprocess.run(
                ["curl", "-sS", "-m", "60", "-D", "-", "-o", "/dev/null", "--http2-prior-knowledge", "-H",
                 "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-", *flags,
                 f"{url}/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify"],
                input=b"\0\0\0\0\0", capture_output=True, check=False)
            return re.findall(rb"grpc-status: (\d+)", done.stdout)
        ca = ["--cacert", str(control.data / "pki/root.crt")]
        # A refusal may overtake the request: curl then has an error of the stream and no status.
        assert call(f"https://{xds}", *ca) in ([b"16"], [])
        assert call(f"https://{xds}", *ca, "-H", f"authorization: Bearer {token}") == [b"0"]
        assert call(f"http://127.0.0.1:{hooks}") == [b"0"]
    finally:
        control.close()
    done = subprocess.run([binary, "control", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--extension-listen",
                           "0.0.0.0:0"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "is not a loopback address" in done.stderr


@needs_kubectl
def test_kinds_that_are_kept_for_others(binary, tmp_path):
    """A foreign controller applies them; nothing here acts on them."""
    control = Control(binary, tmp_path / "control", "--relaxed-sync", "--gateway=false")
    try:
        for obj in ({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}},
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {
                    "minAvailable": "50%", "selector": {"matchLabels": {"app": "x"}}}}):
            control.kubectl("apply", "--server-side", "--field-manager=foreign", "-f", "-", stdin=json.dumps(obj))
            control.kubectl("apply", "--server-side", "--field-manager=foreign", "-f", "-", stdin=json.dumps(obj))
        assert "a" in control.kubectl("get", "hpa,pdb", "-o", "name")
        bad = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"nope": 1}}
        assert control.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(bad), check=False).returncode != 0
    finally:
        control.close()
