/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of links as a program, for system tests: runs against the server of a kubeconfig
 * until SIGTERM, and prints a line of JSON with the names of all resources whenever they changed,
 * and one with the hash of the facts when there are new ones.
 *
 *     link_driver KUBECONFIG direct|pair [ADDRESS...]
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "control/link/controller.h"
#include "control/link/facts.h"
#include "io/loop.h"
#include "io/signal.h"
#include "tls/crypto/aead.h"
#include "xds/cache.h"

enum { ADDRESSES_MAX = 8 };

struct driver {
    struct sw_loop *loop;
    struct sw_kube_client *client;
    struct sw_xds_cache *cache;
    struct sw_link_controller *controller;
    struct sw_xds_listener listener;
};

static void put_names(struct sw_xds_cache *c, const char *key, const char *type)
{
    const struct sw_xds_snap *s = sw_xds_cache_get(c, sw_slice_str(type));

    (void)printf("\"%s\":[", key);
    for (size_t i = 0; i < s->n; i++)
        (void)printf("%s\"%.*s\"", i ? "," : "", SW_SLICE_ARG(s->res[i]->name));
    (void)printf("],");
}

static void on_change(struct sw_xds_listener *l)
{
    struct driver *d = SW_CONTAINER_OF(l, struct driver, listener);

    (void)printf("{");
    put_names(d->cache, "clusters", SW_XDS_CLUSTER);
    put_names(d->cache, "listeners", SW_XDS_LISTENER);
    put_names(d->cache, "secrets", SW_XDS_SECRET);
    (void)printf("\"held\":%s}\n", sw_xds_cache_held(d->cache) ? "true" : "false");
    (void)fflush(stdout);
}

static void on_gone(struct sw_xds_listener *l)
{
    (void)l;
}

static void on_facts(void *arg, struct sw_link_facts *facts)
{
    (void)arg;
    (void)printf("{\"facts\":\"%016llx\"}\n", (unsigned long long)sw_link_facts_hash(facts));
    (void)fflush(stdout);
}

static void on_signal(int signo, void *arg)
{
    struct driver *d = arg;

    (void)signo;
    sw_loop_stop(d->loop);
}

static int begin(struct driver *d, char **argv, int n, struct sw_err *err)
{
    static struct sw_slice addresses[ADDRESSES_MAX];
    struct sw_link_controller_opts o = {
        .conf = {.direct = strcmp(argv[0], "direct") == 0, .addresses = addresses},
        .cache = d->cache,
        .on_facts = on_facts,
        .arg = d,
        .threaded = true};

    for (int i = 1; i < n && i <= ADDRESSES_MAX; i++)
        addresses[o.conf.n_addresses++] = sw_slice_str(argv[i]);
    d->controller = sw_link_controller_new(d->client, &o, err);
    if (!d->controller)
        return err->rc;
    d->listener.on_change = on_change;
    d->listener.on_gone = on_gone;
    sw_xds_cache_listen(d->cache, &d->listener);
    sw_link_controller_set_identity(d->controller, SW_SLICE_LIT("chain"), SW_SLICE_LIT("key"),
                                    SW_SLICE_LIT("ca"));
    sw_link_controller_set_reach(
        d->controller,
        SW_SLICE_LIT("{\"peers\":{\"east\":{\"reachable\":true,\"labels\":{\"zone\":\"a\"}}}}"));
    sw_link_controller_start(d->controller);
    return SW_OK;
}

int main(int argc, char **argv)
{
    static const int signos[] = {SIGTERM, SIGINT};
    struct driver d = {0};
    struct sw_kube_config cfg = {0};
    struct sw_signals *signals;
    struct sw_err err = {0};
    int rc = SW_EINVAL;

    if (argc < 3 || sw_aead_init(SW_AEAD_AUTO, &err) != SW_OK)
        return 2;
    d.loop = sw_loop_new(&err);
    d.cache = sw_xds_cache_new();
    signals = sw_signals_new(d.loop, signos, 2, on_signal, &d, &err);
    if (sw_kube_config_find(argv[1], NULL, &cfg, &err) == SW_OK)
        d.client = sw_kube_client_new(d.loop, &cfg, NULL, &err);
    if (d.client)
        rc = begin(&d, argv + 2, argc - 2, &err);
    if (rc == SW_OK)
        sw_loop_run(d.loop);
    else
        (void)fprintf(stderr, "link_driver: %s\n", err.msg);
    sw_link_controller_free(d.controller);
    sw_xds_cache_unlisten(&d.listener);
    sw_xds_cache_free(d.cache);
    sw_kube_client_free(d.client);
    sw_signals_free(signals);
    sw_loop_free(d.loop);
    return rc == SW_OK ? 0 : 1;
}
