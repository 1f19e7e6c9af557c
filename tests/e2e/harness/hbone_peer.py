# SPDX-License-Identifier: Apache-2.0
"""HBONE peers that share no code with the product: python3-h2 over Python's ssl.

H2Peer is one HTTP/2 connection over TLS over any byte transport and works in both roles.
It is driven by its caller (pump, wait), so a test decides exactly when it reads, answers or
misbehaves. HboneServer runs one H2Peer per accepted connection in a thread of its own, with an
'app' that says what to do with requests.
"""
import collections
import contextlib
import os
import select
import socket
import ssl
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from cryptography import x509

from .certs import spiffe_ids
from .traffic import connect, listen
from .wait import GUARD, SLOW, guard

ErrorCodes = h2.errors.ErrorCodes
Settings = h2.settings.SettingCodes
STREAM_WINDOW = 4 << 20
CONNECTION_WINDOW = 16 << 20
FRAME_SIZE = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def ready_fds(timeout, reads=(), writes=()):
    """poll(2), because select(2) cannot take descriptors above 1023."""
    poller = select.poll()
    for fd in reads:
        poller.register(fd, select.POLLIN)
    for fd in writes:
        poller.register(fd, select.POLLOUT)
    return {fd for fd, _ in poller.poll(max(0, timeout) * 1000)}


class PeerGone(Exception):
    """The other side ended the connection (or the TLS handshake)."""


class SockTransport:
    def __init__(self, sock):
        self.sock = sock
        sock.setblocking(False)

    def send(self, data, timeout=GUARD):
        view = memoryview(data)
        deadline = time.monotonic() + timeout * SLOW
        while view:
            try:
                view = view[self.sock.send(view):]
            except (BlockingIOError, InterruptedError):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the peer does not read") from None
                ready_fds(left, writes=[self.sock.fileno()])
            except OSError as err:
                raise PeerGone(str(err)) from err

    def recv(self, timeout, wake=None):
        """Bytes, b"" at the end, None when nothing came in time."""
        fd = self.sock.fileno()
        if fd < 0:
            return b""
        if fd not in ready_fds(timeout, [fd] + ([wake] if wake is not None else [])):
            return None
        try:
            return self.sock.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def close(self):
        self.sock.close()


class StreamTransport:
    """The bytes of one stream of another H2Peer: the carrier of an inner tunnel."""

    def __init__(self, peer, stream):
        self.peer = peer
        self.stream = stream

    def send(self, data, timeout=GUARD):
        self.peer.send(self.stream, data, timeout=timeout)

    def recv(self, timeout, wake=None):
        deadline = time.monotonic() + timeout
        while True:
            if self.stream.data:
                return self.stream.take()
            if self.stream.finished or self.peer.gone:
                return b""
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.peer.pump(left)

    def close(self):
        self.peer.end(self.stream)


class Stream:
    """What is known of one stream."""

    def __init__(self, sid):
        self.id = sid
        self.headers = {}
        self.raw_headers = []
        self.data = bytearray()
        self.received = 0
        self.ended = False
        self.reset = None  # error code

    @property
    def status(self):
        value = self.headers.get(":status")
        return int(value) if value else None

    @property
    def authority(self):
        return self.headers.get(":authority")

    @property
    def finished(self):
        return self.ended or self.reset is not None

    def take(self, n=None):
        n = len(self.data) if n is None else n
        out = bytes(self.data[:n])
        del self.data[:n]
        return out


class H2Peer:
    def __init__(self, transport, context, server_side=False, settings=None,
                 connection_window=CONNECTION_WINDOW, sni=None):
        self.transport = transport
        self.inb, self.outb = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inb, self.outb, server_side=server_side,
                                    server_hostname=sni)
        self.server_side = server_side
        self.streams = collections.OrderedDict()
        self.gone = False
        self.why = ""
        self.goaway = None  # (code, last stream id)
        self.remote_settings = {}
        self.window_granted = 0  # connection window the peer gave beyond the default
        self.pings = 0
        self.pongs = 0
        self.resets_seen = 0
        self.hold_credit = None  # predicate: streams that get no flow-control credit back
        self.on_event = None
        self.unfed = bytearray()
        self.prefaced = False
        self.scan = None  # bytes not yet scanned, once go_raw() was called
        self.calls = collections.deque()
        self.wake_r, self.wake_w = os.pipe()
        self.waking = threading.Lock()  # a number that was closed may be another descriptor's by now
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=not server_side, header_encoding="utf-8",
            validate_outbound_headers=False, validate_inbound_headers=False,
            normalize_outbound_headers=False))
        values = {Settings.INITIAL_WINDOW_SIZE: STREAM_WINDOW, Settings.MAX_FRAME_SIZE: FRAME_SIZE,
                  Settings.MAX_HEADER_LIST_SIZE: 65536 if server_side else 16384}
        values[Settings.MAX_CONCURRENT_STREAMS if server_side else Settings.ENABLE_PUSH] = \
            200 if server_side else 0
        values.update(settings or {})
        self.h2.local_settings = h2.settings.Settings(client=not server_side,
                                                      initial_values=values)
        self.h2.max_inbound_frame_size = values[Settings.MAX_FRAME_SIZE]
        self.connection_window = connection_window

    # -- setting up ---------------------------------------------------------------------------
    def handshake(self):
        deadline = time.monotonic() + guard(GUARD)
        while True:
            try:
                self.tls.do_handshake()
                self._flush_tls()
                return self
            except ssl.SSLWantReadError:
                self._flush_tls()
            except ssl.SSLError as err:
                with contextlib.suppress(PeerGone):
                    self._flush_tls()
                raise PeerGone(f"TLS: {err}") from err
            data = self.transport.recv(max(0.0, deadline - time.monotonic()))
            if data is None:
                raise TimeoutError("TLS handshake")
            if not data:
                raise PeerGone("closed during the TLS handshake")
            self.inb.write(data)

    def open(self):
        """TLS, then the HTTP/2 preface."""
        self.handshake()
        self.h2.initiate_connection()
        extra = self.connection_window - 65535
        if extra > 0:
            self.h2.increment_flow_control_window(extra)
        self.flush()
        return self

    @property
    def alpn(self):
        return self.tls.selected_alpn_protocol()

    @property
    def peer_cert(self):
        return x509.load_der_x509_certificate(self.tls.getpeercert(True))

    @property
    def peer_identity(self):
        return spiffe_ids(self.peer_cert)[0]

    # -- bytes --------------------------------------------------------------------------------
    def _flush_tls(self, timeout=GUARD):
        data = self.outb.read()
        if data:
            self.transport.send(data, timeout)

    def raw(self, data, timeout=GUARD):
        """Sends bytes inside TLS without telling the HTTP/2 library."""
        view = memoryview(data)
        while view:
            n = self.tls.write(view[:1 << 14])
            view = view[n:]
        self._flush_tls(timeout)

    def flush(self, timeout=GUARD):
        data = self.h2.data_to_send()
        if data:
            self.raw(data, timeout)

    def _end(self, why):
        self.gone = True
        self.why = self.why or why

    def pump(self, timeout=0.0):
        """Reads what is there (waiting up to 'timeout' for the first byte) and handles it."""
        while self.calls:
            self.calls.popleft()()
        if self.gone:
            return False
        plain = self._read_plain()
        if not plain:
            data = self.transport.recv(timeout, self.wake_r)
            if ready_fds(0, [self.wake_r]):
                os.read(self.wake_r, 4096)
            while self.calls:
                self.calls.popleft()()
            if data is None:
                return False
            if not data:
                self._end("end of file")
                return False
            self.inb.write(data)
            plain = self._read_plain()
        if plain:
            self._feed(plain)
        return bool(plain)

    def _read_plain(self):
        out = bytearray()
        try:
            while True:
                part = self.tls.read(1 << 16)
                if not part:
                    self._end("TLS closed")
                    break
                out += part
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as err:
            self._end(f"TLS: {err}")
        with contextlib.suppress(PeerGone):
            self._flush_tls()
        return bytes(out)

    def go_raw(self):
        """
        From here on frames are made by the test, so the library's idea of the connection is
        worth nothing: what comes back is only scanned, never judged and never answered.
        """
        self.scan = self.unfed
        return self

    def _scan(self, plain):
        self.scan += plain
        while len(self.scan) >= 9:
            size = int.from_bytes(self.scan[:3], "big")
            if len(self.scan) < 9 + size:
                return
            kind, flags = self.scan[3], self.scan[4]
            sid = int.from_bytes(self.scan[5:9], "big") & 0x7fffffff
            body = bytes(self.scan[9:9 + size])
            del self.scan[:9 + size]
            self._scan_frame(kind, flags, sid, body)

    def _scan_frame(self, kind, flags, sid, body):
        stream = self._stream(sid) if sid else None
        if kind == 0:
            stream.data += body
            stream.ended |= bool(flags & 1)
        elif kind == 1:
            stream.headers = dict(self.h2.decoder.decode(body))
            stream.ended |= bool(flags & 1)
        elif kind == 3:
            stream.reset = int.from_bytes(body[:4], "big")
        elif kind == 7:
            self.goaway = (int.from_bytes(body[4:8], "big"),
                           int.from_bytes(body[:4], "big"))

    def _feed(self, plain):
        if self.scan is not None:
            self._scan(plain)
            return
        self.unfed += plain
        while frame := self._next_frame():
            if not self._feed_frame(frame):
                return

    def _next_frame(self):
        """
        The library gets one frame at a time: told of several, it forgets its answers to those
        before a GOAWAY.
        """
        size = len(PREFACE) if self.server_side and not self.prefaced else None
        if size is None and len(self.unfed) >= 9:
            size = 9 + int.from_bytes(self.unfed[:3], "big")
        if size is None or len(self.unfed) < min(size, 9 + FRAME_SIZE):
            return b""
        self.prefaced = True
        frame = bytes(self.unfed[:size])
        del self.unfed[:size]
        return frame

    def _feed_frame(self, frame):
        try:
            events = self.h2.receive_data(frame)
        except h2.exceptions.ProtocolError as err:
            self._end(f"protocol: {err}")
            return False
        for event in events:
            self._handle(event)
        try:
            self.flush()
        except PeerGone as err:
            self._end(str(err))
        return True

    def _stream(self, sid):
        if sid not in self.streams:
            self.streams[sid] = Stream(sid)
        return self.streams[sid]

    def _handle(self, event):
        if isinstance(event, (h2.events.RequestReceived, h2.events.ResponseReceived)):
            stream = self._stream(event.stream_id)
            stream.raw_headers = list(event.headers)
            stream.headers = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream = self._stream(event.stream_id)
            stream.data += event.data
            stream.received += len(event.data)
            held = self.hold_credit and self.hold_credit(stream)
            if not held and event.flow_controlled_length:
                with contextlib.suppress(h2.exceptions.ProtocolError):
                    self.h2.acknowledge_received_data(event.flow_controlled_length,
                                                      event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._stream(event.stream_id).ended = True
        elif isinstance(event, h2.events.StreamReset):
            self._stream(event.stream_id).reset = int(event.error_code)
            self.resets_seen += 1
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            for code, change in event.changed_settings.items():
                self.remote_settings[int(code)] = change.new_value
        elif isinstance(event, h2.events.WindowUpdated) and event.stream_id == 0:
            self.window_granted += event.delta
        elif isinstance(event, h2.events.PingReceived):
            self.pings += 1
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = (int(event.error_code), event.last_stream_id)
            # The library refuses to go on after GOAWAY; streams already open are allowed to.
            self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN \
                if not self.server_side else h2.connection.ConnectionState.SERVER_OPEN
        if self.on_event:
            self.on_event(event)

    def wait(self, predicate, timeout=GUARD, what=None):
        """Goes on until predicate() holds; 'timeout' is a guard, as that of harness.wait.until."""
        deadline = time.monotonic() + guard(timeout)
        while not predicate():
            left = deadline - time.monotonic()
            if self.gone:
                raise PeerGone(f"{self.why} while waiting for {what or 'an event'}")
            if left <= 0:
                raise AssertionError(f"timed out waiting for {what or predicate}")
            self.pump(min(left, 0.2))
        return True

    def call(self, function):
        """Runs function() in the thread that drives this peer."""
        self.calls.append(function)
        with self.waking, contextlib.suppress(OSError):
            os.write(self.wake_w, b"x")

    def abort(self):
        self._end("aborted by the test")

    # -- requests -----------------------------------------------------------------------------
    def request(self, headers, end=False):
        sid = self.h2.get_next_available_stream_id()
        stream = self._stream(sid)
        self.h2.send_headers(sid, headers, end_stream=end)
        self.flush()
        return stream

    def connect(self, authority, *headers, end=False):
        return self.request([(":method", "CONNECT"), (":authority", authority), *headers], end)

    def tunnel(self, authority, *headers, timeout=GUARD):
        """CONNECT and wait for the answer."""
        stream = self.connect(authority, *headers)
        self.wait_status(stream, timeout)
        return stream

    def wait_status(self, stream, timeout=GUARD):
        self.wait(lambda: stream.status is not None or stream.reset is not None, timeout,
                  f"status of stream {stream.id}")
        return stream.status

    def send(self, stream, data, end=False, timeout=GUARD):
        """Sends within the peer's windows, reading while it waits for them."""
        view = memoryview(data)
        while view:
            room = min(self.h2.local_flow_control_window(stream.id),
                       self.h2.max_outbound_frame_size, len(view))
            if room <= 0:
                self.wait(lambda: self.h2.local_flow_control_window(stream.id) > 0
                          or stream.reset is not None, timeout, "window")
                if stream.reset is not None:
                    raise PeerGone(f"stream reset with {stream.reset}")
                continue
            self.h2.send_data(stream.id, view[:room].tobytes())
            view = view[room:]
            self.flush(timeout)
        if end:
            self.end(stream)

    def end(self, stream):
        self.h2.end_stream(stream.id)
        self.flush()

    def rst(self, stream, code=ErrorCodes.CANCEL):
        self.h2.reset_stream(stream.id, int(code))
        self.flush()

    def recv(self, stream, n, timeout=GUARD):
        self.wait(lambda: len(stream.data) >= n or stream.finished, timeout,
                  f"{n} bytes on stream {stream.id}")
        assert len(stream.data) >= n, \
            f"stream ended with {len(stream.data)} of {n} bytes (reset={stream.reset})"
        return stream.take(n)

    def echo(self, stream, size=64):
        data = os.urandom(size)
        self.send(stream, data)
        assert self.recv(stream, size) == data

    def ping(self):
        before = self.pongs
        self.h2.ping(os.urandom(8))
        self.flush()
        self.wait(lambda: self.pongs > before, what="PING answer")

    def close(self):
        self.gone = True
        self.transport.close()
        with self.waking:
            for fd in (self.wake_r, self.wake_w):
                with contextlib.suppress(OSError):
                    os.close(fd)
            self.wake_r = self.wake_w = -1


def hbone_client(ns, addr, context, settings=None, bind=None, sni=None, **kw):
    """A connected HBONE client speaking from namespace ns."""
    sock = connect(ns, addr, bind=bind)
    peer = H2Peer(SockTransport(sock), context, settings=settings, sni=sni, **kw)
    try:
        return peer.open()
    except BaseException:
        peer.close()
        raise


def rejected(ns, addr, context, authority):
    """
    True when a CONNECT cannot be made at all with this TLS context. In TLS 1.3 a client whose
    certificate is refused learns it only after its handshake, so the request decides. Silence is no answer.
    """
    try:
        peer = hbone_client(ns, addr, context)
    except TimeoutError:
        raise
    except (PeerGone, OSError):
        return True
    try:
        return peer.tunnel(authority).status is None
    except TimeoutError:
        raise
    except (PeerGone, OSError):
        return True
    finally:
        peer.close()


class App:
    """Answers every CONNECT with a status; echoes the body of accepted ones."""

    def __init__(self, status=200, headers=(), greeting=b""):
        self.status = status
        self.headers = list(headers)
        self.greeting = greeting

    def request(self, peer, stream):
        ok = self.status == 200
        peer.h2.send_headers(stream.id, [(":status", str(self.status)), *self.headers],
                             end_stream=not ok)
        peer.flush()
        if ok and self.greeting:
            peer.send(stream, self.greeting)

    def data(self, peer, stream):
        if self.status == 200:
            peer.send(stream, stream.take())

    def end(self, peer, stream):
        if self.status == 200:
            peer.end(stream)

    def reset(self, peer, stream):
        pass

    def closed(self, peer):
        pass


class ForwardApp(App):
    """Copies between each stream and a TCP connection to target(stream): a plain waypoint."""

    def __init__(self, ns, target):
        super().__init__()
        self.ns = ns
        self.target = target
        self.socks = {}

    def dial(self, stream):
        return connect(self.ns, self.target(stream))

    def request(self, peer, stream):
        try:
            sock = self.dial(stream)
        except OSError:
            peer.h2.send_headers(stream.id, [(":status", "503")], end_stream=True)
            peer.flush()
            return
        sock.settimeout(guard(60))
        self.socks[peer, stream.id] = sock
        super().request(peer, stream)
        threading.Thread(target=self._back, args=(peer, stream, sock), daemon=True).start()

    def _back(self, peer, stream, sock):
        while True:
            try:
                data = sock.recv(1 << 16)
            except OSError:
                data = b""
            peer.call(lambda d=data: self._deliver(peer, stream, d))
            if not data:
                return

    @staticmethod
    def _deliver(peer, stream, data):
        with contextlib.suppress(h2.exceptions.ProtocolError, PeerGone):
            if data:
                peer.send(stream, data)
            else:
                peer.end(stream)

    def data(self, peer, stream):
        sock = self.socks.get((peer, stream.id))
        if sock:
            sock.sendall(stream.take())

    def end(self, peer, stream):
        sock = self.socks.get((peer, stream.id))
        if sock:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)

    def closed(self, peer):
        for (owner, _), sock in list(self.socks.items()):
            if owner is peer:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)


class GatewayApp(ForwardApp):
    """
    The far end of a double tunnel: accepts the outer CONNECT, runs the inner TLS and HTTP/2 on its
    stream and echoes there. Inner peers are kept for the test to look at.
    """

    def __init__(self, inner_context):
        super().__init__(None, None)
        self.inner_context = inner_context
        self.inner = []
        self.errors = []

    def dial(self, stream):
        near, far = socket.socketpair()
        threading.Thread(target=self._serve_inner, args=(far,), daemon=True).start()
        return near

    def _serve_inner(self, sock):
        inner = H2Peer(SockTransport(sock), self.inner_context, server_side=True)
        self.inner.append(inner)
        try:
            inner.open()
            seen = set()
            while not inner.gone:
                inner.pump(0.2)
                serve_streams(inner, App(), seen)
        except (PeerGone, TimeoutError, h2.exceptions.ProtocolError) as err:
            self.errors.append(str(err))
        finally:
            inner.close()


def serve_streams(peer, app, seen):
    """Calls the app for what happened on the peer's streams since the last call."""
    for sid, stream in list(peer.streams.items()):
        if (sid, "head") not in seen and stream.headers:
            seen.add((sid, "head"))
            app.request(peer, stream)
        if stream.data:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                app.data(peer, stream)
        if stream.reset is not None and (sid, "reset") not in seen:
            seen.add((sid, "reset"))
            app.reset(peer, stream)
        elif stream.ended and (sid, "end") not in seen:
            seen.add((sid, "end"))
            with contextlib.suppress(h2.exceptions.ProtocolError):
                app.end(peer, stream)


class HboneServer:
    """Accepts HBONE connections in namespace ns; every connection and stream is recorded."""

    def __init__(self, ns, addr, context, app=None, settings=None, **kw):
        self.context = context
        self.app = app or App()
        self.settings = settings
        self.kw = kw
        self.peers = []
        self.failures = []  # handshakes that did not succeed
        self.crashes = []  # mistakes of the test itself
        self.sni = []
        self.accepted = 0
        self.changed = threading.Condition()
        context.sni_callback = lambda _obj, name, _ctx: self.sni.append(name)
        self.sock = listen(ns, addr)
        self.stopping = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while not self.stopping:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = H2Peer(SockTransport(sock), self.context, server_side=True,
                      settings=self.settings, **self.kw)
        try:
            peer.open()
        except (PeerGone, TimeoutError, OSError) as err:
            self.failures.append(str(err))
            peer.close()
            return
        with self.changed:
            self.peers.append(peer)
            self.changed.notify_all()
        seen = set()
        try:
            while not peer.gone and not self.stopping:
                peer.pump(0.2)
                serve_streams(peer, self.app, seen)
                with self.changed:
                    self.changed.notify_all()
        except (PeerGone, TimeoutError, h2.exceptions.ProtocolError) as err:
            peer.why = peer.why or str(err)
        except Exception as err:  # noqa: BLE001 - said by Mesh.close
            self.crashes.append(repr(err))
        finally:
            self.app.closed(peer)
            peer.close()
            with self.changed:
                self.changed.notify_all()

    @property
    def streams(self):
        """All requests seen so far, in order per connection."""
        return [s for p in list(self.peers) for s in list(p.streams.values()) if s.headers]

    @property
    def live(self):
        return [p for p in list(self.peers) if not p.gone]

    def wait(self, predicate, what="HBONE server"):
        with self.changed:
            assert self.changed.wait_for(predicate, guard(GUARD)), f"timed out: {what}"

    def wait_streams(self, n):
        self.wait(lambda: len(self.streams) >= n, f"{n} requests")
        return self.streams

    def stop(self):
        self.stopping = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(guard(GUARD))
        self.sock.close()
        for peer in self.live:
            peer.call(peer.abort)
