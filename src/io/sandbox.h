/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process gives up for ever, so that an attacker that takes it over gets no further: new
 * privileges (setuid programs), being read by other processes of its user (ptrace, core dumps), and
 * system calls that no role needs. On top of what systemd or a container runtime takes.
 */
#pragma once

#include "base/err.h"

enum sw_sandbox {
    SW_SANDBOX_NONE,       /* a command that does one thing and ends */
    SW_SANDBOX_ROLE,       /* threads and sockets; starts no program, stays in its namespaces */
    SW_SANDBOX_NODE,       /* the same, but enters network namespaces */
    SW_SANDBOX_SUPERVISOR, /* starts roles */
    SW_SANDBOX_AGENT,      /* starts nft, ip and roles, enters network namespaces */
};

/*
 * Before the first thread. SPANWIRE_SANDBOX=off in the environment leaves everything as it is, for
 * debuggers. Returns SW_ESYS when the kernel refuses a part: what it granted stays in force.
 */
SW_NODISCARD int sw_sandbox_enter(enum sw_sandbox kind, struct sw_err *err);
