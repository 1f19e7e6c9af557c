# SPDX-License-Identifier: Apache-2.0
"""Clients that leave in the middle. What they got until then is compared; what they leave behind shows as growth."""
import contextlib
import random
import socket

from harness import traffic
from soak import hbone
from soak.api import TOP
from soak.pattern import Check, blocks
from soak.tally import PATIENCE

MIB = 1 << 20


def before_a_request(site):
    """In the TLS handshake, or with half a head."""
    with socket.create_connection(site.address, PATIENCE) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01" if site.tls else b"GET / HTTP/1.1\r\nHost: ")


def in_a_download(site):
    seed = random.randrange(1 << 20)
    with contextlib.closing(site.connection()) as c:
        c.request("GET", f"/stream/{seed}/{MIB}/0")
        answer, check = c.getresponse(), Check(seed)
        while check.at < MIB // 4:
            piece = answer.read1(1 << 16)
            if answer.status != 200 or not piece:
                raise ValueError(f"status {answer.status}, ended after {check.at} bytes: {piece[:200]!r}")
            check.feed(piece)
        reset(c.sock)


def in_an_upload(site):
    with contextlib.closing(site.connection()) as c:
        c.putrequest("POST", f"/check/{random.randrange(1 << 20)}")
        c.putheader("Content-Length", str(MIB))
        c.endheaders()
        for block in blocks(0, MIB // 8):
            c.sock.sendall(block)
        reset(c.sock)


def reset(sock):
    """The connection ends with RST, half of the times."""
    if random.random() < 0.5:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, traffic.RST_ON_CLOSE)


def from_gateway(part, load, sites):
    ways = (before_a_request, in_a_download, in_an_upload)
    for _ in load.pace(4):
        way, site = random.choice(ways), random.choice(sites)
        with part.operation(f"client of {site.hostname} leaves {way.__name__.replace('_', ' ')}"):
            way(site)


def from_mesh(part, load, mesh):
    for _ in load.pace(2):
        way = random.choice(hbone.WAYS)
        with part.operation(f"connection {way[0]} to {way[1]} is reset"), hbone.connect(mesh, *way) as sock:
            traffic.echo_once(sock)
            sock.sendall(bytes(random.choice((0, 1000, 200000))))
            traffic.reset(sock)


def from_api(part, load, api):
    """Watches and lists that nobody reads to the end."""
    for _ in load.pace(2):
        with part.operation("a reader of the API leaves"), contextlib.closing(api.connection()) as c:
            c.request("GET", TOP + random.choice(("", "?watch=true&resourceVersion=0")))
            answer = c.getresponse()
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            answer.read1(1000)
            reset(c.sock)


def start(load, place, setting, mesh):
    """Begins the load of those who leave."""
    sites = [site for pair in place.sites.values() for site in pair]
    sites += [setting.site("steady-1", secure) for secure in (False, True)]
    load.thread(load.part("clients that leave, gateway"), from_gateway, load, sites, ns=place.visitor)
    load.thread(load.part("clients that leave, HBONE"), from_mesh, load, mesh)
    load.thread(load.part("clients that leave, API"), from_api, load, place.api, ns=place.visitor)
