/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes: a tree that keeps its promises, or an error that says where. */
#include <assert.h>

#include "yaml/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { NODES = 20000, DEPTH = 64 };

static size_t walk(const struct sw_yaml *node, unsigned depth)
{
    size_t total = 1;
    uint32_t count = 0;
    int64_t v;

    assert(depth <= DEPTH && node->line > 0 && node->column > 0);
    if (node->kind == SW_YAML_SCALAR) {
        assert(!node->first && node->text.p[node->text.n] == '\0');
        if (sw_yaml_int(node, 0, 1000, &v, NULL) == SW_OK)
            assert(v >= 0 && v <= 1000 && sw_yaml_type(node) == SW_YAML_INT);
        return total;
    }
    SW_YAML_FOREACH (it, node) {
        count++;
        assert((node->kind == SW_YAML_MAP) == (it->key != NULL));
        if (it->key) {
            assert(it->key->kind == SW_YAML_SCALAR);
            total++;
        }
        total += walk(it, depth + 1);
    }
    assert(count == node->count);
    return total;
}

static void check_keys(const struct sw_yaml *node)
{
    SW_YAML_FOREACH (it, node) {
        /* Keys are unique, so looking one up finds this very value. */
        if (it->key && memchr(it->key->text.p, '\0', it->key->text.n) == NULL)
            assert(sw_yaml_get(node, it->key->text.p) == it);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct sw_yaml_limits limits = {
        .bytes = 1 << 16, .nodes = NODES, .depth = DEPTH, .local_tags = true};
    struct sw_yaml_stream s = {.n = 12345};
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    int rc = sw_yaml_parse(&a, sw_slice(data, n), &limits, &s, &err);
    size_t total = 0;

    if (rc != SW_OK) {
        assert(rc == SW_EINVAL || rc == SW_ELIMIT);
        assert(s.n == 12345 && strncmp(err.msg, "line ", 5) == 0);
        return 0;
    }
    for (size_t i = 0; i < s.n; i++) {
        total += walk(s.docs[i], 0);
        check_keys(s.docs[i]);
    }
    assert(total <= NODES);
    return 0;
}
