/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server withholds from its client: answers, rights, kinds. Every request and informer
 * of a client reports here; the log gets one warning that lists all of it, and again when the list
 * changes. Not for users of the client, but for sw_kube_lacks_right.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "io/loop.h"
#include "kube/client/request.h"

enum { KUBE_DENIED_MAX = 64 };

/* A right, as a role would grant it. */
struct kube_right {
    const char *verb; /* a literal; NULL: the request is for no resource */
    const struct sw_kube_gvr *gvr;
    char sub[16];
};

/* An informer, as far as it matters here. Its own to fill and change. */
struct kube_reader {
    struct sw_list link; /* of kube_health.readers, while it runs */
    const struct sw_kube_gvr *gvr;
    bool optional; /* the server need not have the kind */
    bool needed;   /* the same, but the client is not complete without */
    bool absent;   /* the server has no such kind */
    bool synced;   /* its store has been complete */
    /* The API answers again: a reader that backs off retries now. */
    void (*wake)(struct kube_reader *r);
};

struct kube_health {
    struct sw_loop *loop;
    struct sw_list readers; /* struct kube_reader */
    struct kube_right denied[KUBE_DENIED_MAX];
    size_t n_denied;
    char away[200];        /* why there is no answer, or none that counts; empty: there are */
    struct sw_timer timer; /* until the next line */
    char *logged;          /* what the last line listed; NULL: nothing was missing */
    bool closing;          /* nothing is reported any more */
};

void kube_health_init(struct kube_health *h, struct sw_loop *loop);
void kube_health_done(struct kube_health *h);
/* The right that a request needs; watch: it is one. */
struct kube_right kube_right_of(const struct sw_kube_req *req, bool watch);
/* The server answered a request for this right. */
void kube_health_answered(struct kube_health *h, const struct kube_right *right,
                          const struct sw_kube_reply *r);
/* The server began an answer; the rest of it may take for ever. */
void kube_health_accepted(struct kube_health *h, const struct kube_right *right);
/* There was no answer. */
void kube_health_failed(struct kube_health *h, const struct sw_err *err);
/* A reader started, stopped, or found that its kind is served or is not. */
void kube_health_changed(struct kube_health *h);
/* As sw_kube_synced. */
bool kube_health_synced(const struct kube_health *h, struct sw_buf *ret_waits);

/* True for the refusal of an authorizer: a right is missing. Admission refuses with 403 as well. */
bool sw_kube_lacks_right(const struct sw_kube_reply *r);
