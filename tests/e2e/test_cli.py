# SPDX-License-Identifier: Apache-2.0
"""Bad input at start: one clear line, exit status 1, nothing half-started. And 'cert'."""
import http.server
import json
import os
import re
import socket
import subprocess
import threading

import pytest
from cryptography import x509
from harness import certs, traffic
from harness.node import Node
from harness.wait import guard, until


def run_node(mesh, *flags, env=None, ns=None):
    """Runs a node that is expected to fail; returns (status, stderr)."""
    ns = ns or mesh.topo.nodes["node1"]
    with ns.entered():
        done = subprocess.run([mesh.binary, "node", *flags], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=guard(60),
                              env={"PATH": os.environ["PATH"], **(env or {})}, check=False)
    return done.returncode, done.stderr


def check_fails(mesh, *flags, says=(), env=None, ns=None):
    status, err = run_node(mesh, *flags, env=env, ns=ns)
    lines = err.strip().splitlines()
    assert status == 1, (status, err)
    assert len(lines) == 1, f"one line, not:\n{err}"
    assert lines[0].startswith("spanwire: "), err
    for text in says:
        assert text.lower() in lines[0].lower(), f"{text!r} not in {lines[0]!r}"
    assert nothing_listens(mesh)
    return lines[0]


def nothing_listens(mesh):
    for ns in (mesh.topo.nodes["node1"], mesh.c1, mesh.s1):
        out = ns.run("ss", "-Htln")
        assert ":150" not in out, out
    return True


@pytest.fixture
def good(mesh):
    """Flags that would start a node."""
    mesh.world.write()
    return ["--node-name", "node1", "--local-xds", str(mesh.world.path), "--local-ca",
            str(mesh.ca.dir), "--pod", f"{mesh.c1.workload}={mesh.c1.path}"]


def replaced(flags, name, value):
    out = list(flags)
    out[out.index(name) + 1] = str(value)
    return out


@pytest.mark.parametrize("text, says", [
    ("workloads: [\n  {", ["line"]),
    ("workloads:\n  - name: x\n bad", ["line"]),
    ("workloadz: []\n", ["unknown key", "workloadz", "line 1", "column 1"]),
    ("workloads:\n  - workloadIps: [10.0.0.1]\n    namespace: a\n    services: {}\n"
     "    nam: x\n", ["unknown key", "nam", "line 5", "column 5"]),
    ("workloads:\n  - name: x\n", ["line 2"]),
    ("workloads:\n  - workloadIps: [10.0.0.300]\n    namespace: a\n    services: {}\n",
     ["10.0.0.300", "line 2"]),
    ("workloads:\n  - workloadIps: [10.0.0.1]\n    namespace: a\n    services: {}\n"
     "    protocol: QUIC\n", ["QUIC", "line 5"]),
    ("services:\n  - name: a\n    namespace: b\n    hostname: c\n    vips: [nonsense]\n"
     "    ports: {80: 80}\n", ["nonsense", "line 5"]),
    ("services:\n  - name: a\n    namespace: b\n    hostname: c\n    vips: []\n"
     "    ports: {80: 99999}\n", ["line 6"]),
    ("policies:\n  - name: a\n    namespace: b\n    scope: Global\n    action: Maybe\n"
     "    rules: []\n    dryRun: false\n", ["Maybe", "line 5"]),
    ("- a\n- b\n", ["line 1"]),
    ("a: &x [*x]\n", ["line 1"]),
    ("\x00\x01", []),
], ids=["unfinished", "indent", "unknown-key", "unknown-nested-key", "missing-key", "bad-ip",
        "bad-enum", "bad-vip", "bad-port", "bad-action", "not-a-map", "recursion", "binary"])
def test_malformed_yaml(mesh, good, text, says):
    path = mesh.dir / "bad.yaml"
    path.write_text(text)
    line = check_fails(mesh, *replaced(good, "--local-xds", path), says=says)
    assert "bad.yaml" in line


def test_missing_yaml(mesh, good):
    check_fails(mesh, *replaced(good, "--local-xds", "/nowhere/x.yaml"),
                says=["/nowhere/x.yaml", "no such file"])


def test_inline_and_file_at_once(mesh, good):
    check_fails(mesh, *good, env={"LOCAL_XDS": "workloads: []"}, says=["LOCAL_XDS"])


def test_port_in_use(mesh, good):
    taken = mesh.keep(traffic.listen(mesh.c1, ("0.0.0.0", 15006)))
    status, err = run_node(mesh, *good)
    assert status == 1 and len(err.strip().splitlines()) == 1
    assert "15006" in err and "in use" in err.lower()
    taken.close()
    nothing_listens(mesh)


@pytest.mark.parametrize("port", [15000, 15020, 15021])
def test_admin_port_in_use(mesh, good, port):
    taken = mesh.keep(traffic.listen(mesh.topo.nodes["node1"], ("0.0.0.0", port)))
    status, err = run_node(mesh, *good)
    taken.close()
    assert status == 1 and len(err.strip().splitlines()) == 1
    assert str(port) in err and "in use" in err.lower()
    nothing_listens(mesh)


def test_missing_namespace(mesh, good):
    check_fails(mesh, *replaced(good, "--pod", "default/c1/c1=/run/netns/missing"),
                says=["/run/netns/missing", "no such file"])


def test_namespace_that_is_a_plain_file(mesh, good):
    path = mesh.dir / "file"
    path.write_text("")
    check_fails(mesh, *replaced(good, "--pod", f"default/c1/c1={path}"), says=[str(path)])


def test_missing_authority(mesh, good):
    check_fails(mesh, *replaced(good, "--local-ca", "/nowhere"), says=["/nowhere"])


def test_unreadable_key(mesh, good):
    """Root may read anything, so the key is made unreadable by what is in it too."""
    directory = mesh.dir / "ca"
    directory.mkdir()
    for path in mesh.ca.dir.iterdir():
        data = path.read_bytes()
        if b"PRIVATE KEY" in data:
            data = b"not a key\n"
        (directory / path.name).write_bytes(data)
    check_fails(mesh, *replaced(good, "--local-ca", directory), says=["key"])
    for path in directory.iterdir():
        if b"not a key" in path.read_bytes():
            path.unlink()
    check_fails(mesh, *replaced(good, "--local-ca", directory), says=["key"])


def test_key_of_another_certificate(mesh, good, binary):
    other = certs.Authority(binary, mesh.dir / "other")
    directory = mesh.dir / "mixed"
    directory.mkdir()
    for path in mesh.ca.dir.iterdir():
        data = path.read_bytes()
        source = other.dir if b"PRIVATE KEY" in data else mesh.ca.dir
        (directory / path.name).write_bytes((source / path.name).read_bytes())
    check_fails(mesh, *replaced(good, "--local-ca", directory))


@pytest.mark.parametrize("flags, says", [
    (["--nonsense"], ["--nonsense"]),
    (["--mode", "sideways"], ["sideways"]),
    (["--workers", "many"], ["many"]),
    (["--workers", "-1"], ["-1"]),
    (["--drain", "soon"], ["soon"]),
    (["--log-format", "xml"], ["xml"]),
    (["--log-level", "info=nothing=x"], ["info=nothing=x"]),
    (["--aead", "rot13"], ["rot13"]),
    (["--packet-mark", "x"], ["x"]),
    (["--pod", "just-a-name"], ["just-a-name"]),
    (["--pod", "a/b=/run/netns/c1"], ["a/b"]),
    (["--admin-addr", "localhost:notaport"], ["notaport"]),
    (["--enforce-waypoint", "perhaps"], ["perhaps"]),
    (["--secret-ttl", "-5s"], ["-5s"]),
    (["--listen-ip", "300.1.1.1"], ["300.1.1.1"]),
    (["--pool-max-streams", "0"], ["0"]),
    (["--drain"], ["--drain"]),
    (["stray"], ["stray"]),
])
def test_bad_flags(mesh, good, flags, says):
    check_fails(mesh, *good, *flags, says=says)


def test_bad_environment(mesh, good):
    check_fails(mesh, *good, env={"CONNECTION_TERMINATION_DEADLINE": "never"},
                says=["CONNECTION_TERMINATION_DEADLINE", "never"])


def test_dedicated_needs_its_workload(mesh, good):
    flags = good[:good.index("--pod")] + ["--mode", "dedicated"]
    check_fails(mesh, *flags, says=["workload"])
    check_fails(mesh, *flags, "--workload", "only/two", says=["only/two"])


def test_version_and_help(binary):
    for argv, text in ((["version"], "spanwire"), (["help"], "node"), (["node", "--help"],
                                                                       "--local-xds")):
        done = subprocess.run([binary, *argv], capture_output=True, text=True, timeout=guard(60),
                              check=False)
        assert done.returncode == 0 and text in done.stdout + done.stderr


def test_unknown_command(binary):
    done = subprocess.run([binary, "frobnicate"], capture_output=True, text=True, timeout=guard(60),
                          check=False)
    assert done.returncode == 1 and "frobnicate" in done.stderr


def test_config_file(mesh, good):
    """--config is the last to be asked."""
    path = mesh.dir / "node.yaml"
    path.write_text("local-ca: /nowhere\nlog-format: json\n")
    node = mesh.shared("node1", "--config", str(path))
    assert node.log().startswith("{")


# -- cert -------------------------------------------------------------------------------------

def cert_run(binary, *argv):
    done = subprocess.run([binary, "cert", *argv], capture_output=True, text=True, timeout=guard(60),
                          check=False)
    return done.returncode, done.stdout, done.stderr


def test_cert_ca_and_issue(binary, tmp_path):
    directory = tmp_path / "ca"
    assert cert_run(binary, "ca", "--dir", str(directory), "--trust-domain", "td.example")[0] == 0
    for path in directory.iterdir():
        if b"PRIVATE KEY" in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, "keys are for their owner only"
    identity = "spiffe://td.example/ns/a/sa/b"
    prefix = str(tmp_path / "leaf")
    assert cert_run(binary, "issue", "--dir", str(directory), "--id", identity, "--out", prefix,
                    "--ttl", "90m")[0] == 0
    assert os.stat(prefix + ".key").st_mode & 0o077 == 0
    with open(prefix + ".crt", "rb") as f:
        leaf = x509.load_pem_x509_certificate(f.read())
    assert certs.spiffe_ids(leaf) == [identity]
    assert 80 * 60 <= (leaf.not_valid_after - leaf.not_valid_before).total_seconds() <= 100 * 60
    san = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert san.critical and len(leaf.subject.rdns) == 0
    status, out, _ = cert_run(binary, "show", prefix + ".crt")
    assert status == 0 and identity in out


def test_cert_ca_makes_parents(binary, tmp_path):
    status, _, err = cert_run(binary, "ca", "--dir", str(tmp_path / "a/b/ca"))
    assert status == 0, err
    assert (tmp_path / "a/b/ca/root.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    status, _, err = cert_run(binary, "ca", "--dir", str(tmp_path / "file/ca"))
    assert status == 1 and f"cannot make directory '{tmp_path}/file/ca'" in err


def test_cert_issue_is_verified_by_openssl(mesh):
    cert = mesh.ca.issue("spiffe://cluster.local/ns/a/sa/b")
    done = subprocess.run(["openssl", "verify", "-CAfile", mesh.ca.root, cert.crt],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("argv", [
    [], ["frob"], ["ca"], ["issue", "--dir", "/nowhere", "--id", "spiffe://a/ns/b/sa/c",
                           "--out", "/tmp/x"],
    ["show"], ["show", "/nowhere.crt"], ["show", "/proc/self/status"],
])
def test_cert_bad_input(binary, argv):
    status, _, err = cert_run(binary, *argv)
    assert status == 1 and err.startswith("spanwire: ")
    assert "Sanitizer" not in err


@pytest.mark.parametrize("identity", ["", "x", "http://cluster.local/ns/a/sa/b",
                                      "spiffe://cluster.local/ns/a", "spiffe:///ns/a/sa/b",
                                      "spiffe://other.domain/ns/a/sa/b"])
def test_cert_bad_identity(mesh, identity):
    status, _, err = cert_run(mesh.binary, "issue", "--dir", str(mesh.ca.dir), "--id", identity,
                              "--out", str(mesh.dir / "x"))
    assert status == 1 and err.startswith("spanwire: ")
    assert not (mesh.dir / "x.key").exists()


def test_cert_ca_is_not_overwritten(mesh):
    before = {p: p.read_bytes() for p in mesh.ca.dir.iterdir()}
    assert cert_run(mesh.binary, "ca", "--dir", str(mesh.ca.dir))[0] == 1
    assert {p: p.read_bytes() for p in mesh.ca.dir.iterdir()} == before


# -- two nodes without any privilege ----------------------------------------------------------

def test_two_dedicated_nodes_on_loopback(mesh):
    """No namespaces, no redirection: --listen-ip and SOCKS5, as 'make run' does it."""
    ns = mesh.topo.outside
    mesh.world.workload("alice", ["127.0.0.2"], node="n")
    mesh.world.workload("bob", ["127.0.0.3"], node="n")
    mesh.world.write()
    base = ["--local-xds", str(mesh.world.path), "--local-ca", str(mesh.ca.dir), "--mode",
            "dedicated", "--node-name", "n", "--orig-src", "false", "--socks5", "--drain", "1s"]
    for i, (name, ip) in enumerate((("alice", "127.0.0.2"), ("bob", "127.0.0.3"))):
        node = Node(mesh.binary, ns, name, str(mesh.dir / f"{name}.log"),
                    [*base, "--workload", f"default/{name}/{name}", "--listen-ip", ip],
                    offset=200 + 100 * i)
        mesh.nodes.append(node)
        node.wait_ready()
    mesh.keep(traffic.EchoServer(ns, ("127.0.0.3", 9000)))
    sock = mesh.keep(traffic.connect(ns, ("127.0.0.2", 15080)))
    sock.sendall(b"\5\1\0")
    assert traffic.read_exact(sock, 2) == b"\5\0"
    sock.sendall(b"\5\1\0\1" + socket.inet_aton("127.0.0.3") + (9000).to_bytes(2, "big"))
    assert traffic.read_exact(sock, 10)[:2] == b"\5\0"
    traffic.echo_once(sock)
    sock.close()
    alice = mesh.nodes[0]
    until(lambda: alice.access(direction="outbound"), 5)
    assert alice.access(direction="outbound")[-1]["dst.addr"] == "127.0.0.3:15008"


HOSTILE = "no\x1b]0;title\x07\x1b[2J\u009b31m\x7f"


@pytest.mark.parametrize("args", [("status",), ("token", "list"), ("uninstall",), ("expose", "8080")], ids=lambda a: a[0])
def test_text_of_the_api_does_not_control_the_terminal(binary, tmp_path, args):
    """Messages of an API, and what is in objects of others, reach the terminal without what it would obey."""
    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": HOSTILE}).encode()
            self.send_response(403)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_PATCH = do_GET  # pylint: disable=invalid-name

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                                      "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                                      "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                                      "users": [{"name": "u", "user": {"token": "x"}}]}))
        options = ["--data", str(tmp_path / "data"), "--bind", "127.0.0.1:0"] if args[0] == "expose" else []
        process = subprocess.Popen([binary, *args, "--kubeconfig", str(config), *options], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        timer = threading.Timer(3 if options else 20, process.terminate)
        timer.start()
        shown = process.communicate(timeout=40)[0].decode()
        timer.cancel()
        server.shutdown()
    assert "no?]0;title" in shown or "no ]0;title" in shown, shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown), repr(shown)
