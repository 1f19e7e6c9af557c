/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `gateway`, and with --sidecar-OPTION a sidecar on a thread of its own in the same process: its
 * options are those of `sidecar` with that prefix.
 */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "cmd/cmd.h"
#include "gateway/worker/gateway.h"
#include "sidecar/sidecar.h"

#define PREFIX "--sidecar-"

struct beside {
    struct sw_sidecar_config c;
    pthread_t thread;
    sem_t settled; /* it runs, or it failed */
    struct sw_sidecar_run *run;
    struct sw_err err;
};

/* The two commands' arguments, apart. Texts are borrowed or owned by the arena. */
struct args {
    char **gateway;
    char **sidecar;
    int n_gateway;
    int n_sidecar;
};

/* True when the option, given without '=', takes the next argument. */
static bool takes_value(const char *name)
{
    for (size_t i = 0; i < sw_sidecar_options.n; i++) {
        const struct sw_opt *o = &sw_sidecar_options.opts[i];

        if (o->name && strcmp(o->name, name) == 0)
            return o->type != SW_OPT_BOOL;
    }
    return strcmp(name, "config") == 0;
}

static void split(struct sw_arena *a, int argc, char **argv, struct args *ret)
{
    char name[] = "gateway --sidecar";

    ret->gateway = sw_arena_array(a, (size_t)argc + 1, sizeof(char *));
    ret->sidecar = sw_arena_array(a, (size_t)argc + 1, sizeof(char *));
    ret->gateway[ret->n_gateway++] = argv[0];
    ret->sidecar[ret->n_sidecar++] = sw_arena_dup(a, sw_slice_str(name));
    for (int i = 1; i < argc; i++) {
        const char *rest = argv[i] + strlen(PREFIX);

        if (strncmp(argv[i], PREFIX, strlen(PREFIX)) != 0) {
            ret->gateway[ret->n_gateway++] = argv[i];
            continue;
        }
        ret->sidecar[ret->n_sidecar++] = sw_arena_printf(a, "--%s", rest);
        if (takes_value(rest) && i + 1 < argc)
            ret->sidecar[ret->n_sidecar++] = argv[++i];
    }
}

static void on_started(void *arg, struct sw_sidecar_run *run)
{
    struct beside *b = arg;

    b->run = run;
    (void)sem_post(&b->settled);
}

static void *thread_main(void *arg)
{
    struct beside *b = arg;

    (void)!sw_sidecar_run(&b->c, false, on_started, b, &b->err); /* err says why */
    if (!b->run)
        (void)sem_post(&b->settled);
    return NULL;
}

/* Returns when the sidecar listens. */
static int start_sidecar(struct beside *b, struct sw_err *err)
{
    int rc = sw_thread_start(&b->thread, thread_main, b, "sw-sidecar");

    if (rc != 0)
        return sw_err_sys(err, rc, "cannot start the sidecar's thread");
    while (sem_wait(&b->settled) != 0)
        continue;
    if (b->run)
        return SW_OK;
    (void)pthread_join(b->thread, NULL);
    *err = b->err;
    return sw_err_prefix(err, "sidecar");
}

static int run(const struct sw_gateway_config *c, struct beside *b, struct sw_err *err)
{
    int rc = b ? start_sidecar(b, err) : SW_OK;

    if (rc != SW_OK)
        return rc;
    rc = sw_gateway_run(c, err);
    if (b) { /* after the gateway: its last requests need it */
        sw_sidecar_stop(b->run);
        (void)pthread_join(b->thread, NULL);
    }
    return rc;
}

int sw_cmd_gateway(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_gateway_config c;
    struct beside b = {0};
    struct sw_err err = {0};
    struct args args = {0};
    int status;
    int rc;

    split(&arena, argc, argv, &args);
    (void)sem_init(&b.settled, 0, 0);
    rc = sw_gateway_config_read(&c, args.n_gateway, args.gateway, &err);
    if (rc == SW_OK && args.n_sidecar > 1)
        rc = sw_sidecar_config_read(&b.c, args.n_sidecar, args.sidecar, &err);
    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.process.log_level, c.process.log_format, &err);
    if (rc == SW_OK)
        rc = run(&c, args.n_sidecar > 1 ? &b : NULL, &err);
    status = sw_cmd_end(&sw_gateway_options, rc, &err);
    sw_gateway_config_done(&c);
    sw_sidecar_config_done(&b.c);
    (void)sem_destroy(&b.settled);
    return status;
}
