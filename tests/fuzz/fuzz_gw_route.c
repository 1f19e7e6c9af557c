/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests against a fixed table: the index finds what the list order says, a normalised path is a
 * fixed point and stays under the root, formats and rewrites take anything. Input: host NUL path
 * NUL header value.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "gateway/config/build.h"
#include "gateway/message/match.h"
#include "gateway/observe/accesslog.h"
#include "gateway/route/action.h"
#include "gateway/route/build.h"
#include "gateway/route/match.h"
#include "proto/json.h"
#include "proto/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char table_text[] =
    "{\"name\":\"r\",\"ignore_port_in_host_matching\":true,\"virtual_hosts\":["
    "{\"name\":\"a\",\"domains\":[\"a.test\",\"*.a.test\",\"*-b.test\",\"c.*\"],\"routes\":["
    "{\"match\":{\"path\":\"/\"},\"route\":{\"cluster\":\"c\"}}]},"
    "{\"name\":\"all\",\"domains\":[\"*\"],\"routes\":["
    "{\"match\":{\"path\":\"/a\"},\"route\":{\"cluster\":\"c\"}},"
    "{\"match\":{\"path_separated_prefix\":\"/"
    "a\"},\"route\":{\"cluster\":\"c\",\"prefix_rewrite\":\"/z\"}},"
    "{\"match\":{\"prefix\":\"/a/b\"},\"route\":{\"cluster\":\"c\"}},"
    "{\"match\":{\"safe_regex\":{\"regex\":\"/[a-c]+/"
    ".*\"}},\"route\":{\"cluster\":\"c\",\"regex_rewrite\":"
    "{\"pattern\":{\"regex\":\"(a|b)*c\"},\"substitution\":\"<\\\\1>\"}}},"
    "{\"match\":{\"prefix\":\"/H\",\"case_sensitive\":false},\"redirect\":{\"prefix_rewrite\":\"/"
    "i\"}},"
    "{\"match\":{\"prefix\":\"/"
    "\",\"headers\":[{\"name\":\"x\",\"string_match\":{\"prefix\":\"p\"}}]},\"route\":{\"cluster\":"
    "\"c\"}},"
    "{\"match\":{\"prefix\":\"/"
    "\",\"query_parameters\":[{\"name\":\"q\",\"string_match\":{\"exact\":\"1\"}}]},\"route\":{"
    "\"cluster\":\"c\"}},"
    "{\"match\":{\"prefix\":\"/"
    "\",\"cookies\":[{\"name\":\"s\",\"string_match\":{\"exact\":\"1\"}}]},\"route\":{\"cluster\":"
    "\"c\"}},"
    "{\"match\":{\"connect_matcher\":{}},\"route\":{\"cluster\":\"c\"}},"
    "{\"match\":{\"prefix\":\"/\"},\"route\":{\"cluster\":\"c\"}}]}]}";

static struct sw_gw_routes *table(void)
{
    static struct sw_gw_routes *t;
    SW_ARENA_AUTO a = {0};
    struct sw_gw_build b = {.arena = &a, .tmp = &a};
    struct sw_slice bytes;
    struct sw_json *v;

    if (t)
        return t;
    assert(sw_json_parse(&a, SW_SLICE_LIT(table_text), NULL, &v, NULL) == SW_OK);
    assert(sw_pb_from_json(&a, sw_pb_type_find(SW_SLICE_LIT(SW_TYPE_ROUTE)), v, &bytes, NULL) ==
           SW_OK);
    t = sw_gw_build_routes(&b, bytes, NULL);
    assert(t);
    sw_gw_build_done(&b);
    return t;
}

static void check_path(struct sw_slice path)
{
    SW_ARENA_AUTO a = {0};
    struct sw_gw_hcm h = {
        .path = {.normalize = true, .merge_slashes = true, .escaped_slash = SW_GW_SLASH_UNESCAPE}};
    struct sw_slice one;
    struct sw_slice two;

    if (path.n == 0 || path.p[0] != '/' || sw_gw_normalize_path(&h, path, &a, &one) != SW_OK)
        return;
    assert(one.n && one.p[0] == '/');
    h.path.escaped_slash = SW_GW_SLASH_KEEP; /* unescaping may lay bare another escape, once */
    if (sw_gw_normalize_path(&h, one, &a, &two) != SW_OK)
        return;
    assert(two.p[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice rest = sw_slice(data, n);
    struct sw_slice host = sw_slice_cut(&rest, '\0');
    struct sw_slice path = rest.p ? sw_slice_cut(&rest, '\0') : sw_slice("", 0);
    struct sw_h1_field f[] = {{SW_SLICE_LIT("X"), rest.p ? rest : sw_slice("", 0)},
                              {SW_SLICE_LIT("cookie"), rest.p ? rest : sw_slice("", 0)}};
    struct sw_gw_request req = {.method = SW_SLICE_LIT("GET"),
                                .scheme = SW_SLICE_LIT("http"),
                                .authority = host,
                                .path = path,
                                .fields = {.p = f, .n = 2}};
    const struct sw_gw_facts facts = {0};
    const struct sw_gw_vhost *v = sw_gw_vhost_find(table(), host);
    const struct sw_gw_format *format;
    const struct sw_gw_route *r;
    struct sw_addr local = {0};

    assert(v);
    r = sw_gw_route_find(v, &req, &facts);
    assert(r == sw_gw_route_scan(v, &req, &facts));
    if (r && r->action == SW_GW_FORWARD)
        (void)sw_gw_rewrite_path(r, path, &a, NULL);
    if (r && r->action == SW_GW_REDIRECT)
        (void)sw_gw_redirect_location(r, &req, &local, &a);
    check_path(path);
    if (rest.p && sw_gw_format_parse(&a, rest, &format, NULL) == SW_OK) {
        const struct sw_gw_vars vars = {.req = &req, .http = true};

        (void)sw_gw_format_text(format, &vars, &a);
    }
    return 0;
}
