# SPDX-License-Identifier: Apache-2.0
"""An origin that speaks TLS on a real device: gateway, sidecar, QUIC, device, and TLS inside of it all."""
import http.server
import json
import pathlib
import ssl
import threading
import urllib.error
import urllib.request

import pytest
from harness import fabric as fb
from harness.control import needs_kubectl
from harness.device import Device
from harness.wait import guard, until
from test_up import Up

NAME = "inner.test"
HOST = "tls.example.test"


class Secure:
    """Answers with the name it was asked for in TLS."""

    def __init__(self, cert, key):
        names = self.names = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = json.dumps({"host": self.headers["host"], "sni": names[-1]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # those who do not trust us hang up

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.sni_callback = lambda s, name, c: names.append(name)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def ask(up):
    """(status, body)."""
    request = urllib.request.Request(f"http://127.0.0.1:{80 + up.offset}/", headers={"Host": HOST})
    try:
        with urllib.request.urlopen(request, timeout=guard(10)) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as e:
        return e.code, None
    except OSError:
        return 0, None


def objects(port, hostname=NAME, ca=True):
    meta = {"name": "origin", "namespace": "default"}
    proxy = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy",
             "metadata": {**meta, "annotations": {"spanwire.dev/backend-ca": "origin-roots" if ca else ""}},
             "spec": {"hostnames": [HOST], "rules": [{"backends": [
                 {"endpoint": f"https://127.0.0.1:{port}", "connector": {"name": "origin"},
                  "tls": {"hostname": hostname}}]}]}}
    advert = {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "ConnectorAdvertisement", "metadata": meta,
              "spec": {"connectorRef": {"name": "origin"}, "layer4": [{"name": "default", "services": [
                  {"address": "127.0.0.1", "ports": [{"name": "p", "port": port, "protocol": "TCP"}]}]}]}}
    return proxy, advert


@pytest.fixture
def up(topology, binary, tmp_path):
    del topology
    u = Up(binary, tmp_path)
    yield u
    if u.alive:
        u.stop()


@needs_kubectl
def test_an_https_origin_on_a_device(up, binary, tmp_path):
    cert, key = fb.make_cert(tmp_path, NAME)
    origin = Secure(cert, key)

    def apply(*items):
        done = up.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
        assert done.returncode == 0, done.stderr
    device = Device(binary, tmp_path / "device", up.data / "admin.kubeconfig", "--name", "origin")
    try:
        roots = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "origin-roots", "namespace": "default"},
                 "data": {"ca.crt": pathlib.Path(cert).read_text(encoding="ascii")}}
        device.wait_live()
        apply(roots, *objects(origin.port))
        until(lambda: ask(up) == (200, {"host": HOST, "sni": NAME}), 15, "an answer of the origin")
        # Without the CA, and with another name, its certificate is nobody's.
        apply(*objects(origin.port, ca=False))
        until(lambda: ask(up)[0] == 503, 10, "an unknown CA to be refused")
        apply(*objects(origin.port, hostname="other.test"))
        until(lambda: ask(up)[0] == 503 and origin.names[-1] == "other.test", 10, "the wrong name to be refused")
        apply(*objects(origin.port))
        until(lambda: ask(up)[0] == 200, 10, "the right one to be believed again")
    finally:
        if device.alive:
            device.stop()
        origin.close()
