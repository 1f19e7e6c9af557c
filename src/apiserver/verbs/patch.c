/* SPDX-License-Identifier: Apache-2.0 */
/* The four kinds of PATCH. */
#include "kube/apply/patch.h"

#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/api/work.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/json/patch.h"
#include "base/search.h"
#include "kube/apply/managed.h"
#include "kube/apply/smd.h"

enum { OPS_MAX = 10000, INLINE_COPY = 256 * 1024, INLINE_WORK = 4 << 20 };

struct patch {
    struct api_write w;
    enum api_patch_kind kind;
    struct sw_json *doc;
    struct sw_json_dups dups;
};

bool api_patch_kind(struct api_req *r, enum api_patch_kind *ret)
{
    struct sw_slice rest = r->content_type.p ? r->content_type : sw_slice("", 0);
    struct sw_slice t = sw_slice_trim(sw_slice_cut(&rest, ';'));

    if (!r->x && t.n == 0) {
        *ret = API_PATCH_MERGE;
        return true;
    }
    if (sw_slice_eq_str(t, "application/json-patch+json"))
        *ret = API_PATCH_JSON;
    else if (sw_slice_eq_str(t, "application/merge-patch+json"))
        *ret = API_PATCH_MERGE;
    else if (sw_slice_eq_str(t, "application/strategic-merge-patch+json") && r->res->builtin)
        *ret = API_PATCH_STRATEGIC;
    else if (sw_slice_eq_str(t, "application/apply-patch+yaml"))
        *ret = API_PATCH_APPLY;
    else {
        api_fail(r, 415, "UnsupportedMediaType",
                 "the body of the request was in an unknown format - accepted media types include: "
                 "application/json-patch+json, application/merge-patch+json, %sapplication/apply-"
                 "patch+yaml",
                 r->res->builtin ? "application/strategic-merge-patch+json, " : "");
        return false;
    }
    return true;
}

static void rejected(struct api_req *r)
{
    api_fail_details(r, 422, "Invalid",
                     "the server rejected our request due to an error in our request",
                     sw_json_new_object(r->arena));
}

bool api_json_patched(struct api_req *r, const struct sw_json *obj, const struct sw_json *patch,
                      struct sw_json **ret)
{
    struct sw_json_patch_opts o = {.max_ops = OPS_MAX};
    struct sw_err err = {0};
    bool moves = !api_work_here() && r->exec.fresh;
    int rc;

    if (moves) {
        o.max_copy_bytes = INLINE_COPY;
        o.max_work_bytes = INLINE_WORK;
    }
    if (sw_json_len(patch) > OPS_MAX) {
        api_fail(r, 413, "RequestEntityTooLarge",
                 "Request entity too large: The allowed maximum operations in a JSON patch is %d, "
                 "got %zu",
                 OPS_MAX, sw_json_len(patch));
        return false;
    }
    rc = sw_json_patch(r->arena, obj, patch, &o, ret, &err);
    if (rc == SW_OK)
        return true;
    if (rc == SW_ELIMIT && moves)
        r->api->restart = r; /* a worker has the time */
    else
        rejected(r);
    return false;
}

/* The object with the patch applied; false: an error was sent. */
static bool patched(struct api_req *r, struct patch *p, struct sw_json **ret)
{
    const char *why = "";
    int rc;

    switch (p->kind) {
    case API_PATCH_JSON:
        return api_json_patched(r, p->w.live, p->doc, ret);
    case API_PATCH_MERGE:
        *ret = sw_json_merge_patch(r->arena, p->w.live, p->doc);
        return true;
    case API_PATCH_STRATEGIC:
        rc = sw_strategic_patch(r->arena, r->res->schema, p->w.live, p->doc, ret, &why);
        if (rc == SW_EPROTO)
            api_bad_request(r, "%s", why);
        else if (rc != SW_OK)
            api_fail(r, 500, "", "%s", why);
        return rc == SW_OK;
    case API_PATCH_APPLY:
        break;
    }
    return false;
}

static bool check_name(struct api_req *r, const struct sw_json *obj)
{
    return api_check_name(r, obj) && api_check_namespace(r, api_meta_str(obj, "namespace"));
}

static bool build_patch(struct api_write *w, const struct sw_store_obj *cur)
{
    struct patch *p = SW_CONTAINER_OF(w, struct patch, w);
    struct api_req *r = w->r;
    struct sw_json *obj = NULL;

    if (!cur) {
        api_not_found(r);
        return false;
    }
    api_off_loop();
    w->live = api_load(r->arena, r->res, cur);
    if (!patched(r, p, &obj) || !api_admit_object(r, obj, &p->dups, true) || !check_name(r, obj))
        return false;
    api_on_loop();
    if (api_work_ended(r))
        return false;
    /* Absent means "keep", as for any client that did not ask to forget. */
    return api_prepare_update(w, obj, cur);
}

/* --- server-side apply ------------------------------------------------------------------ */

void api_apply_failed(struct api_req *r, const struct sw_smd_result *res)
{
    switch (res->status) {
    case SW_SMD_OK:
        return;
    case SW_SMD_CONFLICT:
        api_fail_details(r, 409, "Conflict", res->message,
                         SW_JSON_OF(r->arena, {"causes", .json = res->causes}));
        return;
    case SW_SMD_TYPED:
        api_fail(r, 500, "", "%s", res->message);
        return;
    case SW_SMD_BAD_REQUEST:
        api_bad_request(r, "%s", res->message);
        return;
    }
}

static bool build_apply(struct api_write *w, const struct sw_store_obj *cur)
{
    struct patch *p = SW_CONTAINER_OF(w, struct patch, w);
    struct api_req *r = w->r;
    struct sw_smd smd = api_smd(r);
    struct sw_json *config;
    struct sw_smd_result res;

    api_off_loop();
    config = sw_json_copy(r->arena, p->doc);
    w->live = cur ? api_load(r->arena, r->res, cur) : NULL;
    api_on_loop();
    if (!cur && (r->sub.n)) {
        api_not_found(r);
        return false;
    }
    if (!cur && !api_may_create(r))
        return false;
    if (!cur && r->res->crd && r->crd->terminating) {
        api_fail(r, 405, "MethodNotAllowed",
                 "create not allowed while custom resource definition is terminating");
        return false;
    }
    if (!cur && api_meta_str(config, "uid").n) {
        api_conflict(r, sw_arena_printf(r->arena,
                                        "uid mismatch: the provided object specified uid %.*s, and "
                                        "no existing object was found",
                                        SW_SLICE_ARG(api_meta_str(config, "uid"))));
        return false;
    }
    api_off_loop();
    res = sw_smd_apply(&smd, w->live, config, r->write.force);
    if (res.status != SW_SMD_OK) {
        api_apply_failed(r, &res);
        return false;
    }
    r->write.validation =
        API_VALIDATE_IGNORE; /* unknown fields were refused by the schema already */
    if (!api_admit_object(r, res.object, NULL, false) || !check_name(r, res.object))
        return false;
    api_on_loop();
    if (api_work_ended(r))
        return false;
    w->arg = p; /* ownership is settled */
    if (!cur) {
        struct sw_json *meta = api_meta(r->arena, res.object);

        (void)sw_json_remove(meta, SW_SLICE_LIT("uid"));
        (void)sw_json_remove(meta, SW_SLICE_LIT("creationTimestamp"));
        if (r->res->has_status && r->res->crd) {
            (void)sw_json_remove(res.object, SW_SLICE_LIT("status"));
            sw_schema_default(r->arena, res.object, api_res_schema(r->res));
        }
        return api_prepare_create(w, res.object);
    }
    return api_prepare_update(w, res.object, cur);
}

bool api_need_manager(struct api_req *r)
{
    struct sw_field_errs e;
    struct sw_fpath m = sw_fpath_str(NULL, "fieldManager");

    sw_field_errs_init(&e, r->arena);
    if (!api_param(r, "fieldManager").n)
        sw_ferr_required(&e, &m, "is required for apply patch");
    return api_options_ok(r, "PatchOptions", &e);
}

static bool check_apply(struct api_req *r, struct patch *p)
{
    struct sw_slice name = api_meta_str(p->doc, "name");
    struct sw_slice v;

    if (!api_need_manager(r))
        return false;
    if (!sw_json_is(p->doc, SW_JSON_OBJECT)) {
        api_bad_request(r, "error decoding YAML: the body is not an object");
        return false;
    }
    api_settle_version(r->arena, p->doc);
    v = api_str(p->doc, "apiVersion");
    if (v.n == 0 || api_str(p->doc, "kind").n == 0) {
        api_bad_request(r, "Object '%s' is missing in '%.*s'", v.n ? "Kind" : "apiVersion",
                        SW_SLICE_ARG(sw_slice_head(sw_json_text(r->arena, p->doc, NULL), 4096)));
        return false;
    }
    if (!sw_slice_eq_str(v, r->res->api_version)) {
        api_bad_request(r,
                        "Incorrect version specified in apply patch. Specified patch version: "
                        "%.*s, expected: %s",
                        SW_SLICE_ARG(v), r->res->api_version);
        return false;
    }
    if (name.n && !sw_slice_eq(name, r->name)) {
        api_bad_request(r, "name in patch (%.*s) does not match the name on the URL (%.*s)",
                        SW_SLICE_ARG(name), SW_SLICE_ARG(r->name));
        return false;
    }
    sw_json_put_str(r->arena, api_meta(r->arena, p->doc), "name", r->name);
    if (r->res->namespaced && !api_meta_str(p->doc, "namespace").n)
        sw_json_put_str(r->arena, api_meta(r->arena, p->doc), "namespace", r->ns);
    return true;
}

static bool check_force(struct api_req *r, enum api_patch_kind kind)
{
    struct sw_field_errs e;
    struct sw_fpath p = sw_fpath_str(NULL, "force");

    sw_field_errs_init(&e, r->arena);
    if (kind != API_PATCH_APPLY && sw_query_get(&r->query, "force"))
        sw_ferr_forbidden(&e, &p, "may not be specified for non-apply patch");
    return api_options_ok(r, "PatchOptions", &e);
}

/* The error of Go's decoder for a text that is no JSON, as far as clients need it. */
static const char *syntax_text(struct api_req *r, const struct sw_err *err)
{
    size_t at = err->offset;
    char c = at < r->body.n ? r->body.p[at] : 0;

    if (at >= r->body.n)
        return "unexpected end of JSON input";
    if (c < 0x21 || c > 0x7e)
        return err->msg;
    return sw_arena_printf(r->arena, "invalid character '%s%c' looking for beginning of value",
                           c == '\'' ? "\\" : "", c);
}

static const char *go_type(const struct sw_json *v)
{
    return v->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(v->type);
}

/* The error of Go's decoder for the operations of a JSON patch; NULL: none. */
static const char *bad_operation(struct api_req *r, const struct sw_json *doc)
{
    static const char *const texts[] = {"op", "path", "from"};

    SW_JSON_ITEMS (op, doc) {
        if (op->type == SW_JSON_NULL)
            continue;
        if (op->type != SW_JSON_OBJECT)
            return sw_arena_printf(
                r->arena, "json: cannot unmarshal %s into Go value of type handlers.jsonPatchOp",
                go_type(op));
        for (size_t k = 0; k < SW_ARRAY_LEN(texts); k++) {
            const struct sw_json *v = sw_json_find(op, texts[k]);

            if (v && v->type != SW_JSON_STRING && v->type != SW_JSON_NULL)
                return sw_arena_printf(r->arena,
                                       "json: cannot unmarshal %s into Go struct field "
                                       "jsonPatchOp.%s of type string",
                                       go_type(v), texts[k]);
        }
    }
    return NULL;
}

/*
 * A list for JSON patches, else an object; doc is NULL for what is no JSON at all. Null is the
 * empty patch, but for a merge patch.
 */
static bool check_form(struct api_req *r, enum api_patch_kind kind, struct sw_json *doc,
                       const char *why)
{
    bool list = kind == API_PATCH_JSON;

    if (doc && doc->type == SW_JSON_NULL && kind == API_PATCH_MERGE) {
        api_bad_request(r, "Invalid JSON Patch");
        return false;
    }
    if (doc && doc->type == SW_JSON_NULL)
        *doc = list ? *sw_json_new_array(r->arena) : *sw_json_new_object(r->arena);
    if (doc && sw_json_is(doc, list ? SW_JSON_ARRAY : SW_JSON_OBJECT))
        why = list ? bad_operation(r, doc) : NULL;
    else if (doc)
        why = sw_arena_printf(r->arena, "json: cannot unmarshal %s into Go value of type %s",
                              go_type(doc),
                              list ? "[]handlers.jsonPatchOp" : "map[string]interface {}");
    if (!why)
        return true;
    api_bad_request(r, "%s%s", kind == API_PATCH_STRATEGIC ? "" : "error decoding patch: ", why);
    return false;
}

/* Unknown and repeated members of operations are noted, with where they stand. */
static void check_members(struct api_req *r, const struct sw_json *doc, struct sw_json_dups *dups)
{
    static const char *const known[] = {"op", "path", "from", "value", NULL};

    r->patch.notes.arena = r->arena;
    for (size_t i = 0; i < sw_json_len(doc); i++) {
        SW_JSON_MEMBERS (m, sw_json_at(doc, i)) {
            if (!sw_word_in(m->key, known))
                sw_texts_add(&r->patch.notes,
                             sw_arena_printf(r->arena, "json patch unknown field \"[%zu].%.*s\"", i,
                                             SW_SLICE_ARG(m->key)));
        }
    }
    for (size_t i = 0; i < dups->n; i++)
        sw_texts_add(&r->patch.notes,
                     sw_arena_printf(r->arena, "json patch duplicate field \"%.*s\"",
                                     SW_SLICE_ARG(dups->p[i].path)));
    dups->n = 0;
}

bool api_patch_read(struct api_req *r, enum api_patch_kind kind, struct sw_json **ret,
                    struct sw_json_dups *dups)
{
    struct sw_err err = {0};

    if (!api_write_options(r, "PatchOptions") || !check_force(r, kind))
        return false;
    if (kind == API_PATCH_APPLY) {
        /* Nearly always JSON, which is read faster as such; else it may still be YAML's own maps.
         */
        if (!r->own.json && r->body.n && r->body.p[0] == '{' &&
            api_parse_json(r, ret, dups, &err) == SW_OK)
            return true;
        r->content_type = SW_SLICE_LIT("application/yaml");
        return api_decode_body(r, ret, dups);
    }
    r->content_type = SW_SLICE_LIT("application/json");
    if (!r->own.json && api_parse_json(r, ret, dups, &err) < 0)
        return check_form(r, kind, NULL, syntax_text(r, &err));
    if (r->own.json && !api_decode_body(r, ret, dups))
        return false;
    if (!check_form(r, kind, *ret, ""))
        return false;
    r->patch.strategic = kind == API_PATCH_STRATEGIC;
    if (kind == API_PATCH_JSON)
        check_members(r, *ret, dups);
    if (kind == API_PATCH_STRATEGIC)
        r->patch.text = sw_slice_str(sw_go_plain(r->arena, *ret));
    return true;
}

void api_patch(struct api_req *r)
{
    struct patch *p = SW_ARENA_NEW(r->arena, struct patch);

    p->w = (struct api_write){.r = r, .build = build_patch, .retry = true};
    api_off_loop();
    if (!api_patch_kind(r, &p->kind) || !api_patch_read(r, p->kind, &p->doc, &p->dups))
        return;
    if (p->kind == API_PATCH_APPLY) {
        p->w.build = build_apply;
        if (!check_apply(r, p))
            return;
    }
    api_on_loop();
    if (api_work_ended(r))
        return;
    api_write_run(&p->w);
}
