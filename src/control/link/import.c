/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports: conditions, and which Services they have. An Import without a lease has no Service: it
 * would lead to the port of another one.
 */
#include "control/link/link_int.h"

static const struct sw_json *spec_of(const struct sw_link_lease *i)
{
    return sw_json_find(i->import->json, "spec");
}

static const char *const schemes[] = {"round-robin", "random", "static", "weighted", "locality"};

/* Data planes would not know what to choose: connections are refused, and the condition says so. */
static const char *bad_scheme(struct lk *l, const struct sw_link_lease *i)
{
    struct sw_slice scheme = js_or(spec_of(i), "lbScheme", "");

    for (size_t k = 0; k < SW_ARRAY_LEN(schemes); k++) {
        if (!scheme.n || sw_slice_eq_str(scheme, schemes[k]))
            return NULL;
    }
    return cn_text(l->a,
                   "spec.lbScheme '%.*s' is unknown: round-robin, random, static, weighted and "
                   "locality are. Connections are refused.",
                   (int)sw_min(scheme.n, 64), scheme.p);
}

/* ---- Services ---- */

/* Both must be there; the one that is not decides. */
static enum lk_state worse(enum lk_state x, enum lk_state y)
{
    return x > y ? x : y;
}

struct sw_slice lk_import_host(struct lk *l, struct sw_slice ns, struct sw_slice name)
{
    return cn_printf(l->a, "%.*s.%.*s.svc.%.*s", SW_SLICE_ARG(sw_link_service_name(l->a, ns, name)),
                     SW_SLICE_ARG(l->conf->ns), SW_SLICE_ARG(l->conf->domain));
}

static enum lk_state want_pair(struct lk *l, const struct sw_link_lease *i, uint16_t port,
                               const char **ret_why)
{
    struct lk_service sys = {.import = i->import,
                             .ns = l->conf->ns,
                             .name = sw_link_service_name(l->a, i->import->ns, i->import->name),
                             .selects = true,
                             .port = port,
                             .target = i->target};
    struct lk_service user = {.import = i->import, .ns = i->import->ns, .name = i->import->name};
    enum lk_state state = lk_want_service(l, &sys, ret_why);

    if (state != LK_CONFLICT && !l->pods)
        lk_want_slices(l, sys.ns, sys.name, i->target);
    user.external = lk_import_host(l, i->import->ns, i->import->name).p;
    return worse(state, lk_want_service(l, &user, ret_why));
}

/* In the system namespace, or in its own where names are not resolved through the other. */
static enum lk_state want_one(struct lk *l, const struct sw_link_lease *i, uint16_t port,
                              const char **ret_why)
{
    struct lk_service s = {.import = i->import,
                           .ns = i->import->ns,
                           .name = i->import->name,
                           .selects = sw_slice_eq(i->import->ns, l->conf->ns),
                           .port = port,
                           .target = i->target};
    enum lk_state state = lk_want_service(l, &s, ret_why);

    if (state != LK_CONFLICT && (!s.selects || !l->pods))
        lk_want_slices(l, s.ns, s.name, i->target);
    return state;
}

static enum lk_state want_merge(struct lk *l, const struct sw_link_lease *i, const char **ret_why)
{
    const struct sw_kube_obj *o = sw_view_find(l->v, SW_LK_SERVICE, i->import->ns, i->import->name);

    /* One that this Import had before it merged does not count, and goes. */
    if (!o || cn_deleting(o) || sw_link_service_of(o->json, i->import->ns, i->import->name)) {
        *ret_why = cn_text(l->a, "There is no Service '%.*s' to merge with.",
                           SW_SLICE_ARG(i->import->key));
        return LK_CONFLICT;
    }
    lk_want_merged(l, i);
    return LK_THERE;
}

static enum lk_state want_services(struct lk *l, const struct sw_link_lease *i,
                                   const char **ret_why)
{
    uint16_t port = (uint16_t)js_int(spec_of(i), "port", UINT16_MAX, 0);

    if (!port) {
        *ret_why = "spec.port must be in the range 1 to 65535.";
        return LK_CONFLICT;
    }
    if (sw_link_merges(i->import->json))
        return want_merge(l, i, ret_why);
    if (l->conf->direct || sw_slice_eq(i->import->ns, l->conf->ns))
        return want_one(l, i, port, ret_why);
    return want_pair(l, i, port, ret_why);
}

/* ---- one Import ---- */

/* What it has from before, if its port was taken out of its specification, stays meanwhile. */
static void keep(struct lk *l, const struct sw_kube_obj *o)
{
    (void)sw_map_put(&l->pending, o->key, l);
    (void)sw_map_put(&l->pending,
                     cn_printf(l->a, "%.*s/%.*s", SW_SLICE_ARG(l->conf->ns),
                               SW_SLICE_ARG(sw_link_service_name(l->a, o->ns, o->name))),
                     l);
}

/* Of exactly this one: a write must not bring it back. */
static void write_port(struct lk *l, const struct sw_link_lease *i)
{
    struct sw_json *obj = cn_object(l->a, SW_LINK_API, "Import", i->import->ns, i->import->name);

    sw_json_put_str(l->a, sw_json_find(obj, "metadata"), "uid", i->import->uid);
    cn_meta(l->a, obj, "annotations", SW_LINK_CHOSEN, cn_printf(l->a, "%u", i->target));
    sw_json_put(l->a, obj, "spec",
                SW_JSON_OF(l->a, {"targetPort", .json = sw_json_new_u64(l->a, i->target)}));
    sw_out_apply(l->out, SW_LK_IMPORT, obj);
    keep(l, i->import);
}

/* The log may know who has the port, wherever that is. */
static void note(struct lk *l, const struct sw_link_lease *i, const char *reason, const char *why)
{
    if (i->holder)
        why = sw_arena_printf(l->a, "target port is leased to Import '%.*s'",
                              SW_SLICE_ARG(i->holder->key));
    if (why)
        lk_note(l, i->why ? "PortConflict" : reason, "import", i->import, why);
}

static void judge(struct lk *l, const struct sw_link_lease *i)
{
    char lease[SW_LINK_LEASE_TEXT];
    const char *granted = sw_arena_dup(l->a, sw_slice_str(sw_link_lease_text(i->target, lease)));
    struct cond want[2] = {{"ImportTargetPortValid", true, "Leased", granted},
                           {"ImportServiceValid", true, "Valid", ""}};
    const char *scheme = bad_scheme(l, i);
    const char *why = NULL;
    enum lk_state state = LK_CONFLICT;

    if (i->why) {
        want[0] = (struct cond){want[0].type, false, "Error", i->why};
        why = i->why;
    } else {
        state = want_services(l, i, &why);
        lk_publish_import(l, i);
    }
    if (state != LK_CONFLICT)
        why = scheme;
    if (why)
        want[1] = (struct cond){want[1].type, false, "Error", why};
    note(l, i, scheme && state != LK_CONFLICT ? "UnknownScheme" : "ServiceConflict", why);
    /* Until the Service is seen, what was published of it stands. */
    lk_status(l, SW_LK_IMPORT, i->import, want, state == LK_UNDER_WAY && !why ? 1 : 2);
    sw_link_facts_add_import(l->facts, i->import->json,
                             sw_slice_str(i->why   ? i->why
                                          : scheme ? scheme
                                                   : ""));
}

void lk_imports(struct lk *l)
{
    size_t count = sw_view_count(l->v, SW_LK_IMPORT);
    struct sw_link_lease *list = sw_arena_array(l->a, count + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sw_kube_obj *o = sw_view_at(l->v, SW_LK_IMPORT, i);

        if (!cn_deleting(o))
            list[n++] = (struct sw_link_lease){.import = o};
    }
    sw_link_leases(l->a, l->conf->reserved, l->conf->n_reserved, list, n);
    for (size_t i = 0; i < n; i++) {
        if (list[i].unwritten)
            write_port(l, &list[i]);
        else
            judge(l, &list[i]);
    }
}
