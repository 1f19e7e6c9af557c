/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that does everything at random: subscribes, unsubscribes, answers late or never,
 * refuses, comes back with what it has. Whenever all is quiet it has what the cache has of all it
 * wants, and nothing that is gone, as far as state of the world can say that. SW_RANDOM_RUNS says
 * how many, SW_RANDOM_SEED which is first. Values begin with the name they belong to.
 *
 * Of one type a client either drops names or has a wildcard that comes and goes: the server does
 * not remember names that were dropped while their answer was on its way.
 */
#include <stdlib.h>

#include "base/log.h"
#include "rig.h"

enum { NAMES = 6, STEPS = 60, TYPES = 6, VALUE_LEN = 8, RUNS = 30 };

static const char *const types[TYPES] = {"CDS", "EDS", "LDS", "RDS", "SDS", "OWN"};

/* What the client knows of one type. */
struct known {
    bool open;      /* something was asked on this stream */
    char nonce[32]; /* state of the world: of what was answered last */
    bool wildcard;
    bool named[NAMES];
    char held[NAMES][VALUE_LEN]; /* empty: nothing */
};

struct model {
    struct world *w;
    struct known k[TYPES];
    uint64_t seed;
    bool drops[TYPES]; /* names; otherwise wildcards */
    char trace[16384];
    size_t n;
};

static unsigned pick(struct model *m, unsigned n)
{
    m->seed = m->seed * 6364136223846793005 + 1442695040888963407;
    return (unsigned)(m->seed >> 33) % n;
}

static void note(struct model *m, const char *what, const char *type, const char *more)
{
    m->n += (size_t)snprintf(m->trace + m->n, sizeof(m->trace) - m->n, "%s %s%s%s; ", what, type,
                             more ? " " : "", more ? more : "");
    m->n = sw_min(m->n, sizeof(m->trace) - 1);
}

static bool wants(const struct known *k, size_t name)
{
    return k->wildcard || k->named[name];
}

static void name_text(size_t i, char out[2])
{
    out[0] = (char)('a' + i);
    out[1] = 0;
}

/* --- what comes --- */

static struct known *known_of(struct model *m, const char *line)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (strncmp(types[i], line, 3) == 0)
            return &m->k[i];
    }
    fail();
    return NULL;
}

/* State of the world: absence deletes. */
static bool is_full(const char *type)
{
    return strncmp(type, "CDS", 3) == 0 || strncmp(type, "LDS", 3) == 0;
}

static void apply(struct model *m, const char *line)
{
    struct known *k = known_of(m, line);
    struct sw_slice rest = sw_slice_str(line + 3);

    note(m, "<", line, NULL);
    if (!m->w->delta && is_full(line))
        memset(k->held, 0, sizeof(k->held));
    (void)sw_slice_cut(&rest, ' ');
    while (rest.p) {
        struct sw_slice word = sw_slice_cut(&rest, ' ');
        size_t name = (size_t)(word.p[1] - 'a');

        assert_true(name < NAMES);
        k->held[name][0] = 0;
        if (word.p[0] == '+' && (!m->w->delta || wants(k, name)))
            (void)snprintf(k->held[name], VALUE_LEN, "%.*s", 2, word.p + word.n - 2);
    }
}

/* All that is wanted of a type, as state of the world repeats it. */
static void list_names(const struct known *k, char *out, size_t cap)
{
    size_t at = 0;

    out[0] = 0;
    if (k->wildcard)
        at += (size_t)snprintf(out, cap, "*");
    for (size_t i = 0; i < NAMES; i++) {
        if (k->named[i])
            at += (size_t)snprintf(out + at, cap - at, "%s%c", at ? " " : "", (char)('a' + i));
    }
}

static void say(struct model *m, const char *type, const char *nack)
{
    struct known *k = known_of(m, type);
    char names[64];

    list_names(k, names, sizeof(names));
    ask(m->w, type, names[0] ? names : NULL, NULL, NULL, k->nonce, nack);
}

static bool take(struct model *m, const char *nack)
{
    struct world *w = m->w;
    char type[4];

    if (!w->n_lines)
        return false;
    apply(m, w->lines[0]);
    if (nack)
        note(m, "nack", "", NULL);
    if (w->delta) {
        answer(w, nack);
        return true;
    }
    (void)snprintf(type, sizeof(type), "%.3s", w->lines[0]);
    (void)snprintf(known_of(m, type)->nonce, sizeof(m->k[0].nonce), "%s", w->nonces[0]);
    pop(w);
    say(m, type, nack);
    return true;
}

/* --- what it does --- */

static void change(struct model *m)
{
    struct sw_xds_txn *t = sw_xds_txn_new();
    unsigned n = 1 + pick(m, 4);

    for (unsigned i = 0; i < n; i++) {
        size_t type = pick(m, TYPES);
        char name[2];
        char value[3];
        bool gone = pick(m, 3) == 0;
        char text[8];

        name_text(pick(m, NAMES), name);
        (void)snprintf(value, sizeof(value), "%s%c", name, (char)('1' + pick(m, 3)));
        (void)snprintf(text, sizeof(text), "%s=%s", name, gone ? "" : value + 1);
        note(m, "commit", types[type], text);
        if (gone)
            assert_int_equal(sw_xds_txn_del(t, url_of(types[type]), sw_slice_str(name), NULL),
                             SW_OK);
        else
            assert_int_equal(sw_xds_txn_set(t, url_of(types[type]), sw_slice_str(name),
                                            sw_slice_str(value), NULL),
                             SW_OK);
    }
    (void)sw_xds_cache_commit(m->w->cache, t);
}

static void add(struct model *m)
{
    size_t type = pick(m, TYPES);
    size_t i = pick(m, NAMES);
    char name[2];

    name_text(i, name);
    note(m, "add", types[type], name);
    m->k[type].named[i] = true;
    m->k[type].open = true;
    if (m->w->delta)
        ask(m->w, types[type], name, NULL, NULL, NULL, NULL);
    else
        say(m, types[type], NULL);
}

/* State of the world keeps it: who asks again before the server heard of it is not answered. */
static void forget(const struct model *m, struct known *k)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (m->w->delta && !wants(k, i))
            k->held[i][0] = 0;
    }
}

static void drop(struct model *m)
{
    size_t type = pick(m, TYPES);
    size_t i = pick(m, NAMES);
    char name[2];

    if (!m->k[type].open || !m->drops[type])
        return; /* the first request must not look like the old form of a wildcard */
    name_text(i, name);
    note(m, "drop", types[type], name);
    m->k[type].named[i] = false;
    forget(m, &m->k[type]);
    if (m->w->delta)
        ask(m->w, types[type], NULL, name, NULL, NULL, NULL);
    else
        say(m, types[type], NULL);
}

static void toggle(struct model *m)
{
    size_t type = pick(m, TYPES);
    struct known *k = &m->k[type];

    if (k->open ? m->drops[type] : k->wildcard)
        return;
    k->wildcard = !k->wildcard;
    k->open = true;
    note(m, k->wildcard ? "add" : "drop", types[type], "*");
    forget(m, k);
    if (m->w->delta)
        ask(m->w, types[type], k->wildcard ? "*" : NULL, k->wildcard ? NULL : "*", NULL, NULL,
            NULL);
    else
        say(m, types[type], NULL);
}

/* A version follows from the content alone. */
static void version_of(const char *value, char out[SW_XDS_VERSION_LEN + 1])
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    const struct sw_xds_snap *s;

    assert_int_equal(sw_xds_txn_set(t, "x", SW_SLICE_LIT("x"), sw_slice_str(value), NULL), SW_OK);
    (void)sw_xds_cache_commit(c, t);
    s = sw_xds_cache_get(c, SW_SLICE_LIT("x"));
    (void)snprintf(out, SW_XDS_VERSION_LEN + 1, "%.*s", SW_SLICE_ARG(s->res[0]->version));
    sw_xds_cache_free(c);
}

static void greet(struct model *m, size_t type)
{
    struct known *k = &m->k[type];
    char names[64];
    char held[512] = "";
    size_t n = 0;

    list_names(k, names, sizeof(names));
    for (size_t i = 0; m->w->delta && i < NAMES; i++) {
        char version[SW_XDS_VERSION_LEN + 1];

        if (!k->held[i][0])
            continue;
        version_of(k->held[i], version);
        n += (size_t)snprintf(held + n, sizeof(held) - n, "%s%c %s", n ? " " : "", (char)('a' + i),
                              version);
    }
    k->nonce[0] = 0;
    k->open = names[0] != 0;
    if (k->open)
        ask(m->w, types[type], names, NULL, n ? held : NULL, NULL, NULL);
}

static void come_back(struct model *m)
{
    note(m, "reconnect", "", NULL);
    connect_to(m->w,
               m->w->delta ? ADS "DeltaAggregatedResources" : ADS "StreamAggregatedResources");
    for (size_t i = 0; i < TYPES; i++)
        greet(m, i);
}

static void step(struct model *m)
{
    switch (pick(m, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        change(m);
        break;
    case 4:
    case 5:
        add(m);
        break;
    case 6:
        drop(m);
        break;
    case 7:
        toggle(m);
        break;
    case 8:
    case 9:
    case 10:
        (void)take(m, NULL);
        break;
    case 11:
        (void)take(m, "no");
        break;
    case 12:
        if (pick(m, 3) == 0)
            come_back(m);
        break;
    case 13:
        if (pick(m, 3) == 0)
            skew += 6 * SW_NS_PER_S;
        break;
    default:
        sw_loop_turn(m->w->loop, 1);
        break;
    }
    sw_loop_turn(m->w->loop, 0);
}

/* --- what must hold --- */

/* All is answered until nothing comes any more, however long removals are put off. */
static void settle(struct model *m)
{
    for (int quiet = 0, waits = 0; waits < 4;) {
        sw_loop_turn(m->w->loop, quiet > 10);
        if (take(m, NULL)) {
            quiet = 0;
            waits = 0;
        } else if (++quiet > 20) {
            note(m, "wait", "", NULL);
            skew += 3 * SW_NS_PER_S;
            quiet = 0;
            waits++;
        }
    }
}

/* False, and what differs, when the client has something else than the cache. */
static bool agrees(const struct model *m, char *ret, size_t cap)
{
    for (size_t i = 0; i < (size_t)TYPES * NAMES; i++) {
        size_t t = i / NAMES;
        const struct known *k = &m->k[t];
        char name[2];
        const struct sw_xds_res *r;
        struct sw_slice value;

        name_text(i % NAMES, name);
        r = sw_xds_snap_get(sw_xds_cache_get(m->w->cache, sw_slice_str(url_of(types[t]))),
                            sw_slice_str(name));
        if (!r && !m->w->delta && !is_full(types[t]))
            continue; /* it has no words for that */
        value = r ? r->value : sw_slice("", 0);
        if (!wants(k, i % NAMES) || sw_slice_eq_str(value, k->held[i % NAMES]))
            continue;
        (void)snprintf(ret, cap, "%s %s is '%.*s' and the client has '%s'", types[t], name,
                       SW_SLICE_ARG(value), k->held[i % NAMES]);
        return false;
    }
    return true;
}

static void compare(struct model *m)
{
    char why[128];

    for (int i = 0; i < 20 && !agrees(m, why, sizeof(why)); i++)
        settle(m); /* a slow machine may not have been quiet, only slow */
    if (agrees(m, why, sizeof(why)))
        return;
    (void)fprintf(stderr, "%s\n", m->trace); /* longer than a message may be */
    fail_msg("%s", why);
}

static void run(unsigned seed, bool delta)
{
    struct model *m = SW_NEW(struct model);
    void *state;

    assert_int_equal(set_up(&state), 0);
    m->w = state;
    m->seed = seed;
    m->n = (size_t)snprintf(m->trace, sizeof(m->trace), "seed %u: ", seed);
    m->w->opts.piece = seed % 2 ? 64 : 0;
    m->w->delta = delta;
    for (size_t i = 0; i < TYPES; i++)
        m->drops[i] = pick(m, 2);
    come_back(m);
    for (int i = 0; i < STEPS; i++) {
        step(m);
        if (m->w->n_lines > 32)
            (void)take(m, NULL);
    }
    settle(m);
    compare(m);
    assert_int_equal(tear_down(&state), 0);
    sw_free(m);
}

static unsigned number_of(const char *name, unsigned other)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : other;
}

static void run_all(bool delta)
{
    unsigned first = number_of("SW_RANDOM_SEED", 1);
    unsigned runs = number_of("SW_RANDOM_RUNS", RUNS);

    for (unsigned i = 0; i < runs; i++)
        run(first + i, delta);
}

static void whatever_a_delta_client_does_it_ends_up_with_the_cache(void **state)
{
    (void)state;
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    run_all(true);
}

static void so_does_one_of_the_state_of_the_world(void **state)
{
    (void)state;
    run_all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_a_delta_client_does_it_ends_up_with_the_cache),
        cmocka_unit_test(so_does_one_of_the_state_of_the_world),
    };

    return cmocka_run_group_tests_name("xds server random", tests, NULL, NULL);
}
