/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/access.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "quic/id/nodeid.h"

enum { FILE_MAX = 64 << 20, TOKENS_MAX = 1024, TOKEN_MAX = 4096 };

struct sw_relay_access {
    _Atomic unsigned refs;
    struct sw_arena arena;
    struct sw_map allow;
    struct sw_map deny;
    SW_VEC(struct sw_slice) tokens; /* few: looked through one by one */
    bool has_allow;
    bool has_tokens;
};

static int add_id(struct sw_relay_access *a, struct sw_map *m, struct sw_slice text,
                  struct sw_err *err)
{
    struct sw_nodeid *id = sw_arena_alloc(&a->arena, sizeof(*id));
    int rc = sw_nodeid_parse(text, id, err);

    if (rc == SW_OK)
        (void)sw_map_put(m, sw_slice(id->b, sizeof(id->b)), id);
    return rc;
}

static int add_token(struct sw_relay_access *a, struct sw_slice text, struct sw_err *err)
{
    if (a->tokens.n == TOKENS_MAX || text.n > TOKEN_MAX)
        return sw_err_set(err, SW_ELIMIT, "more or longer tokens than are allowed");
    sw_vec_push(&a->tokens, sw_arena_slice(&a->arena, text));
    return SW_OK;
}

/* ids: where they go; NULL: the lines are tokens. */
static int load(struct sw_relay_access *a, const char *path, struct sw_map *ids, struct sw_err *err)
{
    struct sw_slice text = {0};
    struct sw_slice rest;
    unsigned line_no = 0;
    int rc = sw_file_read(path, FILE_MAX, &text, err);

    if (rc != SW_OK)
        return rc;
    rest = text;
    while (rest.p && rc == SW_OK) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');

        line_no++;
        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        line = sw_slice_trim(line);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        rc = ids ? add_id(a, ids, line, err) : add_token(a, line, err);
    }
    sw_slice_free(&text);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "%s:%u", path, line_no);
}

struct sw_relay_access *sw_relay_access_load(const struct sw_relay_access_files *f,
                                             struct sw_err *err)
{
    struct sw_relay_access *a = SW_NEW(struct sw_relay_access);
    int rc = SW_OK;

    atomic_init(&a->refs, 1);
    a->has_allow = f->allow != NULL;
    a->has_tokens = f->tokens != NULL;
    if (f->allow)
        rc = load(a, f->allow, &a->allow, err);
    if (rc == SW_OK && f->deny)
        rc = load(a, f->deny, &a->deny, err);
    if (rc == SW_OK && f->tokens)
        rc = load(a, f->tokens, NULL, err);
    return rc == SW_OK ? a : sw_relay_access_unref(a);
}

struct sw_relay_access *sw_relay_access_ref(struct sw_relay_access *a)
{
    (void)atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

struct sw_relay_access *sw_relay_access_unref(struct sw_relay_access *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1) {
        sw_map_done(&a->allow);
        sw_map_done(&a->deny);
        SW_VEC_FOREACH (struct sw_slice, it, &a->tokens)
            explicit_bzero((char *)(uintptr_t)it->p, it->n);
        sw_vec_done(&a->tokens);
        sw_arena_clear(&a->arena);
        sw_free(a);
    }
    return NULL;
}

static bool same_secret(struct sw_slice a, struct sw_slice b)
{
    unsigned diff = a.n != b.n;

    for (size_t i = 0; i < b.n; i++)
        diff |= (unsigned)(unsigned char)a.p[a.n ? i % a.n : 0] ^ (unsigned char)b.p[i];
    return diff == 0;
}

bool sw_relay_access_token_ok(const struct sw_relay_access *a, struct sw_slice token)
{
    bool found = false;

    if (token.n == 0)
        return !a->has_tokens;
    SW_VEC_FOREACH (struct sw_slice, it, &a->tokens)
        found = same_secret(*it, token) || found;
    return found || !a->has_tokens;
}

const char *sw_relay_access_judge(const struct sw_relay_access *a, const struct sw_nodeid *id)
{
    struct sw_slice key = sw_slice(id->b, sizeof(id->b));

    if (sw_map_get(&a->deny, key))
        return "id is denied";
    if (a->has_allow && !sw_map_get(&a->allow, key))
        return "id is not allowed";
    return NULL;
}
