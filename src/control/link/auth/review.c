/* SPDX-License-Identifier: Apache-2.0 */
/* Open connections judged again, by the grants they were opened with. */
#include "base/buf.h"
#include "control/link/auth/auth_int.h"

static const struct sw_link_source *find_source(const struct sw_link_import *i,
                                                const struct sw_link_grant *g)
{
    for (size_t k = 0; k < i->n; k++) {
        const struct sw_link_source *s = &i->sources[k];
        struct sw_slice rest = g->exported;
        struct sw_slice ns = sw_slice_cut(&rest, '/');

        if (sw_slice_eq(s->peer, g->peer) && sw_slice_eq(s->export_ns, ns) &&
            sw_slice_eq(s->export_name, rest))
            return s;
    }
    return NULL;
}

void auth_review_egress(struct sw_link_auth *a, struct sw_arena *arena,
                        const struct sw_link_grant *g, struct sw_link_answer *answer)
{
    const struct sw_link_import *i = sw_link_facts_import(a->facts, g->import);
    const struct sw_link_source *s = i && i->valid ? find_source(i, g) : NULL;
    struct sw_attrs src = sw_link_src_attrs(arena, &a->self, sw_link_pods_find(a->pods, g->client));
    const struct sw_attrs *const ends[] = {&src, sw_link_peers_labels(a->peers, g->peer)};
    struct sw_policy_verdict v;

    if (!s)
        auth_refuse(answer, 403, "no-import", "import '%.*s' has no such source any more",
                    SW_SLICE_ARG(sw_slice_head(g->import, 256)));
    else if (!sw_link_facts_peer(a->facts, g->peer))
        auth_refuse(answer, 403, "no-peer", "no Peer '%.*s' any more", SW_SLICE_ARG(s->peer));
    else if (!sw_link_judge_egress(arena, a->facts, i, s, ends, &v))
        auth_refuse(answer, 403, "policy", "%.400s", v.text);
}

static void review_ingress(struct sw_link_auth *a, struct sw_arena *arena,
                           const struct sw_link_grant *g, struct sw_link_answer *answer)
{
    const struct sw_link_export *e = sw_link_facts_export(a->facts, g->exported);
    struct sw_policy_verdict v;

    if (!e || !e->valid)
        auth_refuse(answer, 403, "no-export", "no Export '%.*s' any more",
                    SW_SLICE_ARG(sw_slice_head(g->exported, 256)));
    else if (!auth_admits(a, g->peer))
        auth_refuse(answer, 403, "no-peer", "the peer has no Peer object any more");
    else if (!sw_link_judge_ingress(arena, a->facts, &a->self, e, &g->src, &v))
        auth_refuse(answer, 403, "policy", "%.400s", v.text);
}

static int open_grant(const struct sw_link_auth *a, struct sw_arena *arena, struct sw_slice text,
                      struct sw_link_grant *ret, struct sw_err *err)
{
    int rc = sw_link_grant_open(&a->key, arena, text, ret, err);

    return rc != SW_OK && a->has_before ? sw_link_grant_open(&a->before, arena, text, ret, err)
                                        : rc;
}

static void review_one(struct sw_link_auth *a, struct sw_slice line, struct sw_link_answer *answer)
{
    SW_ARENA_AUTO arena = {0};
    struct auth_subject s = {.side = "review"};
    struct sw_link_grant g = {0};
    struct sw_err err = {0};

    if (open_grant(a, &arena, line, &g, &err) != SW_OK)
        auth_refuse(answer, 403, "invalid", "%s", err.msg);
    else if (g.side == SW_LINK_EGRESS)
        auth_review_egress(a, &arena, &g, answer);
    else
        review_ingress(a, &arena, &g, answer);
    s.import = g.import;
    s.exported = g.exported;
    s.client = g.side == SW_LINK_EGRESS ? g.client : auth_source(&arena, &g.src);
    s.peer = g.peer;
    auth_record(a, &s, answer);
}

int sw_link_auth_review(struct sw_link_auth *a, struct sw_slice grants, struct sw_buf *out,
                        struct sw_err *err)
{
    struct sw_slice rest = grants;
    int rc = SW_OK;

    if (!a->facts || !a->has_key)
        return sw_err_set(err, SW_EPENDING, "key or objects are not known yet");
    for (size_t n = 0; rest.n && rc == SW_OK; n++) {
        struct sw_slice line = sw_slice_trim_lines(sw_slice_cut(&rest, '\n'));
        struct sw_link_answer answer = {.status = 200, .reason = "granted"};

        if (n == SW_LINK_REVIEW_MAX)
            return sw_err_set(err, SW_EINVAL, "more than %d grants", SW_LINK_REVIEW_MAX);
        review_one(a, line, &answer);
        rc = answer.status == 200 ? sw_buf_append_str(out, "ok\n")
                                  : sw_buf_printf(out, "denied %s\n", answer.text);
    }
    return rc == SW_OK ? SW_OK : sw_err_set(err, rc, "answer is too long");
}
