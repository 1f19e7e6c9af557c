/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Connector serves a backend. The API names one; an HTTPProxy may add a label selector to it,
 * and then the oldest that is ready gets the requests, or all that are ready in turn. The condition
 * ConnectorSelection names the choice and the candidates.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "control/connector/proxy_int.h"
#include "kube/select/selector.h"

enum { NAMED_MAX = 8, SHARED_MAX = 16 };

typedef SW_VEC(const struct sw_kube_obj *) connectors;

/* ---- the condition ---- */

/* The first that is wrong counts; otherwise the first. */
static void conclude(struct hp *h, bool good, const char *reason, const char *msg)
{
    if (!h->selection.reason || (h->selection.yes && !good))
        h->selection = (struct cond){"ConnectorSelection", good, reason, msg};
}

static struct sw_slice names_of(struct hp *h, const struct sw_kube_obj *const *p, size_t n)
{
    struct sw_slice text = SW_SLICE_LIT("");

    for (size_t i = 0; i < n && i < NAMED_MAX; i++)
        text = cn_printf(h->a, "%.*s%s'%.*s'", SW_SLICE_ARG(text), i ? ", " : "",
                         SW_SLICE_ARG(p[i]->name));
    return n > NAMED_MAX ? cn_printf(h->a, "%.*s and %zu more", SW_SLICE_ARG(text), n - NAMED_MAX)
                         : text;
}

/* ---- the choice ---- */

/* All that match, and the named one; the oldest first. */
static void candidates(struct hp *h, const struct hp_backend *b, const struct sw_label_selector *s,
                       connectors *ret)
{
    SW_VIEW_EACH (o, h->v, SW_HP_CONNECTOR) {
        if (sw_slice_eq(o->ns, h->obj->ns) && !cn_deleting(o) &&
            (sw_slice_eq(o->name, b->connector) ||
             sw_label_selector_match(s, sw_json_walk(o->json, "metadata", "labels", NULL))))
            sw_vec_push(ret, o);
    }
    if (ret->n > 1)
        qsort(ret->p, ret->n, sizeof(*ret->p), cn_oldest_first);
}

static bool can_serve(struct hp *h, const struct hp_backend *b, const struct sw_kube_obj *o)
{
    return sw_connector_online(h->keys, o).n && !hp_refusal(h, b, o);
}

/* All that can serve, in turn. */
static void share(struct hp *h, struct hp_backend *b, const connectors *all)
{
    struct sw_slice names = SW_SLICE_LIT("");
    size_t n = 0;

    for (size_t i = 0; i < all->n && n < SHARED_MAX; i++) {
        if (can_serve(h, b, all->p[i]))
            names = cn_printf(h->a, "%.*s%s%.*s", SW_SLICE_ARG(names), n++ ? "," : "",
                              SW_SLICE_ARG(all->p[i]->name));
    }
    if (names.n)
        b->connector = names;
    conclude(h, true, "RoundRobin",
             cn_text(h->a, "Connectors %.*s match; those that are ready get requests in turn.",
                     SW_SLICE_ARG(names_of(h, all->p, all->n))));
}

static void choose(struct hp *h, struct hp_backend *b, const connectors *all)
{
    size_t at = 0;

    if (!all->n) {
        conclude(h, false, "NoneMatches", "No Connector matches the selector.");
        return;
    }
    while (at < all->n && !can_serve(h, b, all->p[at]))
        at++;
    b->cn = all->p[at < all->n ? at : 0];
    b->connector = b->cn->name;
    if (all->n == 1)
        conclude(h, true, "Selected",
                 cn_text(h->a, "Connector '%.*s' is the only one that matches.",
                         SW_SLICE_ARG(b->cn->name)));
    else if (sw_slice_eq_str(cn_meta_of(h->obj, "annotations", SW_CONNECTOR_POLICY), "RoundRobin"))
        share(h, b, all);
    else
        conclude(h, false, "Ambiguous",
                 cn_text(h->a, "Connectors %.*s match; '%.*s', %s, is used.",
                         SW_SLICE_ARG(names_of(h, all->p, all->n)), SW_SLICE_ARG(b->cn->name),
                         at < all->n ? "the oldest that is ready" : "the oldest"));
}

void hp_select(struct hp *h, struct hp_backend *b)
{
    struct sw_slice text = cn_meta_of(h->obj, "annotations", SW_CONNECTOR_SELECTOR);
    struct sw_label_selector s = {0};
    const char *why = "";
    connectors all = {0};

    b->cn = sw_view_find(h->v, SW_HP_CONNECTOR, h->obj->ns, b->connector);
    if (text.n && sw_label_selector_parse(h->a, text, &s, &why) != SW_OK) {
        conclude(h, false, "InvalidSelector",
                 cn_text(h->a, "Annotation " SW_CONNECTOR_SELECTOR ": %s", why));
    } else if (text.n) {
        candidates(h, b, &s, &all);
        choose(h, b, &all);
        sw_vec_done(&all);
    }
}
