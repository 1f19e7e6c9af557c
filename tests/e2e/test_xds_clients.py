# SPDX-License-Identifier: Apache-2.0
"""
The xDS server through gRPC clients of another make: npm's @grpc/grpc-js as a delta client scripted message by
message, plain and over TLS with a bearer token, and @grpc/grpc-js-xds as an application that finds its server
through state-of-the-world ADS.
"""
import json
import os
import pathlib
import subprocess

import pytest
from harness.wait import SLOW

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"

EXPECTED = {
    "wildcard": ["OWN +a=1 +b=1", "OWN +b=2 +c=1 -a", []],
    "names": ["EDS +x=1 -ghost", "EDS +x=1", "EDS +ghost=3", []],
    "wildcard_and_names": ["OWN +b=2 +c=1 -nobody", "OWN +b=2", "OWN +nobody=1", []],
    "nack": ["CDS", "CDS +bad=x", [], ["nacks=1 nack=I refuse: \u00e4 100%"], "CDS +bad=y", ["nacks=1 nack="]],
    "reconnect": ["RDS +p=1 +q=1 +r=1", "RDS +q=2 +s=1 -lost -r", []],
    # Clusters first, then what refers to them, removals last; each waits for the answer to the one before.
    "order": ["CDS +c1=c1", "LDS +l=l1", "RDS +p=r1", ["CDS +c2=c2", []], ["LDS +l=l2", []], ["RDS +p=r2", []],
              ["CDS -c1", []]],
    "state_of_the_world": ["LDS +l2", "LDS +l2 +m1", "LDS +m1", "EDS +2", [], "EDS +9", []],
    "large": [True, True, []],
    "slow": 20,
    "refusals": [3],
    # The client's own node first; policies are there before the Addresses that name them, and go after.
    "mesh_all": [["ADR +near=1 +far=1", "AUT +p=1"], "AUT +q=1", "ADR +far=2", "AUT -p", [],
                 ["ADR +near=1 +far=2 -gone", "AUT +q=1", "AUT -p"], []],
    "mesh_on_demand": ["ADR +near=1@n/2", "ADR +ns/svc=s@n/vip +w1=1@n/11 -n/99", "ADR +w2=1@n/13",
                       "ADR +other=2@n/12", "ADR -w1", []],
    "mesh_state_of_the_world": ["AUT +1 +1", "AUT +1 +2", []],
}
UNAUTHENTICATED = [16, "bearer token is not known"]


@pytest.fixture(scope="module")
def server_program(binary):
    program = pathlib.Path(binary).resolve().parent / "tests" / "tools" / "xds_server"
    assert os.access(program, os.X_OK), f"no {program}: build everything first"
    return str(program)


def run(script, *args):
    # Everything happens on the loopback of this namespace, which may be new.
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    done = subprocess.run(["node", str(CLIENTS / script), *args], capture_output=True, text=True,
                          timeout=300 * SLOW, check=False)
    assert done.returncode == 0, f"run tools/setup test first?\n{done.stderr[-3000:]}"
    assert "Sanitizer" not in done.stderr, done.stderr[-3000:]
    return {line["op"]: line["got"] for line in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A root and a server certificate for 127.0.0.1, as other people make them."""
    top = tmp_path_factory.mktemp("xds-certs")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=top, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=test root", "-keyout", "root.key", "-out", "root.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=xds",
            "-keyout", "xds.key", "-out", "xds.csr")
    (top / "ext").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    openssl("x509", "-req", "-in", "xds.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial",
            "-days", "2", "-extfile", "ext", "-out", "xds.pem")
    return [str(top / name) for name in ("xds.pem", "xds.key", "root.pem")]


@pytest.fixture(scope="module", params=["plain", "tls"])
def outcomes(request, server_program, certificates):
    tls = request.param == "tls"
    return tls, run("xds.mjs", server_program, *(certificates if tls else []))


@pytest.mark.parametrize("op", EXPECTED)
def test_scripted_client(outcomes, op):
    tls, got = outcomes
    want = EXPECTED[op]
    if op == "refusals" and tls:
        want = [*want, UNAUTHENTICATED, UNAUTHENTICATED]
    assert got[op] == want


def test_application_finds_its_server(server_program):
    got = run("xds_consumer.mjs", server_program)
    assert got["first"] == "one:hello"
    assert got["endpoints"] == "two:x"
    # Clusters came and went under its calls: make before break means that none of them failed.
    assert got["switches"] == {"calls": True, "failed": []}
    assert got["status"] == [f"shop-client {t} 0 0" for t in
                             ("Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration")]
