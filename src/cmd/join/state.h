/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a machine that joined: its key, the roots of the control plane, what it joined
 * as, and what its kind needs. machine.json is written last: with it the machine has joined.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "identity/join/client.h"

/* The Peer object for the site that a peer joined. */
#define SW_MACHINE_PEER "peer.json"

/* Everything is in the arena. */
struct sw_machine {
    enum sw_join_kind kind;
    const char *id; /* "NAMESPACE/NAME" of the record */
    const char *ns;
    const char *name;
    const char *account;
    const char *trust_domain;
    const char *cluster;
    const char *network;
    const char *address;                     /* of its WorkloadEntry */
    const char *join_address;                /* "HOST:PORT" of the control plane */
    const char *xds_address;                 /* gateways */
    const struct sw_join_gateways *gateways; /* peers: reported by --renew; not stored */
};

/* /var/lib/spanwire/machine for root, else below $XDG_STATE_HOME or ~/.local/state. */
SW_NODISCARD int sw_machine_default_dir(struct sw_arena *a, const char **ret, struct sw_err *err);
/* The path in the directory, in the arena. */
const char *sw_machine_path(struct sw_arena *a, const char *dir, const char *file);

/* SW_ENOENT: it has not joined. */
SW_NODISCARD int sw_machine_load(struct sw_arena *a, const char *dir, struct sw_machine *ret,
                                 struct sw_err *err);
/*
 * Makes the directory and a key with its request, once: an attempt that was cut off continues with
 * the key it had. Appends the request to ret_csr.
 */
SW_NODISCARD int sw_machine_begin(const char *dir, struct sw_buf *ret_csr, struct sw_err *err);
/* Writes what the machine got; id and address as in its code. */
SW_NODISCARD int sw_machine_save(const char *dir, const char *id, const char *address,
                                 const struct sw_join_bundle *b, struct sw_err *err);
/*
 * Asks the control plane anew and writes what it says: its roots, a token, the address. Blocks for
 * as long as the control plane does not answer, up to patience_ns.
 */
SW_NODISCARD int sw_machine_renew(struct sw_arena *a, const char *dir, const struct sw_machine *m,
                                  uint64_t patience_ns, struct sw_join_bundle *ret,
                                  struct sw_err *err);
/*
 * The same for a peer, once and on a loop that runs: asks for a certificate for the key that the
 * directory has. Nothing is written: that is sw_machine_save with what done is called with.
 */
SW_NODISCARD struct sw_join_renewal *sw_machine_renewal_start(struct sw_loop *l, const char *dir,
                                                              const struct sw_machine *m,
                                                              sw_join_renewal_cb done, void *arg,
                                                              struct sw_err *err);
/* Reports it to the control plane; the files stay. */
SW_NODISCARD int sw_machine_leave(struct sw_arena *a, const char *dir, const struct sw_machine *m,
                                  uint64_t patience_ns, struct sw_err *err);
/*
 * For a process that serves from the directory, until it closes the descriptor: a second one would
 * share the ports of the first and truncate its log. SW_EDENIED: another process has it.
 */
SW_NODISCARD int sw_machine_lock_run(const char *dir, int *ret_fd, struct sw_err *err);
/* Removes all of it that is ours. */
void sw_machine_forget(const char *dir);
