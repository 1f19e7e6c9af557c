# SPDX-License-Identifier: Apache-2.0
"""Envoy's own message definitions, for checks that do not trust ours.

They come with the npm package @grpc/grpc-js-xds; protoc-c reads them (it is protoc with a
generator built in) and python3-protobuf makes classes of them.
"""
import os
import re
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# What the package leaves to the compiler's own directory.
WELL_KNOWN = {
    "any": "message Any { string type_url = 1; bytes value = 2; }",
    "duration": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "timestamp": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "empty": "message Empty {}",
    "struct": """message Struct { map<string, Value> fields = 1; }
        message Value { oneof kind { NullValue null_value = 1; double number_value = 2;
          string string_value = 3; bool bool_value = 4; Struct struct_value = 5;
          ListValue list_value = 6; } }
        enum NullValue { NULL_VALUE = 0; }
        message ListValue { repeated Value values = 1; }""",
    "wrappers": "".join(f"message {t}Value {{ {k} value = 1; }}\n" for t, k in (
        ("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "uint64"),
        ("Int32", "int32"), ("UInt32", "uint32"), ("Bool", "bool"), ("String", "string"),
        ("Bytes", "bytes"))),
}

# The options that the definitions set, and room for the annotations they declare.
DESCRIPTOR = """syntax = "proto2";
package google.protobuf;
message FileOptions { optional string java_package = 1; optional string java_outer_classname = 8;
  optional bool java_multiple_files = 10; optional string go_package = 11;
  optional bool cc_enable_arenas = 31; optional string objc_class_prefix = 36;
  optional string csharp_namespace = 37; optional string php_namespace = 41;
  optional string ruby_package = 45; extensions 1000 to max; }
message MessageOptions { optional bool deprecated = 3; optional bool map_entry = 7;
  extensions 1000 to max; }
message FieldOptions { optional bool packed = 2; optional bool deprecated = 3;
  extensions 1000 to max; }
message OneofOptions { extensions 1000 to max; }
message EnumOptions { optional bool allow_alias = 2; optional bool deprecated = 3;
  extensions 1000 to max; }
message EnumValueOptions { optional bool deprecated = 1; extensions 1000 to max; }
message ServiceOptions { optional bool deprecated = 33; extensions 1000 to max; }
message MethodOptions { optional bool deprecated = 33; extensions 1000 to max; }
"""

E = "envoy/extensions/"
FILES = [
    "envoy/config/bootstrap/v3/bootstrap.proto",
    "envoy/config/listener/v3/listener.proto",
    "envoy/config/route/v3/route.proto",
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/config/endpoint/v3/endpoint.proto",
    "envoy/service/discovery/v3/discovery.proto",
    E + "transport_sockets/tls/v3/tls.proto",
    E + "transport_sockets/raw_buffer/v3/raw_buffer.proto",
    E + "transport_sockets/internal_upstream/v3/internal_upstream.proto",
    E + "bootstrap/internal_listener/v3/internal_listener.proto",
    E + "filters/network/http_connection_manager/v3/http_connection_manager.proto",
    E + "filters/network/tcp_proxy/v3/tcp_proxy.proto",
    E + "filters/network/set_filter_state/v3/set_filter_state.proto",
    E + "filters/http/set_filter_state/v3/set_filter_state.proto",
    E + "filters/http/router/v3/router.proto",
    E + "filters/http/cors/v3/cors.proto",
    E + "filters/http/compressor/v3/compressor.proto",
    E + "compression/gzip/compressor/v3/gzip.proto",
    E + "filters/http/health_check/v3/health_check.proto",
    E + "filters/http/local_ratelimit/v3/local_rate_limit.proto",
    E + "filters/http/lua/v3/lua.proto",
    E + "filters/http/ext_authz/v3/ext_authz.proto",
    E + "filters/http/stateful_session/v3/stateful_session.proto",
    E + "http/stateful_session/cookie/v3/cookie.proto",
    E + "http/stateful_session/header/v3/header.proto",
    E + "filters/udp/udp_proxy/v3/udp_proxy.proto",
    E + "filters/udp/udp_proxy/v3/route.proto",
    E + "filters/udp/udp_proxy/session/http_capsule/v3/http_capsule.proto",
    E + "filters/listener/tls_inspector/v3/tls_inspector.proto",
    E + "filters/listener/proxy_protocol/v3/proxy_protocol.proto",
    E + "upstreams/http/v3/http_protocol_options.proto",
    E + "access_loggers/file/v3/file.proto",
    E + "access_loggers/stream/v3/stream.proto",
    E + "access_loggers/grpc/v3/als.proto",
    E + "retry/host/previous_hosts/v3/previous_hosts.proto",
    E + "network/dns_resolver/getaddrinfo/v3/getaddrinfo_dns_resolver.proto",
    *(E + f"load_balancing_policies/{n}/v3/{n}.proto" for n in (
        "least_request", "round_robin", "random", "ring_hash", "maglev", "wrr_locality",
        "cluster_provided")),
]


def package_dir(root):
    """Directory of the npm package's definitions, or None where it is not installed."""
    path = os.path.join(root, "tests/e2e/clients/node_modules/@grpc/grpc-js-xds/deps")
    return path if os.path.isdir(os.path.join(path, "envoy-api")) else None


def describe(dirs, files):
    """A FileDescriptorSet of the files and all they import."""
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        command = ["protoc-c", "--include_imports", f"--descriptor_set_out={out.name}"]
        command += [f"--proto_path={d}" for d in dirs]
        subprocess.run(command + files, check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read())


def patch_validate(deps, to):
    """The package's copy of the annotations is older than what uses them: one word is missing."""
    with open(os.path.join(deps, "protoc-gen-validate/validate/validate.proto"),
              encoding="utf-8") as f:
        text = f.read()
    if "ignore_empty" not in text:
        text = re.sub(r"(message \w+Rules \{)", r"\1 optional bool ignore_empty = 900;", text)
    os.makedirs(os.path.join(to, "validate"))
    with open(os.path.join(to, "validate/validate.proto"), "w", encoding="utf-8") as f:
        f.write(text)


class Envoy:
    """Message classes by full name."""

    def __init__(self, root):
        deps = package_dir(root)
        assert deps, "run npm ci in tests/e2e/clients"
        with tempfile.TemporaryDirectory() as tmp:
            known = os.path.join(tmp, "google/protobuf")
            os.makedirs(known)
            for name, text in WELL_KNOWN.items():
                with open(os.path.join(known, name + ".proto"), "w", encoding="utf-8") as f:
                    f.write(f'syntax = "proto3";\npackage google.protobuf;\n{text}\n')
            with open(os.path.join(known, "descriptor.proto"), "w", encoding="utf-8") as f:
                f.write(DESCRIPTOR)
            patch_validate(deps, tmp)
            dirs = [tmp] + [os.path.join(deps, d) for d in
                            ("envoy-api", "xds", "googleapis", "protoc-gen-validate")]
            self.files = describe(dirs, FILES)
        self.pool = descriptor_pool.DescriptorPool()
        for f in self.files.file:
            self.pool.Add(f)
        self.factory = message_factory.MessageFactory(self.pool)

    def message(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))
