# SPDX-License-Identifier: Apache-2.0
"""Links between sites: certificates of a fabric and of sites, a control plane that speaks both forms, the program, and
peers in ClusterLink's wire form in both roles. Nothing here shares code with the product."""
import base64
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .ca_peer import Signer, _pem
from .metrics import Metrics
from .ports import free_port
from .serve import Server
from .wait import GUARD, SLOW, until
from .xds_client import ADS, CDS, LDS, SDS, URL, _field, _fields, _varint

CHECK = "/envoy.service.auth.v3.Authorization/Check"
EPOCH = URL + "spanwire.link.v1.Epoch"


# -- certificates -----------------------------------------------------------------------------
def _key_pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption()).decode()


class Names:
    """An authority with leaves for DNS names."""

    def __init__(self, where, name):
        self.where = where
        self.signer = Signer(name)
        self.ca = where / f"{name}-ca.pem"
        self.ca.write_text(_pem(self.signer.cert))

    def leaf(self, name, end=3600, sans=None):
        """(chain, key) as PEM texts; the chain holds the issuer, as ClusterLink's do."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName(n) for n in ([name] if sans is None else sans)]
        cert = self.signer.sign(subject, key.public_key(), sans=names, end=end)
        return _pem(cert) + _pem(self.signer.cert), _key_pem(key)

    def file(self, name, **kw):
        """One file with both, for Python's ssl."""
        chain, key = self.leaf(name, **kw)
        path = self.where / f"{name}-{time.monotonic_ns()}.pem"
        path.write_text(key + chain)
        return path


def fabric_context(fabric, pem, server=False, version=None, alpn=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(fabric.ca))
    if pem:
        context.load_cert_chain(str(pem))
    context.verify_mode = ssl.CERT_REQUIRED
    if version:
        context.minimum_version = context.maximum_version = version
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


# -- messages ---------------------------------------------------------------------------------
def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _address(host, port):
    return _field(1, _field(2, host) + _number(3, port))


def cluster(name, ends, hostname=""):
    endpoints = b"".join(_field(2, _field(1, _field(1, _address(h, p)) + (_field(3, hostname) if hostname else b"")))
                         for h, p in ends)
    return _field(1, name) + _number(2, 1) + _field(33, _field(1, name) + _field(2, endpoints))


def listener(name, port):
    return _field(1, name) + _field(2, _address("0.0.0.0", port))


def certificate(chain, key):
    return _field(1, "certificate") + _field(2, _field(1, _field(2, chain)) + _field(2, _field(2, key)))


def validation(roots):
    return _field(1, "validation") + _field(4, _field(1, _field(2, roots)))


def _header(field, name, value):
    return _field(field, _field(1, _field(1, name) + _field(2, value)))


# -- the control plane ------------------------------------------------------------------------
class Control(Server):
    """
    One site's control plane, in both forms at once. 'exports' name services, 'imports' where their connections go: a
    list of (peer, export) in the order in which they are tried. Tokens are good for one CONNECT. 'deny' is a set of
    imports, exports or client addresses; changing it with set_deny makes a new epoch. 'delay' holds questions back,
    'hold', an Event, answers that were decided already, by the path of their question.
    """

    def __init__(self, where, fabric, name):
        where.mkdir(exist_ok=True)
        self.fabric, self.name, self.where = fabric, name, where
        self.site = Names(where, "cl-ca")
        for part in ("control", "dataplane"):
            chain, key = self.site.leaf("cl-" + part.replace("control", "controlplane"))
            (where / f"{part}.pem").write_text(chain)
            (where / f"{part}.key").write_text(key)
        (where / "ca.pem").write_text(self.site.ca.read_text())
        self.lock = threading.RLock()
        self.have = {CDS: {}, LDS: {}, SDS: {}, EPOCH: {}}
        self.imports, self.peers, self.tokens, self.deny, self.asked = {}, {}, {}, set(), []
        self.certificates, self.hold = set(), {}
        self.labels, self.delay, self.silent, self.reviews, self.serial = {}, 0, False, 0, 0
        self.conns = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_verify_locations(str(where / "ca.pem"))
        self.context.load_cert_chain(str(where / "control.pem"), str(where / "control.key"))
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["h2"])
        self.renew()
        self.bump()
        super().__init__()

    # what it configures
    def renew(self):
        chain, key = self.fabric.leaf(self.name)
        self.put(SDS, "certificate", certificate(chain, key))
        self.put(SDS, "validation", validation(self.fabric.ca.read_text()))

    def bump(self):
        self.serial += 1
        self.put(EPOCH, "epoch", struct.pack(">Q", self.serial))

    def put(self, kind, name, value):
        with self.lock:
            self.have[kind][name] = value
            for c in list(self.conns):
                c.push(kind, {name: value})

    def remove(self, kind, name):
        with self.lock:
            del self.have[kind][name]
            for c in list(self.conns):
                c.push(kind, {}, [name])

    def export(self, name, host, port, *more):
        self.put(CDS, f"export-{name}", cluster(f"export-{name}", [(host, port), *more]))

    def peer(self, other, ends):
        """'other': the control plane of the exporting site, or a name."""
        name = other if isinstance(other, str) else other.name
        self.peers[name] = None if isinstance(other, str) else other
        self.put(CDS, f"remote-peer-{name}", cluster(f"remote-peer-{name}", ends, f"{name}:443"))

    def imported(self, name, port, *sources):
        self.imports[name] = list(sources)
        self.put(LDS, f"import-{name}", listener(f"import-{name}", port))

    def set_deny(self, *what):
        self.deny = set(what)
        self.bump()

    # what it decides
    def mint(self, export, src="?"):
        token = base64.urlsafe_b64encode(os.urandom(18)).decode()
        self.tokens[token] = (export, src)
        return token

    def egress(self, name, client, exclude=()):
        self.asked.append(("egress", name, client, tuple(exclude)))
        if name not in self.imports:
            return 404, {"x-reason": f"no import '{name}'"}
        if {name, client} & self.deny:
            return 403, {"x-reason": f"policy denies '{name}'"}
        for peer, export in self.imports[name]:
            if f"{peer}/{export}" in exclude:
                continue
            other = self.peers.get(peer)
            token = other.mint(export, self.name) if other else f"for-{peer}"
            return 200, {"host": f"remote-peer-{peer}", "authorization": f"Bearer {token}", "x-export": export,
                         "x-grant": f"e|{name}|{client}", "x-source": "default/client", "x-policy": "allow-all"}
        return 503, {"x-reason": f"cannot select import source: tried out all {len(self.imports[name])} sources"}

    def ingress(self, authorization, peer):
        self.asked.append(("ingress", peer))
        found = self.tokens.pop(authorization.removeprefix("Bearer "), None)
        if not found:
            return 403, {"x-reason": "token is not known"}
        export, _ = found
        if export in self.deny:
            return 403, {"x-reason": f"policy denies '{export}'"}
        return 200, {"host": f"export-{export}", "x-grant": f"i|{export}|{peer}", "x-policy": "allow-all"}

    def token(self, body, peer):
        self.asked.append(("token", peer, body))
        try:
            asked = json.loads(body)
            export = f"{asked['ServiceNamespace']}/{asked['ServiceName']}"
        except (ValueError, KeyError, TypeError) as e:
            return 400, {}, str(e)
        if f"export-{export}" not in self.have[CDS]:
            return 404, {}, f"Exported service '{export}' not found."
        if export in self.deny:
            return 403, {}, f"Permission denied for '{export}'."
        return 200, {"authorization": f"Bearer {self.mint(export, peer)}"}, ""

    def health(self):
        text = base64.b64encode(json.dumps(self.labels or None).encode()).decode()
        return 200, {"clusterlinkpeerlabels": text}

    def review(self, lines):
        self.reviews += 1
        out = []
        for line in lines:
            denied = set(line.split("|")[1:]) & self.deny
            out.append(f"denied policy denies {min(denied)}" if denied else "ok")
        return "".join(f"{o}\n" for o in out)

    def _serve(self, conn):
        with conn:
            try:
                tls = self.context.wrap_socket(conn, server_side=True)
            except (OSError, ssl.SSLError):
                return
            with tls:
                c = _ControlConn(self, tls)
                with self.lock:
                    self.conns.append(c)
                try:
                    c.run()
                finally:
                    with self.lock:
                        self.conns.remove(c)

    def kill(self):
        """As if the process ended."""
        self.close()
        with self.lock:
            for c in list(self.conns):
                try:
                    c.s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class _ControlConn:
    def __init__(self, control, s):
        self.control, self.s, self.lock = control, s, threading.RLock()
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.streams, self.subscribed, self.ads = {}, {}, None
        self.nonce = 0

    def flush(self):
        data = self.c.data_to_send()
        if data:
            self.s.sendall(data)

    def run(self):
        with self.lock:
            self.c.initiate_connection()
            self.flush()
        while True:
            try:
                data = self.s.recv(65536)
            except (OSError, ssl.SSLError):
                return
            if not data:
                return
            with self.lock:
                try:
                    events = self.c.receive_data(data)
                except h2.exceptions.ProtocolError:
                    return
                for e in events:
                    self.event(e)
                try:
                    self.flush()
                except OSError:
                    return

    def event(self, e):
        if isinstance(e, h2.events.RequestReceived):
            head = dict(e.headers)
            self.streams[e.stream_id] = [head, b""]
            if head[":path"] == ADS:
                self.ads = e.stream_id
                self.c.send_headers(e.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        elif isinstance(e, h2.events.DataReceived):
            self.c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            if e.stream_id not in self.streams:
                return
            self.streams[e.stream_id][1] += e.data
            if e.stream_id == self.ads:
                self.discovery()
        elif isinstance(e, h2.events.StreamEnded) and e.stream_id in self.streams:
            head, body = self.streams.pop(e.stream_id)
            if self.control.silent:
                return
            if self.control.delay:
                threading.Timer(self.control.delay, self.later, (e.stream_id, head, body)).start()
            else:
                self.answer(e.stream_id, head, body)
        elif isinstance(e, h2.events.StreamReset):
            self.streams.pop(e.stream_id, None)

    def later(self, stream, head, body):
        with self.lock:
            try:
                self.answer(stream, head, body)
                self.flush()
            except (OSError, h2.exceptions.ProtocolError):
                pass

    # discovery
    def discovery(self):
        state = self.streams[self.ads]
        while len(state[1]) >= 5 and len(state[1]) >= 5 + struct.unpack(">I", state[1][1:5])[0]:
            n = struct.unpack(">I", state[1][1:5])[0]
            message, state[1] = state[1][5:5 + n], state[1][5 + n:]
            self.request(message)

    def request(self, message):
        kind, names, nonce = "", [], ""
        for number, value in _fields(message):
            if number == 2:
                kind = value.decode()
            elif number == 3:
                names.append(value.decode())
            elif number == 6:
                nonce = value.decode()
        if kind in self.subscribed and (nonce or not names):
            return
        with self.control.lock:
            self.subscribed.setdefault(kind, set()).update(names or ["*"])
            self.push(kind, self.control.have.get(kind, {}), always=True)

    def push(self, kind, changed, removed=(), always=False):
        with self.lock:
            wanted = self.subscribed.get(kind)
            if self.ads is None or wanted is None:
                return
            changed = {n: v for n, v in changed.items() if "*" in wanted or n in wanted}
            if not changed and not removed and not always:
                return
            self.nonce += 1
            out = b""
            for name, value in sorted(changed.items()):
                version = hashlib.sha256(value).hexdigest()
                out += _field(2, _field(3, name) + _field(1, version) + _field(2, _field(1, kind) + _field(2, value)))
            out += _field(4, kind) + _field(5, str(self.nonce)) + b"".join(_field(6, n) for n in removed)
            try:
                self.send(self.ads, struct.pack(">BI", 0, len(out)) + out)
                self.flush()
            except (OSError, h2.exceptions.ProtocolError):
                pass

    def send(self, stream, data, end=False):
        while len(data) > 16384:
            self.c.send_data(stream, data[:16384])
            data = data[16384:]
        self.c.send_data(stream, data, end_stream=end)

    # questions
    def answer(self, stream, head, body):
        path = head[":path"]
        if path == CHECK:
            self.check(stream, body[5:])
            return
        control, text = self.control, ""
        peer = head.get("x-peer", "")
        if path == "/authz/egress":
            exclude = [x for x in head.get("x-exclude", "").split(",") if x]
            status, fields = control.egress(head["x-import"], head["x-forwarded-for"], exclude)
        elif path == "/authz/ingress":
            status, fields = control.ingress(head.get("authorization", ""), peer)
        elif path == "/authz":
            status, fields, text = control.token(body.decode(), peer)
        elif path == "/healthz":
            status, fields = control.health()
        elif path == "/authz/review":
            status, fields, text = 200, {}, control.review(body.decode().splitlines())
        else:
            status, fields = 404, {}
        if path in control.hold:
            threading.Thread(target=self.held, args=(control.hold[path], stream, status, fields, text)).start()
        else:
            self.respond(stream, status, fields, text)

    def respond(self, stream, status, fields, text):
        self.c.send_headers(stream, [(":status", str(status))] + list(fields.items()), end_stream=not text)
        if text:
            self.send(stream, text.encode(), True)

    def held(self, event, *answer):
        event.wait(GUARD * SLOW)
        with self.lock:
            try:
                self.respond(*answer)
                self.flush()
            except (OSError, h2.exceptions.ProtocolError):
                pass

    def check(self, stream, message):
        attributes = dict(_fields(dict(_fields(message))[1]))
        source, http = dict(_fields(attributes[1])), list(_fields(dict(_fields(attributes[4]))[2]))
        heads = dict((m[1].decode(), m[2].decode()) for n, v in http if n == 3 for m in [dict(_fields(v))])
        one = dict((n, v.decode()) for n, v in http if n != 3)
        internal = 1 in source and 3 in dict(_fields(source[1]))
        peer, text, control = source.get(4, b"").decode(), "", self.control
        control.certificates.add(source.get(5, b"").decode())
        ok = 2
        if internal:
            name = f"{heads['x-import-namespace']}/{heads['x-import-name']}"
            status, fields = control.egress(name, heads["x-client-ip"])
            text = fields.get("x-reason", "")
        elif one.get(2) == "CONNECT":
            status, fields = control.ingress(heads.get("authorization", ""), peer)
            text = fields.get("x-reason", "")
        elif one.get(2) == "POST":
            status, fields, text = control.token(one.get(11, ""), peer)
            fields = {"x-access-token": v.removeprefix("Bearer ") for v in fields.values()}
            ok = 6
        else:
            status, fields = control.health()
            ok = 6
        if status == 200:
            keep = ("host", "authorization", "x-access-token", "clusterlinkpeerlabels")
            out = _field(1, b"") + _field(3, b"".join(_header(ok, k, v) for k, v in fields.items() if k in keep))
        else:
            out = _field(1, _number(1, 7)) + _field(2, _field(1, _number(1, status)) + _field(3, text))
        self.c.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        self.c.send_data(stream, struct.pack(">BI", 0, len(out)) + out)
        self.c.send_headers(stream, [("grpc-status", "0")], end_stream=True)


# -- the program ------------------------------------------------------------------------------
class Link:
    """The data plane of a site."""

    def __init__(self, binary, control, form="spanwire", port=None, workers=2, drain="2s", flags=(), wait=True):
        self.control, self.port = control, port or free_port()
        self.admin_port, self.stats_port, self.ready_port = free_port(), free_port(), free_port()
        self.log_path = control.where / f"link-{time.monotonic_ns()}.log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [binary, "link", "--control", f"127.0.0.1:{control.port}", "--site", str(control.where),
                 "--control-form", form, "--listen", f"127.0.0.1:{self.port}", "--import-address", "127.0.0.1",
                 "--import-address", "::1", "--workers", str(workers), "--drain-time", drain,
                 "--upstream-allow", "127.0.0.0/8", "--upstream-allow", "::1",
                 "--admin-addr", f"127.0.0.1:{self.admin_port}", "--stats-addr", f"127.0.0.1:{self.stats_port}",
                 "--ready-addr", f"127.0.0.1:{self.ready_port}", "--admin-auth", "none", "--log-level", "debug",
                 *map(str, flags)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            self.wait_log(r"\tready, listening")

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_log(self, pattern):
        def there():
            assert self.process.poll() is None, "link ended:\n" + self.log()
            return re.search(pattern, self.log())
        return until(there, what=f"'{pattern}' in {self.log_path}")

    def get(self, port, path):
        with socket.create_connection(("127.0.0.1", port), GUARD * SLOW) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while chunk := s.recv(65536):
                data += chunk
        return data.split(b"\r\n\r\n", 1)[1].decode()

    def metrics(self):
        return Metrics(self.get(self.stats_port, "/metrics"))

    def stop(self, expect=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(GUARD * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("link does not end:\n" + self.log()[-3000:]) from None
        assert "Sanitizer" not in self.log(), self.log()
        if expect is not None:
            assert status == expect, self.log()[-3000:]


# -- ClusterLink's wire form ------------------------------------------------------------------
def read_head(s):
    """(start line, fields, what came behind) of a message."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = s.recv(65536)
        if not chunk:
            raise ConnectionError(f"ended inside a head: {data!r}")
        data += chunk
    head, rest = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    return lines[0], dict((k.strip().lower(), v.strip()) for k, v in (x.split(":", 1) for x in lines[1:])), rest


class Importer:
    """A site that imports: what a foreign control plane and data plane send to our external port."""

    def __init__(self, fabric, name, port, target, version=None, alpn=None):
        self.context = fabric_context(fabric, fabric.file(name), version=version, alpn=alpn)
        self.port, self.target = port, target

    def connect(self):
        raw = socket.create_connection(("127.0.0.1", self.port), GUARD * SLOW)
        return self.context.wrap_socket(raw, server_hostname=self.target)

    def request(self, method, path, body=b"", s=None):
        """(status, fields, body)."""
        own = s or self.connect()
        length = f"Content-Length: {len(body)}\r\nContent-Type: application/json; charset=utf-8\r\n" if body else ""
        own.sendall(f"{method} {path} HTTP/1.1\r\nHost: x:{self.port}\r\nUser-Agent: Go-http-client/1.1\r\n{length}"
                    "Accept-Encoding: gzip\r\n\r\n".encode() + body)
        start, fields, rest = read_head(own)
        while len(rest) < int(fields.get("content-length", 0)):
            rest += own.recv(65536)
        if not s:
            own.close()
        return int(start.split()[1]), fields, rest.decode()

    def request_h2(self, method, path, body=b"", fields=(), unfinished=False):
        """The same over HTTP/2; the importer was made with alpn=["h2"]. 'unfinished': the body's end never comes."""
        c = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False))  # it has no CONNECT
        c.initiate_connection()
        head = [(":method", method), (":authority", "x:443")]
        head += [] if method == "CONNECT" else [(":scheme", "https"), (":path", path)]
        c.send_headers(1, head + list(fields), end_stream=not body)
        with self.connect() as s:
            s.sendall(c.data_to_send())
            while body and c.remote_settings.initial_window_size < 1 << 20:  # its settings allow the body
                c.receive_data(s.recv(65536))
            for at in range(0, len(body), 16384):
                c.send_data(1, body[at:at + 16384], end_stream=at + 16384 >= len(body) and not unfinished)
                s.sendall(c.data_to_send())
            got, answer = {}, b""
            while data := s.recv(65536):
                for e in c.receive_data(data):
                    if isinstance(e, h2.events.ResponseReceived):
                        got = dict(e.headers)
                    elif isinstance(e, h2.events.DataReceived):
                        answer += e.data
                    elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
                        return int(got[":status"]), got, answer.decode()
                s.sendall(c.data_to_send())
        raise ConnectionError("ended before the answer")

    def token(self, namespace, name, **attributes):
        body = json.dumps({"ServiceName": name, "ServiceNamespace": namespace, "SrcAttributes": attributes or None})
        return self.request("POST", "/authz", body.encode())

    def tunnel(self, token, early=b"", authority=None):
        """(socket, status line, what came with it)."""
        s = self.connect()
        authority = authority or f"{self.target}:443"
        s.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: Go-http-client/1.1\r\n"
                  f"Authorization: Bearer {token}\r\nAccept-Encoding: gzip\r\n\r\n".encode() + early)
        start, _, rest = read_head(s)
        return s, start, rest


class Exporter(Server):
    """A site that exports: its data plane, HTTP/1.1 without ALPN. 'app' gets the tunnel; 'status' refuses."""

    def __init__(self, fabric, name, app, version=None, **kw):
        self.context = fabric_context(fabric, fabric.file(name), server=True, version=version)
        self.app, self.status, self.heads, self.versions = app, 200, [], []
        super().__init__(**kw)

    def _serve(self, conn):
        with conn:
            try:
                s = self.context.wrap_socket(conn, server_side=True)
                with s:
                    self.versions.append(s.version())
                    start, fields, rest = read_head(s)
                    self.heads.append((start, fields))
                    if self.status != 200:
                        s.sendall(f"HTTP/1.1 {self.status} No\r\nContent-Length: 0\r\n\r\n".encode())
                        return
                    assert not rest, "bytes before the answer"
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
                    self.app(s)
            except (OSError, ssl.SSLError, ConnectionError):
                pass
