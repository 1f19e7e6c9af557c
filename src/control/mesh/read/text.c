/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/read/text.h"

#include <string.h>

#include "base/mem.h"
#include "base/search.h"

/* What ordinary objects have goes without an allocation. */
enum { FEW = 16, FEW_BYTES = 1024 };

struct lengths {
    uint16_t key;
    uint16_t value;
};

void mesh_pool_done(struct mesh_pool *p)
{
    sw_map_done(&p->texts);
}

struct mesh_text *mesh_text(struct mesh_pool *p, struct sw_slice s)
{
    struct mesh_text *t;

    if (!s.n || s.n > UINT32_MAX)
        return NULL;
    t = sw_map_get(&p->texts, s);
    if (t) {
        t->refs++;
        return t;
    }
    t = sw_malloc(sizeof(*t) + s.n);
    t->refs = 1;
    t->n = (uint32_t)s.n;
    memcpy(t->p, s.p, s.n);
    (void)sw_map_put(&p->texts, mesh_str(t), t);
    return t;
}

void mesh_text_drop(struct mesh_pool *p, struct mesh_text **t)
{
    struct mesh_text *x = *t;

    *t = NULL;
    if (!x || --x->refs)
        return;
    (void)sw_map_del(&p->texts, mesh_str(x));
    sw_free(x);
}

bool mesh_labels_next(struct sw_slice *set, struct sw_mesh_label *ret)
{
    struct lengths l;

    if (set->n < sizeof(l))
        return false;
    memcpy(&l, set->p, sizeof(l));
    ret->key = sw_slice(set->p + sizeof(l), l.key);
    ret->value = sw_slice(ret->key.p + l.key, l.value);
    *set = sw_slice_from(*set, sizeof(l) + l.key + l.value);
    return true;
}

struct sw_slice mesh_labels_get(const struct mesh_text *set, const char *key)
{
    struct sw_slice rest = mesh_str(set);
    struct sw_slice want = sw_slice_str(key);
    struct sw_mesh_label l;

    while (mesh_labels_next(&rest, &l)) {
        if (sw_slice_eq(l.key, want))
            return l.value;
    }
    return sw_slice(NULL, 0);
}

bool mesh_labels_within(const struct mesh_text *sub, const struct mesh_text *set)
{
    struct sw_slice a = mesh_str(sub);
    struct sw_slice b = mesh_str(set);
    struct sw_mesh_label x;
    struct sw_mesh_label y;

    if (a.n > b.n)
        return false;
    while (mesh_labels_next(&a, &x)) {
        bool found = false;

        while (!found && mesh_labels_next(&b, &y)) {
            if (sw_slice_eq(x.key, y.key)) {
                if (!sw_slice_eq(x.value, y.value))
                    return false;
                found = true;
            }
        }
        if (!found)
            return false;
    }
    return true;
}

static size_t gather(const struct sw_json *from, const struct sw_json *unless,
                     struct sw_mesh_label *out, size_t n)
{
    for (size_t i = 0; sw_json_is(from, SW_JSON_OBJECT) && i < sw_json_len(from); i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);
        struct sw_slice value = sw_json_str(m->value);

        if (value.p && m->key.n <= SW_MESH_LABEL_MAX && value.n <= SW_MESH_LABEL_MAX &&
            !sw_json_str(sw_json_get(unless, m->key)).p)
            out[n++] = (struct sw_mesh_label){m->key, value};
    }
    return n;
}

struct mesh_text *mesh_labels(struct mesh_pool *p, const struct sw_json *base,
                              const struct sw_json *over)
{
    SW_ARENA_AUTO a = {0};
    size_t most = sw_json_len(base) + sw_json_len(over);
    struct sw_mesh_label few[FEW];
    struct sw_mesh_label *all = few;
    char small[FEW_BYTES];
    char *text = small;
    size_t bytes = 0;
    size_t n;

    if (!most)
        return NULL;
    if (most > FEW)
        all = sw_arena_array(&a, most, sizeof(*all));
    n = gather(base, over, all, 0);
    n = gather(over, NULL, all, n);
    if (n > 1)
        SW_SORT_BY(all, n, key);
    n = sw_min(n, (size_t)SW_MESH_LABELS_MAX);
    for (size_t i = 0; i < n; i++)
        bytes += sizeof(struct lengths) + all[i].key.n + all[i].value.n;
    if (bytes > FEW_BYTES)
        text = sw_arena_alloc(&a, bytes);
    bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct lengths l = {(uint16_t)all[i].key.n, (uint16_t)all[i].value.n};

        memcpy(text + bytes, &l, sizeof(l));
        bytes += sizeof(l);
        memcpy(text + bytes, all[i].key.p, l.key);
        bytes += l.key;
        memcpy(text + bytes, all[i].value.p, l.value);
        bytes += l.value;
    }
    return mesh_text(p, sw_slice(text, bytes));
}
