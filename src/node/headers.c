/* SPDX-License-Identifier: Apache-2.0 */
#include "node/headers.h"

#include <stdio.h>

#include "base/hex.h"
#include "base/utf8.h"

/* ---- baggage ---- */

void sw_baggage_of(const struct sw_workload *w, struct sw_baggage *ret)
{
    *ret = (struct sw_baggage){
        .cluster = w->at->cluster_id,
        .ns = w->c->ns,
        .workload_name = w->c->workload_name,
        .workload_type = sw_slice_str(sw_workload_type_name(w->c->type)),
        .service_name = w->c->canonical_name,
        .revision = w->c->canonical_revision,
        .region = w->at->region,
        .zone = w->at->zone,
    };
}

/* Octets a baggage value may carry (W3C baggage: visible ASCII without separators), and no '='. */
static bool value_ok(struct sw_slice v)
{
    for (size_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.p[i];

        if (c <= 0x20 || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\' || c == '=')
            return false;
    }
    return v.n > 0;
}

static int add_item(struct sw_buf *out, size_t start, const char *key, struct sw_slice v)
{
    if (!value_ok(v))
        return SW_OK;
    return sw_buf_printf(out, "%s%s=%.*s", sw_buf_len(out) > start ? "," : "", key,
                         SW_SLICE_ARG(v));
}

int sw_baggage_build(const struct sw_baggage *b, struct sw_buf *out)
{
    char workload_key[48];
    const struct {
        const char *key;
        struct sw_slice value;
    } items[] = {
        {"k8s.cluster.name", b->cluster},     {"k8s.namespace.name", b->ns},
        {workload_key, b->workload_name},     {"service.name", b->service_name},
        {"service.version", b->revision},     {"cloud.region", b->region},
        {"cloud.availability_zone", b->zone},
    };
    size_t start = sw_buf_len(out);

    (void)snprintf(workload_key, sizeof(workload_key), "k8s.%.*s.name",
                   SW_SLICE_ARG_MAX(b->workload_type, 16));
    for (size_t i = 0; i < SW_ARRAY_LEN(items); i++) {
        int rc = items[i].key == workload_key && !value_ok(b->workload_type)
                     ? SW_OK
                     : add_item(out, start, items[i].key, items[i].value);

        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static void take_item(struct sw_baggage *b, struct sw_slice key, struct sw_slice value)
{
    static const char *const types[] = {"deployment", "cronjob", "pod", "job"};
    const struct {
        const char *key;
        struct sw_slice *field;
    } plain[] = {
        {"k8s.cluster.name", &b->cluster},  {"k8s.namespace.name", &b->ns},
        {"service.name", &b->service_name}, {"service.version", &b->revision},
        {"cloud.region", &b->region},       {"cloud.availability_zone", &b->zone},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(plain); i++) {
        if (sw_slice_eq_str(key, plain[i].key)) {
            *plain[i].field = value;
            return;
        }
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "k8s.%s.name", types[i]);
        if (sw_slice_eq_str(key, name)) {
            b->workload_type = sw_slice_str(types[i]);
            b->workload_name = value;
            return;
        }
    }
}

void sw_baggage_parse(struct sw_slice value, struct sw_baggage *ret)
{
    *ret = (struct sw_baggage){0};
    if (value.n == 0)
        return;
    while (value.p) {
        struct sw_slice rest = sw_slice_cut(&value, ',');
        struct sw_slice key = sw_slice_trim(sw_slice_cut(&rest, '='));
        struct sw_slice v;

        if (!rest.p)
            continue;
        /* Only the first piece: what follows another '=' or ';' (properties) is not the value. */
        v = sw_slice_cut(&rest, '=');
        v = sw_slice_trim(sw_slice_cut(&v, ';'));
        if (v.n && sw_utf8_valid(v))
            take_item(ret, key, v);
    }
}

/* ---- forwarded ---- */

static bool host_ok(struct sw_slice h)
{
    for (size_t i = 0; i < h.n; i++) {
        unsigned char c = (unsigned char)h.p[i];

        if (c <= 0x20 || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\')
            return false;
    }
    return h.n > 0;
}

int sw_forwarded_build(const struct sw_addr *client, struct sw_slice host, struct sw_buf *out)
{
    char text[SW_ADDR_TEXT];

    (void)sw_addr_text(client, text);
    if (!host_ok(host))
        return sw_buf_printf(out, "for=\"%s\"", text);
    return sw_buf_printf(out, "for=\"%s\";host=%.*s", text, SW_SLICE_ARG(host));
}

/*
 * Cuts at the first sep outside of quotes. As sw_slice_cut: *rest has p == NULL at the end. A
 * quote that is never closed reaches to the end, so nothing inside it is taken for structure.
 */
static struct sw_slice cut_unquoted(struct sw_slice *rest, char sep)
{
    struct sw_slice all = *rest;
    bool quoted = false;

    for (size_t i = 0; i < all.n; i++) {
        if (all.p[i] == '\\' && quoted)
            i++;
        else if (all.p[i] == '"')
            quoted = !quoted;
        else if (all.p[i] == sep && !quoted) {
            *rest = sw_slice_from(all, i + 1);
            return sw_slice_head(all, i);
        }
    }
    *rest = (struct sw_slice){NULL, 0};
    return all;
}

static struct sw_slice unquote(struct sw_slice s)
{
    s = sw_slice_trim(s);
    if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
        return sw_slice(s.p + 1, s.n - 2);
    return s;
}

/* "1.2.3.4:80", "[::1]:80", and the same without a port. */
static bool parse_node(struct sw_slice s, struct sw_addr *ret)
{
    struct sw_addr a = {0};

    if (sw_addr_parse(s, &a, NULL) == SW_OK) {
        *ret = a;
        return true;
    }
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = sw_slice(s.p + 1, s.n - 2);
    if (sw_ip_parse(s, &a.ip, NULL) != SW_OK)
        return false;
    *ret = a;
    return true;
}

void sw_forwarded_parse(struct sw_slice value, struct sw_forwarded *ret)
{
    struct sw_slice element;

    *ret = (struct sw_forwarded){0};
    if (value.n == 0)
        return;
    element = cut_unquoted(&value, ',');
    while (element.p) {
        struct sw_slice v = cut_unquoted(&element, ';');
        struct sw_slice key = sw_slice_trim(sw_slice_cut(&v, '='));

        if (!v.p)
            continue;
        v = unquote(v);
        if (sw_slice_ieq(key, SW_SLICE_LIT("for")) && !ret->has_for)
            ret->has_for = parse_node(v, &ret->client);
        else if (sw_slice_ieq(key, SW_SLICE_LIT("host")) && ret->host.n == 0 && host_ok(v))
            ret->host = v;
    }
}

/* ---- traceparent ---- */

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

bool sw_trace_parse(struct sw_slice value, struct sw_trace *ret)
{
    struct sw_slice part[4];
    struct sw_trace t;
    uint8_t version;

    if (value.n != 55) /* longer forms belong to versions that do not exist yet */
        return false;
    for (size_t i = 0; i < 4; i++) {
        if (!value.p)
            return false;
        part[i] = i < 3 ? sw_slice_cut(&value, '-') : value;
    }
    if (!sw_hex_read_lower(part[0], &version, 1) || version == 0xff ||
        !sw_hex_read_lower(part[1], t.trace_id, 16) || !sw_hex_read_lower(part[2], t.span_id, 8) ||
        !sw_hex_read_lower(part[3], &t.flags, 1))
        return false;
    if (all_zero(t.trace_id, 16) || all_zero(t.span_id, 8))
        return false;
    *ret = t;
    return true;
}

void sw_trace_make(const struct sw_trace *parent, const uint8_t random[24], struct sw_trace *ret)
{
    struct sw_trace t = {0};

    memcpy(t.trace_id, random, 16);
    memcpy(t.span_id, random + 16, 8);
    if (all_zero(t.trace_id, 16))
        t.trace_id[15] = 1; /* zero is reserved */
    if (all_zero(t.span_id, 8))
        t.span_id[7] = 1;
    if (parent) {
        memcpy(t.trace_id, parent->trace_id, 16);
        t.flags = parent->flags;
    }
    *ret = t;
}

char *sw_trace_text(const struct sw_trace *t, char out[SW_TRACE_TEXT])
{
    char *at = out;

    *at++ = '0';
    *at++ = '0';
    *at++ = '-';
    at = sw_hex_write(at, t->trace_id, 16);
    *at++ = '-';
    at = sw_hex_write(at, t->span_id, 8);
    *at++ = '-';
    at = sw_hex_write(at, &t->flags, 1);
    *at = '\0';
    return out;
}
