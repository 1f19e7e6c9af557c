# SPDX-License-Identifier: Apache-2.0
"""
What the processes of the roles use over time, and whether it stays level. Memory is judged by the pages of their own: those of
the program's file, which RSS counts too, come and go with what else the machine does.
"""
import os
import time

from harness.control import cpu_s
from harness.wait import SANITIZED

KIB = 1024
LONG = 1800  # seconds; from here on the second half is past every warm-up and growth is judged per hour


def fit(points):
    """(slope per second, mean) by least squares of [(seconds, value)]."""
    n = len(points)
    if n < 2:
        return 0.0, points[0][1] if points else 0.0
    x0, y0 = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - x0) ** 2 for x, _ in points)
    return (sum((x - x0) * (y - y0) for x, y in points) / spread if spread else 0.0), y0


class Role:
    """One process, known by its id and the time it was started."""

    def __init__(self, name, pid, judged):
        self.name, self.pid, self.judged = name, pid, judged
        self.born = self._stat()[19]
        self.cpu_begin = self.cpu = cpu_s(pid)
        self.samples = []  # (seconds, own memory, descriptors, threads, RSS), memory in bytes
        self.ended = False

    def _stat(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()

    def alive(self):
        try:
            stat = self._stat()
        except OSError:
            return False
        return stat[0] not in "ZX" and stat[19] == self.born

    def sample(self, at):
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8", errors="replace") as f:
                fields = dict(line.split(":", 1) for line in f if ":" in line)
            self.cpu = cpu_s(self.pid)
            rss, own, swapped = (int(fields[k].split()[0]) * KIB for k in ("VmRSS", "RssAnon", "VmSwap"))
            self.samples.append((at, own + swapped, self._descriptors(), int(fields["Threads"]), rss))
        except (OSError, KeyError):
            pass  # it has ended: alive() says so

    def _descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except PermissionError:  # in a user namespace those of a process that is not dumpable cannot be read
            return None

    def half(self, column):
        """The second half of the run."""
        end = self.samples[-1][0] if self.samples else 0
        return [(s[0], s[column]) for s in self.samples if s[0] >= end / 2 and s[column] is not None]

    def figures(self, seconds):
        slope, mean = fit(self.half(1))
        descriptors, threads = [d for _, d in self.half(2)], [t for _, t in self.half(3)]
        first, last = (self.samples[0], self.samples[-1]) if self.samples else ([None] * 5,) * 2
        return {"pid": self.pid, "rss_begin": first[4], "rss_end": last[4], "own_begin": first[1], "own_mean": round(mean),
                "own_end": last[1], "own_per_hour": round(slope * 3600), "descriptors": descriptors[-1] if descriptors else None,
                "descriptors_max": max(descriptors, default=None), "threads": threads[-1] if threads else None,
                "cpu_s": round(self.cpu - self.cpu_begin, 2),
                "cpu_percent": round(100 * (self.cpu - self.cpu_begin) / seconds, 1),
                "samples": self.samples}

    def faults(self, seconds):
        """Sentences about what is not level. A run below LONG includes warm-up: the bounds are wider, and not per hour."""
        if not self.judged or len(self.samples) < 6 or SANITIZED:  # sanitizers keep freed memory
            return []
        out = []
        slope, mean = fit(self.half(1))
        if seconds >= LONG:
            growth, bound, per = slope * 3600, max(mean * 0.02, 4 << 20), "an hour"
        else:
            growth, bound, per = slope * seconds / 2, max(mean * 0.2, 32 << 20), "the second half"
        if growth > bound:
            out.append(f"memory of {self.name} grows by {mib(growth)} MiB in {per} (bound {mib(bound)} MiB, "
                       f"mean {mib(mean)} MiB)")
        for column, what in ((2, "descriptors"), (3, "threads")):
            slope, mean = fit(self.half(column))
            growth, bound = slope * seconds / 2, max(mean * 0.1, 8)
            if growth > bound:
                out.append(f"{what} of {self.name} grow by {growth:.0f} in the second half (bound {bound:.0f}, "
                           f"mean {mean:.0f})")
        return out


def mib(n):
    return "-" if n is None else f"{n / (1 << 20):.1f}"


class Watch:
    """All of the roles."""

    def __init__(self, processes, helper):
        """processes: {name: pid}; what those use whose name ends with 'helper' is not judged."""
        self.roles = [Role(name, pid, not name.endswith(helper)) for name, pid in processes.items()]
        self.begin = time.monotonic()

    def sample(self):
        for r in self.roles:
            r.sample(time.monotonic() - self.begin)

    def ended(self):
        """Names of those that have ended since the last call."""
        new = [r for r in self.roles if not r.ended and not r.alive()]
        for r in new:
            r.ended = True
        return [f"{r.name} (pid {r.pid})" for r in new]
