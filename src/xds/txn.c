/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/txn.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xds/limits.h"
#include "xds/txn_int.h"

struct sw_xds_txn *sw_xds_txn_new(void)
{
    return SW_NEW(struct sw_xds_txn);
}

static void op_done(struct xds_op *o)
{
    if (o->res)
        sw_xds_res_unref(o->res);
    else
        sw_slice_free(&o->name);
}

void sw_xds_txn_free(struct sw_xds_txn *t)
{
    if (!t)
        return;
    SW_VEC_FOREACH (struct xds_change, c, &t->changes) {
        SW_VEC_FOREACH (struct xds_op, o, &c->ops)
            op_done(o);
        sw_vec_done(&c->ops);
        sw_free(c->type);
    }
    sw_vec_done(&t->changes);
    sw_free(t);
}

static struct xds_change *change_of(struct sw_xds_txn *t, const char *type, bool whole)
{
    SW_VEC_FOREACH (struct xds_change, c, &t->changes) {
        if (strcmp(c->type, type) == 0)
            return c;
    }
    sw_vec_push(&t->changes, (struct xds_change){.type = sw_strdup(type), .whole = whole});
    return &t->changes.p[t->changes.n - 1];
}

/* The change that an operation on this resource belongs to; NULL with err. */
static struct xds_change *begin_op(struct sw_xds_txn *t, const char *type, bool whole,
                                   struct sw_slice name, struct sw_err *err)
{
    struct xds_change *c;

    if (name.n > SW_XDS_NAME_MAX || strlen(type) > SW_XDS_TYPE_MAX) {
        (void)sw_err_set(err, SW_EINVAL, "name or type of a resource is too long");
        return NULL;
    }
    c = change_of(t, type, whole);
    if (c->whole == whole)
        return c;
    (void)sw_err_set(err, SW_EINVAL, "single changes and a whole set of '%s' are mixed", type);
    return NULL;
}

/* Without the view it is kept for. */
static struct sw_slice plain_type(const char *type)
{
    const char *at = strchr(type, '#');

    return sw_slice_str(at ? at + 1 : type);
}

static bool names_fit(const struct sw_slice *names, size_t n)
{
    if (n > SW_XDS_ALIASES_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (names[i].n > SW_XDS_NAME_MAX)
            return false;
    }
    return true;
}

static int check(struct sw_slice name, struct sw_slice value, const struct sw_xds_extra *x,
                 struct sw_err *err)
{
    if (value.n > SW_XDS_RESOURCE_MAX)
        return sw_err_set(err, SW_ELIMIT, "resource '%.*s' is too large", SW_SLICE_ARG(name));
    if (x && (!names_fit(x->aliases, x->n_aliases) || !names_fit(x->services, x->n_services) ||
              x->node.n > SW_XDS_NAME_MAX))
        return sw_err_set(err, SW_EINVAL, "resource '%.*s': too many aliases, or one too long",
                          SW_SLICE_ARG(name));
    return SW_OK;
}

static int put_op(struct xds_change *c, struct sw_slice name, struct sw_slice value,
                  const struct sw_xds_extra *x, struct sw_err *err)
{
    struct xds_op o = {0};
    int rc;

    if (!c)
        return SW_EINVAL;
    rc = check(name, value, x, err);
    if (rc != SW_OK)
        return rc;
    o.res = sw_xds_res_new(plain_type(c->type), name, value, x);
    o.name = o.res->name;
    o.seq = c->ops.n;
    sw_vec_push(&c->ops, o);
    return SW_OK;
}

int sw_xds_txn_put(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                   struct sw_slice value, struct sw_err *err)
{
    return put_op(begin_op(t, type, true, name, err), name, value, NULL, err);
}

void sw_xds_txn_clear(struct sw_xds_txn *t, const char *type)
{
    (void)change_of(t, type, true);
}

int sw_xds_txn_set_extra(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                         struct sw_slice value, const struct sw_xds_extra *x, struct sw_err *err)
{
    return put_op(begin_op(t, type, false, name, err), name, value, x, err);
}

int sw_xds_txn_set(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                   struct sw_slice value, struct sw_err *err)
{
    return sw_xds_txn_set_extra(t, type, name, value, NULL, err);
}

int sw_xds_txn_del(struct sw_xds_txn *t, const char *type, struct sw_slice name, struct sw_err *err)
{
    struct xds_change *c = begin_op(t, type, false, name, err);
    struct xds_op o = {0};

    if (!c)
        return SW_EINVAL;
    o.name = sw_slice_copy(name);
    o.seq = c->ops.n;
    sw_vec_push(&c->ops, o);
    return SW_OK;
}

static int op_cmp(const void *x, const void *y)
{
    const struct xds_op *a = x;
    const struct xds_op *b = y;
    int cmp = sw_slice_cmp(a->name, b->name);

    return cmp ? cmp : a->seq < b->seq ? -1 : 1;
}

void xds_change_settle(struct xds_change *c)
{
    size_t n = 0;

    if (c->ops.n == 0)
        return;
    qsort(c->ops.p, c->ops.n, sizeof(*c->ops.p), op_cmp);
    for (size_t i = 0; i < c->ops.n; i++) {
        if (i + 1 < c->ops.n && sw_slice_eq(c->ops.p[i].name, c->ops.p[i + 1].name))
            op_done(&c->ops.p[i]);
        else
            c->ops.p[n++] = c->ops.p[i];
    }
    c->ops.n = n;
}
