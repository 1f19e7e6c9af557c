/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other listeners on a port. SO_REUSEPORT lets any two programs of a user share one, and then the
 * kernel spreads connections over unrelated processes. So a process marks its shared sockets with
 * the name of the group that may share them (a role, and where its configuration comes from), and
 * shares a port only with marked sockets. A mark is an abstract Unix socket: it is seen in the
 * network namespace the port belongs to, across PID namespaces, and goes with the process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/addr.h"

enum { SW_PORT_GROUP_MAX = 64 };

/*
 * The group of a role's processes: "ROLE/NAME" when the operator named it, else "ROLE:" and a hash
 * of where their configuration comes from.
 */
void sw_port_group_name(char buf[SW_PORT_GROUP_MAX], const char *role, const char *name,
                        const char *source);
/*
 * When a listener of a port shared with a successor closes, connections in its queue move to the
 * successor instead of being reset. Best effort: /proc may be read-only.
 */
void sw_port_allow_migration(void);

/* A socket that listens or, of UDP, is bound. */
struct sw_port_holder {
    struct sw_addr at;
    bool v6only; /* [::] that leaves IPv4 to others */
    uint32_t uid;
    uint32_t inode;
};

/*
 * Calls fn for every socket on the port (0: on all ports) in a network namespace (-1: ours).
 * SW_ESYS when the kernel has no table to read (sock_diag).
 */
SW_NODISCARD int sw_port_holders(int netns_fd, uint16_t port, bool udp,
                                 void (*fn)(const struct sw_port_holder *h, void *arg), void *arg,
                                 struct sw_err *err);
/* Would a socket of ours at this address and the holder's get each other's connections? [::] of
 * ours includes IPv4. */
bool sw_port_overlaps(const struct sw_addr *at, const struct sw_port_holder *h);
/*
 * The first socket at an overlapping address that is not marked by the group (NULL: any socket).
 * SW_OK with *ret, SW_ENOENT: there is none, SW_ESYS as above.
 */
SW_NODISCARD int sw_port_find_foreign(int netns_fd, const struct sw_addr *at, bool udp,
                                      const char *group, struct sw_port_holder *ret,
                                      struct sw_err *err);

/* True when there is one. Where the kernel has no table, false, with one line in the log. */
bool sw_port_has_foreign(int netns_fd, const struct sw_addr *at, bool udp, const char *group);

/*
 * Lets the group share the port that fd will be bound to: SO_REUSEPORT, and a mark, which the
 * caller closes with the socket. SW_ESYS.
 */
SW_NODISCARD int sw_port_share(int netns_fd, const char *group, int fd, int *ret_mark,
                               struct sw_err *err);
/* True for a socket that a living process marked. */
bool sw_port_is_marked(int netns_fd, const char *group, uint32_t inode);

/*
 * "python3 (pid 12)" where /proc shows the process, "another process (uid 1000)" otherwise. Walks
 * through /proc: not for threads that carry traffic.
 */
void sw_port_holder_name(const struct sw_port_holder *h, char *buf, size_t cap);
/* Appends ", held by NAME" to the message of a bind that failed with EADDRINUSE. */
void sw_port_explain(int netns_fd, const struct sw_addr *at, bool udp, const char *group,
                     struct sw_err *err);
/*
 * True when two such messages differ at most in the holder. A retry that meets a process as it
 * exits names it differently, and the cause is the same.
 */
bool sw_port_same_cause(const char *a, const char *b);
