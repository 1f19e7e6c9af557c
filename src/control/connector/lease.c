/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of Connectors: made here, renewed by the device, and judged by when that was. */
#include "base/time.h"
#include "control/connector/connector_int.h"

enum { LEASE_S = 30 };

void cn_want_lease(const struct sw_connector_conf *conf, const struct sw_kube_obj *o,
                   const struct sw_kube_obj *lease, struct sw_output *out)
{
    struct sw_arena *a = sw_out_arena(out);
    uint32_t seconds = conf->lease_s ? conf->lease_s : LEASE_S;
    struct sw_json *obj;

    if (lease &&
        (!cn_owned_by(lease, o->uid) || js_int(sw_json_find(lease->json, "spec"),
                                               "leaseDurationSeconds", INT32_MAX, 0) == seconds))
        return;
    obj = cn_object(a, "coordination.k8s.io/v1", "Lease", o->ns, o->name);
    cn_meta(a, obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    cn_own(a, obj, o, CN_API, "Connector");
    sw_json_put(a, obj, "spec",
                SW_JSON_OF(a, {"leaseDurationSeconds", .json = sw_json_new_i64(a, seconds)}));
    sw_out_apply(out, SW_CN_LEASE, obj);
}

/*
 * When a Lease was renewed. renewTime is the device's word, and its clock may be wrong; the API
 * notes by its own, to the second, when the field was written. Where both agree the finer one
 * counts; without a note of the API, the device's.
 */
static bool renewed_at(const struct sw_json *lease, uint64_t seconds, uint64_t *ret)
{
    const struct sw_json *list = sw_json_walk(lease, "metadata", "managedFields", NULL);
    uint64_t slack = sw_max(seconds * SW_NS_PER_S / 8, SW_NS_PER_S);
    uint64_t written = 0;
    uint64_t t;

    if (!cn_time(sw_json_str(sw_json_walk(lease, "spec", "renewTime", NULL)), ret))
        return false;
    SW_JSON_ITEMS (e, list) {
        if (sw_json_walk(e, "fieldsV1", "f:spec", "f:renewTime", NULL) &&
            cn_time(js(e, "time"), &t))
            written = sw_max(written, t);
    }
    if (written && (*ret + slack < written || *ret > written + slack + SW_NS_PER_S))
        *ret = written + SW_NS_PER_S;
    return true;
}

/*
 * Until when a renewal counts. While no control plane ran, or none reached the API, no device could
 * renew: a Lease that ran out in that time counts for one more duration from the return on. Only if
 * the stored condition Ready is True, though: the control plane that looked last found the device
 * alive. One that was dead before turned it False then, and stays dead; one that gave its Lease
 * back has no renewTime. So a device that died unseen goes offline one duration after the return.
 */
static uint64_t counts_until(const struct sw_view *v, const struct sw_kube_obj *o, uint64_t renewed,
                             uint64_t duration)
{
    const struct sw_json *conditions = cn_conditions(o);
    uint64_t since = sw_view_since_ns(v);

    if (since > renewed && since <= sw_view_wall_ns(v) && cn_is_true(conditions, "Ready"))
        renewed = since;
    return renewed + duration;
}

struct cn_life cn_lease_life(const struct sw_view *v, const struct sw_kube_obj *o,
                             const struct sw_kube_obj *lease)
{
    const struct sw_json *spec = lease ? sw_json_find(lease->json, "spec") : NULL;
    int64_t seconds = js_int(spec, "leaseDurationSeconds", INT32_MAX, 0);
    uint64_t now = sw_view_wall_ns(v);
    struct cn_life l = {.holder = js_or(spec, "holderIdentity", "")};
    uint64_t renewed;

    if (!lease)
        l.why = "The Lease has not been created yet.";
    else if (!cn_owned_by(lease, o->uid))
        l.why = "The Lease belongs to another object.";
    else if (!seconds || !renewed_at(lease->json, (uint64_t)seconds, &renewed))
        l.why = "The Lease has never been renewed: the connector has not reported yet.";
    else if (now > (l.until_ns = counts_until(v, o, renewed, (uint64_t)seconds * SW_NS_PER_S)))
        l.why = "The Lease has expired: the connector does not report any more.";
    else
        l.live = true;
    return l;
}
