/* SPDX-License-Identifier: Apache-2.0 */
/* What the client wants and holds of each type; it survives streams. */
#include <string.h>

#include "base/mem.h"
#include "xds/cache.h"
#include "xds/client_int.h"

enum { REFUSED_MAX = 64 * 1024 }; /* of text about refused resources; the rest is cut off */

struct xc_type *xc_type_find(const struct sw_xds_client *c, struct sw_slice url)
{
    SW_LIST_EACH (struct xc_type, t, &c->types, link) {
        if (sw_slice_eq_str(url, t->url))
            return t;
    }
    return NULL;
}

void sw_xds_client_type(struct sw_xds_client *c, const char *type, sw_xds_on_update fn, void *arg)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (!t) {
        t = SW_NEW(struct xc_type);
        t->url = sw_strdup(type);
        sw_buf_init(&t->refused, REFUSED_MAX);
        sw_list_push_back(&c->types, &t->link);
    }
    t->fn = fn;
    t->arg = arg;
}

void xc_type_forget_changes(struct xc_type *t)
{
    SW_VEC_FOREACH (struct sw_slice, n, &t->add)
        sw_slice_free(n);
    SW_VEC_FOREACH (struct sw_slice, n, &t->drop)
        sw_slice_free(n);
    sw_vec_done(&t->add);
    sw_vec_done(&t->drop);
}

void xc_type_forget_refused(struct xc_type *t)
{
    SW_MAP_DRAIN(&t->refused_names, sw_free);
}

void sw_xds_client_refuse(struct sw_xds_client *c, const char *type, struct sw_slice name,
                          const char *reason)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));
    size_t before;
    char *own;

    if (!t)
        return;
    before = sw_buf_len(&t->refused);
    if (sw_buf_printf(&t->refused, "%s%.*s: %s", before ? "; " : "",
                      SW_SLICE_ARG(sw_slice_head(name, 256)), reason) != SW_OK)
        (void)!sw_buf_append_str(&t->refused, "; ...");
    if (sw_map_get(&t->refused_names, name))
        return;
    own = sw_slice_dup(name);
    (void)sw_map_put(&t->refused_names, sw_slice(own, name.n), own);
}

void sw_xds_client_holder(struct sw_xds_client *c, const char *type, sw_xds_each_held each,
                          void *arg)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (!t)
        return;
    t->each = each;
    t->each_arg = arg;
}

void sw_xds_client_on_demand(struct sw_xds_client *c, const char *type)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (t)
        t->on_demand = true;
}

void xc_type_forget_response(struct xc_type *t)
{
    sw_buf_clear(&t->refused);
    sw_slice_free(&t->nonce);
    t->nonce = (struct sw_slice){0};
    t->refusal = (struct sw_err){0};
    t->hold = false;
}

static void held_free(struct xc_held *h)
{
    sw_slice_free(&h->name);
    sw_slice_free(&h->version);
    sw_free(h);
}

void xc_type_free(struct xc_type *t)
{
    sw_list_unlink(&t->link);
    xc_type_forget_changes(t);
    SW_MAP_DRAIN(&t->names, sw_free);
    SW_MAP_DRAIN(&t->held, held_free);
    xc_type_forget_response(t);
    xc_type_forget_refused(t);
    sw_buf_done(&t->refused);
    sw_slice_free(&t->trouble);
    sw_free(t->url);
    sw_free(t);
}

void xc_type_hold(struct xc_type *t, struct sw_slice name, struct sw_slice version)
{
    struct xc_held *h = sw_map_get(&t->held, name);

    if (!h) {
        h = SW_NEW(struct xc_held);
        h->name = sw_slice_copy(name);
        (void)sw_map_put(&t->held, h->name, h);
    }
    sw_slice_free(&h->version);
    h->version = sw_slice_copy(version);
}

void xc_type_release(struct xc_type *t, struct sw_slice name)
{
    struct xc_held *h = sw_map_del(&t->held, name);

    if (h)
        held_free(h);
}

/* Queues a change for the server; one kind at a time, so that their order is kept. */
static void announce(struct sw_xds_client *c, struct xc_type *t, struct sw_slice name, bool add)
{
    if (!t->announced) {
        xc_flush_later(c); /* the first request has everything */
        return;
    }
    if (add ? t->drop.n : t->add.n)
        xc_flush_type(c, t);
    if (add)
        sw_vec_push(&t->add, sw_slice_copy(name));
    else
        sw_vec_push(&t->drop, sw_slice_copy(name));
    xc_flush_later(c);
}

int sw_xds_client_subscribe(struct sw_xds_client *c, const char *type, struct sw_slice name)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));
    char *own;

    if (!t)
        return SW_ENOENT;
    if (sw_map_get(&t->names, name))
        return SW_OK;
    if (t->names.n >= c->o.max_resources || name.n > SW_XDS_NAME_MAX)
        return SW_ELIMIT;
    own = sw_slice_dup(name);
    (void)sw_map_put(&t->names, sw_slice(own, name.n), own);
    announce(c, t, name, true);
    return SW_OK;
}

void sw_xds_client_unsubscribe(struct sw_xds_client *c, const char *type, struct sw_slice name)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));
    char *own = t ? sw_map_del(&t->names, name) : NULL;

    if (!own)
        return;
    if (!t->wildcard)
        xc_type_release(t, name);
    announce(c, t, name, false);
    sw_free(own);
}

void sw_xds_client_wildcard(struct sw_xds_client *c, const char *type, bool on)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (!t || t->wildcard == on)
        return;
    t->wildcard = on;
    announce(c, t, SW_SLICE_LIT("*"), on);
    if (on)
        return;
    SW_MAP_EACH (struct xc_held, h, &t->held) {
        if (!sw_map_get(&t->names, h->name))
            xc_type_release(t, h->name);
    }
}

bool sw_xds_client_ready(const struct sw_xds_client *c, const char *type)
{
    const struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    return t && t->ready;
}

size_t sw_xds_client_held(const struct sw_xds_client *c, const char *type)
{
    const struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    return t ? t->held.n : 0;
}
