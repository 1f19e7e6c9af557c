/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is the reason of a data plane's refusal, and what another replica wrote. Properties:
 * whatever came in, what is written is read again as the same, on lines of its own, and bounded.
 */
#include <stdint.h>
#include <stdlib.h>

#include "control/gateway/planes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool any(void *arg, struct sw_slice name)
{
    (void)arg;
    return name.n != 3; /* some are not listeners */
}

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_planes p = {0};
    struct sw_planes q = {0};
    SW_BUF_AUTO one = {.max = 64 << 20};
    SW_BUF_AUTO two = {.max = 64 << 20};

    sw_planes_read(&p, sw_slice(data, n));
    sw_planes_refusal(&p, sw_slice(data, n / 4), sw_slice(data, n), any, NULL);
    check(p.held.n <= SW_PLANES_MAX && p.faults.n <= SW_PLANES_MAX);
    SW_MAP_FOREACH (it, &p.faults)
        check(sw_plane_reason(it->value) != NULL);
    check(sw_planes_write(&p, &one) == SW_OK);
    if (p.n <= 1000000) { /* more than one line may add up to more than one line can say */
        sw_planes_read(&q, sw_buf_slice(&one));
        check(sw_planes_write(&q, &two) == SW_OK);
        check(sw_slice_eq(sw_buf_slice(&one), sw_buf_slice(&two)));
    }
    sw_planes_done(&p);
    sw_planes_done(&q);
    return 0;
}
