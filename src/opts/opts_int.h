/* SPDX-License-Identifier: Apache-2.0 */
/* Inside opts: where values come from, and the reading of the configuration file. */
#pragma once

#include "opts/opts.h"

/* Where an option's value came from, weakest first. */
enum sw_opt_source {
    SW_OPT_FROM_DEFAULT,
    SW_OPT_FROM_FILE,
    SW_OPT_FROM_ENV,
    SW_OPT_FROM_FLAG,
};

/* One parse in progress. */
struct sw_opts_state {
    const struct sw_opts_cmd *cmd;
    void *dest;
    struct sw_arena *arena;
    enum sw_opt_source *source; /* per option, of cmd->n */
    const char *config;         /* file named by flag or environment, NULL: none */
    struct sw_opts_rest *rest;
};

/* The option of that name, or NULL. */
const struct sw_opt *sw_opts_find(const struct sw_opts_cmd *cmd, struct sw_slice name);

/*
 * Sets one option unless a stronger source did. A list starts again when the source is stronger
 * than the one that filled it, and grows otherwise.
 */
SW_NODISCARD int sw_opts_set_from(struct sw_opts_state *st, const struct sw_opt *o,
                                  enum sw_opt_source source, struct sw_slice value,
                                  struct sw_err *err);

/*
 * Sets every option the file names, unless a stronger source did. Errors carry "FILE:LINE:COLUMN".
 */
SW_NODISCARD int sw_opts_load_file(struct sw_opts_state *st, const char *path, struct sw_err *err);
