/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema/bundled.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Rules are named by a letter here: the verb. */
static struct sw_json *rules(struct sw_arena *a, const char *letters)
{
    struct sw_json *out = sw_json_new_array(a);

    for (; *letters; letters++) {
        struct sw_json *rule = sw_json_new_object(a);

        sw_json_put_str(a, rule, "verb", sw_slice(letters, 1));
        sw_json_push(a, out, rule);
    }
    return out;
}

static const char *letters(struct sw_arena *a, const struct sw_json *list)
{
    char *out = sw_arena_alloc(a, sw_json_len(list) + 1);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice verb = sw_json_str(sw_json_find(sw_json_at(list, i), "verb"));

        out[i] = verb.n ? verb.p[0] : '?';
    }
    out[sw_json_len(list)] = 0;
    return out;
}

static struct sw_json *role(struct sw_arena *a, const char *have, const char *note,
                            const char *autoupdate)
{
    struct sw_json *obj = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);
    struct sw_json *notes = sw_json_new_object(a);

    if (note && strcmp(note, "?") == 0)
        sw_json_put_str(a, notes, SW_BUNDLED_RULES, SW_SLICE_LIT("{no json"));
    else if (note)
        sw_json_put_str(a, notes, SW_BUNDLED_RULES, sw_bundled_note(a, rules(a, note)));
    if (autoupdate)
        sw_json_put_str(a, notes, SW_BUNDLED_AUTOUPDATE, sw_slice_str(autoupdate));
    sw_json_put(a, meta, "annotations", notes);
    sw_json_put(a, obj, "metadata", meta);
    sw_json_put(a, obj, "rules", rules(a, have));
    return obj;
}

static void rules_follow_what_is_delivered(void **state)
{
    static const struct {
        const char *have;
        const char *note;   /* delivered last; NULL: no annotation */
        const char *before; /* by releases without a note */
        const char *now;
        const char *want;
    } cases[] = {
        {"ab", "ab", "", "ab", "ab"},   /* nothing new */
        {"ab", "ab", "", "abc", "abc"}, /* one more */
        {"ab", "ab", "", "b", "b"},     /* one less */
        {"abu", "ab", "", "bc", "buc"}, /* the user's stays */
        {"b", "ab", "", "ab", "ba"},    /* what was taken away comes back */
        {"abu", NULL, "ab", "b", "bu"}, /* no note: known from before */
        {"abu", NULL, "", "b", "abu"},  /* no note, and not known: it may be the user's */
        {"au", "?", "a", "b", "ub"},    /* a note that says nothing counts for nothing */
        {"", "ab", "", "ab", "ab"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *obj = role(&a, cases[i].have, cases[i].note, NULL);
        struct sw_json *got =
            sw_bundled_rules(&a, obj, rules(&a, cases[i].now), rules(&a, cases[i].before));

        assert_string_equal(letters(&a, got), cases[i].want);
    }
}

static void a_role_is_current_when_rules_and_note_are(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *bundled = rules(&a, "ab");

    (void)state;
    assert_true(sw_bundled_current(&a, role(&a, "ba", "ab", NULL), bundled, bundled));
    assert_false(sw_bundled_current(&a, role(&a, "ab", NULL, NULL), bundled, bundled));
    assert_false(sw_bundled_current(&a, role(&a, "ab", "a", NULL), bundled, bundled));
    assert_false(sw_bundled_current(&a, role(&a, "a", "ab", NULL), bundled, bundled));
}

static void users_may_keep_a_role_to_themselves(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_true(sw_bundled_hands_off(role(&a, "a", NULL, "false")));
    assert_false(sw_bundled_hands_off(role(&a, "a", NULL, "true")));
    assert_false(sw_bundled_hands_off(role(&a, "a", NULL, NULL)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_follow_what_is_delivered),
        cmocka_unit_test(a_role_is_current_when_rules_and_note_are),
        cmocka_unit_test(users_may_keep_a_role_to_themselves),
    };

    return cmocka_run_group_tests_name("kube bundled", tests, NULL, NULL);
}
