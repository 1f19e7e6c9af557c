/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin on the host: a copy of this program in the runtime's binary directory, and our entry
 * in the first configuration of its configuration directory. Both are watched and repaired.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "io/loop.h"

struct sw_install;

/* Borrowed for the life of the installer. */
struct sw_install_opts {
    const char *bin_dir;
    const char *conf_dir;
    const char *conf_name;        /* the file to edit; NULL: the first valid one */
    const char *program;          /* what is copied; NULL: this program */
    const struct sw_json *plugin; /* our entry */
};

/*
 * Puts both in place now and whenever they change. That there is no configuration yet is no error:
 * it is waited for. NULL with err: the directories cannot be watched.
 */
SW_NODISCARD struct sw_install *sw_install_new(struct sw_loop *l, const struct sw_install_opts *o,
                                               struct sw_err *err);
void sw_install_free(struct sw_install *i);
/* True while our entry and our copy are where they belong. */
bool sw_install_done(const struct sw_install *i);
/*
 * Takes the entry out of every configuration of the directory and the copy away. What is not there
 * is no error; proceeds after errors and returns the first.
 */
SW_NODISCARD int sw_install_remove(const struct sw_install_opts *o, struct sw_err *err);
