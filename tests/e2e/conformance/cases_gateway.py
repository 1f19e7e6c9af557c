# SPDX-License-Identifier: Apache-2.0
"""GatewayClass and Gateway: conditions, listeners, addresses, certificates of clients."""
from .credentials import INFRA
from .registry import registry
from .traffic import Expect, Tls, cut_off, eventually

CASES, case = registry()
GOOD = {"Accepted": "True", "Programmed": "True", "ResolvedRefs": "True"}
HTTP_KINDS = ["HTTPRoute", "GRPCRoute"]


def server(s):
    return s.credentials.pairs["tls-validity-checks-certificate"]


def generation_bump(s, kind, name, changes, namespace=INFRA, wanted=None):
    """After a change of the spec every condition is about the new generation."""
    wanted = wanted or {"Accepted": "True"}
    before = s.wait(kind, name, wanted, namespace)["metadata"]["generation"]
    s.cluster.patch(kind, name, namespace, changes)
    after = s.wait(kind, name, wanted, namespace)["metadata"]["generation"]
    assert after > before, f"generation {after} after {before}"


@case("GatewayClassObservedGenerationBump")
def class_generation(s):
    generation_bump(s, "GatewayClass", "gatewayclass-observed-generation-bump", {"spec": {"description": "new"}},
                    None)


@case("GatewayObservedGenerationBump")
def gateway_generation(s):
    s.gateways_ready()
    generation_bump(s, "Gateway", "gateway-observed-generation-bump", [
        {"op": "add", "path": "/spec/listeners/-", "value": {
            "name": "alternate", "hostname": "foo.com", "port": 80, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}}}}], wanted={"Accepted": "True", "Programmed": "True"})
    s.listeners("gateway-observed-generation-bump", {"http": GOOD, "alternate": GOOD})


@case("GatewayModifyListeners")
def modify_listeners(s):
    s.ready()
    whole = {**GOOD, "kinds": HTTP_KINDS, "attached": 1}
    tls = Tls("secure.test.com", server(s))
    secure = Expect(host="secure.test.com", tls=tls, backend="infra-backend-v1")

    s.listeners("gateway-add-listener", {"https": whole})
    s.expect(s.addr("gateway-add-listener", 443), secure)
    s.cluster.patch("Gateway", "gateway-add-listener", INFRA, [
        {"op": "add", "path": "/spec/listeners/-", "value": {
            "name": "http", "hostname": "data.test.com", "port": 80, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}}}}])
    s.listeners("gateway-add-listener", {"https": whole, "http": whole})
    s.expect(s.addr("gateway-add-listener"), Expect(host="data.test.com", backend="infra-backend-v1"))
    s.expect(s.addr("gateway-add-listener", 443), secure)

    s.listeners("gateway-remove-listener", {"https": whole, "http": whole})
    s.expect(s.addr("gateway-remove-listener"), Expect(host="data.test.com", backend="infra-backend-v1"))
    s.cluster.patch("Gateway", "gateway-remove-listener", INFRA, [{"op": "remove", "path": "/spec/listeners/1"}])
    s.listeners("gateway-remove-listener", {"https": whole})
    left = s.cluster.get("Gateway", "gateway-remove-listener", INFRA)["status"]["listeners"]
    assert [one["name"] for one in left] == ["https"], left
    eventually(lambda: cut_off(s.addr("gateway-remove-listener")), "port 80 to close")
    s.expect(s.addr("gateway-remove-listener", 443), secure)


@case("GatewayListenerUnsupportedProtocol")
def unsupported_protocol(s):
    bad = {"Accepted": ("False", "UnsupportedProtocol"), "Programmed": "False", "kinds": [], "attached": 0}
    s.wait("Gateway", "gateway-only-unsupported-protocols", {"Accepted": ("False", "ListenersNotValid")})
    s.listeners("gateway-only-unsupported-protocols", {"invalid": bad})
    s.wait("Gateway", "gateway-supported-and-unsupported-protocols", {"Accepted": ("True", "ListenersNotValid")})
    s.listeners("gateway-supported-and-unsupported-protocols",
                {"http": {**GOOD, "kinds": HTTP_KINDS, "attached": 0}, "invalid": bad})


@case("GatewayInvalidParametersRef")
def invalid_parameters(s):
    s.wait("Gateway", "gateway-invalid-parameters-ref", {"Accepted": ("False", "InvalidParameters")})


@case("GatewayInvalidRouteKind")
def invalid_route_kind(s):
    bad = {"ResolvedRefs": ("False", "InvalidRouteKinds"), "attached": 0}
    s.listeners("gateway-only-invalid-route-kind", {"http": {**bad, "kinds": []}})
    s.listeners("gateway-supported-and-invalid-route-kind", {"http": {**bad, "kinds": ["HTTPRoute"]}})


@case("GatewayInvalidTLSConfiguration")
def invalid_tls(s):
    for what in ("nonexistent-secret", "unsupported-group", "unsupported-kind", "malformed-secret"):
        s.listeners(f"gateway-certificate-{what}", {"https": {
            "ResolvedRefs": ("False", "InvalidCertificateRef"), "kinds": HTTP_KINDS, "attached": 0}})


@case("GatewaySecretMissingReferenceGrant")
def secret_missing_grant(s, name="gateway-secret-missing-reference-grant"):
    s.listeners(name, {"https": {"ResolvedRefs": ("False", "RefNotPermitted"), "kinds": HTTP_KINDS,
                                 "attached": 0}})


@case("GatewaySecretInvalidReferenceGrant")
def secret_invalid_grant(s):
    secret_missing_grant(s, "gateway-secret-invalid-reference-grant")


@case("GatewaySecretReferenceGrantAllInNamespace")
def secret_grant_all(s, name="gateway-secret-reference-grant-all-in-namespace"):
    s.gateways_ready()
    s.listeners(name, {"https": {**GOOD, "kinds": HTTP_KINDS, "attached": 0}})


@case("GatewaySecretReferenceGrantSpecific")
def secret_grant_specific(s):
    secret_grant_all(s, "gateway-secret-reference-grant-specific")


@case("GatewayWithAttachedRoutes")
def attached_routes(s):
    ok = {"Accepted": "True", "ResolvedRefs": "True", "kinds": ["HTTPRoute"]}
    s.listeners("gateway-with-one-attached-route", {"http": {**ok, "attached": 1}})
    s.listeners("gateway-with-two-attached-routes", {"http": {**ok, "attached": 2}})
    s.refused_route("HTTPRoute", "http-route-not-accepted", "Accepted", "NoMatchingListenerHostname")
    s.route("HTTPRoute", "http-route-4", {"ResolvedRefs": ("False", "BackendNotFound")})
    s.listeners("unresolved-gateway-with-one-attached-unresolved-route", {"tls": {
        "Programmed": "False", "ResolvedRefs": "False", "kinds": ["HTTPRoute"], "attached": 1}})


@case("GatewayWithAttachedRoutesWithPort8080")
def attached_routes_8080(s):
    s.ready()
    ok = {"Accepted": "True", "ResolvedRefs": "True", "kinds": ["HTTPRoute"]}
    s.listeners("gateway-with-two-listeners-and-one-attached-route",
                {"http-unattached": {**ok, "attached": 0}, "http": {**ok, "attached": 1}})


@case("GatewayHTTPListenerIsolation")
def isolation(s):
    s.ready()
    owners = {"bar.com": "empty-hostname", "bar.example.com": "wildcard-example-com",
              "bar.foo.example.com": "wildcard-foo-example-com", "abc.foo.example.com": "abc-foo-example-com"}
    for name in ("http-listener-isolation", "http-listener-isolation-with-hostname-intersection"):
        s.expect(s.addr(name), *(
            Expect(host=host, path="/" + path, backend="infra-backend-v1") if owner == path else
            Expect(host=host, path="/" + path, status=404)
            for host, owner in owners.items() for path in owners.values()))


@case("GatewayStaticAddresses")
def static_addresses(s):
    name = "gateway-static-addresses"
    spec = s.cluster.get("Gateway", name, INFRA)["spec"]
    s.wait("Gateway", name, {"Accepted": ("False", "UnsupportedAddress")})
    s.cluster.patch("Gateway", name, INFRA, {"spec": {"addresses": spec["addresses"][1:]}})
    s.wait("Gateway", name, {"Accepted": "True", "Programmed": ("False", "AddressNotUsable")})
    s.cluster.patch("Gateway", name, INFRA, {"spec": {"addresses": spec["addresses"][2:]}})
    status = s.wait("Gateway", name, {"Accepted": "True", "Programmed": "True"})["status"]
    told = [(a["type"], a["value"]) for a in status["addresses"]]
    assert told == [("IPAddress", spec["addresses"][2]["value"])], told


@case("GatewayOptionalAddressValue")
def optional_address(s):
    s.gateways_ready()
    s.addr("gateway-without-address-value")


@case("GatewayFrontendClientCertificateValidation")
def client_certificates(s, gateway="client-validation-default", fallback=False):
    s.ready()
    own = s.credentials.pairs["tls-validity-checks-client-certificate"]
    other = s.credentials.pairs["tls-validity-checks-per-port-client-certificate"]
    for port, host, right, wrong, backend in ((443, "example.org", own, other, "infra-backend-v1"),
                                              (8443, "second-example.org", other, own, "infra-backend-v2")):
        addr = s.addr(gateway, port)
        s.expect(addr, Expect(host=host, tls=Tls(host, server(s), right), backend=backend))
        for client in (wrong, None):
            tls = Tls(host, server(s), client)
            if fallback:
                s.expect(addr, Expect(host=host, tls=tls, backend=backend))
            else:
                eventually(lambda tls=tls, addr=addr: cut_off(addr, tls), f"port {port} to refuse the client")


@case("GatewayFrontendClientCertificateValidationInsecureFallback")
def client_certificates_fallback(s):
    s.wait("Gateway", "client-validation-insecure-fallback",
           {"InsecureFrontendValidationMode": ("True", "ConfigurationChanged")})
    client_certificates(s, "client-validation-insecure-fallback", True)


@case("GatewayInvalidFrontendClientCertificateValidation")
def invalid_client_validation(s):
    def refused(reason):
        return {"ResolvedRefs": ("False", reason), "Accepted": ("False", "NoValidCACertificate"),
                "Programmed": "False"}
    s.listeners("gateway-with-invalid-client-cert-validation", {
        "https": GOOD, "https-unresolved": refused("InvalidCACertificateRef"),
        "https-invalid-kind": refused("InvalidCACertificateKind"),
        "https-grant-missing": refused("RefNotPermitted")})


@case("GatewayFrontendInvalidDefaultClientCertificateValidation")
def invalid_default_client_validation(s):
    name = "invalid-default-client-validation-config"
    s.listeners(name, {
        "http": GOOD,
        "https": {"ResolvedRefs": ("False", "InvalidCACertificateRef"),
                  "Accepted": ("False", "NoValidCACertificate"), "Programmed": "False"}})
    s.expect(s.addr(name), Expect(host="example.org", backend="infra-backend-v1"))
    eventually(lambda: cut_off(s.addr(name, 443), Tls("example.org")), "port 443 to refuse everybody")


@case("GatewayTLSBackendClientCertificate")
def backend_client_certificate(s):
    s.ready()
    name = "gateway-tls-backend-client-certificate"
    answer = s.expect(s.addr(name), Expect(host="abc.example.com", sni="abc.example.com",
                                           backend="tls-backend-with-client-cert-validation"))
    shown = answer.echo["tls"]["peerCertificates"]
    own = s.credentials.pairs["tls-checks-client-certificate"].cert_pem
    assert [c.split() for c in shown] == [own.split()], shown


@case("GatewayInvalidTLSBackendConfiguration")
def invalid_backend_client_certificate(s):
    for what, reason in (("nonexistent-secret", "InvalidClientCertificateRef"),
                         ("unsupported-group", "InvalidClientCertificateRef"),
                         ("unsupported-kind", "InvalidClientCertificateRef"),
                         ("malformed-secret", "InvalidClientCertificateRef"),
                         ("missing-reference-grant", "RefNotPermitted")):
        s.wait("Gateway", f"gateway-client-certificate-{what}",
               {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", reason)})


@case("GatewayInfrastructure")
def infrastructure(s):
    s.gateways_ready()
    name = "gateway-with-infrastructure-metadata"

    def check():
        found = []
        for resource in ("serviceaccounts", "pods", "services"):
            _, got = s.cluster.request("GET", f"/api/v1/namespaces/{INFRA}/{resource}?labelSelector="
                                              f"gateway.networking.k8s.io/gateway-name={name}")
            found += got["items"]
        assert found, "nothing carries the name of the Gateway"
        for one in found:
            assert one["metadata"].get("labels", {}).get("key2") == "value2", one["metadata"]
            assert one["metadata"].get("annotations", {}).get("key1") == "value1", one["metadata"]
    s.until(check, "what carries the Gateway's labels")
