# SPDX-License-Identifier: Apache-2.0
"""Clients that mean no good, and crashes: the server stays up, says no, and loses nothing."""
import http.client
import itertools
import json
import re
import socket
import time

import pytest
from harness.control import H2, Control, config_map
from harness.wait import GUARD, SANITIZED, SLOW, until, working

CMS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("hostile"))
    yield server
    server.close()


def still_fine(api):
    assert api.get("/api/v1/namespaces/default").status == 200


def post(api, body):
    return api.post(CMS, body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("body,status", [
    (b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (3 << 20) + b'"}}', 413),
    (b'{"data":' + b"[" * 10000 + b"]" * 10000 + b"}", 400),
    (b'{"metadata":{"name":"x"},"data":{"a":"\xff\xfe"}}', 400),
    (b'{"metadata":{"name":"\\ud800"}}', 400),
    (b"", 400), (b"null", 400), (b"[]", 400), (b"5", 400), (b'{"metadata":5}', 400),
    (b'{"metadata":{"name":"x","labels":{"a":null}}}', 201),
    (b'{"metadata":{"name":"x","annotations":{"' + b"k" * 300000 + b'":"v"}}}', 422),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(200000)) + b"}", 422),
], ids=["3MiB", "nested", "utf8", "surrogate", "empty", "null", "list", "number", "bad-meta", "null-label",
        "long-key", "many-keys"])
def test_bad_bodies(api, body, status):
    answer = post(api, body)
    assert answer.status == status, answer
    api.delete(f"{CMS}/x")
    still_fine(api)


@pytest.mark.parametrize("raw", [
    b"GET / HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /api/v1/namespaces?labelSelector=%FF%FE HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /api/v1/" + b"x/" * 500 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
])
def test_bad_requests(api, raw):
    with api.context().wrap_socket(socket.create_connection(("127.0.0.1", api.port)),
                                   server_hostname="127.0.0.1") as s:
        s.settimeout(GUARD * SLOW)
        s.sendall(raw)
        answer = b""
        try:
            while chunk := s.recv(65536):
                answer += chunk
        except (ConnectionError, OSError):
            pass
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), answer[:200]
    still_fine(api)


def test_not_tls(api):
    with socket.create_connection(("127.0.0.1", api.port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        s.settimeout(GUARD * SLOW)
        while s.recv(4096):
            pass
    still_fine(api)


def test_slow_loris(api):
    """Connections that never finish a request, or a line, are closed; others are served meanwhile."""
    socks = []
    for i in range(50):
        s = api.context().wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1")
        s.sendall(b"GET / HTTP/1.1\r\nHost:" if i % 2 else b"\x00" * 100)
        socks.append(s)
    still_fine(api)
    for s in socks[:4]:
        s.settimeout(GUARD * SLOW)
        assert s.recv(100) == b"", "still open"
    for s in socks:
        s.close()
    still_fine(api)


def test_watcher_that_never_reads(api):
    before = api.rss_kb()
    c = api.connection(timeout=60)
    c.request("GET", f"{CMS}?watch=1&timeoutSeconds=600")
    for i in range(200 if SANITIZED else 600):
        assert api.put(f"{CMS}/big", config_map("big", {"a": "x" * 100000, "n": str(i)})).status in (200, 404)
        if i == 0:
            api.post(CMS, config_map("big", {"a": "x"}))
    still_fine(api)
    grown = api.rss_kb() - before
    c.close()
    api.delete(f"{CMS}/big")
    assert SANITIZED or grown < 400 << 10, f"{grown} kB for one lazy watcher"


def test_many_watchers(api):
    count = 200 if SANITIZED else 1000
    rv = api.get(CMS).json["metadata"]["resourceVersion"]
    context = api.context()
    watches = []
    for _ in range(count):
        c = api.connection(context, timeout=60)
        c.request("GET", f"{CMS}?watch=1&timeoutSeconds=600&resourceVersion={rv}")
        watches.append((c, c.getresponse()))
    api.post(CMS, config_map("fan"))
    for _, r in watches:
        assert json.loads(r.readline())["object"]["metadata"]["name"] == "fan"
    for c, _ in watches:
        c.close()
    api.delete(f"{CMS}/fan")
    still_fine(api)


def test_one_noisy_client_is_limited(binary, tmp_path):
    """In one piece on one connection, so that all of them are there before the first one is over."""
    server = Control(binary, tmp_path / "noisy", "--max-inflight", "2")
    future = f"{CMS}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan"
    client = H2(server)
    for stream in range(1, 13, 2):
        client.get(stream, future, ("impersonate-user", "noisy"), ("impersonate-group", "system:masters"))
    # Another user is not affected.
    client.get(13, "/api/v1/namespaces/default", ("impersonate-user", "x"), ("impersonate-group", "system:masters"))
    client.flush()
    client.read(7)
    client.s.close()
    assert client.heads.pop(13)[":status"] == "200"
    codes = [h[":status"] for h in client.heads.values()]
    assert codes.count("504") == 2 and codes.count("429") == 4, codes
    limited = next(i for i, h in client.heads.items() if h[":status"] == "429")
    assert client.heads[limited]["retry-after"] == "1"
    assert json.loads(client.bodies[limited])["reason"] == "TooManyRequests"
    server.close()


def test_restart_keeps_everything(binary, tmp_path):
    server = Control(binary, tmp_path / "restart")
    made = {}
    for i in range(20):
        o = server.post(CMS, config_map(f"c{i}", {"n": str(i)})).json
        made[o["metadata"]["name"]] = o
    rv = int(server.get(CMS).json["metadata"]["resourceVersion"])
    server.restart(kill=False)
    listed = {o["metadata"]["name"]: o for o in server.get(CMS).json["items"]}
    for n, o in made.items():
        assert listed[n]["metadata"]["uid"] == o["metadata"]["uid"]
        assert listed[n]["metadata"]["resourceVersion"] == o["metadata"]["resourceVersion"]
    # A watch goes on where it stopped.
    watch = server.watch(f"{CMS}?watch=1&timeoutSeconds=600&resourceVersion={rv}")
    fresh = server.post(CMS, config_map("after")).json
    assert int(fresh["metadata"]["resourceVersion"]) > rv
    names = []
    while "after" not in names:
        names.append(next(watch)["object"]["metadata"]["name"])
    watch.close()
    server.close()


def test_kill_loses_no_acknowledged_write(binary, tmp_path):
    """kill -9 at random moments under load; test_control_durability does it fifty times and while it starts."""
    server = Control(binary, tmp_path / "kill")
    acknowledged, highest = {}, 0
    rounds = 5 if SANITIZED else 12
    for n in range(rounds):
        numbers, before = itertools.count(), len(acknowledged)

        def load(_, n=n, numbers=numbers):
            name = f"r{n}-{next(numbers)}"
            try:
                a = server.post(CMS, config_map(name, {"v": name}))
            except (OSError, http.client.HTTPException):
                return
            if a.status == 201:
                acknowledged[name] = int(a.json["metadata"]["resourceVersion"])
        with working(3, load):
            until(lambda b=before: len(acknowledged) > b + 1, 20, "writes")
            time.sleep(0.02 + (n * 37 % 100) / 1000)
            server.kill()
        server.restart(kill=True)
        items = {o["metadata"]["name"]: o for o in server.get(CMS).json["items"]}
        for name, rv in acknowledged.items():
            assert name in items, f"{name} was acknowledged and is gone (round {n})"
            assert int(items[name]["metadata"]["resourceVersion"]) == rv
            assert items[name]["data"] == {"v": name}
        now = int(server.get(CMS).json["metadata"]["resourceVersion"])
        assert now >= highest and now >= max(acknowledged.values(), default=0)
        highest = now
    assert len(acknowledged) == len(set(acknowledged.values()))
    assert len(acknowledged) > rounds
    server.close()


def test_audit_log(binary, tmp_path):
    server = Control(binary, tmp_path / "audit", "--audit-log", str(tmp_path / "audit.log"))
    server.post(CMS, config_map("a"))

    def lines():
        return [json.loads(x) for x in (tmp_path / "audit.log").read_text().splitlines() if CMS in x]
    until(lines, 5)
    assert lines()[0]["verb"] == "create" and lines()[0]["code"] == 201 and lines()[0]["user"] == "kubernetes-admin"
    server.close()


def test_full_disk(binary, tmp_path):
    """Clear errors while the disk is full, reads go on, writes too as soon as there is room."""
    import subprocess
    top = tmp_path / "small"
    top.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(top)], capture_output=True,
                             check=False)
    if mounted.returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        server = Control(binary, top / "s")
        made, refused = [], None
        for i in range(200):
            answer = server.post(CMS, config_map(f"c{i}", {"a": "x" * 100000}))
            if answer.status != 201:
                refused = answer
                break
            made.append(f"c{i}")
        assert refused is not None, "the disk never got full"
        assert refused.status >= 500 and refused.json["kind"] == "Status" and refused.message
        names = [o["metadata"]["name"] for o in server.get(CMS).json["items"]]
        assert set(made) <= set(names)
        assert f"c{len(made)}" not in names
        subprocess.run(["mount", "-o", "remount,size=64m", "tmpfs", str(top)], check=True)
        until(lambda: server.post(CMS, config_map("after")).status in (201, 409), 10, "writes to work again")
        assert server.get(f"{CMS}/after").status == 200
        server.restart()
        assert set(made) <= {o["metadata"]["name"] for o in server.get(CMS).json["items"]}
        server.close()
    finally:
        subprocess.run(["umount", "-l", str(top)], check=False, capture_output=True)


def test_stop_under_load(binary, tmp_path):
    """SIGTERM while writes, reads and watches are under way: a clean end, nothing acknowledged is lost."""
    server = Control(binary, tmp_path / "stop")
    acknowledged, numbers = set(), itertools.count()

    def load(_):
        name = f"w{next(numbers)}"
        try:
            if server.post(CMS, config_map(name)).status == 201:
                acknowledged.add(name)
            server.get(CMS)
        except (OSError, http.client.HTTPException):
            pass
    watches = [server.watch(f"{CMS}?watch=1&timeoutSeconds=600") for _ in range(5)]
    with working(6, load):
        until(lambda: len(acknowledged) > 50, 20, "the load")
        status = server.stop()
    for w in watches:
        w.close()
    assert status == 0, server.log()[-3000:]
    server.restart(kill=False)
    names = {o["metadata"]["name"] for o in server.get(CMS).json["items"]}
    assert acknowledged and acknowledged <= names
    server.close()


def test_changes_of_large_objects_are_bounded_by_bytes(binary, tmp_path):
    """What is kept of the past: 10,000 changes are nothing when they are small, and gigabytes when they are not."""
    api = Control(binary, tmp_path, "--keep-for", "1s")
    try:
        size = 200 << 10
        assert post(api, config_map("large", {"a": "0"})).status == 201
        for i in range(150):  # 30 MB
            assert api.put(f"{CMS}/large", config_map("large", {"a": f"{i:0{size}}"})).status == 200

        def kept():
            post(api, config_map("tick", {}))
            api.delete(f"{CMS}/tick")
            told = api.get("/metrics").body.decode()
            return int(re.search(r"^spanwire_store_change_bytes (\d+)", told, re.M)[1]) < 5 << 20
        until(kept, what="all but 4 MiB of the changes to be forgotten")
    finally:
        api.close()
