/* SPDX-License-Identifier: Apache-2.0 */
/* A ticket that is accepted means the same after it was written and read again. */
#include <assert.h>
#include <stdint.h>

#include "quic/id/nodeid.h"
#include "quic/id/ticket.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_quic_target t;
    struct sw_quic_target back;
    struct sw_slice text;
    struct sw_slice again;

    if (sw_ticket_parse(&a, sw_slice(p, n), &t, NULL) != SW_OK)
        return 0;
    assert(t.n_addrs <= SW_QUIC_ADDRS_MAX && sw_nodeid_valid(&t.id));
    text = sw_ticket_write(&a, &t);
    assert(sw_ticket_parse(&a, text, &back, NULL) == SW_OK);
    assert(sw_nodeid_eq(&t.id, &back.id) && sw_slice_eq(t.relay, back.relay));
    assert(back.n_addrs <= t.n_addrs);
    again = sw_ticket_write(&a, &back);
    assert(sw_slice_eq(text, again));
    return 0;
}
