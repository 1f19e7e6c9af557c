# SPDX-License-Identifier: Apache-2.0
"""What `kubectl get` shows of the fabric's own kinds: state, whom it is about, and since when."""
import datetime
import pathlib
import re

import pytest
import yaml
from harness.control import Control, find_kubectl

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
DATUM = "/apis/networking.datumapis.com/v1alpha1/namespaces/default"
LINK = "/apis/clusterlink.net/v1alpha1/namespaces/default"
KEY = "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "schemas"
UPSTREAM = SCHEMAS.parent.parent / "shared/data/crds"


@pytest.fixture(scope="module", name="c")
def _c(binary, tmp_path_factory):
    c = Control(binary, tmp_path_factory.mktemp("columns"), "--gateway", "false", "--connector", "false", "--relaxed-sync")
    yield c
    c.close()


def ago(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind, status, reason, seconds):
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": ago(seconds), "observedGeneration": 1}


def make(c, path, kind, name, spec, status=None, **meta):
    version = "/".join(path.split("/")[2:4])
    made = c.post(path, {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec})
    assert made.status == 201, made
    if status:
        made = c.patch(f"{path}/{name}/status", {"status": status})
        assert made.status == 200, made


def table(c, path):
    """Rows by name, with the names of the columns; those of priority 0 only."""
    t = c.get(path, headers=TABLE).json
    assert t["kind"] == "Table"
    shown = [i for i, d in enumerate(t["columnDefinitions"]) if d["priority"] == 0]
    return [t["columnDefinitions"][i]["name"] for i in shown], {
        r["cells"][0]: [r["cells"][i] for i in shown] for r in t["rows"]}


def test_connectors(c):
    make(c, f"{DATUM}/connectors", "Connector", "laptop", {"connectorClassName": "datum-connect"}, {
        "conditions": [condition("Accepted", "True", "Accepted", 9000), condition("Ready", "True", "Ready", 7300)],
        "connectionDetails": {"type": "PublicKey", "publicKey": {"id": KEY, "discoveryMode": "DNS", "homeRelay": "https://r.example", "addresses": []}}},
        annotations={"datum.net/device-name": "anna-thinkpad"})
    make(c, f"{DATUM}/connectors", "Connector", "unheard", {"connectorClassName": "datum-connect"})
    names, rows = table(c, f"{DATUM}/connectors")
    assert names == ["Name", "Ready", "Device", "Since", "Age"]
    assert rows["laptop"][1:4] == ["True", "anna-thinkpad", "121m"], rows
    assert rows["unheard"][1:4] in (["", "", ""], ["", "", "<unknown>"], [None, None, None]), rows
    wide = c.get(f"{DATUM}/connectors/laptop", headers=TABLE).json
    cells = dict(zip([d["name"] for d in wide["columnDefinitions"]], wide["rows"][0]["cells"]))
    assert cells["NodeID"] == KEY and cells["Class"] == "datum-connect" and cells["Reason"] == "Ready"
    if not find_kubectl():
        pytest.skip("no kubectl here: what it prints was not looked at")
    lines = c.kubectl("get", "connectors").splitlines()
    assert re.match(r"NAME +READY +DEVICE +SINCE +AGE", lines[0]), lines
    assert re.match(r"laptop +True +anna-thinkpad +121m +\d+s", lines[1]), lines
    assert KEY in c.kubectl("get", "connectors", "-o", "wide")


def test_the_other_kinds(c):
    make(c, f"{DATUM}/connectoradvertisements", "ConnectorAdvertisement", "web", {"connectorRef": {"name": "laptop"}, "layer4": [
        {"name": "l", "services": [{"address": "127.0.0.1", "ports": [{"name": "http", "port": 3000, "protocol": "TCP"}]}]}]},
        {"conditions": [condition("Accepted", "True", "Accepted", 200)]})
    names, rows = table(c, f"{DATUM}/connectoradvertisements")
    assert names == ["Name", "Connector", "Accepted", "Since", "Age"] and rows["web"][1:4] == ["laptop", "True", "3m20s"], rows
    classes = "/apis/networking.datumapis.com/v1alpha1/connectorclasses"
    made = c.post(classes, {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "ConnectorClass", "metadata": {"name": "mine"},
                            "spec": {"controllerName": "example.com/mine"}})
    assert made.status == 201, made
    names, rows = table(c, classes)
    assert names == ["Name", "Controller", "Age"] and rows["mine"][1] == "example.com/mine"
    make(c, f"{LINK}/peers", "Peer", "east", {"gateways": [{"host": "east.example", "port": 443}]},
         {"conditions": [condition("PeerReachable", "False", "Heartbeat", 300)]})
    names, rows = table(c, f"{LINK}/peers")
    assert names == ["Name", "Reachable", "Gateways", "Since", "Age"] and rows["east"][1:4] == ["False", "east.example", "5m"], rows
    make(c, f"{LINK}/exports", "Export", "db", {"port": 5432}, {"conditions": [condition("ExportValid", "True", "Verified", 60)]})
    names, rows = table(c, f"{LINK}/exports")
    assert names == ["Name", "Valid", "Host", "Port", "Since", "Age"] and rows["db"][1] == "True" and rows["db"][3] == 5432, rows
    make(c, f"{LINK}/imports", "Import", "db", {"port": 5432, "sources": [{"exportName": "db", "exportNamespace": "default", "peer": "east"}]},
         {"conditions": [condition("ImportServiceValid", "True", "Valid", 60)]})
    names, rows = table(c, f"{LINK}/imports")
    assert names == ["Name", "Valid", "Peers", "Port", "Since", "Age"] and rows["db"][1:4] == ["True", "east", 5432], rows
    ready = {"DeploymentReady": condition("DeploymentReady", "True", "Ready", 60)}
    make(c, f"{LINK}/instances", "Instance", "site", {}, {"controlplane": {"conditions": ready}, "ingress": {"ip": "pending"}})
    names, rows = table(c, f"{LINK}/instances")
    assert names == ["Name", "Control", "Data", "Address", "Age"] and rows["site"][1] == "True" and rows["site"][3] == "pending", rows


def columns(crd):
    return {v["name"]: v.get("additionalPrinterColumns", []) for v in crd["spec"]["versions"]}


@pytest.mark.skipif(not UPSTREAM.is_dir(), reason="no copy of upstream's CRDs here")
def test_upstream_columns_are_kept():
    """Kinds for which upstream has columns have the same ones."""
    seen = 0
    for path in sorted(UPSTREAM.glob("*/*.yaml")):
        for theirs in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if not theirs or theirs.get("kind") != "CustomResourceDefinition" or "1.2.1" in str(path) or "1.5.1" in str(path):
                continue
            ours = SCHEMAS / theirs["spec"]["group"] / f"{theirs['spec']['names']['plural']}.yaml"
            if not ours.exists():
                continue
            have = columns(yaml.safe_load(ours.read_text(encoding="utf-8")))
            for version, wanted in columns(theirs).items():
                if wanted and version in have:
                    seen += 1
                    assert [(x["name"], x["jsonPath"]) for x in have[version]] == [(x["name"], x["jsonPath"]) for x in wanted], ours
    assert seen


def test_every_kind_says_how_old_it_is():
    for path in sorted(SCHEMAS.glob("*/*.yaml")):
        for version, cols in columns(yaml.safe_load(path.read_text(encoding="utf-8"))).items():
            assert not cols or "Age" in [x["name"] for x in cols], (path, version)
