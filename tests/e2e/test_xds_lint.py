# SPDX-License-Identifier: Apache-2.0
"""The commands for an Envoy: `spanwire xds lint` on files and on a running server, `spanwire envoy bootstrap`."""
import os
import pathlib
import subprocess

import pytest
import yaml
from harness.wait import SLOW

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
GOOD = {"@type": CLUSTER, "name": "shop", "type": "EDS", "connect_timeout": "1s",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}}}


def run(binary, *args):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    return subprocess.run([binary, *args], capture_output=True, text=True, timeout=120 * SLOW, check=False)


def lint(binary, tmp_path, *resources, options=()):
    path = tmp_path / "set.yaml"
    path.write_text(yaml.safe_dump({"resources": list(resources)}))
    return run(binary, "xds", "lint", str(path), *options)


def test_a_sound_set_passes(binary, tmp_path):
    done = lint(binary, tmp_path, GOOD, {"@type": ENDPOINT, "cluster_name": "shop"})
    assert (done.returncode, done.stdout) == (0, "2 resources, 0 errors\n"), done.stderr


def test_a_finding_names_resource_and_field(binary, tmp_path):
    done = lint(binary, tmp_path, {"@type": CLUSTER, "name": "shop", "type": "EDS"})
    assert done.returncode == 1
    assert "error: Cluster 'shop': eds_cluster_config: is missing\n" in done.stdout


def test_what_is_missing_counts_only_in_a_whole_set(binary, tmp_path):
    done = lint(binary, tmp_path, GOOD)
    assert done.returncode == 1
    assert "no endpoint set named 'shop'" in done.stdout
    assert lint(binary, tmp_path, GOOD, options=["--partial"]).returncode == 0


def test_input_that_cannot_be_read_is_refused(binary, tmp_path):
    done = lint(binary, tmp_path, {"@type": CLUSTER, "name": "x", "colour": "red"})
    assert done.returncode == 1
    assert done.stdout == "" and "colour" in done.stderr
    assert run(binary, "xds", "lint", str(tmp_path / "none.yaml")).returncode == 1
    assert run(binary, "xds", "lint").returncode == 1


def test_a_pipe_without_a_writer_is_no_sound_set(binary, tmp_path):
    """Nothing came from it: that is not a set without errors. What a writer sends through a pipe counts."""
    pipe, empty = tmp_path / "pipe.yaml", tmp_path / "empty.pb"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        done = run(binary, "xds", "lint", str(path))
        assert done.returncode == 1 and "not a regular file" in done.stderr and "0 errors" not in done.stdout
    empty.write_bytes(b"")
    assert run(binary, "xds", "lint", str(empty)).returncode == 0
    sent = subprocess.run([binary, "xds", "lint", "/dev/stdin"], input=b"\x0a\x01v", capture_output=True, timeout=60, check=False)
    assert sent.returncode == 0 and b"0 errors" in sent.stdout


def test_a_server_is_asked_for_everything(binary):
    program = pathlib.Path(binary).resolve().parent / "tests" / "tools" / "xds_server"
    if not os.access(program, os.X_OK):
        pytest.skip("build everything first")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().split()[1]
        # Field 1 of both is the name, 6 of a cluster the policy; without anything else it is STATIC without hosts.
        server.stdin.write(f"set {CLUSTER} shop 0a0473686f703004\nset {ENDPOINT} shop 0a0473686f70\ncommit\n")
        server.stdin.flush()
        assert server.stdout.readline().startswith("committed 2")
        done = run(binary, "xds", "lint", "--server", f"127.0.0.1:{port}", "--timeout", "60s")
        server.stdin.close()
    assert done.returncode == 1
    assert done.stdout == ("error: Cluster 'shop': lb_policy: is not defined\n"
                           "warning: Cluster 'shop': load_assignment: is missing: there are no hosts\n"
                           "2 resources, 1 errors\n"), done.stderr


def test_the_bootstrap_is_yaml_with_the_server_in_it(binary, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    done = run(binary, "envoy", "bootstrap", "--node-id", "edge", "--xds-addr", "[fd00::1]:15012", "--ca", "/ca.pem",
               "--token-file", str(tmp_path / "token"))
    assert done.returncode == 0, done.stderr
    value = yaml.safe_load(done.stdout)
    assert "admin" not in value  # a tenant's name that resolves to loopback would reach it
    assert value["node"] == {"id": "edge", "cluster": "spanwire"}
    ads = value["dynamic_resources"]["ads_config"]
    assert ads["api_type"] == "DELTA_GRPC"
    assert ads["grpc_services"][0]["initial_metadata"] == [{"key": "authorization", "value": "Bearer s3cret"}]
    cluster = value["static_resources"]["clusters"][0]
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint["address"]["socket_address"] == {"address": "fd00::1", "port_value": 15012}
    assert cluster["type"] == "STATIC" and "transport_socket" in cluster
    assert run(binary, "envoy", "bootstrap", "--xds-addr", "nowhere").returncode == 1
    assert run(binary, "envoy").returncode == 1
