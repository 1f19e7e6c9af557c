/* SPDX-License-Identifier: Apache-2.0 */
/* Route tables: virtual hosts, matches in list order, rewrites, redirects, retries. */
#include "gw_help.h"

#include "base/rand.h"
#include "gateway/config/build.h"
#include "gateway/config/routes.h"
#include "gateway/message/match.h"
#include "gateway/route/build.h"
#include "gateway/route/match.h"

static struct sw_gw_routes *build_after(const char *json, const struct sw_gw_routes *old)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_err err = {0};
    struct sw_gw_build b = {.arena = &tmp, .tmp = &tmp, .err = &err};
    struct sw_gw_routes *t = sw_gw_build_routes(&b, gw_encode(&tmp, SW_GW_TYPE_ROUTES, json), old);

    if (!t)
        fail_msg("%s", err.msg);
    sw_gw_build_done(&b);
    return t;
}

static struct sw_gw_routes *build(const char *json)
{
    return build_after(json, NULL);
}

static void refused(const char *json, const char *why)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_err err = {0};
    struct sw_gw_build b = {.arena = &tmp, .tmp = &tmp, .err = &err};
    struct sw_gw_routes *t = sw_gw_build_routes(&b, gw_encode(&tmp, SW_GW_TYPE_ROUTES, json), NULL);

    assert_null(t);
    if (!strstr(err.msg, why))
        fail_msg("'%s' is not in '%s'", why, err.msg);
    sw_gw_build_done(&b);
}

static struct sw_gw_request request(const char *method, const char *host, const char *path)
{
    return (struct sw_gw_request){.method = sw_slice_str(method),
                                  .scheme = SW_SLICE_LIT("http"),
                                  .authority = sw_slice_str(host),
                                  .path = sw_slice_str(path),
                                  .version = SW_GW_HTTP11};
}

static const char *route_of(const struct sw_gw_routes *t, const struct sw_gw_request *req)
{
    static char name[64];
    const struct sw_gw_facts facts = {0};
    const struct sw_gw_vhost *v = sw_gw_vhost_find(t, req->authority);
    const struct sw_gw_route *r = v ? sw_gw_route_find(v, req, &facts) : NULL;

    if (!v)
        return "no host";
    assert_ptr_equal(r, sw_gw_route_scan(v, req, &facts));
    if (!r)
        return "none";
    (void)snprintf(name, sizeof(name), "%.*s", SW_SLICE_ARG(r->name));
    return name;
}

#define TO(c) "'route':{'cluster':'" c "'}"

static void virtual_hosts_by_specificity(void **state)
{
    static const struct {
        const char *host;
        const char *vhost;
    } cases[] = {
        {"foo.com", "exact"},      {"FOO.com", "exact"},      {"foo.com:8080", "exact"},
        {"a.foo.com", "suffix"},   {"b.a.foo.com", "longer"}, {".foo.com", "any"},
        {"x-bar.foo.com", "dash"}, {"foo.org", "prefix"},     {"foo.", "any"},
        {"other", "any"},          {"[::1]:80", "any"},       {"", "any"},
    };
    struct sw_gw_routes *t = build(
        "{'name':'r','ignore_port_in_host_matching':true,'virtual_hosts':["
        "{'name':'exact','domains':['foo.com']},{'name':'suffix','domains':['*.foo.com']},"
        "{'name':'longer','domains':['*.a.foo.com']},{'name':'dash','domains':['*-bar.foo.com']},"
        "{'name':'prefix','domains':['foo.*']},{'name':'any','domains':['*']}]}");

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_gw_vhost *v = sw_gw_vhost_find(t, sw_slice_str(cases[i].host));

        assert_non_null(v);
        if (!sw_slice_eq_str(v->name, cases[i].vhost))
            fail_msg("%s: %.*s instead of %s", cases[i].host, SW_SLICE_ARG(v->name),
                     cases[i].vhost);
    }
    (void)sw_gw_routes_unref(t);
}

static void paths_match_in_list_order(void **state)
{
    static const struct {
        const char *path;
        const char *route;
    } cases[] = {
        {"/exact", "exact"},       {"/exact?q=1", "exact"},
        {"/exact/", "rest"},       {"/sep", "sep"},
        {"/sep/", "sep"},          {"/sep/x", "sep"},
        {"/separate", "rest"},     {"/q/a.b", "quoted"},
        {"/q/axb", "rest"},        {"/re/42", "regex"},
        {"/re/42x", "rest"},       {"/IC/x", "icase"},
        {"/ic", "icase"},          {"/pre", "prefix"},
        {"/prefix", "prefix"},     {"/pre/longer", "prefix"},
        {"/q?a=1&b=2", "query"},   {"/q?a=2&a=1", "rest"},
        {"/q?x=%31", "decoded"},   {"/", "rest"},
        {"/q?%61=1", "query"},     {"/q?a%=1", "rest"},
        {"/q?%78=%31", "decoded"},
    };
    struct sw_gw_routes *t = build(
        "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':["
        "{'name':'exact','match':{'path':'/exact'}," TO(
            "c") "},"
                 "{'name':'sep','match':{'path_separated_prefix':'/sep'}," TO(
                     "c") "},"
                          "{'name':'quoted','match':{'safe_regex':{'regex':'\\\\Q/q/a.b'}}," TO(
                              "c") "},"
                                   "{'name':'regex','match':{'safe_regex':{'regex':'/re/"
                                   "[0-9]+'}}," TO(
                                       "c") "},"
                                            "{'name':'icase','match':{'prefix':'/"
                                            "ic','case_sensitive':false}," TO(
                                                "c") "},"
                                                     "{'name':'query','match':{'prefix':'/"
                                                     "q','query_parameters':[{'name':'a','string_"
                                                     "match':{'"
                                                     "exact':'1'}}]}," TO(
                                                         "c") "},"
                                                              "{'name':'decoded','match':{'prefix':"
                                                              "'/"
                                                              "q','query_parameters':[{'name':'x','"
                                                              "string_"
                                                              "match':{'exact':'1'}}]}," TO(
                                                                  "c") "},"
                                                                       "{'name':'prefix','match':{'"
                                                                       "prefix':'"
                                                                       "/pre'}," TO(
                                                                           "c") "},"
                                                                                "{'name':'never','"
                                                                                "match':{'"
                                                                                "prefix':'/pre/"
                                                                                "longer'}," TO(
                                                                                    "c") "},"
                                                                                         "{'name':'"
                                                                                         "never2','"
                                                                                         "match':{'"
                                                                                         "path':'/"
                                                                                         "exact'}"
                                                                                         "," TO(
                                                                                             "c") "},"
                                                                                                  "{'name':'"
                                                                                                  "rest','"
                                                                                                  "match':{'"
                                                                                                  "prefix':'"
                                                                                                  "/'}," TO(
                                                                                                      "c") "}]}]}");

    (void)state;
    assert_true(t->vhosts[0]->indexed);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_gw_request req = request("GET", "h", cases[i].path);

        assert_string_equal(route_of(t, &req), cases[i].route);
    }
    (void)sw_gw_routes_unref(t);
}

static void headers_match(void **state)
{
    struct sw_h1_field f[] = {
        {SW_SLICE_LIT("X-Version"), SW_SLICE_LIT("two")},
        {SW_SLICE_LIT("n"), SW_SLICE_LIT("15")},
        {SW_SLICE_LIT("multi"), SW_SLICE_LIT("a")},
        {SW_SLICE_LIT("multi"), SW_SLICE_LIT("b")},
        {SW_SLICE_LIT("cookie"), SW_SLICE_LIT("a=1; session=\"s 1\"; b=2")},
    };
    static const struct {
        const char *json;
        bool match;
    } cases[] = {
        {"{'name':'x-version','string_match':{'exact':'two'}}", true},
        {"{'name':'x-version','string_match':{'exact':'TWO','ignore_case':true}}", true},
        {"{'name':'x-version','string_match':{'exact':'TWO'}}", false},
        {"{'name':'x-version','string_match':{'prefix':'t'}}", true},
        {"{'name':'x-version','string_match':{'suffix':'wo'}}", true},
        {"{'name':'x-version','string_match':{'contains':'w'}}", true},
        {"{'name':'x-version','string_match':{'safe_regex':{'regex':'t.o'}}}", true},
        {"{'name':'x-version','string_match':{'safe_regex':{'regex':'t'}}}", false},
        {"{'name':'x-version','string_match':{'exact':'one'},'invert_match':true}", true},
        {"{'name':'absent','string_match':{'exact':'one'},'invert_match':true}", false},
        {"{'name':'absent','string_match':{'exact':'one'},'invert_match':true,"
         "'treat_missing_header_as_empty':true}",
         true},
        {"{'name':'absent'}", false},
        {"{'name':'absent','present_match':false}", true},
        {"{'name':'n','range_match':{'start':15,'end':16}}", true},
        {"{'name':'n','range_match':{'start':1,'end':15}}", false},
        {"{'name':'multi','string_match':{'exact':'a,b'}}", true},
        {"{'name':':method','string_match':{'exact':'GET'}}", true},
        {"{'name':':authority','string_match':{'exact':'h'}}", true},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        char json[1024];
        struct sw_gw_routes *t;
        struct sw_gw_request req = request("GET", "h", "/");

        (void)snprintf(json, sizeof(json),
                       "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'name':"
                       "'hit','match':{'prefix':'/','headers':[%s]}," TO("c") "}]}]}",
                       cases[i].json);
        t = build(json);
        req.fields = (struct sw_gw_fields){.p = f, .n = SW_ARRAY_LEN(f)};
        if (strcmp(route_of(t, &req), cases[i].match ? "hit" : "none") != 0)
            fail_msg("%s", cases[i].json);
        assert_true(sw_slice_eq_str(sw_gw_cookie(&req.fields, SW_SLICE_LIT("session")), "s 1"));
        assert_null(sw_gw_cookie(&req.fields, SW_SLICE_LIT("ses")).p);
        (void)sw_gw_routes_unref(t);
    }
}

/* Random tables and paths: the index finds what a walk through the list finds. */
static void index_agrees_with_order(void **state)
{
    static const char *const parts[] = {"/a", "/b", "/ab", "/a/b", "/", "/a/b/c", "/b/a"};

    (void)state;
    for (int round = 0; round < 50; round++) {
        SW_BUF_AUTO json;
        struct sw_gw_routes *t;

        sw_buf_init(&json, 1 << 20);
        (void)!sw_buf_append_str(&json, "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],"
                                        "'routes':[");
        for (int i = 0; i < 40; i++) {
            const char *p = parts[sw_rand_below(SW_ARRAY_LEN(parts))];
            static const char *const kinds[] = {"path", "prefix", "path_separated_prefix"};
            const char *kind = kinds[sw_rand_below(p[1] ? 3 : 2)];

            (void)!sw_buf_printf(&json, "%s{'name':'%d','match':{'%s':'%s'%s%s}," TO("c") "}",
                                 i ? "," : "", i, kind, p,
                                 sw_rand_below(4) ? "" : ",'headers':[{'name':'x'}]",
                                 sw_rand_below(6) ? "" : ",'case_sensitive':false");
        }
        (void)!sw_buf_append_str(&json, "]}]}");
        (void)!sw_buf_putc(&json, '\0');
        t = build(sw_buf_data(&json));
        for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
            struct sw_gw_request req = request("GET", "h", parts[i]);

            (void)route_of(t, &req); /* compares both ways */
            req.path = sw_slice_head(req.path, req.path.n - 1);
            if (req.path.n)
                (void)route_of(t, &req);
        }
        (void)sw_gw_routes_unref(t);
    }
}

static void paths_are_rewritten(void **state)
{
    static const struct {
        const char *match;
        const char *action;
        const char *path;
        const char *want;
    } cases[] = {
        {"'path_separated_prefix':'/foo'", "'prefix_rewrite':'/xyz'", "/foo/bar?q=1",
         "/xyz/bar?q=1"},
        {"'path_separated_prefix':'/foo'", "'prefix_rewrite':'/xyz'", "/foo", "/xyz"},
        {"'path_separated_prefix':'/foo'", "'prefix_rewrite':'/xyz'", "/foo/", "/xyz/"},
        {"'path_separated_prefix':'/foo'",
         "'regex_rewrite':{'pattern':{'regex':'^/foo/*'},'substitution':'/'}", "/foo/bar?a=/foo",
         "/bar?a=/foo"},
        {"'path_separated_prefix':'/foo'",
         "'regex_rewrite':{'pattern':{'regex':'^/foo/*'},'substitution':'/'}", "/foo", "/"},
        {"'prefix':'/'", "'regex_rewrite':{'pattern':{'regex':'^/.*$'},'substitution':'/all'}",
         "/x/y?k", "/all?k"},
        {"'prefix':'/'",
         "'regex_rewrite':{'pattern':{'regex':'/([a-z]+)/([0-9]+)'},'substitution':'/\\\\2/\\\\1'}",
         "/ab/12", "/12/ab"},
        {"'prefix':'/'", "'timeout':'1s'", "/same?x", "/same?x"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        char json[1024];
        struct sw_gw_routes *t;
        struct sw_slice got;

        (void)snprintf(
            json, sizeof(json),
            "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'match':{"
            "%s},'route':{'cluster':'c',%s}}]}]}",
            cases[i].match, cases[i].action);
        t = build(json);
        got = sw_gw_rewrite_path(&t->vhosts[0]->routes[0], sw_slice_str(cases[i].path), &a, NULL);
        if (!sw_slice_eq_str(got, cases[i].want))
            fail_msg("%s: %.*s instead of %s", cases[i].path, SW_SLICE_ARG(got), cases[i].want);
        (void)sw_gw_routes_unref(t);
    }
}

static void redirects_say_where(void **state)
{
    static const struct {
        const char *redirect;
        const char *host;
        const char *want;
    } cases[] = {
        {"'host_redirect':'example.org'", "h:8080", "http://example.org/foo/bar?q"},
        {"'host_redirect':'example.org','port_redirect':80", "h:8080",
         "http://example.org/foo/bar?q"},
        {"'https_redirect':true", "h:80", "https://h/foo/bar?q"},
        {"'scheme_redirect':'https','port_redirect':8443", "h", "https://h:8443/foo/bar?q"},
        {"'scheme_redirect':'https','port_redirect':443", "h:8080", "https://h/foo/bar?q"},
        {"'port_redirect':8081", "h", "http://h:8081/foo/bar?q"},
        {"'path_redirect':'/new'", "h", "http://h/new?q"},
        {"'path_redirect':'/new','strip_query':true", "h", "http://h/new"},
        {"'prefix_rewrite':'/xyz'", "h", "http://h/xyz/bar?q"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        char json[1024];
        struct sw_gw_request req = request("GET", cases[i].host, "/foo/bar?q");
        struct sw_addr local = {0};
        struct sw_gw_routes *t;
        struct sw_slice got;

        (void)snprintf(
            json, sizeof(json),
            "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'match':{"
            "'path_separated_prefix':'/foo'},'redirect':{%s}}]}]}",
            cases[i].redirect);
        t = build(json);
        got = sw_gw_redirect_location(&t->vhosts[0]->routes[0], &req, &local, &a);
        if (!sw_slice_eq_str(got, cases[i].want))
            fail_msg("%s: %.*s instead of %s", cases[i].redirect, SW_SLICE_ARG(got), cases[i].want);
        (void)sw_gw_routes_unref(t);
    }
}

static void paths_are_normalized(void **state)
{
    static const struct {
        enum sw_gw_escaped_slash slash;
        bool merge;
        const char *in;
        int rc;
        const char *out;
    } cases[] = {
        {SW_GW_SLASH_KEEP, false, "/a/./b/../c?x=/../", SW_OK, "/a/c?x=/../"},
        {SW_GW_SLASH_KEEP, false, "/a/..", SW_OK, "/"},
        {SW_GW_SLASH_KEEP, false, "/../etc", SW_EINVAL, NULL},
        {SW_GW_SLASH_KEEP, false, "/%61/%2e%2e/b", SW_OK, "/b"},
        {SW_GW_SLASH_KEEP, false, "/a%2Fb", SW_OK, "/a%2Fb"},
        {SW_GW_SLASH_REJECT, false, "/a%2Fb", SW_EINVAL, NULL},
        {SW_GW_SLASH_REDIRECT, false, "/a%2Fb", SW_GW_PATH_MOVED, "/a/b"},
        {SW_GW_SLASH_UNESCAPE, false, "/a%2F..%5cb", SW_OK, "/b"},
        {SW_GW_SLASH_KEEP, true, "//a///b/", SW_OK, "/a/b/"},
        {SW_GW_SLASH_KEEP, false, "/a//b", SW_OK, "/a//b"},
        {SW_GW_SLASH_KEEP, false, "/a\\..\\b", SW_OK, "/b"},
        {SW_GW_SLASH_KEEP, false, "/a%00b", SW_EINVAL, NULL},
        {SW_GW_SLASH_KEEP, false, "/a%2500b?%00", SW_OK, "/a%2500b?%00"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_gw_hcm h = {.path = {.normalize = true,
                                       .merge_slashes = cases[i].merge,
                                       .escaped_slash = cases[i].slash}};
        struct sw_slice got;

        assert_int_equal(sw_gw_normalize_path(&h, sw_slice_str(cases[i].in), &a, &got),
                         cases[i].rc);
        if (cases[i].out && !sw_slice_eq_str(got, cases[i].out))
            fail_msg("%s: %.*s instead of %s", cases[i].in, SW_SLICE_ARG(got), cases[i].out);
    }
}

static void retries_follow_the_policy(void **state)
{
    struct sw_gw_routes *t = build(
        "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'retry_policy':{'retry_on':"
        "'retriable-status-codes,connect-failure','num_retries':3,'retriable_status_codes':[503],"
        "'retry_back_off':{'base_interval':'0.1s','max_interval':'0.3s'}}}]}");
    const struct sw_gw_retry *r = t->vhosts[0]->retry;

    (void)state;
    assert_int_equal(r->num, 3);
    assert_true(sw_gw_retry_wants(r, SW_GW_STATUS, 503, NULL));
    assert_false(sw_gw_retry_wants(r, SW_GW_STATUS, 500, NULL));
    assert_true(sw_gw_retry_wants(r, SW_GW_CONNECT_FAILED, 0, NULL));
    assert_false(sw_gw_retry_wants(r, SW_GW_RESET_BEFORE, 0, NULL));
    assert_false(sw_gw_retry_wants(r, SW_GW_DOWNSTREAM_GONE, 0, NULL));
    assert_int_equal(sw_gw_retry_delay(r, 1, 99999999), 99999999);
    assert_int_equal(sw_gw_retry_delay(r, 1, 100000000), 0);
    assert_int_equal(sw_gw_retry_delay(r, 2, 150000000), 150000000);
    assert_int_equal(sw_gw_retry_delay(r, 9, 299999999), 299999999);
    assert_int_equal(sw_gw_retry_delay(r, 9, 300000000), 0);
    (void)sw_gw_routes_unref(t);
}

/* What a policy of one word repeats. */
static void expect_retries(const char *on, const char *codes, const int *wanted, bool timeout)
{
    SW_AUTO_FREE char *text =
        sw_asprintf("{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'retry_policy':"
                    "{'retry_on':'%s','retriable_status_codes':[%s]}}]}",
                    on, codes);
    struct sw_gw_routes *t = build(text);
    const struct sw_gw_retry *r = t->vhosts[0]->retry;

    for (int status = 400; status < 600; status++) {
        bool listed = false;

        for (const int *w = wanted; *w; w++)
            listed |= *w == status;
        if (sw_gw_retry_wants(r, SW_GW_STATUS, status, NULL) != listed)
            fail_msg("retry_on %s: status %d", on, status);
    }
    assert_int_equal(sw_gw_retry_wants(r, SW_GW_TIMEOUT, 0, NULL), timeout);
    (void)sw_gw_routes_unref(t);
}

static void each_word_of_retry_on_repeats_its_statuses(void **state)
{
    (void)state;
    expect_retries("gateway-error", "", (const int[]){502, 503, 504, 0}, true);
    expect_retries("retriable-4xx", "", (const int[]){409, 0}, false);
    expect_retries("retriable-status-codes", "429,505", (const int[]){429, 505, 0}, false);
    /* An attempt that takes too long ends with 504. */
    expect_retries("retriable-status-codes", "504", (const int[]){504, 0}, true);
    expect_retries("reset", "", (const int[]){0}, true);
    expect_retries("refused-stream", "", (const int[]){0}, false);
}

static void nonsense_is_refused(void **state)
{
#define VH(x) "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[" x "]}]}"
    (void)state;
    refused("{'name':'r','virtual_hosts':[{'name':'v','domains':[]}]}",
            "virtual host 'v': domains is empty");
    refused(
        "{'name':'r','virtual_hosts':[{'name':'a','domains':['x']},{'name':'b','domains':['X']}]}",
        "duplicate domain");
    refused(VH("{'match':{}," TO("c") "}"), "match has no path");
    refused(VH("{'match':{'prefix':'/'}}"), "has no action");
    refused(VH("{'match':{'prefix':'/'},'route':{}}"), "route has no cluster");
    refused(VH("{'match':{'path_separated_prefix':'/a/'}," TO("c") "}"), "path_separated_prefix");
    refused(VH("{'match':{'prefix':'/'},'direct_response':{'status':99}}"), "200..599");
    refused(VH("{'match':{'prefix':'/"
               "'},'route':{'weighted_clusters':{'clusters':[{'name':'a','weight':0}]}}}"),
            "sum of weights");
    refused(VH("{'match':{'prefix':'/'}," TO(
                "c") ",'request_headers_to_add':[{'header':{'key':'Host','value':'x'}}]}"),
            "may not be changed");
    refused(VH("{'match':{'prefix':'/'}," TO(
                "c") ",'request_headers_to_add':[{'header':{'key':'x','value':'%NOPE%'}}]}"),
            "unknown operator");
    refused(
        VH("{'match':{'prefix':'/'},'route':{'cluster':'c','retry_policy':{'retry_on':'often'}}}"),
        "often");
    refused(VH("{'match':{'prefix':'/'},'route':{'cluster':'c','priority':'HIGH'}}"),
            "routes[0].route.priority is not supported");
    refused(VH("{'match':{'prefix':'/'}," TO(
                "c") ",'typed_per_filter_config':{'x':{'@type':"
                     "'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router'}}}"),
            "is not supported");
}

/* ---- tables that follow one another ---- */

enum { HOSTS = 12 };

/* A table of the hosts whose bit is set, each with the version of its only route. */
static char *table_of(unsigned hosts, const unsigned char version[HOSTS], unsigned body_max)
{
    SW_BUF_AUTO b = {0};
    const char *comma = "";

    sw_buf_init(&b, 1 << 16);
    assert_int_equal(sw_buf_printf(&b,
                                   "{'name':'t','max_direct_response_body_size_bytes':%u,"
                                   "'virtual_hosts':[",
                                   body_max),
                     SW_OK);
    for (unsigned i = 0; i < HOSTS; i++) {
        if (!(hosts & 1u << i))
            continue;
        assert_int_equal(
            sw_buf_printf(&b,
                          "%s{'name':'h%02u','domains':['h%02u.test'],'routes':[{'name':'%u',"
                          "'match':{'safe_regex':{'regex':'/.*'}}," TO("c") "}]}",
                          comma, i, i, version[i]),
            SW_OK);
        comma = ",";
    }
    assert_int_equal(sw_buf_append_str(&b, "]}"), SW_OK);
    return sw_buf_take_str(&b);
}

static void check_table(const struct sw_gw_routes *t, unsigned hosts,
                        const unsigned char version[HOSTS])
{
    for (unsigned i = 0; i < HOSTS; i++) {
        char host[16];
        char want[16] = "no host";
        struct sw_gw_request req;

        (void)snprintf(host, sizeof(host), "h%02u.test", i);
        if (hosts & 1u << i)
            (void)snprintf(want, sizeof(want), "%u", version[i]);
        req = request("GET", host, "/");
        assert_string_equal(route_of(t, &req), want);
    }
}

/* Any hosts come, go and change; the table is what it would be without the one before it. */
static void tables_share_what_stays(void **state)
{
    unsigned char version[HOSTS] = {0};
    struct sw_gw_routes *old = NULL;
    unsigned hosts = 0;

    (void)state;
    for (int step = 0; step < 300; step++) {
        unsigned change = (unsigned)sw_rand_below(HOSTS);
        struct sw_gw_routes *t;
        char *json;

        if (sw_rand_below(2))
            hosts ^= 1u << change;
        version[change] = (unsigned char)sw_rand_below(200);
        json = table_of(hosts, version, step % 50 ? 100 : 200);
        t = build_after(json, old);
        check_table(t, hosts, version);
        for (size_t i = 0; old && step % 50 > 1 && i < t->n_vhosts; i++) {
            const struct sw_gw_vhost *v = t->vhosts[i];
            bool shared = false;

            for (size_t k = 0; k < old->n_vhosts; k++)
                shared |= old->vhosts[k] == v;
            if (!shared) /* only what changed is new */
                assert_int_equal(v->name.p[1] * 10 + v->name.p[2] - 11 * '0', change);
        }
        sw_gw_routes_unref(old);
        old = t;
        sw_free(json);
    }
    sw_gw_routes_unref(old);
}

/* One host beyond a limit, with 'what' as its only route, between two that are fine. */
static struct sw_gw_routes *with_bad_host(const char *what, const struct sw_gw_routes *old)
{
    SW_BUF_AUTO json = {.max = 1 << 20};
    struct sw_gw_routes *t;

    assert_int_equal(
        sw_buf_printf(
            &json,
            "{'name':'r','virtual_hosts':["
            "{'name':'a','domains':['a.x'],'routes':[{'name':'fine','match':{'prefix':'/'},"
            "'route':{'cluster':'c'}}]},"
            "{'name':'b','domains':['b.x'],'routes':[%s]},"
            "{'name':'c','domains':['c.x'],'routes':[{'name':'fine','match':{'safe_regex':"
            "{'regex':'/.*'}},'route':{'cluster':'c'}}]}]}%c",
            what, 0),
        SW_OK);
    t = build_after(json.p, old);
    return t;
}

static void limits_are_of_one_host(void **state)
{
    struct sw_gw_request a = request("GET", "a.x", "/1");
    struct sw_gw_request b = request("GET", "b.x", "/1");
    struct sw_gw_request c = request("GET", "c.x", "/1");
    SW_BUF_AUTO path = {.max = 1 << 20};
    SW_BUF_AUTO words = {.max = 1 << 20};
    const char *bad[4] = {"{'match':{'safe_regex':{'regex':'(a'}}," TO("c") "}",
                          "{'match':{'safe_regex':{'regex':'a)|(b'}}," TO("c") "}"};

    (void)state;
    assert_int_equal(sw_buf_printf(&path, "{'match':{'prefix':'/%08192d'}," TO("c") "}%c", 0, 0),
                     SW_OK);
    for (int i = 0; i < 1200; i++)
        assert_int_equal(
            sw_buf_printf(&words,
                          "%s{'match':{'safe_regex':{'regex':'/%d(a|b){1,900}'}}," TO("c") "}",
                          i ? "," : "", i),
            SW_OK);
    assert_int_equal(sw_buf_append(&words, "", 1), SW_OK);
    bad[2] = path.p;
    bad[3] = words.p;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        struct sw_gw_routes *t = with_bad_host(bad[i], NULL);
        struct sw_gw_routes *next;

        assert_int_equal(t->n_invalid, 1);
        assert_string_equal(route_of(t, &a), "fine");
        assert_string_equal(route_of(t, &c), "fine");
        assert_string_equal(route_of(t, &b), "route_invalid");
        next = with_bad_host(bad[i], t);
        assert_int_equal(next->n_invalid, 1);
        assert_ptr_equal(next->vhosts[0], t->vhosts[0]);
        sw_gw_routes_unref(t);
        t = with_bad_host("{'name':'mended','match':{'prefix':'/'}," TO("c") "}", next);
        assert_int_equal(t->n_invalid, 0);
        assert_string_equal(route_of(t, &b), "mended");
        sw_gw_routes_unref(next);
        sw_gw_routes_unref(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_hosts_by_specificity),
        cmocka_unit_test(paths_match_in_list_order),
        cmocka_unit_test(headers_match),
        cmocka_unit_test(index_agrees_with_order),
        cmocka_unit_test(paths_are_rewritten),
        cmocka_unit_test(redirects_say_where),
        cmocka_unit_test(paths_are_normalized),
        cmocka_unit_test(retries_follow_the_policy),
        cmocka_unit_test(each_word_of_retry_on_repeats_its_statuses),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(tables_share_what_stays),
        cmocka_unit_test(limits_are_of_one_host),
    };

    return cmocka_run_group_tests_name("gateway route", tests, NULL, NULL);
}
