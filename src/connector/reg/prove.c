/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proving our key for our Connector (quic/id/keyproof.h): an annotation, written when there is none
 * of ours, and once per process when the control plane has a later one on another Connector:
 * starting a device here is what moves it here. Not again after that, or two processes with one key
 * would take it from each other for ever.
 */
#include "base/log.h"
#include "connector/reg/reg_int.h"
#include "quic/id/keyproof.h"

static struct sw_slice annotation(const struct sw_kube_obj *o)
{
    return sw_json_str(sw_json_walk(o->json, "metadata", "annotations", SW_KEYPROOF, NULL));
}

static bool sign(struct sw_reg *r, uint64_t version, char ret[SW_KEYPROOF_TEXT])
{
    struct sw_keyproof_of of = {
        .uid = r->seen->uid, .ns = r->seen->ns, .name = r->seen->name, .version = version};
    struct sw_err err = {0};

    if (sw_keyproof_sign(r->o.key, &of, ret, &err) == SW_OK)
        return true;
    sw_log_error("connector", "cannot sign for Connector '%s': %s", r->found, err.msg);
    return false;
}

/* One key signs one message in one way, so ours is the text we would write. */
static bool is_ours(struct sw_reg *r)
{
    char text[SW_KEYPROOF_TEXT];
    uint8_t sig[SW_ED25519_SIG];
    uint64_t version;

    return sw_keyproof_parse(annotation(r->seen), &version, sig) == SW_OK &&
           version <= sw_keyproof_version(r->seen->json) && sign(r, version, text) &&
           sw_slice_eq_str(annotation(r->seen), text);
}

/* The control plane has our key for another Connector. */
static bool is_elsewhere(const struct sw_reg *r, struct sw_slice *ret_message)
{
    struct sw_slice reason;

    (void)sw_condition(sw_json_walk(r->seen->json, "status", "conditions", NULL), "KeyProved",
                       &reason, ret_message);
    return sw_slice_eq_str(reason, "ProvedElsewhere");
}

static void on_retry(struct sw_timer *t)
{
    reg_prove(SW_CONTAINER_OF(t, struct sw_reg, prove_retry));
}

static void on_written(void *arg, struct sw_kube_reply *p)
{
    struct sw_reg *r = arg;

    r->prove = NULL;
    reg_answered(r, p);
    if (p->rc == SW_OK) {
        r->proved_at = sw_max(sw_keyproof_version(p->object), 1);
        sw_backoff_reset(&r->prove_backoff);
        return;
    }
    sw_log_warn("connector",
                "cannot write the proof of our key to Connector '%s', which is not Ready without "
                "it: %.*s",
                r->found, SW_SLICE_ARG_MAX(p->message, 300));
    sw_timer_start(r->loop, &r->prove_retry,
                   sw_backoff_next(&r->prove_backoff, REG_BACKOFF_MIN, REG_BACKOFF_MAX), on_retry);
}

/* Only for the object that was signed for. */
static void write_proof(struct sw_reg *r, const char *text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = sw_json_new_object(&a);
    struct sw_json *meta = sw_json_put_object(&a, body, "metadata");
    struct sw_kube_req req = reg_req(r, SW_KUBE_PATCH);

    sw_json_put_str(&a, meta, "uid", r->seen->uid);
    sw_json_put_text(&a, sw_json_put_object(&a, meta, "annotations"), SW_KEYPROOF, text);
    req.name = r->seen->name;
    req.body = body;
    req.patch = SW_KUBE_PATCH_MERGE;
    sw_timer_stop(r->loop, &r->prove_retry);
    r->prove = sw_kube_do(r->client, &req, on_written, r);
}

void reg_prove(struct sw_reg *r)
{
    char text[SW_KEYPROOF_TEXT];
    struct sw_slice message;
    bool elsewhere;

    if (r->prove || !reg_may_write(r) || sw_keyproof_version(r->seen->json) < r->proved_at)
        return; /* the informer has not brought yet what we wrote */
    elsewhere = is_elsewhere(r, &message);
    if (is_ours(r) && (!elsewhere || r->proved_at)) {
        if (elsewhere && !r->logged_elsewhere)
            sw_log_warn("connector", "Connector '%s' gets no traffic: %.*s", r->found,
                        SW_SLICE_ARG_MAX(message, 300));
        r->logged_elsewhere = elsewhere;
        return;
    }
    if (sign(r, sw_keyproof_version(r->seen->json), text))
        write_proof(r, text);
}

void reg_prove_end(struct sw_reg *r)
{
    sw_kube_call_cancel(SW_TAKE(r->prove));
    sw_timer_stop(r->loop, &r->prove_retry);
}
