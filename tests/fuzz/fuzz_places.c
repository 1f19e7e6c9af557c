/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of gateways: bounded, and each a whole one. */
#include <assert.h>
#include <stdint.h>

#include "connector/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sw_places places;
    struct sw_err err = {0};
    size_t bad = sw_places_read(sw_slice(p, n), &places, &err);

    assert(places.n <= SW_QUIC_PLACES_MAX);
    assert(bad == 0 || err.msg[0]);
    for (size_t i = 0; i < places.n; i++)
        assert(places.p[i].addr.port && places.p[i].addr.ip.family &&
               sw_nodeid_valid(&places.p[i].id));
    return 0;
}
