/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots from YAML, and short names for what the tests of src/node ask all the time. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "node/local/localconfig.h"
#include "node/state.h"

#define S(x) SW_SLICE_LIT(x)

static inline void sw_state_auto(struct sw_state **s)
{
    *s = sw_state_unref(*s);
}
#define STATE_AUTO __attribute__((cleanup(sw_state_auto))) struct sw_state *

static inline struct sw_state *load(const char *yaml)
{
    struct sw_state *s = NULL;
    struct sw_err err = {0};

    if (sw_localconfig_parse(&(struct sw_localconfig){.file = "test", .text = sw_slice_str(yaml)},
                             &s, &err) != SW_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* Good until eight more were asked for. */
static inline struct sw_slice keep_text(struct sw_slice s)
{
    static char kept[8][300];
    static unsigned at;
    char *to = kept[at++ % 8];

    assert_true(s.n <= sizeof(kept[0]));
    if (s.n)
        memcpy(to, s.p, s.n);
    return sw_slice(to, s.n);
}

static inline struct sw_slice uid_of(const struct sw_workload *w)
{
    SW_ARENA_AUTO a = {0};

    return keep_text(sw_workload_uid(w, &a));
}

static inline struct sw_slice version_of(const struct sw_workload *w)
{
    SW_ARENA_AUTO a = {0};

    return keep_text(sw_workload_version(w, &a));
}

static inline struct sw_ip ip(const char *text)
{
    struct sw_ip out = {0};

    assert_int_equal(sw_ip_parse(sw_slice_str(text), &out, NULL), SW_OK);
    return out;
}

static inline struct sw_addr addr(const char *text)
{
    struct sw_addr out = {0};

    assert_int_equal(sw_addr_parse(sw_slice_str(text), &out, NULL), SW_OK);
    return out;
}

static inline const struct sw_workload *workload(const struct sw_state *s, const char *uid)
{
    const struct sw_workload *w = sw_state_workload_by_uid(s, sw_slice_str(uid));

    if (!w)
        fail_msg("no workload '%s'", uid);
    return w;
}

/* The i-th by uid / by namespace and hostname / by key; there must be one. */
static inline const struct sw_workload *workload_at(const struct sw_state *s, size_t i)
{
    SW_AUTO_FREE const struct sw_workload **list = sw_state_list_workloads(s);

    assert_true(i < sw_state_workload_count(s));
    return list[i];
}

static inline const struct sw_service *service_at(const struct sw_state *s, size_t i)
{
    SW_AUTO_FREE const struct sw_service **list = sw_state_list_services(s);

    assert_true(i < sw_state_service_count(s));
    return list[i];
}

static inline const struct sw_policy *policy_at(const struct sw_state *s, size_t i)
{
    SW_AUTO_FREE const struct sw_policy **list = sw_state_list_policies(s);

    assert_true(i < sw_state_policy_count(s));
    return list[i];
}

static inline bool has_policy(const struct sw_state *s, const char *key)
{
    for (size_t i = 0; i < sw_state_policy_count(s); i++) {
        if (sw_slice_eq_str(policy_at(s, i)->key, key))
            return true;
    }
    return false;
}

static inline struct sw_slice staged_at(const struct sw_state *s, size_t i)
{
    SW_AUTO_FREE struct sw_slice *list = sw_state_list_staged(s);

    assert_true(i < sw_state_staged_count(s));
    return list[i];
}

/* Fails unless the slice holds exactly this text. */
#define assert_slice(s, text)                                                                      \
    do {                                                                                           \
        struct sw_slice got_ = (s);                                                                \
                                                                                                   \
        if (!sw_slice_eq_str(got_, (text)))                                                        \
            fail_msg("'%.*s' is not '%s'", SW_SLICE_ARG(got_), (text));                            \
    } while (0)

#define assert_addr(a, text)                                                                       \
    do {                                                                                           \
        struct sw_addr addr_ = (a);                                                                \
        char got_[SW_ADDR_TEXT];                                                                   \
                                                                                                   \
        assert_string_equal(sw_addr_text(&addr_, got_), (text));                                   \
    } while (0)
