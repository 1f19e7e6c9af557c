/* SPDX-License-Identifier: Apache-2.0 */
/* Admission webhooks: what their files share. Not for others. */
#pragma once

#include "apiserver/admission/admission.h"
#include "apiserver/admission/admission_metrics.h"
#include "apiserver/api/api.h"
#include "base/vec.h"
#include "kube/admission/admission.h"
#include "kube/admission/match_conditions.h"

/* One webhook of a configuration. */
struct hook {
    struct sw_slice config; /* name of the configuration */
    struct sw_slice name;
    const struct sw_json *def;
    struct sw_label_selector namespaces;
    struct sw_label_selector objects;
    struct sw_match_conditions *conditions;
    bool mutating;
    bool fail;       /* failurePolicy */
    bool equivalent; /* matchPolicy */
    bool again;      /* reinvocationPolicy */
    int64_t timeout_s;
};

/* All webhooks in the order they are called. Counted: a request keeps the set it began with. */
struct hook_set {
    unsigned refs;
    struct sw_arena arena;
    SW_VEC(struct hook) all;
};

struct hook_set *hook_set_ref(struct hook_set *s);
struct hook_set *hook_set_unref(struct hook_set *s);
/* The webhooks as configured now; a reference. */
struct hook_set *hook_set_now(struct sw_api *api);

/* What a webhook reviews. */
struct hook_question {
    struct api_req *r; /* of the write */
    enum api_operation op;
    const struct sw_json *object; /* NULL: DELETE */
    const struct sw_json *old;    /* NULL: CREATE */
};

/*
 * The version of the resource that the webhook receives, by its rules and selectors; NULL: it does
 * not match the request.
 */
const struct api_res *hook_wants(const struct hook *h, const struct hook_question *q);
/*
 * Evaluates the match conditions. SW_MATCH_FAILED (only with failurePolicy Fail): the request was
 * answered with 403.
 */
enum sw_match_outcome hook_conditions(const struct hook *h, const struct hook_question *q,
                                      const struct api_res *as);
/* Counts an event of the webhook. */
void hook_count(struct sw_api *api, const struct hook *h, enum api_admission_event event);

struct hook_call;
typedef void (*hook_done_cb)(struct hook_call *c);

/* One call and its outcome. Lives in the request's arena. */
struct hook_call {
    const struct hook *hook;
    struct hook_question q;
    const struct api_res *as; /* version that is sent */
    const char *uid;
    hook_done_cb done;
    void *arg;
    struct hook_client *client;
    struct sw_buf body;
    int status;
    const char *why; /* NULL: answer is there; else it failed */
    struct sw_review_answer answer;
};

/* Sends the question; done is called later, from the loop, or never when it returns false. */
bool hook_call_start(struct hook_call *c);
/* Notes the failure of a call: one log line, one count. True when the request may continue. */
bool hook_call_failed(struct hook_call *c);
