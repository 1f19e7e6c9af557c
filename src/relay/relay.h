/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay role: a meeting point for nodes that cannot reach each other directly. It forwards
 * their QUIC packets, which it cannot read, between WebSockets; compatible with iroh's relay.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"
#include "opts/admin.h"
#include "opts/opts.h"
#include "opts/process.h"

struct sw_relay_config {
    struct sw_arena arena;
    struct sw_addr listen;     /* family 0: none */
    struct sw_addr tls_listen; /* family 0: none */
    bool qad;
    struct sw_addr qad_listen; /* family 0: chosen (qad.c) */
    uint32_t qad_max;          /* connections */
    uint32_t qad_rate;         /* new ones per second and address */
    const char *cert;
    const char *key;
    bool open; /* to every client */
    const char *kubeconfig;
    const char *allow_file;
    const char *deny_file;
    const char *token_file;
    const char *access_url;
    const char *access_token_file;
    uint32_t max_clients;
    uint32_t rate;  /* bytes per second and client; 0: no limit */
    uint32_t burst; /* bytes; 0: a tenth of the rate */
    uint32_t queue; /* datagram frames that wait for a client */
    uint64_t write_timeout_ns;
    uint64_t establish_ns;
    struct sw_process_config process;
};

extern const struct sw_opts_cmd sw_relay_options;

/* Flags, environment and file; results as sw_opts_parse, and SW_EINVAL for what cannot go together.
 */
SW_NODISCARD int sw_relay_config_read(struct sw_relay_config *c, int argc, char **argv,
                                      struct sw_err *err);
void sw_relay_config_done(struct sw_relay_config *c);

/*
 * Runs until a signal or /quitquitquit ended it and clients were drained. SW_OK, or what kept it
 * from starting.
 */
SW_NODISCARD int sw_relay_run(const struct sw_relay_config *c, struct sw_err *err);
