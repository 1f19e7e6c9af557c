/* SPDX-License-Identifier: Apache-2.0 */
/* Access log and metrics of a connection. */
#include "base/log.h"
#include "base/mem.h"
#include "link/link_int.h"
#include "telemetry/accesslog.h"

static const char *side(const struct link_conn *c)
{
    return c->import ? "import" : "export";
}

void link_conn_init(struct link_conn *c, struct link_worker *w, bool import,
                    const struct sw_addr *src)
{
    *c = (struct link_conn){.w = w,
                            .id = ++w->next_id,
                            .import = import,
                            .start_ns = sw_loop_now(w->loop),
                            .src = *src};
    sw_list_push_back(&w->conns, &c->link);
    w->n_conns++;
    atomic_fetch_add_explicit(&w->link->n_conns, 1, memory_order_relaxed);
}

void link_conn_set(struct sw_slice *to, struct sw_slice value)
{
    sw_slice_free(to);
    if (value.n)
        *to = sw_slice_copy(value);
}

void link_conn_asked(struct link_conn *c)
{
    c->epochs = c->w->epochs;
}

/* A review that began after the question passed this connection over: it had no grant yet. */
void link_conn_granted(struct link_conn *c, struct sw_slice grant)
{
    sw_text_set(&c->grant, grant.n ? grant : sw_slice(NULL, 0));
    if (c->grant && c->epochs != c->w->epochs)
        link_review_start(c->w->review);
}

static struct sw_metric *bytes_metric(struct link_conn *c, const char *direction)
{
    const struct sw_slice labels[3] = {sw_slice_str(side(c)), c->peer, sw_slice_str(direction)};

    return sw_metric_get(c->w->shard, SW_METRIC_LINK_BYTES, labels);
}

void link_conn_opened(struct link_conn *c)
{
    c->open = true;
    c->m_received = bytes_metric(c, "received");
    c->m_sent = bytes_metric(c, "sent");
    sw_metric_count(c->w->shard, SW_METRIC_LINK_OPEN, side(c));
}

void link_conn_moved(struct link_conn *c, size_t received, size_t sent)
{
    c->received += received;
    c->sent += sent;
    if (received && c->m_received)
        sw_metric_add(c->m_received, received);
    if (sent && c->m_sent)
        sw_metric_add(c->m_sent, sent);
}

static void log_end(const struct link_conn *c, const char *why)
{
    struct sw_access a = {
        .direction = c->import ? SW_OUTBOUND : SW_INBOUND,
        .src = {.addr = c->src, .workload = c->source},
        .dst = {.addr = c->dst},
        .dst_service = c->service,
        .link = c->peer,
        .policy = c->policy,
        .received = c->received,
        .sent = c->sent,
        .duration_ns = sw_loop_now(c->w->loop) - c->start_ns,
        .error = why,
    };

    sw_accesslog_complete(&a);
}

const char *link_refusal(const struct link_answer *a)
{
    return !a->reached ? "control_unreachable" : a->status >= 500 ? "failed" : "denied";
}

void link_conn_end(struct link_conn *c, const char *result, const char *why)
{
    struct link_worker *w = c->w;
    const struct sw_slice labels[3] = {sw_slice_str(side(c)), c->peer, sw_slice_str(result)};

    if (!sw_list_linked(&c->link))
        return;
    log_end(c, why);
    sw_metric_add(sw_metric_get(w->shard, SW_METRIC_LINK_CONNECTIONS, labels), 1);
    if (c->open)
        sw_metric_sub(sw_metric_get1(w->shard, SW_METRIC_LINK_OPEN, side(c)), 1);
    sw_list_unlink(&c->link);
    w->n_conns--;
    atomic_fetch_sub_explicit(&w->link->n_conns, 1, memory_order_relaxed);
    sw_slice_free(&c->peer);
    sw_slice_free(&c->service);
    sw_slice_free(&c->source);
    sw_slice_free(&c->policy);
    sw_free(SW_TAKE(c->grant));
}

void link_refused(struct link_worker *w, const char *reason, const struct sw_addr *from,
                  const char *detail)
{
    char at[SW_ADDR_TEXT];

    sw_metric_count(w->shard, SW_METRIC_LINK_REFUSED, reason);
    sw_log_limited(&w->refused, sw_loop_now(w->loop), SW_LOG_WARN, "link",
                   "connection of %s refused: %s: %s", sw_addr_text(from, at), reason, detail);
}

bool link_conn_room(struct link_worker *w, const struct sw_addr *from)
{
    if (atomic_load_explicit(&w->link->n_conns, memory_order_relaxed) < w->config->max_connections)
        return true;
    link_refused(w, "too_many_connections", from, "--max-connections is reached");
    return false;
}
