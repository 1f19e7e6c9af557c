/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a local file: refused with a place, or a snapshot whose indexes agree with its
 * contents and over which every decision function gives a well-formed answer.
 */
#include <string.h>

#include "mesh_state.h"
#include "node/local/localconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_state *s = NULL;
    struct sw_err err = {0};
    int rc;

    if (n > 1 << 16)
        return 0;
    rc = sw_localconfig_parse(&(struct sw_localconfig){.file = "f", .text = sw_slice(data, n)}, &s,
                              &err);
    if (rc != SW_OK) {
        assert(!s && strncmp(err.msg, "f: line ", 8) == 0);
        return 0;
    }
    check_state(s);
    (void)sw_state_unref(s);
    return 0;
}
