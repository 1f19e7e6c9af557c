/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers and data planes send to authorisation: bodies of /authz, of /authz/review, and the
 * labels of a heartbeat. The first byte chooses. Every answer has a status and, unless it is 200, a
 * reason that can stand in a header field; a token is only given where the policy allows.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "control/link/auth/auth.h"
#include "control/link/auth/certificate.h"
#include "control/link/auth/peers.h"
#include "io/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sw_link_auth *auth;

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL) != SW_OK)
        abort();
    return v;
}

/* Export web for peer 'there' only. */
static void set_up(void)
{
    static const struct sw_slice valid;
    SW_ARENA_AUTO a = {0};
    struct sw_link_facts_builder *b = sw_link_facts_begin();
    struct sw_link_facts *f;
    struct sw_loop *loop = sw_loop_new(NULL);

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    sw_link_facts_add_export(
        b, parse(&a, "{\"metadata\":{\"namespace\":\"default\",\"name\":\"web\"}}"), valid);
    if (sw_link_facts_add_policy(
            b,
            parse(
                &a,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"p\"},\"spec\":{\"action\":"
                "\"allow\",\"from\":[{\"workloadSelector\":{\"matchLabels\":{"
                "\"peer.clusterlink.net/name\":\"there\"}}}],\"to\":[{\"workloadSelector\":{}}]}}"),
            NULL) != SW_OK)
        abort();
    f = sw_link_facts_end(b);
    auth = sw_link_auth_new(loop, &(struct sw_link_auth_opts){0});
    sw_link_auth_set_facts(auth, f);
    if (sw_link_auth_set_key(auth, SW_SLICE_LIT("0123456789abcdef0123456789abcdef"), NULL) != SW_OK)
        abort();
    (void)sw_link_facts_unref(f);
}

static void on_answer(void *arg, const struct sw_link_answer *answer)
{
    int *calls = arg;

    (*calls)++;
    assert(answer->status >= 200 && answer->reason);
    assert((answer->status == 200) == (answer->token.n > 0));
    assert(answer->status == 200 || answer->text[0]);
    for (const char *c = answer->text; *c; c++)
        assert(*c >= ' ' && *c <= '~');
    if (answer->status == 200)
        assert(sw_slice_eq_str(answer->exported, "default/web"));
}

static void on_stranger(void *arg, const struct sw_link_answer *answer)
{
    int *calls = arg;

    (*calls)++;
    assert(answer->status != 200);
}

static void ask_token(struct sw_slice body)
{
    const struct sw_link_caller there = {.name = SW_SLICE_LIT("there"), .thumb = {"", 0}};
    const struct sw_link_caller mallory = {.name = SW_SLICE_LIT("mallory"), .thumb = {"", 0}};
    int calls = 0;

    sw_link_auth_token(auth, body, &there, on_answer, &calls);
    sw_link_auth_token(auth, body, &mallory, on_stranger, &calls);
    assert(calls == 2);
}

static void ask_review(struct sw_slice grants)
{
    SW_BUF_AUTO out = {.max = 4 << 20};
    struct sw_slice rest;

    if (sw_link_auth_review(auth, grants, &out, NULL) != SW_OK)
        return;
    for (rest = sw_buf_slice(&out); rest.n;)
        assert(sw_slice_has_prefix(sw_slice_cut(&rest, '\n'), SW_SLICE_LIT("denied ")));
}

static void read_labels(struct sw_slice value)
{
    SW_ARENA_AUTO a = {0};
    struct sw_attrs labels = {0};

    if (sw_link_labels_decode(&a, value, &labels, NULL) == SW_OK) {
        for (size_t i = 1; i < labels.n; i++)
            assert(sw_slice_cmp(labels.p[i - 1].key, labels.p[i].key) < 0);
    }
}

static void read_certificate(struct sw_slice text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_link_caller who = sw_link_caller_of(&a, SW_SLICE_LIT("there"), text);

    assert(who.thumb.n == 0 || who.thumb.n == 64);
    assert(who.thumb.n || sw_slice_eq_str(who.name, "there"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice in = sw_slice(data, size);

    if (!auth)
        set_up();
    if (size == 0)
        return 0;
    in = sw_slice_from(in, 1);
    switch (data[0] % 4) {
    case 0:
        ask_token(in);
        break;
    case 1:
        ask_review(in);
        break;
    case 2:
        read_labels(in);
        break;
    default:
        read_certificate(in);
    }
    return 0;
}
