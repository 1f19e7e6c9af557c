/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/scratch.h"

#include "base/mem.h"

static _Thread_local struct sw_scratch *mine;

struct sw_scratch *sw_scratch(void)
{
    if (SW_UNLIKELY(!mine)) {
        mine = SW_NEW(struct sw_scratch);
        mine->rx = sw_aligned_alloc(64, SW_RX_SIZE);
        mine->slots = sw_aligned_alloc(64, (size_t)SW_SLOTS * SW_SLOT_SIZE + SW_SLOT_HEAD);
        mine->tx = sw_aligned_alloc(64, SW_TX_SIZE);
        mine->stage = sw_aligned_alloc(64, SW_STAGE_SIZE + 64);
    }
    return mine;
}

void sw_scratch_done(void)
{
    if (!mine)
        return;
    sw_free(mine->rx);
    sw_free(mine->slots);
    sw_free(mine->tx);
    sw_free(mine->stage);
    sw_free(mine);
    mine = NULL;
}
