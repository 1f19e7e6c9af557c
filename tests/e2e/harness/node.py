# SPDX-License-Identifier: Apache-2.0
"""A running 'spanwire node': started inside a namespace, watched, and ended by its id only."""
import contextlib
import json
import os
import re
import signal
import subprocess

from .metrics import Metrics, parse_log
from .traffic import http
from .wait import GUARD, guard, until

_SANITIZER = re.compile(r"(ERROR: (Address|Leak|Thread|Memory)Sanitizer|WARNING: ThreadSanitizer"
                        r"|runtime error:|SUMMARY: \w+Sanitizer)")


class Process:
    """A child in a namespace that dies with the test process; its stderr goes to a file."""

    def __init__(self, ns, argv, log_path, env=None, nofile=None):
        self.log_path = log_path
        full = ["setpriv", "--pdeathsig", "KILL"]
        if nofile:
            full += ["prlimit", f"--nofile={nofile}:{nofile}"]
        environ = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "SPANWIRE_XDS_LISTEN",
                                                              "SPANWIRE_UPSTREAM_ALLOW", "SPANWIRE_ADMIN_AUTH",
                                                              "SPANWIRE_ADMIN_TOKEN_FILE")
                   or k.endswith("SAN_OPTIONS") or k == "ASAN_SYMBOLIZER_PATH"}
        environ.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
        environ.setdefault("TSAN_OPTIONS", "halt_on_error=0:exitcode=98")
        environ.update(env or {})
        with open(log_path, "ab") as log, ns.entered():
            self.proc = subprocess.Popen(full + argv, stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, env=environ, start_new_session=True)

    @property
    def pid(self):
        return self.proc.pid

    @property
    def alive(self):
        return self.proc.poll() is None

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def signal(self, number):
        if self.alive:
            os.kill(self.pid, number)

    @contextlib.contextmanager
    def stopped(self):
        """None of its threads runs during the block; a signal alone returns before they have stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            until(lambda: os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG), interval=0.001,
                  what=f"{self.pid} to stop")
            yield
        finally:
            self.signal(signal.SIGCONT)

    def wait(self, timeout=GUARD):
        """The exit status; fails when the process does not end, for which it has GUARD seconds or more."""
        try:
            return self.proc.wait(guard(timeout))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} still runs after {guard(timeout):g} s; "
                                 f"log ends with:\n{self.log()[-2000:]}") from None

    def kill(self):
        self.signal(signal.SIGKILL)
        self.proc.wait()

    def rss_kb(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def open_fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def open_sockets(self):
        """The sockets it holds, as a set: one it was told the end of stays in it until it has closed it."""
        found = set()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
        return {name for name in found if name.startswith("socket:")}


class Node(Process):
    """'spanwire node' with its admin, metrics and readiness ports."""

    def __init__(self, binary, ns, name, log_path, flags, env=None, nofile=None, offset=0):
        self.ns = ns
        self.name = name
        self.admin_addr = ("127.0.0.1", 15000 + offset)
        self.stats_addr = ("127.0.0.1", 15020 + offset)
        self.ready_addr = ("127.0.0.1", 15021 + offset)
        self.flags = list(flags)
        self.expect_status = 0
        self.killed = False
        if offset:
            self.flags += ["--admin-addr", f"127.0.0.1:{15000 + offset}",
                           "--stats-addr", f"[::]:{15020 + offset}",
                           "--ready-addr", f"[::]:{15021 + offset}"]
        super().__init__(ns, [binary, "node", *self.flags], log_path, env, nofile)

    def wait_ready(self, timeout=GUARD):
        def ready():
            if not self.alive:
                raise AssertionError(f"{self.name} ended with status {self.proc.returncode} "
                                     f"before it was ready:\n{self.log()[-4000:]}")
            return any(e.scope == "node" and e.message == "ready" for e in self.lines())
        until(ready, timeout, f"'ready' in the log of {self.name}:\n{self.log()[-4000:]}")
        return self

    def lines(self):
        """The log so far; a line that is being written when we look is left for the next time."""
        whole, _, _ = self.log().rpartition("\n")
        return [e for e in map(parse_log, whole.splitlines()) if e]

    def access(self, message=None, **fields):
        """Access-log lines; fields are given with _ for the dots of their names."""
        out = []
        for e in self.lines():
            if e.scope != "access" or (message and e.message != message):
                continue
            if all(e.get(k.replace("_", ".", 1)) == v or e.get(k) == v
                   for k, v in fields.items()):
                out.append(e)
        return out

    def wait_access(self, n=1, message=None, timeout=GUARD, **fields):
        """The access-log lines that match, once there are n of them."""
        return until(lambda: (lambda got: got if len(got) >= n else None)(
            self.access(message, **fields)), timeout,
            f"{n} access-log lines {message or ''} {fields} from {self.name}; "
            f"there are {self.access()}")

    def wait_log(self, pattern, timeout=GUARD):
        regex = re.compile(pattern)
        return until(lambda: regex.search(self.log()), timeout,
                     f"/{pattern}/ in the log of {self.name}:\n{self.log()[-3000:]}")

    def admin(self, path, method="GET"):
        status, _, body = http(self.ns, self.admin_addr, path, method)
        return status, body.decode()

    def config_dump(self):
        """The dump, once it has the word of every worker."""
        def whole():
            status, body = self.admin("/config_dump")
            assert status == 200, body
            dump = json.loads(body)
            return dump if dump["complete"] else None
        return until(whole, what=f"a complete dump of {self.name}")

    def metrics(self, path="/metrics", headers=()):
        status, _, body = http(self.ns, self.stats_addr, path, headers=headers)
        assert status == 200
        return Metrics(body.decode())

    def ready(self):
        status, _, body = http(self.ns, self.ready_addr, "/healthz/ready")
        return status, body.decode().strip()

    def loaded(self, marker):
        """Whether all of it works with a configuration: the dump is made of what the workers answer."""
        dump = self.admin("/config_dump")[1]
        return marker in dump and '"complete": true' in dump

    def terminate(self):
        self.signal(signal.SIGTERM)

    def kill(self):
        self.killed = True
        super().kill()

    def finish(self, timeout=GUARD):
        """Ends the process and checks how it ended: the last line of every test."""
        if self.alive:
            self.terminate()
        try:
            status = self.wait(timeout)
        except AssertionError:
            self.kill()
            raise
        report = _SANITIZER.search(self.log())
        if report:
            start = max(0, report.start() - 200)
            raise AssertionError(f"sanitizer report of {self.name}:\n"
                                 f"{self.log()[start:start + 6000]}")
        if self.killed:
            assert status == -signal.SIGKILL
        elif self.expect_status is not None:
            assert status == self.expect_status, \
                f"{self.name} exit status {status}:\n{self.log()[-3000:]}"
