/* SPDX-License-Identifier: Apache-2.0 */
/* Services and the refusals a kube-apiserver recorded for them. */
static const struct service_case services[] = {
    {"s", "clusterIP: None", ""},
    {"2bad", "ports: [{port: 80}]",
     "metadata.name: Invalid value: \"2bad\": a DNS-1035 label must consist of lower case "
     "alphanumeric characters or '-', start with an alphabetic character, and end with an "
     "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
     "'[a-z]([-a-z0-9]*[a-z0-9])?')"},
    {"s", "clusterIP: None, ports: [{port: 0}]",
     "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, "
     "inclusive\nspec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, "
     "inclusive"},
    {"s", "clusterIP: None, ports: [{port: 70000, targetPort: 0}]",
     "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, "
     "inclusive\nspec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, "
     "inclusive"},
    {"s", "clusterIP: None, ports: [{port: 80}, {port: 81}]",
     "spec.ports[0].name: Required value\nspec.ports[1].name: Required value"},
    {"s", "clusterIP: None, ports: [{name: a, port: 80}, {name: a, port: 81}]",
     "spec.ports[1].name: Duplicate value: \"a\""},
    {"s", "clusterIP: None, ports: [{name: Bad, port: 80}]",
     "spec.ports[0].name: Invalid value: \"Bad\": a lowercase RFC 1123 label must consist of lower "
     "case alphanumeric characters or '-', and must start and end with an alphanumeric character "
     "(e.g. 'my-name',  or '123-abc', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"},
    {"s", "clusterIP: None, ports: [{port: 80, protocol: XTP}]",
     "spec.ports[0].protocol: Unsupported value: \"XTP\": supported values: \"SCTP\", \"TCP\", "
     "\"UDP\""},
    {"s", "clusterIP: None, ports: [{port: 80, targetPort: \"not a name\"}]",
     "spec.ports[0].targetPort: Invalid value: \"not a name\": must contain only alpha-numeric "
     "characters (a-z, 0-9), and hyphens (-)"},
    {"s", "type: Wrong, ports: [{port: 80}]",
     "spec.type: Unsupported value: \"Wrong\": supported values: \"ClusterIP\", \"ExternalName\", "
     "\"LoadBalancer\", \"NodePort\""},
    {"s", "type: ExternalName", "spec.externalName: Required value"},
    {"s", "type: ExternalName, externalName: \"under_score.\"",
     "spec.externalName: Invalid value: \"under_score\": a lowercase RFC 1123 subdomain must "
     "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
     "alphanumeric character (e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"},
    {"s", "clusterIP: None, sessionAffinity: Maybe, ports: [{port: 80}]",
     "spec.sessionAffinity: Unsupported value: \"Maybe\": supported values: \"ClientIP\", "
     "\"None\""},
    {"s", "clusterIP: nonsense, ports: [{port: 80}]",
     "spec.clusterIPs[0]: Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 "
     "or 2001:db8::ffff)"},
    {"s", "clusterIP: None, selector: {\"bad key\": x}, ports: [{port: 80}]",
     "spec.selector: Invalid value: \"bad key\": name part must consist of alphanumeric "
     "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
     "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"},
};
