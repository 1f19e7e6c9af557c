/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control plane for the suite `link` that decides nothing: fixed resources over xDS, and yes to
 * every question, so that what is measured is the data plane and its two questions per connection.
 *
 *   linkcontrol LISTEN TLSDIR import:NAME=PORT peer:NAME=IP:PORT export:NAME=IP:PORT ...
 *
 * TLSDIR holds ca.crt, bench.crt and bench.key. A token is the name of the export.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"
#include "http/grpc/grpc.h"
#include "http/h2serve.h"
#include "io/filewatch.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "tls/cert/cred.h"

#define ADS "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

struct resource {
    const char *type;
    char name[128];
    struct sw_buf bytes;
};

static SW_VEC(struct resource) all;
static char peer[128]; /* where every import goes */

struct ads {
    struct sw_grpc_reader reader;
    unsigned nonce;
};

static void must(int rc)
{
    if (rc != SW_OK)
        abort();
}

static void put(struct sw_buf *out, unsigned field, const struct sw_buf *in)
{
    must(sw_pb_put_bytes(out, field, sw_buf_slice(in)));
}

/* ---- resources ---- */

static void put_address(struct sw_buf *out, unsigned field, struct sw_slice host, unsigned port)
{
    SW_BUF_AUTO socket = {.max = 4096};
    SW_BUF_AUTO address = {.max = 4096};

    must(sw_pb_put_bytes(&socket, 2, host));
    must(sw_pb_put_varint(&socket, 3, port));
    put(&address, 1, &socket);
    put(out, field, &address);
}

static void put_cluster(struct sw_buf *out, const char *name, struct sw_slice at)
{
    SW_BUF_AUTO end = {.max = 4096};
    SW_BUF_AUTO lb = {.max = 4096};
    SW_BUF_AUTO locality = {.max = 4096};
    SW_BUF_AUTO load = {.max = 4096};
    struct sw_slice host;
    struct sw_err err;
    uint16_t port;

    must(sw_authority_split(at, &host, &port, &err));
    put_address(&end, 1, host, port);
    put(&lb, 1, &end);
    put(&locality, 2, &lb);
    put(&load, 2, &locality);
    must(sw_pb_put_bytes(out, 1, sw_slice_str(name)));
    put(out, 33, &load);
}

static void put_inline(struct sw_buf *out, unsigned field, const char *dir, const char *file)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, file);
    SW_BUF_AUTO source = {.max = 1 << 16};
    struct sw_slice text = {0};
    struct sw_err err;

    must(sw_file_read(path, 1 << 16, &text, &err));
    must(sw_pb_put_bytes(&source, 2, text));
    put(out, field, &source);
    sw_slice_free(&text);
}

static struct resource *add(const char *type, const char *prefix, struct sw_slice name)
{
    struct resource r = {.type = type, .bytes = {.max = 1 << 18}};

    (void)snprintf(r.name, sizeof(r.name), "%s%.*s", prefix, SW_SLICE_ARG(name));
    sw_vec_push(&all, r);
    return &all.p[all.n - 1];
}

static void add_secrets(const char *dir)
{
    struct resource *r = add(SW_TYPE_SECRET, "certificate", sw_slice("", 0));
    SW_BUF_AUTO cert = {.max = 1 << 18};
    SW_BUF_AUTO context = {.max = 1 << 18};

    put_inline(&cert, 1, dir, "bench.crt");
    put_inline(&cert, 2, dir, "bench.key");
    put(&r->bytes, 2, &cert);
    r = add(SW_TYPE_SECRET, "validation", sw_slice("", 0));
    put_inline(&context, 1, dir, "ca.crt");
    put(&r->bytes, 4, &context);
}

static void add_arg(struct sw_slice arg)
{
    struct sw_slice kind = sw_slice_cut(&arg, ':');
    struct sw_slice name = sw_slice_cut(&arg, '=');
    struct resource *r;

    if (sw_slice_eq_str(kind, "import")) {
        r = add("type.googleapis.com/envoy.config.listener.v3.Listener", "import-", name);
        put_address(&r->bytes, 2, SW_SLICE_LIT("0.0.0.0"), (unsigned)strtoul(arg.p, NULL, 10));
        return;
    }
    r = add(SW_TYPE_CLUSTER, sw_slice_eq_str(kind, "peer") ? "remote-peer-" : "export-", name);
    put_cluster(&r->bytes, r->name, arg);
    if (sw_slice_eq_str(kind, "peer"))
        (void)snprintf(peer, sizeof(peer), "%s", r->name);
}

/* ---- discovery ---- */

static void answer(struct sw_h2stream *st, struct ads *a, struct sw_slice type)
{
    SW_BUF_AUTO out = {.max = 1 << 20};
    char head[SW_GRPC_HEAD];
    char nonce[16];

    for (size_t i = 0; i < all.n; i++) {
        SW_BUF_AUTO any = {.max = 1 << 18};
        SW_BUF_AUTO res = {.max = 1 << 18};

        if (!sw_slice_eq_str(type, all.p[i].type))
            continue;
        must(sw_pb_put_bytes(&any, 1, type));
        put(&any, 2, &all.p[i].bytes);
        must(sw_pb_put_bytes(&res, 1, SW_SLICE_LIT("1")));
        put(&res, 2, &any);
        must(sw_pb_put_bytes(&res, 3, sw_slice_str(all.p[i].name)));
        put(&out, 2, &res);
    }
    (void)snprintf(nonce, sizeof(nonce), "%u", ++a->nonce);
    must(sw_pb_put_bytes(&out, 4, type));
    must(sw_pb_put_bytes(&out, 5, sw_slice_str(nonce)));
    sw_grpc_head(head, sw_buf_len(&out));
    must(sw_h2stream_send(st, sw_slice(head, sizeof(head))));
    must(sw_h2stream_send(st, sw_buf_slice(&out)));
}

static void on_data(struct sw_h2stream *st, struct sw_slice data, void *arg)
{
    struct ads *a = arg;
    struct sw_slice msg;
    struct sw_err err;

    sw_h2stream_took(st, data.n);
    must(sw_grpc_reader_feed(&a->reader, data, &err));
    while (sw_grpc_reader_next(&a->reader, &msg, &err) == SW_OK) {
        struct sw_slice type = {0};
        bool nonce = false;

        while (msg.n) {
            struct sw_pb_field f;

            must(sw_pb_next(&msg, &f));
            if (f.number == 2)
                type = f.bytes;
            nonce |= f.number == 6;
        }
        if (!nonce)
            answer(st, a, type);
    }
}

static void on_close(struct sw_h2stream *st, uint32_t code, void *arg)
{
    struct ads *a = arg;

    (void)st;
    (void)code;
    sw_grpc_reader_done(&a->reader);
    sw_free(a);
}

static const struct sw_h2stream_ops ads_ops = {.on_data = on_data, .on_close = on_close};
static const struct sw_h2stream_ops no_ops = {0};

/* ---- questions ---- */

static void say_yes(struct sw_h2stream *st, struct sw_slice host, struct sw_slice bearer)
{
    struct sw_h2_header f[] = {
        {SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")},
        {SW_SLICE_LIT("host"), host},
        {SW_SLICE_LIT("x-grant"), SW_SLICE_LIT("g")},
        {SW_SLICE_LIT("authorization"), bearer},
    };

    sw_h2stream_own(st, &no_ops, NULL);
    sw_h2stream_respond(st, f, bearer.n ? 4 : 3, true);
}

static void on_request(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    static const struct sw_h2_header ok[] = {
        {SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")},
        {SW_SLICE_LIT("content-type"), SW_SLICE_LIT("application/grpc")},
    };
    char text[256];

    (void)arg;
    if (sw_slice_eq_str(head->path, ADS)) {
        struct ads *a = SW_NEW(struct ads);

        sw_grpc_reader_init(&a->reader, 1 << 20);
        sw_h2stream_own(st, &ads_ops, a);
        sw_h2stream_respond(st, ok, SW_ARRAY_LEN(ok), false);
    } else if (sw_slice_eq_str(head->path, "/authz/egress")) {
        struct sw_slice name = sw_h2_head_get(head, "x-import");

        (void)snprintf(text, sizeof(text), "Bearer %.*s", SW_SLICE_ARG(name));
        say_yes(st, sw_slice_str(peer), sw_slice_str(text));
    } else {
        struct sw_slice token = sw_slice_from(sw_h2_head_get(head, "authorization"), 7);

        (void)snprintf(text, sizeof(text), "export-%.*s", SW_SLICE_ARG(token));
        say_yes(st, sw_slice_str(text), sw_slice("", 0));
    }
}

static struct sw_tls_cred *load(const char *dir)
{
    static const char *const files[] = {"ca.crt", "bench.crt", "bench.key"};
    struct sw_slice text[3] = {{0}};
    struct sw_tls_cred *cred;
    struct sw_err err = {0};

    for (int i = 0; i < 3; i++) {
        SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, files[i]);

        must(sw_file_read(path, 1 << 16, &text[i], &err));
    }
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .roots = text[0], .chain = text[1], .key = text[2], .any_identity = true},
        &err);
    if (!cred)
        abort();
    for (int i = 0; i < 3; i++)
        sw_slice_free(&text[i]);
    return cred;
}

int main(int argc, char **argv)
{
    struct sw_err err = {0};
    struct sw_loop *l = sw_loop_new(&err);
    struct sw_h2serve_opts o = {.on_request = on_request};
    struct sw_addr at;

    if (argc < 3 || !l)
        return 2;
    must(sw_addr_parse(sw_slice_str(argv[1]), &at, &err));
    add_secrets(argv[2]);
    for (int i = 3; i < argc; i++)
        add_arg(sw_slice_str(argv[i]));
    o.conn.cred = load(argv[2]);
    o.conn.max_streams = 4096;
    must(sw_h2serve_listen(sw_h2serve_new(l, &o), &at, NULL, &err));
    sw_loop_run(l);
    return 0;
}
