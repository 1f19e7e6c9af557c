# SPDX-License-Identifier: Apache-2.0
"""Ingress and IngressClass: kept and checked by the API as Kubernetes does, and served by the gateway."""
import contextlib
import http.client
import json
import ssl

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.control import Control, needs_kubectl
from harness.wait import GUARD, SLOW, until

TOP = "/apis/networking.k8s.io/v1/"
ALL = TOP + "namespaces/default/ingresses"
CLASSES = TOP + "ingressclasses"


def backend(name, port=80):
    return {"service": {"name": name, "port": {"number": port}}}


def path(where, name, kind="Prefix"):
    return {"path": where, "pathType": kind, "backend": backend(name)}


def ingress(name, *paths, host=None, annotations=None, **spec):
    rule = {"http": {"paths": list(paths)}}
    if host:
        rule["host"] = host
    meta = {"name": name, "annotations": annotations} if annotations else {"name": name}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta,
            "spec": {**({"rules": [rule]} if paths else {}), **spec}}


def ingress_class(name, controller="spanwire.dev/ingress", default=False):
    meta = {"name": name}
    if default:
        meta["annotations"] = {"ingressclass.kubernetes.io/is-default-class": "true"}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": meta,
            "spec": {"controller": controller}}


# --- the API ---

@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("ingress"), "--gateway=false")
    yield server
    server.close()


def made(api, where, obj):
    answer = api.post(where, obj)
    assert answer.status == 201, answer
    return answer.json


def test_discovery(api):
    found = {r["name"]: r for r in api.get(TOP[:-1]).json["resources"]}
    assert set(found) == {"ingresses", "ingresses/status", "ingressclasses"}
    assert found["ingresses"]["shortNames"] == ["ing"] and found["ingresses"]["namespaced"]
    assert not found["ingressclasses"]["namespaced"] and "shortNames" not in found["ingressclasses"]
    assert found["ingresses/status"]["verbs"] == ["get", "patch", "update"]


def test_life(api):
    obj = ingress("life", path("/", "web"))
    obj["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    new = made(api, ALL, obj)
    assert new["status"] == {"loadBalancer": {}} and new["metadata"]["generation"] == 1
    assert "f:status" not in new["metadata"]["managedFields"][0]["fieldsV1"]
    # The status has a door of its own, and each door moves its own part.
    new["status"] = obj["status"]
    new["spec"]["rules"][0]["host"] = "a.example.com"
    told = api.put(f"{ALL}/life/status", new)
    assert told.status == 200 and told.json["metadata"]["generation"] == 1, told
    assert told.json["status"] == obj["status"] and "host" not in told.json["spec"]["rules"][0]
    new["metadata"]["resourceVersion"] = told.json["metadata"]["resourceVersion"]
    new["status"] = {}
    moved = api.put(f"{ALL}/life", new).json
    assert moved["metadata"]["generation"] == 2 and moved["status"] == obj["status"]
    bad = api.patch(f"{ALL}/life/status", {"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}})
    assert bad.status == 422 and "status.loadBalancer.ingress[0].ip: Invalid value" in bad.message
    assert api.delete(f"{ALL}/life").json["kind"] == "Status"


def test_refusals(api):
    answer = api.post(ALL, ingress("bad", {"path": "/", "backend": {}}))
    assert answer.status == 422 and answer.message == (
        'Ingress.networking.k8s.io "bad" is invalid: spec.rules[0].http.paths[0].pathType: '
        "Required value: pathType must be specified")
    answer = api.post(ALL, ingress("bad"))
    assert "spec: Invalid value: []networking.IngressRule(nil): either `defaultBackend`" in answer.message
    answer = api.post(ALL + "?fieldValidation=Strict", ingress("bad", {**path("/", "web"), "regex": True}))
    assert answer.status == 400 and 'unknown field "spec.rules[0].http.paths[0].regex"' in answer.message
    answer = api.get(ALL + "?fieldSelector=spec.x%3Dy")
    assert answer.status == 400 and '"spec.x" is not a known field selector' in answer.message
    made(api, CLASSES, ingress_class("fixed"))
    answer = api.patch(CLASSES + "/fixed", {"spec": {"controller": "a.example.com/b"}})
    assert answer.status == 422 and answer.message == (
        'IngressClass.networking.k8s.io "fixed" is invalid: spec.controller: Invalid value: '
        '"a.example.com/b": field is immutable')


def test_apply_owns_rules_as_a_whole(api):
    where = f"{ALL}/ssa?fieldManager="
    one = api.patch(where + "one", ingress("ssa", path("/a", "web")), kind="apply")
    assert one.status == 201, one
    fields = one.json["metadata"]["managedFields"][0]["fieldsV1"]
    assert fields == {"f:spec": {"f:rules": {}}}
    clash = api.patch(where + "two", ingress("ssa", path("/b", "web")), kind="apply")
    assert clash.status == 409 and 'conflict with "one": .spec.rules' in clash.message
    two = api.patch(where + "two", ingress("ssa", defaultBackend=backend("web")), kind="apply").json["spec"]
    assert len(two["rules"]) == 1 and two["defaultBackend"] == backend("web")


def test_default_class(api):
    assert "ingressClassName" not in made(api, ALL, ingress("none", path("/", "web")))["spec"]
    made(api, CLASSES, ingress_class("b-marked", default=True))
    made(api, CLASSES, ingress_class("plain"))
    got = made(api, ALL, ingress("marked", path("/", "web")))
    assert got["spec"]["ingressClassName"] == "b-marked"
    assert "f:ingressClassName" not in json.dumps(got["metadata"]["managedFields"])
    own = made(api, ALL, ingress("own", path("/", "web"), ingressClassName="plain"))
    assert own["spec"]["ingressClassName"] == "plain"
    noted = api.post(ALL, ingress("noted", path("/", "web"), annotations={"kubernetes.io/ingress.class": "plain"}))
    assert noted.status == 201 and "ingressClassName" not in noted.json["spec"]
    assert noted.headers.get_all("Warning") == [
        '299 - "annotation \\"kubernetes.io/ingress.class\\" is deprecated, please use '
        "'spec.ingressClassName' instead\""]
    # An update leaves it as it is.
    same = api.patch(f"{ALL}/none", {"metadata": {"labels": {"a": "b"}}})
    assert same.status == 200 and "ingressClassName" not in same.json["spec"]


def test_roles(api):
    def rules(role):
        out = {}
        for r in until(lambda: api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").json["rules"],
                       10, "aggregation"):
            for name in r["resources"] if "networking.k8s.io" in r["apiGroups"] else []:
                out.setdefault(name, set()).update(r["verbs"])
        return out
    read, write = {"get", "list", "watch"}, {"create", "delete", "deletecollection", "patch", "update"}
    until(lambda: rules("view") == {"ingresses": read, "ingresses/status": read}, GUARD, "view")
    for role in ("edit", "admin"):
        until(lambda r=role: rules(r) == {"ingresses": read | write, "ingresses/status": read}, 10, role)


@needs_kubectl
def test_kubectl(api):
    api.kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    out = api.kubectl("create", "ingress", "shop", "--class=fixed", "--annotation", "a=b",
                      "--rule=shop.example.com/cart*=web:80,tls=cert", "--rule=*.example.com/=web:http")
    assert out == "ingress.networking.k8s.io/shop created\n"
    head, row = api.kubectl("get", "ing", "shop").splitlines()
    assert head.split() == ["NAME", "CLASS", "HOSTS", "ADDRESS", "PORTS", "AGE"]
    assert row.split()[:5] == ["shop", "fixed", "shop.example.com,*.example.com", "80,", "443"]
    head, row = api.kubectl("get", "ingressclass", "fixed").splitlines()
    assert head.split() == ["NAME", "CONTROLLER", "PARAMETERS", "AGE"]
    assert row.split()[:3] == ["fixed", "spanwire.dev/ingress", "<none>"]
    told = " ".join(api.kubectl("describe", "ingress", "shop").split())
    for text in ("Name: shop", "Ingress Class: fixed", "cert terminates shop.example.com",
                 "shop.example.com /cart web:80", "*.example.com / web:http"):
        assert text in told, told
    told = api.kubectl("describe", "ingressclass", "fixed")
    assert "Controller:   spanwire.dev/ingress" in told, told
    assert "pathType\t<string> -required-" in api.kubectl("explain", "ingress.spec.rules.http.paths")
    spec = json.dumps({"spec": {"rules": [{"host": "one.example.com"}]}})
    api.kubectl("patch", "ing", "shop", "-p", spec)  # a strategic patch: the list is replaced
    assert api.kubectl("get", "ing", "shop", "-o", "jsonpath={.spec.rules[*].host}") == "one.example.com"


# --- through the gateway ---

class Edge:
    def __init__(self, binary, tmp):
        self.tmp = tmp
        self.fabric = fb.Fabric(binary, tmp)
        self.origins = {n: gw.Origin() for n in ("web", "cart", "rest")}
        for name, origin in self.origins.items():
            self.fabric.service(name, [origin.port])
        self.fabric.apply(ingress_class("ours"), ingress_class("theirs", "acme.example.com/ingress"))
        self.gateway = self.fabric.start_gateway()

    def ask(self, host, where="/echo", tls=False):
        """Status, and the path a backend got when it was one of them."""
        try:
            c = http.client.HTTPConnection("127.0.0.1", 443 if tls else 80, timeout=GUARD * SLOW)
            c.connect()
            if tls:
                context = ssl.create_default_context(cafile=self.cert[0])
                c.sock = context.wrap_socket(c.sock, server_hostname=host)
            before = {n: o.requests for n, o in self.origins.items()}
            c.request("GET", where, headers={"Host": host})
            answer = c.getresponse()
            answer.read()
            c.close()
        except OSError as e:
            return type(e).__name__, None
        return answer.status, next((n for n, o in self.origins.items() if o.requests > before[n]), None)

    def serves(self, want, host, where="/echo", **kw):
        last = []

        def good():
            last[:] = [self.ask(host, where, **kw)]
            return last == [want]
        with contextlib.suppress(AssertionError):  # the next line says more
            until(good, GUARD)
        assert last == [want], f"{host}{where}"

    def close(self):
        try:
            self.fabric.close()
        finally:
            for o in self.origins.values():
                o.close()


@pytest.fixture(scope="module")
def edge(binary, tmp_path_factory):
    world = Edge(binary, tmp_path_factory.mktemp("edge"))
    yield world
    world.close()


def test_served(edge):
    f = edge.fabric
    f.apply(ingress("shop", path("/echo", "web"), path("/echo/cart", "cart"), path("/echo/exact", "cart", "Exact"),
                    host="shop.test", ingressClassName="ours"))
    edge.serves((200, "web"), "shop.test")
    # Another connection may meet a worker that has heard of it a moment later.
    edge.serves((200, "cart"), "shop.test", "/echo/cart/1")
    edge.serves((200, "web"), "shop.test", "/echo/cartoon")
    edge.serves((200, "cart"), "shop.test", "/echo/exact")
    edge.serves((200, "web"), "shop.test", "/echo/exact/1")
    edge.serves((404, None), "other.test")
    edge.serves((404, None), "shop.test", "/other")
    until(lambda: f.get("Ingress", "shop")["status"] == {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}, 10,
          "the address in the status")
    # A change of the object is a change of what is served.
    f.apply(ingress("shop", path("/echo", "rest"), host="new.test", ingressClassName="ours"))
    edge.serves((200, "rest"), "new.test")
    edge.serves((404, None), "shop.test")
    f.delete("Ingress", "shop")
    until(lambda: edge.ask("new.test")[1] is None, 10, "a deleted Ingress to be served no more")


def test_only_ours_are_served(edge):
    f = edge.fabric
    f.apply(ingress("theirs", path("/echo", "web"), host="theirs.test", ingressClassName="theirs"),
            ingress("nobody", path("/echo", "web"), host="nobody.test"),
            ingress("noted", path("/echo", "web"), host="noted.test",
                    annotations={"kubernetes.io/ingress.class": "ours"}))
    edge.serves((200, "web"), "noted.test")
    edge.serves((404, None), "theirs.test")
    edge.serves((404, None), "nobody.test")
    assert f.get("Ingress", "theirs")["status"] == {"loadBalancer": {}}
    for name in ("theirs", "nobody", "noted"):
        f.delete("Ingress", name)


def test_tls_and_default_backend(edge):
    f = edge.fabric
    edge.cert = fb.make_cert(edge.tmp, "safe.test")
    f.secret("safe", *edge.cert)
    f.apply(ingress("safe", path("/echo/cart", "cart"), host="safe.test", ingressClassName="ours",
                    defaultBackend=backend("rest"), tls=[{"hosts": ["safe.test"], "secretName": "safe"}]))
    edge.serves((200, "cart"), "safe.test", "/echo/cart")
    edge.serves((200, "cart"), "safe.test", "/echo/cart", tls=True)
    edge.serves((200, "rest"), "any.test")
    edge.serves((200, "rest"), "safe.test", "/echo")
    f.delete("Ingress", "safe")
