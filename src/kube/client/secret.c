/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/secret.h"

#include <string.h>

#include "base/base64.h"
#include "base/secret.h"
#include "kube/client/kinds.h"

struct sw_json *sw_secret_object(struct sw_arena *a, const struct sw_kube_gvr *gvr, const char *ns,
                                 const char *name, struct sw_json **ret_data)
{
    struct sw_json *o = sw_kube_object_new(a, gvr, sw_slice_str(ns), sw_slice_str(name));

    *ret_data = sw_json_put_object(a, o, "data");
    return o;
}

void sw_secret_put(struct sw_arena *a, struct sw_json *data, const char *key, struct sw_slice text)
{
    SW_BUF_SECRET out = {.max = 2 * SW_SECRET_VALUE_MAX};

    if (sw_base64_append(&out, text) == SW_OK)
        sw_json_put_str(a, data, key, sw_buf_slice(&out));
}

int sw_secret_get(const struct sw_json *secret, const char *key, struct sw_buf *out)
{
    const struct sw_json *value = sw_json_find(sw_json_find(secret, "data"), key);

    return sw_json_is(value, SW_JSON_STRING) ? sw_base64_decode(out, value->text) : SW_ENOENT;
}
