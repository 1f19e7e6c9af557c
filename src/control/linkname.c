/* SPDX-License-Identifier: Apache-2.0 */
#include "control/linkname.h"

#include <stdio.h>

#include "base/hex.h"
#include "base/json.h"
#include "tls/crypto/md5.h"

enum { SHORT = 10 };

struct sw_slice sw_link_service_name(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    const char *key = sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    uint8_t sum[SW_MD5_LEN];
    char hex[2 * SW_MD5_LEN + 1];

    sw_md5(sw_slice_str(key), sum);
    *sw_hex_write(hex, sum, sizeof(sum)) = 0;
    return sw_slice_str(sw_arena_printf(a, "import-%.*s-%.*s-%s",
                                        SW_SLICE_ARG(sw_slice_head(name, SHORT)),
                                        SW_SLICE_ARG(sw_slice_head(ns, SHORT)), hex));
}

static bool labelled(const struct sw_json *labels, const char *key, struct sw_slice value)
{
    struct sw_slice have = sw_json_str(sw_json_find(labels, key));

    return have.p && sw_slice_eq(have, value);
}

bool sw_link_service_of(const struct sw_json *service, struct sw_slice ns, struct sw_slice name)
{
    const struct sw_json *labels = sw_json_walk(service, "metadata", "labels", NULL);

    return labelled(labels, SW_LINK_MANAGED, SW_SLICE_LIT(SW_LINK_GROUP)) &&
           labelled(labels, SW_LINK_IMPORT_NAME, name) && labelled(labels, SW_LINK_IMPORT_NS, ns);
}

bool sw_link_merges(const struct sw_json *import)
{
    return sw_json_str_eq(sw_json_walk(import, "metadata", "labels", SW_LINK_MERGE, NULL), "true");
}
