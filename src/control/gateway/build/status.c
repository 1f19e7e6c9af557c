/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions: merged by type into what is there, so that conditions of others stay, and compared
 * first, so that nothing is written that already stands. The clock is the writer's: a condition
 * whose status changed comes without lastTransitionTime.
 */
#include "base/time.h"
#include "control/gateway/build/build_int.h"
#include "control/runtime_int.h"

static const char *yes_no(bool yes)
{
    return yes ? "True" : "False";
}

static bool is_owned(const char *const *owned, struct sw_slice type)
{
    for (size_t i = 0; owned[i]; i++) {
        if (sw_slice_eq_str(type, owned[i]))
            return true;
    }
    return false;
}

static const struct cond *wanted(const struct cond *want, size_t n, struct sw_slice type)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq_str(type, want[i].type))
            return &want[i];
    }
    return NULL;
}

static bool same_condition(const struct sw_json *c, const struct cond *w, int64_t generation)
{
    return sw_json_str_eq(sw_json_find(c, "status"), yes_no(w->yes)) &&
           sw_json_str_eq(sw_json_find(c, "reason"), w->reason) &&
           sw_slice_eq_str(js_or(c, "message", ""), w->msg) &&
           js_int(c, "observedGeneration", INT64_MAX, 0) == generation &&
           sw_json_find(c, "lastTransitionTime");
}

bool same_conditions(const struct sw_json *have, const char *const *owned, const struct cond *want,
                     size_t n, int64_t generation)
{
    size_t hits = 0;

    SW_JSON_ITEMS (c, have) {
        struct sw_slice type = js(c, "type");
        const struct cond *w = wanted(want, n, type);

        if (!w && !is_owned(owned, type))
            continue;
        if (!w || !same_condition(c, w, generation))
            return false;
        hits++;
    }
    return hits == n;
}

static struct sw_json *make_condition(struct sw_arena *a, const struct cond *w, int64_t generation,
                                      const struct sw_json *old)
{
    const struct sw_json *since = sw_json_find(old, "lastTransitionTime");
    bool same = since && sw_json_str_eq(sw_json_find(old, "status"), yes_no(w->yes));

    return SW_JSON_OF(a, {"type", .str = w->type}, {"status", .str = yes_no(w->yes)},
                      {"reason", .str = w->reason}, {"message", .str = w->msg},
                      {"observedGeneration", .json = sw_json_new_i64(a, generation)},
                      {"lastTransitionTime", .json = same ? sw_json_copy(a, since) : NULL});
}

struct sw_json *merge_conditions(struct sw_arena *a, const struct sw_json *have,
                                 const char *const *owned, const struct cond *want, size_t n,
                                 int64_t generation)
{
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (c, have) {
        struct sw_slice type = js(c, "type");
        const struct cond *w = wanted(want, n, type);

        if (w)
            sw_json_push(a, out, make_condition(a, w, generation, c));
        else if (!is_owned(owned, type))
            sw_json_push(a, out, sw_json_copy(a, c));
    }
    for (size_t i = 0; i < n; i++) {
        if (!cn_condition(have, want[i].type))
            sw_json_push(a, out, make_condition(a, &want[i], generation, NULL));
    }
    return out;
}

struct sw_json *status_with(struct sw_arena *a, const struct sw_kube_obj *o,
                            const char *const *owned, const struct cond *want, size_t n)
{
    return SW_JSON_OF(a, {"conditions", .json = merge_conditions(a, cn_conditions(o), owned, want,
                                                                 n, generation_of(o))});
}

void put_status(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                struct sw_json *status)
{
    if (json_within(status, sw_json_find(of->json, "status")))
        return;
    sw_vec_push(&b->statuses, (struct sw_model_status){kind, of, status});
}

/* ---- the writer's part ---- */

static bool is_condition(const struct sw_json *v)
{
    return sw_json_is(v, SW_JSON_OBJECT) && sw_json_find(v, "type") && sw_json_find(v, "status") &&
           sw_json_find(v, "reason");
}

static void stamp(struct sw_arena *a, struct sw_json *v, struct sw_slice now)
{
    if (is_condition(v) && !sw_json_find(v, "lastTransitionTime"))
        sw_json_put_str(a, v, "lastTransitionTime", now);
    for (size_t i = 0; sw_json_is(v, SW_JSON_ARRAY) && i < v->arr.n; i++)
        stamp(a, v->arr.items[i], now);
    for (size_t i = 0; sw_json_is(v, SW_JSON_OBJECT) && i < v->obj.n; i++)
        stamp(a, v->obj.members[i].value, now);
}

const struct sw_json *sw_gateway_stamp(struct sw_arena *a, const struct sw_json *status,
                                       uint64_t wall_ns)
{
    struct sw_json *copy = sw_json_copy(a, status);
    char text[SW_RFC3339_LEN];

    stamp(a, copy, sw_slice_str(sw_rfc3339(wall_ns, 0, text)));
    return copy;
}
