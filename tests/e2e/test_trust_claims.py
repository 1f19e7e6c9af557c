# SPDX-License-Identifier: Apache-2.0
"""Host names and keys of others: what an old object, another namespace or another device can do to take them."""
import base64
import json
import re
import time

import pytest
from harness.control import Control
from harness.device import GROUP, PROXIES, Device, ending
from harness.fabric import programmed
from harness.keys import without_proof
from harness.ports import free_port
from harness.wait import until

DATUM = "networking.datumapis.com"
CLAIMS = "/apis/spanwire.dev/v1alpha1/claims"
KEY = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
OTHER = "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"
VERSIONS = {"httpproxies": "v1alpha", "connectors": "v1alpha1"}


def path(resource, ns, name=""):
    return f"/apis/{DATUM}/{VERSIONS[resource]}/namespaces/{ns}/{resource}/{name}".rstrip("/")


class Api(Control):
    def namespace(self, name):
        assert self.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                         ).status in (201, 409)
        return name

    def proxy(self, ns, name, hostnames=()):
        made = self.post(path("httpproxies", ns), {
            "apiVersion": f"{DATUM}/v1alpha", "kind": "HTTPProxy", "metadata": {"name": name},
            "spec": {"hostnames": list(hostnames), "rules": [{"backends": [{"endpoint": "http://10.1.2.3:80"}]}]}})
        assert made.status == 201, made
        until(lambda: self.names(ns, name), 10, "its first status")

    def ask_for(self, ns, name, hostnames):
        done = self.patch(path("httpproxies", ns, name), {"spec": {"hostnames": list(hostnames)}})
        assert done.status == 200, done

    def names(self, ns, name):
        """Its names, each with the reason of Available."""
        status = self.get(path("httpproxies", ns, name)).json.get("status", {})
        return {h["hostname"]: next(c["reason"] for c in h["conditions"] if c["type"] == "Available")
                for h in status.get("hostnameStatuses", [])}

    def has(self, ns, name, host, reason="Claimed"):
        until(lambda: self.names(ns, name).get(host) == reason, 10, f"{host} of {ns}/{name} to be {reason}")

    def in_use(self, ns, name):
        for c in self.get(path("httpproxies", ns, name)).json["status"]["conditions"]:
            if c["type"] == "HostnamesInUse":
                return c["message"]
        return None

    def served(self, ns, name):
        """Host names of the Gateway that is made for it."""
        gateway = self.get(f"/apis/gateway.networking.k8s.io/v1/namespaces/{ns}/gateways/{name}").json
        return {x["hostname"] for x in gateway["spec"]["listeners"]}

    def connector(self, ns, name, key=None):
        without_proof(self)  # where keys are proved, a copied one claims nothing: test_trust_keys.py
        if self.get(path("connectors", ns, name)).status == 404:
            made = self.post(path("connectors", ns), {
                "apiVersion": f"{DATUM}/v1alpha1", "kind": "Connector", "metadata": {"name": name},
                "spec": {"connectorClassName": "datum-connect"}})
            assert made.status == 201, made
        if key:
            done = self.patch(path("connectors", ns, name) + "/status", details(key))
            assert done.status == 200, done

    def published(self, ns, name):
        for c in self.get(path("connectors", ns, name)).json.get("status", {}).get("conditions", []):
            if c["type"] == "IrohDNSPublished":
                return c["reason"], c["message"]
        return None, None

    def holders(self):
        return {c["spec"]["value"]: (c["spec"]["holder"]["namespace"], c["spec"]["holder"]["name"])
                for c in self.get(CLAIMS).json["items"]}


def details(key):
    return {"status": {"connectionDetails": {"type": "PublicKey", "publicKey": {
        "id": key, "homeRelay": "https://relay.example.com/", "addresses": [{"address": "203.0.113.1", "port": 7}]}}}}


def stays(check, seconds=1.5):
    """True all the time: long enough for several builds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check()
        time.sleep(0.1)


def older():
    """Ages have seconds."""
    time.sleep(1.1)


@pytest.fixture
def api(binary, tmp_path):
    a = Api(binary, tmp_path / "control", "--dns-zone", "connect.example", "--dns-listen", f"127.0.0.1:{free_port()}")
    a.namespace("evil")
    a.namespace("shop")
    yield a
    a.close()


# ---- host names ----

def test_an_old_empty_proxy_takes_no_live_name(api):
    api.proxy("evil", "sleeper")
    older()
    api.proxy("shop", "live", ["shop.example.test"])
    api.has("shop", "live", "shop.example.test")
    api.ask_for("evil", "sleeper", ["shop.example.test", "evil.example.test"])
    api.has("evil", "sleeper", "shop.example.test", "InUse")
    api.has("evil", "sleeper", "evil.example.test")  # its other names are served
    stays(lambda: api.names("shop", "live")["shop.example.test"] == "Claimed"
          and "shop.example.test" in api.served("shop", "live")
          and "shop.example.test" not in api.served("evil", "sleeper"))
    # It is told that it lost, and nothing about the other tenant.
    assert "another namespace" in api.in_use("evil", "sleeper")
    assert "shop/" not in api.in_use("evil", "sleeper") and "live" not in api.in_use("evil", "sleeper")
    api.proxy("shop", "second", ["shop.example.test"])
    api.has("shop", "second", "shop.example.test", "InUse")
    assert "'shop/live'" in api.in_use("shop", "second")


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_changes_no_owner(api, kill):
    api.proxy("evil", "sleeper")
    older()
    api.proxy("shop", "live", ["shop.example.test"])
    api.has("shop", "live", "shop.example.test")
    api.stop(kill=kill)
    api.restart()
    api.ask_for("evil", "sleeper", ["shop.example.test"])
    api.restart(kill=kill)
    api.has("evil", "sleeper", "shop.example.test", "InUse")
    stays(lambda: api.names("shop", "live")["shop.example.test"] == "Claimed")
    assert api.holders()["shop.example.test"] == ("shop", "live")


def test_a_name_is_free_when_its_holder_lets_go(api):
    api.proxy("evil", "waiting")
    older()
    api.proxy("shop", "live", ["a.example.test", "b.example.test"])
    api.has("shop", "live", "a.example.test")
    api.ask_for("evil", "waiting", ["a.example.test", "b.example.test"])
    api.has("evil", "waiting", "a.example.test", "InUse")
    api.ask_for("shop", "live", ["b.example.test"])
    api.has("evil", "waiting", "a.example.test")
    # One that is deleted and made again is another one, and comes after those that wait.
    assert api.delete(path("httpproxies", "shop", "live")).status in (200, 202)
    api.has("evil", "waiting", "b.example.test")
    until(lambda: api.get(path("httpproxies", "shop", "live")).status == 404, 10)
    api.proxy("shop", "live", ["b.example.test"])
    api.has("shop", "live", "b.example.test", "InUse")
    assert api.delete(path("httpproxies", "evil", "waiting")).status in (200, 202)
    api.has("shop", "live", "b.example.test")
    until(lambda: api.holders() == {"b.example.test": ("shop", "live")}, 10, "no claim without a holder")


def test_old_data_keeps_its_owners(api, binary, tmp_path):
    """Before there were claims the status said who has a name: those that were served are recorded."""
    api.proxy("evil", "sleeper")
    older()
    api.proxy("shop", "live", ["shop.example.test"])
    api.has("shop", "live", "shop.example.test")
    flags, api.flags = api.flags, (*api.flags, "--no-connector")
    api.restart(kill=False)
    for c in api.get(CLAIMS).json["items"]:
        assert api.delete(f"{CLAIMS}/{c['metadata']['name']}").status == 200
    api.ask_for("evil", "sleeper", ["shop.example.test"])
    api.flags = flags
    api.restart(kill=False)
    api.has("evil", "sleeper", "shop.example.test", "InUse")
    assert api.holders() == {"shop.example.test": ("shop", "live")}
    assert "shop.example.test" in api.served("shop", "live")


def gateway(name, host, port=80, protocol="HTTP"):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name}, "spec": {
        "gatewayClassName": "spanwire", "listeners": [
            {"name": "one", "port": port, "protocol": protocol, "hostname": host}]}}


def test_an_old_gateway_takes_no_live_name(api):
    """Neither of an HTTPProxy's Gateway nor of one made by hand, also with another protocol on the port."""
    def where(ns, name=""):
        return f"/apis/gateway.networking.k8s.io/v1/namespaces/{ns}/gateways/{name}".rstrip("/")

    def listener(ns, name, host):
        found = api.get(where(ns, name)).json
        spec = next(x["name"] for x in found["spec"]["listeners"] if x["hostname"] == host)
        status = next((x for x in found.get("status", {}).get("listeners", []) if x["name"] == spec), {})
        return {c["type"]: (c["status"], c["reason"], c["observedGeneration"] == found["metadata"]["generation"])
                for c in status.get("conditions", [])}

    def accepted(ns, name, host):
        return listener(ns, name, host).get("Accepted") == ("True", "Accepted", True)

    assert api.post(where("evil"), gateway("sleeper", "evil.example.test")).status == 201
    until(lambda: accepted("evil", "sleeper", "evil.example.test"), 10)
    older()
    api.proxy("shop", "live", ["shop.example.test"])
    api.has("shop", "live", "shop.example.test")
    assert api.post(where("shop"), gateway("hand", "hand.example.test")).status == 201
    live = [("live", "shop.example.test"), ("hand", "hand.example.test")]
    for name, host in live:
        until(lambda: accepted("shop", name, host), 10, f"{name} to be accepted")
    for name, host in live:
        for spec in (gateway("sleeper", host), gateway("sleeper", host, protocol="TCP")):
            if spec["spec"]["listeners"][0]["protocol"] == "TCP":
                del spec["spec"]["listeners"][0]["hostname"]
            done = api.patch(where("evil", "sleeper"), {"spec": spec["spec"]})
            assert done.status == 200, done
            if "hostname" in spec["spec"]["listeners"][0]:
                until(lambda: listener("evil", "sleeper", host).get("Conflicted") == ("True", "HostnameConflict", True), 10)
            stays(lambda: accepted("shop", name, host), 0.7)
    api.restart()
    for name, host in live:
        stays(lambda: accepted("shop", name, host), 0.7)
    said = json.dumps(api.get(where("evil", "sleeper")).json["status"])
    assert "another namespace" in said and "shop/" not in said


# ---- keys ----

def test_an_old_empty_connector_takes_no_live_key(api):
    api.connector("evil", "sleeper")
    older()
    api.connector("shop", "live", KEY)
    until(lambda: api.published("shop", "live")[0] == "Owner", 10)
    api.connector("evil", "sleeper", KEY)
    until(lambda: api.published("evil", "sleeper")[0] == "DeferredToOwner", 10)
    assert "shop" not in api.published("evil", "sleeper")[1]
    stays(lambda: api.published("shop", "live")[0] == "Owner")
    api.restart()
    stays(lambda: api.published("shop", "live")[0] == "Owner")
    assert api.holders()[KEY] == ("shop", "live")
    # Another key of its own frees the first.
    api.connector("shop", "live", OTHER)
    until(lambda: api.published("evil", "sleeper")[0] == "Owner", 10)
    until(lambda: api.holders() == {KEY: ("evil", "sleeper"), OTHER: ("shop", "live")}, 10)


# ---- who writes claims ----

class Tenant:
    """A service account of a namespace with a role of the fabric."""

    def __init__(self, api, ns, name, *roles):
        self.api, self.ns, self.name = api, ns, name
        accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
        assert api.post(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}).status == 201
        for role in roles:
            self.grant(role)
        token = api.post(f"{accounts}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                      "spec": {}})
        assert token.status == 201, token
        self.token = token.json["status"]["token"]
        self.context = api.context(cert=False)

    def grant(self, role):
        group = "rbac.authorization.k8s.io"
        until(lambda: self.api.get(f"/apis/{group}/v1/clusterroles/{role}").status == 200, 10, role)
        done = self.api.post(f"/apis/{group}/v1/namespaces/{self.ns}/rolebindings", {
            "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": f"{self.name}-{role}"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.ns}]})
        assert done.status == 201, done

    def send(self, method, where, body=None):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self.api.request(method, where, json.dumps(body) if body else None, context=self.context, headers={
            "Authorization": f"Bearer {self.token}", "Content-Type": kind})

    def kubeconfig(self, to):
        ca = base64.b64encode(self.api._secret("certificate-authority-data")).decode()
        to.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.api.port}",
                                                   "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "t", "context": {"cluster": "c", "user": "u", "namespace": self.ns}}]}))
        return to


def test_tenants_write_no_claims(api):
    api.proxy("shop", "live", ["shop.example.test"])
    api.has("shop", "live", "shop.example.test")
    name = api.get(CLAIMS).json["items"][0]["metadata"]["name"]
    for role in ("spanwire-connector", "edit", "admin"):
        t = Tenant(api, "evil", f"t-{role}", role)
        claim = {"apiVersion": "spanwire.dev/v1alpha1", "kind": "Claim", "metadata": {"name": f"host-{role}"}, "spec": {
            "type": "Hostname", "value": "x.test", "holder": {
                "kind": "HTTPProxy", "namespace": "evil", "name": "x", "uid": "1", "resourceVersion": "1"}}}
        assert t.send("POST", CLAIMS, claim).status == 403
        assert t.send("GET", CLAIMS).status == 403
        assert t.send("DELETE", f"{CLAIMS}/{name}").status == 403
        assert t.send("PATCH", f"{CLAIMS}/{name}", {"spec": {"holder": {"name": "x"}}}).status == 403
    # Not even the control plane's own credential moves one: it is immutable.
    moved = api.patch(f"{CLAIMS}/{name}", {"spec": {"holder": {"namespace": "evil", "name": "sleeper", "uid": "2"}}})
    assert moved.status == 422 and "does not change hands" in moved.message


# ---- expose ----

@pytest.fixture(scope="module")
def fabric(binary, tmp_path_factory):
    with programmed(Api, binary, tmp_path_factory.mktemp("claims"), "--connector-lease", "3s") as a:
        yield a


@pytest.fixture
def expose(binary, fabric, tmp_path):
    def start(target, *flags, who=None, where="x"):
        kubeconfig = who.kubeconfig(tmp_path / f"{who.name}.json") if who else fabric.kubeconfig
        # Classes have no namespace: a role bound in one cannot list them.
        return note(Device(binary, tmp_path / where, kubeconfig, "--no-verify", "--class", "datum-connect", *flags,
                           command=("expose", str(target))))
    with ending() as note:
        yield start


def online(e):
    def found():
        assert e.alive, e.log()[-2000:]
        return re.search(r"^https?://\S+  ->  ", e.log(), re.M)
    until(found, 15, "the URL")


def refused(e, text):
    assert e.wait(20) == 1, e.log()[-2000:]
    assert text in e.log(), e.log()[-2000:]


def objects(fabric, name):
    """What an exposed service consists of: whose, and that it is the same as before."""
    found = [fabric.get(f"{where}/{name}") for where in (
        PROXIES, f"{GROUP}/connectors", f"{GROUP}/connectoradvertisements")]
    assert [f.status for f in found] == [200] * 3
    return [f.json["metadata"]["uid"] for f in found], found[1].json["status"]["connectionDetails"]["publicKey"]["id"]


def asleep(fabric, name):
    def ready():
        conditions = fabric.get(f"{GROUP}/connectors/{name}").json["status"]["conditions"]
        return next(c["status"] for c in conditions if c["type"] == "Ready")
    until(lambda: ready() == "False", 10, f"{name} to be offline")


def test_expose_that_loses_deletes_nothing(fabric, expose, web):
    first = expose(web.port, "--name", "first", "--hostname", "one.example.test", where="one")
    online(first)
    own = expose(web.port, "--name", "own", where="two")
    online(own)
    own.stop()
    before = objects(fabric, "first"), objects(fabric, "own")
    # Its own name of before, now with a hostname of somebody else.
    again = expose(web.port, "--name", "own", "--hostname", "one.example.test", "--rm", where="two")
    refused(again, "'one.example.test' is claimed by HTTPProxy 'default/first'")
    assert (objects(fabric, "first"), objects(fabric, "own")) == before
    assert first.alive
    # And the name of a device that is online, with and without asking for it.
    for flags in ((), ("--take-over",), ("--rm",)):
        refused(expose(web.port, "--name", "first", *flags, where="three"), "another device")
    assert objects(fabric, "first") == before[0]


@pytest.mark.parametrize("device", ["new", "registered"])
def test_a_sleeping_device_keeps_its_name(fabric, expose, web, device):
    """Of another key: only with --take-over and the right to. Whether its Connector is taken, or the HTTPProxy alone."""
    name = f"lap-{device}"
    plain = Tenant(fabric, "default", f"plain-{device}", "spanwire-connector")
    first = expose(web.port, "--name", name, who=plain, where="one")
    online(first)
    first.stop()
    asleep(fabric, name)
    before = objects(fabric, name)
    if device == "registered":  # the second has a Connector of another name
        second = expose(web.port, "--name", "second", who=plain, where="two")
        online(second)
        second.stop()
    refused(expose(web.port, "--name", name, who=plain, where="two"), "--take-over")
    refused(expose(web.port, "--name", name, "--take-over", who=plain, where="two"), "no right to take it over")
    assert objects(fabric, name) == before
    # A client of another make that does not ask.
    other = plain.send("PATCH", f"{GROUP}/connectors/{name}/status", details(KEY))
    assert other.status == 403 and "take-over" in other.message
    for gone in ({"connectionDetails": None}, {"connectionDetails": {"publicKey": None}}):
        assert plain.send("PATCH", f"{GROUP}/connectors/{name}/status", {"status": gone}).status in (403, 422)
    rules = [{"backends": [{"endpoint": "http://127.0.0.1:1", "connector": {"name": "second"}}]}]
    for change in ({"spec": {"rules": rules}}, {"spec": {"rules": [{"backends": [{"endpoint": "http://10.1.2.3"}]}]}},
                   {"metadata": {"annotations": {"spanwire.dev/connector-selector": "a=b"}}}):
        other = plain.send("PATCH", f"{PROXIES}/{name}", change)
        assert other.status == 403 and "take-over" in other.message, other
    assert objects(fabric, name) == before
    # What is its own is not in the way.
    first = expose(web.port, "--name", name, "--label", "changed", who=plain, where="one")
    online(first)
    first.stop()
    asleep(fabric, name)
    # With the right, and still not by accident.
    right = Tenant(fabric, "default", f"right-{device}", "spanwire-connector", "spanwire-take-over")
    refused(expose(web.port, "--name", name, who=right, where="two"), "--take-over")
    taken = expose(web.port, "--name", name, "--take-over", who=right, where="two")
    online(taken)
    # The first one comes back and finds it taken, and takes nothing back.
    refused(expose(web.port, "--name", name, who=plain, where="one"), "another device")
    assert taken.alive
