# SPDX-License-Identifier: Apache-2.0
"""More clients that mean no good: slow ones, lazy ones, and what can be hidden in bodies, schemas and queries."""
import contextlib
import json
import select
import socket
import threading
import time
import zlib

import h2.settings
import pytest
from harness.control import H2, Control, config_map, cpu_s
from harness.wait import GUARD, SANITIZED, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TYPES = {"create": ("POST", CMS, "application/json"), "merge": ("PATCH", f"{CMS}/x", "application/merge-patch+json"),
         "strategic": ("PATCH", f"{CMS}/x", "application/strategic-merge-patch+json"),
         "json": ("PATCH", f"{CMS}/x", "application/json-patch+json"),
         "apply": ("PATCH", f"{CMS}/x?fieldManager=m&force=true", "application/apply-patch+yaml"),
         "yaml": ("POST", CMS, "application/yaml"), "delete": ("DELETE", f"{CMS}/x", "application/json")}


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("wire"))
    yield server
    server.close()


def fine(api):
    assert api.get("/api/v1/namespaces/default").status == 200


@contextlib.contextmanager
def cheap(api, seconds=2.0):
    """What is done in the block costs the server little: while it computes, all others wait."""
    before = cpu_s(api.pid)
    yield
    used = cpu_s(api.pid) - before
    assert used < seconds * SLOW, f"{used} s of a processor"


def send(api, how, body, **headers):
    method, path, content = TYPES[how]
    return api.request(method, path, body, headers={"Content-Type": content, **headers})


@pytest.fixture
def x(api):
    assert api.post(CMS, config_map("x", {"a": "1"})).status == 201
    yield api
    api.delete(f"{CMS}/x")


DEEP = b"[" * 10000 + b"]" * 10000
DEEP_MAPS = b'{"a":' * 10000 + b"1" + b"}" * 10000
LAUGHS = "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: x}", "a0: &a0 [lol, lol, lol, lol, lol]"]
                   + [f"a{i}: &a{i} [{', '.join(['*a' + str(i - 1)] * 9)}]" for i in range(1, 12)]).encode()


@pytest.mark.parametrize("how,body", [
    ("merge", b'{"data":' + DEEP + b"}"), ("merge", DEEP_MAPS), ("strategic", DEEP_MAPS), ("json", DEEP),
    ("json", b'[{"op":"add","path":"/data/a","value":' + DEEP + b"}]"),
    ("apply", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: " + DEEP), ("apply", DEEP_MAPS),
    ("apply", LAUGHS), ("yaml", LAUGHS), ("yaml", DEEP), ("delete", DEEP_MAPS),
    ("apply", b"a: &a [*a]"), ("apply", b"--- a\n--- b\n"), ("apply", b"!!python/object:os.system {}"),
    ("merge", b'{"data":{"a":"\xc3\x28"}}'), ("strategic", b'{"data":{"\xed\xa0\x80":"1"}}'),
    ("json", b'[{"op":"add","path":"/data/a","value":"\xff"}]'),
    ("apply", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '\xff\xfe'}"),
    ("create", b'{"metadata":{"name":"y"}}trailing'), ("create", b'{"metadata":{"name":"y"},}'),
    ("create", b"\xef\xbb\xbf{}"), ("create", b'{"metadata":{"name":"y\\u0000"}}'),
    ("create", b'{"metadata":{"name":"y","generation":1e999}}'),
    ("json", b'[{"op":"copy","from":"/data","path":"/data/a"}]'), ("json", b'[{"op":"add","path":"data"}]'),
    ("json", b'[{"op":"add","path":"/metadata/finalizers/99999999999999999999","value":"x"}]'),
    ("json", b"[" + b",".join([b'{"op":"test","path":"/data/a","value":"1"}'] * 20000) + b"]"),
], ids=lambda v: v if isinstance(v, str) else v[:24].decode("latin-1"))
def test_refused_quickly_and_without_harm(x, how, body):
    with cheap(x):
        answer = send(x, how, body)
        fine(x)
    assert 400 <= answer.status < 500 and answer.json["kind"] == "Status", answer
    assert x.get(f"{CMS}/x").json["data"] == {"a": "1"}


def test_copies_cannot_multiply(x):
    """A JSON patch that doubles the object with each operation."""
    ops = [{"op": "add", "path": "/metadata/annotations", "value": {"k": "v" * 1000}}]
    ops += [{"op": "copy", "from": "/metadata", "path": f"/metadata/labels{i}"} for i in range(30)]
    before = x.rss_kb()
    with cheap(x):
        answer = send(x, "json", json.dumps(ops))
        fine(x)
    assert 400 <= answer.status < 500, answer
    assert SANITIZED or x.rss_kb() - before < 100 << 10


@pytest.mark.parametrize("how,body,field", [
    ("create", '{"metadata":{"name":"dup"},"data":{"a":"1","a":"2"}}', "data.a"),
    ("create", '{"metadata":{"name":"other","name":"dup"}}', "metadata.name"),
    ("merge", '{"data":{"a":"1","a":"2"}}', "data.a"),
], ids=["create", "name", "merge"])
def test_duplicate_keys(x, how, body, field):
    """Strict refuses; the default takes the last one and says so."""
    method, path, content = TYPES[how]
    name = "x" if how == "merge" else "dup"
    before = x.get(f"{CMS}/{name}")
    strict = x.request(method, path + "?fieldValidation=Strict", body, headers={"Content-Type": content})
    assert strict.status == (422 if how == "merge" else 400) and field in strict.message, strict
    after = x.get(f"{CMS}/{name}")
    assert (after.status, after.json.get("data")) == (before.status, before.json.get("data"))
    loose = x.request(method, path, body, headers={"Content-Type": content})
    assert loose.status == (200 if how == "merge" else 201), loose
    assert "duplicate field" in (loose.headers["Warning"] or ""), loose.headers
    assert loose.json["metadata"]["name"] == name
    if field == "data.a":
        assert loose.json["data"] == {"a": "2"}
    x.delete(f"{CMS}/dup")


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore", None])
@pytest.mark.parametrize("where,body", [
    ("line 4 column 16: duplicate key 'a'",
     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dup}\ndata: {a: '1', a: '2'}\n"),
    ("duplicate key 'name'",
     "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n  name: dup\n"),
], ids=["data", "name"])
def test_duplicate_keys_in_yaml(x, where, body, validation):
    """A mapping with a key twice is no YAML (1.2, 3.2.1.1): refused whatever validation was asked for."""
    path = CMS + (f"?fieldValidation={validation}" if validation else "")
    answer = x.request("POST", path, body, headers={"Content-Type": "application/yaml"})
    assert answer.status == 400 and answer.json["reason"] == "BadRequest", answer
    assert where in answer.message, answer
    for name in ("dup", "other"):
        assert x.get(f"{CMS}/{name}").status == 404


def test_too_large_without_saying_so(api):
    """Chunked: only counting shows that it is too much. The connection does not have to survive."""
    with api.context().wrap_socket(socket.create_connection(("127.0.0.1", api.port)),
                                   server_hostname="127.0.0.1") as s:
        s.settimeout(GUARD * SLOW)
        s.sendall(f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n".encode())
        answer, block = b"", b"10000\r\n" + b" " * 65536 + b"\r\n"
        try:
            for _ in range(100):
                s.sendall(block)
            s.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        try:
            answer = s.recv(65536)
        except OSError:
            pass
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    fine(api)


def test_promises_of_large_bodies_cost_nothing(api):
    before = api.rss_kb()
    socks = []
    for length in [3 << 20] * 40 + [1 << 40, (1 << 64) - 1]:
        s = api.context().wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1")
        s.sendall(f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{".encode())
        socks.append(s)
    fine(api)
    assert SANITIZED or api.rss_kb() - before < 60 << 10
    for s in socks[-2:]:
        s.settimeout(GUARD * SLOW)
        assert s.recv(100).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    for s in socks:
        s.close()


def test_compressed_bodies_do_not_explode(api):
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = bomb.compress(b'{"data":{"a":"' + b"x" * (64 << 20)) + bomb.flush()
    before = api.rss_kb()
    with cheap(api):
        answer = send(api, "create", body, **{"Content-Encoding": "gzip"})
        fine(api)
    assert 400 <= answer.status < 500, answer
    assert SANITIZED or api.rss_kb() - before < 40 << 10


@pytest.mark.parametrize("query", [
    "labelSelector=" + ",".join(f"k{i}%3Dv" for i in range(3000)), "labelSelector=a%20in%20(" + "x," * 5000 + "x)",
    "labelSelector=" + "!" * 5000, "fieldSelector=" + "metadata.name%3Dx," * 2000, "continue=" + "A" * 20000,
    "limit=-1", "limit=99999999999999999999", "timeoutSeconds=-5&watch=1&resourceVersion=0x1",
    "resourceVersion=-1", "resourceVersion=18446744073709551616", "&" * 20000, "a=%00&b=%c0%80",
], ids=lambda q: q[:30])
def test_queries(api, query):
    with cheap(api):
        answer = api.get(f"{CMS}?{query}")
        fine(api)
    assert answer.status in (200, 400, 410, 414, 431, 504), answer


def crd(name, schema, **version):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{name}.evil.example.com"},
            "spec": {"group": "evil.example.com", "scope": "Namespaced",
                     "names": {"plural": name, "kind": name.capitalize()},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}, **version}]}}


def test_schema_too_deep(api):
    schema = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    with cheap(api):
        answer = api.post(CRDS, crd("deeps", schema))
        fine(api)
    assert answer.status in (201, 400, 422), answer


@pytest.mark.parametrize("name,spec,value", [
    ("patterns", {"type": "string", "pattern": "^(a+)+$"}, "a" * 5000 + "!"),
    ("alternates", {"type": "string", "pattern": "^(a|a|aa)*$"}, "a" * 5000 + "!"),
    ("loops", {"type": "array", "maxItems": 2000, "items": {"type": "integer"}, "x-kubernetes-validations": [
        {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}]}, list(range(2000))),
    ("matchers", {"type": "string", "maxLength": 100000, "x-kubernetes-validations": [
        {"rule": "self.matches('^(([a-z])+.)+[A-Z]([a-z])+$')"}]}, "a" * 100000),
], ids=["patterns", "alternates", "loops", "matchers"])
def test_schemas_that_never_end(api, name, spec, value):
    """Expensive rules are refused when they come or cut off when they run."""
    schema = {"type": "object", "properties": {"spec": spec}}
    answer = api.post(CRDS, crd(name, schema))
    assert answer.status in (201, 422), answer
    if answer.status == 201:
        path = f"/apis/evil.example.com/v1/namespaces/default/{name}"
        until(lambda: api.get(path).status == 200, GUARD, "the kind")
        with cheap(api, 4):
            made = api.post(path, {"apiVersion": "evil.example.com/v1", "kind": name.capitalize(),
                                   "metadata": {"name": "o"}, "spec": value})
            fine(api)
        assert made.status == 422, made
    api.delete(f"{CRDS}/{name}.evil.example.com")
    fine(api)


# --- slow and lazy -------------------------------------------------------------------------

def closed_within(socks, seconds, each=None):
    """True when the peer has closed all of them; 'each' is called about twice a second with those left."""
    left, deadline = set(socks), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        ready, _, _ = select.select(list(left), [], [], 0.5)
        for s in ready:
            try:
                if not s.recv(4096):
                    left.discard(s)
            except OSError:
                left.discard(s)
        if each:
            for s in list(left):
                try:
                    each(s)
                except OSError:
                    left.discard(s)
    return not left


def test_slow_clients_are_closed(api):
    """Neither a handshake nor a head may take forever, however busy the client looks."""
    address = ("127.0.0.1", api.port)
    silent = [socket.create_connection(address) for _ in range(100)]
    hello = [socket.create_connection(address) for _ in range(100)]
    for s in hello:
        s.sendall(b"\x16\x03\x01\x02\x00\x01")
    heads = [api.context().wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1")
             for _ in range(30)]
    for s in heads:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    fine(api)
    trickle = {s: iter(b"X: " + b"y" * 10000) for s in heads}

    def drip(s):
        if s in trickle:
            s.send(bytes([next(trickle[s])]))
    assert closed_within([*silent, *hello, *heads], 2 * GUARD * SLOW, drip)
    fine(api)
    for s in (*silent, *hello, *heads):
        s.close()


def test_lazy_watchers_are_bounded(api):
    """Twenty that never read cost no more than their quota, and one that reads misses nothing."""
    assert api.post(CMS, config_map("big", {"n": "0"})).status == 201
    revision = api.get(CMS).json["metadata"]["resourceVersion"]
    query = f"{CMS}?watch=1&timeoutSeconds=600&resourceVersion={revision}&fieldSelector=metadata.name%3Dbig"
    changes = 40 if SANITIZED else 200
    before = api.rss_kb()
    lazy = []
    for _ in range(20):
        c = api.connection(timeout=60)
        c.request("GET", query)
        lazy.append(c)
    seen = []
    eager = api.watch(query, timeout=60)

    def read():
        for event in eager:
            seen.append(int(event["object"]["data"]["n"]))
            if seen[-1] == changes:
                return
    t = threading.Thread(target=read)
    t.start()
    for n in range(1, changes + 1):
        assert api.patch(f"{CMS}/big", {"data": {"n": str(n), "pad": "x" * 100000}}).status == 200
        until(lambda n=n: len(seen) > n - 20, GUARD, "the one that reads")  # or it would be a lazy one, too
    t.join(GUARD * SLOW)
    assert seen == list(range(1, changes + 1))
    grown = api.rss_kb() - before
    # The log of changes itself (two copies of 20 MB at most) and 4 MiB for each of them.
    assert SANITIZED or grown < 160 << 10, f"{grown} kB"
    # What a lazy one then reads has no holes.
    r = lazy[0].getresponse()
    got = []
    while line := r.readline():
        event = json.loads(line) if line.endswith(b"\n") else None
        if not event or event["type"] == "ERROR":
            break
        got.append(int(event["object"]["data"]["n"]))
        if got[-1] == changes:
            break
    assert got == list(range(1, len(got) + 1))
    for c in lazy:
        c.close()
    eager.close()
    api.delete(f"{CMS}/big")
    fine(api)


def test_streams_reset_at_once(api):
    """Requests that are taken back before they are answered: not an endless supply of work."""
    client = H2(api)
    try:
        for stream in range(1, 20001, 2):
            client.get(stream, CMS)
            client.c.reset_stream(stream)
            if stream % 50 == 1:
                client.flush()
        cut = False
    except OSError:
        cut = True
    try:
        while not cut:
            data = client.s.recv(65536)
            cut = not data or any(type(e).__name__ == "ConnectionTerminated" for e in client.c.receive_data(data))
    except TimeoutError:
        pass
    except OSError:
        cut = True
    client.s.close()
    assert cut, "10,000 requests taken back and still welcome"
    fine(api)


def test_streams_without_a_window(api):
    """Large answers asked for by a client that never opens its window."""
    for i in range(10):
        assert api.post(CMS, config_map(f"pad-{i}", {"a": "x" * 500000})).status == 201
    before = api.rss_kb()
    clients = [H2(api) for _ in range(4)]
    for client in clients:
        client.c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for stream in range(1, 2 * (5 if SANITIZED else 20), 2):
            client.get(stream, CMS)
        client.flush()
    for client in clients:
        client.read(heads=5 if SANITIZED else 20)
    fine(api)
    grown = api.rss_kb() - before
    for client in clients:
        client.s.close()
    assert SANITIZED or grown < 600 << 10, f"{grown} kB for 80 answers of 5 MB"
    for i in range(10):
        api.delete(f"{CMS}/pad-{i}")
    fine(api)
