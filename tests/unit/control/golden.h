/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden files: every NAME.yaml of a directory below SW_GOLDEN, with the recorded text beside it.
 * SW_UPDATE_GOLDEN=1 writes the texts anew; read the difference before you commit it.
 */
#pragma once

#include <stddef.h>

enum { GOLDEN_MAX = 400, GOLDEN_PATH = 512 };

struct golden {
    const char *set; /* "gateway": the directory */
    char names[GOLDEN_MAX][128];
    size_t n;
};

/* Finds the files of a set; those that begin with '_' belong to others. Sorted by name. */
void golden_find(struct golden *g, const char *set);
void golden_path(const struct golden *g, const char *name, const char *suffix,
                 char out[GOLDEN_PATH]);
/* The whole file, freed with sw_free; the test fails when there is none. */
char *golden_read(const struct golden *g, const char *name, const char *suffix);
/* The test fails unless NAME.txt has this text. */
void golden_compare(const struct golden *g, const char *name, const char *got);
