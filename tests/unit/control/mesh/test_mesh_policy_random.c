/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random policies: an index that lived through changes equals one filled from nothing, reports
 * every workload whose keys changed, and decides what the objects say.
 */
#include "policy_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define AP SW_MESH_AUTHORIZATION_POLICY
#define PA SW_MESH_PEER_AUTHENTICATION

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(seed >> 33) % n;
}

#define PICK(a) ((a)[below(SW_ARRAY_LEN(a))])

static const char *const spaces[] = {"istio-system", "shop", "bank"};
static const char *const label_sets[] = {"",       "app=a",        "app=b",
                                         "tier=x", "app=a,tier=x", "app=b,tier=y"};

/* ---- random specs ---- */

static void put(struct sw_buf *b, const char *text)
{
    assert_int_equal(sw_buf_append_str(b, text), SW_OK);
}

static void put_list(struct sw_buf *b, const char *name, const char *const *values, unsigned n)
{
    unsigned len = 1 + below(2);

    put(b, "'");
    put(b, name);
    put(b, "':[");
    for (unsigned i = 0; i < len; i++) {
        put(b, i ? ",'" : "'");
        put(b, values[below(n)]);
        put(b, "'");
    }
    put(b, "],");
}

static const char *const some_spaces[] = {"shop", "bank", "s*", "*k", "*", "none"};
static const char *const some_ids[] = {
    "td/ns/shop/sa/a", "td/ns/bank/sa/b", "td/*", "*/sa/a", "*", "other/ns/shop/sa/a", "t*"};
static const char *const some_domains[] = {"td", "other", "t*", "*", "third"};
static const char *const some_accounts[] = {"a", "b", "bank/b", "shop/a"};
static const char *const some_ips[] = {"10.0.0.0/8", "10.1.2.3", "2001:db8::/32", "0.0.0.0/0"};
static const char *const some_ports[] = {"80", "443", "8080"};

static const struct attribute {
    const char *yes;
    const char *no;
    const char *key; /* of a condition */
    const char *const *values;
    unsigned n;
} attributes[] = {
    {"namespaces", "notNamespaces", "source.namespace", some_spaces, SW_ARRAY_LEN(some_spaces)},
    {"principals", "notPrincipals", "source.principal", some_ids, SW_ARRAY_LEN(some_ids)},
    {"trustDomains", "notTrustDomains", "source.trustDomain", some_domains,
     SW_ARRAY_LEN(some_domains)},
    {"serviceAccounts", "notServiceAccounts", "source.serviceAccount", some_accounts,
     SW_ARRAY_LEN(some_accounts)},
    {"ipBlocks", "notIpBlocks", "source.ip", some_ips, SW_ARRAY_LEN(some_ips)},
    {"ports", "notPorts", "destination.port", some_ports, SW_ARRAY_LEN(some_ports)},
    {NULL, NULL, "destination.ip", some_ips, SW_ARRAY_LEN(some_ips)},
};
enum { SOURCES = 5, PORTS = 5 };

/* Drops a comma at the end. */
static void close_with(struct sw_buf *b, const char *text)
{
    if (b->n && b->p[b->n - 1] == ',')
        b->n--;
    put(b, text);
}

static void put_source(struct sw_buf *b)
{
    put(b, "{'source':{");
    for (unsigned i = 0; i < SOURCES; i++) {
        const struct attribute *at = &attributes[i];

        if (below(3) == 0)
            put_list(b, at->yes, at->values, at->n);
        if (below(5) == 0)
            put_list(b, at->no, at->values, at->n);
    }
    close_with(b, "}},");
}

static void put_rule(struct sw_buf *b)
{
    unsigned n = below(3);

    put(b, "{");
    if (n) {
        put(b, "'from':[");
        while (n--)
            put_source(b);
        close_with(b, "],");
    }
    if (below(2)) {
        put(b, "'to':[{'operation':{");
        put_list(b, below(2) ? "ports" : "notPorts", some_ports, SW_ARRAY_LEN(some_ports));
        close_with(b, "}}],");
    }
    if (below(2)) {
        const struct attribute *at = &PICK(attributes);

        put(b, "'when':[{'key':'");
        put(b, at->key);
        put(b, "',");
        put_list(b, below(3) ? "values" : "notValues", at->values, at->n);
        close_with(b, "}],");
    }
    close_with(b, "},");
}

static void put_selector(struct sw_buf *b)
{
    static const char *const all[] = {
        "",
        "",
        "'selector':{'matchLabels':{'app':'a'}},",
        "'selector':{'matchLabels':{'app':'b','tier':'y'}},",
        "'selector':{'matchLabels':{'tier':'x'}},",
        "'selector':{},",
    };

    put(b, PICK(all));
}

static void put_policy(struct sw_buf *b, bool plain)
{
    static const char *const actions[] = {"ALLOW", "DENY", "DENY", "AUDIT"};
    unsigned n = below(3);

    put(b, "{");
    if (!plain)
        put_selector(b);
    if (!plain && below(8) == 0)
        put(b, "'targetRefs':[{'kind':'Service','name':'x'}],");
    put(b, "'action':'");
    put(b, plain ? actions[below(2)] : PICK(actions));
    put(b, "','rules':[");
    while (n--)
        put_rule(b);
    close_with(b, "]}");
}

static void put_peer(struct sw_buf *b)
{
    static const char *const modes[] = {"", "'mode':'UNSET'", "'mode':'DISABLE'",
                                        "'mode':'PERMISSIVE'", "'mode':'STRICT'"};
    static const char *const ports[] = {"'80':{", "'443':{"};

    put(b, "{");
    put_selector(b);
    put(b, "'mtls':{");
    put(b, PICK(modes));
    put(b, "},'portLevelMtls':{");
    for (unsigned i = 0; i < SW_ARRAY_LEN(ports); i++) {
        if (below(2)) {
            put(b, ports[i]);
            put(b, PICK(modes));
            put(b, "},");
        }
    }
    close_with(b, "}}");
}

/* ---- incremental and whole ---- */

enum { NAMES = 6 };

struct object {
    char *spec; /* owned; NULL: there is none */
    char created[32];
};

struct world {
    struct object all[2][SW_ARRAY_LEN(spaces)][NAMES];
};

static const char *name_of(unsigned i)
{
    static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"};

    return names[i];
}

static void apply(struct rig *r, const struct world *w, unsigned kind, unsigned s, unsigned n)
{
    const struct object *o = &w->all[kind][s][n];

    if (o->spec)
        rig_set_created(r, kind ? PA : AP, spaces[s], name_of(n), o->spec, o->created);
    else
        rig_del(r, kind ? PA : AP, spaces[s], name_of(n));
}

static void change(struct rig *r, struct world *w)
{
    unsigned kind = below(2);
    unsigned s = below(SW_ARRAY_LEN(spaces));
    unsigned n = below(NAMES);
    struct object *o = &w->all[kind][s][n];

    free(o->spec);
    o->spec = NULL;
    if (below(3)) {
        SW_BUF_AUTO b = {.max = 1 << 16};

        if (kind)
            put_peer(&b);
        else
            put_policy(&b, false);
        o->spec = strndup(sw_buf_data(&b), sw_buf_len(&b));
        (void)snprintf(o->created, sizeof(o->created), "2026-01-01T00:00:%02uZ", below(4));
    }
    apply(r, w, kind, s, n);
}

static void fill(struct rig *r, const struct world *w)
{
    unsigned from = below(NAMES);

    for (unsigned i = 0; i < NAMES; i++) {
        for (unsigned s = 0; s < SW_ARRAY_LEN(spaces); s++) {
            for (unsigned kind = 0; kind < 2; kind++)
                apply(r, w, kind, s, (i + from) % NAMES);
        }
    }
}

static void check_equal(struct rig *x, struct rig *y)
{
    assert_int_equal(x->resources.n, y->resources.n);
    SW_MAP_FOREACH (it, &x->resources) {
        const struct resource *a = it->value;
        const struct resource *b = sw_map_get(&y->resources, a->key);

        assert_non_null(b);
        assert_true(sw_slice_eq(a->value, b->value));
    }
}

static bool covers(const struct sw_mesh_policy_scope *s, const char *ns, const char *labels)
{
    SW_ARENA_AUTO a = {0};
    size_t n;
    const struct sw_mesh_label *have = rig_labels(&a, labels, &n);

    if (s->waypoint.n || (s->ns.n && !sw_slice_eq_str(s->ns, ns)))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        size_t k = 0;

        while (k < n && !(sw_slice_eq(have[k].key, s->labels[i].key) &&
                          sw_slice_eq(have[k].value, s->labels[i].value)))
            k++;
        if (k == n)
            return false;
    }
    return true;
}

static bool reported(const struct rig *r, const char *ns, const char *labels)
{
    for (size_t i = 0; i < r->scopes.n; i++) {
        if (covers(&r->scopes.p[i], ns, labels))
            return true;
    }
    return false;
}

enum { WORKLOADS = SW_ARRAY_LEN(spaces) * SW_ARRAY_LEN(label_sets) };

/* What every workload lists; and every key of it has a resource. */
static void look(struct rig *r, struct sw_arena *a, const char *ret[WORKLOADS])
{
    for (size_t i = 0; i < WORKLOADS; i++) {
        const char *ns = spaces[i / SW_ARRAY_LEN(label_sets)];
        const char *keys = rig_keys(r, ns, label_sets[i % SW_ARRAY_LEN(label_sets)]);
        struct sw_slice rest = sw_slice_str(sw_arena_dup(a, sw_slice_str(keys)));

        ret[i] = rest.p;
        while (rest.n)
            assert_non_null(sw_map_get(&r->resources, sw_slice_cut(&rest, ' ')));
    }
}

static void check_reports(struct rig *r, const char *const was[WORKLOADS],
                          const char *const is[WORKLOADS])
{
    for (size_t i = 0; i < WORKLOADS; i++) {
        const char *ns = spaces[i / SW_ARRAY_LEN(label_sets)];
        const char *labels = label_sets[i % SW_ARRAY_LEN(label_sets)];

        if (strcmp(was[i], is[i]) != 0 && !reported(r, ns, labels))
            fail_msg("%s %s: '%s' became '%s' and nobody said so", ns, labels, was[i], is[i]);
    }
}

static void changes_give_what_a_whole_build_gives(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 40; run++) {
        SW_ARENA_AUTO a = {0};
        const char *was[WORKLOADS];
        const char *is[WORKLOADS];
        const char *whole[WORKLOADS];
        struct world *w = calloc(1, sizeof(*w));
        struct rig r;

        seed = run;
        rig_open(&r, NULL);
        look(&r, &a, was);
        for (int step = 0; step < 60; step++) {
            struct rig fresh;

            for (unsigned n = 1 + below(3); n > 0; n--)
                change(&r, w);
            rig_flush(&r);
            look(&r, &a, is);
            check_reports(&r, was, is);
            rig_open(&fresh, NULL);
            fill(&fresh, w);
            rig_flush(&fresh);
            check_equal(&r, &fresh);
            look(&fresh, &a, whole);
            for (size_t i = 0; i < WORKLOADS; i++)
                assert_string_equal(is[i], whole[i]);
            rig_close(&fresh);
            memcpy(was, is, sizeof(was));
            sw_arena_clear(&r.arena);
        }
        for (unsigned i = 0; i < 2 * SW_ARRAY_LEN(spaces) * NAMES; i++)
            free(w->all[i / (SW_ARRAY_LEN(spaces) * NAMES)][i / NAMES % SW_ARRAY_LEN(spaces)]
                       [i % NAMES]
                           .spec);
        free(w);
        rig_close(&r);
    }
}

/* ---- what the objects say ---- */

static bool glob(const char *pattern, const char *text)
{
    size_t p = strlen(pattern);
    size_t n = strlen(text);

    if (strcmp(pattern, "*") == 0)
        return n > 0;
    if (pattern[0] == '*')
        return n >= p - 1 && strcmp(text + n - (p - 1), pattern + 1) == 0;
    if (pattern[p - 1] == '*')
        return strncmp(text, pattern, p - 1) == 0;
    return strcmp(pattern, text) == 0;
}

struct caller {
    const char *td, *ns, *sa; /* NULL: plaintext */
    const char *ip;
    const char *to;
    const char *port;
};

static bool in_block(const char *block, const char *ip)
{
    struct sw_cidr c;
    struct sw_ip x;

    assert_int_equal(sw_cidr_parse(sw_slice_str(block), &c, NULL), SW_OK);
    assert_int_equal(sw_ip_parse(sw_slice_str(ip), &x, NULL), SW_OK);
    return sw_cidr_contains(&c, &x);
}

/* A short string with a NUL behind it; good for the next three calls. */
static const char *text_of(const struct sw_json *v)
{
    static char ring[4][64];
    static unsigned at;
    struct sw_slice s = sw_json_str(v);

    at = (at + 1) % 4;
    assert_true(s.n < sizeof(ring[0]));
    (void)snprintf(ring[at], sizeof(ring[0]), "%.*s", SW_SLICE_ARG(s));
    return ring[at];
}

/* Whether one value of an attribute, named as in conditions, is true of the caller. */
static bool is_true_of(const char *key, const char *value, const struct caller *c)
{
    char text[128];

    if (strcmp(key, "source.ip") == 0)
        return in_block(value, c->ip);
    if (strcmp(key, "destination.ip") == 0)
        return in_block(value, c->to);
    if (strcmp(key, "destination.port") == 0)
        return strcmp(value, c->port) == 0;
    if (!c->td)
        return false;
    if (strcmp(key, "source.namespace") == 0)
        return glob(value, c->ns);
    if (strcmp(key, "source.trustDomain") == 0)
        return glob(value, c->td);
    if (strcmp(key, "source.serviceAccount") == 0) {
        (void)snprintf(text, sizeof(text), "%s/%s", strchr(value, '/') ? c->ns : "shop", c->sa);
        return strchr(value, '/') ? strcmp(value, text) == 0
                                  : strcmp(c->ns, "shop") == 0 && strcmp(value, c->sa) == 0;
    }
    (void)snprintf(text, sizeof(text), "%s/ns/%s/sa/%s", c->td, c->ns, c->sa);
    return glob(value, text);
}

static bool any_true(const struct sw_json *list, const char *key, const struct caller *c)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (is_true_of(key, text_of(sw_json_at(list, i)), c))
            return true;
    }
    return false;
}

/* A positive and a negative list of one attribute. */
static bool lists_hold(const struct sw_json *yes, const struct sw_json *no, const char *key,
                       const struct caller *c)
{
    return (sw_json_len(yes) == 0 || any_true(yes, key, c)) && !any_true(no, key, c);
}

/* An element of 'from' or 'to'. One that says nothing never holds. */
static bool element_holds(const struct sw_json *v, unsigned first, unsigned n,
                          const struct caller *c)
{
    size_t said = 0;

    for (unsigned i = first; i < first + n; i++) {
        const struct sw_json *yes = sw_json_find(v, attributes[i].yes);
        const struct sw_json *no = sw_json_find(v, attributes[i].no);

        said += sw_json_len(yes) + sw_json_len(no);
        if (!lists_hold(yes, no, attributes[i].key, c))
            return false;
    }
    return said > 0;
}

static bool part_holds(const struct sw_json *list, const char *inner, unsigned first, unsigned n,
                       const struct caller *c)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (element_holds(sw_json_find(sw_json_at(list, i), inner), first, n, c))
            return true;
    }
    return sw_json_len(list) == 0;
}

static bool rule_holds(const struct sw_json *rule, const struct caller *c)
{
    const struct sw_json *when = sw_json_find(rule, "when");

    for (size_t i = 0; i < sw_json_len(when); i++) {
        const struct sw_json *w = sw_json_at(when, i);
        char key[64];

        (void)snprintf(key, sizeof(key), "%s", text_of(sw_json_find(w, "key")));
        if (!lists_hold(sw_json_find(w, "values"), sw_json_find(w, "notValues"), key, c))
            return false;
    }
    return part_holds(sw_json_find(rule, "from"), "source", 0, SOURCES, c) &&
           part_holds(sw_json_find(rule, "to"), "operation", PORTS, 1, c);
}

static bool said_allowed(const struct sw_json *spec, const struct caller *c)
{
    const struct sw_json *rules = sw_json_find(spec, "rules");
    bool deny = sw_json_str_eq(sw_json_find(spec, "action"), "DENY");
    bool any = false;

    for (size_t i = 0; i < sw_json_len(rules); i++)
        any = any || rule_holds(sw_json_at(rules, i), c);
    return deny ? !any : any;
}

/* Trust domains beside principals given by their end are the one thing that nodes cannot judge. */
static bool exact(const struct rig *r)
{
    return strstr(r->statuses.p[0], "ZtunnelAccepted=True Accepted") != NULL ||
           strstr(r->statuses.p[0], "without rules has no effect") != NULL;
}

static void decisions_are_what_the_objects_say(void **state)
{
    static const char *const domains[] = {"td", "other", NULL};
    static const char *const accounts[] = {"a", "b"};
    static const char *const ips[] = {"10.1.2.3", "192.0.2.1", "2001:db8::1"};
    size_t inexact = 0;
    size_t allowed = 0;
    size_t total = 0;

    (void)state;
    for (uint64_t run = 1; run <= 3000; run++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO b = {.max = 1 << 16};
        const struct sw_json *spec;
        const char *text;
        struct rig r;

        seed = run;
        put_policy(&b, true);
        text = sw_arena_dup(&a, sw_buf_slice(&b));
        spec = rig_json(&a, text);
        rig_open(&r, NULL);
        rig_set(&r, AP, "shop", "p", text);
        rig_flush(&r);
        inexact += !exact(&r);
        for (int i = 0; i < 16; i++) {
            struct caller c = {.td = PICK(domains),
                               .ns = spaces[1 + below(2)],
                               .sa = PICK(accounts),
                               .ip = PICK(ips),
                               .to = PICK(ips),
                               .port = PICK(some_ports)};
            struct sw_spiffe id = {sw_slice_str(c.td), sw_slice_str(c.ns), sw_slice_str(c.sa)};
            struct sw_policy_request q = {.src = c.td ? &id : NULL,
                                          .dst_port = (uint16_t)strtoul(c.port, NULL, 10)};
            bool is;
            bool said = said_allowed(spec, &c);

            assert_int_equal(sw_ip_parse(sw_slice_str(c.ip), &q.src_ip, NULL), SW_OK);
            assert_int_equal(sw_ip_parse(sw_slice_str(c.to), &q.dst_ip, NULL), SW_OK);
            is = rig_allowed(&r, "shop", "", &q);
            if (exact(&r) ? is != said : is && !said)
                fail_msg("run %llu: %s\n%s\ncaller %s %s %s from %s to %s:%s: %d",
                         (unsigned long long)run, text, rig_text(&r, "shop/p"), c.td ? c.td : "-",
                         c.ns, c.sa, c.ip, c.to, c.port, is);
            allowed += is;
            total++;
        }
        rig_close(&r);
    }
    /* the generator must not be trivial */
    assert_true(inexact < 1000);
    assert_in_range(allowed, total / 10, total - total / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_give_what_a_whole_build_gives),
        cmocka_unit_test(decisions_are_what_the_objects_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
