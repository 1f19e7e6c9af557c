# SPDX-License-Identifier: Apache-2.0
"""Codes by which machines join: one use, refusals with their reasons, races, floods, and what is stored of them."""
import base64
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess

import h2.config
import h2.connection
import pytest
from harness.join import ENTRIES, SECRETS, Fabric, words
from harness.wait import GUARD, SLOW, until

AT = ("--address", "192.0.2.7")


@pytest.fixture(scope="module")
def fabric(binary, tmp_path_factory):
    f = Fabric(binary, tmp_path_factory.mktemp("join"))
    yield f
    f.close()


def code(line):
    return words(line)[1]


def opened(line):
    """The bytes of a code between its length and its checksum."""
    return base64.urlsafe_b64decode(code(line)[4:] + "==")[2:-4]


def sealed(body):
    """A line with such bytes."""
    body = (len(body) + 6).to_bytes(2, "big") + body
    body += hashlib.sha256(body).digest()[:4]
    return "spanwire join sw1-" + base64.urlsafe_b64encode(body).decode().rstrip("=")


def at_port(line, old, new):
    """The same code for another port: what 'token create --join-address' would have printed."""
    old, new = f"127.0.0.1:{old}".encode(), f"127.0.0.1:{new}".encode()
    body = opened(line)
    assert body[1:3] == len(old).to_bytes(2, "big") and body[3:3 + len(old)] == old
    return sealed(body[:1] + len(new).to_bytes(2, "big") + new + body[3 + len(old):])


def refused(done, *why):
    assert done.returncode == 1 and done.stdout == "", done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for w in why:
        assert w in done.stderr, done.stderr


def test_a_machine_joins_once_and_leaves(fabric, tmp_path):
    line = fabric.create("vm-1", "--service-account", "db", "--label", "app=db", "--network", "net2", *AT)
    done = fabric.join(line, tmp_path / "m", "--no-run", check=True)
    assert "Joined as node site/vm-1" in done.stdout
    entry = fabric.entry("vm-1").json
    assert entry["spec"] == {"address": "192.0.2.7", "serviceAccount": "db", "labels": {"app": "db"}, "network": "net2"}
    assert entry["metadata"]["labels"]["app"] == "db"
    assert entry["metadata"]["annotations"]["ambient.istio.io/redirection"] == "enabled"
    # One directory, for its owner alone; no code and no secret in it.
    assert stat.S_IMODE(os.stat(tmp_path / "m").st_mode) == 0o700
    for f in (tmp_path / "m").iterdir():
        assert stat.S_IMODE(f.stat().st_mode) == 0o600, f
        assert code(line) not in f.read_text()
    # Joined machines are told so, and their code is used up for everybody else.
    refused(fabric.join(line, tmp_path / "m", "--no-run"), "has joined already, as node site/vm-1")
    refused(fabric.join(line, tmp_path / "another", "--no-run"), "was used by another machine")
    assert "joined" in fabric.token("list", "--namespace", "site").stdout
    (tmp_path / "m" / "machine.key.0123abcd.tmp").write_text("of a run that was killed")
    done = fabric.command("join", "--state", str(tmp_path / "m"), "--leave")
    assert "Left" in done.stdout
    assert "vm-1" not in fabric.records()
    until(lambda: fabric.entry("vm-1").status == 404, what="the WorkloadEntry to go")
    assert not list((tmp_path / "m").glob("*.json")) and not list((tmp_path / "m").glob("machine.key*"))
    refused(fabric.command("join", "--state", str(tmp_path / "m"), "--renew", check=False), "has not joined")


def test_runs_of_one_code_at_the_same_time_are_one_machine(fabric, tmp_path):
    """Each would make a key: the one that stays in the directory was not the one that the code was used with."""
    for i in range(8):
        state = str(tmp_path / f"m{i}")
        argv = [fabric.binary, *words(fabric.create(f"once-{i}", *AT)), "--state", state, "--wait", "20s", "--no-run"]
        runs = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        said = [p.communicate(timeout=GUARD * SLOW)[1] for p in runs]
        assert not any(x and "has joined already" not in x for x in said), said
        fabric.command("join", "--state", state, "--renew")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("systemd-analyze"), reason="needs root and systemd-analyze")
@pytest.mark.parametrize("flags", [(), ("--redirect",), ("--node-flag=--dns=false", "--node-flag=--log-level=a%i$b")])
def test_the_unit_that_is_printed_is_closed(fabric, tmp_path, flags):
    name = "unit" + "-r" * len(flags)
    words = [f'"{f.replace("%", "%%").replace("$", "$$")}"' for f in flags if f != "--redirect"]
    fabric.join(fabric.create(name, *AT), tmp_path / "m", "--no-run", check=True)
    unit = tmp_path / "spanwire-join.service"
    unit.write_text(fabric.command("join", "--state", str(tmp_path / "m"), "--print-unit", *flags).stdout)
    tool = ["systemd-analyze", "--no-pager"]
    score = subprocess.run([*tool, "security", "--offline=true", str(unit)], capture_output=True, text=True, check=False).stdout
    assert float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", score)[1]) < 2.5, score
    said = subprocess.run([*tool, "verify", str(unit)], capture_output=True, text=True, check=False).stderr
    assert not [x for x in said.splitlines() if unit.name in x and re.search("Unknown|Invalid|Failed to parse|ignoring", x)]
    assert f'ReadWritePaths="{tmp_path / "m"}"' in unit.read_text()
    line = re.search("(?m)^ExecStart=(.*)$", unit.read_text())[1]
    assert re.findall('"--node-flag=[^"]*"', line) == words and ("--redirect" in line) == ("--redirect" in flags)


def test_a_record_of_a_special_address_is_none(fabric, tmp_path):
    """A tenant that writes Secrets makes records; loopback and metadata services are no machine's address."""
    bad = fabric.token("create", "--name", "lo", "--namespace", "site", "--address", "169.254.169.254", check=False)
    assert bad.returncode == 1 and "link-local" in bad.stderr, bad
    line = fabric.create("lo", *AT)
    record = fabric.records()["lo"]
    spec = {**json.loads(base64.b64decode(record["data"]["spec.json"])), "address": "127.0.0.1"}
    path = f"{SECRETS.format('site')}/{record['metadata']['name']}"
    assert fabric.control.patch(path, {"data": {"spec.json": base64.b64encode(json.dumps(spec).encode()).decode()}}).status == 200
    until(lambda: "is not a join record, ignored: address leads nowhere" in fabric.control.log(), what="the record to be refused")
    refused(fabric.join(line, tmp_path / "m", "--no-run"), "unknown join code")
    assert fabric.entry("lo").status == 404


@pytest.mark.parametrize("flags, why", [
    (("--service-account", "BAD_"), "serviceAccount is not a name"),
    (("--network", "a/b"), "network is not a name"),
    ([f"--label=l{i}=x" for i in range(65)], "labels are not labels"),
], ids=["account", "network", "labels"])
def test_no_code_is_made_for_a_record_that_counts_for_none(fabric, flags, why):
    """The control plane would ignore the record, and the machine hear that its code is unknown."""
    before = set(fabric.records())
    refused(fabric.token("create", "--name", "bent", "--namespace", "site", *flags, check=False), "cannot make a code", why)
    assert set(fabric.records()) == before


def test_a_record_of_a_peer_counts_in_the_systems_namespace_only(fabric, tmp_path):
    """Else whoever writes Secrets of some namespace would have certificates of the fabric signed."""
    line = fabric.create("far-site", *AT)
    record = fabric.records()["far-site"]
    spec = {**json.loads(base64.b64decode(record["data"]["spec.json"])), "kind": "peer"}
    path = f"{SECRETS.format('site')}/{record['metadata']['name']}"
    assert fabric.control.patch(path, {"data": {"spec.json": base64.b64encode(json.dumps(spec).encode()).decode()}}).status == 200
    until(lambda: "records of peers count in the namespace" in fabric.control.log(), what="the record to be refused")
    refused(fabric.join(line, tmp_path / "m", "--no-run"), "unknown join code")


def test_renewing_takes_no_entry_of_another_machine(fabric, tmp_path):
    """A machine that was refused because its name is taken has a key all the same, and may ask to renew."""
    first = fabric.create("twin", "--service-account", "first", *AT)
    fabric.join(first, tmp_path / "m", "--no-run", check=True)
    second = fabric.create("twin", "--service-account", "second", "--address", "192.0.2.66")
    refused(fabric.join(second, tmp_path / "n", "--no-run"), "is another's")
    machine = json.loads((tmp_path / "m" / "machine.json").read_text())
    body = opened(second)
    at = 3 + int.from_bytes(body[1:3], "big")
    machine["id"] = body[at + 1:at + 1 + body[at]].decode()
    (tmp_path / "n" / "machine.json").write_text(json.dumps(machine))
    (tmp_path / "n" / "roots.pem").write_text((tmp_path / "m" / "roots.pem").read_text())
    renew = ("join", "--state", str(tmp_path / "n"), "--renew")
    refused(fabric.command(*renew, check=False), "is another's")
    assert fabric.entry("twin").json["spec"] == {"address": "192.0.2.7", "serviceAccount": "first"}
    # What somebody else wrote into the machine's own entry is put right.
    path = f"{ENTRIES.format('site')}/twin"
    assert fabric.control.patch(path, {"spec": {"address": "192.0.2.8"}}).status == 200
    fabric.command("join", "--state", str(tmp_path / "m"), "--renew")
    assert fabric.entry("twin").json["spec"]["address"] == "192.0.2.7"


def test_the_code_comes_from_standard_input(fabric, tmp_path):
    line = fabric.create("stdin", *AT)
    done = fabric.command("join", "-", "--state", str(tmp_path / "m"), "--no-run", stdin=f"  {code(line)}\n")
    assert "Joined as node site/stdin" in done.stdout


def test_only_a_hash_is_stored_and_nothing_is_logged(fabric, tmp_path):
    line = fabric.create("hidden", *AT)
    secret = opened(line)[-32:]
    stored = fabric.records()["hidden"]
    for value in stored["data"].values():
        assert secret not in base64.b64decode(value) and secret.hex().encode() not in base64.b64decode(value)
    fabric.join(line, tmp_path / "m", "--no-run", check=True)
    refused(fabric.join(line, tmp_path / "n", "--no-run"))
    log = fabric.control.log()
    assert secret.hex() not in log and code(line)[60:] not in log
    assert base64.b64encode(secret).decode() not in log


def test_broken_codes_say_what_is_wrong(fabric, tmp_path):
    good = code(fabric.create("broken", *AT))
    for n in (10, 40, len(good) - 1):
        refused(fabric.join(f"spanwire join {good[:n]}", tmp_path / "m"), f"cut off: {n} of {len(good)} characters")
    refused(fabric.join(f"spanwire join {good}AAAA", tmp_path / "m"), "too many")
    swapped = good[:50] + ("A" if good[50] != "A" else "B") + good[51:]
    refused(fabric.join(f"spanwire join {swapped}", tmp_path / "m"), "checksum is wrong")
    refused(fabric.join("spanwire join sw2-" + good[4:], tmp_path / "m"), "newer version")
    refused(fabric.join("spanwire join hello", tmp_path / "m"), "not a join code")
    assert not (tmp_path / "m").exists()


def test_expired_revoked_and_unknown_codes(fabric, tmp_path):
    line = fabric.create("late", "--ttl", "1s", *AT)
    until(lambda: "expired" in fabric.token("list", "--namespace", "site").stdout, what="the code to expire")
    refused(fabric.join(line, tmp_path / "a", "--no-run"), "the code has expired")
    line = fabric.create("revoked", *AT)
    record = fabric.records()["revoked"]["metadata"]["name"]
    assert "is revoked" in fabric.token("delete", f"site/{record}").stdout
    until(lambda: "unknown join code" in fabric.join(line, tmp_path / "b", "--no-run").stderr, what="the code to be unknown")
    assert fabric.entry("late").status == fabric.entry("revoked").status == 404
    fabric.control.post(SECRETS.format("site"), {"metadata": {"name": "plain"}, "stringData": {"a": "b"}})
    refused(fabric.token("delete", "site/plain", check=False), "not a Secret of type")
    assert fabric.control.get(SECRETS.format("site") + "/plain").status == 200


def test_the_secret_is_not_sent_to_another_authority(fabric, binary, tmp_path):
    """A control plane of somebody else at the same address: the machine notices before it says anything."""
    other = Fabric(binary, tmp_path / "other")
    try:
        lured = at_port(fabric.create("lured", *AT), fabric.port, other.port)
        done = fabric.join(lured, tmp_path / "m", "--no-run")
        refused(done, "not the one of the code", "The secret was not sent")
        assert "join request" not in other.control.log()
    finally:
        other.close()


def test_of_many_machines_with_one_code_one_joins(fabric, tmp_path):
    line = fabric.create("raced", *AT)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda i: fabric.join(line, tmp_path / f"m{i}", "--no-run"), range(6)))
    assert sorted(d.returncode for d in done) == [0, 1, 1, 1, 1, 1], [d.stderr for d in done]
    for d in done:
        if d.returncode:
            refused(d, "was used by another machine")


def test_two_replicas_grant_a_code_once(fabric, binary, tmp_path):
    """Control planes on one API: whichever is asked, the record decides."""
    other = Replica(binary, fabric, tmp_path)
    try:
        for i in range(4):
            first = fabric.create(f"replica-{i}", *AT)
            lines = [first, at_port(first, fabric.port, other.mesh_port)]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                done = list(pool.map(lambda k, i=i, lines=lines: fabric.join(
                    lines[k], tmp_path / f"r{i}-{k}", "--no-run"), range(2)))
            assert sorted(d.returncode for d in done) == [0, 1], [d.stderr for d in done]
    finally:
        other.stop()


class Replica:
    """A second control plane, on the API of the first."""

    def __init__(self, binary, fabric, where):
        self.log = where / "replica.log"
        with open(self.log, "wb") as log:
            self.proc = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", binary, "control", "--kubeconfig", str(fabric.control.kubeconfig),
                 "--connector=false", "--gateway=false", "--mesh-listen", "127.0.0.1:0",
                 "--join-address", f"127.0.0.1:{fabric.port}", "--admin-addr", "127.0.0.1:0",
                 "--ca-dir", str(fabric.control.data / "mesh-ca"), "--lease-namespace", "spanwire-system",
                 "--data", str(where / "replica")], stdout=log, stderr=log)
        self.mesh_port = int(until(lambda: re.findall(r"mesh on \S+:(\d+)", self.log.read_text()),
                                   what="the replica's port")[-1])

    def stop(self):
        self.proc.terminate()
        self.proc.wait(GUARD * SLOW)


def test_an_answer_that_was_lost_is_given_again(binary, tmp_path):
    """Control is killed while machines redeem: each code ends with one machine, by trying the same line again."""
    f = Fabric(binary, tmp_path / "f")
    try:
        lines = [f.create(f"m{i}", *AT) for i in range(8)]
        port = f.port
        running = [subprocess.Popen([binary, *words(line), "--state", str(tmp_path / f"s{i}"), "--no-run", "--wait", "60s"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for i, line in enumerate(lines)]
        until(lambda: "joined: node" in f.control.log(), what="the first to have joined")
        f.control.flags = tuple(f"127.0.0.1:{port}" if x == "127.0.0.1:0" else x for x in f.control.flags)
        f.control.stop(kill=True)
        f.control.restart()
        for i, p in enumerate(running):
            _, err = p.communicate(timeout=GUARD * SLOW)
            assert p.returncode == 0, (i, err)
        for i, line in enumerate(lines):
            assert f.entry(f"m{i}").status == 200
            refused(f.join(line, tmp_path / f"thief{i}", "--no-run"), "was used by another machine")
    finally:
        f.close()


class Asker:
    """One connection that asks for the roots, and takes its time."""

    def __init__(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW))
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()

    def ask(self, *, ends):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", "POST"), (":path", "/spanwire.join.v1.Join/Roots"), (":scheme", "https"),
                                      (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")])
        if ends:
            self.h2.send_data(stream, bytes(5), end_stream=True)
        self.sock.sendall(self.h2.data_to_send())
        return stream

    def status(self, stream):
        """The status of gRPC, once it has come."""
        while True:
            data = self.sock.recv(65536)
            assert data, "connection closed"
            for e in self.h2.receive_data(data):
                found = dict(getattr(e, "headers", None) or ()).get("grpc-status")
                if found is not None and e.stream_id == stream:
                    return int(found)
            self.sock.sendall(self.h2.data_to_send())


def test_requests_that_never_end_hold_no_place_for_good(binary, tmp_path):
    f = Fabric(binary, tmp_path / "f")
    try:
        slow, other = Asker(f.port), Asker(f.port)
        first = [slow.ask(ends=False) for _ in range(64)][0]
        until(lambda: other.status(other.ask(ends=True)) == 8, what="the address to have all its places")  # RESOURCE_EXHAUSTED
        assert slow.status(first) == 14  # UNAVAILABLE: they have a deadline
        line = f.create("patient", *AT)
        until(lambda: f.join(line, tmp_path / "m", "--no-run").returncode == 0, what="the places to be free again")
    finally:
        f.close()


def test_a_flood_of_guesses_is_limited(binary, tmp_path):
    fabric = Fabric(binary, tmp_path / "f")
    try:
        flood(fabric, tmp_path)
    finally:
        fabric.close()


def flood(fabric, tmp_path):
    line = fabric.create("flooded", *AT)

    def guess(i):
        return fabric.join(sealed(opened(line)[:-32] + os.urandom(32)), tmp_path / f"g{i}", "--no-run", wait="1ms")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        said = [d.stderr for d in pool.map(guess, range(60))]
    assert all("unknown join code" in s or "wait a few seconds" in s for s in said), said
    assert any("wait a few seconds" in s for s in said)
    assert "reason=\"the secret is wrong\"" in fabric.control.log()
    assert fabric.metric("refused") >= 10 and fabric.metric("limited") >= 1
    assert "machine.json" not in fabric.records()["flooded"]["data"]
    # The machine with the right code retries until its address may be refused again.
    assert fabric.join(line, tmp_path / "m", "--no-run").returncode == 0


def test_peers_are_refused_until_somebody_signs_for_them(fabric):
    refused(fabric.token("create", "--for", "peer", "--name", "west", check=False), "--for peer", "no certificate authority")


def test_a_device_gets_its_account(fabric, tmp_path):
    line = fabric.create("laptop", "--for", "device")
    done = fabric.join(line, tmp_path / "m", check=True)
    assert f"--kubeconfig {tmp_path}/m/kubeconfig" in done.stdout
    config = (tmp_path / "m" / "kubeconfig").read_text()
    assert fabric.control.get("/version").status == 200 and "tokenFile: token" in config
    head = {"Authorization": f"Bearer {(tmp_path / 'm' / 'token').read_text()}"}
    plain = fabric.control.context(cert=False)
    base = "/apis/networking.datumapis.com/v1alpha1/namespaces/site/connectors"

    def ask(path):
        return fabric.control.request("GET", path, headers=head, context=plain).status
    assert ask(f"{base}/laptop") == 404
    assert ask(f"{base}/other") == ask("/api/v1/namespaces/site/secrets") == ask("/xds") == 403
    before = (tmp_path / "m" / "token").read_text()
    assert "good until" in fabric.command("join", "--state", str(tmp_path / "m"), "--renew").stdout
    assert (tmp_path / "m" / "token").read_text() != before
    # The token is bound to the record: without it, it is nobody's.
    record = fabric.records()["laptop"]["metadata"]["name"]
    assert "the machine is removed" in fabric.token("delete", f"site/{record}").stdout
    until(lambda: ask(f"{base}/laptop") == 401, what="the token to be nobody's")
    until(lambda: fabric.control.get("/api/v1/namespaces/site/serviceaccounts/laptop").status == 404,
          what="the account to go")
    refused(fabric.command("join", "--state", str(tmp_path / "m"), "--renew", check=False), "has joined, or it was removed")


def test_a_gateway_gets_the_gateways_it_was_made_for(fabric, tmp_path):
    refused(fabric.token("create", "--for", "gateway", "--name", "edge", check=False), "--xds-address", "--gateway")
    line = fabric.create("edge", "--for", "gateway", "--gateway", "site/web", "--xds-address", "127.0.0.1:15012")
    done = fabric.join(line, tmp_path / "m", check=True)
    assert f"--xds-token-file {tmp_path}/m/token" in done.stdout
    head = {"Authorization": f"Bearer {(tmp_path / 'm' / 'token').read_text()}"}
    plain = fabric.control.context(cert=False)

    def may(path):
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": path, "verb": "get"}}}
        answer = fabric.control.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body,
                                        headers=head, context=plain)
        assert answer.status == 201, answer
        return answer.json["status"]["allowed"]
    assert may("/xds/site/web") and not may("/xds/site/other") and not may("/xds")
    record = fabric.records()["edge"]["metadata"]["name"]
    fabric.token("delete", f"site/{record}")
    roles = fabric.control.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").json["items"]
    assert f"spanwire-{record}" not in {r["metadata"]["name"] for r in roles}
