# SPDX-License-Identifier: Apache-2.0
"""Server certificates by the kind of their key: what is accepted is served, what cannot be served is refused with a word."""
import subprocess

import pytest
from harness import gateway as gw
from harness.wait import until

FORWARD = [{"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "60s"}}]
ASK = b"GET /size/4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
KINDS = {
    "p256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "p384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
    "p521": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"],
    "ed25519": ["-newkey", "ed25519"],
    "ed448": ["-newkey", "ed448"],
    "rsa": ["-newkey", "rsa:2048"],
    "pss": ["-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"],
}


def make(where, name, args):
    cert, key = str(where / f"{name}.crt"), str(where / f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", *args, "-nodes", "-keyout", key, "-out", cert, "-days", "30",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def gate(binary, tmp_path_factory):
    """One listener for each kind of key."""
    where = tmp_path_factory.mktemp("certs")
    origin = gw.Origin()
    made = {name: (gw.free_port(), *make(where, name, args)) for name, args in KINDS.items()}
    g = gw.Gateway(binary, where, [
        *(gw.listener(name, port, [{"filters": [gw.hcm(FORWARD)], "transport_socket": gw.tls_socket(cert, key)}])
          for name, (port, cert, key) in made.items()),
        gw.cluster("origin", [origin.port])])
    yield made
    g.stop()
    origin.close()


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("kind", KINDS)
def test_openssl_is_served(gate, kind, version):
    port, cert, _ = gate[kind]
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version, "-ign_eof", "-CAfile", cert,
                           "-verify_return_error", "-verify_hostname", "localhost"],
                          input=ASK, capture_output=True, timeout=60, check=False)
    out = (done.stdout + done.stderr).decode(errors="replace")
    assert "HTTP/1.1 200 OK" in out, out


@pytest.mark.parametrize("kind", KINDS)
def test_curl_is_served(gate, kind):
    port, cert, _ = gate[kind]
    done = subprocess.run(["curl", "-sS", "--http2", "--cacert", cert, "--resolve", f"localhost:{port}:127.0.0.1",
                           "-o", "/dev/null", "-w", "%{http_code} %{http_version}", f"https://localhost:{port}/size/4"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "200 2", done.stdout + done.stderr


@pytest.mark.parametrize("args", [["-newkey", "rsa:1024"], ["-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:1024"]],
                         ids=["rsa", "pss"])
def test_a_short_rsa_key_is_refused_with_a_word(binary, tmp_path, args):
    cert, key = make(tmp_path, "short", args)
    g = gw.Gateway(binary, tmp_path, [
        gw.listener("short", gw.free_port(), [{"filters": [gw.hcm(FORWARD)], "transport_socket": gw.tls_socket(cert, key)}]),
    ], wait=False)
    until(lambda: "an RSA key of 1024 bits: peers want 2048 at least" in g.log())
    g.stop()
