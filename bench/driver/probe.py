#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Small requests of somebody who does nothing wrong, until standard input ends: /healthz, a Lease renewal and a small get,
each on a connection of its own. Prints percentiles in ms. A process of its own, so that what the attacks cost their
sender does not count.
"""
import http.client
import json
import select
import ssl
import sys
import time

PAUSE_S = 0.003
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/bench"


def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    context = ssl.create_default_context(cafile=directory + "/certificate-authority")
    context.load_cert_chain(directory + "/client-certificate", directory + "/client-key")
    kinds = {"healthz": ("GET", "/healthz", None), "get": ("GET", "/api/v1/namespaces/default", None),
             "lease": ("PATCH", LEASE, None)}
    conns = {k: http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60) for k in kinds}
    times, bad, n = {k: [] for k in kinds}, 0, 0
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        for kind, (method, path, body) in kinds.items():
            n += 1
            if kind == "lease":
                body = json.dumps({"spec": {"holderIdentity": str(n)}})
            begin = time.monotonic()
            conns[kind].request(method, path, body, {"Content-Type": "application/merge-patch+json"})
            answer = conns[kind].getresponse()
            answer.read()
            times[kind].append((time.monotonic() - begin) * 1000)
            bad += answer.status != 200
    out = {"bad": bad}
    for kind, t in times.items():
        t.sort()
        out[kind] = {"n": len(t), "p50": t[len(t) // 2], "p99": t[min(len(t) - 1, int(len(t) * 0.99))], "max": t[-1]}
    print(json.dumps(out))


main()
