# SPDX-License-Identifier: Apache-2.0
"""Every test of the suite (v1.6.1) with the features it needs and the manifest it applies."""
import dataclasses
import re

PROVISIONAL = "P"


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    manifest: str
    features: tuple
    provisional: bool
    absent: tuple  # features whose claim makes the test void

    @property
    def mesh(self):
        return "Mesh" in self.features

    @property
    def profiles(self):
        return [p for p, (core, more) in PROFILES.items()
                if set(self.features) <= core | {f for f in self.features if re.match(more, f)}
                and (not self.mesh or p.startswith("MESH"))]

    @property
    def core(self):
        """The profiles that cannot be passed without this test."""
        return [p for p in self.profiles if set(self.features) <= PROFILES[p][0] and not self.absent]


_BASE = {"Gateway", "ReferenceGrant"}
# Name: the features that are core, and a pattern of the extended ones.
PROFILES = {
    "GATEWAY-HTTP": (_BASE | {"HTTPRoute"}, r"Gateway|HTTPRoute|ListenerSet|BackendTLSPolicy|TLSRoute$"),
    "GATEWAY-GRPC": (_BASE | {"GRPCRoute"}, r"Gateway|GRPCRoute|ListenerSet"),
    "GATEWAY-TLS": (_BASE | {"TLSRoute"}, r"Gateway|TLSRoute|ListenerSet"),
    "GATEWAY-TCP": (_BASE | {"TCPRoute"}, r"Gateway|TCPRoute|ListenerSet"),
    "GATEWAY-UDP": (_BASE | {"UDPRoute"}, r"Gateway|UDPRoute|ListenerSet"),
    "MESH-HTTP": ({"Mesh", "HTTPRoute"}, r"Mesh|HTTPRoute"),
    "MESH-GRPC": ({"Mesh", "GRPCRoute"}, r"Mesh|GRPCRoute"),
}

# name | manifest | features besides those the name's group implies | P: provisional
_GROUPS = (
    (("Gateway",), """
GatewayClassObservedGenerationBump | gatewayclass-observed-generation-bump
GatewayObservedGenerationBump | gateway-observed-generation-bump
GatewayModifyListeners | gateway-modify-listeners | HTTPRoute
GatewayListenerUnsupportedProtocol | gateway-invalid-listeners-unsupported-protocol
GatewayInvalidParametersRef | gateway-invalid-parameters-ref
GatewayInvalidRouteKind | gateway-invalid-route-kind | HTTPRoute
GatewayInvalidTLSConfiguration | gateway-invalid-tls-configuration
GatewaySecretMissingReferenceGrant | gateway-secret-missing-reference-grant | ReferenceGrant
GatewaySecretInvalidReferenceGrant | gateway-secret-invalid-reference-grant | ReferenceGrant
GatewaySecretReferenceGrantAllInNamespace | gateway-secret-reference-grant-all-in-namespace | ReferenceGrant
GatewaySecretReferenceGrantSpecific | gateway-secret-reference-grant-specific | ReferenceGrant
GatewayWithAttachedRoutes | gateway-with-attached-routes | HTTPRoute
GatewayWithAttachedRoutesWithPort8080 | gateway-with-attached-routes-with-port-8080 | HTTPRoute GatewayPort8080
GatewayHTTPListenerIsolation | gateway-http-listener-isolation gateway-http-listener-isolation-with-hostname-intersection | HTTPRoute GatewayHTTPListenerIsolation
GatewayStaticAddresses | gateway-static-addresses | GatewayStaticAddresses
GatewayOptionalAddressValue | gateway-optional-address-value | GatewayAddressEmpty | P
GatewayInfrastructure | gateway-infrastructure | GatewayInfrastructurePropagation | P
GatewayFrontendClientCertificateValidation | gateway-with-clientcertificate-validation | HTTPRoute GatewayFrontendClientCertificateValidation
GatewayFrontendClientCertificateValidationInsecureFallback | gateway-with-clientcertificate-validation-insecure-fallback | HTTPRoute GatewayFrontendClientCertificateValidation GatewayFrontendClientCertificateValidationInsecureFallback
GatewayInvalidFrontendClientCertificateValidation | gateway-with-invalid-clientcertificate-validation | HTTPRoute ReferenceGrant GatewayFrontendClientCertificateValidation
GatewayFrontendInvalidDefaultClientCertificateValidation | gateway-invalid-default-frontend-client-certificate-validation | HTTPRoute ReferenceGrant GatewayFrontendClientCertificateValidation
GatewayTLSBackendClientCertificate | gateway-tls-backend-client-certificate | HTTPRoute GatewayBackendClientCertificate BackendTLSPolicy
GatewayInvalidTLSBackendConfiguration | gateway-invalid-tls-backend-configuration | GatewayBackendClientCertificate
"""),
    (("Gateway", "HTTPRoute", "BackendTLSPolicy"), """
BackendTLSPolicy | backendtlspolicy
BackendTLSPolicySANValidation | backendtlspolicy-san | BackendTLSPolicySANValidation
BackendTLSPolicyConflictResolution | backendtlspolicy-conflict-resolution
BackendTLSPolicyInvalidCACertificateRef | backendtlspolicy-invalid-ca-certificate-ref
BackendTLSPolicyInvalidKind | backendtlspolicy-invalid-kind
BackendTLSPolicyObservedGenerationBump | backendtlspolicy-observed-generation-bump
"""),
    (("Gateway", "HTTPRoute"), """
HTTPRouteSimpleSameNamespace | httproute-simple-same-namespace
HTTPRouteCrossNamespace | httproute-cross-namespace
HTTPRouteExactPathMatching | httproute-exact-path-matching
HTTPRouteHeaderMatching | httproute-header-matching
HTTPRouteMatching | httproute-matching
HTTPRouteMatchingAcrossRoutes | httproute-matching-across-routes
HTTPRoutePathMatchOrder | httproute-path-match-order
HTTPRouteHostnameIntersection | httproute-hostname-intersection
HTTPRouteListenerHostnameMatching | httproute-listener-hostname-matching
HTTPRouteHTTPSListener | httproute-https-listener
HTTPRouteMultipleGateways | httproute-multiple-gateways
HTTPRouteDisallowedKind | httproute-disallowed-kind | TLSRoute
HTTPRouteInvalidCrossNamespaceParentRef | httproute-invalid-cross-namespace-parent-ref
HTTPRouteInvalidParentRefNotMatchingSectionName | httproute-invalid-parentref-not-matching-section-name
HTTPRouteInvalidBackendRefUnknownKind | httproute-invalid-backendref-unknown-kind
HTTPRouteInvalidNonExistentBackendRef | httproute-invalid-nonexistent-backendref
HTTPRouteInvalidCrossNamespaceBackendRef | httproute-invalid-cross-namespace-backend-ref | ReferenceGrant
HTTPRouteInvalidReferenceGrant | httproute-invalid-reference-grant | ReferenceGrant
HTTPRoutePartiallyInvalidViaInvalidReferenceGrant | httproute-partially-invalid-via-invalid-reference-grant | ReferenceGrant
HTTPRouteReferenceGrant | httproute-reference-grant | ReferenceGrant
HTTPRouteNoBackendRefs | httproute-omitted-backendrefs
HTTPRouteObservedGenerationBump | httproute-observed-generation-bump
HTTPRouteRedirectHostAndStatus | httproute-redirect-host-and-status
HTTPRouteRequestHeaderModifier | httproute-request-header-modifier
HTTPRouteServiceTypes | httproute-service-types
HTTPRouteWeight | httproute-weight
HTTPRoute303Redirect | httproute-303-redirect | HTTPRoute303RedirectStatusCode
HTTPRoute307Redirect | httproute-307-redirect | HTTPRoute307RedirectStatusCode
HTTPRoute308Redirect | httproute-308-redirect | HTTPRoute308RedirectStatusCode | P
HTTPRouteRedirectPath | httproute-redirect-path | HTTPRoutePathRedirect
HTTPRouteRedirectPort | httproute-redirect-port | HTTPRoutePortRedirect
HTTPRouteRedirectPortAndScheme | httproute-redirect-port-and-scheme | HTTPRoutePortRedirect GatewayPort8080
HTTPRouteRedirectScheme | httproute-redirect-scheme | HTTPRouteSchemeRedirect
HTTPRouteRewriteHost | httproute-rewrite-host | HTTPRouteHostRewrite
HTTPRouteRewritePath | httproute-rewrite-path | HTTPRoutePathRewrite
HTTPRouteMethodMatching | httproute-method-matching | HTTPRouteMethodMatching
HTTPRouteQueryParamMatching | httproute-query-param-matching | HTTPRouteQueryParamMatching
HTTPRouteResponseHeaderModifier | httproute-response-header-modifier | HTTPRouteResponseHeaderModification
HTTPRouteBackendRequestHeaderModifier | httproute-request-header-modifier-backend | HTTPRouteBackendRequestHeaderModification
HTTPRouteRequestHeaderModifierBackendWeights | httproute-request-header-modifier-backend-weights | HTTPRouteBackendRequestHeaderModification
HTTPRouteRequestMirror | httproute-request-mirror | HTTPRouteRequestMirror
HTTPRouteRequestMultipleMirrors | httproute-request-multiple-mirrors | HTTPRouteRequestMirror HTTPRouteRequestMultipleMirrors
HTTPRouteRequestPercentageMirror | httproute-request-percentage-mirror | HTTPRouteRequestPercentageMirror | P
HTTPRouteTimeoutRequest | httproute-timeout-request | HTTPRouteRequestTimeout
HTTPRouteTimeoutBackendRequest | httproute-timeout-backend-request | HTTPRouteBackendTimeout
HTTPRouteRetry | httproute-retry | HTTPRouteRetry
HTTPRouteListenerPortMatching | httproute-listener-port-matching | HTTPRouteParentRefPort
HTTPRouteInvalidParentRefSectionNameNotMatchingPort | httproute-invalid-parentref-section-name-not-matching-port | HTTPRouteParentRefPort
HTTPRouteInvalidParentRefNotMatchingListenerPort | httproute-invalid-parentref-not-matching-listener-port | HTTPRouteDestinationPortMatching
HTTPRouteBackendProtocolH2C | httproute-backend-protocol-h2c | HTTPRouteBackendProtocolH2C
HTTPRouteBackendProtocolWebSocket | httproute-backend-protocol-websocket | HTTPRouteBackendProtocolWebSocket
HTTPRouteCORS | httproute-cors | HTTPRouteCORS
HTTPRouteNamedRule | httproute-named-rule | HTTPRouteNamedRouteRule | P
HTTPRouteHTTPSListenerDetectMisdirectedRequests | httproute-https-listener-detect-misdirected-requests | GatewayHTTPSListenerDetectMisdirectedRequests
"""),
    (("Gateway", "GRPCRoute"), """
GRPCExactMethodMatching | grpcroute-exact-method-matching
GRPCRouteHeaderMatching | grpcroute-header-matching
GRPCRouteListenerHostnameMatching | grpcroute-listener-hostname-matching
GRPCRouteWeight | grpcroute-weight
GRPCRouteNamedRule | grpcroute-named-rule | GRPCRouteNamedRouteRule | P
"""),
    (("Gateway", "TLSRoute"), """
TLSRouteSimpleSameNamespace | tlsroute-simple-same-namespace
TLSRouteHostnameIntersection | tlsroute-hostname-intersection
TLSRouteInvalidNoMatchingListener | tlsroute-invalid-no-matching-listener
TLSRouteInvalidNoMatchingListenerHostname | tlsroute-invalid-no-matching-listener-hostname
TLSRouteInvalidBackendRefNonexistent | tlsroute-invalid-backendref-nonexistent
TLSRouteInvalidBackendRefUnknownKind | tlsroute-invalid-backendref-unknown-kind
TLSRouteInvalidReferenceGrant | tlsroute-invalid-reference-grant | ReferenceGrant
TLSRouteListenerPassthroughSupportedKinds | tlsroute-listener-passthrough-supported-kinds
TLSRouteListenerTerminateSupportedKinds | tlsroute-listener-terminate-supported-kinds | TLSRouteModeTerminate
TLSRouteListenerTerminateNotSupported | tlsroute-listener-terminate-not-supported | !TLSRouteModeTerminate
TLSRouteListenerMixedTerminationNotSupported | tlsroute-listener-mixed-termination-not-supported | TLSRouteModeTerminate !TLSRouteModeMixed
TLSRouteTerminateSimpleSameNamespace | tlsroute-terminate-simple-same-namespace | TLSRouteModeTerminate | P
TLSRouteMixedTerminationSameNamespace | tlsroute-mixed-termination-same-namespace | TLSRouteModeTerminate TLSRouteModeMixed | P
"""),
    (("Gateway", "TCPRoute"), """
TCPRouteParentRefAttachAll | tcproute-parentref-attach-all | | P
TCPRouteParentRefPortAndSectionName | tcproute-parentref-port-and-section-name | | P
TCPRouteMultipleRoutesAttachment | tcproute-multiple-routes-attachment
TCPRouteWeightedRouting | tcproute-weighted-routing | | P
TCPRouteReferenceGrant | tcproute-reference-grant | ReferenceGrant | P
TCPRouteInvalidBackendRefNonexistent | tcproute-invalid-backendref-nonexistent | | P
TCPRouteInvalidCrossNamespaceBackendRef | tcproute-invalid-cross-namespace-backend-ref | ReferenceGrant | P
TCPRouteInvalidNonTCPListener | tcproute-invalid-non-tcp-listener | | P
"""),
    (("Gateway", "UDPRoute"), """
UDPRoute | udproute-simple | | P
UDPRouteParentRefAttachAllListeners | udproute-parentref-attach-all-listeners | | P
UDPRouteParentRefPortAndSectionName | udproute-parentref-port-and-section-name | | P
UDPRouteMultipleRoutesAttachment | udproute-multiple-routes-attachment | | P
UDPRouteWeightedRouting | udproute-weighted-routing | | P
UDPRouteReferenceGrant | udproute-reference-grant | ReferenceGrant | P
UDPRouteInvalidBackendRefNonexistent | udproute-invalid-backendref-nonexistent | | P
UDPRouteInvalidCrossNamespaceBackendRef | udproute-invalid-cross-namespace-backend-ref | ReferenceGrant | P
UDPRouteNotAllowedByListeners | udproute-not-allowed-by-listeners | | P
"""),
    (("Gateway", "ListenerSet"), """
ListenerSetDefaultNotAllowed | listenerset-default-not-allowed
ListenerSetAllowedNamespaceNone | listenerset-allowed-namespace-none
ListenerSetAllowedNamespaceSame | listenerset-allowed-namespace-same
ListenerSetAllowedNamespaceSelector | listenerset-allowed-namespace-selector
ListenerSetAllowedRoutesNamespaces | listenerset-allowed-routes-namespaces | HTTPRoute ReferenceGrant
ListenerSetAllowedRoutesSupportedKinds | listenerset-allowed-routes-supported-kinds | TLSRoute
ListenerSetHTTPRouting | listenerset-http-routing | HTTPRoute
ListenerSetHostnameConflict | listenerset-hostname-conflict
ListenerSetProtocolConflict | listenerset-protocol-conflict
ListenerSetReferenceGrant | listenerset-reference-grant | ReferenceGrant
ListenerSetGatewayParentSectionNameNotFound | listenerset-gateway-parent-section-name-not-found | HTTPRoute
ListenerSetDualParentRefIndependence | listenerset-dual-parentref-independence | HTTPRoute
ListenerSetRouteStatusScopedToParentRef | listenerset-route-status-scoped-to-parentref | HTTPRoute
"""),
    (("Mesh", "HTTPRoute"), """
MeshBasic |
MeshTrafficSplit | mesh/mesh-split
MeshFrontend | mesh/mesh-frontend
MeshFrontendHostname | mesh/mesh-frontend | MeshClusterIPMatching
MeshPorts | mesh/mesh-ports | HTTPRouteParentRefPort
MeshConsumerRoute | mesh/mesh-consumer-route | MeshConsumerRoute
MeshHTTPRouteSimpleSameNamespace | mesh/httproute-simple-same-namespace
MeshHTTPRouteMatching | mesh/httproute-matching
MeshHTTPRouteWeight | mesh/httproute-weight
MeshHTTPRouteRedirectHostAndStatus | mesh/httproute-redirect-host-and-status
MeshHTTPRouteRequestHeaderModifier | mesh/httproute-request-header-modifier
MeshHTTPRouteBackendRequestHeaderModifier | mesh/httproute-request-header-modifier-backend | MeshHTTPRouteBackendRequestHeaderModification
MeshHTTPRouteQueryParamMatching | mesh/httproute-query-param-matching | MeshHTTPRouteQueryParamMatching
MeshHTTPRouteRedirectPath | mesh/httproute-redirect-path | MeshHTTPRouteRedirectPath
MeshHTTPRouteRedirectPort | mesh/httproute-redirect-port | MeshHTTPRouteRedirectPort
MeshHTTPRouteSchemeRedirect | mesh/httproute-redirect-scheme | MeshHTTPRouteSchemeRedirect
MeshHTTPRouteRewritePath | mesh/httproute-rewrite-path | MeshHTTPRouteRewritePath
MeshHTTPRouteNamedRule | mesh/httproute-named-rule | MeshHTTPRouteNamedRouteRule | P
MeshHTTPRoute303Redirect | mesh/httproute-303-redirect | HTTPRoute303RedirectStatusCode
MeshHTTPRoute307Redirect | mesh/httproute-307-redirect | HTTPRoute307RedirectStatusCode
MeshHTTPRoute308Redirect | mesh/httproute-308-redirect | HTTPRoute308RedirectStatusCode | P
"""),
    (("Mesh", "GRPCRoute"), """
MeshGRPCRouteWeight | mesh/grpcroute-weight
"""),
)


def _read():
    found = {}
    for implied, lines in _GROUPS:
        for line in lines.strip().splitlines():
            name, manifest, more, mark = (part.strip() for part in (line + "| | |").split("|")[:4])
            words = more.split()
            features = dict.fromkeys((*implied, *(w for w in words if w[0] != "!")))
            found[name] = Entry(name, manifest, tuple(features), mark == PROVISIONAL,
                                tuple(w[1:] for w in words if w[0] == "!"))
    return found


ENTRIES = _read()
