/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema/bundled.h"

#include "base/slice.h"

static bool has(const struct sw_json *rules, const struct sw_json *rule)
{
    SW_JSON_ITEMS (item, rules) {
        if (sw_json_equal(item, rule, SW_JSON_EQ_VALUE))
            return true;
    }
    return false;
}

static struct sw_slice note_of(const struct sw_json *role, const char *name)
{
    return sw_json_str(sw_json_walk(role, "metadata", "annotations", name, NULL));
}

bool sw_bundled_hands_off(const struct sw_json *obj)
{
    return sw_slice_eq_str(note_of(obj, SW_BUNDLED_AUTOUPDATE), "false");
}

struct sw_slice sw_bundled_note(struct sw_arena *a, const struct sw_json *bundled)
{
    return sw_json_text(a, bundled, NULL);
}

struct sw_json *sw_bundled_rules(struct sw_arena *a, const struct sw_json *role,
                                 const struct sw_json *bundled, const struct sw_json *before)
{
    const struct sw_json *have = sw_json_find(role, "rules");
    struct sw_slice note = note_of(role, SW_BUNDLED_RULES);
    struct sw_json *out = sw_json_new_array(a);
    struct sw_json *last = NULL;

    /* An annotation that cannot be read is the user's doing: nothing is taken away for it. */
    if (note.n && sw_json_parse(a, note, NULL, &last, NULL) == SW_OK)
        before = last;
    SW_JSON_ITEMS (rule, have) {
        if (has(bundled, rule) || !has(before, rule))
            sw_json_push(a, out, rule);
    }
    SW_JSON_ITEMS (item, bundled) {
        if (!has(out, item))
            sw_json_push(a, out, item);
    }
    return out;
}

bool sw_bundled_current(struct sw_arena *a, const struct sw_json *role, const struct sw_json *rules,
                        const struct sw_json *bundled)
{
    const struct sw_json *have = sw_json_find(role, "rules");

    if (!sw_slice_eq(note_of(role, SW_BUNDLED_RULES), sw_bundled_note(a, bundled)) ||
        sw_json_len(have) != sw_json_len(rules))
        return false;
    SW_JSON_ITEMS (item, rules) {
        if (!has(have, item))
            return false;
    }
    return true;
}
