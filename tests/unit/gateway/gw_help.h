/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from JSON into a store, for the tests of this directory. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "gateway/config/routes.h"
#include "gateway/exchange/retry.h"
#include "gateway/filter/filter.h"
#include "gateway/message/match.h"
#include "gateway/route/action.h"
#include "gateway/route/match.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store.h"
#include "proto/json.h"
#include "proto/pb.h"
#include "proto/types.h"

/* Encoded form of a JSON resource; single quotes stand for double ones. */
static inline struct sw_slice gw_encode(struct sw_arena *a, enum sw_gw_type t, const char *json)
{
    char *text = sw_arena_dup(a, sw_slice_str(json));
    struct sw_json *v;
    struct sw_slice out = {NULL, 0};
    struct sw_err err = {0};

    for (char *p = text; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK ||
        sw_pb_from_json(a, sw_pb_type_find(sw_slice_str(sw_gw_type_names[t].url)), v, &out, &err) !=
            SW_OK)
        fail_msg("%s in %s", err.msg, json);
    return out.p ? out : sw_slice("", 0);
}

static inline int gw_put(struct sw_gw_store *s, enum sw_gw_type t, const char *name,
                         const char *json, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_gw_resource r = {.name = sw_slice_str(name), .bytes = gw_encode(&a, t, json)};
    struct sw_gw_delta d = {.type = t, .changed = &r, .n_changed = 1};

    return sw_gw_store_update(s, &d, err);
}

static inline void gw_remove(struct sw_gw_store *s, enum sw_gw_type t, const char *name)
{
    struct sw_slice n = sw_slice_str(name);
    struct sw_gw_delta d = {.type = t, .removed = &n, .n_removed = 1};

    assert_int_equal(sw_gw_store_update(s, &d, NULL), SW_OK);
}

static inline struct sw_gw_config *gw_flush(struct sw_gw_store *s)
{
    sw_gw_store_flush(s);
    return sw_gw_store_config(s);
}

static inline struct sw_gw_store *gw_store(unsigned workers)
{
    struct sw_gw_store_opts o = {.n_workers = workers, .no_io = true};

    return sw_gw_store_new(&o);
}
