/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/kubeconfig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "http/grammar.h"
#include "io/addr.h"
#include "yaml/yaml.h"

/* One named entry of a list, with the source it came from. */
struct found {
    const struct sw_yaml *value;
    const struct sw_kubeconfig_src *src;
};

struct reading {
    struct sw_arena tmp; /* the YAML trees */
    const struct sw_kubeconfig_src *srcs;
    const struct sw_yaml *roots[SW_KUBECONFIG_FILES];
    size_t n;
    struct sw_kube_config *c;
    struct sw_err *err;
    int rc; /* the first failure: nothing is read after it */
};

/* --- the server's address --- */

static int split_port(struct sw_kube_config *c, struct sw_slice authority, struct sw_err *err)
{
    struct sw_slice host = authority;
    struct sw_slice port = {0};
    ptrdiff_t end;
    uint64_t n = c->tls ? 443 : 80;

    if (authority.n && authority.p[0] == '[') {
        struct sw_ip ip;

        end = sw_slice_find(authority, ']');
        if (end < 0)
            return sw_err_set(err, SW_EINVAL, "server: ']' is missing");
        host = sw_slice(authority.p + 1, (size_t)end - 1);
        port = sw_slice_from(authority, (size_t)end + 1);
        if (sw_ip_parse(host, &ip, NULL) != SW_OK || sw_slice_find(host, ':') < 0 ||
            (port.n && port.p[0] != ':'))
            return sw_err_set(err, SW_EINVAL, "server: bad IPv6 address");
        port = sw_slice_from(port, 1);
    } else if ((end = sw_slice_find(authority, ':')) >= 0) {
        host = sw_slice_head(authority, (size_t)end);
        port = sw_slice_from(authority, (size_t)end + 1);
    }
    if (host.n == 0 || host.n > 253 || (sw_slice_find(host, ':') < 0 && !sw_http_host_valid(host)))
        return sw_err_set(err, SW_EINVAL, "server: bad host name");
    if (port.n && (!sw_slice_to_u64(port, 65535, &n) || n == 0))
        return sw_err_set(err, SW_EINVAL, "server: bad port");
    c->host = sw_arena_slice(&c->arena, host);
    c->port = (uint16_t)n;
    return SW_OK;
}

/* Paths go into request lines as they are. */
static bool path_ok(struct sw_slice path)
{
    for (size_t i = 0; i < path.n; i++) {
        unsigned char ch = (unsigned char)path.p[i];

        if (ch <= ' ' || ch >= 0x7f || strchr("\"<>\\^`{|}", ch))
            return false;
    }
    return true;
}

int sw_kube_server_parse(struct sw_kube_config *c, struct sw_slice url, struct sw_err *err)
{
    struct sw_slice rest;
    struct sw_slice path;
    ptrdiff_t slash;

    if (sw_slice_has_prefix(url, SW_SLICE_LIT("https://"))) {
        c->tls = true;
        rest = sw_slice_from(url, 8);
    } else if (sw_slice_has_prefix(url, SW_SLICE_LIT("http://"))) {
        c->tls = false;
        rest = sw_slice_from(url, 7);
    } else {
        return sw_err_set(err, SW_EINVAL, "server '%.*s' does not begin with https:// or http://",
                          SW_SLICE_ARG(sw_slice_head(url, 80)));
    }
    slash = sw_slice_find(rest, '/');
    path = slash < 0 ? sw_slice("", 0) : sw_slice_from(rest, (size_t)slash);
    if (slash >= 0)
        rest = sw_slice_head(rest, (size_t)slash);
    if (sw_slice_find(rest, '@') >= 0)
        return sw_err_set(err, SW_EINVAL, "server: a user name in the address is not supported");
    if (!path_ok(path) || sw_slice_find(path, '?') >= 0 || sw_slice_find(path, '#') >= 0)
        return sw_err_set(err, SW_EINVAL, "server: bad path");
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    c->base = sw_arena_slice(&c->arena, path);
    return split_port(c, rest, err);
}

/* --- finding entries --- */

/* The entry {name: ..., <what>: {...}} of a list; the first source that has it wins. */
static int find_named(struct reading *r, const char *list, const char *what, struct sw_slice name,
                      struct found *ret)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sw_yaml *seq = sw_yaml_get(r->roots[i], list);

        if (!seq || seq->kind != SW_YAML_SEQ)
            continue;
        SW_YAML_FOREACH (it, seq) {
            const struct sw_yaml *n = it->kind == SW_YAML_MAP ? sw_yaml_get(it, "name") : NULL;
            const struct sw_yaml *v = n ? sw_yaml_get(it, what) : NULL;

            if (!v || n->kind != SW_YAML_SCALAR || !sw_slice_eq(n->text, name))
                continue;
            if (v->kind != SW_YAML_MAP && !sw_yaml_is_null(v))
                return sw_yaml_error(v, r->err, "'%s' is not a map", what);
            *ret = (struct found){v, &r->srcs[i]};
            return SW_OK;
        }
    }
    return sw_err_set(r->err, SW_ENOENT, "no entry '%.*s' in '%s'",
                      SW_SLICE_ARG(sw_slice_head(name, 80)), list);
}

/* Text of a member, copied; p == NULL when it is absent or null. */
static void text_of(struct reading *r, const struct found *f, const char *key, struct sw_slice *ret)
{
    const struct sw_yaml *v = r->rc == SW_OK ? sw_yaml_get(f->value, key) : NULL;
    struct sw_slice s;

    *ret = sw_slice(NULL, 0);
    if (!v || sw_yaml_is_null(v))
        return;
    r->rc = sw_yaml_text(v, &s, r->err);
    if (r->rc == SW_OK && memchr(s.p, 0, s.n))
        r->rc = sw_yaml_error(v, r->err, "'%s' holds a NUL", key);
    if (r->rc == SW_OK && s.n)
        *ret = sw_arena_slice(&r->c->arena, s);
}

/* Fails when the entry has a member that we cannot honour. */
static void refuse(struct reading *r, const struct found *f, const char *key, const char *why)
{
    const struct sw_yaml *v = r->rc == SW_OK ? sw_yaml_get(f->value, key) : NULL;

    if (v && !sw_yaml_is_null(v) && (v->kind == SW_YAML_SCALAR ? v->text.n : v->count))
        r->rc = sw_yaml_error(v, r->err, "'%s' is not supported: %s", key, why);
}

/* A file that the entry names, relative to its kubeconfig. */
static const char *file_of(struct reading *r, const struct found *f, struct sw_slice name)
{
    if (!name.n)
        return NULL;
    if (name.p[0] == '/' || !f->src->dir)
        return name.p; /* the arena's copies are NUL-terminated */
    return sw_arena_printf(&r->c->arena, "%s/%s", f->src->dir, name.p);
}

/* Long base64 is often folded over lines. */
static int decode_folded(struct sw_buf *out, struct sw_slice s)
{
    SW_BUF_SECRET flat = {.max = (size_t)2 * SW_KUBE_FILE_MAX};
    int rc = SW_OK;

    for (size_t i = 0; i < s.n && rc == SW_OK; i++) {
        if (s.p[i] != '\n' && s.p[i] != '\r' && s.p[i] != ' ')
            rc = sw_buf_putc(&flat, s.p[i]);
    }
    if (rc == SW_OK)
        rc = sw_base64_decode(out, sw_buf_slice(&flat));
    return rc;
}

/* <key>-data (base64) or <key>: a file, relative to the kubeconfig. */
static void blob_of(struct reading *r, const struct found *f, const char *key,
                    struct sw_kube_blob *ret)
{
    char data_key[64];
    struct sw_slice s;
    SW_BUF_AUTO raw = {.max = SW_KUBE_FILE_MAX};

    (void)snprintf(data_key, sizeof(data_key), "%s-data", key);
    text_of(r, f, data_key, &s);
    if (s.n && decode_folded(&raw, s) == SW_OK) {
        ret->data = sw_arena_slice(&r->c->arena, sw_buf_slice(&raw));
    } else if (s.n) {
        r->rc =
            sw_yaml_error(sw_yaml_get(f->value, data_key), r->err, "'%s' is not base64", data_key);
    } else {
        text_of(r, f, key, &s);
        ret->file = file_of(r, f, s);
    }
}

/* --- the three parts --- */

static void read_cluster(struct reading *r, const struct found *f)
{
    struct sw_kube_config *c = r->c;
    const struct sw_yaml *skip = sw_yaml_get(f->value, "insecure-skip-tls-verify");
    struct sw_slice server;

    text_of(r, f, "server", &server);
    if (r->rc == SW_OK && server.n == 0)
        r->rc = sw_yaml_error(f->value, r->err, "the cluster has no 'server'");
    if (r->rc == SW_OK)
        r->rc = sw_kube_server_parse(c, server, r->err);
    refuse(r, f, "proxy-url", "connections go straight to the server");
    text_of(r, f, "tls-server-name", &c->tls_name);
    blob_of(r, f, "certificate-authority", &c->ca);
    if (r->rc == SW_OK && skip && !sw_yaml_is_null(skip))
        r->rc = sw_yaml_bool(skip, &c->insecure, r->err);
    if (r->rc == SW_OK && c->insecure && (c->ca.data.n || c->ca.file))
        r->rc = sw_yaml_error(skip, r->err,
                              "a certificate authority and insecure-skip-tls-verify exclude each "
                              "other");
}

static int read_groups(struct reading *r, const struct found *f)
{
    const struct sw_yaml *seq = sw_yaml_get(f->value, "as-groups");
    struct sw_kube_config *c = r->c;

    if (!seq || sw_yaml_is_null(seq))
        return SW_OK;
    if (seq->kind != SW_YAML_SEQ)
        return sw_yaml_error(seq, r->err, "'as-groups' is not a list");
    SW_YAML_FOREACH (it, seq) {
        struct sw_slice s;

        if (c->n_as_groups == SW_KUBE_AS_GROUPS_MAX)
            return sw_err_set(r->err, SW_ELIMIT, "more than %d groups", SW_KUBE_AS_GROUPS_MAX);
        if (sw_yaml_text(it, &s, r->err) != SW_OK)
            return SW_EINVAL;
        c->as_groups[c->n_as_groups++] = sw_arena_slice(&c->arena, s);
    }
    return SW_OK;
}

/* These become header lines. */
static int check_header_values(struct reading *r)
{
    const struct sw_kube_config *c = r->c;
    bool ok = sw_http_value_valid(c->as_user) && sw_http_value_valid(c->as_uid) &&
              sw_http_value_valid(c->token.data);

    for (size_t i = 0; i < c->n_as_groups; i++)
        ok = ok && sw_http_value_valid(c->as_groups[i]);
    if (!ok)
        return sw_err_set(r->err, SW_EINVAL, "token or impersonated name is not printable");
    if (!c->as_user.n && (c->as_uid.n || c->n_as_groups))
        return sw_err_set(r->err, SW_EINVAL, "'as-uid' and 'as-groups' need an 'as'");
    return SW_OK;
}

static void read_user(struct reading *r, const struct found *f)
{
    struct sw_kube_config *c = r->c;
    struct sw_slice file;

    refuse(r, f, "exec", "credential plugins are not run; use a certificate or a token");
    refuse(r, f, "auth-provider", "use a certificate or a token");
    refuse(r, f, "as-user-extra", "impersonation knows users, groups and uids");
    blob_of(r, f, "client-certificate", &c->cert);
    blob_of(r, f, "client-key", &c->key);
    text_of(r, f, "token", &c->token.data);
    text_of(r, f, "tokenFile", &file);
    c->token.file = file_of(r, f, file);
    text_of(r, f, "username", &c->username);
    text_of(r, f, "password", &c->password);
    text_of(r, f, "as", &c->as_user);
    text_of(r, f, "as-uid", &c->as_uid);
    if (r->rc == SW_OK)
        r->rc = read_groups(r, f);
    if (r->rc == SW_OK && (c->cert.data.n || c->cert.file) != (c->key.data.n || c->key.file))
        r->rc = sw_yaml_error(f->value, r->err, "a client certificate and its key go together");
    if (r->rc == SW_OK)
        r->rc = check_header_values(r);
}

static int pick_context(struct reading *r, const char *context, struct found *ret)
{
    struct sw_slice name = sw_slice_str(context);

    for (size_t i = 0; i < r->n && !name.n; i++) {
        const struct sw_yaml *v = sw_yaml_get(r->roots[i], "current-context");

        if (v && v->kind == SW_YAML_SCALAR && !sw_yaml_is_null(v))
            name = v->text;
    }
    if (!name.n)
        return sw_err_set(r->err, SW_ENOENT, "no current context");
    return find_named(r, "contexts", "context", name, ret);
}

static int read_all(struct reading *r, const char *context)
{
    struct sw_kube_config *c = r->c;
    struct sw_slice cluster;
    struct sw_slice user;
    struct found ctx = {0};
    struct found f = {0};

    r->rc = pick_context(r, context, &ctx);
    text_of(r, &ctx, "cluster", &cluster);
    text_of(r, &ctx, "user", &user);
    text_of(r, &ctx, "namespace", &c->ns);
    if (r->rc == SW_OK)
        r->rc = find_named(r, "clusters", "cluster", cluster, &f);
    if (r->rc == SW_OK)
        read_cluster(r, &f);
    if (r->rc == SW_OK && user.n)
        r->rc = find_named(r, "users", "user", user, &f);
    if (r->rc == SW_OK && user.n)
        read_user(r, &f);
    if (r->rc == SW_OK && !c->ns.n)
        c->ns = SW_SLICE_LIT("default");
    return r->rc;
}

static int parse_one(struct reading *r, const struct sw_kubeconfig_src *src)
{
    const struct sw_yaml_limits limits = {.bytes = SW_KUBECONFIG_MAX, .nodes = 100000};
    const struct sw_yaml *root = NULL;
    int rc = sw_yaml_parse_one(&r->tmp, src->text, &limits, &root, r->err);

    if (rc == SW_OK && sw_yaml_is_null(root))
        return SW_OK; /* an empty file is an empty configuration */
    if (rc == SW_OK && root->kind != SW_YAML_MAP)
        rc = sw_yaml_error(root, r->err, "not a kubeconfig");
    if (rc != SW_OK) {
        (void)sw_err_prefix(r->err, "%.80s", src->name);
        return rc;
    }
    r->roots[r->n++] = root;
    return SW_OK;
}

int sw_kubeconfig_read(const struct sw_kubeconfig_src *srcs, size_t n, const char *context,
                       struct sw_kube_config *ret, struct sw_err *err)
{
    struct sw_kubeconfig_src used[SW_KUBECONFIG_FILES];
    struct sw_err local;
    struct reading r = {.c = ret, .err = err ? err : &local, .srcs = used};
    int rc = SW_OK;

    *ret = (struct sw_kube_config){0};
    if (n > SW_KUBECONFIG_FILES)
        return sw_err_set(err, SW_ELIMIT, "more than %d kubeconfig files", SW_KUBECONFIG_FILES);
    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        used[r.n] = srcs[i];
        rc = parse_one(&r, &srcs[i]);
    }
    if (rc == SW_OK) {
        rc = read_all(&r, context);
        if (rc != SW_OK)
            (void)sw_err_prefix(r.err, "%.80s", n ? srcs[0].name : "kubeconfig");
    }
    sw_arena_clear(&r.tmp);
    if (rc != SW_OK)
        sw_kube_config_done(ret);
    return rc;
}

void sw_kube_config_done(struct sw_kube_config *c)
{
    if (c->key.data.n)
        explicit_bzero((void *)(uintptr_t)c->key.data.p, c->key.data.n);
    if (c->token.data.n)
        explicit_bzero((void *)(uintptr_t)c->token.data.p, c->token.data.n);
    sw_arena_clear(&c->arena);
    *c = (struct sw_kube_config){0};
}

/* --- files --- */

static char *dir_of(struct sw_arena *a, struct sw_slice path)
{
    ptrdiff_t slash = sw_slice_rfind(path, '/');

    if (slash < 0)
        return sw_arena_dup(a, SW_SLICE_LIT("."));
    return sw_arena_dup(a, slash == 0 ? SW_SLICE_LIT("/") : sw_slice_head(path, (size_t)slash));
}

int sw_kubeconfig_load(const char *paths, const char *context, struct sw_kube_config *ret,
                       struct sw_err *err)
{
    struct sw_kubeconfig_src srcs[SW_KUBECONFIG_FILES];
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice rest = sw_slice_str(paths);
    size_t n = 0;
    int rc = SW_OK;

    *ret = (struct sw_kube_config){0};
    while (rest.p && rc == SW_OK) {
        struct sw_slice path = sw_slice_cut(&rest, ':');
        struct sw_slice text = {0};

        if (path.n == 0)
            continue;
        if (n == SW_KUBECONFIG_FILES)
            rc = sw_err_set(err, SW_ELIMIT, "more than %d kubeconfig files", SW_KUBECONFIG_FILES);
        else
            rc = sw_file_read(sw_arena_dup(&tmp, path), SW_KUBECONFIG_MAX, &text, err);
        if (rc == SW_ENOENT) {
            rc = SW_OK;
            continue;
        }
        if (rc == SW_OK)
            srcs[n++] = (struct sw_kubeconfig_src){
                .text = text, .name = sw_arena_dup(&tmp, path), .dir = dir_of(&tmp, path)};
    }
    if (rc == SW_OK && n == 0)
        rc = sw_err_set(err, SW_ENOENT, "no kubeconfig at '%.120s'", paths);
    if (rc == SW_OK)
        rc = sw_kubeconfig_read(srcs, n, context, ret, err);
    for (size_t i = 0; i < n; i++)
        sw_free_secret((void *)(uintptr_t)srcs[i].text.p, srcs[i].text.n);
    return rc;
}

int sw_kube_config_in_cluster(const char *dir, struct sw_kube_config *ret, struct sw_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): at start, before threads */
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    /* NOLINTEND(concurrency-mt-unsafe) */
    struct sw_slice ns = {0};
    struct sw_arena *a = &ret->arena;
    char *url;
    int rc;

    dir = dir ? dir : SW_KUBE_IN_CLUSTER_DIR;
    *ret = (struct sw_kube_config){0};
    if (!host || !*host || !port || !*port)
        return sw_err_set(err, SW_ENOENT,
                          "not inside a cluster: KUBERNETES_SERVICE_HOST and "
                          "KUBERNETES_SERVICE_PORT are not set");
    url = sw_arena_printf(a, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
    rc = sw_kube_server_parse(ret, sw_slice_str(url), err);
    if (rc == SW_OK)
        rc = sw_file_read(sw_arena_printf(a, "%s/namespace", dir), 4096, &ns, err);
    if (rc == SW_OK) {
        ret->ca.file = sw_arena_printf(a, "%s/ca.crt", dir);
        ret->token.file = sw_arena_printf(a, "%s/token", dir);
        while (ns.n && (ns.p[ns.n - 1] == '\n' || ns.p[ns.n - 1] == ' '))
            ns.n--;
        ret->ns = ns.n ? sw_arena_slice(a, ns) : SW_SLICE_LIT("default");
    } else {
        sw_kube_config_done(ret);
    }
    sw_free((void *)(uintptr_t)ns.p);
    return rc;
}

int sw_kube_config_find(const char *path, const char *context, struct sw_kube_config *ret,
                        struct sw_err *err)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): at start, before threads */
    const char *env = getenv("KUBECONFIG");
    const char *home = getenv("HOME");
    /* NOLINTEND(concurrency-mt-unsafe) */
    SW_AUTO_FREE char *standard = NULL;
    int rc;

    if (path && *path)
        return sw_kubeconfig_load(path, context, ret, err);
    if (env && *env)
        return sw_kubeconfig_load(env, context, ret, err);
    if (!context) {
        rc = sw_kube_config_in_cluster(NULL, ret, err);
        if (rc != SW_ENOENT)
            return rc;
    }
    standard = sw_asprintf("%s/.kube/config", home ? home : "");
    return sw_kubeconfig_load(standard, context, ret, err);
}
