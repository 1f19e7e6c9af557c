/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/secret.h"

#include <string.h>

#include "base/base64.h"
#include "base/secret.h"

const struct sw_kube_gvr sw_secrets_gvr = {"", "v1", "secrets", "Secret", true};
const struct sw_kube_gvr sw_configmaps_gvr = {"", "v1", "configmaps", "ConfigMap", true};

struct sw_json *sw_secret_object(struct sw_arena *a, const struct sw_kube_gvr *gvr, const char *ns,
                                 const char *name, struct sw_json **ret_data)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);

    sw_json_put(a, o, "apiVersion", sw_json_new_str(a, gvr->version));
    sw_json_put(a, o, "kind", sw_json_new_str(a, gvr->kind));
    sw_json_put(a, meta, "namespace", sw_json_new_str(a, ns));
    sw_json_put(a, meta, "name", sw_json_new_str(a, name));
    sw_json_put(a, o, "metadata", meta);
    *ret_data = sw_json_new_object(a);
    sw_json_put(a, o, "data", *ret_data);
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

    return value ? sw_base64_decode(out, sw_json_str(value)) : SW_ENOENT;
}
