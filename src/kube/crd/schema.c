/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/crd/schema.h"

#include "base/budget.h"

int sw_schema_compile(struct sw_schema_set *set, const struct sw_json *v,
                      const struct sw_fpath *path, struct sw_field_errs *e)
{
    return sw_schema_compile_as(set, v, NULL, path, e);
}

int sw_schema_compile_as(struct sw_schema_set *set, const struct sw_json *v,
                         const struct sw_schema_opts *o, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    size_t before = e->n;

    if (sw_schema_read(set, v, path, e) != SW_OK)
        return SW_EINVAL;
    if (set->root && set->root->rules_below)
        sw_rules_compile(set, set->root, o, path, e);
    return e->n == before ? SW_OK : SW_EINVAL;
}

void sw_schema_check_object(const struct sw_schema *s, const struct sw_json *v,
                            const struct sw_json *old, const struct sw_fpath *prefix,
                            struct sw_field_errs *e)
{
    struct sw_field_errs before;

    sw_schema_validate(s, v, old, prefix, e);
    if (!sw_budget_ok(e->budget))
        return; /* refused already */
    sw_schema_validate_embedded(s, v, prefix, e);
    sw_field_errs_init(&before, e->arena);
    if (old)
        sw_schema_validate_lists(s, old, prefix, &before);
    if (!before.n)
        sw_schema_validate_lists(s, v, prefix, e);
    if (!s->rules_below)
        return;
    if (sw_schema_blocks_rules(e))
        sw_ferr_invalid(e, NULL, NULL,
                        "some validation rules were not checked because the object was invalid; "
                        "correct the existing errors to complete validation");
    else
        sw_rules_check(s, v, old, prefix, e);
}
