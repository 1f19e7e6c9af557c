# SPDX-License-Identifier: Apache-2.0
"""Users with few rights: service accounts, their tokens, and requests in their name."""
import base64

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Caller:
    """Requests with a bearer token."""

    def __init__(self, control, token):
        self.control, self.token = control, token
        self.bare = control.context(cert=False)

    def request(self, method, path, body=None, headers=None, **kw):
        return self.control.request(method, path, body, {"Authorization": f"Bearer {self.token}", **(headers or {})},
                                    context=self.bare, **kw)

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def put(self, path, body, **kw):
        return self.request("PUT", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def patch(self, path, body, kind="merge", **kw):
        types = {"merge": "application/merge-patch+json", "json": "application/json-patch+json",
                 "apply": "application/apply-patch+yaml"}
        return self.request("PATCH", path, body, {"Content-Type": types[kind]}, **kw)

    def may(self, verb, resource, group="", namespace="default", name="", sub=""):
        answer = self.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace,
                                            "name": name, "subresource": sub}}})
        return answer.json["status"]["allowed"]


def make(control, path, obj):
    """Made by the administrator, or there already."""
    answer = control.post(path, obj)
    assert answer.status in (200, 201, 409), answer
    return answer


def namespace(control, name):
    make(control, "/api/v1/namespaces", {"metadata": {"name": name}})


def token_of(control, ns, account, **spec):
    answer = control.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600, **spec}})
    assert answer.status == 201, answer
    return answer.json["status"]["token"]


def account(control, ns, name):
    """A service account, and somebody who calls as it."""
    make(control, f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
    return Caller(control, token_of(control, ns, name))


def bind(control, ns, name, role, kind="ClusterRole", everywhere=False):
    """The role for the account; in its namespace unless everywhere."""
    where = f"{RBAC}/clusterrolebindings" if everywhere else f"{RBAC}/namespaces/{ns}/rolebindings"
    make(control, where, {
        "metadata": {"name": f"{name}-{role}".replace(":", "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": ns}]})


def cluster_role(control, name, rules, labels=None):
    make(control, f"{RBAC}/clusterroles", {"metadata": {"name": name, "labels": labels or {}}, "rules": rules})


def b64(text):
    return base64.b64encode(text.encode()).decode()
