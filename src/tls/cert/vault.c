/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/vault.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

#ifdef SW_SANITIZED

/* Plain heap, so that the sanitizers see use after free, leaks, and what hangs on these pages. */
void *sw_vault_pages(size_t n)
{
    void *p = sw_aligned_alloc(4096, (n + 4095) & ~(size_t)4095);

    memset(p, 0, n);
    return p;
}

void sw_vault_pages_free(void *p, size_t n)
{
    sw_free_secret(p, n);
}

void *sw_vault_alloc(size_t n)
{
    assert(n <= SW_VAULT_CELL);
    return sw_calloc(1, SW_VAULT_CELL);
}

void sw_vault_free(void *p)
{
    sw_free_secret(p, SW_VAULT_CELL);
}

#else

void *sw_vault_pages(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        abort();
    (void)madvise(p, n, MADV_DONTDUMP); /* old kernels lack it: then dumps are as large as ever */
    return p;
}

void sw_vault_pages_free(void *p, size_t n)
{
    if (!p)
        return;
    explicit_bzero(p, n);
    (void)munmap(p, n);
}

enum { SLAB_BYTES = 64 * 1024 };

struct cell {
    struct cell *next;
};

/*
 * Slabs are never given back: their number follows the peak of open connections and each cell is
 * half a kilobyte. Taken once per connection, so one lock is no contention worth avoiding.
 */
static struct {
    pthread_mutex_t lock;
    struct cell *free_cells;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_slab_locked(void)
{
    char *slab = sw_vault_pages(SLAB_BYTES);

    for (size_t at = SLAB_BYTES; at > 0; at -= SW_VAULT_CELL) {
        struct cell *c = (struct cell *)(void *)(slab + at - SW_VAULT_CELL);

        c->next = g.free_cells;
        g.free_cells = c;
    }
}

void *sw_vault_alloc(size_t n)
{
    struct cell *c;

    assert(n <= SW_VAULT_CELL);
    (void)pthread_mutex_lock(&g.lock);
    if (!g.free_cells)
        add_slab_locked();
    c = g.free_cells;
    g.free_cells = c->next;
    (void)pthread_mutex_unlock(&g.lock);
    c->next = NULL;
    return c;
}

void sw_vault_free(void *p)
{
    struct cell *c = p;

    if (!p)
        return;
    explicit_bzero(p, SW_VAULT_CELL);
    (void)pthread_mutex_lock(&g.lock);
    c->next = g.free_cells;
    g.free_cells = c;
    (void)pthread_mutex_unlock(&g.lock);
}

#endif
