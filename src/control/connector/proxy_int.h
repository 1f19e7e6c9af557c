/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the build of HTTPProxies share. Not for others. */
#pragma once

#include "control/connector/connector_int.h"

/* ---- proxy_check.c ---- */

struct hp_endpoint {
    bool tls;
    bool ip;
    uint8_t family;       /* of ip */
    struct sw_slice host; /* lower case, without brackets */
    uint16_t port;
};

/* A DNS-1123 label. */
bool hp_is_label(struct sw_slice s);
/* Labels joined by dots, no wildcard: what a claim can be made on. */
bool hp_is_hostname(struct sw_slice s);
/* A text that says what is wrong, with its path; NULL: nothing is. */
const char *hp_check(struct sw_arena *a, const struct sw_kube_obj *proxy);
/* The parts of an endpoint's URL; a text that says what is wrong, or NULL. */
const char *hp_endpoint_read(struct sw_arena *a, struct sw_slice url, struct hp_endpoint *ret);

/* ---- proxy*.c ---- */

enum { HP_HOSTS_MAX = 17, HP_RULES_MAX = 16 };

enum hp_name {
    HP_NAME_OURS,
    HP_NAME_UNRECORDED, /* no holder yet: the claim is being written */
    HP_NAME_IN_USE,
};

/* One name of an HTTPProxy. */
struct hp_host {
    struct sw_slice name;
    bool canonical;
    size_t index; /* in spec.hostnames */
    enum hp_name state;
    const char *holder;     /* IN_USE: who has it, as far as this HTTPProxy may know */
    bool lost;              /* its listener was refused although the name is ours */
    struct sw_slice secret; /* of its certificate */
    bool certified;
    bool failed;  /* the last attempt at its certificate did */
    bool no_cert; /* our CA does not sign names like this: no HTTPS */
};

/* One rule with a backend. */
struct hp_backend {
    bool used;
    struct hp_endpoint ep;
    struct sw_slice slice;     /* the EndpointSlice that stands for it */
    struct sw_slice connector; /* empty: none; several in turn are joined by commas */
    struct sw_slice instance;  /* EndpointSlice of others; empty: none */
    uint16_t instance_port;
    struct sw_slice tls_name;
    const struct sw_kube_obj *cn; /* the Connector; NULL: there is none */
    const char *refused;          /* why nothing may be sent although it may be online; or NULL */
};

/* What is asked for instead of requests; see proxy_l4.c. */
enum hp_l4_kind {
    HP_L4_NONE,
    HP_L4_TCP,
    HP_L4_TLS,
};
struct hp_l4 {
    enum hp_l4_kind kind;
    uint16_t wanted; /* 0: any port */
    uint16_t port;   /* TCP and OURS: the one it has */
    enum hp_name state;
    const char *holder; /* IN_USE: who has the port */
};

/* Who has which name and which port. */
struct hp_names {
    struct sw_map canonical;   /* name -> struct sw_kube_obj */
    struct sw_map claims;      /* name -> struct sw_claim */
    struct sw_map others;      /* what others serve; see proxy_others.c */
    struct sw_map ports;       /* "tcp/<port>" -> struct sw_claim */
    struct sw_map held_ports;  /* uid -> the same */
    struct sw_map other_ports; /* of Gateways and ListenerSets of others */
};

/* A certificate we issued. */
struct hp_secret {
    const struct sw_kube_obj *obj;
    struct hp_secret *next;
};

struct hp {
    const struct sw_view *v;
    const struct sw_connector_conf *conf;
    struct sw_output *out;
    struct sw_arena *a;
    const struct sw_map *adverts; /* cn_advert_index */
    const struct hp_names *names;
    const struct sw_map *secrets; /* "ns/proxy" -> struct hp_secret */
    const struct sw_connector_keys *keys;
    const struct sw_kube_obj *obj;
    const struct sw_json *spec;
    struct hp_host hosts[HP_HOSTS_MAX]; /* the canonical one first; none: it has no name yet */
    size_t n_hosts;
    struct hp_backend backends[HP_RULES_MAX]; /* by rule */
    size_t n_rules;
    const struct sw_kube_obj *gateway; /* NULL: not there yet */
    const struct sw_kube_obj *route;   /* HTTPRoute, TCPRoute or TLSRoute */
    struct hp_l4 l4;
    struct sw_slice ca;  /* ConfigMap that we make with the CAs of its endpoints; empty: none */
    struct sw_slice url; /* where it is served */
    struct verdict conflict;
    const char *missing_instance;
    struct verdict incapable; /* the first backend whose connector cannot carry it */
    struct cond selection;    /* reason NULL: there was nothing to choose */
    const char *unadvertised; /* the first backend that no advertisement has */
    bool any_connector;
    size_t n_offline; /* backends whose connector is not there */
};

/* Claims of one type that HTTPProxies make, which are recorded. */
#define HP_CLAIMS_IN(view, what)                                                                   \
    {                                                                                              \
        .type = (what), .v = (view), .claims = SW_HP_CLAIM, .holders = SW_HP_PROXY,                \
        .holder_kind = "HTTPProxy", .record = true                                                 \
    }

/* ---- proxy_names.c ---- */

/* Claims recorded and made anew, of all HTTPProxies. The caller ends the maps. */
void hp_claim_names(const struct sw_view *v, const struct sw_connector_conf *conf,
                    struct sw_output *out, struct hp_names *ret);
/* Fills h->hosts. */
void hp_read_hosts(struct hp *h);

/* "HTTPProxy 'ns/name'", or less for one of another namespace. */
const char *hp_holder_text(const struct hp *h, struct sw_slice ns, struct sw_slice name);

/* ---- proxy_l4.c ---- */

/* What the annotation asks for; a text that says what is wrong, or NULL. */
const char *hp_l4_read(struct sw_arena *a, const struct sw_connector_conf *conf,
                       const struct sw_kube_obj *o, struct hp_l4 *ret);
/* Claims on ports, as hp_claim_names. */
void hp_claim_ports(const struct sw_view *v, const struct sw_connector_conf *conf,
                    struct sw_output *out, struct hp_names *ret);
/* Fills in whose the port is. */
void hp_read_port(struct hp *h);
/* The kind of its route: of the view, and by name. */
size_t hp_route_kind(const struct hp *h, const char **ret_kind);
/* The spec of a TCPRoute or TLSRoute; takes parents. */
struct sw_json *hp_l4_route(struct hp *h, struct sw_json *parents);
/* Where it is served, for people. */
struct sw_slice hp_url(struct hp *h);

/* ---- proxy_others.c ---- */

/* Made for the HTTPProxy of its name. */
bool hp_is_child(const struct sw_view *v, const struct sw_kube_obj *o);

/* Names that Gateways, routes and Ingresses serve. The caller ends the map. */
void hp_read_others(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret);
/* True when another namespace than this serves the host or covers it. */
bool hp_served_elsewhere(const struct hp_names *names, struct sw_arena *a, struct sw_slice host,
                         struct sw_slice ns);
/* True for the target domain itself, its reserved names, and what is below the canonical name of
 * another HTTPProxy. */
bool hp_is_fabrics(const struct hp_names *names, struct sw_slice domain, struct sw_slice host,
                   const struct sw_kube_obj *by);

/* ---- proxy_select.c ---- */

/* Chooses b->cn and the final b->connector. */
void hp_select(struct hp *h, struct hp_backend *b);
/* Why a connector may not serve this backend, as the word for data planes; NULL: it may. */
const char *hp_refusal(struct hp *h, const struct hp_backend *b, const struct sw_kube_obj *o);

/* ---- proxy_cleanup.c ---- */

/* For one that is being deleted. */
void hp_cleanup(struct hp *h);

/* ---- */

/* The NodeID to send requests to; empty while nothing may be sent. */
struct sw_slice hp_online(const struct hp *h, const struct hp_backend *b);
/* Gateway, EndpointSlices, Backends, CAs and route wanted, and what is too much taken away. */
void hp_children(struct hp *h);
/* The CAs that it brings along itself; a text that says what is wrong, or NULL. */
const char *hp_ca_read(struct hp *h);
/* The Gateways of HTTPProxies are Envoy Gateway's. */
bool hp_for_envoy_gateway(const struct hp *h);
/* The Gateway wanted; without a name and a port it serves nothing. */
void hp_gateway(struct hp *h);
/* Something to be made that belongs to the HTTPProxy. */
struct sw_json *hp_child(struct hp *h, const char *api, const char *kind, struct sw_slice name);
/* "true/<id>" or "false/" for each connector, in order of the rules. */
struct sw_slice hp_ready_text(struct hp *h);
/* The spec of the route. */
struct sw_json *hp_route(struct hp *h);
struct sw_json *hp_backend_ref(struct hp *h, const struct hp_backend *b);
/* Certificates: those in the view are judged, those missing asked for. */
void hp_certificates(struct hp *h);
/* spec, and an annotation that changes whenever spec does. */
void hp_put_spec(struct hp *h, struct sw_json *obj, struct sw_json *spec);
void hp_status(struct hp *h, const char *invalid);
/* Conditions of one of its names, as the status has them; NULL: none. */
const struct sw_json *hp_host_conditions(const struct sw_kube_obj *proxy, struct sw_slice name);
/* EnvoyPatchPolicies; see proxy_patch.c. */
void hp_patches(struct hp *h);
