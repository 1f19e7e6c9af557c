/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/attrs.h"

void sw_link_attrs_begin(struct sw_link_attrs *b, struct sw_arena *a, size_t cap)
{
    *b = (struct sw_link_attrs){.p = sw_arena_array(a, cap, sizeof(*b->p)), .cap = cap};
}

void sw_link_attrs_add(struct sw_link_attrs *b, struct sw_slice key, struct sw_slice value)
{
    if (b->n < b->cap)
        b->p[b->n++] = (struct sw_attr){.key = key, .value = value};
}

void sw_link_attrs_add_all(struct sw_link_attrs *b, const struct sw_attrs *more)
{
    for (size_t i = 0; i < more->n; i++)
        sw_link_attrs_add(b, more->p[i].key, more->p[i].value);
}

struct sw_attrs sw_link_attrs_done(struct sw_link_attrs *b)
{
    sw_attrs_sort(b->p, &b->n);
    return (struct sw_attrs){.p = b->p, .n = b->n};
}

int sw_link_attrs_read(struct sw_arena *a, const char *prefix, const struct sw_json *v,
                       struct sw_attrs *ret, struct sw_err *err)
{
    size_t n = sw_json_len(v);
    struct sw_attr *p;

    if (!v || v->type == SW_JSON_NULL) {
        *ret = (struct sw_attrs){0};
        return SW_OK;
    }
    if (v->type != SW_JSON_OBJECT)
        return sw_err_set(err, SW_EINVAL, "cannot decode %s as a map of strings",
                          sw_json_type_name(v->type));
    if (n > SW_ATTRS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d attributes", SW_ATTRS_MAX);
    p = sw_arena_array(a, n, sizeof(*p));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json_member *m = &v->obj.members[i];
        struct sw_slice value = sw_json_str(m->value);

        if (!sw_json_is(m->value, SW_JSON_STRING))
            return sw_err_set(err, SW_EINVAL, "attribute '%.64s' is not a string",
                              sw_arena_dup(a, sw_slice_head(m->key, 64)));
        if (m->key.n > SW_LINK_ATTR_TEXT || value.n > SW_LINK_ATTR_TEXT)
            return sw_err_set(err, SW_ELIMIT, "an attribute is longer than %d bytes",
                              SW_LINK_ATTR_TEXT);
        p[i].key = prefix[0]
                       ? sw_slice_str(sw_arena_printf(a, "%s%.*s", prefix, SW_SLICE_ARG(m->key)))
                       : m->key;
        p[i].value = value;
    }
    sw_attrs_sort(p, &n);
    *ret = (struct sw_attrs){.p = p, .n = n};
    return SW_OK;
}

struct sw_json *sw_link_attrs_json(struct sw_arena *a, const struct sw_attrs *of)
{
    struct sw_json *o;

    if (of->n == 0)
        return sw_json_new_null(a);
    o = sw_json_new_object(a);
    for (size_t i = 0; i < of->n; i++)
        sw_json_set(a, o, of->p[i].key, sw_json_new_string(a, of->p[i].value));
    return o;
}
