/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between types. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "kube/cel/fn.h"
#include "kube/errs.h"
#include "kube/text.h"

bool cel_to_text(struct sw_slice s, char *buf, size_t cap)
{
    if (!s.n || s.n >= cap || isspace((unsigned char)s.p[0]))
        return false;
    memcpy(buf, s.p, s.n);
    buf[s.n] = 0;
    return strlen(buf) == s.n;
}

FN(int)
{
    char buf[64];
    char *end;
    struct cel_val r = cel_int(0);

    switch ((int)a[0].k) {
    case CEL_INT:
        return a[0];
    case CEL_TIMESTAMP:
        return cel_int(a[0].i);
    case CEL_UINT:
        r.i = (int64_t)a[0].u;
        return a[0].u > INT64_MAX ? cel_error(env, "integer overflow") : r;
    case CEL_DOUBLE:
        if (!(a[0].d > -9.2233720368547758e18 && a[0].d < 9.2233720368547758e18))
            return cel_error(env, "integer overflow");
        r.i = (int64_t)a[0].d;
        return r;
    case CEL_STRING:
        errno = 0;
        if (cel_to_text(a[0].s, buf, sizeof(buf))) {
            r.i = strtoll(buf, &end, 10);
            if (!errno && !*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'int'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(uint)
{
    char buf[64];
    char *end;
    struct cel_val r = {.k = CEL_UINT};

    switch ((int)a[0].k) {
    case CEL_UINT:
        return a[0];
    case CEL_INT:
        r.u = (uint64_t)a[0].i;
        return a[0].i < 0 ? cel_error(env, "unsigned integer overflow") : r;
    case CEL_DOUBLE:
        if (!(a[0].d >= 0 && a[0].d < 1.8446744073709551e19))
            return cel_error(env, "unsigned integer overflow");
        r.u = (uint64_t)a[0].d;
        return r;
    case CEL_STRING:
        errno = 0;
        if (cel_to_text(a[0].s, buf, sizeof(buf)) && buf[0] != '-') {
            r.u = strtoull(buf, &end, 10);
            if (!errno && !*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'uint'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(double)
{
    char buf[64];
    char *end;
    struct cel_val r = {.k = CEL_DOUBLE};

    switch ((int)a[0].k) {
    case CEL_DOUBLE:
        return a[0];
    case CEL_INT:
        r.d = (double)a[0].i;
        return r;
    case CEL_UINT:
        r.d = (double)a[0].u;
        return r;
    case CEL_STRING:
        if (cel_to_text(a[0].s, buf, sizeof(buf))) {
            r.d = strtod(buf, &end);
            if (!*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'double'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(boolean)
{
    static const char *const yes[] = {"1", "t", "true", "TRUE", "True", "T"};
    static const char *const no[] = {"0", "f", "false", "FALSE", "False", "F"};

    if (a[0].k == CEL_BOOL)
        return a[0];
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    for (size_t i = 0; i < SW_ARRAY_LEN(yes); i++) {
        if (sw_slice_eq_str(a[0].s, yes[i]))
            return cel_bool(true);
        if (sw_slice_eq_str(a[0].s, no[i]))
            return cel_bool(false);
    }
    return cel_error(env, "type conversion error from 'string' to 'bool'");
}

struct cel_val cel_to_string(struct cel_env *env, const struct cel_val *v)
{
    const char *p;

    switch ((int)v->k) {
    case CEL_STRING:
        return *v;
    case CEL_BYTES:
        return sw_utf8_valid(v->s)
                   ? cel_string(v->s)
                   : cel_error(env, "invalid UTF-8 in bytes, cannot convert to string");
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
        return cel_string(v->s);
    case CEL_BOOL:
        p = v->b ? "true" : "false";
        break;
    case CEL_INT:
        p = sw_arena_printf(env->a, "%lld", (long long)v->i);
        break;
    case CEL_UINT:
        p = sw_arena_printf(env->a, "%llu", (unsigned long long)v->u);
        break;
    case CEL_DOUBLE:
        p = sw_go_float(env->a, v->d);
        break;
    case CEL_DURATION:
        p = sw_arena_printf(env->a, "%ss", sw_go_float(env->a, (double)v->i / 1e9));
        break;
    case CEL_TIMESTAMP:
        p = cel_time_text(env, v);
        break;
    default:
        return cel_error(env, "no such overload");
    }
    return cel_string(sw_slice_str(p));
}

FN(string)
{
    return cel_to_string(env, &a[0]);
}

FN(bytes)
{
    if (a[0].k != CEL_STRING && a[0].k != CEL_BYTES)
        return cel_error(env, "no such overload");
    return (struct cel_val){.k = CEL_BYTES, .s = a[0].s};
}

FN(dyn)
{
    return a[0];
}

const char *cel_kind_name(enum cel_kind k)
{
    static const char *const names[] = {
#define X(kind, type_name, value_name) value_name,
        CEL_KINDS(X)
#undef X
    };

    return names[k];
}

FN(type)
{
    return (struct cel_val){.k = CEL_TYPE, .s = sw_slice_str(cel_kind_name(a[0].k))};
}
