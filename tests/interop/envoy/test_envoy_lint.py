# SPDX-License-Identifier: Apache-2.0
"""'spanwire xds lint' and a real Envoy have the same opinion."""
import base64
import os
import pathlib
import re
import subprocess
import sys

import pytest
from feed import ENDPOINT, ROUTE, SECRET, Feed, field, read_response
from harness.envoy import Envoy, bootstrap
from harness.fabric import make_cert
from harness.gateway import free_port
from harness.wait import until
from judge import Judge
from mutate import Mutations

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/unit/control/envoy"))

# What a linter cannot know: which files a machine has, and which secrets a bootstrap.
UNKNOWABLE = re.compile(r"Invalid path: |Unknown static (secret|certificate validation context): ")


@pytest.fixture(scope="module")
def judge(binary, interop_dir, tmp_path_factory):
    import protos
    if not protos.package_dir(ROOT):
        pytest.skip("no npm packages in tests/e2e/clients")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for version in "46":  # golden files bind addresses that nobody has
        pathlib.Path(f"/proc/sys/net/ipv{version}/ip_nonlocal_bind").write_text("1\n", encoding="ascii")
    feed, admin = Feed(binary), free_port()
    text = bootstrap(binary, "--xds-addr", f"127.0.0.1:{feed.port}", "--admin", f"127.0.0.1:{admin}")
    e = Envoy(interop_dir / "envoy", tmp_path_factory.mktemp("envoy"), text, admin, drain_s=1)
    until(feed.status, 20, "Envoy to ask for something")
    yield Judge(feed, protos.Envoy(ROOT), free_port())
    e.stop()
    feed.close()


def exported(program, where):
    """What a unit test writes: {file name: {(type, name): value}}."""
    path = pathlib.Path(os.environ["SPANWIRE_BUILD"]) / "tests/unit/control" / program
    subprocess.run([path], check=True, capture_output=True, env={
        **os.environ, "SW_XDS_OUT": str(where), "SW_GOLDEN": str(ROOT / "tests/golden")})
    return {p.name: read_response(p) for p in sorted(where.iterdir())}


def test_every_rule_is_envoys(judge, tmp_path):
    """The cases of the linter's unit test: what it calls wrong Envoy refuses, all else Envoy takes."""
    differ, n = [], 0
    for name, resources in exported("test_gateway_lint", tmp_path).items():
        for (kind, _), value in resources.items():
            n += 1
            said = judge.ask(kind, "x", value)
            if (said is None) != ("-good" in name):
                differ.append(f"{name}: {said or 'taken'}")
    assert n > 80 and not differ, "\n".join(differ)


def test_a_refusal_shows_no_key(judge, tmp_path):
    """Envoy quotes the secret it refuses; the server keeps only what is wrong with it."""
    chain, key = (base64.b64encode(pathlib.Path(p).read_bytes()).decode() for p in make_cert(tmp_path, "x"))
    said = judge.ask(SECRET, "x", judge.encode(SECRET, {"name": "x", "tls_certificate": {
        "certificate_chain": {"inline_bytes": chain}, "private_key": {"inline_bytes": key}, "password": {}}}))
    assert said.startswith(": Proto constraint validation failed") and "Password" in said and "KEY" not in said, said


EXPRESSIONS = r"""
a  a++  a*+  (?=a)  (?!a)  (?<=a)b  (a)\1  \d+  \D\S\w\W  a{1000}  a{1001}  a{2,1}  (a{100}){100}  (a{10}){1000}  (?i)a  (?i:a)
(?x)a  (?s).  (?m)^a$  (?U)a+  (?-i)a  (?P<n>a)  (?<n>a)  (?'n'a)  (?P=n)  \k<n>  [[:alpha:]]  [[:foo:]]  \pL  \p{Greek}  \p{Foo}
\PN  \p{^L}  \Qa.b\E  \A\z  \Z  \b\B  \X  \h  \R  \K  \G  \x41  \x{110000}  \0  \07  \8  \cA  \e  \a\f\t\n  \_  [a  a]  a)  (a
a{  a{1  a{1,  *a  a**  a|*  (?:)  ()  (?#c)a  (?>a)  (?|a)  (?R)  (?1)  (?(1)a)  \N  \u0041  [z-a]  []a]  [^]a]  [[a]  [a&&b]
^$  a$b  \/  \-  \o{101}  \L  (?i-s:a)  (?a)a  (?J)a  (*UTF)a  (a|b|c){0,1000}  \d{1,1000}  (((a{20}){20}){20})  /v[0-9]+/(users|groups)/[^/]+
"""


def test_regular_expressions_are_envoys(judge, binary, tmp_path):
    """What a route may match with is RE2's syntax, in the size that our bootstrap allows."""
    differ = []
    for regex in [*EXPRESSIONS.split(), "a" * 1000, "(" * 100 + "a" + ")" * 100]:
        value = judge.encode(ROUTE, {"name": "x", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
            {"match": {"safe_regex": {"regex": regex}}, "route": {"cluster": "c"}}]}]})
        said, ours = judge.ask(ROUTE, "x", value), lint(binary, tmp_path / "one.pb", ROUTE, value)
        if (said is None) != (not ours):
            differ.append(f"{regex[:60]}: Envoy {said and said[-200:]}, lint {ours}")
    assert not differ, "\n".join(differ)


def lint(binary, path, kind, value):
    """The errors, one per line."""
    path.write_bytes(field(2, field(1, kind.encode()) + field(2, value)) + field(4, kind.encode()))
    done = subprocess.run([binary, "xds", "lint", "--partial", "true", str(path)], capture_output=True, text=True,
                          check=False, timeout=120)
    return [s for s in (done.stdout + done.stderr).splitlines() if s.startswith("error") or "spanwire:" in s]


def test_both_refuse_the_same_mutations(judge, binary, tmp_path):
    """
    Each field of each type of message in the golden resources, broken in each way once: hundreds of resources,
    and one opinion.
    """
    seen, differ, verdicts = set(), [], {True: 0, False: 0}
    (tmp_path / "golden").mkdir()
    for name, resources in exported("test_gateway_xds", tmp_path / "golden").items():
        for (kind, _), value in resources.items():
            if kind == SECRET:
                continue
            make = judge.protos.message(kind.split("/")[1])
            todo = [i for i, (at, what, _) in enumerate(Mutations(judge.protos).of(make.FromString(value)))
                    if at not in (".name", ".cluster_name") and (kind, what) not in seen]
            for i in todo:
                m = make.FromString(value)
                setattr(m, "cluster_name" if kind == ENDPOINT else "name", "x")
                at, what, change = [*Mutations(judge.protos).of(m)][i]
                if (kind, what) in seen:
                    continue
                seen.add((kind, what))
                change()
                broken = m.SerializeToString(deterministic=True)
                said = judge.ask(kind, "x", broken)
                ours = lint(binary, tmp_path / "one.pb", kind, broken)
                verdicts[said is None] += 1
                if (said is None) != (not ours) and not (said and UNKNOWABLE.search(said)):
                    differ.append(f"{name}{at}: {what}: Envoy {said and ' '.join(said.split())[-300:]}, lint {ours}")
    print(f"{verdicts[False]} refused, {verdicts[True]} taken")
    assert min(verdicts.values()) > 200 and not differ, "\n".join(differ)
