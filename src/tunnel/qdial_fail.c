/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of the client half: what they are called, and which nodes did not answer a moment ago.
 */
#include "base/mem.h"
#include "tunnel/qdial_int.h"

const char *sw_qfail_text(enum sw_qfail f)
{
    static const char *const texts[] = {
        [SW_QFAIL_NONE] = "none",
        [SW_QFAIL_UNKNOWN_NODE] = "unknown_node",
        [SW_QFAIL_LOOKUP] = "lookup_failed",
        [SW_QFAIL_OFFLINE] = "offline",
        [SW_QFAIL_DIAL_TIMEOUT] = "dial_timeout",
        [SW_QFAIL_DIAL_FAILED] = "dial_failed",
        [SW_QFAIL_IDENTITY] = "wrong_identity",
        [SW_QFAIL_NOT_ADMITTED] = "not_admitted",
        [SW_QFAIL_LIMIT] = "too_many",
        [SW_QFAIL_STREAM] = "no_stream",
        [SW_QFAIL_LOST] = "connection_lost",
        [SW_QFAIL_RESET] = "stream_reset",
        [SW_QFAIL_BAD_ANSWER] = "bad_answer",
        [SW_QFAIL_ANSWER_TIMEOUT] = "answer_timeout",
        [SW_QFAIL_DRAINING] = "draining",
    };

    return (size_t)f < SW_ARRAY_LEN(texts) ? texts[f] : "unknown";
}

void qnode_drop_failure(struct sw_qdial *d, struct qnode_failure *f)
{
    (void)sw_map_del(&d->failures, qnode_key(&f->id));
    sw_list_unlink(&f->link);
    sw_free(f);
}

void qnode_remember_failure(struct sw_qdial *d, const struct sw_nodeid *id)
{
    struct qnode_failure *f = sw_map_get(&d->failures, qnode_key(id));

    if (f)
        qnode_drop_failure(d, f);
    if (d->failures.n >= QNODE_FAILURES_MAX)
        qnode_drop_failure(d, SW_CONTAINER_OF(d->failed.next, struct qnode_failure, link));
    f = SW_NEW(struct qnode_failure);
    f->id = *id;
    f->until_ns = sw_loop_now(d->loop) + d->c.remember_ns;
    sw_list_push_back(&d->failed, &f->link);
    (void)sw_map_put(&d->failures, qnode_key(&f->id), f);
}

bool qnode_failed_lately(struct sw_qdial *d, const struct sw_nodeid *id)
{
    struct qnode_failure *f = sw_map_get(&d->failures, qnode_key(id));

    if (!f)
        return false;
    if (sw_loop_now(d->loop) < f->until_ns)
        return true;
    qnode_drop_failure(d, f);
    return false;
}
