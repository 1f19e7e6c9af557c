/* SPDX-License-Identifier: Apache-2.0 */
#include "control/dns/publisher.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/device/keys.h"
#include "control/dns/claims.h"
#include "io/loop.h"

/* Kinds of what is published: the TXT lines of a name. */
#define RECORD "record"
/* The time since when the Connector is not ready that is so the longest. */
#define UNREADY "unready"
/* Always there, so that an empty set is published as well. */
#define SYNCED "synced"

static const struct sw_kube_gvr connectors = {.group = "networking.datumapis.com",
                                              .version = "v1alpha1",
                                              .resource = "connectors",
                                              .kind = "Connector",
                                              .namespaced = true};
static const struct sw_kube_gvr classes = {.group = "networking.datumapis.com",
                                           .version = "v1alpha1",
                                           .resource = "connectorclasses",
                                           .kind = "ConnectorClass"};
enum { CONNECTOR, CLASS, CLAIM };
static const struct sw_control_kind kinds[] = {[CONNECTOR] = {.gvr = &connectors, .optional = true},
                                               [CLASS] = {.gvr = &classes, .optional = true},
                                               [CLAIM] = {.gvr = &sw_claim_gvr, .optional = true}};

/* A name with its records, as published. */
struct record {
    struct sw_slice name;  /* owned */
    struct sw_slice lines; /* owned */
};

struct sw_dns_publisher {
    struct sw_loop *loop;
    struct sw_dns_publisher_opts o;
    struct sw_control *control;
    SW_VEC(struct record) records; /* sorted by name, which is the order of the zone, too */
    struct sw_slice unready;       /* owned; empty: all are ready */
    struct sw_timer tick;
};

/* ---- the pure part ---- */

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_dns_publisher *p = arg;
    const struct sw_claims_in in = {.type = SW_CLAIM_KEY,
                                    .v = v,
                                    .claims = CLAIM,
                                    .holders = CONNECTOR,
                                    .holder_kind = "Connector",
                                    .record = p->o.record};
    struct sw_arena *a = sw_out_arena(out);
    struct sw_dns_claim *claims;
    size_t n;
    struct sw_slice unready = {0};
    struct sw_map keys = {0};
    struct sw_connector_keys owners;

    sw_connector_keys_init(&owners, v, &(const struct sw_connector_kinds){CONNECTOR, CLASS, CLAIM},
                           a);
    claims = sw_dns_claims_begin(v, &owners, a, &n);
    sw_connector_keys_done(&owners);
    sw_key_claims(&in, claims, n, out, &keys);
    sw_dns_claims(a, &keys, claims, n, sw_view_input(v));
    sw_map_done(&keys);
    for (size_t i = 0; i < n; i++) {
        const struct sw_dns_claim *c = &claims[i];
        SW_BUF_AUTO lines = {.max = SW_DNS_SET_BYTES};

        if (c->state != SW_DNS_CLAIM_OWNER)
            continue;
        if (c->unready_since.n && (!unready.n || sw_slice_cmp(c->unready_since, unready) < 0))
            unready = c->unready_since;
        for (size_t k = 0; k < c->n_txt; k++)
            (void)!sw_buf_printf(&lines, "%s%.*s", k ? "\n" : "", SW_SLICE_ARG(c->txt[k]));
        sw_out_publish(out, RECORD, sw_dns_claim_name(a, c), sw_buf_slice(&lines));
    }
    if (unready.n)
        sw_out_publish(out, UNREADY, sw_slice("", 0), unready);
    sw_out_publish(out, SYNCED, sw_slice("", 0), SW_SLICE_LIT("1"));
}

/* ---- the rest ---- */

static void record_done(struct record *r)
{
    sw_slice_free(&r->name);
    sw_slice_free(&r->lines);
}

static struct sw_slice copy(struct sw_slice s)
{
    return sw_slice(sw_slice_dup(s), s.n);
}

static void set_record(struct sw_dns_publisher *p, const struct sw_change *c)
{
    size_t at = sw_lower_bound(p->records.p, p->records.n, sizeof(struct record),
                               offsetof(struct record, name), c->name);
    struct record r = {0};
    struct record *list;

    if (at < p->records.n && sw_slice_eq(p->records.p[at].name, c->name)) {
        list = p->records.p;
        record_done(&list[at]);
        p->records.n--;
        memmove(list + at, list + at + 1, (p->records.n - at) * sizeof(*list));
    }
    if (!c->bytes.p)
        return;
    r.name = copy(c->name);
    r.lines = copy(c->bytes);
    sw_vec_push(&p->records, r);
    list = p->records.p;
    memmove(list + at + 1, list + at, (p->records.n - 1 - at) * sizeof(*list));
    list[at] = r;
}

static void make_set(struct sw_arena *a, const struct sw_dns_publisher *p, const struct record *r,
                     struct sw_dns_rrset *ret)
{
    struct sw_slice *rdata = sw_arena_array(a, 2 + SW_QUIC_ADDRS_MAX, sizeof(*rdata));
    struct sw_slice rest = r->lines;

    *ret = (struct sw_dns_rrset){.type = SW_DNS_TXT, .ttl = p->o.ttl_s, .rdata = rdata};
    if (sw_dns_name_join(r->name, &p->o.origin, &ret->name, NULL) != SW_OK)
        return; /* the origin is too long: logged at the start */
    while (rest.p && ret->n < 1 + SW_QUIC_ADDRS_MAX)
        rdata[ret->n++] = sw_dns_txt_rdata(a, sw_slice_cut(&rest, '\n'));
}

static void hand_over(struct sw_dns_publisher *p)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_dns_rrset *sets = sw_arena_array(&arena, p->records.n + 1, sizeof(*sets));
    size_t n = 0;

    for (size_t i = 0; i < p->records.n; i++) {
        make_set(&arena, p, &p->records.p[i], &sets[n]);
        if (sets[n].n)
            n++;
    }
    p->o.publish(p->o.arg, sets, n);
}

static char *cutoff(const struct sw_dns_publisher *p, char out[SW_RFC3339_LEN])
{
    uint64_t now = sw_wall_ns();

    return sw_rfc3339(now > p->o.stale_after_ns ? now - p->o.stale_after_ns : 0, 0, out);
}

/* Builds again once the oldest unready one has become stale. */
static void on_tick(struct sw_timer *t)
{
    struct sw_dns_publisher *p = SW_CONTAINER_OF(t, struct sw_dns_publisher, tick);
    char text[SW_RFC3339_LEN];

    if (!p->unready.n)
        return;
    (void)cutoff(p, text);
    if (sw_slice_cmp(sw_slice_head(p->unready, 19), sw_slice_head(sw_slice_str(text), 19)) <= 0)
        sw_control_set_input(p->control, sw_slice_str(text));
    sw_timer_start(p->loop, &p->tick, SW_NS_PER_S, on_tick);
}

static void on_publish(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    struct sw_dns_publisher *p = arg;
    bool changed = false;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(changes[i].kind, UNREADY) == 0) {
            sw_slice_free(&p->unready);
            if (changes[i].bytes.p)
                p->unready = copy(changes[i].bytes);
        } else {
            if (strcmp(changes[i].kind, RECORD) == 0)
                set_record(p, &changes[i]);
            changed = true;
        }
    }
    if (p->unready.n && p->o.stale_after_ns && !sw_timer_running(&p->tick))
        sw_timer_start(p->loop, &p->tick, SW_NS_PER_S, on_tick);
    if (changed)
        hand_over(p);
}

struct sw_dns_publisher *sw_dns_publisher_new(struct sw_loop *l, struct sw_kube_client *c,
                                              const struct sw_dns_publisher_opts *o,
                                              struct sw_err *err)
{
    struct sw_dns_publisher *p = SW_NEW(struct sw_dns_publisher);
    const struct sw_control_opts co = {.name = "spanwire-dns",
                                       .kinds = kinds,
                                       .n_kinds = SW_ARRAY_LEN(kinds),
                                       .build = build,
                                       .build_arg = p,
                                       .publish = on_publish,
                                       .arg = p,
                                       .threaded = o->threaded};
    char text[SW_RFC3339_LEN];

    p->loop = l;
    p->o = *o;
    p->control = sw_control_new(c, &co, err);
    if (!p->control) {
        sw_free(p);
        return NULL;
    }
    if (o->stale_after_ns)
        sw_control_set_input(p->control, sw_slice_str(cutoff(p, text)));
    return p;
}

void sw_dns_publisher_start(struct sw_dns_publisher *p)
{
    sw_control_start(p->control);
}

void sw_dns_publisher_stop(struct sw_dns_publisher *p, void (*done)(void *arg), void *arg)
{
    sw_timer_stop(p->loop, &p->tick);
    sw_control_stop(p->control, done, arg);
}

void sw_dns_publisher_free(struct sw_dns_publisher *p)
{
    if (!p)
        return;
    sw_timer_stop(p->loop, &p->tick);
    sw_control_free(p->control);
    for (size_t i = 0; i < p->records.n; i++)
        record_done(&p->records.p[i]);
    sw_vec_done(&p->records);
    sw_slice_free(&p->unready);
    sw_free(p);
}
