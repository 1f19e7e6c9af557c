# SPDX-License-Identifier: Apache-2.0
"""Objects of the tests: Deployments of the pods' program, Services, policies."""
SHOP = "shop"
MODE = {"istio.io/dataplane-mode": "ambient"}


def namespace(name, labels=None):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def account(name, ns=SHOP):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": ns}}


def container(*args, **more):
    return {"name": "app", "image": "docker.io/library/app:1", "imagePullPolicy": "Never", "args": list(args), **more}


def probe(what, **kw):
    return {**what, "periodSeconds": 1, "timeoutSeconds": 5, **kw}


def deployment(name, *args, node=None, replicas=1, ns=SHOP, labels=None, **more):
    """Pods of the account of the same name, on a node if one is given. 'more' goes to the container."""
    selector = {"app": name}
    spec = {"serviceAccountName": name, "terminationGracePeriodSeconds": 5, "containers": [container(*args, **more)]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": ns},
            "spec": {"replicas": replicas, "selector": {"matchLabels": selector},
                     "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                     "template": {"metadata": {"labels": {**selector, **(labels or {})}}, "spec": spec}}}


def server(name, **kw):
    """A server with a readiness probe; it goes on serving for a while after it left the endpoints."""
    return deployment(name, "serve", readinessProbe=probe({"httpGet": {"path": "/", "port": 8080}}),
                      lifecycle={"preStop": {"sleep": {"seconds": 4}}}, **kw)


def service(name, ns=SHOP):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": ns}, "spec": {
        "selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080},
                                             {"name": "lines", "port": 9000}]}}


def policy(name, to, rules, action="ALLOW"):
    return {"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": name, "namespace": SHOP},
            "spec": {"selector": {"matchLabels": {"app": to}}, "action": action, "rules": rules}}


def callers(*names):
    """Rules that allow or deny these accounts."""
    return [{"from": [{"source": {"principals": [f"cluster.local/ns/{SHOP}/sa/{n}" for n in names]}}]}]


def strict():
    return {"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": {
        "name": "default", "namespace": SHOP}, "spec": {"mtls": {"mode": "STRICT"}}}


def identity(name):
    return f"spiffe://cluster.local/ns/{SHOP}/sa/{name}"
