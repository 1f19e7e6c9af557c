/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Import has which target port, the port where data planes listen for it. One pure function,
 * for the controller that writes leases and for those that have to know whose a port is: what an
 * Import asks for in its specification it need not have.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/client/informer.h"

enum {
    SW_LINK_PORT_FIRST = 1024,
    SW_LINK_PORT_END = 49152,
    SW_LINK_LEASE_TEXT = 32,
};

struct sw_link_ports {
    uint16_t first;
    uint16_t last;
};

struct sw_link_lease {
    const struct sw_kube_obj *import; /* first: cn_oldest_holder_first */
    uint16_t target;                  /* 0: no lease */
    bool unwritten;                   /* chosen just now: spec.targetPort does not have it yet */
    const char *why;                  /* there is none; a sentence for people */
    const struct sw_kube_obj *holder; /* who has the port that it asks for; or NULL */
};

/*
 * Annotation of an Import: the port that was chosen for it. While spec.targetPort is the same, no
 * user chose it, and another one is as good when it turns out to be leased already.
 */
#define SW_LINK_CHOSEN "link.spanwire.dev/chosen-port"

/* Where data planes share a machine with others: ports that nothing else has by convention. */
#define SW_LINK_PORTS_SHARED "20000-29999"

/* Reads "FIRST-LAST"; *ret is what lies outside of it. SW_EINVAL. */
SW_NODISCARD int sw_link_ports_outside(struct sw_slice in, struct sw_link_ports ret[2],
                                       struct sw_err *err);

/* The message of the condition of who has a lease: what was granted is on record. */
const char *sw_link_lease_text(uint16_t port, char text[SW_LINK_LEASE_TEXT]);

/*
 * Fills in all but 'import' of each, in any order of them. Ports of 'reserved' are never leased,
 * nor those that every data plane has. Texts are in the arena.
 */
void sw_link_leases(struct sw_arena *a, const struct sw_link_ports *reserved, size_t n_reserved,
                    struct sw_link_lease *list, size_t n);
