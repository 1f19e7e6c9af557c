/* SPDX-License-Identifier: Apache-2.0 */
/* What a device writes about itself, as objects of the API. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "quic/id/addrs.h"
#include "quic/path.h"

#define SW_CONNECTOR_GATEWAY_IDS "spanwire.dev/gateway-ids"
#define SW_CONNECTOR_RELAY       "spanwire.dev/relay"

enum { SW_DETAILS_PATHS = 8 };

/* How a gateway reached the device last. */
struct sw_details_path {
    struct sw_nodeid gateway;
    struct sw_addr address; /* the gateway's; family 0: by relay */
    uint64_t rtt_us;
    uint64_t since_ns; /* wall */
    const char *note;  /* static: why it stays on a relay, of sw_qconn_path_note; NULL: unknown */
};

struct sw_details {
    struct sw_nodeid id;
    struct sw_slice relay; /* empty: none */
    struct sw_addr_list addrs;
    bool tcp; /* capabilities that are ready */
    bool udp;
    struct sw_details_path paths[SW_DETAILS_PATHS];
    size_t n_paths;
    uint32_t paths_seq; /* another one: they are news */
    bool write_paths;   /* to the patch: write them. An API may drop what it does not know */
};

/*
 * Is a measurement of the same path worth another write? Round trips that differ by a factor of two
 * (and by a millisecond: less is the machine's own noise) or by more than 20 ms, and another note.
 */
bool sw_details_path_changed(const struct sw_details_path *p, uint64_t rtt_us, const char *note);
/* Drops the paths whose gateway 'keep' refuses, in place and in order; returns how many are left.
 */
size_t sw_details_paths_keep(struct sw_details_path *paths, size_t n,
                             bool (*keep)(void *arg, const struct sw_nodeid *gateway), void *arg);
/* status.connectionDetails, without the paths. */
struct sw_json *sw_details_connection(struct sw_arena *a, const struct sw_details *d);
/* status.capabilities; a condition equal to the one in 'seen' (may be NULL) keeps its time. */
struct sw_json *sw_details_capabilities(struct sw_arena *a, const struct sw_details *d,
                                        const struct sw_json *seen, uint64_t wall_ns);
/*
 * The merge patch of /status that makes obj say d; NULL when it does already. Lists are compared
 * whole.
 */
struct sw_json *sw_details_patch(struct sw_arena *a, const struct sw_details *d,
                                 const struct sw_json *obj, uint64_t wall_ns);

/* The merge patch that makes 'now' what 'before' was: members that came later go. Objects. */
struct sw_json *sw_details_undo(struct sw_arena *a, const struct sw_json *before,
                                const struct sw_json *now);

/* A new Connector. name empty: the server makes one up. */
struct sw_json *sw_details_connector(struct sw_arena *a, struct sw_slice ns, struct sw_slice name,
                                     struct sw_slice class_name, struct sw_slice host,
                                     struct sw_slice os);
/* The class to use out of a ConnectorClassList: 'datum-connect' where it is, else the first. */
struct sw_slice sw_details_pick_class(const struct sw_json *list);
/* The Connector to use of a list that has our id: the one of that name, else the oldest. */
const struct sw_json *sw_details_pick_connector(const struct sw_json *list, struct sw_slice name);

/* status and message of a condition; "" when there is none of that type. */
struct sw_slice sw_condition(const struct sw_json *conditions, const char *type,
                             struct sw_slice *ret_reason, struct sw_slice *ret_message);
/* Its observedGeneration is the object's present generation, as far as that is known. */
bool sw_condition_current(const struct sw_json *obj, const char *type);
/* True, and of the object's present generation. */
bool sw_condition_true(const struct sw_json *obj, const char *type);
