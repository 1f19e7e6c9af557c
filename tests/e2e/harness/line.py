# SPDX-License-Identifier: Apache-2.0
"""A line of a given delay, rate and loss between two network namespaces (bench/line.c)."""
import json
import pathlib
import subprocess

from .netns import NetNs
from .wait import GUARD, SLOW

NEAR, FAR = "10.99.0.1", "10.99.0.2"


class Line:
    """Two namespaces, 'near' and 'far', and nothing between them but the line."""

    def __init__(self, binary, **settings):
        self.near, self.far = NetNs("near"), NetNs("far")
        program = pathlib.Path(binary).parent / "tests/tools/line"
        argv = [str(program), self.near.path, self.far.path]
        for key, value in settings.items():
            argv += [key, str(value)]
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.proc.stdout.readline() == "ready\n"
        for ns, own, other in ((self.near, NEAR, FAR), (self.far, FAR, NEAR)):
            ns.ip("link set lo up", "link set line txqueuelen 5000", f"addr add {own} peer {other} dev line",
                  "link set line up")

    def _tell(self, text):
        self.proc.stdin.write(text + "\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline()

    def set(self, **settings):
        for key, value in settings.items():
            assert self._tell(f"{key} {value}") == "ok\n"

    def stats(self):
        """Of each direction, since the last time: packets and bytes carried, lost; 'peak': bytes under way at most."""
        return json.loads(self._tell("stats"))

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait(GUARD * SLOW) == 0
        self.proc.stdout.close()
        self.near.delete()
        self.far.delete()
