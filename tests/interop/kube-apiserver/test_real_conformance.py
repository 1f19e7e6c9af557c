# SPDX-License-Identifier: Apache-2.0
"""
The Gateway API's conformance suite, unchanged, on a real kube-apiserver: two replicas of 'spanwire control' with tokens of
their own and the rights of deploy/kubernetes/rbac.yaml, one 'spanwire gateway'. In the middle the replica that leads and
serves the gateway is killed. Each test of the suite is a test here; report and log are left in INTEROP_DIR/real.yaml and .log.
"""
import pathlib
import re
import sys
import time

import pytest
from conformance.catalog import ENTRIES
from conformance.suite import NO_MESH, DataPlane
from harness.wait import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))

import test_upstream_suite as upstream  # noqa: E402  pylint: disable=wrong-import-position
from real_api import NAMESPACE, RBAC, ROOT, RealApi  # noqa: E402  pylint: disable=wrong-import-position
from replicas import SECRET, Replica, Service  # noqa: E402  pylint: disable=wrong-import-position


BEGUN = re.compile(r"^=== RUN   TestConformance/[^/\s]+$", re.M)


class Run(upstream.Run):
    """As upstream's third mode, with a foreign API."""

    def __init__(self, binary, where, peer):
        self.killed, self.service = None, None
        super().__init__(binary, where, peer.parent / "conformance", "cluster")

    @property
    def log(self):
        return self.peer.parent / "kube-apiserver/real.log"

    @log.setter
    def log(self, value):
        pass

    @property
    def report(self):
        return self.peer.parent / "kube-apiserver/real.yaml"

    @report.setter
    def report(self, value):
        pass

    def _api(self, binary, flags):
        api = RealApi(self.peer.parent / "kube-apiserver", self.where / "api")
        api.apply_file(*sorted((ROOT / "schemas/gateway.networking.k8s.io").glob("*.yaml")))
        return api

    def _replicas(self, binary, flags):
        self.control.apply_file(RBAC)
        for name in ("one", "two"):
            config = self.control.kubeconfig_of("spanwire-control", self.where / f"{name}.kubeconfig")
            self.replicas.append(Replica(binary, self.where, name, config, *flags))
        (self.where / "token").write_text(self.control.token("spanwire-gateway"), encoding="ascii")
        for r in self.replicas:
            until(r.ready, 60, f"{r.name} to be ready")
        until(lambda: any(r.leads() for r in self.replicas), 60, "a leader")

    def _plane(self, binary):
        root = self.control.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SECRET}").json["data"]["ca.crt"]
        (self.where / "ca.crt").write_text(root, encoding="ascii")
        self.service = Service(self.replicas)
        return DataPlane(binary, self.where, self.control, self.service.address, ca=self.where / "ca.crt",
                         token=self.where / "token")

    def _meanwhile(self, suite):
        """Kills the leader when half of the tests are done."""
        half = len([e for e in ENTRIES.values() if not e.mesh]) // 2
        while suite.poll() is None:
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if len(BEGUN.findall(text)) > half:
                break
            time.sleep(0.5)
        self.killed = next((r for r in self.replicas if r.leads()), None)
        if self.killed and suite.poll() is None:
            assert self.killed.clients(), "the gateway is another replica's"
            self.killed.kill()

    def close(self):
        self.service.close()
        self.replicas = [r for r in self.replicas if r is not self.killed]
        super().close()


@pytest.fixture(scope="module")
def suite(binary, tmp_path_factory, interop_dir, topology):
    del topology  # for the private /run/netns alone
    if not (interop_dir.parent / "conformance/conformance.test").exists():
        pytest.skip("no conformance suite: 'tools/interop conformance' has not got one")
    one = Run(binary, tmp_path_factory.mktemp("real"), interop_dir)
    yield one
    one.close()


def test_real_the_leader_was_killed_in_the_middle(suite):
    assert suite.killed and not suite.killed.alive
    survivor = next(r for r in suite.replicas if r is not suite.killed)
    assert survivor.leads(), survivor.log()[-3000:]


@pytest.mark.parametrize("name", ENTRIES)
def test_real_suite(suite, name):
    if name not in suite.results:
        assert upstream.ONLY, f"did not run:\n{suite.said()}"
        pytest.skip("not selected")
    verdict, _ = suite.results[name]
    if verdict == "SKIP":
        pytest.skip(NO_MESH if ENTRIES[name].mesh else suite.reasons.get(name, "skipped by the suite"))
    assert verdict == "PASS", suite.said(name)


def test_real_report_is_written(suite):
    if upstream.ONLY:
        pytest.skip("not the whole suite")
    assert "kind: ConformanceReport" in suite.report.read_text(encoding="utf-8")
    assert suite.status == 0


def test_real_control_planes_need_no_other_rights(suite):
    refused = [line for r in suite.replicas for line in r.log().splitlines() if "orbidden" in line]
    assert not refused, refused[:5]


def test_real_pods_ran_without_trouble(suite):
    assert not suite.kubelet.trouble, suite.kubelet.trouble[:5]
