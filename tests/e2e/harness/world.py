# SPDX-License-Identifier: Apache-2.0
"""The local configuration file of 'spanwire node' (ztunnel's own local YAML)."""
import os
import pathlib

import yaml


def service_key(host, namespace="default"):
    return f"{namespace}/{host}"


class World:
    """Workloads, services and policies; every write carries a new revision marker."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.workloads = {}
        self.services = {}
        self.policies = {}
        self.revision = 0

    def add_pod(self, pod, protocol, **over):
        return self.workload(pod.name, [pod.ip4, pod.ip6], protocol=protocol,
                             node=pod.node.name, **over)

    def workload(self, name, ips, namespace="default", services=None, **over):
        value = {
            "uid": f"Kubernetes//Pod/{namespace}/{name}", "name": name, "namespace": namespace,
            "serviceAccount": name, "trustDomain": "cluster.local", "clusterId": "Kubernetes",
            "workloadName": name, "workloadType": "deployment", "canonicalName": name,
            "canonicalRevision": "v1", "protocol": "HBONE", "network": "",
            "workloadIps": list(ips), "services": services or {},
        }
        value.update(over)
        self.workloads[name] = value
        return value

    def service(self, name, vips, ports, endpoints=(), namespace="default", **over):
        """Endpoints: workload names, or {name: {service port: target port}}."""
        host = f"{name}.{namespace}.svc.cluster.local"
        value = {"name": name, "namespace": namespace, "hostname": host,
                 "vips": [v if "/" in v else f"/{v}" for v in vips], "ports": dict(ports)}
        value.update(over)
        self.services[namespace, name] = value
        if not isinstance(endpoints, dict):
            endpoints = {e: dict(ports) for e in endpoints}
        for endpoint, mapping in endpoints.items():
            self.workloads[endpoint]["services"][service_key(value["hostname"], namespace)] = \
                mapping
        return value

    def policy(self, name, action="Allow", rules=(), scope="Namespace", namespace="default",
               dry_run=False):
        """Rules: list of rules, each a list of clauses, each a list of matches."""
        self.policies[namespace, name] = {
            "name": name, "namespace": namespace, "scope": scope, "action": action,
            "rules": list(rules), "dryRun": dry_run}
        return f"{namespace}/{name}"

    def match_policy(self, name, action, **match):
        """A policy with one rule of one clause of one match."""
        scope = match.pop("scope", "Namespace")
        dry_run = match.pop("dry_run", False)
        return self.policy(name, action, [[[match]]], scope, dry_run=dry_run)

    @property
    def marker(self):
        return f"rev-{self.revision}.marker.test"

    def text(self):
        # A service nobody can reach says which revision is loaded.
        marker = {"name": f"rev-{self.revision}", "namespace": "marker", "hostname": self.marker,
                  "vips": ["/192.0.2.1"], "ports": {1: 1}}
        return yaml.safe_dump({
            "workloads": list(self.workloads.values()),
            "services": [*self.services.values(), marker],
            "policies": list(self.policies.values())}, sort_keys=False)

    def write(self, text=None):
        """Replaces the file atomically, as configuration managers do."""
        if text is None:
            self.revision += 1
            text = self.text()
        tmp = self.path.with_suffix(".tmp")
        tmp.write_text(text, encoding="utf-8")
        os.replace(tmp, self.path)
