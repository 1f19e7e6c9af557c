# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events: about objects that no status says anything about, conditions that turn bad or good, elections."""
import time
import urllib.parse

import pytest
from harness import fabric as fb
from harness.control import find_kubectl
from harness.wait import GUARD, until
from test_control_cluster import Replica

MISSING = "spec.parentRefs[0]: Gateway 'default/nowhere' does not exist"


@pytest.fixture(scope="module", name="f")
def _f(binary, tmp_path_factory):
    f = fb.Fabric(binary, tmp_path_factory.mktemp("events"))
    yield f
    f.close()


def events(control, namespace="default", **of):
    """Those about one object, oldest first; as `kubectl describe` asks for them."""
    chosen = urllib.parse.quote(",".join(f"involvedObject.{k}={v}" for k, v in of.items()))
    answer = control.get(f"/api/v1/namespaces/{namespace}/events?fieldSelector={chosen}")
    assert answer.status == 200, answer
    return sorted(answer.json["items"], key=lambda e: e["metadata"]["creationTimestamp"])


def of_route(f, name, reason=None):
    return [e for e in events(f.control, kind="HTTPRoute", name=name) if not reason or e["reason"] == reason]


def lost_route(name, gateway="nowhere", backend="web"):
    return fb.route(name, gateway, [fb.prefix("/", fb.to(backend))], hosts=[f"{name}.example"])


def test_a_route_whose_parent_does_not_exist(f):
    f.apply(lost_route("lost"))
    e = until(lambda: of_route(f, "lost"), GUARD, "the Event")[0]
    uid = f.get("HTTPRoute", "lost")["metadata"]["uid"]
    assert (e["type"], e["reason"], e["message"]) == ("Warning", "ParentNotFound", MISSING)
    assert e["involvedObject"]["uid"] == uid and e["involvedObject"]["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert e["reportingComponent"] == e["source"]["component"] == "spanwire-gateway" and e["reportingInstance"]
    assert e["firstTimestamp"] and e["lastTimestamp"] and e["count"] == 1
    if not find_kubectl():
        pytest.skip("no kubectl here: what `kubectl describe` shows was not looked at")
    shown = f.control.kubectl("describe", "httproute", "lost")
    assert "ParentNotFound" in shown and MISSING in shown, shown
    shown = f.control.kubectl("get", "events", "--field-selector", "reason=ParentNotFound,involvedObject.name=lost")
    assert "httproute/lost" in shown, shown


def test_what_comes_together_is_no_trouble(f):
    """A route that is created a moment before its Gateway and its Service."""
    f.apply(lost_route("early", "late", "later"))
    f.gateway_object("late", [("http", "HTTP", 8099)])
    f.service("later", [])
    f.apply(lost_route("barrier"))  # trouble that begins after it, and is told after it would have been
    until(lambda: of_route(f, "barrier"), GUARD, "the Event of another route")
    assert not of_route(f, "early", "ParentNotFound") and not of_route(f, "early", "BackendNotFound"), of_route(f, "early")
    e = f.get("HTTPRoute", "early")["status"]["parents"][0]["conditions"]
    assert all(c["status"] == "True" for c in e), e


def test_conditions_that_turn_bad_and_good(f):
    f.gateway_object("edge", [("http", "HTTP", 8098)])
    f.apply(lost_route("shop", "edge", "absent"))
    bad = until(lambda: of_route(f, "shop"), GUARD, "the Event")
    assert [(e["type"], e["reason"]) for e in bad] == [("Warning", "BackendNotFound")], bad
    assert bad[0]["message"].startswith("parent 'edge': ResolvedRefs is False: ") and "absent" in bad[0]["message"]
    f.service("absent", [])
    good = until(lambda: [e for e in of_route(f, "shop") if e["type"] == "Normal"], GUARD, "the Event of the recovery")
    assert good[0]["reason"] == "ResolvedRefs" and "ResolvedRefs is True" in good[0]["message"], good
    # Again: the Event is counted, there is no second one.
    f.delete("Service", "absent")
    until(lambda: of_route(f, "shop", "BackendNotFound")[0]["count"] == 2, GUARD, "the repetition")
    assert len(of_route(f, "shop", "BackendNotFound")) == 1


def test_a_gateway_of_a_class_that_does_not_exist(f):
    f.apply(fb.thing("Gateway", "classless", {"gatewayClassName": "nonesuch", "listeners": [
        {"name": "http", "protocol": "HTTP", "port": 8097}]}))
    e = until(lambda: events(f.control, kind="Gateway", name="classless"), GUARD, "the Event")[0]
    assert e["reason"] == "ClassNotFound" and "GatewayClass 'nonesuch' does not exist" in e["message"]
    made = f.control.post("/apis/gateway.networking.k8s.io/v1/namespaces/default/listenersets", {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": {"name": "orphan"}, "spec": {
            "parentRef": {"name": "nowhere"}, "listeners": [{"name": "http", "protocol": "HTTP", "port": 8096}]}})
    assert made.status == 201, made
    e = until(lambda: events(f.control, kind="ListenerSet", name="orphan"), GUARD, "the Event")[0]
    assert e["reason"] == "ParentNotFound" and e["message"] == MISSING.replace("parentRefs[0]", "parentRef")


def test_many_bad_routes_do_not_fill_the_api(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path)
    n = 400
    try:
        began = time.monotonic()
        for i in range(0, n, 50):
            f.apply(*[lost_route(f"bad-{k}") for k in range(i, i + 50)])
        until(lambda: "too many Events, further ones are dropped" in f.control.log(), GUARD, "the warning")
        f.apply(lost_route("last"))
        time.sleep(3)  # what could still come has come
        seconds = time.monotonic() - began
        found = [e for e in f.control.get("/api/v1/namespaces/default/events").json["items"] if e["reason"] == "ParentNotFound"]
        assert 50 <= len(found) <= 100 + 5 * seconds + 5, len(found)
        assert f.control.log().count("too many Events") == 1
        dropped = f.control.get("/debug/xds").json["controllers"]["gateway"]["eventsDropped"]
        assert dropped >= n - len(found) - 1
    finally:
        f.close()


def test_elections(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path, "--gateway", "false", "--connector", "false")
    replicas = []
    lease = {"namespace": "kube-system", "kind": "Lease", "name": "spanwire-gateway"}

    def told():
        return [e["message"] for e in events(f.control, **lease) if e["reason"] == "LeaderElection"]
    try:
        replicas.append(Replica(binary, tmp_path, "one", f.control.kubeconfig))
        until(replicas[0].leads, GUARD, "the first to lead")
        replicas.append(Replica(binary, tmp_path, "two", f.control.kubeconfig))
        until(lambda: told() == ["one became leader"], GUARD, "the Event of the election")
        f.apply(lost_route("lost"))
        until(lambda: of_route(f, "lost"), GUARD, "the Event of the leader")
        replicas[0].stop()
        until(replicas[1].leads, GUARD, "the second to lead")
        until(lambda: set(told()) == {"one became leader", "one stopped leading", "two became leader"}, GUARD, "all Events")
        e = events(f.control, **lease)[0]
        assert e["type"] == "Normal" and e["involvedObject"]["apiVersion"] == "coordination.k8s.io/v1"
        assert e["involvedObject"]["uid"] == f.control.get(
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/spanwire-gateway").json["metadata"]["uid"]
    finally:
        for r in replicas:
            r.stop()
        f.close()
