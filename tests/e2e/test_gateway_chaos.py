# SPDX-License-Identifier: Apache-2.0
"""Random changes, many of them wrong, while requests are sent: what was in force keeps serving."""
import copy
import random
import socket
import subprocess
import threading
import time

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

JUNK = ["", "x" * 300, -1, 10**12, None, True, [], {}, "%", "0s", "-5s", {"a": 1}, 0, "127.0.0.1:1"]


def spots(node, path=()):
    """Every place in a resource but its type and its name."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for k, v in items:
        if k in ("@type", "name", "cluster_name"):
            continue
        yield path + (k,)
        if isinstance(v, (dict, list)):
            yield from spots(v, path + (k,))


def damage(resource, rng):
    out = copy.deepcopy(resource)
    for _ in range(rng.randint(1, 3)):
        left = list(spots(out))
        if not left:
            break
        where, node = rng.choice(left), out
        for k in where[:-1]:
            node = node[k]
        if rng.random() < 0.3:
            del node[where[-1]]
        else:
            node[where[-1]] = copy.deepcopy(rng.choice(JUNK))  # it may be damaged in turn
    return out


class Client(threading.Thread):
    """Sends requests on one connection after the other; 'bad' holds everything that was not 200."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stop, self.good, self.bad = port, False, 0, []

    def run(self):
        while not self.stop:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=2 * GUARD) as s:
                    f = s.makefile("rb")
                    for _ in range(5):
                        s.sendall(b"GET /echo HTTP/1.1\r\nhost: keep.test\r\n\r\n")
                        status, closes, length = f.readline(), False, 0
                        while (line := f.readline().strip().lower()):
                            closes |= line == b"connection: close"
                            if line.startswith(b"content-length:"):
                                length = int(line.split(b":")[1])
                        f.read(length)
                        if b" 200 " not in status:
                            self.bad.append(status)
                            break
                        self.good += 1
                        if closes:
                            break
            except OSError as e:
                self.bad.append(repr(e))
            time.sleep(0.002)


def test_random_changes_under_traffic(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    origin, port = gw.Origin(), gw.free_port()
    route = [{"match": {"prefix": "/"}, "route": {"cluster": "keep", "timeout": "60s"}}]
    steady = [gw.listener("keep", port, [{"filters": [gw.hcm(route)]}]),
              gw.cluster("keep", [origin.port])]
    # Others share the process; none of them is asked for anything.
    others = [gw.cluster(f"c{i}", [9], health_checks=[{
                  "timeout": "1s", "interval": "1s", "unhealthy_threshold": 1,
                  "healthy_threshold": 1, "http_health_check": {"path": "/"}}]) for i in range(4)]
    others += [gw.listener(f"l{i}", gw.free_port(), [{"filters": [gw.hcm(
        [{"match": {"prefix": "/"}, "route": {"cluster": f"c{i}", "retry_policy": {
            "retry_on": "5xx", "num_retries": 2}}}])]}]) for i in range(4)]
    gateway = gw.Gateway(binary, tmp_path, steady + others)
    clients = [Client(port) for _ in range(4)]
    for c in clients:
        c.start()
    try:
        for _ in range(150):
            changed = [damage(r, rng) if rng.random() < 0.4 else r for r in others
                       if rng.random() < 0.9]
            gateway.apply(steady + changed)
            time.sleep(0.01)
            assert gateway.process.poll() is None, f"seed {seed}\n" + gateway.log()[-3000:]
        gateway.apply(steady + others)
        until(lambda: sum(c.good for c in clients) > 100 or any(c.bad for c in clients), 20, "100 requests")
        time.sleep(0.3)
    finally:
        for c in clients:
            c.stop = True
        for c in clients:
            c.join(2 * GUARD)
    bad = [b for c in clients for b in c.bad]
    assert not bad, f"seed {seed}: {bad[:5]}"
    gateway.stop()
    origin.close()
