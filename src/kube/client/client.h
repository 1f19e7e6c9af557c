/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a Kubernetes API: one request at a time or many, watches, errors in the API's own
 * terms, retries where they are safe. It knows nothing about which server answers.
 * Everything runs on the loop's thread; callbacks never come from inside the call that asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"
#include "io/loop.h"
#include "kube/client/kubeconfig.h"
#include "kube/client/request.h"

struct sw_buf;
struct sw_kube_client;
struct sw_kube_call;
struct sw_kube_watch;

typedef void (*sw_kube_cb)(void *arg, struct sw_kube_reply *r);

struct sw_kube_client_opts {
    const char *user_agent; /* ["spanwire/<version>"] */
    size_t reply_max;       /* bytes of one answer [64 MiB] */
    size_t event_max;       /* bytes of one watch event [8 MiB] */
    size_t max_conns;       /* [64] */
    uint32_t tries;         /* of one request, the first included [10] */
};

/*
 * Takes the configuration over (cfg is empty afterwards, also on failure) and reads the files it
 * names. o may be NULL. NULL with SW_EINVAL, SW_ENOENT, SW_ESYS: bad or missing credentials.
 */
SW_NODISCARD struct sw_kube_client *sw_kube_client_new(struct sw_loop *l,
                                                       struct sw_kube_config *cfg,
                                                       const struct sw_kube_client_opts *o,
                                                       struct sw_err *err);
/* Ends everything under way: calls and watches fail with SW_ECANCELED. Not from inside a callback.
 */
void sw_kube_client_free(struct sw_kube_client *c);
struct sw_loop *sw_kube_client_loop(const struct sw_kube_client *c);
/* Namespace of the configuration's context. */
struct sw_slice sw_kube_client_ns(const struct sw_kube_client *c);

/*
 * True when every informer of the client that runs has been complete and every kind that one of
 * them needs is served. Otherwise appends what is waited for, in words, joined by "; " (may be
 * NULL; what does not fit is left out).
 */
bool sw_kube_synced(const struct sw_kube_client *c, struct sw_buf *ret_waits);
/* True from the first request without an answer to the next one with. */
bool sw_kube_away(const struct sw_kube_client *c);

/*
 * Sends a request; cb comes once. A request that cannot even be formed is answered like a failed
 * one (SW_EINVAL). Retried, within the timeout: 429, and 5xx that name a Retry-After; reads also
 * after other 5xx and broken connections; writes also when nothing of them was sent; 401 once when
 * the token file has a new token.
 */
struct sw_kube_call *sw_kube_do(struct sw_kube_client *c, const struct sw_kube_req *req,
                                sw_kube_cb cb, void *arg);
/* No callback comes any more. A write may happen nevertheless. NULL is fine. */
void sw_kube_call_cancel(struct sw_kube_call *call);

/* ---- short forms ---- */

struct sw_kube_call *sw_kube_get(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                 struct sw_slice ns, struct sw_slice name, sw_kube_cb cb,
                                 void *arg);
/* Namespace and name from the object's metadata. */
struct sw_kube_call *sw_kube_create(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                    const struct sw_json *obj, sw_kube_cb cb, void *arg);
struct sw_kube_call *sw_kube_update(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                    const struct sw_json *obj, const char *sub, sw_kube_cb cb,
                                    void *arg);

/* A server-side apply. */
struct sw_kube_apply {
    const struct sw_kube_gvr *gvr;
    const struct sw_json *obj;
    const char *sub;     /* subresource, or NULL */
    const char *manager; /* field manager */
    bool force;          /* take over what other managers own */
};
struct sw_kube_call *sw_kube_apply(struct sw_kube_client *c, const struct sw_kube_apply *p,
                                   sw_kube_cb cb, void *arg);

/* A merge patch of /status. */
struct sw_kube_status_patch {
    const struct sw_kube_gvr *gvr;
    const struct sw_json *seen; /* the object as it was read */
    const struct sw_json *status;
    const char *manager;
};
/*
 * Fails with Conflict unless the object still is the one seen (its resourceVersion goes along): for
 * lists that several writers share and a patch replaces whole.
 */
struct sw_kube_call *sw_kube_patch_status(struct sw_kube_client *c,
                                          const struct sw_kube_status_patch *p, sw_kube_cb cb,
                                          void *arg);

/* Calls cb for the whole list, page after page; see sw_kube_list. */
struct sw_kube_lister;
struct sw_kube_list_cbs {
    /* One page; items and their list. The arena may be moved out. */
    void (*page)(void *arg, const struct sw_json *items, struct sw_arena *arena);
    /* Pages before this are void: the server requires a new list. */
    void (*restart)(void *arg);
    /* The end: SW_OK with the list's resourceVersion, or what went wrong. */
    void (*done)(void *arg, const struct sw_kube_reply *r, struct sw_slice resource_version);
};
/*
 * Lists by pages of req->limit (0: 500) from one revision. When the revision expires between two
 * pages the list begins anew, in one piece. Not to be cancelled from inside page and restart.
 */
struct sw_kube_lister *sw_kube_list(struct sw_kube_client *c, const struct sw_kube_req *req,
                                    const struct sw_kube_list_cbs *cbs, void *arg);
void sw_kube_list_cancel(struct sw_kube_lister *l);

/* ---- watches ---- */

enum sw_kube_event {
    SW_KUBE_ADDED,
    SW_KUBE_MODIFIED,
    SW_KUBE_DELETED,
    SW_KUBE_BOOKMARK,
};

struct sw_kube_watch_cbs {
    void (*open)(void *arg); /* the server agreed; may be NULL */
    /* The arena holds the event; move it out to keep it. */
    void (*event)(void *arg, enum sw_kube_event type, const struct sw_json *object,
                  struct sw_arena *arena);
    /*
     * The end, once. rc SW_EOF: the server ended it in good order. A refusal, or an ERROR event,
     * comes as the reply it carries (code 410 for an expired revision).
     */
    void (*end)(void *arg, const struct sw_kube_reply *r);
};

struct sw_kube_watch_opts {
    bool bookmarks;
    bool initial;       /* sendInitialEvents with what it demands */
    uint32_t timeout_s; /* the server closes then [a random time of 5 to 10 minutes] */
};

/* req: gvr, ns, selectors, resource_version. May cancel from its callbacks. */
struct sw_kube_watch *sw_kube_watch(struct sw_kube_client *c, const struct sw_kube_req *req,
                                    const struct sw_kube_watch_opts *o,
                                    const struct sw_kube_watch_cbs *cbs, void *arg);
/* No callback comes any more. NULL is fine. */
void sw_kube_watch_cancel(struct sw_kube_watch *w);
