/* SPDX-License-Identifier: Apache-2.0 */
/* Text of one option turned into the type its row asks for. */
#include "opts/opts_int.h"

#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/addr.h"

enum { LIST_MAX = 4096 };

bool sw_opt_bool(struct sw_slice value, bool *ret)
{
    static const char *const words[] = {"true", "1", "yes", "on", "false", "0", "no", "off"};

    for (size_t i = 0; i < SW_ARRAY_LEN(words); i++) {
        if (sw_slice_ieq(value, sw_slice_str(words[i]))) {
            *ret = i < SW_ARRAY_LEN(words) / 2;
            return true;
        }
    }
    return false;
}

static bool parse_hex(struct sw_slice s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0 || s.n > 8)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int d = sw_hex_digit(s.p[i]);

        if (d < 0)
            return false;
        v = v * 16 + (unsigned)d;
    }
    *ret = v;
    return true;
}

static int set_u32(const struct sw_opt *o, uint32_t *at, struct sw_slice value, struct sw_err *err)
{
    uint32_t max = o->max ? o->max : UINT32_MAX;
    bool hex = sw_slice_has_prefix(value, SW_SLICE_LIT("0x"));
    uint64_t v;

    if (!(hex ? parse_hex(sw_slice_from(value, 2), &v)
              : sw_slice_to_u64(value, UINT64_MAX / 16, &v)))
        return sw_err_set(err, SW_EINVAL, "'%.*s' is not a number", SW_SLICE_ARG(value));
    if (v < o->min || v > max)
        return sw_err_set(err, SW_EINVAL, "%llu is not between %u and %u", (unsigned long long)v,
                          o->min, max);
    *at = (uint32_t)v;
    return SW_OK;
}

static int set_duration(const struct sw_opt *o, uint64_t *at, struct sw_slice value,
                        struct sw_err *err)
{
    uint64_t ns;
    int rc = sw_duration_parse(value, &ns, err);

    if (rc != SW_OK)
        return rc;
    if (ns < o->min * SW_NS_PER_MS || (o->max && ns > o->max * SW_NS_PER_MS))
        return o->max ? sw_err_set(err, SW_EINVAL, "'%.*s' is not between %ums and %ums",
                                   SW_SLICE_ARG(value), o->min, o->max)
                      : sw_err_set(err, SW_EINVAL, "'%.*s' is less than %ums", SW_SLICE_ARG(value),
                                   o->min);
    *at = ns;
    return SW_OK;
}

static int set_enum(const struct sw_opt *o, int *at, struct sw_slice value, struct sw_err *err)
{
    char all[96] = "";
    size_t n = 0;

    for (int i = 0; o->choices[i]; i++) {
        struct sw_slice c = sw_slice_str(o->choices[i]);

        if (sw_slice_ieq(value, c)) {
            *at = i;
            return SW_OK;
        }
        if (n + c.n + 3 < sizeof(all)) {
            if (n) {
                memcpy(all + n, ", ", 2);
                n += 2;
            }
            memcpy(all + n, c.p, c.n);
            n += c.n;
            all[n] = '\0';
        }
    }
    return sw_err_set(err, SW_EINVAL, "'%.*s' is not one of %s", SW_SLICE_ARG(value), all);
}

static int set_addr(struct sw_addr *at, struct sw_slice value, struct sw_err *err)
{
    /* A bare "localhost:PORT" is what ztunnel's own variables use. */
    static const char local[] = "localhost:";
    struct sw_slice port = sw_slice_from(value, sizeof(local) - 1);
    uint64_t v;

    if (!sw_slice_has_prefix(value, SW_SLICE_LIT(local)))
        return sw_addr_parse(value, at, err);
    if (!sw_slice_to_u64(port, 65535, &v))
        return sw_err_set(err, SW_EINVAL, "'%.*s' has a bad port", SW_SLICE_ARG(value));
    *at = (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = (uint16_t)v};
    return SW_OK;
}

static int list_add(struct sw_opt_list *l, struct sw_arena *arena, struct sw_slice value,
                    struct sw_err *err)
{
    const char **p;

    if (value.n == 0)
        return sw_err_set(err, SW_EINVAL, "empty value");
    if (l->n == LIST_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d values", LIST_MAX);
    /* Doubling keeps the arena's waste below the list itself. */
    if ((l->n & (l->n - 1)) == 0) {
        p = sw_arena_array(arena, l->n ? l->n * 2 : 1, sizeof(*p));
        if (l->n)
            memcpy(p, l->p, l->n * sizeof(*p));
        l->p = p;
    }
    l->p[l->n++] = sw_arena_dup(arena, value);
    return SW_OK;
}

int sw_opt_set(const struct sw_opt *o, void *dest, struct sw_arena *arena, struct sw_slice value,
               struct sw_err *err)
{
    void *at = (char *)dest + o->offset;

    if (memchr(value.p, '\0', value.n))
        return sw_err_set(err, SW_EINVAL, "the value contains a NUL byte");
    switch (o->type) {
    case SW_OPT_GROUP:
        break;
    case SW_OPT_STR:
        *(const char **)at = sw_arena_dup(arena, value);
        break;
    case SW_OPT_BOOL:
        if (!sw_opt_bool(value, at))
            return sw_err_set(err, SW_EINVAL, "'%.*s' is neither true nor false",
                              SW_SLICE_ARG(value));
        break;
    case SW_OPT_U32:
        return set_u32(o, at, value, err);
    case SW_OPT_DURATION:
        return set_duration(o, at, value, err);
    case SW_OPT_ENUM:
        return set_enum(o, at, value, err);
    case SW_OPT_IP:
        return sw_ip_parse(value, at, err);
    case SW_OPT_ADDR:
        return set_addr(at, value, err);
    case SW_OPT_LIST:
        return list_add(at, arena, value, err);
    }
    return SW_OK;
}
