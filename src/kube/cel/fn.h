/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions. Signatures are letters, those of the arguments before the colon: s string, i int,
 * u uint, d double, b bool, y bytes, D duration, T timestamp, l any list, L list of strings, n list
 * of numbers, c list of what has an order, p list of optionals, m map or object, o optional, F
 * named format, U URL, I address, C prefix, Q quantity, * anything; results also e (element of the
 * first argument), E (optional of it), W (list of what its optionals hold), S (type of the first
 * argument), O (optional of the first argument), V (optional list of strings), M (map of lists of
 * strings), t (type); A authorizer, P, G and R its checks of a path, a group and a resource, X its
 * decision.
 */
#pragma once

#include "kube/cel/cel_priv.h"

#define FN(name)                                                                                   \
    struct cel_val cel_fn_##name(struct cel_env *env, const struct cel_node *n, struct cel_val *a, \
                                 size_t na)

/*
 * Every function with the calls that mean it: names, those of members with a dot before them, and
 * behind them the signatures that all of these names have. Of signatures that fit, the first
 * counts.
 */
#define CEL_FNS(X)                                                                                 \
    X(size, ".size size s:i y:i l:i m:i")                                                          \
    X(contains, ".contains ss:b")                                                                  \
    X(starts, ".startsWith ss:b")                                                                  \
    X(ends, ".endsWith ss:b")                                                                      \
    X(matches, ".matches matches ss:b")                                                            \
    X(find, ".find ss:s .findAll ss:L ssi:L")                                                      \
    X(substring, ".substring si:s sii:s")                                                          \
    X(char_at, ".charAt si:s")                                                                     \
    X(index_of, ".indexOf .lastIndexOf ss:i ssi:i l*:i")                                           \
    X(case, ".lowerAscii .upperAscii s:s")                                                         \
    X(trim, ".trim s:s")                                                                           \
    X(split, ".split ss:L ssi:L")                                                                  \
    X(replace, ".replace sss:s sssi:s")                                                            \
    X(join, ".join L:s Ls:s")                                                                      \
    X(quote, "strings.quote s:s")                                                                  \
    X(reverse, ".reverse s:s")                                                                     \
    X(format_string, ".format sl:s")                                                               \
    X(is_sorted, ".isSorted c:b")                                                                  \
    X(sum, ".sum n:e")                                                                             \
    X(min_max, ".min .max c:e")                                                                    \
    X(first_last, ".first .last l:E")                                                              \
    X(unwrap, ".unwrapOpt optional.unwrap p:W")                                                    \
    X(sets, "sets.contains sets.equivalent sets.intersects ll:b")                                  \
    X(optional, "optional.of optional.ofNonZeroValue *:O optional.none :o")                        \
    X(opt_access, ".hasValue o:b .value o:e .orValue o*:e .or oo:S")                               \
    X(int, "int i:i u:i d:i s:i T:i")                                                              \
    X(uint, "uint u:u i:u d:u s:u")                                                                \
    X(double, "double d:d i:d u:d s:d")                                                            \
    X(boolean, "bool b:b s:b")                                                                     \
    X(string, "string s:s b:s i:s u:s d:s y:s D:s T:s U:s I:s C:s")                                \
    X(bytes, "bytes s:y y:y")                                                                      \
    X(dyn, "dyn *:*")                                                                              \
    X(type, "type *:t")                                                                            \
    X(duration, "duration s:D D:D")                                                                \
    X(timestamp, "timestamp s:T T:T i:T")                                                          \
    X(time_part, ".getFullYear .getMonth .getDate .getDayOfMonth .getDayOfWeek "                   \
                 ".getDayOfYear T:i .getHours .getMinutes .getSeconds .getMilliseconds T:i "       \
                 "D:i")                                                                            \
    X(named, "format.named s:N")                                                                   \
    X(format, "format.dns1123LabelPrefix format.dns1123SubdomainPrefix "                           \
              "format.dns1035LabelPrefix format.dns1123Label format.dns1123Subdomain "             \
              "format.dns1035Label format.qualifiedName format.labelValue format.uri "             \
              "format.uuid format.byte format.date format.datetime :F")                            \
    X(validate, ".validate Fs:V")                                                                  \
    X(url, "url s:U")                                                                              \
    X(is_url, "isURL s:b")                                                                         \
    X(url_part, ".getScheme .getHost .getHostname .getPort .getEscapedPath U:s")                   \
    X(url_query, ".getQuery U:M")                                                                  \
    X(is_ip, "isIP s:b")                                                                           \
    X(ip, "ip s:I")                                                                                \
    X(ip_canonical, "ip.isCanonical s:b")                                                          \
    X(ip_part, ".family I:i .isUnspecified .isLoopback .isLinkLocalMulticast "                     \
               ".isLinkLocalUnicast .isGlobalUnicast I:b")                                         \
    X(is_cidr, "isCIDR s:b")                                                                       \
    X(cidr, "cidr s:C")                                                                            \
    X(cidr_contains, ".containsIP Cs:b CI:b .containsCIDR Cs:b CC:b")                              \
    X(cidr_part, ".ip C:I .masked C:C .prefixLength C:i")                                          \
    X(quantity, "quantity s:Q")                                                                    \
    X(is_quantity, "isQuantity s:b")                                                               \
    X(quantity_get, "sign .sign .asInteger Q:i .isInteger Q:b .asApproximateFloat Q:d")            \
    X(quantity_compare, ".isGreaterThan .isLessThan QQ:b .compareTo QQ:i")                         \
    X(quantity_add, ".add .sub QQ:Q Qi:Q")                                                         \
    X(authorizer, ".path As:P .group As:G .serviceAccount Ass:A")                                  \
    X(group_resource, ".resource Gs:R")                                                            \
    X(narrow, ".subresource .namespace .name .fieldSelector .labelSelector Rs:R")                  \
    X(check, ".check Rs:X Ps:X")                                                                   \
    X(decision, ".allowed .errored X:b .error .reason X:s")

#define X(name, forms) FN(name);
CEL_FNS(X)
#undef X

static inline void charge(struct cel_env *env, size_t bytes)
{
    env->cost += bytes / 10 + 1;
}

static inline bool strings(const struct cel_val *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].k != CEL_STRING)
            return false;
    }
    return true;
}

#define NEED_STRINGS(count)                                                                        \
    do {                                                                                           \
        if (!strings(a, (count)))                                                                  \
            return cel_error(env, "no such overload");                                             \
        charge(env, a[0].s.n);                                                                     \
    } while (0)

/* A short text with its end marked; false when it is empty, too long or begins with a space. */
bool cel_to_text(struct sw_slice s, char *buf, size_t cap);
/* RFC 3339. */
const char *cel_time_text(struct cel_env *env, const struct cel_val *v);
/* What string() makes of a value; an error for what it does not take. */
struct cel_val cel_to_string(struct cel_env *env, const struct cel_val *v);
/* The name type() answers with. */
const char *cel_kind_name(enum cel_kind k);
