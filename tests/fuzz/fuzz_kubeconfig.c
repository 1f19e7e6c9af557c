/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a kubeconfig. What is accepted must be usable: a host, a port, header values without
 * line breaks, nothing from plugins or proxies; and the same text reads the same twice.
 */
#include <stdlib.h>
#include <string.h>

#include "http/grammar.h"
#include "kube/client/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check(const struct sw_kube_config *c)
{
    require(c->host.n > 0 && c->host.n <= 253 && !memchr(c->host.p, '/', c->host.n));
    require(c->port != 0);
    require(c->base.n == 0 || (c->base.p[0] == '/' && c->base.p[c->base.n - 1] != '/'));
    require(sw_http_value_valid(c->token.data) && sw_http_value_valid(c->as_user));
    require(c->ns.n > 0);
    require((c->cert.data.n || c->cert.file) == (c->key.data.n || c->key.file));
    require(!(c->insecure && (c->ca.data.n || c->ca.file)));
    require(c->n_as_groups == 0 || c->as_user.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sw_kubeconfig_src src = {
        .text = sw_slice(data, size), .name = "fuzz", .dir = "/etc/x"};
    struct sw_kube_config a;
    struct sw_kube_config b;
    struct sw_err err = {0};
    int rc = sw_kubeconfig_read(&src, 1, NULL, &a, &err);

    require(sw_kubeconfig_read(&src, 1, NULL, &b, NULL) == rc);
    if (rc == SW_OK) {
        check(&a);
        require(sw_slice_eq(a.host, b.host) && a.port == b.port && sw_slice_eq(a.base, b.base));
        sw_kube_config_done(&a);
        sw_kube_config_done(&b);
    } else {
        require(err.msg[0] != 0 && a.arena.chunk == NULL);
    }
    return 0;
}
