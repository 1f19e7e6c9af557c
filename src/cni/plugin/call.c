/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugin/call.h"

#include <poll.h>

#include "base/mem.h"
#include "base/time.h"
#include "http/h1.h"
#include "io/sock.h"

enum { ANSWER_MAX = 64 << 10, CHUNK = 4096 };

static int wait_for(int fd, short events, uint64_t deadline_ns, struct sw_err *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    uint64_t now = sw_now_ns();

    if (now >= deadline_ns)
        return sw_err_set(err, SW_ETIME, "the node agent did not answer in time");
    (void)poll(&p, 1, (int)sw_min((deadline_ns - now) / SW_NS_PER_MS + 1, 60000));
    return SW_OK;
}

static int write_all(int fd, struct sw_slice left, uint64_t deadline_ns, struct sw_err *err)
{
    while (left.n) {
        ssize_t n = sw_sock_write(fd, left.p, left.n);
        int rc;

        if (n > 0) {
            left = sw_slice_from(left, (size_t)n);
            continue;
        }
        if (n != SW_EAGAIN)
            return sw_err_set(err, SW_EUNAVAIL, "the node agent closed the connection");
        rc = wait_for(fd, POLLOUT, deadline_ns, err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

/* What came of the bytes so far: SW_EAGAIN: more are needed, SW_EOF: the message is complete. */
static int parse(struct sw_h1 *h, struct sw_buf *in, int *ret_status, struct sw_buf *answer,
                 struct sw_err *err)
{
    for (;;) {
        enum sw_h1_event event;
        size_t used = 0;
        int rc = sw_h1_next(h, sw_buf_slice(in), &used, &event, err);

        if (rc == SW_OK && event == SW_H1_HEAD)
            *ret_status = sw_h1_msg(h)->status;
        if (rc == SW_OK && event == SW_H1_BODY) {
            struct sw_slice data = sw_h1_data(h);

            (void)!sw_buf_append(answer, data.p, sw_min(data.n, answer->max - sw_buf_len(answer)));
        }
        sw_buf_consume(in, used);
        if (rc != SW_OK)
            return rc == SW_EAGAIN ? rc : SW_EPROTO;
        if (event == SW_H1_END)
            return SW_EOF;
    }
}

static int read_answer(int fd, uint64_t deadline_ns, int *ret_status, struct sw_buf *answer,
                       struct sw_err *err)
{
    const struct sw_h1_limits limits = {.body = ANSWER_MAX};
    struct sw_h1 *h = sw_h1_new(SW_H1_RESPONSE, &limits);
    SW_BUF_AUTO in = {.max = 2 * ANSWER_MAX};
    int rc = SW_EAGAIN;

    sw_h1_answer_to(h, SW_SLICE_LIT("POST"));
    while (rc == SW_EAGAIN) {
        char chunk[CHUNK];
        ssize_t n = sw_sock_read(fd, chunk, sizeof(chunk));

        if (n == SW_EAGAIN) {
            rc = wait_for(fd, POLLIN, deadline_ns, err);
            rc = rc == SW_OK ? SW_EAGAIN : rc;
        } else if (n < 0) {
            rc = n == SW_EOF && sw_h1_eof(h, err) == SW_OK && *ret_status ? SW_EOF : SW_EUNAVAIL;
            if (rc == SW_EUNAVAIL)
                rc = sw_err_set(err, SW_EUNAVAIL, "the node agent closed the connection");
        } else if (sw_buf_append(&in, chunk, (size_t)n) != SW_OK) {
            rc = sw_err_set(err, SW_EPROTO, "the node agent's answer is too long");
        } else {
            rc = parse(h, &in, ret_status, answer, err);
        }
    }
    sw_h1_free(h);
    return rc == SW_EOF ? SW_OK : rc;
}

int sw_cni_call(const struct sw_cni_post *post, int *ret_status, struct sw_buf *answer,
                struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = post->body.n + CHUNK};
    SW_AUTO_FD fd = -1;
    int status = 0;
    int rc;

    if (sw_sock_connect_unix(SOCK_STREAM, post->socket, &fd, err) != SW_OK)
        return SW_EUNAVAIL;
    rc = sw_buf_printf(&out,
                       "POST %s HTTP/1.1\r\nHost: node-agent\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                       post->path, post->body.n);
    if (rc == SW_OK)
        rc = sw_buf_append_slice(&out, post->body);
    if (rc == SW_OK)
        rc = write_all(fd, sw_buf_slice(&out), post->deadline_ns, err);
    if (rc == SW_OK)
        rc = read_answer(fd, post->deadline_ns, &status, answer, err);
    if (rc == SW_OK)
        *ret_status = status;
    return rc;
}
