# SPDX-License-Identifier: Apache-2.0
"""The `api` suite: the control role's API and etcd under the same load on the same disk."""
import base64
import os
import re
import shutil
import subprocess
import time

from . import hostile, procs
from . import measure as m
from .candidates import find_program
from .procs import LoadError

CLIENTS = (1, 16, 64)
VALUE = 1024            # bytes, creates, reads and watches
LISTED = 10_000         # objects
MEM_VALUE = 2000        # bytes
WATCHERS = 1000
CHANGES_PER_S = 100
API_PORT, ETCD_PORT, ETCD_PEER_PORT = 9443, 9379, 9380


class Server:
    """One of the two: started empty, addressed by the load tool, thrown away."""

    connect = False
    host = "127.0.0.1"
    ready_s = 10.0

    def __init__(self, ctx, _index):
        self.ctx = ctx
        self.dir = os.path.join(ctx.dir, f"api-{self.name}")
        self.p = None
        self.turn = 0

    def rules(self):
        return []

    def start(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.p = procs.spawn(place(self.ctx, self.command()), self.dir + ".log")
        procs.wait_accepting(self.p, "127.0.0.1", self.port, self.ready_s)
        self.settle()

    def stop(self):
        if self.p:
            procs.stop(self.p)
            self.p = None
        shutil.rmtree(self.dir, ignore_errors=True)

    def pid(self):
        """The launchers in front of it exec, so the leader of the group is the server."""
        return self.p.pid

    def load(self, mode, *extra, deadline=0):
        """One run of the load tool; every run has names of its own unless it says otherwise."""
        self.turn += 1
        argv = [self.ctx.api_tool, mode, "--to", f"127.0.0.1:{self.port}", "--pid",
                str(self.pid()), "--size", str(VALUE), "--tag", f"r{self.turn}", *self.flags(),
                "--secs", str(self.ctx.secs), *map(str, extra)]
        return procs.run_load(place(self.ctx, argv), deadline or self.ctx.secs * 10 + 60)


class Control(Server):
    name, port = "spanwire", API_PORT

    def available(self):
        return None if os.access(self.ctx.binary, os.X_OK) else "not built"

    def command(self):
        return [self.ctx.binary, "control", "--data", self.dir + "/data", "--listen",
                f"127.0.0.1:{self.port}", "--gateway=false"]  # the API alone

    def settle(self):
        path = self.dir + "/data/admin.kubeconfig"
        end = time.monotonic() + self.ready_s
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.01)  # it appears right after the port listens
        with open(path, encoding="ascii") as f:
            text = f.read()
        for key in ("certificate-authority", "client-certificate", "client-key"):
            found = re.search(rf"^\s*{key}-data:\s*(\S+)", text, re.M)
            if not found:
                raise LoadError(f"admin.kubeconfig has no {key}-data")
            with open(os.path.join(self.dir, key), "wb") as f:
                f.write(base64.b64decode(found[1]))

    def flags(self):
        return ["--ca", self.dir + "/certificate-authority", "--cert",
                self.dir + "/client-certificate", "--key", self.dir + "/client-key"]


class Etcd(Server):
    name, port = "etcd", ETCD_PORT

    def available(self):
        if not self.ctx.wants("etcd", "etcd"):
            return "not asked for"
        return None if find_program("etcd") else "not installed"

    def command(self):
        with open(os.path.join(self.ctx.here, "peers", "etcd.args"), encoding="ascii") as f:
            lines = [l for l in f if l.strip() and not l.startswith("#")]
        values = {"@DIR@": self.dir + "/data", "@PORT@": str(ETCD_PORT),
                  "@PEER@": str(ETCD_PEER_PORT)}
        words = " ".join(lines).split()
        return [find_program("etcd")] + [re.sub(r"@\w+@", lambda k: values[k[0]], w)
                                         for w in words]

    def settle(self):
        """Listening is not serving: a write must succeed first."""
        end = time.monotonic() + self.ready_s
        while True:
            try:
                self.load("create", "--count", 1, "--tag", "settle", deadline=30)
                return
            except LoadError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def flags(self):
        return ["--proto", "etcd"]


class Disk:
    """Append and fdatasync: what each durable write of one client must wait for at least."""

    name, connect = "disk", False

    def __init__(self, ctx, _index):
        self.ctx = ctx

    def available(self):
        return None

    def rules(self):
        return []

    def start(self):
        pass

    def stop(self):
        pass

    def sync(self):
        path = os.path.join(self.ctx.dir, "sync")
        r = procs.run_load(place(self.ctx, [self.ctx.api_tool, "sync", "--file", path, "--secs",
                                            str(self.ctx.secs)]), 60)
        os.unlink(path)
        return r


def place(ctx, argv):
    """All CPUs: two threads of ours, all of etcd's, and the load tool beside them."""
    return ctx.box.pin(argv, ",".join(map(str, sorted(os.sched_getaffinity(0)))))


def per_s(r):
    r["per_s"] = r["rate"]
    return r


def ratio(ctx, name, field, what, key):
    """Ours / etcd's, round by round; what is better is said by the gate."""
    data = field.out[what]["rounds"]
    ours, theirs = m.series(data, "spanwire", key), m.series(data, "etcd", key)
    if not any(v is not None for v in ours) or not any(v is not None for v in theirs):
        return
    rounds = m.apply(lambda a, b: a / b, ours, theirs)
    ctx.result["ratios"][name] = {"rounds": rounds, "void": [], "per_peer": {"etcd": rounds}}


def writes(ctx, field):
    """Every measurement on a store of its own, so that no round carries the last one's weight."""
    def fresh(cand, conns):
        if isinstance(cand, Disk):
            return per_s(cand.sync())
        cand.start()
        try:
            return per_s(cand.load("create", "--conns", conns))
        finally:
            cand.stop()

    for conns in CLIENTS:
        what = f"create{conns}"
        names = [c.name for c in field.cands if conns == 1 or c.name != "disk"]
        field.measure(what, "per_s", lambda c, n=conns: fresh(c, n), names)
        ratio(ctx, f"api.create{conns}", field, what, "rate")


def reads(ctx, field):
    names = [c.name for c in field.cands if c.name != "disk"]
    full = ("--tag", "full", "--count", LISTED)
    for c in field.pick(*names):
        c.start()
        c.load("create", *full, "--conns", 64, deadline=120)
    try:
        for conns in (1, 64):
            field.measure(f"get{conns}", "per_s",
                          lambda c, n=conns: per_s(c.load("get", *full, "--conns", n)), names)
            ratio(ctx, f"api.get{conns}", field, f"get{conns}", "rate")
        field.measure("list", "per_s", lambda c: per_s(c.load("list", *full)), names)
        ratio(ctx, "api.list", field, "list", "rate")
    finally:
        for c in field.pick(*names):
            c.stop()


def flat(r):
    r["deliveries_s"] = r["rate"]
    return r


def watches(ctx, field):
    names = [c.name for c in field.cands if c.name != "disk"]
    for c in field.pick(*names):
        c.start()
    try:
        data = field.measure("watch", "last_p50_us", lambda c: c.load(
            "watch", "--conns", WATCHERS, "--rate", CHANGES_PER_S), names)
        ratio(ctx, "api.watch_last", field, "watch", "last_p50_us")
        ctx.result["absolutes"]["api.watch_p99_ms"] = [
            v / 1000 for v in m.series(data, "spanwire", "p99_us") if v is not None]
        data = field.measure("fanout", "deliveries_s", lambda c: flat(c.load(
            "watch", "--conns", WATCHERS)), names)
        ratio(ctx, "api.fanout", field, "fanout", "rate")
        ctx.result["absolutes"]["api.fanout_core"] = [
            v for v in m.series(data, "spanwire", "per_core") if v is not None]
    finally:
        for c in field.pick(*names):
            c.stop()


def memory(ctx, field):
    """Resident memory of a server that has taken the objects, one second later; one round."""
    if not ctx.api_objects:
        return
    names = [c.name for c in field.cands if c.name != "disk"]
    data = {}
    ctx.say(f"  memory of {ctx.api_objects} objects: {', '.join(names)}")
    for c in field.pick(*names):
        try:
            c.start()
            r = c.load("create", "--count", ctx.api_objects, "--size", MEM_VALUE, "--conns", 64,
                       deadline=240)
            time.sleep(1.0)
            rss, private = procs.memory_kb([c.pid()])
            data[c.name] = [{"rss_mb": rss / 1024, "private_mb": private / 1024,
                             "rate": r["rate"], "bytes_each": rss * 1024 / ctx.api_objects}]
        except LoadError as e:
            ctx.note(f"api memory: {c.name}: {e}")
        finally:
            c.stop()
    field.out["memory"] = {"key": "rss_mb", "rounds": data, "connect": [], "void": [],
                           "objects": ctx.api_objects, "value": MEM_VALUE}
    if "spanwire" in data:
        ctx.result["absolutes"]["api.object_bytes"] = [data["spanwire"][0]["bytes_each"]]
    ratio(ctx, "api.memory", field, "memory", "rss_mb")


def beside(ctx, field):
    hostile.run_hostile(ctx, field.pick("spanwire")[0], field.out)


PARTS = {"writes": writes, "reads": reads, "watches": watches, "memory": memory, "hostile": beside}


def run_api(ctx, make_field):
    """make_field: suites.Field, given here so that the two files do not import each other."""
    ctx.api_tool = os.path.join(os.path.dirname(ctx.binary), "bench", "apiload")
    field = make_field(ctx, "api")
    if not os.access(ctx.api_tool, os.X_OK):
        field.out["absent"]["all"] = "bench/apiload is not built (meson configure -Dbench=true)"
        return
    ctx.note("api: all CPUs, load tool included; etcd is driven through its JSON gateway without "
             "TLS, spanwire over mutual TLS")
    if find_program("etcd"):
        done = subprocess.run([find_program("etcd"), "--version"], capture_output=True, text=True,
                              timeout=10)
        ctx.result["versions"]["etcd"] = done.stdout.splitlines()[0] if done.stdout else "?"
    for kind in (Disk, Etcd, Control):
        field.add(kind)
    for name, part in PARTS.items():
        if not ctx.api or name in ctx.api.split(","):
            part(ctx, field)
