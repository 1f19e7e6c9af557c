/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources of random bytes into a store: nothing crashes or leaks, a refusal has a reason and
 * changes nothing, and what is accepted can be dumped, served and taken out again. First byte: type
 * and how many pieces; pieces are cut evenly.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "gateway/xds/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct sw_slice name = {"n", 1};

static void put(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice bytes)
{
    struct sw_gw_resource r = {.name = name, .bytes = bytes};
    struct sw_gw_delta d = {.type = t, .changed = &r, .n_changed = 1};
    struct sw_err err = {0};

    if (sw_gw_store_update(s, &d, &err) != SW_OK)
        assert(err.msg[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_gw_store_opts o = {.n_workers = 1, .no_io = true};
    struct sw_gw_store *s;
    SW_BUF_AUTO out = {0};
    size_t pieces;

    sw_buf_init(&out, 16 << 20);
    if (n < 2)
        return 0;
    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL); /* refusals are what we are after */
    s = sw_gw_store_new(&o);
    pieces = (size_t)(data[0] >> 4) % 4 + 1;
    for (size_t i = 0; i < pieces; i++) {
        size_t from = 1 + (n - 1) * i / pieces;
        size_t to = 1 + (n - 1) * (i + 1) / pieces;

        put(s, (enum sw_gw_type)((data[0] + i) % SW_GW_TYPES), sw_slice(data + from, to - from));
    }
    sw_gw_store_flush(s);
    (void)!sw_gw_store_dump(s, &out);
    (void)!sw_gw_store_clusters(s, &out);
    for (int t = 0; t < SW_GW_TYPES; t++) {
        struct sw_gw_delta d = {.type = (enum sw_gw_type)t, .removed = &name, .n_removed = 1};

        assert(sw_gw_store_update(s, &d, NULL) == SW_OK);
    }
    sw_gw_store_flush(s);
    sw_gw_store_free(s);
    return 0;
}
