/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites, redirects, path normalisation. Pure functions. */
#include <stdio.h>

#include "base/buf.h"
#include "base/hex.h"
#include "gateway/route/action.h"
#include "http/url.h"
#include "regex/regex.h"

enum { REWRITE_MAX = 64 * 1024, GROUPS_MAX = 10, SEGMENTS_MAX = 1024 };

/* ---- expressions ---- */

static int put_substitution(struct sw_buf *out, struct sw_slice sub, const struct sw_slice *groups,
                            int n)
{
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < sub.n; i++) {
        int g = i + 1 < sub.n ? sub.p[i + 1] - '0' : -1;

        if (sub.p[i] != '\\') {
            rc = sw_buf_putc(out, sub.p[i]);
        } else if (g >= 0 && g <= 9) {
            i++;
            if (g < n && groups[g].p)
                rc = sw_buf_append_slice(out, groups[g]);
        } else if (i + 1 < sub.n) {
            rc = sw_buf_putc(out, sub.p[++i]);
        }
    }
    return rc;
}

struct sw_slice sw_gw_regex_apply(const struct sw_gw_regex_rewrite *rw, struct sw_slice text,
                                  struct sw_arena *a, struct sw_budget *b)
{
    struct sw_slice groups[GROUPS_MAX];
    SW_BUF_AUTO out = {0};
    size_t at = 0;
    int rc = SW_OK;
    int n = 0;

    sw_buf_init(&out, REWRITE_MAX);
    while (rc == SW_OK && at <= text.n &&
           (n = sw_regex_groups(rw->re, text, at, GROUPS_MAX, groups, b)) > 0) {
        size_t start = (size_t)(groups[0].p - text.p);

        rc = sw_buf_append(&out, text.p + at, start - at);
        if (rc == SW_OK)
            rc = put_substitution(&out, rw->substitution, groups, n);
        at = start + groups[0].n;
        if (groups[0].n == 0) { /* an empty match: one byte goes over as it is */
            if (rc == SW_OK && at < text.n)
                rc = sw_buf_putc(&out, text.p[at]);
            at++;
        }
    }
    if (rc == SW_OK && at < text.n)
        rc = sw_buf_append(&out, text.p + at, text.n - at);
    /* Longer than any path may be: leave it as it was. A budget that ended fails the request. */
    return rc < 0 || n < 0 ? text : sw_arena_slice(a, sw_buf_slice(&out));
}

/* ---- paths ---- */

static struct sw_slice join(struct sw_arena *a, struct sw_slice x, struct sw_slice y)
{
    char *p = sw_arena_alloc(a, x.n + y.n + 1);

    memcpy(p, x.p, x.n);
    if (y.n)
        memcpy(p + x.n, y.p, y.n);
    return sw_slice(p, x.n + y.n);
}

/* The path's part that the match covered replaced by 'to'; the query stays. */
static struct sw_slice swap_prefix(const struct sw_gw_match *m, struct sw_slice path,
                                   struct sw_slice to, struct sw_arena *a)
{
    struct sw_slice bare;
    struct sw_slice query;
    size_t covered;

    sw_target_split(path, &bare, &query);
    covered = m->path_kind == SW_GW_PATH_REGEX || m->path_kind == SW_GW_PATH_CONNECT
                  ? bare.n
                  : sw_min(m->path.n, bare.n);
    return join(a, to, sw_slice_from(path, covered));
}

static struct sw_slice apply_to_bare(const struct sw_gw_regex_rewrite *rw, struct sw_slice path,
                                     struct sw_arena *a, struct sw_budget *b)
{
    struct sw_slice bare;
    struct sw_slice query;

    sw_target_split(path, &bare, &query);
    return join(a, sw_gw_regex_apply(rw, bare, a, b), sw_slice_from(path, bare.n));
}

struct sw_slice sw_gw_rewrite_path(const struct sw_gw_route *r, struct sw_slice path,
                                   struct sw_arena *a, struct sw_budget *b)
{
    struct sw_slice out = path;

    if (r->forward.regex_rewrite)
        out = apply_to_bare(r->forward.regex_rewrite, path, a, b);
    else if (r->forward.prefix_rewrite.n)
        out = swap_prefix(&r->match, path, r->forward.prefix_rewrite, a);
    if (out.n && out.p[0] != '/' && path.n && path.p[0] == '/')
        out = join(a, SW_SLICE_LIT("/"), out);
    return out.n ? out : SW_SLICE_LIT("/");
}

static struct sw_slice host_only(struct sw_slice authority, struct sw_slice *ret_port)
{
    ptrdiff_t at = sw_slice_rfind(authority, ':');

    *ret_port = sw_slice(NULL, 0);
    if (at < 0 || sw_slice_find(sw_slice_from(authority, (size_t)at), ']') >= 0)
        return authority;
    *ret_port = sw_slice_from(authority, (size_t)at + 1);
    return sw_slice_head(authority, (size_t)at);
}

static bool default_port(struct sw_slice scheme, struct sw_slice port)
{
    return sw_slice_eq_str(scheme, "https") ? sw_slice_eq_str(port, "443")
                                            : sw_slice_eq_str(port, "80");
}

/*
 * Scheme, host and port as the route sets them, else as in the request. The request's port goes
 * with its host, and is dropped when the scheme changed and it was the old scheme's own.
 */
struct sw_slice sw_gw_redirect_location(const struct sw_gw_route *r,
                                        const struct sw_gw_request *req,
                                        const struct sw_addr *local, struct sw_arena *a)
{
    const struct sw_gw_redirect *d = &r->redirect;
    struct sw_slice scheme = d->scheme.n ? d->scheme : req->scheme;
    struct sw_slice port;
    struct sw_slice host = host_only(req->authority, &port);
    struct sw_slice path = req->path.n ? req->path : SW_SLICE_LIT("/");
    ptrdiff_t query;
    char text[8];

    if (port.n && d->scheme.n && !sw_slice_eq(d->scheme, req->scheme) &&
        default_port(req->scheme, port))
        port = sw_slice(NULL, 0);
    if (d->host.n) {
        host = d->host;
        port = sw_slice(NULL, 0);
    }
    if (d->port)
        port = sw_slice(text, (size_t)snprintf(text, sizeof(text), "%u", d->port));
    if (port.n && default_port(scheme, port))
        port = sw_slice(NULL, 0);
    if (d->has_path) {
        struct sw_slice q = {NULL, 0};

        query = sw_slice_find(path, '?');
        if (query >= 0 && sw_slice_find(d->path, '?') < 0)
            q = sw_slice_from(path, (size_t)query);
        path = join(a, d->path, q);
    } else if (d->has_prefix) {
        path = swap_prefix(&r->match, path, d->prefix, a);
    } else if (d->regex) {
        path = apply_to_bare(d->regex, path, a, req->work);
    }
    query = sw_slice_find(path, '?');
    if (d->strip_query && query >= 0)
        path = sw_slice_head(path, (size_t)query);
    return sw_slice_str(sw_arena_printf(a, "%.*s://%.*s%s%.*s%s%.*s", SW_SLICE_ARG(scheme),
                                        SW_SLICE_ARG(host), port.n ? ":" : "", SW_SLICE_ARG(port),
                                        path.n && path.p[0] == '/' ? "" : "/", SW_SLICE_ARG(path)));
}

/* ---- normalisation ---- */

static bool is_escaped_slash(struct sw_slice s, size_t i)
{
    return s.p[i] == '%' && i + 2 < s.n &&
           ((s.p[i + 1] == '2' && (s.p[i + 2] | 0x20) == 'f') ||
            (s.p[i + 1] == '5' && (s.p[i + 2] | 0x20) == 'c'));
}

/* %2F and %5C become '/' and '\'. Returns whether there were any. */
static bool unescape_slashes(struct sw_slice in, struct sw_arena *a, struct sw_slice *ret)
{
    char *p = sw_arena_alloc(a, in.n + 1);
    size_t n = 0;
    bool any = false;

    for (size_t i = 0; i < in.n; i++) {
        if (is_escaped_slash(in, i)) {
            p[n++] = in.p[i + 1] == '2' ? '/' : '\\';
            any = true;
            i += 2;
        } else {
            p[n++] = in.p[i];
        }
    }
    *ret = sw_slice(p, n);
    return any;
}

/* Percent-escapes of unreserved characters say nothing; writing them out lets rules match. */
static struct sw_slice decode_unreserved(struct sw_slice in, struct sw_arena *a)
{
    char *p = sw_arena_alloc(a, in.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < in.n; i++) {
        int escaped = sw_hex_escape(in, i);
        char c = (char)escaped;

        if (escaped >= 0 &&
            ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '-' || c == '.' || c == '_' || c == '~')) {
            p[n++] = c;
            i += 2;
        } else {
            p[n++] = in.p[i];
        }
    }
    return sw_slice(p, n);
}

/* Dot segments of RFC 3986 5.2.4; false when they climb above the root. */
static bool remove_dots(struct sw_slice in, bool merge, struct sw_arena *a, struct sw_slice *ret)
{
    size_t starts[SEGMENTS_MAX];
    size_t depth = 0;
    char *p = sw_arena_alloc(a, in.n + 2);
    size_t n = 0;
    size_t i = 0;

    while (i < in.n) {
        size_t end = i + 1;
        struct sw_slice seg;
        bool last;

        while (end < in.n && in.p[end] != '/')
            end++;
        last = end >= in.n;
        seg = sw_slice(in.p + i + 1, end - i - 1);
        i = end;
        if (sw_slice_eq_str(seg, ".") || sw_slice_eq_str(seg, "..")) {
            if (seg.n == 2) {
                if (depth == 0)
                    return false;
                n = starts[--depth];
            }
            if (last)
                p[n++] = '/';
            continue;
        }
        if (merge && seg.n == 0 && !last)
            continue;
        if (depth == SEGMENTS_MAX)
            return false;
        starts[depth++] = n;
        p[n++] = '/';
        if (seg.n)
            memcpy(p + n, seg.p, seg.n);
        n += seg.n;
    }
    if (n == 0)
        p[n++] = '/';
    *ret = sw_slice(p, n);
    return true;
}

static bool plain_path(struct sw_slice p)
{
    for (size_t i = 0; i < p.n; i++) {
        if (p.p[i] == '%' || p.p[i] == '\\' ||
            (p.p[i] == '/' && i + 1 < p.n && (p.p[i + 1] == '/' || p.p[i + 1] == '.')))
            return false;
    }
    return true;
}

int sw_gw_normalize_path(const struct sw_gw_hcm *hcm, struct sw_slice path, struct sw_arena *a,
                         struct sw_slice *ret)
{
    struct sw_slice bare;
    struct sw_slice query;
    struct sw_slice out;
    bool redirect = false;

    *ret = path;
    sw_target_split(path, &bare, &query);
    if (bare.n == 0 || bare.p[0] != '/' || plain_path(bare))
        return SW_OK;
    if (hcm->path.normalize && memmem(bare.p, bare.n, "%00", 3))
        return SW_EINVAL; /* ends the path early for many a program behind us */
    out = bare;
    if (hcm->path.escaped_slash != SW_GW_SLASH_KEEP) {
        bool any = unescape_slashes(bare, a, &out);

        if (any && hcm->path.escaped_slash == SW_GW_SLASH_REJECT)
            return SW_EINVAL;
        redirect = any && hcm->path.escaped_slash == SW_GW_SLASH_REDIRECT;
    }
    if (hcm->path.normalize) {
        char *p;

        out = decode_unreserved(out, a);
        p = sw_arena_dup(a, out);
        for (size_t i = 0; i < out.n; i++)
            p[i] = p[i] == '\\' ? '/' : p[i];
        out.p = p;
    }
    if ((hcm->path.normalize || hcm->path.merge_slashes) &&
        !remove_dots(out, hcm->path.merge_slashes, a, &out))
        return SW_EINVAL;
    *ret = join(a, out, sw_slice_from(path, bare.n));
    return redirect ? SW_GW_PATH_MOVED : SW_OK;
}
