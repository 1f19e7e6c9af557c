/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire cert`: make a small CA, issue and revoke workload certificates, explain them. */
#pragma once

/* argv[0] is "cert". Returns the exit status. */
int sw_cmd_cert(int argc, char **argv);
