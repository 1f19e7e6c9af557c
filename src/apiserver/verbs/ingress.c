/* SPDX-License-Identifier: Apache-2.0 */
/* The class of an Ingress that names none: the one marked as the default, if there is one. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/verbs/verbs.h"

#define NOTE "ingressclass.kubernetes.io/is-default-class"

static bool is_default(const struct sw_json *class)
{
    return sw_json_str_eq(sw_json_walk(class, "metadata", "annotations", NOTE, NULL), "true");
}

/* The younger one, and by name among those of one second. */
static bool is_before(const struct sw_json *class, const struct sw_json *best)
{
    int c = best ? sw_slice_cmp(api_meta_str(class, "creationTimestamp"),
                                api_meta_str(best, "creationTimestamp"))
                 : 1;

    return c > 0 ||
           (c == 0 && sw_slice_cmp(api_meta_str(class, "name"), api_meta_str(best, "name")) < 0);
}

static struct sw_slice find_default(struct api_req *r)
{
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(r->api->store);
    struct sw_json *best = NULL;

    SW_STORE_EACH (o, snap, SW_SLICE_LIT("networking.k8s.io/ingressclasses/")) {
        struct sw_json *class = NULL;

        if (!memmem(o->value.p, o->value.n, NOTE, sizeof(NOTE) - 1))
            continue;
        if (sw_json_parse(r->arena, o->value, NULL, &class, NULL) == SW_OK && is_default(class) &&
            is_before(class, best))
            best = class;
    }
    return api_meta_str(best, "name");
}

void api_ingress_settle(struct api_req *r, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice name;

    if (!r->res->builtin || strcmp(r->res->builtin->type, "Ingress") != 0 ||
        sw_json_find(spec, "ingressClassName") ||
        sw_json_walk(obj, "metadata", "annotations", "kubernetes.io/ingress.class", NULL))
        return;
    name = find_default(r);
    if (name.n && sw_json_is(spec, SW_JSON_OBJECT))
        sw_json_put_str(r->arena, spec, "ingressClassName", name);
}
