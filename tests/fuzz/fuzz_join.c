/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What strangers say when machines join. The first byte chooses: a code (what is read is written as
 * it was), the body of a redemption, the answer to one, a record of the API, a machine's token.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "identity/join/client.h"
#include "identity/join/code.h"
#include "identity/join/record.h"
#include "identity/join/request.h"
#include "identity/join/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_code(struct sw_slice in)
{
    SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
    struct sw_join_code c;
    struct sw_join_code again;
    struct sw_err err = {0};

    if (sw_join_code_read(in, &c, &err) != SW_OK) {
        assert(err.rc == SW_EINVAL && err.msg[0]);
        return;
    }
    assert(sw_join_code_write(&c, &text, NULL) == SW_OK);
    assert(sw_join_code_read(sw_buf_slice(&text), &again, NULL) == SW_OK);
    assert(memcmp(&c, &again, sizeof(c)) == 0);
}

static void fuzz_record(struct sw_arena *a, struct sw_slice in)
{
    static const struct sw_json_opts bounds = {.max_nodes = 4096, .max_depth = 16};
    struct sw_join_record r;
    struct sw_join_record again;
    struct sw_json *o = NULL;

    if (sw_json_parse(a, in, &bounds, &o, NULL) != SW_OK ||
        sw_join_record_read(a, o, &r, NULL) != SW_OK)
        return;
    assert(sw_join_id_ok(r.id) && r.secret_hash.n == 64);
    assert(sw_join_record_read(a, sw_join_record_new(a, &r), &again, NULL) == SW_OK);
    assert(again.kind == r.kind && sw_slice_eq(again.name, r.name) && !again.key.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_join_request req;
    struct sw_join_bundle bundle;
    struct sw_slice in;

    if (size == 0 || size > 200000)
        return 0;
    in = sw_slice(data + 1, size - 1);
    switch (data[0] % 5) {
    case 0:
        fuzz_code(in);
        break;
    case 1:
        if (sw_join_request_read(&a, in, &req, NULL) == SW_OK)
            assert(sw_join_id_ok(req.id) && req.secret);
        break;
    case 2:
        if (sw_join_bundle_read(&a, in, &bundle, NULL) == SW_OK)
            assert(bundle.ns.n && bundle.name.n && sw_join_kind_name(bundle.kind));
        break;
    case 3:
        fuzz_record(&a, in);
        break;
    default:
        (void)sw_machine_token_id(&a, in);
        break;
    }
    return 0;
}
