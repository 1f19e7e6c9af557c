# SPDX-License-Identifier: Apache-2.0
"""The README as a newcomer follows it: every code block is run as it is written, in one directory."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from harness.control import find_kubectl, needs_kubectl
from harness.netns import NetNs
from harness.wait import guard, until

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_blocks():
    """{section: [block, ...]} of README.md."""
    found, section, block = {}, "", None
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith("```"):
            if block is not None:
                found.setdefault(section, []).append("\n".join(block))
            block = [] if block is None else None
        elif block is not None:
            block.append(line)
        elif line.startswith("#"):
            section = line.lstrip("# ")
    return found


BLOCKS = read_blocks()
LAPTOP, NODE, API, ENTRANCE, SITES = ("A laptop gets a hostname", "Running a node", "Your own Kubernetes-style API",
                                      "A public entrance: the Gateway API", "Two sites")
# Blocks that are no commands, or are run by 'make fresh'; how many each section has.
COUNTS = {"Spanwire": 1, "Five minutes": 1, LAPTOP: 3, NODE: 5, API: 5, ENTRANCE: 3, SITES: 2}


def test_every_block_is_run_by_a_test():
    assert {section: len(blocks) for section, blocks in BLOCKS.items()} == COUNTS


class Newcomer:
    """A directory, and a shell in it that finds 'spanwire' and 'kubectl' and nothing of this test."""

    def __init__(self, binary, where):
        self.dir, programs = where / "work", where / "bin"
        self.dir.mkdir()
        programs.mkdir()
        (programs / "spanwire").symlink_to(binary)
        if find_kubectl():
            (programs / "kubectl").symlink_to(find_kubectl())
        self.env = {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.dir), "LANG": "C.UTF-8"}
        self.env.update((k, v) for k, v in os.environ.items() if k.endswith("SAN_OPTIONS"))
        self.started = []

    def popen(self, script, log):
        path = self.dir / f"{log}.log"
        with open(path, "wb") as out:
            child = subprocess.Popen(["bash", "-c", script], cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        self.started.append(child)
        return child, path

    def start(self, script, log, until_says=None):
        """Runs a script in the background, and waits until it prints something."""
        child, path = self.popen(script, log)

        def printed():
            text = path.read_text(errors="replace")
            assert child.poll() is None, f"ended with {child.returncode}:\n{text[-4000:]}"
            return until_says is None or until_says in text
        until(printed, 40, f"{until_says!r} of {log}")
        return child

    def serve(self, text, address, port):
        """A web server of one page."""
        site = self.dir / f"site-{address}"
        site.mkdir()
        (site / "index.html").write_text(text)
        return self.start(f"exec python3 -u -m http.server {port} --bind {address} --directory {site}", f"serve-{address}",
                          "Serving HTTP")

    def run(self, script, seconds=60):
        """Runs a script to its end, and what it leaves in the background as well; every command must succeed."""
        script = f"set -e -o pipefail\n{script}\nkill $(jobs -p) 2>/dev/null || true; wait"
        child, path = self.popen(script, "run")
        status = child.wait(guard(seconds))
        said = path.read_text(errors="replace")
        assert status == 0, f"ended with {status}:\n{said[-6000:]}"
        return said

    @staticmethod
    def stop(child):
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(guard(30)) == 0

    def close(self):
        for child in self.started:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


@pytest.fixture
def newcomer(topology, binary, tmp_path):
    del topology  # network namespaces are made below its private /run
    n = Newcomer(binary, tmp_path)
    yield n
    n.close()


def test_a_laptop_gets_a_hostname(newcomer):
    up, expose, visit = BLOCKS[LAPTOP]
    newcomer.serve("from the laptop\n", "127.0.0.1", 3000)
    fabric = newcomer.start("exec " + up, "up", "Try next")
    device = newcomer.start("exec " + expose, "expose", "http://app.localhost:8080")
    assert "from the laptop" in newcomer.run(visit)
    newcomer.stop(device)
    newcomer.stop(fabric)


@needs_kubectl
def test_the_api_and_then_a_public_entrance(newcomer):
    blocks = list(BLOCKS[API])
    watch = "kubectl get gateways --watch "
    assert watch in blocks[1]
    blocks[1] = blocks[1].replace(watch, "timeout -s INT 3 " + watch).replace("# until Ctrl-C", "|| [ $? = 124 ]")
    said = newcomer.run("\n".join(blocks), 120)
    for text in ("gateways ", "gateway.gateway.networking.k8s.io/web created", "FIELD: listeners", "condition met",
                 "widget.example.com/a created", '"kind": "WidgetList"'):
        assert text in said, f"{text!r} not in\n{said}"

    serve, account, envoy = BLOCKS[ENTRANCE]
    envoy = re.sub(r"(?m)^envoy -c", "test -s", envoy)  # whether Envoy takes it: tests/interop/envoy
    said = newcomer.run("\n".join((serve, account, envoy)), 120)
    assert "\nhello\n" in said, said
    assert (newcomer.dir / "gateway.token").read_text().count(".") == 2


@needs_kubectl
def test_two_sites(newcomer):
    (newcomer.dir / "index.html").write_text("from the east\n")
    try:
        said = newcomer.run("\n".join(BLOCKS[SITES]), 120)
    except AssertionError:
        for log in sorted(newcomer.dir.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        raise
    for text in ("from the east", "PeerReachable yes", "ImportTargetPortValid yes"):
        assert text in said, f"{text!r} not in\n{said}"


def test_what_is_served_to_the_world_holds_no_keys():
    """A key below a directory that a file server of an example serves is a key given away."""
    text = "\n".join(BLOCKS[ENTRANCE])
    for line in re.findall(r".*http\.server.*", text):
        directory = re.search(r"--directory (\S+)", line)
        assert directory and directory.group(1) != "." and f"--data ./{directory.group(1)}" not in text, line


def test_one_line_json_is_json():
    lines = re.findall(r"echo '(\{.*\})'", "\n".join(b for blocks in BLOCKS.values() for b in blocks))
    assert lines
    for line in lines:
        json.loads(line)


@pytest.fixture
def pods(topology):
    del topology
    cart, web = NetNs("cart"), NetNs("web")
    cart.ip("link set lo up", "link add eth0 type veth peer name eth0 netns web", "addr add 10.0.1.5/24 dev eth0",
            "link set eth0 up")
    web.ip("link set lo up", "addr add 10.0.1.6/24 dev eth0", "link set eth0 up")
    yield cart, web
    web.delete()
    cart.delete()


def fetch(ns, *argv):
    with ns.entered():
        return subprocess.run(["curl", "-sS", "-m", "5", *argv], capture_output=True, text=True, check=False).stdout


def test_running_a_node(newcomer, pods):
    cart, web = pods
    make_ca, issue, mesh, shared, dedicated = (
        b.replace("/etc/spanwire", f"{newcomer.dir}/etc/spanwire") for b in BLOCKS[NODE])
    assert "..." in make_ca
    newcomer.run(re.sub(r"(?m)^.* \.\.\.$", "", make_ca))
    assert "spiffe://cluster.local/ns/demo/sa/tool" in newcomer.run(issue)
    (newcomer.dir / "mesh.yaml").write_text(mesh)
    with cart.entered():
        newcomer.serve("from cart\n", "10.0.1.5", 8080)
    with web.entered():
        newcomer.serve("from web\n", "10.0.1.6", 8080)
    node = newcomer.start(shared.replace("spanwire node", "exec spanwire node"), "shared", "ready")
    until(lambda: fetch(web, "http://10.0.1.5:8080/") == "from cart\n", what="web to reach cart")
    assert fetch(cart, "http://10.0.1.6:8080/") == "", "the policy lets only web in"
    newcomer.stop(node)

    # 'web' gets its own process now; 'cart' keeps the node's.
    only_cart = re.sub(r" *--pod demo/web\S+", "", shared[shared.index("spanwire node"):])
    node = newcomer.start(f"spanwire cni redirect remove --netns {web.path}\nexec {only_cart}", "cart", "ready")
    with web.entered():
        said = newcomer.run(dedicated)
    assert "from cart" in said, said
    newcomer.stop(node)
