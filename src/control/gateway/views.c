/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/views.h"

#include "base/buf.h"
#include "base/search.h"
#include "base/vec.h"
#include "control/gateway/build/build.h"
#include "control/gateway/xds/xds_int.h"
#include "xds/cache.h"

enum { NAMES_MAX = 64 << 20 };

static const char view_word[] = "view";

/* The next view of the input, and what its line says of it; false: there is none. */
static bool next_view(struct sw_slice *input, struct sw_slice *ret_name, struct sw_slice *ret_rest)
{
    while (input->n) {
        struct sw_slice line = sw_slice_cut(input, '\n');

        if (!sw_slice_eq_str(sw_slice_cut(&line, ' '), view_word))
            continue;
        *ret_name = sw_slice_cut(&line, ' ');
        *ret_rest = line.p ? line : sw_slice("", 0);
        if (ret_name->n && ret_name->n < SW_XDS_VIEW_MAX)
            return true;
    }
    return false;
}

static const char *type_of(struct sw_arena *a, struct sw_slice view, const char *type)
{
    return sw_arena_printf(a, "%.*s#%s", SW_SLICE_ARG(view), type);
}

/* Names of the endpoint sets, of split UDP chains too. */
static struct sw_slice needed(const struct sw_model *m, struct sw_arena *a)
{
    SW_BUF_AUTO out = {.max = NAMES_MAX};
    int rc = SW_OK;

    for (size_t i = 0; i < m->n_endpoints && rc == SW_OK; i++)
        rc = sw_buf_printf(&out, "%.*s\n", SW_SLICE_ARG(m->endpoints[i]));
    for (size_t i = 0; i < m->n_listeners; i++) {
        const struct sw_model_listener *l = m->listeners[i];

        for (size_t k = 0; l->udp && k < l->n_chains && rc == SW_OK; k++) {
            struct sw_slice name = sw_gwx_udp_cluster_name(a, l->chains[k]);

            if (sw_gwx_udp_split(l->chains[k]))
                rc = sw_buf_printf(&out, "%.*s\n", SW_SLICE_ARG(name));
        }
    }
    return sw_arena_slice(a, sw_buf_slice(&out));
}

static void split(struct sw_slice text, char by, struct sw_arena *a, struct sw_slice **ret,
                  size_t *ret_n)
{
    SW_VEC(struct sw_slice) all = {0};

    while (text.n) {
        struct sw_slice word = sw_slice_cut(&text, by);

        if (word.n)
            sw_vec_push(&all, word);
    }
    *ret = sw_arena_array(a, all.n + 1, sizeof(**ret));
    for (size_t i = 0; i < all.n; i++)
        (*ret)[i] = all.p[i];
    *ret_n = all.n;
    sw_slice_sort(*ret, *ret_n);
    sw_vec_done(&all);
}

void sw_plane_views_encode(const struct sw_model *m, const struct sw_model_xds_conf *conf,
                           struct sw_slice input, struct sw_arena *a, sw_plane_view_put put,
                           void *arg)
{
    struct sw_slice view;
    struct sw_slice rest;

    while (next_view(&input, &view, &rest)) {
        struct sw_model_resources res;
        struct sw_model part;
        struct sw_slice *gateways;
        size_t n;

        split(rest, ' ', a, &gateways, &n);
        sw_model_scope(m, gateways, n, a, &part);
        sw_model_xds_encode(&part, conf, a, &res);
        for (size_t i = 0; i < res.n; i++)
            put(arg, type_of(a, view, res.p[i].type), res.p[i].name, res.p[i].value);
        put(arg, type_of(a, view, SW_XDS_VIEW), SW_SLICE_LIT("endpoints"), needed(&part, a));
    }
}

void sw_plane_views_endpoints(struct sw_xds_cache *c, struct sw_slice input)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice view;
    struct sw_slice rest;

    while (next_view(&input, &view, &rest)) {
        const struct sw_xds_snap *s =
            sw_xds_cache_get(c, sw_slice_str(type_of(&a, view, SW_XDS_VIEW)));
        struct sw_slice *names = NULL;
        size_t n = 0;

        if (s->n)
            split(s->res[0]->value, '\n', &a, &names, &n);
        sw_xds_cache_subset(c, type_of(&a, view, SW_XDS_ENDPOINT), SW_XDS_ENDPOINT, names, n);
    }
}

static bool names_view(struct sw_slice input, struct sw_slice view)
{
    struct sw_slice name;
    struct sw_slice rest;

    while (next_view(&input, &name, &rest)) {
        if (sw_slice_eq(name, view))
            return true;
    }
    return false;
}

void sw_plane_views_drop(struct sw_xds_cache *c, struct sw_slice before, struct sw_slice now)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice view;
    struct sw_slice rest;

    while (next_view(&before, &view, &rest)) {
        if (!names_view(now, view))
            sw_xds_cache_subset(c, type_of(&a, view, SW_XDS_ENDPOINT), SW_XDS_ENDPOINT, NULL, 0);
    }
}
