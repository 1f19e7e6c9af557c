# SPDX-License-Identifier: Apache-2.0
"""`spanwire expose`: one command from a port to a public name and back."""
import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness.control import Control
from harness.device import GROUP, LEASES, PROXIES, Device, Edge, ending
from harness.fabric import programmed
from harness.wait import SLOW, guard, until


@pytest.fixture(scope="module")
def control(binary, tmp_path_factory):
    with programmed(Control, binary, tmp_path_factory.mktemp("control"), "--connector-lease", "10s") as c:
        yield c


@pytest.fixture
def expose(binary, control, tmp_path):
    with ending() as note:
        yield lambda target, *flags, where="x", **kw: note(
            Device(binary, tmp_path / where, control.kubeconfig, *flags, command=("expose", str(target)), **kw))


def url_of(e, seconds=10):
    def found():
        assert e.alive, e.log()[-2000:]
        return re.search(r"^(https?://\S+)  ->  ", e.log(), re.M)
    return until(found, seconds, "the URL").group(1)


def events(e):
    whole = e.log().rpartition("\n")[0]  # the last line may not be finished
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]


def proxy(control, name):
    return control.get(f"{PROXIES}/{name}").json


def test_a_port_gets_a_name(control, expose, web):
    e = expose(web.port, "--name", "shop", "--label", "My shop", "--no-verify")
    url = url_of(e)
    p = proxy(control, "shop")
    assert url == f"http://{p['status']['canonicalHostname']}:8080/"
    assert p["metadata"]["annotations"]["app.kubernetes.io/name"] == "My shop"
    backend = p["spec"]["rules"][0]["backends"][0]
    assert backend == {"endpoint": f"http://127.0.0.1:{web.port}", "connector": {"name": "shop"}}
    advert = control.get(f"{GROUP}/connectoradvertisements/shop").json
    service = advert["spec"]["layer4"][0]["services"][0]
    assert service["address"] == "127.0.0.1" and service["ports"][0]["port"] == web.port
    assert until(lambda: e.status()["destinations"], 5) == [{"to": f"127.0.0.1:{web.port}", "from": "shop"}]
    # Ctrl-C: everything stays, and the same command takes it up again.
    e.signal(signal.SIGINT)
    assert e.wait() == 0
    assert "stays reserved" in e.log()
    uid = proxy(control, "shop")["metadata"]["uid"]
    generation = proxy(control, "shop")["metadata"]["generation"]
    again = expose(web.port, "--name", "shop", "--no-verify")
    assert url_of(again) == url
    assert (proxy(control, "shop")["metadata"]["uid"], proxy(control, "shop")["metadata"]["generation"]) == (
        uid, generation)


def test_the_name_is_made_of_machine_and_port(control, expose, web):
    e = expose(f"localhost:{web.port}", "--rm", "--no-verify")
    url_of(e)
    name = re.search(r"as '([a-z0-9-]+)'", e.log()).group(1)
    assert name.endswith(f"-{web.port}")
    e.stop()
    until(lambda: control.get(f"{PROXIES}/{name}").status == 404, 5)


def test_hostnames_are_kept_and_changed(control, expose, web):
    e = expose(web.port, "--name", "named", "--hostname", "a.example.test", "--no-verify")
    assert url_of(e) == "http://a.example.test:8080/"
    e.stop()
    e = expose(web.port, "--name", "named", "--no-verify")
    assert url_of(e) == "http://a.example.test:8080/"
    e.stop()
    e = expose(web.port, "--name", "named", "--hostname", "b.example.test", "--no-verify")
    assert url_of(e) == "http://b.example.test:8080/"
    assert proxy(control, "named")["spec"]["hostnames"] == ["b.example.test"]


def test_http_is_sent_to_https(control, expose, web):
    e = expose(web.port, "--name", "redirect", "--https-redirect", "--no-verify")
    assert re.fullmatch(r"https://\S+:8443/", url_of(e))
    rules = proxy(control, "redirect")["spec"]["rules"]
    assert rules[0]["filters"][0]["requestRedirect"] == {"scheme": "https", "port": 8443, "statusCode": 301}
    assert rules[0]["matches"][0]["headers"][0]["name"] == "x-forwarded-proto"
    assert rules[1]["backends"][0]["connector"] == {"name": "redirect"}
    e.stop()
    e = expose(web.port, "--name", "redirect", "--no-verify")
    url_of(e)
    assert len(proxy(control, "redirect")["spec"]["rules"]) == 1


def test_removed_at_the_end(control, expose, web):
    e = expose(web.port, "--name", "gone", "--rm", "--no-verify")
    url_of(e)
    assert control.get(f"{GROUP}/connectors/gone").status == 200
    e.signal(signal.SIGINT)
    assert e.wait() == 0
    assert "'gone' is removed" in e.log()
    until(lambda: control.get(f"{PROXIES}/gone").status == 404, 5)
    until(lambda: control.get(f"{GROUP}/connectoradvertisements/gone").status == 404)
    until(lambda: control.get(f"{GROUP}/connectors/gone").status == 404, 5)


def test_events_for_programs(control, expose, web):
    with Edge() as edge:
        e = expose(web.port, "--name", "events", "--json", "--rm", "--allow-gateway", edge.id, "--no-verify")
        ready = until(lambda: next((v for v in events(e) if v["event"] == "tunnel_ready"), None), 10)
        assert ready["id"] == "events" and ready["endpoint"] == f"http://127.0.0.1:{web.port}"
        assert ready["endpoint_id"] == e.id and ready["url"].endswith(":8080/")
        names = [v["event"] for v in events(e)]
        assert names[0] == "tunnel_created"
        steps = [v["step"] for v in events(e) if v["event"] == "tunnel_progress"]
        assert {"proxy_accepted", "connector_ready", "proxy_programmed"} <= set(steps)
        # Live requests, as a gateway sends them.
        edge.connect(e)
        stream = edge.tunnel("127.0.0.1", web.port)
        edge.send(stream, "GET /live?x=1 HTTP/1.1\r\nHost: pub.example\r\n\r\n")
        edge.recv(stream, "hello /live")
        seen = until(lambda: next((v for v in events(e) if v["event"] == "request"), None), 5)["request"]
        assert (seen["method"], seen["path"], seen["status"], seen["host"]) == ("GET", "/live?x=1", 200, "pub.example")
        assert seen["durationMs"] >= 0 and seen["peer"] == edge.id[:10]
        edge.op("drop")
        edge.event("dropped")
    e.stop()
    deleted = until(lambda: next((v for v in events(e) if v["event"] == "tunnel_deleted"), None), 10)
    assert {r["type"] for r in deleted["resources"]} == {"HTTPProxy", "ConnectorAdvertisement", "Connector"}


def test_requests_for_people(expose, web):
    with Edge() as edge:
        e = expose(web.port, "--name", "people", "--allow-gateway", edge.id, "--no-verify")
        url_of(e)
        edge.connect(e)
        until(lambda: e.status()["destinations"], 5)
        assert edge.ask(f"GET http://127.0.0.1:{web.port}/a%20b HTTP/1.1\r\nhost: 127.0.0.1:{web.port}\r\n\r\n")[0] == 200
        until(lambda: re.search(r"^\d\d:\d\d:\d\d  GET +/a%20b +200 +[\d.]+ ms$", e.log(), re.M), 5)


def test_a_name_of_another_device(control, expose, web):
    first = expose(web.port, "--name", "ours", "--no-verify", where="one")
    url_of(first)
    second = expose(web.port, "--name", "ours", "--no-verify", where="two")
    assert second.wait(20) == 1
    assert "another device" in second.log()
    assert first.alive
    # Two tunnels of two machines do not see each other.
    third = expose(web.port, "--name", "theirs", "--no-verify", where="three")
    assert url_of(third) != url_of(first)


def test_deleted_by_somebody_else(control, expose, web):
    e = expose(web.port, "--name", "fleeting", "--json", "--no-verify")
    until(lambda: any(v["event"] == "tunnel_ready" for v in events(e)), 10)
    control.delete(f"{PROXIES}/fleeting")
    assert e.wait(10) == 1
    assert any(v["event"] == "tunnel_deleted_upstream" for v in events(e))


def test_what_the_api_refuses_is_said(expose, web):
    e = expose(web.port, "--name", "bad", "--hostname", "*.example.test", "--no-verify")
    assert e.wait(20) == 64
    assert "wildcard" in e.log()


def test_a_hostname_in_use(control, expose, web):
    first = expose(web.port, "--name", "use-a", "--hostname", "used.example.test", "--no-verify", where="one")
    url_of(first)
    second = expose(web.port, "--name", "use-b", "--hostname", "used.example.test", "--no-verify", where="two")
    assert second.wait(20) == 1
    assert "used.example.test" in second.log()
    # What the run made goes again: an HTTPProxy that waits for the name would be a change. The holder's stays.
    left = (f"{PROXIES}/use-b", f"{GROUP}/connectors/use-b", f"{GROUP}/connectoradvertisements/use-b")
    until(lambda: [control.get(path).status for path in left] == [404] * 3)
    assert [control.get(path.replace("use-b", "use-a")).status for path in left] == [200] * 3
    url_of(first)


def test_a_taken_name_added_changes_nothing(control, expose, web):
    """The names of before stay claimed and served, and the rest of the object is as it was."""
    def available(name):
        return {h["hostname"]: next(c["reason"] for c in h["conditions"] if c["type"] == "Available")
                for h in proxy(control, name)["status"]["hostnameStatuses"]}

    holder = expose(web.port, "--name", "add-a", "--hostname", "held.example.test", "--no-verify", where="one")
    url_of(holder)
    first = expose(web.port, "--name", "add-b", "--hostname", "works.example.test", "--label", "before", "--no-verify",
                   where="two")
    url_of(first)
    first.stop()
    specs = [control.get(f"{at}/add-b").json["spec"] for at in (PROXIES, f"{GROUP}/connectoradvertisements")]
    claim = available("add-b")
    for names in (["works.example.test", "held.example.test"], ["held.example.test"]):
        flags = [part for name in names for part in ("--hostname", name)]
        again = expose(web.port + 1, "--name", "add-b", *flags, "--no-verify", where="two")
        assert again.wait(20) == 1
        assert "'held.example.test'" in again.log() and "removed" not in again.log()
        # The Lease is given back: gateways know at once that nobody is there.
        assert not control.get(f"{LEASES}/add-b").json["spec"].get("holderIdentity")
        assert [control.get(f"{at}/add-b").json["spec"]
                for at in (PROXIES, f"{GROUP}/connectoradvertisements")] == specs
        assert proxy(control, "add-b")["metadata"]["annotations"]["app.kubernetes.io/name"] == "before"
        until(lambda: available("add-b") == claim, 5)
    # As a run leaves it that is killed while it claims: what works is taken up without the name of the other.
    assert control.patch(f"{PROXIES}/add-b", {"spec": {"hostnames": ["works.example.test", "held.example.test"]}}).status == 200
    until(lambda: available("add-b").get("held.example.test") == "InUse", 5)
    resumed = expose(web.port, "--name", "add-b", "--no-verify", where="two")
    assert url_of(resumed) == "http://works.example.test:8080/"
    assert proxy(control, "add-b")["spec"]["hostnames"] == ["works.example.test"]
    assert "hostname 'held.example.test' left out" in resumed.log()
    resumed.stop()
    # A name that is free takes the place of the old one.
    moved = expose(web.port, "--name", "add-b", "--hostname", "moved.example.test", "--no-verify", where="two")
    assert url_of(moved) == "http://moved.example.test:8080/"
    assert proxy(control, "add-b")["spec"]["hostnames"] == ["moved.example.test"]


def test_a_run_that_is_killed_while_it_claims(control, expose, web):
    """What worked before works again by the command of before, whether the verdict on the new name is there or not."""
    url_of(expose(web.port, "--name", "kill-a", "--hostname", "kept.example.test", "--no-verify", where="one"))
    first = expose(web.port, "--name", "kill-b", "--hostname", "alive.example.test", "--no-verify", where="two")
    url_of(first)
    first.stop()
    for _ in range(5):
        before = proxy(control, "kill-b")["metadata"]["generation"]
        killed = expose(web.port, "--name", "kill-b", "--hostname", "alive.example.test", "--hostname", "kept.example.test",
                        "--no-verify", where="two")
        until(lambda before=before: proxy(control, "kill-b")["metadata"]["generation"] > before, interval=0)
        killed.signal(signal.SIGKILL)
        killed.wait(20)
        again = expose(web.port, "--name", "kill-b", "--no-verify", where="two")
        until(lambda: "  ->  " in again.log() or not again.alive)
        assert "http://alive.example.test:8080/  ->  " in again.log(), again.log()
        assert proxy(control, "kill-b")["spec"]["hostnames"] == ["alive.example.test"]
        again.stop()


def test_a_late_verdict_on_a_kept_name(start_api, binary, web, tmp_path):
    """Controllers of the test's own: the name is found taken when the run has written it already."""
    api = start_api()
    old = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy", "metadata": {"name": "late"},
           "spec": {"hostnames": ["alive.example.test", "kept.example.test"],
                    "rules": [{"backends": [{"endpoint": "http://127.0.0.1:1", "connector": {"name": "late"}}]}]}}
    assert api.post(PROXIES, old).status == 201
    d = Device(binary, tmp_path / "x", api.kubeconfig, "--name", "late", "--class", "datum-connect", "--no-verify",
               command=("expose", str(web.port)))
    until(lambda: api.get(f"{GROUP}/connectors/late").status == 200, what=d.log)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "late"},
             "spec": {"leaseDurationSeconds": 600}}
    assert api.post(LEASES, lease).status == 201
    assert api.patch(f"{GROUP}/connectors/late/status", {"status": {"leaseRef": {"name": "late"}}}).status == 200
    until(lambda: "127.0.0.1:1\"" not in json.dumps(proxy(api, "late")["spec"]), what=d.log)
    assert len(proxy(api, "late")["spec"]["hostnames"]) == 2

    def condition(kind, status, reason):
        return {"type": kind, "status": status, "reason": reason, "message": "The name is claimed by another.",
                "observedGeneration": proxy(api, "late")["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"conditions": [condition("Accepted", "True", "Accepted"), condition("HostnamesInUse", "True", "HostnameInUse")],
              "hostnameStatuses": [{"hostname": "kept.example.test", "conditions": [condition("Available", "False", "InUse")]}]}
    said = api.patch(f"{PROXIES}/late/status", {"status": status})
    assert said.status == 200, said
    until(lambda: proxy(api, "late")["spec"]["hostnames"] == ["alive.example.test"], what=d.log)
    until(lambda: "hostname 'kept.example.test' left out" in d.log(), what=d.log)  # written when the API has answered
    assert d.alive
    d.stop()


def test_a_take_over_that_fails_gives_the_connector_back(control, expose, web):
    """The device that is asleep finds its Connector when it returns, without a right to take it over."""
    def details():
        return control.get(f"{GROUP}/connectors/sleepy").json["status"]["connectionDetails"]

    url_of(expose(web.port, "--name", "awake", "--hostname", "awake.example.test", "--no-verify", where="one"))
    first = expose(web.port, "--name", "sleepy", "--hostname", "sleepy.example.test", "--no-verify", where="two")
    url_of(first)
    first.stop()
    before, spec = details(), proxy(control, "sleepy")["spec"]
    thief = expose(web.port + 1, "--name", "sleepy", "--take-over", "--hostname", "awake.example.test", "--no-verify", where="three")
    assert thief.wait(20) == 1
    assert "taking it over" in thief.log() and "'awake.example.test' is claimed" in thief.log()
    assert details() == before and proxy(control, "sleepy")["spec"] == spec
    again = expose(web.port, "--name", "sleepy", "--no-verify", where="two")
    assert url_of(again) == "http://sleepy.example.test:8080/"


@pytest.mark.parametrize("whole", [True, False], ids=["connector", "name"])
def test_a_take_over_that_is_interrupted_removes_nothing(control, expose, web, whole):
    """--rm is for what the run has: before it is ready the name, or all of the Connector, is another device's."""
    name = f"dormant-{whole}".lower()

    def state():
        advert = control.get(f"{GROUP}/connectoradvertisements/{name}").json
        return (proxy(control, name)["spec"], advert["spec"], proxy(control, name)["metadata"]["uid"],
                control.get(f"{GROUP}/connectors/{name}").json["status"]["connectionDetails"])

    url_of(first := expose(web.port, "--name", name, "--hostname", f"{name}.example.test", "--no-verify", where="one"))
    first.stop()
    until(lambda: proxy(control, name)["status"], 10)
    if not whole:  # the other device has a Connector of its own
        url_of(own := expose(web.port, "--name", "dormant-own", "--no-verify", where="two"))
        own.stop()
    before = state()
    # Nobody signs that name: it is never ready.
    thief = expose(web.port + 1, "--name", name, "--take-over", "--rm", "--hostname", f"{name}2.example.test", "--https-redirect",
                   "--no-verify", where="two")
    until(lambda: len(proxy(control, name)["spec"]["rules"]) == 2, 20, thief.log)
    thief.stop()
    assert state() == before, thief.log()[-3000:]
    assert url_of(expose(web.port, "--name", name, "--no-verify", where="one")) == f"http://{name}.example.test:8080/"


def test_a_change_that_is_interrupted_is_undone(control, expose, web):
    first = expose(web.port, "--name", "halfway", "--hostname", "whole.example.test", "--no-verify")
    url_of(first)
    first.stop()
    before = proxy(control, "halfway")["spec"]
    # Nobody signs that name: it is never ready.
    again = expose(web.port, "--name", "halfway", "--hostname", "half.example.test", "--https-redirect", "--no-verify")
    until(lambda: "half.example.test" in proxy(control, "halfway")["spec"]["hostnames"] and
          len(proxy(control, "halfway")["spec"]["rules"]) == 2, 10)
    again.stop()
    assert proxy(control, "halfway")["spec"] == before


def test_a_run_that_is_not_ready_in_time_is_undone(control, expose, web):
    first = expose(web.port, "--name", "tardy", "--hostname", "early.example.test", "--no-verify")
    url_of(first)
    first.stop()
    before = proxy(control, "tardy")
    seconds = f"{5 * SLOW:g}s"
    # A change, and objects that were not there: nobody signs the name that https needs.
    again = expose(web.port, "--name", "tardy", "--hostname", "late.example.test", "--https-redirect", "--no-verify",
                   "--timeout", seconds)
    assert again.wait(guard(60)) == 1, again.log()[-2000:]
    assert "not ready in time (--timeout)" in again.log()
    after = proxy(control, "tardy")
    assert after["metadata"]["generation"] >= before["metadata"]["generation"] + 2, "it was changed, and changed back"
    assert after["spec"] == before["spec"]
    fresh = expose(web.port, "--name", "unborn", "--hostname", "unborn.example.test", "--https-redirect", "--no-verify",
                   "--timeout", seconds, where="unborn")
    until(lambda: control.get(f"{PROXIES}/unborn").status == 200, what=lambda: fresh.log()[-2000:])
    assert fresh.wait(guard(60)) == 1 and "not ready in time (--timeout)" in fresh.log(), fresh.log()[-2000:]
    paths = [f"{at}/unborn" for at in (PROXIES, f"{GROUP}/connectoradvertisements")]
    assert [control.get(at).status for at in paths] == [404] * 2


class Far:
    """The API at a distance: replies come late."""

    def __init__(self, port, late=0.15):
        self.to, self.late = port, late
        self.away, self.open = False, []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here = self.sock.accept()[0]
            except OSError:
                return
            if self.away:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self.to))
            self.open.append(here)
            threading.Thread(target=self._carry, args=(here, there, 0), daemon=True).start()
            threading.Thread(target=self._carry, args=(there, here, self.late), daemon=True).start()

    @staticmethod
    def _carry(src, dst, late):
        try:
            while data := src.recv(65536):
                time.sleep(late)
                dst.sendall(data)
            dst.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        """Nothing goes through any more, not even what is under way."""
        self.away = True
        for s in self.open:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def kubeconfig(self, control, where):
        where.write_text(re.sub(r"(server: \S+):\d+", rf"\1:{self.port}", control.kubeconfig.read_text()))
        return where


def test_an_interrupt_while_the_api_writes(control, expose, web, tmp_path):
    """What the API did, but did not reply to yet, is undone like everything else."""
    far = Far(control.port)
    config = far.kubeconfig(control, tmp_path / "far.kubeconfig")
    first = expose(web.port, "--name", "afar", "--hostname", "near.example.test", "--no-verify")
    url_of(first)
    first.stop()
    before = proxy(control, "afar")["spec"]
    changed = expose(web.port, "--name", "afar", "--hostname", "other.example.test", "--no-verify", "--kubeconfig", config)
    until(lambda: proxy(control, "afar")["spec"] != before, 20)
    changed.stop()
    assert proxy(control, "afar")["spec"] == before
    paths = [f"{at}/brief" for at in (PROXIES, f"{GROUP}/connectoradvertisements", f"{GROUP}/connectors")]
    for path in paths[:2]:
        e = expose(web.port, "--name", "brief", "--rm", "--no-verify", "--kubeconfig", config, where="brief")
        until(lambda path=path: control.get(path).status == 200, 20)
        e.stop()
        until(lambda: [control.get(at).status for at in paths] == [404] * 3, 5)
    far.close()


def test_what_runs_is_not_ended_by_what_others_ask_for(control, expose, web):
    """An older object that asks for its name, and a spec that somebody spoils: said, and served on."""
    old = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy", "metadata": {"name": "older"},
           "spec": {"rules": [{"backends": [{"endpoint": "http://10.1.2.3:80"}]}]}}
    assert control.post(PROXIES, old).status == 201
    time.sleep(1.1)  # ages have seconds
    e = expose(web.port, "--name", "younger", "--hostname", "mine.example.test", "--json", "--no-verify")
    until(lambda: any(v["event"] == "tunnel_ready" for v in events(e)), 10)
    assert control.patch(f"{PROXIES}/older", {"spec": {"hostnames": ["mine.example.test"]}}).status == 200
    until(lambda: any(c["type"] == "HostnamesInUse" for c in proxy(control, "older")["status"]["conditions"]), 10)
    good = proxy(control, "younger")["spec"]
    spoilt = json.loads(json.dumps(good))
    spoilt["rules"][0]["backends"][0]["endpoint"] = "http://0.0.0.0:1"
    assert control.patch(f"{PROXIES}/younger", {"spec": spoilt}).status == 200
    said = until(lambda: next((v for v in events(e) if v["event"] == "tunnel_degraded"), None), 10)
    assert "unspecified address" in said["message"]
    assert control.patch(f"{PROXIES}/younger", {"spec": good}).status == 200
    until(lambda: any(v["event"] == "tunnel_recovered" for v in events(e)), 10)
    assert e.alive


def test_a_second_machine_of_the_same_name(binary, expose, web):
    """Two machines with one host name: the second is told what to do."""
    first = expose(web.port, "--no-verify", where="one")
    url_of(first)
    second = expose(web.port, "--no-verify", where="two")
    assert second.wait(20) == 1
    assert "another device" in second.log() and "--name" in second.log()


def test_two_devices_that_want_one_name_do_not_fight(binary, web, tmp_path):
    """Until a Lease decides, here never, who wrote first stays: each would overwrite the other's key for ever."""
    api = Control(binary, tmp_path / "control", "--connector=false", "--gateway=false")
    d = Device(binary, tmp_path / "one", api.kubeconfig, "--name", "same", "--class", "any", "--no-verify",
               command=("expose", str(web.port)))
    at = f"{GROUP}/connectors/same"

    def key():
        answer = api.get(at)
        status = answer.json.get("status", {}) if answer.status == 200 else {}
        return status.get("connectionDetails", {}).get("publicKey", {}).get("id")
    until(lambda: key() == d.id, 15)
    other = "ab" * 32  # of one that registered in the same moment
    assert api.patch(f"{at}/status", {"status": {"connectionDetails": {"publicKey": {"id": other}}}}).status == 200
    for _ in range(10):
        time.sleep(0.1)
        assert key() == other
    d.stop()
    d.check()
    api.close()


def specs(control, name):
    return [control.get(f"{at}/{name}").json["spec"]
            for at in (PROXIES, f"{GROUP}/connectors", f"{GROUP}/connectoradvertisements")]


def test_a_failure_leaves_what_was_there_before(control, expose, web):
    """Only what this run created is removed: a name that was exposed before stays, and as it was."""
    first = expose(web.port, "--name", "kept", "--no-verify", where="kept")
    url_of(first)
    first.stop()
    before = specs(control, "kept")
    again = expose("http://0.0.0.0:1", "--name", "kept", "--no-verify", where="kept")
    assert again.wait(20) == 1 and "unspecified address" in again.log()
    assert specs(control, "kept") == before


@pytest.mark.parametrize("write", [0, 2], ids=["HTTPProxy", "ConnectorAdvertisement"])
def test_a_write_without_a_reply_is_undone(control, expose, web, tmp_path, write):
    """The API did what was asked, and was gone before it said so."""
    name = f"unsaid-{write}"
    first = expose(web.port, "--name", name, "--hostname", f"{name}.example.test", "--no-verify")
    url_of(first)
    first.stop()
    before = specs(control, name)
    far = Far(control.port, late=0.3)
    again = expose(web.port + 1, "--name", name, "--no-verify", "--kubeconfig", str(far.kubeconfig(control, tmp_path / "far")))
    until(lambda: specs(control, name)[write] != before[write], what=lambda: again.log()[-2000:])
    far.cut()
    again.signal(signal.SIGINT)
    far.away = False
    again.wait()
    assert specs(control, name) == before, again.log()[-2000:]
    far.close()


def test_an_object_made_without_a_reply_is_removed(control, expose, web, tmp_path):
    """By a run that fails: the write is repeated, and the API has nothing to create then."""
    far = Far(control.port, late=0.1)
    at = f"{PROXIES}/unsaid-new"
    e = expose(web.port, "--name", "unsaid-new", "--hostname", "unsaid-new.example.test", "--https-redirect", "--no-verify",
               "--timeout", f"{4 * SLOW:g}s", "--kubeconfig", str(far.kubeconfig(control, tmp_path / "far")))
    until(lambda: control.get(at).status == 200, what=lambda: e.log()[-2000:])
    far.cut()
    far.away = False
    assert e.wait() == 1 and "not ready in time (--timeout)" in e.log(), e.log()[-2000:]
    assert control.get(at).status == 404
    far.close()


@pytest.mark.parametrize("away", [False, True])
def test_a_change_is_undone_after_a_restart_of_the_api(control, expose, web, away):
    """The control plane goes in the middle of a change, and the run that made it ends while it is away, or when it is back."""
    name = f"midway-{away}".lower()
    first = expose(web.port, "--name", name, "--hostname", f"{name}.example.test", "--no-verify")
    url_of(first)
    first.stop()
    before = specs(control, name)
    # Nobody signs that name: it is never ready.
    again = expose(web.port + 1, "--name", name, "--hostname", f"new-{name}.example.test", "--https-redirect", "--no-verify")
    until(lambda: all(a != b for a, b in zip(specs(control, name)[::2], before[::2])), what=lambda: specs(control, name))
    control.stop(kill=True)
    if away:
        again.signal(signal.SIGINT)
    control.restart()
    if away:
        assert again.wait() == 0, again.log()[-2000:]
    else:
        assert specs(control, name) != before
        again.stop()
    assert specs(control, name) == before


def test_a_mistake_can_be_corrected(expose, web):
    """What was said about the spec before is no verdict on this one."""
    e = expose("http://0.0.0.0:1", "--name", "slip", "--no-verify")
    assert e.wait(20) == 1
    assert "unspecified address" in e.log()
    url_of(expose(web.port, "--name", "slip", "--no-verify"))


def test_another_process_with_the_key_is_not_us(expose, web, tmp_path):
    first = expose(web.port, "--name", "genuine", "--no-verify", where="one")
    url_of(first)
    copy = tmp_path / "copied"
    shutil.copytree(first.data, copy)
    second = expose(web.port, "--name", "forged", "--no-verify", where="two", data=copy)
    assert second.wait(20) == 1
    assert "in use elsewhere" in second.log()
    assert "device is online" not in second.log() and "->" not in second.log()


def test_a_namespace_that_is_not_there(expose, web):
    e = expose(web.port, "--name", "nowhere", "--namespace", "absent", "--no-verify")
    until(lambda: re.search(r'warn.*namespaces "absent" not found', e.log()), 10)


def test_every_name_is_shown(expose, web):
    e = expose(web.port, "--name", "names", "--hostname", "n1.example.test", "--hostname", "n2.example.test", "--no-verify")
    assert url_of(e) == "http://n1.example.test:8080/"
    until(lambda: "  and as n2.example.test\n" in e.log(), 5)


def test_bad_use(binary, control):
    def run(*argv):
        return subprocess.run([binary, "expose", *argv], capture_output=True, text=True, timeout=guard(20),
                              check=False)
    assert run().returncode == 64
    assert run("nonsense").returncode == 64
    assert run("http://x/path").returncode == 64
    assert run("3000", "--name", "Bad_Name").returncode == 64
    done = run("3000", "--kubeconfig", str(control.kubeconfig), "--data", "/tmp/never", "--relay", "ftp://x")
    assert done.returncode == 64 and "--relay" in done.stderr
    assert run("3000", "--kubeconfig", "/does/not/exist", "--data", "/tmp/never").returncode == 1
