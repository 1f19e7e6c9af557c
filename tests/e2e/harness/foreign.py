# SPDX-License-Identifier: Apache-2.0
"""Backends for control planes that are not ours, and questions to data planes."""
import http.client
import subprocess
import time

from .wait import SLOW

BACKENDS = "10.99.0.1"  # loopback addresses are refused in EndpointSlices: this one leads there


def backend_address():
    """BACKENDS leads to 127.0.0.1 in this namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "replace", f"{BACKENDS}/32", "dev", "lo"], check=True)
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=f"""
table ip backends {{
  chain out {{
    type nat hook output priority -100
    ip daddr {BACKENDS} dnat to 127.0.0.1
  }}
}}
""")


class Probes(dict):
    """What is asked of a data plane: name -> (asks, judges the answer)."""

    def answer(self, world, name):
        try:
            return self[name][0](world)
        except (OSError, http.client.HTTPException, AssertionError) as e:
            return {"failed": f"{type(e).__name__}: {e}"}

    def holds(self, name, got):
        try:
            return "failed" not in got and self[name][1](got)
        except KeyError:  # not even the kind of answer
            return False

    def settled(self, world, name, patience=20):
        """The first answer that is what it must be, or the last one: objects and endpoints come one after the other."""
        end = time.monotonic() + patience * SLOW
        while True:
            got = self.answer(world, name)
            if self.holds(name, got) or time.monotonic() > end:
                return got
            time.sleep(0.2)
