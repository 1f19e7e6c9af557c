/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What routes cost the data plane. All tenants of a port share one table, which a gateway takes or
 * refuses as a whole: no single object may make it too large. An object beyond its own budget
 * answers with an error instead of its routes. Should a table still not fit, the newest objects of
 * the namespace with the largest share are left out until it does. Both are found out before
 * anything is encoded.
 */
#include <stdlib.h>

#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"
#include "xds/limits.h"

enum {
    OBJECT_SHARE = 4,     /* of a table that one object may fill: one in so many */
    TABLES_AT_ONCE = 4,   /* full ones that the control plane has memory for */
    TABLE_ROOM = 1 << 20, /* for listeners' own hosts and what else stands in a table */
};

#define TABLE_FULL                                                                                 \
    SW_SLICE_LIT("the table of the port is full, and no namespace has more in it: not served")

static const struct load table_max = {SW_XDS_RESOURCE_MAX - TABLE_ROOM, SW_XDS_REGEX_WORDS_MAX};

/* ---- what a route costs ---- */

static size_t texts_size(const struct sw_slice *s, size_t n, size_t times)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += times * s[i].n + 64;
    return size;
}

static size_t pairs_size(const struct sw_model_header *h, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += h[i].name.n + 2 * h[i].value.n + 32; /* a percent sign is doubled */
    return size;
}

static size_t headers_size(const struct sw_model_headers *h)
{
    size_t size = pairs_size(h->set, h->n_set) + pairs_size(h->add, h->n_add);

    for (size_t i = 0; i < h->n_remove; i++)
        size += h->remove[i].n + 8;
    return size;
}

static size_t values_size(const struct sw_model_value_match *m, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += m[i].name.n + m[i].value.n + 48;
    return size;
}

static size_t cluster_size(const struct sw_model_cluster *c)
{
    return 64 + (c ? c->name.n : 0);
}

static size_t backends_size(const struct sw_model_route *r)
{
    size_t size = 0;

    for (size_t i = 0; i < r->n_backends; i++)
        size += cluster_size(r->backends[i].cluster) + r->backends[i].host_rewrite.n +
                headers_size(&r->backends[i].request) + headers_size(&r->backends[i].response);
    for (size_t i = 0; i < r->n_mirrors; i++)
        size += 64 + cluster_size(r->mirrors[i].cluster);
    return size;
}

static size_t filters_size(const struct sw_model_route *r)
{
    size_t size = 0;

    if (r->redirect)
        size += 128 + r->redirect->host.n + r->redirect->path.n + 2 * r->match.path.n;
    if (r->rewrite)
        size += 128 + r->rewrite->host.n + r->rewrite->path.n + 2 * r->match.path.n;
    if (r->retry)
        size += 128 + 4 * r->retry->n_codes;
    if (r->session)
        size += 384 + 2 * (r->session->name.n + r->session->path.n);
    if (r->cors)
        size += 256 + texts_size(r->cors->origins, r->cors->n_origins, 2) +
                texts_size(r->cors->methods, r->cors->n_methods, 1) +
                texts_size(r->cors->headers, r->cors->n_headers, 1) +
                texts_size(r->cors->expose, r->cors->n_expose, 1);
    if (r->auth)
        size += 512 + cluster_size(r->auth->cluster) + 2 * r->auth->path.n +
                texts_size(r->auth->headers, r->auth->n_headers, 2) +
                texts_size(r->auth->copied, r->auth->n_copied, 2);
    return size;
}

size_t route_size(const struct sw_model_route *r)
{
    return 192 + r->name.n + r->match.path.n + (r->match.method.n ? 48 + r->match.method.n : 0) +
           r->body.n + r->device.n + values_size(r->match.headers, r->match.n_headers) +
           values_size(r->match.queries, r->match.n_queries) + headers_size(&r->request) +
           headers_size(&r->response) + backends_size(r) + filters_size(r);
}

/* Expressions that are not the object's own text: see sw_gwx_prefix_swap and the CORS filter. */
static size_t made_words(const struct sw_model_route *r)
{
    size_t words = 0;
    bool cut = (r->rewrite && r->rewrite->path_edit == SW_MODEL_PATH_REPLACE_PREFIX &&
                r->rewrite->path.n <= 1) ||
               (r->redirect && r->redirect->path_edit == SW_MODEL_PATH_REPLACE_PREFIX &&
                r->redirect->path.n <= 1);

    if (cut)
        words += SW_XDS_REGEX_WRAP_WORDS + 4 * r->match.path.n;
    for (size_t i = 0; r->cors && i < r->cors->n_origins; i++) {
        if (sw_slice_find(r->cors->origins[i], '*') >= 0)
            words += SW_XDS_REGEX_WRAP_WORDS + 8 * r->cors->origins[i].n;
    }
    return words;
}

/* ---- one object ---- */

static bool beyond(struct load l, struct load max)
{
    return l.bytes > max.bytes || l.words > max.words;
}

bool object_fits(struct load l)
{
    return !beyond(l,
                   (struct load){table_max.bytes / OBJECT_SHARE, table_max.words / OBJECT_SHARE});
}

struct sw_slice object_limits(struct builder *b, struct load l)
{
    return gw_printf(b,
                     "too large: about %llu bytes of routes and %llu words of regular expressions "
                     "over all host names, of %llu and %llu that one object may have",
                     (unsigned long long)l.bytes, (unsigned long long)l.words,
                     (unsigned long long)table_max.bytes / OBJECT_SHARE,
                     (unsigned long long)table_max.words / OBJECT_SHARE);
}

bool load_rule(const struct rule *r, struct compiled *c, size_t from)
{
    size_t hosts = sw_max(r->route->n_hosts, (size_t)1);

    c->load.words += r->words * sw_max(r->n_shares, (size_t)1);
    for (size_t i = from; i < c->n_entries; i++) {
        c->load.bytes += route_size(c->entries[i].r);
        c->load.words += made_words(c->entries[i].r);
    }
    return object_fits((struct load){c->load.bytes * hosts, c->load.words * hosts});
}

struct sw_model_route *error_route(struct builder *b, struct sw_slice name, uint16_t status)
{
    struct sw_model_route *r = SW_ARENA_NEW(b->a, struct sw_model_route);

    *r = (struct sw_model_route){
        .name = name,
        .match = {.path_kind = SW_MODEL_PATH_PREFIX, .path = SW_SLICE_LIT("/")},
        .action = SW_MODEL_RESPOND,
        .status = status,
        .reason = "route_invalid",
        .request_timeout_ms = -1,
        .backend_timeout_ms = -1,
    };
    return r;
}

/* One entry that answers with an error instead of all of a route's. */
static struct entry *error_entry(struct builder *b, const struct route *r)
{
    bool grpc = r->kind == RK_GRPC;
    struct entry *e = SW_ARENA_NEW(b->a, struct entry);
    struct sw_slice name = gw_printf(b, "%s/%.*s/too-large", grpc ? "grpcroute" : "httproute",
                                     SW_SLICE_ARG(r->obj->key));
    struct sw_model_route *out = error_route(b, name, grpc ? 503 : 500);

    out->match.grpc = grpc;
    *e = (struct entry){.r = out, .route = r, .grpc = grpc, .rank = 2, .len1 = 1};
    return e;
}

void refuse_object(struct builder *b, struct route *r, struct compiled *c)
{
    size_t hosts = sw_max(r->n_hosts, (size_t)1);
    struct load l = {c->load.bytes * hosts, c->load.words * hosts};

    c->entries = error_entry(b, r);
    c->n_entries = c->cap_entries = 1;
    c->load = (struct load){route_size(c->entries->r), 0};
    r->n_rules = r->n_bad_rules = sw_max(r->n_rules, (size_t)1);
    r->fail_closed = true;
    r->too_large = true;
    r->bad_rule = (struct verdict){"UnsupportedValue", object_limits(b, l).p};
}

/* A route without host names of its own has those of all listeners it is attached to. */
static void judge_route(struct builder *b, const struct kept *k)
{
    struct compiled *instead;
    struct load sum = {0};
    struct verdict v;

    for (struct attached *at = k->route.attached; at; at = at->also) {
        at->use = at->compiled;
        at->limit = (struct verdict){0};
        sum.bytes += at->compiled->load.bytes * at->n_hosts;
        sum.words += at->compiled->load.words * at->n_hosts;
    }
    if (object_fits(sum))
        return;
    instead = SW_ARENA_NEW(b->a, struct compiled);
    instead->entries = error_entry(b, &k->route);
    instead->n_entries = 1;
    instead->load.bytes = route_size(instead->entries->r);
    v = (struct verdict){"UnsupportedValue", object_limits(b, sum).p};
    for (struct attached *at = k->route.attached; at; at = at->also) {
        at->use = instead;
        at->limit = v;
        if (!at->guard)
            b->parent_list.p[at->parent]->listeners[at->listener].attached--;
    }
}

void note_limit(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *o,
                struct sw_slice text)
{
    add_note(b, gw_printf(b, "limit/%u/%.*s", (unsigned)kind, SW_SLICE_ARG(o->key)), text);
    if (kind == SW_MODEL_INGRESS)
        add_notice(b, kind, o, "LimitExceeded", text);
}

/* ---- tables ---- */

/* What an object has in one table. */
struct use {
    const struct sw_kube_obj *obj;
    struct listener *l;  /* of a route */
    struct attached *at; /* NULL: an Ingress */
    struct route *ingress;
    struct load load;
};

struct shared {
    SW_VEC(struct use) uses;
    struct load sum;
};

static void add_use(struct shared *t, struct use u)
{
    sw_vec_push(&t->uses, u);
    t->sum.bytes += u.load.bytes;
    t->sum.words += u.load.words;
}

/* What is left of a route that no table has room for. */
static const struct compiled nothing;

static bool left_out(const struct use *u)
{
    return u->at ? u->at->use == &nothing : u->ingress->left_out;
}

/* By namespace, in each the newest first. */
static int by_share(const void *x, const void *y)
{
    const struct use *p = x;
    const struct use *q = y;
    int d = sw_slice_cmp(p->obj->ns, q->obj->ns);

    return d ? d : by_age(q->obj, p->obj);
}

struct share {
    size_t next;
    size_t end;
    struct load sum;
};

static void leave_out(struct builder *b, struct shared *t, struct share *s)
{
    struct use *u = &t->uses.p[s->next++];

    s->sum.bytes -= u->load.bytes;
    s->sum.words -= u->load.words;
    t->sum.bytes -= u->load.bytes;
    t->sum.words -= u->load.words;
    if (left_out(u))
        return; /* an Ingress, by what it has in another table */
    if (u->at) {
        if (!u->at->guard && !u->at->limit.reason)
            u->l->attached--;
        u->at->use = &nothing;
        u->at->limit = (struct verdict){"LimitExceeded", TABLE_FULL.p};
    } else {
        u->ingress->left_out = true;
        if (!u->ingress->too_large)
            note_limit(b, SW_MODEL_INGRESS, u->obj, TABLE_FULL);
    }
}

static void fit(struct builder *b, struct shared *t, struct load max)
{
    struct share *shares;
    size_t n = 0;

    if (!beyond(t->sum, max))
        return;
    qsort(t->uses.p, t->uses.n, sizeof(*t->uses.p), by_share);
    shares = sw_arena_array(b->a, t->uses.n, sizeof(*shares));
    for (size_t i = 0; i < t->uses.n; i++) {
        if (!i || !sw_slice_eq(t->uses.p[i].obj->ns, t->uses.p[i - 1].obj->ns))
            shares[n++].next = i;
        shares[n - 1].end = i + 1;
        shares[n - 1].sum.bytes += t->uses.p[i].load.bytes;
        shares[n - 1].sum.words += t->uses.p[i].load.words;
    }
    while (beyond(t->sum, max)) {
        bool words = t->sum.bytes <= max.bytes;
        struct share *most = shares;

        for (size_t i = 1; i < n; i++) {
            if (words ? shares[i].sum.words > most->sum.words
                      : shares[i].sum.bytes > most->sum.bytes)
                most = &shares[i];
        }
        /* What has no expressions does not help where these are too many. */
        while (words && most->next + 1 < most->end && !t->uses.p[most->next].load.words)
            most->next++;
        if (most->next == most->end)
            break;
        leave_out(b, t, most);
    }
}

static void use_routes(struct shared *t, struct listener *l)
{
    for (struct attached *at = l->routes; at; at = at->next) {
        add_use(t, (struct use){.obj = at->route->obj,
                                .l = l,
                                .at = at,
                                .load = {at->use->load.bytes * at->n_hosts,
                                         at->use->load.words * at->n_hosts}});
    }
}

/* Entries of an Ingress stand together: it puts all of its own before the next does. */
static void use_ingress(struct shared *t, const struct socket *s)
{
    for (size_t i = 0; i < s->ingress.n;) {
        struct route *of = s->ingress.p[i].of;
        struct use u = {.obj = of->obj, .ingress = of};

        for (; i < s->ingress.n && s->ingress.p[i].of == of; i++)
            u.load.bytes += route_size(s->ingress.p[i].entry->r) + 2 * s->ingress.p[i].host.n + 64;
        if (!of->left_out)
            add_use(t, u);
    }
}

static void finish_table(struct builder *b, struct shared *t, struct shared *all)
{
    fit(b, t, table_max);
    for (size_t i = 0; i < t->uses.n; i++) {
        if (!left_out(&t->uses.p[i]))
            add_use(all, t->uses.p[i]);
    }
    t->uses.n = 0;
    t->sum = (struct load){0};
}

static void drop_ingress(struct socket *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->ingress.n; i++) {
        if (!s->ingress.p[i].of->left_out)
            s->ingress.p[n++] = s->ingress.p[i];
    }
    s->ingress.n = n;
}

static void fit_sockets(struct builder *b)
{
    const struct load most = {table_max.bytes * TABLES_AT_ONCE, table_max.words * TABLES_AT_ONCE};
    struct shared all = {0};
    struct shared t = {0};

    SW_VEC_EACH (struct socket, s, &b->socket_list) {
        if (s->proto != PROTO_HTTP && s->proto != PROTO_HTTPS)
            continue;
        for (size_t k = 0; k < s->listeners.n; k++) {
            if (s->listeners.p[k]->proto != PROTO_HTTP && s->listeners.p[k]->proto != PROTO_HTTPS)
                continue;
            use_routes(&t, s->listeners.p[k]);
            if (s->proto == PROTO_HTTPS)
                finish_table(b, &t, &all); /* each has its own */
        }
        use_ingress(&t, s);
        finish_table(b, &t, &all);
    }
    fit(b, &all, most);
    for (size_t i = 0; i < b->socket_list.n; i++)
        drop_ingress(b->socket_list.p[i]);
    sw_vec_done(&t.uses);
    sw_vec_done(&all.uses);
}

/* ---- conditions of the objects ---- */

/* The status of a route, with what does not fit for the parents it is about. */
static const struct sw_json *final_status(struct builder *b, const struct kept *k)
{
    struct route_parent *parents = NULL;
    const char *why = NULL;

    for (const struct attached *at = k->route.attached; at; at = at->also) {
        if (!at->limit.reason)
            continue;
        if (!parents)
            parents = cn_copy(b->a, k->parents, k->n_parents, sizeof(*parents));
        for (size_t i = 0; i < k->n_parents; i++) {
            if (parents[i].parent == at->parent)
                parents[i].accepted = at->limit;
        }
        why = at->limit.msg;
    }
    if (k->route.too_large)
        why = k->route.bad_rule.msg;
    if (why)
        note_limit(b, route_view_kinds[k->route.kind], k->route.obj, sw_slice_str(why));
    return parents ? route_status(b, &k->route, parents, k->n_parents) : k->status;
}

void fit_tables(struct builder *b)
{
    for (size_t i = 0; i < b->l7.n; i++)
        judge_route(b, b->l7.p[i]);
    fit_sockets(b);
    SW_VEC_EACH (const struct kept, k, &b->l7) {
        const struct sw_json *status = final_status(b, k);

        if (status)
            sw_vec_push(&b->statuses, (struct sw_model_status){route_view_kinds[k->route.kind],
                                                               k->route.obj, status});
    }
}
