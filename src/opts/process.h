/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of option tables that are the same for several roles (telemetry/process.h). */
#pragma once

#include "opts/opts.h"
#include "telemetry/process.h"

extern const char *const sw_log_formats[]; /* as enum sw_log_format */
extern const char *const sw_aeads[];       /* as enum sw_aead_choice */

/* 'at' is the offset of a struct sw_process_config. */
#define SW_OPT_WORKERS(at)                                                                         \
    {                                                                                              \
        "workers", "SPANWIRE_WORKERS", SW_OPT_U32,                                                 \
            .offset = (at) + offsetof(struct sw_process_config, workers), .def = "0", .max = 256,  \
            .arg = "N", .help = "Worker threads; 0: one per processor."                            \
    }

/* Two rows; the scope is of an example. */
#define SW_OPT_LOG(at, scope, format_help)                                                         \
    {"log-level",                                                                                  \
     "SPANWIRE_LOG_LEVEL",                                                                         \
     SW_OPT_STR,                                                                                   \
     .offset = (at) + offsetof(struct sw_process_config, log_level),                               \
     .def = "info",                                                                                \
     .arg = "FILTER",                                                                              \
     .help = "error, warn, info, debug or trace; per scope as in 'info," scope "=debug'."},        \
    {                                                                                              \
        "log-format", "SPANWIRE_LOG_FORMAT", SW_OPT_ENUM,                                          \
            .offset = (at) + offsetof(struct sw_process_config, log_format), .def = "plain",       \
            .choices = sw_log_formats, .help = (format_help)                                       \
    }

/* 'at' is the offset of an int, enum sw_aead_choice. */
#define SW_OPT_AEAD(at)                                                                            \
    {                                                                                              \
        "aead", "SPANWIRE_AEAD", SW_OPT_ENUM, .offset = (at), .def = "auto", .choices = sw_aeads,  \
                                              .help = "Library that encrypts records."             \
    }
