/* SPDX-License-Identifier: Apache-2.0 */
/* The CNI plugin: what a container runtime runs for every pod. */
#pragma once

#include <stdbool.h>

/* The name under which the plugin is installed, and its type in configurations. */
#define SW_CNI_PLUGIN "spanwire-cni"

/* True when a runtime called us: CNI_COMMAND is set. */
bool sw_cni_called(void);
/*
 * Reads environment and standard input, does as asked and writes the answer to standard output.
 * Returns the exit status.
 */
int sw_cni_plugin(void);
