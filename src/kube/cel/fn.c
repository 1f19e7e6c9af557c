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

static const struct cel_fn *const rooms[] = {cel_fns_strings,  cel_fns_lists, cel_fns_convert,
                                             cel_fns_time,     cel_fns_kube,  cel_fns_net,
                                             cel_fns_quantity, cel_fns_authz};

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

static bool args_fit(const struct cel_fn *f, const struct cel_type *const *args, size_t nargs)
{
    size_t k = 0;

    while (k < nargs && f->sig[k] != ':' && arg_fits(f->sig[k], args[k]))
        k++;
    return k == nargs && f->sig[k] == ':';
}

const struct cel_fn *cel_fn_find(struct sw_slice name, bool member,
                                 const struct cel_type *const *args, size_t nargs, bool *ret_any)
{
    *ret_any = false;
    for (size_t r = 0; r < SW_ARRAY_LEN(rooms); r++) {
        for (const struct cel_fn *f = rooms[r]; f->name; f++) {
            if (!sw_slice_eq_str(name, f->name))
                continue;
            *ret_any = true;
            if (f->member == member && args_fit(f, args, nargs))
                return f;
        }
    }
    return NULL;
}

bool cel_fn_exists(struct sw_slice name)
{
    for (size_t r = 0; r < SW_ARRAY_LEN(rooms); r++) {
        for (const struct cel_fn *f = rooms[r]; f->name; f++) {
            if (sw_slice_eq_str(name, f->name))
                return true;
        }
    }
    return false;
}

static const struct cel_type *unwrapped(const struct cel_type *list)
{
    return list->elem && list->elem->k == CEL_OPTIONAL ? list->elem->elem : &t_dyn;
}

const struct cel_type *cel_fn_result(struct sw_arena *a, const struct cel_fn *fn,
                                     const struct cel_type *const *args, size_t nargs)
{
    char c = strchr(fn->sig, ':')[1];
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
