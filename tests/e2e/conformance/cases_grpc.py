# SPDX-License-Identifier: Apache-2.0
"""GRPCRoute, called with npm's gRPC client."""
from .registry import registry
from .traffic import eventually, is_backend

CASES, case = registry()
OK, UNIMPLEMENTED = 0, 12


def call(s, addr, method="Echo", host=None, headers=None, backend=None, code=OK):
    def attempt():
        got = s.client.ask("grpc", target=f"{addr[0]}:{addr[1]}", authority=host, method=method,
                           headers=headers or {}, count=3)
        for one in got:
            assert one["code"] == code, f"gRPC status {one}"
            if code == OK:
                context = one["assertions"]["context"]
                assert is_backend(context["pod"], backend), f"{context['pod']} answered"
                assert one["assertions"]["fully_qualified_method"].endswith("/" + method)
    eventually(attempt, f"gRPC {host} {method} {headers}", consecutive=1)


@case("GRPCExactMethodMatching")
def exact_method(s):
    s.ready()
    addr = s.addr("same-namespace")
    call(s, addr, "Echo", backend="grpc-infra-backend-v1")
    call(s, addr, "EchoTwo", backend="grpc-infra-backend-v2")
    call(s, addr, "EchoThree", code=UNIMPLEMENTED)


@case("GRPCRouteHeaderMatching")
def header_matching(s):
    s.ready()
    addr = s.addr("same-namespace")
    for headers, version in (({"version": "one"}, 1), ({"version": "two"}, 2),
                             ({"version": "two", "color": "orange"}, 1), ({"color": "blue"}, 1),
                             ({"color": "green"}, 1), ({"color": "red"}, 2), ({"color": "yellow"}, 2)):
        call(s, addr, headers=headers, backend=f"grpc-infra-backend-v{version}")
    for headers in ({"color": "orange"}, {"color": "purple"}, {}):
        call(s, addr, headers=headers, code=UNIMPLEMENTED)


@case("GRPCRouteListenerHostnameMatching")
def listener_hostnames(s):
    s.ready()
    addr = s.addr("grpcroute-listener-hostname-matching")
    for host, version in (("bar.com", 1), ("foo.bar.com", 2), ("baz.bar.com", 3), ("boo.bar.com", 3),
                          ("multiple.prefixes.bar.com", 3), ("multiple.prefixes.foo.com", 3)):
        call(s, addr, host=host, backend=f"grpc-infra-backend-v{version}")
    for host in ("foo.com", "no.matching.host"):
        call(s, addr, host=host, code=UNIMPLEMENTED)


@case("GRPCRouteWeight")
def weight(s):
    s.ready()
    addr = s.addr("same-namespace")

    def once(total):
        return [one["assertions"]["context"]["pod"] for one in s.client.ask(
            "grpc", target=f"{addr[0]}:{addr[1]}", method="Echo", count=total)]

    eventually(lambda: once(1), "the first call")
    s.weights(once, {"grpc-infra-backend-v1": 0.7, "grpc-infra-backend-v2": 0.3, "grpc-infra-backend-v3": 0})


@case("GRPCRouteNamedRule")
def named_rule(s):
    s.ready()
    addr = s.addr("same-namespace")
    call(s, addr, "Echo", backend="grpc-infra-backend-v1")
    call(s, addr, "EchoTwo", backend="grpc-infra-backend-v2")
