/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of informers share. Not for others. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "kube/client/health.h"
#include "kube/client/informer.h"

enum inf_state {
    INF_STOPPED,
    INF_LIST,   /* pages are coming in */
    INF_STREAM, /* the initial events of a streaming list are */
    INF_WATCH,  /* the store is complete and follows the changes */
    INF_WAIT,   /* backing off */
};

struct sw_informer {
    struct sw_kube_client *client;
    struct kube_reader reader; /* what the client's health knows of it */
    struct sw_informer_opts o; /* texts owned below */
    char *ns;
    char *labels;
    char *fields;
    struct sw_informer_cbs cbs;
    void *arg;
    enum inf_state state;
    struct sw_kube_lister *lister;
    struct sw_kube_watch *watch;
    struct sw_timer timer; /* back-off, or the patience with a stream */
    struct sw_timer resync;
    struct sw_map store;                /* key -> object, a reference each */
    struct sw_map fresh;                /* the state that is being read */
    struct sw_map known;                /* hollow: key -> struct inf_known, instead of both */
    uint32_t epoch;                     /* of the state that is being read, or was last */
    SW_VEC(struct sw_kube_obj *) order; /* as read, a reference each; some may be outdated by now */
    char *rv;                           /* reached; NULL: none */
    size_t version;                     /* 0: o.gvr, else of o.older */
    bool no_stream;                     /* the server cannot */
    unsigned failed;                    /* in a row */
    uint64_t watch_began_ns;
    uint64_t watch_events;
    uint64_t listed_ns; /* when the store was replaced last */
    struct sw_informer_stats stats;
};

/* ---- informer_store.c ---- */
/* Calls the handlers with a new state of an object that they know, or not. */
void inf_tell(struct sw_informer *i, bool known, struct sw_kube_obj *old, struct sw_kube_obj *now);
/* An object of the store or a new one; takes over the reference. Calls the handlers. */
void inf_store_put(struct sw_informer *i, struct sw_kube_obj *o);
/* last: the state the server deleted; a reference that is taken over, may be NULL. */
void inf_store_del(struct sw_informer *i, struct sw_slice key, struct sw_kube_obj *last);
void inf_store_clear(struct sw_informer *i);
/* Revisions are opaque, but where both are numbers an older one is a repetition. */
bool inf_older(struct sw_slice a, struct sw_slice b);

void inf_fresh_clear(struct sw_informer *i);
/* Takes over the reference. An object already known in this state is not kept twice. */
void inf_fresh_put(struct sw_informer *i, struct sw_kube_obj *o);
void inf_fresh_del(struct sw_informer *i, struct sw_slice key);
/* What was read becomes the store; handlers get the difference. */
void inf_replace(struct sw_informer *i);

/* ---- informer_hollow.c ---- */
/* The same as above for an informer that keeps names only. */
void inf_hollow_put(struct sw_informer *i, struct sw_kube_obj *o);
void inf_hollow_del(struct sw_informer *i, struct sw_slice key, struct sw_kube_obj *last);
/* What was not seen since the epoch began is gone. */
void inf_hollow_replace(struct sw_informer *i);
void inf_hollow_clear(struct sw_informer *i);
