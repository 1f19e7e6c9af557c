/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that loses power. An SQLite VFS above the real one remembers of every file what was synced
 * and what was only written. When the power goes, each 512-byte sector of what was only written
 * reached the disk or not, in any order; truncations and removals likewise.
 */
#pragma once

#include <stdint.h>

/* Makes it the default VFS of this process; nothing is lost before a call of power_lasts. */
void power_install(void);
/*
 * Power for this many more operations (writes, truncations, syncs, removals) of the files; every
 * one after that fails. 0: for ever.
 */
void power_lasts(uint64_t operations);
/* One sync in this many fails, and what it had to write may be lost although later ones succeed. 0:
 * none. */
void power_sync_fails(uint32_t one_in);
/* Leaves in the file system what the disk holds now. No database may be open. */
void power_lose(void);

struct power_counts {
    uint64_t syncs;
    uint64_t lost_sectors; /* written, never synced, not on the disk */
    uint64_t kept_sectors; /* written, never synced, on the disk all the same */
    uint64_t undone;       /* truncations and removals that did not happen */
    uint64_t failed_syncs;
};
struct power_counts power_counts(void);
