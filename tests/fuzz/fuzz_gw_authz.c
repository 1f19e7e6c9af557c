/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of authorisation services, over HTTP and by gRPC: whatever they say, nothing reaches a
 * request or an answer that could not stand in its head, and only a clear yes lets a request pass.
 */
#include <assert.h>
#include <string.h>

#include "gateway/filter/authz_int.h"
#include "gateway/message/fields.h"
#include "http/grammar.h"
#include "http/grpc/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fields(const struct sw_gw_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        assert(sw_http_token_valid(f->p[i].name));
        assert(!f->p[i].value.n || sw_http_value_valid(f->p[i].value));
        assert(!sw_slice_ieq(f->p[i].name, SW_SLICE_LIT("content-length")));
        assert(!sw_slice_ieq(f->p[i].name, SW_SLICE_LIT("transfer-encoding")));
    }
}

static void check(const struct sw_gw_authz_state *s)
{
    for (size_t i = 0; i < s->n_changes; i++) {
        assert(s->verdict == AUTHZ_OK);
        assert(sw_http_token_valid(s->changes[i].name));
        assert(!s->changes[i].value.n || sw_http_value_valid(s->changes[i].value));
        assert(!sw_slice_eq_str(s->changes[i].name, "host"));
    }
    check_fields(&s->client);
    check_fields(&s->response);
    check_fields(&s->x->req.fields);
    assert(s->verdict != AUTHZ_DENIED || (s->status >= 300 && s->status < 600));
}

/* "name: value" lines as fields of the answer. */
static void take_lines(struct sw_exchange *m, struct sw_slice text)
{
    sw_gw_fields_init(&m->arena, &m->resp.fields, 16);
    while (text.p && text.n) {
        struct sw_slice value = sw_slice_cut(&text, '\n');
        struct sw_slice name = sw_slice_cut(&value, ':');

        if (sw_http_token_valid(name) && (!value.n || sw_http_value_valid(value)))
            sw_gw_fields_add(&m->arena, &m->resp.fields, name, value.p ? value : sw_slice("", 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sw_gw_str_match all = {.kind = SW_GW_STR_PREFIX, .text = {"", 0}};
    struct sw_gw_authz_service service = {.copied = {&all, 1, true}, .client_ok = {&all, 1, true}};
    struct sw_exchange x = {0};
    struct sw_exchange m = {0};
    struct sw_gw_authz_state s = {.x = &x, .service = &service};
    char head[SW_GRPC_HEAD];

    if (size < 3 || size > 65536)
        return 0;
    service.grpc = data[0] & 1;
    m.resp.status = (uint16_t)(data[1] << 8 | data[2]);
    sw_buf_init(&s.answer, ANSWER_MAX);
    if (service.grpc) {
        if (data[0] & 2) {
            sw_grpc_head(head, size - 3);
            assert(sw_buf_append(&s.answer, head, sizeof(head)) == SW_OK);
            m.resp.status = 200;
        }
        sw_gw_fields_init(&m.arena, &m.resp.trailers, 4);
        sw_gw_fields_add(&m.arena, &m.resp.trailers, SW_SLICE_LIT("grpc-status"),
                         SW_SLICE_LIT("0"));
        assert(sw_buf_append(&s.answer, data + 3, size - 3) == SW_OK);
    } else {
        take_lines(&m, sw_slice(data + 3, size - 3));
    }
    sw_gw_fields_init(&x.arena, &x.req.fields, 4);
    authz_read_answer(&s, &m);
    assert(s.verdict != AUTHZ_OK || m.resp.status == 200);
    if (s.verdict == AUTHZ_OK)
        authz_change_request(&s);
    check(&s);
    sw_buf_done(&s.answer);
    sw_arena_clear(&x.arena);
    sw_arena_clear(&m.arena);
    return 0;
}
