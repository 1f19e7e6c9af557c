/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink messages about routes. Properties: never more networks than there is room for, none that
 * is longer than its family, and what is read twice is the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/localroutes.h"

enum { ROOM = 4, MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    _Alignas(16) static char buf[MAX];
    struct sw_cidr nets[2][ROOM] = {0};

    n = n < MAX ? n : MAX;
    if (n)
        memcpy(buf, data, n);
    for (int i = 0; i < 2; i++) {
        struct sw_localroutes to = {.p = nets[i], .max = ROOM};
        bool last = false;
        bool failed = false;

        sw_localroutes_read(buf, n, &to, &last, &failed);
        if (to.n > ROOM || (to.full && to.n != ROOM))
            abort();
        for (size_t k = 0; k < to.n; k++) {
            if (nets[i][k].len > 8 * sw_ip_len(&nets[i][k].ip))
                abort();
        }
    }
    if (memcmp(nets[0], nets[1], sizeof(nets[0])) != 0)
        abort();
    return 0;
}
