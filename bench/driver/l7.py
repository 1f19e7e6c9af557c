# SPDX-License-Identifier: Apache-2.0
"""The `l7` suite: the gateway and its peers as reverse proxies before one and the same origin."""
import json
import math
import os
import re
import socket
import ssl
import statistics
import subprocess
import time

from . import measure as m
from . import procs
from .candidates import Candidate, Peer, SERVER, find_program, tail
from .procs import LoadError

HTTP = 9003             # the origin's port
HOST = "bench.local"
SIZES = {"0": 0, "1k": 1024, "100k": 100_000}
H1_CONNS, H2_CONNS, H2_STREAMS = 32, 8, 16
RATE = 2000
SLICES = 10             # of a round, where latencies are compared
IDLE = 500
ROUTES = 5000
PARTS = ("h1", "h1tls", "h2tls", "newtls", "latency", "routes", "memory")
PEERS = {"nginx": ("nginx", "nginx-l7.conf"), "haproxy": ("haproxy", "haproxy-l7.cfg"),
         "h2o": ("h2o", "h2o-l7.yaml"), "caddy": ("caddy", "caddy-l7.caddyfile"),
         "envoy": ("envoy", "envoy-l7.yaml")}
TYPE = "type.googleapis.com/envoy."
OPENSSL_CONF = """openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = default
[default]
MinProtocol = TLSv1.2
CipherString = ECDHE-ECDSA-AES128-GCM-SHA256
Ciphersuites = TLS_AES_128_GCM_SHA256
Groups = X25519
"""


def find_envoy(ctx):
    """No package has it: where ENVOY_BIN says, or where `make interop` put it. None: nowhere."""
    beside = os.path.join(ctx.here, "..", "build", "interop", "envoy", "envoy")
    for path in (os.environ.get("ENVOY_BIN"), beside):
        if path and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return find_program("envoy")


class Origin(Candidate):
    """No proxy at all."""

    name, peer = "raw", False

    def port(self, tls):
        return None if tls else (SERVER, HTTP)

    def rules(self):
        return []


class Proxy(Peer):
    """A peer: the first port of its block is plain, the second TLS."""

    def __init__(self, ctx, index, name):
        program, file = PEERS[name]
        super().__init__(ctx, index, name, program, [file])

    def available(self):
        if self.program == "envoy":
            return None if find_envoy(self.ctx) else "neither in ENVOY_BIN nor in build/interop"
        return super().available()

    def port(self, tls):
        return "127.0.0.1", self.base + (1 if tls else 0)

    def rules(self):
        return []

    def _values(self):
        return {**super()._values(), "HTTP": HTTP}

    def command(self, file):
        argv = super().command(file)
        path = os.path.join(self.ctx.dir, f"{self.name}-{file}")
        if self.program == "h2o":
            return [argv[0], "-m", "worker", "-c", path]
        if self.program == "envoy":
            return [find_envoy(self.ctx), "-c", path, "--concurrency", "1", "--disable-hot-restart",
                    "--log-level", "off"]
        if self.program == "caddy":
            return ["env", "GOMAXPROCS=1", f"HOME={self.ctx.dir}", argv[0], "run", "--adapter",
                    "caddyfile", "--config", path]
        return argv


def resources(ctx, plain, tls, routes):
    def listener(name, port, **extra):
        hosts = [{"name": f"h{i}", "domains": [f"h{i}.{HOST}" if i else HOST],
                  "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}]}
                 for i in range(routes)]
        hcm = {"@type": TYPE + "extensions.filters.network.http_connection_manager.v3."
                               "HttpConnectionManager", "stat_prefix": name,
               "generate_request_id": False,  # the peers make none either
               "route_config": {"name": name, "virtual_hosts": hosts,
                                "ignore_port_in_host_matching": True},
               "http2_protocol_options": {"max_concurrent_streams": 128},
               "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                   "@type": TYPE + "extensions.filters.http.router.v3.Router"}}]}
        return {"@type": TYPE + "config.listener.v3.Listener", "name": name,
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                "filter_chains": [{"filters": [{"name": "hcm", "typed_config": hcm}], **extra}]}

    secure = {"transport_socket": {"name": "tls", "typed_config": {
        "@type": TYPE + "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "disable_stateless_session_resumption": True,  # no tickets, as for the peers
        "common_tls_context": {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [
            {"certificate_chain": {"filename": ctx.tls_dir() + "/bench.crt"},
             "private_key": {"filename": ctx.tls_dir() + "/bench.key"}}]}}}}
    return [listener("plain", plain), listener("tls", tls, **secure),
            {"@type": TYPE + "config.cluster.v3.Cluster", "name": "origin", "type": "STATIC",
             "connect_timeout": "5s", "load_assignment": {
                 "cluster_name": "origin", "endpoints": [{"lb_endpoints": [{"endpoint": {
                     "address": {"socket_address": {"address": SERVER, "port_value": HTTP}}}}]}]}}]


class Gateway(Candidate):
    """spanwire gateway with its resources in a file."""

    peer = False

    def __init__(self, ctx, index, name="spanwire", routes=1):
        super().__init__(ctx, index)
        self.name, self.routes = name, routes

    def available(self):
        return None if os.access(self.ctx.binary, os.X_OK) else "not built"

    def port(self, tls):
        return "127.0.0.1", self.base + (1 if tls else 0)

    def rules(self):
        return []

    def start(self):
        where = os.path.join(self.ctx.dir, self.name + "-xds")
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, "all.json"), "w", encoding="ascii") as f:
            json.dump({"resources": resources(self.ctx, self.base, self.base + 1, self.routes)}, f)
        argv = [self.ctx.binary, "gateway", "--xds-dir", where, "--workers", "1", "--admin-addr",
                "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"]
        log = os.path.join(self.ctx.dir, self.name + ".log")
        self.sides = [procs.spawn(self.ctx.box.pin(argv, self.cpus), log)]
        try:
            procs.wait_accepting(self.sides[0], "127.0.0.1", self.base + 1)
        except LoadError as e:
            raise LoadError(f"{e}; it said: {tail(log)}") from None


# ---- one measurement ----

def micros(text):
    number, unit = re.match(r"([\d.]+)(\w+)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def run_tool(ctx, argv, secs):
    env = {**os.environ, "OPENSSL_CONF": os.path.join(ctx.dir, "openssl.cnf")}
    try:
        done = subprocess.run(ctx.box.pin(argv), capture_output=True, text=True, env=env,
                              timeout=secs * 4 + 20)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{argv[0]} passed its deadline") from None
    if done.returncode != 0:
        raise LoadError(f"{argv[0]}: {(done.stderr or done.stdout).strip()[-200:]}")
    return done.stdout


def timed(cand, run):
    before = procs.cpu_seconds(cand.pids())
    r = run()
    r["cpu_s"] = procs.cpu_seconds(cand.pids()) - before
    if r["cpu_s"] and r.get("n"):
        r["cpu_us_per_conn"] = round(r["cpu_s"] * 1e6 / r["n"], 2)
    return r


def seconds(ctx):
    """The tools measure whole seconds: a round is that many slices of one."""
    return max(1, math.ceil(ctx.secs))


def wrk(ctx, cand, size, tls, conns):
    host, port = cand.port(tls)
    secs = 1
    url = f"{'https' if tls else 'http'}://{host}:{port}/{size}"

    def run():
        text = run_tool(ctx, ["wrk", "-t1", f"-c{conns}", f"-d{secs}", "--latency", "-H",
                              f"Host: {getattr(cand, 'host', HOST)}", url], secs)
        bad = re.search(r"Non-2xx.*|Socket errors.*", text)
        if bad or " 0 requests in" in text:
            raise LoadError(f"wrk: {bad[0] if bad else 'no answer at all'}")
        pct = {p: micros(re.search(rf"^\s+{p}%\s+(\S+)", text, re.M)[1]) for p in (50, 99)}
        return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
                "n": int(re.search(r"(\d+) requests in", text)[1]),
                "p50_us": pct[50], "p99_us": pct[99]}
    return timed(cand, run)


def h2load(ctx, cand, size, conns, streams, log=None):
    host, port = cand.port(True)
    secs = 1
    argv = ["h2load", "-t1", f"-c{conns}", f"-m{streams}", f"-D{secs}", "--npn-list=h2",
            f"--connect-to={host}:{port}"]
    if log:
        argv.append(f"--log-file={log}")

    def run():
        text = run_tool(ctx, [*argv, f"https://{HOST}:{port}/{size}"], secs)
        counts = dict((k, int(n)) for n, k in re.findall(r"(\d+) (2xx|3xx|4xx|5xx)", text))
        failed = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", text)
        if "protocol: h2" not in text.lower() or not counts.get("2xx") or \
                counts["2xx"] != sum(counts.values()) or any(int(g) for g in failed.groups()):
            raise LoadError(f"h2load: {counts}, {failed and failed[0]}")
        return {"rate": float(re.search(r"finished in .*?, ([\d.]+) req/s", text)[1]),
                "n": counts["2xx"]}
    return timed(cand, run)


def new_tls(ctx, cand):
    """Handshakes only, one connection after the other, none resumed."""
    host, port = cand.port(True)
    secs = 1

    def run():
        text = run_tool(ctx, ["openssl", "s_time", "-new", "-tls1_3", "-time", str(secs),
                              "-connect", f"{host}:{port}"], secs)
        done = re.search(r"(\d+) connections in \d+ real seconds", text)
        if not done or int(done[1]) == 0:
            raise LoadError("openssl s_time: no connection at all")
        return {"n": int(done[1])}
    return timed(cand, run)


def h2_latency(ctx, cand, size):
    """One connection, one request at a time; the times are those of h2load's own log."""
    log = os.path.join(ctx.dir, "h2load.log")
    if os.path.exists(log):
        os.unlink(log)
    r = h2load(ctx, cand, size, 1, 1, log)
    with open(log, encoding="ascii") as f:
        times = sorted(int(line.split("\t")[2]) for line in f)
    return {**r, "p50_us": statistics.median(times), "p99_us": times[len(times) * 99 // 100]}


def http(ctx, cand, size, rate=0):
    """A slice of a round."""
    host, port = cand.port(False)
    secs = ctx.secs / SLICES
    argv = [ctx.load, "http", "--to", f"{host}:{port}", "--get", f"/{size}", "--host", HOST,
            "--secs", str(secs)]
    if rate:
        argv += ["--rate", str(rate)]
    return timed(cand, lambda: procs.run_load(ctx.box.pin(argv), secs * 4 + 20))


# ---- idle connections ----

H2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def h2_get():
    block = b"\x82\x87\x04\x02/0\x41" + bytes([len(HOST)]) + HOST.encode()
    return len(block).to_bytes(3, "big") + b"\1\5\0\0\0\1" + block


def read_exactly(s, n):
    out = b""
    while len(out) < n:
        piece = s.recv(n - len(out))
        if not piece:
            raise LoadError("an idle connection was closed")
        out += piece
    return out


def idle_one(cand, kind):
    """A connection that has had one answer and keeps still."""
    tls = kind != "plain"
    s = socket.create_connection(cand.port(tls), timeout=5)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2" if kind == "h2" else "http/1.1"])
        s = context.wrap_socket(s, server_hostname=HOST)
    if kind != "h2":
        s.sendall(f"GET /0 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += read_exactly(s, 1)
        return s
    s.sendall(H2_HELLO + h2_get())
    while True:
        head = read_exactly(s, 9)
        read_exactly(s, int.from_bytes(head[:3], "big"))
        if head[3] == 4 and not head[4] & 1:
            s.sendall(b"\0\0\0\4\1\0\0\0\0")
        if int.from_bytes(head[5:], "big") == 1 and head[4] & 1:
            return s


def idle_kb(cand, kind):
    held = [idle_one(cand, kind) for _ in range(50)]
    for s in held:
        s.close()
    time.sleep(0.5)
    before = procs.memory_kb(cand.pids())[1]
    held = [idle_one(cand, kind) for _ in range(IDLE)]
    time.sleep(1.0)
    after = procs.memory_kb(cand.pids())[1]
    for s in held:
        s.close()
    return round((after - before) / IDLE, 3)


# ---- the suite ----

def ratio(ctx, name, field, what, key, higher, peers):
    data = field.out[what]["rounds"]
    ours = m.series(data, "spanwire", key)
    cols = {n: m.series(data, n, key) for n in peers if n in data}
    cols = {n: c for n, c in cols.items() if any(v is not None for v in c)}
    if not cols or not any(v is not None for v in ours):
        return
    against = m.best(list(cols.values()), higher)
    ctx.result["ratios"][name] = {
        "rounds": m.apply(lambda a, b: a / b, ours, against), "void": field.out[what]["void"],
        "per_peer": {n: m.apply(lambda a, b: a / b, ours, c) for n, c in cols.items()}}


def added_ratio(ctx, name, field, what, key, peers):
    data = field.out[what]["rounds"]
    raw = m.series(data, "raw", key)

    def added(n):
        return m.apply(lambda a, b: a - b, m.series(data, n, key), raw)

    cols = {n: added(n) for n in peers if n in data}
    if cols and "spanwire" in data:
        ctx.result["ratios"][name] = {
            "rounds": m.apply(lambda a, b: a / b, added("spanwire"),
                              m.best(list(cols.values()), False)),
            "void": field.out[what]["void"],
            "per_peer": {n: m.apply(lambda a, b: a / b, added("spanwire"), c)
                         for n, c in cols.items()}}


def throughput(ctx, field, parts):
    proxies = [n for n in field.names() if n != "raw" and not n.startswith("spanwire-")]
    for label, size in SIZES.items():
        if "h1" in parts:
            field.measure(f"h1 {label}", "rate", lambda c, s=size: wrk(ctx, c, s, False, H1_CONNS),
                          ["raw", *proxies], seconds(ctx))
            ratio(ctx, f"l7.h1_{label}", field, f"h1 {label}", "rate", True, PEERS)
        if "h1tls" in parts:
            field.measure(f"h1tls {label}", "rate",
                          lambda c, s=size: wrk(ctx, c, s, True, H1_CONNS), proxies,
                          seconds(ctx))
            ratio(ctx, f"l7.h1tls_{label}", field, f"h1tls {label}", "rate", True, PEERS)
        if "h2tls" in parts:
            field.measure(f"h2tls {label}", "rate",
                          lambda c, s=size: h2load(ctx, c, s, H2_CONNS, H2_STREAMS), proxies,
                          seconds(ctx))
            ratio(ctx, f"l7.h2tls_{label}", field, f"h2tls {label}", "rate", True, PEERS)
    if "h1" in parts:
        ratio(ctx, "l7.h1", field, "h1 1k", "rate", True, ["nginx"])
        ratio(ctx, "l7.h1_cpu", field, "h1 1k", "cpu_us_per_conn", False, ["nginx"])
    if "h2tls" in parts:
        ratio(ctx, "l7.h2tls", field, "h2tls 1k", "rate", True, ["haproxy"])
        ratio(ctx, "l7.h2tls_cpu", field, "h2tls 1k", "cpu_us_per_conn", False, ["haproxy"])


def new_connections(ctx, field):
    proxies = [n for n in field.names() if n != "raw" and not n.startswith("spanwire-")]
    field.measure("new TLS connections", "cpu_us_per_conn", lambda c: new_tls(ctx, c), proxies,
                  seconds(ctx))
    ratio(ctx, "l7.newtls_cpu", field, "new TLS connections", "cpu_us_per_conn", False, ["nginx"])


def latency(ctx, field):
    proxies = [n for n in field.names() if n != "raw" and not n.startswith("spanwire-")]
    size = SIZES["1k"]
    field.measure("1 connection", "p50_us", lambda c: http(ctx, c, size), ["raw", *proxies],
                  SLICES)
    added_ratio(ctx, "l7.added1_p50", field, "1 connection", "p50_us", PEERS)
    field.measure(f"{RATE} req/s", "p50_us", lambda c: http(ctx, c, size, RATE),
                  ["raw", *proxies], SLICES)
    added_ratio(ctx, "l7.added_p50", field, f"{RATE} req/s", "p50_us", ["nginx"])
    added_ratio(ctx, "l7.added_p99", field, f"{RATE} req/s", "p99_us", PEERS)
    field.measure("h1tls, 1 connection", "p50_us", lambda c: wrk(ctx, c, size, True, 1), proxies,
                  seconds(ctx))
    field.measure("h2tls, 1 stream", "p50_us", lambda c: h2_latency(ctx, c, size), proxies,
                  seconds(ctx))


def routes(ctx, field):
    name = f"spanwire-{ROUTES}"
    field.pick(name)[0].host = f"h{ROUTES - 1}.{HOST}"
    data = field.measure("routes", "rate", lambda c: wrk(ctx, c, SIZES["1k"], False, H1_CONNS),
                         ["raw", "spanwire", name], seconds(ctx))
    one, many = (m.series(data, n, "rate") for n in ("spanwire", name))
    ctx.result["ratios"]["l7.routes5000"] = {
        "rounds": m.apply(lambda a, b: a / b, many, one), "void": field.out["routes"]["void"],
        "per_peer": {}}
    rss = procs.memory_kb(field.pick(name)[0].pids())[0] / 1024
    ctx.result["absolutes"]["l7.routes5000_mb"] = [round(rss, 2)]


def memory(ctx, field):
    table = field.out["memory"] = {}
    for c in field.cands:
        if c.name == "raw" or c.name.startswith("spanwire-"):
            continue
        row = {"rss_mb": round(procs.memory_kb(c.pids())[0] / 1024, 2)}
        for kind in ("plain", "tls", "h2"):
            try:
                # A fresh process: memory a load or another kind left behind would be reused.
                c.stop()
                c.start()
                row[kind] = idle_kb(c, kind)
            except (OSError, LoadError) as e:
                ctx.note(f"l7 memory: {c.name} {kind}: {e}")
        table[c.name] = row
    for kind in ("plain", "tls", "h2"):
        ours = table.get("spanwire", {}).get(kind)
        theirs = {n: r[kind] for n, r in table.items() if n != "spanwire" and kind in r}
        if ours is not None and theirs:
            ctx.result["ratios"][f"l7.mem_{kind}"] = {
                "rounds": [ours / max(0.001, min(theirs.values()))], "void": [],
                "per_peer": {n: [ours / max(0.001, v)] for n, v in theirs.items()}}


def run_l7(ctx, make_field):
    """make_field: suites.Field, given here so that the two files do not import each other."""
    parts = ctx.l7.split(",") if ctx.l7 else PARTS
    field = make_field(ctx, "l7")
    for tool in ("wrk", "h2load"):
        if not find_program(tool):
            field.out["absent"]["all"] = f"{tool} is not installed"
            return
    with open(os.path.join(ctx.dir, "openssl.cnf"), "w", encoding="ascii") as f:
        f.write(OPENSSL_CONF)
    origin = procs.spawn(ctx.box.pin([ctx.load, "serve", "--http", f"{SERVER}:{HTTP}"]), None)
    procs.wait_accepting(origin, SERVER, HTTP)
    field.add(Origin)
    for name, (program, _) in PEERS.items():
        if ctx.wants(name, program):
            field.add(Proxy, name)
    field.add(Gateway)
    if "routes" in parts:
        field.add(Gateway, f"spanwire-{ROUTES}", ROUTES)
    try:
        with field:
            throughput(ctx, field, parts)
            if "newtls" in parts:
                new_connections(ctx, field)
            if "latency" in parts:
                latency(ctx, field)
            if "routes" in parts:
                routes(ctx, field)
            if "memory" in parts:
                memory(ctx, field)
    finally:
        procs.stop(origin)
