/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the updater share. Not for others. */
#pragma once

#include "base/backoff.h"
#include "base/buf.h"
#include "base/list.h"
#include "dns/update.h"
#include "dns/update_msg.h"

enum updater_state {
    UPDATER_IDLE,    /* no connection */
    UPDATER_PAUSE,   /* after a failure */
    UPDATER_CONNECT, /* being made */
    UPDATER_SYNC,    /* waiting for the zone */
    UPDATER_UPDATE,  /* waiting for the answer to an update */
};

/* A name we want something at, or have something at. */
struct updater_item {
    struct sw_list link; /* in 'queue' while something is to be done */
    struct sw_dns_name key;
    struct sw_arena arena; /* of the set */
    struct sw_dns_rrset set;
    uint64_t want; /* fingerprint; 0 = nothing */
    uint64_t have; /* what the server has of ours; 0 = nothing known */
    bool foreign;  /* owned by another publisher, until the next comparison */
    bool seen;     /* in the newest set */
    bool tried;    /* the other way of writing failed: see next_kind */
};

struct sw_dns_updater {
    struct sw_loop *loop;
    struct sw_dns_updater_opts o;
    char owner[65];
    struct sw_arena arena;
    struct sw_slice marker;
    struct sw_map items;
    struct sw_list queue;
    size_t foreign;
    enum updater_state state;
    bool need_sync;
    bool no_axfr; /* the server refuses AXFR: logged once */
    bool given;   /* a set was given: before, everything would look unwanted */
    int fd;
    struct sw_watch watch;
    struct sw_timer timer; /* deadline, or end of a pause */
    struct sw_timer resync;
    struct sw_backoff backoff;
    struct sw_buf in;
    struct sw_buf out;
    uint16_t id;
    struct sw_dns_tsig_ctx tsig;
    struct updater_item *current; /* of UPDATE */
    enum sw_dns_update_kind kind;
    uint64_t sent; /* fingerprint of what is under way: it->want may change meanwhile */
    struct sw_dns_inventory inventory;
    uint64_t done;
    uint64_t failures;
    uint8_t scratch[SW_DNS_MSG_MAX];
};

/* ---- update_item.c ---- */
/* The one of a name, made when there is none. */
struct updater_item *updater_item_at(struct sw_dns_updater *u, const struct sw_dns_name *name);
void updater_free_item(struct sw_dns_updater *u, struct updater_item *it);
void updater_set_foreign(struct sw_dns_updater *u, struct updater_item *it, bool on);
/* Puts it where it belongs now; may free it. */
void updater_file_item(struct sw_dns_updater *u, struct updater_item *it);
/* This is wanted at its name. */
void updater_take_set(struct sw_dns_updater *u, const struct sw_dns_rrset *s);
