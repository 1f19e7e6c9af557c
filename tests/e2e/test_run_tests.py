# SPDX-License-Identifier: Apache-2.0
"""tools/run-tests itself, with other programs in place of those it starts."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from harness.wait import guard

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/run-tests"
REFUSED = "unshare: unshare failed: Operation not permitted"


@pytest.fixture
def suite(binary, tmp_path):
    """run-tests on a build directory of its own, where 'ninja' has nothing to do and 'unshare' is a script."""
    build, programs = tmp_path / "build", tmp_path / "bin"
    (build / "meson-info").mkdir(parents=True)
    (build / "meson-info/intro-buildoptions.json").write_text(
        '[{"name": "tests", "value": "enabled"}, {"name": "b_sanitize", "value": "none"}]')
    (build / "spanwire").symlink_to(binary)
    programs.mkdir()

    def run(unshare, *argv):
        for name, script in (("ninja", "exit 0"), ("unshare", unshare)):
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        env = {k: v for k, v in os.environ.items() if not k.startswith("SPANWIRE_E2E")}
        env["PATH"] = f"{programs}:{env['PATH']}"
        return subprocess.run([sys.executable, TOOL, "--build", build, "--only", "e2e", *argv], env=env, text=True,
                              capture_output=True, timeout=guard(120), check=False)
    return run


def test_without_namespaces_the_suite_fails_and_its_last_line_says_why(suite):
    done = suite(f"echo '{REFUSED}' >&2; exit 1", "-k", "test_pods_reach_each_other_and_the_outside")
    lines = done.stdout.strip().splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    assert lines[-1] == ("0 passed, 1 failed, 1 skipped (end-to-end tests could not run: no network namespaces here)"), \
        done.stdout
    assert any(REFUSED in line for line in lines), done.stdout
    assert any(line.startswith("     1  cannot make namespaces here") for line in lines), done.stdout


def test_what_tests_show_comes_before_the_last_line(suite, monkeypatch):
    monkeypatch.setenv("SHOW_A_TABLE", "1")
    done = suite(f'exec {shutil.which("unshare")} "$@"', "-k", "test_a_table_is_shown")
    lines = done.stdout.strip().splitlines()
    assert lines[-5:-2] == ["test_a_table_is_shown:", "  one <line> & \"more\"", "  and another"], done.stdout
    assert lines[-1] == "1 passed, 0 failed", done.stdout


def test_with_namespaces_the_last_line_is_the_count(suite):
    done = suite(f'exec {shutil.which("unshare")} "$@"', "-k", "test_what_hangs_is_ended")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1] == "1 passed, 0 failed", done.stdout


@pytest.mark.parametrize("races", [True, False], ids=["race", "defect"])
def test_what_failed_is_run_once_more(suite, monkeypatch, tmp_path, races):
    """What passes by itself is listed, and what does not has failed."""
    monkeypatch.setenv("FAIL_A_TEST", str(tmp_path / "failed") if races else "always")
    done = suite(f'exec {shutil.which("unshare")} "$@"', "--jobs", "2", "-k",
                 "test_a_failure_on_demand or test_what_hangs_is_ended")
    lines = done.stdout.strip().splitlines()
    assert done.returncode == (not races), done.stdout + done.stderr
    assert lines[-1] == ("2 passed, 0 failed" if races else "1 passed, 1 failed"), done.stdout
    listed = [i for i, line in enumerate(lines) if line.startswith("failed, and passed by itself")]
    assert len(listed) == races, done.stdout
    assert lines.count("  test_harness::test_a_failure_on_demand") == 1, done.stdout
