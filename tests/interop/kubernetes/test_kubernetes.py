# SPDX-License-Identifier: Apache-2.0
"""
The chart on a real cluster of two nodes: control plane, node proxies, node agents and the CNI plugin as pods of
Kubernetes, with kubelets that probe, roll out and restart. The tests build on each other, in order.
"""
import json
import os
import re
import time
import urllib.request

import pytest
from harness import rights as rt
from harness.deploy import CHART
from harness.wait import until
from kube_cluster import NAMESPACE, Cluster, Wire, access
from kube_node import START, available
from kube_objects import (MODE, SHOP, account, callers, deployment, identity, namespace, policy, probe, server, service,
                          strict)

CHURN, AT_ONCE = 200, 10  # pods, and how many of them at a time
# Of node.terminationGracePeriodSeconds, 30, a proxy drains for 25; less a little for clocks.
DRAINED = 23
EVER = 1e9


@pytest.fixture(scope="module", name="cluster")
def _cluster(interop_dir, tmp_path_factory):
    why = available()
    if why:
        pytest.skip(why)
    one = Cluster(interop_dir, tmp_path_factory.mktemp("cluster"), os.environ["SPANWIRE_BUILD"])
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _story(request, cluster):
    """What the cluster was doing, when a test fails."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        print(cluster.story())


def run_in(cluster, app, *argv, check=True):
    return cluster.kubectl("-n", SHOP, "exec", f"deployment/{app}", "--", "/app", *argv, check=check)


def reaches(cluster, app, url):
    return run_in(cluster, app, "get", url, check=False).returncode == 0


def pod_of(cluster, app):
    found, = cluster.pods(SHOP, f"app={app}")
    return found


def enrolled(pod):
    return pod["metadata"].get("annotations", {}).get("ambient.istio.io/redirection") == "enabled"


def lines_of(cluster, node):
    return access(cluster.logs(cluster.node_proxy(node)))


def chain(node):
    return [p["type"] for p in json.loads(node.run("cat", "/run/cni/net.d/10-net.conflist"))["plugins"]]


# --- installed ---

def test_the_chart_comes_up(cluster):
    cluster.install()
    cluster.installed()
    for node in cluster.nodes:
        assert chain(node) == ["ptp", "portmap", "spanwire-cni"]
        assert node.run("/run/cni/bin/spanwire-cni", check=False) == ""


def test_pod_security_agrees(cluster):
    """The restricted profile, tried on the namespace: the admission plugin names who would break it."""
    done = cluster.kubectl("label", "--dry-run=server", "--overwrite", "namespace", NAMESPACE,
                           "pod-security.kubernetes.io/enforce=restricted", check=False)
    # One line for all that break it in the same way: 'POD (and N other pods): ...'.
    named = re.findall(r"^Warning: (\S+)(?: \(and (\d+) other pods?\))?: ", done.stderr, re.M)
    agents = sum(len(cluster.pods(NAMESPACE, f"app.kubernetes.io/name=spanwire-{role}")) for role in ("node", "cni"))
    assert sum(1 + int(more or 0) for _, more in named) == agents, done.stderr
    assert all(re.match("spanwire-(node|cni)-", name) for name, _ in named), done.stderr


# --- mutual TLS ---

def test_deployments_of_two_nodes_talk_mutual_tls(cluster):
    wire = Wire()
    cluster.api.apply(namespace(SHOP, MODE))
    cluster.api.apply(*(account(n) for n in ("web", "db", "spy")), service("db"), deployment("web", "serve", node="n1"),
                      deployment("spy", "serve", node="n1"), server("db", node="n2"))
    cluster.rolled("deployment/web", "deployment/db", "deployment/spy", namespace=SHOP)
    for app in ("web", "db", "spy"):
        until(lambda app=app: enrolled(pod_of(cluster, app)), START, f"{app} to be in the mesh")
    until(lambda: reaches(cluster, "web", "http://db/"), START, "web to reach db")
    said = run_in(cluster, "web", "get", "http://db.shop.svc.cluster.local/")
    assert said.startswith("db-") and pod_of(cluster, "web")["status"]["podIP"] in said, said
    for node, direction in (("n1", "outbound"), ("n2", "inbound")):
        line = until(lambda n=node, d=direction: [x for x in lines_of(cluster, n) if x.get("direction") == d
                                                  and x.get("dst.identity") == identity("db")], START, "the access log")[-1]
        assert line["src.identity"] == identity("web"), line
    ports = wire.between({pod_of(cluster, app)["status"]["podIP"] for app in ("web", "db")})
    wire.close()
    assert ports and all(15008 in pair for pair in ports), ports


def test_a_policy_denies_a_third(cluster):
    assert reaches(cluster, "spy", "http://db/")
    cluster.api.apply(policy("web-only", "db", callers("web")))
    until(lambda: not reaches(cluster, "spy", "http://db/"), START, "the policy")
    assert reaches(cluster, "web", "http://db/")
    refused = [x for x in lines_of(cluster, "n2") if x.get("src.identity") == identity("spy") and "error" in x]
    assert refused and "polic" in refused[-1]["error"], refused


def test_an_agents_account_is_held_to_its_node(cluster):
    """With the token of the first node's agent: its annotation on pods of that node, and nothing else."""
    agent, = (p for p in cluster.pods(NAMESPACE, "app.kubernetes.io/name=spanwire-cni") if p["spec"]["nodeName"] == "n1")
    caller = rt.Caller(cluster.api, rt.token_of(cluster.api, NAMESPACE, "spanwire-cni", boundObjectRef={
        "apiVersion": "v1", "kind": "Pod", "name": agent["metadata"]["name"], "uid": agent["metadata"]["uid"]}))

    def patch(app, body):
        answer = caller.patch(f"/api/v1/namespaces/{SHOP}/pods/{pod_of(cluster, app)['metadata']['name']}/status", body)
        return "" if answer.status == 200 else answer.message
    note = {"metadata": {"annotations": {"ambient.istio.io/redirection": "enabled"}}}
    assert not patch("web", note)
    assert "of its own node only" in patch("db", note)
    assert "may not change the status" in patch("web", {"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}})
    assert "may not change labels" in patch("web", {"metadata": {"labels": {"app": "db"}}})
    assert "and no other" in patch("web", {"metadata": {"annotations": {"x": "y"}}})


# --- probes ---

def test_probes_pass_under_strict_and_policies(cluster):
    """The kubelet has no identity: what it probes stays ready while everybody else is refused."""
    cluster.api.apply(strict(), account("probed"), policy("nobody", "probed", callers("web")), deployment(
        "probed", "serve", node="n2", readinessProbe=probe({"httpGet": {"path": "/", "port": 8080}}),
        livenessProbe=probe({"tcpSocket": {"port": 9000}}), startupProbe=probe({"httpGet": {"path": "/", "port": 8080}})))
    cluster.rolled("deployment/probed", namespace=SHOP)
    pod = pod_of(cluster, "probed")
    until(lambda: enrolled(pod_of(cluster, "probed")), START, "the pod to be in the mesh")
    until(lambda: not _plain(pod["status"]["podIP"]), START, "plain text to be refused")
    assert not reaches(cluster, "spy", f"http://{pod['status']['podIP']}:8080/")
    # Several of each probe from now on, also of the database, which was there before STRICT.
    for app, words in (("probed", ("GET", "OPEN")), ("db", ("GET",))):
        for word in words:
            seen = len(_probes(cluster, app, word))
            until(lambda a=app, w=word, n=seen: len(_probes(cluster, a, w)) >= n + 5, START, f"{word} of {app} by the kubelet")
    status = pod_of(cluster, "probed")["status"]["containerStatuses"][0]
    assert status["ready"] and status["restartCount"] == 0, status
    assert pod_of(cluster, "db")["status"]["containerStatuses"][0]["ready"]


def _probes(cluster, app, word):
    """What the program saw of the kubelet, which comes from the address that rules leave alone."""
    return re.findall(rf"{word} from 169\.254\.7\.127", cluster.logs(f"deployment/{app}", SHOP))


def _plain(ip):
    """An HTTP request from outside of the mesh."""
    try:
        with urllib.request.urlopen(f"http://{ip}:8080/", timeout=10) as answer:
            return answer.status == 200
    except OSError:
        return False


# --- waiting ---

def node_selector(cluster, name):
    """Node proxies on this node only; None: on all."""
    cluster.kubectl("-n", NAMESPACE, "patch", "daemonset", "spanwire-node", "--type=merge", "-p", json.dumps(
        {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": name}}}}}))


def test_a_pod_waits_for_the_proxy_of_its_node(cluster):
    """Its start is held with the reason in its events, and then nothing of it was ever in plain text."""
    node_selector(cluster, "n1")
    until(lambda: {p["spec"]["nodeName"] for p in cluster.pods(NAMESPACE, "app.kubernetes.io/name=spanwire-node", going=True)}
          == {"n1"}, START, "the proxy of n2 to be gone")
    web = pod_of(cluster, "web")["status"]["podIP"]
    wire = Wire()
    cluster.api.apply(account("late"), deployment("late", "load", f"http://{web}:8080/", f"{web}:9000", "2", node="n2"))
    until(lambda: "the node proxy is not connected" in said_of_pod(cluster, "late"), START, "the reason in the events")
    time.sleep(5)
    pod = pod_of(cluster, "late")
    status, = pod["status"].get("containerStatuses", [{"state": {"waiting": {}}}])
    assert pod["status"]["phase"] == "Pending" and "waiting" in status["state"], pod["status"]
    assert pod["metadata"]["annotations"]["ambient.istio.io/redirection"] == "pending"
    node_selector(cluster, None)
    cluster.rolled("daemonset/spanwire-node", namespace=NAMESPACE)
    cluster.rolled("deployment/late", namespace=SHOP)
    until(lambda: re.search(r"DONE [1-9]\d+ requests [1-9]\d+ pulses", cluster.logs("deployment/late", SHOP)), START, "its requests")
    assert enrolled(pod_of(cluster, "late"))
    ports = wire.between({pod_of(cluster, "late")["status"]["podIP"], web})
    wire.close()
    assert ports and all(15008 in pair for pair in ports), ports
    cluster.kubectl("-n", SHOP, "delete", "deployment", "late")


def said_of_pod(cluster, app):
    """Messages of the events of its pod."""
    found = cluster.pods(SHOP, f"app={app}")
    items = cluster.api.get(f"/api/v1/namespaces/{SHOP}/events").json["items"]
    return "\n".join(e["message"] for e in items if found and e["involvedObject"].get("uid") == found[0]["metadata"]["uid"])


# --- change under load ---

class Load:
    """A client of db on the other node that never stops."""

    def __init__(self, cluster):
        self.cluster, self.at = cluster, 0
        cluster.api.apply(account("client"), policy("web-only", "db", callers("web", "client")),
                          deployment("client", "load", "http://db/", "db:9000", "10", node="n1"))
        cluster.rolled("deployment/client", namespace=SHOP)
        until(lambda: self.done()[0] > 20, START, "the load to run")

    def text(self):
        return self.cluster.logs("deployment/client", SHOP)

    def done(self):
        """Requests and pulses so far."""
        last = re.findall(r"DONE (\d+) requests (\d+) pulses", self.text())
        return tuple(map(int, last[-1])) if last else (0, 0)

    def mark(self):
        """Forgets what failed so far."""
        self.at = len(self.text())

    def lost(self, younger=0.0):
        """What failed since, with connections that were made to last and ended before that age, in seconds."""
        text = self.text()[self.at:]
        ended = re.finditer(r"^\S+ ENDED \d+ after (\S+) s: .*$", text, re.M)
        return re.findall(r"^\S+ FAILED.*$", text, re.M) + [m[0] for m in ended if float(m[1]) < younger]

    def goes_on(self, n=40):
        before = self.done()[0]
        until(lambda: self.done()[0] > before + n, START, "more requests")


@pytest.fixture(scope="module", name="load")
def _load(cluster):
    return Load(cluster)


def test_a_rollout_loses_no_request(cluster, load):
    cluster.kubectl("-n", SHOP, "scale", "deployment/db", "--replicas=2")
    cluster.rolled("deployment/db", namespace=SHOP)
    load.goes_on()
    load.mark()
    cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/db")
    cluster.rolled("deployment/db", namespace=SHOP)
    load.goes_on()
    assert not load.lost(), load.lost()


def test_churn_disturbs_nobody_else(cluster, load):
    until(lambda: len(cluster.pods(SHOP, "app=db", going=True)) == 2, START, "the old pods of db to be gone")
    load.goes_on()
    load.mark()
    cluster.api.apply(account("churn"), deployment("churn", "serve", replicas=0))
    for _ in range(CHURN // AT_ONCE):
        for replicas in (AT_ONCE, 0):
            cluster.kubectl("-n", SHOP, "scale", "deployment/churn", f"--replicas={replicas}")
            cluster.rolled("deployment/churn", namespace=SHOP)
        until(lambda: not cluster.pods(SHOP, "app=churn", going=True), START, "the pods to go")
    load.goes_on()
    assert not load.lost(younger=EVER), load.lost(younger=EVER)


def test_node_proxies_are_upgraded_under_traffic(cluster, load):
    load.mark()
    old = {n.name: cluster.node_proxy(n.name) for n in cluster.nodes}
    cluster.helm("upgrade", "spanwire", "--reuse-values", str(CHART), "--set", "node.extraArgs={--log-level=info}")
    cluster.rolled("daemonset/spanwire-node", namespace=NAMESPACE)
    until(lambda: {p["metadata"]["name"] for p in cluster.pods(NAMESPACE, "app.kubernetes.io/name=spanwire-node", going=True)}
          .isdisjoint(old.values()), START, "the old proxies to be gone")
    load.goes_on()
    # A connection that was open stays for as long as the old proxy drains, and a new one is not the old proxy's.
    assert not load.lost(younger=DRAINED), load.lost(younger=DRAINED)
    assert chain(cluster.nodes[0])[-1] == "spanwire-cni"


def test_node_agents_are_upgraded_under_traffic(cluster, load):
    load.mark()
    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", "daemonset/spanwire-cni")
    cluster.rolled("daemonset/spanwire-cni", namespace=NAMESPACE)
    load.goes_on()
    assert not load.lost(younger=EVER), load.lost(younger=EVER)
    assert enrolled(pod_of(cluster, "web"))


# --- a node goes ---

def test_a_node_is_rebooted(cluster, load):
    """Everything on it ends at once. It comes back by itself, and its pods are in the mesh again."""
    node = cluster.nodes[1]
    node.cut()
    until(lambda: node.name not in cluster.ready(), START, "the node to be missed")
    node.boot()
    until(lambda: node.name in cluster.ready(), START, "the node to be ready")
    cluster.installed()
    cluster.rolled("deployment/db", "deployment/probed", namespace=SHOP)
    until(lambda: reaches(cluster, "web", "http://db/"), START, "web to reach db")
    load.mark()
    load.goes_on()
    assert not load.lost(), load.lost()
    assert not reaches(cluster, "spy", "http://db/")
    assert chain(node)[-1] == "spanwire-cni"


# --- removed ---

def ours(cluster, *kinds):
    """Objects of these kinds, of all namespaces, that name us or our authority."""
    out = cluster.kubectl("get", ",".join(kinds), "-A", "-o", "name").split()
    return [name for name in out if re.search("spanwire|istio-ca|cacerts", name)]


def test_everything_removed_leaves_nothing_behind(cluster):
    made = ours(cluster, "secrets", "configmaps", "leases")
    assert {"secret/istio-ca-secret", "secret/spanwire-xds", "configmap/istio-ca-root-cert"} <= set(made), made
    cluster.helm("uninstall", "spanwire", "--wait")
    until(lambda: not cluster.pods(NAMESPACE, going=True), START, "the pods of the release to go")
    for node in cluster.nodes:
        until(lambda n=node: chain(n) == ["ptp", "portmap"], START, "the plugin to leave the chain")
        assert "spanwire-cni" not in node.run("ls", "/run/cni/bin")
        assert "spanwire" not in node.tables() and "istio" not in node.tables()
        left = node.run("find", "/run/spanwire-cni", "/run/ztunnel", "/var/lib/spanwire", "-not", "-type", "d", check=False)
        assert not left.strip(), left
        for ns in node.run("ls", "/run/netns").split():
            inside = node.run("ip", "netns", "exec", ns, "sh", "-c", "nft list tables; ip rule; ip -6 rule")
            assert "istio" not in inside and "0x111" not in inside, inside
    left = ours(cluster, "secrets", "configmaps", "leases", "serviceaccounts", "roles", "rolebindings", "clusterroles",
                "clusterrolebindings", "deployments", "daemonsets", "jobs", "services", "validatingadmissionpolicies",
                "validatingadmissionpolicybindings", "gatewayclasses")
    assert not left, left
    marked = [p["metadata"]["name"] for p in cluster.pods(SHOP)
              if "ambient.istio.io/redirection" in p["metadata"].get("annotations", {})]
    assert not marked, marked
    # Pods still run and reach each other, without the mesh, and new ones start.
    assert reaches(cluster, "web", f"http://{cluster.pods(SHOP, 'app=db')[0]['status']['podIP']}:8080/")
    cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/web")
    cluster.rolled("deployment/web", namespace=SHOP)

