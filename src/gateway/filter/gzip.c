/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/filter/gzip.h"

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>

#include "gateway/config/build.h"
#include "gateway/config/filter.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/state.h"
#include "gateway/message/fields.h"
#include "http/gzip.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "telemetry/metrics.h"

enum {
    TYPES_MAX = 64,
    MIN_LENGTH = 30, /* bytes; Envoy's */
    WINDOW_BITS = 12,
    MEMORY_LEVEL = 5,
};

struct sw_gw_gzip {
    struct sw_gzip_opts z;
    const struct sw_slice *types; /* of bodies that are worth it, lower case */
    size_t n_types;
    uint64_t min_length;
    bool not_with_etag;
    bool hide; /* the upstream shall not compress: accept-encoding is taken from requests */
    bool off;
};

static const struct sw_slice default_types[] = {
    SW_SLICE_LIT("application/javascript"),
    SW_SLICE_LIT("application/json"),
    SW_SLICE_LIT("application/xhtml+xml"),
    SW_SLICE_LIT("image/svg+xml"),
    SW_SLICE_LIT("text/css"),
    SW_SLICE_LIT("text/html"),
    SW_SLICE_LIT("text/plain"),
    SW_SLICE_LIT("text/xml"),
};

/* ---- configuration ---- */

static bool on(const Sw__RuntimeFeatureFlag *f)
{
    return !f || !f->default_value || f->default_value->value;
}

static int build_library(struct sw_gw_build *b, const Sw__Any *in, struct sw_gzip_opts *z)
{
    const Sw__GzipCompressor *g;
    struct sw_gzip_stream *probe;

    g = sw_gw_open_any(b, in, &sw__gzip_compressor__descriptor);
    if (!g)
        return SW_EINVAL;
    *z = (struct sw_gzip_opts){
        .level = g->compression_level ? (int)g->compression_level : -1,
        .window_bits = g->window_bits ? (int)g->window_bits->value : WINDOW_BITS,
        .memory = g->memory_level ? (int)g->memory_level->value : MEMORY_LEVEL,
        .strategy = (int)g->compression_strategy,
    };
    probe = sw_gzip_stream_new(z);
    if (!probe)
        return SW_GW_BAD(b, "compressor: gzip: a number is out of range");
    sw_gzip_stream_free(probe);
    return SW_OK;
}

static int build_types(struct sw_gw_build *b, const ProtobufCBinaryData *in, size_t n,
                       struct sw_gw_gzip *g)
{
    struct sw_slice *types;

    g->types = default_types;
    g->n_types = SW_ARRAY_LEN(default_types);
    if (n == 0)
        return SW_OK;
    if (n > TYPES_MAX)
        return SW_GW_BAD(b, "compressor: more than %d content types", TYPES_MAX);
    types = sw_arena_array(b->arena, n, sizeof(*types));
    for (size_t i = 0; i < n; i++)
        types[i] = sw_gw_lower(b, SW_PB_SLICE(in[i]));
    g->types = types;
    g->n_types = n;
    return SW_OK;
}

int sw_gw_build_gzip(struct sw_gw_build *b, const struct Sw__Any *any, const void **ret)
{
    const Sw__Compressor *in = sw_gw_open_any(b, any, &sw__compressor__descriptor);
    struct sw_gw_gzip *g = SW_ARENA_NEW(b->arena, struct sw_gw_gzip);
    const Sw__CompressorResponse *r;
    const Sw__CompressorDirection *c;
    int rc;

    if (!in)
        return SW_EINVAL;
    *ret = NULL;
    if (!in->compressor_library->typed_config)
        return SW_GW_BAD(b, "compressor_library.typed_config is missing");
    if (!sw_pb_any_is(in->compressor_library->typed_config, &sw__gzip_compressor__descriptor))
        return SW_OK;
    /* The form of today, and the older one without directions. */
    r = in->response_direction_config;
    c = r ? r->common_config : NULL;
    rc = build_library(b, in->compressor_library->typed_config, &g->z);
    if (rc == SW_OK)
        rc = c ? build_types(b, c->content_type, c->n_content_type, g)
               : build_types(b, in->content_type, in->n_content_type, g);
    if (rc < 0)
        return rc;
    g->min_length = MIN_LENGTH;
    if (c && c->min_content_length)
        g->min_length = c->min_content_length->value;
    else if (!r && in->content_length)
        g->min_length = in->content_length->value;
    g->not_with_etag = r ? r->disable_on_etag_header : in->disable_on_etag_header;
    g->hide = r ? r->remove_accept_encoding_header : in->remove_accept_encoding_header;
    g->off = !on(r ? (c ? c->enabled : NULL) : in->runtime_enabled);
    *ret = g;
    return SW_OK;
}

int sw_gw_build_gzip_route(struct sw_gw_build *b, const struct Sw__Any *any,
                           struct sw_gw_per_filter *p)
{
    const Sw__CompressorPerRoute *in =
        sw_gw_open_any(b, any, &sw__compressor_per_route__descriptor);

    if (!in)
        return SW_EINVAL;
    p->kind = SW_GW_FILTER_NAMED;
    p->disabled = in->override_case == SW__COMPRESSOR_PER_ROUTE__OVERRIDE_DISABLED && in->disabled;
    return SW_OK;
}

/* ---- running ---- */

void sw_gw_gzip_request(struct sw_exchange *x, const struct sw_gw_gzip *g)
{
    static const struct sw_slice name = SW_SLICE_LIT("accept-encoding");
    const struct sw_slice *accept = sw_gw_fields_find(&x->req.fields, name);

    if (g->off)
        return;
    x->rs->gzip = g;
    x->rs->gzip_accepted = accept && sw_gzip_accepted(*accept);
    if (g->hide && x->rs->gzip_accepted)
        sw_gw_fields_remove(&x->req.fields, name);
}

static bool list_has(struct sw_slice list, struct sw_slice word)
{
    while (list.p) {
        if (sw_slice_ieq(sw_slice_trim(sw_slice_cut(&list, ',')), word))
            return true;
    }
    return false;
}

static bool type_is_worth_it(const struct sw_gw_gzip *g, const struct sw_slice *type)
{
    struct sw_slice rest;
    struct sw_slice media;

    if (!type)
        return false;
    rest = *type;
    media = sw_slice_trim(sw_slice_cut(&rest, ';'));
    for (size_t i = 0; i < g->n_types; i++) {
        if (sw_slice_ieq(media, g->types[i]))
            return true;
    }
    return false;
}

/* Would such an answer be compressed for a client that takes it? */
static bool compressible(const struct sw_exchange *x, const struct sw_gw_gzip *g)
{
    const struct sw_gw_fields *f = &x->resp.fields;
    const struct sw_slice *control = sw_gw_fields_find(f, SW_SLICE_LIT("cache-control"));

    if (x->resp.local || x->req.head || x->resp.status == 206 ||
        (x->resp.length != SW_GW_LENGTH_KNOWN && x->resp.length != SW_GW_LENGTH_UNKNOWN))
        return false;
    if (x->resp.length == SW_GW_LENGTH_KNOWN && x->resp.content_length < g->min_length)
        return false;
    if (g->not_with_etag && sw_gw_fields_find(f, SW_SLICE_LIT("etag")))
        return false;
    return !sw_gw_fields_find(f, SW_SLICE_LIT("content-encoding")) &&
           !(control && list_has(*control, SW_SLICE_LIT("no-transform"))) &&
           type_is_worth_it(g, sw_gw_fields_get(f, SW_GW_H_CONTENT_TYPE));
}

/* Caches keep both forms apart by Vary, so the identity form needs it too. */
static void add_vary(struct sw_exchange *x)
{
    static const struct sw_slice name = SW_SLICE_LIT("vary");
    struct sw_slice *vary = sw_gw_fields_find(&x->resp.fields, name);

    if (!vary)
        sw_gw_fields_add(&x->arena, &x->resp.fields, name, SW_SLICE_LIT("Accept-Encoding"));
    else if (!list_has(*vary, SW_SLICE_LIT("*")) &&
             !list_has(*vary, SW_SLICE_LIT("accept-encoding")))
        *vary =
            sw_slice_str(sw_arena_printf(&x->arena, "%.*s, Accept-Encoding", SW_SLICE_ARG(*vary)));
}

void sw_gw_gzip_response(struct sw_exchange *x)
{
    const struct sw_gw_gzip *g = x->rs->gzip;
    struct sw_slice *etag;

    if (!g || x->gzip || !compressible(x, g))
        return;
    add_vary(x);
    if (!x->rs->gzip_accepted)
        return;
    x->gzip = sw_gzip_stream_new(&g->z);
    if (!x->gzip)
        return;
    sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("content-encoding"),
                     SW_SLICE_LIT("gzip"));
    sw_gw_fields_remove(&x->resp.fields, SW_SLICE_LIT("accept-ranges"));
    /* The bytes changed, their meaning did not: a weak validator. */
    etag = sw_gw_fields_find(&x->resp.fields, SW_SLICE_LIT("etag"));
    if (etag && !sw_slice_has_prefix(*etag, SW_SLICE_LIT("W/")))
        *etag = sw_slice_str(sw_arena_printf(&x->arena, "W/%.*s", SW_SLICE_ARG(*etag)));
    x->resp.length = SW_GW_LENGTH_UNKNOWN;
    x->resp.has_length = false;
    x->resp.content_length = 0;
}

static void count(struct sw_exchange *x, const char *direction, size_t n)
{
    struct sw_slice label = sw_slice_str(direction);

    sw_metric_add(sw_metric_get(x->worker->shard, SW_METRIC_GW_GZIP_BYTES, &label), n);
}

static void pass_on(void *arg, struct sw_slice out)
{
    struct sw_exchange *x = arg;

    x->tx_bytes += out.n;
    count(x, "out", out.n);
    if (x->down.ops)
        x->down.ops->send_data(x, out);
}

void sw_gw_gzip_data(struct sw_exchange *x, struct sw_slice data)
{
    if (data.n == 0)
        return;
    count(x, "in", data.n);
    sw_gzip_stream_write(x->gzip, data, false, pass_on, x);
}

void sw_gw_gzip_end(struct sw_exchange *x)
{
    sw_gzip_stream_write(x->gzip, sw_slice("", 0), true, pass_on, x);
}
