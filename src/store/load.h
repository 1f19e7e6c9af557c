/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a store file into memory and checks that its rows fit each other. */
#pragma once

#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "store/db.h"
#include "store/tree.h"
#include "store/window.h"

/* What is read from a file at the start. */
struct sw_load {
    struct sw_db_meta meta;
    struct sw_tree *tree; /* owned */
    struct sw_window window;
    uint64_t revision; /* highest given out */
    uint64_t rows;
};
/* Reads and cross-checks all rows. On failure *l is empty. */
SW_NODISCARD int sw_load_run(struct sw_load *l, struct sw_db *db, const char *path,
                             struct sw_err *err);
void sw_load_done(struct sw_load *l);
