# SPDX-License-Identifier: Apache-2.0
"""`spanwire expose tcp://...` and `https://...`: a device behind NAT gets a public port, or the connections of a TLS
server name; and services with certificates of a private CA."""
import hashlib
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest
import yaml

from harness.node import _SANITIZER, Process
from harness.town import EDGE, HTTP, HTTPS
from harness.wait import guard, until

GROUP = "networking.datumapis.com"


class Echo:
    """Sends back what it gets, to the end of the stream; 'label' first."""

    def __init__(self, ns, label, context=None, port=0):
        with ns.entered():
            self.sock = socket.create_server(("127.0.0.1", port))
        self.port, self.label, self.context = self.sock.getsockname()[1], label, context
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn = self.sock.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._one, args=(conn,), daemon=True).start()

    def _one(self, conn):
        try:
            if self.context:
                conn = self.context.wrap_socket(conn, server_side=True)
            conn.sendall(self.label)
            while data := conn.recv(65536):
                conn.sendall(data)
        except OSError:
            pass
        finally:
            conn.close()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class Expose(Process):
    def __init__(self, binary, ns, where, kubeconfig, target, name, *flags):
        self.where = pathlib.Path(where)
        super().__init__(ns, [binary, "expose", str(target), "--name", name, "--data", str(self.where / f"key-{name}"),
                              "--kubeconfig", str(kubeconfig), "--admin-addr", "127.0.0.1:0", "--timeout", "40s", *flags],
                         self.where / f"{name}.log")

    def stop(self):
        self.signal(signal.SIGINT)
        assert self.wait(20) == 0, self.log()[-2000:]
        assert not _SANITIZER.search(self.log()), self.log()[-4000:]

    def url(self, seconds=20):
        def found():
            assert self.alive, self.log()[-2000:]
            return re.findall(r"^((?:tcp|tls)://\S+)  ->  (tcp://\S+)$", self.log(), re.M)
        return until(found, seconds, f"the URL: {self.log_path}")[-1]


@pytest.fixture
def expose(town, edge, binary, tmp_path):
    made = []

    def start(target, name, *flags, home="home1", kubeconfig=None):
        e = Expose(binary, town[home], tmp_path, kubeconfig or edge.kubeconfig, target, name, *flags)
        made.append(e)
        return e
    yield start
    for e in made:
        if e.alive:
            e.stop()


@pytest.fixture
def echo(town):
    made = []

    def start(label, home="home1", context=None):
        e = Echo(town[home], label, context)
        made.append(e)
        return e
    yield start
    for e in made:
        e.close()


def dial(town, port):
    with town["visitor"].entered():
        return socket.create_connection((EDGE, port), timeout=guard(10))


def feed(s, body):
    try:
        s.sendall(body)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the reader sees it


def talk(town, port, body=b"hello", seconds=10):
    """What comes back, to the end."""
    with dial(town, port) as s:
        s.settimeout(guard(seconds))
        threading.Thread(target=feed, args=(s, body), daemon=True).start()
        got = b""
        while data := s.recv(65536):
            got += data
        return got


def answers(town, port, want):
    try:
        return talk(town, port) == want
    except OSError:
        return False


def test_a_port_of_its_own(town, edge, expose, echo):
    origin = echo(b"mine:")
    e = expose(f"tcp://127.0.0.1:{origin.port}", "any")
    url, target = e.url()
    assert target == f"tcp://127.0.0.1:{origin.port}"
    host, port = re.fullmatch(r"tcp://([a-z0-9.-]+):(\d+)", url).groups()
    assert host.endswith(".town.example") and 20000 <= int(port) <= 20999
    until(lambda: answers(town, int(port), b"mine:hello"), 10, "the port to answer")
    big = bytes(range(256)) * 8192
    got = talk(town, int(port), big, 60)
    assert hashlib.sha256(got).digest() == hashlib.sha256(b"mine:" + big).digest()
    until(lambda: re.search(rf"TCP +127.0.0.1:{origin.port} +{len(big)} bytes in, {len(big) + 5} out", e.log()), 5,
          e.log()[-1500:])
    # The same command again has the same port; nobody is served meanwhile.
    e.stop()
    assert "stays reserved and closes connections" in e.log()
    until(lambda: not answers(town, int(port), b"mine:hello"), 10)
    again = expose(f"tcp://127.0.0.1:{origin.port}", "any", "--rm")
    # Both write to one log: the first line is of the one before.
    until(lambda: again.log().count(f"{url}  ->  ") == 2, 20, "the same URL again")
    until(lambda: answers(town, int(port), b"mine:hello"), 10)
    assert f'"value": "tcp/{port}"' in edge.api("/apis/spanwire.dev/v1alpha1/claims?pretty=true")
    again.stop()
    until(lambda: f'"tcp/{port}"' not in edge.api("/apis/spanwire.dev/v1alpha1/claims"), 10, "the port to be free")


def test_a_port_that_is_asked_for_and_taken(town, edge, expose, echo):
    one, two = echo(b"one:"), echo(b"two:", "home2")
    first = expose(f"tcp://127.0.0.1:{one.port}", "first", "--port", "20022")
    assert first.url()[0].endswith(":20022")
    until(lambda: answers(town, 20022, b"one:hello"), 10)
    second = expose(f"tcp://127.0.0.1:{two.port}", "second", "--port", "20022", home="home2")
    assert second.wait(20) == 1
    assert "Port 20022 is claimed by HTTPProxy 'default/first'" in second.log()
    assert answers(town, 20022, b"one:hello")
    path = f"/apis/{GROUP}/v1alpha/namespaces/default/httpproxies/second"
    until(lambda: '"code":404' in edge.api(path).replace(" ", ""), 10, "what it made to be gone")
    # Its own port stays with a device that asks for another one in vain.
    second = expose(f"tcp://127.0.0.1:{two.port}", "second", "--port", "20023", home="home2")
    second.url()
    second.stop()
    vain = expose(f"tcp://127.0.0.1:{two.port}", "second", "--port", "20022", home="home2")
    assert vain.wait(20) == 1
    assert '"tcp/20023"' in edge.api("/apis/spanwire.dev/v1alpha1/claims")
    assert first.alive and answers(town, 20022, b"one:hello")


def test_ports_that_are_not_for_devices(expose, echo):
    e = expose(f"tcp://127.0.0.1:{echo(b'x').port}", "outside", "--port", "6443")
    assert e.wait(20) == 1
    assert "port 6443 is none of those for devices, 20000 to 20999" in e.log()


def certificate(where, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
                    "-keyout", where / "key.pem", "-out", where / "cert.pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(where / "cert.pem", where / "key.pem")
    return context


def test_a_tls_name(town, expose, echo, tmp_path):
    """The device's own certificate reaches the client: nobody between them has the key."""
    origin = echo(b"db:", context=certificate(tmp_path, "db.town.example"))
    e = expose(f"tcp://127.0.0.1:{origin.port}", "db", "--tls-name", "db.town.example")
    assert e.url()[0] == f"tls://db.town.example:{HTTPS}"
    trust = ssl.create_default_context(cafile=tmp_path / "cert.pem")

    def reached():
        try:
            with dial(town, HTTPS) as raw, trust.wrap_socket(raw, server_hostname="db.town.example") as s:
                s.settimeout(guard(5))
                s.sendall(b"query")
                got = b""
                while len(got) < 8 and (data := s.recv(100)):
                    got += data
                return got == b"db:query"
        except OSError:
            return False
    until(reached, 10, "the name to be served")
    with dial(town, HTTPS) as raw, pytest.raises(OSError):
        trust.wrap_socket(raw, server_hostname="other.town.example")


def test_a_device_with_its_own_rights_only(town, edge, binary, expose, echo, tmp_path):
    """The role of one device is enough, and gives no way round: routes and Gateways are not its to write."""
    def run(*argv, **kw):
        with edge.ns.entered():
            return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True, timeout=guard(30), **kw).stdout

    (tmp_path / "role.yaml").write_text(run(binary, "connector", "role", "--name", "lonely", "--namespace", "default"))
    for o in yaml.safe_load_all((tmp_path / "role.yaml").read_text()):
        plural = {"ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
                  "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                  "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"}[o["kind"]]
        (tmp_path / "o.yaml").write_text(yaml.safe_dump(o))
        edge.api("-X", "PATCH", "-H", "Content-Type: application/apply-patch+yaml", "--data-binary",
            f"@{tmp_path}/o.yaml", f"{plural}/{o['metadata']['name']}?fieldManager=test")
    token = yaml.safe_load(edge.api("-X", "POST", "-H", "Content-Type: application/json", "-d",
                               '{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}',
                               "/api/v1/namespaces/default/serviceaccounts/lonely/token"))["status"]["token"]
    config = yaml.safe_load(edge.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "lonely.kubeconfig").write_text(yaml.safe_dump(config))
    e = expose(f"tcp://127.0.0.1:{echo(b'l:').port}", "lonely", kubeconfig=tmp_path / "lonely.kubeconfig")
    port = int(e.url()[0].rsplit(":", 1)[1])
    until(lambda: answers(town, port, b"l:hello"), 10)
    for kind, name in (("tcproutes", "lonely"), ("tlsroutes", "lonely"), ("gateways", "lonely")):
        with edge.ns.entered():
            status = subprocess.run(
                ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", str(edge.data / "pki/root.crt"),
                 "-H", f"Authorization: Bearer {token}", "-X", "PATCH", "-H", "Content-Type: application/merge-patch+json",
                 "-d", '{"metadata":{"labels":{"x":"y"}}}',
                 f"https://{EDGE}:6443/apis/gateway.networking.k8s.io/v1/namespaces/default/{kind}/{name}"],
                capture_output=True, text=True, check=True, timeout=guard(20)).stdout
        assert status == "403", (kind, status)


def visit(town, host, path="/"):
    with town["visitor"].entered():
        done = subprocess.run(["curl", "-sS", "-m", str(guard(20)), "-H", f"Host: {host}", "-w", "\n%{http_code}",
                               f"http://{EDGE}:{HTTP}{path}"], capture_output=True, text=True, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return int(status or 0), body


class SecureWeb(Echo):
    def _one(self, conn):
        try:
            conn = self.context.wrap_socket(conn, server_side=True)
            while conn.recv(65536):
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecure")
        except OSError:
            pass
        finally:
            conn.close()


def test_a_private_ca(town, edge, expose, tmp_path):
    """Without --ca the terminal says what is wrong with the certificate; with it visitors are served."""
    web = SecureWeb(town["home1"], b"", certificate(tmp_path, "localhost"))
    try:
        e = expose(f"https://127.0.0.1:{web.port}", "private", "--hostname", "private.town.example")
        said = until(lambda: re.search(r"^TLS with https://127.0.0.1:\d+ fails, visitors get an error: (.+)$", e.log(), re.M),
                     10, e.log()[-1000:]).group(1)
        assert re.search("issuer|trust|signer|chain|self", said), said
        until(lambda: "->" in e.log(), 20)
        # The probe of expose still asks: a visitor's request is shown all the same.
        until(lambda: visit(town, "private.town.example", "/cart")[0] in (502, 503) and
              re.search(rf"GET +/cart +502 +[\d.]+ ms  origin_tls_failed 127.0.0.1:{web.port}  id ", e.log()), 20)
        assert not re.search(r"(CONNECT|TCP) .* 200 ", e.log()) and " bytes in" not in e.log()
        e.stop()
        both = tmp_path / "both.pem"  # what is published is everybody's to read
        both.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
        e = expose(f"https://127.0.0.1:{web.port}", "private", "--ca", str(both), "--no-verify")
        until(lambda: "->" in e.log(), 20)
        until(lambda: visit(town, "private.town.example") == (200, "secure"), 20, e.log()[-1000:])
        assert e.log().count("fails, visitors get") <= 1  # of the run before, in the same file
        written = edge.api("/apis/networking.datumapis.com/v1alpha/namespaces/default/httpproxies/private")
        assert "BEGIN CERTIFICATE" in written and "PRIVATE KEY" not in written
    finally:
        web.close()


class PlainWeb(Echo):
    def _one(self, conn):
        with conn:
            if conn.recv(65536):
                conn.sendall(self.label)


def test_a_service_that_starts_later(town, expose):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    web = PlainWeb(town["home1"], answer)
    web.close()
    e = expose(f"http://127.0.0.1:{web.port}", "later", "--hostname", "later.town.example", "--rm")
    until(lambda: f"Nothing answers at http://127.0.0.1:{web.port}: " in e.log(), 20, what=e.log)
    assert visit(town, "later.town.example")[0] == 502 and "answers now" not in e.log()
    web = PlainWeb(town["home1"], answer, port=web.port)
    try:
        until(lambda: f"http://127.0.0.1:{web.port} answers now" in e.log(), 20, what=e.log)
        assert visit(town, "later.town.example")[0] == 200
    finally:
        web.close()


def test_a_service_that_speaks_no_tls(town, expose):
    plain = PlainWeb(town["home1"], b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    try:
        e = expose(f"https://127.0.0.1:{plain.port}", "plain", "--hostname", "plain.town.example", "--no-verify", "--rm")
        until(lambda: "->" in e.log(), 20)
        until(lambda: visit(town, "plain.town.example")[0] in (502, 503) and "origin_speaks_no_tls" in e.log(), 20)
        until(lambda: "TLS with https://127.0.0.1" in e.log(), 10)
    finally:
        plain.close()


def test_bad_use(binary):
    def run(*argv):
        done = subprocess.run([binary, "expose", *argv], capture_output=True, text=True, timeout=guard(20), check=False)
        return done.returncode, done.stderr
    for argv, said in ((("3000", "--port", "20000"), "--port is for a tcp://"),
                       (("3000", "--tls-name", "x.y"), "--tls-name is for a tcp://"),
                       (("tcp://127.0.0.1:1", "--hostname", "x.y"), "--hostname is not for a tcp://"),
                       (("tcp://127.0.0.1:1", "--https-redirect"), "--https-redirect is not for a tcp://"),
                       (("tcp://127.0.0.1:1", "--port", "1", "--tls-name", "x.y"), "exclude each other"),
                       (("tcp://127.0.0.1",), "tcp://HOST:PORT"), (("tcp://127.0.0.1:1/x",), "tcp://HOST:PORT"),
                       (("3000", "--ca", "/dev/null"), "--ca is for an https://")):
        code, text = run(*argv)
        assert code == 64 and said in text, (argv, code, text)
