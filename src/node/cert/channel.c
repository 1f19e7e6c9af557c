/* SPDX-License-Identifier: Apache-2.0 */
#include "node/cert/channel.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/bearer.h"
#include "identity/join/token.h"
#include "kube/client/transport.h"
#include "tls/cert/cred.h"
#include "tls/cert/x509.h"

enum {
    DEFAULT_PORT = 15012,
    CONNECT_S = 5,
};

struct sw_channel {
    struct sw_loop *loop;
    struct sw_channel_opts o;
    struct sw_arena arena; /* owns the texts below */
    const char *name;
    const char *host;
    uint16_t port;
    bool tls;
    struct sw_h2_header headers[SW_GRPC_METADATA_MAX];
    size_t n_headers;
    struct sw_slice roots;         /* in use; owned */
    struct sw_grpc_client *client; /* NULL: not needed yet */
};

/* ---- settings ---- */

static int parse_address(struct sw_channel *c, struct sw_err *err)
{
    const struct sw_slice https = SW_SLICE_LIT("https://");
    const struct sw_slice http = SW_SLICE_LIT("http://");
    struct sw_slice s = sw_slice_str(c->o.address);
    struct sw_slice host;
    struct sw_ip ip;
    int rc = SW_OK;

    c->tls = !sw_slice_has_prefix(s, http);
    if (!c->tls)
        s = sw_slice_from(s, http.n);
    else if (sw_slice_has_prefix(s, https))
        s = sw_slice_from(s, https.n);
    if (s.n && s.p[s.n - 1] == '/')
        s.n--;
    host = s;
    c->port = DEFAULT_PORT;
    if (sw_slice_find(s, ':') >= 0)
        rc = sw_authority_split(s, &host, &c->port, err);
    if (rc == SW_OK)
        rc = sw_host_parse(host, &ip, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "'%.80s' is not https://HOST:PORT", c->o.address);
    c->host = sw_arena_dup(&c->arena, host);
    c->name = sw_arena_printf(&c->arena, "%s%s:%u", c->tls ? "https://" : "http://", c->host,
                              (unsigned)c->port);
    return SW_OK;
}

/* HTTP/2 wants lower case; what would not be a header at all is left out. */
static struct sw_slice header_name(struct sw_arena *a, struct sw_slice from)
{
    char *name = sw_arena_dup(a, from);

    for (size_t i = 0; i < from.n; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
            return sw_slice("", 0);
        name[i] = (char)tolower((unsigned char)name[i]);
    }
    return sw_slice(name, from.n);
}

static int add_header(struct sw_channel *c, struct sw_slice name, struct sw_slice value,
                      struct sw_err *err)
{
    if (c->n_headers == SW_GRPC_METADATA_MAX)
        return sw_err_set(err, SW_EINVAL, "more than %d headers %s*", SW_GRPC_METADATA_MAX,
                          c->o.header_prefix);
    c->headers[c->n_headers++] = (struct sw_h2_header){name, sw_arena_slice(&c->arena, value)};
    return SW_OK;
}

static int read_headers(struct sw_channel *c, struct sw_err *err)
{
    struct sw_slice prefix = sw_slice_str(c->o.header_prefix);
    int rc = SW_OK;

    if (c->o.cluster_id && c->o.cluster_id[0])
        rc = add_header(c, SW_SLICE_LIT("clusterid"), sw_slice_str(c->o.cluster_id), err);
    for (char **e = environ; prefix.n && e && *e && rc == SW_OK; e++) {
        struct sw_slice value = sw_slice_str(*e);
        struct sw_slice name = sw_slice_cut(&value, '=');

        if (!sw_slice_has_prefix(name, prefix) || !value.p)
            continue;
        name = header_name(&c->arena, sw_slice_from(name, prefix.n));
        if (name.n)
            rc = add_header(c, name, value, err);
    }
    return rc;
}

/* ---- root and token, read anew for every call ---- */

static int read_roots(const struct sw_channel *c, struct sw_slice *ret, struct sw_err *err)
{
    const char *root = c->o.root;

    if (!root || !root[0])
        return sw_err_set(err, SW_EINVAL, "no root certificate for %s is configured", c->name);
    if (strcmp(root, "SYSTEM") == 0)
        return sw_kube_system_roots(ret, err);
    if (strstr(root, "-----BEGIN")) {
        *ret = sw_slice_str(sw_strdup(root));
        return SW_OK;
    }
    return sw_file_read(root, SW_TLS_PEM_MAX, ret, err);
}

static int judge_leaf(void *arg, struct sw_slice leaf, struct sw_err *err)
{
    const struct sw_channel *c = arg;

    if (sw_x509_check_host(leaf, sw_slice_str(c->o.alt_name), NULL) == SW_OK)
        return SW_OK;
    return sw_x509_check_host(leaf, sw_slice_str(c->host), err);
}

static int make_client(struct sw_channel *c, struct sw_tls_cred *cred, struct sw_err *err)
{
    struct sw_grpc_client_opts o = {
        .scope = c->o.scope,
        .host = sw_slice_str(c->host),
        .port = c->port,
        .cred = cred,
        .headers = c->headers,
        .n_headers = c->n_headers,
        .mark = c->o.mark,
        .max_message = c->o.max_message,
        .max_queue = c->o.max_queue,
        .window = c->o.window,
        .connect_timeout_ns = CONNECT_S * SW_NS_PER_S,
    };

    if (c->o.alt_name && c->o.alt_name[0]) {
        o.leaf_ok = judge_leaf;
        o.leaf_arg = c;
    }
    c->client = sw_grpc_client_new(c->loop, &o, err);
    return c->client ? SW_OK : err->rc;
}

/* Takes over 'roots' when they are good. */
static int use_roots(struct sw_channel *c, struct sw_slice *roots, struct sw_err *err)
{
    struct sw_tls_cred *cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = *roots}, err);
    int rc = SW_OK;

    if (!cred)
        return err->rc;
    if (c->client)
        sw_grpc_client_set_cred(c->client, cred); /* from the next connection on */
    else
        rc = make_client(c, cred, err);
    (void)sw_tls_cred_unref(cred);
    if (rc != SW_OK)
        return rc;
    sw_slice_free(&c->roots);
    c->roots = *roots;
    *roots = (struct sw_slice){0};
    return SW_OK;
}

static int update_roots(struct sw_channel *c, struct sw_err *err)
{
    struct sw_slice roots = {0};
    int rc = read_roots(c, &roots, err);

    if (rc == SW_OK && (!c->client || !sw_slice_eq(roots, c->roots)))
        rc = use_roots(c, &roots, err);
    sw_slice_free(&roots);
    return rc;
}

/* A root that cannot be read or used any more keeps the one in use. */
static int prepare(struct sw_channel *c, struct sw_err *err)
{
    struct sw_err why = {0};

    if (!c->tls)
        return c->client ? SW_OK : make_client(c, NULL, err);
    if (!c->client)
        return update_roots(c, err);
    if (update_roots(c, &why) != SW_OK)
        sw_log_warn(c->o.scope, "keeping the previous root of %s: %s", c->name, why.msg);
    return SW_OK;
}

static int sign_token(const struct sw_channel *c, struct sw_slice *ret, struct sw_err *err)
{
    SW_BUF_SECRET token = {.max = SW_MACHINE_TOKEN_MAX};
    int rc = sw_machine_token(c->o.machine, &token, err);

    if (rc == SW_OK)
        *ret = sw_slice_str(sw_slice_dup(sw_buf_slice(&token)));
    return rc;
}

/* What is no path and no file is the token itself: no message quotes it. */
static int read_token(const struct sw_channel *c, struct sw_slice *ret, struct sw_err *err)
{
    const char *token = c->o.token;
    struct sw_err why = {0};
    int rc;

    *ret = (struct sw_slice){0};
    if (c->o.machine)
        return sign_token(c, ret, err);
    if (!token || !token[0])
        return SW_OK;
    rc = sw_bearer_read(token, ret, &why);
    if (rc != SW_OK && rc != SW_EINVAL && !strchr(token, '/')) {
        *ret = sw_slice_str(sw_strdup(token));
        return SW_OK;
    }
    return rc == SW_OK ? rc : sw_err_set(err, rc, "no bearer token: %s", why.msg);
}

/* ---- the whole ---- */

struct sw_channel *sw_channel_new(struct sw_loop *l, const struct sw_channel_opts *o,
                                  struct sw_err *err)
{
    struct sw_channel *c = SW_NEW(struct sw_channel);

    c->loop = l;
    c->o = *o;
    if (parse_address(c, err) != SW_OK || read_headers(c, err) != SW_OK) {
        sw_channel_free(c);
        return NULL;
    }
    if (!c->tls)
        sw_log_warn(o->scope, "%s: tokens and answers travel unencrypted", c->name);
    return c;
}

void sw_channel_free(struct sw_channel *c)
{
    if (!c)
        return;
    sw_grpc_client_free(c->client);
    sw_slice_free(&c->roots);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

struct sw_grpc_call *sw_channel_call(struct sw_channel *c, struct sw_slice path,
                                     uint64_t timeout_ns, const struct sw_grpc_ops *ops, void *arg,
                                     struct sw_err *err)
{
    struct sw_grpc_call *call = NULL;
    struct sw_slice token;

    if (read_token(c, &token, err) != SW_OK)
        return NULL;
    if (prepare(c, err) == SW_OK)
        call = sw_grpc_call(c->client, path, sw_slice_trim_lines(token), timeout_ns, ops, arg);
    sw_slice_free_secret(&token);
    return call;
}

const char *sw_channel_name(const struct sw_channel *c)
{
    return c->name;
}
