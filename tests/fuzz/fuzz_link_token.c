/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens and grants of links. Bytes of a peer open nothing: only what was minted does. Claims are
 * also reached behind a good signature, as a key that leaked or another version would give them.
 */
#include <assert.h>
#include <string.h>

#include "control/link/auth/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW = 1000 };

static void open_both(const struct sw_link_key *k, struct sw_slice text, bool ours)
{
    SW_ARENA_AUTO a = {0};
    struct sw_link_token t = {0};
    struct sw_link_grant g = {0};
    struct sw_err err = {0};

    if (sw_link_token_open(k, &a, text, NOW, &t, &err) == SW_OK) {
        assert(ours && t.exp_s > NOW && t.export_name.n && t.export_ns.n);
        assert(t.src.n <= SW_ATTRS_MAX);
    } else {
        assert(err.msg[0]);
    }
    if (sw_link_grant_open(k, &a, text, &g, &err) == SW_OK)
        assert(ours && g.exported.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_link_key k;
    struct sw_slice in = sw_slice(data, size);
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    SW_BUF_AUTO grant = {.max = SW_JWS_TOKEN_MAX};

    memset(&k, 7, sizeof(k));
    memset(k.grant, 9, sizeof(k.grant));
    open_both(&k, in, false);
    if (sw_jws_sign_hs256(k.token, in, &token) == SW_OK)
        open_both(&k, sw_buf_slice(&token), true);
    if (sw_jws_sign_hs256(k.grant, in, &grant) == SW_OK)
        open_both(&k, sw_buf_slice(&grant), true);
    return 0;
}
