/* SPDX-License-Identifier: Apache-2.0 */
#include "control/claims.h"

#include <stdlib.h>

#include "base/hex.h"
#include "control/objects.h"
#include "tls/crypto/jws.h"

#define API "spanwire.dev/v1alpha1"

const struct sw_kube_gvr sw_claim_gvr = {"spanwire.dev", "v1alpha1", "claims", "Claim", false};

static const char *const types[] = {
    [SW_CLAIM_HOSTNAME] = "Hostname",
    [SW_CLAIM_KEY] = "Key",
    [SW_CLAIM_INGRESS_HOST] = "Hostname",
    [SW_CLAIM_PORT] = "Port",
};

/* All that ask for one value, in the order in which they would get it. */
struct queue {
    const struct sw_claim_ask *first; /* of the sorted array */
    size_t n;
};

struct deciding {
    const struct sw_claims_in *in;
    struct sw_output *out;
    struct sw_arena *a;
    struct sw_map queues; /* value -> struct queue */
    struct sw_map *ret;
};

struct sw_slice sw_claim_name(struct sw_arena *a, enum sw_claim_type type, struct sw_slice value)
{
    uint8_t h[32];
    char hex[41] = {0};

    if (type == SW_CLAIM_KEY)
        return sw_slice_str(sw_arena_printf(a, "key-%.*s", SW_SLICE_ARG(value)));
    if (type == SW_CLAIM_PORT) {
        struct sw_slice port = value;
        struct sw_slice proto = sw_slice_cut(&port, '/');

        return sw_slice_str(
            sw_arena_printf(a, "port-%.*s-%.*s", SW_SLICE_ARG(proto), SW_SLICE_ARG(port)));
    }
    sw_digest_sha256(value, h);
    (void)sw_hex_write(hex, h, 20);
    return sw_slice_str(
        sw_arena_printf(a, "%s-%s", type == SW_CLAIM_HOSTNAME ? "host" : "ingress", hex));
}

bool sw_claim_is(const struct sw_claim *c, const struct sw_kube_obj *o)
{
    return c && c->holder == o;
}

/* By value; then who can use it, who is served, the oldest. */
static int by_precedence(const void *x, const void *y)
{
    const struct sw_claim_ask *p = x;
    const struct sw_claim_ask *q = y;
    int d = sw_slice_cmp(p->value, q->value);

    if (!d)
        d = (int)p->dormant - (int)q->dormant;
    if (!d)
        d = (int)q->served - (int)p->served;
    return d ? d : by_age(p->by, q->by);
}

static void make_queues(struct deciding *d, struct sw_claim_ask *asks, size_t n)
{
    struct queue *q = NULL;

    if (n > 1)
        qsort(asks, n, sizeof(*asks), by_precedence);
    for (size_t i = 0; i < n; i++) {
        if (!q || !sw_slice_eq(q->first->value, asks[i].value)) {
            q = SW_ARENA_NEW(d->a, struct queue);
            q->first = &asks[i];
            (void)sw_map_put(&d->queues, asks[i].value, q);
        }
        q->n++;
    }
}

static const struct sw_kube_obj *asker(const struct queue *q, const struct sw_claim *c)
{
    for (size_t i = 0; q && i < q->n; i++) {
        const struct sw_kube_obj *o = q->first[i].by;

        if (sw_slice_eq(o->uid, c->uid) && sw_slice_eq(o->ns, c->ns) &&
            sw_slice_eq(o->name, c->name))
            return o;
    }
    return NULL;
}

bool sw_claim_seen(const struct sw_view *v, size_t holders, const struct sw_kube_obj *claim)
{
    const struct sw_json *holder = sw_json_walk(claim->json, "spec", "holder", NULL);
    uint64_t at = 0;

    return sw_slice_to_u64(js_or(holder, "resourceVersion", ""), UINT64_MAX, &at) &&
           sw_view_revision(v, holders) >= at;
}

/* One recorded claim: it stands, or it is over. */
static void judge(struct deciding *d, const struct sw_kube_obj *o)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    const struct sw_json *holder = sw_json_find(spec, "holder");
    struct sw_claim *c;

    if (!sw_json_str_eq(sw_json_find(spec, "type"), types[d->in->type]) ||
        !sw_json_str_eq(sw_json_find(holder, "kind"), d->in->holder_kind))
        return;
    c = SW_ARENA_NEW(d->a, struct sw_claim);
    *c = (struct sw_claim){.value = js_or(spec, "value", ""),
                           .ns = js_or(holder, "namespace", ""),
                           .name = js_or(holder, "name", ""),
                           .uid = js_or(holder, "uid", "")};
    /* One under another name than its own would be a second owner. */
    if (!sw_slice_eq(sw_claim_name(d->a, d->in->type, c->value), o->name))
        return;
    c->holder = asker(sw_map_get(&d->queues, c->value), c);
    (void)sw_map_put(d->ret, c->value, c);
    if (!c->holder && d->in->record && sw_claim_seen(d->in->v, d->in->holders, o))
        sw_out_delete(d->out, d->in->claims, o);
}

struct sw_json *sw_claim_object(struct sw_arena *a, enum sw_claim_type type, struct sw_slice value,
                                const char *holder_kind, const struct sw_kube_obj *o)
{
    struct sw_json *obj = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);
    struct sw_json *spec = sw_json_new_object(a);
    struct sw_json *holder = sw_json_new_object(a);

    sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, API));
    sw_json_put(a, obj, "kind", sw_json_new_str(a, sw_claim_gvr.kind));
    sw_json_put_str(a, meta, "name", sw_claim_name(a, type, value));
    sw_json_put(a, obj, "metadata", meta);
    sw_json_put(a, spec, "type", sw_json_new_str(a, types[type]));
    sw_json_put_str(a, spec, "value", value);
    sw_json_put(a, holder, "kind", sw_json_new_str(a, holder_kind));
    sw_json_put_str(a, holder, "namespace", o->ns);
    sw_json_put_str(a, holder, "name", o->name);
    sw_json_put_str(a, holder, "uid", o->uid);
    sw_json_put_str(a, holder, "resourceVersion", o->rv.n ? o->rv : SW_SLICE_LIT("0"));
    sw_json_put(a, spec, "holder", holder);
    sw_json_put(a, obj, "spec", spec);
    return obj;
}

/* Nothing is recorded for this value. */
static void give(struct deciding *d, const struct sw_claim_ask *ask)
{
    struct sw_claim *c;

    if (ask->dormant)
        return;
    if (d->in->record && sw_view_served(d->in->v, d->in->claims))
        sw_out_apply(d->out, d->in->claims,
                     sw_claim_object(d->a, d->in->type, ask->value, d->in->holder_kind, ask->by));
    if (!ask->served)
        return;
    c = SW_ARENA_NEW(d->a, struct sw_claim);
    *c = (struct sw_claim){.value = ask->value,
                           .ns = ask->by->ns,
                           .name = ask->by->name,
                           .uid = ask->by->uid,
                           .holder = ask->by};
    (void)sw_map_put(d->ret, c->value, c);
}

void sw_claims_decide(const struct sw_claims_in *in, struct sw_claim_ask *asks, size_t n,
                      struct sw_output *out, struct sw_map *ret)
{
    struct deciding d = {.in = in, .out = out, .a = sw_out_arena(out), .ret = ret};

    make_queues(&d, asks, n);
    for (size_t i = 0; i < sw_view_count(in->v, in->claims); i++)
        judge(&d, sw_view_at(in->v, in->claims, i));
    for (size_t i = 0; i < n; i++) {
        if (!sw_map_get(ret, asks[i].value) &&
            (i == 0 || !sw_slice_eq(asks[i].value, asks[i - 1].value)))
            give(&d, &asks[i]);
    }
    sw_map_done(&d.queues);
}
