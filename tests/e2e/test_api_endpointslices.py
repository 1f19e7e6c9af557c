# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices that the API makes for Services with selectors, as a cluster's controller does."""
import itertools
import re

import pytest
from harness import rights as rt
from harness.control import Control
from harness.wait import GUARD, until

DISCOVERY = "/apis/discovery.k8s.io/v1"
MANAGER = "endpointslice-controller.k8s.io"
COUNTER = itertools.count()


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("slices"))
    yield server
    server.close()


@pytest.fixture
def ns(api):
    name = f"ns{next(COUNTER)}"
    rt.make(api, "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def service(api, ns, name="s", labels=None, **spec):
    return rt.make(api, f"/api/v1/namespaces/{ns}/services", {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec}})


def status(ips, ready=True, phase="Running"):
    return {"phase": phase, "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}


def pod(api, ns, name, *ips, app="a", ready=True, ports=(), meta=None, **spec):
    path = f"/api/v1/namespaces/{ns}/pods"
    rt.make(api, path, {"metadata": {"name": name, "labels": {"app": app}, **(meta or {})},
                        "spec": {"containers": [{"name": "c", "image": "i", "ports": list(ports)}], **spec}})
    if ips:
        answer = api.patch(f"{path}/{name}/status", {"status": status(ips, ready)})
        assert answer.status == 200, answer
    return f"{path}/{name}"


def slices(api, ns, service="s"):
    answer = api.get(f"{DISCOVERY}/namespaces/{ns}/endpointslices?labelSelector=kubernetes.io/service-name={service}")
    assert answer.status == 200, answer
    return answer.json["items"]


def addresses(api, ns, service="s"):
    return sorted(ip for s in slices(api, ns, service) for e in s["endpoints"] or () for ip in e["addresses"])


def until_addresses(api, ns, *want, service="s"):
    until(lambda: addresses(api, ns, service) == sorted(want), GUARD, f"endpoints {want}")


def test_a_slice_as_a_cluster_makes_it(api, ns):
    svc = service(api, ns, labels={"team": "x"}, ports=[{"name": "web", "port": 80, "targetPort": 8080,
                                                         "appProtocol": "http"}])
    rt.make(api, "/api/v1/nodes", {"metadata": {"name": f"{ns}-node",
                                                "labels": {"topology.kubernetes.io/zone": "z1"}}})
    path = pod(api, ns, "p", "192.0.2.1", nodeName=f"{ns}-node", hostname="h", subdomain="s")
    until_addresses(api, ns, "192.0.2.1")
    [one] = slices(api, ns)
    meta = one["metadata"]
    assert re.fullmatch("s-[bcdfghjklmnpqrstvwxz2456789]{5}", meta["name"]) and meta["generateName"] == "s-"
    assert meta["labels"] == {"team": "x", "kubernetes.io/service-name": "s",
                              "endpointslice.kubernetes.io/managed-by": MANAGER}
    assert meta["ownerReferences"] == [{"apiVersion": "v1", "blockOwnerDeletion": True, "controller": True,
                                        "kind": "Service", "name": "s", "uid": svc.json["metadata"]["uid"]}]
    assert one["addressType"] == "IPv4"
    assert one["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]
    assert one["endpoints"] == [{
        "addresses": ["192.0.2.1"], "conditions": {"ready": True, "serving": True, "terminating": False},
        "hostname": "h", "nodeName": f"{ns}-node", "zone": "z1",
        "targetRef": {"kind": "Pod", "name": "p", "namespace": ns, "uid": api.get(path).json["metadata"]["uid"]}}]


def test_pods_come_change_and_go(api, ns):
    path = pod(api, ns, "p", "192.0.2.1")
    service(api, ns)
    until_addresses(api, ns, "192.0.2.1")
    other = pod(api, ns, "q", "192.0.2.2", app="b")
    pod(api, ns, "r", "192.0.2.3")
    until_addresses(api, ns, "192.0.2.1", "192.0.2.3")
    assert api.patch(other, {"metadata": {"labels": {"app": "a"}}}).status == 200
    until_addresses(api, ns, "192.0.2.1", "192.0.2.2", "192.0.2.3")
    assert api.patch(path + "/status", {"status": {"phase": "Succeeded"}}).status == 200
    until_addresses(api, ns, "192.0.2.2", "192.0.2.3")
    assert api.patch(other, {"metadata": {"labels": {"app": None}}}).status == 200
    until_addresses(api, ns, "192.0.2.3")
    assert len(slices(api, ns)) == 1
    api.delete(f"/api/v1/namespaces/{ns}/pods/r")
    until_addresses(api, ns)
    assert len(slices(api, ns)) == 1  # an empty one stays, as elsewhere


def conditions(api, ns):
    return {e["addresses"][0]: tuple(e["conditions"][c] for c in ("ready", "serving", "terminating"))
            for s in slices(api, ns) for e in s["endpoints"] or ()}


def test_readiness_and_termination(api, ns):
    service(api, ns)
    pod(api, ns, "p", "192.0.2.1", ready=False)
    until(lambda: conditions(api, ns) == {"192.0.2.1": (False, False, False)}, GUARD, "an endpoint that is not ready")
    path = pod(api, ns, "q", "192.0.2.2", meta={"finalizers": ["example.com/hold"]})
    api.delete(path)
    until(lambda: conditions(api, ns).get("192.0.2.2") == (False, True, True), GUARD, "a terminating endpoint")
    assert api.patch(f"/api/v1/namespaces/{ns}/services/s",
                     {"spec": {"publishNotReadyAddresses": True}}).status == 200
    until(lambda: all(c[0] for c in conditions(api, ns).values()), GUARD, "all to be published as ready")
    assert api.patch(path, {"metadata": {"finalizers": None}}).status == 200
    until_addresses(api, ns, "192.0.2.1")


def test_named_ports_are_those_of_each_pod(api, ns):
    service(api, ns, ports=[{"name": "web", "port": 80, "targetPort": "http"},
                            {"name": "dns", "port": 53, "targetPort": "http", "protocol": "UDP"}])
    pod(api, ns, "p", "192.0.2.1", ports=[{"name": "http", "containerPort": 8080}])
    pod(api, ns, "q", "192.0.2.2", ports=[{"name": "http", "containerPort": 9090}])
    pod(api, ns, "r", "192.0.2.3", ports=[{"name": "other", "containerPort": 1}])
    until_addresses(api, ns, "192.0.2.1", "192.0.2.2", "192.0.2.3")
    assert sorted((s["endpoints"][0]["addresses"][0], [(p["name"], p["port"]) for p in s["ports"] or ()])
                  for s in slices(api, ns)) == [("192.0.2.1", [("web", 8080)]), ("192.0.2.2", [("web", 9090)]),
                                                ("192.0.2.3", [])]


def test_addresses_of_the_service_s_family(api, ns):
    service(api, ns, clusterIP="None")
    pod(api, ns, "p", "2001:db8::1", "192.0.2.1")
    until_addresses(api, ns, "192.0.2.1")  # the API has a network for IPv4 only
    assert all("service.kubernetes.io/headless" in s["metadata"]["labels"] for s in slices(api, ns))


def test_a_hundred_endpoints_a_slice(api, ns):
    service(api, ns)
    ips = [f"192.0.2.{i}" for i in range(1, 251)]
    paths = [pod(api, ns, f"p{i}", ip) for i, ip in enumerate(ips)]
    until_addresses(api, ns, *ips)
    before = {s["metadata"]["name"]: s for s in slices(api, ns)}
    assert sorted(len(s["endpoints"]) for s in before.values()) == [50, 100, 100]
    api.delete(paths[0])
    until_addresses(api, ns, *ips[1:])
    after = {s["metadata"]["name"]: s for s in slices(api, ns)}
    changed = [n for n in before if after[n]["metadata"]["resourceVersion"] != before[n]["metadata"]["resourceVersion"]]
    assert set(after) == set(before) and len(changed) == 1  # one pod costs one slice


def test_a_change_of_ports_leaves_no_gap(api, ns):
    service(api, ns)
    pod(api, ns, "p", "192.0.2.1")
    until_addresses(api, ns, "192.0.2.1")
    assert api.patch(f"/api/v1/namespaces/{ns}/services/s", {"spec": {"ports": [{"port": 80, "targetPort": 81}]}},
                     ).status == 200

    def moved():
        assert addresses(api, ns)  # never without
        return [s["ports"][0]["port"] for s in slices(api, ns)] == [81]
    until(moved, GUARD, "slices with the new port")


def test_what_is_deleted_or_edited_comes_back(api, ns):
    service(api, ns)
    pod(api, ns, "p", "192.0.2.1")
    until_addresses(api, ns, "192.0.2.1")
    path = f"{DISCOVERY}/namespaces/{ns}/endpointslices/" + slices(api, ns)[0]["metadata"]["name"]
    assert api.patch(path, {"endpoints": []}).status == 200
    until_addresses(api, ns, "192.0.2.1")
    assert api.delete(path).status == 200
    until_addresses(api, ns, "192.0.2.1")


def test_slices_go_with_their_service(api, ns):
    service(api, ns)
    pod(api, ns, "p", "192.0.2.1")
    until_addresses(api, ns, "192.0.2.1")
    api.delete(f"/api/v1/namespaces/{ns}/services/s")
    until(lambda: not slices(api, ns), GUARD, "the slices to be gone")
    service(api, ns)  # another one of that name
    until_addresses(api, ns, "192.0.2.1")


def test_services_without_selectors_keep_their_own(api, ns):
    rt.make(api, f"/api/v1/namespaces/{ns}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    rt.make(api, f"{DISCOVERY}/namespaces/{ns}/endpointslices", {
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
        "ports": [{"port": 1}], "endpoints": [{"addresses": ["192.0.2.9"]}]})
    pod(api, ns, "p", "192.0.2.1")
    assert api.patch(f"/api/v1/namespaces/{ns}/services/s", {"spec": {"selector": {"app": "a"}}}).status == 200
    until_addresses(api, ns, "192.0.2.1", "192.0.2.9")
    assert api.patch(f"/api/v1/namespaces/{ns}/services/s", {"spec": {"selector": None}}).status == 200
    until_addresses(api, ns, "192.0.2.9")


def test_addresses_that_no_slice_may_name_are_left_out(api, ns):
    service(api, ns)
    pod(api, ns, "p", "127.0.0.1")
    pod(api, ns, "q", "169.254.169.254")
    pod(api, ns, "r", "192.0.2.1")
    until_addresses(api, ns, "192.0.2.1")


def test_slices_are_right_after_a_restart(binary, tmp_path_factory):
    api = Control(binary, tmp_path_factory.mktemp("again"))
    try:
        rt.make(api, "/api/v1/namespaces", {"metadata": {"name": "n"}})
        service(api, "n")
        pod(api, "n", "p", "192.0.2.1")
        until_addresses(api, "n", "192.0.2.1")
        before = slices(api, "n")
        api.restart()
        pod(api, "n", "q", "192.0.2.2")
        until_addresses(api, "n", "192.0.2.1", "192.0.2.2")
        assert [s["metadata"]["uid"] for s in slices(api, "n")] == [s["metadata"]["uid"] for s in before]
    finally:
        api.close()
