# SPDX-License-Identifier: Apache-2.0
"""tools/soak: a short run says what it should, and every kind of fault is found and named."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

import pytest
from harness import left
from harness.wait import guard, until
from soak import api, pattern, roles, tally

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/soak"
ROLES = ("up", "control", "relay", "sidecar", "gateway", "device (expose)", "relayed device (expose)", "node1", "node2")
PARTS = ("API watch events", "API slow watchers", "API writes", "API lists", "API Lease renewals", "device requests, TLS",
         "device WebSockets, plain", "device downloads", "relayed device uploads", "route changes", "certificate rotations",
         "gateway hand-overs", "new connections, TLS", "unchanged routes, HTTP/2", "HBONE kept tunnels",
         "HBONE new connections", "node configurations", "node hand-overs",
         "clients that leave, gateway", "clients that leave, HBONE", "clients that leave, API")


@contextlib.contextmanager
def soak(topology, binary, where, seconds):
    """The tool at work; its output is in the file 'out'."""
    del topology  # where namespaces cannot be made, it skips
    env = {k: v for k, v in os.environ.items() if k != "SPANWIRE_SOAK_INNER"}
    with open(where / "out", "w", encoding="utf-8") as out:
        p = subprocess.Popen([sys.executable, TOOL, "--time", str(seconds), "--build", where, "--binary", binary],
                             stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
    try:
        yield p
    finally:
        if p.poll() is None:
            p.kill()  # what it started dies with it
            p.wait()


def out(where):
    return (where / "out").read_text(encoding="utf-8")


def pids(where, process):
    """The processes of a run that has begun, by name."""
    def begun():
        assert process.poll() is None, out(where)
        return " s of load on " in out(where)
    until(begun, 60, "the load to begin")
    return {name: int(pid) for name, pid in re.findall(r"(?:on|,) ([^,]+?) \(pid (\d+)\)", out(where))}


def test_a_short_run_finds_no_fault_and_prints_all_figures(topology, binary, tmp_path):
    with soak(topology, binary, tmp_path, 20) as p:
        started = pids(tmp_path, p)
        assert p.wait(guard(300)) == 0, out(tmp_path)
    text = out(tmp_path)
    assert re.search(r"^soak: 2\d s of load, 0 faults$", text, re.M), text
    found = json.loads((tmp_path / "soak.json").read_text())
    assert found["faults"] == [] and found["seconds"] >= 20
    for name in PARTS:
        assert found["parts"][name]["done"] > 0 and found["parts"][name]["errors"] == 0, (name, found["parts"][name])
        assert re.search(rf"^{re.escape(name)} .* 0$", text, re.M), text
    for name in ROLES:
        role = found["roles"][name]
        assert role["rss_end"] > role["own_end"] > 0 and role["threads"] > 0 and len(role["samples"]) >= 6, (name, role)
    assert not [pid for pid in started.values() if pathlib.Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("victim", ["the device's local server (app.py)", "sidecar", "node2"])
def test_a_process_that_is_killed_is_named(topology, binary, tmp_path, victim):
    with soak(topology, binary, tmp_path, 600) as p:
        pid = pids(tmp_path, p)[victim]
        os.kill(pid, signal.SIGKILL)
        assert p.wait(guard(300)) == 1, out(tmp_path)
    text = out(tmp_path)
    assert f"FAULT {victim} (pid {pid}) ended during the run" in text.splitlines(), text
    assert re.search(r"^soak: FAILED, \d+ s of load, \d+ faults$", text, re.M), text
    assert f"{victim} (pid {pid}) ended during the run" in json.loads((tmp_path / "soak.json").read_text())["faults"]
    assert (tmp_path / "soak-logs/edge-gateway.log").exists() and (tmp_path / "soak-logs/node1.log").exists()


def test_requests_that_fail_are_counted_and_the_first_is_shown(topology, binary, tmp_path):
    """The device's local server refuses connections for a while: nothing ends, but requests fail."""
    rule = "table ip cut {\n chain out {\n type filter hook output priority 0;\n tcp dport 3000 reject with tcp reset\n }\n}\n"
    with soak(topology, binary, tmp_path, 15) as p:
        server = pids(tmp_path, p)["the device's local server (app.py)"]
        subprocess.run(["nsenter", "-t", str(server), "-n", "nft", "-f", "-"], input=rule, text=True, check=True)
        assert p.wait(guard(300)) == 1, out(tmp_path)
    text = out(tmp_path)
    assert re.search(r"^FAULT device requests, plain: \d+ errors, first: \+[\d.]+ s: GET /n/\d+: .*50[23]", text, re.M), text
    assert not re.search("^FAULT (API|HBONE|unchanged)", text, re.M), text
    assert "ended during the run" not in text


def test_an_interrupt_ends_everything(topology, binary, tmp_path):
    with soak(topology, binary, tmp_path, 600) as p:
        started = pids(tmp_path, p)
        p.send_signal(signal.SIGINT)
        assert p.wait(guard(120)) == 130, out(tmp_path)
    assert "soak: interrupted after" in out(tmp_path)
    assert not re.search("^FAULT", out(tmp_path), re.M), out(tmp_path)
    assert not [pid for pid in started.values() if pathlib.Path(f"/proc/{pid}").exists()]
    assert not left.children()


def test_help_names_the_options_and_the_exit_status():
    text = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(word in text for word in ("--time", "--build", "SOAK_TIME", "Exit status")), text


# -- how faults are found ---------------------------------------------------------------------

def role(seconds, memory=lambda t: 50 << 20, descriptors=lambda t: 100, threads=lambda t: 4):
    r = roles.Role("gateway", os.getpid(), True)
    r.samples = [(t, memory(t), descriptors(t), threads(t), 60 << 20) for t in range(0, seconds, 10)]
    return r


@pytest.mark.parametrize("seconds, what, curve, fault", [
    (3600, "memory", lambda t: (50 << 20) + t * 1000, None),  # 3.4 MiB an hour
    (3600, "memory", lambda t: (50 << 20) + t * 1400, "memory of gateway grows by 4.8 MiB in an hour"),
    (3600, "memory", lambda t: (500 << 20) + t * 2500, None),  # below 2 %
    (3600, "memory", lambda t: (50 << 20) + min(t, 1700) * 20000, None),  # level after the warm-up
    (3600, "memory", lambda t: (50 << 20) + (t % 100) * 20000, None),  # comes back
    (300, "memory", lambda t: (50 << 20) + t * 20000, None),  # a short run: warm-up
    (300, "memory", lambda t: (50 << 20) + t * 500000, "memory of gateway grows by"),
    (3600, "descriptors", lambda t: 100 + t // 60, "descriptors of gateway grow by 30 in the second half"),
    (3600, "descriptors", lambda t: 100 + t % 70, None),
    (3600, "threads", lambda t: 4 + t // 100, "threads of gateway grow by 18"),
])
@pytest.mark.skipif(roles.SANITIZED, reason="sanitizers keep freed memory: growth is not judged")
def test_growth_is_judged_in_the_second_half(seconds, what, curve, fault):
    faults = role(seconds, **{what: curve}).faults(seconds)
    assert [f[:len(fault)] for f in faults] == [fault] if fault else not faults, faults


def event(kind, name, number, version):
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)},
                                     "data": {"number": str(number)}}}


@pytest.mark.parametrize("events, fault", [
    ([("ADDED", "changing-1", 0, 11), ("MODIFIED", "changing-1", 1, 12), ("ADDED", "changing-2", 0, 13)], None),
    ([("ADDED", "changing-1", 0, 11), ("MODIFIED", "changing-1", 2, 12)], "changing-1: MODIFIED 2, not MODIFIED 1"),
    ([("ADDED", "changing-1", 0, 11), ("ADDED", "changing-1", 0, 12)], "changing-1: ADDED 0, not MODIFIED 1"),
    ([("ADDED", "changing-1", 0, 11), ("MODIFIED", "changing-1", 1, 11)], "resourceVersion 11 after 11"),
    ([("ADDED", "changing-1", 0, 9)], "resourceVersion 9 after 10"),
    ([("ADDED", "stable-1", 0, 11)], "event of stable-1"),
    ([*(("ADDED" if n == 0 else "MODIFIED", "changing-1", n, 11 + n) for n in range(api.LIFE - 1)),
      ("DELETED", "changing-1", api.LIFE - 2, 20), ("ADDED", "changing-1", api.LIFE, 21)], None),
])
def test_a_watch_must_see_every_change_once_and_in_order(events, fault):
    w = api.Watcher(tally.Part("watch", 0), types.SimpleNamespace(), "10")
    with pytest.raises(ValueError, match=fault) if fault else contextlib.nullcontext():
        for e in events:
            w._event(event(*e))


def test_a_slow_watch_begins_again_with_a_list():
    """What was deleted meanwhile is not in it, so the next change of that name must be a creation."""
    listed = {"metadata": {"resourceVersion": "50"}, "items": [event("", "changing-1", 3, 40)["object"]]}
    fake = types.SimpleNamespace(get=lambda path: types.SimpleNamespace(status=200, json=listed))
    w = api.Watcher(tally.Part("watch", 0), fake, "10", rest=api.STUCK)
    w._list()
    w._event(event("MODIFIED", "changing-1", 4, 51))
    w._event(event("ADDED", "changing-2", 5 * api.LIFE, 52))
    with pytest.raises(ValueError, match="changing-3: MODIFIED 8"):
        w._event(event("MODIFIED", "changing-3", 8, 53))


def test_one_wrong_byte_and_a_cut_are_found():
    stream = b"".join(bytes(b) for b in pattern.blocks(7, 200_000))
    good = pattern.Check(7)
    for at in range(0, len(stream), 999):
        good.feed(stream[at:at + 999])
    good.complete(200_000)
    bad = bytearray(stream)
    bad[123_456] ^= 1
    with pytest.raises(ValueError, match="wrong byte at 123456"):
        pattern.Check(7).feed(bad)
    with pytest.raises(ValueError, match="wrong byte"):  # two blocks changed places
        pattern.Check(7).feed(stream[65536:131072] + stream[:65536])
    with pytest.raises(ValueError, match="200000 of 200001"):
        good.complete(200_001)


def test_percentiles_are_within_a_bucket():
    latencies = tally.Latencies()
    for ms in range(1, 1001):
        latencies.add(ms / 1000)
    for p in (50, 90, 99):
        assert p * 10 / 1000 <= latencies.percentile(p) <= p * 10 / 1000 * 1.06
