# SPDX-License-Identifier: Apache-2.0
"""A node under the control plane of this tree: objects applied to the embedded API reach its records."""
import contextlib

from harness.node import Node
from harness.wait import until
from test_mesh_control import Mesh as Plane
from test_mesh_control import UID, fill, pod


class Here:
    """The namespace the tests run in, as Node wants one."""

    @contextlib.contextmanager
    def entered(self):
        yield


def test_objects_become_records(binary, tmp_path):
    plane = Plane(binary, tmp_path)
    try:
        fill(plane)
        node = Node(binary, Here(), "node", str(tmp_path / "node.log"), [
            "--mode", "dedicated", "--workload", "shop/web-1/web", "--node-name", "n1", "--listen-ip", "127.0.0.78",
            "--xds-address", f"https://127.0.0.1:{plane.port}", "--xds-root", str(plane.pki / "root.crt"),
            "--auth-token", str(plane.pki / "admin.token"), "--dns", "false", "--enable-proxy", "false",
            "--state-dir", str(tmp_path), "--drain", "1s", "--admin-addr", "127.0.0.78:15000",
            "--stats-addr", "127.0.0.78:15020", "--ready-addr", "127.0.0.78:15021"],
            env={"POD_NAME": "z", "POD_NAMESPACE": "istio-system"})
        try:
            node.wait_ready()
            pod(plane, "web-2", "10.0.2.8")
            node.wait_log("workloads=")
            # What is stored when it ends is what it knew.
            until(lambda: b"web-2" in (tmp_path / "mesh.state").read_bytes()
                  if (tmp_path / "mesh.state").exists() else False, what="the new pod in the node's store")
            stored = (tmp_path / "mesh.state").read_bytes()
            assert UID.encode() in stored and b"shop/web.shop.svc.cluster.local" in stored
        finally:
            node.finish()
    finally:
        plane.close()
