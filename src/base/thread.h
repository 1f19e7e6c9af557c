/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take no signals: those are the main loop's business. */
#pragma once

#include <pthread.h>

#include "base/def.h"

/* Starts a named thread with every signal blocked. 0, or the error number. */
SW_NODISCARD int sw_thread_start(pthread_t *ret, void *(*fn)(void *arg), void *arg,
                                 const char *name);
