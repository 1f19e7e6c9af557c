/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves the state from the control plane, and loads it at the next start. Loaded state is in force
 * until the API sends another: a list it sends replaces the whole of ours.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/connector_int.h"
#include "connector/memo.h"

/* A start brings several changes at once. */
#define SAVE_NS (200 * SW_NS_PER_MS)

static char *memo_path(const struct sw_connector *c)
{
    return sw_asprintf("%s/known", c->data);
}

static void save(struct sw_connector *c)
{
    SW_BUF_AUTO text = {.max = SW_MEMO_MAX};
    SW_AUTO_FREE char *path = memo_path(c);
    struct sw_memo m = {.id = *sw_rawkey_id(c->key),
                        .server = sw_slice_str(c->server),
                        .ns = sw_slice_str(c->ns),
                        .connector = sw_slice_str(c->name),
                        .relay = sw_slice_str(c->config->relay ? NULL : c->home.url),
                        .gateways = c->admit.peers_named,
                        .allow = c->admit.allow};
    struct sw_addr bound[2];
    struct sw_err err = {0};
    uint64_t sum;
    int rc;

    m.n_ports = sw_quic_bound(c->quic, bound);
    for (size_t i = 0; i < m.n_ports; i++)
        m.ports[i] = bound[i].port;
    rc = sw_memo_write(&m, c->admit.allow_fixed.entries.n, &text);
    sum = sw_siphash13(1, 2, sw_buf_data(&text), sw_buf_len(&text));
    if (rc == SW_OK && sum == c->state.saved)
        return;
    if (rc == SW_OK)
        rc = sw_file_write(path, sw_buf_slice(&text), 0600, true, &err);
    else
        (void)sw_err_set(&err, rc, "too large");
    if (rc == SW_OK)
        c->state.saved = sum;
    else
        sw_log_warn("connector", "cannot save the control plane's state to '%s': %s", path,
                    err.msg);
}

static void on_save(struct sw_timer *t)
{
    save(SW_CONTAINER_OF(t, struct sw_connector, state.save));
}

void connector_remember(struct sw_connector *c)
{
    if (c->reg && !sw_timer_running(&c->state.save))
        sw_timer_start(c->loop, &c->state.save, SAVE_NS, on_save);
}

void connector_remember_now(struct sw_connector *c)
{
    if (!sw_timer_running(&c->state.save))
        return;
    sw_timer_stop(c->loop, &c->state.save);
    save(c);
}

/* Rights of another device or another fabric are none of ours. */
static const char *why_not(const struct sw_connector *c)
{
    const struct sw_memo *m = &c->known;

    if (!sw_nodeid_eq(&m->id, sw_rawkey_id(c->key)))
        return "saved for another device key";
    if (!sw_slice_eq_str(m->server, c->server))
        return "saved from another API server";
    if (!sw_slice_eq_str(m->ns, c->ns))
        return "saved for another namespace";
    return NULL;
}

void connector_recall(struct sw_connector *c)
{
    SW_AUTO_FREE char *path = memo_path(c);
    struct sw_err err = {0};
    const char *why;
    int rc = c->client ? sw_memo_load(path, &c->known, &err) : SW_ENOENT;

    if (rc == SW_ENOENT)
        return;
    why = rc == SW_OK ? why_not(c) : err.msg;
    if (!why)
        return;
    sw_memo_done(&c->known);
    sw_log_warn("connector", "saved state '%s' ignored: %s", path, why);
    sw_metric_count(c->meter.shard, SW_METRIC_REFUSALS, "memo");
}

void connector_use_known(struct sw_connector *c)
{
    const struct sw_memo *m = &c->known;

    if (m->connector.n) {
        c->name = sw_slice_dup(m->connector);
        sw_log_info("connector",
                    "API unreachable, using the saved state of Connector '%s': %zu gateways, "
                    "%zu destinations",
                    c->name, m->gateways.ids.n, m->allow.entries.n);
    }
    connector_admit_peers(c, &m->gateways);
    connector_allow(c, &m->allow);
}
