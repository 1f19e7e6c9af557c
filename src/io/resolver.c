/* SPDX-License-Identifier: Apache-2.0 */
#include "io/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

enum { QUEUE_MAX = 1024 };

/* A thread. What it looks up may be taken away from it: then its result is dropped. */
struct worker {
    pthread_t thread;
    struct sw_resolve *current; /* under the lock; NULL: none, or answered by sw_resolver_stop */
    bool left;                  /* under the lock: it ends after what it is doing */
    bool detached;              /* it frees itself */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker *workers[SW_RESOLVER_THREADS];
    size_t n_workers;
    size_t idle; /* of them, waiting for a question */
    struct sw_resolve *head;
    struct sw_resolve **tail;
    size_t n;
} resolver = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .tail = &resolver.head};

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

/* False: the servers say that there is no such name, or no address. */
static bool may_exist(int gai)
{
    return gai && gai != EAI_NONAME && gai != EAI_NODATA && gai != EAI_ADDRFAMILY;
}

/* Returns what getaddrinfo does. */
static int look_up(const char *name, struct sw_ip ips[SW_RESOLVE_MAX], size_t *ret_n)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int gai = getaddrinfo(name, NULL, &hints, &list);
    size_t n = 0;

    for (struct addrinfo *a = gai == 0 ? list : NULL; a && n < SW_RESOLVE_MAX; a = a->ai_next) {
        struct sockaddr_storage ss = {0};

        if (a->ai_addrlen > sizeof(ss))
            continue;
        memcpy(&ss, a->ai_addr, a->ai_addrlen);
        ips[n] = sw_addr_from_sockaddr(&ss).ip;
        n += ips[n].family != 0;
    }
    if (gai == 0)
        freeaddrinfo(list);
    *ret_n = n;
    return gai;
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

/* The question is not touched without the lock: sw_resolver_stop may have answered it. */
static void serve_locked(struct worker *w)
{
    char name[SW_RESOLVE_NAME];
    struct sw_ip ips[SW_RESOLVE_MAX] = {0};
    struct sw_resolve *r = take_locked();
    size_t n;
    int gai;

    w->current = r;
    memcpy(name, r->name, sizeof(name));
    (void)pthread_mutex_unlock(&resolver.lock);
    gai = look_up(name, ips, &n);
    (void)pthread_mutex_lock(&resolver.lock);
    if (!w->current)
        return;
    w->current = NULL;
    memcpy(r->ips, ips, sizeof(ips));
    r->n = n;
    r->unknown = n == 0 && may_exist(gai);
    answer(r, n ? SW_OK : SW_ENOENT);
}

static void *resolver_main(void *arg)
{
    struct worker *w = arg;
    bool detached;

    (void)pthread_mutex_lock(&resolver.lock);
    while (!w->left) {
        if (resolver.head) {
            serve_locked(w);
            continue;
        }
        resolver.idle++;
        (void)pthread_cond_wait(&resolver.wake, &resolver.lock);
        if (!w->left)
            resolver.idle--;
    }
    detached = w->detached;
    (void)pthread_mutex_unlock(&resolver.lock);
    if (detached)
        sw_free(w);
    return NULL;
}

/* One more thread when those there are have enough to do. False: there is none at all. */
static bool start_locked(void)
{
    struct worker *w;

    if (resolver.n_workers == SW_RESOLVER_THREADS || resolver.idle > resolver.n)
        return true;
    w = SW_NEW(struct worker);
    if (sw_thread_start(&w->thread, resolver_main, w, "sw-resolver") != 0) {
        sw_free(w);
        return resolver.n_workers > 0;
    }
    resolver.workers[resolver.n_workers++] = w;
    return true;
}

void sw_resolve_start(struct sw_resolve *r)
{
    struct sw_ip ip;
    bool full;

    r->n = 0;
    r->unknown = false;
    /* getaddrinfo reads "127.1" as 127.0.0.1; we do not. */
    if (sw_host_parse(sw_slice_str(r->name), &ip, NULL) != SW_OK) {
        answer(r, SW_EINVAL);
        return;
    }
    (void)pthread_mutex_lock(&resolver.lock);
    full = !start_locked() || resolver.n >= QUEUE_MAX;
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

struct sw_resolve *sw_resolve_new(struct sw_loop *l, struct sw_slice name, sw_resolve_cb cb,
                                  void *arg)
{
    struct sw_resolve *r = SW_NEW(struct sw_resolve);

    r->loop = l;
    r->cb = cb;
    r->arg = arg;
    if (name.n < SW_RESOLVE_NAME)
        memcpy(r->name, name.p, name.n);
    sw_resolve_start(r);
    return r;
}

/* Takes the lookup away from a thread that is inside the system's resolver. True: it did. */
static bool abandon_locked(struct worker *w)
{
    w->left = true;
    if (!w->current)
        return false;
    w->current->unknown = true;
    answer(w->current, SW_ENOENT);
    w->current = NULL;
    w->detached = true;
    (void)pthread_detach(w->thread);
    return true;
}

void sw_resolver_stop(void)
{
    struct worker *idle[SW_RESOLVER_THREADS];
    size_t n = 0;

    (void)pthread_mutex_lock(&resolver.lock);
    for (size_t i = 0; i < resolver.n_workers; i++) {
        struct worker *w = resolver.workers[i];

        if (!abandon_locked(w))
            idle[n++] = w;
    }
    resolver.n_workers = 0;
    resolver.idle = 0; /* those that leave count no more */
    while (resolver.head) {
        struct sw_resolve *r = take_locked();

        r->unknown = true;
        answer(r, SW_ENOENT);
    }
    (void)pthread_cond_broadcast(&resolver.wake);
    (void)pthread_mutex_unlock(&resolver.lock);
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(idle[i]->thread, NULL);
        sw_free(idle[i]);
    }
}
