/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a site's control plane whether a client may use an import, one question after the other,
 * as the data plane asks for each new connection: the answer has been through both sites.
 *
 *   linkask IP:PORT SITE spanwire|clusterlink CLIENT NAMESPACE/IMPORT SECONDS
 *
 * SITE holds ca.pem, dataplane.pem and dataplane.key. Prints one JSON line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "io/filewatch.h"
#include "link/control.h"
#include "tls/cert/cred.h"

enum { WARM_UP = 50, MOST = 1 << 22 };

static struct {
    struct sw_loop *loop;
    struct link_control *control;
    struct link_question question;
    struct link_ask ask;
    uint64_t asked_ns;
    uint64_t first_ns; /* after the warm-up */
    uint64_t secs_ns;
    unsigned warm;
    SW_VEC(uint64_t) took;
} g;

static void fail(const char *why, struct sw_slice detail)
{
    (void)printf("{\"mode\":\"ask\",\"error\":\"%s %.*s\"}\n", why,
                 (int)(detail.n > 200 ? 200 : detail.n), detail.p);
    exit(1);
}

static void must(int rc, const struct sw_err *err)
{
    if (rc != SW_OK)
        fail("cannot start:", sw_slice_str(err->msg));
}

static void on_answer(struct link_ask *a, const struct link_answer *answer);

static void ask(void)
{
    g.asked_ns = sw_now_ns();
    if (link_ask_start(g.control, &g.ask, &g.question, on_answer) != SW_OK)
        fail("too many questions", sw_slice("", 0));
}

static void on_answer(struct link_ask *a, const struct link_answer *answer)
{
    uint64_t now = sw_now_ns();

    (void)a;
    if (answer->status != 200 || !answer->authorization.n)
        fail("refused", sw_slice("", 0));
    if (g.warm < WARM_UP) {
        g.warm++;
        g.first_ns = now;
    } else {
        sw_vec_push(&g.took, now - g.asked_ns);
    }
    if (g.took.n < MOST && now - g.first_ns < g.secs_ns)
        ask();
    else
        sw_loop_stop(g.loop);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double percentile_us(unsigned percent)
{
    return (double)g.took.p[(g.took.n - 1) * percent / 100] / 1e3;
}

static struct sw_tls_cred *load(const char *dir)
{
    static const char *const files[] = {"ca.pem", "dataplane.pem", "dataplane.key"};
    struct sw_slice text[3] = {{0}};
    struct sw_tls_cred *cred;
    struct sw_err err = {0};

    for (int i = 0; i < 3; i++) {
        SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, files[i]);

        must(sw_file_read(path, 1 << 16, &text[i], &err), &err);
    }
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .roots = text[0], .chain = text[1], .key = text[2], .any_identity = true},
        &err);
    if (!cred)
        must(SW_EPROTO, &err);
    for (int i = 0; i < 3; i++)
        sw_slice_free(&text[i]);
    return cred;
}

int main(int argc, char **argv)
{
    struct link_control_opts o = {.tls_name = SW_SLICE_LIT("cl-controlplane"),
                                  .timeout_ns = 5 * SW_NS_PER_S};
    struct sw_slice import;
    struct sw_err err = {0};

    if (argc != 7)
        return 2;
    o.loop = g.loop = sw_loop_new(&err);
    must(o.loop ? SW_OK : SW_ESYS, &err);
    must(sw_authority_split(sw_slice_str(argv[1]), &o.host, &o.port, &err), &err);
    o.cred = load(argv[2]);
    o.clusterlink = strcmp(argv[3], "clusterlink") == 0;
    import = sw_slice_str(argv[5]);
    g.question.kind = LINK_ASK_EGRESS;
    must(sw_ip_parse(sw_slice_str(argv[4]), &g.question.client, &err), &err);
    g.question.ns = sw_slice_cut(&import, '/');
    g.question.name = import;
    g.secs_ns = (uint64_t)(strtod(argv[6], NULL) * 1e9);
    g.control = link_control_new(&o, &err);
    must(g.control ? SW_OK : SW_ESYS, &err);
    ask();
    sw_loop_run(g.loop);
    if (!g.took.n)
        fail("no answer in time", sw_slice("", 0));
    qsort(g.took.p, g.took.n, sizeof(*g.took.p), compare);
    (void)printf("{\"mode\":\"ask\",\"n\":%zu,\"rate\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
                 g.took.n, (double)g.took.n / ((double)(sw_now_ns() - g.first_ns) / 1e9),
                 percentile_us(50), percentile_us(99));
    return 0;
}
