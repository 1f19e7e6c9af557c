/* SPDX-License-Identifier: Apache-2.0 */
/* A middleman between the two endpoints of a rig: forwards datagrams until a test tells otherwise.
 */
#pragma once

#include "rig.h"

struct middle {
    int front; /* where a sends to */
    int back;  /* where b sees it */
    struct sw_addr a;
    struct sw_addr b;
    bool closed_back; /* nothing goes from b to a */
    bool closed;      /* nothing goes anywhere */
    uint8_t *buf;
    size_t to_a;
    uint8_t last_to_a[2000]; /* the last short one, as it was */
    size_t last_n;
};

/* A socket on loopback. */
int raw_socket(void);
struct sw_addr bound_of(struct sw_quic *q);
void middle_open(struct middle *m, struct rig *r);
void middle_close(struct middle *m);
/* b sees it at another port from now on. */
void middle_rebind(struct middle *m);
/* Forwards what came, without a turn of the loop. */
void middle_forward(struct middle *m);
void middle_turn(struct middle *m, struct rig *r);
void middle_dial(struct middle *m, struct rig *r);
void middle_until(struct middle *m, struct rig *r, const volatile bool *flag);
/* Dials, and waits until both ends are ready. */
void middle_connect(struct middle *m, struct rig *r);
