/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: JSON, YAML or protobuf to a tree, and a tree to an object of its kind. */
#include "apiserver/api/body.h"

#include <string.h>

#include "apiserver/api/limits.h"
#include "base/hex.h"
#include "base/search.h"
#include "kube/builtin/protobuf.h"
#include "kube/schema/meta.h"
#include "yaml/yaml.h"

enum { NODES_MAX = 2000000, DEPTH_MAX = 300 };

/* --- YAML ------------------------------------------------------------------------------- */

/*
 * The words of YAML 1.1 that clients of this API count on; our own files follow YAML 1.2, where
 * only true and false are left. 1 and 0 for the two values, -1 for everything else.
 */
static int truth(const struct sw_yaml *y)
{
    static const char *const words[][11] = {
        {"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"},
        {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"},
    };

    for (int v = 0; y->plain && v < 2; v++) {
        for (size_t i = 0; i < SW_ARRAY_LEN(words[v]); i++) {
            if (sw_slice_eq_str(y->text, words[v][i]))
                return v;
        }
    }
    return -1;
}

static struct sw_json *scalar(struct sw_arena *a, const struct sw_yaml *y)
{
    int b = truth(y);
    int64_t n = 0;

    if (b >= 0)
        return sw_json_new_bool(a, b);
    switch (sw_yaml_type(y)) {
    case SW_YAML_NULL:
        return sw_json_new_null(a);
    case SW_YAML_INT:
        if (sw_json_number_valid(y->text))
            return sw_json_new_number(a, y->text);
        if (sw_yaml_int(y, INT64_MIN, INT64_MAX, &n, NULL) == SW_OK)
            return sw_json_new_i64(a, n);
        break;
    case SW_YAML_FLOAT:
        if (sw_json_number_valid(y->text))
            return sw_json_new_number(a, y->text);
        break;
    case SW_YAML_BOOL:
    case SW_YAML_STR:
        break;
    }
    return sw_json_new_string(a, y->text);
}

static struct sw_slice key_text(const struct sw_yaml *key)
{
    int b = truth(key);

    return b < 0 ? key->text : b ? SW_SLICE_LIT("true") : SW_SLICE_LIT("false");
}

static struct sw_json *from_yaml(struct sw_arena *a, const struct sw_yaml *y)
{
    struct sw_json *v;

    if (y->kind == SW_YAML_SCALAR)
        return scalar(a, y);
    v = y->kind == SW_YAML_MAP ? sw_json_new_object(a) : sw_json_new_array(a);
    SW_YAML_FOREACH (it, y) {
        if (y->kind == SW_YAML_MAP)
            sw_json_set(a, v, key_text(it->key), from_yaml(a, it));
        else
            sw_json_push(a, v, from_yaml(a, it));
    }
    return v;
}

/* What decoding into the kind of the request says about a body it cannot make sense of. */
static void unrecognized(struct api_req *r, const char *why)
{
    bool cut = r->body.n > 30;
    struct sw_slice head = sw_slice_head(r->body, 30);
    const char *kind = sw_slice_eq_str(r->sub, "scale")   ? "Scale"
                       : sw_slice_eq_str(r->sub, "token") ? "TokenRequest"
                       : r->res                           ? r->res->kind
                                                          : NULL;
    char text[2 * 30 + 1];

    if (!kind || (r->verb != API_CREATE && r->verb != API_UPDATE)) {
        api_bad_request(r, "%s", why);
        return;
    }
    (void)sw_hex_write(text, head.p, head.n);
    if (!head.n)
        head = SW_SLICE_LIT("<empty>");
    else if (head.p[0] != '{')
        head = sw_slice(text, 2 * head.n);
    api_bad_request(r, "the object provided is unrecognized (must be of type %s): %s (%.*s%s)",
                    kind, why, SW_SLICE_ARG(head), cut ? " ..." : "");
}

static bool decode_yaml(struct api_req *r, struct sw_json **ret)
{
    struct sw_yaml_limits limits = {.depth = DEPTH_MAX, .nodes = NODES_MAX};
    const struct sw_yaml *y = NULL;
    struct sw_err err = {0};

    if (sw_yaml_parse_one(r->arena, r->body, &limits, &y, &err) != SW_OK) {
        if (r->verb == API_PATCH)
            api_bad_request(r, "error decoding YAML: error converting YAML to JSON: yaml: %s",
                            err.msg);
        else
            unrecognized(r, sw_arena_printf(r->arena, "yaml: %s", err.msg));
        return false;
    }
    *ret = from_yaml(r->arena, y);
    return true;
}

/* --- by content type -------------------------------------------------------------------- */

static struct sw_slice media_type(struct sw_slice t)
{
    struct sw_slice rest = t;

    return t.p ? sw_slice_trim(sw_slice_cut(&rest, ';')) : sw_slice("", 0);
}

int api_parse_json(struct api_req *r, struct sw_json **ret, struct sw_json_dups *dups,
                   struct sw_err *err)
{
    struct sw_json_opts o = {
        .max_nodes = NODES_MAX, .max_depth = DEPTH_MAX, .borrow = true, .dups = dups};

    *dups = (struct sw_json_dups){0};
    return sw_json_parse(r->arena, r->body, &o, ret, err);
}

static bool decode_json(struct api_req *r, struct sw_json **ret, struct sw_json_dups *dups)
{
    struct sw_err err = {0};

    if (api_parse_json(r, ret, dups, &err) == SW_OK)
        return true;
    unrecognized(r, sw_arena_printf(r->arena, "couldn't get version/kind; json parse error: %s",
                                    r->body.n ? err.msg : "unexpected end of JSON input"));
    return false;
}

bool api_decode_body(struct api_req *r, struct sw_json **ret, struct sw_json_dups *dups)
{
    struct sw_slice t = media_type(r->content_type);
    struct sw_err err = {0};

    *dups = (struct sw_json_dups){0};
    if (r->own.json) {
        *ret = sw_json_copy(r->arena, r->own.json);
        return true;
    }
    if (t.n == 0 || sw_slice_ieq(t, SW_SLICE_LIT("application/json")))
        return decode_json(r, ret, dups);
    if (sw_slice_ieq(t, SW_SLICE_LIT("application/yaml")))
        return decode_yaml(r, ret);
    if (sw_slice_ieq(t, SW_SLICE_LIT("application/vnd.kubernetes.protobuf")) &&
        (!r->res || r->res->builtin || r->verb == API_DELETE || r->verb == API_DELETECOLLECTION)) {
        if (sw_pb_decode(r->arena, r->body, ret, &err) == SW_OK)
            return true;
        api_bad_request(r, "%s", err.msg);
        return false;
    }
    api_fail(r, 415, "UnsupportedMediaType",
             "the body of the request was in an unknown format - accepted media types include: "
             "application/json, application/yaml%s",
             !r->res || r->res->builtin ? ", application/vnd.kubernetes.protobuf" : "");
    return false;
}

/* --- objects ---------------------------------------------------------------------------- */

static struct sw_slice version_of(struct sw_slice api_version)
{
    ptrdiff_t i = sw_slice_find(api_version, '/');

    return i < 0 ? api_version : sw_slice_from(api_version, (size_t)i + 1);
}

/* True when another group or version has the same built-in kind (events, autoscalers). */
static bool known_elsewhere(const struct api_req *r, struct sw_slice api_version)
{
    return sw_builtin_find(api_version, sw_slice_str(r->res->kind));
}

static void bad_patch(struct api_req *r, const struct sw_json *made, const char *why);

/* What a patch made of apiVersion and kind; false: 422 was sent. */
static bool patched_type_ok(struct api_req *r, const struct sw_json *obj,
                            const struct sw_json *made)
{
    struct sw_slice v = api_str(obj, "apiVersion");
    struct sw_slice k = api_str(obj, "kind");
    struct sw_arena *a = r->arena;
    struct sw_fpath p = sw_fpath_str(NULL, "apiVersion");
    struct sw_field_errs e;

    if (r->res->crd && !k.n) {
        bad_patch(r, made,
                  sw_arena_printf(a, "Object 'Kind' is missing in '%.*s'",
                                  SW_SLICE_ARG(sw_slice_head(sw_json_text(a, made, NULL), 4096))));
        return false;
    }
    if (r->res->crd && v.n && !sw_slice_eq_str(v, r->res->api_version)) {
        sw_field_errs_init(&e, a);
        sw_ferr_invalid_str(&e, &p, v, sw_arena_printf(a, "must be %s", r->res->api_version));
        api_invalid(r, api_meta_str(obj, "name"), &e);
        return false;
    }
    if (r->res->crd || ((!v.n || sw_slice_eq_str(v, r->res->api_version)) &&
                        (!k.n || sw_slice_eq_str(k, r->res->kind))))
        return true;
    if (!v.n)
        v = sw_slice_str(r->res->api_version);
    bad_patch(r, made,
              sw_builtin_find(v, k)
                  ? sw_arena_printf(a, "converting (%s.%.*s) to (core.%s): unknown conversion",
                                    r->res->version, SW_SLICE_ARG(k), r->res->kind)
                  : sw_arena_printf(a, "no kind \"%.*s\" is registered for version \"%.*s\"",
                                    SW_SLICE_ARG(k), SW_SLICE_ARG(v)));
    return false;
}

void api_settle_version(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_slice v = api_str(obj, "apiVersion");
    struct sw_slice rest = sw_slice_from(v, 1);

    if (v.n > 1 && v.p[0] == '/' && sw_slice_find(rest, '/') < 0)
        sw_json_put_str(a, obj, "apiVersion", rest);
}

/* apiVersion and kind against those of the URL. */
static bool check_type(struct api_req *r, struct sw_json *obj, const struct sw_json *made)
{
    struct sw_slice sent = api_str(obj, "kind");
    struct sw_slice k = sent.n || r->res->crd ? sent : sw_slice_str(r->res->kind);
    struct sw_arena *a = r->arena;
    struct sw_slice v;

    api_settle_version(a, obj);
    v = api_str(obj, "apiVersion");
    if (made && r->patch.strategic) { /* merged into the typed object, whose type stays */
        sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, r->res->api_version));
        sw_json_put(a, obj, "kind", sw_json_new_str(a, r->res->kind));
        return true;
    }
    if (made && !patched_type_ok(r, obj, made))
        return false;
    if (r->res->crd && (k.n == 0 || v.n == 0)) {
        unrecognized(r, sw_arena_printf(
                            a, "Object '%s' is missing in '%.*s'", k.n == 0 ? "Kind" : "apiVersion",
                            SW_SLICE_ARG(sw_slice_head(
                                r->body.n ? r->body : sw_json_text(a, obj, NULL), 4096))));
        return false;
    }
    if (v.n && !sw_slice_eq_str(v, r->res->api_version)) {
        if (r->res->builtin && !known_elsewhere(r, v)) {
            api_bad_request(r,
                            "%.*s in version \"%.*s\" cannot be handled as a %s: no kind \"%.*s\" "
                            "is registered for version \"%.*s\"",
                            SW_SLICE_ARG(k), SW_SLICE_ARG(version_of(v)), r->res->kind,
                            SW_SLICE_ARG(k), SW_SLICE_ARG(v));
            return false;
        }
        api_bad_request(r,
                        "the API version in the data (%.*s) does not match the expected API "
                        "version (%s)",
                        SW_SLICE_ARG(v), r->res->api_version);
        return false;
    }
    if (k.n && !sw_slice_eq_str(k, r->res->kind)) {
        struct sw_field_errs e;
        struct sw_fpath p = sw_fpath_str(NULL, "kind");

        if (r->res->builtin) {
            api_bad_request(r,
                            "%.*s in version \"%s\" cannot be handled as a %s: converting (%.*s) "
                            "to (%s): unknown conversion",
                            SW_SLICE_ARG(k), r->res->version, r->res->kind, SW_SLICE_ARG(k),
                            r->res->kind);
            return false;
        }
        sw_field_errs_init(&e, a);
        sw_ferr_invalid_str(&e, &p, k, sw_arena_printf(a, "must be %s", r->res->kind));
        api_invalid_kind(r, sw_arena_dup(a, k), r->res->group, api_meta_str(obj, "name"), &e);
        return false;
    }
    sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, r->res->api_version));
    sw_json_put(a, obj, "kind", sw_json_new_str(a, r->res->kind));
    return true;
}

/* An object that cannot be taken, in the words of the decoder. */
static const char *cannot_handle(struct api_req *r, const char *why)
{
    return sw_arena_printf(r->arena, "%s in version \"%s\" cannot be handled as a %s: %s",
                           r->res->kind, r->res->version, r->res->kind, why);
}

/* A patch that makes no object of the kind: what came of it is shown, or what was sent. */
static void bad_patch(struct api_req *r, const struct sw_json *made, const char *why)
{
    struct sw_fpath p = sw_fpath_str(NULL, "patch");
    struct sw_field_errs e;

    sw_field_errs_init(&e, r->arena);
    sw_ferr_invalid_str(&e, &p,
                        r->patch.text.p ? r->patch.text : sw_json_sorted_text(r->arena, made), why);
    api_invalid_kind(r, "", "", sw_slice("", 0), &e);
}

/* made: what a patch made of the object, NULL when it is no patch. */
static bool report_strict(struct api_req *r, const struct sw_texts *all, const struct sw_json *made)
{
    const char *text;

    if (all->n == 0 || r->write.validation == API_VALIDATE_IGNORE)
        return true;
    if (r->write.validation == API_VALIDATE_WARN) {
        for (size_t i = 0; i < all->n; i++)
            api_warn(r, "%s", all->p[i]);
        return true;
    }
    text = sw_arena_printf(r->arena, "strict decoding error: %s", sw_texts_join(all));
    if (made)
        bad_patch(r, made, text);
    else
        api_bad_request(r, "%s", cannot_handle(r, text));
    return false;
}

static bool decode_typed(struct api_req *r, struct sw_json *obj, struct sw_texts *unknown,
                         bool patch)
{
    const char *why = "";
    int rc;

    if (r->res->builtin)
        rc = sw_builtin_decode(r->arena, r->res->schema, obj, unknown, &why);
    else
        rc = sw_meta_decode(r->arena, obj, unknown, &why);
    if (rc == SW_OK)
        return true;
    why = cannot_handle(r, why);
    if (patch)
        bad_patch(r, obj, why);
    else
        api_bad_request(r, "%s", why);
    return false;
}

/* Places of the members a path like "spec.ports[0].name" leads through, into pos; how many. */
static size_t place_of(const struct sw_json *v, struct sw_slice path, size_t *pos, size_t max)
{
    size_t n = 0;

    while (path.n && v && n < max) {
        size_t len = 0;

        if (path.p[0] == '[') {
            uint64_t i = 0;

            while (len < path.n && path.p[len] != ']')
                len++;
            if (!sw_slice_to_u64(sw_slice(path.p + 1, len - 1), SIZE_MAX / 2, &i))
                break;
            pos[n++] = (size_t)i;
            v = v->type == SW_JSON_ARRAY && i < sw_json_len(v) ? sw_json_at(v, (size_t)i) : NULL;
            path = sw_slice_from(path, sw_min(len + 1, path.n));
        } else {
            struct sw_slice key;
            size_t i = 0;

            while (len < path.n && path.p[len] != '.' && path.p[len] != '[')
                len++;
            key = sw_slice_head(path, len);
            while (v->type == SW_JSON_OBJECT && i < sw_json_len(v) &&
                   !sw_slice_eq(sw_json_member_at(v, i)->key, key))
                i++;
            pos[n++] = i;
            v = v->type == SW_JSON_OBJECT && i < sw_json_len(v) ? sw_json_member_at(v, i)->value
                                                                : NULL;
            path = sw_slice_from(path, len);
        }
        if (path.n && path.p[0] == '.')
            path = sw_slice_from(path, 1);
    }
    return n;
}

/* True when x stands before y in the document. */
static bool stands_before(const struct sw_json *doc, struct sw_slice x, struct sw_slice y)
{
    size_t p[32];
    size_t q[32];
    size_t n = place_of(doc, x, p, SW_ARRAY_LEN(p));
    size_t m = place_of(doc, y, q, SW_ARRAY_LEN(q));

    for (size_t i = 0; i < n && i < m; i++) {
        if (p[i] != q[i])
            return p[i] < q[i];
    }
    return n < m;
}

/*
 * Repeated and unknown fields in the order a client of Kubernetes sees them: repeated ones first,
 * but as they stand in the document where that is decoded directly (sent).
 */
static void note_fields(struct api_req *r, struct sw_texts *all, const struct sw_json_dups *dups,
                        const struct sw_texts *unknown, const struct sw_json *sent)
{
    size_t k = 0;

    for (size_t i = 0; dups && i < dups->n; i++) {
        struct sw_slice path = dups->p[i].path;

        if (sent && sw_texts_has(unknown, path))
            continue; /* unknown is all there is to say */
        while (sent && k < unknown->n && stands_before(sent, sw_slice_str(unknown->p[k]), path))
            sw_texts_add(all, sw_arena_printf(r->arena, "unknown field \"%s\"", unknown->p[k++]));
        sw_texts_add(all,
                     sw_arena_printf(r->arena, "duplicate field \"%.*s\"", SW_SLICE_ARG(path)));
    }
    for (; k < unknown->n; k++)
        sw_texts_add(all, sw_arena_printf(r->arena, "unknown field \"%s\"", unknown->p[k]));
}

/* The same owner twice counts once, with a warning. */
static void drop_repeated_owners(struct api_req *r, struct sw_json *list)
{
    struct sw_texts uids = {.arena = r->arena};
    struct sw_map seen = {0};

    if (sw_json_len(list) > SW_META_REFS_MAX)
        return; /* refused for that */
    for (size_t i = 0; sw_json_is(list, SW_JSON_ARRAY) && i < sw_json_len(list);) {
        struct sw_json *owner = sw_json_at(list, i);

        if (!sw_map_put(&seen, sw_json_sorted_text(r->arena, owner), owner)) {
            i++;
            continue;
        }
        if (api_str(owner, "uid").n)
            sw_texts_add(&uids, sw_arena_dup(r->arena, sw_slice_head(api_str(owner, "uid"), 64)));
        (void)sw_json_remove_at(list, i);
    }
    sw_map_done(&seen);
    if (uids.n)
        api_warn(r,
                 ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
                 "references in 1.20+, and may reject such requests as early as 1.24; please fix "
                 "your requests; duplicate UID(s) observed: %s",
                 sw_texts_join(&uids));
}

bool api_admit_object(struct api_req *r, struct sw_json *obj, const struct sw_json_dups *dups,
                      bool patch)
{
    struct sw_texts unknown = {.arena = r->arena};
    struct sw_texts all = {.arena = r->arena};
    const struct sw_json *made = patch ? obj : NULL;
    const struct sw_json *sent = NULL; /* as it came, when its order matters */
    size_t n_meta;

    if (!sw_json_is(obj, SW_JSON_OBJECT)) {
        api_bad_request(r,
                        "couldn't get version/kind; json parse error: the body is not an object");
        return false;
    }
    if (patch && !r->patch.text.p && r->write.validation == API_VALIDATE_STRICT)
        made = sw_json_copy(r->arena, obj); /* before anything is taken out of it */
    if (dups && dups->n && !patch && r->res->builtin)
        sent = sw_json_copy(r->arena, obj);
    if (!check_type(r, obj, made) || !decode_typed(r, obj, &unknown, patch))
        return false;
    n_meta = unknown.n;
    if (r->res->crd) {
        const char *why = "";

        sw_schema_prune(obj, api_res_schema(r->res), &unknown);
        if (sw_embedded_decode(r->arena, obj, api_res_schema(r->res), &unknown, &why) < 0) {
            api_bad_request(r, "%s", cannot_handle(r, why));
            return false;
        }
    }
    /* Decoded from maps: sorted, metadata of custom resources first. */
    if (unknown.n && (r->res->crd || patch)) {
        n_meta = r->res->crd ? n_meta : 0;
        sw_text_sort(unknown.p, n_meta);
        sw_text_sort(unknown.p + n_meta, unknown.n - n_meta);
    }
    for (size_t i = 0; patch && i < r->patch.notes.n; i++)
        sw_texts_add(&all, r->patch.notes.p[i]);
    note_fields(r, &all, dups, &unknown, sent);
    if (!report_strict(r, &all, made))
        return false;
    drop_repeated_owners(r, sw_json_walk(obj, "metadata", "ownerReferences", NULL));
    if (r->res->crd) {
        sw_schema_drop_nulls(obj, api_res_schema(r->res));
        if (!api_default(r, obj))
            return false;
    } else {
        sw_builtin_default(r->arena, r->res->builtin, obj);
    }
    return true;
}

/* --- options ---------------------------------------------------------------------------- */

static bool printable(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    }
    return true;
}

static void read_manager(struct api_req *r, struct sw_field_errs *e)
{
    struct sw_slice m = api_param(r, "fieldManager");
    struct sw_fpath p = sw_fpath_str(NULL, "fieldManager");
    struct sw_slice agent;

    if (m.n > 128)
        sw_ferr_too_long(e, &p, 128);
    else if (!printable(m))
        sw_ferr_invalid_str(e, &p, m, "should only contain printable characters");
    if (m.n == 0 && r->x) {
        agent = sw_xchg_field(r->x, "user-agent");
        m = agent.n ? sw_slice_cut(&agent, '/') : agent;
        m = sw_slice_head(m, 128);
    }
    if (m.n == 0)
        m = r->x ? SW_SLICE_LIT("unknown") : SW_SLICE_LIT("kube-controller-manager");
    r->write.manager = m;
}

void api_take_dry_run(struct api_req *r, struct sw_field_errs *e, const struct sw_json *list)
{
    struct sw_fpath p = sw_fpath_str(NULL, "dryRun");
    struct sw_texts given = {.arena = r->arena};
    bool ok = true;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);

        ok = ok && sw_json_str_eq(v, "All");
        sw_texts_add(&given, sw_go_quote(r->arena, sw_json_str(v)));
    }
    if (!ok)
        sw_ferr(e, SW_CAUSE_NOT_SUPPORTED, &p,
                sw_arena_printf(r->arena,
                                "Unsupported value: []string{%s}: supported values: \"All\"",
                                sw_texts_join(&given)));
    else if (sw_json_len(list))
        r->write.dry_run = true;
}

struct sw_json *api_dry_run_json(const struct api_req *r)
{
    return r->write.dry_run ? sw_json_new_list(r->arena, sw_json_new_str(r->arena, "All")) : NULL;
}

enum { DRY_RUN_MAX = 16 };

static struct sw_json *dry_run_params(struct api_req *r)
{
    struct sw_json *list = sw_json_new_array(r->arena);

    for (size_t i = 0; i < r->query.n && sw_json_len(list) < DRY_RUN_MAX; i++) {
        if (sw_slice_eq_str(r->query.params[i].name, "dryRun"))
            sw_json_push(r->arena, list, sw_json_new_string(r->arena, r->query.params[i].value));
    }
    return list;
}

bool api_write_options(struct api_req *r, const char *kind)
{
    static const char *const modes[] = {"", "Ignore", "Strict", "Warn", NULL};
    struct sw_field_errs e;
    struct sw_slice v = api_param(r, "fieldValidation");

    sw_field_errs_init(&e, r->arena);
    api_take_dry_run(r, &e, dry_run_params(r));
    read_manager(r, &e);
    r->write.validation = API_VALIDATE_WARN;
    if (sw_slice_eq_str(v, "Strict")) {
        r->write.validation = API_VALIDATE_STRICT;
    } else if (sw_slice_eq_str(v, "Ignore")) {
        r->write.validation = API_VALIDATE_IGNORE;
    } else if (v.n && !sw_slice_eq_str(v, "Warn")) {
        struct sw_fpath f = sw_fpath_str(NULL, "fieldValidation");

        sw_ferr_unsupported(&e, &f, sw_json_new_string(r->arena, v), modes);
    }
    if (!r->x)
        r->write.validation = API_VALIDATE_IGNORE;
    r->write.force = api_param_bool(r, "force");
    return api_options_ok(r, kind, &e);
}

bool api_check_namespace(struct api_req *r, struct sw_slice ns)
{
    if (!r->res->namespaced || !ns.n || sw_slice_eq(ns, r->ns))
        return true;
    api_bad_request(r, "the namespace of the provided object does not match the namespace sent on "
                       "the request");
    return false;
}
