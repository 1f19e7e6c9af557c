/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the answer to a question for a node's records. What was read can be written and read
 * again to the same target. The first two bytes are the id we asked with.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dns/answer.h"
#include "quic/id/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_target(struct sw_arena *a, const struct sw_quic_target *t)
{
    struct sw_quic_target back;
    struct sw_slice *txt;
    size_t n = sw_discovery_write(a, t, &txt);

    assert(t->n_addrs <= SW_QUIC_ADDRS_MAX);
    assert(n == t->n_addrs + (t->relay.n ? 1 : 0));
    assert(sw_discovery_parse(a, &t->id, txt, n, &back, NULL) == SW_OK);
    assert(sw_slice_eq(back.relay, t->relay) && back.n_addrs == t->n_addrs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_arena a = {0};
    struct sw_nodeid id = {{1}};
    struct sw_dns_name name;
    struct sw_dns_txt_answer answer;
    struct sw_quic_target t;
    int rc;

    if (size < 2)
        return 0;
    assert(sw_dns_name_parse(SW_SLICE_LIT("_iroh.key.z.test"), &name, NULL) == SW_OK);
    rc = sw_dns_txt_answer(&a, sw_slice(data, size), (uint16_t)(data[0] << 8 | data[1]), &name,
                           &answer);
    if (rc == SW_OK) {
        assert(answer.n_txt <= SW_DNS_ANSWER_TXT_MAX);
        assert(!answer.truncated || !answer.n_txt);
        if (sw_discovery_parse(&a, &id, answer.txt, answer.n_txt, &t, NULL) == SW_OK)
            check_target(&a, &t);
    }
    sw_arena_clear(&a);
    return 0;
}
