/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a question to the authoritative server: what comes out is a well-formed answer
 * within its bounds that belongs to the question, or nothing. Also: names that parse go to text and
 * back.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "dns/respond.h"
#include "dns/update_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sw_arena arena;
static struct sw_dns_zone *zone;
static struct sw_dns_key key;

static void set_up(void)
{
    struct sw_dns_zone_conf c = {.n_ns = 1};
    struct sw_slice txt[2];
    struct sw_dns_rrset set = {.type = SW_DNS_TXT, .ttl = 5, .rdata = txt, .n = 2};

    assert(sw_dns_name_parse(SW_SLICE_LIT("z.test"), &c.origin, NULL) == SW_OK);
    assert(sw_dns_name_parse(SW_SLICE_LIT("ns.z.test"), &c.ns[0].name, NULL) == SW_OK);
    assert(sw_ip_parse(SW_SLICE_LIT("192.0.2.1"), &c.ns[0].ips[0], NULL) == SW_OK);
    c.ns[0].n_ips = 1;
    assert(sw_dns_name_parse(SW_SLICE_LIT("_iroh.key.z.test"), &set.name, NULL) == SW_OK);
    txt[0] = sw_dns_txt_rdata(&arena, SW_SLICE_LIT("relay=https://r.test/"));
    txt[1] = sw_dns_txt_rdata(&arena, SW_SLICE_LIT("addr=192.0.2.7:4433"));
    zone = sw_dns_zone_new(&c, &set, 1, 7, NULL);
    assert(zone);
    assert(sw_dns_key_parse(&arena, SW_SLICE_LIT("k:MDEyMzQ1Njc4OWFiY2RlZg=="), &key, NULL) ==
           SW_OK);
}

static void check_name(const struct sw_dns_name *n)
{
    char text[SW_DNS_NAME_TEXT];
    struct sw_dns_name back;

    assert(n->n >= 1 && n->b[n->n - 1] == 0);
    assert(sw_dns_name_parse(sw_slice_str(sw_dns_name_text(n, text)), &back, NULL) == SW_OK);
    assert(back.n == n->n && memcmp(back.b, n->b, n->n) == 0);
    assert(sw_dns_name_cmp(&back, n) == 0 && sw_dns_name_eq(&back, n));
}

/* Every record of a message that parses as a whole; false when it does not. */
static bool walk(struct sw_slice msg, struct sw_dns_header *h)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_question q;
    struct sw_dns_rr rr;

    if (sw_dns_read_header(&r, h) != SW_OK)
        return false;
    for (unsigned i = 0; i < h->qd; i++) {
        if (sw_dns_read_question(&r, &q) != SW_OK)
            return false;
        check_name(&q.name);
    }
    for (unsigned i = 0; i < (unsigned)h->an + h->ns + h->ar; i++) {
        size_t before = r.at;

        if (sw_dns_read_rr(&r, &rr) != SW_OK) {
            assert(r.at == before);
            return false;
        }
        check_name(&rr.name);
    }
    return r.at == r.n;
}

static void respond(struct sw_slice msg, bool tcp)
{
    static uint8_t out[SW_DNS_MSG_MAX];
    struct sw_dns_request req = {.msg = msg,
                                 .tcp = tcp,
                                 .may_transfer = true,
                                 .keys = &key,
                                 .n_keys = 1,
                                 .key_transfers = true,
                                 .now_s = 1700000000};
    struct sw_dns_reply r;
    struct sw_dns_header h;
    uint8_t slip[SW_DNS_UDP_PLAIN];
    size_t n;

    sw_dns_respond(zone, &req, out, &r);
    if (r.verdict == SW_DNS_DROP) {
        assert(msg.n < SW_DNS_HEADER || msg.n > SW_DNS_MSG_MAX || ((uint8_t)msg.p[2] & 0x80));
        return;
    }
    if (r.verdict == SW_DNS_TRANSFER) {
        struct sw_dns_xfer x;
        unsigned messages = 0;

        assert(tcp);
        sw_dns_xfer_start(&x, zone, &r, 1700000000);
        while ((n = sw_dns_xfer_next(&x, out, sizeof(out)))) {
            assert(walk(sw_slice(out, n), &h));
            messages++;
        }
        assert(messages == 1);
        return;
    }
    assert(r.n >= SW_DNS_HEADER && r.n <= (tcp ? SW_DNS_MSG_MAX : SW_DNS_UDP_SIZE));
    assert(walk(sw_slice(out, r.n), &h));
    assert(out[0] == (uint8_t)msg.p[0] && out[1] == (uint8_t)msg.p[1]);
    assert(h.flags & SW_DNS_QR);
    assert(!(h.flags & SW_DNS_TC) || !tcp);
    n = sw_dns_slip(msg, slip, sizeof(slip));
    assert(n >= SW_DNS_HEADER && n <= SW_DNS_HEADER + SW_DNS_NAME_MAX + 4);
    assert(walk(sw_slice(slip, n), &h));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice msg = sw_slice(data, size);
    struct sw_dns_inventory v = {0};
    struct sw_dns_header h;

    if (!zone)
        set_up();
    (void)walk(msg, &h);
    respond(msg, false);
    respond(msg, true);
    (void)!sw_dns_inventory_add(&v, msg, sw_dns_zone_origin(zone));
    sw_dns_inventory_done(&v);
    return 0;
}
