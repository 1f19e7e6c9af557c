/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the proxy of a machine that joined as a node, and keeps it running until a signal. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cmd/join/state.h"
#include "opts/opts.h"

struct sw_machine_run {
    const char *dir; /* of the machine; absolute */
    const struct sw_machine *machine;
    bool redirect; /* connections of this machine come by redirection; otherwise by SOCKS5 */
    const struct sw_opt_list *flags; /* further flags of `spanwire node` */
};

SW_NODISCARD int sw_machine_serve(const struct sw_machine_run *o, struct sw_err *err);
/* A systemd unit that does the same, for standard output. */
SW_NODISCARD int sw_machine_unit(const struct sw_machine_run *o, struct sw_buf *out,
                                 struct sw_err *err);
