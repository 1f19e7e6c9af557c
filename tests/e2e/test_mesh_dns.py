# SPDX-License-Identifier: Apache-2.0
"""The DNS proxy of a node, asked by kdig from inside the pods; what it does not know goes to a foreign resolver."""
import itertools
import socket
import struct

import pytest
from harness.dns import KDIG, Reply
from harness.netns import run
from harness.resolver import REFUSED, Resolver
from harness.wait import GUARD, until

pytestmark = pytest.mark.skipif(not KDIG, reason="kdig is not installed")
CLUSTER = "svc.cluster.local"


def ask(pod, name, kind="A", *args, server="127.0.0.1", port=15053):
    out = pod.run("kdig", f"@{server}", "-p", str(port), "+noidn", "+timeout=8", "+retry=1", name, kind, *args,
                  check=False)
    return Reply(out)


def records(reply, kind="A"):
    return sorted(row[4] for row in reply.answer if row[3] == kind)


def owners(reply, kind="A"):
    return {row[0].rstrip(".") for row in reply.answer if row[3] == kind}


@pytest.fixture
def dns(mesh):
    """Services of many kinds, node1 for c1 and s1, a resolver at u2."""
    w = mesh.world
    for name in ("other", "third"):
        w.workload(name, ["10.9.9.9"], namespace="elsewhere", node="far")
    w.service("web", ["10.96.0.10", "fd00:96::10"], {80: 8080}, ["s1"], ipFamilies="Dual")
    w.service("web", ["10.96.0.20"], {80: 8080}, namespace="elsewhere")
    w.service("only4", ["10.96.0.11", "fd00:96::11"], {80: 8080}, ipFamilies="IPv4")
    w.service("far", ["other-network/10.96.0.12"], {80: 8080})
    w.service("crowd", [], {80: 8080}, ["c1", "s1", "s2"])  # headless
    w.service("hidden", ["10.96.0.30"], {80: 8080}, namespace="elsewhere", visibility="Namespace")
    w.service("shop", ["240.0.0.1"], {443: 443}, hostname="shop.example.com")
    w.service("wild", ["240.0.0.2"], {443: 443}, hostname="*.wild.example.com")
    w.service("deep", ["240.0.0.3"], {443: 443}, hostname="*.deep.wild.example.com")
    w.service("noaddr", [], {443: 443}, hostname="passthrough.example.com")
    for i, ns in enumerate(("na", "nb", "nc")):
        w.service("tie", [f"240.1.0.{i + 1}"], {1: 1}, namespace=ns, hostname="tie.example.com")
        w.service("main", [f"240.2.0.{i + 1}"], {1: 1}, namespace=ns, hostname="main.example.com",
                  canonical=ns == "nc")
    mesh.resolver = mesh.keep(Resolver(mesh.u2, mesh.u2.ip4, **{
        "outside.example.net": ["198.51.100.1", "2001:db8::1"], "passthrough.example.com": ["198.51.100.2"],
        "refused.example.net": REFUSED, "silent.example.net": "SILENT", "trash.example.net": "TRASH",
        "long.example.net": "LONG", "text.example.net": ["hello"], f"hidden.elsewhere.{CLUSTER}": ["198.51.100.3"]}))
    mesh.conf = mesh.dir / "resolv.conf"
    mesh.conf.write_text(f"search ignored.example\nnameserver {mesh.u2.ip4}\n")
    mesh.dns_flags = ["--dns-resolv-conf", str(mesh.conf), "--log-level", "info,dns=debug"]
    mesh.node1 = mesh.shared("node1", *mesh.dns_flags)
    return mesh


@pytest.mark.parametrize("name", [
    f"web.default.{CLUSTER}", "web", "web.default", "web.default.svc", f"WEB.Default.{CLUSTER}"])
def test_names_of_a_service(dns, name):
    """The full name and what is short for it, without the resolver's search list."""
    reply = ask(dns.c1, name + ".")
    assert reply.status == "NOERROR" and records(reply) == ["10.96.0.10"], reply
    assert {"aa", "ra", "qr"} <= set(reply.flags) and reply.answer[0][1] == "30"
    assert owners(reply) == {name}, "the name as it was asked"
    assert not dns.resolver.asked


@pytest.mark.parametrize("how", ["+notcp", "+tcp"])
def test_both_transports_and_families(dns, how):
    name = f"web.default.{CLUSTER}."
    assert records(ask(dns.c1, name, "A", how)) == ["10.96.0.10"]
    assert records(ask(dns.c1, name, "AAAA", how), "AAAA") == ["fd00:96::10"]
    assert records(ask(dns.c1, name, "A", how, server="::1")) == ["10.96.0.10"]


def test_own_namespace_comes_first(dns):
    assert records(ask(dns.c1, f"web.elsewhere.{CLUSTER}.")) == ["10.96.0.20"]
    assert records(ask(dns.c1, "web.elsewhere.")) == ["10.96.0.20"]


@pytest.mark.parametrize("suffix", [f"default.{CLUSTER}", CLUSTER, "cluster.local"])
def test_search_list_of_the_client_is_undone(dns, suffix):
    """What a resolver's search list made of an outside name: an alias to the name itself."""
    reply = ask(dns.c1, f"shop.example.com.{suffix}.")
    assert records(reply) == ["240.0.0.1"], reply
    assert records(reply, "CNAME") == ["shop.example.com."]
    assert owners(reply, "CNAME") == {f"shop.example.com.{suffix}"} and owners(reply) == {"shop.example.com"}


def test_wildcards_from_the_most_to_the_least_specific(dns):
    for name, ip in (("a.wild.example.com", "240.0.0.2"), ("a.b.wild.example.com", "240.0.0.2"),
                     ("a.deep.wild.example.com", "240.0.0.3"), ("a.b.deep.wild.example.com", "240.0.0.3")):
        reply = ask(dns.c1, name + ".")
        assert records(reply) == [ip] and owners(reply) == {name}, reply
    reply = ask(dns.c1, f"a.wild.example.com.default.{CLUSTER}.")
    assert records(reply) == ["240.0.0.2"] and not records(reply, "CNAME")
    ask(dns.c1, "wild.example.com.")
    assert "wild.example.com" in dns.resolver.names(), "the wildcard is not its own base"


def test_headless_service_is_its_endpoints(dns):
    reply = ask(dns.c1, f"crowd.default.{CLUSTER}.")
    assert records(reply) == sorted(p.ip4 for p in (dns.c1, dns.s1, dns.s2))
    reply = ask(dns.c1, f"crowd.default.{CLUSTER}.", "AAAA")
    assert records(reply, "AAAA") == sorted(p.ip6 for p in (dns.c1, dns.s1, dns.s2))


def test_order_is_shuffled(dns):
    firsts = set()
    until(lambda: firsts.add(ask(dns.c1, f"crowd.default.{CLUSTER}.").answer[0][4]) or len(firsts) == 3,
          what="each endpoint in front once")


@pytest.mark.parametrize("name, kind", [
    ("only4.default", "AAAA"),       # the service has one, but not that family
    ("far.default", "A"),            # its address is on another network
    ("shop.example.com", "AAAA"),    # none of the family
])
def test_empty_answers(dns, name, kind):
    name = name if "example" in name else f"{name}.{CLUSTER}"
    reply = ask(dns.c1, name + ".", kind)
    assert reply.status == "NOERROR" and not reply.answer and "aa" in reply.flags, reply
    assert not dns.resolver.asked


def test_without_ipv6(mesh, dns):
    dns.node1.terminate()
    dns.node1.wait()
    mesh.shared("node1", *mesh.dns_flags, "--no-ipv6")
    reply = ask(mesh.c1, f"web.default.{CLUSTER}.", "AAAA")
    assert reply.status == "NOERROR" and not reply.answer
    assert records(ask(mesh.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]


def test_which_of_several_services(mesh, dns):
    """Canonical before any other; the preferred namespace where nothing else decides."""
    assert records(ask(dns.c1, "main.example.com.")) == ["240.2.0.3"]
    assert records(ask(dns.c1, "tie.example.com.")) == ["240.1.0.1"]
    dns.node1.terminate()
    dns.node1.wait()
    mesh.shared("node1", *mesh.dns_flags, env={"PREFERED_SERVICE_NAMESPACE": "nb"})
    assert records(ask(mesh.c1, "tie.example.com.")) == ["240.1.0.2"]
    assert records(ask(mesh.c1, "main.example.com.")) == ["240.2.0.3"]


def test_services_that_are_not_the_clients(dns):
    """Not visible, or without an address outside the cluster: others know them, if anybody."""
    assert records(ask(dns.c1, f"hidden.elsewhere.{CLUSTER}.")) == ["198.51.100.3"]
    reply = ask(dns.c1, "passthrough.example.com.")
    assert records(reply) == ["198.51.100.2"] and "aa" not in reply.flags


def test_forwarding(dns):
    """Answers pass as they are, from the pod's own address, without the AA of the other server."""
    reply = ask(dns.c1, "outside.example.net.")
    assert reply.status == "NOERROR" and records(reply) == ["198.51.100.1"] and "aa" not in reply.flags
    assert dns.resolver.asked[-1][3][0] == dns.c1.ip4
    assert records(ask(dns.c1, "outside.example.net.", "AAAA"), "AAAA") == ["2001:db8::1"]
    assert records(ask(dns.c1, "text.example.net.", "TXT"), "TXT") == ['"hello"']
    assert ask(dns.c1, "nothing.example.net.").status == "NXDOMAIN"
    assert ask(dns.c1, "refused.example.net.").status == "REFUSED"
    assert ask(dns.c1, f"web.default.{CLUSTER}.", "TXT").status == "NXDOMAIN", "only A and AAAA are answered here"
    assert records(ask(dns.c1, "outside.example.net.", "A", "+tcp")) == ["198.51.100.1"]
    assert "outside.example.net" in dns.resolver.names("tcp")
    ports = [p[1] for _, _, how, p in dns.resolver.asked if how == "udp"]
    assert len(set(ports)) == len(ports), "each from a port of its own"


def test_metrics_and_log(dns):
    ask(dns.c1, f"web.default.{CLUSTER}.")
    ask(dns.c1, "outside.example.net.", "A", "+tcp")
    m = dns.node1.metrics()
    one = {"request_query_type": "A", "request_protocol": "udp", "source_canonical_service": "c1",
           "source_canonical_revision": "v1"}
    assert m.sum("istio_dns_requests_total", **one) == 1
    assert m.sum("istio_dns_upstream_requests_total", **{**one, "request_protocol": "tcp"}) == 1
    assert m.sum("istio_dns_upstream_request_duration_seconds_count") == 1
    assert m.sum("istio_dns_upstream_failures_total") == 0
    line = until(lambda: [e for e in dns.node1.lines() if e.scope == "dns" and e.get("domain", "").startswith("web.")],
                 what="a line of the query")[0]
    assert line.get("src.workload") == "c1" and line.get("result") == "NOERROR" and line.get("endpoints") == "1"


def test_truncated_answers_go_on_by_tcp(dns):
    """The resolver's answer does not fit in UDP: the proxy fetches it by TCP, and so does the client."""
    reply = ask(dns.c1, "long.example.net.", "TXT", "+ignore", "+bufsize=1232")
    assert "tc" in reply.flags and not reply.answer
    assert "long.example.net" in dns.resolver.names("tcp")
    assert len(ask(dns.c1, "long.example.net.", "TXT").answer) == 20
    assert len(ask(dns.c1, "long.example.net.", "TXT", "+bufsize=8192", "+ignore").answer) == 20


def test_long_answer_of_our_own(mesh, dns):
    """A headless service with more endpoints than a datagram takes: TC, and all of them by TCP."""
    for i in range(150):
        mesh.world.workload(f"many{i}", [f"10.8.{i // 100}.{i % 100 + 1}"], node="far",
                            services={f"default/crowd.default.{CLUSTER}": {80: 8080}})
    mesh.apply()
    reply = ask(dns.c1, f"crowd.default.{CLUSTER}.", "A", "+ignore")
    assert "tc" in reply.flags and 10 < len(reply.answer) < 100
    assert len(ask(dns.c1, f"crowd.default.{CLUSTER}.", "A", "+tcp").answer) == 153
    assert len(ask(dns.c1, f"crowd.default.{CLUSTER}.", "A", "+bufsize=4096", "+ignore").answer) == 153


def test_strays_of_the_resolver_are_ignored(dns):
    assert records(ask(dns.c1, "trash.example.net.")) == ["192.0.2.77"]


def test_silent_resolver(mesh, dns):
    """The next one is asked; with none left the client hears SERVFAIL."""
    assert ask(dns.c1, "silent.example.net.").status == "SERVFAIL"
    assert dns.node1.metrics().sum("istio_dns_upstream_failures_total") == 1
    mesh.conf.write_text(f"nameserver {mesh.q2.ip4}\nnameserver {mesh.u2.ip4}\n")  # nothing listens on the first

    def both():
        reply = ask(dns.c1, "outside.example.net.")
        return records(reply) == ["198.51.100.1"]
    until(both, what="an answer by the second resolver")
    mesh.conf.write_text("# nobody\n")
    until(lambda: ask(dns.c1, "outside.example.net.").status == "SERVFAIL", what="no resolver to be left")
    dns.node1.wait_log("no nameserver in")
    assert records(ask(dns.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]


def raw(pod, data, timeout=GUARD):
    with pod.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.sendto(data, ("127.0.0.1", 15053))
        return s.recv(65535)


def message(flags=0x0100, name=b"\x03web\x07default\x03svc\x07cluster\x05local\0", counts=(1, 0, 0, 0), tail=b""):
    return struct.pack(">HHHHHH", 0x1234, flags, *counts) + name + (struct.pack(">HH", 1, 1) if name else b"") + tail


def test_update_is_passed_through(dns):
    """Opcode 5 goes to the resolver byte by byte, but for the id; so does its answer."""
    update = message(flags=5 << 11, name=b"\x07example\x03net\0")
    answer = raw(dns.c1, update)
    assert answer[:4] == b"\x12\x34" + struct.pack(">H", 0x8000 | 5 << 11)
    assert dns.resolver.updates[0][2:] == update[2:]
    with dns.c1.socket() as s:
        s.settimeout(GUARD)
        s.connect(("127.0.0.1", 15053))
        s.sendall(struct.pack(">H", len(update)) + update)
        assert s.recv(2, socket.MSG_WAITALL) == struct.pack(">H", 12)


def test_update_by_a_client_of_its_own(dns):
    """nsupdate in the pod: its update arrives at the resolver, whose answer it takes."""
    script = dns.dir / "update"
    script.write_text("server 127.0.0.1 15053\nzone example.net\nupdate add new.example.net 60 A 192.0.2.1\nsend\n")
    for how in ((), ("-v",)):
        before = len(dns.resolver.updates)
        dns.c1.run("nsupdate", *how, "-t", str(int(GUARD)), str(script))
        sent = dns.resolver.updates[before:]
        assert len(sent) == 1 and b"\x03new" in sent[0] and socket.inet_aton("192.0.2.1") in sent[0]


def test_other_opcodes_are_not_implemented(dns):
    """Neither answered nor forwarded: nothing behind the proxy acts on what a pod says it is."""
    for opcode, how in itertools.product(("IQUERY", "STATUS", "NOTIFY", "6", "15"), ("+notcp", "+tcp")):
        out = dns.c1.run("dig", "@127.0.0.1", "-p", "15053", "+noidnin", "+noidnout", "+timeout=8", "+tries=2", how,
                         f"+opcode={opcode}", f"web.default.{CLUSTER}.", check=False)
        assert "status: NOTIMP" in out and "ANSWER: 0" in out, out
    assert not dns.resolver.asked and not dns.resolver.updates


def test_edns_of_a_client(dns):
    for args, shown in ((("+edns=0", "+bufsize=1400"), "Version: 0; flags: ; UDP size: 1400 B"),
                        (("+dnssec", "+bufsize=100"), "Version: 0; flags: do; UDP size: 512 B"),
                        (("+edns=1", "+bufsize=4096"), "Version: 1; flags: ; UDP size: 4096 B")):
        reply = ask(dns.c1, f"web.default.{CLUSTER}.", "A", *args)
        assert records(reply) == ["10.96.0.10"] and shown in reply.text, reply


def test_a_tcp_client_that_asks_nothing_is_closed(dns):
    """After 5 s without a whole query: one client sends nothing, one a part, one a byte now and then."""
    query = message()
    framed = struct.pack(">H", len(query)) + query
    with dns.c1.socket() as silent, dns.c1.socket() as part, dns.c1.socket() as drip:
        for s in (silent, part, drip):
            s.settimeout(GUARD)
            s.connect(("127.0.0.1", 15053))
        part.sendall(framed[:9])
        drip.settimeout(1)
        sent = 0

        def closed():
            nonlocal sent
            try:
                drip.sendall(framed[sent:sent + 1])
                sent += 1
                return drip.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True
        until(closed, what="the client that sends single bytes to be closed")
        assert sent < len(framed), "closed for its time, not for what it sent"
        assert silent.recv(1) == b"" and part.recv(1) == b""
    assert records(ask(dns.c1, f"web.default.{CLUSTER}.", "A", "+tcp")) == ["10.96.0.10"]


def test_edns_is_echoed(dns):
    opt = b"\0" + struct.pack(">HHIH", 41, 3000, 0x00018000, 0)
    answer = raw(dns.c1, message(counts=(1, 0, 0, 1), tail=opt))
    assert answer.endswith(opt), "version, DO and payload as they came"
    small = b"\0" + struct.pack(">HHIH", 41, 100, 0, 0)
    answer = raw(dns.c1, message(counts=(1, 0, 0, 1), tail=small))
    assert answer.endswith(b"\0" + struct.pack(">HHIH", 41, 512, 0, 0))


HOSTILE = {
    "answer": (message(flags=0x8180), 1), "no-question": (message(name=b"", counts=(0, 0, 0, 0)), 1),
    "two-questions": (message(counts=(2, 0, 0, 0)), 1), "cut": (message()[:20], 1),
    "loop": (message(name=b"\xc0\x0c"), 1), "many-records": (message(counts=(1, 65535, 65535, 65535)), 1),
    "two-opts": (message(counts=(1, 0, 0, 2), tail=(b"\0" + struct.pack(">HHIH", 41, 512, 0, 0)) * 2), 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages(dns, name):
    data, rcode = HOSTILE[name]
    answer = raw(dns.c1, data)
    assert answer[:2] == b"\x12\x34" and answer[2] & 0x80 and answer[3] & 15 == rcode
    assert records(ask(dns.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]


def test_datagrams_that_are_no_dns(dns):
    with dns.c1.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for n in itertools.chain(range(12), (65000,)):
            s.sendto(b"\xff" * n, ("127.0.0.1", 15053))
    assert records(ask(dns.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]
    assert dns.node1.metrics().sum("spanwire_dns_dropped_total", reason="malformed") >= 1


def test_bound_on_queries_under_way(dns):
    """A flood of names nobody answers is refused beyond a bound, and the mesh's names still work."""
    with dns.c1.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(GUARD)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        silent = b"\x06silent\x07example\x03net\0"
        for i in range(1500):
            s.sendto(struct.pack(">H", i) + message(name=silent)[2:], ("127.0.0.1", 15053))
            if i % 100 == 99:
                assert records(ask(dns.s1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]
        until(lambda: dns.node1.metrics().sum("istio_dns_upstream_failures_total") >= 400, what="refusals")


def test_unknown_workload(mesh, dns):
    del mesh.world.workloads["s1"]
    mesh.apply()
    assert ask(mesh.s1, f"web.default.{CLUSTER}.").status == "SERVFAIL"


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_a_workload_that_is_not_known_yet_is_waited_for(mesh, dns, kind):
    """The programs of a new pod ask for names before the control plane has sent its workload."""
    late = mesh.world.workloads.pop("s1")
    mesh.apply()
    until(lambda: "s1" not in {w["name"] for w in dns.node1.config_dump()["workloads"]}, what="the workload to be gone")
    query = message(name=b"\x03web\x07default\x03svc\x07cluster\x05local\0")
    with mesh.s1.socket(socket.AF_INET, kind) as s:
        s.settimeout(GUARD)
        s.connect(("127.0.0.1", 15053))
        s.sendall(query if kind == socket.SOCK_DGRAM else struct.pack(">H", len(query)) + query)
        mesh.world.workloads["s1"] = late
        mesh.apply()
        answer = s.recv(4096)
        answer = answer if kind == socket.SOCK_DGRAM else answer[2:] or s.recv(4096)
    assert answer[3] & 15 == 0 and socket.inet_aton("10.96.0.10") in answer, answer


def test_configuration_changes(mesh, dns):
    mesh.world.service("late", ["10.96.0.99"], {80: 8080})
    assert ask(dns.c1, f"late.default.{CLUSTER}.").status == "NXDOMAIN"
    mesh.apply()
    until(lambda: records(ask(dns.c1, f"late.default.{CLUSTER}.")) == ["10.96.0.99"], what="the new service")


def test_dedicated_mode_uses_the_search_list_of_resolv_conf(mesh, dns):
    # Tabs, upper case and what follows an address are fine for the C library, too.
    mesh.conf.write_text(f"search\tCorp.Example.\tsecond.example\nnameserver\t{mesh.u2.ip4} # of the site\n")
    mesh.dedicated(mesh.d1, *mesh.dns_flags)
    reply = ask(mesh.d1, "shop.example.com.second.example.")
    assert records(reply) == ["240.0.0.1"] and records(reply, "CNAME") == ["shop.example.com."]
    assert ask(mesh.d1, f"shop.example.com.default.{CLUSTER}.").status == "NXDOMAIN"


def test_switched_off_and_elsewhere(mesh, dns):
    dns.node1.terminate()
    dns.node1.wait()
    node = mesh.shared("node1", env={"ISTIO_META_DNS_CAPTURE": "false"})
    assert ":15053" not in mesh.c1.run("ss", "-Hlnut")
    node.terminate()
    node.wait()
    mesh.shared("node1", *mesh.dns_flags, env={"ISTIO_META_DNS_PROXY_ADDR": "127.0.0.1:10053"})
    assert records(ask(mesh.c1, f"web.default.{CLUSTER}.", port=10053)) == ["10.96.0.10"]


def test_captured_pod(mesh, dns, binary):
    """With the redirection rules in place the pod asks whomever it likes."""
    run(binary, "cni", "redirect", "apply", "--netns", mesh.s1.path, "--dns")
    try:
        for how in ("+notcp", "+tcp"):
            reply = ask(mesh.s1, f"web.default.{CLUSTER}.", "A", how, server="203.0.113.53", port=53)
            assert records(reply) == ["10.96.0.10"], reply
            reply = ask(mesh.s1, "outside.example.net.", "A", how, server="203.0.113.53", port=53)
            assert records(reply) == ["198.51.100.1"], reply
    finally:
        run(binary, "cni", "redirect", "apply", "--netns", mesh.s1.path)


def test_answers_during_a_hand_over(mesh, dns):
    """A new process shares the ports; the old one ends; no name is without an answer."""
    new = mesh.shared("node1", *mesh.dns_flags, offset=100)
    dns.node1.terminate()
    while dns.node1.alive:
        assert records(ask(mesh.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]
    assert records(ask(mesh.c1, f"web.default.{CLUSTER}.")) == ["10.96.0.10"]
    assert new.alive
