/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request to the DNS proxy, and as an answer of its resolver. An answer has the id
 * of the request, says that it is one and fits in what the client takes.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "dns/exchange.h"
#include "node/dns/reply.h"
#include "node/local/localconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char world[] =
    "workloads: [{uid: me, name: me, namespace: a, serviceAccount: me, workloadIps: [10.0.0.1],\n"
    "  services: {'a/b.a.svc.c': {80: 80}}}]\n"
    "services: [{name: b, namespace: a, hostname: b.a.svc.c, vips: [], ports: {80: 80}},\n"
    "  {name: w, namespace: a, hostname: '*.w', vips: ['/10.1.0.1'], ports: {80: 80}}]\n";

static struct sw_state *loaded;

/* LeakSanitizer cannot follow the pointers in a state's maps. */
static void unload(void)
{
    loaded = sw_state_unref(loaded);
}

static const struct sw_state *load(void)
{
    if (!loaded) {
        assert(sw_localconfig_parse(
                   &(struct sw_localconfig){.file = "fuzz", .text = sw_slice_str(world)}, &loaded,
                   NULL) == SW_OK);
        assert(atexit(unload) == 0);
    }
    return loaded;
}

static void check(const uint8_t *out, size_t n, size_t limit, uint16_t id)
{
    assert(n >= SW_DNS_HEADER && n <= limit);
    assert((out[0] << 8 | out[1]) == id);
}

static void request(struct sw_slice msg, bool tcp)
{
    static uint8_t out[SW_DNS_MSG_MAX];
    const struct sw_dnsp_env env = {.domain = SW_SLICE_LIT("c"), .ipv6 = true};
    const struct sw_state *s = load();
    struct sw_dnsp_request req = {
        .msg = msg,
        .tcp = tcp,
        .state = s,
        .env = &env,
        .client = sw_state_workload_by_uid(s, SW_SLICE_LIT("me")),
    };
    struct sw_dnsp_reply r;
    size_t n;

    sw_dnsp_respond(&req, out, &r);
    assert((r.verdict == SW_DNSP_DROP) == (msg.n < SW_DNS_HEADER));
    if (r.verdict == SW_DNSP_REPLY) {
        check(out, r.n, r.limit, r.id);
        assert(out[2] & 0x80);
    } else if (r.verdict == SW_DNSP_FORWARD) {
        n = sw_dnsp_pass_on(&r, msg, msg, out);
        if (n)
            check(out, n, r.limit, r.id);
        n = sw_dnsp_error(msg, SW_DNS_SERVFAIL, out);
        check(out, n, SW_DNS_UDP_PLAIN, r.id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t half = size / 2;

    request(sw_slice(data, size), false);
    request(sw_slice(data, size), true);
    (void)sw_dns_answers(sw_slice(data, half), sw_slice(data + half, size - half));
    if (size >= SW_DNS_HEADER && !(data[2] & 0x80))
        assert(!sw_dns_answers(sw_slice(data, size), sw_slice(data, size)));
    return 0;
}
