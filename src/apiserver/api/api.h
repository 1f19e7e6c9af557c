/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API server share: the server, a request on its way, answers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "apiserver/api/res.h"
#include "apiserver/api/user.h"
#include "apiserver/front/front.h"
#include "base/json.h"
#include "base/list.h"
#include "http/url.h"
#include "io/loop.h"
#include "kube/select/selector.h"
#include "store/store.h"

struct sw_ca;
struct sw_jws_key;
struct api_authz;
struct api_fair;
struct api_gc;
struct api_docs;
struct api_pool;
struct api_hooks;
struct hook_set;
struct api_admission_counts;
struct api_policies;
struct api_workers;
struct api_job;
struct api_quota;
struct api_revoker;
struct api_accounts;

/* Where the accounts of the fabric's roles are. */
#define API_SYSTEM_NS "spanwire-system"

enum { API_TOKENS_KNOWN = 1024 };

struct api_tokens {
    SW_VEC(struct api_static_token *) all;
    /* Tokens whose signature was good, by their digest; what they say is judged each time. */
    struct api_known_token *known[API_TOKENS_KNOWN];
};

/* The line of a watch written last. The pointers are compared, never followed. */
struct api_line {
    struct sw_buf text;
    const char *type;
    const struct api_res *res;
    const struct sw_store_obj *obj;
    uint64_t revision;
};

struct api_page {
    const char *path;
    const char *type;
    void (*fn)(void *arg, struct sw_buf *out);
    void *arg;
};

struct api_dispatch;

struct sw_api {
    struct sw_loop *loop;   /* borrowed */
    struct sw_store *store; /* NULL once closed */
    size_t writes;          /* under way in the store */
    struct sw_store_feed *feed;
    struct sw_front *front;
    struct sw_ca *ca;
    struct sw_jws_key *token_key;
    const char *issuer;    /* "https://kubernetes.default.svc..." */
    const char *advertise; /* "host:port" */
    struct sw_addr bound;
    const struct api_dispatch *dispatch; /* static */
    struct api_registry reg;
    struct api_tokens tokens;
    struct api_authz *authz;
    struct api_fair *fair;
    struct api_quota *quota;
    struct api_workers *work; /* threads for what takes long */
    struct api_req *restart;  /* turned out to take long on the loop; compared, never followed */
    struct api_docs *docs;    /* discovery and OpenAPI, made on demand */
    struct api_gc *gc;
    struct api_pool *pool; /* addresses of Services; NULL until used */

    struct {
        struct api_policies *policies;       /* admission policies in force; NULL until used */
        struct api_hooks *hooks;             /* connections to webhooks; NULL until used */
        struct hook_set *hook_set;           /* webhooks as configured; NULL: to be read */
        struct api_admission_counts *counts; /* NULL: nothing counted */
    } admission;

    struct sw_list watches; /* struct api_watch */
    struct sw_list futures; /* requests that wait for a revision */

    struct {
        struct sw_defer turn; /* initial states of watches (api_fair_walk) */
        uint64_t turn_ns;     /* the turn of the loop in which it ran last */
        struct api_line line; /* of a watch */
    } walk;

    struct sw_list internals;      /* requests of our own under way */
    struct api_accounts *accounts; /* of the fabric's roles; NULL: none */
    struct api_revoker *revoker;   /* judges credentials of open streams again */
    uint64_t review;               /* number of the newest such judgement */
    struct {
        uint64_t escalations;
        uint64_t revoked; /* watches whose credential was not good any more */
    } refused;
    int audit_fd;

    struct {
        uint64_t done;    /* writes answered, as health saw it last */
        uint64_t done_ns; /* when it saw more of them or none waiting; 0: never looked */
    } health;

    struct sw_tls_cred *cred;

    struct { /* served beside the API */
        struct api_page pages[4];
        size_t n;
    } page;

    bool loopback_endpoints;
    struct sw_egress *egress; /* borrowed */

    struct {
        bool stopping;
        bool closing; /* sw_api_free: nothing new is written */
        bool ready;
        uint32_t starting; /* bootstrap writes under way */
    } phase;

    struct sw_arena arena;
};

enum api_verb {
    API_GET,
    API_LIST,
    API_WATCH,
    API_CREATE,
    API_UPDATE,
    API_PATCH,
    API_DELETE,
    API_DELETECOLLECTION,
};

enum api_as {
    API_AS_OBJECT,
    API_AS_TABLE,
    API_AS_PARTIAL,
};

enum api_validation {
    API_VALIDATE_WARN,
    API_VALIDATE_STRICT,
    API_VALIDATE_IGNORE,
};

struct api_req;
typedef void (*api_done_cb)(struct api_req *r, int code, const struct sw_json *body);

/* One request, from the network or from ourselves. */
struct api_req {
    struct sw_api *api;
    struct sw_xchg *x;      /* NULL: our own */
    struct sw_arena *arena; /* lives as long as the request */
    struct sw_arena own_arena;
    struct sw_list link;

    struct {              /* a request of our own */
        api_done_cb done; /* where the answer goes */
        void *done_arg;
        struct api_req *on_behalf;  /* the client's request it is a part of, or NULL */
        struct sw_defer start;      /* begins from the loop */
        const struct sw_json *json; /* the body, already a tree */
    } own;

    struct sw_slice method;
    struct sw_slice path; /* decoded */
    enum api_verb verb;
    bool is_resource;
    bool watch_prefix;
    struct sw_slice group;
    struct sw_slice version;
    struct sw_slice resource;
    struct sw_slice sub;
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice selected; /* the one object a watch of the old form names in its path */

    struct {
        struct sw_slice text;  /* what errors show of a strategic patch */
        struct sw_texts notes; /* what is odd about the operations of a JSON patch */
        bool strategic;        /* strategic merge, not JSON or merge patch */
    } patch;

    struct {
        struct sw_slice rest[16];
        size_t n;
        bool over; /* more segments than a resource has */
    } path_segments;

    bool unknown_method; /* none of HTTP's that the API uses */
    struct sw_query query;
    struct api_user user;
    struct api_user real_user; /* who impersonates 'user'; no name: no impersonation */
    const struct api_res *res;
    struct api_crd *crd; /* reference held for res */
    struct sw_slice content_type;
    struct sw_slice body;

    struct { /* how to answer */
        enum api_as as;
        const char *as_version; /* "v1" or "v1beta1" */
        bool pretty;
        bool yaml;
    } out;

    struct { /* options of a write */
        bool dry_run;
        bool force;
        struct sw_slice manager;
        enum api_validation validation;
    } write;

    struct {
        struct sw_texts warnings;
        struct sw_json *audit_notes; /* annotations of the audit log; NULL when there are none */
        const char *audit_id;
    } record;

    struct sw_store_snap *snap; /* what the answer was made from */
    uint64_t begin_ns;

    struct {
        bool counted;          /* in the fairness counters */
        bool long_work;        /* handled on a worker */
        struct api_job *job;   /* on its way to or on a worker; NULL: not so */
        struct api_req *fresh; /* as it was before it was handled, for a restart; NULL: none */
    } exec;

    struct sw_slice client_key;
};

/* --- status.c: answers --- */

/* Status with a reason ("" for none) and no details. */
void api_fail(struct api_req *r, int code, const char *reason, const char *fmt, ...)
    SW_PRINTF(4, 5);
/* The same with details {name, group, kind: resource}. */
void api_fail_res(struct api_req *r, int code, const char *reason, struct sw_slice name,
                  const char *fmt, ...) SW_PRINTF(5, 6);
/* With details given (may be NULL). */
void api_fail_details(struct api_req *r, int code, const char *reason, const char *message,
                      struct sw_json *details);
void api_not_found(struct api_req *r);
void api_no_such_resource(struct api_req *r);
void api_conflict(struct api_req *r, const char *why);
void api_bad_request(struct api_req *r, const char *fmt, ...) SW_PRINTF(2, 3);
/* 405: this method on this resource. */
void api_not_allowed(struct api_req *r);
void api_shutting_down(struct api_req *r);
/* 500, "Internal error occurred: ". */
void api_internal_error(struct api_req *r, const char *why);
/* 422 about an object of ours. */
void api_invalid(struct api_req *r, struct sw_slice name, const struct sw_field_errs *e);
/* 422 about something else, e.g. "CreateOptions" in "meta.k8s.io". */
void api_invalid_kind(struct api_req *r, const char *kind, const char *group, struct sw_slice name,
                      const struct sw_field_errs *e);
/* The same about options of a request unless the list is empty; false: 422 was sent. */
bool api_options_ok(struct api_req *r, const char *kind, const struct sw_field_errs *e);
/* A Status object. */
struct sw_json *api_status_new(struct sw_arena *a, int code, const char *reason,
                               const char *message, struct sw_json *details);

/* --- reply.c --- */

/* Decides how to answer from Accept; false: 406 was sent. 'list': several objects may come. */
bool api_negotiate(struct api_req *r);
/* Any JSON as it is. */
void api_reply(struct api_req *r, int code, const struct sw_json *v);
/* An object of the request's resource, in the form the client asked for. */
void api_reply_object(struct api_req *r, int code, struct sw_json *obj);
/* Text already made; takes the buffer. */
void api_reply_buf(struct api_req *r, int code, const char *content_type, struct sw_buf *b);
void api_reply_text(struct api_req *r, int code, struct sw_slice text);
void api_warn(struct api_req *r, const char *fmt, ...) SW_PRINTF(2, 3);
/* Releases what the request holds; an internal one is freed. Called by the replies. */
void api_req_done(struct api_req *r, int code);
/* Headers every answer has. */
void api_common_headers(struct api_req *r);
/* Table and PartialObjectMetadata forms. */
struct sw_json *api_to_partial(struct api_req *r, const struct sw_json *obj);
struct sw_json *api_to_row(struct api_req *r, struct sw_json *obj);
struct sw_json *api_to_table(struct api_req *r, struct sw_json *const *objs, size_t n,
                             bool with_columns);

/* --- request.c --- */

/* How the server continues with a request: the verbs are above this room (dispatch.c). */
struct api_dispatch {
    void (*resource)(struct api_req *r, void *arg); /* of a client, from its resource on */
    void (*internal)(struct api_req *r);            /* of the server's own */
};
/* A request of the server's own. Everything but 'res' is copied. */
struct api_internal_request {
    enum api_verb verb;
    const struct api_res *res;
    struct sw_slice ns;         /* empty: the resource has no namespaces */
    struct sw_slice name;       /* empty: the body has it */
    const char *sub;            /* subresource; NULL: the object itself */
    const struct sw_json *body; /* NULL: none */
};
/*
 * Runs it as a user above all rules. cb gets the answer (code and body live during the call only).
 */
struct api_req *api_internal(struct sw_api *api, const struct api_internal_request *q,
                             api_done_cb cb, void *arg);
/* Begins again on a worker, as if nothing had been done: it turned out to take long. */
void api_restart(struct api_req *r);
/* Frees one that will not be answered any more. */
void api_internal_drop(struct api_req *r);
const char *api_verb_name(enum api_verb v);
/* First value of a query parameter; p == NULL when absent. */
struct sw_slice api_param(const struct api_req *r, const char *name);
/* An integer parameter, 0 when absent. False: an error was sent. */
bool api_param_int(struct api_req *r, const char *name, int64_t *ret);
/* Boolean parameters: present and not "false" or "0". */
bool api_param_bool(const struct api_req *r, const char *name);

/* --- object.c: objects in the store --- */
/* The tree of a stored version as the API shows it, resourceVersion included. Borrows from o. */
struct sw_json *api_load(struct sw_arena *a, const struct api_res *res,
                         const struct sw_store_obj *o);
/* The newest version of what is there, as a tree that owns its memory; NULL: res is, or nothing is.
 */
struct sw_json *api_stored(struct sw_api *api, struct sw_arena *a, const struct api_res *res,
                           struct sw_slice ns, struct sw_slice name);
/* The version in the request's snapshot, which it borrows from; NULL: there is none. */
struct sw_json *api_in_snap(const struct api_req *r, const struct api_res *res, struct sw_slice ns,
                            struct sw_slice name);
/* A stored value as it is, which the tree borrows from; NULL: it does not parse. */
struct sw_json *api_parse_stored(struct sw_arena *a, const struct sw_store_obj *o);
/* Appends the JSON text of a stored object; with_type adds apiVersion and kind. */
int api_write_obj(struct sw_buf *out, const struct api_res *res, const struct sw_store_obj *o,
                  bool with_type);
/* The text to store: metadata first, no resourceVersion and kind. */
struct sw_slice api_encode(struct sw_arena *a, const struct api_res *res, struct sw_json *obj);
/*
 * What of an object reaches the store: fields its storage version does not know are gone. obj
 * becomes what a read of that gives.
 */
struct sw_json *api_to_storage(struct sw_arena *a, const struct api_res *res, struct sw_json *obj);
/* An object of one version of a resource as another one shows it; changes obj. */
struct sw_json *api_convert(struct sw_arena *a, const struct api_res *from,
                            const struct api_res *to, struct sw_json *obj);
/* metadata as an object, made when missing. */
struct sw_json *api_meta(struct sw_arena *a, struct sw_json *obj);
struct sw_slice api_meta_str(const struct sw_json *obj, const char *key);
struct sw_slice api_str(const struct sw_json *v, const char *key);
/* Takes kind and apiVersion out, as items of lists of built-in kinds have none. */
void api_drop_type(struct sw_json *obj);
/* True when it is being deleted. */
bool api_is_going(const struct sw_json *obj);
const char *api_now(struct sw_arena *a);
/* Sets a condition of a status, with the time when it is another than before; false: it is so. */
bool api_set_condition(struct sw_arena *a, struct sw_json *status, const char *type, bool yes,
                       const char *reason, const char *message);
/* What the keys of a resource begin with, in a namespace unless ns is empty. */
struct sw_slice api_prefix(struct sw_arena *a, const struct api_res *res, struct sw_slice ns);
/* namespace and name out of a store key */
void api_split_key(const struct api_res *res, struct sw_slice key, struct sw_slice *ret_ns,
                   struct sw_slice *ret_name);
/* An object in the shape it is stored in: events.k8s.io and autoscaling/v1 have another one. */
struct sw_json *api_unview(struct sw_arena *a, const struct api_res *res, struct sw_json *obj);
const char *api_uuid(struct sw_arena *a);
void api_set_rv(struct sw_arena *a, struct sw_json *obj, uint64_t revision);

/* --- audit.c --- */
void api_audit(const struct api_req *r, int code);
/* An annotation of the line in the audit log. */
void api_audit_note(struct api_req *r, const char *key, struct sw_slice value);
