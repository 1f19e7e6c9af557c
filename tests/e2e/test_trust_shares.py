# SPDX-License-Identifier: Apache-2.0
"""
What one client holds of the API is counted against itself: watches, connections, answers it does not read, objects
it stores. The others go on as if it were not there.
"""
import json
import resource
import signal
import socket
import threading

import pytest
from harness.control import Control, config_map
from harness.ports import free_port
from harness.tenant import Tenant, metric
from harness.wait import GUARD, SANITIZED, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
BIG, OBJECTS = 100_000, 40


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    """Enough for 4,096 connections of our own."""
    was = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(was[0], 16384), was[1]), was[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, was)


def fill(api):
    for i in range(OBJECTS):
        assert api.post(CMS, config_map(f"o{i}", {"a": "x" * BIG})).status == 201


def whole_list(api):
    answer = api.get(CMS)
    assert answer.status == 200, answer
    assert sum(o["metadata"]["name"].startswith("o") for o in answer.json["items"]) == OBJECTS


def test_unread_watches_of_one_user_starve_nobody(start_api):
    """12,000 watches without a window: all of the server's output memory was theirs, and every list a 503."""
    api = start_api("--unread-timeout", "10m")  # a busy machine lists for longer than the default
    fill(api)
    mallory = Tenant(api, "mallory", role="view")
    held = [mallory.unread(CMS + "?watch=1", 250) for _ in range(48 if not SANITIZED else 8)]
    try:
        until(lambda: metric(api, "spanwire_api_unread_bytes") > 100 << 20, GUARD, "the tenant to fill its share")
        for _ in range(3):
            whole_list(api)
        assert metric(api, "spanwire_api_unread_bytes") < 256 << 20

        def refused():  # its share is more than the bytes waited for
            answer = mallory.request("GET", CMS)
            return answer if answer.status == 429 else None
        answer = until(refused, GUARD, "a list of the tenant to be refused")
        assert "not read" in answer.message, answer
        assert answer.headers["Retry-After"] == "1"
    finally:
        for s in held:
            s.close()
    until(lambda: mallory.request("GET", CMS).status == 200, GUARD, "the tenant to be served again")


def test_watches_of_one_user_are_limited(start_api):
    api = start_api("--max-watches", "3")
    mallory = Tenant(api, "mallory", role="view")
    held = mallory.unread(CMS + "?watch=1&resourceVersion=1", 3)
    try:
        def refused():
            answer = mallory.request("GET", CMS + "?watch=1&timeoutSeconds=1")
            return answer if answer.status == 429 else None
        answer = until(refused, GUARD, "the fourth watch to be refused")
        assert "too many watches" in answer.message and answer.headers["Retry-After"] == "1", answer
        assert mallory.request("GET", CMS).status == 200
        watch = api.watch(CMS + "?watch=1&timeoutSeconds=1")
        assert watch.status == 200
        watch.close()
    finally:
        held.close()
    until(lambda: mallory.request("GET", CMS + "?watch=1&timeoutSeconds=1").status == 200, GUARD, "room for a watch")


def test_a_client_that_does_not_read_is_cut(start_api):
    """HTTP/2: the stream is reset, and its bytes are free again. HTTP/1.1: the connection ends."""
    api = start_api("--unread-timeout", "1s")
    fill(api)
    mallory = Tenant(api, "mallory", role="view")
    h2 = mallory.unread(CMS, 5)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", api.port))
    h1 = mallory.context.wrap_socket(raw, server_hostname="127.0.0.1")
    request = f"GET {CMS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {mallory.token}\r\n\r\n".encode()
    h1.sendall(request * 4)  # more than the buffers of both kernels hold
    try:
        until(lambda: metric(api, 'spanwire_api_cut_total{reason="not_read"}') >= 6, GUARD, "unread answers to be cut")
        until(lambda: metric(api, "spanwire_api_unread_bytes") < 1 << 20, GUARD, "their bytes to be free")
        until(lambda: "bytes not read for 1 s" in api.log(), GUARD, "a line about it")
        whole_list(api)
    finally:
        h2.close()
        h1.close()


def idle(api, n, source="127.0.0.1"):
    out = []
    for _ in range(n):
        out.append(socket.create_connection(("127.0.0.1", api.port), timeout=GUARD, source_address=(source, 0)))
    return out


def test_idle_connections_lock_nobody_out(start_api):
    """4,096 connections that say nothing: each new one takes the place of one of them."""
    api = start_api()
    held = idle(api, 4200, "127.0.0.2")
    try:
        for _ in range(5):
            assert api.get("/readyz").status == 200
        assert metric(api, 'spanwire_api_cut_total{reason="idle_evicted"}') >= 4200 - 4096
        until(lambda: "too many connections, closing idle ones" in api.log(), GUARD, "a line about it")
    finally:
        for s in held:
            s.close()


def test_unauthenticated_connections_go_first(start_api):
    """A connection kept alive by somebody known outlives a flood of strangers."""
    api = start_api("--max-connections", "32")
    mine = api.connection()
    mine.request("GET", "/api/v1/namespaces/default")
    assert mine.getresponse().read()
    port = mine.sock.getsockname()[1]
    held = idle(api, 200)
    try:
        until(lambda: metric(api, 'spanwire_api_cut_total{reason="idle_evicted"}') >= 150, GUARD, "strangers to go")
        mine.request("GET", "/api/v1/namespaces/default")
        assert mine.getresponse().read() and mine.sock.getsockname()[1] == port
    finally:
        mine.close()
        for s in held:
            s.close()


def test_one_user_cannot_hold_every_connection(start_api):
    """Watches on all connections are no idle ones; beyond a quarter of all they make room nevertheless."""
    api = start_api("--max-connections", "32")
    mallory = Tenant(api, "mallory", role="view")
    held = [mallory.unread(CMS + "?watch=1&resourceVersion=1", 1) for _ in range(40)]
    try:
        for _ in range(5):
            assert api.get("/readyz").status == 200
    finally:
        for s in held:
            s.close()


def test_accounts_of_a_namespace_hold_connections_together(start_api):
    """Five accounts, each below a quarter of all: their watches took every connection for good."""
    api = start_api("--max-connections", "64")
    team = [Tenant(api, f"u{i}", ns="team", role="view") for i in range(5)]
    held = []
    try:
        for i in range(70):
            held.append(team[i % 5].unread("/api/v1/namespaces/team/configmaps?watch=1&resourceVersion=1", 1))
        for _ in range(8):
            assert api.get("/api/v1/namespaces/default").status == 200
    finally:
        for s in held:
            s.close()


def test_many_namespaces_do_not_hold_every_connection(start_api):
    api = start_api("--max-connections", "64")
    teams = [Tenant(api, "u", ns=f"team{i}", role="view") for i in range(8)]
    held = []
    try:
        for i in range(72):
            t = teams[i % 8]
            held.append(t.unread(f"/api/v1/namespaces/{t.ns}/configmaps?watch=1&resourceVersion=1", 1))
        for _ in range(8):
            assert api.get("/api/v1/namespaces/default").status == 200
    finally:
        for s in held:
            s.close()


def test_accounts_of_a_namespace_wait_together(start_api):
    """Lists of four accounts, each with less than a queue: refused above one, and nobody else is behind them."""
    api = start_api()
    boss = Tenant(api, "boss", ns="team", role="admin")
    path = "/api/v1/namespaces/team/configmaps"
    c = api.connection()
    for i in range(1500):
        c.request("POST", path, json.dumps(config_map(f"o{i}", {"a": "x" * 100})), {"Content-Type": "application/json"})
        assert c.getresponse().read()
    c.close()
    team = [Tenant(api, f"u{i}", ns="team", role="view") for i in range(4)]
    held = [t.unread(path + "?pretty=true", 50) for t in team]
    try:
        until(lambda: metric(api, 'spanwire_api_work_total{result="refused"}') > 0, GUARD, "the queue to be full")
        assert len(api.get(path).json["items"]) >= 1500
    finally:
        for s in held:
            s.close()
    until(lambda: boss.request("GET", path).status == 200, GUARD, "the namespace to be served again")


def test_idle_connections_do_not_lock_data_planes_out(binary, tmp_path):
    """The xDS server has room for 1,024 connections: those without a stream go first."""
    port = free_port()
    api = Control(binary, tmp_path / "xds", "--connector=false", "--xds-listen", f"127.0.0.1:{port}")
    held = []
    try:
        for _ in range(1100):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=GUARD))
        context = api.context(cert=False)
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=GUARD * SLOW),
                                 server_hostname="127.0.0.1") as s:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            assert s.recv(9)[3] == 4  # SETTINGS
        until(lambda: "closing those without a stream" in api.log(), GUARD, "a line about it")
    finally:
        for s in held:
            s.close()
        api.close()


# --- quotas -------------------------------------------------------------------------------

TEAM = "/api/v1/namespaces/team"


def quota(hard, name="limits"):
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def used(api, name="limits"):
    return api.get(f"{TEAM}/resourcequotas/{name}").json.get("status", {}).get("used")


def test_a_quota_counts_objects_of_a_kind(start_api):
    api = start_api()
    mallory = Tenant(api, "mallory", "team")
    until(lambda: api.get(f"{TEAM}/configmaps/kube-root-ca.crt").status == 200, GUARD, "the namespace to be filled")
    answer = api.post(f"{TEAM}/resourcequotas", quota({"count/configmaps": "3", "secrets": 1}))
    assert answer.status == 201, answer
    until(lambda: used(api) == {"count/configmaps": "1", "secrets": "0"}, GUARD, "the status")
    for name in ("a", "b"):
        assert mallory.request("POST", f"{TEAM}/configmaps", config_map(name)).status == 201
    answer = mallory.request("POST", f"{TEAM}/configmaps", config_map("c"))
    assert answer.status == 403 and answer.json["reason"] == "Forbidden", answer
    assert answer.message == ('configmaps "c" is forbidden: exceeded quota: limits, requested: count/configmaps=1, '
                              'used: count/configmaps=3, limited: count/configmaps=3')
    # By every way an object can come to be, and not by those that change one.
    assert mallory.request("PATCH", f"{TEAM}/configmaps/d?fieldManager=m", '{"apiVersion":"v1","kind":"ConfigMap"}',
                           {"Content-Type": "application/apply-patch+yaml"}).status == 403
    assert mallory.request("PATCH", f"{TEAM}/configmaps/a", '{"data":{"x":"y"}}',
                           {"Content-Type": "application/merge-patch+json"}).status == 200
    assert mallory.request("POST", f"{TEAM}/secrets", {"metadata": {"name": "s"}}).status == 201
    assert mallory.request("POST", f"{TEAM}/secrets", {"metadata": {"name": "t"}}).status == 403
    until(lambda: used(api) == {"count/configmaps": "3", "secrets": "1"}, GUARD, "the status")
    assert mallory.request("DELETE", f"{TEAM}/configmaps/a").status == 200
    assert mallory.request("POST", f"{TEAM}/configmaps", config_map("c")).status == 201
    # The tenant does not lift it, and it survives a restart.
    assert mallory.request("DELETE", f"{TEAM}/resourcequotas/limits").status == 403
    assert mallory.request("PATCH", f"{TEAM}/resourcequotas/limits", '{"spec":null}',
                           {"Content-Type": "application/merge-patch+json"}).status == 403
    api.restart()
    assert mallory.request("POST", f"{TEAM}/configmaps", config_map("e")).status == 403
    assert metric(api, "spanwire_api_quota_refused_total") == 1


def test_creates_at_once_do_not_pass_a_quota_together(start_api):
    api = start_api()
    mallory = Tenant(api, "mallory", "team")
    assert api.post(f"{TEAM}/resourcequotas", quota({"count/leases.coordination.k8s.io": "5"})).status == 201
    path = "/apis/coordination.k8s.io/v1/namespaces/team/leases"
    codes = []

    def create(i):
        codes.append(mallory.request("POST", path, {"metadata": {"name": f"l{i}"}}).status)
    threads = [threading.Thread(target=create, args=(i,)) for i in range(30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(codes) == [201] * 5 + [403] * 25
    assert len(api.get(path).json["items"]) == 5


def test_a_namespace_is_limited_without_a_quota(start_api):
    """Objects of all kinds and their bytes: a tenant cannot fill the disk. Who administers the whole may go on."""
    api = start_api("--max-namespace-objects", "20", "--max-namespace-mib", "1")
    mallory = Tenant(api, "mallory", "team")
    big = mallory.request("POST", f"{TEAM}/configmaps", config_map("big", {"a": "x" * 600_000}))
    assert big.status == 201, big
    answer = mallory.request("POST", f"{TEAM}/configmaps", config_map("big2", {"a": "x" * 600_000}))
    assert answer.status == 403 and "limited: bytes=1048576" in answer.message, answer
    answer = mallory.request("PATCH", f"{TEAM}/configmaps/big", '{"data":{"b":"%s"}}' % ("y" * 447_000),
                             {"Content-Type": "application/merge-patch+json"})
    assert answer.status == 403 and "limited: bytes" in answer.message, answer
    codes = [mallory.request("POST", f"{TEAM}/configmaps", config_map(f"o{i}")).status for i in range(20)]
    assert set(codes) == {201, 403} and codes == sorted(codes), codes
    assert mallory.request("DELETE", f"{TEAM}/configmaps/big").status == 200
    assert mallory.request("POST", f"{TEAM}/configmaps", config_map("again")).status == 201
    assert api.post(f"{TEAM}/configmaps", config_map("admin")).status == 201
    assert api.post(CMS, config_map("elsewhere")).status == 201
    until(lambda: "refused: exceeded quota" in api.log(), GUARD, "a line about it")


@pytest.mark.parametrize("hard,message", [
    ({"nonsense": "1"}, "must be a standard resource for quota"),
    ({"count/configmaps": "-1"}, "must be greater than or equal to 0"),
    ({"count/configmaps": "1500m"}, "must be an integer"),
    ({"a b": "1"}, "name part must consist of"),
])
def test_quotas_that_are_none(start_api, hard, message):
    api = start_api()
    answer = api.post("/api/v1/namespaces/default/resourcequotas", quota(hard))
    assert answer.status == 422 and message in answer.message, answer


def wide_role(n):
    """Small to send, some hundred microseconds to judge."""
    rule = {key: [f"{key}{i}" for i in range(n)] for key in ("apiGroups", "resources", "verbs")}
    return json.dumps({"metadata": {"name": "wide"}, "rules": [rule]})


def test_small_requests_of_one_user_wait_for_each_other(start_api, tmp_path):
    """They are all there at once, another user's is the last: it is answered before most of them."""
    api = start_api("--audit-log", str(tmp_path / "audit"))
    mallory = Tenant(api, "mallory", role="admin")
    crowd = [api.connection(mallory.context) for _ in range(60)]
    headers = {"Authorization": "Bearer " + mallory.token, "Content-Type": "application/json"}
    other = api.connection()
    for c in crowd:  # who they are is known from here on
        c.request("GET", CMS, headers=headers)
        assert c.getresponse().read()
    other.request("GET", CMS)
    assert other.getresponse().read()
    api.signal(signal.SIGSTOP)
    try:
        for c in crowd:
            c.request("POST", ROLES, wide_role(200), headers)
        other.request("GET", CMS, headers={"Audit-Id": "the-other"})
    finally:
        api.signal(signal.SIGCONT)
    for c in crowd:
        answer = c.getresponse()
        assert answer.status == 403 and b"not currently held" in answer.read()
    assert other.getresponse().status == 200
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    lines = [line["auditID"] for line in lines if line["path"] == ROLES or line["auditID"] == "the-other"]
    assert len(lines) == 61 and lines.index("the-other") < 30, lines.index("the-other")
