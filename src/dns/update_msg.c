/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/update_msg.h"

#include "base/hash.h"

enum { INVENTORY_BYTES = 256 << 20 };

/* ---- fingerprints ---- */

static uint64_t finish_print(uint64_t sum, size_t n, uint32_t ttl)
{
    uint64_t parts[3] = {sum, n, ttl};

    return sw_hash(parts, sizeof(parts)) | 1;
}

uint64_t sw_dns_set_print(const struct sw_dns_rrset *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += sw_hash(s->rdata[i].p, s->rdata[i].n);
    return finish_print(sum, s->n, s->ttl);
}

uint64_t sw_dns_inventory_print(const struct sw_dns_inventory_name *n)
{
    return finish_print(n->sum, n->n, n->ttl);
}

/* ---- markers ---- */

bool sw_dns_marker_name(const struct sw_dns_name *name, struct sw_dns_name *ret)
{
    struct sw_dns_name rest;

    return sw_dns_name_parent(name, &rest) &&
           sw_dns_name_join(SW_SLICE_LIT("_spanwire"), &rest, ret, NULL) == SW_OK;
}

struct sw_slice sw_dns_marker_rdata(struct sw_arena *a, const char *owner)
{
    return sw_dns_txt_rdata(
        a, sw_slice_str(sw_arena_printf(a, "heritage=spanwire,owner=%.64s", owner)));
}

/* ---- updates ---- */

static const struct sw_slice none = {0};

static void put_prerequisites(struct sw_dns_writer *w, enum sw_dns_update_kind kind,
                              const struct sw_dns_rrset *set, const struct sw_dns_name *marker,
                              struct sw_slice rdata)
{
    if (kind == SW_DNS_UPDATE_CLAIM) {
        (void)sw_dns_put_rr(w, marker, SW_DNS_ANY, SW_DNS_CLASS_NONE, 0, none);
        (void)sw_dns_put_rr(w, &set->name, SW_DNS_TXT, SW_DNS_CLASS_NONE, 0, none);
        sw_dns_set_u16(w, 6, 2);
    } else {
        (void)sw_dns_put_rr(w, marker, SW_DNS_TXT, SW_DNS_IN, 0, rdata);
        sw_dns_set_u16(w, 6, 1);
    }
}

static bool put_changes(struct sw_dns_writer *w, enum sw_dns_update_kind kind,
                        const struct sw_dns_rrset *set, const struct sw_dns_name *marker,
                        struct sw_slice rdata)
{
    unsigned n = 0;
    bool ok = true;

    if (kind != SW_DNS_UPDATE_CLAIM) {
        ok = sw_dns_put_rr(w, &set->name, SW_DNS_TXT, SW_DNS_CLASS_ANY, 0, none);
        n++;
    }
    if (kind == SW_DNS_UPDATE_WITHDRAW) {
        ok = ok && sw_dns_put_rr(w, marker, SW_DNS_TXT, SW_DNS_CLASS_ANY, 0, none);
        n++;
    }
    if (kind == SW_DNS_UPDATE_CLAIM) {
        ok = ok && sw_dns_put_rr(w, marker, SW_DNS_TXT, SW_DNS_IN, set->ttl, rdata);
        n++;
    }
    for (size_t i = 0; kind != SW_DNS_UPDATE_WITHDRAW && i < set->n && ok; i++, n++)
        ok = sw_dns_put_rr(w, &set->name, SW_DNS_TXT, SW_DNS_IN, set->ttl, set->rdata[i]);
    sw_dns_set_u16(w, 8, n);
    return ok;
}

void sw_dns_update_write(struct sw_dns_writer *w, uint16_t id, enum sw_dns_update_kind kind,
                         const struct sw_dns_name *zone, const struct sw_dns_rrset *set,
                         struct sw_slice marker)
{
    struct sw_dns_question q = {.name = *zone, .type = SW_DNS_SOA, .class = SW_DNS_IN};
    struct sw_dns_name at;

    sw_dns_put_header(w, &(struct sw_dns_header){.id = id, .flags = SW_DNS_UPDATE << 11, .qd = 1});
    sw_dns_put_question(w, &q);
    if (!sw_dns_marker_name(&set->name, &at)) {
        w->full = true;
        return;
    }
    put_prerequisites(w, kind, set, &at, marker);
    if (!put_changes(w, kind, set, &at, marker))
        w->full = true;
}

void sw_dns_axfr_question(struct sw_dns_writer *w, uint16_t id, const struct sw_dns_name *zone)
{
    struct sw_dns_question q = {.name = *zone, .type = SW_DNS_AXFR, .class = SW_DNS_IN};

    sw_dns_put_header(w, &(struct sw_dns_header){.id = id, .qd = 1});
    sw_dns_put_question(w, &q);
}

/* ---- inventory ---- */

static struct sw_dns_inventory_name *inventory_at(struct sw_dns_inventory *v,
                                                  const struct sw_dns_name *name)
{
    struct sw_dns_name key;
    struct sw_dns_inventory_name *n = sw_dns_name_find(&v->names, name, &key);

    if (n)
        return n;
    n = SW_ARENA_NEW(&v->arena, struct sw_dns_inventory_name);
    n->name = key;
    (void)sw_map_put(&v->names, sw_dns_name_bytes(&n->name), n);
    return n;
}

static int take_record(struct sw_dns_inventory *v, const struct sw_dns_rr *rr,
                       const struct sw_dns_name *zone)
{
    struct sw_dns_inventory_name *n;

    if (rr->type == SW_DNS_SOA && sw_dns_name_eq(&rr->name, zone)) {
        v->soas++;
        return SW_OK;
    }
    if (!v->soas || v->soas > 1)
        return SW_EPROTO; /* the SOA opens and closes it */
    if (rr->type != SW_DNS_TXT || rr->class != SW_DNS_IN)
        return SW_OK;
    if (v->arena.total > INVENTORY_BYTES)
        return SW_ELIMIT;
    n = inventory_at(v, &rr->name);
    if (!n->n)
        n->first = sw_arena_slice(&v->arena, rr->rdata);
    n->sum += sw_hash(rr->rdata.p, rr->rdata.n);
    n->ttl = rr->ttl;
    n->n++;
    return SW_OK;
}

int sw_dns_inventory_add(struct sw_dns_inventory *v, struct sw_slice msg,
                         const struct sw_dns_name *zone)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_rr rr;

    if (sw_dns_read_header(&r, &h) != SW_OK || !(h.flags & SW_DNS_QR))
        return SW_EPROTO;
    for (unsigned i = 0; i < h.qd; i++)
        if (sw_dns_read_question(&r, &q) != SW_OK)
            return SW_EPROTO;
    for (unsigned i = 0; i < h.an; i++) {
        int rc = sw_dns_read_rr(&r, &rr);

        if (rc == SW_OK)
            rc = take_record(v, &rr, zone);
        if (rc != SW_OK)
            return rc;
    }
    return v->soas == 2 ? SW_EOF : SW_OK;
}

void sw_dns_inventory_done(struct sw_dns_inventory *v)
{
    sw_map_done(&v->names);
    sw_arena_clear(&v->arena);
    *v = (struct sw_dns_inventory){0};
}
