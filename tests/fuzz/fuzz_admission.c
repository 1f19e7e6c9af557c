/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the answer of an admission webhook. What is accepted is an answer to our question:
 * nothing else allows a request, a validating webhook changes nothing, and a refusal is a refusal.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json/patch.h"
#include "kube/admission/admission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check(struct sw_arena *a, const struct sw_review_answer *v, bool mutating)
{
    const struct sw_json *status = sw_review_denial(a, SW_SLICE_LIT("h.example.com"), v->status);
    int64_t code = 0;

    require(mutating || !v->patch);
    require(!v->patch || (v->patch->type == SW_JSON_ARRAY && sw_json_len(v->patch) > 0));
    require(sw_json_len(v->warnings) <= SW_REVIEW_WARNINGS_MAX);
    require(sw_json_i64(sw_json_find(status, "code"), &code) && code >= 400 && code <= 599);
    if (v->patch) {
        struct sw_json *doc = sw_json_new_object(a);
        struct sw_json *out = NULL;
        struct sw_json_patch_opts o = {.max_ops = 100, .max_copy_bytes = 1 << 16};

        (void)!sw_json_patch(a, doc, v->patch, &o, &out, NULL);
    }
}

static void check_url(struct sw_slice url)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice host = {0};
    struct sw_slice path = {0};
    uint16_t port = 0;
    const char *why = NULL;

    if (sw_hook_url_split(&a, url, &host, &port, &path, &why))
        require(host.n && port && path.n && path.p[0] == '/');
    else
        require(why != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int mutating = 0; mutating < 2; mutating++) {
        SW_ARENA_AUTO a = {0};
        struct sw_review_answer v = {0};
        struct sw_err err = {0};
        const struct sw_review_sent sent = {"admission.k8s.io/v1", SW_SLICE_LIT("u"), mutating};
        int rc = sw_review_parse(&a, sw_slice(data, size), &sent, &v, &err);

        if (rc == SW_OK)
            check(&a, &v, mutating);
        else
            require(err.msg[0] != 0 && !v.allowed && !v.patch);
    }
    check_url(sw_slice(data, size));
    return 0;
}
