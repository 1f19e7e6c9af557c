/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of a site in the answer to a heartbeat. */
#include "base/base64.h"
#include "base/buf.h"
#include "control/link/auth/attrs.h"
#include "control/link/auth/peers.h"
#include "control/link/auth/race.h"

int sw_link_labels_decode(struct sw_arena *a, struct sw_slice value, struct sw_attrs *ret,
                          struct sw_err *err)
{
    const struct sw_json_opts o = {.max_depth = 2};
    SW_BUF_AUTO text = {.max = SW_LINK_RACE_VALUE};
    struct sw_json *v = NULL;

    if (!value.p)
        return sw_err_set(err, SW_EINVAL, "answer has no labels");
    if (sw_base64_decode(&text, value) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "labels are not base64");
    if (sw_json_parse(a, sw_buf_slice(&text), &o, &v, err) != SW_OK)
        return sw_err_prefix(err, "labels");
    return sw_link_attrs_read(a, "", v, ret, err) == SW_OK ? SW_OK : sw_err_prefix(err, "labels");
}

struct sw_slice sw_link_labels_encode(struct sw_arena *a, const struct sw_attrs *labels)
{
    struct sw_slice json = sw_json_text(a, sw_link_attrs_json(a, labels), NULL);
    SW_BUF_AUTO out = {.max = json.n * 2 + 16};

    (void)!sw_base64_append(&out, json);
    return sw_arena_slice(a, sw_buf_slice(&out));
}
