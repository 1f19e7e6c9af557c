# SPDX-License-Identifier: Apache-2.0
"""What tests left running: children of this process, found in the table of processes."""
import os
import signal
import time


def children():
    """{process id: command line} of those that have not ended."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                state, parent = f.read().rsplit(")", 1)[1].split()[:2]
            if int(parent) != os.getpid() or state in "ZX":
                continue
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as f:
                found[int(name)] = f.read().replace("\0", " ").strip()
        except OSError:  # it has just ended
            pass
    return found


def end(patience=10.0):
    """Ends whoever does not end by itself in that time, and says who it was."""
    deadline = time.monotonic() + patience
    while (left := children()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)  # our own child: the number is its until we have waited for it
    return [f"{pid}: {line[:200]}" for pid, line in left.items()]
