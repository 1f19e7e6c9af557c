/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the registration share: reg.c (following), reg_find.c (finding), reg_prove.c
 * (the proof of the key).
 */
#pragma once

#include "base/backoff.h"
#include "base/time.h"
#include "connector/reg/reg.h"

#define REG_BACKOFF_MIN (SW_NS_PER_S)
#define REG_BACKOFF_MAX (30 * SW_NS_PER_S)
#define REG_CALL_NS     (15 * SW_NS_PER_S)
#define REG_MANAGER     "spanwire-connector"

enum reg_step {
    REG_IDLE,  /* nothing to say yet */
    REG_BY_ID, /* looking for a Connector with our key */
    REG_BY_NAME,
    REG_MAY, /* it has another key: may we take it over? */
    REG_CLASS,
    REG_CREATE,
    REG_FOLLOW, /* found: informers and Lease run */
    REG_STOPPED,
};

struct sw_reg {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_reg_opts o;
    struct sw_arena texts; /* of o */
    enum reg_step step;
    struct sw_kube_call *call;  /* of the step */
    struct sw_kube_call *patch; /* of the status */
    struct sw_kube_call *prove; /* of the proof */
    bool patch_again;           /* something changed while it was under way */
    struct sw_timer retry;
    struct sw_timer patch_retry;
    struct sw_timer prove_retry;
    struct sw_backoff backoff;
    struct sw_backoff patch_backoff;
    struct sw_backoff prove_backoff;
    uint64_t proved_at;      /* resourceVersion our proof was written as; 0: not by this process */
    bool logged_elsewhere;   /* that another Connector has our key */
    struct sw_defer restart; /* the informers cannot be freed inside their handlers */
    char *class_name;        /* chosen */
    char *found;             /* name of our Connector; NULL: not known */
    struct sw_informer *self;
    uint64_t self_failures; /* failed calls of 'self' when its watch was opened last */
    struct sw_informer *adverts;
    struct sw_kube_obj *seen;
    struct sw_hold *hold;
    char *lease; /* name of the one held */
    struct sw_details details;
    char *relay;             /* owned text of details */
    uint32_t paths_sent;     /* number of those in the patch under way */
    uint32_t paths_reported; /* and of those that the API took */
    bool have_details;
    bool named;   /* our rights cover objects of our name, and no lists beyond them */
    bool created; /* our Connector, by us */
    /* In 'texts': connectionDetails of the device whose Connector we took over; NULL: none. */
    const struct sw_json *taken_from;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

/* reg_find.c: takes the step we are at. */
void reg_run(struct sw_reg *r);
void reg_retry_later(struct sw_reg *r);
void reg_retry_now(struct sw_reg *r);
/* reg.c: our Connector is known. */
void reg_follow(struct sw_reg *r);
void reg_answered(struct sw_reg *r, const struct sw_kube_reply *p);
/*
 * Our Connector is known, and no other process may be the device: what that one wrote is not
 * replaced by ours, which would take its traffic away.
 */
bool reg_may_write(const struct sw_reg *r);
/* reg_prove.c: writes the proof of our key where it is missing. */
void reg_prove(struct sw_reg *r);
void reg_prove_end(struct sw_reg *r);
/* Ends the search for good: another device has the key or the name. */
void reg_give_up(struct sw_reg *r, const char *fmt, ...) SW_PRINTF(2, 3);
/* A request for Connectors in our namespace, without retries. */
struct sw_kube_req reg_req(const struct sw_reg *r, enum sw_kube_verb verb);
