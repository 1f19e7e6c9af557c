/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a node to a request that came over HTTP/1.1: in the framing the client understands,
 * the bytes of a tunnel, datagrams, and failures.
 */
#include "sidecar/down_h1_int.h"

static int put_answer(struct h1c *c, const struct sw_h1_msg *m, bool upgraded)
{
    int rc = sw_h1_put_status(&c->out, m->status, m->reason, 1);

    for (size_t i = 0; i < m->nfields && rc == SW_OK; i++) {
        struct sw_slice name = m->fields[i].name;

        if (sw_h1_is_hop_by_hop(m, name) || sw_slice_ieq(name, SW_SLICE_LIT("content-length")))
            continue;
        rc = sw_h1_put_field(&c->out, name, m->fields[i].value);
    }
    if (rc == SW_OK && c->log.why[0] && !sw_h1_field(m, SIDE_REASON))
        rc = sw_h1_put_field_str(&c->out, SIDE_REASON, c->log.why);
    if (rc == SW_OK && upgraded) {
        rc = sw_buf_append_str(&c->out, "connection: upgrade\r\n");
        if (rc == SW_OK)
            rc = sw_h1_put_field(&c->out, SW_SLICE_LIT("upgrade"), c->req.protocol);
    } else if (rc == SW_OK && c->length) {
        rc = sw_buf_printf(&c->out, "content-length: %llu\r\n", (unsigned long long)c->left);
    } else if (rc == SW_OK && c->chunked) {
        rc = sw_buf_append_str(&c->out, "transfer-encoding: chunked\r\n");
    }
    if (rc == SW_OK && !upgraded && !c->keep)
        rc = sw_buf_append_str(&c->out, "connection: close\r\n");
    return rc == SW_OK ? sw_h1_put_end(&c->out) : rc;
}

/* Framing of the answer's body for the client. */
static void frame_answer(struct h1c *c, const struct sw_h1_msg *m)
{
    const struct sw_slice *cl = sw_h1_field(m, "content-length");

    c->no_body = c->req.head_only || m->status == 204 || m->status == 304;
    c->length = cl && sw_slice_to_u64(*cl, UINT64_MAX >> 1, &c->left);
    if (c->req.kind == SIDE_CONNECT) { /* a refusal: its body is none of the client's business */
        c->length = true;
        c->left = 0;
        c->no_body = true;
    }
    c->chunked = !c->length && !c->no_body && c->minor1;
    if (!c->length && !c->no_body && !c->minor1)
        c->keep = false;
}

static void on_pump_done(struct sw_qpump *p, int rc)
{
    struct h1c *c = SW_CONTAINER_OF(p, struct h1c, pump);

    if (rc == SW_OK) /* the stream ends by itself: what is on its way must arrive */
        sw_qcall_release(&c->call);
    side_h1_kill(c, false, rc == SW_OK ? NULL : rc == SW_ETIME ? "idle" : "reset");
}

/* The connection is the tunnel from now on. */
static void start_pump(struct h1c *c)
{
    struct sw_dialled d = {.fd = c->io.watch.fd, .events = c->io.hup ? SW_HUP : 0};

    sw_timer_stop(c->s->loop, &c->timer);
    sw_conn_release(&c->io, &d.watch);
    sw_buf_done(&c->out);
    sw_h1_free(c->parser);
    c->parser = NULL;
    c->state = H1_TUNNEL;
    sw_qpump_start_dialled(&c->pump, c->s->loop, sw_qcall_stream(&c->call), &d,
                           c->s->c->tunnel_idle_ns, on_pump_done);
    if (c->fin_waits)
        (void)sw_qpump_data(&c->pump, NULL, 0, true);
    else if (c->data_waits)
        sw_qcall_resume(&c->call);
}

void side_h1_step_early(struct h1c *c)
{
    if (sw_conn_unused(&c->io))
        sw_conn_resume(&c->io); /* comes again when they are taken */
    else if (sw_conn_flush(&c->io))
        start_pump(c);
}

static void enter_tunnel(struct h1c *c)
{
    c->state = H1_EARLY;
    if (c->s->c->tunnel_idle_ns)
        sw_timer_start(c->s->loop, &c->timer, c->s->c->tunnel_idle_ns, side_h1_on_timer);
    side_h1_continue(c);
}

static struct h1c *of(struct sw_qcall *q)
{
    return SW_CONTAINER_OF(q, struct h1c, call);
}

/*
 * A Unix socket cannot be reset. The header promises the gateway that each direction of a tunnel
 * ends with a half-close (the pump shuts its side down and waits for the other), so that a plain
 * close is a break.
 */
static const char established[] = "HTTP/1.1 200 Connection Established\r\n"
                                  "x-spanwire-half-close: ?1\r\n\r\n";

static void on_answered(struct sw_qcall *q, const struct sw_h1_msg *m)
{
    struct h1c *c = of(q);
    bool tunnel = c->req.kind == SIDE_CONNECT ? m->status / 100 == 2
                                              : c->req.kind != SIDE_ORIGIN && m->status == 101;
    int rc;

    c->answered = true;
    side_answered(c->s, &c->log, m);
    if (!tunnel) {
        if (m->status == 101) {
            side_h1_kill(c, true, "bad_answer");
            return;
        }
        frame_answer(c, m);
    }
    rc = tunnel && c->req.kind == SIDE_CONNECT ? sw_buf_append_str(&c->out, established)
                                               : put_answer(c, m, tunnel);
    if (rc != SW_OK) {
        side_h1_kill(c, true, "bad_answer");
    } else if (tunnel && q->datagrams) {
        c->state = H1_UDP;
        side_h1_continue(c);
    } else if (tunnel) {
        enter_tunnel(c);
    }
    if (rc == SW_OK && !tunnel)
        (void)side_h1_flush(c);
}

static void answer_done(struct h1c *c)
{
    if (c->chunked)
        (void)!sw_h1_put_last_chunk(&c->out);
    if (!c->req_done || c->req.kind != SIDE_ORIGIN)
        c->keep = false; /* the rest of the request is not wanted, and in the way */
    else
        sw_qcall_release(&c->call);
    side_h1_close_books(c, NULL);
    side_h1_next_request(c);
}

/* How many bytes io took. */
static size_t write_body(struct h1c *c, const uint8_t *p, size_t n)
{
    size_t done = 0;

    while (done < n && side_h1_flush(c)) {
        size_t k = sw_min(n - done, H1_CHUNK);

        if (!c->chunked) {
            size_t w = sw_conn_write(&c->io, sw_slice(p + done, n - done));

            return done + w;
        }
        if (sw_h1_put_chunk(&c->out, sw_slice(p + done, k)) != SW_OK)
            break;
        done += k;
    }
    return done;
}

static size_t take_answer(struct h1c *c, const uint8_t *p, size_t n, bool fin)
{
    size_t done = n;

    if (c->length && !c->no_body && n > c->left) {
        side_h1_kill(c, true, "bad_answer");
        return n;
    }
    if (!c->no_body) {
        done = write_body(c, p, n);
        if (c->length)
            c->left -= done;
    }
    c->log.down += done;
    if (done < n) {
        c->blocked = true;
    } else if (fin && c->length && c->left && !c->no_body) {
        side_h1_kill(c, true, "answer_cut");
    } else if (fin) {
        answer_done(c);
    } else {
        (void)side_h1_flush(c);
    }
    return done;
}

/* Capsules of the node: what came too large for a datagram, and the end. */
static size_t take_capsules(struct h1c *c, const uint8_t *p, size_t n, bool fin)
{
    size_t done = write_body(c, p, n);

    c->log.down += done;
    c->blocked = done < n;
    if (fin && !c->blocked)
        side_h1_close_lingering(c);
    return done;
}

static void on_datagram(struct sw_qcall *q, const uint8_t *p, size_t n)
{
    struct h1c *c = of(q);
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    size_t k = sw_capsule_udp_head(head, n);

    if (c->state != H1_UDP || c->blocked || !side_h1_flush(c) ||
        sw_conn_unsent(&c->io) + k + n > H1_OUT_MAX)
        return; /* a slow reader loses it, as with any UDP */
    sw_conn_put(&c->io, head, k);
    sw_conn_put(&c->io, p, n);
    c->log.down += n;
}

static size_t on_data(struct sw_qcall *q, const uint8_t *p, size_t n, bool fin)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL)
        return sw_qpump_data(&c->pump, p, n, fin);
    if (c->state == H1_EARLY) {
        c->fin_waits = fin && n == 0;
        c->data_waits = n > 0;
        return 0;
    }
    if (c->state == H1_UDP)
        return take_capsules(c, p, n, fin);
    if (c->state != H1_CALL)
        return n;
    return take_answer(c, p, n, fin);
}

static void on_writable(struct sw_qcall *q)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL)
        sw_qpump_writable(&c->pump);
    else if (c->state == H1_CALL || c->state == H1_EARLY)
        sw_conn_resume_now(&c->io); /* an answer right behind finds the request complete */
}

static void on_stopped(struct sw_qcall *q)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL || c->state == H1_EARLY)
        side_h1_kill(c, true, "node_stopped");
    /* Otherwise the answer decides. */
}

static void on_ended(struct sw_qcall *q, enum sw_qfail why, const char *text)
{
    struct h1c *c = of(q);
    struct side_failure f = side_failure_of(why);

    if (c->state == H1_TUNNEL || c->state == H1_UDP || c->state == H1_EARLY) {
        side_h1_kill(c, why != SW_QFAIL_NONE, why == SW_QFAIL_NONE ? NULL : sw_qfail_text(why));
        return;
    }
    if (c->state != H1_CALL)
        return;
    side_failed(c->s, &c->log, why);
    if (c->answered) {
        side_h1_kill(c, true, sw_qfail_text(why));
        return;
    }
    c->log.status = f.status;
    c->keep = c->keep && c->req_done;
    side_h1_put_error(c, f.status, sw_qfail_text(why), f.proxy_error,
                      text[0] ? text : sw_qfail_text(why));
    if (c->state == H1_DEAD)
        return;
    side_h1_close_books(c, sw_qfail_text(why));
    side_h1_next_request(c);
}

const struct sw_qcall_ops side_h1_call_ops = {
    .answered = on_answered,
    .data = on_data,
    .writable = on_writable,
    .stopped = on_stopped,
    .datagram = on_datagram,
    .ended = on_ended,
};
