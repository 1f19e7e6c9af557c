/* SPDX-License-Identifier: Apache-2.0 */
/* The small messages that every resource is put together from. */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"

Sw__BoolValue *sw_gwx_bool(struct enc *e, bool v)
{
    Sw__BoolValue *m = SW_PB_NEW(e->a, Sw__BoolValue, sw__bool_value);

    m->value = v;
    return m;
}

Sw__UInt32Value *sw_gwx_u32(struct enc *e, uint32_t v)
{
    Sw__UInt32Value *m = SW_PB_NEW(e->a, Sw__UInt32Value, sw__uint32_value);

    m->value = v;
    return m;
}

Sw__Duration *sw_gwx_duration(struct enc *e, uint64_t ms)
{
    Sw__Duration *m = SW_PB_NEW(e->a, Sw__Duration, sw__duration);

    m->seconds = (int64_t)(ms / 1000);
    m->nanos = (int32_t)(ms % 1000 * 1000000);
    return m;
}

Sw__ConfigSource *sw_gwx_ads(struct enc *e)
{
    Sw__ConfigSource *m = SW_PB_NEW(e->a, Sw__ConfigSource, sw__config_source);

    m->config_source_specifier_case = SW__CONFIG_SOURCE__CONFIG_SOURCE_SPECIFIER_ADS;
    m->ads = SW_PB_NEW(e->a, Sw__AggregatedConfigSource, sw__aggregated_config_source);
    m->resource_api_version = SW__API_VERSION__V3;
    return m;
}

Sw__RegexMatcher *sw_gwx_regex(struct enc *e, struct sw_slice regex)
{
    Sw__RegexMatcher *m = SW_PB_NEW(e->a, Sw__RegexMatcher, sw__regex_matcher);

    m->regex = SW_PB_BYTES(regex);
    return m;
}

/* The text with a backslash before each of the given characters. */
static struct sw_slice escape(struct sw_arena *a, struct sw_slice s, const char *special, char with)
{
    char *p = sw_arena_alloc(a, s.n * 2 + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\0' && strchr(special, s.p[i]))
            p[n++] = with;
        p[n++] = s.p[i];
    }
    return sw_slice(p, n);
}

struct sw_slice sw_gwx_regex_quote(struct enc *e, struct sw_slice s)
{
    return escape(e->a, s, "\\.+*?()|[]{}^$", '\\');
}

Sw__RegexMatchAndSubstitute *sw_gwx_substitute(struct enc *e, struct sw_slice pattern,
                                               struct sw_slice literal)
{
    Sw__RegexMatchAndSubstitute *m =
        SW_PB_NEW(e->a, Sw__RegexMatchAndSubstitute, sw__regex_match_and_substitute);

    m->pattern = sw_gwx_regex(e, pattern);
    m->substitution = SW_PB_BYTES(escape(e->a, literal, "\\", '\\'));
    return m;
}

Sw__StringMatcher *sw_gwx_string_match(struct enc *e, enum sw_model_match_kind kind,
                                       struct sw_slice value)
{
    Sw__StringMatcher *m = SW_PB_NEW(e->a, Sw__StringMatcher, sw__string_matcher);

    switch (kind) {
    case SW_MODEL_MATCH_EXACT:
        m->match_pattern_case = SW__STRING_MATCHER__MATCH_PATTERN_EXACT;
        m->exact = SW_PB_BYTES(value);
        break;
    case SW_MODEL_MATCH_REGEX:
        m->match_pattern_case = SW__STRING_MATCHER__MATCH_PATTERN_SAFE_REGEX;
        m->safe_regex = sw_gwx_regex(e, value);
        break;
    }
    return m;
}

Sw__TransportSocket *sw_gwx_socket(struct enc *e, const char *name,
                                   const struct ProtobufCMessage *config)
{
    Sw__TransportSocket *m = SW_PB_NEW(e->a, Sw__TransportSocket, sw__transport_socket);

    SW_GWX_TYPED(e, m, name, SW__TRANSPORT_SOCKET__CONFIG_TYPE_TYPED_CONFIG, config);
    return m;
}

Sw__Address *sw_gwx_address(struct enc *e, struct sw_slice ip, uint16_t port, bool udp)
{
    Sw__SocketAddress *s = SW_PB_NEW(e->a, Sw__SocketAddress, sw__socket_address);
    Sw__Address *m = SW_PB_NEW(e->a, Sw__Address, sw__address);

    s->protocol = udp ? SW__SOCKET_ADDRESS__PROTOCOL__UDP : SW__SOCKET_ADDRESS__PROTOCOL__TCP;
    s->address = SW_PB_BYTES(ip);
    s->port_specifier_case = SW__SOCKET_ADDRESS__PORT_SPECIFIER_PORT_VALUE;
    s->port_value = port;
    m->address_case = SW__ADDRESS__ADDRESS_SOCKET_ADDRESS;
    m->socket_address = s;
    return m;
}

Sw__SdsSecretConfig *sw_gwx_sds(struct enc *e, struct sw_slice name)
{
    Sw__SdsSecretConfig *m = SW_PB_NEW(e->a, Sw__SdsSecretConfig, sw__sds_secret_config);

    m->name = SW_PB_BYTES(name);
    m->sds_config = sw_gwx_ads(e);
    return m;
}

static Sw__StructField *text_field(struct enc *e, const struct sw_model_header *h)
{
    Sw__StructField *f = SW_PB_NEW(e->a, Sw__StructField, sw__struct_field);

    f->key = SW_PB_BYTES(h->name);
    f->value = SW_PB_NEW(e->a, Sw__Value, sw__value);
    f->value->kind_case = SW__VALUE__KIND_STRING_VALUE;
    f->value->string_value = SW_PB_BYTES(h->value);
    return f;
}

Sw__Metadata *sw_gwx_text_metadata(struct enc *e, struct sw_slice filter,
                                   const struct sw_model_header *fields, size_t n)
{
    Sw__Metadata *m = SW_PB_NEW(e->a, Sw__Metadata, sw__metadata);
    Sw__FilterMetadata *f = SW_PB_NEW(e->a, Sw__FilterMetadata, sw__filter_metadata);

    f->key = SW_PB_BYTES(filter);
    f->value = SW_PB_NEW(e->a, Sw__Struct, sw__struct);
    f->value->fields = sw_arena_array(e->a, n, sizeof(*f->value->fields));
    for (size_t i = 0; i < n; i++) {
        if (fields[i].value.n)
            f->value->fields[f->value->n_fields++] = text_field(e, &fields[i]);
    }
    SW_GWX_ONE(e, m, filter_metadata, f);
    return m;
}

Sw__AccessLog **sw_gwx_access_log(struct enc *e, size_t *ret_n)
{
    Sw__StdoutAccessLog *out;
    Sw__AccessLog *m;

    *ret_n = 0;
    if (!e->conf->access_log)
        return NULL;
    out = SW_PB_NEW(e->a, Sw__StdoutAccessLog, sw__stdout_access_log);
    m = SW_PB_NEW(e->a, Sw__AccessLog, sw__access_log);
    SW_GWX_TYPED(e, m, "envoy.access_loggers.stdout", SW__ACCESS_LOG__CONFIG_TYPE_TYPED_CONFIG,
                 &out->base);
    *ret_n = 1;
    return sw_gwx_one(e, m);
}

static Sw__HeaderValueOption *header_option(struct enc *e, const struct sw_model_header *h,
                                            bool set)
{
    Sw__HeaderValueOption *m = SW_PB_NEW(e->a, Sw__HeaderValueOption, sw__header_value_option);

    m->header = SW_PB_NEW(e->a, Sw__HeaderValue, sw__header_value);
    m->header->key = SW_PB_BYTES(h->name);
    m->header->value = SW_PB_BYTES(escape(e->a, h->value, "%", '%'));
    if (set)
        m->append_action =
            SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__OVERWRITE_IF_EXISTS_OR_ADD;
    m->keep_empty_value = h->value.n == 0;
    return m;
}

Sw__HeaderValueOption **sw_gwx_header_options(struct enc *e, const struct sw_model_headers *h,
                                              size_t *ret_n)
{
    Sw__HeaderValueOption **p;
    size_t n = 0;

    *ret_n = h->n_set + h->n_add;
    if (*ret_n == 0)
        return NULL;
    p = sw_arena_array(e->a, *ret_n, sizeof(*p));
    for (size_t i = 0; i < h->n_set; i++)
        p[n++] = header_option(e, &h->set[i], true);
    for (size_t i = 0; i < h->n_add; i++)
        p[n++] = header_option(e, &h->add[i], false);
    return p;
}

ProtobufCBinaryData *sw_gwx_header_removals(struct enc *e, const struct sw_model_headers *h,
                                            size_t *ret_n)
{
    ProtobufCBinaryData *p;

    *ret_n = h->n_remove;
    if (h->n_remove == 0)
        return NULL;
    p = sw_arena_array(e->a, h->n_remove, sizeof(*p));
    for (size_t i = 0; i < h->n_remove; i++)
        p[i] = SW_PB_BYTES(h->remove[i]);
    return p;
}

void *sw_gwx_one(struct enc *e, void *p)
{
    void **array = sw_arena_array(e->a, 1, sizeof(void *));

    array[0] = p;
    return array;
}
