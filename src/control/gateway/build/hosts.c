/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names with wildcards. "*.a" covers every name with at least one label before ".a"; "*"
 * stands for all names where a map needs a key for them.
 */
#include "control/gateway/build/build_int.h"

enum { HOST_MAX = 253 };

static bool is_wild(struct sw_slice h)
{
    return h.n > 2 && h.p[0] == '*' && h.p[1] == '.';
}

/* ".a" of "*.a". */
static struct sw_slice suffix_of(struct sw_slice wild)
{
    return sw_slice_from(wild, 1);
}

/* True when the wildcard covers the name, which may be a (narrower) wildcard itself. */
static bool covers(struct sw_slice wild, struct sw_slice h)
{
    struct sw_slice suffix = suffix_of(wild);

    return h.n > suffix.n && sw_slice_has_suffix(h, suffix);
}

bool host_valid(struct sw_slice h)
{
    struct sw_slice rest = is_wild(h) ? sw_slice_from(h, 2) : h;

    if (!rest.n || h.n > HOST_MAX)
        return false;
    while (rest.n) {
        bool last = sw_slice_find(rest, '.') < 0;
        struct sw_slice label = sw_slice_cut(&rest, '.');

        if (!label.n || label.p[0] == '-' || label.p[label.n - 1] == '-' || (!last && !rest.n))
            return false;
        for (size_t i = 0; i < label.n; i++) {
            char c = label.p[i];

            if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
                return false;
        }
    }
    return true;
}

bool host_intersect(struct sw_slice listener, struct sw_slice route, struct sw_slice *ret)
{
    if (!listener.n || sw_slice_eq(listener, route)) {
        *ret = route;
        return true;
    }
    if (is_wild(listener) && covers(listener, route)) {
        *ret = route;
        return true;
    }
    if (is_wild(route) && covers(route, listener)) {
        *ret = listener;
        return true;
    }
    return false;
}

bool host_is_wide(struct sw_slice host)
{
    return sw_slice_eq_str(host, "*") ||
           (is_wild(host) && sw_slice_find(sw_slice_from(host, 2), '.') < 0);
}

void *host_owner(const struct sw_map *hosts, struct sw_slice host)
{
    char key[300];
    struct sw_slice rest = host;
    void *found = sw_map_get(hosts, host);

    if (is_wild(host))
        rest = sw_slice_from(host, 2);
    while (!found && rest.n && rest.n + 2 < sizeof(key)) {
        /* Without its first label, under a star. */
        ptrdiff_t dot = sw_slice_find(rest, '.');

        if (dot < 0)
            break;
        rest = sw_slice_from(rest, (size_t)dot + 1);
        key[0] = '*';
        key[1] = '.';
        memcpy(key + 2, rest.p, rest.n);
        found = sw_map_get(hosts, sw_slice(key, rest.n + 2));
    }
    return found ? found : sw_map_get(hosts, SW_SLICE_LIT("*"));
}

bool host_widen(struct sw_arena *a, struct sw_slice *host)
{
    struct sw_slice rest = is_wild(*host) ? sw_slice_from(*host, 2) : *host;
    ptrdiff_t dot = sw_slice_find(rest, '.');

    if (sw_slice_eq_str(*host, "*"))
        return false;
    if (dot < 0 || (size_t)dot + 1 == rest.n) /* a dot at the end hides no label */
        *host = SW_SLICE_LIT("*");
    else
        *host = sw_slice_str(
            sw_arena_printf(a, "*%.*s", SW_SLICE_ARG(sw_slice_from(rest, (size_t)dot))));
    return true;
}
