/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An xDS server whose resources come from standard input, for clients of other makes:
 *
 *   xds_server [--tls CHAIN KEY ROOTS] [--token TOKEN] [--ack-timeout-ms N]
 *
 * It prints "listening PORT". Lines in: "set TYPE NAME HEX", "file TYPE NAME PATH" (the encoded
 * message), "mesh TYPE NAME HEX ALIAS NODE SERVICE" (a dash is none of it), "del TYPE NAME" collect
 * a transaction, "commit" applies it and prints what it did, "status" prints a line per
 * subscription and then "end". The end of the input ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/cred.h"
#include "xds/server.h"

enum { LINE_MAX_BYTES = 32 << 20, FILE_MAX = 16 << 20 };

static struct {
    struct sw_loop *loop;
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    struct sw_xds_txn *txn;
    struct sw_watch watch;
    struct sw_buf in;
    const char *token;
} self;

static SW_NORETURN void die(const char *why, const char *what)
{
    (void)fprintf(stderr, "xds_server: %s: %s\n", why, what);
    exit(1);
}

static int allow(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    (void)arg;
    if (!self.token || sw_slice_eq_str(id->token, self.token))
        return SW_OK;
    return sw_err_set(err, SW_EDENIED, "bearer token is not known");
}

static void say_status(const struct sw_xds_status *st, void *arg)
{
    (void)arg;
    (void)printf(
        "node=%.*s type=%.*s delta=%d wildcard=%d names=%zu synced=%d current=%d pending=%d "
        "acks=%llu nacks=%llu nack=%.*s\n",
        SW_SLICE_ARG(st->node_id), SW_SLICE_ARG(st->type), st->delta, st->wildcard, st->names,
        sw_slice_eq(st->sent, st->acked),
        sw_slice_eq_str(st->acked, sw_xds_cache_get(self.cache, st->type)->version), st->pending,
        (unsigned long long)st->acks, (unsigned long long)st->nacks, SW_SLICE_ARG(st->nack));
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. */
static struct sw_slice unhex(char *p)
{
    size_t n = 0;

    for (; nibble(p[2 * n]) >= 0 && nibble(p[2 * n + 1]) >= 0; n++)
        p[n] = (char)(nibble(p[2 * n]) << 4 | nibble(p[2 * n + 1]));
    return sw_slice(p, n);
}

static void change(const char *verb, const char *type, const char *name, char *value)
{
    struct sw_slice v = {0};
    struct sw_err err = {0};
    int rc;

    if (strcmp(verb, "del") == 0) {
        rc = sw_xds_txn_del(self.txn, type, sw_slice_str(name), &err);
    } else if (strcmp(verb, "file") == 0) {
        rc = sw_file_read(value, FILE_MAX, &v, &err);
        if (rc == SW_OK)
            rc = sw_xds_txn_set(self.txn, type, sw_slice_str(name), v, &err);
        sw_slice_free(&v);
    } else {
        rc = sw_xds_txn_set(self.txn, type, sw_slice_str(name), unhex(value), &err);
    }
    if (rc != SW_OK)
        die(verb, err.msg);
}

/* With what on-demand clients find it by. */
static void change_mesh(char *const words[7])
{
    const struct sw_slice alias = sw_slice_str(words[4]);
    const struct sw_slice service = sw_slice_str(words[6]);
    const struct sw_xds_extra x = {.aliases = &alias,
                                   .n_aliases = strcmp(words[4], "-") != 0,
                                   .node = sw_slice_str(strcmp(words[5], "-") ? words[5] : ""),
                                   .services = &service,
                                   .n_services = strcmp(words[6], "-") != 0};
    struct sw_err err = {0};

    if (sw_xds_txn_set_extra(self.txn, words[1], sw_slice_str(words[2]), unhex(words[3]), &x,
                             &err) != SW_OK)
        die("mesh", err.msg);
}

static void command(char *line)
{
    char *words[7] = {NULL};
    size_t n = 0;

    while (n < 7 && line)
        words[n++] = strsep(&line, " ");
    if (strcmp(words[0], "commit") == 0) {
        struct sw_xds_diff d = sw_xds_cache_commit(self.cache, self.txn);

        self.txn = sw_xds_txn_new();
        (void)printf("committed %zu %zu %zu\n", d.added, d.changed, d.removed);
    } else if (strcmp(words[0], "status") == 0) {
        sw_xds_server_status(self.server, say_status, NULL);
        (void)printf("end\n");
    } else if (strcmp(words[0], "mesh") == 0 && n == 7) {
        change_mesh(words);
    } else if (n >= 3) {
        char none[] = "";

        change(words[0], words[1], words[2], n >= 4 ? words[3] : none);
    } else {
        die("bad line", words[0]);
    }
    (void)fflush(stdout);
}

static void on_input(struct sw_watch *w, unsigned events)
{
    (void)events;
    for (;;) {
        char *to = sw_buf_reserve(&self.in, 65536);
        ssize_t got = to ? read(w->fd, to, 65536) : -1;
        ptrdiff_t nl;

        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            sw_loop_stop(self.loop);
            return;
        }
        sw_buf_commit(&self.in, (size_t)got);
        while ((nl = sw_slice_find(sw_buf_slice(&self.in), '\n')) >= 0) {
            char *line = sw_strndup(sw_buf_data(&self.in), (size_t)nl);

            command(line);
            sw_free(line);
            sw_buf_consume(&self.in, (size_t)nl + 1);
        }
    }
}

static struct sw_slice slurp(const char *path)
{
    struct sw_slice s;
    struct sw_err err = {0};

    if (sw_file_read(path, FILE_MAX, &s, &err) != SW_OK)
        die("cannot read", err.msg);
    return s;
}

static struct sw_tls_cred *load_cred(char **paths)
{
    struct sw_slice chain = slurp(paths[0]);
    struct sw_slice key = slurp(paths[1]);
    struct sw_slice roots = slurp(paths[2]);
    struct sw_err err = {0};
    struct sw_tls_cred *c = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.chain = chain, .key = key, .roots = roots, .any_identity = true},
        &err);

    if (!c)
        die("credential", err.msg);
    sw_slice_free(&chain);
    sw_slice_free(&key);
    sw_slice_free(&roots);
    return c;
}

int main(int argc, char **argv)
{
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_xds_server_opts o = {.allow = allow};
    struct sw_err err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tls") == 0 && i + 3 < argc) {
            o.cred = load_cred(argv + i + 1);
            i += 3;
        } else if (strcmp(argv[i], "--token") == 0 && i + 1 < argc) {
            self.token = argv[++i];
        } else if (strcmp(argv[i], "--ack-timeout-ms") == 0 && i + 1 < argc) {
            o.ack_timeout_ns = strtoull(argv[++i], NULL, 10) * SW_NS_PER_MS;
        } else {
            die("bad argument", argv[i]);
        }
    }
    self.loop = sw_loop_new(&err);
    self.cache = o.cache = sw_xds_cache_new();
    self.txn = sw_xds_txn_new();
    self.server = sw_xds_server_new(self.loop, &o, &err);
    sw_buf_init(&self.in, LINE_MAX_BYTES);
    if (!self.server || sw_xds_server_listen(self.server, &at, &at, &err) != SW_OK)
        die("cannot listen", err.msg);
    if (fcntl(0, F_SETFL, O_NONBLOCK) != 0 ||
        sw_watch_start(self.loop, &self.watch, 0, on_input, &err) != SW_OK)
        die("standard input", err.msg);
    (void)printf("listening %u\n", (unsigned)at.port);
    (void)fflush(stdout);
    on_input(&self.watch, SW_READ);
    sw_loop_run(self.loop);
    sw_watch_stop(&self.watch);
    sw_xds_server_free(self.server);
    sw_xds_cache_free(self.cache);
    sw_xds_txn_free(self.txn);
    sw_buf_done(&self.in);
    sw_tls_cred_unref(o.cred);
    sw_loop_free(self.loop);
    return 0;
}
