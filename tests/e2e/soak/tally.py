# SPDX-License-Identifier: Apache-2.0
"""What the load counts: operations, bytes, latencies and faults, in bounded memory."""
import contextlib
import math
import threading
import time
import traceback

KEPT = 5  # messages of faults, per part
PATIENCE = 120.0  # seconds; a busy machine stops a process for some of them, so this only guards against a hang


class Aborted(Exception):
    """The run ends before its time; what was under way is neither done nor a fault."""


class Latencies:
    """Counts in buckets that grow by 5 %: percentiles within 5 %."""

    def __init__(self):
        self.buckets = {}
        self.n = 0
        self.highest = 0.0

    def add(self, seconds):
        at = int(math.log(max(seconds, 1e-6) * 1e6) / math.log(1.05))
        self.buckets[at] = self.buckets.get(at, 0) + 1
        self.n += 1
        self.highest = max(self.highest, seconds)

    def percentile(self, p):
        """Seconds; None without a measurement."""
        left = math.ceil(self.n * p / 100)
        for at in sorted(self.buckets):
            left -= self.buckets[at]
            if left <= 0:
                return min(self.highest, 1.05 ** (at + 1) / 1e6)
        return None


class Part:
    """One kind of load. Several threads may count into it."""

    def __init__(self, name, begin):
        self.name, self.begin = name, begin
        self.lock = threading.Lock()
        self.done = self.bytes = self.errors = 0
        self.messages = []
        self.latencies = Latencies()

    def ok(self, seconds=None, size=0):
        with self.lock:
            self.done += 1
            self.bytes += size
            if seconds is not None:
                self.latencies.add(seconds)

    def moved(self, size):
        with self.lock:
            self.bytes += size

    def fault(self, message):
        with self.lock:
            self.errors += 1
            if len(self.messages) < KEPT:
                self.messages.append(f"+{time.monotonic() - self.begin:.1f} s: {message}")

    @contextlib.contextmanager
    def operation(self, what):
        """The block is one operation: an exception is a fault, its duration a latency otherwise."""
        begin = time.monotonic()
        try:
            yield
        except Aborted:
            pass
        except Exception as e:  # noqa: BLE001 - whatever it is, the load goes on and the verdict names it
            self.fault(f"{what}: {describe(e)}")
        else:
            self.ok(time.monotonic() - begin)

    def figures(self, seconds):
        ms = {f"p{p}_ms": None if (v := self.latencies.percentile(p)) is None else round(v * 1000, 3)
              for p in (50, 90, 99)}
        return {"done": self.done, "per_second": round(self.done / seconds, 2), "bytes": self.bytes,
                "errors": self.errors, "messages": self.messages, **ms,
                "max_ms": round(self.latencies.highest * 1000, 3) if self.latencies.n else None}


def describe(e):
    """One line: the exception and where in the load it was raised."""
    at = traceback.extract_tb(e.__traceback__)
    place = next((f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in reversed(at) if "/soak/" in f.filename), "")
    text = " ".join(str(e).split())[:300]
    return f"{type(e).__name__}{': ' + text if text else ''}{' at ' + place if place else ''}"


class Load:
    """The threads that make the load, and the order to end."""

    def __init__(self, seconds):
        self.begin = time.monotonic()
        self.until = self.begin + seconds
        self.stop = threading.Event()
        self.parts = {}
        self.threads = []
        self.closers = []

    def left(self):
        """Seconds until the load is to end."""
        return self.until - time.monotonic()

    def part(self, name):
        return self.parts.setdefault(name, Part(name, self.begin))

    def thread(self, part, work, *args, ns=None):
        """Runs work(part, *args) in a namespace until it returns. An exception that escapes it is a fault."""
        def run():
            try:
                if ns is None:
                    work(part, *args)
                else:
                    with ns.entered():
                        work(part, *args)
            except Exception as e:  # noqa: BLE001 - as in operation()
                part.fault(f"the load thread ended: {describe(e)}")
        t = threading.Thread(target=run, daemon=True, name=f"{part.name}-{len(self.threads)}")
        self.threads.append(t)
        t.start()
        return t

    def pace(self, per_second):
        """Yields that often until the load ends; a slow machine skips turns instead of catching up in a burst."""
        due = time.monotonic()
        while not self.stop.is_set():
            yield
            due = max(due + 1 / per_second, time.monotonic() - 1)
            self.stop.wait(max(0.0, due - time.monotonic()))

    def at_end(self, close):
        """Called after the last operation: for what has to be complete then."""
        self.closers.append(close)

    def aborted(self):
        """Called now and then by what takes long: raises Aborted when the run ends before its time."""
        if self.stop.is_set() and self.left() > 0:
            raise Aborted

    def end(self):
        """Ends the load: waits for what was begun, then calls the closers."""
        self.stop.set()
        deadline = time.monotonic() + PATIENCE
        for close in self.closers:
            close()
        for t in self.threads:
            t.join(max(0.1, deadline - time.monotonic()))
            if t.is_alive():
                self.part(t.name.rsplit("-", 1)[0]).fault(f"{t.name} hangs: no end {PATIENCE:.0f} s after the last request")

    def errors(self):
        return sum(p.errors for p in self.parts.values())
