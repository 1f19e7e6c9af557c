/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/sched.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tls/cert/vault.h"

struct table {
    struct sw_aead_sched slot[SW_SCHED_SLOTS];
    uint64_t id[SW_SCHED_SLOTS];
    uint32_t gen[SW_SCHED_SLOTS];
};

static _Thread_local struct table *mine;
static pthread_key_t at_exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t next_id = 1;

static void table_free(void *arg)
{
    struct table *t = arg;

    for (size_t i = 0; i < SW_SCHED_SLOTS; i++)
        sw_aead_wipe(&t->slot[i]);
    sw_vault_pages_free(t, sizeof(*t));
    mine = NULL;
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit_key, table_free) != 0)
        __builtin_trap();
}

static struct table *table_new(void)
{
    (void)pthread_once(&once, make_key);
    mine = sw_vault_pages(sizeof(*mine));
    (void)pthread_setspecific(at_exit_key, mine);
    return mine;
}

uint64_t sw_sched_new_id(void)
{
    return atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
}

const struct sw_aead_sched *sw_sched_get(uint64_t id, uint32_t gen, enum sw_aead_alg alg,
                                         const uint8_t *key)
{
    struct table *t = mine ? mine : table_new();
    size_t i = id % SW_SCHED_SLOTS;

    if (SW_LIKELY(t->slot[i].live && t->id[i] == id && t->gen[i] == gen))
        return &t->slot[i];
    sw_aead_wipe(&t->slot[i]);
    sw_aead_expand(alg, key, &t->slot[i]);
    t->id[i] = id;
    t->gen[i] = gen;
    return &t->slot[i];
}

void sw_sched_drop(uint64_t id)
{
    size_t i = id % SW_SCHED_SLOTS;

    if (mine && mine->id[i] == id)
        sw_aead_wipe(&mine->slot[i]);
}
