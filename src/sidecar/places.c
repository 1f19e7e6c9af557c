/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of this gateway: published to the control plane, so that devices behind NATs can send
 * here first, and sent to devices whose connections run through a relay.
 */
#include "base/log.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "sidecar/sidecar_int.h"

enum { LOCAL_MAX = 128 };

/* --advertise is the operator's word: nothing is added. One that is no address is for others. */
static bool advertised(const struct sw_sidecar *s, struct sw_addr_list *ret)
{
    const struct sw_opt_list *list = &s->c->advertise;

    for (size_t i = 0; i < list->n && ret->n < SW_QUIC_ADDRS_MAX; i++) {
        struct sw_err err = {0};

        if (sw_addr_parse(sw_slice_str(list->p[i]), &ret->a[ret->n], &err) == SW_OK)
            ret->n++;
        else
            sw_log_warn("sidecar", "--advertise '%.80s' ignored: %s", list->p[i], err.msg);
    }
    return list->n > 0;
}

static void collect(const struct sw_sidecar *s, struct sw_addr_list *ret)
{
    struct sw_addr mapped[SW_QUIC_MAPPED_MAX];
    struct sw_addr bound[2];
    struct sw_ip local[LOCAL_MAX];

    *ret = (struct sw_addr_list){0};
    if (!advertised(s, ret))
        sw_addr_list_build(&(struct sw_addr_sources){mapped, sw_quic_mapped(s->quic, mapped), bound,
                                                     sw_quic_bound(s->quic, bound), local,
                                                     sw_addrs_local(local, LOCAL_MAX)},
                           ret);
}

void side_places_changed(struct sw_sidecar *s)
{
    struct sw_addr_list now;

    collect(s, &now);
    if (sw_addr_list_equal(&now, &s->places.list))
        return;
    s->places.list = now;
    sw_quic_set_candidates(s->quic, now.a, now.n);
    if (s->api)
        side_api_moved(s->api);
}

/* Interfaces of containers come and go: only an address that is lost concerns connections. */
static bool lost_one(const struct sw_addr_list *before, const struct sw_addr_list *now)
{
    for (size_t i = 0; i < before->n; i++)
        if (!sw_addr_among(now->a, now->n, &before->a[i]))
            return true;
    return false;
}

static void on_network(void *arg, bool slept)
{
    struct sw_sidecar *s = arg;
    struct sw_addr_list now;

    collect(s, &now);
    if (slept || lost_one(&s->places.list, &now)) {
        sw_log_info("sidecar", "an address of this machine is gone: checking every path");
        sw_quic_network_changed(s->quic);
    }
    side_places_changed(s);
}

void side_places_start(struct sw_sidecar *s)
{
    s->places.watch = sw_addr_watch_new(s->loop, on_network, s, NULL);
    side_places_changed(s);
}
