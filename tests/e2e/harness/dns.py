# SPDX-License-Identifier: Apache-2.0
"""DNS by foreign programs: kdig and dig as clients, Knot as secondary and as target of updates; and a server whose
answers a test changes as it goes."""
import base64
import ipaddress
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

from .control import _Here, loopback_up
from .node import Process
from .ports import free_port
from .wait import GUARD, SLOW, until

KNOTD = shutil.which("knotd") or next((p for p in ("/usr/sbin/knotd",) if os.access(p, os.X_OK)), None)
KDIG = shutil.which("kdig")
DIG = shutil.which("dig")

SECRET = base64.b64encode(b"an example secret of 32 bytes...").decode()
KEY = f"hmac-sha256:spanwire.key:{SECRET}"


class Reply:
    """What kdig printed: status, flags and the sections as lists of 'name ttl type data'."""

    def __init__(self, text):
        self.text = text
        status = re.search(r"status: (\w+)", text)
        self.status = status.group(1) if status else None
        flags = re.search(r"Flags: ([^;]*);", text)
        self.flags = flags.group(1).split() if flags else []
        self.answer = self._section("ANSWER")
        self.authority = self._section("AUTHORITY")
        self.additional = self._section("ADDITIONAL")

    def _section(self, name):
        found = re.search(rf";; {name} SECTION:\n(.*?)(\n\n|\Z)", self.text, re.S)
        lines = found.group(1).splitlines() if found else []
        return [line.split(None, 4) for line in lines if line and not line.startswith(";")]

    def txt(self):
        return sorted(row[4].replace('" "', "").strip('"') for row in self.answer if row[3] == "TXT")

    def __repr__(self):
        return self.text


def kdig(port, *args):
    """Waits as long as a server may stand still; a datagram that was lost is sent again."""
    done = subprocess.run([KDIG, "@127.0.0.1", "-p", str(port), "+noidn", "+timeout=10", "+retry=2", *args],
                          capture_output=True, text=True, timeout=2 * GUARD * SLOW, check=False)
    return Reply(done.stdout + done.stderr)


def nsupdate(port, zone, *commands):
    """Somebody else who has the key."""
    text = f"server 127.0.0.1 {port}\nzone {zone}\n" + "\n".join(commands) + "\nsend\n"
    done = subprocess.run(["nsupdate", "-y", KEY], input=text, capture_output=True, text=True,
                          timeout=2 * GUARD * SLOW, check=False)
    assert done.returncode == 0, done.stderr


class Knot(Process):
    """knotd with a configuration of its own in a directory of its own."""

    def __init__(self, directory, zone, port, primary=None, key=None, text=None, transfer=True):
        loopback_up()
        self.dir, self.zone, self.port = directory, zone, port
        directory.mkdir(parents=True, exist_ok=True)
        keys = f"key:\n  - id: spanwire.key\n    algorithm: hmac-sha256\n    secret: {SECRET}\n" if key else ""
        remote, options = "", ""
        if primary:
            by = "    key: spanwire.key\n" if key else ""
            remote = f"remote:\n  - id: primary\n    address: 127.0.0.1@{primary}\n{by}"
            options = "    master: primary\n"
            acl = f"acl:\n  - id: us\n    address: 127.0.0.1\n{by}    action: notify\n"
        else:
            may = "[update, transfer]" if transfer else "update"
            acl = f"acl:\n  - id: us\n    key: spanwire.key\n    action: {may}\n"
            (directory / "zone.txt").write_text(text)
            options = f"    file: {directory}/zone.txt\n    journal-content: changes\n"
        conf = directory / "knot.conf"
        conf.write_text(f"server:\n  rundir: {directory}\n  listen: 127.0.0.1@{port}\n"
                        f"log:\n  - target: stderr\n    any: info\n"
                        f"database:\n  storage: {directory}\n{keys}{remote}{acl}"
                        f"zone:\n  - domain: {zone}\n    storage: {directory}\n    acl: us\n{options}")
        super().__init__(_Here(), [KNOTD, "-c", str(conf)], directory / "log")
        until(lambda: "status" in kdig(port, "+timeout=1", "+retry=0", zone, "SOA").text, what="knotd to answer")

    def close(self):
        self.kill()


class Names:
    """The name server of this namespace, for programs that use the system's resolver. 'known' maps names to lists of
    addresses, to "SERVFAIL", or to "SILENT" for no answer; other names do not exist. 'asked' counts questions, 'delay'
    is what each answer takes."""

    ADDRESS = "127.0.0.54"
    NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
    TYPES = {1: 4, 28: 6}  # A, AAAA

    def __init__(self, where, **known):
        loopback_up()
        self.known, self.asked, self.delay = dict(known), {}, 0
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((self.ADDRESS, 53))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        conf = where / "resolv.conf"
        conf.write_text(f"nameserver {self.ADDRESS}\noptions timeout:1 attempts:1\n", encoding="ascii")
        subprocess.run(["mount", "--bind", str(conf), "/etc/resolv.conf"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        subprocess.run(["umount", "/etc/resolv.conf"], check=True)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"", (self.ADDRESS, 53))  # the end
        self.thread.join()
        self.s.close()

    def _serve(self):
        while True:
            data, peer = self.s.recvfrom(4096)
            if not data:
                return
            answer = self._answer(data)
            time.sleep(self.delay)
            if answer:
                self.s.sendto(answer, peer)

    def _answer(self, data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind, = struct.unpack(">H", data[at + 1:at + 3])
        name = ".".join(labels).lower()
        self.asked[name] = self.asked.get(name, 0) + 1
        found = self.known.get(name)
        if found == "SILENT":
            return None
        records = [ipaddress.ip_address(a).packed for a in found] if isinstance(found, list) else []
        records = [r for r in records if len(r) == (4 if self.TYPES.get(kind) == 4 else 16) and kind in self.TYPES]
        code = self.NXDOMAIN if found is None else self.SERVFAIL if found == "SERVFAIL" else self.NOERROR
        head = data[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(records), 0, 0)
        return head + data[12:at + 5] + b"".join(
            struct.pack(">HHHIH", 0xc00c, kind, 1, 0, len(r)) + r for r in records)
