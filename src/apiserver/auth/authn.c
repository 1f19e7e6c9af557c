/* SPDX-License-Identifier: Apache-2.0 */
/* Authentication: client certificate, then bearer token, then anonymous; and impersonation. */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "base/hex.h"
#include "base/vec.h"
#include "tls/tls.h"

enum { GROUPS_MAX = 64, EXTRA_MAX = 32 };

static void add_group(struct api_req *r, struct api_user *u, struct sw_slice g)
{
    struct sw_slice *p;

    for (size_t i = 0; i < u->ngroups; i++) {
        if (sw_slice_eq(u->groups[i], g))
            return;
    }
    if (u->ngroups >= GROUPS_MAX)
        return;
    p = sw_arena_array(r->arena, u->ngroups + 1, sizeof(*p));
    if (u->ngroups)
        memcpy(p, u->groups, u->ngroups * sizeof(*p));
    p[u->ngroups++] = g;
    u->groups = p;
}

static void from_certificate(struct api_req *r)
{
    const struct sw_tls_peer *c = r->x->cert;
    struct sw_arena *a = r->arena;
    struct sw_json *id;
    char hex[65];

    r->user.name = sw_arena_slice(a, c->cn);
    r->user.expires_s = c->not_after_s;
    for (uint32_t i = 0; i < c->n_orgs; i++)
        add_group(r, &r->user, sw_arena_slice(a, c->orgs[i]));
    add_group(r, &r->user, SW_SLICE_LIT("system:authenticated"));
    *sw_hex_write(hex, c->fingerprint, sizeof(c->fingerprint)) = 0;
    id = sw_json_new_list(a, sw_json_new_str(a, sw_arena_printf(a, "X509SHA256=%s", hex)));
    r->user.extra = SW_JSON_OF(a, {"authentication.kubernetes.io/credential-id", .json = id});
}

struct sw_slice api_bearer_of(const struct sw_xchg *x)
{
    struct sw_slice auth = sw_xchg_field(x, "authorization");

    if (auth.n <= 7 || !sw_slice_ieq(sw_slice_head(auth, 7), SW_SLICE_LIT("Bearer ")))
        return sw_slice(NULL, 0);
    return sw_slice_trim(sw_slice_from(auth, 7));
}

bool api_authenticate(struct api_req *r)
{
    const struct api_bearer bearer = {.token = api_bearer_of(r->x)};
    const char *why;

    if (r->x->cert && r->x->cert->cn.n) {
        from_certificate(r);
        return true;
    }
    if (bearer.token.p && api_token_user(r->api, r->arena, &bearer, &r->user, NULL, &why))
        return true;
    if (sw_xchg_field(r->x, "authorization").n || r->x->cert_refused || r->x->cert) {
        api_fail(r, 401, "Unauthorized", "Unauthorized");
        return false;
    }
    r->user.name = SW_SLICE_LIT("system:anonymous");
    add_group(r, &r->user, SW_SLICE_LIT("system:unauthenticated"));
    return true;
}

/* --- impersonation ---------------------------------------------------------------------- */

/* The right to be a user, or a part of one. */
static struct api_attrs attrs(const struct api_user *u, const char *group, const char *resource,
                              struct sw_slice ns, struct sw_slice name)
{
    return api_attrs_on(u, "impersonate", sw_slice_str(group), sw_slice_str(resource), ns, name);
}

/* False: 403 was sent. */
static bool may(struct api_req *r, const struct api_attrs *at)
{
    struct sw_arena *a = r->arena;
    const char *why;

    if (api_allowed(r->api, a, at, &why))
        return true;
    api_fail_details(r, 403, "Forbidden", api_denied_text(a, at, why),
                     SW_JSON_OF(a, {"name", .text = at->name}, {"group", .some = at->group},
                                {"kind", .text = at->resource}));
    return false;
}

/* "system:serviceaccount:ns:name" apart; false for other users. */
static bool service_account(struct sw_slice user, struct sw_slice *ret_ns,
                            struct sw_slice *ret_name)
{
    const struct sw_slice prefix = SW_SLICE_LIT("system:serviceaccount:");
    struct sw_slice rest = sw_slice_from(user, prefix.n);

    if (!sw_slice_has_prefix(user, prefix))
        return false;
    *ret_ns = sw_slice_cut(&rest, ':');
    *ret_name = rest.p ? rest : sw_slice("", 0);
    return ret_name->n > 0 && sw_slice_find(*ret_name, ':') < 0;
}

static bool take_extra(struct api_req *r, struct api_user *u, const struct sw_front_field *f)
{
    const size_t prefix = strlen("impersonate-extra-");
    struct sw_arena *a = r->arena;
    struct api_attrs at =
        attrs(&r->user, "authentication.k8s.io", "userextras", sw_slice("", 0), f->value);
    struct sw_slice key;
    struct sw_json *list;
    char *lower;

    if (sw_percent_decode(a, sw_slice_from(f->name, prefix), false, &key, NULL) != SW_OK)
        return true;
    lower = sw_arena_dup(a, key);
    for (char *c = lower; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    at.sub = sw_slice_str(lower);
    if (!may(r, &at))
        return false;
    if (!u->extra)
        u->extra = sw_json_new_object(a);
    list = sw_json_need(a, u->extra, lower, SW_JSON_ARRAY);
    if (sw_json_len(list) < EXTRA_MAX)
        sw_json_push(a, list, sw_json_new_string(a, f->value));
    return true;
}

static bool extra_field(const struct sw_front_field *f)
{
    return f->name.n > 18 &&
           sw_slice_ieq(sw_slice_head(f->name, 18), SW_SLICE_LIT("impersonate-extra-"));
}

static bool take_fields(struct api_req *r, struct api_user *u)
{
    const struct sw_slice none = sw_slice("", 0);
    struct api_attrs at;

    for (size_t i = 0; i < r->x->nfields; i++) {
        const struct sw_front_field *f = &r->x->fields[i];

        if (sw_slice_ieq(f->name, SW_SLICE_LIT("impersonate-group"))) {
            at = attrs(&r->user, "", "groups", none, f->value);
            if (!may(r, &at))
                return false;
            add_group(r, u, f->value);
        } else if (extra_field(f)) {
            if (!take_extra(r, u, f))
                return false;
        }
    }
    u->uid = sw_xchg_field(r->x, "impersonate-uid");
    at = attrs(&r->user, "authentication.k8s.io", "uids", none, u->uid);
    return !u->uid.n || may(r, &at);
}

/* Some part of a user is given; that needs the user himself. */
static bool partial(const struct api_req *r)
{
    for (size_t i = 0; i < r->x->nfields; i++) {
        const struct sw_front_field *f = &r->x->fields[i];

        if (extra_field(f) || sw_slice_ieq(f->name, SW_SLICE_LIT("impersonate-group")) ||
            (f->value.n && sw_slice_ieq(f->name, SW_SLICE_LIT("impersonate-uid"))))
            return true;
    }
    return false;
}

bool api_impersonate(struct api_req *r)
{
    struct sw_slice name = sw_xchg_field(r->x, "impersonate-user");
    struct api_user u = {.name = name};
    const struct sw_slice none = sw_slice("", 0);
    struct sw_slice ns = none;
    struct sw_slice sa = none;
    bool is_sa = service_account(name, &ns, &sa);
    struct api_attrs at = is_sa ? attrs(&r->user, "", "serviceaccounts", ns, sa)
                                : attrs(&r->user, "", "users", none, name);

    if (!name.n) {
        if (!partial(r))
            return true;
        api_internal_error(r, "requested impersonation without impersonating a user");
        return false;
    }
    if (!may(r, &at) || !take_fields(r, &u))
        return false;
    if (is_sa && u.ngroups == 0) {
        add_group(r, &u, SW_SLICE_LIT("system:serviceaccounts"));
        add_group(r, &u,
                  sw_slice_str(
                      sw_arena_printf(r->arena, "system:serviceaccounts:%.*s", SW_SLICE_ARG(ns))));
    }
    if (sw_slice_eq_str(name, "system:anonymous"))
        add_group(r, &u, SW_SLICE_LIT("system:unauthenticated"));
    else if (!api_in_groups(&u, SW_SLICE_LIT("system:unauthenticated")))
        add_group(r, &u, SW_SLICE_LIT("system:authenticated"));
    u.expires_s = r->user.expires_s; /* it ends with the credential behind it */
    r->real_user = r->user;
    r->user = u;
    return true;
}

bool api_may_impersonate(const struct api_req *r, struct sw_arena *a)
{
    const struct sw_slice none = sw_slice("", 0);
    struct sw_slice ns = none;
    struct sw_slice sa = none;
    bool is_sa = service_account(r->user.name, &ns, &sa);
    struct api_attrs at = is_sa ? attrs(&r->real_user, "", "serviceaccounts", ns, sa)
                                : attrs(&r->real_user, "", "users", none, r->user.name);

    if (!api_allowed(r->api, a, &at, NULL))
        return false;
    for (size_t i = 0; i < r->x->nfields; i++) {
        const struct sw_front_field *f = &r->x->fields[i];

        if (!sw_slice_ieq(f->name, SW_SLICE_LIT("impersonate-group")))
            continue;
        at = attrs(&r->real_user, "", "groups", none, f->value);
        if (!api_allowed(r->api, a, &at, NULL))
            return false;
    }
    return true;
}
