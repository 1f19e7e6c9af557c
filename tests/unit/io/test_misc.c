/* SPDX-License-Identifier: Apache-2.0 */
/* Resolver, file watching, signals, threads and base64. */
#include "test.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "io/resolver.h"
#include "io/signal.h"

/* ---- resolver ---- */

static int answers;
static int answers_ok;
static int unknown;

/* In the place of libc's: one name waits until it is let go. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void hold_names(bool hold)
{
    (void)(hold ? pthread_mutex_lock(&held) : pthread_mutex_unlock(&held));
}

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
            RTLD_NEXT, "getaddrinfo");

    if (strcmp(name, "stuck.test") != 0)
        return real(name, service, hints, ret);
    hold_names(true);
    hold_names(false);
    return EAI_AGAIN;
}

static void on_answer(struct sw_resolve *r)
{
    answers++;
    unknown += r->unknown;
    answers_ok += r->rc == SW_OK && r->n >= 1 && sw_ip_is_loopback(&r->ips[0]);
    assert_true(r->rc == SW_OK || r->rc == SW_ENOENT || r->rc == SW_ELIMIT || r->rc == SW_EINVAL);
    sw_free(r);
}

static void ask(struct sw_loop *l, const char *name)
{
    struct sw_resolve *r = SW_NEW(struct sw_resolve);

    r->loop = l;
    r->cb = on_answer;
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    sw_resolve_start(r);
}

static void every_question_is_answered_once(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);

    (void)state;
    answers = 0;
    answers_ok = 0;
    for (int i = 0; i < 50; i++)
        ask(l, i % 2 ? "127.0.0.1" : "::1"); /* numeric: no network */
    while (answers < 50)
        sw_loop_turn(l, 5000);
    assert_int_equal(answers_ok, 50);
    ask(l, "not a name");
    while (answers < 51)
        sw_loop_turn(l, 5000);
    assert_int_equal(answers_ok, 50);
    sw_resolver_stop();
    sw_loop_free(l);
}

struct asker {
    pthread_t thread;
    struct sw_loop *loop;
};

static void *ask_many(void *arg)
{
    struct asker *a = arg;

    for (int i = 0; i < 300; i++)
        ask(a->loop, "127.0.0.1");
    return NULL;
}

/* Questions that race with the end of the resolver are answered too, one way or the other. */
static void stopping_answers_what_is_waiting(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    struct asker a = {.loop = l};

    (void)state;
    for (int round = 0; round < 20; round++) {
        answers = 0;
        assert_int_equal(sw_thread_start(&a.thread, ask_many, &a, "asker"), 0);
        for (int i = 0; i < 10; i++)
            sw_resolver_stop();
        (void)pthread_join(a.thread, NULL);
        sw_resolver_stop();
        for (int i = 0; i < 100 && answers < 300; i++)
            sw_loop_turn(l, 100);
        assert_int_equal(answers, 300);
    }
    sw_resolver_stop(); /* not running: harmless */
    sw_loop_free(l);
}

static void too_many_questions_are_refused_not_lost(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);

    (void)state;
    answers = 0;
    for (int i = 0; i < 3000; i++)
        ask(l, "127.0.0.1");
    while (answers < 3000)
        sw_loop_turn(l, 5000);
    sw_resolver_stop();
    sw_loop_free(l);
}

/* A name that nobody answers for holds up neither the other questions nor the end. */
static void a_question_without_an_answer_holds_up_nobody(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);

    (void)state;
    answers = 0;
    answers_ok = 0;
    unknown = 0;
    hold_names(true);
    for (int i = 0; i < SW_RESOLVER_THREADS - 1; i++)
        ask(l, "stuck.test");
    for (int i = 0; i < 20; i++)
        ask(l, "127.0.0.1");
    while (answers < 20)
        sw_loop_turn(l, 5000);
    assert_int_equal(answers_ok, 20);
    sw_resolver_stop(); /* answers those that are stuck */
    while (answers < 20 + SW_RESOLVER_THREADS - 1)
        sw_loop_turn(l, 5000);
    assert_int_equal(unknown, SW_RESOLVER_THREADS - 1);
    ask(l, "127.0.0.1"); /* it starts anew */
    while (answers < 20 + SW_RESOLVER_THREADS)
        sw_loop_turn(l, 5000);
    assert_int_equal(answers_ok, 21);
    hold_names(false);
    sw_resolver_stop();
    sw_loop_free(l);
}

/* ---- files ---- */

static int changes;

static void on_change(void *arg)
{
    (void)arg;
    changes++;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void wait_change(struct sw_loop *l)
{
    for (int i = 0; i < 200 && !changes; i++)
        sw_loop_turn(l, 50);
    assert_true(changes > 0);
    for (int i = 0; i < 5; i++)
        sw_loop_turn(l, 10);
    changes = 0;
}

static void changes_of_a_file_are_noticed(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    char dir[] = "/tmp/sw-watch-XXXXXX";
    char path[64];
    char other[64];
    struct sw_filewatch *f;
    struct sw_err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/file", dir);
    (void)snprintf(other, sizeof(other), "%s/new", dir);
    f = sw_filewatch_new(l, path, on_change, NULL, NULL); /* need not exist */
    assert_non_null(f);
    write_file(path, "one");
    wait_change(l);
    write_file(path, "two");
    wait_change(l);
    write_file(other, "three");
    assert_int_equal(rename(other, path), 0);
    wait_change(l);
    assert_int_equal(unlink(path), 0);
    wait_change(l);
    sw_filewatch_free(f);
    sw_filewatch_free(NULL);
    assert_null(sw_filewatch_new(l, "/nonexistent/dir/file", on_change, NULL, &err));
    assert_int_equal(rmdir(dir), 0);
    sw_loop_free(l);
}

static uint64_t fake_now;

static uint64_t fake_clock(void)
{
    return fake_now;
}

/* Something happens in the directory every ten milliseconds, for ever. */
static void a_busy_directory_does_not_silence_its_files(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    char dir[] = "/tmp/sw-watch-XXXXXX";
    char path[64];
    struct sw_filewatch *f;

    (void)state;
    changes = 0;
    fake_now = SW_NS_PER_S;
    sw_loop_set_clock(l, fake_clock);
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/file", dir);
    f = sw_filewatch_new(l, path, on_change, NULL, NULL);
    for (int i = 0; i < 50; i++) {
        write_file(path, "x");
        sw_loop_turn(l, 0);
        fake_now += 10 * SW_NS_PER_MS;
    }
    assert_true(changes > 5);
    assert_true(changes < 40);
    sw_filewatch_free(f);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    sw_loop_free(l);
}

static void a_replaced_directory_is_followed(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    char dir[] = "/tmp/sw-watch-XXXXXX";
    char path[64];
    char aside[64];
    struct sw_filewatch *f;

    (void)state;
    changes = 0;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/file", dir);
    (void)snprintf(aside, sizeof(aside), "%s.old", dir);
    f = sw_filewatch_new(l, path, on_change, NULL, NULL);
    assert_non_null(f);
    assert_int_equal(rename(dir, aside), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    wait_change(l); /* somebody should look */
    write_file(path, "one");
    wait_change(l);
    assert_int_equal(unlink(path), 0);
    wait_change(l);
    assert_int_equal(rmdir(dir), 0); /* away for a while */
    for (int i = 0; i < 10; i++)
        sw_loop_turn(l, 10);
    assert_int_equal(changes, 0);
    assert_int_equal(rename(aside, dir), 0);
    wait_change(l);
    write_file(path, "two");
    wait_change(l);
    sw_filewatch_free(f);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    sw_loop_free(l);
}

/* ---- signals and threads ---- */

static int last_signal;

static void on_signal(int signo, void *arg)
{
    (void)arg;
    last_signal = signo;
}

static void *blocked_signals(void *arg)
{
    sigset_t set;

    (void)pthread_sigmask(SIG_BLOCK, NULL, &set);
    *(int *)arg = sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
    return NULL;
}

static void signals_arrive_as_events(void **state)
{
    static const int which[] = {SIGUSR1, SIGUSR2};
    struct sw_loop *l = sw_loop_new(NULL);
    struct sw_signals *s = sw_signals_new(l, which, 2, on_signal, NULL, NULL);
    pthread_t t;
    int blocked = 0;

    (void)state;
    assert_non_null(s);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    for (int i = 0; i < 100 && !last_signal; i++)
        sw_loop_turn(l, 50);
    assert_int_equal(last_signal, SIGUSR2);
    /* Threads never take them. */
    assert_int_equal(sw_thread_start(&t, blocked_signals, &blocked, "quiet"), 0);
    (void)pthread_join(t, NULL);
    assert_true(blocked);
    sw_signals_free(s);
    sw_signals_free(NULL);
    sw_loop_free(l);
}

/* ---- base64 ---- */

static void base64_matches_the_rfc(void **state)
{
    static const struct {
        const char *plain;
        const char *coded;
    } cases[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    static const char *const bad[] = {"Zg=",      "Zg",   "Z===",   "====",
                                      "Zh==",     "Zm9=", "Zm9v\n", "Zm 9",
                                      "Zg==Zg==", "Zm9_", "Z=9v",   "\xff\xff\xff\xff"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_BUF_AUTO a = {.max = 100};
        SW_BUF_AUTO b = {.max = 100};

        assert_int_equal(sw_base64_append(&a, sw_slice_str(cases[i].plain)), SW_OK);
        assert_true(sw_slice_eq_str(sw_buf_slice(&a), cases[i].coded));
        assert_int_equal(sw_base64_decode(&b, sw_slice_str(cases[i].coded)), SW_OK);
        assert_true(sw_slice_eq_str(sw_buf_slice(&b), cases[i].plain));
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        SW_BUF_AUTO b = {.max = 100};

        assert_int_equal(sw_buf_append_str(&b, "kept"), SW_OK);
        assert_int_equal(sw_base64_decode(&b, sw_slice_str(bad[i])), SW_EINVAL);
        assert_true(sw_slice_eq_str(sw_buf_slice(&b), "kept")); /* nothing on error */
    }
    {
        SW_BUF_AUTO small = {.max = 3};

        assert_int_equal(sw_base64_append(&small, SW_SLICE_LIT("f")), SW_ELIMIT);
        assert_int_equal(sw_base64_decode(&small, SW_SLICE_LIT("Zm9vYg==")), SW_ELIMIT);
        assert_int_equal(sw_buf_len(&small), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_is_answered_once),
        cmocka_unit_test(stopping_answers_what_is_waiting),
        cmocka_unit_test(too_many_questions_are_refused_not_lost),
        cmocka_unit_test(a_question_without_an_answer_holds_up_nobody),
        cmocka_unit_test(changes_of_a_file_are_noticed),
        cmocka_unit_test(a_busy_directory_does_not_silence_its_files),
        cmocka_unit_test(a_replaced_directory_is_followed),
        cmocka_unit_test(signals_arrive_as_events),
        cmocka_unit_test(base64_matches_the_rfc),
    };

    return cmocka_run_group_tests_name("misc", tests, NULL, NULL);
}
