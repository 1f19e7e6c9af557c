/* SPDX-License-Identifier: Apache-2.0 */
/* The small pieces every resource is made of. */
#include <stdlib.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "proto/json.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "regex/regex.h"
#include "xds/fields.h"
#include "xds/limits.h"

#define CENTURY_S INT64_C(3153600000)

void sw_gw_build_done(struct sw_gw_build *b)
{
    for (size_t i = 0; i < b->regexes.n; i++)
        sw_regex_free(b->regexes.p[i]);
    for (size_t i = 0; i < b->deps.n; i++)
        sw_slice_free(&b->deps.p[i].name);
    for (size_t i = 0; i < b->logs.n; i++)
        (void)b->unref_log(b->logs.p[i]);
    sw_vec_done(&b->regexes);
    sw_vec_done(&b->deps);
    sw_vec_done(&b->logs);
}

struct sw_slice sw_gw_text(struct sw_gw_build *b, const struct ProtobufCBinaryData *t)
{
    return sw_arena_slice(b->arena, SW_PB_SLICE(*t));
}

struct sw_slice sw_gw_lower(struct sw_gw_build *b, struct sw_slice s)
{
    return sw_gw_lowered(b->arena, s);
}

uint64_t sw_gw_duration(const struct Sw__Duration *d, uint64_t otherwise)
{
    if (!d)
        return otherwise;
    if (d->seconds < 0 || d->nanos < 0)
        return 0;
    if (d->seconds > CENTURY_S)
        return (uint64_t)CENTURY_S * SW_NS_PER_S;
    return (uint64_t)d->seconds * SW_NS_PER_S + (uint64_t)d->nanos % SW_NS_PER_S;
}

bool sw_gw_bool(const struct Sw__BoolValue *v, bool otherwise)
{
    return v ? v->value != 0 : otherwise;
}

uint32_t sw_gw_u32(const struct Sw__UInt32Value *v, uint32_t otherwise)
{
    return v ? v->value : otherwise;
}

int sw_gw_build_regex(struct sw_gw_build *b, struct sw_slice pattern, bool whole,
                      const struct sw_regex **ret)
{
    struct sw_regex *re;
    int rc = sw_regex_new_bytes(pattern, &re, b->err);

    if (rc < 0)
        return sw_err_set(b->err, SW_ELIMIT, "regex '%.*s': %s", SW_SLICE_ARG_MAX(pattern, 60),
                          b->err ? b->err->msg : "invalid");
    if (whole) {
        char *text = sw_arena_printf(b->tmp, "\\A(?:%.*s)\\z", SW_SLICE_ARG(pattern));

        /* The pattern alone was fine, so its brackets cannot reach outside of the group. */
        sw_regex_free(re);
        rc = sw_regex_new_bytes(sw_slice_str(text), &re, b->err);
        if (rc < 0) { /* "\Q" that nothing ends takes the group's end along */
            text = sw_arena_printf(b->tmp, "\\A(?:%.*s\\E)\\z", SW_SLICE_ARG(pattern));
            rc = sw_regex_new_bytes(sw_slice_str(text), &re, b->err);
        }
        if (rc < 0)
            return sw_err_set(b->err, SW_ELIMIT, "regex '%.*s' is too large",
                              SW_SLICE_ARG_MAX(pattern, 60));
    }
    b->regex_size += sw_regex_size(re);
    if (b->regex_size > SW_XDS_REGEX_WORDS_MAX) {
        sw_regex_free(re);
        return sw_err_set(b->err, SW_ELIMIT, "regular expressions are too large together");
    }
    sw_vec_push(&b->regexes, re);
    *ret = re;
    return SW_OK;
}

struct sw_regex **sw_gw_take_regexes(struct sw_gw_build *b, size_t first, size_t *ret_n)
{
    struct sw_regex **list = NULL;

    *ret_n = b->regexes.n - first;
    if (*ret_n) {
        list = SW_NEW_ARRAY(struct sw_regex *, *ret_n);
        memcpy(list, b->regexes.p + first, *ret_n * sizeof(struct sw_regex *));
        b->regexes.n = first;
    }
    return list;
}

int sw_gw_build_str_match(struct sw_gw_build *b, const struct Sw__StringMatcher *m,
                          struct sw_gw_str_match *ret)
{
    const ProtobufCBinaryData *text = NULL;

    *ret = (struct sw_gw_str_match){.icase = m && m->ignore_case};
    switch (m ? (int)m->match_pattern_case : 0) {
    case SW__STRING_MATCHER__MATCH_PATTERN_EXACT:
        ret->kind = SW_GW_STR_EXACT;
        text = &m->exact;
        break;
    case SW__STRING_MATCHER__MATCH_PATTERN_PREFIX:
        ret->kind = SW_GW_STR_PREFIX;
        text = &m->prefix;
        break;
    case SW__STRING_MATCHER__MATCH_PATTERN_SUFFIX:
        ret->kind = SW_GW_STR_SUFFIX;
        text = &m->suffix;
        break;
    case SW__STRING_MATCHER__MATCH_PATTERN_CONTAINS:
        ret->kind = SW_GW_STR_CONTAINS;
        text = &m->contains;
        break;
    case SW__STRING_MATCHER__MATCH_PATTERN_SAFE_REGEX:
        ret->kind = SW_GW_STR_REGEX;
        return sw_gw_build_regex(b, SW_PB_SLICE(m->safe_regex->regex), true, &ret->re);
    default:
        return SW_GW_BAD(b, "unsupported string matcher pattern");
    }
    ret->text = sw_gw_text(b, text);
    return SW_OK;
}

int sw_gw_build_addr(struct sw_gw_build *b, const struct Sw__Address *a, bool names,
                     struct sw_gw_addr *ret, struct sw_slice *ret_host)
{
    struct sw_ip ip;

    *ret = (struct sw_gw_addr){0};
    if (ret_host)
        *ret_host = sw_slice(NULL, 0);
    if (a && a->address_case == SW__ADDRESS__ADDRESS_PIPE) {
        ret->kind = SW_GW_ADDR_PIPE;
        ret->name = sw_gw_text(b, &a->pipe->path);
        return SW_OK;
    }
    if (a && a->address_case == SW__ADDRESS__ADDRESS_ENVOY_INTERNAL_ADDRESS) {
        ret->kind = SW_GW_ADDR_INTERNAL;
        ret->name = sw_gw_text(b, &a->envoy_internal_address->server_listener_name);
        ret->endpoint_id = sw_gw_text(b, &a->envoy_internal_address->endpoint_id);
        return ret->name.n ? SW_OK : SW_GW_BAD(b, "internal address without a name");
    }
    if (!a || a->address_case != SW__ADDRESS__ADDRESS_SOCKET_ADDRESS)
        return SW_GW_BAD(b, "address missing");
    if (a->socket_address->port_specifier_case != SW__SOCKET_ADDRESS__PORT_SPECIFIER_PORT_VALUE ||
        a->socket_address->port_value > 65535)
        return SW_GW_BAD(b, "port missing or above 65535");
    ret->ip.port = (uint16_t)a->socket_address->port_value;
    if (sw_ip_parse(SW_PB_SLICE(a->socket_address->address), &ret->ip.ip, NULL) == SW_OK)
        return SW_OK;
    if (names && sw_host_parse(SW_PB_SLICE(a->socket_address->address), &ip, b->err) != SW_OK)
        return SW_EINVAL;
    if (!names)
        return SW_GW_BAD(b, "'%.*s' is not an IP address",
                         SW_SLICE_ARG_MAX(SW_PB_SLICE(a->socket_address->address), 80));
    ret->name = sw_gw_text(b, &a->socket_address->address);
    if (ret_host)
        *ret_host = ret->name;
    return SW_OK;
}

int sw_gw_build_source(struct sw_gw_build *b, const struct Sw__DataSource *d, size_t max,
                       struct sw_slice *ret)
{
    struct sw_slice file;
    const char *env;

    *ret = sw_slice(NULL, 0);
    switch (d ? (int)d->specifier_case : 0) {
    case 0:
        return SW_OK;
    case SW__DATA_SOURCE__SPECIFIER_INLINE_BYTES:
        *ret = sw_gw_text(b, &d->inline_bytes);
        break;
    case SW__DATA_SOURCE__SPECIFIER_INLINE_STRING:
        *ret = sw_gw_text(b, &d->inline_string);
        break;
    case SW__DATA_SOURCE__SPECIFIER_FILENAME:
        if (sw_file_read(sw_gw_text(b, &d->filename).p, max, &file, b->err) < 0)
            return SW_EINVAL;
        *ret = sw_arena_slice(b->arena, file);
        sw_slice_free(&file);
        break;
    case SW__DATA_SOURCE__SPECIFIER_ENVIRONMENT_VARIABLE:
        env = getenv(sw_gw_text(b, &d->environment_variable).p); /* NOLINT(concurrency-mt-unsafe) */
        if (!env)
            return SW_GW_BAD(b, "environment variable is not set");
        *ret = sw_arena_slice(b->arena, sw_slice_str(env));
        break;
    default:
        return SW_GW_BAD(b, "data source of an unknown kind");
    }
    if (ret->n > max)
        return SW_GW_BAD(b, "data source of more than %zu bytes", max);
    return SW_OK;
}

const struct sw_json *sw_gw_build_struct(struct sw_gw_build *b, const struct Sw__Struct *m)
{
    return m ? sw_pb_to_json(b->arena, &m->base, true) : NULL;
}

const struct sw_json *sw_gw_build_metadata(struct sw_gw_build *b, const struct Sw__Metadata *m)
{
    struct sw_json *out;

    if (!m || m->n_filter_metadata == 0)
        return NULL;
    out = sw_json_new_object(b->arena);
    for (size_t i = 0; i < m->n_filter_metadata; i++) {
        const Sw__FilterMetadata *f = m->filter_metadata[i];

        if (f->value)
            sw_json_set(b->arena, out, SW_PB_SLICE(f->key),
                        sw_pb_to_json(b->arena, &f->value->base, true));
    }
    return out;
}

void sw_gw_build_h2(const struct Sw__Http2ProtocolOptions *o, struct sw_gw_h2_opts *ret)
{
    *ret =
        (struct sw_gw_h2_opts){.max_streams = 100, .stream_window = 65536, .conn_window = 1 << 20};
    if (!o)
        return;
    if (o->max_concurrent_streams)
        ret->max_streams = o->max_concurrent_streams->value;
    if (o->initial_stream_window_size)
        ret->stream_window = o->initial_stream_window_size->value;
    if (o->initial_connection_window_size)
        ret->conn_window = o->initial_connection_window_size->value;
    ret->allow_connect = o->allow_connect;
    if (o->connection_keepalive) {
        ret->ping_interval_ns = sw_gw_duration(o->connection_keepalive->interval, 0);
        ret->ping_timeout_ns = sw_gw_duration(o->connection_keepalive->timeout, 0);
    }
}

/* m, unless it sets a field that has to be refused. */
static void *check_fields(struct sw_gw_build *b, struct ProtobufCMessage *m)
{
    return m && sw_xds_check_fields(m, b->err) == SW_OK ? m : NULL;
}

void *sw_gw_unpack(struct sw_gw_build *b, const struct ProtobufCMessageDescriptor *type,
                   struct sw_slice bytes)
{
    return check_fields(b, sw_pb_unpack(b->tmp, type, bytes, NULL, b->err));
}

void *sw_gw_open_any(struct sw_gw_build *b, const struct Sw__Any *any,
                     const struct ProtobufCMessageDescriptor *type)
{
    if (!any) {
        (void)SW_GW_BAD(b, "typed_config missing");
        return NULL;
    }
    return check_fields(b, sw_pb_any_unpack(b->tmp, any, type, NULL, b->err));
}

/* ---- what an object needs of others ---- */

void sw_gw_need(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_gw_dep d = {.type = t, .name = sw_slice_copy(name)};

    sw_vec_push(&b->deps, d);
}

static bool find(const struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name,
                 struct sw_slice *ret_bytes)
{
    return b->source && b->source->find(b->source, t, name, ret_bytes);
}

bool sw_gw_need_present(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_slice bytes;

    sw_gw_need(b, t, name);
    if (find(b, t, name, &bytes))
        return true;
    b->missing |= !b->give_up;
    return false;
}

struct sw_slice sw_gw_need_secret(struct sw_gw_build *b, struct sw_slice name)
{
    struct sw_slice bytes;

    sw_gw_need(b, SW_GW_TYPE_SECRET, name);
    if (find(b, SW_GW_TYPE_SECRET, name, &bytes))
        return bytes;
    b->missing = true; /* never served without its key, however long that takes */
    return sw_slice(NULL, 0);
}
