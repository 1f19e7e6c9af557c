# SPDX-License-Identifier: Apache-2.0
"""The ends of a transfer over the line, run as a program inside a namespace.

    flow.py serve PORT                         takes bytes after a 'u', gives bytes after a 'd'
    flow.py up|down HOST PORT STREAMS [TARGET HEADER]  the other end; '-': plain TCP, no CONNECT

Both print the bytes they received so far for every line they read, and end with their input.
`CONGESTION` in the environment sets the kernel's algorithm for plain TCP.
"""
import os
import selectors
import socket
import sys

BLOCK = bytes(1 << 18)
TCP_CONGESTION = 13


class Flow:
    def __init__(self):
        self.poll = selectors.DefaultSelector()
        self.received = 0

    def choose(self, s):
        name = os.environ.get("CONGESTION")
        if name:
            s.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())

    def take(self, s):
        try:
            got = s.recv(len(BLOCK))
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self.received += len(got)
        if not got:
            self.poll.unregister(s)
            s.close()

    def give(self, s):
        try:
            s.send(BLOCK)
        except BlockingIOError:
            pass
        except OSError:
            self.poll.unregister(s)
            s.close()

    def start(self, s, giving):
        s.setblocking(False)
        self.poll.register(s, selectors.EVENT_WRITE if giving else selectors.EVENT_READ,
                           self.give if giving else self.take)

    def accept(self, listener):
        s, _ = listener.accept()
        self.choose(s)
        s.settimeout(10)
        try:
            self.start(s, s.recv(1) == b"d")
        except OSError:
            s.close()

    def dial(self, giving, host, port, target, header):
        s = socket.socket()
        self.choose(s)
        s.settimeout(20)
        s.connect((host, port))
        if target:
            s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{header}\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                got = s.recv(1)
                if not got:
                    sys.exit(f"no tunnel: {head[:200]}")
                head += got
            if not head.startswith(b"HTTP/1.1 200"):
                sys.exit(f"no tunnel: {head[:200]}")
        s.sendall(b"u" if giving else b"d")
        self.start(s, giving)

    def run(self):
        self.poll.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        while True:
            for key, _ in self.poll.select():
                if key.data:
                    key.data(key.fileobj)
                    continue
                if not os.read(sys.stdin.fileno(), 64):
                    return
                print(self.received, flush=True)


def main():
    f, what = Flow(), sys.argv[1]
    if what == "serve":
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", int(sys.argv[2])))
        s.listen(64)
        f.poll.register(s, selectors.EVENT_READ, f.accept)
    else:
        host, port, streams = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        target, header = sys.argv[5:7] if len(sys.argv) > 5 else (None, None)
        for _ in range(streams):
            f.dial(what == "up", host, port, target, header)
    print("ready", flush=True)
    f.run()


if __name__ == "__main__":
    main()
