/* SPDX-License-Identifier: Apache-2.0 */
/* MD5, only where a foreign protocol derives names with it. Never where security depends on it. */
#pragma once

#include <stdint.h>

#include "base/slice.h"

enum { SW_MD5_LEN = 16 };

void sw_md5(struct sw_slice in, uint8_t ret[SW_MD5_LEN]);
