/* SPDX-License-Identifier: Apache-2.0 */
/* How an exchange ended, in words for visitors and for owners of a site. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "gateway/exchange/errorpage.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/state.h"
#include "gateway/message/fields.h"
#include "http/grammar.h"

#define LATER  "Try again in a few seconds."
#define REPORT "Tell the owner of this site, with the request id."

#define FIND_LOG "look for the request id in the log of the gateway."

struct words {
    const char *key;
    const char *reason;
    const char *visitor;
    const char *owner;
};

/* By x-spanwire-reason; the subject is the device. */
static const struct words of_device[] = {
    {"connector-offline", "is offline", LATER,
     "start the connector (spanwire expose, spanwire connector) on the device again; kubectl get "
     "connectors shows since when it is offline."},
    {"offline", "is offline", LATER,
     "start the connector on the device again; kubectl get connectors shows since when it is "
     "offline."},
    {"unknown_node", "cannot be found", LATER,
     "check that the connector runs and is registered: kubectl get connectors."},
    {"lookup_failed", "cannot be found", LATER,
     "check that the connector runs and is registered: kubectl get connectors."},
    {"dial_timeout", "cannot be reached", LATER,
     "check the device's network and the relay; the log of the sidecar has the request."},
    {"dial_failed", "cannot be reached", LATER,
     "check the device's network and the relay; the log of the sidecar has the request."},
    {"answer_timeout", "did not confirm the request in time", LATER,
     "check the device's network; the log of the sidecar has the request."},
    {"connection_lost", "lost its connection", LATER,
     "check the device's network; the log of the connector has the request."},
    {"stream_reset", "broke off the request", LATER, "look at the log of the connector."},
    {"wrong_identity", "could not prove its identity", REPORT,
     "register the device again: its key is not the one that the Connector names."},
    {"not_admitted", "does not admit this gateway", REPORT,
     "check the gateways that the Connector names, and --allow-gateway."},
    {"connector-not-advertised", "does not offer this service", REPORT,
     "advertise host and port with a ConnectorAdvertisement."},
    {"not_advertised", "does not offer this service", REPORT,
     "advertise host and port with a ConnectorAdvertisement."},
    {"connector-no-capability", "does not offer this kind of service", REPORT,
     "enable the capability in the Connector."},
    {"origin_unreachable", "is online, but its service does not answer", LATER,
     "start the service on the device, at the port that is exposed."},
    {"origin_closed", "is online, but its service closed the connection", LATER,
     "look at the log of the service on the device."},
    {"origin_unknown", "is online, but the name of its service cannot be resolved", REPORT,
     "check the target of the HTTPProxy or the advertisement."},
    {"origin_timeout", "is online, but its service did not answer in time", LATER,
     "look at the log of the service on the device."},
    {"too_many", "has too many requests at once", LATER, "raise --max-streams of the connector."},
    {"draining", "is stopping", LATER, "start the connector on the device again."},
};

/* By detail; whole sentences. */
static const struct words of_detail[] = {
    {"route_not_found", "no route matches this host and path", "Check the address.",
     "check hostnames and matches of the route, and its status and Events: kubectl describe "
     "httproute."},
    {"invalid-backend", "the route refers to a backend that cannot be used", REPORT,
     "the condition ResolvedRefs of the route names the reference: kubectl describe httproute."},
    {"route_invalid", "the routes of this host are beyond a limit of the gateway", REPORT,
     "the condition Accepted of the route says which; the gateway's log names the host."},
    {"cluster_not_found", "the backend of this route is not known", LATER,
     "check the backendRefs of the route; a control plane that restarts sends them again."},
    {"no_healthy_upstream", "no backend is available", LATER,
     "check that the Service has ready endpoints: kubectl get endpointslices."},
    {"overflow", "too many requests wait for the backend", LATER,
     "add endpoints, or raise the circuit limits."},
    {"upstream_tls_failure", "the TLS handshake with the backend failed", REPORT,
     "check the backend's certificate and the BackendTLSPolicy."},
    {"upstream_reset_before_response_started",
     "the backend closed the connection before it answered", LATER,
     "look at the log of the backend."},
    {"upstream_refused_stream", "the backend refused the request", LATER,
     "look at the log of the backend."},
    {"upstream_protocol_error", "the answer of the backend is not valid HTTP", REPORT,
     "check the protocol of the backend (appProtocol); " FIND_LOG},
    {"max_duration_timeout", "the request took longer than allowed", LATER,
     "raise max_stream_duration."},
    {"request_overall_timeout", "the request was not received in time",
     "Check your connection and try again.", "raise the listener's request_timeout."},
    {"stream_idle_timeout", "no byte moved for too long", LATER, "raise the route's idle timeout."},
    {"misdirected_request", "this connection does not serve this host",
     "Open the address in a new window.", "check the hostnames of listeners that share a port."},
    {"upgrade_failed", "the route does not allow this protocol upgrade", REPORT,
     "enable the upgrade on the listener or route."},
    {"path_normalization_failed", "the path is not valid", "Check the address.", FIND_LOG},
    {"method_too_long", "the method is not known", "Check the address.", FIND_LOG},
    {"route_match_limit", "matching the request against the routes takes too much work", REPORT,
     "use fewer or simpler regular expressions in the routes of this host."},
    {"tunnel_refused", "the tunnel to the backend was refused", LATER, FIND_LOG},
};

static const struct words *find(const struct words *list, size_t n, struct sw_slice key)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq_str(key, list[i].key))
            return &list[i];
    }
    return NULL;
}

static struct sw_slice tunnel_field(const struct sw_exchange *x, const char *name)
{
    const struct sw_gw_member *m = x->host ? x->host->member : x->rs ? x->rs->member : NULL;

    return m ? sw_json_str(sw_json_walk(m->metadata, "tunnel", name, NULL)) : sw_slice(NULL, 0);
}

static const struct sw_gw_direct *marked_direct(const struct sw_exchange *x)
{
    const struct sw_gw_route *r = x->route;

    return r && r->action == SW_GW_DIRECT && r->direct.reason.n ? &r->direct : NULL;
}

struct sw_slice sw_gw_exchange_device(const struct sw_exchange *x)
{
    const struct sw_gw_direct *d = marked_direct(x);

    return d ? d->device : tunnel_field(x, "device");
}

struct sw_slice sw_gw_exchange_node_id(const struct sw_exchange *x)
{
    return tunnel_field(x, "endpoint_id");
}

struct sw_slice sw_gw_exchange_reason(const struct sw_exchange *x)
{
    const struct sw_gw_direct *d = marked_direct(x);
    const struct sw_slice *said = NULL;

    if (d)
        return d->reason;
    if (x->resp.local)
        said = sw_gw_fields_find(&x->resp.fields, SW_SLICE_LIT("x-spanwire-reason"));
    return said ? *said : sw_slice_str(x->detail);
}

static void set(struct sw_gw_page *p, const char *reason, const char *visitor, const char *owner)
{
    p->reason = sw_slice_str(reason);
    p->visitor = sw_slice_str(visitor);
    p->owner = sw_slice_str(owner);
}

/* "1 s", "500 ms", "1.5 s" */
static const char *duration(struct sw_exchange *x, uint64_t ns)
{
    uint64_t ms = ns / SW_NS_PER_MS;

    if (ms < 1000)
        return sw_arena_printf(&x->arena, "%llu ms", (unsigned long long)ms);
    if (ms % 1000 == 0)
        return sw_arena_printf(&x->arena, "%llu s", (unsigned long long)(ms / 1000));
    return sw_arena_printf(&x->arena, "%.1f s", (double)ms / 1000);
}

static void timed_out(struct sw_exchange *x, uint64_t after_ns, struct sw_gw_page *ret)
{
    set(ret,
        after_ns ? sw_arena_printf(&x->arena, "the backend did not answer within %s",
                                   duration(x, after_ns))
                 : "the backend did not answer in time",
        LATER, "look at the log of the backend, or raise the timeout of the route.");
}

/* Why a connection could not be made; the text itself may name addresses. */
static void not_connected(const struct sw_exchange *x, struct sw_gw_page *ret)
{
    const char *reason = "the backend cannot be reached";

    if (strcasestr(x->failure, "refused"))
        reason = "the backend refused the connection";
    else if (strcasestr(x->failure, "timed out") || strcasestr(x->failure, "timeout"))
        reason = "the backend did not accept a connection in time";
    set(ret, reason, LATER, "check that the backend runs and listens; " FIND_LOG);
}

static void explain_device(struct sw_exchange *x, const struct words *w, struct sw_gw_page *ret)
{
    struct sw_slice device = sw_gw_exchange_device(x);
    const char *who = device.n ? sw_arena_printf(&x->arena, "the device '%.*s'",
                                                 SW_SLICE_ARG(sw_slice_head(device, 253)))
                               : "the device";

    set(ret, sw_arena_printf(&x->arena, "%s %s", who, w->reason), w->visitor, w->owner);
}

static void explain_status(int status, struct sw_gw_page *ret)
{
    switch (status) {
    case 401:
        set(ret, "you are not signed in", "Sign in and try again.",
            "the authorisation service "
            "decides this.");
        break;
    case 403:
        set(ret, "access is denied", "Ask the owner of this site for access.",
            "the policy or the authorisation service decides this; " FIND_LOG);
        break;
    case 404:
        set(ret, "nothing is here", "Check the address.", FIND_LOG);
        break;
    default:
        set(ret, status < 500 ? "the request was refused" : "the request failed",
            status < 500 ? "Check the address." : LATER, FIND_LOG);
    }
}

void sw_gw_page_explain(struct sw_exchange *x, int status, struct sw_gw_page *ret)
{
    struct sw_slice reason = sw_gw_exchange_reason(x);
    const struct words *w = find(of_device, SW_ARRAY_LEN(of_device), reason);

    ret->status = status;
    ret->title = sw_slice_str(sw_http_reason(status));
    if (w) {
        explain_device(x, w, ret);
        return;
    }
    w = find(of_detail, SW_ARRAY_LEN(of_detail), reason);
    if (!w && x->detail)
        w = find(of_detail, SW_ARRAY_LEN(of_detail), sw_slice_str(x->detail));
    if (w)
        set(ret, w->reason, w->visitor, w->owner);
    else if (sw_slice_eq_str(reason, "response_timeout"))
        timed_out(x, x->plan.timeout_ns, ret);
    else if (sw_slice_eq_str(reason, "upstream_per_try_timeout"))
        timed_out(x, x->plan.try_timeout_ns, ret);
    else if (sw_slice_eq_str(reason, "upstream_connection_failure"))
        not_connected(x, ret);
    else
        explain_status(status, ret);
}
