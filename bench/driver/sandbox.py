# SPDX-License-Identifier: Apache-2.0
"""Where a run happens: an own network namespace with only lo, one CPU, one clock.

Everything here degrades rather than fails, and every degradation is a note in
the result: a number without its conditions is worth nothing.
"""
import os
import shutil
import subprocess
import sys

MARK = 1337
NS_ENV = "SPANWIRE_BENCH_NS"
# Listeners of candidates and servers all live below this port, clients above it.
FIRST_CLIENT_PORT = 16384

SYSCTLS = {
    "net/ipv4/ip_local_port_range": f"{FIRST_CLIENT_PORT} 65535",
    "net/ipv4/tcp_tw_reuse": "1",
    "net/ipv4/tcp_max_tw_buckets": "4096",
    "net/core/somaxconn": "4096",
    "net/netfilter/nf_conntrack_tcp_timeout_time_wait": "1",
    "net/netfilter/nf_conntrack_tcp_timeout_close": "1",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait": "2",
    "net/netfilter/nf_conntrack_tcp_timeout_last_ack": "2",
    "net/netfilter/nf_conntrack_tcp_timeout_fin_wait": "2",
}


def enter_namespace():
    """Restarts this program inside `unshare`; returns how it got there: own, user or none."""
    state = os.environ.get(NS_ENV)
    if state:
        return state
    for kind, flags in (("own", ["-n"]), ("user", ["-Urn"])):
        probe = ["unshare", *flags, "ip", "link", "set", "lo", "up"]
        if not shutil.which("unshare"):
            break
        if subprocess.run(probe, capture_output=True, timeout=10).returncode == 0:
            os.environ[NS_ENV] = kind
            os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])
    os.environ[NS_ENV] = "none"
    return "none"


def run_quiet(argv, text=None):
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=15)


class Sandbox:
    """Pinning, routes, redirection. `notes` collects what could not be had."""

    def __init__(self, cpu):
        self.cpu = cpu
        self.notes = []
        self.namespace = enter_namespace()
        self.redirects = self.namespace != "none"
        self.realtime = self._can_realtime()
        if self.namespace == "none":
            self.notes.append("no own network namespace: host stack, host congestion control, "
                              "no redirection, spanwire cannot take part")
        else:
            self._prepare_namespace()

    def _can_realtime(self):
        ok = run_quiet(["chrt", "-r", "1", "true"]).returncode == 0
        if not ok:
            self.notes.append("SCHED_RR not allowed: other work on this CPU disturbs the run")
        return ok

    def _prepare_namespace(self):
        self.prepare_loopback()
        # Conntrack is loaded by the first nat chain; its sysctls exist only after that.
        self.set_redirects([])
        for key, value in SYSCTLS.items():
            try:
                with open(f"/proc/sys/{key}", "w", encoding="ascii") as f:
                    f.write(value)
            except OSError:
                self.notes.append(f"sysctl {key.replace('/', '.')} not set")

    def prepare_loopback(self, inside=()):
        """Up, with cubic; 'inside' is the command that enters another namespace."""
        run_quiet([*inside, "ip", "link", "set", "lo", "up"])
        for net in ("127.0.0.0/8", "127.0.0.1"):
            cmd = ["ip", "route", "change", "local", net, "dev", "lo", "proto", "kernel",
                   "scope", "host", "src", "127.0.0.1", "table", "local", "congctl", "cubic"]
            if run_quiet([*inside, *cmd]).returncode != 0:
                self.notes.append(f"congestion control not pinned on {net}")

    def set_redirects(self, rules):
        """rules: (client-facing address, port, candidate address, candidate port)."""
        if not self.redirects:
            return
        lines = [f"ip daddr {a} tcp dport {p} dnat to {h}:{q}" for a, p, h, q in rules]
        body = "\n".join(["table ip bench", "delete table ip bench", "table ip bench {",
                          "chain out { type nat hook output priority -100; policy accept;",
                          f"meta mark {MARK} return", *lines, "}", "}"])
        done = run_quiet(["nft", "-f", "-"], body)
        if done.returncode != 0:
            self.redirects = False
            self.notes.append("nftables not usable, no redirection: " + done.stderr.strip()[:200])

    def pin(self, argv, cpus=None):
        """The command line that runs argv on the bench CPU (or on the given list)."""
        where = cpus if cpus is not None else str(self.cpu)
        out = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        out += ["taskset", "-c", where]
        if self.realtime:
            out += ["chrt", "-r", "1"]
        return out + argv


def active_opens():
    """TCP connections actively opened in this namespace since it exists."""
    with open("/proc/net/snmp", encoding="ascii") as f:
        rows = [line.split() for line in f if line.startswith("Tcp:")]
    return int(dict(zip(rows[0], rows[1]))["ActiveOpens"])
