/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installing the fabric's kinds. They are applied under the name of kubectl, without force: when a
 * user applies the upstream files, kubectl owns all fields already, so that there is no conflict,
 * and our mark goes because the files do not have it. From then on the kind is the user's.
 */
#include "apiserver/boot/fabric.h"

#include "apiserver/boot/boot_int.h"
#include "base/log.h"
#include "base/trim.h"

#define MANAGER  "kubectl"
#define LABEL    "spanwire.dev/fabric"
#define REVISION "spanwire.dev/revision"

static void on_applied(struct api_req *r, int code, const struct sw_json *body)
{
    struct sw_api *api = r->api;

    if (code >= 400)
        sw_log_warn("api", "cannot install '%.*s': %.*s", SW_SLICE_ARG(r->name),
                    SW_SLICE_ARG(api_str(body, "message")));
    boot_done(api);
    if (api->phase.ready)
        sw_trim_heap(); /* compiling all rules took far more than serving needs */
}

/* A server-side apply of our own. */
static void apply(struct sw_api *api, const struct api_res *res, const struct api_fabric_kind *k)
{
    static struct sw_query_param manager = {SW_SLICE_LIT("fieldManager"), SW_SLICE_LIT(MANAGER),
                                            true};
    SW_ARENA_AUTO a = {0};
    struct sw_json *crd = NULL;
    struct sw_err err = {0};
    struct api_req *r;

    if (sw_json_parse(&a, sw_slice(k->json, k->n), NULL, &crd, &err) != SW_OK) {
        sw_log_error("api", "built-in object '%s': %s", k->name, err.msg);
        return;
    }
    api->phase.starting++;
    r = api_internal(api,
                     &(struct api_internal_request){.verb = API_PATCH,
                                                    .res = res,
                                                    .ns = sw_slice("", 0),
                                                    .name = sw_slice_str(k->name),
                                                    .body = crd},
                     on_applied, NULL);
    r->content_type = SW_SLICE_LIT("application/apply-patch+yaml");
    r->query = (struct sw_query){&manager, 1};
}

/* No other manager owns fields of the object itself; its status is the server's. */
static bool untouched(const struct sw_json *meta)
{
    const struct sw_json *fields = sw_json_find(meta, "managedFields");

    SW_JSON_ITEMS (f, fields) {
        if (api_str(f, "subresource").n == 0 &&
            !(sw_slice_eq_str(api_str(f, "manager"), MANAGER) &&
              sw_slice_eq_str(api_str(f, "operation"), "Apply")))
            return false;
    }
    return true;
}

/* An older one of ours. */
static bool outdated(const struct sw_json *crd)
{
    const struct sw_json *meta = sw_json_find(crd, "metadata");
    uint64_t revision;

    return sw_slice_eq_str(api_str(sw_json_find(meta, "labels"), LABEL), "true") &&
           sw_slice_to_u64(api_str(sw_json_find(meta, "annotations"), REVISION), UINT32_MAX,
                           &revision) &&
           revision < api_fabric_revision && !sw_json_find(meta, "deletionTimestamp") &&
           untouched(meta);
}

void api_fabric_install(struct sw_api *api)
{
    api->phase.ready = false;
    api->phase.starting++;
    for (size_t i = 0; i < api_fabric_count; i++) {
        const struct api_fabric_kind *k = &api_fabric_kinds[i];
        const struct api_res *res = api_registry_v1(&api->reg, k->group, k->resource);
        SW_ARENA_AUTO a = {0};
        const struct sw_json *have =
            api_stored(api, &a, res, sw_slice("", 0), sw_slice_str(k->name));

        if (!have || outdated(have))
            apply(api, res, k);
    }
    boot_done(api);
}
