/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `expose` share: expose.c (life, readiness), expose_steps.c (the objects). */
#pragma once

#include "base/backoff.h"
#include "connector/expose/expose.h"
#include "connector/expose/objects.h"
#include "connector/expose/probe.h"
#include "connector/expose/state.h"
#include "connector/expose/view.h"
#include "connector/origin.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"

enum expose_step {
    EXPOSE_CONNECTOR, /* the device is not registered yet */
    EXPOSE_LOOK,      /* is there an HTTPProxy of our name? */
    EXPOSE_OTHER,     /* it goes to another device: is that one alive? */
    EXPOSE_MAY,       /* it is not: may we take it over? */
    EXPOSE_LOOK_ADVERT,
    EXPOSE_CLAIM, /* host names that the HTTPProxy has not, beside those it has; see keep.c */
    EXPOSE_PROXY,
    EXPOSE_ADVERT,
    EXPOSE_FOLLOW,
    EXPOSE_RESTORE_KEY, /* of the device whose Connector was taken over */
    EXPOSE_RESTORE_PROXY,
    EXPOSE_RESTORE_ADVERT,
    EXPOSE_REMOVE_PROXY,
    EXPOSE_REMOVE_ADVERT,
    EXPOSE_REMOVE_USERS, /* does anything else use the Connector? */
    EXPOSE_REMOVE_CONNECTOR,
    EXPOSE_DONE,
};

/* What this process did with an object of the service. */
struct expose_object {
    const struct sw_json *before; /* in 'kept', as found; NULL: it was not there */
    bool wrote;                   /* this run changed, or may have changed, an existing one */
    bool unknown;                 /* the API may have applied a write without a reply */
    bool made;                    /* by this process */
    char *uid; /* as last written by this process: nothing else is removed; NULL: never */
};

struct expose {
    struct sw_loop *loop;
    struct sw_expose_config *cfg;
    struct sw_arena *arena;
    struct sw_err *err;
    int rc;
    struct sw_target target;
    struct sw_connector *device;
    struct sw_expose_view view;
    enum expose_step step;
    struct sw_kube_call *call;
    struct sw_timer retry;
    struct sw_backoff backoff;
    struct sw_timer deadline;
    char *connector;                 /* name; NULL: not known */
    char *other;                     /* connector of the HTTPProxy that was there */
    struct sw_arena kept;            /* of hostnames */
    const struct sw_json *hostnames; /* as wanted; NULL: none */
    struct sw_buf ca;                /* PEM of --ca; empty: none */
    uint16_t redirect_port;
    bool claiming;      /* names first: the rest is as before */
    bool settled;       /* the names are ours */
    int64_t generation; /* of the HTTPProxy as last written */

    struct expose_object httpproxy;
    struct expose_object advert;
    struct sw_kube_obj *seen; /* the HTTPProxy, as last seen */
    bool lost;                /* another owner has the name or the key: nothing is removed */
    bool failed;   /* for good: what was made goes again, what was changed is changed back */
    bool not_ours; /* another process holds the Connector */
    bool key_back; /* a Connector that was taken over is its former device's again */
    bool logged;   /* logged that the objects exist */
    struct sw_informer *informer;
    struct sw_defer judge;
    struct sw_timer patience; /* reports what is waited for only when it takes a while */
    bool ready;
    char *url;
    uint64_t begun_ns;

    struct {                      /* the origin of an https target */
        struct sw_origin *origin; /* NULL: none */
        struct sw_origin_probe *run;
        bool done;
    } probe;

    struct {
        bool stopping;
        bool drained;
        bool removed;
    } end;
};

/* expose_use.c: the target, and everything that follows from it. SW_EINVAL and others: err. */
SW_NODISCARD int expose_fill_in(struct expose *x);
/* expose_steps.c */
void expose_go(struct expose *x, enum expose_step step);
void expose_run_step(struct expose *x);
/* Whether the step creates or changes an object. */
bool expose_is_write(enum expose_step step);
/* expose_keep.c: what was there before, to be kept until the run succeeds. */
void expose_keep(struct expose *x, struct expose_object *of, const struct sw_json *found);
/*
 * None requested: those the HTTPProxy has stay, that is what "the same name again" means. A run
 * that was killed while it claimed names leaves some that it asked for in vain.
 */
void expose_keep_hostnames(struct expose *x, const struct sw_json *proxy);
/* True: the verdict on names that were kept came only now, and the others are written. */
bool expose_leave_out_taken(struct expose *x);
/* The step after everything was looked at; EXPOSE_CLAIM when names have to be claimed first. */
enum expose_step expose_first_write(struct expose *x);
/* The HTTPProxy as it was, with all names; in the arena. */
struct sw_json *expose_claim_object(const struct expose *x, struct sw_arena *a);
/* Either object as it was before, in the arena. */
struct sw_json *expose_before_object(struct sw_arena *a, const struct expose_object *of);
/* True while names are claimed: the verdict on them was looked for. */
bool expose_judge_claim(struct expose *x);
/* The first step of taking back what this process did; EXPOSE_DONE: it did nothing. */
enum expose_step expose_undo_step(const struct expose *x);
/* A failed run took the Connector of another device, which gets it back first. */
bool expose_owes_key(const struct expose *x);
/* The HTTPProxy or the Connector were another device's. */
bool expose_took_over(const struct expose *x);
/* The merge patch for the former key, in the arena. */
struct sw_json *expose_former_key(const struct expose *x, struct sw_arena *a);
/* The one after the HTTPProxy was taken back. */
enum expose_step expose_undo_advert(const struct expose *x);
/* expose.c: every object is there. */
void expose_follow(struct expose *x);
/* event as in sw_view_failure. */
void expose_fail(struct expose *x, int rc, const char *event, struct sw_slice message);
/* Takes back what this run wrote, as far as --rm or a failure asks for it. Nothing is under way. */
void expose_undo(struct expose *x);
/* Ends the loop when everything is reported and removed. */
void expose_check_end(struct expose *x);
/* The Connector is ours, and was not there before. */
bool expose_made_connector(const struct expose *x);
