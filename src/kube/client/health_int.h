/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's files report. Not for others. */
#pragma once

#include "base/list.h"
#include "io/loop.h"
#include "kube/client/client.h"

enum { KUBE_DENIED_MAX = 64 };

/* A right, as a role would grant it. */
struct kube_right {
    const char *verb; /* a literal; NULL: the request is for no resource */
    const struct sw_kube_gvr *gvr;
    char sub[16];
};

struct kube_health {
    struct sw_list informers; /* that run: struct sw_informer.health */
    struct kube_right denied[KUBE_DENIED_MAX];
    size_t n_denied;
    char away[200];        /* why there is no answer, or none that counts; empty: there are */
    struct sw_timer timer; /* until the next line */
    char *logged;          /* what the last line listed; NULL: nothing was missing */
};

void kube_health_init(struct sw_kube_client *c);
void kube_health_done(struct sw_kube_client *c);
/* The right that a request needs; watch: it is one. */
struct kube_right kube_right_of(const struct sw_kube_req *req, bool watch);
/* The server answered a request for this right. */
void kube_health_answered(struct sw_kube_client *c, const struct kube_right *right,
                          const struct sw_kube_reply *r);
/* The server began an answer; the rest of it may take for ever. */
void kube_health_accepted(struct sw_kube_client *c, const struct kube_right *right);
/* There was no answer. */
void kube_health_failed(struct sw_kube_client *c, const struct sw_err *err);
/* An informer started, stopped, or found that its kind is served or is not. */
void kube_health_changed(struct sw_kube_client *c);
