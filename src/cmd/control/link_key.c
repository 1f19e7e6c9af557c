/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_key.h"

#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "io/loop.h"
#include "kube/client/informer.h"

#define SECRET "jwk"

enum { KEY_LEN = 32, KEY_TEXT = 4096 };

static const uint64_t retry_ns = SW_NS_PER_S;

static const struct sw_kube_gvr secrets = {"", "v1", "secrets", "Secret", true};
static const struct sw_kube_gvr namespaces = {"", "v1", "namespaces", "Namespace", false};

struct sw_control_link_key {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    const char *ns;
    void (*changed)(void *arg, struct sw_slice key);
    void *arg;
    struct sw_informer *informer;
    struct sw_kube_call *call; /* creation under way */
    struct sw_timer timer;     /* the next try */
    uint8_t key[KEY_LEN];      /* to restore it with */
    bool has_key;
    bool exists;
};

static void ensure(struct sw_control_link_key *k);

static void on_timer(struct sw_timer *t)
{
    ensure(SW_CONTAINER_OF(t, struct sw_control_link_key, timer));
}

/* ---- making it ---- */

static void on_namespace(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_link_key *k = arg;

    (void)r; /* whoever made it: the next try shows */
    k->call = NULL;
    sw_timer_start(k->loop, &k->timer, r->rc == SW_OK ? 0 : retry_ns, on_timer);
}

static void make_namespace(struct sw_control_link_key *k)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *o = SW_JSON_OF(&a, {"apiVersion", .str = "v1"}, {"kind", .str = "Namespace"},
                                   {"metadata", .json = SW_JSON_OF(&a, {"name", .str = k->ns})});

    k->call = sw_kube_create(k->client, &namespaces, o, on_namespace, k);
}

static void on_created(void *arg, struct sw_kube_reply *r)
{
    struct sw_control_link_key *k = arg;

    k->call = NULL;
    if (r->rc == SW_OK) {
        sw_log_info("link", "made Secret %s/" SECRET, k->ns);
        return; /* the informer brings it */
    }
    if (r->rc == SW_ENOENT) {
        make_namespace(k);
        return;
    }
    if (r->code != 409)
        sw_log_warn("link", "cannot make Secret %s/" SECRET ", retrying: %.*s", k->ns,
                    SW_SLICE_ARG(r->message));
    sw_timer_start(k->loop, &k->timer, retry_ns, on_timer);
}

/* data.key is base64 of the base64 text of the bytes. */
static struct sw_slice encode(struct sw_arena *a, const uint8_t key[KEY_LEN])
{
    SW_BUF_AUTO once = {.max = KEY_TEXT};
    SW_BUF_AUTO twice = {.max = KEY_TEXT};

    (void)!sw_base64_append(&once, sw_slice(key, KEY_LEN));
    (void)!sw_base64_append(&twice, sw_buf_slice(&once));
    return sw_arena_slice(a, sw_buf_slice(&twice));
}

static void ensure(struct sw_control_link_key *k)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *o;

    if (k->exists || k->call)
        return;
    if (!k->has_key)
        sw_rand_bytes(k->key, sizeof(k->key));
    o = SW_JSON_OF(
        &a, {"apiVersion", .str = "v1"}, {"kind", .str = "Secret"},
        {"metadata", .json = SW_JSON_OF(&a, {"name", .str = SECRET}, {"namespace", .str = k->ns})},
        {"data", .json = SW_JSON_OF(&a, {"key", .text = encode(&a, k->key)})});
    k->call = sw_kube_create(k->client, &secrets, o, on_created, k);
}

/* ---- following it ---- */

static void on_secret(void *arg, struct sw_kube_obj *o)
{
    struct sw_control_link_key *k = arg;
    SW_BUF_SECRET once = {.max = KEY_TEXT};
    SW_BUF_SECRET raw = {.max = KEY_TEXT};
    struct sw_slice text = sw_json_str(sw_json_walk(o->json, "data", "key", NULL));

    k->exists = true;
    if (!text.n || sw_base64_decode(&once, text) != SW_OK ||
        sw_base64_decode(&raw, sw_slice_trim_lines(sw_buf_slice(&once))) != SW_OK ||
        sw_buf_len(&raw) < KEY_LEN) {
        sw_log_warn("link", "Secret %s/" SECRET " has no usable key, keeping the previous one",
                    k->ns);
    } else {
        k->has_key = raw.p && sw_buf_len(&raw) == KEY_LEN;
        if (k->has_key)
            memcpy(k->key, raw.p + raw.off, KEY_LEN);
        k->changed(k->arg, sw_buf_slice(&raw));
    }
}

static void on_secret_changed(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_secret(arg, now);
}

static void on_secret_gone(void *arg, struct sw_kube_obj *last)
{
    struct sw_control_link_key *k = arg;

    k->exists = false;
    sw_log_warn("link", "Secret %s/" SECRET " was deleted, restoring it", k->ns);
    ensure(k);
}

static void on_synced(void *arg)
{
    ensure(arg);
}

static const struct sw_informer_cbs cbs = {
    .add = on_secret, .update = on_secret_changed, .del = on_secret_gone, .synced = on_synced};

struct sw_control_link_key *sw_control_link_key_new(struct sw_kube_client *client, const char *ns,
                                                    void (*changed)(void *arg, struct sw_slice key),
                                                    void *arg)
{
    struct sw_control_link_key *k = SW_NEW(struct sw_control_link_key);

    k->client = client;
    k->loop = sw_kube_client_loop(client);
    k->ns = ns;
    k->changed = changed;
    k->arg = arg;
    k->informer =
        sw_informer_new(client,
                        &(struct sw_informer_opts){.gvr = &secrets,
                                                   .ns = sw_slice_str(ns),
                                                   .field_selector = "metadata.name=" SECRET,
                                                   .slim = true},
                        &cbs, k);
    sw_informer_start(k->informer);
    return k;
}

void sw_control_link_key_free(struct sw_control_link_key *k)
{
    if (!k)
        return;
    sw_kube_call_cancel(k->call);
    sw_timer_stop(k->loop, &k->timer);
    sw_informer_free(k->informer);
    explicit_bzero(k->key, sizeof(k->key));
    sw_free(k);
}
