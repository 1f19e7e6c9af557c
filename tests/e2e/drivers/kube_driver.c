/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library as a program, for system tests: does one thing against the server of a
 * kubeconfig and prints one line of JSON per event until SIGTERM.
 *
 *     kube_driver KUBECONFIG informer GROUP VERSION RESOURCE NAMESPACED [plain]
 *     kube_driver KUBECONFIG verbs
 *     kube_driver KUBECONFIG lease NAMESPACE NAME IDENTITY [SECONDS]
 *     kube_driver KUBECONFIG trust PEM-FILE LEASE IDENTITY
 *     kube_driver KUBECONFIG event NAMESPACE CONFIGMAP COUNT
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/runtime.h"
#include "control/trust.h"
#include "io/signal.h"
#include "kube/client/events.h"
#include "kube/client/informer.h"
#include "kube/client/lease.h"
#include "tls/crypto/aead.h"

struct driver {
    struct sw_loop *loop;
    struct sw_kube_client *client;
    struct sw_kube_gvr gvr;
    struct sw_informer *informer;
    struct sw_lease *lease;
    struct sw_trust *trust;
    struct sw_recorder *recorder;
    int step;
    int left;
    const char *ns;
    const char *name;
};

static const struct sw_kube_gvr cms = {"", "v1", "configmaps", "ConfigMap", true};

static void line(const char *what, struct sw_slice key, struct sw_slice rv)
{
    (void)printf("{\"ev\":\"%s\",\"key\":\"%.*s\",\"rv\":\"%.*s\"}\n", what, SW_SLICE_ARG(key),
                 SW_SLICE_ARG(rv));
    (void)fflush(stdout);
}

/* --- informer --- */

static void on_add(void *arg, struct sw_kube_obj *o)
{
    (void)arg;
    line("add", o->key, o->rv);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    (void)arg;
    (void)old;
    line("update", now->key, now->rv);
}

static void on_del(void *arg, struct sw_kube_obj *last)
{
    (void)arg;
    line("del", last->key, last->rv);
}

static void on_synced(void *arg)
{
    (void)arg;
    line("synced", SW_SLICE_LIT(""), SW_SLICE_LIT(""));
}

static void run_informer(struct driver *d, char **argv, int n)
{
    static const struct sw_informer_cbs cbs = {
        .add = on_add, .update = on_update, .del = on_del, .synced = on_synced};
    struct sw_informer_opts o = {.gvr = &d->gvr, .page = 100};

    d->gvr = (struct sw_kube_gvr){argv[0], argv[1], argv[2], "", argv[3][0] == '1'};
    o.plain_list = n > 4;
    d->informer = sw_informer_new(d->client, &o, &cbs, d);
    sw_informer_start(d->informer);
}

/* --- verbs: one after the other, each answer printed --- */

static void next_verb(struct driver *d);

static void on_reply(void *arg, struct sw_kube_reply *r)
{
    struct driver *d = arg;
    SW_ARENA_AUTO a = {0};
    struct sw_json *o = sw_json_new_object(&a);

    sw_json_put(&a, o, "step", sw_json_new_i64(&a, d->step));
    sw_json_put(&a, o, "code", sw_json_new_i64(&a, r->code));
    sw_json_put_str(&a, o, "reason", r->reason);
    sw_json_put_str(&a, o, "message", r->message);
    if (r->object)
        sw_json_put(&a, o, "object", sw_json_copy(&a, r->object));
    (void)printf("%s\n", sw_json_text(&a, o, NULL).p);
    (void)fflush(stdout);
    d->step++;
    next_verb(d);
}

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL) != SW_OK)
        abort();
    return v;
}

#define NAMED(rest)                                                                                \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"driver\","             \
    "\"namespace\":\"default\"" rest

static void next_verb(struct driver *d)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_slice ns = SW_SLICE_LIT("default");
    const struct sw_slice name = SW_SLICE_LIT("driver");
    struct sw_kube_req patch = {
        .verb = SW_KUBE_PATCH, .gvr = &cms, .ns = ns, .name = name, .field_manager = "driver"};

    switch (d->step) {
    case 0:
        (void)sw_kube_do(d->client, &(struct sw_kube_req){.path = "/version"}, on_reply, d);
        break;
    case 1:
    case 2: /* AlreadyExists */
        (void)sw_kube_create(d->client, &cms, parse(&a, NAMED("},\"data\":{\"a\":\"1\"}}")),
                             on_reply, d);
        break;
    case 3:
        (void)sw_kube_get(d->client, &cms, ns, name, on_reply, d);
        break;
    case 4: /* Conflict */
        (void)sw_kube_update(d->client, &cms,
                             parse(&a, NAMED(",\"resourceVersion\":\"1\"},\"data\":{}}")), NULL,
                             on_reply, d);
        break;
    case 5:
        patch.patch = SW_KUBE_PATCH_MERGE;
        patch.body = parse(&a, "{\"data\":{\"b\":\"2\"}}");
        (void)sw_kube_do(d->client, &patch, on_reply, d);
        break;
    case 6:
        patch.patch = SW_KUBE_PATCH_JSON;
        patch.body = parse(&a, "[{\"op\":\"remove\",\"path\":\"/data/a\"}]");
        (void)sw_kube_do(d->client, &patch, on_reply, d);
        break;
    case 7:
        patch.patch = SW_KUBE_PATCH_STRATEGIC;
        patch.body = parse(&a, "{\"metadata\":{\"labels\":{\"l\":\"v\"}}}");
        (void)sw_kube_do(d->client, &patch, on_reply, d);
        break;
    case 8: /* FieldManagerConflict: b is the driver's */
        (void)sw_kube_apply(
            d->client,
            &(struct sw_kube_apply){.gvr = &cms,
                                    .obj = parse(&a, NAMED("},\"data\":{\"b\":\"3\"}}")),
                                    .manager = "other"},
            on_reply, d);
        break;
    case 9:
        (void)sw_kube_apply(
            d->client,
            &(struct sw_kube_apply){.gvr = &cms,
                                    .obj = parse(&a, NAMED("},\"data\":{\"b\":\"3\"}}")),
                                    .manager = "other",
                                    .force = true},
            on_reply, d);
        break;
    case 10:
        (void)sw_kube_do(d->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_LIST,
                                               .gvr = &cms,
                                               .ns = ns,
                                               .label_selector = "l in (v,w)",
                                               .limit = 10},
                         on_reply, d);
        break;
    case 11: /* a precondition that fails */
        (void)sw_kube_do(d->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &cms,
                                               .ns = ns,
                                               .name = name,
                                               .propagation = "Background",
                                               .if_uid = SW_SLICE_LIT("nobody")},
                         on_reply, d);
        break;
    case 12:
        (void)sw_kube_do(d->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &cms,
                                               .ns = ns,
                                               .name = name,
                                               .propagation = "Background"},
                         on_reply, d);
        break;
    case 13: /* NotFound */
        (void)sw_kube_get(d->client, &cms, ns, name, on_reply, d);
        break;
    default:
        sw_loop_stop(d->loop);
        break;
    }
}

/* --- lease, trust, events --- */

static void on_led(void *arg)
{
    (void)arg;
    line("led", SW_SLICE_LIT(""), SW_SLICE_LIT(""));
}

static void on_lost(void *arg)
{
    (void)arg;
    line("lost", SW_SLICE_LIT(""), SW_SLICE_LIT(""));
}

static int run_lease(struct driver *d, char **argv, int n, struct sw_err *err)
{
    uint64_t seconds = 4;
    struct sw_lease_opts o = {.ns = sw_slice_str(argv[0]),
                              .name = sw_slice_str(argv[1]),
                              .identity = sw_slice_str(argv[2]),
                              .retry_ns = SW_NS_PER_S / 2,
                              .led = on_led,
                              .lost = on_lost,
                              .arg = d};

    if (n > 3 && !sw_slice_to_u64(sw_slice_str(argv[3]), 86400, &seconds))
        return sw_err_set(err, SW_EINVAL, "no number of seconds");
    o.duration_s = (uint32_t)seconds;
    o.renew_deadline_ns = (seconds - 1) * SW_NS_PER_S;
    d->lease = sw_lease_new(d->client, &o, err);
    if (!d->lease)
        return SW_EINVAL;
    sw_lease_start(d->lease);
    return SW_OK;
}

static int run_trust(struct driver *d, char **argv, struct sw_err *err)
{
    struct sw_slice pem = {0};
    struct sw_trust_opts o = {.threaded = true,
                              .election = sw_control_election("kube-system", argv[1], argv[2])};

    if (sw_file_read(argv[0], 1 << 20, &pem, err) != SW_OK)
        return SW_EINVAL;
    o.pem = pem;
    d->trust = sw_trust_new(d->client, &o, err);
    sw_free((void *)(uintptr_t)pem.p);
    if (!d->trust)
        return SW_EINVAL;
    sw_trust_start(d->trust);
    return SW_OK;
}

static void on_about(void *arg, struct sw_kube_reply *r)
{
    struct driver *d = arg;

    for (; r->object && d->left; d->left--)
        sw_recorder_event(d->recorder, &(struct sw_event_about){r->object, "v1", "ConfigMap"},
                          SW_EVENT_NORMAL, "Tested", "it works");
}

static void run_event(struct driver *d, char **argv)
{
    d->recorder = sw_recorder_new(d->client, "driver", "");
    d->left = (int)strtol(argv[2], NULL, 10);
    (void)sw_kube_get(d->client, &cms, sw_slice_str(argv[0]), sw_slice_str(argv[1]), on_about, d);
}

/* --- the program --- */

static void on_end(void *arg)
{
    sw_loop_stop(((struct driver *)arg)->loop);
}

static void on_signal(int signo, void *arg)
{
    struct driver *d = arg;

    (void)signo;
    if (d->lease)
        sw_lease_release(d->lease, on_end, d);
    else if (d->trust)
        sw_trust_stop(d->trust, on_end, d);
    else
        sw_loop_stop(d->loop);
}

static int begin(struct driver *d, const char *what, char **argv, int n, struct sw_err *err)
{
    if (strcmp(what, "informer") == 0 && n >= 4) {
        run_informer(d, argv, n);
        return SW_OK;
    }
    if (strcmp(what, "verbs") == 0) {
        next_verb(d);
        return SW_OK;
    }
    if (strcmp(what, "lease") == 0 && n >= 3)
        return run_lease(d, argv, n, err);
    if (strcmp(what, "trust") == 0 && n == 3)
        return run_trust(d, argv, err);
    if (strcmp(what, "event") == 0 && n == 3) {
        run_event(d, argv);
        return SW_OK;
    }
    return sw_err_set(err, SW_EINVAL, "usage: see the source");
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
    signals = sw_signals_new(d.loop, signos, 2, on_signal, &d, &err);
    if (sw_kube_config_find(argv[1], NULL, &cfg, &err) == SW_OK)
        d.client = sw_kube_client_new(d.loop, &cfg, NULL, &err);
    if (d.client)
        rc = begin(&d, argv[2], argv + 3, argc - 3, &err);
    if (rc == SW_OK)
        sw_loop_run(d.loop);
    else
        (void)fprintf(stderr, "kube_driver: %s\n", err.msg);
    sw_informer_free(d.informer);
    sw_lease_free(d.lease);
    sw_trust_free(d.trust);
    sw_recorder_free(d.recorder);
    sw_kube_client_free(d.client);
    sw_signals_free(signals);
    sw_loop_free(d.loop);
    return rc == SW_OK ? 0 : 1;
}
