# SPDX-License-Identifier: Apache-2.0
"""The namespaces the system tests run in. tools/run-tests imports this file, too: the standard library only."""
import os
import subprocess

PROBE = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add t && nft list tables"


def argv():
    """The command that starts another in a network and mount namespace of its own."""
    base = ["unshare", "--net", "--mount", "--propagation", "private"]
    return base if os.geteuid() == 0 else base + ["--user", "--map-root-user"]


def refused():
    """Why such namespaces cannot be made here; empty: they can."""
    try:
        done = subprocess.run([*argv(), "sh", "-c", PROBE], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
    except OSError as e:
        return str(e)
    return (done.stderr.strip() or "unshare failed") if done.returncode else ""
