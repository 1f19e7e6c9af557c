/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets: made non-blocking and close-on-exec, with the options the fabric needs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/addr.h"

struct sw_egress;

struct sw_sock_opts {
    uint32_t mark; /* SO_MARK, 0 = none */
    /*
     * Listeners: the group whose processes may listen here at the same time (SO_REUSEPORT, see
     * io/port.h); NULL: none. ret_mark gets the mark, to be closed with the socket.
     */
    const char *share;
    int *ret_mark;
    bool v6only;      /* [::] leaves IPv4 to another socket (UDP) */
    bool unnamed;     /* a port in use is refused without looking for the process that holds it */
    bool transparent; /* IP_TRANSPARENT + IP_FREEBIND: bind to addresses not ours */
    bool freebind;    /* IP_FREEBIND alone: the address may come later */
    /*
     * With a source address: bind to a port below the ephemeral range. A connection made in the
     * name of a client toward the address the client itself connected to would otherwise, when the
     * ports happen to be the same, look like the client's own to connection tracking.
     */
    bool low_port;
    bool keepalive; /* TCP keep-alive with the next three */
    uint32_t keepalive_time_s;
    uint32_t keepalive_interval_s;
    uint32_t keepalive_retries;
    uint32_t user_timeout_ms; /* TCP_USER_TIMEOUT, 0 = off */
    int backlog;              /* listeners; 0 = 1024 */
    int netns_fd;             /* make the socket inside this namespace; -1 = here */
    /* Connects: the destination is a tenant's choice, this filter judges it. NULL: it is not. */
    struct sw_egress *egress;
};
#define SW_SOCK_OPTS_INIT                                                                          \
    {                                                                                              \
        .netns_fd = -1                                                                             \
    }

/*
 * Listening TCP socket. The address may be [::] (dual stack). Accepted sockets inherit its options.
 * SW_ESYS with EADDRINUSE, and the holder in the message, when a process outside the group listens
 * at an overlapping address, whatever options its socket has.
 */
SW_NODISCARD int sw_sock_listen(const struct sw_addr *at, const struct sw_sock_opts *o, int *ret_fd,
                                struct sw_err *err);
/*
 * Unix listener, SOCK_STREAM or SOCK_SEQPACKET (io/unix/packet.h sends and receives packets); an
 * old socket file is replaced only when it has no listener.
 */
SW_NODISCARD int sw_sock_listen_unix(int type, const char *path, unsigned mode, int *ret_fd,
                                     struct sw_err *err);
/* Connects to a Unix socket, at once or not at all: SW_ESYS, SW_EINVAL for a long path. */
SW_NODISCARD int sw_sock_connect_unix(int type, const char *path, int *ret_fd, struct sw_err *err);
/*
 * Starts a TCP connect, from *src when given (port 0; needs transparent when not ours; a bind
 * that fails only loses the spoofed source). SW_OK: connected or in progress, wait for SW_WRITE and
 * call sw_sock_connect_result. SW_EDENIED: o->egress refuses the address.
 */
SW_NODISCARD int sw_sock_connect(const struct sw_addr *to, const struct sw_ip *src,
                                 const struct sw_sock_opts *o, int *ret_fd, struct sw_err *err);
/* True once the connection is established. */
bool sw_sock_is_connected(int fd);
/* SW_OK connected, SW_EAGAIN still waiting, SW_ESYS failed (err->sys_errno says why). */
SW_NODISCARD int sw_sock_connect_result(int fd, struct sw_err *err);
/*
 * SW_OK with a descriptor, SW_EAGAIN none waiting, SW_ELIMIT out of descriptors or memory (try
 * later), SW_ESYS otherwise. ret_peer may be NULL.
 */
SW_NODISCARD int sw_sock_accept(int listener, int *ret_fd, struct sw_addr *ret_peer,
                                struct sw_err *err);

struct sw_addr sw_sock_local(int fd);
struct sw_addr sw_sock_peer(int fd);
/* Where a redirected connection was going: SO_ORIGINAL_DST, v4 then v6, else the local address. */
struct sw_addr sw_sock_original_dst(int fd);

/*
 * Bytes: >= 0 moved (0 only for n == 0), SW_EAGAIN, SW_EOF (reads), SW_ECLOSED (reset, broken pipe)
 * or SW_ESYS with errno left for the caller.
 */
ssize_t sw_sock_read(int fd, void *buf, size_t n);
ssize_t sw_sock_readv(int fd, const struct iovec *iov, int count);
/* Reads without taking. */
ssize_t sw_sock_peek(int fd, void *buf, size_t n);
/* Takes n bytes that were peeked at. */
SW_NODISCARD int sw_sock_discard(int fd, size_t n);
ssize_t sw_sock_write(int fd, const void *buf, size_t n);
ssize_t sw_sock_writev(int fd, const struct iovec *iov, int count);
/* Writes and consumes what the buffer holds: SW_OK when all left, else as sw_sock_write. */
SW_NODISCARD int sw_sock_write_buf(int fd, struct sw_buf *b);
/* SW_EAGAIN, SW_ECLOSED or SW_ESYS for the error number of a read or write. */
int sw_sock_rc(int sys_errno);

void sw_sock_shutdown_write(int fd);
/* Did the peer of a Unix socket close it, or both sides end? Not so when only the peer ended. */
bool sw_sock_hung_up(int fd);
/*
 * A TCP listener that is about to be closed answers no SYN any more; a client repeats its SYN after
 * a second and finds the successor on the port, if there is one. What is under way continues.
 */
void sw_sock_stop_listening(int fd);
/* Makes the coming close send RST instead of FIN. */
void sw_sock_set_reset(int fd);
/* TCP_NODELAY, keep-alive and friends on an accepted or connected socket. */
void sw_sock_tune(int fd, const struct sw_sock_opts *o);
/* close(2), result ignored; -1 is fine. */
void sw_sock_close(int fd);

/* True when the kernel lets us bind to addresses that are not ours (in the current namespace). */
bool sw_sock_may_be_transparent(void);
/* Two connected stream sockets. */
SW_NODISCARD int sw_sock_pair(int ret[2], struct sw_err *err);

/* Raises RLIMIT_NOFILE to its hard limit; returns the limit in force. */
uint64_t sw_sock_raise_fd_limit(void);
