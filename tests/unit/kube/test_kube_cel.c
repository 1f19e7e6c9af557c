/* SPDX-License-Identifier: Apache-2.0 */
/* The expression language: results, errors, types, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/cel/cel.h"
#include "kube/crd/schema.h"

static const char schema_text[] =
    "{type: object, properties: {i: {type: integer}, j: {type: integer}, d: {type: number}, s: "
    "{type: string}, b: {type: boolean}, t: {type: string, format: date-time}, dur: {type: string, "
    "format: duration}, l: {type: array, items: {type: integer}}, ss: {type: array, items: {type: "
    "string}}, set: {type: array, x-kubernetes-list-type: set, items: {type: string}}, m: {type: "
    "object, additionalProperties: {type: integer}}, o: {type: object, properties: {x: {type: "
    "integer}, namespace: {type: string}, a-b: {type: string}, c.d: {type: string}, e__f: {type: "
    "string}}}, objs: {type: array, items: {type: object, properties: {k: {type: string}, v: "
    "{type: "
    "integer}}}}, ios: {x-kubernetes-int-or-string: true}, n: {type: string, nullable: true}}}";

static const char self_text[] =
    "{apiVersion: a/v1, kind: K, metadata: {name: nm}, i: 7, j: -3, d: 2.5, s: héllo, b: true, t: "
    "'2020-02-03T04:05:06Z', dur: 1h30m, l: [3, 1, 2], ss: [a, b], set: [x, y], m: {one: 1, two: "
    "2}, o: {x: 1, namespace: ns, a-b: dash, c.d: dot, e__f: us}, objs: [{k: p, v: 1}, {k: q, v: "
    "2}], ios: 50%, n: null}";

static struct sw_arena arena;
static struct sw_schema_set set;
static struct sw_json *self;

static int setup(void **state)
{
    struct sw_field_errs e;

    sw_field_errs_init(&e, &arena);
    assert_int_equal(sw_schema_compile(&set, t_yaml(&arena, schema_text), NULL, &e), SW_OK);
    self = t_yaml(&arena, self_text);
    return 0;
}

static int teardown(void **state)
{
    sw_schema_set_done(&set);
    sw_arena_clear(&arena);
    return 0;
}

/* "true", "false", an error's text, or the compiler's message up to the end of its first line. */
static const char *run(struct sw_arena *a, const char *expr, unsigned flags,
                       const struct sw_json *old, uint64_t limit)
{
    struct sw_cel *c = NULL;
    const char *why = NULL;
    struct sw_cel_result r;
    const char *out;

    if (sw_cel_compile(a, sw_slice_str(expr), set.root, SW_CEL_RESOURCE | flags, &c, &why) < 0) {
        struct sw_slice rest = sw_slice_str(why);

        return sw_arena_dup(a, sw_slice_cut(&rest, '\n'));
    }
    r = sw_cel_eval(c, a, self, old, limit, NULL);
    out = r.outcome == SW_CEL_TRUE    ? "true"
          : r.outcome == SW_CEL_FALSE ? "false"
                                      : sw_arena_dup(a, r.text);
    sw_cel_free(c);
    return out;
}

static void expressions_that_hold(void **state)
{
    static const char *const exprs[] = {
        "self.i == 7 && self.i + self.j == 4",
        "self.i / 2 == 3 && self.j % 2 == -1 && -self.j == 3",
        "self.d > 2 && self.d < 3.0 && self.d == 2.5",
        "self.i > self.d",
        "size(self.s) == 5 && self.s.size() == 5",
        "self.s.startsWith('hé') && self.s.endsWith('lo') && self.s.contains('éll')",
        "self.s.matches('^h.l+o$') && !self.s.matches('^x')",
        "self.s.substring(1, 2) == 'é' && self.s.charAt(4) == 'o' && self.s.indexOf('l') == 2",
        "'a,b,,c'.split(',') == ['a', 'b', '', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "['a', 'b'].join('-') == 'a-b' && self.ss.join() == 'ab'",
        "'AbC'.lowerAscii() == 'abc' && 'AbC'.upperAscii() == 'ABC' && ' x '.trim() == 'x'",
        "'aXbX'.replace('X', '--') == 'a--b--' && 'aXbX'.replace('X', '', 1) == 'abX'",
        "'abcabc'.lastIndexOf('bc') == 4 && 'abc'.find('b.') == 'bc'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 1)",
        "self.l.filter(x, x > 1).size() == 2 && self.l.map(x, x * 2) == [6, 2, 4]",
        "self.l.map(x, x > 1, x + 1) == [4, 3] && self.l.max() == 3 && self.l.sum() == 6",
        "!self.l.isSorted() && [1, 2, 2].isSorted() && self.l.indexOf(2) == 2",
        "self.l[0] == 3 && 2 in self.l && !(9 in self.l)",
        "self.m.all(k, size(k) == 3) && 'one' in self.m && self.m['two'] == 2 && self.m.one == 1",
        "self.objs.all(a, self.objs.exists_one(b, a.k == b.k))",
        "has(self.o) && has(self.o.x) && !has(self.objs[0].k) == false",
        "self.o.__namespace__ == 'ns' && self.o.a__dash__b == 'dash' && self.o.c__dot__d == 'dot'",
        "self.o.e__underscores__f == 'us'",
        "self.metadata.name == 'nm' && self.kind == 'K' && has(self.apiVersion)",
        "duration('90s') == duration('1m30s') && duration('1.5h') > duration('1h')",
        "self.dur == duration('90m') && self.dur.getMinutes() == 90",
        "self.t == timestamp('2020-02-03T04:05:06Z') && self.t.getFullYear() == 2020",
        "self.t.getMonth() == 1 && self.t.getDayOfWeek() == 1 && self.t.getHours() == 4",
        "self.t + duration('1h') > self.t && self.t - self.t == duration('0s')",
        "timestamp('2020-01-01T02:00:00+02:00') == timestamp('2020-01-01T00:00:00Z')",
        "string(self.i) == '7' && int('12') == 12 && double('1.5') == 1.5 && bool('true')",
        "string(2.5) == '2.5' && int(2.9) == 2 && uint(3) == 3u && string(true) == 'true'",
        "type(self.i) == int && type(self.s) == string && type([]) == list",
        "r'\\d' == '\\\\d' && r\"\"\"a\"b\"\"\" == 'a\"b' && '\\u00e9' == 'é' && b'a' == "
        "bytes('a')",
        "(self.i > 5 ? 'big' : 'small') == 'big'",
        "{'a': 1, 'b': 2}['b'] == 2 && {'a': 1}.size() == 1",
        "[1, 2] + [3] == [1, 2, 3] && 'a' + 'b' == 'ab'",
        "self.set == ['y', 'x'] && self.ss != ['b', 'a']",
        "sets.contains([1, 2, 3], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1], "
        "[1])",
        "isIP('10.0.0.1') && isIP('::1') && !isIP('x') && isCIDR('10.0.0.0/8') && "
        "isQuantity('1Gi')",
        "type(self.ios) == string && self.ios == '50%'",
        "true || self.l[9] == 1",
        "self.l[9] == 1 || true",
        "!(false && 1 / 0 == 1) && !(1 / 0 == 1 && false)",
        "self.?o.?x.orValue(0) == 1 && self.m[?'none'].orValue(5) == 5",
        "optional.of(1).hasValue() && !optional.none().hasValue() && optional.of(2).value() == 2",
        "self.?o.optMap(v, v.x + 1).orValue(0) == 2",
        "!format.dns1123Label().validate('Bad').hasValue() == false",
        "format.dns1123Label().validate('ok') == null",
        "// a comment\nself.i == 7",
        "0x10 == 16 && 1e2 == 100.0 && -9223372036854775808 < 0",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(exprs); i++) {
        SW_ARENA_AUTO a = {0};
        const char *got = run(&a, exprs[i], 0, NULL, SW_CEL_RULE_COST);

        if (strcmp(got, "true") != 0)
            print_message("# %s\n", exprs[i]);
        assert_string_equal(got, "true");
    }
}

static void errors_while_evaluating(void **state)
{
    static const struct {
        const char *expr;
        const char *text;
    } cases[] = {
        {"self.l[9] == 1", "index out of bounds: 9"},
        {"self.m['none'] == 1", "no such key: none"},
        {"self.m.none == 1", "no such key: none"},
        {"1 / (self.i - 7) == 1", "division by zero"},
        {"1 % (self.i - 7) == 1", "modulus by zero"},
        {"9223372036854775807 + self.i > 0", "integer overflow"},
        {"int('' + 'x') == 1", "type conversion error from 'string' to 'int'"},
        {"duration('5 ' + 'seconds') == duration('5s')", "time: invalid duration \"5 seconds\""},
        {"self.ios + 1 == 2", "no such overload"},
        {"self.s.substring(9) == ''", "index out of range: 9"},
        {"self.l.exists_one(x, 1 / (x - 1) == 1)", "division by zero"},
        {"optional.none().value() == 1", "optional.none() dereference"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(run(&a, cases[i].expr, 0, NULL, SW_CEL_RULE_COST), cases[i].text);
    }
}

/* Libraries that CRDs use: each expression is true. */
static void libraries(void **state)
{
    static const char *const cases[] = {
        /* URLs */
        "isURL('https://a.example:8443/x%20y?q=1&q=2&r#f')",
        "isURL('/absolute/path')",
        "!isURL('relative') && !isURL('') && !isURL('http://a b') && !isURL('https://a:b/')",
        "url('https://a.example:8443/x').getScheme() == 'https'",
        "url('HTTPS://a.example/').getScheme() in ['http', 'https']",
        "url('https://a.example:8443/x').getHost() == 'a.example:8443'",
        "url('https://a.example:8443/x').getHostname() == 'a.example'",
        "url('https://[::1]:80/x').getHostname() == '::1'",
        "url('https://[::1]:80/x').getPort() == '80'",
        "url('https://a.example').getPort() == ''",
        "url('https://a.example/x%20y?z').getEscapedPath() == '/x%20y'",
        "url('https://a/?q=1&q=2').getQuery()['q'] == ['1', '2']",
        "url('https://a/') == url('https://a/')",
        /* addresses */
        "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6",
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback()",
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('2001:DB8::1')",
        "ip('2001:db8::1') == ip('2001:DB8::1')",
        "string(ip('2001:DB8::1')) == '2001:db8::1'",
        /* prefixes */
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "!cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "!cidr('10.0.0.0/8').containsIP('::1')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.1.2.3/8').prefixLength() == 8 && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
        "string(cidr('::1/128')) == '::1/128' && isCIDR('::/0') && !isCIDR('10.0.0.0')",
        /* quantities */
        "isQuantity('1.5Gi') && isQuantity('500m') && isQuantity('1e3') && isQuantity('-2')",
        "!isQuantity('') && !isQuantity('1.5.5') && !isQuantity('10Mo') && !isQuantity('k')",
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "quantity('1k').isLessThan(quantity('1Ki'))",
        "quantity('1000m').compareTo(quantity('1')) == 0 && quantity('1000m') == quantity('1')",
        "quantity('2k').asInteger() == 2000 && sign(quantity('-3')) == -1",
        "quantity('500m').asApproximateFloat() == 0.5 && !quantity('500m').isInteger()",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50k').sub(20) == quantity('49980') && quantity('1').add(1) == quantity('2')",
        "type(quantity('1')) != string",
        /* format() */
        "'%s is %d'.format(['x', 5]) == 'x is 5'",
        "'%.2f %e'.format([1.5, 1.5]) == '1.50 1.500000e+00'",
        "'%x %X %o %b %b'.format([255, 255, 8, 5, true]) == 'ff FF 10 101 1'",
        "'%x'.format(['abc']) == '616263'",
        "'100%% of %s'.format([[1, 2]]) == '100% of [1, 2]'",
        "'%s %s'.format([true, null]) == 'true null'",
        "'%s'.format([duration('1h')]) == '3600s'",
        /* named formats */
        "!format.named('nope').hasValue() && format.named('uuid').hasValue()",
        "!format.dns1123LabelPrefix().validate('abc-').hasValue()",
        "format.dns1123Label().validate('abc-').hasValue()",
        "!format.uri().validate('https://a.example').hasValue()",
        /* optionals */
        "self.?i.hasValue() && self.?i.value() == 7",
        "self.?i.optMap(v, v + 1).orValue(0) == 8",
        "optional.of(3).optFlatMap(v, optional.of(v + 1)).value() == 4",
        "optional.none().or(optional.of(1)).value() == 1",
        "!optional.ofNonZeroValue('').hasValue()",
        /* two variables */
        "[1, 2, 3].all(i, v, v == i + 1)",
        "{'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2)",
        "[5, 6].existsOne(i, v, i == 1)",
        "[1, 2, 3].transformList(i, v, i % 2 == 0, v * 10) == [10, 30]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, k) == {'b': 'b'}",
        "[[1], [2]].all(i, x, x.all(y, y == i + 1))",
        /* lists and sets */
        "[3, 1, 2].max() == 3 && [3, 1, 2].min() == 1 && [1, 2].sum() == 3",
        "[1, 2, 2].isSorted() && [1, 2, 1].lastIndexOf(1) == 2 && ['a'].indexOf('b') == -1",
        "sets.contains([1, 2, 3], [3, 1]) && sets.intersects([1], [1, 2])",
        "sets.equivalent([1, 2], [2, 1, 1])",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.replace('b', 'x') == 'axc' && 'abc'.substring(1) == 'bc'",
        "'abc'.find('[b-c]+') == 'bc' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        const char *got = run(&a, cases[i], 0, NULL, SW_CEL_RULE_COST);

        if (strcmp(got, "true") != 0)
            fail_msg("%s: %s", cases[i], got);
    }
}

/* What the libraries answer to values they do not take. */
static void library_errors(void **state)
{
    static const struct {
        const char *expr;
        const char *text;
    } cases[] = {
        {"url('x').getHost() == ''", "URL parse error during conversion from string: parse \"x\": "
                                     "invalid URI for request"},
        {"ip('x').family() == 4", "IP Address \"x\" parse error during conversion from string: "
                                  "ParseAddr(\"x\"): unable to parse IP"},
        {"sign(quantity('x')) == 0", "quantities must match the regular expression "
                                     "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
        {"quantity('500m').asInteger() == 0", "cannot convert value to integer"},
        {"('' + '%d').format(['x']) == ''",
         "error during formatting: decimal clause can only be used on "
         "integers, was given string"},
        {"('' + '%f').format(['x']) == ''",
         "error during formatting: fixed-point clause can only be used "
         "on doubles, was given string"},
        {"('' + '%e').format([true]) == ''",
         "error during formatting: scientific clause can only be used on doubles, was given bool"},
        {"('' + '%b').format(['x']) == ''",
         "error during formatting: only integers and bools can be "
         "formatted as binary, was given string"},
        {"('' + '%o').format([1.5]) == ''",
         "error during formatting: octal clause can only be used on integers, was given double"},
        {"('' + '%X').format([true]) == ''",
         "error during formatting: only integers, byte buffers, and "
         "strings can be formatted as hex, was given bool"},
        {"('' + '%y').format([1]) == ''",
         "error during formatting: could not parse formatting clause: "
         "unrecognized formatting clause \"y\""},
        {"('' + '%s').format([]) == ''", "index 0 out of range"},
        {"optional.none().value() == 1", "optional.none() dereference"},
        {"[1].transformList(i, v, 1 / 0 == 1, v) == []", "division by zero"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(run(&a, cases[i].expr, 0, NULL, SW_CEL_RULE_COST), cases[i].text);
    }
}

static void errors_of_the_compiler(void **state)
{
    static const struct {
        const char *expr;
        const char *text;
    } cases[] = {
        {"self.nope", "ERROR: <input>:1:5: undefined field 'nope'"},
        {"nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')"},
        {"self.i + self.s == 1",
         "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, string)'"},
        {"self.i == 'x'",
         "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'"},
        {"self.s.nofn()", "ERROR: <input>:1:12: undeclared reference to 'nofn' (in container '')"},
        {"self.i.startsWith('x')", "ERROR: <input>:1:18: found no matching overload for "
                                   "'startsWith' applied to 'int.(string)'"},
        {"self.i", "cel expression must evaluate to a bool"},
        {"self.i.all(x, true)", "ERROR: <input>:1:5: expression of type 'int' cannot be range of a "
                                "comprehension (must be list, map, or dynamic)"},
        {"self.o.in == ''",
         "ERROR: <input>:1:8: Syntax error: no viable alternative at input '.in'"},
        {"has(self)", "ERROR: <input>:1:5: invalid argument to has() macro"},
        {"self.i ==", "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting "
                      "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
                      "NUM_UINT, STRING, BYTES, IDENTIFIER}"},
        {"self.i && true", "ERROR: <input>:1:5: expected type 'bool' but found 'int'"},
        {"!self.i", "ERROR: <input>:1:1: found no matching overload for '!_' applied to '(int)'"},
        {"self.i ? true : 1", "ERROR: <input>:1:8: found no matching overload for '_?_:_' applied "
                              "to '(int, bool, int)'"},
        {"(true", "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>' expecting ')'"},
        {"'abc", "ERROR: <input>:1:1: Syntax error: unterminated string"},
        {"true\n&& self.zz", "ERROR: <input>:2:8: undefined field 'zz'"},
        {"self.s.matches('(')", "ERROR: <input>:1:16: invalid matches argument: error parsing "
                                "regexp: missing closing ): `(`"},
        {"quantity(1)", "ERROR: <input>:1:9: found no matching overload for 'quantity' applied to "
                        "'(int)'"},
        {"self.metadata.labels == 1", "ERROR: <input>:1:14: undefined field 'labels'"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(run(&a, cases[i].expr, 0, NULL, SW_CEL_RULE_COST), cases[i].text);
    }
}

static void old_values(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old = t_yaml(&a, "{i: 6}");

    assert_string_equal(run(&a, "self.i > oldSelf.i", 0, old, 1000), "true");
    assert_string_equal(run(&a, "self.i > oldSelf.?i.orValue(0)", SW_CEL_OPTIONAL_OLD, old, 1000),
                        "true");
    assert_string_equal(run(&a, "!oldSelf.hasValue()", SW_CEL_OPTIONAL_OLD, NULL, 1000), "true");
    assert_string_equal(run(&a, "'now ' + string(self.i)", SW_CEL_WANT_STRING, NULL, 1000),
                        "now 7");
}

static void cost_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};

    assert_string_equal(
        run(&a, "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, true))))", 0, NULL, 50),
        "operation cancelled: actual cost limit exceeded");
    assert_non_null(strstr(run(&a,
                               "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
                               "(((((((((((((((((((("
                               "(((((((((((((((((true)",
                               0, NULL, 50),
                           "nested too deeply"));
}

static enum sw_cel_outcome outcome(const char *expr, struct sw_budget *b)
{
    const char *why = NULL;
    struct sw_cel *c = NULL;
    enum sw_cel_outcome o;

    assert_int_equal(
        sw_cel_compile(&arena, sw_slice_str(expr), set.root, SW_CEL_RESOURCE, &c, &why), SW_OK);
    o = sw_cel_eval(c, &arena, self, NULL, SW_CEL_RULE_COST, b).outcome;
    sw_cel_free(c);
    return o;
}

/* Beside the cost, which is Kubernetes', regular expressions pay for what they take. */
static void expressions_of_values_pay_for_their_work(void **state)
{
    static const char small[] = "self.ss.all(x, x.matches('^' + x + '$'))";
    static const char each[] = "self.ss.all(x, !x.matches('(?:x(|)(|)){900}' + x))";
    static const char broken[] = "self.ss.all(x, x.matches('(' + x) || true)";
    struct sw_budget b = {.steps = 10000};

    (void)state;
    assert_int_equal(outcome(each, &b), SW_CEL_COST);
    assert_true(b.spent);
    b = (struct sw_budget){.steps = 10000};
    assert_int_equal(outcome(broken, &b), SW_CEL_COST);
    b = (struct sw_budget){.steps = 10000};
    assert_int_equal(outcome(small, &b), SW_CEL_TRUE);
    b = (struct sw_budget){.steps = 10000000};
    assert_int_equal(outcome(each, &b), SW_CEL_TRUE);
    assert_int_equal(outcome(broken, &b), SW_CEL_TRUE);
    sw_budget_cancel(&b);
    assert_int_equal(outcome("self.l.all(x, x < 10) || true", &b), SW_CEL_COST);
}

static void messages_and_reasons(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_schema_set s = {0};
    struct sw_field_errs e;
    static const char text[] =
        "{type: object, x-kubernetes-validations: [{rule: 'self.a < 5', messageExpression: '\"a is "
        "%d\".format([self.a])', reason: FieldValueForbidden, fieldPath: .a}, {rule: 'self.a < 6', "
        "message: ' too big '}, {rule: 'self.a < 7', reason: FieldValueRequired}], properties: {a: "
        "{type: integer}, m: {type: object, additionalProperties: {type: string, maxLength: 9, "
        "x-kubernetes-validations: [{rule: \"self != 'bad'\", message: no}]}}}}";

    sw_field_errs_init(&e, &a);
    (void)!sw_schema_compile(&s, t_yaml(&a, text), NULL, &e);
    assert_string_equal(t_errs(&a, &e), "");
    assert_string_equal(t_admit(&a, s.root, t_yaml(&a, "{a: 9, m: {k: bad}}"), NULL),
                        "<nil>: Invalid value: \"object\": too big\n<nil>: Required value: failed "
                        "rule: self.a < 7\na: Forbidden: a is 9\nm[k]: Invalid value: \"string\": "
                        "no");
    sw_schema_set_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_that_hold),
        cmocka_unit_test(errors_while_evaluating),
        cmocka_unit_test(libraries),
        cmocka_unit_test(library_errors),
        cmocka_unit_test(errors_of_the_compiler),
        cmocka_unit_test(old_values),
        cmocka_unit_test(cost_is_bounded),
        cmocka_unit_test(expressions_of_values_pay_for_their_work),
        cmocka_unit_test(messages_and_reasons),
    };

    return cmocka_run_group_tests_name("kube_cel", tests, setup, teardown);
}
