/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays we may connect to. Connectors and DNS records name the relay of a device, and their
 * writers may name any; so only relays count that the operator of this process named, or the
 * control plane in a ConfigMap of its own namespace.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"
#include "quic/wire/relay_url.h"
#include "sidecar/sidecar_int.h"

enum { RELAYS_MAX = 256 };

#define MAP_NAME "spanwire-relays"
#define MAP_KEY  "urls"

/* As SW_VEC(struct sw_relay_url), with a name. */
struct relay_vec {
    struct sw_relay_url *p;
    size_t n;
    size_t cap;
};

struct side_relays {
    struct relay_vec ours; /* of the command line */
    struct relay_vec told; /* by the control plane */
    struct sw_informer *informer;
};

static bool has(const struct relay_vec *v, const struct sw_relay_url *u)
{
    SW_VEC_FOREACH (struct sw_relay_url, it, v) {
        if (sw_relay_url_same(it, u))
            return true;
    }
    return false;
}

int side_relays_add(struct side_relays *r, struct sw_slice url, struct sw_err *err)
{
    struct sw_relay_url u;
    int rc = sw_relay_url_parse(url, &u, err);

    if (rc != SW_OK)
        return rc;
    if (!has(&r->ours, &u))
        sw_vec_push(&r->ours, u);
    return SW_OK;
}

struct side_relays *side_relays_new(const struct sw_sidecar_config *c, struct sw_err *err)
{
    struct side_relays *r = SW_NEW(struct side_relays);
    int rc = SW_OK;

    if (c->relay)
        rc = side_relays_add(r, sw_slice_str(c->relay), err);
    if (rc != SW_OK)
        rc = sw_err_prefix(err, "--relay '%.80s'", c->relay);
    for (size_t i = 0; i < c->relay_allow.n && rc == SW_OK; i++) {
        rc = side_relays_add(r, sw_slice_str(c->relay_allow.p[i]), err);
        if (rc != SW_OK)
            rc = sw_err_prefix(err, "--relay-allow '%.80s'", c->relay_allow.p[i]);
    }
    if (rc == SW_OK)
        return r;
    side_relays_free(r);
    return NULL;
}

void side_relays_free(struct side_relays *r)
{
    if (!r)
        return;
    side_relays_unfollow(r);
    sw_vec_done(&r->ours);
    sw_vec_done(&r->told);
    sw_free(r);
}

bool side_relays_allow(const struct side_relays *r, struct sw_slice url)
{
    struct sw_relay_url u;

    return sw_relay_url_parse(url, &u, NULL) == SW_OK && (has(&r->ours, &u) || has(&r->told, &u));
}

/* ---- the control plane's ---- */

/* URLs, one a line. A line that is none is logged, and the others count. */
static void take(struct side_relays *r, struct sw_slice text)
{
    r->told.n = 0;
    while (text.p) {
        struct sw_slice line = sw_slice_trim(sw_slice_cut(&text, '\n'));
        struct sw_relay_url u;
        struct sw_err err = {0};

        if (line.n == 0)
            continue;
        if (r->told.n == RELAYS_MAX) {
            sw_log_warn("sidecar", "ConfigMap " MAP_NAME ": more than %d relays, using the first",
                        RELAYS_MAX);
            break;
        }
        if (sw_relay_url_parse(line, &u, &err) == SW_OK)
            sw_vec_push(&r->told, u);
        else
            sw_log_warn("sidecar", "ConfigMap " MAP_NAME ": line '%.*s' ignored: %s",
                        SW_SLICE_ARG(sw_slice_head(line, 80)), err.msg);
    }
    sw_log_info("sidecar", "the control plane allows %zu relays", r->told.n);
}

static void on_add(void *arg, struct sw_kube_obj *o)
{
    take(arg, sw_json_str(sw_json_walk(o->json, "data", MAP_KEY, NULL)));
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_add(arg, now);
}

static void on_del(void *arg, struct sw_kube_obj *last)
{
    take(arg, sw_slice(NULL, 0));
}

static const struct sw_informer_cbs cbs = {.add = on_add, .update = on_update, .del = on_del};

void side_relays_follow(struct side_relays *r, struct sw_kube_client *client, const char *ns)
{
    struct sw_informer_opts o = {.gvr = &sw_configmaps_gvr,
                                 .ns = sw_slice_str(ns),
                                 .field_selector = "metadata.name=" MAP_NAME};

    r->informer = sw_informer_new(client, &o, &cbs, r);
    sw_informer_start(r->informer);
}

void side_relays_unfollow(struct side_relays *r)
{
    sw_informer_free(r->informer);
    r->informer = NULL;
}
