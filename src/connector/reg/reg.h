/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device in the API: finds or makes its Connector, keeps its status current, follows the
 * Connector and its advertisements, holds the Lease. It never gives up: what fails is tried again,
 * and what was learnt stays in force while the API is unreachable.
 */
#pragma once

#include "connector/details.h"
#include "connector/hold.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"

struct sw_reg;

struct sw_reg_opts {
    struct sw_slice ns;
    struct sw_slice name;       /* empty: found by the key, or made up by the server */
    bool any_name;              /* one of another name that has our key will do */
    bool take_over;             /* one of our name that has another key, and is offline */
    struct sw_slice class_name; /* empty: chosen */
    struct sw_slice identity;   /* of this installation, for the Lease */
    struct sw_slice host;       /* device annotations */
    struct sw_slice os;
    const struct sw_rawkey *key; /* borrowed */
    /* Our Connector as it is now; NULL: it is gone, and looked for again. */
    void (*connector)(void *arg, const struct sw_kube_obj *o);
    /* Advertisements of ours changed: see sw_reg_advertisements. */
    void (*advertised)(void *arg);
    /* Every answer of the API, and every lack of one (code 0). */
    void (*answered)(void *arg, bool ok, int code, struct sw_slice message);
    /* The Lease is in the hands of another process with our key, which may live. */
    void (*foreign)(void *arg);
    /* Retrying cannot help: another device has the key or the name. */
    void (*fatal)(void *arg, const struct sw_err *err);
    void *arg;
};

/* Texts are copied. Nothing happens before the first sw_reg_set_details. */
SW_NODISCARD struct sw_reg *sw_reg_new(struct sw_kube_client *c, const struct sw_reg_opts *o);
/* Before the client. NULL is fine. */
void sw_reg_free(struct sw_reg *r);
/* All that follow, but sw_reg_stop, take NULL for a device without an API: they do nothing. */

/* The status to report; copied. Written when the Connector's differs. */
void sw_reg_set_details(struct sw_reg *r, const struct sw_details *d);
/*
 * Retries at once everything that waits or is under way, and renews the Lease: after sleep, when
 * another process may hold what we held, or when the network changed.
 */
void sw_reg_network_changed(struct sw_reg *r, bool slept);
/* Gives the Lease back and stops; done comes from the loop. */
void sw_reg_stop(struct sw_reg *r, void (*done)(void *arg), void *arg);

/* The name of our Connector; NULL: not found yet. Borrowed. */
const char *sw_reg_name(const struct sw_reg *r);
/* Our Connector as last seen; NULL: not found yet. Borrowed. */
const struct sw_kube_obj *sw_reg_connector(const struct sw_reg *r);
/* All that are known, of which some may name other Connectors; as sw_informer_list. */
size_t sw_reg_advertisements(const struct sw_reg *r, struct sw_kube_obj ***ret);
/* The Lease is ours and was renewed in time. */
bool sw_reg_live(const struct sw_reg *r);
/* Our Connector was not there before this process. */
bool sw_reg_created(const struct sw_reg *r);
/* connectionDetails of the device whose Connector this process took over; NULL: of none. */
const struct sw_json *sw_reg_taken_from(const struct sw_reg *r);
/* What it is doing, for people. */
const char *sw_reg_step(const struct sw_reg *r);
