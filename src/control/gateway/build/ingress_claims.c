/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts of Ingresses on record. A host that an Ingress serves is claimed for its namespace, and
 * stays there while one Ingress of that namespace names it, whatever its class: so an old Ingress
 * of another namespace that is changed takes nothing. A host is served at once, by age, and its
 * claim is written meanwhile: a cluster may have no Claims, or a control plane no right to write
 * them.
 */
#include "control/claims.h"
#include "control/gateway/build/build_int.h"

enum { CLAIMS_MAX = 4096 }; /* of one namespace: one may not fill the API with its hosts */

static const char holder_kind[] = "Ingress";

struct ingress_claim {
    const struct sw_kube_obj *obj;
    struct sw_slice ns;
    bool asked; /* an Ingress of the namespace names the host */
    bool over;  /* to be deleted: without a holder, and not to be written in this build */
};

struct tally {
    size_t n;
};

static struct tally *tally_of(struct builder *b, struct sw_slice ns)
{
    struct tally *t = sw_map_get(&b->ingress_tally, ns);

    if (!t) {
        t = SW_ARENA_NEW(b->a, struct tally);
        (void)sw_map_put(&b->ingress_tally, ns, t);
    }
    return t;
}

static void read_claim(struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    const struct sw_json *holder = sw_json_find(spec, "holder");
    struct sw_slice host = js_or(spec, "value", "");
    struct ingress_claim *c;

    if (!sw_json_str_eq(sw_json_find(holder, "kind"), holder_kind) ||
        !sw_slice_eq(sw_claim_name(b->a, SW_CLAIM_INGRESS_HOST, host), o->name))
        return;
    c = SW_ARENA_NEW(b->a, struct ingress_claim);
    *c = (struct ingress_claim){.obj = o, .ns = js_or(holder, "namespace", "")};
    (void)sw_map_put(&b->ingress_claims, host, c);
}

static void ask(struct builder *b, const struct sw_kube_obj *o, struct sw_slice host)
{
    struct ingress_claim *c = sw_map_get(&b->ingress_claims, host.n ? host : SW_SLICE_LIT("*"));

    if (c && sw_slice_eq(c->ns, o->ns))
        c->asked = true;
}

/* Every host that the Ingress names; "" and a default backend stand for all. */
static void ask_all(struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    const struct sw_json *rules = sw_json_find(spec, "rules");
    const struct sw_json *tls = sw_json_find(spec, "tls");

    if (sw_json_find(spec, "defaultBackend"))
        ask(b, o, sw_slice("", 0));
    for (size_t i = 0; i < sw_json_len(rules); i++)
        ask(b, o, js_or(sw_json_at(rules, i), "host", ""));
    for (size_t i = 0; i < sw_json_len(tls); i++) {
        const struct sw_json *hosts = sw_json_find(sw_json_at(tls, i), "hosts");

        if (!sw_json_len(hosts))
            ask(b, o, sw_slice("", 0));
        for (size_t k = 0; k < sw_json_len(hosts); k++)
            ask(b, o, sw_json_str(sw_json_at(hosts, k)));
    }
}

static void judge(struct builder *b, struct ingress_claim *c)
{
    bool seen = sw_claim_seen(b->v, SW_MODEL_INGRESS, c->obj);

    c->over = b->conf->ingress_shared_hosts || (!c->asked && seen);
    if (c->over)
        sw_vec_push(&b->wants, (struct sw_model_want){.how = SW_MODEL_WANT_GONE,
                                                      .kind = SW_MODEL_HOSTCLAIM,
                                                      .of = c->obj});
    else
        tally_of(b, c->ns)->n++;
}

void ingress_claims_init(struct builder *b)
{
    for (size_t i = 0; i < sw_view_count(b->v, SW_MODEL_HOSTCLAIM); i++)
        read_claim(b, sw_view_at(b->v, SW_MODEL_HOSTCLAIM, i));
    if (!b->ingress_claims.n)
        return;
    for (size_t i = 0; i < sw_view_count(b->v, SW_MODEL_INGRESS); i++)
        ask_all(b, sw_view_at(b->v, SW_MODEL_INGRESS, i));
    /* In the view's order, for equal output. */
    SW_VIEW_EACH (o, b->v, SW_MODEL_HOSTCLAIM) {
        struct ingress_claim *c = sw_map_get(
            &b->ingress_claims, sw_json_str(sw_json_walk(o->json, "spec", "value", NULL)));

        if (c && c->obj == o)
            judge(b, c);
    }
}

struct sw_slice ingress_claimed(const struct builder *b, struct sw_slice host,
                                struct sw_slice *ret_since)
{
    const struct ingress_claim *c =
        b->ingress_claims.n ? sw_map_get(&b->ingress_claims, host) : NULL;

    if (!c || c->over)
        return sw_slice("", 0);
    if (ret_since)
        *ret_since = created_of(c->obj);
    return c->ns;
}

void ingress_claim(struct builder *b, struct sw_slice host, const struct sw_kube_obj *o)
{
    struct tally *t;

    /* One that is over is deleted first: a claim does not change hands. */
    if (b->conf->ingress_shared_hosts || !o->uid.n || !sw_view_served(b->v, SW_MODEL_HOSTCLAIM) ||
        sw_map_get(&b->ingress_claims, host) || sw_map_put(&b->ingress_new, host, b))
        return;
    t = tally_of(b, o->ns);
    if (t->n >= CLAIMS_MAX) {
        note_limit(b, SW_MODEL_INGRESS, o,
                   gw_printf(b,
                             "the namespace has %d claimed hosts of Ingresses; further ones are "
                             "served and not protected from other namespaces",
                             CLAIMS_MAX));
        return;
    }
    t->n++;
    sw_vec_push(&b->wants,
                (struct sw_model_want){
                    .how = SW_MODEL_WANT_OBJECT,
                    .kind = SW_MODEL_HOSTCLAIM,
                    .of = o,
                    .json = sw_claim_object(b->a, SW_CLAIM_INGRESS_HOST, host, holder_kind, o)});
}
