/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 messages (RFC 9110, 9112): a strict, resumable parser and the writers that go with it.
 * Bytes in, events out: no I/O, no clock. What two readers could frame differently is refused,
 * never repaired, because a proxy that forwards such a message is a smuggling vector.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Zero in any field means the default in brackets. */
struct sw_h1_limits {
    size_t line;      /* bytes of one line without its CRLF [8192] */
    size_t head;      /* bytes of start line and headers together, also of a trailer [16384] */
    size_t headers;   /* number of fields, also of a trailer [100] */
    uint64_t body;    /* bytes after decoding [unlimited] */
    size_t chunk_ext; /* bytes of chunk extensions in one message [1024] */
    bool bare_host;   /* CONNECT may name a host without a port: it is not where bytes go */
};

enum sw_h1_kind {
    SW_H1_REQUEST,
    SW_H1_RESPONSE,
};

enum sw_h1_form {
    SW_H1_ORIGIN,    /* /path?query */
    SW_H1_ABSOLUTE,  /* http://host/path?query */
    SW_H1_AUTHORITY, /* host:port, CONNECT only */
    SW_H1_ASTERISK,  /* *, OPTIONS only */
};

enum sw_h1_framing {
    SW_H1_NO_BODY,
    SW_H1_LENGTH,
    SW_H1_CHUNKED,
    SW_H1_UNTIL_CLOSE, /* responses only */
    SW_H1_TUNNEL,      /* CONNECT request, 2xx answer to one, 101: what follows is not HTTP */
};

enum sw_h1_event {
    SW_H1_HEAD,     /* msg is filled */
    SW_H1_BODY,     /* data holds decoded body bytes */
    SW_H1_TRAILERS, /* trailers are filled (only when there are any) */
    SW_H1_END,      /* message complete; what follows is the next one, or the tunnel */
};

struct sw_h1_field {
    struct sw_slice name;
    struct sw_slice value; /* without white space around it; may be empty */
};

/* Slices point into the caller's bytes: they live until those move or go. */
struct sw_h1_msg {
    enum sw_h1_kind kind;
    int minor;                  /* HTTP/1.minor: 0 or 1 */
    struct sw_slice method;     /* requests */
    struct sw_slice target;     /* as sent */
    enum sw_h1_form form;       /* requests */
    struct sw_slice scheme;     /* absolute form only */
    struct sw_slice authority;  /* of the target when it has one, else Host; may be empty */
    struct sw_slice path_query; /* origin and absolute form: "/a?b", "" when absent; else empty */
    int status;                 /* responses */
    struct sw_slice reason;
    const struct sw_h1_field *fields;
    size_t nfields;
    enum sw_h1_framing framing;
    uint64_t content_length; /* valid for SW_H1_LENGTH */
    bool keep_alive;         /* the connection may carry another message after this one */
    bool expect_continue;
    bool close;                    /* "Connection: close" was received */
    struct sw_slice upgrade;       /* the Upgrade value when Connection lists it too, else empty */
    const struct sw_slice *listed; /* names of fields that Connection lists */
    size_t nlisted;
};

struct sw_h1;

/* limits may be NULL: all defaults. */
SW_NODISCARD struct sw_h1 *sw_h1_new(enum sw_h1_kind kind, const struct sw_h1_limits *limits);
void sw_h1_free(struct sw_h1 *p);
/* Ready for the next message of the same connection. */
void sw_h1_reset(struct sw_h1 *p);
/* Other limits from the next message on; NULL: all defaults. */
void sw_h1_set_limits(struct sw_h1 *p, const struct sw_h1_limits *limits);
/*
 * Before a response is parsed: the method it answers, because HEAD and CONNECT change where the
 * message ends. Forgotten by sw_h1_reset.
 */
void sw_h1_answer_to(struct sw_h1 *p, struct sw_slice method);

/*
 * Takes one step. 'in' starts at the first byte not used yet and the parser remembers how far it
 * looked, so a call with more bytes continues where the last one stopped; the bytes may have
 * moved. *ret_used bytes are done with (for SW_H1_HEAD and SW_H1_BODY: as soon as the caller is
 * done with the slices).
 *
 * SW_OK with *ret_event; SW_EAGAIN: more bytes needed (*ret_used may be > 0); SW_EPROTO or
 * SW_ELIMIT: refused, see sw_h1_error_status and err (err->offset counts from the message start).
 * After a refusal or SW_H1_END only sw_h1_reset helps: both are repeated until then.
 */
SW_NODISCARD int sw_h1_next(struct sw_h1 *p, struct sw_slice in, size_t *ret_used,
                            enum sw_h1_event *ret_event, struct sw_err *err);
/*
 * The peer closed. SW_OK when that ends a message properly (SW_H1_UNTIL_CLOSE, or nothing begun),
 * SW_EPROTO when it cuts one.
 */
SW_NODISCARD int sw_h1_eof(struct sw_h1 *p, struct sw_err *err);

/* Valid after SW_H1_HEAD. */
const struct sw_h1_msg *sw_h1_msg(const struct sw_h1 *p);
/* Valid after SW_H1_BODY, points into 'in'. */
struct sw_slice sw_h1_data(const struct sw_h1 *p);
/* Valid after SW_H1_TRAILERS, points into 'in'. */
const struct sw_h1_field *sw_h1_trailers(const struct sw_h1 *p, size_t *ret_n);
/* What a server answers to a refused request: 400, 413, 414, 417, 431, 501, 505; 502 for responses.
 */
int sw_h1_error_status(const struct sw_h1 *p);
/* Why: what the refusing call would have written to err. Lives as long as the parser. */
const struct sw_err *sw_h1_error(const struct sw_h1 *p);
/* True while no byte of a message was seen: closing now cuts nothing. */
bool sw_h1_idle(const struct sw_h1 *p);

/* First field of that name (ASCII case-insensitive), or NULL. */
const struct sw_slice *sw_h1_field(const struct sw_h1_msg *m, const char *name);
/* True when some field of that name lists the token (comma separated, case-insensitive). */
bool sw_h1_has_token(const struct sw_h1_msg *m, const char *name, const char *token);
/* True when a field's value lists the token; the same for one value. */
bool sw_h1_value_has_token(struct sw_slice value, const char *token);
/*
 * True when Connection lists the name, which is that of a field of m. Logarithmic in the number of
 * fields, however long Connection is.
 */
bool sw_h1_connection_lists(const struct sw_h1_msg *m, struct sw_slice name);
/* True for fields that must not be forwarded: the fixed ones and those Connection lists. */
bool sw_h1_is_hop_by_hop(const struct sw_h1_msg *m, struct sw_slice name);
/* A copy whose slices live in the arena. */
struct sw_h1_msg *sw_h1_msg_dup(struct sw_arena *a, const struct sw_h1_msg *m);

/*
 * Writers append to out and refuse (SW_EINVAL, nothing written) what would change the message's
 * shape: bad tokens, CR or LF in values, white space in targets. SW_ELIMIT when out is full.
 * Framing fields are the caller's to choose, once: sw_h1_put_length or sw_h1_put_chunked.
 */
SW_NODISCARD int sw_h1_put_request(struct sw_buf *out, struct sw_slice method,
                                   struct sw_slice target, int minor);
/* reason.n == 0: the standard phrase. */
SW_NODISCARD int sw_h1_put_status(struct sw_buf *out, int status, struct sw_slice reason,
                                  int minor);
SW_NODISCARD int sw_h1_put_field(struct sw_buf *out, struct sw_slice name, struct sw_slice value);
SW_NODISCARD int sw_h1_put_field_str(struct sw_buf *out, const char *name, const char *value);
SW_NODISCARD int sw_h1_put_length(struct sw_buf *out, uint64_t n);
SW_NODISCARD int sw_h1_put_chunked(struct sw_buf *out);
/* The empty line. */
SW_NODISCARD int sw_h1_put_end(struct sw_buf *out);
/* One chunk; an empty one is left out (it would end the body). */
SW_NODISCARD int sw_h1_put_chunk(struct sw_buf *out, struct sw_slice data);
/* Last chunk without trailer. */
SW_NODISCARD int sw_h1_put_last_chunk(struct sw_buf *out);
/*
 * The head of m as we would send it: start line, Host from the authority, fields as they are but
 * Host, framing fields from m->framing, empty line.
 */
SW_NODISCARD int sw_h1_put_msg(struct sw_buf *out, const struct sw_h1_msg *m);
