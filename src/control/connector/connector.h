/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors: devices that carry traffic to places only they can reach. Two pure builds on the
 * runtime: one keeps Connectors and their Leases (who is alive, who may call them), the other turns
 * HTTPProxies into Gateways, HTTPRoutes and EndpointSlices. They are apart because Leases are
 * renewed all the time and HTTPProxies are not.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "control/device/device.h"
#include "control/device/hostname.h"
#include "control/runtime.h"
#include "kube/client/kinds.h"

/* On a Connector: NodeIDs of the gateways that may call it, in hex, joined by commas. */
#define SW_CONNECTOR_GATEWAY_IDS "spanwire.dev/gateway-ids"
/* On a Connector: where they are, "ID=ADDR[,ADDR...][;ID=...]". */
#define SW_CONNECTOR_GATEWAY_ADDRS "spanwire.dev/gateway-addresses"
/* On a Connector: URL of the relay its device should use if it has none of its own. */
#define SW_CONNECTOR_RELAY "spanwire.dev/relay"
/* Where gateways say who they are: ConfigMaps with this label, key "id". */
#define SW_CONNECTOR_SYSTEM_NS    "spanwire-system"
#define SW_CONNECTOR_GATEWAY_SELF "spanwire.dev/gateway-identity"
/* ConfigMap of that namespace: the fabric's relays, key "urls", one a line. */
#define SW_CONNECTOR_RELAYS "spanwire-relays"

/* Kinds of the view of sw_connector_build. */
enum sw_cn_kind {
    SW_CN_CLASS,
    SW_CN_CONNECTOR,
    SW_CN_LEASE,
    SW_CN_IDENTITY, /* ConfigMaps */
    SW_CN_NAMESPACE,
    SW_CN_GATEWAYCLASS,
    SW_CN_ROLE,    /* ClusterRoles */
    SW_CN_CLAIM,   /* see control/claims.h */
    SW_CN_POLICY,  /* ValidatingAdmissionPolicies */
    SW_CN_BINDING, /* of those */
    SW_CN_RELAYS,  /* the ConfigMap */
    SW_CN_KINDS,
};
extern const struct sw_control_kind sw_connector_kinds[SW_CN_KINDS];

/* Kinds of the view of sw_httpproxy_build. */
enum sw_hp_kind {
    SW_HP_PROXY,
    SW_HP_CLASS,
    SW_HP_CONNECTOR,
    SW_HP_ADVERTISEMENT,
    SW_HP_GATEWAY,
    SW_HP_ROUTE,
    SW_HP_SLICE,
    SW_HP_SECRET,  /* certificates we issued */
    SW_HP_PATCH,   /* EnvoyPatchPolicies */
    SW_HP_BACKEND, /* of Envoy Gateway, which takes no EndpointSlices as backends */
    SW_HP_CLAIM,
    SW_HP_LISTENERSET, /* these: names that others serve */
    SW_HP_GRPCROUTE,
    SW_HP_TLSROUTE,
    SW_HP_INGRESS,
    SW_HP_TCPROUTE,
    SW_HP_CA, /* ConfigMaps made for HTTPProxies */
    SW_HP_KINDS,
};
extern const struct sw_control_kind sw_httpproxy_kinds[SW_HP_KINDS];

/* Everything is borrowed. */
struct sw_connector_conf {
    uint32_t lease_s;                   /* how long a renewal counts [30] */
    const struct sw_slice *gateway_ids; /* in hex, besides those the API names */
    size_t n_gateway_ids;
    struct sw_slice gateway_class;      /* of the Gateways made for HTTPProxies ["spanwire"] */
    struct sw_slice gateway_controller; /* of that class, where it is missing */
    struct sw_slice target_domain;      /* of canonical names ["connect.localhost"] */
    struct sw_slice
        issuer; /* who issues certificates; a change issues all anew. Empty: no issuer */
    const struct sw_slice *cert_domains; /* it signs names at and below these, and no others */
    size_t n_cert_domains;
    uint16_t port_offset; /* of data planes' ports below 1024 */
    uint16_t port_first;  /* of those that HTTPProxies may have for TCP; 0: none */
    uint16_t port_last;
    struct sw_slice relay_url; /* what devices without a relay of their own should use */
    bool dns;                  /* keys are published: IrohDNSPublished says how it went */
    uint64_t dns_stale_ns;     /* silent for longer: the key is not published any more */
    bool envoy_gateway;  /* touch Gateways when a connector changes: it watches nothing else */
    bool patch_policies; /* write EnvoyPatchPolicies, for Envoy Gateway */
};

void sw_connector_build(const struct sw_view *v, const struct sw_connector_conf *conf,
                        struct sw_output *out);
void sw_httpproxy_build(const struct sw_view *v, const struct sw_connector_conf *conf,
                        struct sw_output *out);

/*
 * What sw_httpproxy_build publishes: certificates that are to be issued. The name is the Secret's
 * "ns/name"; the bytes are the Secret as JSON without its data, the name to certify in
 * its annotation SW_CONNECTOR_CERT_NAME.
 */
#define SW_CONNECTOR_CERT       "cert"
#define SW_CONNECTOR_CERT_NAME  "spanwire.dev/certificate-for"
#define SW_CONNECTOR_CERT_LABEL "spanwire.dev/issued"
#define SW_CONNECTOR_CERT_UNTIL "spanwire.dev/certificate-until" /* RFC 3339 */
#define SW_CONNECTOR_CERT_BY    "spanwire.dev/certificate-issuer"
/* Its input (sw_view_input): "ns/name" of Secrets that could not be issued, a line each. */
/*
 * And its rules with connectors, for the extension server: the name is "ns/name/<index>", the
 * bytes are "<id> <target> <TLS name or ->", or "offline".
 */
#define SW_CONNECTOR_RULE "rule"
/* Both builds publish notes (sw_out_note), and who is there: "ns/name" with the NodeID. */
#define SW_CONNECTOR_ONLINE "online"
/* On an HTTPProxy: where it is served. */
#define SW_CONNECTOR_URL "spanwire.dev/url"
/* On a ConnectorClass, value "Strict": only what a ConnectorAdvertisement has is served. */
#define SW_CONNECTOR_STRICT "spanwire.dev/advertisement-policy"
/* On an HTTPProxy: Connectors that may stand in for the one its backends name. */
#define SW_CONNECTOR_SELECTOR "spanwire.dev/connector-selector"
/* On an HTTPProxy, value "RoundRobin": all of these get requests, and not just the oldest. */
#define SW_CONNECTOR_POLICY "spanwire.dev/connector-policy"
/* On an HTTPProxy: these CAs themselves, for who may write no ConfigMap. Wins over the other. */
#define SW_CONNECTOR_CA_PEM "spanwire.dev/backend-ca-pem"
enum { SW_CONNECTOR_CA_MAX = 64 << 10 };
/* On an HTTPProxy: bytes instead of requests, "TCP", "TCP/<port>" or "TLS"; see proxy_l4.c. */
#define SW_CONNECTOR_LAYER4 "spanwire.dev/layer4"
/* Finalizers of HTTPProxies and of Connectors whose key is published. */
#define SW_CONNECTOR_PROXY_CLEANUP SW_CONNECTOR_GROUP "/httpproxy-cleanup"
#define SW_CONNECTOR_DNS_CLEANUP   SW_CONNECTOR_GROUP "/iroh-dns-cleanup"
/* On a Gateway: what its connectors are like, so that Envoy Gateway looks again when one changes.
 */
#define SW_CONNECTOR_READY "networking.datumapis.com/connector-ready-generation"
/* The same on the HTTPRoute, with a prefix that Envoy Gateway takes into its translation: without
 * it a change of nothing but that would be no reason to call the hooks again. */
#define SW_CONNECTOR_READY_EG "gateway.envoyproxy.io/connector-ready"
