/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/views.h"

#include <stdio.h>
#include <string.h>

#include "apiserver/server.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "cmd/control/access.h"
#include "control/gateway/controller.h"
#include "io/loop.h"

#define ALL_URL "/xds"

enum { VIEWS_MAX = 64, TEXT_MAX = 16 << 20 };

struct view {
    char name[SW_XDS_VIEW_MAX];
    struct sw_slice gateways; /* "ns/name ns/name", owned */
    uint64_t round;           /* in which a stream asked for it */
};

struct sw_control_views {
    struct sw_loop *loop;
    struct sw_api *api; /* NULL: 'access' judges */
    struct sw_control_access *access;
    struct sw_xds_server *server;
    struct sw_gateway_controller *controller;
    struct sw_arena arena; /* of the next two */
    const char **urls;     /* ALL_URL, then one for each Gateway */
    struct sw_slice *gateways;
    size_t n; /* Gateways */
    bool known;
    bool *allowed;       /* room for an answer */
    struct sw_map views; /* by their Gateways */
    uint64_t round;
    struct sw_defer again;
};

struct sw_control_views *sw_control_views_new(struct sw_loop *l, struct sw_api *api,
                                              struct sw_control_access *access)
{
    struct sw_control_views *v = SW_NEW(struct sw_control_views);

    v->loop = l;
    v->api = api;
    v->access = access;
    sw_control_views_gateways(v, sw_slice("", 0));
    v->known = false;
    return v;
}

static void view_free(struct view *w)
{
    sw_slice_free(&w->gateways);
    sw_free(w);
}

void sw_control_views_free(struct sw_control_views *v)
{
    if (!v)
        return;
    SW_MAP_DRAIN(&v->views, view_free);
    sw_defer_cancel(&v->again);
    sw_arena_clear(&v->arena);
    sw_free(v);
}

/* ---- what there is ---- */

/* Sets which views the controller makes. */
static void notify(struct sw_control_views *v)
{
    SW_BUF_AUTO text = {.max = TEXT_MAX};
    int rc = SW_OK;

    SW_MAP_EACH (const struct view, w, &v->views) {
        if (rc == SW_OK)
            rc = sw_buf_printf(&text, "view %s %.*s\n", w->name, SW_SLICE_ARG(w->gateways));
    }
    if (rc == SW_OK && v->controller)
        sw_gateway_controller_views(v->controller, sw_buf_slice(&text));
}

static void on_again(struct sw_defer *d)
{
    struct sw_control_views *v = SW_CONTAINER_OF(d, struct sw_control_views, again);
    bool dropped = false;

    v->round++;
    if (v->server)
        sw_xds_server_review(v->server);
    SW_MAP_EACH (struct view, w, &v->views) {
        if (w->round == v->round)
            continue;
        (void)sw_map_del(&v->views, w->gateways);
        view_free(w);
        dropped = true;
    }
    if (dropped)
        notify(v);
}

void sw_control_views_changed(void *views)
{
    struct sw_control_views *v = views;

    sw_loop_defer(v->loop, &v->again, on_again);
}

void sw_control_views_start(struct sw_control_views *v, struct sw_xds_server *s,
                            struct sw_gateway_controller *c)
{
    v->server = s;
    v->controller = c;
}

static size_t count_lines(struct sw_slice text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

void sw_control_views_gateways(struct sw_control_views *v, struct sw_slice names)
{
    size_t max = count_lines(names) + 1;

    sw_arena_clear(&v->arena);
    v->arena = (struct sw_arena){0};
    names = sw_arena_slice(&v->arena, names);
    v->gateways = sw_arena_array(&v->arena, max, sizeof(*v->gateways));
    v->urls = sw_arena_array(&v->arena, max + 1, sizeof(*v->urls));
    v->allowed = sw_arena_array(&v->arena, max + 1, sizeof(*v->allowed));
    v->urls[0] = ALL_URL;
    v->n = 0;
    while (names.n) {
        struct sw_slice name = sw_slice_cut(&names, '\n');

        if (!name.n)
            continue;
        v->gateways[v->n++] = name;
        v->urls[v->n] = sw_arena_printf(&v->arena, ALL_URL "/%.*s", SW_SLICE_ARG(name));
    }
    v->known = true;
    sw_control_views_changed(v);
}

/* ---- judging ---- */

/* Fills 'allowed'. SW_EPENDING: one of them is not reviewed yet. */
static int ask_elsewhere(struct sw_control_views *v, struct sw_slice token, bool open,
                         struct sw_err *err)
{
    int worst = SW_OK;

    for (size_t i = 0; i <= v->n; i++) {
        struct sw_slice url = sw_slice_str(v->urls[i]);
        int rc = open ? sw_control_access_review(v->access, token, url, err)
                      : sw_control_access_check(v->access, token, url, err);

        v->allowed[i] = rc == SW_OK;
        if (rc == SW_EDENIED)
            return rc;
        if (rc == SW_EPENDING)
            worst = rc;
        if (i == 0 && rc == SW_OK)
            return SW_OK; /* all of them */
        if (i == 0 && rc == SW_EPENDING)
            return rc;
    }
    return worst;
}

/*
 * SW_OK: 'allowed' is what the client may have, SW_EPENDING: not reviewed yet, SW_EDENIED: not
 * authenticated, SW_ENOENT: there is nothing for it. A new client may wait for the Gateways to be
 * known.
 */
static int judge(struct sw_control_views *v, struct sw_slice token, bool open, struct sw_err *err)
{
    const struct sw_api_urls urls = {v->urls, v->n + 1};
    int rc = v->api ? sw_api_may(v->api, token, &urls, v->allowed, err)
                    : ask_elsewhere(v, token, open, err);
    bool some = false;

    if (rc == SW_EDENIED || (rc == SW_OK && v->allowed[0]))
        return rc;
    if (!v->known)
        return open ? SW_EPENDING : rc;
    for (size_t i = 0; i <= v->n; i++)
        some |= v->allowed[i];
    if (rc == SW_EPENDING)
        return some && !open ? SW_OK : rc;
    return some ? SW_OK
                : sw_err_set(err, SW_ENOENT,
                             "bearer token: its owner may not get /xds, nor /xds/NAMESPACE/NAME "
                             "of any Gateway");
}

int sw_control_views_allow(struct sw_control_views *v, const struct sw_xds_client_id *id,
                           struct sw_err *err)
{
    return judge(v, id->token, false, err);
}

/* ---- views ---- */

static struct view *new_view(struct sw_control_views *v, struct sw_slice gateways)
{
    struct view *w = SW_NEW(struct view);

    w->gateways = sw_slice_copy(gateways);
    (void)snprintf(w->name, sizeof(w->name), "%016llx%016llx",
                   (unsigned long long)sw_siphash13(1, 2, gateways.p, gateways.n),
                   (unsigned long long)sw_siphash13(3, 4, gateways.p, gateways.n));
    (void)sw_map_put(&v->views, w->gateways, w);
    notify(v);
    return w;
}

int sw_control_views_view(struct sw_control_views *v, const struct sw_xds_client_id *id,
                          char ret[SW_XDS_VIEW_MAX], struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = TEXT_MAX};
    int rc = judge(v, id->token, true, err);
    struct view *w;

    if (rc != SW_OK)
        return rc;
    if (v->allowed[0])
        return SW_OK;
    for (size_t i = 0; i < v->n && rc == SW_OK; i++) {
        if (v->allowed[i + 1])
            rc = sw_buf_printf(&text, "%s%.*s", sw_buf_len(&text) ? " " : "",
                               SW_SLICE_ARG(v->gateways[i]));
    }
    if (rc != SW_OK)
        return sw_err_set(err, SW_ENOENT, "too many Gateways");
    w = sw_map_get(&v->views, sw_buf_slice(&text));
    if (!w && v->views.n >= VIEWS_MAX) {
        sw_control_views_changed(v); /* unused ones go */
        return sw_err_set(err, SW_ENOENT, "more than %d different sets of Gateways are served",
                          VIEWS_MAX);
    }
    if (!w)
        w = new_view(v, sw_buf_slice(&text));
    w->round = v->round;
    memcpy(ret, w->name, sizeof(w->name));
    return SW_OK;
}

struct sw_slice sw_control_views_of(struct sw_control_views *v, struct sw_slice view)
{
    SW_MAP_EACH (const struct view, w, &v->views) {
        if (sw_slice_eq_str(view, w->name))
            return w->gateways;
    }
    return sw_slice("", 0);
}
