/* SPDX-License-Identifier: Apache-2.0 */
/* Whole contents of a snapshot, for dumps and for what is written to disk. */
#include <malloc.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/search.h"
#include "node/state/state_int.h"

static const void **list_all(const struct sw_smap *m)
{
    const void **list = SW_NEW_ARRAY(const void *, m->n + 1);
    struct sw_smap_walk walk = {.map = m};

    for (size_t i = 0; i < m->n; i++)
        list[i] = sw_smap_next(&walk);
    return list;
}

static int by_uid(const void *a, const void *b)
{
    const struct sw_workload *const *x = a;
    const struct sw_workload *const *y = b;

    return sw_workload_cmp(*x, *y);
}

const struct sw_workload **sw_state_list_workloads(const struct sw_state *s)
{
    const void **list = list_all(&s->t.by_uid);

    qsort(list, s->t.by_uid.n, sizeof(*list), by_uid);
    return (const struct sw_workload **)list;
}

const struct sw_service **sw_state_list_services(const struct sw_state *s)
{
    const struct sw_service **list = (const struct sw_service **)list_all(&s->t.by_service);

    SW_SORT_POINTERS_BY2(list, s->t.by_service.n, ns, hostname);
    return list;
}

const struct sw_policy **sw_state_list_policies(const struct sw_state *s)
{
    const void **all = list_all(&s->t.by_policy);
    const struct sw_policy **list = (const struct sw_policy **)all;

    for (size_t i = 0; i < s->t.by_policy.n; i++)
        list[i] = ((const struct sw_shared_policy *)all[i])->p;
    SW_SORT_POINTERS_BY2(list, s->t.by_policy.n, ns, name);
    return list;
}

struct sw_slice *sw_state_list_staged(const struct sw_state *s)
{
    struct sw_slice *list = SW_NEW_ARRAY(struct sw_slice, s->t.staged.n + 1);
    struct sw_smap_walk walk = {.map = &s->t.staged};

    for (size_t i = 0; i < s->t.staged.n; i++)
        list[i] = *(const struct sw_slice *)sw_smap_next(&walk);
    sw_slice_sort(list, s->t.staged.n);
    return list;
}

void sw_state_each_local(const struct sw_state *s,
                         void (*fn)(void *arg, const struct sw_workload *w), void *arg)
{
    SW_SMAP_EACH (const struct sw_workload, w, &s->t.local)
        fn(arg, w);
}

static size_t heap(const void *p)
{
    return p ? malloc_usable_size((void *)(uintptr_t)p) + sizeof(size_t) : 0;
}

static size_t shared_bytes(const struct sw_smap *m)
{
    size_t sum = sw_smap_bytes(m);

    SW_SMAP_EACH (const void, v, m)
        sum += heap(v);
    return sum;
}

static size_t roster_bytes(const struct sw_smap *m)
{
    size_t sum = sw_smap_bytes(m);

    SW_SMAP_EACH (const struct sw_roster, r, m)
        sum += heap(r) + heap(r->p) + heap(r->svc) + heap(r->body);
    return sum;
}

size_t sw_state_bytes(const struct sw_state *s)
{
    const struct sw_state_tables *t = &s->t;
    const struct sw_smap *maps[] = {&t->by_uid,     &t->by_ip,   &t->by_hostname, &t->local,
                                    &t->by_service, &t->by_vip,  &t->by_cidr,     &t->by_policy,
                                    &t->by_ns,      &t->selected};
    size_t sum = heap(s) + shared_bytes(&s->builder->shared) + shared_bytes(&s->builder->selectors);

    for (size_t i = 0; i < SW_ARRAY_LEN(maps); i++)
        sum += sw_smap_bytes(maps[i]);
    SW_SMAP_EACH (const void, w, &t->by_uid)
        sum += heap(w);
    return sum + roster_bytes(&s->builder->rosters);
}
