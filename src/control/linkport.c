/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.targetPort is the lease, written once where it is missing and kept for good. Of several
 * Imports with one port the one that has it by its condition keeps it, so that a request alone
 * takes no port away; else the oldest has it.
 */
#include "control/linkport.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/share.h"
#include "control/objects.h"

/* Ports that data planes have for themselves, of ours and of ClusterLink. */
static const struct sw_link_ports own[] = {
    {1500, 1500},   /* Envoy's admin endpoint */
    {4443, 4445},   /* other sites, control plane, readiness */
    {15000, 15099}, /* admin, metrics, readiness and the like of every role */
};

struct ports {
    struct sw_link_lease *holder[SW_LINK_PORT_END]; /* by port */
    bool reserved[SW_LINK_PORT_END];
    struct sw_shares shares; /* of namespaces */
    unsigned first;          /* not reserved */
    unsigned end;            /* after the last that is not reserved; 0: all are */
    bool full;               /* there is none to choose */
};

static void reserve(struct ports *p, const struct sw_link_ports *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = list[i].first; k <= list[i].last && k < SW_LINK_PORT_END; k++)
            p->reserved[k] = true;
    }
}

static void find_range(struct ports *p)
{
    for (unsigned k = SW_LINK_PORT_FIRST; k < SW_LINK_PORT_END; k++) {
        if (p->reserved[k])
            continue;
        if (!p->end)
            p->first = k;
        p->end = k + 1;
        p->shares.most++;
    }
}

const char *sw_link_lease_text(uint16_t port, char text[SW_LINK_LEASE_TEXT])
{
    (void)snprintf(text, SW_LINK_LEASE_TEXT, "Target port %u.", port);
    return text;
}

/*
 * How good a claim is: the last verdict was for it, and about this very port. An older Import that
 * is changed to ask for a port gets none from one that was changed at the same time.
 */
static int standing(const struct sw_link_lease *i)
{
    const struct sw_kube_obj *o = i->import;
    const struct sw_json *c = cn_condition(cn_conditions(o), "ImportTargetPortValid");
    struct sw_slice said = js_or(c, "message", "");
    char text[SW_LINK_LEASE_TEXT];

    if (!sw_json_str_eq(sw_json_find(c, "status"), "True"))
        return 0;
    if (said.n)
        return sw_slice_eq_str(said, sw_link_lease_text(i->target, text)) ? 2 : 1;
    /* Of before conditions named the port. */
    return js_int(c, "observedGeneration", INT64_MAX, -1) == generation_of(o) ? 2 : 1;
}

/* A claim to a port that spec names. */
struct claim {
    struct sw_link_lease *by;
    int standing;
};

static int best_first(const void *x, const void *y)
{
    const struct claim *p = x;
    const struct claim *q = y;
    int d = q->standing - p->standing;

    return d ? d : by_age(p->by->import, q->by->import);
}

static void take(struct ports *p, struct sw_link_lease *i)
{
    p->holder[i->target] = i;
    sw_shares_take(&p->shares, i->import->ns);
}

/* The namespace's Imports have as many ports as are left for those of all others. */
static bool has_share(struct sw_arena *a, const struct ports *p, struct sw_link_lease *i)
{
    if (sw_shares_left(&p->shares, i->import->ns))
        return true;
    i->why = sw_arena_printf(a, "Namespace '%.*s' has %zu target ports, its share of %zu.",
                             SW_SLICE_ARG(i->import->ns), sw_shares_of(&p->shares, i->import->ns),
                             p->shares.most);
    return false;
}

/* A port that spec names. False: no Import can have it. */
static bool read_claim(struct sw_arena *a, const struct ports *p, struct sw_link_lease *i,
                       const struct sw_json *value)
{
    int64_t n = 0;

    if (!sw_json_exact_i64(value, &n) || n < SW_LINK_PORT_FIRST || n >= SW_LINK_PORT_END) {
        i->why = sw_arena_printf(a, "spec.targetPort must be in the range %d to %d.",
                                 SW_LINK_PORT_FIRST, SW_LINK_PORT_END - 1);
        return false;
    }
    i->target = (uint16_t)n;
    if (p->reserved[n])
        i->why = sw_arena_printf(
            a, "spec.targetPort %u is a port of the data plane itself, or outside of --link-ports.",
            i->target);
    return !p->reserved[n];
}

/* The best first; what was granted stays, whatever share it is. */
static void settle_claims(struct sw_arena *a, struct ports *p, struct claim *claims, size_t n)
{
    if (n > 1)
        qsort(claims, n, sizeof(*claims), best_first);
    for (size_t i = 0; i < n; i++) {
        struct sw_link_lease *by = claims[i].by;

        if (!p->holder[by->target] && (claims[i].standing == 2 || has_share(a, p, by)))
            take(p, by);
    }
}

/* The name of an object in another namespace is not disclosed. */
static void lose(struct sw_arena *a, struct sw_link_lease *i, const struct sw_kube_obj *by)
{
    i->holder = by;
    i->why =
        sw_slice_eq(i->import->ns, by->ns)
            ? sw_arena_printf(a, "spec.targetPort %u is leased to Import '%.*s'.", i->target,
                              SW_SLICE_ARG(by->name))
            : sw_arena_printf(a, "spec.targetPort %u is leased to an Import of another namespace.",
                              i->target);
}

/*
 * Choices are made anew until they are written, and Imports that come meanwhile change them: two
 * may end up with one port that neither asked for.
 */
static bool was_chosen(const struct sw_link_lease *i)
{
    uint64_t n;

    return sw_slice_to_u64(cn_meta_of(i->import, "annotations", SW_LINK_CHOSEN), UINT16_MAX, &n) &&
           n == i->target;
}

/* False: it needs another port. */
static bool settle(struct sw_arena *a, const struct ports *p, struct sw_link_lease *i)
{
    if (i->target && !i->why && p->holder[i->target] != i) {
        if (was_chosen(i)) {
            i->target = 0;
            return false;
        }
        lose(a, i, p->holder[i->target]->import);
    }
    if (i->why)
        i->target = 0;
    return true;
}

/* From a place that follows from the name, so that a lease that was lost is found again. */
static void choose(struct sw_arena *a, struct ports *p, struct sw_link_lease *i)
{
    const unsigned span = p->end - p->first;
    unsigned from =
        span ? (unsigned)(sw_siphash13(3, 4, i->import->key.p, i->import->key.n) % span) : 0;

    if (p->shares.taken < p->shares.most && !has_share(a, p, i))
        return;
    for (unsigned k = 0; k < span && !p->full; k++) {
        unsigned port = p->first + (from + k) % span;

        if (p->reserved[port] || p->holder[port])
            continue;
        i->target = (uint16_t)port;
        i->unwritten = true;
        take(p, i);
        return;
    }
    p->full = true;
    i->why = "All target ports are leased.";
}

int sw_link_ports_outside(struct sw_slice in, struct sw_link_ports ret[2], struct sw_err *err)
{
    struct sw_slice rest = in;
    struct sw_slice low = sw_slice_cut(&rest, '-');
    uint64_t first = 0;
    uint64_t last = 0;

    if (!rest.p || !sw_slice_to_u64(low, SW_LINK_PORT_END - 1, &first) ||
        !sw_slice_to_u64(rest, SW_LINK_PORT_END - 1, &last) || first < SW_LINK_PORT_FIRST ||
        first > last)
        return sw_err_set(err, SW_EINVAL, "'%.*s' is no range of ports within %d-%d",
                          SW_SLICE_ARG(sw_slice_head(in, 60)), SW_LINK_PORT_FIRST,
                          SW_LINK_PORT_END - 1);
    ret[0] = (struct sw_link_ports){1, (uint16_t)(first - 1)};
    ret[1] = (struct sw_link_ports){(uint16_t)(last + 1), UINT16_MAX};
    return SW_OK;
}

void sw_link_leases(struct sw_arena *a, const struct sw_link_ports *reserved, size_t n_reserved,
                    struct sw_link_lease *list, size_t n)
{
    struct ports *p = sw_calloc(1, sizeof(*p));
    struct sw_link_lease **without = sw_arena_array(a, n + 1, sizeof(struct sw_link_lease *));
    struct claim *claims = sw_arena_array(a, n + 1, sizeof(*claims));
    size_t n_without = 0;
    size_t n_claims = 0;

    reserve(p, own, SW_ARRAY_LEN(own));
    reserve(p, reserved, n_reserved);
    find_range(p);
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *value =
            sw_json_walk(list[i].import->json, "spec", "targetPort", NULL);
        int64_t zero;

        if (!value || (sw_json_exact_i64(value, &zero) && zero == 0))
            without[n_without++] = &list[i];
        else if (read_claim(a, p, &list[i], value))
            claims[n_claims++] = (struct claim){&list[i], standing(&list[i])};
    }
    settle_claims(a, p, claims, n_claims);
    for (size_t i = 0; i < n; i++) {
        if (!settle(a, p, &list[i]))
            without[n_without++] = &list[i];
    }
    if (n_without > 1)
        qsort(without, n_without, sizeof(struct sw_link_lease *), cn_oldest_holder_first);
    for (size_t i = 0; i < n_without; i++)
        choose(a, p, without[i]);
    sw_shares_done(&p->shares);
    sw_free(p);
}
