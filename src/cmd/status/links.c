/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status/links.h"

#include <stdio.h>

#include "base/json.h"
#include "cmd/cmd.h"

#define LINK "clusterlink.net", "v1alpha1"

static const struct sw_kube_gvr kinds[] = {{LINK, "peers", "Peer", true},
                                           {LINK, "imports", "Import", true},
                                           {LINK, "exports", "Export", true}};

static struct sw_slice meta(const struct sw_json *o, const char *name)
{
    return sw_json_str(sw_json_walk(o, "metadata", name, NULL));
}

/* A port of the specification as text; "-" where there is none. */
static struct sw_slice port(struct sw_arena *a, const struct sw_json *o, const char *name)
{
    int64_t n = 0;

    if (!sw_json_i64(sw_json_walk(o, "spec", name, NULL), &n))
        return SW_SLICE_LIT("-");
    return sw_slice_str(sw_arena_printf(a, "%d", (int)n));
}

/* ---- conditions ---- */

static bool all_true(const struct sw_json *o)
{
    const struct sw_json *list = sw_json_walk(o, "status", "conditions", NULL);
    bool ok = sw_json_len(list) > 0;

    SW_JSON_ITEMS (it, list)
        ok &= sw_json_str_eq(sw_json_find(it, "status"), "True");
    return ok;
}

static void print_conditions(const struct sw_json *o)
{
    const struct sw_json *list = sw_json_walk(o, "status", "conditions", NULL);

    SW_JSON_ITEMS (c, list) {
        bool ok = sw_json_str_eq(sw_json_find(c, "status"), "True");

        sw_cmd_print_cell(sw_json_str(sw_json_find(c, "type")), 0);
        sw_cmd_print_cell(sw_slice_str(ok ? "yes" : "NO"), 0);
        sw_cmd_print_cell(sw_json_str(sw_json_find(c, "lastTransitionTime")), 0);
        if (!ok)
            sw_cmd_print_cell(sw_json_str(sw_json_find(c, "message")), 0);
    }
    (void)puts(sw_json_len(list) ? "" : "not judged yet");
}

/* ---- rows ---- */

static void print_peer(struct sw_arena *a, const struct sw_json *o)
{
    const struct sw_json *gateways = sw_json_walk(o, "spec", "gateways", NULL);
    const struct sw_json *first = sw_json_at(gateways, 0);
    const struct sw_json *labels = sw_json_walk(o, "status", "labels", NULL);
    int64_t at = 0;

    (void)!sw_json_i64(sw_json_find(first, "port"), &at);
    sw_cmd_print_cell(meta(o, "name"), 24);
    sw_cmd_print_cell(sw_slice_str(sw_arena_printf(
                          a, "%.*s:%d%s", SW_SLICE_ARG(sw_json_str(sw_json_find(first, "host"))),
                          (int)at, sw_json_len(gateways) > 1 ? ",..." : "")),
                      32);
    sw_cmd_print_cell(labels ? sw_json_text(a, labels, NULL) : SW_SLICE_LIT("-"), 32);
    print_conditions(o);
}

static void print_import(struct sw_arena *a, const struct sw_json *o)
{
    const struct sw_json *sources = sw_json_walk(o, "spec", "sources", NULL);
    const char *text = "";

    for (size_t i = 0; i < sw_json_len(sources) && i < 8; i++)
        text = sw_arena_printf(
            a, "%s%s%.*s", text, *text ? "," : "",
            SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(sources, i), "peer"))));
    sw_cmd_print_cell(meta(o, "namespace"), 20);
    sw_cmd_print_cell(meta(o, "name"), 24);
    sw_cmd_print_cell(port(a, o, "port"), 6);
    sw_cmd_print_cell(port(a, o, "targetPort"), 6);
    sw_cmd_print_cell(sw_slice_str(text), 24);
    print_conditions(o);
}

static void print_export(struct sw_arena *a, const struct sw_json *o)
{
    sw_cmd_print_cell(meta(o, "namespace"), 20);
    sw_cmd_print_cell(meta(o, "name"), 24);
    sw_cmd_print_cell(sw_json_str(sw_json_walk(o, "spec", "host", NULL)), 32);
    sw_cmd_print_cell(port(a, o, "port"), 6);
    print_conditions(o);
}

static void print_kind(struct sw_arena *a, size_t kind, const struct sw_json *items)
{
    static const char *const heads[] = {
        "PEER                     GATEWAY                          LABELS                          "
        " "
        "CONDITIONS",
        "NAMESPACE            IMPORT                   PORT   TARGET SOURCES                  "
        "CONDITIONS",
        "NAMESPACE            EXPORT                   HOST                             PORT   "
        "CONDITIONS"};
    static void (*const rows[])(struct sw_arena * a,
                                const struct sw_json *o) = {print_peer, print_import, print_export};

    if (sw_json_len(items))
        (void)puts(heads[kind]);
    SW_JSON_ITEMS (it, items)
        rows[kind](a, it);
}

/* ---- the API ---- */

static int print_json(const struct sw_json *all, struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = 64 << 20};

    if (sw_json_write(&out, all, NULL) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "too many objects");
    printf("%.*s\n", (int)sw_buf_len(&out), (const char *)sw_buf_data(&out));
    return SW_OK;
}

int sw_status_links(struct sw_cmd_api *api, uint64_t timeout_ns, bool json, bool *ret_good,
                    struct sw_err *err)
{
    struct sw_json *all = sw_json_new_object(&api->arena);

    *ret_good = true;
    for (size_t k = 0; k < SW_ARRAY_LEN(kinds); k++) {
        const struct sw_kube_req req = {
            .verb = SW_KUBE_LIST, .gvr = &kinds[k], .timeout_ns = timeout_ns};
        struct sw_json *answer;
        struct sw_json *items;
        int rc = sw_cmd_api_ask(api, &req, &answer, err);

        if (rc != SW_OK)
            return rc;
        items = sw_json_find(answer, "items");
        SW_JSON_ITEMS (it, items)
            *ret_good &= all_true(it);
        if (!json)
            print_kind(&api->arena, k, items);
        sw_json_put(&api->arena, all, kinds[k].resource,
                    items ? items : sw_json_new_array(&api->arena));
    }
    return json ? print_json(all, err) : SW_OK;
}
