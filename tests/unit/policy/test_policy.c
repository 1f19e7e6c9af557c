/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/rand.h"
#include "policy/policy.h"

#define S(x) SW_SLICE_LIT(x)

/* Lists on the spot: LIST(struct sw_strmatch, {..}, {..}). */
#define LIST(type, ...)                                                                            \
    {                                                                                              \
        (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type)            \
    }

static const struct sw_spiffe alice = {S("td"), S("ns1"), S("alice")};
static const struct sw_spiffe bob = {S("td"), S("ns2"), S("bob")};

static struct sw_ip ip(const char *text)
{
    struct sw_ip out;

    assert_int_equal(sw_ip_parse(sw_slice_str(text), &out, NULL), SW_OK);
    return out;
}

static struct sw_cidr cidr(const char *text)
{
    struct sw_cidr out;

    assert_int_equal(sw_cidr_parse(sw_slice_str(text), &out, NULL), SW_OK);
    return out;
}

static struct sw_policy_request from(const struct sw_spiffe *id)
{
    return (struct sw_policy_request){
        .src = id, .src_ip = ip("10.0.0.1"), .dst_ip = ip("10.0.0.2"), .dst_port = 80};
}

/* A policy of one rule, one clause, one match. */
static bool holds(const struct sw_policy_match *m, const struct sw_policy_request *req)
{
    const struct sw_policy_clause clause = {m, 1};
    const struct sw_policy_rule rule = {&clause, 1};
    const struct sw_policy p = {.name = S("p"), .action = SW_POLICY_ALLOW, .rules = &rule, .n = 1};

    return sw_policy_matches(&p, req);
}

static void check(struct sw_policy_match m, const struct sw_policy_request *req, bool wanted)
{
    assert_int_equal(holds(&m, req), wanted);
}

static void namespaces(void **state)
{
    const struct sw_policy_match m = {.namespaces =
                                          LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("ns1")},
                                               {SW_STRMATCH_EXACT, S("other")})};
    const struct sw_policy_match none = {.namespaces =
                                             LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("")})};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request b = from(&bob);
    struct sw_policy_request plain = from(NULL);

    (void)state;
    check(m, &a, true);
    check(m, &b, false);
    check(m, &plain, false);
    check(none, &plain, true); /* no identity is the namespace "" */
    check(none, &a, false);
}

static void not_namespaces(void **state)
{
    const struct sw_policy_match m = {.not_namespaces =
                                          LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("ns1")})};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request b = from(&bob);
    struct sw_policy_request plain = from(NULL);

    (void)state;
    check(m, &a, false);
    check(m, &b, true);
    check(m, &plain, true);
}

static void principals(void **state)
{
    const struct sw_policy_match m = {
        .principals = LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("td/ns/ns1/sa/alice")})};
    const struct sw_policy_match uri = {
        .principals =
            LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("spiffe://td/ns/ns1/sa/alice")})};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request b = from(&bob);
    struct sw_policy_request plain = from(NULL);

    (void)state;
    check(m, &a, true);
    check(m, &b, false);
    check(m, &plain, false);
    check(uri, &a, false); /* compared without the scheme */
}

static void not_principals(void **state)
{
    const struct sw_policy_match m = {
        .not_principals = LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("td/ns/ns1/sa/alice")})};
    const struct sw_policy_match strict = {
        .not_principals = LIST(struct sw_strmatch, {SW_STRMATCH_PRESENCE, S("")})};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request b = from(&bob);
    struct sw_policy_request plain = from(NULL);

    (void)state;
    check(m, &a, false);
    check(m, &b, true);
    check(m, &plain, true);
    check(strict, &a, false);
    check(strict, &plain, true); /* what strict mTLS is made of */
}

static void plaintext_matches_no_kind_of_principal(void **state)
{
    struct sw_policy_request plain = from(NULL);

    (void)state;
    for (int kind = SW_STRMATCH_EXACT; kind <= SW_STRMATCH_PRESENCE; kind++) {
        const struct sw_strmatch one = {(enum sw_strmatch_kind)kind, S("")};
        const struct sw_policy_match m = {.principals = {&one, 1}};

        check(m, &plain, false);
    }
}

static void service_accounts(void **state)
{
    const struct sw_policy_match m = {.service_accounts =
                                          LIST(struct sw_sa_match, {S("ns1"), S("alice")})};
    const struct sw_policy_match not = {.not_service_accounts =
                                            LIST(struct sw_sa_match, {S("ns1"), S("alice")})};
    const struct sw_spiffe foreign = {S("elsewhere"), S("ns1"), S("alice")};
    const struct sw_spiffe other_ns = {S("td"), S("ns2"), S("alice")};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request f = from(&foreign);
    struct sw_policy_request o = from(&other_ns);
    struct sw_policy_request plain = from(NULL);

    (void)state;
    check(m, &a, true);
    check(m, &f, true); /* the trust domain does not count */
    check(m, &o, false);
    check(m, &plain, false);
    check(not, &a, false);
    check(not, &o, true);
    check(not, &plain, true);
}

static void addresses(void **state)
{
    const struct sw_cidr tens[] = {cidr("192.168.0.0/16"), cidr("10.0.0.0/31")};
    const struct sw_cidr dest[] = {cidr("10.0.0.2/32")};
    const struct sw_cidr six[] = {cidr("2001:db8::/32")};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request v6 = from(&alice);

    (void)state;
    v6.src_ip = ip("2001:db8::9");
    check((struct sw_policy_match){.source_ips = {tens, 2}}, &a, true);
    check((struct sw_policy_match){.source_ips = {dest, 1}}, &a, false);
    check((struct sw_policy_match){.not_source_ips = {tens, 2}}, &a, false);
    check((struct sw_policy_match){.not_source_ips = {dest, 1}}, &a, true);
    check((struct sw_policy_match){.destination_ips = {dest, 1}}, &a, true);
    check((struct sw_policy_match){.destination_ips = {six, 1}}, &a, false);
    check((struct sw_policy_match){.not_destination_ips = {dest, 1}}, &a, false);
    check((struct sw_policy_match){.not_destination_ips = {six, 1}}, &a, true);
    check((struct sw_policy_match){.source_ips = {six, 1}}, &v6, true);
    check((struct sw_policy_match){.source_ips = {six, 1}}, &a, false);
}

static void cidr_ranges(void **state)
{
    static const struct {
        const char *block;
        const char *addr;
        bool in;
    } cases[] = {
        {"0.0.0.0/0", "8.8.8.8", true},
        {"10.1.0.0/16", "10.1.255.255", true},
        {"10.1.0.0/16", "10.2.0.0", false},
        {"10.0.0.0/9", "10.128.0.0", false},
        {"10.0.0.5", "10.0.0.5", true},
        {"10.0.0.5", "10.0.0.4", false},
        {"::/0", "1.2.3.4", false},
        {"0.0.0.0/0", "::1", false},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_cidr c = cidr(cases[i].block);
        struct sw_policy_request r = from(NULL);

        r.src_ip = ip(cases[i].addr);
        check((struct sw_policy_match){.source_ips = {&c, 1}}, &r, cases[i].in);
    }
}

static void ports(void **state)
{
    const uint16_t some[] = {443, 80};
    const uint16_t other[] = {8080};
    struct sw_policy_request a = from(&alice);

    (void)state;
    check((struct sw_policy_match){.destination_ports = {some, 2}}, &a, true);
    check((struct sw_policy_match){.destination_ports = {other, 1}}, &a, false);
    check((struct sw_policy_match){.not_destination_ports = {some, 2}}, &a, false);
    check((struct sw_policy_match){.not_destination_ports = {other, 1}}, &a, true);
}

static void string_kinds(void **state)
{
    static const struct {
        enum sw_strmatch_kind kind;
        struct sw_slice text;
        bool wanted;
    } cases[] = {
        {SW_STRMATCH_EXACT, S("ns1"), true},    {SW_STRMATCH_EXACT, S("ns"), false},
        {SW_STRMATCH_PREFIX, S("ns"), true},    {SW_STRMATCH_PREFIX, S("s"), false},
        {SW_STRMATCH_PREFIX, S(""), true},      {SW_STRMATCH_PREFIX, S("ns12"), false},
        {SW_STRMATCH_SUFFIX, S("1"), true},     {SW_STRMATCH_SUFFIX, S("ns1"), true},
        {SW_STRMATCH_SUFFIX, S("xns1"), false}, {SW_STRMATCH_PRESENCE, S(""), true},
    };
    struct sw_policy_request a = from(&alice);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_strmatch one = {cases[i].kind, cases[i].text};

        check((struct sw_policy_match){.namespaces = {&one, 1}}, &a, cases[i].wanted);
    }
}

static void attributes_are_anded(void **state)
{
    const uint16_t port[] = {80};
    const uint16_t other[] = {81};
    struct sw_policy_match m = {.namespaces =
                                    LIST(struct sw_strmatch, {SW_STRMATCH_EXACT, S("ns1")}),
                                .destination_ports = {port, 1}};
    struct sw_policy_request a = from(&alice);
    struct sw_policy_request b = from(&bob);

    (void)state;
    check(m, &a, true);
    check(m, &b, false);
    m.destination_ports.p = other;
    check(m, &a, false);
    /* Positive and negative list of one attribute: both must hold. */
    m.destination_ports.p = port;
    m.not_destination_ports = (struct sw_port_list){port, 1};
    check(m, &a, false);
}

static void empty_levels(void **state)
{
    const struct sw_policy_match empty_match = {0};
    const struct sw_policy_clause no_matches = {NULL, 0};
    const struct sw_policy_clause only_empty = {&empty_match, 1};
    const struct sw_policy_rule no_clauses = {NULL, 0};
    const struct sw_policy_rule true_clause = {&no_matches, 1};
    const struct sw_policy_rule false_clause = {&only_empty, 1};
    struct sw_policy p = {.name = S("p")};
    struct sw_policy_request a = from(&alice);

    (void)state;
    assert_false(sw_policy_matches(&p, &a)); /* no rules: never */
    p.n = 1;
    p.rules = &no_clauses;
    assert_true(sw_policy_matches(&p, &a));
    p.rules = &true_clause;
    assert_true(sw_policy_matches(&p, &a));
    p.rules = &false_clause;
    assert_false(sw_policy_matches(&p, &a)); /* a match without lists is skipped */
}

static void nesting(void **state)
{
    const uint16_t p80[] = {80};
    const uint16_t p81[] = {81};
    const struct sw_policy_match is80 = {.destination_ports = {p80, 1}};
    const struct sw_policy_match is81 = {.destination_ports = {p81, 1}};
    const struct sw_policy_match either[] = {is81, is80};
    const struct sw_policy_clause or_clause = {either, 2};
    const struct sw_policy_clause c80 = {&is80, 1};
    const struct sw_policy_clause c81 = {&is81, 1};
    const struct sw_policy_clause both[] = {c80, c81};
    const struct sw_policy_clause good[] = {c80, or_clause};
    const struct sw_policy_rule rules[] = {{both, 2}, {good, 2}};
    struct sw_policy p = {.name = S("p"), .rules = rules, .n = 1};
    struct sw_policy_request a = from(&alice);

    (void)state;
    assert_false(sw_policy_matches(&p, &a)); /* clauses are ANDed */
    p.n = 2;
    assert_true(sw_policy_matches(&p, &a)); /* rules are ORed, matches too */
}

static void unknown_conditions_fail_closed(void **state)
{
    const uint16_t p80[] = {80};
    const struct sw_policy_match bare = {.unknown = true};
    const struct sw_policy_match more = {.unknown = true, .destination_ports = {p80, 1}};
    const struct sw_policy_clause clauses[] = {{&bare, 1}, {&more, 1}};
    const struct sw_policy_rule rules[] = {{&clauses[0], 1}, {&clauses[1], 1}};
    struct sw_policy_request a = from(&alice);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sw_policy p = {.name = S("p"), .rules = &rules[i], .n = 1};

        p.action = SW_POLICY_ALLOW;
        assert_false(sw_policy_matches(&p, &a));
        p.action = SW_POLICY_DENY;
        assert_true(sw_policy_matches(&p, &a));
        a.dst_port = 81;
        assert_int_equal(sw_policy_matches(&p, &a), i == 0);
        a.dst_port = 80;
    }
}

/* ---- decisions ---- */

struct rig {
    struct sw_arena a;
    const struct sw_policy *list[16];
    size_t n;
};

/* A policy on the caller's namespace. */
static void add(struct rig *r, const char *name, enum sw_policy_action action, const char *ns,
                bool dry_run)
{
    const struct sw_strmatch m = {SW_STRMATCH_EXACT, sw_slice_str(ns)};
    const struct sw_policy_match match = {.namespaces = {&m, 1}};
    const struct sw_policy_clause clause = {&match, 1};
    const struct sw_policy_rule rule = {&clause, 1};
    const struct sw_policy p = {.name = sw_slice_str(name),
                                .ns = S("dst"),
                                .action = action,
                                .dry_run = dry_run,
                                .rules = &rule,
                                .n = ns[0] ? 1 : 0};
    struct sw_policy *copy;

    assert_int_equal(sw_policy_copy(&r->a, &p, &copy, NULL), SW_OK);
    r->list[r->n++] = copy;
}

static struct sw_policy_verdict decide(struct rig *r, const struct sw_spiffe *id)
{
    struct sw_policy_set set = {.part = {NULL, sw_policy_list_new(&r->a, r->list, r->n), NULL}};
    struct sw_policy_request req = from(id);
    struct sw_policy_verdict v;
    bool allowed = sw_policy_decide(&set, &req, &v);

    assert_int_equal(allowed, v.allowed);
    return v;
}

static void no_policy_allows(void **state)
{
    struct sw_policy_set none = {0};
    struct sw_policy_request req = from(NULL);
    struct sw_policy_verdict v;

    (void)state;
    assert_true(sw_policy_decide(&none, &req, &v));
    assert_null(v.by);
    assert_string_equal(v.text, "");
    assert_int_equal(v.n_dry, 0);
    assert_true(v.dry_allowed);
}

static void deny_comes_first(void **state)
{
    struct rig r = {0};
    struct sw_policy_verdict v;

    (void)state;
    add(&r, "open", SW_POLICY_ALLOW, "ns1", false);
    add(&r, "shut", SW_POLICY_DENY, "ns1", false);
    v = decide(&r, &alice);
    assert_false(v.allowed);
    assert_string_equal(v.text, "explicitly denied by: dst/shut");
    assert_true(sw_slice_eq_str(v.by->key, "dst/shut"));
    sw_arena_clear(&r.a);
}

static void deny_that_does_not_match_allows(void **state)
{
    struct rig r = {0};

    (void)state;
    add(&r, "shut", SW_POLICY_DENY, "ns1", false);
    assert_true(decide(&r, &bob).allowed);
    assert_true(decide(&r, NULL).allowed);
    sw_arena_clear(&r.a);
}

static void allow_needs_a_match(void **state)
{
    struct rig r = {0};
    struct sw_policy_verdict v;

    (void)state;
    add(&r, "open", SW_POLICY_ALLOW, "ns1", false);
    v = decide(&r, &alice);
    assert_true(v.allowed);
    assert_true(sw_slice_eq_str(v.by->key, "dst/open"));
    v = decide(&r, &bob);
    assert_false(v.allowed);
    assert_string_equal(v.text, "allow policies exist, but none allowed");
    assert_null(v.by);
    add(&r, "open2", SW_POLICY_ALLOW, "ns2", false);
    assert_true(decide(&r, &bob).allowed);
    sw_arena_clear(&r.a);
}

static void empty_allow_denies_everything(void **state)
{
    struct rig r = {0};

    (void)state;
    add(&r, "nothing", SW_POLICY_ALLOW, "", false);
    assert_false(decide(&r, &alice).allowed);
    assert_false(decide(&r, NULL).allowed);
    sw_arena_clear(&r.a);
}

static void missing_key_denies(void **state)
{
    struct sw_policy_set set = {.missing = S("dst/gone")};
    struct sw_policy_request req = from(&alice);
    struct sw_policy_verdict v;

    (void)state;
    assert_false(sw_policy_decide(&set, &req, &v));
    assert_string_equal(v.text, "policy 'dst/gone' is not known");
}

static void dry_run_only_reports(void **state)
{
    struct rig r = {0};
    struct sw_policy_verdict v;

    (void)state;
    add(&r, "trial-deny", SW_POLICY_DENY, "ns1", true);
    v = decide(&r, &alice);
    assert_true(v.allowed);
    assert_false(v.dry_allowed);
    assert_int_equal(v.n_dry, 1);
    assert_true(sw_slice_eq_str(v.dry[0]->key, "dst/trial-deny"));
    v = decide(&r, &bob);
    assert_true(v.allowed && v.dry_allowed);
    assert_int_equal(v.n_dry, 0);
    /* A dry-run ALLOW does not turn the default into deny, but says that it would. */
    r.n = 0;
    add(&r, "trial-allow", SW_POLICY_ALLOW, "ns1", true);
    assert_true(decide(&r, &alice).dry_allowed);
    v = decide(&r, &bob);
    assert_true(v.allowed);
    assert_false(v.dry_allowed);
    sw_arena_clear(&r.a);
}

static void parts_are_one_set(void **state)
{
    struct rig r = {0};
    struct rig other = {0};
    struct sw_policy_set set = {0};
    struct sw_policy_request req = from(&alice);
    struct sw_policy_verdict v;

    (void)state;
    add(&r, "open", SW_POLICY_ALLOW, "ns1", false);
    add(&other, "shut", SW_POLICY_DENY, "ns1", false);
    set.part[0] = sw_policy_list_new(&r.a, r.list, r.n);
    assert_true(sw_policy_decide(&set, &req, &v));
    set.part[2] = sw_policy_list_new(&r.a, other.list, other.n);
    assert_false(sw_policy_decide(&set, &req, &v));
    assert_int_equal(sw_policy_list_count(set.part[2]), 1);
    sw_arena_clear(&r.a);
    sw_arena_clear(&other.a);
}

static void overlong_identity_is_denied(void **state)
{
    static char big[2000];
    const struct sw_spiffe id = {S("td"), sw_slice(big, sizeof(big)), S("x")};
    struct sw_policy_set none = {0};
    struct sw_policy_request req = from(&id);
    struct sw_policy_verdict v;

    (void)state;
    memset(big, 'a', sizeof(big));
    assert_false(sw_policy_decide(&none, &req, &v));
    assert_string_equal(v.text, "the caller's identity is too long");
}

static void bad_policies_are_refused(void **state)
{
    const struct sw_cidr broken = {.ip = {.family = 4}, .len = 33};
    const struct sw_policy_match match = {.not_source_ips = {&broken, 1}};
    const struct sw_policy_clause clause = {&match, 1};
    const struct sw_policy_rule rule = {&clause, 1};
    struct sw_policy p = {.ns = S("n")};
    SW_ARENA_AUTO a = {0};
    struct sw_policy *copy;
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_policy_copy(&a, &p, &copy, &err), SW_EINVAL);
    p.name = S("p");
    p.scope = (enum sw_policy_scope)9;
    assert_int_equal(sw_policy_copy(&a, &p, &copy, &err), SW_EINVAL);
    p.scope = SW_POLICY_GLOBAL;
    p.action = (enum sw_policy_action)2;
    assert_int_equal(sw_policy_copy(&a, &p, &copy, &err), SW_EINVAL);
    p.action = SW_POLICY_DENY;
    p.rules = &rule;
    p.n = 1;
    assert_int_equal(sw_policy_copy(&a, &p, &copy, &err), SW_EINVAL);
    assert_string_equal(err.msg, "prefix length 33 is too long");
}

static void caller_is_compares_whole_names(void **state)
{
    (void)state;
    assert_true(sw_policy_caller_is(&alice, S("spiffe://td/ns/ns1/sa/alice")));
    assert_false(sw_policy_caller_is(&alice, S("spiffe://td/ns/ns1/sa/alice2")));
    assert_false(sw_policy_caller_is(&alice, S("spiffe://td/ns/ns1/sa/alic")));
    assert_false(sw_policy_caller_is(&alice, S("td/ns/ns1/sa/alice")));
    assert_false(sw_policy_caller_is(&alice, S("")));
}

/* ---- the index gives the same answers as looking at everything ---- */

static const char *const words[] = {"ns1", "ns2", "ns3", "alice", "bob", "td", ""};

static struct sw_slice word(void)
{
    return sw_slice_str(words[sw_rand_below(SW_ARRAY_LEN(words))]);
}

static const struct sw_policy_match *random_match(struct sw_arena *a)
{
    struct sw_policy_match *m = SW_ARENA_NEW(a, struct sw_policy_match);
    struct sw_strmatch *s = sw_arena_array(a, 4, sizeof(*s));
    struct sw_sa_match *sa = SW_ARENA_NEW(a, struct sw_sa_match);
    uint16_t *port = SW_ARENA_NEW(a, uint16_t);

    for (int i = 0; i < 4; i++) {
        s[i].kind = sw_rand_below(4) ? SW_STRMATCH_EXACT : (enum sw_strmatch_kind)sw_rand_below(4);
        s[i].text = word();
    }
    s[0].text = sw_slice_str(
        sw_arena_printf(a, "td/ns/%s/sa/%s", words[sw_rand_below(3)], words[3 + sw_rand_below(2)]));
    *sa = (struct sw_sa_match){word(), word()};
    *port = (uint16_t)(80 + sw_rand_below(2));
    if (sw_rand_below(2))
        m->principals = (struct sw_strmatch_list){&s[0], 1};
    if (sw_rand_below(3) == 0)
        m->namespaces = (struct sw_strmatch_list){&s[1], 1 + sw_rand_below(2)};
    if (sw_rand_below(4) == 0)
        m->service_accounts = (struct sw_sa_match_list){sa, 1};
    if (sw_rand_below(4) == 0)
        m->not_namespaces = (struct sw_strmatch_list){&s[3], 1};
    if (sw_rand_below(4) == 0)
        m->destination_ports = (struct sw_port_list){port, 1};
    m->unknown = sw_rand_below(16) == 0;
    return m;
}

static const struct sw_policy *random_policy(struct sw_arena *a, int i)
{
    struct sw_policy_rule *rules = sw_arena_array(a, 3, sizeof(*rules));
    struct sw_policy p = {.name = sw_slice_str(sw_arena_printf(a, "p%d", i)),
                          .ns = S("dst"),
                          .action = (enum sw_policy_action)sw_rand_below(2),
                          .rules = rules,
                          .n = sw_rand_below(3)};
    struct sw_policy *copy;

    for (size_t k = 0; k < p.n; k++) {
        struct sw_policy_clause *c = sw_arena_array(a, 2, sizeof(*c));

        rules[k].clauses = c;
        rules[k].n = sw_rand_below(12) ? 1 + sw_rand_below(2) : 0;
        for (size_t j = 0; j < rules[k].n; j++) {
            c[j].matches = random_match(a);
            c[j].n = sw_rand_below(12) ? 1 : 0;
        }
    }
    assert_int_equal(sw_policy_copy(a, &p, &copy, NULL), SW_OK);
    return copy;
}

static const struct sw_policy *reference(const struct sw_policy *const *list, size_t n,
                                         enum sw_policy_action action,
                                         const struct sw_policy_request *req)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i]->action == action && sw_policy_matches(list[i], req))
            return list[i];
    }
    return NULL;
}

static void index_agrees_with_a_plain_scan(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const struct sw_spiffe id = {S("td"), sw_slice_str(words[sw_rand_below(3)]),
                                     sw_slice_str(words[3 + sw_rand_below(2)])};
        struct sw_policy_request req = from(sw_rand_below(8) ? &id : NULL);
        const struct sw_policy *list[40];
        struct sw_policy_set set = {0};
        struct sw_policy_verdict v;
        SW_ARENA_AUTO a = {0};
        const struct sw_policy *deny;
        const struct sw_policy *allow;

        for (int i = 0; i < 40; i++)
            list[i] = random_policy(&a, i);
        set.part[0] = sw_policy_list_new(&a, list, 40);
        (void)sw_policy_decide(&set, &req, &v);
        deny = reference(list, 40, SW_POLICY_DENY, &req);
        allow = reference(list, 40, SW_POLICY_ALLOW, &req);
        assert_ptr_equal(v.by, deny ? deny : allow);
    }
}

/* Ten thousand policies of ten rules each, every one for another caller. */
static void many_policies_cost_little(void **state)
{
    enum { N = 10000, RULES = 10, ROUNDS = 1000 };
    SW_ARENA_AUTO a = {0};
    const struct sw_policy **list = sw_arena_array(&a, N, sizeof(*list));
    struct sw_policy_set set = {0};
    struct sw_policy_request req = from(&bob);
    struct sw_policy_verdict v;
    struct timespec t0;
    struct timespec t1;
    long ns;

    (void)state;
    for (int i = 0; i < N; i++) {
        struct sw_policy_rule rules[RULES];
        struct sw_policy_clause clauses[RULES];
        struct sw_policy_match matches[RULES] = {0};
        struct sw_strmatch who[RULES];
        struct sw_policy p = {.ns = S("dst"), .rules = rules, .n = RULES};
        struct sw_policy *copy;

        p.name = sw_slice_str(sw_arena_printf(&a, "p%d", i));
        for (int k = 0; k < RULES; k++) {
            who[k].kind = SW_STRMATCH_EXACT;
            who[k].text = sw_slice_str(sw_arena_printf(&a, "td/ns/n%d/sa/s%d", i, k));
            matches[k].principals = (struct sw_strmatch_list){&who[k], 1};
            clauses[k] = (struct sw_policy_clause){&matches[k], 1};
            rules[k] = (struct sw_policy_rule){&clauses[k], 1};
        }
        assert_int_equal(sw_policy_copy(&a, &p, &copy, NULL), SW_OK);
        list[i] = copy;
    }
    set.part[0] = sw_policy_list_new(&a, list, N);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t0);
    for (int i = 0; i < ROUNDS; i++)
        assert_false(sw_policy_decide(&set, &req, &v));
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t1);
    ns = ((t1.tv_sec - t0.tv_sec) * 1000000000L + t1.tv_nsec - t0.tv_nsec) / ROUNDS;
    print_message("# %ld ns per decision over %d policies\n", ns, N);
    assert_true(ns < 100000); /* generous: a plain scan takes milliseconds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces),
        cmocka_unit_test(not_namespaces),
        cmocka_unit_test(principals),
        cmocka_unit_test(not_principals),
        cmocka_unit_test(plaintext_matches_no_kind_of_principal),
        cmocka_unit_test(service_accounts),
        cmocka_unit_test(addresses),
        cmocka_unit_test(cidr_ranges),
        cmocka_unit_test(ports),
        cmocka_unit_test(string_kinds),
        cmocka_unit_test(attributes_are_anded),
        cmocka_unit_test(empty_levels),
        cmocka_unit_test(nesting),
        cmocka_unit_test(unknown_conditions_fail_closed),
        cmocka_unit_test(no_policy_allows),
        cmocka_unit_test(deny_comes_first),
        cmocka_unit_test(deny_that_does_not_match_allows),
        cmocka_unit_test(allow_needs_a_match),
        cmocka_unit_test(empty_allow_denies_everything),
        cmocka_unit_test(missing_key_denies),
        cmocka_unit_test(dry_run_only_reports),
        cmocka_unit_test(parts_are_one_set),
        cmocka_unit_test(overlong_identity_is_denied),
        cmocka_unit_test(bad_policies_are_refused),
        cmocka_unit_test(caller_is_compares_whole_names),
        cmocka_unit_test(index_agrees_with_a_plain_scan),
        cmocka_unit_test(many_policies_cost_little),
    };

    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
