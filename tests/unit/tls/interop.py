#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our TLS against OpenSSL's (Python's ssl module and the openssl program), TAP output.

usage: interop.py DRIVER MAKE_CERTS
DRIVER speaks TLS on its standard input, which we make a connected loopback socket. MAKE_CERTS DIR
puts root.crt, a.crt, a.key, b.crt and b.key there.
"""
import os
import re
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import time

DRIVER, MAKE = sys.argv[1], sys.argv[2]
DIR = tempfile.TemporaryDirectory()
D = DIR.name
A, B = "spiffe://cluster.local/ns/n/sa/a", "spiffe://cluster.local/ns/n/sa/b"
subprocess.run([MAKE, D], check=True)
PATIENCE = 60  # seconds, of waits that only end when something hangs
PATTERN = bytes((i * 31 + (i >> 8) * 7) & 0xFF for i in range(1 << 20))


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def sign(name, by, by_key, extensions, alg=("ec", "ec_paramgen_curve:P-256")):
    """A certificate of the openssl program's making: D/name.crt and D/name.key."""
    openssl("genpkey", "-algorithm", alg[0], "-pkeyopt", alg[1], "-out", f"{D}/{name}.key")
    openssl("req", "-new", "-key", f"{D}/{name}.key", "-subj", f"/CN={name}", "-out", f"{D}/{name}.csr")
    with open(f"{D}/{name}.ext", "w") as f:
        f.write("\n".join(extensions) + "\n")
    openssl("x509", "-req", "-in", f"{D}/{name}.csr", "-CA", by, "-CAkey", by_key, "-days", "2",
            "-extfile", f"{D}/{name}.ext", "-out", f"{D}/{name}.crt")


def with_chain(name, *parents):
    with open(f"{D}/{name}.crt", "a") as f:
        for p in parents:
            f.write(open(f"{D}/{p}.crt").read())


sign("mid", f"{D}/root.crt", f"{D}/ca/root.key",
     ["basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign,cRLSign"])
LEAF = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
BOTH = "extendedKeyUsage=serverAuth,clientAuth"
sign("deep", f"{D}/mid.crt", f"{D}/mid.key",
     LEAF + [BOTH, f"subjectAltName=URI:https://x/y,DNS:a.b,URI:{B}"])
with_chain("deep", "mid")
sign("rsa", f"{D}/mid.crt", f"{D}/mid.key", LEAF + [BOTH, f"subjectAltName=URI:{B}"],
     ("RSA", "rsa_keygen_bits:2048"))
with_chain("rsa", "mid")
sign("noeku", f"{D}/root.crt", f"{D}/ca/root.key", LEAF + [f"subjectAltName=URI:{B}"])
sign("clientonly", f"{D}/root.crt", f"{D}/ca/root.key",
     LEAF + ["extendedKeyUsage=clientAuth", f"subjectAltName=URI:{B}"])
sign("nameless", f"{D}/root.crt", f"{D}/ca/root.key", LEAF + [BOTH, "subjectAltName=DNS:a.b"])
sign("fake", f"{D}/a.crt", f"{D}/a.key", LEAF + [BOTH, f"subjectAltName=URI:{B}"])
with_chain("fake", "a")
sign("nul", f"{D}/root.crt", f"{D}/ca/root.key",
     LEAF + [BOTH, "subjectAltName=DER:" + (lambda u: f"30{len(u) + 2:02x}86{len(u):02x}" + u.hex())(
         A.encode() + b"\0.evil")])

# Several SPIFFE names, in both orders, and one of a form nobody knows beside a good one.
X = "spiffe://other.local/ns/n/sa/a"
for twin, uris in (("twin1", (A, X)), ("twin2", (X, A)), ("twin3", (A, B)), ("twin4", ("spiffe://other.local/any/path", A)),
                   ("twin5", (A, "SPIFFE://cluster.local/any"))):
    sign(twin, f"{D}/root.crt", f"{D}/ca/root.key",
         LEAF + [BOTH, "subjectAltName=" + ",".join(f"URI:{u}" for u in uris)])

# Intermediates with name constraints, and what they sign.
CONSTRAINED = {
    "host": ("permitted;URI:cluster.local", [(A, True), (X, False), ("spiffe://sub.cluster.local/ns/n/sa/a", False)]),
    "domain": ("permitted;URI:.local", [(A, True), ("spiffe://local/ns/n/sa/a", False), ("spiffe://x.test/ns/n/sa/a", False)]),
    "two": ("permitted;URI:x.test,permitted;URI:cluster.local", [(A, True), (X, False)]),
    "none": ("permitted;URI:x.test", [(A, False)]),
    "extra": ("permitted;URI:cluster.local", [((A, "https://x.test/"), False), ((A, "https://cluster.local:8443/y"), True),
                                              ((A, "urn:x:y"), False), ((A, "https://user@cluster.local/"), False),
                                              ((A, "https://10.0.0.1/"), False)]),
    "excluded": ("excluded;URI:cluster.local", [(A, False)]),
    "dns": ("permitted;DNS:cluster.local", [((A, "DNS:a.cluster.local"), True), ((A, "DNS:a.other.local"), False)]),
}
CASES = []
for mid, (constraint, leaves) in CONSTRAINED.items():
    sign(f"nc-{mid}", f"{D}/root.crt", f"{D}/ca/root.key",
         ["basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign,cRLSign",
          f"nameConstraints=critical,{constraint}"])
    for number, (names, good) in enumerate(leaves):
        names = (names,) if isinstance(names, str) else names
        leaf = f"nc-{mid}-{number}"
        sign(leaf, f"{D}/nc-{mid}.crt", f"{D}/nc-{mid}.key",
             LEAF + [BOTH, "subjectAltName=" + ",".join(u if u.startswith("DNS:") else f"URI:{u}" for u in names)])
        with_chain(leaf, f"nc-{mid}")
        CASES.append((leaf, good))


def driver(role, who, sock, *args):
    return subprocess.Popen(
        [DRIVER, role, f"{D}/{who}.crt", f"{D}/{who}.key", f"{D}/root.crt", *args],
        stdin=sock.fileno(), stdout=sock.fileno(), stderr=subprocess.PIPE, text=True)


def context(server, who, **kw):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_REQUIRED
    ctx.load_verify_locations(f"{D}/root.crt")
    if who:
        ctx.load_cert_chain(f"{D}/{who}.crt", f"{D}/{who}.key")
    ctx.set_alpn_protocols(kw.get("alpn", ["h2"]))
    if kw.get("max12"):
        ctx.maximum_version = ssl.TLSVersion.TLSv1_2
    if kw.get("group"):
        ctx.set_ecdh_curve(kw["group"])
    return ctx


def end(proc, status=0):
    _, line = proc.communicate(timeout=PATIENCE)
    assert proc.returncode == status, f"driver: {proc.returncode} {line!r}"
    return line


def python_client(*args, **kw):
    """Their client, our echoing server."""
    ours, theirs = socket.socketpair()
    proc = driver("server", "b", ours, *args)
    ours.close()
    theirs.settimeout(PATIENCE)
    s = context(False, "a", **kw).wrap_socket(theirs)
    assert s.selected_alpn_protocol() == "h2"
    back = bytearray()
    for at in range(0, len(PATTERN), 50000):
        s.sendall(PATTERN[at:at + 50000])
        want = min(at + 50000, len(PATTERN))
        while len(back) < want:
            back += s.recv(65536)
    assert back == PATTERN
    cipher = s.cipher()
    s.unwrap()
    line = end(proc)
    assert f"peer={A}" in line, line
    return line, cipher


def python_server(*args, **kw):
    """Their echoing server (with two session tickets), our client."""
    ours, theirs = socket.socketpair()
    proc = driver("client", "a", ours, f"expect={B}", f"send={len(PATTERN)}", *args)
    ours.close()
    theirs.settimeout(PATIENCE)
    s = context(True, "b", **kw).wrap_socket(theirs, server_side=True)
    while True:
        data = s.recv(65536)
        if not data:
            break
        s.sendall(data)
    line = end(proc)
    assert f"got={len(PATTERN)}" in line and f"peer={B}" in line, line
    return line


def test_python_client():
    line, _ = python_client()
    assert "TLS1.3 AES-128-GCM" in line, line


def test_python_client_rekeyed():
    line, _ = python_client("rekey=9")
    assert "tx_keys=0 " not in line and "rx_keys=0 " not in line, line


def test_python_client_hello_retry():
    python_client(group="secp384r1")


def test_python_client_tls12():
    line, cipher = python_client("tls12", max12=True)
    assert "TLS1.2" in line and cipher[1] == "TLSv1.2", line


def test_python_client_tls12_refused():
    ours, theirs = socket.socketpair()
    proc = driver("server", "b", ours)
    ours.close()
    try:
        context(False, "a", max12=True).wrap_socket(theirs)
        raise AssertionError("TLS 1.2 was accepted")
    except ssl.SSLError as e:
        assert "alert" in str(e).lower(), e
    end(proc, 1)


def test_python_client_without_certificate():
    ours, theirs = socket.socketpair()
    proc = driver("server", "b", ours)
    ours.close()
    theirs.settimeout(PATIENCE)
    try:
        context(False, None).wrap_socket(theirs).recv(1)
        raise AssertionError("accepted")
    except ssl.SSLError as e:
        assert "certificate required" in str(e).lower().replace("_", " "), e
    assert "no certificate" in end(proc, 1)


def test_python_client_wrong_alpn():
    ours, theirs = socket.socketpair()
    proc = driver("server", "b", ours)
    ours.close()
    theirs.settimeout(PATIENCE)
    try:
        context(False, "a", alpn=["http/1.1"]).wrap_socket(theirs).recv(1)
        raise AssertionError("accepted")
    except ssl.SSLError as e:
        assert "no application protocol" in str(e).lower().replace("_", " "), e
    end(proc, 1)


def test_python_server():
    line = python_server()
    assert "TLS1.3" in line, line


def test_python_server_rekeyed():
    line = python_server("rekey=5")
    assert "tx_keys=0 " not in line and "rx_keys=0 " not in line, line


def test_python_server_tls12():
    assert "TLS1.2" in python_server("tls12", max12=True)


def test_python_server_wrong_identity():
    ours, theirs = socket.socketpair()
    proc = driver("client", "a", ours, f"expect={A}")
    ours.close()
    theirs.settimeout(PATIENCE)
    try:
        context(True, "b").wrap_socket(theirs, server_side=True).recv(1)
        raise AssertionError("accepted")
    except ssl.SSLError as e:
        assert "bad certificate" in str(e).lower().replace("_", " "), e
    assert "expected" in end(proc, 1)


def read_until(pipe, want, seconds=PATIENCE):
    data, limit = b"", time.monotonic() + seconds
    while want not in data:
        if not select.select([pipe], [], [], max(0, limit - time.monotonic()))[0]:
            raise AssertionError(f"no {want!r} in {data!r}")
        chunk = os.read(pipe.fileno(), 65536)
        if not chunk:
            raise AssertionError(f"no {want!r} in {data!r}")
        data += chunk
    return data


def s_client(*options):
    """openssl s_client against our echoing server; K and k change keys."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % listener.getsockname()[1],
             "-cert", f"{D}/a.crt", "-key", f"{D}/a.key", "-CAfile", f"{D}/root.crt", "-alpn", "h2",
             "-verify_return_error", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        listener.settimeout(PATIENCE)
        conn, _ = listener.accept()
    proc = driver("server", "b", conn)
    conn.close()
    read_until(peer.stdout, b"Verify return code: 0")
    for word in (b"one\n", b"K\n", b"two\n", b"k\n", b"three\n"):
        peer.stdin.write(word)
        peer.stdin.flush()
        # A command and what follows it in the same read are one command to s_client.
        read_until(peer.stdout, word.strip() if len(word) > 2 else b"KEYUPDATE")
    peer.stdin.write(b"Q\n")
    peer.stdin.close()
    peer.wait(PATIENCE)
    peer.stdout.close()
    return end(proc)


def test_s_client_key_updates():
    line = s_client()
    assert "rx_keys=2 tx_keys=1" in line, line


def test_s_client_aes256_without_middlebox():
    line = s_client("-ciphersuites", "TLS_AES_256_GCM_SHA384", "-no_middlebox")
    assert "AES-256-GCM" in line and "rx_keys=2 tx_keys=1" in line, line


def test_s_client_small_fragments():
    assert "max=1024" in s_client("-maxfraglen", "1024", "-record_padding", "512")


def s_server(args, *options):
    """Our client against openssl s_server, which chooses its port and says it."""
    peer = subprocess.Popen(
        ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", f"{D}/b.crt", "-key", f"{D}/b.key",
         "-CAfile", f"{D}/root.crt", "-Verify", "3", "-verify_return_error", "-alpn", "h2", "-rev",
         "-naccept", "1", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    said = read_until(peer.stdout, b"ACCEPT 127.0.0.1:")
    while not (port := re.search(rb"ACCEPT 127\.0\.0\.1:(\d+)\s", said)):
        said += read_until(peer.stdout, b"\n")
    conn = socket.create_connection(("127.0.0.1", int(port.group(1))))
    proc = driver("client", "a", conn, f"expect={B}", *args)
    conn.close()
    return proc, peer


def end_peer(peer):
    peer.kill()
    peer.wait()
    peer.stdin.close()
    peer.stdout.close()


def test_s_server_refuses_us():
    """The refusal comes after our handshake, as the first record."""
    proc, peer = s_server(["send=10"], "-CAfile", f"{D}/other.crt", "-no-CAfile")
    line = end(proc, 1)
    end_peer(peer)
    assert "peer refused our certificate (alert 48)" in line, line


def test_s_server_aes256():
    """A line comes back reversed; tickets come first."""
    proc, peer = s_server([], "-ciphersuites", "TLS_AES_256_GCM_SHA384")
    read_until(peer.stdout, b"Ciphersuite: ")
    end_peer(peer)
    line = end(proc, 1)
    assert "AES-256-GCM" in line and f"peer={B}" in line, line
    assert "without close_notify" in line, line


def judged(who, ok, why="", alert="", role="client"):
    """Our client or server meets a peer with this certificate; what comes of it?"""
    ours, theirs = socket.socketpair()
    proc = driver(role, "a", ours, f"expect={B}")
    ours.close()
    theirs.settimeout(PATIENCE)
    try:
        s = context(role == "client", who).wrap_socket(theirs, server_side=role == "client")
        if not ok:
            s.recv(1)  # a client learns of its refusal here; writing would race with the reset
            raise AssertionError("accepted")
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        s.unwrap()
    except ssl.SSLError as e:
        assert not ok and alert in str(e).lower().replace("_", " "), e
    finally:
        theirs.close()
    line = end(proc, 0 if ok else 1)
    assert why in line, line


def test_intermediates():
    judged("deep", True, f"peer={B}")
    judged("deep", True, f"peer={B}", role="server")
    judged("rsa", True, f"peer={B}")
    judged("rsa", True, f"peer={B}", role="server")


def test_intermediate_of_ours_is_sent():
    for who in ("deep", "rsa"):
        ours, theirs = socket.socketpair()
        proc = driver("server", who, ours)
        ours.close()
        theirs.settimeout(PATIENCE)
        s = context(False, "a").wrap_socket(theirs)
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        s.unwrap()
        end(proc)


def test_purpose():
    judged("noeku", True)
    judged("noeku", True, role="server")
    judged("clientonly", False, "key usage does not allow this use", "bad certificate")
    judged("clientonly", True, role="server")


def test_no_identity():
    judged("nameless", False, "no SPIFFE identity", "bad certificate")
    judged("nameless", False, "no SPIFFE identity", "bad certificate", role="server")
    judged("nul", False, "no SPIFFE identity", "bad certificate", role="server")


def test_one_identity_or_none():
    for who in ("twin1", "twin2", "twin3", "twin4", "twin5"):
        judged(who, False, "more than one SPIFFE identity", "bad certificate", role="server")
        judged(who, False, "more than one SPIFFE identity", "bad certificate")


def test_uri_name_constraints():
    for who, good in CASES:
        if good:
            judged(who, True, f"peer={A}", role="server")
        else:
            judged(who, False, "outside the name constraints", "bad certificate", role="server")


def test_leaf_that_plays_ca():
    judged("fake", False, "peer certificate ")
    judged("fake", False, "peer certificate ", role="server")


def main():
    tests = [(k, v) for k, v in globals().items() if k.startswith("test_")]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, fn) in enumerate(tests, 1):
        try:
            fn()
            print(f"ok {i} - {name}", flush=True)
        except Exception as e:  # a failing case must not hide the others
            bad += 1
            print(f"not ok {i} - {name}\n# {type(e).__name__}: {e}", flush=True)
    return 1 if bad else 0


sys.exit(main())
