/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/record.h"

#include "base/base64.h"
#include "io/egress.h"
#include "kube/client/kinds.h"
#include "kube/client/secret.h"
#include "kube/fields.h"
#include "kube/names.h"

#define SPEC "spec.json"
#define HASH "secret-sha256"
#define DONE "machine.json"

enum { TEXT_MAX = 64 << 10, HASH_LEN = 64, KEY_MAX = 1024, LABELS_MAX = 64 };

/* ---- reading ---- */

/* A value of a Secret's data, decoded; p == NULL: it is not there. */
static int data_of(struct sw_arena *a, const struct sw_json *secret, const char *key,
                   struct sw_slice *ret, struct sw_err *err)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};
    int rc = sw_secret_get(secret, key, &b);

    *ret = rc == SW_OK ? sw_arena_slice(a, sw_buf_slice(&b)) : sw_slice(NULL, 0);
    return rc == SW_OK || rc == SW_ENOENT
               ? SW_OK
               : sw_err_set(err, SW_EINVAL, "%s is too long, or not base64", key);
}

static int object_of(struct sw_arena *a, struct sw_slice text, const char *key,
                     struct sw_json **ret, struct sw_err *err)
{
    static const struct sw_json_opts bounds = {
        .max_bytes = TEXT_MAX, .max_nodes = 1024, .max_depth = 8};
    int rc = sw_json_parse(a, text, &bounds, ret, err);

    if (rc == SW_OK && !sw_json_is(*ret, SW_JSON_OBJECT))
        rc = sw_err_set(err, SW_EINVAL, "not an object");
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "%s", key);
}

static bool labels_ok(const struct sw_json *labels)
{
    if (!labels)
        return true;
    if (!sw_json_is(labels, SW_JSON_OBJECT) || sw_json_len(labels) > LABELS_MAX)
        return false;
    for (size_t i = 0; i < sw_json_len(labels); i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);

        if (sw_name_label_key(m->key).n || !sw_json_is(m->value, SW_JSON_STRING) ||
            sw_name_label_value(sw_json_str(m->value)).n)
            return false;
    }
    return true;
}

static int check_spec(const struct sw_join_record *r, struct sw_err *err)
{
    struct sw_ip ip;

    if (sw_name_dns1123_subdomain(r->name).n)
        return sw_err_set(err, SW_EINVAL, "name is not a name");
    if (r->account.n && sw_name_dns1123_subdomain(r->account).n)
        return sw_err_set(err, SW_EINVAL, "serviceAccount is not a name");
    if (r->kind != SW_JOIN_PEER && !r->account.n)
        return sw_err_set(err, SW_EINVAL, "serviceAccount is missing");
    if (r->network.n && sw_name_label_value(r->network).n)
        return sw_err_set(err, SW_EINVAL, "network is not a name");
    if (r->address.n && sw_ip_parse(r->address, &ip, NULL) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "address is not an IP address");
    if (r->address.n && sw_egress_classify(&ip) != SW_EGRESS_OK)
        return sw_err_set(err, SW_EDENIED, "address leads nowhere that others may go (%s)",
                          sw_egress_class_text(sw_egress_classify(&ip)));
    return labels_ok(r->labels) ? SW_OK : sw_err_set(err, SW_EINVAL, "labels are not labels");
}

static int read_spec(struct sw_arena *a, struct sw_slice text, struct sw_join_record *r,
                     struct sw_err *err)
{
    struct sw_json *o;
    int rc = object_of(a, text, SPEC, &o, err);

    if (rc != SW_OK)
        return rc;
    if (!sw_join_kind_parse(sw_field_text(o, "kind"), &r->kind))
        return sw_err_set(err, SW_EINVAL, "kind is not known");
    if (!sw_json_u64(sw_json_find(o, "expires"), &r->expires_s))
        return sw_err_set(err, SW_EINVAL, "expires is not a number of seconds");
    r->name = sw_field_text(o, "name");
    r->account = sw_field_text(o, "serviceAccount");
    r->network = sw_field_text(o, "network");
    r->address = sw_field_text(o, "address");
    r->labels = sw_json_find(o, "labels");
    r->server = sw_field_text(o, "server");
    r->ca = sw_field_text(o, "ca");
    r->xds_address = sw_field_text(o, "xdsAddress");
    r->xds_ca = sw_field_text(o, "xdsCa");
    return check_spec(r, err);
}

static int read_done(struct sw_arena *a, struct sw_slice text, struct sw_join_record *r,
                     struct sw_err *err)
{
    SW_BUF_AUTO key = {.max = KEY_MAX};
    struct sw_json *o;
    int rc = object_of(a, text, DONE, &o, err);

    if (rc != SW_OK)
        return rc;
    if (sw_base64_decode(&key, sw_field_text(o, "key")) != SW_OK || sw_buf_len(&key) == 0)
        return sw_err_set(err, SW_EINVAL, "the key of the machine is not base64");
    r->key = sw_arena_slice(a, sw_buf_slice(&key));
    r->redeemed_at = sw_field_text(o, "at");
    r->from = sw_field_text(o, "from");
    r->host = sw_field_text(o, "host");
    return SW_OK;
}

int sw_join_record_read(struct sw_arena *a, const struct sw_json *secret,
                        struct sw_join_record *ret, struct sw_err *err)
{
    const struct sw_json *meta = sw_json_find(secret, "metadata");
    struct sw_join_record r = {.ns = sw_field_text(meta, "namespace"),
                               .uid = sw_field_text(meta, "uid"),
                               .rv = sw_field_text(meta, "resourceVersion")};
    struct sw_slice spec;
    struct sw_slice done;
    int rc;

    r.id = sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(r.ns),
                                        SW_SLICE_ARG(sw_field_text(meta, "name"))));
    if (!sw_slice_eq_str(sw_field_text(secret, "type"), SW_JOIN_TYPE) || !sw_join_id_ok(r.id))
        return sw_err_set(err, SW_EINVAL, "not a Secret of type " SW_JOIN_TYPE);
    rc = data_of(a, secret, SPEC, &spec, err);
    if (rc == SW_OK)
        rc = data_of(a, secret, HASH, &r.secret_hash, err);
    if (rc == SW_OK)
        rc = data_of(a, secret, DONE, &done, err);
    if (rc == SW_OK && (!spec.p || r.secret_hash.n != HASH_LEN))
        rc = sw_err_set(err, SW_EINVAL, SPEC " or " HASH " is missing");
    if (rc == SW_OK)
        rc = read_spec(a, spec, &r, err);
    if (rc == SW_OK && done.p)
        rc = read_done(a, done, &r, err);
    if (rc == SW_OK)
        *ret = r;
    return rc;
}

/* ---- writing ---- */

static void put_object(struct sw_arena *a, struct sw_json *data, const char *key,
                       const struct sw_json *o)
{
    sw_secret_put(a, data, key, sw_json_text(a, o, NULL));
}

static void put_if(struct sw_arena *a, struct sw_json *o, const char *key, struct sw_slice s)
{
    if (s.n)
        sw_json_put_str(a, o, key, s);
}

static struct sw_json *spec_of(struct sw_arena *a, const struct sw_join_record *r)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_put_text(a, o, "kind", sw_join_kind_name(r->kind));
    sw_json_put_str(a, o, "name", r->name);
    sw_json_put(a, o, "expires", sw_json_new_u64(a, r->expires_s));
    put_if(a, o, "serviceAccount", r->account);
    put_if(a, o, "network", r->network);
    put_if(a, o, "address", r->address);
    if (r->labels)
        sw_json_put(a, o, "labels", sw_json_copy(a, r->labels));
    put_if(a, o, "server", r->server);
    put_if(a, o, "ca", r->ca);
    put_if(a, o, "xdsAddress", r->xds_address);
    put_if(a, o, "xdsCa", r->xds_ca);
    return o;
}

struct sw_slice sw_join_record_name(const struct sw_join_record *r)
{
    struct sw_slice name = r->id;

    (void)sw_slice_cut(&name, '/');
    return name;
}

struct sw_json *sw_join_record_new(struct sw_arena *a, const struct sw_join_record *r)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *meta;
    struct sw_json *data;

    sw_json_put_text(a, o, "apiVersion", sw_secrets_gvr.version);
    sw_json_put_text(a, o, "kind", sw_secrets_gvr.kind);
    sw_json_put_text(a, o, "type", SW_JOIN_TYPE);
    meta = sw_json_put_object(a, o, "metadata");
    sw_json_put_str(a, meta, "namespace", r->ns);
    sw_json_put_str(a, meta, "name", sw_join_record_name(r));
    sw_json_put_text(a, sw_json_put_object(a, meta, "labels"), SW_JOIN_LABEL,
                     sw_join_kind_name(r->kind));
    data = sw_json_put_object(a, o, "data");
    put_object(a, data, SPEC, spec_of(a, r));
    sw_secret_put(a, data, HASH, r->secret_hash);
    return o;
}

struct sw_json *sw_join_record_redeem(struct sw_arena *a, const struct sw_join_record *r)
{
    SW_BUF_AUTO key = {.max = 2 * KEY_MAX};
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *meta = sw_json_put_object(a, o, "metadata");
    struct sw_json *done = sw_json_new_object(a);

    if (sw_base64_append(&key, r->key) == SW_OK)
        sw_json_put_str(a, done, "key", sw_buf_slice(&key));
    sw_json_put_str(a, done, "at", r->redeemed_at);
    sw_json_put_str(a, done, "from", r->from);
    sw_json_put_str(a, done, "host", r->host);
    sw_json_put_str(a, meta, "uid", r->uid);
    sw_json_put_str(a, meta, "resourceVersion", r->rv);
    put_object(a, sw_json_put_object(a, o, "data"), DONE, done);
    return o;
}

struct sw_json *sw_join_record_owner(struct sw_arena *a, const struct sw_join_record *r)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_put_text(a, o, "apiVersion", sw_secrets_gvr.version);
    sw_json_put_text(a, o, "kind", sw_secrets_gvr.kind);
    sw_json_put_str(a, o, "name", sw_join_record_name(r));
    sw_json_put_str(a, o, "uid", r->uid);
    return o;
}

/* ---- judging ---- */

/* Takes the same time wherever they differ. */
static bool same_hash(struct sw_slice stored, const char hash[65])
{
    unsigned diff = stored.n != HASH_LEN;

    for (size_t i = 0; i < HASH_LEN && i < stored.n; i++)
        diff |= (unsigned)(uint8_t)stored.p[i] ^ (uint8_t)hash[i];
    return diff == 0;
}

enum sw_join_verdict sw_join_judge(const struct sw_join_record *r, const char hash[65],
                                   struct sw_slice key, uint64_t now_s)
{
    if (!same_hash(r->secret_hash, hash))
        return SW_JOIN_WRONG;
    if (r->key.n) /* whoever has the key is the machine, however late an answer was lost */
        return sw_slice_eq(r->key, key) ? SW_JOIN_AGAIN : SW_JOIN_USED;
    return now_s < r->expires_s ? SW_JOIN_FIRST : SW_JOIN_EXPIRED;
}

const char *sw_join_verdict_text(enum sw_join_verdict v)
{
    static const char *const texts[] = {
        [SW_JOIN_FIRST] = "granted",
        [SW_JOIN_AGAIN] = "granted to the same machine again",
        [SW_JOIN_WRONG] = "the secret is wrong",
        [SW_JOIN_EXPIRED] = "the code has expired",
        [SW_JOIN_USED] = "the code was used by another machine",
    };

    return texts[v];
}
