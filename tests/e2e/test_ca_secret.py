# SPDX-License-Identifier: Apache-2.0
"""Replicas of 'control --ca-secret' on a cluster: one certificate authority for all of them, in a Secret."""
import base64
import re
import ssl

import pytest
from harness.control import Control, _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, until

SECRETS = "/api/v1/namespaces/istio-system/secrets"


class Replica(Process):
    def __init__(self, binary, where, name, api):
        super().__init__(_Here(), [
            binary, "control", "--kubeconfig", str(api.kubeconfig), "--connector", "false", "--xds-listen", "127.0.0.1:0",
            "--mesh-listen", "127.0.0.1:0", "--ca-secret", "--data", str(where / name), "--lease-namespace", "istio-system",
            "--identity", name, "--admin-addr", "127.0.0.1:0", "--xds-secret", "spanwire-xds"], where / f"{name}.log")

    def issuer_of(self, root):
        """The mesh's port, with a certificate that this root vouches for."""
        port = until(lambda: re.search(r"mesh on 127\.0\.0\.1:(\d+)", self.log()), GUARD, "the mesh's port")[1]
        return ssl.get_server_certificate(("127.0.0.1", int(port)), ca_certs=str(root))

    def stop(self):
        self.signal(15)
        assert self.wait() == 0, self.log()[-3000:]
        assert not _SANITIZER.search(self.log()), self.log()


@pytest.fixture(name="api")
def _api(binary, tmp_path):
    api = Control(binary, tmp_path / "api", "--gateway", "false", "--connector", "false", "--relaxed-sync")
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "istio-system"}}).status == 201
    yield api
    api.close()


def root_of(api, name, where):
    data = until(lambda: api.get(f"{SECRETS}/{name}").json.get("data"), GUARD, "the Secret")
    assert set(data) == {"ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"}
    where.write_bytes(base64.b64decode(data["root-cert.pem"]))
    return where


def test_replicas_share_the_authority(api, binary, tmp_path):
    pair = [Replica(binary, tmp_path, name, api) for name in ("one", "two")]
    try:
        root = root_of(api, "istio-ca-secret", tmp_path / "root.pem")
        for replica in pair:
            replica.issuer_of(root)
        found = until(lambda: api.get("/api/v1/namespaces/default/configmaps/istio-ca-root-cert").json.get("data"), GUARD,
                      "the roots")
        assert found["root-cert.pem"].strip() == root.read_text(encoding="ascii").strip()
    finally:
        for replica in pair:
            replica.stop()
    again = Replica(binary, tmp_path, "three", api)
    try:
        again.issuer_of(root)
    finally:
        again.stop()


def test_an_authority_that_was_plugged_in_counts(api, binary, tmp_path):
    first = Replica(binary, tmp_path, "one", api)
    root = root_of(api, "istio-ca-secret", tmp_path / "root.pem")
    first.stop()
    plugged = api.get(f"{SECRETS}/istio-ca-secret").json
    assert api.delete(f"{SECRETS}/istio-ca-secret").status == 200
    plugged["metadata"] = {"name": "cacerts"}
    assert api.post(SECRETS, plugged).status == 201
    second = Replica(binary, tmp_path, "two", api)
    try:
        second.issuer_of(root)
        assert api.get(f"{SECRETS}/istio-ca-secret").status == 404
    finally:
        second.stop()


def test_a_secret_without_a_ca_is_named_and_waited_for(api, binary, tmp_path):
    assert api.post(SECRETS, {"metadata": {"name": "cacerts"}, "data": {"ca-cert.pem": "eA=="}}).status == 201
    replica = Replica(binary, tmp_path, "one", api)
    try:
        until(lambda: "no CA in Secret 'istio-system/cacerts': 'ca-key.pem' is missing" in replica.log(), GUARD, "the reason")
        assert api.delete(f"{SECRETS}/cacerts").status == 200
        replica.issuer_of(root_of(api, "istio-ca-secret", tmp_path / "root.pem"))
    finally:
        replica.stop()
