/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/stub.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "dns/stub_int.h"

enum {
    CACHE = 4096,
    LOOKUPS = 256,
    MAX_TTL_S = 300,
    MAX_NEGATIVE_S = 10,
    NEGATIVE_S = 5, /* when the answer does not say */
    FAILURE_S = 1,  /* silence of all servers is remembered for a moment, to spare them retries */
    ATTEMPT_S = 3,
    PORT = 53,
};

/* ---- configuration ---- */

int sw_dns_server_parse(struct sw_slice text, struct sw_addr *ret, struct sw_err *err)
{
    struct sw_addr a = {.port = PORT};

    if (sw_ip_parse(text, &a.ip, NULL) != SW_OK) {
        int rc = sw_addr_parse(text, &a, err);

        if (rc != SW_OK)
            return rc;
        if (!a.port)
            return sw_err_set(err, SW_EINVAL, "a server needs a port other than 0");
    }
    *ret = a;
    return SW_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct sw_slice sw_dns_resolv_word(struct sw_slice *line)
{
    struct sw_slice word;
    size_t n = 0;

    while (line->n && is_blank(line->p[0]))
        *line = sw_slice_from(*line, 1);
    while (n < line->n && !is_blank(line->p[n]))
        n++;
    word = sw_slice_head(*line, n);
    *line = sw_slice_from(*line, n);
    return word;
}

size_t sw_dns_resolv_conf(struct sw_slice text, struct sw_addr ret[SW_DNS_SERVERS_MAX])
{
    size_t n = 0;

    while (text.p && n < SW_DNS_SERVERS_MAX) {
        struct sw_slice line = sw_slice_cut(&text, '\n');

        if (!sw_slice_eq_str(sw_dns_resolv_word(&line), "nameserver"))
            continue;
        n += sw_dns_server_parse(sw_dns_resolv_word(&line), &ret[n], NULL) == SW_OK;
    }
    return n;
}

struct sw_dns_stub *sw_dns_stub_new(struct sw_loop *l, const struct sw_dns_stub_opts *o,
                                    struct sw_err *err)
{
    struct sw_dns_stub *s = SW_NEW(struct sw_dns_stub);

    s->loop = l;
    s->o = *o;
    sw_list_init(&s->lru);
    sw_list_init(&s->rejected);
    if (!s->o.n_servers) {
        struct sw_slice text = {0};

        if (sw_file_read("/etc/resolv.conf", 65536, &text, NULL) == SW_OK)
            s->o.n_servers = sw_dns_resolv_conf(text, s->o.servers);
        sw_slice_free(&text);
    }
    if (!s->o.n_servers || s->o.n_servers > SW_DNS_SERVERS_MAX) {
        (void)sw_err_set(err, SW_EINVAL, "no DNS resolver given, and none in /etc/resolv.conf");
        sw_free(s);
        return NULL;
    }
    s->o.max_cache = s->o.max_cache ? s->o.max_cache : CACHE;
    s->o.max_lookups = s->o.max_lookups ? s->o.max_lookups : LOOKUPS;
    s->o.max_ttl_s = s->o.max_ttl_s ? s->o.max_ttl_s : MAX_TTL_S;
    s->o.max_neg_s = s->o.max_neg_s ? s->o.max_neg_s : MAX_NEGATIVE_S;
    s->o.attempt_ns = s->o.attempt_ns ? s->o.attempt_ns : ATTEMPT_S * SW_NS_PER_S;
    return s;
}

/* ---- entries ---- */

static void free_entry(struct sw_dns_entry *e)
{
    if (e->asking)
        sw_dns_ask_stop(e);
    SW_LIST_EACH (struct sw_dns_lookup, l, &e->waiters, link)
        sw_free(l);
    sw_defer_cancel(&e->deliver);
    sw_list_unlink(&e->lru);
    (void)sw_map_del(&e->stub->entries, sw_dns_name_bytes(&e->name));
    sw_arena_clear(&e->arena);
    sw_free(e);
}

void sw_dns_stub_free(struct sw_dns_stub *s)
{
    if (!s)
        return;
    SW_LIST_EACH (struct sw_dns_entry, e, &s->lru, lru)
        free_entry(e);
    SW_LIST_EACH (struct sw_dns_lookup, l, &s->rejected, link)
        sw_free(l);
    sw_defer_cancel(&s->reject);
    sw_map_done(&s->entries);
    sw_free(s);
}

/* Evicts the least recently queried name. */
static void evict(struct sw_dns_stub *s)
{
    SW_LIST_EACH (struct sw_dns_entry, e, &s->lru, lru) {
        if (s->entries.n < s->o.max_cache)
            return;
        if (!e->asking && sw_list_empty(&e->waiters))
            free_entry(e);
    }
}

static struct sw_dns_entry *get_entry(struct sw_dns_stub *s, const struct sw_dns_name *name)
{
    struct sw_dns_name key;
    struct sw_dns_entry *e = sw_dns_name_find(&s->entries, name, &key);

    if (e)
        return e;
    evict(s);
    e = SW_NEW(struct sw_dns_entry);
    e->stub = s;
    e->name = key;
    sw_list_init(&e->waiters);
    sw_list_init(&e->attempts);
    sw_list_push_back(&s->lru, &e->lru);
    (void)sw_map_put(&s->entries, sw_dns_name_bytes(&e->name), e);
    return e;
}

/* ---- answers ---- */

static void deliver(struct sw_defer *d)
{
    struct sw_dns_entry *e = SW_CONTAINER_OF(d, struct sw_dns_entry, deliver);
    struct sw_dns_result r = e->result;
    uint64_t now = sw_loop_now(e->stub->loop);
    struct sw_list batch;
    struct sw_dns_lookup *l;

    if (e->asking)
        return; /* it expired meanwhile: they get the new answer */
    r.ttl_s = e->expires_ns > now ? (uint32_t)((e->expires_ns - now) / SW_NS_PER_S) : 0;
    sw_list_init(&batch);
    sw_list_splice(&batch, &e->waiters);
    /* What comes during the callbacks is answered later: e->arena does not change under them. */
    while ((l = SW_LIST_POP(&batch, struct sw_dns_lookup, link))) {
        l->cb(l->arg, &r);
        sw_free(l);
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Fills e->result; returns for how long. */
static uint32_t judge(struct sw_dns_entry *e, const struct sw_dns_txt_answer *answer)
{
    const struct sw_dns_stub_opts *o = &e->stub->o;
    struct sw_dns_result *r = &e->result;
    char text[SW_DNS_NAME_TEXT];

    *r = (struct sw_dns_result){.rc = SW_OK};
    if (!answer) {
        r->rc = e->last.rc == SW_OK ? SW_ETIME : e->last.rc;
        r->rc = r->rc == SW_ECLOSED || r->rc == SW_ESYS ? SW_ETIME : r->rc;
        r->err = e->last;
        return FAILURE_S;
    }
    if (!answer->n_txt) {
        r->rc = sw_err_set(&r->err, SW_ENOENT, "'%.120s' has no TXT records (%s)",
                           sw_dns_name_text(&e->name, text), sw_dns_rcode_text(answer->rcode));
        return answer->ttl_s == UINT32_MAX ? NEGATIVE_S : least(answer->ttl_s, o->max_neg_s);
    }
    r->txt = answer->txt;
    r->n_txt = answer->n_txt;
    return least(answer->ttl_s, o->max_ttl_s);
}

void sw_dns_entry_done(struct sw_dns_entry *e, struct sw_arena *arena,
                       const struct sw_dns_txt_answer *answer)
{
    struct sw_dns_stub *s = e->stub;
    uint32_t ttl;

    sw_timer_stop(s->loop, &e->stagger);
    e->asking = false;
    s->asking--;
    sw_arena_clear(&e->arena);
    if (arena)
        e->arena = *arena;
    ttl = judge(e, answer);
    e->expires_ns = sw_loop_now(s->loop) + ttl * SW_NS_PER_S;
    sw_loop_defer(s->loop, &e->deliver, deliver);
}

/* ---- questions ---- */

static void reject(struct sw_defer *d)
{
    struct sw_dns_stub *s = SW_CONTAINER_OF(d, struct sw_dns_stub, reject);
    struct sw_dns_result r = {0};
    struct sw_list batch;
    struct sw_dns_lookup *l;

    r.rc = sw_err_set(&r.err, SW_ELIMIT, "%zu names are being looked up already", s->o.max_lookups);
    sw_list_init(&batch);
    sw_list_splice(&batch, &s->rejected);
    while ((l = SW_LIST_POP(&batch, struct sw_dns_lookup, link))) {
        l->cb(l->arg, &r);
        sw_free(l);
    }
}

struct sw_dns_lookup *sw_dns_stub_txt(struct sw_dns_stub *s, const struct sw_dns_name *name,
                                      sw_dns_lookup_cb cb, void *arg)
{
    struct sw_dns_lookup *l = SW_NEW(struct sw_dns_lookup);
    struct sw_dns_entry *e = get_entry(s, name);
    bool fresh = !e->asking && sw_loop_now(s->loop) < e->expires_ns;

    l->cb = cb;
    l->arg = arg;
    sw_list_init(&l->link);
    sw_list_unlink(&e->lru);
    sw_list_push_back(&s->lru, &e->lru);
    if (!fresh && !e->asking && s->asking >= s->o.max_lookups) {
        sw_list_push_back(&s->rejected, &l->link);
        sw_loop_defer(s->loop, &s->reject, reject);
        return l;
    }
    l->entry = e;
    sw_list_push_back(&e->waiters, &l->link);
    if (fresh) {
        sw_loop_defer(s->loop, &e->deliver, deliver);
    } else if (!e->asking) {
        e->asking = true;
        s->asking++;
        sw_dns_ask_start(e);
    }
    return l;
}

void sw_dns_lookup_cancel(struct sw_dns_lookup *l)
{
    if (!l)
        return;
    sw_list_unlink(&l->link);
    sw_free(l);
}

void sw_dns_stub_forget(struct sw_dns_stub *s, const struct sw_dns_name *name)
{
    struct sw_dns_name key;
    struct sw_dns_entry *e = sw_dns_name_find(&s->entries, name, &key);

    if (e && !e->asking)
        e->expires_ns = 0;
}
