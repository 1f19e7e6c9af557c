# SPDX-License-Identifier: Apache-2.0
"""
An informer of npm's @kubernetes/client-node through everything that happens to a server: it must see every
change of every object exactly once and in order. The objects count their own changes.
"""
import collections
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest
from harness.control import Control, config_map
from harness.wait import GUARD, SANITIZED, SLOW, until

INFORMER = pathlib.Path(__file__).resolve().parent / "clients" / "informer.mjs"
CMS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


class Writer:
    """One connection that insists: every change is repeated until the server has acknowledged it."""

    def __init__(self, api):
        self.api, self.c = api, api.connection()

    def _once(self, method, path, body):
        headers = MERGE if method == "PATCH" else {"Content-Type": "application/json"}
        self.c.request(method, path, None if body is None else json.dumps(body), headers)
        r = self.c.getresponse()
        text = r.read()
        return r.status, text

    def __call__(self, method, path, body, *fine):
        deadline = time.monotonic() + 3 * GUARD * SLOW
        while True:
            try:
                status, text = self._once(method, path, body)
                assert status in fine, (method, path, status, text[:500])
                return
            except (OSError, http.client.HTTPException):
                self.c.close()
                assert time.monotonic() < deadline, "the server does not come back"
                time.sleep(0.01)

    # Repeating what had been done before the answer was lost must not be a second change.
    def create(self, name):
        self("POST", CMS, config_map(name, {"n": "0"}), 201, 409)

    def set(self, name, n):
        self("PATCH", f"{CMS}/{name}", {"data": {"n": str(n)}}, 200)

    def delete(self, name):
        self("DELETE", f"{CMS}/{name}", None, 200, 404)


def in_parallel(api, jobs, workers=6):
    """jobs: one list of (verb, arguments...) per object; the order within each list is kept."""
    failures = []

    def work(mine):
        w = Writer(api)
        try:
            for step in range(max(map(len, mine), default=0)):
                for job in mine:
                    if step < len(job):
                        getattr(w, job[step][0])(*job[step][1:])
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)
        w.c.close()
    threads = [threading.Thread(target=work, args=(jobs[i::workers],)) for i in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


class Informer:
    def __init__(self, api, directory):
        self.path = directory / "informer.out"
        with open(self.path, "wb") as out, open(directory / "informer.err", "wb") as err:
            self.proc = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "node", str(INFORMER), str(api.kubeconfig),
                                          "default"], stdin=subprocess.PIPE, stdout=out, stderr=err)
        until(lambda: "started" in self.words(), GUARD, "the informer to start")

    def lines(self):
        return self.path.read_text().splitlines()

    def words(self):
        return [line.split(" ", 1)[0] for line in self.lines()]

    def history(self):
        """name: what was called for it, in order; nothing may be malformed."""
        out = collections.defaultdict(list)
        for line in self.lines():
            verb, *rest = line.split(" ")
            if verb in ("add", "update", "delete"):
                name, n, rv = rest
                out[name].append((verb, int(n), int(rv)))
        return out

    def count(self):
        return sum(w in ("add", "update", "delete") for w in self.words())

    def cache(self):
        seen = self.words().count("list")
        self.proc.stdin.write(b"list\n")
        self.proc.stdin.flush()
        until(lambda: self.words().count("list") > seen and self.path.read_text().endswith("\n"), GUARD, "the cache")
        line = [x for x in self.lines() if x.startswith("list")][-1]
        return dict(w.split("=") for w in line.split(" ")[1:] if w)

    def close(self):
        assert self.proc.poll() is None, (self.path.parent / "informer.err").read_text()[-3000:]
        self.proc.kill()
        self.proc.wait()


@pytest.fixture
def start(binary, tmp_path):
    made = []

    def run(*flags):
        api = Control(binary, tmp_path / "server", *flags)
        informer = Informer(api, tmp_path)
        made.extend([informer, api])
        return api, informer
    yield run
    for m in made:
        m.close()


def life(name, changes, delete=False):
    steps = [("create", name)] + [("set", name, n) for n in range(1, changes + 1)]
    return steps + ([("delete", name)] if delete else [])


def expected(changes, delete=False):
    calls = [("add", 0)] + [("update", n) for n in range(1, changes + 1)]
    return calls + ([("delete", changes)] if delete else [])


def assert_exactly_once(informer, want):
    total = sum(map(len, want.values()))
    try:
        until(lambda: informer.count() >= total, 2 * GUARD, "all changes", interval=0.1)
    except AssertionError:
        pass  # the comparison below says more
    got = informer.history()
    for name, calls in want.items():
        assert [c[:2] for c in got[name]] == calls, f"{name}: {got[name]}"
        versions = [c[2] for c in got[name]]
        assert versions == sorted(set(versions)), f"{name}: {versions}"
    assert set(got) == set(want)


def test_ten_thousand_objects(start):
    """Most are there before it comes, the rest come under it; then each tenth changes and some go."""
    count = 1000 if SANITIZED else 10000
    api, informer = start()
    names = [f"o{i}" for i in range(count)]
    in_parallel(api, [life(n, 0) for n in names])
    in_parallel(api, [life(n, 3, i % 20 == 0)[1:] for i, n in enumerate(names) if i % 10 == 0])
    want = {n: expected(3, i % 20 == 0) if i % 10 == 0 else expected(0) for i, n in enumerate(names)}
    assert_exactly_once(informer, want)
    left = {n: "3" if i % 10 == 0 else "0" for i, n in enumerate(names) if i % 20}
    assert informer.cache() == left

    # One that comes late gets them all by its list.
    (api.dir / "late").mkdir()
    late = Informer(api, api.dir / "late")
    until(lambda: late.count() >= len(left), GUARD, "the late informer", interval=0.1)
    assert {n: (h[0][0], str(h[0][1])) for n, h in late.history().items()} == {n: ("add", v) for n, v in left.items()}
    late.close()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_server_restarts(start, sig):
    """Several times in the middle of a write load; the watch goes on from where it was."""
    api, informer = start()
    changes, objects = (10, 10) if SANITIZED else (60, 30)
    jobs = [life(f"o{i}", changes, i % 3 == 0) for i in range(objects)]
    failures = []

    def work():
        try:
            in_parallel(api, jobs, 3)
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)
    load = threading.Thread(target=work)
    load.start()
    for n in range(1, 4):
        until(lambda n=n: informer.words().count("connect") >= n, GUARD, "it to come back")
        seen = informer.count()
        until(lambda s=seen: informer.count() > s + 20 or not load.is_alive(), 2 * GUARD, "the load to go on")
        api.restart(kill=sig == signal.SIGKILL)
    load.join()
    assert not failures, failures
    assert_exactly_once(informer, {f"o{i}": expected(changes, i % 3 == 0) for i in range(objects)})
    until(lambda: informer.words().count("connect") >= 4, GUARD, "it to come back once more")


def test_compaction_under_a_connected_one(start):
    """The log is cut short all the time; who keeps up notices nothing."""
    api, informer = start("--keep-events", "50", "--keep-for", "1s")
    changes, objects = (20, 10) if SANITIZED else (100, 20)
    first = api.get(CMS).json["metadata"]["resourceVersion"]
    in_parallel(api, [life(f"o{i}", changes, i % 3 == 0) for i in range(objects)], 3)
    assert_exactly_once(informer, {f"o{i}": expected(changes, i % 3 == 0) for i in range(objects)})

    def compacted():
        in_parallel(api, [[("create", "tick"), ("delete", "tick")]])
        event = next(api.watch(f"{CMS}?watch=1&timeoutSeconds=1&resourceVersion={first}"), None)
        return event and event["type"] == "ERROR" and event["object"]["code"] == 410
    until(compacted, GUARD, "the first revisions to be compacted", interval=0.3)


def test_compaction_past_an_absent_one(start):
    """It sleeps while the log it would need is dropped: told 410, it lists again and ends up right."""
    api, informer = start("--keep-events", "50", "--keep-for", "1s")
    in_parallel(api, [life(f"o{i}", 1) for i in range(30)])
    until(lambda: informer.count() >= 60, GUARD, "the first changes")
    before = api.get(CMS).json["metadata"]["resourceVersion"]
    os.kill(informer.proc.pid, signal.SIGSTOP)
    api.restart(kill=False)
    w = Writer(api)
    for n in range(2, 12):
        for i in range(30):
            w.set(f"o{i}", n)
    for i in range(10):
        w.delete(f"o{i}")
    w.create("fresh")

    def compacted():
        w.create("tick")
        w.delete("tick")
        event = next(api.watch(f"{CMS}?watch=1&timeoutSeconds=1&resourceVersion={before}"), None)
        return event and event["type"] == "ERROR" and event["object"]["code"] == 410
    until(compacted, GUARD, "the revision it had to be compacted", interval=0.3)
    os.kill(informer.proc.pid, signal.SIGCONT)
    until(lambda: "fresh" in informer.history(), GUARD, "the informer to list again")
    w.set("o20", 12)
    until(lambda: informer.history()["o20"][-1][:2] == ("update", 12), GUARD, "the watch after the list")
    got = informer.history()
    for i in range(30):
        calls = [c[:2] for c in got[f"o{i}"]]
        assert calls[:2] == expected(1)
        if i < 10:
            assert calls[2:] == [("delete", 1)], "gone while it slept"
        elif i == 20:
            assert calls[2:] == [("update", 11), ("update", 12)]
        else:
            assert calls[2:] == [("update", 11)]
    assert informer.cache() == {**{f"o{i}": "12" if i == 20 else "11" for i in range(10, 30)}, "fresh": "0"}


def test_compaction_past_a_stalled_one(start):
    """
    Connected, but it reads nothing while far more than any buffer holds is written and compacted. The server
    may cut it off; it may not leave anything out without saying so.
    """
    api, informer = start("--keep-events", "50", "--keep-for", "1s")
    w = Writer(api)
    w.create("big")
    until(lambda: informer.count() == 1, GUARD, "the first change")
    os.kill(informer.proc.pid, signal.SIGSTOP)
    changes = 100 if SANITIZED else 400
    for n in range(1, changes + 1):
        w("PATCH", f"{CMS}/big", {"data": {"n": str(n), "pad": "x" * 100000}}, 200)
    time.sleep(2.5)
    w.set("big", changes + 1)
    os.kill(informer.proc.pid, signal.SIGCONT)
    until(lambda: informer.history()["big"][-1][1] == changes + 1, GUARD, "the last change")
    calls = informer.history()["big"]
    numbers = [c[1] for c in calls]
    assert numbers == sorted(set(numbers)) and [c[0] for c in calls] == ["add"] + ["update"] * (len(calls) - 1)
    # A gap is allowed only where it listed again.
    gaps = sum(b != a + 1 for a, b in zip(numbers, numbers[1:]))
    assert gaps <= informer.words().count("connect") - 1, numbers
    assert informer.cache() == {"big": str(changes + 1)}
