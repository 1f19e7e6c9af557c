/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings about Services that are valid. */
#include <arpa/inet.h>
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/builtin/service.h"

static void warn_ip(struct sw_texts *out, const char *field, struct sw_slice ip)
{
    char text[64];
    char canon[INET6_ADDRSTRLEN];
    struct in6_addr in;

    if (!ip.p || ip.n >= sizeof(text))
        return;
    memcpy(text, ip.p, ip.n);
    text[ip.n] = 0;
    if (inet_pton(AF_INET6, text, &in) != 1 || !inet_ntop(AF_INET6, &in, canon, sizeof(canon)))
        return;
    if (IN6_IS_ADDR_V4MAPPED(&in))
        sw_texts_add(out, sw_arena_printf(out->arena,
                                          "%s: non-standard IP address \"%s\" will be considered "
                                          "invalid in a future Kubernetes release: use \"%s\"",
                                          field, text, canon + strlen("::ffff:")));
    else if (strcmp(text, canon) != 0)
        sw_texts_add(out, sw_arena_printf(out->arena,
                                          "%s: IPv6 address \"%s\" should be in RFC 5952 canonical "
                                          "format (\"%s\")",
                                          field, text, canon));
}

static void warn_ips(struct sw_texts *out, const struct sw_json *spec, const char *key)
{
    const struct sw_json *list = sw_json_find(spec, key);

    for (size_t i = 0; i < sw_json_len(list); i++)
        warn_ip(out, sw_arena_printf(out->arena, "spec.%s[%zu]", key, i),
                sw_json_str(sw_json_at(list, i)));
}

/* An address with bits behind its prefix: a network, or a host? */
static void warn_cidr(struct sw_texts *out, size_t i, struct sw_slice cidr)
{
    struct sw_slice bits = cidr;
    struct sw_slice ip = sw_slice_cut(&bits, '/');
    char text[16];
    char net[INET_ADDRSTRLEN];
    struct in_addr in;
    uint64_t n;

    if (!sw_is_ipv4(ip) || !bits.p || !sw_slice_to_u64(bits, 32, &n))
        return;
    memcpy(text, ip.p, ip.n);
    text[ip.n] = 0;
    if (inet_pton(AF_INET, text, &in) != 1)
        return;
    in.s_addr &= htonl(n ? UINT32_MAX << (32 - n) : 0);
    if (inet_ntop(AF_INET, &in, net, sizeof(net)) && strcmp(net, text) != 0)
        sw_texts_add(out, sw_arena_printf(out->arena,
                                          "spec.loadBalancerSourceRanges[%zu]: CIDR value "
                                          "\"%.*s\" is ambiguous in this context (should be "
                                          "\"%s/%llu\" or \"%s/32\"?)",
                                          i, SW_SLICE_ARG(cidr), net, (unsigned long long)n, text));
}

void sw_service_warnings(const struct sw_json *svc, struct sw_texts *out)
{
    const struct sw_json *spec = sw_json_find(svc, "spec");
    const struct sw_json *ranges = sw_json_find(spec, "loadBalancerSourceRanges");

    if (sw_json_find(sw_json_walk(svc, "metadata", "annotations", NULL),
                     "service.kubernetes.io/topology-aware-hints"))
        sw_texts_add(out, "annotation service.kubernetes.io/topology-aware-hints is deprecated, "
                          "please use service.kubernetes.io/topology-mode instead");
    warn_ips(out, spec, "clusterIPs");
    warn_ips(out, spec, "externalIPs");
    if (sw_field_text(spec, "loadBalancerIP").n)
        warn_ip(out, "spec.loadBalancerIP", sw_field_text(spec, "loadBalancerIP"));
    for (size_t i = 0; i < sw_json_len(ranges); i++)
        warn_cidr(out, i, sw_json_str(sw_json_at(ranges, i)));
    if (sw_field_is(spec, "type", "ExternalName") && sw_json_len(sw_json_find(spec, "externalIPs")))
        sw_texts_add(out, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    if (!sw_field_is(spec, "type", "ExternalName") && sw_field_text(spec, "externalName").n)
        sw_texts_add(out, "spec.externalName is ignored when spec.type is not \"ExternalName\"");
}
