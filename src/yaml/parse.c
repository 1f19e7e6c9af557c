/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libyaml's events to our tree. An alias shares the children of what it names, so that it costs
 * one node of memory, but it is charged with all nodes below it: a document that unfolds to
 * millions of nodes is refused although it would fit.
 */
#include <yaml.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "yaml/yaml.h"

enum {
    DEFAULT_BYTES = 64 << 20,
    DEFAULT_DEPTH = 64,
    DEFAULT_NODES = 4 << 20,
    DEFAULT_ALIASES = 1000,
    DEFAULT_DOCS = 10000,
    SMALL_MAP = 16, /* up to here duplicate keys are searched pairwise */
};

struct anchor {
    struct sw_slice name;
    const struct sw_yaml *node;
    uint32_t size;   /* nodes it stands for, itself included */
    uint32_t height; /* levels below and including it */
};

/* A sequence or map that is being read. */
struct frame {
    struct sw_yaml *node;
    struct sw_yaml *last; /* newest child */
    struct sw_yaml *key;  /* map: the key that waits for its value */
    struct sw_slice anchor;
    uint32_t size;
    uint32_t height;
};

struct reader {
    struct sw_arena *arena;
    struct sw_yaml_limits max;
    yaml_parser_t parser;
    SW_VEC(struct frame) stack;
    SW_VEC(struct anchor) anchors;
    SW_VEC(const struct sw_yaml *) docs;
    uint32_t nodes;
    uint32_t aliases;
    struct sw_yaml *root;
    struct sw_err *err;
};

static int fail_mark(struct reader *r, int rc, yaml_mark_t mark, const char *what)
{
    return sw_err_at(r->err, rc, mark.index, "line %zu column %zu: %s", mark.line + 1,
                     mark.column + 1, what);
}

static int fail_parser(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *what = p->problem ? p->problem : "malformed YAML";

    if (p->error == YAML_READER_ERROR)
        return sw_err_at(r->err, SW_EINVAL, p->problem_offset, "line %zu column %zu: %s",
                         p->mark.line + 1, p->mark.column + 1, what);
    return fail_mark(r, SW_EINVAL, p->problem_mark, what);
}

static struct sw_slice text_of(const yaml_char_t *s)
{
    return sw_slice_str((const char *)s);
}

static int take_tag(struct reader *r, const yaml_event_t *ev, const yaml_char_t *raw,
                    struct sw_yaml *node)
{
    static const char core[] = "tag:yaml.org,2002:";
    struct sw_slice tag = text_of(raw);

    if (tag.n == 0)
        return SW_OK;
    if (sw_slice_eq_str(tag, "!")) {
        node->plain = false;
        return SW_OK;
    }
    if (sw_slice_has_prefix(tag, sw_slice_str(core))) {
        if (sw_slice_eq_str(sw_slice_from(tag, sizeof(core) - 1), "str"))
            node->plain = false;
        return SW_OK;
    }
    if (!r->max.local_tags)
        return fail_mark(r, SW_EINVAL, ev->start_mark, "tags are not supported here");
    node->tag = sw_arena_slice(r->arena, tag);
    return SW_OK;
}

static struct sw_yaml *new_node(struct reader *r, const yaml_event_t *ev, enum sw_yaml_kind kind)
{
    struct sw_yaml *node = SW_ARENA_NEW(r->arena, struct sw_yaml);

    node->kind = kind;
    node->line = (uint32_t)ev->start_mark.line + 1;
    node->column = (uint32_t)ev->start_mark.column + 1;
    return node;
}

static void remember(struct reader *r, struct sw_slice name, const struct sw_yaml *node,
                     uint32_t size, uint32_t height)
{
    struct anchor a = {.name = name, .node = node, .size = size, .height = height};

    if (name.n == 0)
        return;
    SW_VEC_FOREACH (struct anchor, it, &r->anchors) {
        if (sw_slice_eq(it->name, name)) {
            *it = a; /* a later anchor of the same name takes over */
            return;
        }
    }
    sw_vec_push(&r->anchors, a);
}

/* Puts a finished node into its parent (or makes it the document). */
static int attach(struct reader *r, const yaml_event_t *ev, struct sw_yaml *node, uint32_t size,
                  uint32_t height)
{
    struct frame *f;

    if (r->stack.n == 0) {
        r->root = node;
        return SW_OK;
    }
    f = &r->stack.p[r->stack.n - 1];
    f->size += size;
    if (height + 1 > f->height)
        f->height = height + 1;
    if (f->node->kind == SW_YAML_MAP && !f->key) {
        if (node->kind != SW_YAML_SCALAR)
            return fail_mark(r, SW_EINVAL, ev->start_mark, "a key must be a plain value");
        f->key = node;
        return SW_OK;
    }
    node->key = f->key;
    f->key = NULL;
    if (f->last)
        f->last->next = node;
    else
        f->node->first = node;
    f->last = node;
    f->node->count++;
    return SW_OK;
}

static int charge(struct reader *r, const yaml_event_t *ev, uint32_t size, uint32_t height)
{
    if (size > r->max.nodes - r->nodes)
        return fail_mark(r, SW_ELIMIT, ev->start_mark, "too many nodes");
    if (r->stack.n + height > r->max.depth)
        return fail_mark(r, SW_ELIMIT, ev->start_mark, "nested too deeply");
    r->nodes += size;
    return SW_OK;
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
    struct sw_yaml *node;
    int rc = charge(r, ev, 1, 0);

    if (rc != SW_OK)
        return rc;
    node = new_node(r, ev, SW_YAML_SCALAR);
    node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = sw_arena_slice(r->arena, sw_slice(ev->data.scalar.value, ev->data.scalar.length));
    rc = take_tag(r, ev, ev->data.scalar.tag, node);
    if (rc != SW_OK)
        return rc;
    if (ev->data.scalar.anchor)
        remember(r, sw_arena_slice(r->arena, text_of(ev->data.scalar.anchor)), node, 1, 0);
    return attach(r, ev, node, 1, 0);
}

static int on_alias(struct reader *r, const yaml_event_t *ev)
{
    struct sw_slice name = text_of(ev->data.alias.anchor);

    if (++r->aliases > r->max.aliases)
        return fail_mark(r, SW_ELIMIT, ev->start_mark, "too many aliases");
    SW_VEC_FOREACH (struct anchor, it, &r->anchors) {
        struct sw_yaml *copy;
        int rc;

        if (!sw_slice_eq(it->name, name))
            continue;
        rc = charge(r, ev, it->size, it->height);
        if (rc != SW_OK)
            return rc;
        copy = SW_ARENA_NEW(r->arena, struct sw_yaml);
        *copy = *it->node;
        copy->key = NULL;
        copy->next = NULL;
        return attach(r, ev, copy, it->size, it->height);
    }
    return fail_mark(r, SW_EINVAL, ev->start_mark, "alias to an unknown anchor");
}

static int on_open(struct reader *r, const yaml_event_t *ev, enum sw_yaml_kind kind,
                   const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct frame f = {.size = 1, .height = 1};
    int rc = charge(r, ev, 1, 1);

    if (rc != SW_OK)
        return rc;
    f.node = new_node(r, ev, kind);
    rc = take_tag(r, ev, tag, f.node);
    if (rc != SW_OK)
        return rc;
    if (anchor)
        f.anchor = sw_arena_slice(r->arena, text_of(anchor));
    sw_vec_push(&r->stack, f);
    return SW_OK;
}

static int fail_duplicate(struct reader *r, const struct sw_yaml *value)
{
    return sw_yaml_error(value->key, r->err, "duplicate key '%.*s'",
                         (int)sw_min(value->key->text.n, 64), value->key->text.p);
}

static int check_unique(struct reader *r, const struct sw_yaml *map)
{
    struct sw_map seen = {0};
    int rc = SW_OK;

    if (map->count <= SMALL_MAP) {
        SW_YAML_FOREACH (a, map) {
            for (const struct sw_yaml *b = map->first; b != a; b = b->next) {
                if (sw_slice_eq(a->key->text, b->key->text))
                    return fail_duplicate(r, a);
            }
        }
        return SW_OK;
    }
    SW_YAML_FOREACH (it, map) {
        /* The value is never NULL, so a second put of the same key shows. */
        if (sw_map_put(&seen, it->key->text, r)) {
            rc = fail_duplicate(r, it);
            break;
        }
    }
    sw_map_done(&seen);
    return rc;
}

static int on_close(struct reader *r, const yaml_event_t *ev)
{
    struct frame f = r->stack.p[--r->stack.n];

    if (f.node->kind == SW_YAML_MAP) {
        int rc = check_unique(r, f.node);

        if (rc != SW_OK)
            return rc;
    }
    remember(r, f.anchor, f.node, f.size, f.height);
    return attach(r, ev, f.node, f.size, f.height);
}

static int on_document_end(struct reader *r, const yaml_event_t *ev)
{
    if (r->docs.n >= r->max.docs)
        return fail_mark(r, SW_ELIMIT, ev->start_mark, "too many documents");
    sw_vec_push(&r->docs, r->root);
    r->root = NULL;
    r->anchors.n = 0; /* anchors do not reach across documents */
    return SW_OK;
}

static int on_event(struct reader *r, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(r, ev);
    case YAML_ALIAS_EVENT:
        return on_alias(r, ev);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(r, ev, SW_YAML_SEQ, ev->data.sequence_start.anchor,
                       ev->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return on_open(r, ev, SW_YAML_MAP, ev->data.mapping_start.anchor,
                       ev->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(r, ev);
    case YAML_DOCUMENT_END_EVENT:
        return on_document_end(r, ev);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
        break;
    }
    return SW_OK;
}

static int read_stream(struct reader *r, struct sw_slice in)
{
    bool more = true;

    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)in.p, in.n);
    while (more) {
        yaml_event_t ev;
        int rc;

        if (!yaml_parser_parse(&r->parser, &ev))
            return fail_parser(r);
        more = ev.type != YAML_STREAM_END_EVENT && ev.type != YAML_NO_EVENT;
        rc = on_event(r, &ev);
        yaml_event_delete(&ev);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static struct sw_yaml_limits with_defaults(const struct sw_yaml_limits *limits)
{
    struct sw_yaml_limits m = limits ? *limits : (struct sw_yaml_limits){0};

    m.bytes = m.bytes ? m.bytes : DEFAULT_BYTES;
    m.depth = m.depth ? m.depth : DEFAULT_DEPTH;
    m.nodes = m.nodes ? m.nodes : DEFAULT_NODES;
    m.aliases = m.aliases ? m.aliases : DEFAULT_ALIASES;
    m.docs = m.docs ? m.docs : DEFAULT_DOCS;
    return m;
}

int sw_yaml_parse(struct sw_arena *a, struct sw_slice in, const struct sw_yaml_limits *limits,
                  struct sw_yaml_stream *ret, struct sw_err *err)
{
    struct reader r = {.arena = a, .max = with_defaults(limits), .err = err};
    int rc;

    if (in.n > r.max.bytes)
        return sw_err_set(err, SW_ELIMIT, "line 1 column 1: more than %zu bytes", r.max.bytes);
    if (!yaml_parser_initialize(&r.parser))
        return sw_err_set(err, SW_ELIMIT, "line 1 column 1: out of memory");
    rc = read_stream(&r, in.p ? in : sw_slice("", 0));
    yaml_parser_delete(&r.parser);
    if (rc == SW_OK) {
        const struct sw_yaml **docs = sw_arena_array(a, r.docs.n + 1, sizeof(*docs));

        if (r.docs.n)
            memcpy(docs, r.docs.p, r.docs.n * sizeof(*docs));
        *ret = (struct sw_yaml_stream){.docs = docs, .n = r.docs.n};
    }
    sw_vec_done(&r.stack);
    sw_vec_done(&r.anchors);
    sw_vec_done(&r.docs);
    return rc;
}

int sw_yaml_parse_one(struct sw_arena *a, struct sw_slice in, const struct sw_yaml_limits *limits,
                      const struct sw_yaml **ret, struct sw_err *err)
{
    struct sw_yaml_stream stream = {0};
    struct sw_yaml *empty;
    int rc = sw_yaml_parse(a, in, limits, &stream, err);

    if (rc != SW_OK)
        return rc;
    if (stream.n > 1)
        return sw_yaml_error(stream.docs[1], err, "only one document is expected");
    if (stream.n == 1) {
        *ret = stream.docs[0];
        return SW_OK;
    }
    empty = SW_ARENA_NEW(a, struct sw_yaml);
    *empty = (struct sw_yaml){
        .kind = SW_YAML_SCALAR, .plain = true, .line = 1, .column = 1, .text = SW_SLICE_LIT("")};
    *ret = empty;
    return SW_OK;
}
