/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable writes per second of the store: bench_store [file [outstanding [writes [value bytes]]]].
 * Not a test: built with the tests, run by hand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "store/store.h"

struct bench {
    struct sw_store *store;
    struct sw_loop *loop;
    struct sw_slice value;
    size_t sent;
    size_t done;
    size_t want;
};

static void submit(struct bench *b);

static void on_done(void *arg, const struct sw_store_result *r)
{
    struct bench *b = arg;

    if (r->rc != SW_OK) {
        (void)fprintf(stderr, "bench_store: %s\n", r->msg);
        _exit(1);
    }
    b->done++;
    if (b->sent < b->want)
        submit(b);
}

static void submit(struct bench *b)
{
    char key[48];
    struct sw_err err;
    struct sw_store_write w = {
        .verb = SW_STORE_CREATE, .value = b->value, .loop = b->loop, .cb = on_done, .arg = b};

    w.key = sw_slice(key,
                     (size_t)snprintf(key, sizeof(key), "/configmaps/default/cm-%08zu", b->sent++));
    if (sw_store_submit(b->store, &w, &err) != SW_OK) {
        (void)fprintf(stderr, "bench_store: %s\n", err.msg);
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "bench.db";
    size_t outstanding = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    struct bench b = {.want = argc > 3 ? strtoul(argv[3], NULL, 10) : 10000};
    size_t bytes = argc > 4 ? strtoul(argv[4], NULL, 10) : 1024;
    char *value = sw_malloc(bytes);
    struct sw_err err;
    struct sw_store_stats st;
    uint64_t start;
    double seconds;

    memset(value, 'x', bytes);
    b.value = sw_slice(value, bytes);
    b.loop = sw_loop_new(&err);
    b.store = b.loop ? sw_store_open(path, NULL, &err) : NULL;
    if (!b.store) {
        (void)fprintf(stderr, "bench_store: %s\n", err.msg);
        return 1;
    }
    start = sw_now_ns();
    while (b.sent < outstanding)
        submit(&b);
    while (b.done < b.want)
        sw_loop_turn(b.loop, 1000);
    seconds = (double)(sw_now_ns() - start) / 1e9;
    sw_store_stats(b.store, &st);
    (void)printf("%zu outstanding: %.0f writes/s, %llu commits, largest batch %llu\n", outstanding,
                 (double)b.want / seconds, (unsigned long long)st.commits,
                 (unsigned long long)st.largest_batch);
    sw_store_close(b.store);
    sw_loop_free(b.loop);
    sw_free(value);
    return 0;
}
