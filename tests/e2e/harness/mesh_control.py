# SPDX-License-Identifier: Apache-2.0
"""A mesh control plane for nodes under test: delta ADS for addresses and policies, written against the protocol alone.

It serves a World (harness/world.py), over TLS or without, and keeps what nodes asked and answered."""
import contextlib
import ipaddress
import itertools
import select
import socket
import ssl
import struct
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from .wait import until

URL = "type.googleapis.com/"
ADDRESS = URL + "istio.workload.Address"
AUTHORIZATION = URL + "istio.security.Authorization"
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"


# -- protobuf -------------------------------------------------------------------------------------
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A length-delimited field; left out when empty, as proto3 does."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value if value else b""


def message(number, value):
    """A nested message, which may be empty."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def number(at, value):
    return varint(at << 3) + varint(int(value)) if value else b""


def fields(data):
    """(number, value) of a message of varints and length-delimited fields."""
    at = 0

    def take():
        nonlocal at
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 128:
                return n
    while at < len(data):
        key = take()
        if key & 7 == 0:
            yield key >> 3, take()
        elif key & 7 == 2:
            n = take()
            yield key >> 3, data[at:at + n]
            at += n
        else:
            raise ValueError(f"wire type {key & 7}")


def ip_bytes(text):
    return ipaddress.ip_address(text).packed


# -- the file's records as resources --------------------------------------------------------------
def network_address(text):
    network, _, ip = text.rpartition("/")
    return field(1, network) + field(2, ip_bytes(ip))


def gateway(value):
    if not value:
        return b""
    first, _, rest = value["destination"].partition("/")
    try:
        ip_bytes(rest)
        to = message(2, network_address(value["destination"]))
    except ValueError:
        to = message(1, field(1, first) + field(2, rest))
    return to + number(3, value.get("hboneMtlsPort", 15008))


def ports(mapping):
    return b"".join(message(p, number(1, s) + number(2, t)) for p, s, t in mapping)


TYPES = {"deployment": 0, "cronjob": 1, "pod": 2, "job": 3}


def workload(w):
    out = field(1, w.get("name", "")) + field(2, w["namespace"])
    out += b"".join(field(3, ip_bytes(ip)) for ip in w["workloadIps"])
    out += field(4, w.get("network", "")) + number(5, w.get("protocol") == "HBONE")
    out += field(6, w.get("trustDomain", "")) + field(7, w.get("serviceAccount", ""))
    if w.get("waypoint"):
        out += message(8, gateway(w["waypoint"]))
    out += field(9, w.get("node", "")) + field(10, w.get("canonicalName", "")) + field(11, w.get("canonicalRevision", ""))
    out += number(12, TYPES[w.get("workloadType", "deployment")]) + field(13, w.get("workloadName", ""))
    out += b"".join(field(16, p) for p in w.get("authorizationPolicies", ()))
    out += number(17, w.get("status") == "Unhealthy") + field(18, w.get("clusterId", ""))
    out += field(20, w["uid"]) + field(21, w.get("hostname", ""))
    for key, mapping in w["services"].items():
        out += message(22, field(1, key) + message(2, ports((1, s, t) for s, t in mapping.items())))
    return message(1, out)


def service(s):
    out = field(1, s["name"]) + field(2, s["namespace"]) + field(3, s["hostname"])
    out += b"".join(message(4, network_address(v)) for v in s["vips"])
    out += ports((5, p, t) for p, t in s["ports"].items())
    if s.get("waypoint"):
        out += message(7, gateway(s["waypoint"]))
    return message(2, out)


KINDS = {"Exact": 1, "Prefix": 2, "Suffix": 3}


def string_match(value):
    (kind, text), = value.items()
    return message(4, b"") if kind == "Presence" else message(KINDS[kind], text.encode())


def block(text):
    net = ipaddress.ip_network(text)
    return field(1, net.network_address.packed) + number(2, net.prefixlen)


def port_list(values):
    return b"".join(varint(v) for v in values)


MATCH = {"namespaces": (1, string_match), "notNamespaces": (2, string_match),
         "principals": (3, string_match), "notPrincipals": (4, string_match),
         "sourceIps": (5, block), "notSourceIps": (6, block),
         "destinationIps": (7, block), "notDestinationIps": (8, block)}


def match(value):
    out = b""
    for key, items in value.items():
        if key in MATCH:
            at, encode = MATCH[key]
            out += b"".join(message(at, encode(i)) for i in items)
        else:
            out += field({"destinationPorts": 9, "notDestinationPorts": 10}[key], port_list(items))
    return out


def policy(p):
    out = field(1, p["name"]) + field(2, p["namespace"])
    out += number(3, ["Global", "Namespace", "WorkloadSelector"].index(p["scope"]))
    out += number(4, p["action"] == "Deny")
    for rule in p["rules"]:
        clauses = b"".join(message(1, b"".join(message(2, match(m)) for m in clause)) for clause in rule)
        out += message(5, clauses)
    return out + number(6, p.get("dryRun", False))


class Resource:
    def __init__(self, value, aliases=()):
        self.value, self.aliases = value, tuple(aliases)


def resources_of(world):
    """{type: {name: Resource}} of a World."""
    addresses = {}
    for w in world.workloads.values():
        aliases = [f"{w.get('network', '')}/{ip}" for ip in w["workloadIps"]]
        addresses[w["uid"]] = Resource(workload(w), aliases)
    for s in world.services.values():
        addresses[f"{s['namespace']}/{s['hostname']}"] = Resource(service(s), s["vips"])
    policies = {f"{p['namespace']}/{p['name']}": Resource(policy(p)) for p in world.policies.values()}
    return {ADDRESS: addresses, AUTHORIZATION: policies}


# -- the server -----------------------------------------------------------------------------------
class Request:
    def __init__(self, data):
        self.node, self.type, self.nonce, self.error = b"", "", "", None
        self.subscribe, self.unsubscribe, self.versions = [], [], {}
        for at, value in fields(data):
            if at == 1:
                self.node = value
            elif at == 2:
                self.type = value.decode()
            elif at == 3:
                self.subscribe.append(value.decode())
            elif at == 4:
                self.unsubscribe.append(value.decode())
            elif at == 5:
                entry = dict(fields(value))
                self.versions[entry.get(1, b"").decode()] = entry.get(2, b"").decode()
            elif at == 6:
                self.nonce = value.decode()
            elif at == 7:
                self.error = dict(fields(value)).get(2, b"").decode()

    def __repr__(self):
        return f"<{self.type.rpartition('.')[2]} +{self.subscribe} -{self.unsubscribe} {len(self.versions)} held, " \
               f"nonce {self.nonce!r}, error {self.error!r}>"


class Stream:
    """One node's connection. All of it under the server's lock."""

    def __init__(self, server, sock):
        self.server, self.sock, self.headers = server, sock, {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests, self.opened = [], 0
        self.begin(None)

    def begin(self, stream):
        """A stream of the connection; a node that resets one opens the next on the same connection."""
        self.stream, self.queue, self.buffer = stream, bytearray(), b""
        self.sent = {}      # type -> {name: value}
        self.wanted = {}    # type -> None for everything, else a set of names
        self.answers, self.responses = [], 0

    def flush(self):
        while self.queue and self.stream is not None:
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                break
            self.h2.send_data(self.stream, bytes(self.queue[:room]))
            del self.queue[:room]
        self.sock.sendall(self.h2.data_to_send())

    def send(self, data):
        self.queue += struct.pack(">BI", 0, len(data)) + data
        self.flush()

    def respond(self, kind, added, removed):
        out = [field(1, "test")]
        for name in added:
            r = self.server.resources[kind][name]
            body = field(1, self.server.version(r)) + message(2, field(1, kind) + field(2, r.value)) + field(3, name)
            out.append(message(2, body + b"".join(field(4, a) for a in r.aliases)))
        nonce = f"n{next(self.server.nonces)}"
        out += [field(4, kind), field(5, nonce), *(field(6, n) for n in removed)]
        self.responses += 1
        self.send(b"".join(out))
        return nonce

    def visible(self, kind):
        have = self.server.resources.get(kind, {})
        wanted = self.wanted[kind]
        if wanted is None:
            return have
        return {n: r for n, r in have.items() if n in wanted or wanted & set(r.aliases)}

    def update(self, kind, always=False, asked=()):
        now, sent = self.visible(kind), self.sent.setdefault(kind, {})
        added = [n for n, r in now.items() if sent.get(n) != r.value]
        removed = [n for n in sent if n not in now]
        aliases = {a for r in now.values() for a in r.aliases} | set(now)
        removed += [n for n in asked if n not in aliases]
        self.sent[kind] = {n: r.value for n, r in now.items()}
        if added or removed or always:
            self.respond(kind, added, removed)

    def on_request(self, request):
        self.requests.append(request)
        if request.nonce:
            self.answers.append(request)
            return
        first = request.type not in self.wanted
        if first:
            on_demand = bool(request.subscribe)
            self.wanted[request.type] = set() if on_demand else None
            held = self.server.resources.get(request.type, {})
            self.sent[request.type] = {
                n: held[n].value if n in held and self.server.version(held[n]) == v else b"another"
                for n, v in request.versions.items()}
            if on_demand:
                self.wanted[request.type] |= set(request.versions) | self.server.always
        names = [n for n in request.subscribe if n != "*"]
        if self.wanted[request.type] is not None:
            self.wanted[request.type] |= set(names)
        if not self.server.mute:
            self.update(request.type, always=first or bool(names), asked=names)

    def on_data(self, data):
        self.buffer += data
        while len(self.buffer) >= 5:
            n = struct.unpack(">I", self.buffer[1:5])[0]
            if len(self.buffer) < 5 + n:
                break
            request, self.buffer = Request(self.buffer[5:5 + n]), self.buffer[5 + n:]
            self.on_request(request)

    def on_bytes(self, data):
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self.headers = dict(event.headers)
                assert self.headers[":path"] == ADS
                self.opened += 1
                self.begin(event.stream_id)
                self.h2.send_headers(self.stream, [(":status", "200"), ("content-type", "application/grpc")])
            elif isinstance(event, h2.events.StreamReset):
                self.begin(None)
            elif isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.on_data(event.data)
        self.flush()


class MeshControl:
    """Serves the world of a mesh on one address in some namespaces; push() sends what changed."""

    def __init__(self, mesh, namespaces, port=15012, context=None):
        self.mesh, self.port, self.context = mesh, port, context
        self.namespaces = namespaces
        self.lock = threading.RLock()
        self.nonces = itertools.count(1)
        self.resources = resources_of(mesh.world)
        self.extra = {}         # {type: {name: Resource}}, besides the world's
        self.mute = False       # accepts streams, and says nothing
        self.always = set()     # names that on-demand streams get without asking, as those of the own node
        self.streams, self.past = [], []
        self.listeners = []
        self.start()

    @staticmethod
    def version(resource):
        return f"v{hash(resource.value) & 0xffffffff:x}"

    @property
    def address(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def start(self):
        for ns in self.namespaces:
            s = ns.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", self.port))
            s.listen(64)
            self.listeners.append(s)
            threading.Thread(target=self._accept, args=(s,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            stream = Stream(self, sock)
            with self.lock:
                stream.h2.initiate_connection()
                stream.flush()
                self.streams.append(stream)
            while self._turn(stream):
                pass
        except (OSError, ssl.SSLError, h2.exceptions.ProtocolError):
            pass
        finally:
            with contextlib.suppress(OSError):
                sock.close()
            with self.lock:
                if any(s.sock is sock for s in self.streams):
                    self.past += [s for s in self.streams if s.sock is sock]
                    self.streams = [s for s in self.streams if s.sock is not sock]

    def _turn(self, stream):
        """Reads what there is. Under the lock, because TLS sockets do not read and write at once."""
        ready = self.context and stream.sock.pending()
        if not ready and not select.select([stream.sock], [], [], 0.05)[0]:
            return True
        with self.lock:
            try:
                data = stream.sock.recv(1 << 16)
            except ssl.SSLWantReadError:
                return True
            stream.on_bytes(data)
        return bool(data)

    def push(self):
        """Sends what the world has become, and waits until every node has answered it."""
        with self.lock:
            self.resources = resources_of(self.mesh.world)
            for kind, more in self.extra.items():
                self.resources[kind].update(more)
            for stream in self.streams:
                for kind in list(stream.wanted):
                    stream.update(kind)
        self.settle()

    def settle(self):
        """Every response sent on a living stream has its answer."""
        def settled():
            with self.lock:
                return all(not s.queue and len(s.answers) == s.responses for s in self.streams)
        until(settled, what=lambda: f"answers: {[s.answers for s in self.streams]}")

    def requests(self, kind=None):
        with self.lock:
            return [r for s in self.past + self.streams for r in s.requests if kind in (None, r.type)]

    def errors(self):
        return [r.error for r in self.requests() if r.error is not None]

    def close_streams(self):
        with self.lock:
            for stream in self.streams:
                with contextlib.suppress(OSError):
                    stream.sock.shutdown(socket.SHUT_RDWR)

    def stop(self):
        for s in self.listeners:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        self.listeners = []
        self.close_streams()
