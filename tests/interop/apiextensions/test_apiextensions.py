# SPDX-License-Identifier: Apache-2.0
"""Our CRDs and our estimate of what CEL rules cost, against the validation code of kube-apiserver."""
import json
import pathlib
import subprocess

import pytest
import yaml
from harness.control import Control

ROOT = pathlib.Path(__file__).resolve().parents[3]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GOLDEN = ROOT / "tests/unit/kube/data/cel-cost.json"


def crd(schema, number):
    group = f"x{number}.example.com"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"ws.{group}"}, "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "ws", "kind": "W", "singular": "w", "listKind": "WList"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


def ours():
    for path in sorted((ROOT / "schemas").glob("*/*.yaml")):
        yield from (x for x in yaml.safe_load_all(path.read_text()) if x)


@pytest.fixture(scope="module")
def judge(interop_dir):
    def ask(crds):
        done = subprocess.run([str(interop_dir / "judge")], input="\n".join(json.dumps(x) for x in crds), text=True,
                              capture_output=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]
    return ask


def test_every_schema_of_ours_installs(judge):
    crds = list(ours())
    assert len(crds) > 20
    assert {x["name"]: x["errors"] for x in judge(crds) if x["errors"]} == {}


def test_the_recorded_costs_are_still_the_references(judge):
    """What the unit test of the estimate compares with."""
    golden = json.loads(GOLDEN.read_text())
    for group in golden["groups"]:
        rules = [{k: r[k] for k in ("rule", "messageExpression", "optionalOldSelf") if k in r} for r in group["rules"]]
        answers = judge([crd({**group["schema"], "x-kubernetes-validations": [r]}, i) for i, r in enumerate(rules)])
        for want, answer in zip(group["rules"], answers):
            got = answer["rules"][0]
            assert bool(got.get("err")) == bool(want.get("refused")), want
            if not want.get("refused"):
                assert got["cost"] == want["cost"], want
                assert want.get("messageRefused") or got.get("msg", 0) == want.get("messageCost", 0), want
    crds = [crd(x["schema"], i) for i, x in enumerate(golden["crds"])]
    for want, answer in zip(golden["crds"], judge(crds)):
        assert sorted(answer["errors"]) == want["errors"]


def test_the_server_refuses_the_same_crds(judge, binary, tmp_path):
    """The same verdicts and the same words over HTTP, for schemas at the bounds."""
    golden = json.loads(GOLDEN.read_text())["crds"]
    crds = [crd(x["schema"], i) for i, x in enumerate(golden)][::6]
    server = Control(binary, tmp_path)
    try:
        refused = 0
        for body, answer in zip(crds, judge(crds)):
            got = server.post(CRDS + "?dryRun=All", body)
            causes = got.json.get("details", {}).get("causes", []) if got.status == 422 else []
            assert sorted(f"{c['field']}: {c['message']}" for c in causes) == sorted(answer["errors"]), got
            assert got.status == (422 if answer["errors"] else 201), got
            refused += got.status == 422
        assert 0 < refused < len(crds)
    finally:
        server.close()
