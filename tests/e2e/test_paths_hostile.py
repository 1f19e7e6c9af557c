# SPDX-License-Identifier: Apache-2.0
"""Who lies about addresses: what one of ours can be made to say, and to send, because of it."""
import contextlib
import hashlib
import hmac
import socket
import struct
import time

from harness.quicpeer import Ours
from harness.wait import until

ASK, TOLD, LEN = 0x10, 0x11, 58
GATEWAY = "11" * 32


def told(question, seen):
    """The gateway's answer to a question, naming any address."""
    b = bytearray(LEN)
    b[0:2], b[10:22], b[22] = bytes((TOLD, 1)), question[10:22], 4
    b[24:30] = struct.pack(">H", seen[1]) + socket.inet_aton(seen[0])
    b[24:42] = (x ^ question[10 + i % 12] for i, x in enumerate(b[24:42]))
    key = hmac.new(b"spanwire ask", bytes.fromhex(GATEWAY), hashlib.sha256).digest()
    b[42:58] = hmac.new(key, bytes(b[:42]), hashlib.sha256).digest()[:16]
    return bytes(b)


@contextlib.contextmanager
def gateways(n):
    with contextlib.ExitStack() as stack:
        all_ = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(n)]
        for s in all_:
            s.bind(("127.0.0.1", 0))
            s.settimeout(60)
        yield all_


def places(socks):
    return ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in socks)


def count(p):
    """Changes of what others see, so far; the last list."""
    p.seen += [p.events.get() for _ in range(p.events.qsize())]
    mapped = [e["addrs"] for e in p.seen if e["event"] == "mapped"]
    return len(mapped), mapped[-1] if mapped else []


def test_a_gateway_answers_a_question_once(binary):
    """Further answers to it, each with another address, are not looked at."""
    with gateways(1) as (s,), Ours(binary, bind="127.0.0.1:0", probes=1) as p:
        p.tell(f"open {GATEWAY} {places([s])}")
        q, at = s.recvfrom(2000)
        assert q[0] == ASK and len(q) == LEN
        for i in range(200):
            s.sendto(told(q, ("203.0.113.1", 1000 + i)), at)
        p.event("mapped")
        p.tell(f"open {GATEWAY} {places([s])}")
        p.tell("count")
        p.event("count")
        assert count(p) == (1, ["203.0.113.1:1000"])


def test_news_of_our_address_are_told_at_a_bounded_pace(binary):
    """Thirty gateways, each with another word: not thirty writes and thirty rounds of probes."""
    with gateways(30) as socks, Ours(binary, bind="127.0.0.1:0", probes=1) as p:
        p.tell(f"open {GATEWAY} {places(socks)}")
        asked = [s.recvfrom(2000) for s in socks]
        began = time.monotonic()
        for i, (s, (q, at)) in enumerate(zip(socks, asked)):
            s.sendto(told(q, (f"203.0.113.{30 - i}", 1000)), at)
        # The list has room for six: the last word of the first six gateways has to be in it.
        want = {f"203.0.113.{30 - i}:1000" for i in range(6)}
        until(lambda: set(count(p)[1]) == want, what="the list")
        time.sleep(1.5)
        assert count(p)[0] <= 12 + 11 * (time.monotonic() - began - 1.5), p.seen


def test_places_that_change_all_the_time_cause_few_questions(binary):
    """Whoever writes the annotation with the gateways' addresses does not decide how much is sent."""
    with gateways(1) as (s,), Ours(binary, bind="127.0.0.1:0", probes=1) as p:
        began = time.monotonic()
        for i in range(1000):
            p.tell(f"open {i:064x} {places([s])}")
        p.tell("count")
        p.event("count")
        s.settimeout(0.2)
        n = 0
        with contextlib.suppress(TimeoutError):
            while s.recv(2000):
                n += 1
        assert 1 <= n <= 100 * (1 + time.monotonic() - began), n
