# SPDX-License-Identifier: Apache-2.0
"""
The API under change: watches that must see every change exactly once and in order, lists, a Lease, slow
watchers. The server closes the stuck one after a minute without progress; it resumes, or begins with a list after 410.

Every object carries a number that grows by one with each change of its name, deletions and creations included. So a
watcher knows which event has to come next, without a record of what was written.
"""
import contextlib
import datetime
import http.client
import json
import socket
import time

from soak.routes import Objects
from soak.tally import PATIENCE, describe

NAMESPACE = "soak"
TOP = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
WATCHES, WRITERS, STABLE, PAGE = 50, 2, 200, 60
NAP, STUCK = 20, 5  # seconds: one slow watcher reads nothing for a while, the other an event now and then
CLOSED = (OSError, http.client.HTTPException, json.JSONDecodeError)  # by the server, maybe in the middle of a line
LIFE = 6  # changes of a name: created, changed, ..., deleted


def config_map(name, number, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": {"number": str(number), "text": "x" * (number % 7 * 100)}}


def kind_of(number):
    """The event that the change of a number is."""
    step = number % LIFE
    return "ADDED" if step == 0 else "DELETED" if step == LIFE - 1 else "MODIFIED"


class Gone(Exception):
    """410: the changes since a resourceVersion are not kept any more."""


def writer(part, load, api, written, index, rate):
    """Creates, updates and deletes; nobody else writes these names, so nothing may conflict."""
    objects, turn = Objects(api), 0
    names = [f"changing-{index}-{i}" for i in range(4)]
    versions = {}
    for _ in load.pace(rate):
        turn += 1
        for name in names[turn % 2::2]:
            at = written.get(name, -1) + 1
            kind = kind_of(at)
            with part.operation(f"{kind} {name}"):
                if kind == "DELETED":
                    objects.expect((200,), "DELETE", f"{TOP}/{name}")
                else:
                    body = config_map(name, at, part="changing")
                    if kind == "ADDED":
                        versions[name] = objects.expect((201,), "POST", TOP, body)["metadata"]["resourceVersion"]
                    else:
                        body["metadata"]["resourceVersion"] = versions[name]
                        versions[name] = objects.expect((200,), "PUT", f"{TOP}/{name}", body)["metadata"]["resourceVersion"]
                written[name] = at
            if part.errors:
                return  # what was written is not known any more
    objects.close()


class Watcher:
    """One watch: resumed where it ended, and compared with what must come next."""

    def __init__(self, part, api, since, selector="", seconds=3600, rest=0):
        """rest: NAP or STUCK of a slow one."""
        self.part, self.api = part, api
        self.version, self.selector, self.seconds, self.rest = since, selector, seconds, rest
        self.awake = time.monotonic()
        self.numbers = {}  # last of each name
        self.lists = 0  # begun again with a list, after 410
        self.over = False
        self.connection = None

    def run(self, _part, load):
        while not self.over:
            begin = time.monotonic()
            try:
                self._stream(load)
                if not self.over and self.rest != STUCK and time.monotonic() - begin < self.seconds - 2:
                    raise EOFError(f"ended by the server after {time.monotonic() - begin:.0f} of {self.seconds} s")
            except Gone:
                self._list()
            except Exception as e:  # noqa: BLE001 - a watch that breaks is a fault, and the last one of this watcher
                if self.rest == STUCK and isinstance(e, CLOSED):
                    continue  # it resumes after what it saw last
                if not self.over:
                    self.part.fault(f"watch, last resourceVersion {self.version}: {describe(e)}")
                return
            finally:
                self.connection.close()

    def _stream(self, load):
        self.connection = c = self.api.connection()
        c.connect()
        if self.over:  # close() may have come before there was a socket to shut down
            return
        if self.rest:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.request("GET", f"{TOP}?watch=true&resourceVersion={self.version}&timeoutSeconds={self.seconds}{self.selector}")
        answer = c.getresponse()
        if answer.status == 410 and self.rest == STUCK:
            raise Gone
        if answer.status != 200:
            raise ValueError(f"status {answer.status}: {answer.read()[:200]!r}")
        while line := answer.readline():
            event = json.loads(line)
            if event["type"] == "ERROR" and event["object"].get("code") == 410 and self.rest == STUCK:
                raise Gone
            if event["type"] == "ERROR":
                raise ValueError(f"ERROR event: {event['object'].get('message')}")
            self._event(event)
            if self.rest == STUCK or self.rest and time.monotonic() > self.awake + self.rest:
                load.stop.wait(self.rest)
                self.awake = time.monotonic()

    def _event(self, event):
        meta, number = event["object"]["metadata"], int(event["object"]["data"]["number"])
        version, name = int(meta["resourceVersion"]), meta["name"]
        if version <= int(self.version):
            raise ValueError(f"resourceVersion {version} after {self.version}")
        if not name.startswith("changing-"):
            raise ValueError(f"event of {name}, which does not change")
        # A deleted object is shown as it was last: its number is that of the change before.
        at = number + 1 if event["type"] == "DELETED" else number
        want = self.numbers.get(name, -1) + 1
        if self.lists and name not in self.numbers and at % LIFE == 0:
            want = at  # was deleted while the list was made: the number it had then is not known
        if at != want or event["type"] != kind_of(want):
            raise ValueError(f"{name}: {event['type']} {at}, not {kind_of(want)} {want}")
        self.version, self.numbers[name] = str(version), at
        self.part.ok()

    def _list(self):
        """A watcher that cannot keep up is told 410 and begins again with a list."""
        answer = self.api.get(f"{TOP}?labelSelector=part%3Dchanging")
        if answer.status != 200:
            raise ValueError(f"list: {answer}")
        self.version, self.lists = answer.json["metadata"]["resourceVersion"], self.lists + 1
        self.numbers = {o["metadata"]["name"]: int(o["data"]["number"]) for o in answer.json["items"]}

    def close(self):
        self.over = True
        with contextlib.suppress(OSError, AttributeError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)


def finish(part, watchers, written, writers):
    """After the last write: every watcher has to arrive at what was written."""
    for t in writers:
        t.join(PATIENCE)
    quick = [w for w in watchers if w.rest != STUCK]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and any(w.numbers != written for w in quick):
        time.sleep(0.05)
    for w in watchers:
        w.close()
    for i, w in enumerate(quick):
        missing = {n: (w.numbers.get(n), at) for n, at in written.items() if w.numbers.get(n) != at}
        if missing:
            part.fault(f"watch {i} did not see every change: {dict(list(missing.items())[:3])} (seen, written)")


def lists(part, load, api):
    """Pages of everything: what does not change is in them, whole, in order and once."""
    objects, want = Objects(api), [f"stable-{i:03}" for i in range(STABLE)]
    for _ in load.pace(1):
        with part.operation("list in pages"):
            names, more, versions = [], "", set()
            while True:
                page = objects.expect((200,), "GET", f"{TOP}?limit={PAGE}{more}")
                names += [o["metadata"]["name"] for o in page["items"]]
                versions.add(page["metadata"]["resourceVersion"])
                if not page["metadata"].get("continue"):
                    break
                more = f"&continue={page['metadata']['continue']}"
            if [n for n in names if n.startswith("stable-")] != want:
                raise ValueError(f"the list has {len(names)} names, not all of the {STABLE} that stay, or not in order")
            if len(names) != len(set(names)) or len(versions) != 1:
                raise ValueError(f"pages of one list overlap, or differ in resourceVersion: {versions}")
    objects.close()


def lease(part, load, api):
    """Renewed each second by its only holder."""
    def now():
        return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    objects = Objects(api)
    held = objects.expect((201,), "POST", LEASE, {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "soak"},
        "spec": {"holderIdentity": "soak", "leaseDurationSeconds": 30, "acquireTime": now(), "renewTime": now()}})
    for _ in load.pace(1):
        with part.operation("renewal of the Lease"):
            held["spec"]["renewTime"] = now()
            held = objects.expect((200,), "PUT", f"{LEASE}/soak", held)
    objects.close()


def start(load, place):
    """Makes the objects that stay and begins the load of the API."""
    api, ns, written = place.api, place.visitor, {}
    with ns.entered():
        objects = Objects(api)
        objects.expect((201,), "POST", "/api/v1/namespaces", {
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for i in range(STABLE):
            objects.expect((201,), "POST", TOP, config_map(f"stable-{i:03}", 0, part="stable"))
        since = objects.expect((200,), "GET", f"{TOP}?limit=1")["metadata"]["resourceVersion"]
        objects.close()
    watched, slow = load.part("API watch events"), load.part("API slow watchers")
    watchers = [Watcher(watched, api, since, "&labelSelector=part%3Dchanging" if i % 5 == 0 else "",
                        30 if i % 4 == 0 else 3600) for i in range(WATCHES)]
    watchers += [Watcher(slow, api, since, rest=rest) for rest in (NAP, STUCK)]
    for w in watchers:
        load.thread(w.part, w.run, load, ns=ns)
    part = load.part("API writes")
    writers = [load.thread(part, writer, load, api, written, i, 2, ns=ns) for i in range(WRITERS)]
    load.thread(load.part("API lists"), lists, load, api, ns=ns)
    load.thread(load.part("API Lease renewals"), lease, load, api, ns=ns)
    load.at_end(lambda: finish(watched, watchers, written, writers))
