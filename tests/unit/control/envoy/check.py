#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our messages against Envoy's own definitions, by another implementation of protobuf.

    check.py SOURCE_ROOT TEST_GATEWAY_XDS TEST_GATEWAY_EXTENSION

Every field of our schemas has the number, the type and the place in Envoy's; every resource of
the golden cases decodes there, Anys included, without an unknown field, and encodes to the same
bytes again. The bootstrap, too, is one that Envoy's definitions know.
"""
import os
import re
import subprocess
import sys
import tempfile

import yaml

from google.protobuf import descriptor_pb2, json_format

from protos import Envoy, describe, package_dir

F = descriptor_pb2.FieldDescriptorProto
WELL_KNOWN = {"Any", "Duration", "Timestamp", "BoolValue", "UInt32Value", "UInt64Value",
              "Int32Value", "Int64Value", "DoubleValue", "StringValue", "BytesValue", "Struct",
              "Value", "ListValue", "Empty", "Status"}
# Fields that Envoy got after the package was made; their numbers are from Envoy 1.39.
NEWER = {
    "SocketAddress.network_namespace_filepath", "RouteMatch.filter_state", "RouteMatch.cookies",
    "WeightedCluster.use_hash_policy", "RouteAction.RequestMirrorPolicy.host_rewrite_literal",
    "DirectResponseAction.body_format", "CircuitBreakers.Thresholds.RetryBudget.budget_interval",
    "TcpProxy.upstream_connect_mode", "TcpProxy.max_early_data_bytes",
    "HttpSetFilterState.clear_route_cache", "ExtAuthzCheckSettings.grpc_service",
    "ExtAuthzCheckSettings.http_service", "SessionCookie.attributes",
    "DownstreamTlsContext.prefer_client_ciphers", "UpstreamTlsContext.auto_host_sni",
    "UpstreamTlsContext.auto_sni_san_validation", "ComparisonFilter.op",
    "OutlierDetection.monitors", "OutlierDetection.always_eject_one_host",
    "HealthCheck.TcpHealthCheck.proxy_protocol_config", "HttpProtocolOptions.max_response_headers_kb",
    "ProxyProtocol.disallowed_versions", "TlsParameters.compliance_policies",
    "CommonTlsContext.custom_tls_certificate_selector", "ExtAuthz.disallowed_headers",
    "ExtAuthz.decoder_header_mutation_rules",
}
# Types that it got after that; the numbers are from Envoy 1.37.
NEWER_TYPES = {"envoy.extensions.clusters.dns.v3.DnsCluster"}
# Those of them that the golden cases use, by number: what they hold is not looked into.
NEWER_NUMBERS = {"envoy.extensions.filters.http.ext_authz.v3.CheckSettings": {4, 5}}


class Schemas:
    """Compares message types of ours with Envoy's, from the table of types downwards."""

    def __init__(self, root, envoy):
        self.envoy = envoy
        directory = os.path.join(root, "src/proto")
        files = describe([directory], [f for f in sorted(os.listdir(directory))
                                       if f.endswith(".proto")])
        self.messages, self.enums = {}, {}
        for f in files.file:
            for e in f.enum_type:
                self.enums[f".sw.{e.name}"] = e
            for m in f.message_type:
                self.index(".sw.", m)
        with open(os.path.join(directory, "types.c"), encoding="utf-8") as f:
            text = f.read()
        prefixes = {"": "", "ENVOY": "envoy.extensions.",
                    "LB": "envoy.extensions.load_balancing_policies."}
        self.table = [(prefixes[prefix.strip()] + name, symbol) for prefix, name, symbol in
                      re.findall(r'\{((?:ENVOY |LB )?)"([^"]+)",\s*&sw__(\w+)__descriptor', text)]
        self.seen, self.problems, self.fields = set(), [], 0

    def index(self, prefix, message):
        self.messages[prefix + message.name] = message
        for e in message.enum_type:
            self.enums[f"{prefix}{message.name}.{e.name}"] = e
        for m in message.nested_type:
            self.index(f"{prefix}{message.name}.", m)

    def by_symbol(self, symbol):
        """protobuf-c lowers CamelCase; undo it by lowering all names the same way."""
        for name in self.messages:
            if re.sub(r"(?<=[^A-Z])([A-Z])", r"_\1", name[4:]).lower() == symbol:
                return name
        raise KeyError(symbol)

    def compare_field(self, ours, field, theirs):
        where = f"{ours[4:]}.{field.name}"
        theirs = theirs.fields_by_name.get(field.name)
        if theirs is None:
            if where not in NEWER:
                self.problems.append(f"{where}: Envoy has no such field")
            return
        kind = F.TYPE_BYTES if theirs.type == F.TYPE_STRING else theirs.type
        if theirs.number != field.number:
            self.problems.append(f"{where}: number {field.number}, Envoy's is {theirs.number}")
        if (theirs.label == F.LABEL_REPEATED) != (field.label == F.LABEL_REPEATED):
            self.problems.append(f"{where}: one and many")
        if field.type != kind and not (kind == F.TYPE_ENUM and
                                       field.type in (F.TYPE_INT32, F.TYPE_UINT32)):
            self.problems.append(f"{where}: type {field.type}, Envoy's is {kind}")
        elif field.type == F.TYPE_MESSAGE:
            name = field.type_name[4:]
            if name not in WELL_KNOWN:
                self.compare(field.type_name, theirs.message_type)
            elif name != theirs.message_type.name:
                self.problems.append(f"{where}: {name}, Envoy's is {theirs.message_type.name}")
        elif field.type == F.TYPE_ENUM and where not in NEWER:
            values = {v.name: v.number for v in theirs.enum_type.values}
            for v in self.enums[field.type_name].value:
                if values.get(v.name) != v.number:
                    self.problems.append(f"{where}: value {v.name}")

    def compare(self, ours, theirs):
        if (ours, theirs.full_name) in self.seen:
            return
        self.seen.add((ours, theirs.full_name))
        for field in self.messages[ours].field:
            self.fields += 1
            self.compare_field(ours, field, theirs)

    def run(self):
        for name, symbol in self.table:
            if name in NEWER_TYPES or name.startswith("istio."):
                continue
            self.compare(self.by_symbol(symbol), self.envoy.pool.FindMessageTypeByName(name))
        return self.problems


def open_all(envoy, message, where, problems):
    """Goes through a message and into its Anys; each must hold what its type says."""
    newer = NEWER_NUMBERS.get(message.DESCRIPTOR.full_name, set())
    if {u.field_number for u in message.UnknownFields()} - newer:
        problems.append(f"{where}: unknown fields")
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                continue
            items = list(value.values())
        elif field.label == F.LABEL_REPEATED:
            items = list(value)
        else:
            items = [value]
        for item in items:
            path = f"{where}.{field.name}"
            if item.DESCRIPTOR.full_name == "google.protobuf.Any":
                item = check(envoy, item.type_url.split("/")[-1], item.value, path, problems)
            open_all(envoy, item, path, problems)


def check(envoy, name, data, where, problems):
    message = envoy.message(name).FromString(data)
    if message.SerializeToString(deterministic=True) != data:
        problems.append(f"{where}: {name} encodes to other bytes")
    return message


def resources(envoy, program):
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as out:
        run_program(program, out)
        for name in sorted(os.listdir(out)):
            with open(os.path.join(out, name), "rb") as f:
                data = f.read()
            response = check(envoy, "envoy.service.discovery.v3.DiscoveryResponse", data, name,
                             problems)
            for any_ in response.resources:
                count += 1
                open_all(envoy, check(envoy, any_.type_url.split("/")[-1], any_.value, name,
                                      problems), name, problems)
    return problems, count


def run_program(program, out):
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=dict(os.environ, SW_XDS_OUT=out))


def bootstraps(envoy, program):
    """Parsed by the definitions, every name and value of the YAML must be one of theirs."""
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as out:
        run_program(program, out)
        for name in sorted(os.listdir(out)):
            with open(os.path.join(out, name), encoding="utf-8") as f:
                value = yaml.safe_load(f)
            message = envoy.message("envoy.config.bootstrap.v3.Bootstrap")()
            try:
                json_format.ParseDict(value, message, descriptor_pool=envoy.pool)
            except json_format.ParseError as e:
                problems.append(f"{name}: {e}")
                continue
            count += 1
            if not message.static_resources.clusters or not message.bootstrap_extensions:
                problems.append(f"{name}: parts are missing")
    return problems, count


def report(number, what, problems):
    print(f"{'not ok' if problems else 'ok'} {number} - {what}")
    for p in problems:
        print(f"# {p}")


def main():
    root, program, extension = sys.argv[1:4]
    if not package_dir(root):
        print("1..0 # SKIP npm ci was not run in tests/e2e/clients")
        return 0
    print("1..3")
    envoy = Envoy(root)
    schemas = Schemas(root, envoy)
    schema_problems = schemas.run()
    report(1, f"{schemas.fields} fields have Envoy's numbers", schema_problems)
    problems, count = resources(envoy, program)
    if count < 50:
        problems.append(f"only {count} resources")
    report(2, f"{count} resources decode and encode as Envoy's", problems)
    bootstrap_problems, count = bootstraps(envoy, extension)
    if count < 2:
        bootstrap_problems.append(f"only {count} bootstraps")
    report(3, f"{count} bootstraps are Envoy's", bootstrap_problems)
    return 1 if problems or schema_problems or bootstrap_problems else 0


sys.exit(main())
