/* SPDX-License-Identifier: Apache-2.0 */
/* Making and reading objects: what both builds need of them. */
#include "base/time.h"
#include "control/connector/connector_int.h"
#include "kube/cel/cel_priv.h" /* cel_parse_time */
#include "quic/id/nodeid.h"

void cn_own(struct sw_arena *a, struct sw_json *obj, const struct sw_kube_obj *of, const char *api,
            const char *kind)
{
    struct sw_json *ref =
        SW_JSON_OF(a, {"apiVersion", .str = api}, {"kind", .str = kind}, {"name", .text = of->name},
                   {"uid", .text = of->uid}, {"controller", .json = sw_json_new_bool(a, true)},
                   {"blockOwnerDeletion", .json = sw_json_new_bool(a, true)});

    sw_json_put(a, sw_json_find(obj, "metadata"), "ownerReferences", sw_json_new_list(a, ref));
}

bool cn_owned_by(const struct sw_kube_obj *o, struct sw_slice uid)
{
    const struct sw_json *list = sw_json_walk(o->json, "metadata", "ownerReferences", NULL);

    return uid.n && sw_json_find_item(list, "uid", uid);
}

bool cn_time(struct sw_slice text, uint64_t *ret)
{
    int64_t sec;
    int32_t ns;

    /* Years that do not fit are as good as none. */
    if (!text.n || !cel_parse_time(text, &sec, &ns) || sec < 0 || sec > INT64_C(9000000000))
        return false;
    *ret = (uint64_t)sec * SW_NS_PER_S + (uint64_t)ns;
    return true;
}

void cn_note(struct sw_output *out, const char *reason, const char *kind,
             const struct sw_kube_obj *of, const char *text)
{
    sw_out_note(out, reason, cn_printf(sw_out_arena(out), "%s/%.*s", kind, SW_SLICE_ARG(of->key)),
                sw_slice_str(text));
}
