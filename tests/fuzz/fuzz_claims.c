/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims under everything that can happen at once: holders are made, change their mind, fall asleep
 * and go; two replicas, both of which take themselves for the leader, see either kind of object as
 * late as they like, write what their builds want as late as they like, and restart. The bytes are
 * the schedule. The builds are the real ones; the API is a model of one: it has room for one object
 * of a name, refuses changes of a Claim's spec, and deletes by uid.
 *
 * Never two owners of a name; never a move while the owner lives and asks; a free name is given in
 * the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/connector/proxy_int.h"
#include "control/runtime_int.h"

enum { HOLDERS = 4, NAMES = 3, REPLICAS = 2, STEPS = 96, QUEUE = 32, ROUNDS = 8 };

static const char *const hosts[NAMES] = {"a.test", "b.test", "c.test"};
static const char *const keys[NAMES] = {
    "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f",
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"};

struct holder {
    unsigned uid;  /* 0: it is not there */
    unsigned asks; /* a bit for each name; a Connector has the lowest of them as its key */
    unsigned rv;
    bool asleep;
};

struct claim {
    unsigned uid; /* 0: it is not there */
    unsigned holder;
    unsigned holder_uid;
    unsigned seen; /* revision of the holder */
};

/* Everything as it was at one revision. */
struct state {
    struct holder holders[HOLDERS];
    struct claim claims[NAMES];
};

struct write {
    bool del;
    unsigned name;
    struct claim claim; /* del: uid is what matters */
};

struct replica {
    unsigned holders_at; /* revisions that its views show */
    unsigned claims_at;
    struct write queue[QUEUE];
    size_t n;
};

struct api {
    bool of_keys;
    struct state past[STEPS * 4]; /* by revision */
    unsigned rv;
    unsigned uids;
    struct replica replicas[REPLICAS];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void insist(bool ok)
{
    if (!ok)
        abort();
}

/* ---- the API ---- */

static struct state *now(struct api *x)
{
    return &x->past[x->rv];
}

static struct state *next(struct api *x)
{
    insist(x->rv + 1 < SW_ARRAY_LEN(x->past));
    x->past[x->rv + 1] = x->past[x->rv];
    return &x->past[++x->rv];
}

static bool asks_for(const struct api *x, const struct holder *h, unsigned name)
{
    unsigned low = h->asks & -h->asks;

    return h->uid && ((x->of_keys ? low : h->asks) & 1u << name);
}

static bool asked(const struct api *x, const struct state *s, const struct claim *c, unsigned name)
{
    const struct holder *h = &s->holders[c->holder];

    return h->uid == c->holder_uid && asks_for(x, h, name);
}

/* A claim may go only if its holder was gone, or did not ask, at a time since it claimed. */
static bool was_free(const struct api *x, const struct claim *c, unsigned name)
{
    for (unsigned rv = c->seen; rv <= x->rv; rv++) {
        if (!asked(x, &x->past[rv], c, name))
            return true;
    }
    return false;
}

static void do_write(struct api *x, const struct write *w)
{
    struct claim *have = &now(x)->claims[w->name];

    if (w->del) {
        if (!have->uid || have->uid != w->claim.uid)
            return;
        insist(was_free(x, have, w->name));
        next(x)->claims[w->name].uid = 0;
    } else if (!have->uid) {
        have = &next(x)->claims[w->name];
        *have = w->claim;
        have->uid = ++x->uids;
    } /* else: the same, or refused because a spec does not change */
}

static void change_holder(struct api *x, unsigned op, unsigned i, unsigned asks)
{
    struct holder *h;

    if (!now(x)->holders[i].uid && op != 0)
        return;
    h = &next(x)->holders[i];
    switch (op) {
    case 0:
        if (!h->uid)
            *h = (struct holder){.uid = ++x->uids};
        h->asks = asks;
        break;
    case 1:
        h->asks ^= asks;
        break;
    case 2:
        h->asleep = !h->asleep;
        break;
    default:
        h->uid = 0;
        break;
    }
    h->rv = x->rv;
}

/* ---- views ---- */

static struct sw_kube_obj *object(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    insist(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL) == SW_OK);
    return sw_kube_obj_new(v);
}

static const char *head_of(struct sw_arena *a, const struct holder *h, unsigned i)
{
    /* The first is the oldest, whenever it was made: the attack. */
    return sw_arena_printf(a,
                           "\"metadata\":{\"namespace\":\"ns%u\",\"name\":\"h%u\",\"uid\":\"u%u\","
                           "\"resourceVersion\":\"%u\",\"creationTimestamp\":\"2026-01-0%uT00:00:"
                           "00Z\",\"generation\":1}",
                           i % 2, i, h->uid, h->rv, i + 1);
}

static struct sw_kube_obj *proxy(struct sw_arena *a, const struct holder *h, unsigned i)
{
    char names[64] = "";

    for (unsigned k = 0; k < NAMES; k++) {
        if (h->asks & 1u << k)
            (void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s\"%s\"",
                           names[0] ? "," : "", hosts[k]);
    }
    return object(a, sw_arena_printf(a,
                                     "{\"apiVersion\":\"" HP_API "\",\"kind\":\"HTTPProxy\",%s,"
                                     "\"spec\":{\"hostnames\":[%s],\"rules\":[{\"backends\":[{"
                                     "\"endpoint\":\"http://10.1.1.1\"}]}]},\"status\":{"
                                     "\"canonicalHostname\":\"u%u.connect.test\"}}",
                                     head_of(a, h, i), names, h->uid));
}

static struct sw_kube_obj *connector(struct sw_arena *a, const struct holder *h, unsigned i)
{
    const char *key = "";

    for (unsigned k = NAMES; k-- > 0;) {
        if (h->asks & 1u << k)
            key = keys[k];
    }
    return object(
        a, sw_arena_printf(
               a,
               "{\"apiVersion\":\"" CN_API "\",\"kind\":\"Connector\",%s,\"spec\":{"
               "\"connectorClassName\":\"datum-connect\"},\"status\":{\"conditions\":[{\"type\":"
               "\"Ready\",\"status\":\"%s\",\"reason\":\"R\",\"lastTransitionTime\":"
               "\"2026-01-01T00:00:00Z\"}],\"connectionDetails\":{\"type\":\"PublicKey\","
               "\"publicKey\":{\"id\":\"%s\",\"homeRelay\":\"https://r.test\"}}}}",
               head_of(a, h, i), h->asleep ? "False" : "True", key));
}

static struct sw_slice value_of(const struct api *x, unsigned name)
{
    return sw_slice_str(x->of_keys ? keys[name] : hosts[name]);
}

static struct sw_slice claim_name(const struct api *x, struct sw_arena *a, unsigned name)
{
    return sw_claim_name(a, x->of_keys ? SW_CLAIM_KEY : SW_CLAIM_HOSTNAME, value_of(x, name));
}

static struct sw_kube_obj *claim(const struct api *x, struct sw_arena *a, const struct claim *c,
                                 unsigned name)
{
    return object(
        a, sw_arena_printf(
               a,
               "{\"apiVersion\":\"spanwire.dev/v1alpha1\",\"kind\":\"Claim\",\"metadata\":{"
               "\"name\":\"%.*s\",\"uid\":\"u%u\"},\"spec\":{\"type\":\"%s\",\"value\":\"%.*s\","
               "\"holder\":{\"kind\":\"%s\",\"namespace\":\"ns%u\",\"name\":\"h%u\",\"uid\":\"u%u"
               "\",\"resourceVersion\":\"%u\"}}}",
               SW_SLICE_ARG(claim_name(x, a, name)), c->uid, x->of_keys ? "Key" : "Hostname",
               SW_SLICE_ARG(value_of(x, name)), x->of_keys ? "Connector" : "HTTPProxy",
               c->holder % 2, c->holder, c->holder_uid, c->seen));
}

static int by_key(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

static struct view_kind *kind_of(struct sw_kube_obj **objs, size_t n)
{
    if (n > 1)
        qsort(objs, n, sizeof(void *), by_key);
    return view_kind_new(objs, n);
}

static struct sw_view *view_of(const struct api *x, const struct replica *r, struct sw_arena *a)
{
    static const size_t layout[2][3] = {{SW_HP_KINDS, SW_HP_PROXY, SW_HP_CLAIM},
                                        {SW_CN_KINDS, SW_CN_CONNECTOR, SW_CN_CLAIM}};
    size_t kinds = layout[x->of_keys][0];
    size_t holders = layout[x->of_keys][1];
    size_t claims = layout[x->of_keys][2];
    struct view_kind *list[SW_CONTROL_KINDS_MAX];
    struct view_input *input = view_input_new(sw_slice("", 0));
    struct sw_kube_obj *objs[HOLDERS + NAMES];
    struct sw_view *v;
    size_t n = 0;

    for (size_t i = 0; i < kinds; i++)
        list[i] = i == holders || i == claims ? NULL : view_kind_new(objs, 0);
    for (unsigned i = 0; i < HOLDERS; i++) {
        const struct holder *h = &x->past[r->holders_at].holders[i];

        if (h->uid)
            objs[n++] = x->of_keys ? connector(a, h, i) : proxy(a, h, i);
    }
    list[holders] = kind_of(objs, n);
    n = 0;
    for (unsigned i = 0; i < NAMES; i++) {
        const struct claim *c = &x->past[r->claims_at].claims[i];

        if (c->uid)
            objs[n++] = claim(x, a, c, i);
    }
    list[claims] = kind_of(objs, n);
    if (x->of_keys) {
        struct sw_kube_obj *class = object(
            a, "{\"apiVersion\":\"" CN_API "\",\"kind\":\"ConnectorClass\",\"metadata\":{\"name\":"
               "\"datum-connect\",\"annotations\":{\"" SW_KEYPROOF "\":\"" SW_KEYPROOF_OFF
               "\"}},\"spec\":{\"controllerName\":\"networking.datumapis.com/"
               "datum-connect\"}}");

        view_kind_unref(list[SW_CN_CLASS]);
        list[SW_CN_CLASS] = view_kind_new(&class, 1);
    }
    v = view_new(list, kinds, input);
    v->wall_ns = UINT64_C(1800000000) * 1000000000;
    v->revisions[holders] = r->holders_at;
    v->revisions[claims] = r->claims_at;
    for (size_t i = 0; i < kinds; i++)
        view_kind_unref(list[i]);
    view_input_unref(input);
    return v;
}

/* ---- builds ---- */

static unsigned number(struct sw_slice s)
{
    uint64_t v = 0;

    insist(sw_slice_to_u64(s, UINT32_MAX, &v));
    return (unsigned)v;
}

static unsigned name_of(const struct api *x, struct sw_arena *a, struct sw_slice claim_key)
{
    for (unsigned i = 0; i < NAMES; i++) {
        if (sw_slice_eq(claim_name(x, a, i), claim_key))
            return i;
    }
    abort();
}

static void take_write(const struct api *x, struct replica *r, struct sw_arena *a,
                       const struct out_write *o)
{
    const struct sw_json *holder = sw_json_walk(o->json, "spec", "holder", NULL);
    struct write w = {.del = o->op == OUT_DELETE, .name = name_of(x, a, o->key)};

    if (r->n == QUEUE)
        return;
    if (w.del) {
        w.claim.uid = number(sw_slice_from(o->uid, 1));
    } else {
        w.claim.holder = number(sw_slice_from(js(holder, "name"), 1));
        w.claim.holder_uid = number(sw_slice_from(js(holder, "uid"), 1));
        w.claim.seen = number(js(holder, "resourceVersion"));
    }
    r->queue[r->n++] = w;
}

/* The names that a holder is told are its own. */
static unsigned told(const struct api *x, const struct sw_json *status)
{
    const struct sw_json *list = sw_json_find(status, "hostnameStatuses");
    unsigned names = 0;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        for (unsigned k = 0; k < NAMES; k++) {
            if (sw_slice_eq_str(js(sw_json_at(list, i), "hostname"), hosts[k]) &&
                cn_is_true(sw_json_find(sw_json_at(list, i), "conditions"), "Available"))
                names |= 1u << k;
        }
    }
    (void)x;
    return names;
}

/* One build of what a replica sees: what it wants to write is queued. Returns how much that is. */
static size_t build(struct api *x, struct replica *r)
{
    static const struct sw_connector_conf conf = {.target_domain = SW_SLICE_LIT("connect.test"),
                                                  .dns = true,
                                                  .dns_stale_ns = UINT64_C(1000000000)};
    SW_ARENA_AUTO a = {0};
    struct sw_view *v = view_of(x, r, &a);
    struct sw_output *out = output_new();
    size_t claims = x->of_keys ? (size_t)SW_CN_CLAIM : (size_t)SW_HP_CLAIM;
    size_t holders = x->of_keys ? (size_t)SW_CN_CONNECTOR : (size_t)SW_HP_PROXY;
    unsigned owned = 0;
    size_t n = 0;

    if (x->of_keys)
        sw_connector_build(v, &conf, out);
    else
        sw_httpproxy_build(v, &conf, out);
    for (size_t i = 0; i < out->writes.n; i++) {
        const struct out_write *o = out->writes.p[i];

        if (o->kind == claims) {
            take_write(x, r, &a, o);
            n++;
        } else if (o->kind == holders && o->op == OUT_STATUS && !x->of_keys) {
            unsigned names = told(x, o->json);
            unsigned at = number(sw_slice_from(o->key, strlen("ns0/h")));

            insist(!(owned & names)); /* not two of them */
            owned |= names;
            for (unsigned k = 0; k < NAMES; k++) {
                const struct claim *c = &x->past[r->claims_at].claims[k];

                /* Nothing is given that is not recorded. */
                insist(!(names & 1u << k) ||
                       (c->uid && c->holder == at &&
                        c->holder_uid == x->past[r->holders_at].holders[at].uid));
            }
        } else if (o->kind == holders && o->op == OUT_STATUS &&
                   cn_is_true(sw_json_find(o->json, "conditions"), "IrohDNSPublished")) {
            unsigned at = number(sw_slice_from(o->key, strlen("ns0/h")));
            bool mine = false;

            for (unsigned k = 0; k < NAMES; k++) {
                const struct claim *c = &x->past[r->claims_at].claims[k];

                mine |= c->uid && c->holder == at &&
                        c->holder_uid == x->past[r->holders_at].holders[at].uid &&
                        asks_for(x, &x->past[r->holders_at].holders[at], k);
            }
            insist(mine);
        }
    }
    output_free(out);
    view_unref(v);
    return n;
}

/* ---- the schedule ---- */

static void step(struct api *x, uint8_t op, uint8_t arg)
{
    struct replica *r = &x->replicas[arg & 1];
    unsigned i = arg % HOLDERS;

    switch (op % 8) {
    case 0:
    case 1:
        change_holder(x, (op >> 3) % 2, i, (arg >> 2) & 7);
        break;
    case 2:
        change_holder(x, 2 + (op >> 3) % 2, i, 0);
        break;
    case 3: /* watches bring one kind up to some revision */
        r->holders_at += (unsigned)(arg >> 1) % (x->rv - r->holders_at + 1);
        break;
    case 4:
        r->claims_at += (unsigned)(arg >> 1) % (x->rv - r->claims_at + 1);
        break;
    case 5:
        (void)build(x, r);
        break;
    case 6: /* a write arrives, in any order */
        if (r->n) {
            size_t at = (size_t)(arg >> 1) % r->n;
            struct write w = r->queue[at];

            r->queue[at] = r->queue[--r->n];
            do_write(x, &w);
        }
        break;
    default: /* restart: nothing is remembered, everything is listed */
        *r = (struct replica){.holders_at = x->rv, .claims_at = x->rv};
        break;
    }
}

/* Left alone, one replica brings everything to rest. */
static void settle(struct api *x)
{
    struct replica *r = &x->replicas[0];
    unsigned round = 0;

    do {
        insist(++round < ROUNDS);
        while (r->n)
            do_write(x, &r->queue[--r->n]);
        r->holders_at = r->claims_at = x->rv;
    } while (build(x, r));
    for (unsigned k = 0; k < NAMES; k++) {
        const struct claim *c = &now(x)->claims[k];
        bool wanted = false;

        for (unsigned i = 0; i < HOLDERS; i++)
            wanted |= asks_for(x, &now(x)->holders[i], k);
        insist(wanted == (c->uid != 0));
        insist(!c->uid || asked(x, now(x), c, k));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct api x;

    if (n < 1)
        return 0;
    memset(&x, 0, sizeof(x));
    x.of_keys = data[0] & 1;
    for (size_t i = 1; i + 1 < n && i < (size_t)2 * STEPS; i += 2)
        step(&x, data[i], data[i + 1]);
    settle(&x);
    return 0;
}
