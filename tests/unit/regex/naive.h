/* SPDX-License-Identifier: Apache-2.0 */
/* The plainest matcher there is: tries one way after another, on the tree. For small inputs. */
#pragma once

#include "base/buf.h"
#include "regex/regex_int.h"

enum { NAIVE_GROUPS = 16, NAIVE_STEPS = 20000 };

struct naive {
    struct sw_slice text;
    bool bytes;
    unsigned steps;
    size_t at[2 * NAIVE_GROUPS];
};

/* 1 with m->at, 0, or -1 when it took too long. */
int naive_search(struct naive *m, const struct re_tree *t, size_t from);
/* True when an endless repeat has a body that may be empty: there the ways to match differ. */
bool naive_loops(const struct re_node *n);
/* True when the machine for long texts finds the same groups as were found in a short one. */
bool naive_nfa_agrees(const struct re_tree *t, bool bytes, struct sw_slice text,
                      const struct sw_slice *got, int n);
/* Writes the tree as a pattern again. */
int naive_write(struct sw_buf *to, const struct re_node *n);
