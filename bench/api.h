/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API load tool: keep-alive HTTP/1.1 clients of the control role's API (HTTPS with a client
 * certificate) and of etcd's JSON gateway (plain), in one epoll loop. GnuTLS and libc alone:
 * nothing of the product is inside the instrument that measures it.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    API_IO_TIMEOUT_S = 20, /* longest wait of one blocking call */
    API_MAX_CONNS = 20000,
    API_MAX_VALUE = 256 * 1024,
    API_KEEP = 4096, /* bytes of a body kept for messages and the list's revision */
};

struct api_target {
    struct sockaddr_in to;
    bool etcd;
    const char *ca; /* PEM files; NULL: plain HTTP */
    const char *cert;
    const char *key;
};

enum api_state { API_HEAD, API_LENGTH, API_CHUNK_SIZE, API_CHUNK, API_CHUNK_END, API_TRAILER };

/* One connection and the answer it is reading. */
struct api_conn {
    int fd;
    void *tls; /* gnutls_session_t */
    bool wait; /* reads block: during the handshake */
    enum api_state state;
    char head[8192];
    size_t head_n;
    int status;
    uint64_t left; /* of the body or chunk */
    uint64_t body_n;
    char keep[API_KEEP];
    size_t keep_n;
    const char *mark; /* counted in body bytes, also across reads; NULL: nothing is */
    size_t mark_at;
    uint64_t marks;
    uint64_t sent_ns;
    uint64_t id;     /* of the request under way */
    uint64_t events; /* watch: seen so far */
    bool busy;
};

/* Prints one JSON line {"mode":"api","error":TEXT,"errno":N} and leaves with status 2. */
_Noreturn void api_die(const char *text);
uint64_t api_now_ns(void);

/* Reads the PEM files once. */
void api_tls_init(const struct api_target *t);
/* Connects and shakes hands, or dies. */
void api_open(struct api_conn *c, const struct api_target *t);
void api_close(struct api_conn *c);
/* Sends a request (blocking) and prepares for its answer. */
void api_send(struct api_conn *c, const void *p, size_t n);
/*
 * Reads what is there. 1: an answer is complete; 0: nothing more for now; dies when the
 * connection breaks. An endless answer (a watch) only ever gives 0.
 */
int api_recv(struct api_conn *c);
