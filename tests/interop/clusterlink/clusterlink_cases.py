# SPDX-License-Identifier: Apache-2.0
"""What is asked of every combination of sites. The first line of each question is its row in the published table."""
import base64
import contextlib
import json
import os
import ssl
import time
import zlib

from clusterlink_combos import ENVOY, GO, OURS
from clusterlink_world import BANNER, BULK, EXTERNAL_PORT
from harness import traffic
from harness.link import read_head
from harness.wait import until

LABEL = "client.clusterlink.net/labels.app"
TURNS = 10


def title(question):
    return question.__doc__.strip().splitlines()[0].rstrip(".")


def _works(here):
    until(here.echoes, what=f"an echo through the import of {here.name}", interval=0.1)


def _greets(here):
    """Of ClusterLink's Envoy and Go data planes together some connections stay silent: asked like _works, until it does."""
    try:
        with here.open("first") as s:
            s.settimeout(3)
            s.sendall(b"?")
            return traffic.read_exact(s, len(BANNER) + 1) == BANNER + b"?"
    except (OSError, EOFError):
        return False


def _asking(importer, exporter):
    """A TLS connection from the importing site's network to the gateway, with the site's certificate."""
    raw = traffic.connect(importer.app, (exporter.gateway, EXTERNAL_PORT))
    return importer.world.fabric.context(importer.name).wrap_socket(raw, server_hostname=exporter.name)


def _token(importer, exporter, name="echo"):
    """(status, token) for an export, as the importer's control plane asks."""
    attributes = {"peer.clusterlink.net/name": importer.name, "client.clusterlink.net/namespace": "default"}
    body = json.dumps({"ServiceName": name, "ServiceNamespace": "default", "SrcAttributes": attributes}).encode()
    with _asking(importer, exporter) as s:
        s.sendall(f"POST /authz HTTP/1.1\r\nHost: {exporter.gateway}:{EXTERNAL_PORT}\r\nContent-Type: application/json; "
                  f"charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        start, fields, _ = read_head(s)
    return int(start.split()[1]), fields.get("x-access-token")


def _tunnel(importer, exporter, token):
    """The status of a CONNECT with this token; a tunnel that opens must carry bytes."""
    with _asking(importer, exporter) as s:
        s.sendall(f"CONNECT {exporter.name}:443 HTTP/1.1\r\nHost: {exporter.name}:443\r\n"
                  f"Authorization: Bearer {token}\r\n\r\n".encode())
        start, _, rest = read_head(s)
        status = int(start.split()[1])
        if status == 200:
            assert not rest
            traffic.echo_once(s)
    return status


# -- questions ------------------------------------------------------------------------------------
def reachable(world):
    """Heartbeats: PeerReachable is True on both sides, and each has the other's labels."""
    for here, there in world.ways():
        until(lambda h=here, t=there: h.peer_status(t.name) == ("True", {"zone": t.name}), interval=0.2,
              what=f"{here.name} to reach {there.name}")


def echo(world):
    """Export here, import there, both ways."""
    for here, there in world.ways():
        _works(here)
        assert there.servers["echo"].peer_ips() == {there.gateway}


def denied_by_importer(world):
    """A policy of the importing site denies the client by its label, and lets it in again."""
    for here, there in world.ways():
        _works(here)
        here.policy("no-shop", "deny", src={"matchLabels": {LABEL: f"shop-{here.name}"}})
        until(here.refused, what="the client to be denied", interval=0.1)
        _works(there)
        here.drop("accesspolicies", "no-shop")
        _works(here)


def denied_by_exporter(world):
    """A policy of the exporting site denies the peer by a label of its site, for one export."""
    for here, there in world.ways():
        there.policy("no-zone", "deny", src={"matchLabels": {"peer.clusterlink.net/labels.zone": here.name}},
                     dst={"matchLabels": {"export.clusterlink.net/labels.tier": "echo"}})
        try:
            until(here.refused, what="the peer to be denied", interval=0.1)
            until(lambda h=here: _greets(h), what="another export to answer", interval=0.1)
        finally:
            there.drop("accesspolicies", "no-zone")
        _works(here)


def privileged(world):
    """A privileged deny counts before the allow of the namespace, and a privileged allow before its deny."""
    for here, _ in world.ways():
        here.policy("top", "deny", src={"matchLabels": {LABEL: f"shop-{here.name}"}}, namespace=None)
        until(here.refused, what="the client to be denied", interval=0.1)
        here.policy("no-shop", "deny", src={"matchLabels": {LABEL: f"shop-{here.name}"}})
        here.policy("top", "allow", src={"matchLabels": {LABEL: f"shop-{here.name}"}}, namespace=None)
        _works(here)
        here.drop("accesspolicies", "no-shop")
        here.drop("privilegedaccesspolicies", "top", None)
        _works(here)


def server_first(world):
    """Server-first: the banner arrives, ten of ten, and the service answers."""
    for here, _ in world.ways():
        _works(here)
        for _turn in range(TURNS):
            with here.open("first") as s:
                assert traffic.read_exact(s, len(BANNER)) == BANNER
                traffic.echo_once(s)


def bulk(world):
    """16 MiB there and back with a checksum."""
    data = os.urandom(BULK)
    for here, _ in world.ways():
        with here.open("bulk") as s:
            s.sendall(data)
            assert int.from_bytes(traffic.read_exact(s, 4), "big") == zlib.crc32(data)
            assert traffic.read_exact(s, BULK) == data


def half_close(world):
    """The client's end of input passes, and the answer after it comes."""
    for here, _ in world.ways():
        with here.open("upload") as s:
            traffic.upload(s, 1 << 20)


def token(world):
    """A token opens a tunnel; after its five seconds it does not."""
    for importer, exporter in world.ways():
        status, first = _token(importer, exporter)
        assert status == 200 and first
        assert _tunnel(importer, exporter, first) == 200
        if exporter.kind.control == OURS:
            assert _tunnel(importer, exporter, first) == 403, "a second use"
        status, late = _token(importer, exporter)
        assert status == 200
        claims = late.split(".")[1]
        ends = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        until(lambda e=ends: time.time() > e + 1, interval=0.2, what="the token to expire")
        assert _tunnel(importer, exporter, late) == 403


def no_export(world):
    """An export that is taken away is refused, and works again when it is back."""
    for here, there in world.ways():
        there.drop("exports", "echo")
        until(here.refused, what="the export to be gone", interval=0.1)
        assert _token(here, there)[0] == (403 if there.kind.plane == GO else 404)
        there.offer("echo", there.servers["echo"].addr[1])
        _works(here)


def service_down(world):
    """A service that does not listen: the connection ends, and nothing else breaks."""
    for here, _ in world.ways():
        assert here.refused("down")
        _works(here)


def strangers(world):
    """A client that is no pod is refused while a policy selects clients."""
    for here, there in world.ways():
        here.policy("shop", src={"matchLabels": {LABEL: f"shop-{here.name}"}})
        here.drop("accesspolicies", "all")
        _works(here)
        until(lambda h=here, t=there: traffic.refused(t.app, h.target("echo")), what="the stranger to be refused", interval=0.1)
        here.policy("all")
        here.drop("accesspolicies", "shop")
        _works(here)


def restart(world):
    """A data plane that goes is seen (PeerReachable False), and used again when it is back."""
    for here, there in world.ways():
        there.stop_plane()
        try:
            until(lambda h=here, t=there: h.peer_status(t.name)[0] == "False", interval=0.2, what="the peer to be gone")
            assert here.refused()
        finally:
            there.start_plane()
        until(lambda h=here, t=there: h.peer_status(t.name)[0] == "True", interval=0.2, what="the peer to be back")
        _works(here)


def not_of_the_fabric(world):
    """The external port speaks with nobody who has no certificate of the fabric."""
    for importer, exporter in world.ways():
        context = ssl.create_default_context(cafile=str(world.fabric.top() / "cert.pem"))
        raw = traffic.connect(importer.app, (exporter.gateway, EXTERNAL_PORT))
        got = b""
        with contextlib.suppress(OSError), context.wrap_socket(raw, server_hostname=exporter.name) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x:443\r\n\r\n")
            got = s.recv(100)
        assert not got


CASES = [reachable, echo, denied_by_importer, denied_by_exporter, privileged, strangers, server_first, bulk, half_close, token,
         no_export, service_down, not_of_the_fabric, restart]


def applies(combo, question):
    """What ClusterLink's own data planes cannot do is not asked of them."""
    planes = [k.plane for k in combo.kinds]
    if question is half_close:
        return planes == [OURS, OURS]
    if question is server_first:  # a Go importer loses bytes that come with Envoy's 200
        return not (GO in planes and ENVOY in planes)
    return True
