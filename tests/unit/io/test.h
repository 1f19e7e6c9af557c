/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka and what it wants included before it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
