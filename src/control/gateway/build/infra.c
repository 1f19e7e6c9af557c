/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Gateways leave in the API besides statuses: a finalizer on their class, so that it does not
 * go while one of them uses it; and, for those that name labels or annotations for their
 * infrastructure, a ServiceAccount for whoever runs their data plane, which carries these.
 */
#include "base/hash.h"
#include "control/gateway/build/build_int.h"

#define FINALIZER   "gateway-exists-finalizer.gateway.networking.k8s.io"
#define NAME_LABEL  GW_GROUP "/gateway-name"
#define CLASS_LABEL GW_GROUP "/gateway-class-name"
#define MANAGED_BY  "app.kubernetes.io/managed-by"
/* Of everything it carries: a label that goes is no longer wanted, which no comparison of what is
 * wanted with what is there would show. */
#define DIGEST "spanwire.dev/infrastructure"

enum { LABELS_MAX = 8, ANNOTATIONS_MAX = 16, NAME_MAX_LEN = 253 };

static void want(struct builder *b, struct sw_model_want w)
{
    sw_vec_push(&b->wants, w);
}

/* ---- classes ---- */

static bool in_use(const struct builder *b, struct sw_slice class)
{
    SW_VIEW_EACH (o, b->v, SW_MODEL_GATEWAY) {
        if (sw_slice_eq(sw_json_str(sw_json_walk(o->json, "spec", "gatewayClassName", NULL)),
                        class))
            return true;
    }
    return false;
}

static void hold_class(struct builder *b, const struct sw_kube_obj *class)
{
    bool used = in_use(b, class->name);

    if (used != cn_has_finalizer(class, SW_SLICE_LIT(FINALIZER)))
        want(b, (struct sw_model_want){.how = used ? SW_MODEL_WANT_FINALIZER
                                                   : SW_MODEL_WANT_NO_FINALIZER,
                                       .kind = SW_MODEL_CLASS,
                                       .of = class,
                                       .finalizer = SW_SLICE_LIT(FINALIZER)});
}

/* ---- accounts ---- */

static struct sw_slice account_name(struct builder *b, const struct gateway *g)
{
    return gw_printf(b, "%.*s-%.*s", SW_SLICE_ARG(g->parent.obj->name),
                     SW_SLICE_ARG(js_or(g->spec, "gatewayClassName", "")));
}

static void copy_texts(struct builder *b, struct sw_json *to, const struct sw_json *from,
                       size_t max, uint64_t *digest)
{
    for (size_t i = 0; sw_json_is(from, SW_JSON_OBJECT) && i < sw_min(sw_json_len(from), max);
         i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);
        struct sw_slice value = sw_json_str(m->value);

        if (!value.p)
            continue;
        *digest = sw_siphash13(*digest, m->key.n, m->key.p, m->key.n);
        *digest = sw_siphash13(*digest, value.n, value.p, value.n);
        sw_json_set(b->a, to, m->key, sw_json_new_string(b->a, value));
    }
}

static struct sw_json *owner_of(struct builder *b, const struct sw_kube_obj *o)
{
    return sw_json_new_list(b->a, SW_JSON_OF(b->a, {"apiVersion", .str = GW_GROUP "/v1"},
                                             {"kind", .str = "Gateway"}, {"name", .text = o->name},
                                             {"uid", .text = o->uid}));
}

static void want_account(struct builder *b, const struct gateway *g, const struct sw_json *labels,
                         const struct sw_json *annotations)
{
    const struct sw_kube_obj *o = g->parent.obj;
    struct sw_json *l = sw_json_new_object(b->a);
    struct sw_json *n = sw_json_new_object(b->a);
    struct sw_json *meta;
    uint64_t digest = 0;

    copy_texts(b, l, labels, LABELS_MAX, &digest);
    sw_json_put_str(b->a, l, NAME_LABEL, sw_slice_head(o->name, 63));
    sw_json_put_str(b->a, l, CLASS_LABEL,
                    sw_slice_head(js_or(g->spec, "gatewayClassName", ""), 63));
    sw_json_put_str(b->a, l, MANAGED_BY, SW_SLICE_LIT("spanwire"));
    copy_texts(b, n, annotations, ANNOTATIONS_MAX, &digest);
    sw_json_put_str(b->a, n, DIGEST, gw_printf(b, "%016llx", (unsigned long long)digest));
    meta = SW_JSON_OF(b->a, {"name", .text = account_name(b, g)}, {"namespace", .text = o->ns},
                      {"labels", .json = l}, {"annotations", .json = n},
                      {"ownerReferences", .json = o->uid.n ? owner_of(b, o) : NULL});
    want(b, (struct sw_model_want){.how = SW_MODEL_WANT_OBJECT,
                                   .kind = SW_MODEL_ACCOUNT,
                                   .of = o,
                                   .json = SW_JSON_OF(b->a, {"apiVersion", .str = "v1"},
                                                      {"kind", .str = "ServiceAccount"},
                                                      {"metadata", .json = meta})});
}

/* An account of ours that its Gateway does not want any more; others are not ours to delete. */
static void drop_account(struct builder *b, const struct gateway *g)
{
    const struct sw_kube_obj *o =
        sw_view_find(b->v, SW_MODEL_ACCOUNT, g->parent.obj->ns, account_name(b, g));
    const struct sw_json *labels = o ? sw_json_walk(o->json, "metadata", "labels", NULL) : NULL;

    if (sw_json_str_eq(sw_json_find(labels, MANAGED_BY), "spanwire") &&
        sw_slice_eq(js(labels, NAME_LABEL), sw_slice_head(g->parent.obj->name, 63)))
        want(b,
             (struct sw_model_want){.how = SW_MODEL_WANT_GONE, .kind = SW_MODEL_ACCOUNT, .of = o});
}

static void account(struct builder *b, const struct gateway *g)
{
    const struct sw_json *infra = sw_json_find(g->spec, "infrastructure");
    const struct sw_json *labels = sw_json_find(infra, "labels");
    const struct sw_json *annotations = sw_json_find(infra, "annotations");

    if (account_name(b, g).n > NAME_MAX_LEN)
        add_note(b, gw_printf(b, "gateway/%.*s", SW_SLICE_ARG(g->parent.obj->key)),
                 SW_SLICE_LIT("its name is too long for a ServiceAccount"));
    else if (sw_json_len(labels) || sw_json_len(annotations))
        want_account(b, g, labels, annotations);
    else
        drop_account(b, g);
}

void build_infrastructure(struct builder *b)
{
    SW_VIEW_EACH (c, b->v, SW_MODEL_CLASS) {
        if (sw_slice_eq(sw_json_str(sw_json_walk(c->json, "spec", "controllerName", NULL)),
                        b->conf->controller))
            hold_class(b, c);
    }
    for (size_t i = 0; i < b->gateways.n; i++)
        account(b, b->gateways.p[i]);
}
