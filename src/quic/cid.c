/* SPDX-License-Identifier: Apache-2.0 */
/* Connection IDs: how packets find their connection, whatever address they come from. */
#include "quic/cid.h"
#include "base/mem.h"
#include "base/rand.h"
#include "quic/conn.h"

static bool add(struct sw_qconn *c, struct sw_map *m, struct sw_list *l, const uint8_t *p, size_t n)
{
    struct sw_qcid *id;

    if (n == 0 || n > QUIC_CID_MAX || sw_map_get(m, sw_slice(p, n)))
        return false;
    id = SW_NEW(struct sw_qcid);
    id->conn = c;
    id->len = (uint8_t)n;
    memcpy(id->b, p, n);
    sw_list_push_back(l, &id->link);
    (void)sw_map_put(m, sw_slice(id->b, n), id);
    return true;
}

static void drop(struct sw_map *m, struct sw_qcid *id)
{
    struct sw_quic *q = id->conn->q;

    if (q->ids.last == id)
        q->ids.last = NULL;
    (void)sw_map_del(m, sw_slice(id->b, id->len));
    sw_list_unlink(&id->link);
    sw_free(id);
}

bool sw_qcid_add(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    return add(c, &c->q->ids.cids, &c->cids, p, n);
}

/*
 * ngtcp2 looks every packet's ID up in a sorted list of those we gave, from its beginning. The
 * first one is in all packets until the path changes, so it is made to be the smallest. The bit is
 * the same for all later ones of all connections: it relates none to another (RFC 9000, 5.1).
 */
void sw_qcid_make(struct sw_qconn *c, uint8_t *p, size_t n, bool first)
{
    do {
        sw_rand_bytes(p, n);
        p[0] = (uint8_t)(first ? p[0] & 0x7f : p[0] | 0x80);
    } while (!sw_qcid_add(c, p, n));
}

void sw_qcid_add_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN])
{
    (void)add(c, &c->q->ids.tokens, &c->tokens, token, QUIC_TOKEN);
}

static void remove_one(struct sw_qconn *c, struct sw_map *m, const uint8_t *p, size_t n)
{
    struct sw_qcid *id = sw_map_get(m, sw_slice(p, n));

    if (id && id->conn == c)
        drop(m, id);
}

void sw_qcid_remove(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    remove_one(c, &c->q->ids.cids, p, n);
}

void sw_qcid_remove_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN])
{
    remove_one(c, &c->q->ids.tokens, token, QUIC_TOKEN);
}

void sw_qcid_remove_all(struct sw_qconn *c)
{
    SW_LIST_EACH (struct sw_qcid, id, &c->cids, link)
        drop(&c->q->ids.cids, id);
    SW_LIST_EACH (struct sw_qcid, id, &c->tokens, link)
        drop(&c->q->ids.tokens, id);
}

struct sw_qconn *sw_qcid_find(struct sw_quic *q, const uint8_t *p, size_t n)
{
    struct sw_qcid *id = q->ids.last;

    if (!id || id->len != n || memcmp(id->b, p, n) != 0)
        id = sw_map_get(&q->ids.cids, sw_slice(p, n));
    if (!id)
        return NULL;
    q->ids.last = id;
    return id->conn;
}

struct sw_qconn *sw_qcid_find_token(const struct sw_quic *q, const uint8_t token[QUIC_TOKEN])
{
    struct sw_qcid *id = sw_map_get(&q->ids.tokens, sw_slice(token, QUIC_TOKEN));

    return id ? id->conn : NULL;
}
