/* SPDX-License-Identifier: Apache-2.0 */
#include "opts/upstream.h"

struct sw_egress *sw_upstream_filter(struct sw_loop *l, const struct sw_upstream_opts *o,
                                     bool only_listed, struct sw_err *err)
{
    struct sw_egress_opts eo = {.allow = o->allow.p,
                                .n_allow = o->allow.n,
                                .deny = o->deny.p,
                                .n_deny = o->deny.n,
                                .only_listed = only_listed};
    struct sw_egress *e = sw_egress_new(l, &eo, err);

    if (!e)
        (void)sw_err_prefix(err, "--upstream-allow, --upstream-deny");
    return e;
}
