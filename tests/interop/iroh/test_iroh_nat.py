# SPDX-License-Identifier: Apache-2.0
"""A native pair behind two NATs: through a relay with address discovery it finds a direct path."""
import contextlib
import subprocess

import pytest
from harness.relay import Relay
from homes import PUB, PUBLIC, Homes
from native import IrohRelay, Native, certificate

QAD_PORT = 7842


def our_relay(binary, where, tls, ns):
    """None when it cannot tell addresses."""
    told = subprocess.run([binary, "relay", "--help"], capture_output=True, text=True, check=True).stdout
    if "--qad-listen" not in told:
        pytest.skip("spanwire relay has no address discovery here")
    return Relay(binary, str(where), "--qad-listen", f"{PUB}:{QAD_PORT}", host=PUB, tls=[str(f) for f in tls],
                 netns=ns.name)


@pytest.fixture
def street(request):
    homes = Homes(getattr(request, "param", ()))
    yield homes
    homes.delete()


@contextlib.contextmanager
def relay_of(whose, binary, interop_dir, where, tls, ns):
    if whose == "iroh-relay":
        with contextlib.closing(IrohRelay(interop_dir, where / "r", host=PUB, tls=tls, ns=ns)) as r:
            yield r.url, r.qad_port
    else:
        r = our_relay(binary, where, tls, ns)
        yield f"https://{PUB}:{r.tls_port}/", QAD_PORT
        r.stop()


def behind(interop_dir, ns, url, port, ca):
    p = Native(interop_dir, "peer", ns=ns, bind="0.0.0.0:0", options=["--relay", url, "--qad-port", port, "--ca", ca])
    public = PUBLIC["nat" + ns.name[-1]]
    while not any(a.startswith(public + ":") for a in p.event("addrs", 90)["addrs"]):
        pass
    return p


@pytest.mark.parametrize("whose", ["iroh-relay", "our relay"])
def test_two_nats_are_no_obstacle(binary, interop_dir, tmp_path, street, whose):
    tls = certificate(tmp_path / "tls", PUB)
    with relay_of(whose, binary, interop_dir, tmp_path, tls, street["pub"]) as (url, port), \
            behind(interop_dir, street["homeA"], url, port, tls[0]) as a, \
            behind(interop_dir, street["homeB"], url, port, tls[0]) as b:
        assert a.dial(f"{b.id}=relay={url}")["event"] == "ready"
        a.path(lambda addr: addr.startswith(PUBLIC["natB"] + ":"))
        b.path(lambda addr: addr.startswith(PUBLIC["natA"] + ":"))
        a.echo(20_000_000)


@pytest.mark.parametrize("street", [("natA", "natB")], indirect=True, ids=["symmetric"])
def test_symmetric_nats_stay_at_the_relay(binary, interop_dir, tmp_path, street):
    """The harness tells routers apart: nothing but the relay passes between two symmetric ones."""
    tls = certificate(tmp_path / "tls", PUB)
    with relay_of("iroh-relay", binary, interop_dir, tmp_path, tls, street["pub"]) as (url, port), \
            behind(interop_dir, street["homeA"], url, port, tls[0]) as a, \
            behind(interop_dir, street["homeB"], url, port, tls[0]) as b:
        assert a.dial(f"{b.id}=relay={url}")["event"] == "ready"
        a.echo(5_000_000)
        a.tell("paths")
        assert all(p["relay"] for p in a.event("paths")["paths"])
