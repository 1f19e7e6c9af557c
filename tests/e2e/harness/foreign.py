# SPDX-License-Identifier: Apache-2.0
"""Backends for control planes that are not ours."""
import subprocess

BACKENDS = "10.99.0.1"  # loopback addresses are refused in EndpointSlices: this one leads there


def backend_address():
    """BACKENDS leads to 127.0.0.1 in this namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "replace", f"{BACKENDS}/32", "dev", "lo"], check=True)
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=f"""
table ip backends {{
  chain out {{
    type nat hook output priority -100
    ip daddr {BACKENDS} dnat to 127.0.0.1
  }}
}}
""")
