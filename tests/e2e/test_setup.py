# SPDX-License-Identifier: Apache-2.0
"""tools/setup keeps Debian from starting the daemons it installs, and gives the machine its policy-rc.d back."""
import importlib.machinery
import pathlib
import re
import signal
import subprocess

import pytest

from harness.wait import guard

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/setup"
THEIRS = "#!/bin/sh\n# the machine's own\nexit 104\n"
# What the scripts of a package with a daemon do.
ASK = 'sh /usr/sbin/policy-rc.d knot.service start; echo "policy: $?" >&2\n'


class Machine:
    """An APT of ours, and a /usr/sbin that only this one sees."""

    def __init__(self, where):
        self.sbin, self.programs = where / "sbin", where / "bin"
        self.sbin.mkdir()
        self.programs.mkdir()
        self.policy = self.sbin / "policy-rc.d"
        self.program("dpkg-query", "exit 1")  # nothing is installed
        self.program("dpkg", "echo amd64")

    def program(self, name, script):
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def setup(self, apt, *sets):
        self.program("apt-get", apt)
        script = 'mount --bind "$1" /usr/sbin && shift && exec "$@"'
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", self.sbin, TOOL,
                               *sets], capture_output=True, text=True, timeout=guard(60), check=False,
                              env={"PATH": f"{self.programs}:/usr/bin:/bin"},
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a background job's is ignored

    def files(self):
        return sorted(p.name for p in self.sbin.iterdir())


@pytest.fixture
def machine(topology, tmp_path):
    del topology  # a private /run
    return Machine(tmp_path)


@pytest.mark.parametrize("before", [None, THEIRS], ids=["none", "theirs"])
def test_daemons_are_not_started_but_named(machine, before):
    if before:
        machine.policy.write_text(before)
    done = machine.setup(f'[ "$1" = install ] && {{ {ASK} }}; echo "knot" >/dev/null', "bench")
    assert done.returncode == 0, done.stderr
    assert "installed, but not started: knot " in done.stdout, done.stdout
    assert machine.files() == (["policy-rc.d"] if before else [])
    assert not before or machine.policy.read_text() == before


@pytest.mark.parametrize("end", ["exit 100", "kill -TERM $PPID; sleep 0.2", "kill -INT $PPID; sleep 0.2"])
def test_the_policy_comes_back_when_the_installation_ends_early(machine, end):
    machine.policy.write_text(THEIRS)
    done = machine.setup(f"[ -e /usr/sbin/policy-rc.d.machine ] || exit 99\n{end}", "fresh")
    assert done.returncode not in (0, 99, -signal.SIGKILL), done
    assert machine.files() == ["policy-rc.d"] and machine.policy.read_text() == THEIRS


@pytest.mark.parametrize("before", [None, THEIRS], ids=["none", "theirs"])
def test_the_policy_comes_back_after_a_killed_installation(machine, before):
    if before:
        machine.policy.write_text(before)
    assert machine.setup("kill -KILL $PPID", "fresh").returncode == -signal.SIGKILL
    assert machine.files() == ["policy-rc.d"] + (["policy-rc.d.machine"] if before else [])
    assert machine.setup("exit 0", "fresh").returncode == 0
    assert machine.files() == (["policy-rc.d"] if before else [])
    assert not before or machine.policy.read_text() == before


@pytest.fixture(scope="module")
def fresh():
    """tools/fresh as a module."""
    return importlib.machinery.SourceFileLoader("fresh", str(TOOL.parent / "fresh")).load_module()


SOURCES = """Types: deb deb-src
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: trixie-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
LIST = """# deb http://comment.example/debian bookworm main
deb [arch=amd64 signed-by=/k] http://docker.example/debian bookworm stable
deb http://pg.example/apt bookworm-pgdg main
deb-src http://src.example/debian bookworm main
"""


def test_fresh_takes_the_mirror_of_the_machine_and_nothing_else(fresh, tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(SOURCES)
    (tmp_path / "sources.list.d/other.list").write_text(LIST)
    assert fresh.mirror_lines(None, tmp_path) == ("http://mirror.example/debian", (
        "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian bookworm-updates main\n"
        "deb http://mirror.example/debian-security bookworm-security main\n"))
    (tmp_path / "sources.list").write_text("deb http://first.example/debian stable main\n")
    assert fresh.mirror_lines(None, tmp_path)[0] == "http://first.example/debian"
    assert fresh.mirror_lines("http://given.example", tmp_path)[0] == "http://given.example"


def test_fresh_wants_a_mirror(fresh, tmp_path, capsys):
    with pytest.raises(SystemExit):
        fresh.mirror_lines(None, tmp_path)
    assert "--mirror" in capsys.readouterr().err


def test_an_unknown_set_is_refused(machine):
    done = machine.setup("exit 0", "everything")
    assert done.returncode == 1 and "unknown set 'everything' (build, test, bench, fresh)" in done.stderr


def test_helm_that_cannot_be_had_is_one_line(tmp_path):
    """Then tools/setup goes on, and the tests of the chart are skipped."""
    tool = TOOL.parent / "fetch-helm"

    def fetch():
        return subprocess.run([tool, tmp_path / "helm"], capture_output=True, text=True, timeout=guard(120), check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1"})
    done = fetch()
    assert done.returncode == 77 and done.stdout.startswith("Helm cannot be fetched: "), done
    assert done.stdout.count("\n") == 1 and not done.stderr, done
    assert not (tmp_path / "helm/helm").exists()
    # What is there is kept while it is what is pinned.
    pin = re.search("^hash=(.*)$", tool.read_text(), re.M).group(1)
    (tmp_path / "helm/helm").write_text("")
    (tmp_path / "helm/helm").chmod(0o755)
    assert fetch().returncode == 77
    (tmp_path / "helm/helm.pin").write_text(pin + "\n")
    done = fetch()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
