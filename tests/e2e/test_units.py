# SPDX-License-Identifier: Apache-2.0
"""The systemd units, judged by systemd; and what every role gives up by itself."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from harness.wait import until

DIR = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd"
ROLES = ("control", "gateway", "sidecar", "relay", "link", "connector", "node")
WORST = 2.5

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def analyze(*argv):
    return subprocess.run(["systemd-analyze", *argv], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "XDG_RUNTIME_DIR": "/nonexistent"})


@needs_systemd
@pytest.mark.parametrize("role", ROLES)
def test_units_are_closed(role):
    unit = DIR / f"spanwire-{role}.service"
    r = analyze("security", "--offline=true", "--no-pager", str(unit))
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", r.stdout)
    assert level and float(level[1]) < WORST, r.stdout + r.stderr


@needs_systemd
@pytest.mark.parametrize("unit", sorted(p.relative_to(DIR).as_posix() for p in DIR.rglob("*.service")))
def test_units_parse(unit):
    r = analyze("verify", *(("--user",) if unit.startswith("user/") else ()), str(DIR / unit))
    faults = [line for line in r.stderr.splitlines() if unit.rsplit("/", 1)[-1] in line
              and re.search(r"Unknown|Invalid|Failed to parse|ignoring", line)]
    assert not faults


def options_of(binary, role):
    text = subprocess.run([binary, role, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^\s+(--[a-z0-9-]+)", text, re.M))


@pytest.mark.parametrize("unit", sorted(p.relative_to(DIR).as_posix() for p in DIR.rglob("*.service")))
def test_units_use_options_that_exist(binary, unit):
    text = (DIR / unit).read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(r"^ExecStart=/usr/local/bin/spanwire (\S+)(.*)$", text, re.M)
    assert command
    given = set(re.findall(r"--[a-z0-9-]+", command[2]))
    assert given and given <= options_of(binary, command[1])


def status_of(pid):
    return dict(re.findall(r"^(\w+):\s+(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M))


@pytest.mark.parametrize("wish, expected", [({}, ("1", "2")), ({"SPANWIRE_SANDBOX": "off"}, None)])
def test_a_role_gives_up_privileges_and_calls(binary, wish, expected):
    """Seen from outside; what is refused is in tests/unit/io/test_sandbox.c."""
    ours = status_of("self")
    zero = "127.0.0.1:0"
    with subprocess.Popen([binary, "relay", "--open", "--listen", zero, "--admin-addr", zero, "--stats-addr", zero,
                           "--ready-addr", zero], env=wish, stderr=subprocess.PIPE) as p:
        try:
            until(lambda: b"ready" in p.stderr.readline(), what="the relay is ready")
            s = status_of(p.pid)
            # switched off: what it got from us
            assert (s["NoNewPrivs"], s["Seccomp"]) == (expected or (ours["NoNewPrivs"], ours["Seccomp"]))
        finally:
            p.terminate()


def has_user(uid):
    """Root of a user namespace has the users that are mapped into it only."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        ranges = [[int(x) for x in line.split()] for line in f]
    return any(first <= uid < first + n for first, _, n in ranges)


@pytest.mark.skipif(os.geteuid() != 0 or not has_user(65534), reason="needs root: two processes of another user")
def test_a_role_that_hides_its_files_is_still_named(binary, tmp_path_factory):
    """Roles are not dumpable, so one of an ordinary user cannot look into another for who holds a port."""
    place = tmp_path_factory.mktemp("place")
    for p in (place, *place.parents[:2]):
        p.chmod(0o755)
    program = shutil.copy(binary, place / "spanwire")
    zero = "127.0.0.1:0"
    with subprocess.Popen([program, "relay", "--open", "--listen", zero, "--admin-addr", zero, "--stats-addr", zero,
                           "--ready-addr", zero], env={}, stderr=subprocess.PIPE, text=True, user=65534) as p:
        try:
            at = until(lambda: re.search(r"listening on (\S+) \((?!UDP)", p.stderr.readline()), what="the relay listens")[1]
            r = subprocess.run([program, "gateway", "--xds-addr", "127.0.0.1:1", "--admin-addr", at], env={}, user=65534,
                               capture_output=True, text=True, check=False)
            assert r.returncode == 1
            assert f"spanwire relay (pid {p.pid})" in r.stderr  # "probably": it cannot look
        finally:
            p.terminate()
