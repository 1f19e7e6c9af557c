/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of a wanted rule becomes the set of held rules that grant it, as bits. A right is
 * held when the sets of its verb, group, resource and name meet in a rule. Entries with the same
 * set are one class, so the product that is walked is that of the classes: one, for a user whose
 * rules treat all entries alike.
 */
#include "apiserver/auth/cover.h"

#include <string.h>

/* Held rules that list an entry. */
struct ids {
    uint32_t *p;
    size_t n, cap;
};

/* One list of all held rules. */
struct dim {
    struct sw_map map; /* of struct ids by entry */
    struct ids any;    /* rules whose list takes every entry */
};

struct held {
    struct sw_arena arena;
    size_t words; /* of a set */
    struct dim verbs, groups, resources, names, urls;
    struct sw_slice *prefixes; /* URLs that end in '*', without it */
    uint32_t *prefix_rule;
    size_t nprefixes;
    struct sw_budget *budget;
};

/* The entries of a wanted list, by class. */
struct classes {
    uint64_t **sets;        /* of each class */
    size_t *of;             /* the class of each entry */
    struct sw_slice *entry; /* without those that repeat */
    size_t n, nentries;
};

static void ids_add(struct sw_arena *a, struct ids *l, uint32_t id)
{
    if (l->n && l->p[l->n - 1] == id)
        return;
    l->p = sw_arena_grow(a, l->p, l->n, &l->cap, sizeof(*l->p));
    l->p[l->n++] = id;
}

static void index_entry(struct held *h, struct dim *d, struct sw_slice x, uint32_t id)
{
    struct ids *l = sw_map_get(&d->map, x);

    if (!l) {
        l = SW_ARENA_NEW(&h->arena, struct ids);
        (void)sw_map_put(&d->map, x, l);
    }
    ids_add(&h->arena, l, id);
}

static void index_list(struct held *h, struct dim *d, const struct sw_json *v, uint32_t id)
{
    for (size_t i = 0; i < sw_json_len(v) && sw_budget_step(h->budget, 100); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));

        if (x.p && sw_slice_eq_str(x, "*"))
            ids_add(&h->arena, &d->any, id);
        else if (x.p)
            index_entry(h, d, x, id);
    }
}

/* Names: none means all, and '*' is a name like others. */
static void index_names(struct held *h, const struct sw_json *v, uint32_t id)
{
    if (sw_json_len(v) == 0)
        ids_add(&h->arena, &h->names.any, id);
    for (size_t i = 0; i < sw_json_len(v) && sw_budget_step(h->budget, 100); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));

        if (x.n)
            index_entry(h, &h->names, x, id);
    }
}

static void index_urls(struct held *h, const struct sw_json *v, uint32_t id)
{
    for (size_t i = 0; i < sw_json_len(v) && sw_budget_step(h->budget, 100); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));

        if (!x.p)
            continue;
        index_entry(h, &h->urls, x, id);
        if (x.n && x.p[x.n - 1] == '*') {
            h->prefixes[h->nprefixes] = sw_slice_head(x, x.n - 1);
            h->prefix_rule[h->nprefixes++] = id;
        }
    }
}

static void held_done(struct held *h)
{
    struct dim *dims[] = {&h->verbs, &h->groups, &h->resources, &h->names, &h->urls};

    for (size_t i = 0; i < SW_ARRAY_LEN(dims); i++)
        sw_map_done(&dims[i]->map);
    sw_arena_clear(&h->arena);
}

static void held_index(struct held *h, const struct api_rule *p, size_t n, bool urls,
                       struct sw_budget *b)
{
    size_t total = 1;

    *h = (struct held){.words = n / 64 + 1, .budget = b};
    for (size_t i = 0; i < n && urls; i++)
        total += sw_json_len(p[i].urls);
    h->prefixes = sw_arena_array(&h->arena, total, sizeof(*h->prefixes));
    h->prefix_rule = sw_arena_array(&h->arena, total, sizeof(*h->prefix_rule));
    for (size_t i = 0; i < n && sw_budget_step(b, 100); i++) {
        uint32_t id = (uint32_t)i;

        index_list(h, &h->verbs, p[i].verbs, id);
        if (urls) {
            index_urls(h, p[i].urls, id);
            continue;
        }
        index_list(h, &h->groups, p[i].groups, id);
        index_list(h, &h->resources, p[i].resources, id);
        index_names(h, p[i].names, id);
    }
}

/* --- sets ------------------------------------------------------------------------------- */

static void set_add(uint64_t *set, const struct ids *l)
{
    for (size_t i = 0; l && i < l->n; i++)
        set[l->p[i] / 64] |= UINT64_C(1) << (l->p[i] % 64);
}

/* to = a & b; false when that is empty. */
static bool set_meet(uint64_t *to, const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t any = 0;

    for (size_t i = 0; i < words; i++) {
        to[i] = a[i] & b[i];
        any |= to[i];
    }
    return any != 0;
}

static bool sets_meet(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t any = 0;

    for (size_t i = 0; i < words; i++)
        any |= a[i] & b[i];
    return any != 0;
}

typedef void (*entry_fn)(const struct held *h, const struct dim *d, struct sw_slice x,
                         uint64_t *set);

static void set_plain(const struct held *h, const struct dim *d, struct sw_slice x, uint64_t *set)
{
    set_add(set, &d->any);
    set_add(set, sw_map_get(&d->map, x));
}

/* "pods/log" is listed as such, or as "*" and "*" with its subresource. */
static void set_resource(const struct held *h, const struct dim *d, struct sw_slice x,
                         uint64_t *set)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice sub = x;
    struct sw_slice res = sw_slice_cut(&sub, '/');
    bool has_sub = sub.p && sub.n;

    set_plain(h, d, has_sub ? x : res, set);
    if (has_sub)
        set_add(set, sw_map_get(&d->map,
                                sw_slice_str(sw_arena_printf(&tmp, "*/%.*s", SW_SLICE_ARG(sub)))));
}

static void set_url(const struct held *h, const struct dim *d, struct sw_slice x, uint64_t *set)
{
    set_plain(h, d, x, set);
    for (size_t i = 0; i < h->nprefixes; i++) {
        if (sw_slice_has_prefix(x, h->prefixes[i]))
            set[h->prefix_rule[i] / 64] |= UINT64_C(1) << (h->prefix_rule[i] % 64);
    }
}

/* The classes of a list; an empty one of names has one class of one empty entry. */
static void classify(struct sw_arena *a, const struct held *h, const struct dim *d,
                     const struct sw_json *v, entry_fn f, struct classes *ret)
{
    size_t max = sw_max(sw_json_len(v), 1);
    struct sw_map seen = {0};
    struct sw_map by_set = {0};

    *ret = (struct classes){.sets = sw_arena_array(a, max, sizeof(*ret->sets)),
                            .of = sw_arena_array(a, max, sizeof(*ret->of)),
                            .entry = sw_arena_array(a, max, sizeof(*ret->entry))};
    for (size_t i = 0; i < sw_json_len(v) || (d == &h->names && i == 0); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));
        uint64_t *set;
        struct sw_slice bits;
        size_t *cls;

        x = x.p ? x : sw_slice("", 0);
        if (!sw_budget_step(h->budget, 200 + h->words * 2 + h->nprefixes))
            break;
        if (sw_map_put(&seen, x, ret))
            continue;
        set = sw_arena_array(a, h->words, sizeof(*set));
        f(h, d, x, set);
        bits = sw_slice((const char *)set, h->words * sizeof(*set));
        cls = sw_map_get(&by_set, bits);
        if (!cls) {
            cls = SW_ARENA_NEW(a, size_t);
            *cls = ret->n;
            ret->sets[ret->n++] = set;
            (void)sw_map_put(&by_set, bits, cls);
        }
        ret->of[ret->nentries] = *cls;
        ret->entry[ret->nentries++] = x;
    }
    sw_map_done(&seen);
    sw_map_done(&by_set);
}

/* Rules in all sets of both. */
static uint64_t *in_all(struct sw_arena *a, const struct classes *x, const struct classes *y,
                        size_t words)
{
    uint64_t *all = sw_arena_array(a, words, sizeof(*all));

    memset(all, 0xff, words * sizeof(*all));
    for (size_t i = 0; i < x->n; i++)
        (void)set_meet(all, all, x->sets[i], words);
    for (size_t i = 0; i < y->n; i++)
        (void)set_meet(all, all, y->sets[i], words);
    return all;
}

/* --- what is missing -------------------------------------------------------------------- */

static struct api_lack *lack_of(struct api_lacks *l, const struct api_lack *what)
{
    struct sw_slice key = sw_slice_str(sw_arena_printf(
        l->arena, "%d%d %zu %zu %zu %.*s%.*s%.*s%.*s", what->is_url, what->named, what->group.n,
        what->resource.n, what->name.n, SW_SLICE_ARG(what->group), SW_SLICE_ARG(what->resource),
        SW_SLICE_ARG(what->name), SW_SLICE_ARG(what->url)));
    struct api_lack *k = sw_map_get(&l->at, key);

    if (k || l->n == API_LACKS_MAX) {
        l->cut = l->cut || !k;
        return k;
    }
    if (!l->p)
        l->p = sw_arena_array(l->arena, API_LACKS_MAX, sizeof(*l->p));
    k = &l->p[l->n++];
    *k = *what;
    (void)sw_map_put(&l->at, key, k);
    return k;
}

/* Adds the verbs of the classes marked as missing. False: there is no room for more. */
static bool add_lack(struct api_lacks *l, const struct api_lack *what, const struct classes *verbs,
                     const bool *missing)
{
    struct api_lack *k = lack_of(l, what);
    struct sw_slice *p;
    size_t had = k ? k->nverbs : 0;

    if (!k)
        return false;
    p = sw_arena_array(l->arena, had + verbs->nentries, sizeof(*p));
    if (had)
        memcpy(p, k->verbs, had * sizeof(*p));
    k->verbs = p;
    for (size_t i = 0; i < verbs->nentries; i++) {
        bool have = !missing[verbs->of[i]];

        for (size_t j = 0; j < had && !have; j++)
            have = sw_slice_eq(p[j], verbs->entry[i]);
        if (!have)
            p[k->nverbs++] = verbs->entry[i];
    }
    return true;
}

struct cover {
    struct api_lacks *l;
    struct held *h;
    struct classes verbs, groups, resources, names, urls;
    bool named;
    bool *missing; /* verb classes */
};

static bool spend(struct cover *c, size_t steps)
{
    return sw_budget_step(c->h->budget, steps);
}

/* Every thing of these classes lacks the verbs marked. */
static void add_things(struct cover *c, size_t g, size_t r, size_t n)
{
    struct api_lack what = {.named = c->named};

    for (size_t i = 0; i < c->groups.nentries; i++) {
        for (size_t j = 0; j < c->resources.nentries && c->groups.of[i] == g; j++) {
            for (size_t k = 0; k < c->names.nentries && c->resources.of[j] == r; k++) {
                if (c->names.of[k] != n)
                    continue;
                what.group = c->groups.entry[i];
                what.resource = c->resources.entry[j];
                what.name = c->names.entry[k];
                if (c->l->cut || !spend(c, 1000 + c->verbs.nentries) ||
                    !add_lack(c->l, &what, &c->verbs, c->missing))
                    return;
                c->l->verbs += c->verbs.nentries;
                c->l->cut = c->l->verbs > API_LACK_VERBS;
            }
        }
    }
}

/* Marks the verbs whose set does not meet this one; false when all do. */
static bool mark_missing(struct cover *c, const uint64_t *set)
{
    bool any = false;

    for (size_t v = 0; v < c->verbs.n; v++) {
        c->missing[v] = !sets_meet(set, c->verbs.sets[v], c->h->words);
        any = any || c->missing[v];
    }
    return any;
}

static bool going(const struct cover *c)
{
    return !c->l->cut && sw_budget_ok(c->h->budget);
}

static void cover_resources(struct sw_arena *tmp, struct cover *c)
{
    size_t words = c->h->words;
    uint64_t *gr = sw_arena_array(tmp, words, sizeof(*gr));
    uint64_t *grn = sw_arena_array(tmp, words, sizeof(*grn));
    const uint64_t *full = in_all(tmp, &c->verbs, &c->names, words);

    for (size_t g = 0; g < c->groups.n && going(c); g++) {
        for (size_t r = 0; r < c->resources.n && going(c); r++) {
            (void)set_meet(gr, c->groups.sets[g], c->resources.sets[r], words);
            if (!spend(c, 10 + 2 * words) || sets_meet(gr, full, words))
                continue;
            for (size_t n = 0; n < c->names.n && going(c); n++) {
                (void)set_meet(grn, gr, c->names.sets[n], words);
                if (spend(c, (1 + words) * (1 + c->verbs.n)) && mark_missing(c, grn))
                    add_things(c, g, r, n);
            }
        }
    }
}

static void cover_urls(struct cover *c)
{
    struct api_lack what = {.is_url = true};

    for (size_t u = 0; u < c->urls.n && going(c); u++) {
        if (!spend(c, (1 + c->h->words) * (1 + c->verbs.n)) || !mark_missing(c, c->urls.sets[u]))
            continue;
        for (size_t i = 0; i < c->urls.nentries && going(c); i++) {
            what.url = c->urls.entry[i];
            if (c->urls.of[i] == u && spend(c, 1000 + c->verbs.nentries))
                (void)add_lack(c->l, &what, &c->verbs, c->missing);
        }
    }
}

static void cover_rule(struct api_lacks *l, struct held *h, const struct api_rule *w, bool urls)
{
    SW_ARENA_AUTO tmp = {0};
    struct cover c = {.l = l, .h = h, .named = sw_json_len(w->names) > 0};

    classify(&tmp, h, &h->verbs, w->verbs, set_plain, &c.verbs);
    c.missing = sw_arena_array(&tmp, c.verbs.n + 1, sizeof(*c.missing));
    if (urls) {
        classify(&tmp, h, &h->urls, w->urls, set_url, &c.urls);
        cover_urls(&c);
        return;
    }
    classify(&tmp, h, &h->groups, w->groups, set_plain, &c.groups);
    classify(&tmp, h, &h->resources, w->resources, set_resource, &c.resources);
    classify(&tmp, h, &h->names, w->names, set_plain, &c.names);
    cover_resources(&tmp, &c);
}

int api_lacks_find(struct api_lacks *l, const struct api_holder *h, const struct api_rule *wanted,
                   size_t n, struct sw_budget *b)
{
    for (int urls = 0; urls < 2; urls++) {
        struct held held;

        held_index(&held, urls ? h->urls : h->rules, urls ? h->nurls : h->nrules, urls, b);
        for (size_t i = 0; i < n && !l->cut && sw_budget_step(b, 100); i++)
            cover_rule(l, &held, &wanted[i], urls);
        held_done(&held);
    }
    l->cut = l->cut || !sw_budget_ok(b);
    return l->cut && l->n == 0 ? SW_ELIMIT : SW_OK;
}

void api_lacks_done(struct api_lacks *l)
{
    sw_map_done(&l->at);
}
