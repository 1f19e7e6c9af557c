/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last HTTP exchanges with their fields and the beginning of their bodies, for the owner of the
 * device to look at and to send again. In memory only, and bounded three times: each body, each
 * exchange, and all of them together with those under way; what does not fit is left out and marked
 * as cut. Values of fields that carry secrets are kept, for a replay, and redacted by the code that
 * shows them (sw_capture_secret).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "http/h1.h"

enum {
    SW_CAPTURES_MAX = 100,       /* kept */
    SW_CAPTURE_BODY = 16 << 10,  /* bytes of one body */
    SW_CAPTURE_HEAD = 16 << 10,  /* of the fields of one message, names and values */
    SW_CAPTURE_TARGET = 4 << 10, /* of a request's target */
    SW_CAPTURE_TOTAL = 8 << 20,  /* of all exchanges */
};

/* One message. */
struct sw_captured {
    struct sw_buf head; /* the fields in their order: name, NUL, value, NUL */
    struct sw_buf body;
    uint64_t body_bytes; /* of the whole body */
    bool cut_head;
    bool cut_body;
    bool complete; /* seen to its end */
};

struct sw_capture_store;

struct sw_capture {
    struct sw_list link; /* in the store's list; unlinked while under way */
    struct sw_capture_store *store;
    uint64_t id; /* 0: under way */
    struct sw_captured req;
    struct sw_captured resp;
    struct sw_buf method;
    struct sw_buf target; /* as sent */
    struct sw_buf host;   /* Host field */
    bool cut_target;
    int status;            /* 0: no answer */
    char origin_host[256]; /* the origin that the gateway requested */
    uint16_t origin_port;
    uint64_t wall_ns; /* of its end */
    uint64_t duration_ns;
    uint64_t replay_of; /* id; 0: it came from outside */
    char failure[160];  /* of a replay; empty: none */
};

/* A zeroed struct is an empty store after sw_captures_init. */
struct sw_capture_store {
    struct sw_list kept; /* oldest first */
    size_t n;
    size_t bytes;                    /* of all, under way or kept */
    const struct sw_capture *pinned; /* borrowed: being copied, not dropped for room; or NULL */
    uint64_t last_id;
};

void sw_captures_init(struct sw_capture_store *s);
/* Ends what is kept. What is under way must be gone. */
void sw_captures_done(struct sw_capture_store *s);
/* Borrowed; NULL: never there, or gone. */
const struct sw_capture *sw_captures_find(const struct sw_capture_store *s, uint64_t id);

/* One exchange under way; owned by the caller until sw_capture_keep or sw_capture_drop. */
SW_NODISCARD struct sw_capture *sw_capture_new(struct sw_capture_store *s);
/* The head of the request, or of the answer. An interim answer is none. */
void sw_capture_head(struct sw_capture *c, bool answer, const struct sw_h1_msg *m);
void sw_capture_body(struct sw_capture *c, bool answer, struct sw_slice data);
void sw_capture_end(struct sw_capture *c, bool answer);
/* Into the store, which forgets the oldest for it. Returns its id. */
uint64_t sw_capture_keep(struct sw_capture *c);
/*
 * A new exchange under way with the request of x, which is kept, and with these of its fields.
 * Returns NULL when there is no room for the whole of it. Room is made as by others, but x stays.
 */
SW_NODISCARD struct sw_capture *sw_capture_copy(const struct sw_capture *x,
                                                const struct sw_h1_field *fields, size_t nfields);
/* NULL is fine. */
void sw_capture_drop(struct sw_capture *c);

/* The next field; false at the end. *at is 0 at first. */
bool sw_captured_next(const struct sw_captured *m, size_t *at, struct sw_h1_field *ret);
/* True for fields whose value is not to be shown: credentials, cookies, tokens, keys. */
bool sw_capture_secret(struct sw_slice name);
