/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/judge.h"

#include <stdio.h>

struct sw_attrs sw_link_src_attrs(struct sw_arena *a, const struct sw_link_self *self,
                                  const struct sw_attrs *client)
{
    struct sw_link_attrs b;

    if (!client)
        return (struct sw_attrs){0};
    sw_link_attrs_begin(&b, a, 1 + client->n + self->labels.n);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_PEER_NAME), self->name);
    sw_link_attrs_add_all(&b, client);
    sw_link_attrs_add_all(&b, &self->labels);
    for (size_t i = 0; i < b.n; i++) {
        b.p[i].key = sw_arena_slice(a, b.p[i].key);
        b.p[i].value = sw_arena_slice(a, b.p[i].value);
    }
    return sw_link_attrs_done(&b);
}

static bool decide(const struct sw_link_facts *f, const struct sw_attr_request *req,
                   struct sw_policy_verdict *ret)
{
    const struct sw_attr_list *l = sw_link_facts_policies(f);

    if (req->src.n || !sw_attr_list_needs_source(l, req->ns))
        return sw_attr_decide(l, req, ret);
    sw_policy_verdict_init(ret);
    (void)snprintf(ret->text, sizeof(ret->text),
                   "client has no attributes and access policies select by attributes");
    return false;
}

bool sw_link_judge_egress(struct sw_arena *a, const struct sw_link_facts *f,
                          const struct sw_link_import *i, const struct sw_link_source *s,
                          const struct sw_attrs *const ends[2], struct sw_policy_verdict *ret)
{
    struct sw_attr_request req = {.ns = i->ns, .src = *ends[SW_LINK_END_SRC]};
    struct sw_link_attrs b;

    sw_link_attrs_begin(&b, a, 3 + i->labels.n + ends[SW_LINK_END_PEER]->n);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_PEER_NAME), s->peer);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_EXPORT_NAME), s->export_name);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_EXPORT_NS), s->export_ns);
    sw_link_attrs_add_all(&b, &i->labels);
    sw_link_attrs_add_all(&b, ends[SW_LINK_END_PEER]);
    req.dst = sw_link_attrs_done(&b);
    return decide(f, &req, ret);
}

bool sw_link_judge_ingress(struct sw_arena *a, const struct sw_link_facts *f,
                           const struct sw_link_self *self, const struct sw_link_export *e,
                           const struct sw_attrs *src, struct sw_policy_verdict *ret)
{
    struct sw_attr_request req = {.ns = e->ns, .src = *src};
    struct sw_link_attrs b;

    sw_link_attrs_begin(&b, a, 3 + e->labels.n + self->labels.n);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_PEER_NAME), self->name);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_EXPORT_NAME), e->name);
    sw_link_attrs_add(&b, SW_SLICE_LIT(SW_LINK_EXPORT_NS), e->ns);
    sw_link_attrs_add_all(&b, &e->labels);
    sw_link_attrs_add_all(&b, &self->labels);
    req.dst = sw_link_attrs_done(&b);
    return decide(f, &req, ret);
}
