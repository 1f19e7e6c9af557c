/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/scratch.h"

#include "base/mem.h"
#include "base/time.h"
#include "base/trim.h"

enum {
    REST_MS = 500,
    SLOTS_SIZE = SW_SLOTS * SW_SLOT_SIZE + SW_SLOT_HEAD,
};

static _Thread_local struct sw_scratch *mine;

struct sw_scratch *sw_scratch(void)
{
    if (SW_UNLIKELY(!mine)) {
        mine = SW_NEW(struct sw_scratch);
        mine->rx = sw_aligned_alloc(64, SW_RX_SIZE);
        mine->slots = sw_aligned_alloc(64, SLOTS_SIZE);
        mine->tx = sw_aligned_alloc(64, SW_TX_SIZE);
        mine->stage = sw_aligned_alloc(64, SW_STAGE_SIZE + 64);
    }
    return mine;
}

static void on_rest(struct sw_timer *t)
{
    struct sw_scratch *s = SW_CONTAINER_OF(t, struct sw_scratch, resting);

    if (s->bulk) {
        s->bulk = false;
        sw_timer_start(s->loop, t, REST_MS * SW_NS_PER_MS, on_rest);
        return;
    }
    sw_trim_pages(s->rx, SW_RX_SIZE);
    sw_trim_pages(s->slots, SLOTS_SIZE);
    sw_trim_pages(s->tx, SW_TX_SIZE);
}

void sw_scratch_bulk(struct sw_loop *l)
{
    struct sw_scratch *s = sw_scratch();

    if (!s->loop)
        s->loop = l;
    s->bulk = true;
    if (s->loop != l || sw_timer_running(&s->resting)) /* a thread has one loop, but in tests */
        return;
    sw_timer_start(l, &s->resting, REST_MS * SW_NS_PER_MS, on_rest);
}

void sw_scratch_done(void)
{
    if (!mine)
        return;
    if (mine->loop)
        sw_timer_stop(mine->loop, &mine->resting);
    sw_free(mine->rx);
    sw_free(mine->slots);
    sw_free(mine->tx);
    sw_free(mine->stage);
    sw_free(mine);
    mine = NULL;
}
