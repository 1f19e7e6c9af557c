/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node reads of its surroundings. The first byte chooses: PROXY_CONFIG, a variable
 * ISTIO_METAJSON_x, a revocation list, resolv.conf.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "dns/stub.h"
#include "node/config.h"
#include "node/mesh/identify.h"
#include "tls/cert/cred.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_proxy_config(struct sw_slice in)
{
    static char name[] = "node";
    char *argv[] = {name, NULL};
    SW_ARENA_AUTO a = {0};
    struct sw_node_config c;
    struct sw_slice metadata = {0};
    struct sw_err err = {0};

    assert(setenv("PROXY_CONFIG", sw_arena_dup(&a, in), 1) == 0);
    if (sw_node_config_read(&c, 1, argv, &err) == SW_OK) {
        assert(c.admin.addr.port && c.admin.stats_addr.port);
        assert(c.cpu.workers >= 1 && c.cpu.workers <= 1024);
        if (sw_mesh_node_metadata(&c, NULL, &a, &metadata, &err) == SW_OK)
            assert(metadata.n);
    } else {
        assert(err.rc != SW_OK && err.msg[0]);
    }
    sw_node_config_done(&c);
}

static void check_metadata(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    char *env[] = {sw_arena_printf(&a, "ISTIO_METAJSON_X=%s", sw_arena_dup(&a, in)), NULL};
    struct sw_node_config c = {0};
    struct sw_slice out = {0};
    struct sw_err err = {0};

    if (sw_mesh_node_metadata(&c, env, &a, &out, &err) == SW_OK)
        assert(out.n);
    else
        assert(err.rc != SW_OK && !out.p);
}

/* As node/cert/crl.c reads it. */
static void check_crl(struct sw_slice in)
{
    const struct sw_tls_cred_pem pem = {.trust_nobody = true, .crl = in};
    struct sw_err err = {0};
    struct sw_tls_cred *cred = sw_tls_cred_new(&pem, &err);

    assert(!cred == (err.rc != SW_OK));
    (void)sw_tls_cred_unref(cred);
}

static void check_resolv_conf(struct sw_slice in)
{
    struct sw_addr at[SW_DNS_SERVERS_MAX];
    size_t n = sw_dns_resolv_conf(in, at);

    assert(n <= SW_DNS_SERVERS_MAX);
    for (size_t i = 0; i < n; i++)
        assert(at[i].port && (at[i].ip.family == 4 || at[i].ip.family == 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const checks[])(struct sw_slice in) = {check_proxy_config, check_metadata,
                                                         check_crl, check_resolv_conf};

    if (n)
        checks[(uint8_t)(data[0] - 48) % SW_ARRAY_LEN(checks)](sw_slice(data + 1, n - 1));
    return 0;
}
