/* SPDX-License-Identifier: Apache-2.0 */
#include "io/resolver.h"

#include <netdb.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/thread.h"

enum { QUEUE_MAX = 1024 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running;
    bool stop;
    struct sw_resolve *head;
    struct sw_resolve **tail;
    size_t n;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void on_answer(struct sw_msg *m)
{
    struct sw_resolve *r = SW_CONTAINER_OF(m, struct sw_resolve, msg);

    r->cb(r);
}

static void answer(struct sw_resolve *r, int rc)
{
    r->rc = rc;
    r->msg.cb = on_answer;
    sw_loop_post(r->loop, &r->msg);
}

static void look_up(struct sw_resolve *r)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    r->n = 0;
    if (getaddrinfo(r->name, NULL, &hints, &list) == 0) {
        for (struct addrinfo *a = list; a && r->n < SW_RESOLVE_MAX; a = a->ai_next) {
            struct sockaddr_storage ss = {0};

            if (a->ai_addrlen > sizeof(ss))
                continue;
            memcpy(&ss, a->ai_addr, a->ai_addrlen);
            r->ips[r->n] = sw_addr_from_sockaddr(&ss).ip;
            r->n += r->ips[r->n].family != 0;
        }
        freeaddrinfo(list);
    }
    answer(r, r->n ? SW_OK : SW_ENOENT);
}

static struct sw_resolve *take_locked(void)
{
    struct sw_resolve *r = resolver.head;

    resolver.head = r->next;
    if (!resolver.head)
        resolver.tail = &resolver.head;
    resolver.n--;
    return r;
}

static void *resolver_main(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&resolver.lock);
    while (!resolver.stop) {
        struct sw_resolve *r;

        if (!resolver.head) {
            (void)pthread_cond_wait(&resolver.wake, &resolver.lock);
            continue;
        }
        r = take_locked();
        (void)pthread_mutex_unlock(&resolver.lock);
        look_up(r);
        (void)pthread_mutex_lock(&resolver.lock);
    }
    while (resolver.head)
        answer(take_locked(), SW_ENOENT);
    (void)pthread_mutex_unlock(&resolver.lock);
    return NULL;
}

void sw_resolve_start(struct sw_resolve *r)
{
    struct sw_ip ip;
    bool full;

    /* getaddrinfo reads "127.1" as 127.0.0.1; we do not. */
    if (sw_host_parse(sw_slice_str(r->name), &ip, NULL) != SW_OK) {
        r->n = 0;
        answer(r, SW_EINVAL);
        return;
    }
    (void)pthread_mutex_lock(&resolver.lock);
    if (!resolver.running) {
        resolver.tail = &resolver.head;
        resolver.stop = false;
        resolver.running =
            sw_thread_start(&resolver.thread, resolver_main, NULL, "sw-resolver") == 0;
    }
    full = !resolver.running || resolver.stop || resolver.n >= QUEUE_MAX;
    if (!full) {
        r->next = NULL;
        *resolver.tail = r;
        resolver.tail = &r->next;
        resolver.n++;
        (void)pthread_cond_signal(&resolver.wake);
    }
    (void)pthread_mutex_unlock(&resolver.lock);
    if (full)
        answer(r, SW_ELIMIT);
}

void sw_resolver_stop(void)
{
    (void)pthread_mutex_lock(&resolver.lock);
    if (!resolver.running) {
        (void)pthread_mutex_unlock(&resolver.lock);
        return;
    }
    resolver.stop = true;
    (void)pthread_cond_signal(&resolver.wake);
    (void)pthread_mutex_unlock(&resolver.lock);
    (void)pthread_join(resolver.thread, NULL);
    (void)pthread_mutex_lock(&resolver.lock);
    resolver.running = false;
    (void)pthread_mutex_unlock(&resolver.lock);
}
