/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text to tree. No recursion: open containers live on an explicit stack, their finished
 * children on a second one, and each container gets an exactly sized array when it closes.
 */
#include <stdio.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/hex.h"
#include "base/json/index.h"
#include "base/json/json_int.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/vec.h"

enum {
    SLAB_MIN = 8,
    SLAB_MAX = 256,
};

struct child {
    struct sw_slice key;
    struct sw_json *value;
    size_t key_at;
};

struct frame {
    struct sw_json *node;
    size_t base;         /* first child of this container */
    struct sw_slice key; /* of the member being read */
    size_t key_at;
};

struct parser {
    struct sw_arena *arena;
    struct sw_slice in; /* what slices point into */
    const char *at;
    const char *end;
    struct sw_json_opts opts;
    struct sw_json *slab; /* nodes not used yet */
    size_t slab_left;
    size_t slab_size;
    size_t nodes;
    SW_VEC(struct frame) frames;
    SW_VEC(struct child) children;
    SW_VEC(struct sw_json_dup) dups;
    struct sw_err *err;
};

static SW_COLD int fail(struct parser *p, int rc, const char *at, const char *what)
{
    size_t offset = (size_t)(at - p->in.p);
    size_t line = 1;
    size_t start = 0;

    for (size_t i = 0; i < offset; i++) {
        if (p->in.p[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return sw_err_at(p->err, rc, offset, "line %zu, column %zu: %s", line, offset - start + 1,
                     what);
}

static SW_COLD int fail_here(struct parser *p, const char *expected)
{
    char what[96];

    if (p->at == p->end)
        (void)snprintf(what, sizeof(what), "unexpected end, expected %s", expected);
    else if ((unsigned char)*p->at > 0x20 && (unsigned char)*p->at < 0x7f)
        (void)snprintf(what, sizeof(what), "unexpected '%c', expected %s", *p->at, expected);
    else
        (void)snprintf(what, sizeof(what), "unexpected byte 0x%02x, expected %s",
                       (unsigned)(unsigned char)*p->at, expected);
    return fail(p, SW_EINVAL, p->at, what);
}

static struct sw_json *new_node(struct parser *p, enum sw_json_type type)
{
    struct sw_json *v;

    if (p->slab_left == 0) {
        p->slab_size = p->slab_size ? sw_min(p->slab_size * 2, SLAB_MAX) : SLAB_MIN;
        p->slab = sw_arena_array(p->arena, p->slab_size, sizeof(*p->slab));
        p->slab_left = p->slab_size;
    }
    p->slab_left--;
    v = p->slab++;
    v->type = type;
    p->nodes++;
    return v;
}

static inline void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

/* ---- strings ---- */

static inline bool plain_byte(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* First byte that is not a plain ASCII string character. */
static inline const char *skip_plain(const char *s, const char *end)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i back = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(0x20);

    while (end - s >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)s);
        /* Signed compare: bytes from 0x80 on are negative, so they count as below space. */
        __m128i stop = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)),
                                    _mm_cmplt_epi8(v, space));
        unsigned mask = (unsigned)_mm_movemask_epi8(stop);

        if (mask)
            return s + __builtin_ctz(mask);
        s += 16;
    }
#endif
    while (s < end && plain_byte((unsigned char)*s))
        s++;
    return s;
}

static int hex4(const char *s, const char *end, uint32_t *ret)
{
    uint32_t v = 0;

    if (end - s < 4)
        return SW_EINVAL;
    for (int i = 0; i < 4; i++) {
        int d = sw_hex_digit(s[i]);

        if (d < 0)
            return SW_EINVAL;
        v = v << 4 | (uint32_t)d;
    }
    *ret = v;
    return SW_OK;
}

/* p->at is behind "\u". */
static int unicode_escape(struct parser *p, const char *start, uint32_t *ret)
{
    uint32_t c;
    uint32_t low;

    if (hex4(p->at, p->end, &c) != SW_OK)
        return fail(p, SW_EINVAL, start, "bad \\u escape");
    p->at += 4;
    if (c < 0xd800 || c > 0xdfff) {
        *ret = c;
        return SW_OK;
    }
    if (c > 0xdbff || p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u' ||
        hex4(p->at + 2, p->end, &low) != SW_OK || low < 0xdc00 || low > 0xdfff)
        return fail(p, SW_EINVAL, start, "unpaired surrogate in \\u escape");
    p->at += 6;
    *ret = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    return SW_OK;
}

/* p->at is on the backslash; appends what the escape stands for at *to. */
static int unescape(struct parser *p, char **to)
{
    const char *start = p->at;
    uint32_t c = 0;

    if (p->end - p->at < 2)
        return fail(p, SW_EINVAL, p->end, "unexpected end in a string");
    p->at += 2;
    switch (start[1]) {
    case '"':
    case '\\':
    case '/':
        c = (unsigned char)start[1];
        break;
    case 'b':
        c = '\b';
        break;
    case 'f':
        c = '\f';
        break;
    case 'n':
        c = '\n';
        break;
    case 'r':
        c = '\r';
        break;
    case 't':
        c = '\t';
        break;
    case 'u':
        if (unicode_escape(p, start, &c) != SW_OK)
            return SW_EINVAL;
        break;
    default:
        return fail(p, SW_EINVAL, start, "unknown escape in a string");
    }
    *to += sw_utf8_put(*to, c);
    return SW_OK;
}

/* Bytes up to the closing quote, at most: enough room for the decoded text. */
static size_t raw_len(const char *s, const char *end)
{
    const char *from = s;

    while (s < end && *s != '"')
        s += *s == '\\' && end - s > 1 ? 2 : 1;
    return (size_t)(s - from);
}

/* The string has an escape at p->at: decodes all of it (from 'start') into the arena. */
static int escaped_string(struct parser *p, const char *start, struct sw_slice *ret)
{
    size_t head = (size_t)(p->at - start);
    char *text = sw_arena_alloc(p->arena, raw_len(start, p->end) + 1);
    char *to = text + head;

    memcpy(text, start, head);
    for (;;) {
        const char *stop = skip_plain(p->at, p->end);
        size_t n = (size_t)(stop - p->at);

        memcpy(to, p->at, n);
        to += n;
        p->at = stop;
        if (p->at == p->end)
            return fail(p, SW_EINVAL, p->at, "unexpected end in a string");
        if (*p->at == '"')
            break;
        if (*p->at == '\\') {
            if (unescape(p, &to) != SW_OK)
                return SW_EINVAL;
        } else if ((unsigned char)*p->at < 0x20) {
            return fail(p, SW_EINVAL, p->at, "control character in a string");
        } else {
            n = sw_utf8_len(p->at, (size_t)(p->end - p->at));
            if (n == 0)
                return fail(p, SW_EINVAL, p->at, "invalid UTF-8");
            memcpy(to, p->at, n);
            to += n;
            p->at += n;
        }
    }
    p->at++;
    *ret = sw_slice(text, (size_t)(to - text));
    return SW_OK;
}

/* p->at is on the opening quote. */
static inline int parse_string(struct parser *p, struct sw_slice *ret)
{
    const char *start = ++p->at;

    for (;;) {
        size_t n;

        p->at = skip_plain(p->at, p->end);
        if (p->at == p->end)
            return fail(p, SW_EINVAL, p->at, "unexpected end in a string");
        if (*p->at == '"') {
            *ret = sw_slice(start, (size_t)(p->at - start));
            p->at++;
            return SW_OK;
        }
        if (*p->at == '\\')
            return escaped_string(p, start, ret);
        if ((unsigned char)*p->at < 0x20)
            return fail(p, SW_EINVAL, p->at, "control character in a string");
        n = sw_utf8_len(p->at, (size_t)(p->end - p->at));
        if (n == 0)
            return fail(p, SW_EINVAL, p->at, "invalid UTF-8");
        p->at += n;
    }
}

/* ---- scalars ---- */

static int parse_number(struct parser *p, struct sw_json **ret)
{
    const char *bad;
    const char *stop = sw_json_number_end(p->at, p->end, &bad);

    if (bad) {
        p->at = bad;
        return fail_here(p, "a digit");
    }
    *ret = new_node(p, SW_JSON_NUMBER);
    (*ret)->text = sw_slice(p->at, (size_t)(stop - p->at));
    p->at = stop;
    return SW_OK;
}

static int parse_literal(struct parser *p, struct sw_slice word, enum sw_json_type type, bool value,
                         struct sw_json **ret)
{
    if (!sw_slice_has_prefix(sw_slice(p->at, (size_t)(p->end - p->at)), word))
        return fail_here(p, "a value");
    p->at += word.n;
    *ret = new_node(p, type);
    (*ret)->boolean = value;
    return SW_OK;
}

/* ---- containers ---- */

static int open_container(struct parser *p, enum sw_json_type type)
{
    if (p->frames.n >= p->opts.max_depth)
        return fail(p, SW_ELIMIT, p->at, "nested too deeply");
    p->at++;
    sw_vec_push(&p->frames, (struct frame){.node = new_node(p, type), .base = p->children.n});
    return SW_OK;
}

/* Path of member 'key' of the innermost open object. */
static struct sw_slice dup_path(struct parser *p, struct sw_slice key)
{
    SW_BUF_AUTO b = {.max = 4096};
    int rc = SW_OK;

    for (size_t i = 0; i + 1 < p->frames.n && rc == SW_OK; i++) {
        const struct frame *f = &p->frames.p[i];

        if (f->node->type == SW_JSON_ARRAY)
            rc = sw_buf_printf(&b, "[%zu]", p->frames.p[i + 1].base - f->base);
        else
            rc = sw_buf_printf(&b, "%s%.*s", sw_buf_len(&b) ? "." : "", SW_SLICE_ARG(f->key));
    }
    if (rc == SW_OK)
        rc = sw_buf_printf(&b, "%s%.*s", sw_buf_len(&b) ? "." : "", SW_SLICE_ARG(key));
    (void)rc; /* an absurdly long path is cut */
    return sw_arena_slice(p->arena, sw_buf_slice(&b));
}

static int on_duplicate(struct parser *p, const struct child *c)
{
    struct sw_slice path;

    if (!p->opts.dups) {
        char what[128];

        path = dup_path(p, c->key);
        (void)snprintf(what, sizeof(what), "duplicate member '%.*s'", (int)sw_min(path.n, 100),
                       path.p);
        return fail(p, SW_EINVAL, p->in.p + c->key_at, what);
    }
    if (p->dups.n < SW_JSON_DUPS_MAX) {
        path = dup_path(p, c->key);
        sw_vec_push(&p->dups, (struct sw_json_dup){.path = path, .offset = c->key_at});
    }
    return SW_OK;
}

/* One bit of 64 for a key: members whose bits differ cannot be equal. */
static inline uint64_t key_bit(struct sw_slice k)
{
    unsigned h = (unsigned)k.n * 7;

    if (k.n)
        h += (unsigned)(unsigned char)k.p[0] + (unsigned)(unsigned char)k.p[k.n - 1] * 5 +
             (unsigned)(unsigned char)k.p[k.n / 2] * 17;
    return UINT64_C(1) << (h & 63);
}

static int close_object(struct parser *p, struct sw_json *v, const struct child *c, size_t n)
{
    uint64_t seen = 0;

    v->obj.members = sw_arena_array(p->arena, n, sizeof(*v->obj.members));
    v->obj.cap = (uint32_t)n;
    if (n > SW_JSON_INDEX_MIN)
        v->obj.index = sw_json_index_new(p->arena, n);
    for (; n > 0; n--, c++) {
        ptrdiff_t old = -1;
        uint32_t hash = 0;

        if (v->obj.index) {
            hash = sw_json_index_hash(c->key);
            old = sw_json_index_find(v->obj.index, v->obj.members, c->key, hash);
        } else {
            uint64_t bit = key_bit(c->key);

            if (seen & bit)
                old = sw_json_index_of(v, c->key);
            seen |= bit;
        }
        if (old >= 0) {
            if (on_duplicate(p, c) != SW_OK)
                return SW_EINVAL;
            v->obj.members[old].value = c->value;
            continue;
        }
        if (v->obj.index)
            sw_json_index_add(v->obj.index, hash, v->obj.n);
        v->obj.members[v->obj.n++] = (struct sw_json_member){.key = c->key, .value = c->value};
    }
    return SW_OK;
}

static void close_array(struct parser *p, struct sw_json *v, const struct child *c, size_t n)
{
    v->arr.items = sw_arena_array(p->arena, n, sizeof(struct sw_json *));
    v->arr.n = (uint32_t)n;
    v->arr.cap = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        v->arr.items[i] = c[i].value;
}

/* The innermost container ends: moves its children into it. */
static int close_container(struct parser *p, struct sw_json **ret)
{
    struct frame *f = &p->frames.p[p->frames.n - 1];
    size_t n = p->children.n - f->base;
    struct sw_json *v = f->node;

    p->at++;
    if (n > UINT32_MAX / 4)
        return fail(p, SW_ELIMIT, p->at, "too many members");
    if (n && p->children.p) {
        const struct child *c = p->children.p + f->base;

        if (v->type == SW_JSON_ARRAY)
            close_array(p, v, c, n);
        else if (close_object(p, v, c, n) != SW_OK)
            return SW_EINVAL;
    }
    p->children.n = f->base;
    p->frames.n--;
    *ret = v;
    return SW_OK;
}

static int parse_key(struct parser *p)
{
    struct frame *f = &p->frames.p[p->frames.n - 1];

    skip_space(p);
    if (p->at == p->end || *p->at != '"')
        return fail_here(p, "a member name");
    f->key_at = (size_t)(p->at - p->in.p);
    if (parse_string(p, &f->key) != SW_OK)
        return SW_EINVAL;
    skip_space(p);
    if (p->at == p->end || *p->at != ':')
        return fail_here(p, "':'");
    p->at++;
    return SW_OK;
}

/*
 * Reads one value, or the opening of a container: then *ret stays NULL unless the container is
 * empty, and the next token is its first child.
 */
static int parse_token(struct parser *p, struct sw_json **ret)
{
    int rc;

    skip_space(p);
    if (p->at == p->end)
        return fail_here(p, "a value");
    if (p->opts.max_nodes && p->nodes >= p->opts.max_nodes)
        return fail(p, SW_ELIMIT, p->at, "too many values");
    switch (*p->at) {
    case '{':
        rc = open_container(p, SW_JSON_OBJECT);
        if (rc != SW_OK)
            return rc;
        skip_space(p);
        if (p->at < p->end && *p->at == '}')
            return close_container(p, ret);
        return parse_key(p);
    case '[':
        rc = open_container(p, SW_JSON_ARRAY);
        if (rc != SW_OK)
            return rc;
        skip_space(p);
        return p->at < p->end && *p->at == ']' ? close_container(p, ret) : SW_OK;
    case '"':
        *ret = new_node(p, SW_JSON_STRING);
        return parse_string(p, &(*ret)->text);
    case 't':
        return parse_literal(p, SW_SLICE_LIT("true"), SW_JSON_BOOL, true, ret);
    case 'f':
        return parse_literal(p, SW_SLICE_LIT("false"), SW_JSON_BOOL, false, ret);
    case 'n':
        return parse_literal(p, SW_SLICE_LIT("null"), SW_JSON_NULL, false, ret);
    case '-':
    case '0' ... '9':
        return parse_number(p, ret);
    default:
        return fail_here(p, "a value");
    }
}

/* Hands v to the container it stands in and reads the comma or the end behind it. */
static int finish_value(struct parser *p, struct sw_json *v, struct sw_json **ret_closed)
{
    struct frame *f = &p->frames.p[p->frames.n - 1];
    bool object = f->node->type == SW_JSON_OBJECT;

    sw_vec_push(&p->children, (struct child){.key = f->key, .value = v, .key_at = f->key_at});
    skip_space(p);
    if (p->at < p->end && *p->at == ',') {
        p->at++;
        return object ? parse_key(p) : SW_OK;
    }
    if (p->at == p->end || *p->at != (object ? '}' : ']'))
        return fail_here(p, object ? "',' or '}'" : "',' or ']'");
    return close_container(p, ret_closed);
}

static int parse_document(struct parser *p, struct sw_json **ret)
{
    struct sw_json *v;
    int rc;

    do {
        v = NULL;
        rc = parse_token(p, &v);
        while (rc == SW_OK && v && p->frames.n) {
            struct sw_json *closed = NULL;

            rc = finish_value(p, v, &closed);
            v = closed;
        }
    } while (rc == SW_OK && !v);
    if (rc != SW_OK)
        return rc;
    skip_space(p);
    if (p->at < p->end)
        return fail_here(p, "the end");
    *ret = v;
    return SW_OK;
}

static int dup_order(const void *a, const void *b)
{
    const struct sw_json_dup *x = a;
    const struct sw_json_dup *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void report_dups(struct parser *p)
{
    struct sw_json_dups *out = p->opts.dups;

    *out = (struct sw_json_dups){0};
    if (p->dups.n == 0)
        return;
    /* Inner objects close first; people read from the top. */
    qsort(p->dups.p, p->dups.n, sizeof(*p->dups.p), dup_order);
    out->p = sw_arena_array(p->arena, p->dups.n, sizeof(*out->p));
    out->n = p->dups.n;
    memcpy(out->p, p->dups.p, p->dups.n * sizeof(*out->p));
}

int sw_json_parse(struct sw_arena *a, struct sw_slice in, const struct sw_json_opts *opts,
                  struct sw_json **ret, struct sw_err *err)
{
    struct parser p = {.arena = a, .in = in, .err = err};
    int rc;

    if (opts)
        p.opts = *opts;
    if (p.opts.max_depth == 0 || p.opts.max_depth > SW_JSON_DEPTH_MAX)
        p.opts.max_depth = SW_JSON_DEPTH_MAX;
    if (p.opts.max_bytes && in.n > p.opts.max_bytes)
        return sw_err_at(err, SW_ELIMIT, p.opts.max_bytes, "JSON text is longer than %zu bytes",
                         p.opts.max_bytes);
    if (!p.opts.borrow)
        p.in = sw_arena_slice(a, in);
    if (!p.in.p)
        p.in = SW_SLICE_LIT("");
    p.at = p.in.p;
    p.end = p.in.p + p.in.n;
    rc = parse_document(&p, ret);
    if (rc == SW_OK && p.opts.dups)
        report_dups(&p);
    sw_vec_done(&p.frames);
    sw_vec_done(&p.children);
    sw_vec_done(&p.dups);
    return rc;
}
