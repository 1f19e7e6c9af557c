/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a request into the types of the built-in kinds. */
#include "kube/builtin/builtin.h"

#include "base/base64.h"
#include "base/time.h"
#include "kube/builtin/builtin_int.h"
#include "kube/cel/cel_priv.h"
#include "kube/text.h"

struct decoder {
    struct sw_arena *a;
    struct sw_texts *unknown;
    const char *why;
    bool root;
};

static int decode_struct(struct decoder *d, const struct sw_pb_type *t, struct sw_json *v,
                         const struct sw_fpath *path);

static int mismatch(struct decoder *d, const struct sw_json *v, const struct sw_fpath *path,
                    const char *want)
{
    d->why = sw_arena_printf(d->a, "json: cannot unmarshal %s into Go struct field %s of type %s",
                             v->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(v->type),
                             sw_fpath_text(d->a, path), want);
    return SW_EINVAL;
}

static int decode_time(struct decoder *d, struct sw_json *v, bool micros)
{
    char out[SW_RFC3339_LEN];
    int64_t sec;
    int32_t ns;

    if (!cel_parse_time(v->text, &sec, &ns) || sec < 0) {
        d->why = sw_arena_printf(d->a,
                                 "parsing time %s as \"2006-01-02T15:04:05Z07:00\": cannot "
                                 "parse it",
                                 sw_go_quote(d->a, v->text));
        return SW_EINVAL;
    }
    v->text = sw_arena_slice(
        d->a, sw_slice_str(sw_rfc3339((uint64_t)sec * SW_NS_PER_S + (uint64_t)ns, micros, out)));
    return SW_OK;
}

static int decode_bytes(struct decoder *d, const struct sw_json *v)
{
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, v->text.n + 8);
    if (sw_base64_decode(&b, v->text) == SW_OK)
        return SW_OK;
    d->why = "illegal base64 data";
    return SW_EINVAL;
}

static int decode_scalar(struct decoder *d, const struct sw_kube_pb_field *f, struct sw_json *v,
                         const struct sw_fpath *path)
{
    int64_t n;

    switch (f->kind) {
    case SW_PB_STRING:
        return v->type == SW_JSON_STRING ? SW_OK : mismatch(d, v, path, "string");
    case SW_PB_INT:
        if (v->type != SW_JSON_NUMBER || !sw_json_exact_i64(v, &n))
            return mismatch(d, v, path, "int32");
        return SW_OK;
    case SW_PB_BOOL:
        return v->type == SW_JSON_BOOL ? SW_OK : mismatch(d, v, path, "bool");
    case SW_PB_BYTES:
        return v->type == SW_JSON_STRING ? decode_bytes(d, v) : mismatch(d, v, path, "[]uint8");
    case SW_PB_TIME:
    case SW_PB_MICROTIME:
        if (v->type != SW_JSON_STRING)
            return mismatch(d, v, path, "string");
        return decode_time(d, v, f->kind == SW_PB_MICROTIME);
    case SW_PB_INT_OR_STRING:
        if (v->type != SW_JSON_STRING && !sw_json_is_integer(v))
            return mismatch(d, v, path, "intstr.IntOrString");
        return SW_OK;
    case SW_PB_QUANTITY:
        if (v->type != SW_JSON_STRING && v->type != SW_JSON_NUMBER)
            return mismatch(d, v, path, "resource.Quantity");
        return SW_OK;
    case SW_PB_ITEMS:
        return v->type == SW_JSON_ARRAY ? SW_OK : mismatch(d, v, path, "[]string");
    case SW_PB_JSON:
        return SW_OK;
    case SW_PB_MESSAGE:
        break;
    }
    if (v->type != SW_JSON_OBJECT)
        return mismatch(d, v, path, sw_arena_dup(d->a, f->type_name));
    return decode_struct(d, f->type, v, path);
}

static int decode_field(struct decoder *d, const struct sw_kube_pb_field *f, struct sw_json *v,
                        const struct sw_fpath *path)
{
    if (f->repeated) {
        if (v->type != SW_JSON_ARRAY)
            return mismatch(d, v, path, "slice");
        for (size_t i = 0; i < sw_json_len(v); i++) {
            struct sw_fpath at = sw_fpath_index(path, i);

            if (decode_scalar(d, f, sw_json_at(v, i), &at) < 0)
                return SW_EINVAL;
        }
        return SW_OK;
    }
    if (!f->map)
        return decode_scalar(d, f, v, path);
    if (v->type != SW_JSON_OBJECT)
        return mismatch(d, v, path, "map[string]string");
    SW_JSON_MEMBERS (m, v) {
        struct sw_fpath at = sw_fpath_field(path, m->key);

        /* null in a map is the zero value of its type. */
        if (m->value->type == SW_JSON_NULL && f->kind != SW_PB_MESSAGE)
            *m->value = *sw_json_new_str(d->a, "");
        else if (decode_scalar(d, f, m->value, &at) < 0)
            return SW_EINVAL;
    }
    return SW_OK;
}

/* What Go's omitempty leaves out. */
static bool omitted(const struct sw_kube_pb_field *f, const struct sw_json *v)
{
    int64_t n;

    if (v->type == SW_JSON_NULL)
        return true;
    if (f->keep || f->always || f->kind == SW_PB_JSON)
        return false;
    if (f->repeated || f->map)
        return !sw_json_len(v);
    if (f->kind == SW_PB_STRING)
        return !sw_json_str(v).n;
    if (f->kind == SW_PB_BOOL)
        return !v->boolean;
    return f->kind == SW_PB_INT && sw_json_exact_i64(v, &n) && n == 0;
}

static const struct sw_kube_pb_field *field_named(const struct sw_pb_type *t, struct sw_slice name)
{
    for (size_t i = 0; i < t->nfields; i++) {
        if (sw_slice_eq(t->fields[i].name, name))
            return &t->fields[i];
    }
    return NULL;
}

struct keep {
    const struct sw_pb_type *type;
    bool root;
};

static bool kept(const struct sw_json_member *m, const void *arg)
{
    const struct keep *k = arg;
    const struct sw_kube_pb_field *f = field_named(k->type, m->key);

    if (!f)
        return k->root &&
               (sw_slice_eq_str(m->key, "apiVersion") || sw_slice_eq_str(m->key, "kind"));
    return !omitted(f, m->value);
}

static int decode_struct(struct decoder *d, const struct sw_pb_type *t, struct sw_json *v,
                         const struct sw_fpath *path)
{
    struct keep k = {.type = t, .root = !path};

    SW_JSON_MEMBERS (m, v) {
        const struct sw_kube_pb_field *f = field_named(t, m->key);
        struct sw_fpath at = sw_fpath_field(path, m->key);

        if (!f && !path &&
            (sw_slice_eq_str(m->key, "apiVersion") || sw_slice_eq_str(m->key, "kind")))
            continue;
        if (f && m->value->type != SW_JSON_NULL && decode_field(d, f, m->value, &at) < 0)
            return SW_EINVAL;
        if (!f && d->unknown && d->unknown->n < 100)
            sw_texts_add(d->unknown, sw_fpath_text(d->unknown->arena, &at));
    }
    (void)sw_json_filter(v, kept, &k);
    for (size_t i = 0; i < t->nfields; i++) {
        if (!t->fields[i].always || sw_json_get(v, t->fields[i].name))
            continue;
        sw_json_set(d->a, v, t->fields[i].name, sw_json_new_object(d->a));
        if (decode_struct(d, t->fields[i].type, sw_json_get(v, t->fields[i].name),
                          &(struct sw_fpath){0}) < 0)
            return SW_EINVAL;
    }
    return SW_OK;
}

int sw_builtin_decode(struct sw_arena *a, const struct sw_schema *s, struct sw_json *v,
                      struct sw_texts *unknown, const char **ret_why)
{
    struct decoder d = {.a = a, .unknown = unknown};
    const struct sw_pb_type *t = sw_builtin_type(s->ref);

    if (!t || v->type != SW_JSON_OBJECT) {
        *ret_why = "not an object";
        return SW_EINVAL;
    }
    if (decode_struct(&d, t, v, NULL) < 0) {
        *ret_why = d.why;
        return SW_EINVAL;
    }
    return SW_OK;
}

int sw_meta_decode(struct sw_arena *a, struct sw_json *obj, struct sw_texts *unknown,
                   const char **ret_why)
{
    struct decoder d = {.a = a, .unknown = unknown};
    struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");

    if (!meta || meta->type == SW_JSON_NULL)
        return SW_OK;
    if (meta->type != SW_JSON_OBJECT) {
        (void)mismatch(&d, meta, &path, "v1.ObjectMeta");
        *ret_why = d.why;
        return SW_EINVAL;
    }
    if (decode_struct(&d, sw_builtin_type(SW_SLICE_LIT("ObjectMeta")), meta, &path) < 0) {
        *ret_why = d.why;
        return SW_EINVAL;
    }
    return SW_OK;
}
