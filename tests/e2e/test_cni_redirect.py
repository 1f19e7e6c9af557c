# SPDX-License-Identifier: Apache-2.0
"""`spanwire cni redirect` in real namespaces: where connections land, and what is left behind."""
import contextlib
import socket
import struct
import subprocess

import pytest

from harness import netns
from harness.wait import GUARD, guard

SO_ORIGINAL_DST = 80
IP6T_SO_ORIGINAL_DST = 80
SO_MARK = 36
PROXY_MARK = 0x539
POD4, PEER4 = "10.77.0.2", "10.77.0.1"
POD6, PEER6 = "fd77::2", "fd77::1"


@pytest.fixture
def pair(topology):
    """A pod and its peer, joined by one cable; nothing else."""
    del topology  # its set-up gives us the private /run/netns
    pod, peer = netns.NetNs("rd-pod"), netns.NetNs("rd-peer")
    for ns in (pod, peer):
        netns._quiet(ns)
    peer.ip("link add eth0 type veth peer name eth0 netns rd-pod")
    for ns, v4, v6 in ((pod, POD4, POD6), (peer, PEER4, PEER6)):
        ns.ip("link set lo up", "link set eth0 up", f"addr add {v4}/24 dev eth0",
              f"-6 addr add {v6}/64 dev eth0 nodad")
    pod.ip(f"route add default via {PEER4}", f"-6 route add default via {PEER6}")
    for ns in (pod, peer):
        netns.plugged(ns)  # or routes come between two looks at them
    yield pod, peer
    pod.delete()
    peer.delete()


def redirect(binary, verb, *args):
    return subprocess.run([binary, "cni", "redirect", verb, *args], capture_output=True, text=True,
                          timeout=guard(60), check=False)


def apply(binary, pod, *args):
    done = redirect(binary, "apply", "--netns", pod.path, *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == ""


def state(ns):
    """Everything the command may change, as text."""
    return tuple(ns.run(*cmd.split(), check=False) if "table" not in cmd else
                 "\n".join(line for line in ns.run(*cmd.split(), check=False).splitlines()
                           if "FIB table" not in line and "Dump terminated" not in line)
                 for cmd in ("nft list ruleset", "ip -4 rule", "ip -6 rule",
                             "ip -4 route show table 100", "ip -6 route show table 100",
                             "ip -4 route", "ip -6 route"))


@contextlib.contextmanager
def listener(ns, port, family=socket.AF_INET):
    with ns.socket(family) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.settimeout(guard(GUARD))
        s.bind(("0.0.0.0" if family == socket.AF_INET else "::", port))
        s.listen(8)
        yield s


def original_dst(conn):
    if conn.family == socket.AF_INET:
        raw = conn.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        port, ip = struct.unpack("!2xH4s8x", raw)
        return socket.inet_ntop(socket.AF_INET, ip), port
    raw = conn.getsockopt(socket.IPPROTO_IPV6, IP6T_SO_ORIGINAL_DST, 28)
    port, ip = struct.unpack("!2xH4x16s4x", raw)
    return socket.inet_ntop(socket.AF_INET6, ip), port


def lands(src, to, on, mark=0, source=None):
    """Connects from src and says which original destination the listener 'on' sees."""
    family = on.family
    with src.socket(family) as c:
        c.settimeout(guard(GUARD))
        if mark:
            c.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        if source:
            c.bind((source, 0))
        c.connect(to)
        conn, peer = on.accept()
        with conn:
            conn.sendall(b"over here")
            assert c.recv(64) == b"over here"
            try:
                return original_dst(conn), peer[0]
            except OSError:  # not a redirected connection
                return None, peer[0]


@pytest.mark.parametrize("family,pod_ip,peer_ip", [
    (socket.AF_INET, POD4, PEER4), (socket.AF_INET6, POD6, PEER6)], ids=["v4", "v6"])
def test_traffic_lands_on_the_proxy_ports(pair, binary, family, pod_ip, peer_ip):
    pod, peer = pair
    apply(binary, pod)
    with listener(pod, 15001, family) as outbound, listener(pod, 15006, family) as inbound, \
            listener(pod, 15008, family) as hbone, listener(peer, 8080, family) as remote, \
            listener(pod, 8080, family) as app:
        # out: to anybody else, even an address nobody has
        assert lands(pod, (peer_ip, 8080), outbound)[0] == (peer_ip, 8080)
        nobody = "203.0.113.9" if family == socket.AF_INET else "2001:db8::9"
        assert lands(pod, (nobody, 443), outbound)[0] == (nobody, 443)
        # out, with the proxy's mark: straight to the peer
        assert lands(pod, (peer_ip, 8080), remote, PROXY_MARK) == (None, pod_ip)
        # in: to the plaintext port, except HBONE itself
        assert lands(peer, (pod_ip, 8080), inbound) == ((pod_ip, 8080), peer_ip)
        assert lands(peer, (pod_ip, 15008), hbone)[0] in (None, (pod_ip, 15008))
        # a pod that calls itself is left alone, by address and by localhost
        assert lands(pod, (pod_ip, 8080), app)[0] in (None, (pod_ip, 8080))
        local = "127.0.0.1" if family == socket.AF_INET else "::1"
        assert lands(pod, (local, 8080), app)[1] == local
        # the proxy reaches the application with its mark
        assert lands(pod, (pod_ip, 8080), app, PROXY_MARK)[0] in (None, (pod_ip, 8080))


def test_replies_to_a_spoofed_source_come_back(pair, binary):
    """The proxy connects to the application from the client's address; the reply stays here."""
    pod, _ = pair
    apply(binary, pod)
    with listener(pod, 8080) as app, pod.socket() as c:
        c.settimeout(guard(GUARD))
        c.setsockopt(socket.SOL_IP, socket.IP_TRANSPARENT, 1)
        c.setsockopt(socket.SOL_SOCKET, SO_MARK, PROXY_MARK)
        c.bind((PEER4, 0))
        c.connect((POD4, 8080))
        conn, peer = app.accept()
        with conn:
            assert peer[0] == PEER4
            conn.sendall(b"hello")
            assert c.recv(16) == b"hello"


def test_probes_are_not_captured(pair, binary):
    pod, peer = pair
    peer.ip("addr add 169.254.7.127/32 dev lo")
    apply(binary, pod)
    with listener(pod, 8080) as app:
        assert lands(peer, (POD4, 8080), app, source="169.254.7.127")[1] == "169.254.7.127"


def test_no_inbound_leaves_the_pod_reachable(pair, binary):
    pod, peer = pair
    apply(binary, pod, "--no-inbound")
    with listener(pod, 8080) as app, listener(pod, 15001) as outbound:
        assert lands(peer, (POD4, 8080), app)[1] == PEER4
        assert lands(pod, (PEER4, 8080), outbound)[0] == (PEER4, 8080)


@pytest.mark.parametrize("ipv6", ["true", "false"])
def test_without_ipv6_its_dns_is_left_alone(pair, binary, ipv6):
    """No proxy listens on ::1 then: a redirected question would get no answer."""
    pod, peer = pair
    apply(binary, pod, "--dns", "true", "--ipv6", ipv6)
    with pod.socket(socket.AF_INET6, socket.SOCK_DGRAM) as proxy, peer.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server, \
            pod.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        proxy.bind(("::1", 15053))
        server.bind(("::", 53))
        there, other = (proxy, server) if ipv6 == "true" else (server, proxy)
        there.settimeout(guard(GUARD))
        client.sendto(b"question", (PEER6, 53))
        assert there.recv(100) == b"question"
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(100)


def test_virtual_interface_counts_as_outbound(pair, binary):
    pod, peer = pair
    apply(binary, pod, "--virtual-interface", "eth0")
    with listener(pod, 15001) as outbound:
        assert lands(peer, (POD4, 8080), outbound)[0] == (POD4, 8080)


def test_apply_twice_is_the_same_and_remove_leaves_nothing(pair, binary):
    pod, _ = pair
    before = state(pod)
    apply(binary, pod)
    once = state(pod)
    assert once != before
    apply(binary, pod)
    assert state(pod) == once
    apply(binary, pod, "--dns", "true", "--ipv6", "false", "--virtual-interface", "tap0")
    apply(binary, pod)
    assert state(pod) == once
    for _ in range(2):
        done = redirect(binary, "remove", "--netns", pod.path)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert state(pod) == before


def test_remove_keeps_what_is_not_ours(pair, binary):
    pod, _ = pair
    pod.run("nft", "-f", "-", stdin="table inet mine { chain c { tcp dport 9 drop; }; }\n")
    pod.ip("rule add fwmark 7 priority 100 lookup 100", "route add 198.51.100.0/24 dev eth0 table 100")
    before = state(pod)
    apply(binary, pod)
    done = redirect(binary, "remove", "--netns", pod.path)
    assert done.returncode == 0, done.stderr
    assert state(pod) == before


def test_show_prints_what_apply_would_do_and_touches_nothing(pair, binary):
    pod, _ = pair
    before = state(pod)
    done = redirect(binary, "show", "--netns", pod.path)
    assert done.returncode == 0 and state(pod) == before
    commands = [line for line in done.stdout.splitlines() if line.startswith("ip ")]
    rules = done.stdout.split("# rules: nft -f -\n")[1]
    for line in commands:
        pod.run(*line.split())
    pod.run("nft", "-f", "-", stdin=rules)
    by_hand = state(pod)
    apply(binary, pod)
    assert state(pod) == by_hand
    # and it needs neither the namespace nor its name
    assert redirect(binary, "show", "--netns", "/nonexistent").stdout == done.stdout
    assert redirect(binary, "show").stdout == done.stdout


@pytest.mark.parametrize("args,words", [
    (["apply"], "needs --netns"),
    (["apply", "--netns", "/run/netns/nobody"], "No such file or directory"),
    (["remove", "--netns", "/etc/hostname"], "not a network namespace"),
    (["apply", "--netns", "/proc/self/ns/net", "--virtual-interface", "a b"], "not an interface"),
    (["apply", "--netns", "/proc/self/ns/net", "--probe-ip", "x"], "--probe-ip"),
    (["apply", "--frobnicate"], "unknown option"),
    (["apply", "more"], "unexpected argument"),
    (["whatever"], "apply, remove or show"),
])
def test_mistakes_are_one_clear_line(topology, binary, args, words):
    del topology
    done = redirect(binary, *args)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("spanwire: cni redirect: ") and done.stderr.count("\n") == 1
    assert words in done.stderr


def test_without_permission_nothing_changes(pair, binary):
    pod, _ = pair
    before = state(pod)
    done = subprocess.run(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", binary, "cni",
                           "redirect", "apply", "--netns", pod.path],
                          capture_output=True, text=True, timeout=guard(60), check=False)
    assert done.returncode == 1 and "permitted" in done.stderr, done.stderr
    assert state(pod) == before
