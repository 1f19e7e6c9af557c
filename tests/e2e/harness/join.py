# SPDX-License-Identifier: Apache-2.0
"""A control plane that machines join, and machines that do, by the line that 'spanwire token create' prints."""
import base64
import json
import os
import re
import subprocess

from .control import Control, _Here
from .wait import GUARD, SLOW, until

ENTRIES = "/apis/networking.istio.io/v1/namespaces/{}/workloadentries"
SECRETS = "/api/v1/namespaces/{}/secrets"


def words(line):
    """The arguments of the printed line, which begins with the program's name."""
    program, *rest = line.split()
    assert program == "spanwire", line
    return rest


class Fabric:
    def __init__(self, binary, where, *flags, at="127.0.0.1:0", env=None):
        self.binary, self.where = binary, where
        self.control = Control(binary, where / "control", "--connector=false", "--mesh-listen", at, *flags, env=env)
        self.port = self.mesh_port()
        for ns in ("site", "other"):
            assert self.control.post("/api/v1/namespaces", {"metadata": {"name": ns}}).status in (201, 409)

    def mesh_port(self):
        return int(until(lambda: re.findall(r"mesh on \S+:(\d+)", self.control.log()), what="the mesh's port")[-1])

    def command(self, *args, ns=None, stdin=None, check=True, env=None):
        with (ns or _Here()).entered():
            done = subprocess.run([self.binary, *args], input=stdin, capture_output=True, text=True, check=False,
                                  timeout=GUARD * SLOW, env={**os.environ, **(env or {})})
        if check:
            assert done.returncode == 0, f"{args[0]}: {done.stderr}"
        return done

    def token(self, *args, check=True):
        return self.command("token", *args, "--kubeconfig", str(self.control.kubeconfig), check=check)

    def create(self, name, *flags, ns="site"):
        """The line to run; it is all that is printed on standard output."""
        done = self.token("create", "--name", name, "--namespace", ns, *flags)
        [line] = done.stdout.splitlines()
        return line

    def join(self, line, state, *flags, ns=None, check=False, wait="20s", **kw):
        return self.command(*words(line), "--state", str(state), "--wait", wait, *flags, ns=ns, check=check, **kw)

    def records(self, ns="site"):
        items = self.control.get(SECRETS.format(ns) + "?labelSelector=spanwire.dev/join").json["items"]
        return {json.loads(base64.b64decode(o["data"]["spec.json"]))["name"]: o for o in items}

    def entry(self, name, ns="site"):
        return self.control.get(f"{ENTRIES.format(ns)}/{name}")

    def metric(self, result):
        text = self.control.get("/metrics").body.decode()
        found = re.search(rf'spanwire_join_requests(?:_total)?{{result="{result}"}} (\d+)', text)
        return int(found.group(1)) if found else 0

    def close(self):
        self.control.close()
