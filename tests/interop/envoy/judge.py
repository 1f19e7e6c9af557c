# SPDX-License-Identifier: Apache-2.0
"""Asks a running Envoy about one resource at a time: served over delta, acknowledged or refused."""
from feed import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET, TYPE
from google.protobuf import json_format
from harness.wait import until

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

    def _told(self, kind):
        """Whether Envoy has acknowledged what is served now, how often it refused anything, and why at last."""
        for s in self.feed.status():
            if s["type"] == kind:
                return s["current"] == "1", int(s["nacks"]), s["nack"]
        return False, 0, ""

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
        _, before, _ = self._told(kind)
        self.feed.serve({**base, (kind, name): value})

        def verdict():
            taken, refused, why = self._told(kind)
            return [why] if refused > before else [None] if taken else None
        return until(verdict, what=f"Envoy to say something to {kind} {name}", interval=0.001)[0]

    def _quiet(self):
        calm = [0]

        def quiet():
            calm[0] = calm[0] + 1 if all(s["pending"] == "0" for s in self.feed.status()) else 0
            return calm[0] == 3
        until(quiet, what="Envoy to have answered all", interval=0.02)
