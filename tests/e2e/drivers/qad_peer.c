/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of address discovery as a program, for system tests: one UDP socket, one relay, one line
 * of JSON per event; lines on its standard input say what to do.
 *
 *     qad_peer relay=ADDR [host=NAME ca=FILE] [pin=DIGEST] [bind=ADDR]
 *
 *     probe      asks again at once
 *     rebind     goes on with another socket, as a NAT that forgot its mapping
 *     again      a new connection
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/dgram.h"
#include "io/sock.h"
#include "quic/qad/qad.h"
#include "quic/wire/qad.h"
#include "tls/cert/cred.h"

static struct {
    struct sw_loop *loop;
    struct sw_qad_client *client;
    struct sw_qad_client_config cfg;
    struct sw_addr bind;
    struct sw_watch watch;
    struct sw_watch in;
    int fd;
    uint8_t pin[SW_QAD_PIN];
    uint64_t began_ns;
} g = {.fd = -1};

static void die(const char *what, const struct sw_err *err)
{
    (void)fprintf(stderr, "qad_peer: %s: %s\n", what, err->msg);
    exit(1);
}

static void on_send(void *arg, const struct sw_addr *to, const uint8_t *p, size_t n)
{
    (void)sw_dgram_send(g.fd, p, n, to);
}

static void on_observed(void *arg, const struct sw_addr *at)
{
    char seen[SW_ADDR_TEXT];
    char mine[SW_ADDR_TEXT];
    struct sw_addr local = sw_sock_local(g.fd);

    (void)printf("{\"event\":\"observed\",\"address\":\"%s\",\"local\":\"%s\",\"ms\":%.1f}\n",
                 sw_addr_text(at, seen), sw_addr_text(&local, mine),
                 (double)(sw_loop_now(g.loop) - g.began_ns) / 1e6);
}

static void on_ended(void *arg, const char *why)
{
    (void)printf("{\"event\":\"ended\",\"why\":\"%s\"}\n", why);
    sw_qad_client_free(g.client);
    g.client = NULL;
}

static const struct sw_qad_client_ops ops = {
    .send = on_send, .observed = on_observed, .ended = on_ended};

static void on_socket(struct sw_watch *w, unsigned events)
{
    uint8_t buf[2048];
    struct sw_addr from;
    ssize_t n;

    while ((n = sw_dgram_recv(g.fd, buf, sizeof(buf), &from)) >= 0 || n == SW_ECLOSED)
        if (n > 0 && g.client)
            (void)sw_qad_client_packet(g.client, &from, buf, (size_t)n);
}

static void open_socket(void)
{
    struct sw_err err = {0};

    if (g.fd >= 0) {
        sw_watch_stop(&g.watch);
        sw_sock_close(g.fd);
    }
    if (sw_dgram_bind(&g.bind, NULL, &g.fd, &err) != SW_OK ||
        sw_watch_start(g.loop, &g.watch, g.fd, on_socket, &err) != SW_OK)
        die("bind", &err);
}

static void begin(void)
{
    struct sw_err err = {0};

    sw_qad_client_free(g.client);
    g.began_ns = sw_loop_now(g.loop);
    g.client = sw_qad_client_new(g.loop, &g.cfg, &err);
    if (!g.client)
        die("client", &err);
}

static void obey(const char *line)
{
    if (strncmp(line, "probe", 5) == 0 && g.client)
        sw_qad_client_probe(g.client);
    else if (strncmp(line, "rebind", 6) == 0)
        open_socket();
    else if (strncmp(line, "again", 5) == 0)
        begin();
}

static void on_input(struct sw_watch *w, unsigned events)
{
    char line[256];
    ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

    if (n == 0)
        sw_loop_stop(g.loop);
    if (n <= 0)
        return;
    line[n] = 0;
    for (const char *p = line; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        obey(p);
}

static void take_pin(const char *hex)
{
    char field[SW_QAD_FIELD_MAX];
    struct sw_err err = {0};
    uint16_t port;
    bool pinned;

    (void)snprintf(field, sizeof(field), "1 %s", hex);
    if (sw_qad_get_field(sw_slice_str(field), &port, g.pin, &pinned, &err) != SW_OK)
        die("pin", &err);
    g.cfg.pin = g.pin;
}

static void take_roots(const char *file)
{
    struct sw_slice pem = {0};
    struct sw_err err = {0};

    if (sw_file_read(file, SW_TLS_PEM_MAX, &pem, &err) != SW_OK)
        die("ca", &err);
    g.cfg.cred =
        sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = pem, .any_identity = true}, &err);
    if (!g.cfg.cred)
        die("ca", &err);
    sw_slice_free(&pem);
}

static void take_addr(const char *text, struct sw_addr *ret)
{
    struct sw_err err = {0};

    if (sw_addr_parse(sw_slice_str(text), ret, &err) != SW_OK)
        die(text, &err);
}

int main(int argc, char **argv)
{
    struct sw_err err = {0};

    g.loop = sw_loop_new(&err);
    if (!g.loop)
        die("loop", &err);
    g.cfg.ops = &ops;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');

        if (!value)
            die(argv[i], &err);
        value++;
        if (strncmp(argv[i], "relay=", 6) == 0)
            take_addr(value, &g.cfg.relay);
        else if (strncmp(argv[i], "bind=", 5) == 0)
            take_addr(value, &g.bind);
        else if (strncmp(argv[i], "host=", 5) == 0)
            g.cfg.host = value;
        else if (strncmp(argv[i], "pin=", 4) == 0)
            take_pin(value);
        else if (strncmp(argv[i], "ca=", 3) == 0)
            take_roots(value);
    }
    if (!g.bind.ip.family)
        g.bind.ip.family = g.cfg.relay.ip.family;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    if (sw_watch_start(g.loop, &g.in, STDIN_FILENO, on_input, &err) != SW_OK)
        die("input", &err);
    open_socket();
    begin();
    sw_loop_run(g.loop);
    sw_qad_client_free(g.client);
    (void)sw_tls_cred_unref(g.cfg.cred);
    sw_watch_stop(&g.watch);
    sw_watch_stop(&g.in);
    sw_sock_close(g.fd);
    sw_loop_free(g.loop);
    return 0;
}
