# SPDX-License-Identifier: Apache-2.0
"""Every CustomResourceDefinition of ours is accepted and established by a real kube-apiserver."""
import pytest
import yaml
from harness.wait import until
from real_api import ROOT, RealApi

SCHEMAS = sorted((ROOT / "schemas").glob("*/*.yaml"))


@pytest.fixture(scope="module")
def api(tmp_path_factory, interop_dir):
    one = RealApi(interop_dir, tmp_path_factory.mktemp("schemas"))
    yield one
    one.close()


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_real_schema_installs(api, path):
    api.apply_file(path)
    name = yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"]
    where = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

    def conditions():
        return {c["type"]: c for c in api.get(where).json.get("status", {}).get("conditions", ())}
    until(lambda: conditions().get("Established", {}).get("status") == "True", 30, f"{name} to be established")
    assert conditions().get("NonStructuralSchema", {}).get("status") != "True", conditions()
