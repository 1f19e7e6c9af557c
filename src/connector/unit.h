/* SPDX-License-Identifier: Apache-2.0 */
/* The systemd user unit that keeps a device connected while its user is logged out. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct sw_unit {
    const char *name;        /* without ".service"; letters, digits, '-', '_', '.' */
    const char *program;     /* absolute */
    const char *const *args; /* behind `connector run` */
    size_t n_args;
    const char *directory;  /* where relative names count from; absolute */
    const char *kubeconfig; /* $KUBECONFIG; NULL: not set */
};

/* SW_EINVAL: a name or an argument that systemd cannot take (control characters), SW_ELIMIT. */
SW_NODISCARD int sw_unit_write(const struct sw_unit *u, struct sw_buf *out, struct sw_err *err);
/*
 * ~/.config/systemd/user/NAME.service ($XDG_CONFIG_HOME); the caller frees. NULL: SW_EINVAL for a
 * bad name, SW_ENOENT without a home directory.
 */
SW_NODISCARD char *sw_unit_path(const char *name, struct sw_err *err);
/* Writes the file by replacing it, directories included. */
SW_NODISCARD int sw_unit_install(const char *path, struct sw_slice text, struct sw_err *err);
