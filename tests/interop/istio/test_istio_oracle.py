# SPDX-License-Identifier: Apache-2.0
"""
istiod as the judge of our control plane: both read the same objects of one API, and every Address and Authorization that
they send a node is compared, field by field, and its version with it.
"""
import contextlib
import json
import time

import pytest
from harness.control import Control
from harness.ports import free_port
from harness.wait import GUARD, until
from harness.xds_client import URL, Xds, _fields
from istio_objects import LATER, everything, quirks, visible
from istio_peers import Istiod, missing
from istio_world import Authority
from test_mesh_control import decode

ADDRESS, AUTHORIZATION = URL + "istio.workload.Address", URL + "istio.security.Authorization"
NODE = "ztunnel~10.0.0.1~z.istio-system~istio-system.svc.cluster.local"
WORKLOAD = {1: "name", 2: "namespace", 3: "addresses", 4: "network", 5: "tunnel_protocol", 6: "trust_domain",
            7: "service_account", 8: "waypoint", 9: "node", 10: "canonical_name", 11: "canonical_revision",
            12: "workload_type", 13: "workload_name", 14: "native_tunnel", 16: "authorization_policies", 17: "status",
            18: "cluster_id", 19: "network_gateway", 20: "uid", 21: "hostname", 22: "services", 23: "application_tunnel",
            24: "locality", 25: "network_mode", 26: "extensions", 27: "capacity"}
SERVICE = {1: "name", 2: "namespace", 3: "hostname", 4: "addresses", 5: "ports", 6: "subject_alt_names", 7: "waypoint",
           8: "load_balancing", 9: "ip_families", 10: "extensions", 11: "canonical", 12: "ingress_use_waypoint",
           13: "weighted_waypoints", 14: "visibility"}
POLICY = {1: "name", 2: "namespace", 3: "scope", 4: "action", 5: "rules", 6: "dry_run"}


# What libraries write in an order of their own: maps, and messages with a choice of fields.
IN_ANY_ORDER = {"services": sorted, "waypoint": lambda v: [decode(x) for x in v],
                "weighted_waypoints": lambda v: [{n: [decode(y) for y in f] if n == 1 else f for n, f in decode(x).items()}
                                                 for x in v]}


def named(kind, value):
    """{field: [values]} of a resource's message; maps in any order."""
    inside = decode(dict(_fields(value)).get(2, b""))
    if kind == AUTHORIZATION:  # the clauses of a rule all have to hold, in any order
        return {POLICY[n]: [sorted(decode(r).get(1, [])) for r in v] if POLICY[n] == "rules" else v
                for n, v in inside.items()}
    names, body = (WORKLOAD, inside[1][0]) if 1 in inside else (SERVICE, inside[2][0])
    return {names[n]: IN_ANY_ORDER.get(names[n], list)(v) for n, v in decode(body).items()}


QUIRKS = ["Kubernetes//Pod/shop/exempt: authorization_policies",   # port DISABLE below an inherited STRICT is exempt
          "Kubernetes/networking.istio.io/ServiceEntry/shop/bare/192.0.2.1: authorization_policies",  # selects by no label
          "only ours: shop/converted_peer_authentication_port",     # STRICT port of a PERMISSIVE workload, STRICT mesh
          "shop/domains: rules",                                    # trustDomains beside namespaces
          "shop/empty-selector: scope"]                             # of the namespace, not of nobody


class Judged:
    """One API, both control planes beside it, a node's stream to each."""

    def __init__(self, binary, where, objects, flags=(), config=""):
        self.port = free_port()
        self.api = Control(binary, where / "control", "--relaxed-sync", "--gateway=true", "--connector=false",
                           "--mesh-statuses=false", "--mesh-allocate=false", "--xds-listen", f"127.0.0.1:{self.port}",
                           *flags)
        objects = list(objects)
        kinds = [path.rpartition("/")[2] for path, _, _ in objects if path]
        # Not all of them become resources, but most do.
        self.least = {ADDRESS: (kinds.count("pods") + kinds.count("services") + kinds.count("serviceentries")) * 3 // 4,
                      AUTHORIZATION: kinds.count("authorizationpolicies") // 2}
        self.fill(objects)
        self.istiod = Istiod(self.api, where / "istiod", Authority(where / "ca").dir, free_port(), config)
        pki = self.api.data / "pki"
        token = (pki / "admin.token").read_text(encoding="ascii").strip()
        self.ours = Xds(self.port, pki / "root.crt", token, node=NODE)
        self.theirs = Xds(self.istiod.plain, None, None, node=NODE)
        for x in (self.ours, self.theirs):
            for kind in (ADDRESS, AUTHORIZATION):
                x.send(kind)

    def fill(self, objects):
        for path, body, status in objects:
            if (path, body, status) == LATER:
                now = int(time.time())
                until(lambda n=now: int(time.time()) > n, what="the next second")
                continue
            a = self.api.post(path, body)
            assert a.status in (201, 409), (path, body, a)
            if status:
                a = self.api.patch(f"{path}/{body['metadata']['name']}/status", {"status": status})
                assert a.status == 200, (body, a)

    def sides(self, kind):
        for x in (self.ours, self.theirs):
            assert x.read(0.02), (x.status, x.why)
        return self.ours.have.get(kind, {}), self.theirs.have.get(kind, {})

    def differences(self, kind):
        ours, theirs = self.sides(kind)
        out = [f"only ours: {n}" for n in sorted(set(ours) - set(theirs))]
        out += [f"only istiod's: {n}" for n in sorted(set(theirs) - set(ours))]
        for name in sorted(set(ours) & set(theirs)):
            a, b = named(kind, ours[name]), named(kind, theirs[name])
            out += [f"{name}: {f}: ours {a.get(f)}, istiod's {b.get(f)}" for f in sorted(a.keys() | b.keys())
                    if a.get(f) != b.get(f)]
        return out

    def whole(self, kind):
        """True when istiod has sent as much as it lists, which is everything there is to list."""
        status, body = self.istiod.debug("/debug/ambientz")
        assert status == 200, body
        dump = json.loads(body)
        count = len(dump["policies"]) if kind == AUTHORIZATION else len(dump["workloads"]) + len(dump["services"])
        return len(self.sides(kind)[1]) == count and count >= self.least[kind]

    def close(self):
        for x in (self.ours, self.theirs):
            x.close()
        self.istiod.close()
        self.api.close()


@contextlib.contextmanager
def judging(binary, factory, objects, **kw):
    absent = missing("istiod")
    if absent:
        pytest.skip(f"NOT RUN: {absent[0]} not set")
    j = Judged(binary, factory.mktemp("j"), objects, **kw)
    try:
        yield j
    finally:
        j.close()


@pytest.fixture(scope="module")
def judged(topology, binary, tmp_path_factory):
    del topology  # istiod serves on an address of the fabric
    with judging(binary, tmp_path_factory, everything()) as j:
        yield j


@pytest.mark.parametrize("kind", [ADDRESS, AUTHORIZATION], ids=["addresses", "policies"])
def test_both_control_planes_send_the_same(judged, kind):
    """All that istiod's own dump has, /debug/ambientz: nothing was left out by the stream."""
    seen = []

    def same():
        seen[:] = judged.differences(kind)
        return judged.whole(kind) and not seen
    try:
        until(same, GUARD, "the same resources")
    except AssertionError:
        raise AssertionError("\n".join(seen) or "istiod has not sent what it lists") from None


# The same list for both.
VISIBILITY = """
serviceEntryVisibility:
  defaultVisibility: PUBLIC
  policies:
  - visibility: NONE
    matchingRules:
    - namespaceSelector: {matchLabels: {team: a}}
    - namespaceSelector: {matchExpressions: [{key: stage, operator: In, values: [test, dev]}]}
  - visibility: NAMESPACE
    matchingRules:
    - namespaceSelector: {matchLabels: {team: a}}
"""
FLAGS = ("--mesh-entry-visibility", "none;team=a,stage in (test, dev)", "--mesh-entry-visibility", "namespace;team=a")


def test_both_see_service_entries_alike(topology, binary, tmp_path_factory):
    """serviceEntryVisibility: who wins a host, who is canonical, endpoints and waypoints; and when labels change."""
    del topology
    with judging(binary, tmp_path_factory, visible(), flags=FLAGS, config=VISIBILITY) as j:
        seen = []

        def same(*hidden):
            seen[:] = j.differences(ADDRESS)
            ours = j.sides(ADDRESS)[0]
            return (j.whole(ADDRESS) and not seen and "open/common.example" in ours and
                    not [n for n in ours if n.split("/")[0] in hidden])
        try:
            until(lambda: same("hidden"), GUARD, "the same resources")
            for ns, labels, hidden in (("hidden", {"team": "b"}, []), ("own", {"team": "a", "stage": "dev"}, ["own"])):
                a = j.api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": labels}})
                assert a.status == 200, a
                until(lambda h=hidden: same(*h), GUARD, f"the same resources with {ns} as {labels}")
        except AssertionError:
            raise AssertionError("\n".join(seen) or "istiod has not sent what it lists") from None


def test_ours_refuses_where_istiod_forgets(topology, binary, tmp_path_factory):
    """
    Objects of which istiod makes less than they say: no other resources differ, and these in the way that is meant.
    doc/conformance/mesh.md lists them.
    """
    del topology
    with judging(binary, tmp_path_factory, quirks()) as j:
        until(lambda: all(len(side) > 3 for side in j.sides(AUTHORIZATION)), what="the policies")
        until(lambda: all("Kubernetes//Pod/shop/port" in side for side in j.sides(ADDRESS)), what="the pods")
        found = []

        def settled():
            before, found[:] = list(found), j.differences(ADDRESS) + j.differences(AUTHORIZATION)
            return before == found and found
        until(settled, interval=1, what="the differences")
        assert sorted(":".join(d.split(":")[:2]) for d in found) == QUIRKS, "\n".join(found)
