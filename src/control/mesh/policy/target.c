/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/target.h"

static const char waypoint_controller[] = "istio.io/mesh-controller";

enum { LISTED_MAX = 16 }; /* of the references that cannot be resolved */

/* One reference of a policy, and what became of it. */
struct target {
    struct sw_arena *arena;
    const struct sw_mesh_target_lookup *lookup;
    struct sw_slice root_ns;
    struct sw_slice kind;
    struct sw_slice ns;
    struct sw_slice name;
    bool bound;
    const char *reason;
    const char *message;
};

static void bound_to(struct target *t, struct sw_slice what)
{
    t->bound = true;
    t->reason = "Accepted";
    t->message = sw_arena_printf(t->arena, "bound to %.*s", SW_SLICE_ARG(what));
}

static void not_bound(struct target *t, const char *reason, const char *message)
{
    t->reason = reason;
    t->message = message;
}

static struct sw_slice key_of(const struct target *t)
{
    return sw_slice_str(
        sw_arena_printf(t->arena, "%.*s/%.*s", SW_SLICE_ARG(t->ns), SW_SLICE_ARG(t->name)));
}

static void look_up_service(struct target *t, bool entry)
{
    const struct sw_mesh_target_lookup *l = t->lookup;
    struct sw_slice waypoint = sw_slice("", 0);
    bool there = (entry ? l->entry : l->service)(l->arg, t->ns, t->name, &waypoint);

    if (there && waypoint.n) {
        bound_to(t, waypoint);
        return;
    }
    not_bound(t, there ? "AncestorNotBound" : "TargetNotFound",
              sw_arena_printf(t->arena, "%.*s %.*s %s", SW_SLICE_ARG(t->kind),
                              SW_SLICE_ARG(key_of(t)),
                              there ? "is not bound to a waypoint" : "was not found"));
}

static void look_up_class(struct target *t)
{
    struct sw_slice controller = sw_slice("", 0);

    if (!sw_slice_eq(t->ns, t->root_ns))
        not_bound(t, "Invalid",
                  sw_arena_printf(t->arena,
                                  "AuthorizationPolicy must be in the root namespace `%.*s` when "
                                  "referencing a GatewayClass",
                                  SW_SLICE_ARG(t->root_ns)));
    else if (!t->lookup->class(t->lookup->arg, t->name, &controller))
        not_bound(t, "TargetNotFound", "not bound");
    else if (!sw_slice_eq_str(controller, waypoint_controller))
        not_bound(t, "Invalid",
                  sw_arena_printf(t->arena,
                                  "GatewayClass must use controller name `%s` for waypoints",
                                  waypoint_controller));
    else
        bound_to(t, t->name);
}

static void look_up(struct target *t)
{
    not_bound(t, "Invalid", "not bound");
    if (sw_slice_eq_str(t->kind, "Service"))
        look_up_service(t, false);
    else if (sw_slice_eq_str(t->kind, "ServiceEntry"))
        look_up_service(t, true);
    else if (sw_slice_eq_str(t->kind, "GatewayClass"))
        look_up_class(t);
    else if (sw_slice_eq_str(t->kind, "Gateway")) {
        if (t->lookup->waypoint(t->lookup->arg, t->ns, t->name))
            bound_to(t, key_of(t));
        else
            not_bound(t, "TargetNotFound", "not bound");
    }
}

/* The references: targetRefs, else targetRef alone. */
static size_t refs_of(const struct sw_json *spec, const struct sw_json **ret_one)
{
    const struct sw_json *list = sw_json_find(spec, "targetRefs");

    *ret_one = sw_json_find(spec, "targetRef");
    if (sw_json_is(list, SW_JSON_ARRAY) && sw_json_len(list))
        return sw_json_len(list);
    return sw_json_is(*ret_one, SW_JSON_OBJECT) ? 1 : 0;
}

static struct sw_slice text_or(const struct sw_json *v, const char *key, struct sw_slice other)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.n ? s : other;
}

/* ", Kind.group:namespace/name" behind what is listed already. */
static const char *listed(struct target *t, const char *list, const struct sw_json *ref)
{
    return sw_arena_printf(
        t->arena, "%s%s%.*s.%.*s:%.*s", list, *list ? ", " : "", SW_SLICE_ARG(t->kind),
        SW_SLICE_ARG(text_or(ref, "group", SW_SLICE_LIT("core"))), SW_SLICE_ARG(key_of(t)));
}

bool sw_mesh_policy_targets(struct sw_arena *a, const struct sw_json *obj, struct sw_slice root_ns,
                            const struct sw_mesh_target_lookup *l, struct sw_mesh_condition *ret)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *list = sw_json_find(spec, "targetRefs");
    struct sw_slice own = sw_json_str(sw_json_walk(obj, "metadata", "namespace", NULL));
    struct target t = {.arena = a, .lookup = l, .root_ns = root_ns};
    const struct sw_json *one;
    size_t n = refs_of(spec, &one);
    size_t bad = 0;
    const char *names = "";

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *ref = sw_json_len(list) ? sw_json_at(list, i) : one;

        t.bound = false;
        t.kind = text_or(ref, "kind", sw_slice("", 0));
        t.name = text_or(ref, "name", sw_slice("", 0));
        t.ns = text_or(ref, "namespace", own);
        look_up(&t);
        if (!t.bound && bad++ < LISTED_MAX)
            names = listed(&t, names, ref);
    }
    *ret = (struct sw_mesh_condition){.type = "WaypointAccepted",
                                      .status = bad < n,
                                      .reason = t.reason,
                                      .message = sw_slice_str(t.message)};
    if (n > 1 && bad) {
        ret->reason = bad < n ? "PartiallyInvalid" : "Invalid";
        ret->message = sw_slice_str(sw_arena_printf(a, "Invalid targetRefs: %s", names));
    }
    return n > 0;
}
