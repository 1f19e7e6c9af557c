# SPDX-License-Identifier: Apache-2.0
"""An admission webhook on loopback: HTTPS, and what it answers is up to the test."""
import base64
import datetime
import http.server
import ipaddress
import json
import ssl
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _certificate(names):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.utcnow()
    sans = [x509.DNSName(n) for n in names] + [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    cert = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName(sans), False)
            .add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256()))
    return (cert.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                              serialization.NoEncryption()))


class Webhook:
    """answer(request) gives the response without uid, or bytes, or (status, bytes)."""

    def __init__(self, directory, names=("hook.hooks.svc",)):
        self.seen = []
        self.paths = []
        self.answer = lambda request: {"allowed": True}
        self.pem, key = _certificate(names)
        (directory / "hook.pem").write_bytes(self.pem + key)
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.seen.append(review["request"])
                hook.paths.append(self.path)
                told = hook.answer(review["request"])
                status = 200
                if isinstance(told, tuple):
                    status, told = told
                if isinstance(told, dict):
                    told = json.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview",
                                       "response": {"uid": review["request"]["uid"], **told}}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "hook.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def bundle(self):
        return base64.b64encode(self.pem).decode()

    def client(self, path="/hook"):
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def patch(*operations):
    return {"allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(operations).encode()).decode()}
