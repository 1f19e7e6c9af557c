/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error texts of the access log, worded as ztunnel words them: a search or an alert that matches
 * its lines matches ours. Each function writes into 'out' and returns it.
 */
#pragma once

#include "base/err.h"

enum { SW_ERRTEXT = 320 };

/* A final status other than 200: "http status: 503 Service Unavailable". */
const char *sw_errtext_status(unsigned status, char out[SW_ERRTEXT]);
/* A connection to an application that could not be made: "connection failed: ...". */
const char *sw_errtext_connect(const struct sw_err *err, char out[SW_ERRTEXT]);
/* A connection to a peer or to the outside: "io error: ...". */
const char *sw_errtext_io(const struct sw_err *err, char out[SW_ERRTEXT]);
/* A peer's HBONE port that did not answer. */
const char *sw_errtext_hbone_timeout(char out[SW_ERRTEXT]);
/* 'why': the verdict of the policies. */
const char *sw_errtext_denied(const char *why, char out[SW_ERRTEXT]);
/* No certificate: 'why' is the authority's answer. */
const char *sw_errtext_identity(const char *why, char out[SW_ERRTEXT]);
/* The control plane has not sent the workload of a pod. */
const char *sw_errtext_unknown(const char *sa, const char *ns, const char *name,
                               char out[SW_ERRTEXT]);
