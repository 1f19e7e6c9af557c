# SPDX-License-Identifier: Apache-2.0
"""
The Gateway API's own conformance suite, unchanged, against the embedded API, its controller and a data plane: 'spanwire
gateway' first, then a real Envoy (tests/interop/envoy) with the same xDS, then 'spanwire gateway' on one of two control
planes that work on a cluster elsewhere with the rights of deploy/kubernetes/rbac.yaml and no others. Each test of the suite
is a test here. The suite's report and its log are left in INTEROP_DIR/<mode>.yaml and .log.

    CONFORMANCE_RUN=REGEX       only these tests of the suite; no report
"""
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml
from conformance.catalog import ENTRIES
from conformance.suite import CLASS, CONTROLLER, NO_MESH, DataPlane
from harness.control import Control, _Here
from harness.envoy import Envoy, xds_of
from harness.netns import run
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, until

import kubelet

MODES = ("spanwire", "envoy", "cluster")
RBAC = pathlib.Path(__file__).resolve().parents[3] / "deploy/kubernetes/rbac.yaml"
ONLY = os.environ.get("CONFORMANCE_RUN", "")
POOL, USABLE, UNUSABLE = "10.80.0.0/24", "10.80.0.200", "203.0.113.7"
LIMIT = 1700
RESULT = re.compile(r"^    --- (PASS|FAIL|SKIP): TestConformance/(\S+) \(([0-9.]+)s\)$", re.M)
REASON = re.compile(r"Skipping (\S+): (.*)$", re.M)


def version_of(binary):
    told = subprocess.run([binary, "version"], capture_output=True, text=True, check=True).stdout
    return "v" + re.search(r"\d+\.\d+\.\d+\S*", told).group(0)


class Run:
    """One run of the suite, from the first process to the last."""

    def __init__(self, binary, where, peer, mode):
        self.where, self.peer, self.mode = pathlib.Path(where), pathlib.Path(peer), mode
        self.log = self.peer / f"{mode}.log"
        self.report = self.peer / f"{mode}.yaml"
        run("ip", "link", "set", "lo", "up")
        run("ip", "route", "replace", "local", POOL, "dev", "lo")
        gateways = ["--gateway-addresses", POOL, "--gateway-port-offset", "0", "--xds-listen", "127.0.0.1:0"]
        self.replicas = []
        if mode == "cluster":
            gateways, flags = ["--gateway", "false"], gateways
        self.control = self._api(binary, gateways)
        if mode == "cluster":
            self._replicas(binary, flags)
        self.plane = self._plane(binary)
        self.kubelet = kubelet.Kubelet(self.control, self.where / "pods", {
            "echo-basic": self.peer / "echo-basic", "coredns": self.peer / "resolver"})
        self._class()
        self.status = self._suite(version_of(binary))
        text = self.log.read_text(encoding="utf-8", errors="replace")
        self.results = {name: (verdict, float(s)) for verdict, name, s in RESULT.findall(text)}
        self.reasons = dict(REASON.findall(text))

    def _api(self, binary, flags):
        return Control(binary, self.where / "control", "--relaxed-sync", "--connector", "false", *flags)

    def _replicas(self, binary, flags):
        """Two control planes with a service account's rights; the second one serves, whoever leads."""
        for obj in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
            meta, top = obj["metadata"], "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
            inside = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
            answer = self.control.patch(f"{top}{inside}/{obj['kind'].lower()}s/{meta['name']}", obj, kind="apply",
                                        query="?fieldManager=deploy")
            assert answer.status in (200, 201), answer
        kubeconfig = yaml.safe_load(self.control.kubeconfig.read_text(encoding="utf-8"))
        kubeconfig["users"][0]["user"] = {"token": self._token("spanwire-control")}
        (self.where / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
        for name in ("one", "two"):
            self.replicas.append(Process(_Here(), [
                binary, "control", "--kubeconfig", str(self.where / "kubeconfig"), "--data", str(self.where / name),
                "--admin-addr", "127.0.0.1:0", "--lease-namespace", "spanwire-system", "--identity", name,
                "--connector", "false", *flags], self.where / f"{name}.log"))
        (self.where / "token").write_text(self._token("spanwire-gateway"), encoding="ascii")

    def _token(self, account):
        answer = self.control.post(f"/api/v1/namespaces/spanwire-system/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}})
        assert answer.status == 201, answer
        return answer.json["status"]["token"]

    def _plane(self, binary):
        if self.mode == "cluster":
            return DataPlane(binary, self.where, self.control, xds_of(self.replicas[1]),
                             ca=self.where / "two/xds-ca/root.crt", token=self.where / "token")
        if self.mode == "spanwire":
            return DataPlane(binary, self.where, self.control, xds_of(self.control))
        return Envoy.of_control(self.peer.parent / "envoy/envoy", binary, self.where, self.control)

    def _class(self):
        answer = self.control.post("/apis/gateway.networking.k8s.io/v1/gatewayclasses", {
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": CLASS},
            "spec": {"controllerName": CONTROLLER}})
        assert answer.status == 201, answer
        # The suite reads it once, at its beginning.
        where = f"/apis/gateway.networking.k8s.io/v1/gatewayclasses/{CLASS}"
        until(lambda: self.control.get(where).json.get("status", {}).get("supportedFeatures"), 30,
              "the features of the class")

    def _suite(self, version):
        argv = [str(self.peer / "conformance.test"), "-test.v", f"-test.timeout={LIMIT}s",
                "-gateway-class", CLASS, "-usable-address", USABLE, "-unusable-address", UNUSABLE]
        if ONLY:
            argv += ["-test.run", f"^TestConformance$/^({ONLY})$"]
        else:
            self.report.unlink(missing_ok=True)
            argv += ["-report-output", str(self.report), "-organization", "spanwire", "-project", "spanwire",
                     "-url", "https://spanwire.dev", "-version", version, "-contact", "https://spanwire.dev/contact",
                     "-mode", "envoy" if self.mode == "envoy" else "default"]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.where), "KUBECONFIG": str(self.control.kubeconfig),
               "KUBELET": self.kubelet.url}
        with open(self.log, "wb") as log:
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                  cwd=self.where) as suite:
                try:
                    self._meanwhile(suite)
                    return suite.wait(LIMIT + 30)
                finally:
                    suite.kill()

    def _meanwhile(self, suite):
        """While the suite runs."""

    def said(self, name=None):
        """What the suite printed between the beginning and the end of a test, or at its own end."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if name is None:
            return text[-4000:]
        begin = text.find(f"=== RUN   TestConformance/{name}\n")
        end = re.compile(r"^=== RUN   TestConformance/[^/]+$", re.M).search(text, begin + 10)
        return text[begin:end.start() if end else None][-6000:]

    def close(self):
        self.kubelet.close()
        for process in (self.plane, *self.replicas):
            process.signal(15)
            status = process.wait(GUARD)
            found = _SANITIZER.search(process.log())
            assert not found, process.log()[found.start():][:4000]
            assert status == 0, process.log()[-3000:]
        self.control.close()


@pytest.fixture(scope="module", params=MODES)
def suite(request, binary, tmp_path_factory, interop_dir, topology):
    del topology  # for the private /run/netns alone
    if request.param == "envoy" and not (interop_dir.parent / "envoy/envoy").exists():
        pytest.skip("no Envoy: 'tools/interop envoy' has not got one")
    one = Run(binary, tmp_path_factory.mktemp(request.param), interop_dir, request.param)
    yield one
    one.close()


def test_the_suite_knows_the_same_tests(suite):
    """The catalogue of the replay in 'make test' is upstream's."""
    if ONLY:
        pytest.skip("not the whole suite")
    assert set(suite.results) == set(ENTRIES), suite.said()


@pytest.mark.parametrize("name", ENTRIES)
def test_suite(suite, name):
    if name not in suite.results:
        assert ONLY, f"did not run:\n{suite.said()}"
        pytest.skip("not selected")
    verdict, _ = suite.results[name]
    if verdict == "SKIP":
        pytest.skip(NO_MESH if ENTRIES[name].mesh else suite.reasons.get(name, "skipped by the suite"))
    assert verdict == "PASS", suite.said(name)


def test_report_is_written(suite):
    if ONLY:
        pytest.skip("not the whole suite")
    assert "kind: ConformanceReport" in suite.report.read_text(encoding="utf-8")
    assert suite.status == 0


def test_control_planes_need_no_other_rights(suite):
    refused = [line for r in suite.replicas for line in r.log().splitlines() if "orbidden" in line or " 403" in line]
    assert not refused, refused[:5]


def test_data_plane_refused_nothing(suite, binary):
    if suite.replicas:
        pytest.skip("the control planes have no API of their own")
    done = subprocess.run([binary, "status", "--json", "true", "--kubeconfig", str(suite.control.kubeconfig)],
                          capture_output=True, text=True, check=False, timeout=60)
    clients = json.loads(done.stdout)["clients"]
    assert clients and not [c for c in clients if c["nacks"]], done.stdout


def test_pods_ran_without_trouble(suite):
    assert not suite.kubelet.trouble, suite.kubelet.trouble[:5]
