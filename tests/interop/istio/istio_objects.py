# SPDX-License-Identifier: Apache-2.0
"""
A set of objects with as much as possible of what a control plane reads for a mesh. Each is (path of its collection, the
object, its status or None).
"""
MODE = "istio.io/dataplane-mode"
ENABLED = {"ambient.istio.io/redirection": "enabled"}
READY = [{"type": "Ready", "status": "True"}]
LATER = (None, None, None)  # what follows is younger: istiod takes any of those made in one second


def core(ns, plural):
    return f"/api/v1/namespaces/{ns}/{plural}"


def meta(name, labels=None, annotations=None, **more):
    return {"name": name, "labels": labels or {}, "annotations": annotations or {}, **more}


def pod(name, *ips, ns="shop", labels=None, annotations=None, ready=True, phase="Running", node="n1", account="web",
        ports=(("web", 8080),), spec=None, **more):
    body = {"metadata": meta(name, {"app": "web", **(labels or {})}, annotations, **more), "spec": {
        "nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i", "ports": [
            {"name": n, "containerPort": p} for n, p in ports]}], **(spec or {})}}
    status = {"phase": phase, "podIPs": [{"ip": i} for i in ips], "conditions": READY if ready else []}
    if ips:
        status["podIP"] = ips[0]
    return core(ns, "pods"), body, status


def service(name, *ports, ns="shop", selector=None, labels=None, annotations=None, **spec):
    ports = ports or ({"name": "http", "port": 80, "targetPort": 8080},)
    return core(ns, "services"), {"metadata": meta(name, labels, annotations), "spec": {
        "selector": {"app": "web"} if selector is None else selector or None, "ports": list(ports), **spec}}, None


def istio(kind, plural, group, name, spec, ns="shop", labels=None, annotations=None):
    return f"/apis/{group}/v1/namespaces/{ns}/{plural}", {
        "apiVersion": f"{group}/v1", "kind": kind, "metadata": meta(name, labels, annotations), "spec": spec}, None


def entry(name, spec, labels=None, **kw):
    """Always with a label: without any istiod lets its endpoints list every policy (see quirks)."""
    spec.setdefault("ports", [{"number": 443, "name": "tls", "protocol": "TLS"}])
    labels = {"kind": "entry", **(labels or {})} if labels != {} else {}
    return istio("ServiceEntry", "serviceentries", "networking.istio.io", name, spec, labels=labels, **kw)


def machine(name, spec, **kw):
    return istio("WorkloadEntry", "workloadentries", "networking.istio.io", name, spec, **kw)


def policy(name, spec, **kw):
    return istio("AuthorizationPolicy", "authorizationpolicies", "security.istio.io", name, spec, **kw)


def peers(name, spec, **kw):
    return istio("PeerAuthentication", "peerauthentications", "security.istio.io", name, spec, **kw)


def gateway(name, ns="shop", labels=None, annotations=None, address=None, listeners=None):
    status = {"addresses": [address or {"type": "Hostname", "value": f"{name}.{ns}.svc.cluster.local"}]}
    listeners = listeners or [{"name": "mesh", "port": 15008, "protocol": "HBONE"}]
    return f"/apis/gateway.networking.k8s.io/v1/namespaces/{ns}/gateways", {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": meta(name, labels, annotations),
        "spec": {"gatewayClassName": "waypoint-of-tests", "listeners": listeners}}, status


def endpoints(name, of, endpoints_, ns="shop", ports=(("tcp", 5433),), family="IPv4"):
    return f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", {
        "metadata": meta(name, {"kubernetes.io/service-name": of}), "addressType": family, "endpoints": endpoints_,
        "ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]}, None


def nodes():
    for name, labels in (("n1", {"topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1",
                                 "topology.istio.io/subzone": "s1"}), ("n2", {"topology.kubernetes.io/zone": "z2"}),
                         ("n3", {})):
        yield "/api/v1/nodes", {"metadata": meta(name, labels)}, None


def namespaces():
    for name, labels, annotations in (
            ("istio-system", {}, {}), ("shop", {MODE: "ambient"}, {}), ("annex", {"tier": "back"}, {}),
            ("bound", {"istio.io/use-waypoint": "way", "istio.io/use-waypoint-namespace": "shop"}, {}),
            ("spread", {}, {"networking.istio.io/traffic-distribution": "PreferClose"})):
        yield "/api/v1/namespaces", {"metadata": meta(name, labels, annotations)}, None


def pods():
    yield pod("plain-1", "10.0.1.1")
    yield pod("mesh-1", "10.0.1.2", "fd00::2", annotations=ENABLED)
    yield pod("pending", "10.0.1.3", annotations={"ambient.istio.io/redirection": "pending"})
    yield pod("native", "10.0.1.4", labels={"networking.istio.io/tunnel": "http"})
    yield pod("unready", "10.0.1.5", ready=False, annotations=ENABLED)
    yield pod("no-ip")
    yield pod("done", "10.0.1.6", phase="Succeeded")
    yield pod("failed", "10.0.1.7", phase="Failed")
    yield pod("starting", "10.0.1.8", phase="Pending", ready=False)
    yield pod("hosted", "192.168.0.1", spec={"hostNetwork": True})
    yield pod("zone2", "10.0.2.1", node="n2")
    yield pod("nowhere", "10.0.3.1", node="unknown")
    yield pod("bare-node", "10.0.3.2", node="n3")
    yield pod("named", "10.0.1.9", labels={"service.istio.io/canonical-name": "c", "service.istio.io/canonical-revision": "v9",
                                           "service.istio.io/workload-name": "wl"})
    yield pod("kube-names", "10.0.1.10", labels={"app.kubernetes.io/name": "k", "app.kubernetes.io/version": "7"})
    yield pod("version", "10.0.1.11", labels={"version": "v2", "app": "versioned"})
    yield pod("no-port", "10.0.1.12", ports=(("other", 9),))
    yield pod("helper", "10.0.1.13", ports=(), spec={"initContainers": [
        {"name": "s", "image": "i", "restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 8090}]}]})
    yield pod("db-1", "10.0.1.20", labels={"app": "db"}, annotations=ENABLED, account="db")
    yield pod("far", "10.0.4.1", ns="annex", annotations=ENABLED)
    yield pod("held", "10.0.5.1", ns="bound", annotations=ENABLED)
    yield pod("held-not", "10.0.5.2", ns="bound", labels={"istio.io/use-waypoint": "none"})
    yield pod("held-work", "10.0.5.3", ns="bound", labels={"istio.io/use-waypoint": "work", "istio.io/use-waypoint-namespace": "shop"})
    yield pod("way-pod", "10.0.1.30", labels={"gateway.networking.k8s.io/gateway-name": "way", "app": "way"}, account="way")
    yield pod("proxy-pod", "10.0.1.31", labels={"gateway.networking.k8s.io/gateway-name": "bind", "app": "bind"}, account="bind")
    yield pod("spread-1", "10.0.6.1", ns="spread")


def services():
    yield service("web")
    yield service("named", {"name": "http", "port": 80, "targetPort": "web"})
    yield service("many", {"name": "grpc-a", "port": 1}, {"name": "http2", "port": 2}, {"name": "tls-x", "port": 3},
                  {"name": "x", "port": 4, "appProtocol": "kubernetes.io/h2c"}, {"name": "y", "port": 5, "appProtocol": "https"},
                  {"name": "tcp", "port": 6}, {"name": "mysql", "port": 3306}, {"name": "grpc-web", "port": 8},
                  {"name": "mongo", "port": 27017}, {"name": "z", "port": 10, "appProtocol": "kubernetes.io/ws"},
                  {"name": "w", "port": 11, "appProtocol": "kubernetes.io/wss"}, {"name": "http-web", "port": 12})
    yield service("dns", {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53})
    yield service("headless", clusterIP="None")
    yield service("local", internalTrafficPolicy="Local")
    yield service("close", trafficDistribution="PreferClose")
    yield service("annotated", annotations={"networking.istio.io/traffic-distribution": "preferSameNode"})
    yield service("early", publishNotReadyAddresses=True)
    yield service("external", type="ExternalName", externalName="x.example", selector={}, clusterIP=None)
    yield service("old", {"name": "tcp", "port": 5432}, selector={})
    yield service("mixed", selector={})
    yield service("spread", ns="spread")
    yield service("bound", ns="bound")
    yield service("not-bound", ns="bound", labels={"istio.io/use-waypoint": "none"})
    yield service("way-by-label", labels={"istio.io/use-waypoint": "way", "istio.io/ingress-use-waypoint": "true"})
    yield service("way-missing", labels={"istio.io/use-waypoint": "nobody"})
    yield service("way-by-ip", labels={"istio.io/use-waypoint": "by-ip"})
    yield service("way-of-work", labels={"istio.io/use-waypoint": "work"})
    yield service("way-denied", ns="annex", labels={"istio.io/use-waypoint": "by-ip", "istio.io/use-waypoint-namespace": "shop"})
    yield service("way-selected", ns="annex", labels={"istio.io/use-waypoint": "chosen", "istio.io/use-waypoint-namespace": "shop"})
    for weight in ("0", "50", "100", "101"):
        yield service(f"canary-{weight}", labels={"istio.io/use-waypoint": "way", "istio.io/use-waypoint-canary": "by-ip"},
                      annotations={"istio.io/use-waypoint-canary-weight": weight})
    yield service("way", {"name": "hbone", "port": 15008}, selector={"app": "way"},
                  labels={"gateway.istio.io/managed": "istio.io-mesh-controller"})
    yield service("machines", {"name": "tcp", "port": 70, "targetPort": "x"}, {"name": "y", "port": 71, "targetPort": 9},
                  selector={"app": "vm"})
    yield service("shadow", ns="annex")
    yield endpoints("old-1", "old", [{"addresses": ["192.0.2.9"]}, {"addresses": ["192.0.2.10"], "conditions": {"ready": False}},
                                     {"addresses": ["192.0.2.11"], "conditions": {"ready": True}}])
    yield endpoints("old-2", "nobody", [{"addresses": ["192.0.2.12"]}])
    yield endpoints("old-3", "old", [{"addresses": ["host.example"]}], family="FQDN")


def gateways():
    any_ns = {"namespaces": {"from": "All"}}
    back = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"tier": "back"}}}}
    yield gateway("way", listeners=[{"name": "mesh", "port": 15008, "protocol": "HBONE", "allowedRoutes": any_ns}])
    yield gateway("by-ip", address={"type": "IPAddress", "value": "10.96.7.7"})
    yield gateway("work", labels={"istio.io/waypoint-for": "workload"},
                  listeners=[{"name": "mesh", "port": 15008, "protocol": "HBONE", "allowedRoutes": any_ns}])
    yield gateway("chosen", labels={"istio.io/waypoint-for": "all"},
                  listeners=[{"name": "mesh", "port": 15008, "protocol": "HBONE", "allowedRoutes": back}])
    yield gateway("bind", annotations={"ambient.istio.io/waypoint-inbound-binding": "PROXY/15088"},
                  listeners=[{"name": "mesh", "port": 15088, "protocol": "istio.io/PROXY"}])


def entries():
    yield entry("dns", {"hosts": ["api.example", "two.example"], "resolution": "DNS"})
    yield entry("static", {"hosts": ["static.example"], "resolution": "STATIC", "endpoints": [
        {"address": "192.0.2.20", "weight": 3, "labels": {"a": "b"}, "locality": "r9/z9/s9"},
        {"address": "192.0.2.21", "ports": {"tls": 8443}, "serviceAccount": "e"}]})
    yield entry("blocks", {"hosts": ["blocks.example"], "resolution": "STATIC", "addresses": ["198.51.100.77/24", "203.0.113.1"],
                           "endpoints": [{"address": "192.0.2.22"}], "subjectAltNames": ["spiffe://x/y"]})
    yield entry("none", {"hosts": ["none.example"], "resolution": "NONE", "addresses": ["198.51.100.9"]})
    yield entry("selects", {"hosts": ["selects.example"], "resolution": "STATIC", "location": "MESH_INTERNAL",
                            "addresses": ["198.51.100.10"], "workloadSelector": {"labels": {"app": "web"}},
                            "ports": [{"number": 80, "name": "web", "protocol": "HTTP"},
                                      {"number": 81, "name": "x", "protocol": "TCP", "targetPort": 91}]})
    yield entry("vms", {"hosts": ["vms.example"], "resolution": "STATIC", "location": "MESH_INTERNAL",
                        "addresses": ["198.51.100.11"], "workloadSelector": {"labels": {"app": "vm"}},
                        "ports": [{"number": 80, "name": "tcp", "protocol": "TCP"}]})
    yield entry("no-allocation", {"hosts": ["no.example"], "resolution": "STATIC", "endpoints": [{"address": "192.0.2.23"}]},
                labels={"networking.istio.io/enable-autoallocate-ip": "false"})
    yield entry("wild", {"hosts": ["*.wild.example"], "resolution": "STATIC", "addresses": ["198.51.100.12"],
                         "endpoints": [{"address": "192.0.2.24"}]})
    yield entry("shadowed", {"hosts": ["web.shop.svc.cluster.local"], "resolution": "STATIC", "addresses": ["198.51.100.13"],
                             "endpoints": [{"address": "192.0.2.25"}]})
    yield entry("waypoint", {"hosts": ["waypoint.example"], "resolution": "STATIC", "addresses": ["198.51.100.14"],
                             "endpoints": [{"address": "192.0.2.26"}]}, labels={"istio.io/use-waypoint": "way"})
    yield machine("vm1", {"address": "192.0.2.30", "serviceAccount": "vm", "labels": {"app": "vm"}, "weight": 5,
                          "ports": {"x": 7070, "y": 7071, "tcp": 7072}, "locality": "r1/z7"})
    yield machine("vm2", {"address": "vm.example", "network": "elsewhere", "labels": {"app": "vm", "version": "v3"}})
    yield machine("vm3", {"address": "192.0.2.31"}, labels={"app": "vm", "networking.istio.io/tunnel": "http"},
                  annotations={"istio.io/autoRegistrationGroup": "group"})
    yield machine("vm4", {"address": "fd00:77::1", "labels": {"service.istio.io/workload-name": "x"}})


def policies():
    web = {"matchLabels": {"app": "web"}}
    yield policy("all-kinds", {"selector": web, "action": "ALLOW", "rules": [{
        "from": [{"source": {"principals": ["td/ns/a/sa/b", "*", "*/sa/x", "td/*"], "notPrincipals": ["n"]}},
                 {"source": {"namespaces": ["n1", "n*"], "notNamespaces": ["*m"]}},
                 {"source": {"ipBlocks": ["10.0.0.0/8", "192.0.2.1"], "notIpBlocks": ["fd00::/16"]}},
                 {"source": {"serviceAccounts": ["annex/x", "y"], "notServiceAccounts": ["z"]}}],
        "to": [{"operation": {"ports": ["80", "443"]}}, {"operation": {"notPorts": ["22"]}}],
        "when": [{"key": "source.ip", "values": ["10.1.0.0/16"]}, {"key": "source.namespace", "notValues": ["q"]},
                 {"key": "source.principal", "values": ["p*"]}, {"key": "destination.ip", "values": ["10.2.0.0/16"]},
                 {"key": "destination.port", "values": ["8080"], "notValues": ["81"]}]}]})
    yield policy("nothing", {"selector": web, "action": "ALLOW"})
    yield policy("anything", {"selector": web, "action": "DENY", "rules": [{}]})
    yield policy("whole-namespace", {"action": "ALLOW", "rules": [{"from": [{"source": {"namespaces": ["shop"]}}]}]})
    yield policy("of-the-mesh", {"action": "DENY", "rules": [{"to": [{"operation": {"ports": ["1"]}}]}]}, ns="istio-system")
    yield policy("of-the-root", {"selector": {"matchLabels": {"app": "db"}}, "action": "DENY", "rules": [
        {"from": [{"source": {"namespaces": ["bad"]}}]}]}, ns="istio-system")
    yield policy("http-allow", {"selector": web, "action": "ALLOW", "rules": [
        {"to": [{"operation": {"methods": ["GET"], "ports": ["80"]}}]}, {"from": [{"source": {"namespaces": ["a"]}}]}]})
    yield policy("http-deny", {"selector": web, "action": "DENY", "rules": [
        {"to": [{"operation": {"methods": ["GET"], "ports": ["80"]}}]}, {"to": [{"operation": {"paths": ["/x"]}}]}]})
    yield policy("audit", {"selector": web, "action": "AUDIT", "rules": [{}]})
    yield policy("dry", {"selector": web, "action": "DENY", "rules": [{}]}, annotations={"istio.io/dry-run": "true"})
    yield policy("of-waypoint", {"targetRefs": [{"kind": "Service", "group": "", "name": "web"}], "action": "ALLOW", "rules": [{}]})
    yield peers("default", {"mtls": {"mode": "STRICT"}}, ns="annex")
    yield peers("default", {"mtls": {"mode": "PERMISSIVE"}})
    yield peers("db", {"selector": {"matchLabels": {"app": "db"}}, "mtls": {"mode": "STRICT"},
                       "portLevelMtls": {"8080": {"mode": "PERMISSIVE"}, "8081": {"mode": "DISABLE"}}})
    yield peers("way", {"selector": {"matchLabels": {"app": "way"}}, "mtls": {"mode": "PERMISSIVE"},
                        "portLevelMtls": {"9000": {"mode": "STRICT"}, "9001": {"mode": "STRICT"}}})
    yield peers("versioned", {"selector": {"matchLabels": {"app": "versioned"}}, "mtls": {"mode": "STRICT"}})


def everything():
    for part in (nodes, namespaces, pods, services, gateways, entries, policies):
        yield from part()


def quirks():
    """What istiod makes less of than somebody meant."""
    yield from namespaces()
    for name, app in (("port", "port"), ("exempt", "exempt"), ("other", "other")):
        yield pod(name, f"10.0.9.{len(name)}", labels={"app": app}, annotations=ENABLED)
    yield peers("mesh", {"mtls": {"mode": "STRICT"}}, ns="istio-system")
    yield peers("port", {"selector": {"matchLabels": {"app": "port"}}, "mtls": {"mode": "PERMISSIVE"},
                         "portLevelMtls": {"9000": {"mode": "STRICT"}}})
    yield peers("exempt", {"selector": {"matchLabels": {"app": "exempt"}}, "portLevelMtls": {"9000": {"mode": "DISABLE"}}})
    yield entry("bare", {"hosts": ["bare.example"], "resolution": "STATIC", "addresses": ["198.51.100.1"],
                         "endpoints": [{"address": "192.0.2.1"}]}, labels={})
    yield policy("empty-selector", {"selector": {}, "action": "DENY", "rules": [{"from": [{"source": {"namespaces": ["bad"]}}]}]})
    yield policy("domains", {"selector": {"matchLabels": {"app": "other"}}, "action": "ALLOW", "rules": [
        {"from": [{"source": {"namespaces": ["a"], "trustDomains": ["else.where"]}}]}]})


def visible():
    """ServiceEntries whose namespaces' labels say who sees them; the oldest is hidden, the next seen by its own only."""
    yield "/apis/gateway.networking.k8s.io/v1/gatewayclasses", {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": meta("waypoint-of-tests"),
        "spec": {"controllerName": "istio.io/mesh-controller"}}, None
    for ns, labels in (("istio-system", {}), ("hidden", {"team": "a", "stage": "test"}), ("own", {"team": "a"}), ("open", {})):
        yield "/api/v1/namespaces", {"metadata": meta(ns, {MODE: "ambient", **labels})}, None
    yield gateway("way", ns="open", listeners=[{"name": "mesh", "port": 15008, "protocol": "HBONE",
                                                "allowedRoutes": {"namespaces": {"from": "All"}}}])
    spaces = list(enumerate(("hidden", "own", "open")))
    for i, ns in spaces:
        yield pod(f"{ns}-1", f"10.0.8.{i + 1}", ns=ns, annotations=ENABLED)
        yield machine("vm", {"address": f"192.0.2.{i + 10}"}, ns=ns, labels={"app": "web"})
        yield entry("bound", {"hosts": [f"bound-{ns}.example"], "resolution": "DNS", "addresses": [f"198.51.100.{i + 21}"]},
                    ns=ns, labels={"istio.io/use-waypoint": "way", "istio.io/use-waypoint-namespace": "open"})
        yield entry("common", {"hosts": ["common.example"], "resolution": "STATIC", "addresses": [f"198.51.100.{i + 1}"],
                               "endpoints": [{"address": f"192.0.2.{i + 1}"}]}, ns=ns)
        yield LATER
    for i, ns in spaces:
        yield entry("younger", {"hosts": ["common.example", f"{ns}.example"], "resolution": "STATIC",
                                "addresses": [f"198.51.100.{i + 11}"], "workloadSelector": {"labels": {"app": "web"}}}, ns=ns)
