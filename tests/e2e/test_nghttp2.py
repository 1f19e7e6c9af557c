# SPDX-License-Identifier: Apache-2.0
"""nghttp2's own tools as the other side: nghttpx as HBONE client and server, nghttp, h2load."""
import re
import shutil
import socket
import subprocess
import threading

import pytest
from harness import traffic
from harness.mesh import PORT
from harness.node import Process
from harness.wait import until


def need(tool):
    path = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/usr/local/sbin")
    if not path:
        pytest.skip(f"{tool} is not installed")
    return path


def nghttpx(mesh, ns, *flags, listening):
    argv = [need("nghttpx"), "--conf=/dev/null", "--no-ocsp", "--workers=1", "--single-process",
            "--no-server-rewrite", "--errorlog-file=/dev/stderr", "--log-level=WARN", *flags]
    proc = Process(ns, argv, str(mesh.dir / f"nghttpx-{listening[1]}.log"))

    class Stop:
        @staticmethod
        def stop():
            proc.signal(15)
            try:
                proc.proc.wait(20)
            except subprocess.TimeoutExpired:
                proc.kill()
    mesh.keep(Stop)

    def up():
        assert proc.alive, proc.log()
        try:
            traffic.connect(ns, listening, 20).close()
            return True
        except OSError:
            return False
    until(up, 5, f"nghttpx to listen: {proc.log()}")
    return proc


def http1_connect_proxy(sock, dial):
    """The least of an HTTP/1.1 forward proxy: CONNECT, then bytes. Behind nghttpx."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = sock.recv(4096)
        if not part:
            return
        head += part
    m = re.match(rb"CONNECT (\S+):(\d+) HTTP/1.1\r\n", head)
    assert m, head
    out = dial((m.group(1).decode().strip("[]"), int(m.group(2))))
    sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    out.sendall(head.partition(b"\r\n\r\n")[2])

    def pump(a, b):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    t = threading.Thread(target=pump, args=(sock, out), daemon=True)
    t.start()
    pump(out, sock)
    t.join(60)
    out.close()


def server_flags(mesh, identity, ip, backend):
    cert = mesh.ca.issue(identity)
    return [f"--frontend={ip},15008", f"--backend={backend[0]},{backend[1]}", "--http2-proxy",
            "--verify-client", f"--verify-client-cacert={mesh.ca.root}",
            "--tls-min-proto-version=TLSv1.3", "--tls-max-proto-version=TLSv1.3",
            "--npn-list=h2", cert.key, cert.crt]


def hbone_by_nghttpx(mesh, pod):
    """nghttpx takes HBONE on the pod's address and passes it to a forward proxy."""
    seen = []

    def handler(sock, _peer):
        http1_connect_proxy(sock, lambda addr: (seen.append(addr),
                                                traffic.connect(pod, addr))[1])
    proxy = mesh.serve(pod, handler, 3128, ip="127.0.0.1")
    nghttpx(mesh, pod, *server_flags(mesh, pod.identity, pod.ip4, ("127.0.0.1", 3128)),
            listening=(pod.ip4, 15008))
    return proxy, seen


def test_nghttpx_serves_the_foreign_client(mesh):
    """Checked first without a node, so that the set-up itself is known to work."""
    mesh.echo(mesh.p2, 8088)
    proxy, seen = hbone_by_nghttpx(mesh, mesh.p2)
    peer = mesh.hbone(mesh.p2)
    stream = peer.tunnel(f"{mesh.p2.ip4}:8088")
    assert stream.status == 200, proxy.errors
    peer.echo(stream, 100000)
    assert seen == [(mesh.p2.ip4, 8088)]


@pytest.mark.tsan
def test_nghttpx_as_hbone_server(mesh):
    mesh.shared("node1")
    mesh.echo(mesh.p2, 8088)
    proxy, seen = hbone_by_nghttpx(mesh, mesh.p2)
    for size in (10, 100000, 2 << 20):
        traffic.echo_once(mesh.connect(mesh.c1, mesh.p2, 8088), size)
    assert seen == [(mesh.p2.ip4, 8088)] * 3
    assert not proxy.errors


def client_proxy(mesh, target, identity=None):
    """nghttpx as HTTP/1.1 proxy whose only upstream is an HBONE server, with a client cert."""
    cert = mesh.ca.issue(identity or mesh.p1.identity)
    nghttpx(mesh, mesh.p1, "--frontend=127.0.0.1,3129;no-tls",
            f"--backend={target},15008;;tls;proto=h2", "--http2-proxy", "--insecure",
            f"--client-cert-file={cert.crt}", f"--client-private-key-file={cert.key}",
            "--tls-min-proto-version=TLSv1.3", "--tls-max-proto-version=TLSv1.3",
            listening=("127.0.0.1", 3129))


def http1_connect(mesh, authority):
    """(status, socket) of a CONNECT sent to the local nghttpx."""
    sock = mesh.connect(mesh.p1, "127.0.0.1", 3129)
    sock.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        part = sock.recv(1)
        assert part, head
        head += part
    return int(head.split()[1]), sock


def test_nghttpx_calls_the_foreign_server(mesh):
    """The set-up of the next test, again without a node."""
    server = mesh.hbone_server(mesh.p2)
    client_proxy(mesh, mesh.p2.ip4)
    status, sock = http1_connect(mesh, "10.0.2.6:80")
    assert status == 200
    traffic.echo_once(sock, 100000)
    assert server.streams[0].authority == "10.0.2.6:80"
    assert server.peers[0].peer_identity == mesh.p1.identity


@pytest.mark.tsan
def test_nghttpx_as_hbone_client(mesh):
    node = mesh.shared("node2")
    app = mesh.echo(mesh.s2)
    client_proxy(mesh, mesh.s2.ip4)
    status, sock = http1_connect(mesh, f"{mesh.s2.ip4}:{PORT}")
    assert status == 200
    for size in (1, 1000, 3 << 20):
        traffic.echo_once(sock, size)
    sock.shutdown(socket.SHUT_WR)
    assert traffic.read_all(sock) == b""
    assert app.peer_ips() == {mesh.p1.ip4}
    assert node.wait_access(direction="inbound")[-1]["src.identity"] == mesh.p1.identity
    assert http1_connect(mesh, "10.9.9.9:1")[0] == 400
    assert http1_connect(mesh, f"{mesh.s2.ip4}:9999")[0] == 503


def test_nghttp_get_is_refused(mesh):
    mesh.shared("node2")
    cert = mesh.ca.issue(mesh.p1.identity)
    out = mesh.p1.run(need("nghttp"), "-nv", "--no-verify-peer", f"--cert={cert.crt}",
                      f"--key={cert.key}", f"https://{mesh.s2.ip4}:15008/", check=False)
    assert ":status: 400" in out, out
    assert "negotiated protocol: h2" in out


def test_nghttp_without_certificate(mesh):
    node = mesh.shared("node2")
    out = mesh.p1.run(need("nghttp"), "-nv", "--no-verify-peer", "-t", "5",
                      f"https://{mesh.s2.ip4}:15008/", check=False)
    assert ":status:" not in out
    assert node.alive


def test_h2load_storm(mesh):
    """GETs by the thousand, by way of nghttpx that holds the certificate: all 400."""
    node = mesh.shared("node2")
    mesh.echo(mesh.s2)
    cert = mesh.ca.issue(mesh.p1.identity)
    nghttpx(mesh, mesh.p1, "--frontend=127.0.0.1,3130;no-tls",
            f"--backend={mesh.s2.ip4},15008;;tls;proto=h2", "--insecure",
            f"--client-cert-file={cert.crt}", f"--client-private-key-file={cert.key}",
            listening=("127.0.0.1", 3130))
    out = mesh.p1.run(need("h2load"), "-n", "3000", "-c", "10", "-m", "50",
                      "http://127.0.0.1:3130/", check=False)
    m = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", out)
    assert m, out
    assert int(m.group(1)) == 0 and int(m.group(3)) > 2500, out
    mesh.roundtrip(mesh.u1, mesh.s2)
    assert node.alive


def test_h2load_without_certificate(mesh):
    node = mesh.shared("node2")
    mesh.echo(mesh.s2)
    out = mesh.p1.run(need("h2load"), "-n", "200", "-c", "50", "-T", "3",
                      f"https://{mesh.s2.ip4}:15008/", check=False)
    assert " 0 succeeded" in out, out
    mesh.roundtrip(mesh.u1, mesh.s2)
    assert node.alive
