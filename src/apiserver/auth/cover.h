/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rights of some RBAC rules are not granted by others. A right is one verb on one resource of
 * one group, perhaps of one name, or one verb on one URL; a single rule must grant it whole. Rules
 * are compared as sets: their products (groups x resources x names x verbs) are never written out.
 */
#pragma once

#include "apiserver/auth/auth_int.h"
#include "base/budget.h"

/* Rights missing on one thing. */
struct api_lack {
    struct sw_slice group, resource, name, url;
    bool named, is_url;
    struct sw_slice *verbs; /* in the order requested */
    size_t nverbs;
};

struct api_lacks {
    struct sw_arena *arena;
    struct api_lack *p;
    size_t n;
    size_t verbs;     /* listed so far */
    bool cut;         /* there are more */
    struct sw_map at; /* of struct api_lack by what it is about */
};

/* The rules a user holds: those of the namespace, and those of URLs. */
struct api_holder {
    const struct api_rule *rules, *urls;
    size_t nrules, nurls;
};

enum {
    API_LACKS_MAX = 1000,   /* things listed */
    API_LACK_VERBS = 20000, /* verbs listed, of all things */
};

/*
 * Finds what of 'wanted' the holder lacks; the list is sufficient to refuse, not always complete
 * (cut). Returns SW_OK, or SW_ELIMIT when the budget ended before anything was found lacking, which
 * callers must refuse too. api_lacks_done releases the list's index in both cases.
 */
SW_NODISCARD int api_lacks_find(struct api_lacks *l, const struct api_holder *h,
                                const struct api_rule *wanted, size_t n, struct sw_budget *b);
void api_lacks_done(struct api_lacks *l);
