/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/parts.h"

#include "base/mem.h"
#include "regex/regex.h"

struct sw_gw_tls *sw_gw_tls_ref(struct sw_gw_tls *t)
{
    sw_gw_take_ref(&t->refs);
    return t;
}

struct sw_gw_tls *sw_gw_tls_unref(struct sw_gw_tls *t)
{
    if (!t || !sw_gw_drop_ref(&t->refs))
        return NULL;
    for (size_t i = 0; i < t->n_creds; i++)
        (void)sw_tls_cred_unref(t->creds[i]);
    for (size_t i = 0; i < t->n_regexes; i++)
        sw_regex_free(t->regexes[i]);
    sw_free(t->regexes);
    for (size_t i = 0; i < t->n_choices; i++)
        (void)sw_gw_tls_unref(t->choices[i].tls);
    (void)sw_gw_tls_unref(t->rest);
    sw_arena_clear(&t->arena);
    sw_free(t);
    return NULL;
}

struct sw_slice sw_gw_lowered(struct sw_arena *a, struct sw_slice s)
{
    char *p = sw_arena_dup(a, s);

    for (size_t i = 0; i < s.n; i++) {
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] - 'A' + 'a');
    }
    return sw_slice(p, s.n);
}

/* ---- conditions ---- */

static bool find_in(struct sw_slice hay, struct sw_slice needle, bool icase)
{
    for (size_t i = 0; i + needle.n <= hay.n; i++) {
        struct sw_slice at = sw_slice(hay.p + i, needle.n);

        if (icase ? sw_slice_ieq(at, needle) : sw_slice_eq(at, needle))
            return true;
    }
    return false;
}

bool sw_gw_str_matches(const struct sw_gw_str_match *m, struct sw_slice text, struct sw_budget *b)
{
    struct sw_slice part = text;

    switch (m->kind) {
    case SW_GW_STR_REGEX:
        return sw_regex_match(m->re, text, b) == 1;
    case SW_GW_STR_CONTAINS:
        return find_in(text, m->text, m->icase);
    case SW_GW_STR_PREFIX:
        part = sw_slice_head(text, m->text.n);
        break;
    case SW_GW_STR_SUFFIX:
        part = text.n >= m->text.n ? sw_slice_from(text, text.n - m->text.n) : text;
        break;
    case SW_GW_STR_EXACT:
        break;
    }
    return m->icase ? sw_slice_ieq(part, m->text) : sw_slice_eq(part, m->text);
}

/* Every key of the match is in the metadata, with the same value; no match at all is for all. */
static bool matches(const struct sw_json *match, const struct sw_json *has)
{
    SW_JSON_MEMBERS (m, match) {
        const struct sw_json *v = sw_json_get(has, m->key);

        if (!v || !sw_json_equal(v, m->value, SW_JSON_EQ_VALUE))
            return false;
    }
    return true;
}

const struct sw_gw_tls *sw_gw_tls_choose(const struct sw_gw_tls *t, const struct sw_json *metadata)
{
    const struct sw_json *has = sw_json_find(metadata, "envoy.transport_socket_match");

    for (size_t i = 0; i < t->n_choices; i++) {
        if (matches(t->choices[i].match, has))
            return t->choices[i].tls;
    }
    return t->rest;
}
