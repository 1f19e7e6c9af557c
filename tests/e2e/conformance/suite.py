# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the catalogue on one control plane and one data plane."""
import concurrent.futures
import pathlib
import re
import time
import traceback

from harness.control import Control
from harness.node import _SANITIZER, Process
from harness.wait import until

from . import cases_gateway, cases_grpc, cases_http, cases_http_extended, cases_l4, cases_listenerset, cases_policy
from .catalog import ENTRIES, PROFILES
from .cluster import GATEWAY_GROUP, Cluster, Helper
from .credentials import INFRA, Credentials
from .traffic import Expect, eventually

CLASS = "gateway-conformance"
CONTROLLER = "spanwire.dev/gateway"
MODULES = (cases_gateway, cases_grpc, cases_http, cases_http_extended, cases_l4, cases_listenerset, cases_policy)
ROUTES = ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
SKIP_READY = "gateway-api/skip-this-for-readiness"
USABLE, UNUSABLE = "127.64.0.200", "203.0.113.7"
NO_MESH = "mesh is not part of this controller"


class _Here:
    def entered(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


def check_conditions(conditions, wanted, generation, whose):
    """wanted: {type: status or (status, reason) or None for absent}. None of them may be stale."""
    have = {c["type"]: c for c in conditions or ()}
    for kind, want in wanted.items():
        got = have.get(kind)
        if want is None:
            assert got is None, f"{whose} has {kind}"
            continue
        status, reason = want if isinstance(want, tuple) else (want, None)
        assert got, f"{whose} has no {kind}, only {sorted(have)}"
        told = f"{whose}: {kind}={got['status']}/{got['reason']} ({got.get('message')})"
        assert got["status"] == status and reason in (None, got["reason"]), f"{told}, expected {want}"
    for c in have.values():
        assert c.get("observedGeneration") == generation, f"{whose}: {c['type']} is stale: {c}, is {generation}"


class DataPlane(Process):
    """'spanwire gateway', fed by the control plane."""

    def __init__(self, binary, where, control, xds, ca=None, token=None):
        self.dir = pathlib.Path(where)
        super().__init__(_Here(), [
            binary, "gateway", "--xds-addr", xds, "--xds-ca", str(ca or control.data / "pki/root.crt"),
            "--xds-token-file", str(token or control.data / "pki/admin.token"), "--workers", "2",
            "--admin-addr", "127.0.0.1:0", "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0",
            "--drain-time", "1s"], self.dir / "gateway.log")

    def wait_ready(self):
        def ready():
            assert self.alive, f"gateway ended:\n{self.log()[-3000:]}"
            return re.search(r"gateway\s+ready", self.log())
        until(ready, 10, "gateway to be ready")


class Suite:
    """What the tests see: objects with their statuses, and traffic."""

    def __init__(self, binary, where, manifests, plane=None):
        """plane: makes the data plane, of (binary, where, control, address of xDS)."""
        self.where, self.manifests = pathlib.Path(where), pathlib.Path(manifests)
        self.credentials = Credentials()
        self.control = Control(binary, self.where / "control", "--loopback-endpoints", "--relaxed-sync",
                               "--gateway-addresses", "127.64.0.0/24", "--gateway-port-offset", "0",
                               "--xds-listen", "127.0.0.1:0")
        found = until(lambda: re.search(r"xDS on (\S+)", self.control.log()), 10, "the xDS server")
        self.plane = (plane or DataPlane)(binary, self.where, self.control, found.group(1))
        self.cluster = Cluster(self.control, CLASS, CONTROLLER, self.credentials, self.where / "echo.log")
        self.client = Helper("echo_client.mjs", self.where / "client.log")
        self.results, self.documents = {}, []
        self.seconds = 0.0
        self._base()

    def close(self):
        self.client.close()
        self.cluster.close()
        self.plane.signal(15)
        status = self.plane.wait(40)
        self.control.close()
        found = _SANITIZER.search(self.plane.log())
        assert not found, f"sanitizer: {self.plane.log()[found.start():][:4000]}"
        assert status == 0, f"gateway ended with {status}:\n{self.plane.log()[-3000:]}"

    def _base(self):
        self.cluster.apply({"apiVersion": GATEWAY_GROUP, "kind": "GatewayClass", "metadata": {"name": CLASS},
                            "spec": {"controllerName": CONTROLLER}})
        self.wait("GatewayClass", CLASS, {"Accepted": "True", "SupportedVersion": "True"}, namespace=None)
        told = [f["name"] for f in self.cluster.get("GatewayClass", CLASS)["status"]["supportedFeatures"]]
        assert told == sorted(told) and len(told) <= 64, "supportedFeatures"
        self.features = set(told)
        self.documents = self.cluster.read(self.manifests / "base/manifests.yaml")
        spaces = [d for d in self.documents if d["kind"] == "Namespace"]
        self.cluster.create(spaces + self.credentials.objects)
        self.cluster.create([d for d in self.documents if d["kind"] != "Namespace"])
        self.gateways_ready()
        self.plane.wait_ready()

    # --- running ---
    def skip_reason(self, entry):
        if entry.mesh:
            return NO_MESH
        missing = [f for f in entry.features if f not in self.features]
        if missing:
            return "not claimed: " + ", ".join(missing)
        claimed = [f for f in entry.absent if f in self.features]
        return "claimed: " + ", ".join(claimed) if claimed else None

    def run(self, name):
        """(verdict, remark); the objects of the test are gone afterwards."""
        entry = ENTRIES[name]
        begin = time.monotonic()
        reason = self.skip_reason(entry)
        if reason:
            verdict = ("fail" if entry.core and not entry.mesh else "skip", reason)
        else:
            verdict = self._run(entry)
        self.results[name] = (*verdict, time.monotonic() - begin)
        self.seconds += time.monotonic() - begin
        return verdict

    def _run(self, entry):
        self.documents = [d for m in entry.manifest.split() for d in self.cluster.read(
            self.manifests / f"tests/{m}.yaml", PLACEHOLDER_USABLE_ADDRS=USABLE,
            PLACEHOLDER_UNUSABLE_ADDRS=UNUSABLE)]
        try:
            self.cluster.create(self.documents)
            CASES[entry.name](self)
            return ("pass", "")
        except Exception as e:  # whatever it is, it is this test that failed
            place = traceback.extract_tb(e.__traceback__)
            line = next((f"{pathlib.Path(f.filename).stem}:{f.lineno}: " for f in reversed(place)
                         if "cases_" in f.filename), "")
            return ("fail", f"{line}{type(e).__name__ if not isinstance(e, AssertionError) else ''} {e}".strip())
        finally:
            self.cluster.remove(self.documents)
            assert self.plane.alive and self.control.alive, self.plane.log()[-3000:] + self.control.log()[-3000:]

    # --- objects and statuses ---
    def until(self, check, what):
        return eventually(check, what, consecutive=1)

    def wait(self, kind, name, wanted, namespace=INFRA):
        """Conditions of a GatewayClass, Gateway or ListenerSet."""
        def check():
            obj = self.cluster.get(kind, name, namespace)
            assert obj, f"no {kind} {name}"
            check_conditions(obj.get("status", {}).get("conditions"), wanted, obj["metadata"]["generation"],
                             f"{kind} {name}")
            return obj
        return self.until(check, f"{kind} {name}")

    def gateways_ready(self):
        for d in self.documents:
            if d["kind"] == "Gateway" and SKIP_READY not in d["metadata"].get("annotations", {}):
                self.wait("Gateway", d["metadata"]["name"], {"Accepted": "True", "Programmed": "True"})

    def addr(self, name, port=80, namespace=INFRA):
        """Where a Gateway is reached."""
        def check():
            obj = self.cluster.get("Gateway", name, namespace)
            first = next(a for a in [*obj.get("status", {}).get("addresses", ()), {}])
            assert first.get("type") == "IPAddress", f"no address: {obj.get('status')}"
            return (first["value"], port)
        return self.until(check, f"address of Gateway {name}")

    def listeners(self, name, wanted, kind="Gateway", namespace=INFRA):
        """
        wanted: {listener: {"Accepted": ..., "kinds": [...], "attached": n}}; kinds and attached are
        compared when given.
        """
        def check():
            obj = self.cluster.get(kind, name, namespace)
            have = {one["name"]: one for one in (obj.get("status") or {}).get("listeners", ())}
            for listener, want in wanted.items():
                want = dict(want)
                got = have.get(listener)
                assert got, f"{kind} {name} has no status of listener {listener}"
                kinds, attached = want.pop("kinds", None), want.pop("attached", None)
                if kinds is not None:
                    told = [k["kind"] for k in got["supportedKinds"]]
                    assert sorted(told) == sorted(kinds), f"{name}/{listener} supports {told}"
                    assert all(k.get("group") == "gateway.networking.k8s.io" for k in got["supportedKinds"])
                if attached is not None:
                    assert got["attachedRoutes"] == attached, f"{name}/{listener}: {got['attachedRoutes']} attached"
                check_conditions(got["conditions"], want, obj["metadata"]["generation"], f"{name}/{listener}")
        self.until(check, f"listeners of {kind} {name}")

    def route(self, kind, name, wanted=None, namespace=INFRA, each=None):
        """
        Every parentRef has exactly one entry of ours with these conditions; `each` gives them by the
        position of the parentRef.
        """
        wanted = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs"), **(wanted or {})}

        def check():
            obj = self.cluster.get(kind, name, namespace)
            assert obj, f"no {kind} {name}"
            parents = (obj.get("status") or {}).get("parents", ())
            refs = obj["spec"]["parentRefs"]
            assert len(parents) == len(refs), f"{kind} {name} has {len(parents)} parents, not {len(refs)}"
            for i, ref in enumerate(refs):
                mine = [p for p in parents if p["parentRef"] == ref and p["controllerName"] == CONTROLLER]
                assert len(mine) == 1, f"{kind} {name}: no parent {ref} in {parents}"
                check_conditions(mine[0]["conditions"], each[i] if each else wanted, obj["metadata"]["generation"],
                                 f"{kind} {name}")
        self.until(check, f"{kind} {name}")

    def policy(self, name, wanted, gateway="same-namespace"):
        """The conditions of a BackendTLSPolicy for one Gateway."""
        def check():
            obj = self.cluster.get("BackendTLSPolicy", name, INFRA)
            mine = [a for a in (obj.get("status") or {}).get("ancestors", ())
                    if a["ancestorRef"]["name"] == gateway and a["controllerName"] == CONTROLLER]
            assert len(mine) == 1, f"ancestors of {name}: {obj.get('status')}"
            check_conditions(mine[0]["conditions"], wanted, obj["metadata"]["generation"], name)
        self.until(check, f"BackendTLSPolicy {name}")

    def ready(self, *but):
        """All Gateways of the manifest are programmed, all Routes accepted and resolved, except those named."""
        self.gateways_ready()
        for d in self.documents:
            if d["kind"] in ROUTES and d["metadata"]["name"] not in but:
                self.route(d["kind"], d["metadata"]["name"], namespace=d["metadata"]["namespace"])

    def refused_route(self, kind, name, condition, reason, namespace=INFRA):
        self.route(kind, name, {condition: ("False", reason)}, namespace)

    # --- traffic ---
    def expect(self, addr, *cases):
        """The cases are independent of each other."""
        if len(cases) == 1:
            return cases[0].run(addr)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda c: c.run(addr), cases))

    def gets(self, addr, table, **common):
        """Lines of [METHOD] [HOST]/PATH [Name:value ...] -> backend or status."""
        self.expect(addr, *(_line(line, common) for line in table.strip().splitlines()))

    def weights(self, once, wanted, total=500, tries=10):
        """Of many answers each backend has its share, within five points."""
        said = ""
        for _ in range(tries):
            counts = dict.fromkeys(wanted, 0)
            for name in once(total):
                name = re.sub(r"-[0-9a-z]+-[0-9a-z]+$", "", name)
                counts[name] = counts.get(name, 0) + 1
            said = f"{counts} of {total}"
            if all(abs(n / total - wanted.get(k, 0)) <= (0.05 if wanted.get(k) else 0) for k, n in counts.items()):
                return
        raise AssertionError(f"weights {wanted}: {said}")

    # --- the table ---
    def table(self):
        lines = [f"{'test':<62} {'kind':<9} {'result':<5} {'s':>5}  remark"]
        for name, entry in ENTRIES.items():
            verdict, remark, seconds = self.results.get(name, ("-", "not selected", 0))
            level = "core" if entry.core else "extended"
            remark = remark.splitlines()[0][:300] if remark else ""
            lines.append(f"{name:<62} {level:<9} {verdict:<5} {seconds:>5.1f}  {remark}".rstrip())
        lines.append("")
        lines.append(f"{'profile':<14} {'core':>17} {'extended':>22}   (pass/fail/skip)")
        for profile in PROFILES:
            counts = {True: [0, 0, 0], False: [0, 0, 0]}
            for name, entry in ENTRIES.items():
                verdict = self.results.get(name, ("-",))[0]
                if profile in entry.profiles and verdict in ("pass", "fail", "skip"):
                    counts[profile in entry.core][("pass", "fail", "skip").index(verdict)] += 1
            core, more = ("/".join(map(str, counts[k])) for k in (True, False))
            lines.append(f"{profile:<14} {core:>17} {more:>22}")
        total = [r[0] for r in self.results.values()]
        lines.append("")
        lines.append(", ".join(f"{total.count(v)} {v}" for v in ("pass", "fail", "skip"))
                     + f" of {len(ENTRIES)} in {self.seconds:.0f} s")
        return "\n".join(lines) + "\n"


def _line(line, common):
    left, _, right = line.partition("->")
    words = left.split()
    method = words.pop(0) if words[0].isupper() else "GET"
    host, slash, path = words.pop(0).partition("/")
    headers = dict(w.split(":", 1) for w in words)
    right = right.strip()
    outcome = {"status": int(right)} if right.isdigit() else {"backend": right}
    return Expect(**{**common, **outcome, "method": method, "host": host or common.get("host"),
                     "path": slash + path, "headers": headers})


CASES = {}
for module in MODULES:
    CASES.update(module.CASES)
