# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged is there: after kill -9 at any moment, and when the disk is full."""
import http.client
import json
import os
import random
import subprocess
import threading
import time

import pytest
from harness.control import Control, config_map
from harness.wait import GUARD, SANITIZED, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


class Client(threading.Thread):
    """
    Creates, changes and deletes objects of its own on one connection until the server is gone. 'known' is
    what the server acknowledged: name -> n, None for a deleted one. 'open' is the one change, (name, n), that it
    has not answered.
    """

    def __init__(self, api, worker, known, counter):
        super().__init__(daemon=True)
        self.api, self.worker, self.known, self.counter = api, worker, known, counter
        self.random = random.Random(counter * 64 + worker)
        self.acknowledged = []  # (revision, name, n)
        self.open = None
        self.failure = None

    def _next(self):
        alive = [n for n, v in self.known.items() if v is not None]
        kind = self.random.random()
        if not alive or kind < 0.4:
            self.counter += 1
            return "POST", f"w{self.worker}-{self.counter}"
        return "PATCH" if kind < 0.8 else "DELETE", self.random.choice(alive)

    def _one(self, c):
        method, name = self._next()
        n = {"POST": 0, "PATCH": (self.known.get(name) or 0) + 1, "DELETE": None}[method]
        body = {"POST": config_map(name, {"n": "0"}), "PATCH": {"data": {"n": str(n)}}, "DELETE": None}[method]
        self.open = (name, n)
        c.request(method, CMS if method == "POST" else f"{CMS}/{name}", body and json.dumps(body),
                  {"Content-Type": MERGE if method == "PATCH" else "application/json"})
        r = c.getresponse()
        answer = json.loads(r.read())
        if r.status not in (200, 201):
            self.failure = (method, name, r.status, answer)
            return False
        self.known[name] = n
        self.open = None
        if method != "DELETE":
            self.acknowledged.append((int(answer["metadata"]["resourceVersion"]), name, n))
        return True

    def run(self):
        c = self.api.connection()
        try:
            while self._one(c):
                pass
        except (OSError, http.client.HTTPException, ValueError):
            pass
        c.close()


def change(event):
    o = event["object"]
    n = None if event["type"] == "DELETED" else int(o["data"]["n"])
    return int(o["metadata"]["resourceVersion"]), o["metadata"]["name"], n


class Watcher(threading.Thread):
    """What the server showed before it died must still be true afterwards."""

    def __init__(self, api, revision):
        super().__init__(daemon=True)
        self.watch = api.watch(f"{CMS}?watch=1&resourceVersion={revision}&timeoutSeconds=600")
        self.seen = []

    def run(self):
        try:
            for event in self.watch:
                self.seen.append(change(event))
        except (OSError, http.client.HTTPException, ValueError):
            pass
        self.watch.close()


def history(api, since, until_revision):
    """Every change of our objects in (since, until_revision], from the log on the disk."""
    out = []
    if until_revision == since:
        return out
    watch = api.watch(f"{CMS}?watch=1&resourceVersion={since}&timeoutSeconds=600")
    for event in watch:
        assert event["type"] != "ERROR", event
        out.append(change(event))
        if out[-1][0] >= until_revision:
            break
    watch.close()
    return out


def listing(api):
    body = api.get(CMS).json
    names = [o["metadata"]["name"] for o in body["items"]]
    assert len(names) == len(set(names)), "an object is there twice"
    ours = {o["metadata"]["name"]: o for o in body["items"] if o["metadata"]["name"].startswith("w")}
    return ours, int(body["metadata"]["resourceVersion"])


class Books:
    """All that was promised so far, checked against the server after every crash."""

    def __init__(self, workers):
        self.known = [{} for _ in range(workers)]
        self.counters = [0] * workers
        self.highest = 0
        self.writes = 0

    def settle(self, api, clients, watcher, since):
        there, _ = listing(api)
        for client in clients:
            assert client.failure is None, client.failure
            name, n = client.open or (None, None)
            if name:
                got = int(there[name]["data"]["n"]) if name in there else None
                assert got in (n, client.known.get(name)), f"{name}: {got}, sent {n}, had {client.known.get(name)}"
                client.known[name] = got
            self.counters[client.worker] = client.counter
        want = {name: n for known in self.known for name, n in known.items() if n is not None}
        assert {name: int(o["data"]["n"]) for name, o in there.items()} == want
        self._check_log(api, clients, watcher, since)

    def _check_log(self, api, clients, watcher, since):
        # A fence: its revision ends the history, and no revision of the past may come again.
        fence = api.post(CMS, config_map("fence", {"n": "0"})).json
        now = int(fence["metadata"]["resourceVersion"])
        log = history(api, since, now)
        assert api.delete(f"{CMS}/fence").status == 200
        revisions = [entry[0] for entry in log]
        assert revisions == sorted(set(revisions)), "revisions are strictly increasing"
        acknowledged = [a for client in clients for a in client.acknowledged]
        assert len(acknowledged) == len({a[0] for a in acknowledged}), "a revision was given out twice"
        missing = set(acknowledged) - set(log)
        assert not missing, f"acknowledged, not in the log: {sorted(missing)[:5]}"
        assert watcher.seen == log[:len(watcher.seen)], "a watcher saw what is not so"
        assert now > max([self.highest, *revisions[:-1]])
        self.highest = now
        self.writes += len(log) - 1


def test_kill_at_random_moments(binary, tmp_path):
    """Four clients write and one watches while the server is killed, sometimes while it is starting."""
    rounds, kills = (5 if SANITIZED else 45), 0
    seed = int(os.environ.get("SPANWIRE_E2E_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SPANWIRE_E2E_SEED={seed}")
    chance = random.Random(seed)
    api = Control(binary, tmp_path / "kill")
    books = Books(4)
    for n in range(rounds):
        since = listing(api)[1]
        watcher = Watcher(api, since)
        clients = [Client(api, w, books.known[w], books.counters[w]) for w in range(4)]
        for t in (watcher, *clients):
            t.start()
        # Now and then before anything is answered; else when they are at it.
        wanted = 0 if n % 8 == 7 else chance.randrange(8, 100)
        until(lambda c=clients, k=wanted: sum(len(x.acknowledged) for x in c) >= k or not any(x.is_alive() for x in c),
              2 * GUARD, "the clients to write", interval=0.002)
        time.sleep(chance.uniform(0, 0.02))
        api.kill()
        kills += 1
        for t in (watcher, *clients):
            t.join(2 * GUARD * SLOW)
            assert not t.is_alive(), "it does not notice that the server is gone"
        if n % 4 == 0:
            # Also in the middle of coming back; what it was recovering is still owed.
            early = subprocess.Popen([binary, "control", "--data", str(api.data), "--listen",
                                      f"127.0.0.1:{api.port}"], stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.001, 0.1))
            early.kill()
            early.wait()
            kills += 1
        api.restart(kill=True)
        books.settle(api, clients, watcher, since)
    assert kills >= (6 if SANITIZED else 50) and books.writes > rounds * 5, (kills, books.writes)
    api.close()
    done = subprocess.run([binary, "store", "check", str(api.data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- the disk is full ----------------------------------------------------------------------

@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of its own; only the mount namespace of this run sees it."""
    if os.environ.get("SPANWIRE_E2E_INNER") != "yes":
        pytest.skip("cannot make namespaces here")
    top = tmp_path / "server"
    (top / "data").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(top / "data")], check=True)
    yield top
    subprocess.run(["umount", "-l", str(top / "data")], check=False)


def fill(api):
    """Writes until refused; the names that were acknowledged and the refusal."""
    names = []
    for i in range(2000):
        answer = api.post(CMS, config_map(f"fill-{i}", {"a": str(i) + "x" * 100000}))
        if answer.status != 201:
            return names, answer
        names.append(f"fill-{i}")
    raise AssertionError("the disk never got full")


def all_there(api, names):
    items = {o["metadata"]["name"]: o["data"]["a"] for o in api.get(CMS).json["items"]
             if o["metadata"]["name"].startswith("fill-")}
    assert set(items) == set(names)
    assert all(v.rstrip("x") == n[5:] for n, v in items.items())


def test_full_disk(binary, small_disk):
    api = Control(binary, small_disk)
    ballast = api.data / "ballast"
    ballast.write_bytes(b"\0" * (8 << 20))
    names, refusal = fill(api)
    assert len(names) > 5

    # A clear error, the same for whoever comes next, and nothing half done.
    assert refusal.status in (500, 507) and refusal.json["kind"] == "Status", refusal
    assert "no space left" in refusal.message, refusal
    refused = api.post(CMS, config_map("fill-again", {"a": "again" + "x" * 100000}))
    assert refused.status == refusal.status
    assert api.get(f"{CMS}/fill-again").status == 404

    # The operator is told, not flooded: the log may be on the same disk.
    until(lambda: "no space left" in api.log(), GUARD, "a line about it")
    for i in range(100):
        assert api.post(CMS, config_map(f"more-{i}", {"a": "x" * 100000})).status in (refusal.status, 201)
    told = api.log().count("no space left")
    assert told <= 5, f"told {told} times"

    # Reads go on: get, list, watch, discovery.
    listed = api.get(CMS)
    all_there(api, names)
    assert api.get(f"{CMS}/{names[0]}").status == 200
    assert api.get("/apis").status == 200 and api.get("/readyz").status == 200
    revision = listed.json["metadata"]["resourceVersion"]
    watch = api.watch(f"{CMS}?watch=1&resourceVersion={revision}&timeoutSeconds=600")
    assert watch.status == 200

    # Space returns, and without a restart so do the writes.
    ballast.unlink()
    until(lambda: api.post(CMS, config_map("fill-again", {"a": "again"})).status == 201, GUARD, "writes to work again")
    event = next(watch)
    assert event["type"] == "ADDED" and event["object"]["metadata"]["name"] == "fill-again"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(revision)
    watch.close()
    all_there(api, [*names, "fill-again"])
    api.close()


def test_crash_on_a_full_disk(binary, small_disk):
    """Killed while it is full, started while it is full: nothing acknowledged is lost either way."""
    api = Control(binary, small_disk)
    ballast = api.data / "ballast"
    ballast.write_bytes(b"\0" * (8 << 20))
    names, _ = fill(api)
    revision = int(api.get(CMS).json["metadata"]["resourceVersion"])
    api.kill()
    mark = len(api.log())
    full = Control(binary, small_disk, wait=False, port=api.port)
    try:
        until(lambda: not full.alive or "ready on" in full.log()[mark:], GUARD, "a decision")
        if full.alive:
            full.mark = 0
            full.wait_ready()
            all_there(full, names)
            full.kill()
        else:
            assert "no space left" in full.log()[mark:], full.log()[mark:]
    finally:
        if full.alive:
            full.kill()
    ballast.unlink()
    api.restart(kill=True)
    all_there(api, names)
    made = api.post(CMS, config_map("after", {"a": "1"}))
    assert made.status == 201 and int(made.json["metadata"]["resourceVersion"]) > revision
    api.close()
    done = subprocess.run([binary, "store", "check", str(api.data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
