/* SPDX-License-Identifier: Apache-2.0 */
/* What the json files of base share. Not for others. */
#pragma once

/* Where the number at s ends; *ret_bad is the place of the fault when there is one, else NULL. */
const char *sw_json_number_end(const char *s, const char *end, const char **ret_bad);
