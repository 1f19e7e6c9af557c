/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/process.h"

#include <signal.h>

void sw_process_drain(struct sw_process *p)
{
    if (p->draining)
        return;
    p->draining = true;
    sw_ready_add(p->ready, "draining");
    if (p->opts.drain)
        p->opts.drain(p->opts.arg);
    else
        sw_crew_drain(&p->crew, p->opts.config->drain_ns);
}

static void on_signal(int signo, void *arg)
{
    struct sw_process *p = arg;

    if (signo == SIGHUP) {
        if (p->opts.reload)
            p->opts.reload(p->opts.arg);
        return;
    }
    if (p->draining && signo == SIGINT)
        sw_loop_stop(p->loop);
    sw_process_drain(p);
}

static void on_quit(void *arg)
{
    sw_process_drain(arg);
}

int sw_process_open(struct sw_process *p, const struct sw_process_opts *o, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT, SIGHUP};

    p->opts = *o;
    p->loop = sw_loop_new(err);
    if (!p->loop)
        return err->rc;
    sw_crew_init(&p->crew, o->name, p->loop);
    p->metrics = sw_metrics_new(
        &(struct sw_metrics_opts){.component = o->component ? o->component : o->name});
    p->shard = sw_metrics_shard_new(p->metrics);
    p->ready = sw_ready_new();
    sw_ready_add(p->ready, o->awaits);
    if (o->no_signals)
        return SW_OK;
    p->signals = sw_signals_new(p->loop, signos, SW_ARRAY_LEN(signos), on_signal, p, err);
    return p->signals ? SW_OK : err->rc;
}

int sw_process_open_admin(struct sw_process *p, const struct sw_admin_opts *o, struct sw_err *err)
{
    const struct sw_process_config *c = p->opts.config;
    struct sw_admin_opts all = *o;

    all.metrics = p->metrics;
    all.ready = p->ready;
    all.quit = on_quit;
    all.quit_arg = p;
    if (c) {
        all.admin[0] = c->admin_addr;
        all.access = c->access;
        all.stats = c->stats_addr;
        all.ready_at = c->ready_addr;
        all.log_filter = c->log_level;
    }
    p->admin = sw_admin_new(p->loop, &all, err);
    return p->admin ? SW_OK : err->rc;
}

void sw_process_close_admin(struct sw_process *p)
{
    sw_admin_free(p->admin);
    p->admin = NULL;
}

void sw_process_close(struct sw_process *p)
{
    sw_process_close_admin(p);
    sw_signals_free(p->signals);
    sw_loop_free(p->loop);
    if (p->shard)
        sw_metrics_shard_free(p->shard);
    sw_metrics_free(p->metrics);
    sw_ready_free(p->ready);
}
