/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint's interface in memory: connections in pairs on one loop, for tests of what uses it.
 */
#pragma once

#include "quic/quic.h"

enum fake_dial {
    FAKE_DIAL_OK,
    FAKE_DIAL_SILENT,   /* never answered */
    FAKE_DIAL_REFUSED,  /* closed with transport error 2 */
    FAKE_DIAL_IDENTITY, /* somebody else answered */
    FAKE_DIAL_FULL,     /* sw_quic_dial itself says no */
};

struct fake {
    struct sw_loop *loop;
    enum fake_dial mode;
    /* The other end of a dialled connection: set its ops. */
    void (*accepted)(void *arg, struct sw_qconn *c);
    void *arg;
    size_t dials;
    size_t conns;       /* dialled ones alive */
    size_t streams;     /* alive, both ends counted */
    size_t max_streams; /* a dialling side may have open; 0: any number */
    size_t ring;        /* bytes a direction holds [65536] */
    size_t step;        /* bytes per data call; 0: all */
    bool datagrams;
    bool dead;          /* nothing arrives any more, see fake_die */
    uint64_t dead_ns;   /* since when */
    struct sw_list all; /* connections */
};

/* An endpoint that dials into f. */
struct sw_quic *fake_new(struct fake *f, struct sw_loop *l);
void fake_free(struct sw_quic *q);
/* The connection breaks, seen from both ends. */
void fake_break(struct sw_qconn *c);
/* Nothing arrives any more; then it does again, what was on the way first. */
void fake_die(struct fake *f);
void fake_revive(struct fake *f);
/* Closes connections that are left. */
void fake_close_all(struct fake *f);
