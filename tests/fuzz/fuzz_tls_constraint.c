/* SPDX-License-Identifier: Apache-2.0 */
/* URI name constraints. The first line is a constraint, the rest a URI, as strangers write them. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "tls/cert/constraints.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice rest = sw_slice(data, size);
    struct sw_slice constraint = sw_slice_cut(&rest, '\n');
    struct sw_slice host;

    if (!rest.p || !sw_uri_host(rest, &host))
        return 0;
    assert(host.n && host.p >= rest.p && host.p + host.n <= rest.p + rest.n);
    for (size_t i = 0; i < host.n; i++)
        assert(!memchr("@:/?#[]% ", host.p[i], 9));
    assert(host.p[0] != '.');
    /* A host is covered by itself and by nothing, and a domain never covers its own name. */
    assert(sw_uri_constraint_covers(host, host));
    assert(sw_uri_constraint_covers(sw_slice("", 0), host));
    if (sw_uri_constraint_covers(constraint, host) && constraint.n) {
        assert(constraint.p[0] == '.' ? host.n > constraint.n : host.n == constraint.n);
        assert(sw_slice_ieq(sw_slice_from(host, host.n - constraint.n), constraint));
    }
    return 0;
}
