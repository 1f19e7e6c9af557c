# SPDX-License-Identifier: Apache-2.0
"""Processes a run starts: their life, their CPU time, their memory."""
import atexit
import json
import os
import signal
import socket
import subprocess
import time

_groups = []  # Popen objects, each the leader of its own process group


class LoadError(Exception):
    pass


def _end_group(p):
    for sig, wait in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0)):
        try:
            os.killpg(p.pid, sig)
        except ProcessLookupError:
            pass
        try:
            p.wait(wait)
        except subprocess.TimeoutExpired:
            continue
        if not group_pids(p.pid):
            return


def end_all():
    while _groups:
        _end_group(_groups.pop())


atexit.register(end_all)


def spawn(argv, log, **kw):
    """Starts a daemon in its own group; its output goes to the file `log` (None: /dev/null)."""
    out = open(log, "ab") if log else subprocess.DEVNULL
    try:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                             start_new_session=True, **kw)
    finally:
        if log:
            out.close()
    _groups.append(p)
    return p


def stop(p):
    if p in _groups:
        _groups.remove(p)
    _end_group(p)


def wait_accepting(p, host, port, secs=5.0):
    """Waits until host:port accepts. Raises LoadError when p dies or time runs out."""
    end = time.monotonic() + secs
    while time.monotonic() < end:
        if p.poll() is not None:
            raise LoadError(f"exited with status {p.returncode} before listening on {host}:{port}")
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise LoadError(f"did not listen on {host}:{port} within {secs:g} s")


def group_pids(pgid):
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[2]) == pgid and fields[0] != "Z":
            pids.append(int(name))
    return pids


def cpu_seconds(pids):
    """CPU time of the processes, threads that ended included, in the scheduler's resolution."""
    total = 0.0
    for pid in pids:
        try:
            # The clock clock_getcpuclockid(3) names: CPUCLOCK_SCHED of a whole process.
            total += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            pass  # it has ended
    return total


def memory_kb(pids):
    """(resident, private) KiB summed over the processes."""
    rss = private = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                for line in f:
                    key, _, rest = line.partition(":")
                    if key == "Rss":
                        rss += int(rest.split()[0])
                    elif key in ("Private_Clean", "Private_Dirty", "Private_Hugetlb"):
                        private += int(rest.split()[0])
        except OSError:
            pass
    return rss, private


def _parse(line):
    try:
        result = json.loads(line)
    except json.JSONDecodeError:
        raise LoadError(f"unreadable answer of the load tool: {line[:120]!r}") from None
    if "error" in result:
        number = result.get("errno", 0)
        raise LoadError(f"{result['mode']}: {result['error']} ({os.strerror(number)})")
    return result


def run_load(argv, deadline):
    """Runs one client of the load tool and returns its JSON line."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=deadline)
    except subprocess.TimeoutExpired:
        raise LoadError("the load tool passed its deadline") from None
    lines = [l for l in done.stdout.splitlines() if l.strip()]
    if not lines:
        raise LoadError(f"the load tool said nothing, status {done.returncode}: "
                        f"{done.stderr.strip()[:120]}")
    return _parse(lines[0])


class Holder:
    """`load idle`: holds connections between entering and leaving a with block."""

    def __init__(self, argv):
        self.argv = argv

    def __enter__(self):
        self.p = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, start_new_session=True)
        _groups.append(self.p)
        line = self.p.stdout.readline()
        if not line:
            raise LoadError("the idle holder died")
        return _parse(line)

    def __exit__(self, *exc):
        self.p.stdin.close()
        try:
            self.p.wait(10)
        except subprocess.TimeoutExpired:
            pass
        stop(self.p)
