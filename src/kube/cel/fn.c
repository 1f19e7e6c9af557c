/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the function that a call means. */
#include <string.h>

#include "kube/cel/fn.h"

static const struct cel_type t_dyn = {.k = CEL_DYN};
static const struct cel_type t_string = {.k = CEL_STRING};
static const struct cel_type t_strings = {.k = CEL_LIST, .elem = &t_string};
static const struct cel_type t_maybe = {.k = CEL_OPTIONAL, .elem = &t_dyn};
static const struct cel_type t_messages = {.k = CEL_OPTIONAL, .elem = &t_strings};
static const struct cel_type t_format = {.k = CEL_FORMAT};
static const struct cel_type t_maybe_format = {.k = CEL_OPTIONAL, .elem = &t_format};
static const struct cel_type t_query = {.k = CEL_MAP, .elem = &t_strings};

static const struct {
    cel_fn_ptr call;
    const char *forms; /* see fn.h */
} functions[] = {
#define X(name, forms) {cel_fn_##name, forms},
    CEL_FNS(X)
#undef X
};

static enum cel_kind letter_kind(char c)
{
    static const char letters[] = "siudbyDTFtUICQAPGRX";
    static const enum cel_kind kinds[] = {
        CEL_STRING,     CEL_INT,         CEL_UINT,           CEL_DOUBLE,   CEL_BOOL,
        CEL_BYTES,      CEL_DURATION,    CEL_TIMESTAMP,      CEL_FORMAT,   CEL_TYPE,
        CEL_URL,        CEL_IP,          CEL_CIDR,           CEL_QUANTITY, CEL_AUTHORIZER,
        CEL_PATH_CHECK, CEL_GROUP_CHECK, CEL_RESOURCE_CHECK, CEL_DECISION};
    const char *p = strchr(letters, c);

    return p && *p ? kinds[p - letters] : CEL_DYN;
}

static bool one_of(enum cel_kind k, const char *letters)
{
    while (*letters && letter_kind(*letters) != k)
        letters++;
    return *letters || k == CEL_DYN;
}

static bool arg_fits(char c, const struct cel_type *t)
{
    if (c == '*' || t->k == CEL_DYN)
        return true;
    if (c == 'o')
        return t->k == CEL_OPTIONAL;
    if (c == 'm')
        return t->k == CEL_MAP;
    if (c == 'l')
        return t->k == CEL_LIST;
    if (c == 'L')
        return t->k == CEL_LIST && (t->elem->k == CEL_STRING || t->elem->k == CEL_DYN);
    if (c == 'n')
        return t->k == CEL_LIST && one_of(t->elem->k, "iudD");
    if (c == 'c')
        return t->k == CEL_LIST && one_of(t->elem->k, "iudDbTsy");
    if (c == 'p')
        return t->k == CEL_LIST && (t->elem->k == CEL_OPTIONAL || t->elem->k == CEL_DYN);
    return t->k == letter_kind(c);
}

static bool args_fit(struct sw_slice sig, const struct cel_type *const *args, size_t nargs)
{
    size_t k = 0;

    while (k < nargs && sig.p[k] != ':' && arg_fits(sig.p[k], args[k]))
        k++;
    return k == nargs && sig.p[k] == ':';
}

/*
 * The first signature of a name among the forms of a function that fits the arguments, p == NULL
 * when none does; args == NULL: none is asked for. *ret_any is set when the name is there at all.
 */
static struct sw_slice find_form(const char *forms, const struct cel_node *n,
                                 const struct cel_type *const *args, bool *ret_any)
{
    struct sw_slice rest = sw_slice_str(forms);
    bool names = false, found = false;

    while (rest.p) {
        struct sw_slice word = sw_slice_cut(&rest, ' ');
        bool member = word.p[0] == '.';

        if (sw_slice_find(word, ':') >= 0) {
            names = false;
            if (found && args_fit(word, args, n->nargs))
                return word;
            continue;
        }
        found = found && names;
        names = true;
        if (sw_slice_eq(sw_slice_from(word, member), n->name)) {
            *ret_any = true;
            found = found || member == n->has_target;
        }
    }
    return sw_slice(NULL, 0);
}

static const struct cel_type *unwrapped(const struct cel_type *list)
{
    return list->elem && list->elem->k == CEL_OPTIONAL ? list->elem->elem : &t_dyn;
}

/* Type of what a function with that letter behind its signature results in. */
static const struct cel_type *result_of(struct sw_arena *a, char c,
                                        const struct cel_type *const *args, size_t nargs)
{
    struct cel_type *t;

    if (c == '*' || (c == 'e' && (!nargs || !args[0]->elem)))
        return &t_dyn;
    if (c == 'e')
        return args[0]->elem;
    if (c == 'S')
        return args[0];
    if (c == 'L')
        return &t_strings;
    if (c == 'V')
        return &t_messages;
    if (c == 'N')
        return &t_maybe_format;
    if (c == 'M')
        return &t_query;
    if (c == 'o')
        return &t_maybe;
    if (c == 'O')
        return cel_type_container(a, CEL_OPTIONAL, args[0], false);
    if (c == 'E')
        return cel_type_container(a, CEL_OPTIONAL, args[0]->elem ? args[0]->elem : &t_dyn, false);
    if (c == 'W')
        return cel_type_container(a, CEL_LIST, unwrapped(args[0]), false);
    t = SW_ARENA_NEW(a, struct cel_type);
    t->k = letter_kind(c);
    return t;
}

const struct cel_type *cel_call_find(struct sw_arena *a, struct cel_node *n,
                                     const struct cel_type *const *args, bool *ret_any)
{
    *ret_any = false;
    for (size_t i = 0; i < SW_ARRAY_LEN(functions); i++) {
        struct sw_slice sig = find_form(functions[i].forms, n, args, ret_any);

        if (sig.p) {
            n->fn = functions[i].call;
            return result_of(a, sig.p[sig.n - 1], args, n->nargs);
        }
    }
    return NULL;
}

bool cel_fn_exists(struct sw_slice name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(functions); i++) {
        struct sw_slice rest = sw_slice_str(functions[i].forms);

        while (rest.p) {
            if (sw_slice_eq(sw_slice_cut(&rest, ' '), name))
                return true;
        }
    }
    return false;
}
