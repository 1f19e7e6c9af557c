# SPDX-License-Identifier: Apache-2.0
"""Holds idle connections: hold.py PORT COUNT SOURCE-ADDRESS. On 'ask' sends a request over 200 of them."""
import resource
import socket
import sys

port, count, source = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
socks = []
for _ in range(count):
    s = socket.socket()
    s.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT: the port is chosen at connect
    s.bind((source, 0))
    s.connect(("127.0.0.1", port))
    socks.append(s)
print("open", flush=True)
for line in sys.stdin:
    good = 0
    for s in socks[::max(1, count // 200)][:200]:
        s.settimeout(60)
        s.sendall(b"GET /size/1 HTTP/1.1\r\nHost: load.test\r\n\r\n")
        good += s.recv(1000).startswith(b"HTTP/1.1 200")
    print("answered", good, flush=True)
