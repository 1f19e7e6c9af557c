/* SPDX-License-Identifier: Apache-2.0 */
/* What an object needs of others. */
#include "gateway/config/build.h"

void sw_gw_need(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_gw_dep d = {.type = t, .name = sw_slice_copy(name)};

    sw_vec_push(&b->deps, d);
}

static bool find(const struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name,
                 struct sw_slice *ret_bytes)
{
    return b->source && b->source->find(b->source, t, name, ret_bytes);
}

bool sw_gw_need_present(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_slice bytes;

    sw_gw_need(b, t, name);
    if (find(b, t, name, &bytes))
        return true;
    b->missing |= !b->give_up;
    return false;
}

struct sw_slice sw_gw_need_secret(struct sw_gw_build *b, struct sw_slice name)
{
    struct sw_slice bytes;

    sw_gw_need(b, SW_GW_TYPE_SECRET, name);
    if (find(b, SW_GW_TYPE_SECRET, name, &bytes))
        return bytes;
    b->missing = true; /* never served without its key, however long that takes */
    return sw_slice(NULL, 0);
}
