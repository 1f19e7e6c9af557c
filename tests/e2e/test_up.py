# SPDX-License-Identifier: Apache-2.0
"""'spanwire up': the first five minutes, and what happens when parts of it die."""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from harness.control import _Here, find_kubectl, needs_kubectl
from harness.node import Process
from harness.ports import free_port, free_run
from harness.wait import guard, until


# 80 and 443 become ports below those of free_port() and of the kernel, each start's its own.
OFFSETS = itertools.count(17000 - 80)


SECOND = "second.demo.localhost"
ROLES = {"control", "relay", "sidecar", "gateway", "expose"}
SECOND_ROLES = {"link", "second-control", "second-link"}


class Up(Process):
    def __init__(self, binary, where, *flags, wait=True, base=None):
        self.data = pathlib.Path(where) / "data"
        self.offset = next(OFFSETS)
        self.base = base or free_run(64 + 10)
        self.imported = self.base + 64
        self.api = free_port()
        super().__init__(_Here(), [
            binary, "up", "--data", str(self.data), "--listen", f"127.0.0.1:{self.api}",
            "--port-offset", str(self.offset), "--port-base", str(self.base), "--relay-listen",
            f"127.0.0.1:{free_port()}", "--import-port", str(self.imported), *flags], pathlib.Path(where) / f"up-{self.api}.log")
        if wait:
            until(self.ready, 30, "up")

    def ready(self):
        assert self.alive, self.log()
        return "Try next" in self.log()

    def children(self):
        out = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.pid)],
                             capture_output=True, text=True, check=False).stdout
        found = {}
        for line in out.splitlines():
            m = re.match(r"\s*(\d+) spanwire (\w+)", line)
            if m:
                second = re.search(r"--(data|site) \S*/data/second", line)
                found[("second-" if second else "") + m.group(2)] = int(m.group(1))
        return found

    def get(self, path="/api/hello", host="demo.localhost"):
        ask = urllib.request.Request(f"http://127.0.0.1:{80 + self.offset}{path}",
                                     headers={"Host": host})
        with urllib.request.urlopen(ask, timeout=guard(10)) as answer:
            return json.loads(answer.read())

    def serves(self, host="demo.localhost", hello="from the device"):
        try:
            return self.get(host=host)["hello"] == hello
        except (urllib.error.URLError, ConnectionError, socket.timeout, TimeoutError):
            return False

    def second_serves(self):
        assert self.alive, self.log()
        return self.serves(SECOND, "from the second site")

    def kubectl(self, *argv, **kw):
        return subprocess.run([find_kubectl(), "--kubeconfig", str(self.data / "admin.kubeconfig"), *argv],
                              capture_output=True, text=True, timeout=guard(60), check=False, **kw)

    def stop(self):
        self.signal(signal.SIGINT)
        status = self.wait(30)
        assert status == 0, self.log()


@pytest.fixture
def up(topology, binary, tmp_path):
    del topology
    u = Up(binary, tmp_path, "--demo")
    yield u
    if u.alive:
        u.stop()


def test_the_demo_is_served(up):
    assert "demo.localhost" in up.log() and "admin.kubeconfig" in up.log()
    until(up.serves)
    assert re.search(r"spanwire is up \([\d.]+ s\)", up.log())
    until(lambda: set(up.children()) == ROLES | SECOND_ROLES)


@needs_kubectl
def test_kubectl_lists_the_demo(up):
    done = up.kubectl("get", "httpproxies,connectors", "-A")
    assert done.returncode == 0 and "demo" in done.stdout, (done.stdout, done.stderr)


def test_what_it_prints_works_as_printed(topology, binary, tmp_path):
    """In a new shell, from another directory, with a name of the state's directory that a shell would split."""
    del topology
    where = tmp_path / "it's here"
    where.mkdir()
    up = Up(binary, where)
    try:
        lines = re.findall(r"(?m)^  (\S.*)$", up.log()[up.log().index("Try next"):])
        exports = [line for line in lines if line.startswith("export ")]
        assert [e.split("=")[0] for e in exports] == ["export PATH", "export KUBECONFIG"]
        status = next(line for line in lines if line.startswith("spanwire status"))
        expose = next(line for line in lines if line.startswith("spanwire expose")).split("#")[0]
        kubectl = [line for line in lines if line.startswith("kubectl") and find_kubectl()]
        for line in (status, *kubectl, expose + " --timeout 30s & pid=$!; wait_for_url; kill -INT $pid; wait $pid"):
            script = "\n".join([
                "wait_for_url() { until grep -q '^http.*->' out; do kill -0 $pid || return 1; sleep 0.1; done; }", *exports,
                line.replace("& pid", ">out 2>&1 & pid")])
            done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=guard(60),
                                  env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=False)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
    finally:
        up.stop()


def test_the_path_is_not_printed_where_it_is_known(topology, binary, tmp_path, monkeypatch):
    del topology
    monkeypatch.setenv("PATH", f"{os.path.dirname(os.path.realpath(binary))}:{os.environ['PATH']}")
    up = Up(binary, tmp_path)
    try:
        assert "export KUBECONFIG=" in up.log() and "export PATH=" not in up.log()
    finally:
        up.stop()


@needs_kubectl
def test_objects_name_backends_of_this_machine_but_not_the_fabric(up, web):
    def backend(name, port):
        return f"""
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: mine}}]
  hostnames: [{name}.localhost]
  rules: [{{backendRefs: [{{name: {name}, port: 80}}]}}]
---
"""
    done = up.kubectl("apply", "-f", "-", input=backend("web", web.port) + backend("inside", up.base) +
                      backend("api", up.api) + backend("imported", up.imported) + """
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: mine}
spec:
  gatewayClassName: spanwire
  listeners: [{name: http, protocol: HTTP, port: 80}]
""")
    assert done.returncode == 0, done.stderr

    def status(host, path="/", port=80 + up.offset, **headers):
        ask = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host, **headers})
        try:
            with urllib.request.urlopen(ask, timeout=guard(10)) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code
    until(lambda: status("web.localhost", "/hello") == 200, 10, "a backend on loopback")
    until(up.second_serves, 30)
    for host in ("inside.localhost", "api.localhost", "imported.localhost"):
        until(lambda h=host: status(h, "/config_dump") == 503, 10, f"{host} to be denied")
    token = (up.data / "run" / "admin.token").read_text(encoding="ascii").strip()
    assert status("localhost", "/config_dump", up.base) == 401
    assert status("localhost", "/config_dump", up.base, Authorization=f"Bearer {token}") == 200


def test_every_role_has_ports_of_its_own(up):
    until(up.second_serves, 30)
    children = set(up.children().values()) | {up.pid}
    out = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    owners = {}
    for line in out.splitlines():
        at = line.split()[3]
        for pid in {int(p) for p in re.findall(r"pid=(\d+)", line)} & children:
            owners.setdefault(at, set()).add(pid)
            assert at.startswith("127.0.0.1:"), line
    assert len(owners) > 20, out
    assert not {at: who for at, who in owners.items() if len(who) > 1}, out


@pytest.mark.parametrize("role", sorted(ROLES | SECOND_ROLES))
def test_a_killed_role_comes_back(up, role):
    until(up.second_serves, 30, "the second site")
    old = up.children()[role]
    os.kill(old, signal.SIGKILL)
    until(lambda: up.children().get(role) not in (None, old), 10, f"{role} to be started again")
    until(up.serves, 30, f"the demo after {role} was killed", interval=0.1)
    until(up.second_serves, 30, f"the second site after {role} was killed", interval=0.1)
    until(lambda: f"{role} was ended by signal 9" in up.log(), 5)


@needs_kubectl
def test_nothing_is_lost_when_everything_is_killed(up, binary, tmp_path):
    done = up.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    assert done.returncode == 0, done.stderr
    children = up.children()
    up.kill()

    def runs(pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                return "spanwire" in f.read()
        except OSError:  # ended, perhaps between the two calls
            return False
    until(lambda: not any(map(runs, children.values())), 15, "the roles to end with their parent")
    again = Up(binary, tmp_path, "--demo")
    try:
        until(again.serves)
        until(again.second_serves, 30, "the second site, on other ports now")
        done = again.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}")
        assert done.stdout == "b", done
    finally:
        again.stop()


def test_ctrl_c_ends_everything(up):
    children = until(lambda: len(up.children()) == 8 and up.children(), 30)
    up.stop()
    assert children and not any(os.path.exists(f"/proc/{pid}") for pid in children.values())


def test_a_port_in_use_is_said(topology, binary, tmp_path):
    del topology
    base = free_run(64)
    with socket.create_server(("127.0.0.1", base + 12)):  # where xDS would listen
        u = Up(binary, tmp_path, wait=False, base=base)
        assert u.wait(30) == 1
    assert "control ended with status 1" in u.log() and "in use" in u.log(), u.log()


def test_a_port_of_the_gateway_in_use_is_said(topology, binary, tmp_path):
    """The gateway itself would try on and on, and the demo never answer."""
    del topology
    for port, what in ((8080, "HTTP"), (8443, "HTTPS")):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
            done = subprocess.run([binary, "up", "--demo", "--data", str(tmp_path / "x")], text=True,
                                  capture_output=True, timeout=guard(60), check=False)
        assert done.returncode == 1
        assert f"127.0.0.1:{port} is in use, and the gateway serves {what} there" in done.stderr, done.stderr


def test_one_directory_one_fabric(up, binary, tmp_path):
    second = Up(binary, tmp_path, wait=False)
    assert second.wait(30) == 1
    assert "control ended with status 1" in second.log(), second.log()
    until(up.serves)


def test_without_the_demo_there_is_no_second_site(topology, binary, tmp_path):
    del topology
    u = Up(binary, tmp_path)
    try:
        assert set(u.children()) == ROLES - {"expose"} and "second" not in u.log()
        assert not (u.data / "second").exists() and not (u.data / "fabric").exists()
    finally:
        u.stop()


def test_a_port_of_the_second_site_in_use_is_said(topology, binary, tmp_path):
    del topology
    base = free_run(64 + 10)
    for port, what in ((base + 51, "the second site's API is there (see --port-base)"),
                       (base + 64, "the demo's Import is there (see --import-port)")):
        with socket.create_server(("127.0.0.1", port)):
            u = Up(binary, tmp_path, "--demo", wait=False, base=base)
            assert u.wait(30) == 1
        assert f"127.0.0.1:{port} is in use, and {what}" in u.log(), u.log()
    for port, why in ((15090, "the data planes' own"), (base + 60, "among the ports from --port-base on")):
        u = Up(binary, tmp_path, "--demo", "--import-port", str(port), wait=False, base=base)
        assert u.wait(30) == 1 and why in u.log(), u.log()


def links(up, binary, *flags):
    return subprocess.run([binary, "status", "links", *flags], env={"KUBECONFIG": str(up.data / "admin.kubeconfig")},
                          capture_output=True, text=True, timeout=guard(30), check=False)


def test_the_second_site_is_served(up, binary):
    """Through the gateway, both links and both control planes; the first site's demo did not wait for it."""
    until(lambda: f"http://{SECOND}:{80 + up.offset}/" in up.log(), 30, "the URL")
    assert up.log().index("The demo is served at") < up.log().index("A second site exports a web app")
    status, page, _ = ask(up, "/", SECOND)
    assert status == 200 and "Hello from the second site" in page, page
    assert up.second_serves() and up.serves()
    for peer, flags in (("second", ()), ("home", ("--kubeconfig", str(up.data / "second" / "admin.kubeconfig")))):
        done = links(up, binary, *flags)
        assert done.returncode == 0 and re.search(rf"(?m)^{peer} .*PeerReachable yes", done.stdout), done
    # One authority for both; its key stays with the first.
    assert (up.data / "fabric" / "ca.pem").read_bytes() == (up.data / "second" / "fabric" / "ca.pem").read_bytes()
    assert not (up.data / "second" / "fabric" / "ca.key").exists()


def held(up, source="127.0.0.1"):
    """A connection to the Import; the gateway's address is its own."""
    c = http.client.HTTPConnection("127.0.0.1", up.imported, timeout=guard(10), source_address=(source, 0))
    c.connect()
    return c


def hello(c):
    c.request("GET", "/api/hello")
    return json.loads(c.getresponse().read())["hello"]


def test_the_second_site_is_for_the_gateway_only(up):
    until(up.second_serves, 30)
    with contextlib.closing(held(up)) as c:
        assert hello(c) == "from the second site"
    until(lambda: lines_with(up, "second-link", 'src.workload="default/gateway"'), what="the identity of the gateway")
    with pytest.raises((OSError, http.client.HTTPException)), contextlib.closing(held(up, "127.0.0.2")) as c:
        hello(c)  # unless the connection was reset before
    until(lambda: lines_with(up, "link", "127.0.0.2"), what="the line of the refusal")
    assert any("client has no attributes" in x for x in lines_with(up, "link", "127.0.0.2")), role_log(up, "link")


@needs_kubectl
def test_the_second_site_is_denied_as_printed(up, binary, tmp_path):
    """New connections are refused and open ones closed; a restart does not allow again what was denied."""
    until(lambda: "allows it again" in up.log(), 30, "the commands")
    delete, allow = (re.search(rf"(?m)^  kubectl ({verb} .*?) *#", up.log()).group(1).split() for verb in ("delete", "apply"))
    with contextlib.closing(held(up)) as c:
        assert hello(c) == "from the second site"
        done = up.kubectl(*delete)
        assert done.returncode == 0, done.stderr
        with contextlib.suppress(ConnectionResetError):
            assert c.sock.recv(1) == b""
    until(lambda: ask(up, "/", SECOND)[0] in (502, 503), 10, "the refusal")
    for reason in ("closed due to policy change: no access policy allows it", "peer 'second': no access policy allows it"):
        until(lambda r=reason: lines_with(up, "link", r), what=reason)
    assert up.serves()
    up.stop()
    again = Up(binary, tmp_path, "--demo")
    try:
        until(lambda: "second-link" in again.children(), 30)
        until(lambda: ask(again, "/", SECOND)[0] in (502, 503), 30, "the refusal after a restart")
        assert not again.second_serves()
        done = again.kubectl(*allow)
        assert done.returncode == 0, done.stderr
        until(again.second_serves, 30, "the policy that is back")
    finally:
        again.stop()


def reached(up):
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(held(up)) as c:
        return hello(c) == "from the second site"
    return False


def test_open_connections_outlive_the_second_control_plane(up):
    until(up.second_serves, 30)
    old = up.children()["second-control"]
    with contextlib.closing(held(up)) as c:
        assert hello(c) == "from the second site"
        local = c.sock.getsockname()
        os.kill(old, signal.SIGKILL)
        assert hello(c) == "from the second site"
        until(lambda: up.children().get("second-control") not in (None, old), 10)
        until(lambda: reached(up), 30, "a new connection")
        assert hello(c) == "from the second site" and c.sock.getsockname() == local, "the same connection"


def ask(up, path, host, accept="text/plain"):
    """Status, body and headers, whatever the status."""
    req = urllib.request.Request(f"http://127.0.0.1:{80 + up.offset}{path}", headers={"Host": host, "Accept": accept})
    try:
        with urllib.request.urlopen(req, timeout=guard(10)) as r:
            return r.status, r.read().decode(), r.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), e.headers
    except (urllib.error.URLError, ConnectionError, socket.timeout, TimeoutError) as e:
        return 0, str(e), {}


def role_log(up, role):
    return (up.data / "log" / f"{role}.log").read_text(encoding="utf-8")


def lines_with(up, role, what):
    return [line for line in role_log(up, role).splitlines() if what in line]


def test_a_failed_request_is_followed_by_its_id(topology, binary, tmp_path):
    """From the page of the visitor to the logs of gateway, sidecar and device, and what `expose` shows."""
    del topology
    u = Up(binary, tmp_path, "--log-format", "json")
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))  # not listening: connections are refused
    e = Process(_Here(), [
        binary, "expose", str(dead.getsockname()[1]), "--hostname", "dead.localhost", "--name", "dead", "--data", str(tmp_path / "device"),
        "--kubeconfig", str(u.data / "admin.kubeconfig"), "--no-verify", "--log-level", "info", "--admin-addr", "127.0.0.1:0"],
        tmp_path / "expose.log")
    try:
        until(lambda: ask(u, "/", "dead.localhost")[0] == 502, 30, "the device to be asked")
        answers = {}

        def logged():  # at most ten such lines in a second; a thread writes them after the answer
            status, body, headers = ask(u, "/cart?a=1", "dead.localhost", "application/json")
            answers[headers["x-request-id"]] = (status, json.loads(body), headers)
            for ident, answer in answers.items():
                lines = [json.loads(x) for x in lines_with(u, "gateway", ident)]
                failed = [x for x in lines if x.get("message") == "request failed"]
                access = [x for x in lines if x.get("method") == "GET" and x not in failed]
                if failed and access:
                    return (*answer, failed, access)
            return None
        status, page, headers, failed, access = until(logged, 20, "the line of the failure", interval=0.3)
        ident = headers["x-request-id"]
        assert status == page["status"] == 502, page
        assert re.fullmatch(r"the device '\S+' is online, but its service does not answer", page["reason"]), page
        assert page["request_id"] == ident and headers["cache-control"] == "no-store"
        assert len(failed) == 1 and len(access) == 1, (failed, access)
        assert (failed[0]["host"], failed[0]["path"], failed[0]["reason"]) == ("dead.localhost", "/cart?a=1", "origin_unreachable")
        assert failed[0]["device"] == access[0]["device"] and f"'{failed[0]['device']}'" in page["reason"]
        assert (access[0]["host"], access[0]["status"]) == ("dead.localhost", 502)
        assert until(lambda: lines_with(u, "sidecar", ident), what="the sidecar's line")
        shown = until(lambda: [x for x in e.log().splitlines() if "/cart?a=1" in x and ident in x and " 502 " in x], what="the view")
        assert "GET" in shown[0] and "origin_unreachable" in shown[0], shown
        until(lambda: [x for x in e.log().splitlines() if "exchange ended" in x and ident in x], what="the device's line")

        e.signal(signal.SIGINT)
        e.wait(20)
        until(lambda: "is offline" in ask(u, "/", "dead.localhost")[1], 30, "the device to be offline")

        asked = []

        def away_logged():  # the log is written after the answer, by a thread of its own
            status, body, headers = ask(u, "/later", "dead.localhost", "text/html")
            assert status == 503 and re.search(r"the device &#39;\S+&#39; is offline", body), body
            asked.append(headers["x-request-id"])
            lines = [json.loads(x) for x in lines_with(u, "gateway", "request failed") if any(i in x for i in asked)]
            # The sidecar may know of it before the gateway has its new routes: then it is the one that says so.
            assert all(x["reason"] in ("offline", "connector-offline") for x in lines), lines
            return [x for x in lines if x["reason"] == "connector-offline"]
        away = until(away_logged, 20, "the line of the failure", interval=0.3)
        assert away[0]["device"] == failed[0]["device"]
        for role in ("gateway", "control", "sidecar", "relay"):
            for text in role_log(u, role).splitlines():
                json.loads(text)
    finally:
        dead.close()
        if e.alive:
            e.signal(signal.SIGKILL)
            e.wait(10)
        u.stop()


def test_lines_of_requests_can_be_turned_off(topology, binary, tmp_path):
    del topology
    u = Up(binary, tmp_path, "--demo", "--access-log=false")
    try:
        until(u.serves)
        u.get("/api/hello?seen=no")
        status, _, headers = ask(u, "/", "nobody.localhost")
        assert status == 404
        until(lambda: lines_with(u, "gateway", headers["x-request-id"]), what="the failed one")
        assert not lines_with(u, "gateway", "seen=no")
    finally:
        u.stop()


@needs_kubectl
def test_no_gateway_gets_a_port_of_the_fabric(up):
    """A listener on the API's port would be bound while control restarts, and control could not come back."""
    ports = {"api": up.api, "xds": up.base + 12, "free": free_port()}
    listeners = [{"name": name, "protocol": "TCP", "port": port} for name, port in ports.items()]
    done = up.kubectl("apply", "-f", "-", input=json.dumps({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "taker"},
        "spec": {"gatewayClassName": "spanwire", "listeners": listeners}}))
    assert done.returncode == 0, done.stderr

    def accepted():
        status = json.loads(up.kubectl("get", "gateway", "taker", "-o", "json").stdout).get("status", {})
        return {x["name"]: c["reason"] for x in status.get("listeners", []) for c in x["conditions"]
                if c["type"] == "Accepted"}
    assert until(lambda: len(accepted()) == 3 and accepted(), 15) == {
        "api": "PortUnavailable", "xds": "PortUnavailable", "free": "Accepted"}
