/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that Kubernetes gives a price of their own. */
#include "kube/cel/cost.h"

#include <math.h>

enum { FORMAT_MAX = 64, FORMAT_REGEX = 128, CHECK_COST = 350000 };

static const double text_factor = 0.1;
static const double regex_factor = 0.25;

static struct cel_span size(const struct cel_ask *q, const struct cel_arg *a)
{
    struct cel_span s;

    if (a->has_size)
        return a->size;
    return cel_decl_size(q->k->c, &a->path, &s) ? s : (struct cel_span){0, UINT64_MAX};
}

static uint64_t text_cost(struct cel_span s)
{
    return cel_scale(s.max, text_factor);
}

static bool fixed(struct cel_call_cost *ret, uint64_t max)
{
    *ret = (struct cel_call_cost){.max = max};
    return true;
}

static bool with_size(struct cel_call_cost *ret, uint64_t max, struct cel_span s)
{
    *ret = (struct cel_call_cost){.max = max, .has_size = true, .size = s};
    return true;
}

/* ---- one function per kind of price ---- */

static bool nominal(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return fixed(ret, 1);
}

static bool check(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return fixed(ret, CHECK_COST);
}

/* The element type and size of a list; false when the type has no parameter. */
static bool element(const struct cel_ask *q, const struct cel_type **ret_type, struct cel_span *ret)
{
    const struct cel_type *t = q->t->x->type;
    struct cel_path path = q->t->path;

    if (t->k != CEL_LIST && t->k != CEL_MAP && t->k != CEL_OPTIONAL)
        return false;
    *ret_type = t->k == CEL_MAP ? &cel_t_string : t->elem;
    *ret = (struct cel_span){0, UINT64_MAX};
    if (path.n) {
        path = cel_path_add(q->k->a, &path, SW_SLICE_LIT("@items"));
        if (!cel_decl_size(q->k->c, &path, ret))
            *ret = (struct cel_span){0, UINT64_MAX};
    }
    return true;
}

/* isSorted, sum, min, max, indexOf, lastIndexOf */
static bool traversal(const struct cel_ask *q, struct cel_call_cost *ret)
{
    const struct cel_type *t;
    struct cel_span each;
    uint64_t one = 1;

    if (!q->t->x)
        return false;
    if (!element(q, &t, &each))
        return fixed(ret, text_cost(size(q, q->t)));
    if (t->k == CEL_STRING || t->k == CEL_BYTES)
        one = cel_add(one, text_cost(each));
    return fixed(ret, cel_mul(size(q, q->t).max, one));
}

/* url */
static bool read_arg_sized(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, &q->a[0]);

    return with_size(ret, text_cost(s), s);
}

/* isIP, cidr, quantity, ...: a text is parsed. */
static bool read_arg(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return fixed(ret, text_cost(size(q, &q->a[0])));
}

static bool read_arg_twice(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return fixed(ret, cel_scale(size(q, &q->a[0]).max, 2 * text_factor));
}

/* ip("1.2.3.4") parses, cidr.ip() only answers. */
static bool ip(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return q->n ? read_arg(q, ret) : fixed(ret, 1);
}

/* lowerAscii, upperAscii, substring, trim */
static bool copy_text(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, q->t);

    return with_size(ret, text_cost(s), s);
}

static uint64_t one_more(uint64_t n)
{
    return n < UINT64_MAX ? n + 1 : n;
}

static uint64_t ratio(uint64_t x, uint64_t y)
{
    double r = ceil((double)x / (double)y);

    return r >= 0x1p64 ? UINT64_MAX : (uint64_t)r;
}

/* The longest and the shortest text that replacing can make. */
static bool replace(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, q->t);
    struct cel_span from = size(q, &q->a[0]);
    struct cel_span to = size(q, &q->a[1]);
    struct cel_span count = {0, 0};
    struct cel_span kept = {0, 0};

    if (from.min == 0) {
        count.max = one_more(s.max);
        kept.max = s.max;
    } else if (to.max <= from.min) {
        kept.max = s.max;
    } else {
        count.max = ratio(s.max, from.min);
    }
    if (from.max == 0) {
        count.min = one_more(s.min);
        kept.min = s.min;
    } else if (from.max <= to.min) {
        kept.min = s.min;
    } else {
        count.min = ratio(s.min, from.max);
    }
    return with_size(ret, cel_scale(s.max, 2 * text_factor),
                     (struct cel_span){cel_add(cel_mul(count.min, to.min), kept.min),
                                       cel_add(cel_mul(count.max, to.max), kept.max)});
}

static bool split(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, q->t);
    const struct cel_x *limit = q->n > 1 ? q->a[1].x : NULL;
    uint64_t parts = s.max;

    if (limit && limit->kind == X_LITERAL && limit->lit && limit->lit->k == CEL_INT)
        parts = (uint64_t)limit->lit->i;
    return with_size(ret, cel_scale(s.max, 2 * text_factor), (struct cel_span){0, parts});
}

static bool join(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span list = size(q, q->t);
    struct cel_span each;
    struct cel_span s = {0, 0};
    const struct cel_type *t;

    if (element(q, &t, &each))
        s = (struct cel_span){cel_mul(list.min, each.min), cel_mul(list.max, each.max)};
    if (q->n) {
        struct cel_span sep = size(q, &q->a[0]);

        s.min = cel_add(s.min, cel_mul(sep.min, list.min ? list.min - 1 : 0));
        s.max = cel_add(s.max, cel_mul(sep.max, list.max ? list.max - 1 : 0));
    }
    return with_size(ret, text_cost(s), s);
}

static bool find(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, q->t);

    return with_size(ret,
                     cel_mul(cel_scale(cel_add(s.max, 1), text_factor),
                             cel_scale(size(q, &q->a[0]).max, regex_factor)),
                     (struct cel_span){0, s.max});
}

/* Two addresses of at most 16 bytes, and the lengths of prefixes; a text is parsed before. */
static bool contains_net(const struct cel_ask *q, struct cel_call_cost *ret)
{
    uint64_t parse = q->ov == OV_NET_TEXT ? text_cost(size(q, &q->a[0])) : 0;
    uint64_t own = cel_scale(32, text_factor);

    if (sw_slice_eq_str(q->x->name, "containsCIDR"))
        own += cel_scale(16, text_factor) + 1;
    return fixed(ret, cel_add(own, parse));
}

static bool validate(const struct cel_ask *q, struct cel_call_cost *ret)
{
    return fixed(ret, cel_scale(text_cost(size(q, &q->a[0])), FORMAT_REGEX * regex_factor));
}

static bool equal(const struct cel_ask *q, struct cel_call_cost *ret)
{
    enum cel_kind k = q->a[0].x->type->k;

    if (k != q->a[1].x->type->k)
        return false;
    if (k == CEL_IP || k == CEL_CIDR || k == CEL_QUANTITY)
        return fixed(ret, 1);
    if (k == CEL_FORMAT)
        return fixed(ret, cel_scale(FORMAT_MAX, text_factor));
    if (k == CEL_URL)
        return fixed(ret, cel_scale(q->a[1].has_size ? q->a[1].size.max : 1, text_factor));
    return false;
}

static bool sets(const struct cel_ask *q, struct cel_call_cost *ret)
{
    uint64_t pairs = cel_mul(size(q, &q->a[0]).max, size(q, &q->a[1]).max);

    return fixed(ret, cel_add(cel_scale(pairs, q->ov == OV_SETS_TWICE ? 2 : 1), 1));
}

/* A list of requirements: parsing, then a struct and a list for every second rune. */
static bool selector(const struct cel_ask *q, struct cel_call_cost *ret)
{
    struct cel_span s = size(q, &q->a[0]);

    return fixed(ret, cel_add(cel_add(10, text_cost(s)), cel_scale(cel_scale(s.max, 0.5), 50)));
}

bool cel_cost_function(const struct cel_ask *q, struct cel_call_cost *ret)
{
    static const struct {
        const char *names; /* separated by spaces */
        bool (*fn)(const struct cel_ask *q, struct cel_call_cost *ret);
    } prices[] = {
        {"check", check},
        {"serviceAccount path group resource subresource namespace name allowed reason error "
         "errored",
         nominal},
        {"fieldSelector labelSelector", selector},
        {"isSorted sum max min indexOf lastIndexOf", traversal},
        {"url", read_arg_sized},
        {"lowerAscii upperAscii substring trim", copy_text},
        {"replace", replace},
        {"split", split},
        {"join", join},
        {"find findAll", find},
        {"cidr isIP isCIDR quantity isQuantity", read_arg},
        {"ip", ip},
        {"ip.isCanonical", read_arg_twice},
        {"masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast "
         "isLinkLocalUnicast isGlobalUnicast",
         nominal},
        {"containsIP containsCIDR", contains_net},
        {"validate", validate},
        {"format.named", nominal},
        {"sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub",
         nominal},
        {"getScheme getHostname getHost getPort getEscapedPath getQuery", nominal},
        {"_==_", equal},
        {"sets.contains sets.intersects sets.equivalent", sets},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(prices); i++) {
        struct sw_slice rest = sw_slice_str(prices[i].names);

        while (rest.p) {
            if (sw_slice_eq(sw_slice_cut(&rest, ' '), q->x->name))
                return prices[i].fn(q, ret);
        }
    }
    return false;
}
