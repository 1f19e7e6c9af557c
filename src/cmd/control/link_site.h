/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates between control plane and data planes of one site: ca.pem, control.pem, control.key,
 * dataplane.pem, dataplane.key in a directory, made where they are missing.
 */
#pragma once

#include "base/err.h"

struct sw_tls_cred;

/* Makes what is missing. Never replaces a file. */
SW_NODISCARD int sw_control_link_site_make(const char *dir, struct sw_err *err);
/* What the port shows, and whom it lets in. NULL with err. */
SW_NODISCARD struct sw_tls_cred *sw_control_link_site_cred(const char *dir, struct sw_err *err);
