/* SPDX-License-Identifier: Apache-2.0 */
/* Table-driven protobuf to JSON; see protobuf.h. */
#include "kube/builtin/protobuf.h"

#include "base/base64.h"
#include "base/time.h"
#include "base/utf8.h"
#include "kube/builtin/builtin.h"

struct reader {
    struct sw_arena *a;
    struct sw_err *err;
    size_t nodes;
};

struct field {
    uint32_t number;
    unsigned wire;
    uint64_t value;       /* varint, fixed */
    struct sw_slice data; /* length-delimited */
};

static bool varint(struct sw_slice *in, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && in->n; shift += 7) {
        unsigned char c = (unsigned char)in->p[0];

        *in = sw_slice_from(*in, 1);
        if (shift == 63 && c > 1)
            return false;
        *ret |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

static bool fixed(struct sw_slice *in, size_t n, uint64_t *ret)
{
    if (in->n < n)
        return false;
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        *ret |= (uint64_t)(unsigned char)in->p[i] << (8 * i);
    *in = sw_slice_from(*in, n);
    return true;
}

/* The next field; groups are refused. */
static bool next_field(struct sw_slice *in, struct field *f)
{
    uint64_t tag, len;

    if (!varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = (unsigned)(tag & 7)};
    switch (f->wire) {
    case 0:
        return varint(in, &f->value);
    case 1:
        return fixed(in, 8, &f->value);
    case 5:
        return fixed(in, 4, &f->value);
    case 2:
        if (!varint(in, &len) || len > in->n)
            return false;
        f->data = sw_slice_head(*in, (size_t)len);
        *in = sw_slice_from(*in, (size_t)len);
        return true;
    default:
        return false;
    }
}

static int malformed(struct reader *r, const char *what)
{
    return sw_err_set(r->err, SW_EINVAL, "malformed protobuf: %s", what);
}

static int count(struct reader *r)
{
    if (++r->nodes > SW_PB_NODES_MAX)
        return sw_err_set(r->err, SW_ELIMIT, "too many values in the body");
    return SW_OK;
}

static int read_time(struct reader *r, struct sw_slice in, bool micros, struct sw_json **ret)
{
    int64_t sec = 0;
    int64_t nanos = 0;
    char out[SW_RFC3339_LEN];
    bool any = in.n;

    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return malformed(r, "time");
        if (f.number == 1 && f.wire == 0)
            sec = (int64_t)f.value;
        else if (f.number == 2 && f.wire == 0)
            nanos = (int32_t)f.value;
    }
    *ret = NULL;
    /* The zero time is year one: Go writes it as null. */
    if (!any || sec == INT64_C(-62135596800))
        return SW_OK;
    if (sec < 0 || sec > INT64_C(253402300799) || nanos < 0 || nanos > 999999999)
        return malformed(r, "time out of range");
    *ret = sw_json_new_str(r->a,
                           sw_rfc3339((uint64_t)sec * SW_NS_PER_S + (uint64_t)nanos, micros, out));
    return SW_OK;
}

static int read_int_or_string(struct reader *r, struct sw_slice in, struct sw_json **ret)
{
    uint64_t type = 0;
    int64_t num = 0;
    struct sw_slice text = sw_slice("", 0);

    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return malformed(r, "int or string");
        if (f.number == 1 && f.wire == 0)
            type = f.value;
        else if (f.number == 2 && f.wire == 0)
            num = (int32_t)f.value;
        else if (f.number == 3 && f.wire == 2)
            text = f.data;
    }
    if (type == 1 && !sw_utf8_valid(text))
        return malformed(r, "text is not UTF-8");
    *ret = type == 1 ? sw_json_new_string(r->a, text) : sw_json_new_i64(r->a, num);
    return SW_OK;
}

static int read_raw_json(struct reader *r, struct sw_slice in, struct sw_json **ret)
{
    const struct sw_json_opts opts = {.max_nodes = SW_PB_NODES_MAX, .max_depth = 100};

    *ret = NULL;
    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return malformed(r, "raw JSON");
        if (f.number == 1 && f.wire == 2 && f.data.n &&
            sw_json_parse(r->a, f.data, &opts, ret, NULL) < 0)
            return malformed(r, "raw JSON");
    }
    return SW_OK;
}

static int read_items(struct reader *r, struct sw_slice in, struct sw_json **ret)
{
    *ret = sw_json_new_array(r->a);
    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return malformed(r, "list");
        if (f.number != 1 || f.wire != 2)
            continue;
        if (count(r) < 0)
            return SW_ELIMIT;
        if (!sw_utf8_valid(f.data))
            return malformed(r, "text is not UTF-8");
        sw_json_push(r->a, *ret, sw_json_new_string(r->a, f.data));
    }
    return SW_OK;
}

static int read_message(struct reader *r, const struct sw_pb_type *t, struct sw_slice in,
                        unsigned depth, struct sw_json **ret);

static int read_bytes(struct reader *r, struct sw_slice data, struct sw_json **ret)
{
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, data.n * 2 + 8);
    if (sw_base64_append(&b, data) < 0)
        return malformed(r, "bytes");
    *ret = sw_json_new_string(r->a, sw_buf_slice(&b));
    return SW_OK;
}

/* Field 1 of a message that JSON does not show; number 0 when there is none. */
static bool unwrap(const struct field *f, struct field *ret)
{
    struct sw_slice in = f->data;

    *ret = (struct field){0};
    while (in.n) {
        struct field x;

        if (!next_field(&in, &x))
            return false;
        if (x.number == 1)
            *ret = x;
    }
    return f->wire == 2;
}

/* Zero is written as no field at all. */
static int read_quantity(struct reader *r, const struct field *f, struct sw_json **ret)
{
    struct field text;

    if (!unwrap(f, &text) || (text.number && text.wire != 2) || !sw_utf8_valid(text.data))
        return malformed(r, "quantity");
    *ret = sw_json_new_string(r->a, text.data.n ? text.data : SW_SLICE_LIT("0"));
    return SW_OK;
}

/* The value of one field; *ret stays NULL when it means "absent". */
static int read_value(struct reader *r, const struct sw_kube_pb_field *d, const struct field *f,
                      unsigned depth, struct sw_json **ret)
{
    bool numeric = d->kind == SW_PB_INT || d->kind == SW_PB_BOOL;

    *ret = NULL;
    if (count(r) < 0)
        return SW_ELIMIT;
    if (f->wire != (numeric ? 0u : 2u))
        return malformed(r, "unexpected wire type");
    switch (d->kind) {
    case SW_PB_STRING:
        if (!sw_utf8_valid(f->data))
            return malformed(r, "text is not UTF-8");
        *ret = sw_json_new_string(r->a, f->data);
        return SW_OK;
    case SW_PB_INT:
        *ret = sw_json_new_i64(r->a, (int64_t)f->value);
        return SW_OK;
    case SW_PB_BOOL:
        *ret = sw_json_new_bool(r->a, f->value);
        return SW_OK;
    case SW_PB_BYTES:
        return read_bytes(r, f->data, ret);
    case SW_PB_TIME:
    case SW_PB_MICROTIME:
        return read_time(r, f->data, d->kind == SW_PB_MICROTIME, ret);
    case SW_PB_INT_OR_STRING:
        return read_int_or_string(r, f->data, ret);
    case SW_PB_QUANTITY:
        return read_quantity(r, f, ret);
    case SW_PB_JSON:
        return read_raw_json(r, f->data, ret);
    case SW_PB_ITEMS:
        return read_items(r, f->data, ret);
    case SW_PB_MESSAGE:
        return read_message(r, d->type, f->data, depth + 1, ret);
    }
    return malformed(r, "field");
}

static bool zero(const struct sw_json *v)
{
    int64_t n;

    switch (v->type) {
    case SW_JSON_STRING:
        return !v->text.n;
    case SW_JSON_NUMBER:
        return sw_json_i64(v, &n) && n == 0;
    case SW_JSON_BOOL:
        return !v->boolean;
    case SW_JSON_NULL:
        return true;
    case SW_JSON_ARRAY:
    case SW_JSON_OBJECT:
        break;
    }
    return false;
}

/* A map entry {1 key, 2 value}; a missing value is the zero of its type. */
static int read_entry(struct reader *r, const struct sw_kube_pb_field *d, struct sw_slice in,
                      unsigned depth, struct sw_json *map)
{
    struct sw_slice key = sw_slice("", 0);
    struct sw_json *value = NULL;

    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return malformed(r, "map entry");
        if (f.number == 1 && f.wire == 2) {
            key = f.data;
        } else if (f.number == 2) {
            int rc = read_value(r, d, &f, depth, &value);

            if (rc < 0)
                return rc;
        }
    }
    if (!sw_utf8_valid(key))
        return malformed(r, "key is not UTF-8");
    if (!value)
        value = d->kind == SW_PB_STRING || d->kind == SW_PB_BYTES ? sw_json_new_str(r->a, "")
                                                                  : sw_json_new_null(r->a);
    sw_json_set(r->a, map, key, value);
    return SW_OK;
}

static int put_field(struct reader *r, const struct sw_kube_pb_field *d, const struct field *f,
                     unsigned depth, struct sw_json *out)
{
    struct sw_json *old = sw_json_get(out, d->name);
    struct field inner;
    struct sw_json *v;
    int rc;

    if (d->map) {
        if (f->wire != 2)
            return malformed(r, "map entry");
        if (!old) {
            old = sw_json_new_object(r->a);
            sw_json_set(r->a, out, d->name, old);
        }
        return read_entry(r, d, f->data, depth, old);
    }
    if (d->wrapped) {
        if (!unwrap(f, &inner))
            return malformed(r, "wrapped field");
        if (!inner.number)
            return SW_OK;
        f = &inner;
    }
    rc = read_value(r, d, f, depth, &v);
    if (rc < 0 || !v)
        return rc;
    if (d->repeated) {
        if (!old) {
            old = sw_json_new_array(r->a);
            sw_json_set(r->a, out, d->name, old);
        }
        sw_json_push(r->a, old, v);
    } else if (d->keep || !zero(v)) {
        sw_json_set(r->a, out, d->name, v);
    }
    return SW_OK;
}

/* What a number means inside the messages whose numbers led here. */
enum place { PLACE_NONE, PLACE_FIELD, PLACE_AROUND };

/* Numbers of the fields around a place, from the outermost message. */
struct path {
    uint32_t number[3];
    uint32_t n;
};

static enum place find_place(const struct sw_pb_type *t, const struct path *path,
                             const struct sw_kube_pb_field **ret)
{
    enum place found = PLACE_NONE;
    uint32_t last = path->n - 1;

    for (size_t i = 0; i < t->nfields; i++) {
        const struct sw_kube_pb_field *d = &t->fields[i];
        bool inside =
            d->nouter >= last && memcmp(d->outer, path->number, last * sizeof(*path->number)) == 0;

        if (inside && d->nouter == last && d->number == path->number[last]) {
            *ret = d;
            return PLACE_FIELD;
        }
        if (inside && d->nouter > last && d->outer[last] == path->number[last])
            found = PLACE_AROUND;
    }
    return found;
}

/* Fields of a message, or of one around some of them: path says which. */
static int read_fields(struct reader *r, const struct sw_pb_type *t, struct sw_slice in,
                       const struct path *around, unsigned depth, struct sw_json *out)
{
    struct path path = *around;

    path.n++;
    while (in.n) {
        const struct sw_kube_pb_field *d = NULL;
        struct field f;
        int rc = SW_OK;

        if (!next_field(&in, &f))
            return malformed(r, "field");
        path.number[around->n] = f.number;
        switch (f.number ? find_place(t, &path, &d) : PLACE_NONE) {
        case PLACE_NONE:
            break;
        case PLACE_FIELD:
            rc = put_field(r, d, &f, depth, out);
            break;
        case PLACE_AROUND:
            rc = f.wire == 2 ? read_fields(r, t, f.data, &path, depth, out)
                             : malformed(r, "unexpected wire type");
            break;
        }
        if (rc < 0)
            return rc;
    }
    return SW_OK;
}

static int read_message(struct reader *r, const struct sw_pb_type *t, struct sw_slice in,
                        unsigned depth, struct sw_json **ret)
{
    struct sw_json *out = sw_json_new_object(r->a);
    int rc;

    if (depth > SW_PB_DEPTH_MAX)
        return sw_err_set(r->err, SW_ELIMIT, "messages are nested too deeply");
    rc = read_fields(r, t, in, &(struct path){0}, depth, out);
    if (rc < 0)
        return rc;
    *ret = out;
    return SW_OK;
}

struct envelope {
    struct sw_slice api_version;
    struct sw_slice kind;
    struct sw_slice raw;
};

static bool read_type_meta(struct sw_slice in, struct envelope *e)
{
    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return false;
        if (f.number == 1 && f.wire == 2)
            e->api_version = f.data;
        else if (f.number == 2 && f.wire == 2)
            e->kind = f.data;
    }
    return sw_utf8_valid(e->api_version) && sw_utf8_valid(e->kind);
}

static int open_envelope(struct sw_slice in, struct envelope *e, struct sw_err *err)
{
    *e = (struct envelope){{"", 0}, {"", 0}, {"", 0}};
    if (!sw_slice_has_prefix(in, sw_slice("k8s\0", 4)))
        return sw_err_set(err, SW_EINVAL, "provided data does not appear to be a protobuf message");
    in = sw_slice_from(in, 4);
    while (in.n) {
        struct field f;

        if (!next_field(&in, &f))
            return sw_err_set(err, SW_EINVAL, "malformed protobuf: envelope");
        if (f.number == 1 && f.wire == 2) {
            if (!read_type_meta(f.data, e))
                return sw_err_set(err, SW_EINVAL, "malformed protobuf: type");
        } else if (f.number == 2 && f.wire == 2) {
            e->raw = f.data;
        } else if (f.number == 3 && f.wire == 2 && f.data.n) {
            return sw_err_set(err, SW_EINVAL, "encoded protobuf content is not supported");
        }
    }
    return SW_OK;
}

int sw_pb_decode(struct sw_arena *a, struct sw_slice body, struct sw_json **ret, struct sw_err *err)
{
    struct reader r = {.a = a, .err = err};
    const struct sw_pb_type *t;
    const struct sw_builtin *b;
    struct envelope e;
    struct sw_json *v;
    int rc = open_envelope(body, &e, err);

    if (rc < 0)
        return rc;
    b = sw_builtin_find(e.api_version, e.kind);
    t = sw_builtin_type(b ? sw_slice_str(b->type) : e.kind);
    if (!t)
        return sw_err_set(err, SW_ENOENT, "no protobuf form of kind '%.*s'",
                          (int)sw_min(e.kind.n, 64), e.kind.p);
    rc = read_message(&r, t, e.raw, 0, &v);
    if (rc < 0)
        return rc;
    sw_json_insert(a, v, 0, SW_SLICE_LIT("apiVersion"), sw_json_new_string(a, e.api_version));
    sw_json_insert(a, v, 0, SW_SLICE_LIT("kind"), sw_json_new_string(a, e.kind));
    *ret = v;
    return SW_OK;
}
