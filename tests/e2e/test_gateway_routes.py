# SPDX-License-Identifier: Apache-2.0
"""Routing through the gateway: matches, rewrites, headers, CORS, sessions, retries, mirrors, balancing."""
import collections
import http.client
import json
import subprocess
import time
import urllib.request

import pytest
from harness import gateway as gw
from harness.wait import GUARD, until, working

FILTERS = gw.TYPE + "envoy.extensions.filters.http."
ROUTER = {"name": "envoy.filters.http.router", "typed_config": {"@type": gw.ROUTER}}
CORS = {"name": "envoy.filters.http.cors", "typed_config": {"@type": FILTERS + "cors.v3.Cors"}}
SESSION = {"name": "envoy.filters.http.stateful_session", "disabled": True, "typed_config": {
    "@type": FILTERS + "stateful_session.v3.StatefulSession"}}


def header(name, value, action="APPEND_IF_EXISTS_OR_ADD"):
    return {"header": {"key": name, "value": value}, "append_action": action}


def session_route(prefix, state):
    return {"match": {"prefix": prefix}, "route": {"cluster": "pair"}, "typed_per_filter_config": {
        "envoy.filters.http.stateful_session": {
            "@type": FILTERS + "stateful_session.v3.StatefulSessionPerRoute",
            "stateful_session": {"session_state": {"name": "s", "typed_config": state}}}}}


def routes(dead):
    state = gw.TYPE + "envoy.extensions.http.stateful_session."
    return [
        {"name": "exact", "match": {"path": "/exact"},
         "direct_response": {"status": 200, "body": {"inline_string": "exact"}}},
        {"match": {"path_separated_prefix": "/rewrite"},
         "route": {"cluster": "one", "prefix_rewrite": "/new", "host_rewrite_literal": "inner.test"}},
        {"match": {"prefix": "/regex/"}, "route": {"cluster": "one", "regex_rewrite": {
            "pattern": {"regex": "^/regex/([a-z]+)/(.*)$"}, "substitution": "/\\2/\\1"}}},
        {"match": {"prefix": "/redirect"}, "redirect": {
            "scheme_redirect": "https", "host_redirect": "other.test", "port_redirect": 8443,
            "prefix_rewrite": "/moved", "response_code": "FOUND"}},
        {"match": {"prefix": "/", "headers": [
            {"name": "x-version", "string_match": {"exact": "two"}}]}, "route": {"cluster": "two"}},
        {"match": {"prefix": "/", "query_parameters": [
            {"name": "v", "string_match": {"safe_regex": {"regex": "t[a-z]+"}}}]},
         "route": {"cluster": "two"}},
        {"match": {"prefix": "/headers"}, "route": {"cluster": "one"},
         "request_headers_to_add": [
             header("x-set", "new", "OVERWRITE_IF_EXISTS_OR_ADD"), header("x-add", "added"),
             header("x-client", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
             header("x-if", "no", "OVERWRITE_IF_EXISTS"), header("x-agent", "%REQ(user-agent)%")],
         "request_headers_to_remove": ["x-remove"],
         "response_headers_to_add": [header("x-host", "%UPSTREAM_HOST%")],
         "response_headers_to_remove": ["x-origin"]},
        {"match": {"prefix": "/weighted"}, "route": {"weighted_clusters": {"clusters": [
            {"name": "one", "weight": 70}, {"name": "two", "weight": 30}]}}},
        {"match": {"prefix": "/half-invalid"}, "route": {
            "cluster_not_found_response_code": "INTERNAL_SERVER_ERROR",
            "weighted_clusters": {"clusters": [
                {"name": "one", "weight": 1}, {"name": "nowhere", "weight": 1}]}}},
        {"match": {"prefix": "/cors"}, "route": {"cluster": "one"}, "typed_per_filter_config": {
            "envoy.filters.http.cors": {
                "@type": FILTERS + "cors.v3.CorsPolicy",
                "allow_origin_string_match": [{"exact": "https://a.test"},
                                              {"safe_regex": {"regex": "https://.*\\.b\\.test"}}],
                "allow_methods": "GET, PUT", "allow_headers": "*", "expose_headers": "x-a",
                "max_age": "5", "allow_credentials": True,
                "forward_not_matching_preflights": False}}},
        session_route("/sticky-cookie", {"@type": state + "cookie.v3.CookieBasedSessionState",
                                         "cookie": {"name": "sid", "path": "/sticky-cookie"}}),
        session_route("/sticky-header", {"@type": state + "header.v3.HeaderBasedSessionState",
                                         "name": "x-session"}),
        {"match": {"prefix": "/status/503"}, "route": {"cluster": "one", "retry_policy": {
            "retry_on": "retriable-status-codes", "retriable_status_codes": [503],
            "num_retries": 2, "retry_back_off": {"base_interval": "0.005s"}}}},
        {"match": {"prefix": "/flaky"}, "route": {"cluster": "flaky", "retry_policy": {
            "retry_on": "connect-failure", "num_retries": 4,
            "retry_back_off": {"base_interval": "0.001s"},
            "retry_host_predicate": [{"name": "envoy.retry_host_predicates.previous_hosts"}]}}},
        {"match": {"prefix": "/hold"}, "route": {"cluster": "one", "timeout": "0.2s"}},
        {"match": {"prefix": "/mirror"}, "route": {"cluster": "one", "request_mirror_policies": [
            {"cluster": "two", "disable_shadow_host_suffix_append": True}]}},
        {"match": {"prefix": "/sticky-hash"}, "route": {"cluster": "ring", "hash_policy": [
            {"header": {"header_name": "x-user"}}]}},
        {"match": {"prefix": "/nohost"}, "route": {"cluster": "empty"}},
        {"match": {"prefix": "/"}, "route": {"cluster": "pair"}},
    ]


class Setup:
    def __init__(self, binary, tmp):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        self.one, self.two = gw.Origin(), gw.Origin()
        self.port, self.dead = gw.free_port(), gw.free_port()
        self.access = tmp / "access.log"
        self.gateway = gw.Gateway(binary, tmp, self.resources())

    def resources(self, table=None):
        return [
            gw.listener("main", self.port, [{"filters": [{"name": "hcm", "typed_config": {
                "@type": gw.HCM, "stat_prefix": "t", "use_remote_address": True,
                "rds": {"route_config_name": "table", "config_source": {"ads": {}}},
                "http_filters": [CORS, SESSION, ROUTER],
                "access_log": [{"name": "file", "typed_config": {
                    "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog",
                    "path": str(self.access), "log_format": {"json_format": {
                        "method": "%REQ(:METHOD)%", "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
                        "status": "%RESPONSE_CODE%", "flags": "%RESPONSE_FLAGS%",
                        "host": "%UPSTREAM_HOST%", "route": "%ROUTE_NAME%",
                        "cluster": "%UPSTREAM_CLUSTER%"}}}}]}}]}]),
            {"@type": gw.TYPE + "envoy.config.route.v3.RouteConfiguration", "name": "table",
             "ignore_port_in_host_matching": True, "virtual_hosts": [
                 {"name": "special", "domains": ["special.test", "*.special.test"], "routes": [
                     {"match": {"prefix": "/"}, "direct_response": {"status": 418}}]},
                 {"name": "empty", "domains": ["empty.test"]},
                 {"name": "all", "domains": ["*"], "routes": table or routes(self.dead)}]},
            gw.cluster("one", [self.one.port]), gw.cluster("two", [self.two.port]),
            gw.cluster("pair", [self.one.port, self.two.port]),
            gw.cluster("ring", [self.one.port, self.two.port], lb_policy="RING_HASH"),
            gw.cluster("flaky", [self.dead, self.one.port]),
            gw.cluster("empty", []),
        ]

    def get(self, path, headers=None, method="GET", body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * GUARD)
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def told(self, path, headers=None, **kw):
        status, _, data = self.get(path, headers, **kw)
        assert status == 200, (status, data)
        return json.loads(data)


@pytest.fixture(scope="module", name="g")
def _g(binary, tmp_path_factory):
    s = Setup(binary, tmp_path_factory.mktemp("routes"))
    yield s
    s.gateway.stop()
    s.one.close()
    s.two.close()


def test_hosts_and_paths_choose_the_route(g):
    assert g.get("/exact")[2] == b"exact"
    assert g.get("/exact?x=1")[2] == b"exact"
    assert g.get("/", {"Host": "special.test"})[0] == 418
    assert g.get("/", {"Host": "A.Special.Test:99"})[0] == 418
    assert g.get("/", {"Host": "empty.test"})[0] == 404


def test_headers_and_queries_choose_the_cluster(g):
    before = g.two.requests
    g.told("/echo", {"X-Version": "two"})
    g.told("/echo?v=three")
    assert g.two.requests == before + 2


def test_paths_and_hosts_are_rewritten(g):
    told = g.told("/rewrite/a?q=1")
    assert told["target"] == "/new/a?q=1"
    assert told["headers"]["host"] == "inner.test"
    assert told["headers"]["x-envoy-original-path"] == "/rewrite/a?q=1"
    assert g.told("/rewrite")["target"] == "/new"
    assert g.told("/regex/abc/x/y")["target"] == "/x/y/abc"


def test_redirects(g):
    status, headers, _ = g.get("/redirect/x?q=1")
    assert status == 302
    assert headers["location"] == "https://other.test:8443/moved/x?q=1"


def test_headers_are_changed(g):
    status, headers, data = g.get("/headers", {"X-Set": "old", "X-Add": "first", "X-Remove": "1",
                                               "User-Agent": "tester"})
    told = json.loads(data)["headers"]
    assert status == 200
    assert told["x-set"] == "new"
    assert told["x-add"] == "first, added"
    assert told["x-client"] == "127.0.0.1"
    assert told["x-agent"] == "tester"
    assert "x-remove" not in told and "x-if" not in told
    assert headers["x-host"] == f"127.0.0.1:{g.one.port}"
    assert "x-origin" not in headers


def test_weights_are_kept(g):
    one, two = g.one.requests, g.two.requests
    for _ in range(400):
        g.get("/weighted")
    one, two = g.one.requests - one, g.two.requests - two
    assert one + two == 400 and 230 < one < 330, (one, two)


def test_an_invalid_share_answers_500(g):
    seen = collections.Counter(g.get("/half-invalid")[0] for _ in range(100))
    assert set(seen) == {200, 500} and 20 < seen[500] < 80, seen


def test_no_endpoints_answer_503(g):
    assert g.get("/nohost")[0] == 503


def test_cors(g):
    ask = {"Origin": "https://a.test", "Access-Control-Request-Method": "PUT",
           "Access-Control-Request-Headers": "x-1, x-2"}
    status, h, _ = g.get("/cors", ask, method="OPTIONS")
    assert status == 200
    assert h["access-control-allow-origin"] == "https://a.test"
    assert h["access-control-allow-methods"] == "GET, PUT"
    assert h["access-control-allow-headers"] == "x-1, x-2"  # never "*" with credentials
    assert h["access-control-max-age"] == "5"
    assert h["access-control-allow-credentials"] == "true"
    status, h, _ = g.get("/cors", {**ask, "Origin": "https://evil.test"}, method="OPTIONS")
    assert status in (200, 204, 403) and "access-control-allow-origin" not in h
    status, h, _ = g.get("/cors", {"Origin": "https://x.b.test"})
    assert status == 200 and h["access-control-allow-origin"] == "https://x.b.test"
    assert h["access-control-expose-headers"] == "x-a"
    assert "access-control-allow-origin" not in g.get("/cors", {"Origin": "https://b.test"})[1]


def test_sessions_stick(g):
    _, h, _ = g.get("/sticky-cookie/echo")
    cookie = h["set-cookie"].split(";")[0]
    one, two = g.one.requests, g.two.requests
    for _ in range(10):
        _, h, _ = g.get("/sticky-cookie/echo", {"Cookie": "a=1; " + cookie})
        assert "set-cookie" not in h
    assert (g.one.requests - one, g.two.requests - two) in ((10, 0), (0, 10))
    _, h, _ = g.get("/sticky-header/echo")
    token = h["x-session"]
    one, two = g.one.requests, g.two.requests
    for _ in range(10):
        g.get("/sticky-header/echo", {"X-Session": token})
    assert (g.one.requests - one, g.two.requests - two) in ((10, 0), (0, 10))


def test_retries_count_and_return_the_last_status(g):
    before = g.one.requests
    assert g.get("/status/503")[0] == 503
    assert g.one.requests == before + 3


def test_a_dead_host_is_passed_over(g):
    for _ in range(20):
        assert g.get("/flaky/echo")[0] == 200


def test_the_request_timeout_answers_504(g):
    assert g.get("/hold")[0] == 504  # and the origin still thinks
    g.one.release.set()


def test_mirrors_get_a_copy(g):
    before = g.two.requests
    assert g.told("/mirror/x?y=1", {"X-Tag": "t"}, method="POST", body=b"b" * 100000)["body"] == 100000
    until(lambda: g.two.requests > before, 10, "the mirror")
    assert g.two.requests == before + 1
    assert g.two.heads[-1].startswith(b"POST /mirror/x?y=1 HTTP/1.1")
    assert b"x-tag: t" in g.two.heads[-1].lower()


def test_a_hash_stays_with_its_host(g):
    hosts = set()
    for user in range(20):
        one, two = g.one.requests, g.two.requests
        for _ in range(5):
            g.get("/sticky-hash", {"X-User": f"u{user}"})
        split = (g.one.requests - one, g.two.requests - two)
        assert split in ((5, 0), (0, 5))
        hosts.add(split)
    assert len(hosts) == 2


def test_round_robin_is_even(g):
    one, two = g.one.requests, g.two.requests
    for _ in range(60):
        g.get("/plain")
    one, two = g.one.requests - one, g.two.requests - two
    assert abs(one - two) <= 4, (one, two)


def test_the_access_log_tells(g):
    g.get("/rewrite/logged")
    g.get("/exact?logged")

    def lines():
        text = g.access.read_text(encoding="utf-8")
        return [json.loads(x) for x in text[:text.rfind("\n") + 1].splitlines()]

    def of(path):
        return until(lambda: [x for x in lines() if x["path"] == path], what=f"the line of {path}")
    assert of("/exact?logged") == [{"method": "GET", "path": "/exact?logged", "status": 200, "flags": None,
                                    "host": None, "route": "exact", "cluster": None}]
    logged = of("/rewrite/logged")[-1]
    assert logged["host"] == f"127.0.0.1:{g.one.port}" and logged["cluster"] == "one"
    until(lambda: {"UH", "NC", "UT"} <= {x["flags"] for x in lines()}, what="the flags of earlier requests")


def test_admin_pages(g):
    base = f"http://127.0.0.1:{g.gateway.admin_port}"
    dump = json.loads(urllib.request.urlopen(base + "/config_dump").read())
    assert {c["name"] for c in dump["clusters"]} >= {"one", "two", "pair"}
    text = urllib.request.urlopen(base + "/clusters").read().decode()
    assert f"one::127.0.0.1:{g.one.port}::health_flags::healthy" in text


def test_zz_route_changes_fail_no_request(g):
    """A thousand new tables while connections send requests."""
    errors, count = [], [0]
    connections = [http.client.HTTPConnection("127.0.0.1", g.port, timeout=2 * GUARD) for _ in range(8)]

    def ask(i):
        c = connections[i]
        try:
            c.request("GET", "/echo")
            r = c.getresponse()
            r.read()
            if r.status != 200:
                errors.append(r.status)
            count[0] += 1
        except (OSError, http.client.HTTPException) as e:
            errors.append(repr(e))
            c.close()

    with working(len(connections), ask):
        for i in range(100):
            g.gateway.apply(g.resources([{"match": {"path": f"/v{i}"}, "direct_response": {
                "status": 200, "body": {"inline_string": str(i)}}}, *routes(g.dead)]))
            time.sleep(0.03)
        until(lambda: g.get("/v99")[2] == b"99", 10, "the last table")
        until(lambda: count[0] > 100, 10, "a hundred requests")
    for c in connections:
        c.close()
    assert not errors, errors[:5]


CHECK = {"timeout": "30s", "interval": "0.1s", "unhealthy_threshold": 2, "healthy_threshold": 1}


@pytest.mark.parametrize("check", [
    {"http_health_check": {"path": "/echo"}}, {"tcp_health_check": {}}], ids=["http", "tcp"])
def test_checked_hosts_are_passed_over(binary, tmp_path, check):
    """A dead host is found by its checks, before requests find it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    alive, dead, port = gw.Origin(), gw.free_port(), gw.free_port()
    one = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(
            [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}])]}]),
        gw.cluster("c", [dead, alive.port], health_checks=[{**CHECK, **check}],
                   common_lb_config={"healthy_panic_threshold": {"value": 0}})])

    def status():
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * GUARD)
        c.request("GET", "/echo")
        code = c.getresponse().status
        c.close()
        return code

    def page():
        url = f"http://127.0.0.1:{one.admin_port}/clusters"
        return urllib.request.urlopen(url).read().decode()

    until(lambda: f"c::127.0.0.1:{dead}::health_flags::/failed_active_hc" in page(), 10, "the dead one to be found")
    assert {status() for _ in range(20)} == {200}
    alive.close()
    one.stop()


def test_outliers_are_ejected(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    alive, dead, port = gw.Origin(), gw.free_port(), gw.free_port()
    one = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(
            [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}])]}]),
        gw.cluster("c", [dead, alive.port], outlier_detection={
            "consecutive_5xx": 2, "base_ejection_time": "300s", "max_ejection_percent": 50})],
        workers=1)
    seen = []
    for _ in range(30):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * GUARD)
        c.request("GET", "/echo")
        seen.append(c.getresponse().status)
        c.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{one.admin_port}/clusters", timeout=GUARD) as answer:
        page = answer.read().decode()
    alive.close()
    one.stop()
    assert set(seen) == {200}, seen  # the others were asked instead
    assert f"c::127.0.0.1:{dead}::health_flags::/failed_outlier_check" in page
    assert f"c::127.0.0.1:{dead}::rq_total::2\n" in page
