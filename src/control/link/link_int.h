/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the build of links share. Not for others. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "control/gateway/build/build_int.h" /* conditions */
#include "control/link/facts.h"
#include "control/link/link.h"
#include "control/objects.h"

enum {
    LK_ADDRESSES_MAX = 100, /* of data planes and of exported Services: what one slice holds */
};

/* A list of addresses, sorted, each once. */
struct lk_addrs {
    struct sw_slice *p;
    size_t n;
};

struct lk {
    const struct sw_view *v;
    const struct sw_link_conf *conf;
    struct sw_output *out;
    struct sw_arena *a;
    struct sw_arena tmp;         /* of one resource */
    const struct sw_json *input; /* NULL: none */
    struct sw_link_facts_builder *facts;
    struct lk_addrs planes;           /* where data planes are reached */
    const struct sw_json *endpoints4; /* of an EndpointSlice with these; NULL: not made yet */
    const struct sw_json *endpoints6;
    bool pods;              /* there are pods of data planes: Services select them */
    struct sw_map services; /* "ns/name" of Services that Imports want */
    struct sw_map slices;   /* the same of EndpointSlices */
    struct sw_map pending;  /* "ns/name" of Services whose Import waits for its port */
    struct sw_map backends; /* "ns/service" -> struct lk_slices; with conf->direct */
};

struct lk_slices {
    const struct sw_kube_obj *obj;
    struct lk_slices *next;
};

/* ---- import.c ---- */

void lk_imports(struct lk *l);
/* The name of an Import's Service in the system namespace, which the one beside it leads to. */
struct sw_slice lk_import_host(struct lk *l, struct sw_slice ns, struct sw_slice name);

/* ---- service.c ---- */

/* A Service that an Import shall have. */
struct lk_service {
    const struct sw_kube_obj *import;
    struct sw_slice ns;
    struct sw_slice name;
    const char *external; /* ExternalName: the name; NULL: a ClusterIP */
    bool selects;         /* pods of data planes */
    uint16_t port;
    uint16_t target;
};

enum lk_state {
    LK_THERE,
    LK_UNDER_WAY, /* wanted from the API, and not seen yet */
    LK_CONFLICT,
};

/* Wants it. LK_CONFLICT: an object of another owner has the name, see *ret_why. */
enum lk_state lk_want_service(struct lk *l, const struct lk_service *s, const char **ret_why);
/* Services and EndpointSlices that no Import wants any more. */
void lk_sweep(struct lk *l);

/* ---- slice.c ---- */

/* The addresses of data planes. */
void lk_read_planes(struct lk *l);
/* EndpointSlices of this Service, with the addresses of data planes. */
void lk_want_slices(struct lk *l, struct sw_slice ns, struct sw_slice service, uint16_t port);
/* The same for a Service that an Import merges with: those of SW_LINK_INGRESS, where it has any. */
void lk_want_merged(struct lk *l, const struct sw_link_lease *i);
/* Where all of them are, for gateways: EndpointSlices of the system namespace. */
void lk_want_planes(struct lk *l);

/* ---- export.c, host.c ---- */

void lk_exports(struct lk *l);
/*
 * The Service of the same namespace that a host of an Export names ("web", "web.ns", "web.ns.svc",
 * with or without the domain); empty: none.
 */
struct sw_slice lk_host_service(const struct sw_link_conf *conf, struct sw_slice host,
                                struct sw_slice ns);
/* True when the operator allows this host, see sw_link_conf.export_hosts. */
bool lk_host_allowed(const struct sw_link_conf *conf, struct sw_slice host);

/* ---- peer.c ---- */

void lk_peers(struct lk *l);
void lk_policies(struct lk *l);

/* ---- roles.c ---- */

void lk_defaults(struct lk *l);

/* ---- resource.c: what data planes get ---- */

struct lk_endpoint {
    struct sw_slice host;
    uint16_t port;
};

void lk_publish_peer(struct lk *l, struct sw_slice name, const struct lk_endpoint *p, size_t n,
                     struct sw_slice form);
void lk_publish_export(struct lk *l, const struct sw_kube_obj *o, const struct lk_endpoint *p,
                       size_t n);
void lk_publish_import(struct lk *l, const struct sw_link_lease *i);

/* ---- build.c ---- */

/* Writes the conditions that are not so yet; others stay as they are. */
void lk_status(struct lk *l, size_t kind, const struct sw_kube_obj *o, const struct cond *want,
               size_t n);
/* For the log, once for as long as it is so. */
void lk_note(struct lk *l, const char *reason, const char *kind, const struct sw_kube_obj *o,
             const char *text);
