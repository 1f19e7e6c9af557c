/* SPDX-License-Identifier: Apache-2.0 */
/* Connection IDs: how packets find their connection, whatever address they come from. */
#include "base/mem.h"
#include "quic/core.h"

bool sw_qcid_add(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    struct sw_qcid *id;

    if (n == 0 || n > QUIC_CID_MAX || sw_map_get(&c->q->cids, sw_slice(p, n)))
        return false;
    id = SW_NEW(struct sw_qcid);
    id->conn = c;
    id->len = (uint8_t)n;
    memcpy(id->b, p, n);
    sw_list_push_back(&c->cids, &id->link);
    (void)sw_map_put(&c->q->cids, sw_slice(id->b, n), id);
    return true;
}

static void drop(struct sw_qcid *id)
{
    (void)sw_map_del(&id->conn->q->cids, sw_slice(id->b, id->len));
    sw_list_unlink(&id->link);
    sw_free(id);
}

void sw_qcid_remove(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    struct sw_qcid *id = sw_map_get(&c->q->cids, sw_slice(p, n));

    if (id && id->conn == c)
        drop(id);
}

void sw_qcid_remove_all(struct sw_qconn *c)
{
    SW_LIST_FOREACH (it, &c->cids)
        drop(SW_CONTAINER_OF(it, struct sw_qcid, link));
}

struct sw_qconn *sw_qcid_find(const struct sw_quic *q, const uint8_t *p, size_t n)
{
    struct sw_qcid *id = sw_map_get(&q->cids, sw_slice(p, n));

    return id ? id->conn : NULL;
}
