# SPDX-License-Identifier: Apache-2.0
"""The controller that ships with `spanwire control`: root certificates in every namespace."""
import subprocess

import pytest
from harness.control import Control
from harness.wait import GUARD, SLOW, until

CONFIGMAP = "spanwire-ca-root-cert"


def path(ns):
    return f"/api/v1/namespaces/{ns}/configmaps/{CONFIGMAP}"


@pytest.fixture
def roots(binary, tmp_path):
    subprocess.run([binary, "cert", "ca", "--dir", str(tmp_path / "ca")], check=True, timeout=GUARD * SLOW,
                   stdout=subprocess.DEVNULL)
    return tmp_path / "ca" / "root.crt"


@pytest.fixture
def api(binary, tmp_path, roots):
    server = Control(binary, tmp_path / "control", "--trust-roots", str(roots))
    yield server
    server.close()


def content(api, ns):
    answer = api.get(path(ns))
    return answer.json["data"]["root-cert.pem"] if answer.status == 200 else None


def test_roots_are_in_every_namespace_and_stay_there(api, roots):
    pem = roots.read_text()
    until(lambda: content(api, "default") == pem, 10)
    api.post("/api/v1/namespaces", {"metadata": {"name": "late"}})
    until(lambda: content(api, "late") == pem, 10, "a namespace made later")
    assert api.delete(path("late")).status == 200
    until(lambda: content(api, "late") == pem, 10, "deleted by somebody")
    assert api.patch(path("default"), {"data": {"root-cert.pem": "forged"}}).status == 200
    until(lambda: content(api, "default") == pem, 10, "changed by somebody")


def test_nothing_is_written_without_roots(binary, tmp_path):
    server = Control(binary, tmp_path / "control")
    try:
        assert server.get(path("default")).status == 404
    finally:
        server.close()


def test_unreadable_roots_are_one_line(binary, tmp_path):
    done = subprocess.run([binary, "control", "--data", str(tmp_path / "c"), "--listen", "127.0.0.1:0",
                           "--trust-roots", str(tmp_path / "none"), "--log-level", "error"],
                          capture_output=True, text=True, timeout=GUARD * SLOW, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "none" in done.stderr, done.stderr
