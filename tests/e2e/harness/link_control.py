# SPDX-License-Identifier: Apache-2.0
"""
What surrounds the control plane of a link: a fabric's certificates, a data plane that asks in both forms (gRPC Check
and HTTP/2), and the gateway of another site. Written from the protocol; nothing of the product is used.
"""
import base64
import contextlib
import datetime
import http.server
import json
import re
import socket
import ssl
import struct
import threading

import h2.config
import h2.connection
import h2.events
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .mesh_control import field, fields, message
from .ports import free_port
from .wait import GUARD, SLOW, until

CHECK = "/envoy.service.auth.v3.Authorization/Check"
API = "/apis/clusterlink.net/v1alpha1"
SYSTEM = "clusterlink-system"


# -- certificates ---------------------------------------------------------------------------------
def _name(cn):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn)])


def _pem(cert):
    return cert.public_bytes(serialization.Encoding.PEM)


def _key_pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


class Fabric:
    """A CA for peers, and a directory per peer: ca.pem, cert.pem, key.pem."""

    def __init__(self, directory, name="fabric"):
        self.dir = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.ca = self._sign(self.key, name, [x509.BasicConstraints(True, None)], name)

    def _sign(self, key, cn, extensions, issuer):
        now = datetime.datetime.utcnow()
        b = (x509.CertificateBuilder().subject_name(_name(cn)).issuer_name(_name(issuer))
             .public_key(key.public_key()).serial_number(x509.random_serial_number())
             .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1)))
        for e in extensions:
            b = b.add_extension(e, critical=isinstance(e, x509.BasicConstraints))
        self.issuer = issuer
        return b.sign(self.key, hashes.SHA256())

    def peer(self, name, dns=None, where=None):
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(n) for n in ([name] if dns is None else dns)]
        extensions = [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])]
        if names:
            extensions.append(x509.SubjectAlternativeName(names))
        cert = self._sign(key, name, extensions, self.issuer)
        path = where or self.dir / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "ca.pem").write_bytes(_pem(self.ca))
        (path / "key.pem").write_bytes(_key_pem(key))
        (path / "cert.pem").write_bytes(_pem(cert) + _pem(self.ca))
        return path


def thumbprint(path):
    cert = x509.load_pem_x509_certificate((path / "cert.pem").read_bytes())
    return cert.fingerprint(hashes.SHA256()).hex()


# -- a data plane ---------------------------------------------------------------------------------
class Answer:
    def __init__(self, head, body):
        self.head, self.body = head, body
        self.status = int(head[":status"])

    def __repr__(self):
        return f"<{self.status} {self.head} {self.body[:300]!r}>"


class Verdict:
    """A CheckResponse."""

    def __init__(self, data):
        self.code, self.http, self.body, self.headers, self.added = 0, None, "", {}, {}
        for n, value in fields(data):
            if n == 1:
                self.code = dict(fields(value)).get(1, 0)
            elif n == 2:
                self._denied(value)
            elif n == 3:
                for k, v in fields(value):
                    if k in (2, 6):
                        self._header(self.headers if k == 2 else self.added, v)

    def _denied(self, data):
        for n, value in fields(data):
            if n == 1:
                self.http = dict(fields(value)).get(1, 0)
            elif n == 3:
                self.body = value.decode()

    @staticmethod
    def _header(into, option):
        pair = dict(fields(dict(fields(option))[1]))
        into[pair[1].decode()] = pair.get(2, b"").decode()

    def __repr__(self):
        return f"<{self.code} {self.http} {self.body!r} {self.headers} {self.added}>"


def check_request(method="", path="", headers=None, body="", internal=False, principal="", certificate=""):
    address = message(3, b"") if internal else message(1, field(2, "10.0.0.9"))
    source = message(1, address) + field(4, principal) + field(5, certificate)
    pairs = b"".join(message(3, field(1, k) + field(2, v)) for k, v in (headers or {}).items())
    request = field(2, method) + pairs + field(4, path) + field(11, body)
    return message(1, message(1, source) + message(4, message(2, request)))


class Plane:
    """One connection of a data plane; a request at a time."""

    def __init__(self, port, site, cert="dataplane"):
        context = ssl.create_default_context(cafile=str(site / "ca.pem"))
        context.set_alpn_protocols(["h2"])
        if cert:
            context.load_cert_chain(str(site / f"{cert}.pem"), str(site / f"{cert}.key"))
        raw = socket.create_connection(("127.0.0.1", port), GUARD * SLOW)
        self.s = context.wrap_socket(raw, server_hostname="cl-controlplane")
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.c.initiate_connection()
        self.flush()

    def flush(self):
        self.s.sendall(self.c.data_to_send())

    def begin(self, method, path, headers=(), body=b""):
        stream = self.c.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "cl-controlplane")]
        self.c.send_headers(stream, head + list(headers), end_stream=not body)
        self.flush()
        while body:
            n = min(len(body), self.c.local_flow_control_window(stream), self.c.max_outbound_frame_size)
            if n == 0:
                self.c.receive_data(self.s.recv(65536))
                continue
            self.c.send_data(stream, body[:n], end_stream=n == len(body))
            body = body[n:]
            self.flush()
        return stream

    def finish(self, stream):
        head, body, trailers, done = {}, b"", {}, False
        while not done:
            data = self.s.recv(65536)
            assert data, "the server has closed the connection"
            for event in self.c.receive_data(data):
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, h2.events.ResponseReceived):
                    head = dict(event.headers)
                elif isinstance(event, h2.events.TrailersReceived):
                    trailers = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                    self.c.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                    done = True
            self.flush()
        return Answer({**head, **trailers}, body)

    def prepare(self, n, method, path, headers=()):
        """n requests without a body, which flush() sends in one write."""
        head = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "cl-controlplane")]
        while self.c.remote_settings.max_concurrent_streams > 1 << 20:
            self.c.receive_data(self.s.recv(65536))  # its SETTINGS
        for _ in range(n):
            self.c.send_headers(self.c.get_next_available_stream_id(), head + list(headers), end_stream=True)

    def burst(self, n, method, path, headers=()):
        self.prepare(n, method, path, headers)
        self.flush()

    def answers(self, n):
        """The heads of the next n answers, of any stream."""
        out = []
        while len(out) < n:
            data = self.s.recv(65536)
            assert data, "the server has closed the connection"
            out += [dict(e.headers) for e in self.c.receive_data(data) if isinstance(e, h2.events.ResponseReceived)]
            self.flush()
        return out

    def http(self, method, path, headers=None, body=b""):
        body = body.encode() if isinstance(body, str) else body
        return self.finish(self.begin(method, path, (headers or {}).items(), body))

    def grpc(self, data):
        headers = [("content-type", "application/grpc"), ("te", "trailers")]
        return self.finish(self.begin("POST", CHECK, headers, struct.pack(">BI", 0, len(data)) + data))

    def check(self, *args, **kw):
        answer = self.grpc(check_request(*args, **kw))
        assert answer.head.get("grpc-status") == "0", answer
        return Verdict(answer.body[5:])

    def close(self):
        self.s.close()


# -- another site's gateway -----------------------------------------------------------------------
class Gateway:
    """
    /healthz and /authz of a peer, over the fabric's TLS. 'labels' None: no field at all. 'authz' is a status, a
    callable of the request's body, or None: it does not answer until the gateway is closed. Nor does it answer
    heartbeats while 'silent' is set.
    """

    def __init__(self, directory, labels=None, authz=200, healthy=200):
        self.labels = {} if labels is None else labels
        self.authz, self.healthy = authz, healthy
        self.asked, self.beats, self.closing, self.silent = [], 0, threading.Event(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def reply(self, status, fields_=(), body=b""):
                self.send_response(status)
                for k, v in fields_:
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                outer.beats += 1
                if outer.silent.is_set():
                    outer.closing.wait()
                    return
                value = base64.b64encode(json.dumps(outer.labels or None).encode()).decode()
                self.reply(outer.healthy, [("ClusterLinkPeerLabels", value)] if outer.labels is not False else ())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, body))
                answer = outer.authz(body) if callable(outer.authz) else outer.authz
                if answer is None:
                    outer.closing.wait()
                    return
                if answer == 200:
                    self.reply(200, [("X-Access-Token", f"token-{len(outer.asked)}")])
                else:
                    self.reply(answer, body=f"refused with {answer}\n".encode())

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(directory / "cert.pem"), str(directory / "key.pem"))
        context.load_verify_locations(str(directory / "ca.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
        self.port = free_port()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                s, address = super().get_request()
                return context.wrap_socket(s, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, request, client_address):
                pass  # clients that leave in the middle of something

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


# -- objects --------------------------------------------------------------------------------------
class Site:
    """A control plane with links, and its objects."""

    def __init__(self, control, site, name):
        self.control, self.site, self.name = control, site, name
        control.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
        self.port = int(until(lambda: re.findall(r"links on 127\.0\.0\.1:(\d+)", control.log()), what="links")[-1])

    def plane(self, **kw):
        return contextlib.closing(Plane(self.port, self.site, **kw))

    def put(self, resource, kind, name, spec, namespace="default", labels=None, annotations=None):
        where = f"/namespaces/{namespace}" if namespace else ""
        meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        if namespace:
            meta["namespace"] = namespace
        obj = {"apiVersion": "clusterlink.net/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
        path = f"{API}{where}/{resource}"
        answer = self.control.post(path, obj)
        if answer.status == 409:
            answer = self.control.patch(f"{path}/{name}", obj)
        assert answer.status in (200, 201), answer

    def drop(self, resource, name, namespace="default"):
        where = f"/namespaces/{namespace}" if namespace else ""
        assert self.control.delete(f"{API}{where}/{resource}/{name}").status == 200

    def peer(self, name, *ports, host="127.0.0.1"):
        self.put("peers", "Peer", name, {"gateways": [{"host": host, "port": p} for p in ports]}, SYSTEM)

    def export(self, name, namespace="default", labels=None):
        self.put("exports", "Export", name, {"host": "10.1.1.1", "port": 80}, namespace, labels)

    def imports(self, name, *sources, scheme="round-robin", **kw):
        sources = [{"peer": p, "exportName": e, "exportNamespace": "default"} for p, e in sources]
        self.put("imports", "Import", name, {"port": 80, "sources": sources, "lbScheme": scheme}, **kw)

    def policy(self, name, action="allow", src=None, dst=None, namespace="default"):
        spec = {"action": action, "from": [{"workloadSelector": src or {}}], "to": [{"workloadSelector": dst or {}}]}
        kind = ("accesspolicies", "AccessPolicy") if namespace else ("privilegedaccesspolicies",
                                                                     "PrivilegedAccessPolicy")
        self.put(*kind, name, spec, namespace)

    def pod(self, name, ip, labels=None, host_ip="192.168.0.1", account="app"):
        obj = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
               "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "x"}]}}
        assert self.control.post("/api/v1/namespaces/default/pods", obj).status == 201
        status = {"status": {"podIPs": [{"ip": ip}], "podIP": ip, "hostIP": host_ip, "phase": "Running"}}
        assert self.control.patch(f"/api/v1/namespaces/default/pods/{name}/status", status).status == 200
