/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an idle mutual TLS connection, TLS alone: makes many pairs in one process and reports
 * the growth of the resident set per side, one JSON line. (Not of the heap: keys live outside it.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tls/cert/ca.h"
#include "tls/tls.h"

enum { PAIRS = 3000, WARM = 500 };

static struct sw_tls *make(bool server, struct sw_tls_cred *cred, const struct sw_slice *expect)
{
    struct sw_tls_params p = {
        .server = server, .cred = cred, .alpn = "h2", .expect = expect, .n_expect = server ? 0 : 1};
    struct sw_err err = {0};
    struct sw_tls *t = sw_tls_new(&p, &err);

    if (!t) {
        (void)fprintf(stderr, "tlsmem: %s\n", err.msg);
        exit(1);
    }
    return t;
}

/* One step of one side; what it wants to send is appended to 'out'. */
static int step(struct sw_tls *t, struct sw_buf *in, struct sw_buf *out)
{
    struct sw_err err = {0};
    size_t used = 0;
    int rc = sw_tls_handshake(t, sw_buf_slice(in), &used, out, &err);

    sw_buf_consume(in, used);
    if (rc != SW_OK && rc != SW_EAGAIN) {
        (void)fprintf(stderr, "tlsmem: %s\n", err.msg);
        exit(1);
    }
    return rc;
}

static void handshake(struct sw_tls *c, struct sw_tls *s)
{
    SW_BUF_AUTO to_server = {.max = 1 << 20};
    SW_BUF_AUTO to_client = {.max = 1 << 20};
    int client = step(c, &to_client, &to_server);
    int server = SW_EAGAIN;

    for (int i = 0; i < 10 && (client != SW_OK || server != SW_OK); i++) {
        if (server != SW_OK)
            server = step(s, &to_server, &to_client);
        if (client != SW_OK)
            client = step(c, &to_client, &to_server);
    }
    if (client != SW_OK || server != SW_OK)
        exit(1);
}

static double resident(void)
{
    long size = 0;
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f || fscanf(f, "%ld %ld", &size, &pages) != 2)
        exit(1);
    (void)fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

int main(void)
{
    static struct sw_tls *all[2 * PAIRS];
    struct sw_slice id = SW_SLICE_LIT("spiffe://cluster.local/ns/bench/sa/bench");
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    struct sw_ca_leaf leaf = {.id = id};
    struct sw_tls_cred *cred = ca ? sw_ca_issue_cred(ca, &leaf, sw_slice("", 0), &err) : NULL;
    double before = 0;

    if (!cred) {
        (void)fprintf(stderr, "tlsmem: %s\n", err.msg);
        return 1;
    }
    for (size_t i = 0; i < PAIRS; i++) {
        all[2 * i] = make(false, cred, &id);
        all[2 * i + 1] = make(true, cred, NULL);
        handshake(all[2 * i], all[2 * i + 1]);
        if (i + 1 == WARM) /* caches, tables and the heap's own slack are filled by now */
            before = resident();
    }
    (void)printf("{\"mode\":\"tlsmem\",\"bytes\":%.0f}\n",
                 (resident() - before) / (2 * (PAIRS - WARM)));
    return 0;
}
