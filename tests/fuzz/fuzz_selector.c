/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors: the canonical text of what was parsed parses to the same. */
#include <assert.h>
#include <string.h>

#include "kube/select/fieldsel.h"
#include "kube/select/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice in = sw_slice(data, size);
    struct sw_label_selector l, l2;
    struct sw_field_selector f, f2;
    const char *why = NULL;
    int rc;

    if (size > 4096)
        return 0;
    if (sw_label_selector_parse(&a, in, &l, &why) == SW_OK) {
        const char *text = sw_label_selector_text(&a, &l);

        rc = sw_label_selector_parse(&a, sw_slice_str(text), &l2, &why);
        assert(rc == SW_OK);
        assert(strcmp(text, sw_label_selector_text(&a, &l2)) == 0);
        (void)sw_label_selector_match(&l, NULL);
    } else {
        assert(why);
    }
    why = NULL;
    if (!memchr(data ? (const void *)data : "", 0, size) &&
        sw_field_selector_parse(&a, in, &f, &why) == SW_OK) {
        const char *text = sw_field_selector_text(&a, &f);

        rc = sw_field_selector_parse(&a, sw_slice_str(text), &f2, &why);
        assert(rc == SW_OK && f.n == f2.n);
        for (size_t i = 0; i < f.n; i++)
            assert(sw_slice_eq(f.p[i].value, f2.p[i].value));
        (void)sw_field_selector_match(&f, NULL);
    }
    return 0;
}
