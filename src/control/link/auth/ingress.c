/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ingress: a peer asks for a token of an Export, and shows it when it connects. Both times the name
 * and the certificate are those of the connection, not what the peer says of itself.
 */
#include <stdio.h>

#include "base/hex.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "control/link/auth/auth_int.h"

enum { BODY_DEPTH = 4, BODY_NODES = 4096 };

/* ---- the request for a token ---- */

struct wanted {
    struct sw_slice name;
    struct sw_slice ns;
    struct sw_attrs src;
};

/* Members by name without case, as the reference's decoder finds them. */
static const struct sw_json *member(const struct sw_json *v, const char *name)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);

        if (sw_slice_ieq(m->key, sw_slice_str(name)))
            return m->value;
    }
    return NULL;
}

static int read_text(const struct sw_json *v, const char *name, struct sw_slice *ret,
                     struct sw_err *err)
{
    const struct sw_json *m = member(v, name);

    *ret = sw_json_str(m);
    if (m && m->type != SW_JSON_NULL && !ret->p)
        return sw_err_set(err, SW_EINVAL, "cannot decode %s as the string %s",
                          sw_json_type_name(m->type), name);
    if (!ret->p)
        *ret = sw_slice("", 0);
    return SW_OK;
}

static int read_body(struct sw_arena *a, struct sw_slice body, struct wanted *ret,
                     struct sw_err *err)
{
    const struct sw_json_opts o = {
        .max_depth = BODY_DEPTH, .max_nodes = BODY_NODES, .max_bytes = 64 << 10};
    struct sw_json *v = NULL;
    int rc;

    if (body.n == 0)
        return sw_err_set(err, SW_EINVAL, "EOF");
    rc = sw_json_parse(a, body, &o, &v, err);
    if (rc == SW_OK && !sw_json_is(v, SW_JSON_OBJECT))
        rc =
            sw_err_set(err, SW_EINVAL, "cannot decode %s as a request", sw_json_type_name(v->type));
    if (rc == SW_OK)
        rc = read_text(v, "ServiceName", &ret->name, err);
    if (rc == SW_OK)
        rc = read_text(v, "ServiceNamespace", &ret->ns, err);
    if (rc == SW_OK)
        rc = sw_link_attrs_read(a, "", member(v, "SrcAttributes"), &ret->src, err);
    return rc;
}

/*
 * The certificate identifies the peer. Attributes that claim another name are refused;
 * attributes without a name get it. No attributes at all stay none: the client is unknown.
 */
static int bind_name(struct sw_arena *a, const struct sw_link_caller *who, struct sw_attrs *src,
                     struct sw_err *err)
{
    const struct sw_slice *claimed = sw_attrs_get(src, SW_SLICE_LIT(SW_LINK_PEER_NAME));
    struct sw_link_attrs b;

    if (!who->name.n)
        return sw_err_set(err, SW_EDENIED, "the peer's certificate has no name");
    if (claimed && !sw_slice_eq(*claimed, who->name))
        return sw_err_set(err, SW_EDENIED, "peer '%.*s' claims to be '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(who->name, 64)),
                          SW_SLICE_ARG(sw_slice_head(*claimed, 64)));
    if (claimed || src->n == 0)
        return SW_OK;
    sw_link_attrs_begin(&b, a, src->n + 1);
    sw_link_attrs_add_all(&b, src);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_PEER_NAME), who->name);
    *src = sw_link_attrs_done(&b);
    return SW_OK;
}

/* base64url of the digest that the data plane gives in hexadecimal; empty: not known. */
static struct sw_slice thumbprint(struct sw_arena *a, struct sw_slice hex)
{
    uint8_t raw[32];
    SW_BUF_AUTO out = {.max = 64};

    if (!sw_hex_read(hex, raw, sizeof(raw)))
        return sw_slice("", 0);
    (void)!sw_base64url_append(&out, sw_slice(raw, sizeof(raw)));
    return sw_arena_slice(a, sw_buf_slice(&out));
}

static struct sw_slice export_key(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(sw_slice_head(ns, 256)),
                                        SW_SLICE_ARG(sw_slice_head(name, 256))));
}

static void mint(struct sw_link_auth *a, const struct wanted *w, struct sw_arena *arena,
                 const struct sw_link_caller *who, struct sw_link_answer *answer,
                 struct sw_buf *out)
{
    struct sw_link_token t = {.export_name = w->name,
                              .export_ns = w->ns,
                              .peer = who->name,
                              .thumb = thumbprint(arena, who->thumb),
                              .at_ms = sw_wall_ns() / SW_NS_PER_MS,
                              .src = w->src};
    struct sw_err err = {0};

    if (!a->has_key) {
        auth_refuse(answer, 500, "no-key", "no key for tokens yet");
    } else if (sw_link_token_mint(&a->key, &t, auth_now_s(a), out, &err) != SW_OK) {
        auth_refuse(answer, 400, "too-long", "%s", err.msg);
    } else {
        answer->status = 200;
        answer->reason = "granted";
        answer->token = sw_buf_slice(out);
        auth_count_token(a, "minted");
    }
}

/* Fills in everything but a success. True: the peer may have a token. */
static bool judge_token(struct sw_link_auth *a, struct sw_arena *arena, struct wanted *w,
                        const struct sw_link_caller *who, struct auth_subject *s,
                        struct sw_link_answer *answer)
{
    const struct sw_link_export *e = a->facts ? sw_link_facts_export(a->facts, s->exported) : NULL;
    struct sw_policy_verdict v = {0};
    struct sw_err err = {0};

    if (!a->facts) {
        auth_refuse(answer, 500, "not-ready", "objects are not known yet");
    } else if (bind_name(arena, who, &w->src, &err) != SW_OK || !auth_admits(a, who->name)) {
        auth_refuse(answer, 403, "name", "Permission denied for '%.*s'.",
                    SW_SLICE_ARG(s->exported));
        s->detail = err.rc ? sw_arena_dup(arena, sw_slice_str(err.msg))
                           : "the peer has no Peer object, and must";
    } else if (!e || !e->valid) {
        auth_refuse(answer, 404, e ? "invalid-export" : "no-export",
                    "Exported service '%.*s' not found.", SW_SLICE_ARG(s->exported));
    } else if (!sw_link_judge_ingress(arena, a->facts, &a->self, e, &w->src, &v)) {
        s->policy = v.why.policy.n ? v.why.policy : sw_slice_str("<default deny>");
        auth_refuse(answer, 403, "policy", "Permission denied for '%.*s'.",
                    SW_SLICE_ARG(s->exported));
    } else {
        answer->policy = v.why.policy;
        return true;
    }
    return false;
}

void sw_link_auth_token(struct sw_link_auth *a, struct sw_slice body,
                        const struct sw_link_caller *who, sw_link_egress_cb done, void *arg)
{
    SW_ARENA_AUTO arena = {0};
    SW_BUF_AUTO out = {.max = SW_JWS_TOKEN_MAX};
    struct sw_link_answer answer = {0};
    struct auth_subject s = {.side = "token", .peer = who->name};
    struct wanted w = {0};
    struct sw_err err = {0};

    if (read_body(&arena, body, &w, &err) != SW_OK) {
        auth_refuse(&answer, 400, "malformed", "%s", err.msg);
    } else {
        s.exported = export_key(&arena, w.ns, w.name);
        s.client = auth_source(&arena, &w.src);
        if (judge_token(a, &arena, &w, who, &s, &answer))
            mint(a, &w, &arena, who, &answer, &out);
        answer.exported = s.exported;
        answer.source = s.client;
    }
    auth_record(a, &s, &answer);
    done(arg, &answer);
}

/* ---- the connection ---- */

static int read_bearer(struct sw_slice value, struct sw_slice *ret, struct sw_link_answer *answer)
{
    static const struct sw_slice scheme = SW_SLICE_LIT("Bearer ");

    if (!value.p)
        auth_refuse(answer, 400, "malformed", "Missing 'authorization' header.");
    else if (!sw_slice_has_prefix(value, scheme))
        auth_refuse(answer, 400, "malformed",
                    "Authorization header is not using the bearer scheme.");
    else
        return *ret = sw_slice_from(value, scheme.n), SW_OK;
    return SW_EINVAL;
}

/* The token is for whoever asked for it: same name, same certificate. */
static bool is_owner(struct sw_arena *arena, const struct sw_link_token *t,
                     const struct sw_link_caller *who)
{
    if (t->peer.n && !sw_slice_eq(t->peer, who->name))
        return false;
    return !t->thumb.n || sw_slice_eq(t->thumb, thumbprint(arena, who->thumb));
}

/* The process before this one may have seen it used. Later than its life it does not matter. */
static bool is_older(const struct sw_link_auth *a, const struct sw_link_token *t)
{
    return sw_loop_now(a->loop) - a->born_ns <= SW_LINK_TOKEN_LIFE_S * SW_NS_PER_S &&
           t->at_ms < a->born_ms;
}

static bool check_token(struct sw_link_auth *a, struct sw_arena *arena, struct sw_slice text,
                        const struct sw_link_caller *who, struct sw_link_token *t,
                        struct sw_link_answer *answer)
{
    struct sw_err err = {0};
    const char *result;
    int rc;

    if (!a->has_key || !a->facts) {
        auth_refuse(answer, 503, "not-ready", "key or objects are not known yet");
        return false;
    }
    if (sw_link_token_open(&a->key, arena, text, auth_now_s(a), t, &err) != SW_OK) {
        result = strcmp(err.msg, "exp not satisfied") == 0 ? "expired" : "invalid";
        auth_refuse(answer, 403, result, "%s", err.msg);
    } else if (!is_owner(arena, t, who)) {
        result = "stolen";
        auth_refuse(answer, 403, result, "token was issued to another certificate");
    } else if (is_older(a, t)) {
        result = "older";
        auth_refuse(answer, 403, result, "token is older than this control plane");
    } else {
        rc = sw_link_once_use(a->once, t->jti, t->exp_s, auth_now_s(a));
        if (rc == SW_OK) {
            auth_count_token(a, "used");
            return true;
        }
        result = rc == SW_EDENIED ? "replayed" : "full";
        auth_refuse(answer, rc == SW_EDENIED ? 403 : 503, result, "%s",
                    rc == SW_EDENIED ? "token was used before" : "too many tokens are in use");
    }
    auth_count_token(a, result);
    return false;
}

/* Objects and policies may have changed since the token was minted. */
static void judge_connect(struct sw_link_auth *a, struct sw_arena *arena,
                          const struct sw_link_token *t, struct auth_subject *s,
                          struct sw_link_answer *answer)
{
    const struct sw_link_export *e = sw_link_facts_export(a->facts, s->exported);
    struct sw_policy_verdict v;

    if (!e || !e->valid) {
        auth_refuse(answer, 403, e ? "invalid-export" : "no-export",
                    "Exported service '%.*s' not found.", SW_SLICE_ARG(s->exported));
        return;
    }
    if (!auth_admits(a, s->peer)) {
        auth_refuse(answer, 403, "name", "the peer has no Peer object any more");
        return;
    }
    if (!sw_link_judge_ingress(arena, a->facts, &a->self, e, &t->src, &v)) {
        s->policy = v.why.policy.n ? v.why.policy : sw_slice_str("<default deny>");
        auth_refuse(answer, 403, "policy", "Permission denied for '%.*s'.",
                    SW_SLICE_ARG(s->exported));
        return;
    }
    answer->status = 200;
    answer->reason = "granted";
    answer->policy = v.why.policy;
    answer->source = s->client;
    answer->exported = s->exported;
    answer->host = sw_slice_str(sw_arena_printf(arena, "export-%.*s", SW_SLICE_ARG(s->exported)));
}

void sw_link_auth_ingress(struct sw_link_auth *a, struct sw_slice authorization,
                          const struct sw_link_caller *who, sw_link_egress_cb done, void *arg)
{
    SW_ARENA_AUTO arena = {0};
    SW_BUF_AUTO out = {.max = SW_LINK_GRANT_MAX};
    struct sw_link_answer answer = {0};
    struct auth_subject s = {.side = "ingress", .peer = who->name};
    struct sw_link_token t = {0};
    struct sw_slice text = {0};
    struct sw_err err = {0};

    if (read_bearer(authorization, &text, &answer) == SW_OK &&
        check_token(a, &arena, text, who, &t, &answer)) {
        struct sw_link_grant g = {.side = SW_LINK_INGRESS, .peer = who->name, .src = t.src};

        s.exported = export_key(&arena, t.export_ns, t.export_name);
        s.client = auth_source(&arena, &t.src);
        judge_connect(a, &arena, &t, &s, &answer);
        g.exported = s.exported;
        if (answer.status == 200 && sw_link_grant_mint(&a->key, &g, &out, &err) != SW_OK)
            auth_refuse(&answer, 500, "internal", "%s", err.msg);
        answer.grant = sw_buf_slice(&out);
    }
    auth_record(a, &s, &answer);
    done(arg, &answer);
}
