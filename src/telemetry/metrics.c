/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label sets and shards. Only the owner changes its map, so it looks things up without the lock;
 * it takes the lock to change the map, and a scrape takes it to read. Values are copied under
 * that lock, so folding a label set into 'overflow' is seen whole or not at all.
 */
#include "telemetry/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/utf8.h"
#include "telemetry/metrics_int.h"

static const char scope[] = "metrics";

#define INFO(id, mtype, mname, mlabels, mhelp)                                                     \
    [SW_METRIC_##id] = {.type = TYPE_##mtype, .name = mname, .labels = mlabels, .help = mhelp},
const struct metric_info metric_table[SW_METRIC_COUNT] = {SW_METRICS(INFO)};
#undef INFO

#define FLAG_TEXT(id, text) [SW_FLAG_##id] = text,
static const char *const flag_texts[SW_FLAG_COUNT] = {SW_RESPONSE_FLAGS(FLAG_TEXT)};
#undef FLAG_TEXT

static const double dns_bounds[] = {0.0005, 0.001, 0.01, 0.1, 1, 5};
static const double request_bounds[] = {0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10};

const char *sw_response_flag_text(enum sw_response_flag f)
{
    return flag_texts[f];
}

const double *metric_bounds(enum sw_metric_id id, size_t *ret_n)
{
    if (id == SW_METRIC_GW_SECONDS) {
        *ret_n = SW_ARRAY_LEN(request_bounds);
        return request_bounds;
    }
    *ret_n = metric_table[id].type == TYPE_HISTOGRAM ? SW_ARRAY_LEN(dns_bounds) : 0;
    return dns_bounds;
}

size_t metric_label_count(enum sw_metric_id id)
{
    const char *l = metric_table[id].labels;
    size_t n = *l ? 1 : 0;

    for (; *l; l++)
        n += *l == ',';
    return n;
}

/* --- keys ------------------------------------------------------------------------------- */

struct key {
    size_t n;
    char b[KEY_MAX];
};

static void key_byte(struct key *k, unsigned v)
{
    k->b[k->n++] = (char)v;
}

/* What the output will say is decided here, so that two keys never print alike. */
static void key_label(struct key *k, struct sw_slice v)
{
    char *to = k->b + k->n + 2;

    if (v.n > LABEL_MAX) {
        v.n = LABEL_MAX;
        /* Not through the middle of a character. */
        while (v.n > LABEL_MAX - 3 && ((unsigned char)v.p[v.n] & 0xc0) == 0x80)
            v.n--;
    }
    if (sw_slice_eq_str(v, "unknown"))
        v.n = 0;
    assert(k->n + 2 + v.n <= sizeof(k->b));
    if (v.n)
        memcpy(to, v.p, v.n);
    if (!sw_utf8_valid(v)) {
        for (size_t i = 0; i < v.n; i++) {
            if ((unsigned char)to[i] >= 0x80)
                to[i] = '?';
        }
    }
    k->b[k->n] = (char)(v.n >> 8);
    k->b[k->n + 1] = (char)(v.n & 0xff);
    k->n += 2 + v.n;
}

static void traffic_key(struct key *k, const struct sw_traffic_labels *l)
{
    k->n = 0;
    key_byte(k, FAMILY_TRAFFIC);
    key_byte(k, l->reporter == SW_REPORTER_DESTINATION);
    key_byte(k, l->mutual_tls);
#define PUT(name) key_label(k, l->name);
    SW_TRAFFIC_LABELS(PUT)
    SW_TRAFFIC_LOCALITY(PUT)
#undef PUT
}

/* --- label sets ------------------------------------------------------------------------- */

static struct sw_metric *metric_new(const struct key *k, size_t ncells)
{
    size_t cells = sizeof(struct sw_metric) + ncells * sizeof(sw_cell);
    /* Whole cache lines: neighbours on the heap may belong to other threads. */
    size_t n = (cells + k->n + 63) & ~(size_t)63;
    struct sw_metric *m = sw_aligned_alloc(64, n);

    memset(m, 0, n);
    atomic_init(&m->refs, 1);
    sw_list_init(&m->unused);
    m->ncells = ncells;
    memcpy((char *)m + cells, k->b, k->n);
    m->key = sw_slice((char *)m + cells, k->n);
    return m;
}

static void metric_unref(struct sw_metric *m)
{
    if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1)
        sw_free(m);
}

static double as_double(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static uint64_t as_bits(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static bool is_histogram(const struct sw_metric *m)
{
    unsigned char f = metric_family(m);

    return f < SW_METRIC_COUNT && metric_table[f].type == TYPE_HISTOGRAM;
}

/* The last cell of a histogram is its sum, a double. */
static uint64_t cell_sum(const struct sw_metric *m, size_t i, uint64_t a, uint64_t b)
{
    if (is_histogram(m) && i + 1 == m->ncells)
        return as_bits(as_double(a) + as_double(b));
    return a + b;
}

static void metric_fold(struct sw_metric *into, const struct sw_metric *from)
{
    for (size_t i = 0; i < into->ncells; i++) {
        uint64_t a = atomic_load_explicit(&into->cells[i], memory_order_relaxed);
        uint64_t b = atomic_load_explicit(&from->cells[i], memory_order_relaxed);

        atomic_store_explicit(&into->cells[i], cell_sum(into, i, a, b), memory_order_relaxed);
    }
}

static struct sw_metric *shard_insert(struct sw_metrics_shard *s, const struct key *k,
                                      size_t ncells)
{
    struct sw_metric *m = metric_new(k, ncells);

    (void)pthread_mutex_lock(&s->lock);
    (void)sw_map_put(&s->map, m->key, m);
    s->count[metric_family(m)]++;
    (void)pthread_mutex_unlock(&s->lock);
    return m;
}

static void shard_remove_locked(struct sw_metrics_shard *s, struct sw_metric *m)
{
    (void)sw_map_del(&s->map, m->key);
    s->count[metric_family(m)]--;
    sw_list_unlink(&m->unused);
    metric_unref(m);
}

static void log_overflow(struct sw_metrics_shard *s, const char *what, size_t max)
{
    if (!atomic_exchange(&s->metrics->overflow_logged, true))
        sw_log_warn(scope, "'%s' has more than %zu label sets: new ones count as 'overflow'", what,
                    max);
    sw_metric_add(sw_metric_get(s, SW_METRIC_SERIES_OVERFLOW, NULL), 1);
}

static struct sw_metric *traffic_overflow(struct sw_metrics_shard *s, enum sw_reporter reporter)
{
    struct sw_traffic_labels l = {.reporter = reporter};
    struct sw_metric **m = &s->overflow[reporter == SW_REPORTER_DESTINATION];
    struct key k;

    if (*m)
        return *m;
#define SET(name) l.name = SW_SLICE_LIT("overflow");
    SW_TRAFFIC_LABELS(SET)
#undef SET
    traffic_key(&k, &l);
    *m = sw_map_get(&s->map, sw_slice(k.b, k.n));
    if (!*m)
        *m = shard_insert(s, &k, TRAFFIC_CELLS);
    (*m)->users++; /* never unused */
    sw_list_unlink(&(*m)->unused);
    return *m;
}

/* Gives up the label set unused for longest, if that is long enough. */
static bool traffic_evict(struct sw_metrics_shard *s)
{
    struct sw_list *oldest = s->unused.next;
    struct sw_metric *m = SW_CONTAINER_OF(oldest, struct sw_metric, unused);
    struct sw_metric *into;

    if (oldest == &s->unused || sw_now_ns() - m->idle_since_ns < s->metrics->opts.evict_idle_ns)
        return false;
    into = traffic_overflow(s, m->key.p[1] ? SW_REPORTER_DESTINATION : SW_REPORTER_SOURCE);
    if (into == m)
        return traffic_evict(s); /* someone's labels really were 'overflow'; it is pinned now */
    (void)pthread_mutex_lock(&s->lock);
    metric_fold(into, m);
    shard_remove_locked(s, m);
    (void)pthread_mutex_unlock(&s->lock);
    return true;
}

static struct sw_metric *traffic_find(struct sw_metrics_shard *s, const struct key *k)
{
    struct sw_metric *m = sw_map_get(&s->map, sw_slice(k->b, k->n));

    if (m)
        return m;
    if (s->count[FAMILY_TRAFFIC] >= s->metrics->opts.max_traffic) {
        if (!traffic_evict(s)) {
            log_overflow(s, "istio_tcp_connections", s->metrics->opts.max_traffic);
            return traffic_overflow(s, k->b[1] ? SW_REPORTER_DESTINATION : SW_REPORTER_SOURCE);
        }
        m = sw_map_get(&s->map, sw_slice(k->b, k->n));
        if (m) /* the labels are 'overflow' themselves: the eviction has just made that set */
            return m;
    }
    return shard_insert(s, k, TRAFFIC_CELLS);
}

static_assert(sizeof(struct sw_traffic) == TRAFFIC_CELLS * sizeof(sw_cell),
              "the traffic counters are nothing but cells");

struct sw_traffic *sw_metrics_traffic(struct sw_metrics_shard *s,
                                      const struct sw_traffic_labels *labels)
{
    struct sw_metric *m;
    struct key k;

    traffic_key(&k, labels);
    m = traffic_find(s, &k);
    if (m->users++ == 0)
        sw_list_unlink(&m->unused);
    return (struct sw_traffic *)(void *)((char *)m + offsetof(struct sw_metric, cells));
}

void sw_metrics_traffic_release(struct sw_metrics_shard *s, struct sw_traffic *t)
{
    struct sw_metric *m;

    if (!t)
        return;
    m = SW_CONTAINER_OF(t, struct sw_metric, cells);
    assert(m->users > 0);
    if (--m->users)
        return;
    m->idle_since_ns = sw_now_ns();
    sw_list_push_back(&s->unused, &m->unused);
}

/* --- single metrics --------------------------------------------------------------------- */

static size_t cells_of(enum sw_metric_id id)
{
    size_t bounds;

    (void)metric_bounds(id, &bounds);
    return bounds ? bounds + 2 : 1;
}

struct sw_metric *sw_metric_get(struct sw_metrics_shard *s, enum sw_metric_id id,
                                const struct sw_slice *values)
{
    size_t labels = metric_label_count(id);
    struct sw_metric *m;
    struct key k = {.n = 0};

    assert(values || labels == 0);
    key_byte(&k, id);
    for (size_t i = 0; i < labels; i++)
        key_label(&k, values[i]);
    m = sw_map_get(&s->map, sw_slice(k.b, k.n));
    if (m)
        return m;
    if (labels && s->count[id] >= s->metrics->opts.max_series) {
        log_overflow(s, metric_table[id].name, s->metrics->opts.max_series);
        k.n = 1;
        for (size_t i = 0; i < labels; i++)
            key_label(&k, SW_SLICE_LIT("overflow"));
        m = sw_map_get(&s->map, sw_slice(k.b, k.n));
    }
    return m ? m : shard_insert(s, &k, cells_of(id));
}

struct sw_metric *sw_metric_get1(struct sw_metrics_shard *s, enum sw_metric_id id,
                                 const char *value)
{
    struct sw_slice v = sw_slice_str(value);

    assert(metric_label_count(id) == (value ? 1 : 0));
    return sw_metric_get(s, id, &v);
}

void sw_metric_add(struct sw_metric *m, uint64_t n)
{
    sw_cell_add(&m->cells[0], n);
}

void sw_metric_sub(struct sw_metric *m, uint64_t n)
{
    sw_cell_add(&m->cells[0], 0 - n);
}

void sw_metric_set(struct sw_metric *m, int64_t value)
{
    atomic_store_explicit(&m->cells[0], (uint64_t)value, memory_order_relaxed);
}

void sw_metric_count(struct sw_metrics_shard *s, enum sw_metric_id id, const char *value)
{
    if (s)
        sw_metric_add(sw_metric_get1(s, id, value), 1);
}

void sw_metric_gauge(struct sw_metrics_shard *s, enum sw_metric_id id, const char *value,
                     int64_t now)
{
    if (s)
        sw_metric_set(sw_metric_get1(s, id, value), now);
}

void sw_metric_observe(struct sw_metric *m, double value)
{
    sw_cell *sum = &m->cells[m->ncells - 1];
    size_t bounds;
    const double *b = metric_bounds((enum sw_metric_id)metric_family(m), &bounds);
    size_t i = 0;

    while (i < bounds && value > b[i])
        i++;
    sw_cell_add(&m->cells[i], 1);
    atomic_store_explicit(
        sum, as_bits(as_double(atomic_load_explicit(sum, memory_order_relaxed)) + value),
        memory_order_relaxed);
}

void sw_metric_drop(struct sw_metrics_shard *s, struct sw_metric *m)
{
    if (!m)
        return;
    (void)pthread_mutex_lock(&s->lock);
    shard_remove_locked(s, m);
    (void)pthread_mutex_unlock(&s->lock);
}

/* --- shards ----------------------------------------------------------------------------- */

static struct sw_metrics_shard *shard_make(struct sw_metrics *m)
{
    struct sw_metrics_shard *s = SW_NEW(struct sw_metrics_shard);

    s->metrics = m;
    (void)pthread_mutex_init(&s->lock, NULL);
    sw_list_init(&s->link);
    sw_list_init(&s->unused);
    return s;
}

static void shard_destroy(struct sw_metrics_shard *s)
{
    SW_MAP_DRAIN(&s->map, metric_unref);
    (void)pthread_mutex_destroy(&s->lock);
    sw_free(s);
}

struct sw_metrics_shard *sw_metrics_shard_new(struct sw_metrics *m)
{
    struct sw_metrics_shard *s = shard_make(m);

    (void)pthread_mutex_lock(&m->lock);
    sw_list_push_back(&m->shards, &s->link);
    (void)pthread_mutex_unlock(&m->lock);
    return s;
}

/* The retired shard takes a count over; under the registry's lock we are its owner. */
static void retire(struct sw_metrics_shard *to, const struct sw_metric *from)
{
    struct key k = {.n = from->key.n};
    struct sw_metric *m;

    memcpy(k.b, from->key.p, from->key.n);
    if (metric_family(from) == FAMILY_TRAFFIC) {
        m = traffic_find(to, &k);
        if (m->users == 0 && !sw_list_linked(&m->unused)) {
            m->idle_since_ns = sw_now_ns();
            sw_list_push_back(&to->unused, &m->unused);
        }
    } else if (metric_table[metric_family(from)].type == TYPE_GAUGE) {
        return;
    } else {
        m = sw_map_get(&to->map, from->key);
        if (!m)
            m = shard_insert(to, &k, from->ncells);
    }
    metric_fold(m, from);
}

void sw_metrics_shard_free(struct sw_metrics_shard *s)
{
    struct sw_metrics *m;

    if (!s)
        return;
    m = s->metrics;
    (void)pthread_mutex_lock(&m->lock);
    sw_list_unlink(&s->link);
    SW_MAP_FOREACH (it, &s->map)
        retire(m->retired, it->value);
    (void)pthread_mutex_unlock(&m->lock);
    shard_destroy(s);
}

/* --- the registry ----------------------------------------------------------------------- */

struct sw_metrics *sw_metrics_new(const struct sw_metrics_opts *o)
{
    struct sw_metrics *m = SW_NEW(struct sw_metrics);

    if (o)
        m->opts = *o;
    m->opts.component = m->opts.component ? m->opts.component : "ztunnel";
    m->opts.tag = m->opts.tag ? m->opts.tag : SW_VERSION;
    m->opts.max_traffic = m->opts.max_traffic ? m->opts.max_traffic : 4096;
    m->opts.max_series = m->opts.max_series ? m->opts.max_series : 1000;
    m->opts.evict_idle_ns = m->opts.evict_idle_ns ? m->opts.evict_idle_ns : 600 * SW_NS_PER_S;
    (void)pthread_mutex_init(&m->lock, NULL);
    sw_list_init(&m->shards);
    m->retired = shard_make(m);
    m->own = shard_make(m);
    return m;
}

void sw_metrics_free(struct sw_metrics *m)
{
    if (!m)
        return;
    assert(sw_list_empty(&m->shards));
    shard_destroy(m->retired);
    shard_destroy(m->own);
    (void)pthread_mutex_destroy(&m->lock);
    sw_free(m);
}

static int64_t count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int64_t n = 0;

    if (!d)
        return 0;
    while (readdir(d)) /* NOLINT(concurrency-mt-unsafe): no other thread has this stream */
        n++;
    (void)closedir(d);
    return n > 3 ? n - 3 : 0; /* ".", ".." and our own look */
}

static void measure_self(struct sw_metrics *m)
{
    struct sw_slice build[] = {sw_slice_str(m->opts.component), sw_slice_str(m->opts.tag)};
    struct rlimit rl = {0};
    size_t series = 0;

    sw_metric_set(sw_metric_get(m->own, SW_METRIC_ISTIO_BUILD, build), 1);
    sw_metric_set(sw_metric_get(m->own, SW_METRIC_OPEN_FDS, NULL), count_fds());
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0)
        sw_metric_set(sw_metric_get(m->own, SW_METRIC_MAX_FDS, NULL), (int64_t)rl.rlim_cur);
    sw_metric_set(sw_metric_get(m->own, SW_METRIC_LOG_DROPPED, NULL), (int64_t)sw_log_dropped());
    SW_LIST_EACH (struct sw_metrics_shard, s, &m->shards, link) {
        (void)pthread_mutex_lock(&s->lock);
        series += s->map.n;
        (void)pthread_mutex_unlock(&s->lock);
    }
    series += m->retired->map.n;
    sw_metric_set(sw_metric_get(m->own, SW_METRIC_SERIES, NULL), (int64_t)series);
}

static void snapshot_add(struct snapshot *snap, struct sw_metric *m)
{
    struct row *r = sw_map_get(&snap->by_key, m->key);
    bool fresh = !r;

    if (fresh) {
        r = SW_ARENA_NEW(&snap->arena, struct row);
        r->metric = m;
        r->v = sw_arena_array(&snap->arena, m->ncells, sizeof(*r->v));
        atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
        (void)sw_map_put(&snap->by_key, m->key, r);
    }
    for (size_t i = 0; i < m->ncells; i++)
        r->v[i] = cell_sum(m, i, r->v[i], atomic_load_explicit(&m->cells[i], memory_order_relaxed));
}

static void snapshot_shard(struct snapshot *snap, struct sw_metrics_shard *s)
{
    (void)pthread_mutex_lock(&s->lock);
    SW_MAP_FOREACH (it, &s->map)
        snapshot_add(snap, it->value);
    (void)pthread_mutex_unlock(&s->lock);
}

void snapshot_take(struct sw_metrics *m, struct snapshot *ret)
{
    *ret = (struct snapshot){0};
    (void)pthread_mutex_lock(&m->lock);
    measure_self(m);
    SW_LIST_FOREACH (it, &m->shards)
        snapshot_shard(ret, SW_CONTAINER_OF(it, struct sw_metrics_shard, link));
    snapshot_shard(ret, m->retired);
    snapshot_shard(ret, m->own);
    (void)pthread_mutex_unlock(&m->lock);
}

void snapshot_done(struct snapshot *s)
{
    SW_MAP_FOREACH (it, &s->by_key)
        metric_unref(((struct row *)it->value)->metric);
    sw_map_done(&s->by_key);
    sw_arena_clear(&s->arena);
}
