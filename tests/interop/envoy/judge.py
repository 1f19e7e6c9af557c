# SPDX-License-Identifier: Apache-2.0
"""Asks a running Envoy about one resource at a time: served over delta, acknowledged or refused."""
import time

from feed import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET, TYPE
from google.protobuf import json_format

ADS = {"ads": {}, "resource_api_version": "V3"}
EXTENSION = TYPE + "envoy.extensions."


def _listener(port, config, **chain):
    return {"name": "asking", "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": "f", "typed_config": config}], **chain}]}


def _asks_for(kind, name, port):
    """(type, resource) that makes Envoy ask for a resource of this kind and name; None: it asks for all."""
    if kind == ENDPOINT:
        return CLUSTER, {"name": "asking", "type": "EDS", "eds_cluster_config": {
            "eds_config": ADS, "service_name": name}}
    if kind == ROUTE:
        return LISTENER, _listener(port, {
            "@type": EXTENSION + "filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "s", "rds": {"config_source": ADS, "route_config_name": name},
            "http_filters": [{"name": "r", "typed_config": {"@type": EXTENSION + "filters.http.router.v3.Router"}}]})
    if kind == SECRET:
        return LISTENER, _listener(port, {
            "@type": EXTENSION + "filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "s", "cluster": "c"},
            transport_socket={"name": "t", "typed_config": {
                "@type": EXTENSION + "transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": {
                    "tls_certificate_sds_secret_configs": [{"name": name, "sds_config": ADS}]}}})
    return None


class Judge:
    """protos: Envoy's own definitions (tests/unit/control/envoy/protos.py)."""

    def __init__(self, feed, protos, port):
        self.feed, self.protos, self.port = feed, protos, port
        self.asking = None

    def encode(self, kind, value):
        """A resource given as JSON."""
        message = self.protos.message(kind.split("/")[1])()
        json_format.ParseDict(value, message, descriptor_pool=self.protos.pool)
        return message.SerializeToString(deterministic=True)

    def _counts(self, kind):
        for s in self.feed.status():
            if s["type"] == kind:
                return int(s["acks"]), int(s["nacks"]), s["nack"]
        return 0, 0, ""

    def _support(self, kind, name):
        """Everything but the resource itself; Envoy has it when this returns."""
        found = _asks_for(kind, name, self.port)
        base = {(found[0], "asking"): self.encode(*found)} if found else {}
        if self.asking != (kind, name):
            self.feed.serve(base)
            self._quiet()
            self.asking = (kind, name)
        return base

    def ask(self, kind, name, value):
        """None when Envoy takes the resource, else its reason."""
        if self.feed.have.get((kind, name)) == value:
            self.asking = None
        base = self._support(kind, name)
        acks, nacks, _ = self._counts(kind)
        self.feed.serve({**base, (kind, name): value})
        end = time.monotonic() + 10
        while time.monotonic() < end:
            now_acks, now_nacks, said = self._counts(kind)
            if now_nacks > nacks:
                return said
            if now_acks > acks:
                return None
        raise AssertionError(f"Envoy says nothing to {kind} {name}: {self.feed.status()}")

    def _quiet(self):
        calm, end = 0, time.monotonic() + 10
        while calm < 3:
            assert time.monotonic() < end, self.feed.status()
            time.sleep(0.02)
            calm = calm + 1 if all(s["pending"] == "0" for s in self.feed.status()) else 0
