/* SPDX-License-Identifier: Apache-2.0 */
/* Tree and token stream to JSON text. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/hex.h"
#include "base/json.h"
#include "base/search.h"
#include "base/utf8.h"

/* ---- strings ---- */

static inline bool copies_as_is(unsigned char c, unsigned flags)
{
    if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
        return false;
    return !(flags & SW_JSON_GO_ESCAPE) || (c != '<' && c != '>' && c != '&');
}

/* First byte that needs a closer look. */
static const char *skip_as_is(const char *s, const char *end, unsigned flags)
{
#if defined(__SSE2__)
    bool go = flags & SW_JSON_GO_ESCAPE;

    while (end - s >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)s);
        __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                    _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));

        stop = _mm_or_si128(stop, _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)));
        if (go) {
            stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('<')));
            stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('>')));
            stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('&')));
        }
        unsigned mask = (unsigned)_mm_movemask_epi8(stop);

        if (mask)
            return s + __builtin_ctz(mask);
        s += 16;
    }
#endif
    while (s < end && copies_as_is((unsigned char)*s, flags))
        s++;
    return s;
}

static int put_u(struct sw_buf *out, unsigned c)
{
    char text[6] = {
        '\\',           'u', sw_hex_lower(c >> 12), sw_hex_lower(c >> 8), sw_hex_lower(c >> 4),
        sw_hex_lower(c)};

    return sw_buf_append(out, text, sizeof(text));
}

static int put_ascii_escape(struct sw_buf *out, char c)
{
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char to[] = "\"\\nrtbf";
    const char *hit = c ? strchr(from, c) : NULL;
    char text[2] = {'\\', 0};

    if (!hit)
        return put_u(out, (unsigned char)c);
    text[1] = to[hit - from];
    return sw_buf_append(out, text, 2);
}

/* The byte or sequence at *s, which cannot be copied blindly. */
static int put_special(struct sw_buf *out, const char **s, const char *end, unsigned flags)
{
    size_t n;
    int rc;

    if ((unsigned char)**s < 0x80) {
        rc = put_ascii_escape(out, **s);
        (*s)++;
        return rc;
    }
    n = sw_utf8_len(*s, (size_t)(end - *s));
    if (n == 0) {
        (*s)++;
        return put_u(out, 0xfffd);
    }
    if ((flags & SW_JSON_GO_ESCAPE) && n == 3 &&
        (memcmp(*s, "\xe2\x80\xa8", 3) == 0 || memcmp(*s, "\xe2\x80\xa9", 3) == 0))
        rc = put_u(out, (*s)[2] == '\xa8' ? 0x2028 : 0x2029);
    else
        rc = sw_buf_append(out, *s, n);
    *s += n;
    return rc;
}

int sw_json_write_string(struct sw_buf *out, struct sw_slice in, unsigned flags)
{
    const char *s = in.p;
    const char *end = in.n ? in.p + in.n : s; /* NULL plus 0 is not defined */
    const char *stop = in.n ? skip_as_is(s, end, flags) : s;
    int rc;

    if (stop == end) { /* nothing to escape: one reservation */
        char *to = sw_buf_reserve(out, in.n + 2);

        if (!to)
            return SW_ELIMIT;
        to[0] = '"';
        if (in.n)
            memcpy(to + 1, s, in.n);
        to[in.n + 1] = '"';
        sw_buf_commit(out, in.n + 2);
        return SW_OK;
    }
    rc = sw_buf_putc(out, '"');
    while (rc == SW_OK && s < end) {
        rc = sw_buf_append(out, s, (size_t)(stop - s));
        s = stop;
        if (rc == SW_OK && s < end)
            rc = put_special(out, &s, end, flags);
        stop = s < end ? skip_as_is(s, end, flags) : end;
    }
    return rc == SW_OK ? sw_buf_putc(out, '"') : rc;
}

/* ---- token stream ---- */

static void emit(struct sw_jw *w, const char *p, size_t n)
{
    if (w->rc == SW_OK)
        w->rc = sw_buf_append(w->out, p, n);
}

static void newline(struct sw_jw *w)
{
    size_t n = 1 + (size_t)w->depth * w->opts.indent;
    char *to;

    if (w->opts.indent == 0 || w->rc != SW_OK)
        return;
    to = sw_buf_reserve(w->out, n);
    if (!to) {
        w->rc = SW_ELIMIT;
        return;
    }
    to[0] = '\n';
    memset(to + 1, ' ', n - 1);
    sw_buf_commit(w->out, n);
}

/* What stands between the previous token and the next value or key. */
static void separate(struct sw_jw *w)
{
    if (w->keyed) {
        w->keyed = false;
        return;
    }
    if (w->comma)
        emit(w, ",", 1);
    if (w->depth)
        newline(w);
}

static void scalar(struct sw_jw *w, const char *p, size_t n)
{
    separate(w);
    emit(w, p, n);
    w->comma = true;
}

static void open_container(struct sw_jw *w, char c)
{
    scalar(w, &c, 1);
    w->depth++;
    w->comma = false;
}

static void close_container(struct sw_jw *w, char c)
{
    assert(w->depth > 0 && !w->keyed);
    w->depth--;
    if (w->comma)
        newline(w);
    emit(w, &c, 1);
    w->comma = true;
}

void sw_jw_begin(struct sw_jw *w, struct sw_buf *out, const struct sw_json_write_opts *opts)
{
    *w = (struct sw_jw){.out = out};
    if (opts)
        w->opts = *opts;
}

int sw_jw_end(struct sw_jw *w)
{
    assert(w->depth == 0 && !w->keyed);
    return w->rc;
}

void sw_jw_object(struct sw_jw *w)
{
    open_container(w, '{');
}

void sw_jw_object_end(struct sw_jw *w)
{
    close_container(w, '}');
}

void sw_jw_array(struct sw_jw *w)
{
    open_container(w, '[');
}

void sw_jw_array_end(struct sw_jw *w)
{
    close_container(w, ']');
}

void sw_jw_key(struct sw_jw *w, struct sw_slice key)
{
    assert(w->depth > 0 && !w->keyed);
    separate(w);
    if (w->rc == SW_OK)
        w->rc = sw_json_write_string(w->out, key, w->opts.flags);
    emit(w, ": ", w->opts.indent ? 2 : 1);
    w->keyed = true;
    w->comma = true;
}

void sw_jw_name(struct sw_jw *w, const char *key)
{
    sw_jw_key(w, sw_slice_str(key));
}

void sw_jw_null(struct sw_jw *w)
{
    scalar(w, "null", 4);
}

void sw_jw_bool(struct sw_jw *w, bool b)
{
    scalar(w, b ? "true" : "false", b ? 4 : 5);
}

void sw_jw_i64(struct sw_jw *w, int64_t n)
{
    char text[24];

    scalar(w, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, n));
}

void sw_jw_u64(struct sw_jw *w, uint64_t n)
{
    char text[24];

    scalar(w, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, n));
}

void sw_jw_double(struct sw_jw *w, double d)
{
    char text[SW_JSON_DOUBLE_LEN];

    scalar(w, text, sw_json_format_double(d, text));
}

void sw_jw_string(struct sw_jw *w, struct sw_slice s)
{
    separate(w);
    if (w->rc == SW_OK)
        w->rc = sw_json_write_string(w->out, s, w->opts.flags);
    w->comma = true;
}

void sw_jw_str(struct sw_jw *w, const char *s)
{
    sw_jw_string(w, sw_slice_str(s));
}

void sw_jw_raw(struct sw_jw *w, struct sw_slice json)
{
    scalar(w, json.p, json.n);
}

/* ---- trees ---- */

static void write_sorted(struct sw_jw *w, const struct sw_json *v)
{
    SW_ARENA_AUTO tmp = {0};
    const struct sw_json_member **order =
        sw_arena_array(&tmp, v->obj.n, sizeof(struct sw_json_member *));

    for (uint32_t i = 0; i < v->obj.n; i++)
        order[i] = &v->obj.members[i];
    SW_SORT_POINTERS_BY(order, v->obj.n, key);
    for (uint32_t i = 0; i < v->obj.n; i++) {
        sw_jw_key(w, order[i]->key);
        sw_jw_value(w, order[i]->value);
    }
}

static bool keys_sorted(const struct sw_json *v)
{
    for (uint32_t i = 1; i < v->obj.n; i++) {
        if (sw_slice_cmp(v->obj.members[i - 1].key, v->obj.members[i].key) > 0)
            return false;
    }
    return true;
}

static void write_object(struct sw_jw *w, const struct sw_json *v)
{
    sw_jw_object(w);
    if ((w->opts.flags & SW_JSON_SORT_KEYS) && !keys_sorted(v)) {
        write_sorted(w, v);
    } else {
        for (uint32_t i = 0; i < v->obj.n && w->rc == SW_OK; i++) {
            sw_jw_key(w, v->obj.members[i].key);
            sw_jw_value(w, v->obj.members[i].value);
        }
    }
    sw_jw_object_end(w);
}

void sw_jw_value(struct sw_jw *w, const struct sw_json *v)
{
    switch (v->type) {
    case SW_JSON_NULL:
        sw_jw_null(w);
        break;
    case SW_JSON_BOOL:
        sw_jw_bool(w, v->boolean);
        break;
    case SW_JSON_NUMBER:
        scalar(w, v->text.p, v->text.n);
        break;
    case SW_JSON_STRING:
        sw_jw_string(w, v->text);
        break;
    case SW_JSON_ARRAY:
        sw_jw_array(w);
        for (uint32_t i = 0; i < v->arr.n && w->rc == SW_OK; i++)
            sw_jw_value(w, v->arr.items[i]);
        sw_jw_array_end(w);
        break;
    case SW_JSON_OBJECT:
        write_object(w, v);
        break;
    }
}

void sw_jw_put_null(struct sw_jw *w, const char *key)
{
    sw_jw_name(w, key);
    sw_jw_null(w);
}

void sw_jw_put_object(struct sw_jw *w, const char *key)
{
    sw_jw_name(w, key);
    sw_jw_object(w);
}

void sw_jw_put_array(struct sw_jw *w, const char *key)
{
    sw_jw_name(w, key);
    sw_jw_array(w);
}

void sw_jw_put_bool(struct sw_jw *w, const char *key, bool b)
{
    sw_jw_name(w, key);
    sw_jw_bool(w, b);
}

void sw_jw_put_u64(struct sw_jw *w, const char *key, uint64_t n)
{
    sw_jw_name(w, key);
    sw_jw_u64(w, n);
}

void sw_jw_put_str(struct sw_jw *w, const char *key, const char *s)
{
    sw_jw_name(w, key);
    sw_jw_str(w, s);
}

void sw_jw_put_string(struct sw_jw *w, const char *key, struct sw_slice s)
{
    sw_jw_name(w, key);
    sw_jw_string(w, s);
}

int sw_json_write(struct sw_buf *out, const struct sw_json *v,
                  const struct sw_json_write_opts *opts)
{
    struct sw_jw w;

    sw_jw_begin(&w, out, opts);
    sw_jw_value(&w, v);
    return sw_jw_end(&w);
}

struct sw_slice sw_json_text(struct sw_arena *a, const struct sw_json *v,
                             const struct sw_json_write_opts *opts)
{
    SW_BUF_AUTO b = {.max = SIZE_MAX / 4};
    int rc = sw_json_write(&b, v, opts);

    assert(rc == SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&b));
}

struct sw_slice sw_json_sorted_text(struct sw_arena *a, const struct sw_json *v)
{
    return sw_json_text(a, v, &(struct sw_json_write_opts){.flags = SW_JSON_SORT_KEYS});
}
