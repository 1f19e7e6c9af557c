# SPDX-License-Identifier: Apache-2.0
"""The C client, informer, leases, events and a controller against a live API server."""
import http.server
import json
import os
import pathlib
import signal
import ssl
import subprocess
import threading

import pytest
from harness.control import Control, _Here, config_map, loopback_up
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, SANITIZED, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"


def _control_works(binary):
    probe = subprocess.run([binary, "control", "--help"], capture_output=True, text=True, check=False)
    return probe.returncode == 0 and "--data" in probe.stdout


@pytest.fixture(scope="session")
def driver(binary):
    path = pathlib.Path(binary).parent / "tests/unit/control/kube_driver"
    if not _control_works(binary):
        pytest.skip(f"NO CLIENT TESTS: {binary} has no 'control' command")
    if not os.access(path, os.X_OK):
        pytest.skip(f"NO CLIENT TESTS: {path} is not built")
    return str(path)


@pytest.fixture
def api(binary, driver, tmp_path):
    del driver
    server = Control(binary, tmp_path / "control")
    yield server
    server.close()


class Driver(Process):
    """A running driver; its lines are read from a file as they come."""

    def __init__(self, path, api, log, *argv):
        self.out = log
        super().__init__(_Here(), [path, str(api.kubeconfig), *argv], log)

    def events(self):
        found = []
        for text in self.log().splitlines(keepends=True):
            if text.startswith("{") and text.endswith("}\n"):
                found.append(json.loads(text))
        return found

    def has(self, kind):
        return [e for e in self.events() if e.get("ev") == kind]

    def end(self):
        self.signal(signal.SIGTERM)
        status = self.wait(GUARD)
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]
        assert status == 0, self.log()[-3000:]


@pytest.fixture
def drive(driver, api, tmp_path):
    running = []

    def start(*argv):
        d = Driver(driver, api, tmp_path / f"driver{len(running)}.log", *argv)
        running.append(d)
        return d
    yield start
    for d in running:
        if d.alive:
            d.end()


def replay(events):
    """The store the handlers describe; fails on an impossible step."""
    state = {}
    for e in events:
        if e["ev"] == "add":
            assert e["key"] not in state, e
            state[e["key"]] = int(e["rv"])
        elif e["ev"] == "update":
            assert state[e["key"]] < int(e["rv"]), e
            state[e["key"]] = int(e["rv"])
        elif e["ev"] == "del":
            del state[e["key"]]
    return state


def current(api, path):
    items = api.get(path).json["items"]
    return {f"{i['metadata']['namespace']}/{i['metadata']['name']}": int(i["metadata"]["resourceVersion"])
            for i in items}


def test_all_verbs(drive):
    d = drive("verbs")
    assert d.wait(GUARD) == 0, d.log()
    got = d.events()
    assert [e["code"] for e in got] == [200, 201, 409, 200, 409, 200, 200, 200, 409, 200, 200, 409, 200, 404], got
    assert got[2]["reason"] == "AlreadyExists"
    assert got[4]["reason"] == "Conflict"
    assert got[6]["object"]["data"] == {"b": "2"}
    assert got[7]["object"]["metadata"]["labels"] == {"l": "v"}
    assert 'conflict with "driver"' in got[8]["message"]
    assert got[9]["object"]["data"] == {"b": "3"}
    assert [i["metadata"]["name"] for i in got[10]["object"]["items"]] == ["driver"]
    assert got[13]["reason"] == "NotFound"


@pytest.mark.parametrize("how", ["stream", "plain"])
def test_informer_follows(api, drive, how):
    for i in range(250):
        assert api.post(CMS, config_map(f"cm-{i:03}")).status == 201
    d = drive("informer", "", "v1", "configmaps", "1", *(["plain"] if how == "plain" else []))
    until(lambda: d.has("synced"), GUARD, "sync")
    until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps"), GUARD, "the server's own")
    base = len(d.events())
    assert len([e for e in d.events()[:[e["ev"] for e in d.events()].index("synced")]
                if e["key"].startswith("default/cm-")]) == 250
    for i in range(100):
        api.patch(f"{CMS}/cm-{i:03}", {"data": {"x": str(i)}})
    for i in range(50):
        api.delete(f"{CMS}/cm-{i:03}")
    until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps"), GUARD, "the changes")
    live = [e for e in d.events()[base:] if e["key"].startswith("default/cm-")]
    assert len(live) == 150
    revisions = [int(e["rv"]) for e in live]
    assert revisions == sorted(set(revisions))


def test_informer_survives_kills(api, drive):
    """Every change exactly once, in order, over restarts by force."""
    d = drive("informer", "", "v1", "configmaps", "1")
    until(lambda: d.has("synced"), GUARD, "sync")
    base = len(d.events())
    written = 0
    for round_ in range(4):
        for i in range(25):
            assert api.post(CMS, config_map(f"r{round_}-{i}")).status == 201
            written += 1
        api.restart(kill=round_ % 2 == 0)
        for i in range(10):
            assert api.delete(f"{CMS}/r{round_}-{i}").status == 200
            written += 1
    until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps"), GUARD, "the changes")
    live = [e for e in d.events()[base:] if e["key"].startswith("default/r")]  # not the server's own
    assert len(live) == written
    revisions = [int(e["rv"]) for e in live]
    assert revisions == sorted(set(revisions))


def test_informer_of_ten_thousand(api, drive):
    """While they are being written, by several clients at once."""
    total = 1000 if SANITIZED else 10000
    d = drive("informer", "", "v1", "configmaps", "1")

    def write(part):
        connection = api.connection(timeout=60)
        for i in range(part, total, 8):
            connection.request("POST", CMS, json.dumps(config_map(f"many-{i}")),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 201
        connection.close()
    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    until(lambda: len([1 for e in d.has("add") if e["key"].startswith("default/many-")]) == total, 4 * GUARD,
          "all of them", interval=0.5)
    state = replay(d.events())
    assert len([k for k in state if k.startswith("default/many-")]) == total
    late = drive("informer", "", "v1", "configmaps", "1", "plain")
    until(lambda: late.has("synced"), 2 * GUARD, "the pages", interval=0.2)
    assert replay(late.events()) == state


def test_informer_survives_compaction(binary, driver, tmp_path):
    """Stopped until more than any buffer on the way holds was written, and that too is gone from the log."""
    api = Control(binary, tmp_path / "control", "--keep-events", "20", "--keep-for", "1s")
    d = Driver(driver, api, tmp_path / "driver.log", "informer", "", "v1", "configmaps", "1")
    try:
        for i in range(20):
            assert api.post(CMS, config_map(f"cm-{i}")).status == 201
        until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps") and d.has("synced"), GUARD, "sync")
        d.signal(signal.SIGSTOP)
        big = "x" * 200_000
        revisions = []
        for i in range(200):
            answer = api.patch(f"{CMS}/cm-{i % 10}", {"data": {"n": str(i), "big": big}})
            assert answer.status == 200
            revisions.append(answer.json["metadata"]["resourceVersion"])
        for i in range(10, 15):
            assert api.delete(f"{CMS}/cm-{i}").status == 200
        assert api.delete(f"{CMS}/cm-0").status == 200
        assert api.post(CMS, config_map("cm-0")).status == 201  # another object of that name
        # 30 MB after the stop: what is on its way to it ends long before this one.
        gone = f"{CMS}?limit=1&resourceVersion={revisions[150]}&resourceVersionMatch=Exact"
        until(lambda: api.get(gone).status == 410, 2 * GUARD, "compaction", interval=1)
        seen = len(d.events())
        d.signal(signal.SIGCONT)
        until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps"), GUARD, "the changes")
        assert len(d.events()) - seen < 207, "nothing was skipped: the informer was never behind"
        assert api.post(CMS, config_map("after")).status == 201
        until(lambda: replay(d.events()) == current(api, "/api/v1/configmaps"), GUARD, "what came after")
        d.end()
    finally:
        d.signal(signal.SIGCONT)
        d.kill()
        api.close()


def test_leaders_change(api, drive):
    a = drive("lease", "default", "the-lease", "a", "3600")
    until(lambda: a.has("led"), GUARD, "a to lead")
    b = drive("lease", "default", "the-lease", "b")
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/the-lease"
    assert api.get(lease).json["spec"]["holderIdentity"] == "a"
    a.end()  # gives it back: nobody would live to see it expire
    until(lambda: b.has("led"), GUARD, "b to lead at once")
    c = drive("lease", "default", "the-lease", "c")
    b.kill()  # does not
    until(lambda: c.has("led"), GUARD, "c to lead after the lease expired")
    spec = api.get(lease).json["spec"]
    assert spec["holderIdentity"] == "c"
    assert spec["leaseTransitions"] >= 2
    # The API away for longer than the leader may go on without it.
    api.stop()
    until(lambda: c.has("lost"), GUARD, "c to stop leading")


def test_trust_controller(api, drive, tmp_path):
    pem = tmp_path / "roots.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    first = drive("trust", str(pem), "trust", "one")
    second = drive("trust", str(pem), "trust", "two")

    def bundle(ns):
        answer = api.get(f"/api/v1/namespaces/{ns}/configmaps/spanwire-ca-root-cert")
        return answer.json["data"].get("root-cert.pem") if answer.status == 200 else None
    until(lambda: bundle("default") == pem.read_text(), GUARD, "the bundle in 'default'")
    ns = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
    assert api.post("/api/v1/namespaces", ns).status == 201
    until(lambda: bundle("late"), GUARD, "the bundle in a new namespace")
    path = "/api/v1/namespaces/late/configmaps/spanwire-ca-root-cert"
    assert api.patch(path, {"data": {"root-cert.pem": "broken", "mine": "stays"}}).status == 200
    until(lambda: bundle("late") == pem.read_text(), GUARD, "repair")
    assert api.get(path).json["data"]["mine"] == "stays"
    assert api.delete(path).status == 200
    until(lambda: bundle("late"), GUARD, "restoration")
    # The other one takes over.
    holder = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trust").json["spec"]["holderIdentity"]
    (first if holder == "one" else second).end()
    api.delete(path)
    until(lambda: bundle("late"), GUARD, "the successor's work")
    # A namespace that goes is let go.
    assert api.delete("/api/v1/namespaces/late").status == 200
    until(lambda: api.get("/api/v1/namespaces/late").status == 404, GUARD, "the namespace to go")


def test_events_are_counted(api, drive):
    assert api.post(CMS, config_map("subject")).status == 201
    drive("event", "default", "subject", "7")

    def found():
        items = api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dsubject").json["items"]
        return [e for e in items if e["reason"] == "Tested"]
    until(lambda: found() and found()[0]["count"] == 7, GUARD, "seven in one")
    assert len(found()) == 1
    assert found()[0]["source"] == {"component": "driver"}


def _openssl(*argv, cwd):
    subprocess.run(["openssl", *argv], cwd=cwd, check=True, capture_output=True)


class _Foreign(http.server.BaseHTTPRequestHandler):
    """Refuses everything but shows who asked."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802
        subject = dict(x[0] for x in self.connection.getpeercert()["subject"])
        body = json.dumps({"user": subject["commonName"], "tls": self.connection.version()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):  # noqa: N802
        self.send_error(403)

    do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, *args):  # noqa: D102
        pass


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("name", ["127.0.0.1", "127.0.0.2"])
def test_tls_of_another_make(driver, tmp_path, version, name):
    """OpenSSL with RSA certificates on the other side, as a cluster would have; and a wrong name."""
    loopback_up()
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
             "-subj", "/CN=kubernetes", "-days", "2", cwd=tmp_path)
    for who, cn, ext in (("srv", "kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:kubernetes\n"
                          "extendedKeyUsage=serverAuth\n"), ("usr", "kubernetes-admin", "extendedKeyUsage=clientAuth\n")):
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{who}.key", "-out", f"{who}.csr",
                 "-subj", f"/O=system:masters/CN={cn}", cwd=tmp_path)
        (tmp_path / f"{who}.ext").write_text("basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n" + ext)
        _openssl("x509", "-req", "-in", f"{who}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                 "-days", "1", "-extfile", f"{who}.ext", "-out", f"{who}.crt", cwd=tmp_path)
    server = http.server.ThreadingHTTPServer((name, 0), _Foreign)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "srv.crt", tmp_path / "srv.key")
    context.load_verify_locations(tmp_path / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
              "clusters": [{"name": "x", "cluster": {"server": f"https://{name}:{server.server_address[1]}",
                                                     "certificate-authority": "ca.crt"}}],
              "users": [{"name": "x", "user": {"client-certificate": "usr.crt", "client-key": "usr.key"}}]}
    (tmp_path / "config").write_text(json.dumps(config))
    try:
        out = subprocess.run([driver, str(tmp_path / "config"), "verbs"], capture_output=True, text=True,
                             timeout=60 * SLOW, check=False)
    finally:
        server.shutdown()
        server.server_close()
    first = json.loads(out.stdout.splitlines()[0])
    assert out.returncode == 0, out.stderr
    if name == "127.0.0.1":
        assert first["code"] == 200
        assert first["object"] == {"user": "kubernetes-admin", "tls": version.replace("_", ".")}
        assert json.loads(out.stdout.splitlines()[1])["code"] == 403
    else:
        assert first["code"] == 0
        assert "is for '127.0.0.1', not for '127.0.0.2'" in first["message"]
