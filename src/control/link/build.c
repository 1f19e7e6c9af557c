/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/link.h"

#include "control/link/link_int.h"

void lk_status(struct lk *l, size_t kind, const struct sw_kube_obj *o, const struct cond *want,
               size_t n)
{
    const char *const none[] = {NULL};

    /* As a rule nothing changed: no need to make it to find that out. */
    if (!same_conditions(cn_conditions(o), none, want, n, generation_of(o)))
        sw_out_status(l->out, kind, o, status_with(l->a, o, none, want, n));
}

void lk_note(struct lk *l, const char *reason, const char *kind, const struct sw_kube_obj *o,
             const char *text)
{
    sw_out_note(l->out, reason, cn_printf(l->a, "%s/%.*s", kind, SW_SLICE_ARG(o->key)),
                sw_slice_str(text));
}

static const struct sw_json *read_input(struct lk *l)
{
    struct sw_slice text = sw_view_input(l->v);
    struct sw_json *v = NULL;

    return text.n && sw_json_parse(l->a, text, NULL, &v, NULL) == SW_OK ? v : NULL;
}

static void publish_facts(struct lk *l, struct sw_link_facts **ret)
{
    struct sw_link_facts *f = sw_link_facts_end(l->facts);

    sw_out_publish(l->out, SW_LINK_FACTS, sw_slice("", 0),
                   cn_printf(l->a, "%016llx", (unsigned long long)sw_link_facts_hash(f)));
    *ret = f;
}

void sw_link_build(const struct sw_view *v, const struct sw_link_conf *conf, struct sw_output *out,
                   struct sw_link_facts **ret_facts)
{
    struct lk l = {
        .v = v, .conf = conf, .out = out, .a = sw_out_arena(out), .facts = sw_link_facts_begin()};

    l.input = read_input(&l);
    lk_read_planes(&l);
    lk_defaults(&l);
    lk_want_planes(&l);
    lk_peers(&l);
    lk_policies(&l);
    lk_exports(&l);
    lk_imports(&l);
    lk_sweep(&l);
    publish_facts(&l, ret_facts);
    sw_map_done(&l.services);
    sw_map_done(&l.slices);
    sw_map_done(&l.pending);
    sw_map_done(&l.backends);
    sw_arena_clear(&l.tmp);
}
