# SPDX-License-Identifier: Apache-2.0
"""A tenant of the API: a service account with a role in one namespace, and what it sends when it means no good."""
import socket

import h2.config
import h2.connection
import h2.settings

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Tenant:
    """Account 'name' of namespace 'ns' (made when missing) with a bundled ClusterRole there."""

    def __init__(self, api, name, ns="default", role="edit"):
        self.api, self.ns = api, ns
        api.post("/api/v1/namespaces", {"metadata": {"name": ns}})
        api.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}})
        api.post(f"{RBAC}/namespaces/{ns}/rolebindings", {
            "metadata": {"name": f"{name}-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": ns}]})
        answer = api.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{name}/token", {"spec": {}})
        assert answer.status == 201, answer
        self.token = answer.json["status"]["token"]
        self.context = api.context(cert=False)

    def request(self, method, path, body=None, headers=None, **kw):
        return self.api.request(method, path, body, {"Authorization": "Bearer " + self.token, **(headers or {})},
                                context=self.context, **kw)

    def unread(self, path, streams):
        """One HTTP/2 connection with so many GETs of path, whose answers it has no window for."""
        context = self.api.context(cert=False)
        context.set_alpn_protocols(["h2"])
        s = context.wrap_socket(socket.create_connection(("127.0.0.1", self.api.port)), server_hostname="127.0.0.1")
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        c.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        c.initiate_connection()
        s.sendall(c.data_to_send())
        for i in range(streams):
            c.send_headers(1 + 2 * i, [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "x"),
                                       ("authorization", "Bearer " + self.token)], end_stream=True)
        s.sendall(c.data_to_send())
        return s


def metric(api, line):
    """The value of a metric, named with its labels."""
    for text in api.get("/metrics").body.decode().splitlines():
        if text.startswith(line + " "):
            return float(text.rsplit(" ", 1)[1])
    return None
