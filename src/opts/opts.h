/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a command, from one table: flags, environment, configuration file, defaults, help
 * text and manual page all come from the same rows.
 * Order: a flag beats the environment, which beats --config FILE, which beats the default.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum sw_opt_type {
    SW_OPT_GROUP,    /* not an option: 'help' is a heading */
    SW_OPT_STR,      /* const char *, NULL when absent and without default */
    SW_OPT_BOOL,     /* bool; "--x", "--x=false", "--no-x" */
    SW_OPT_U32,      /* uint32_t within [min, max]; decimal, or hexadecimal with 0x */
    SW_OPT_DURATION, /* uint64_t nanoseconds within [min, max] milliseconds */
    SW_OPT_ENUM,     /* int: index into 'choices' */
    SW_OPT_IP,       /* struct sw_ip, family 0 when absent */
    SW_OPT_ADDR,     /* struct sw_addr, ip.family 0 when absent */
    SW_OPT_LIST,     /* struct sw_opt_list; the flag repeats, the environment uses commas */
};

enum {
    SW_OPT_SECRET = 1, /* the value never appears in messages */
    SW_OPT_NEEDED = 2, /* an error when nothing sets it */
    SW_OPT_SWITCH = 4, /* of SW_OPT_STR: flags as of SW_OPT_BOOL; the command reads the text */
};

struct sw_opt_list {
    const char **p; /* arena */
    size_t n;
};

struct sw_opt {
    const char *name; /* without dashes; also the key in the file; NULL: environment only */
    const char *env;  /* names separated by commas, the first that is set wins; NULL: none */
    enum sw_opt_type type;
    size_t offset;   /* into the destination struct */
    const char *def; /* read like any other value; NULL: the field stays zero */
    const char *arg; /* placeholder in help; NULL: by type */
    const char *help;
    const char *const *choices; /* SW_OPT_ENUM, ends with NULL */
    uint32_t min;
    uint32_t max; /* 0: no upper bound */
    unsigned flags;
};

/* The members 'opts' and 'n' of a command, from an array of rows. */
#define SW_OPTS_OF(table) .opts = (table), .n = SW_ARRAY_LEN(table)

/* Everything a command line needs to be read and explained. */
struct sw_opts_cmd {
    const char *name;     /* "node": errors begin with it, "node: --workers: ..." */
    const char *usage;    /* "[options]" */
    const char *summary;  /* a sentence or more under the usage line */
    const char *epilogue; /* after the options; may be NULL */
    const struct sw_opt *opts;
    size_t n;
    size_t max_args;  /* plain arguments accepted */
    bool config_file; /* accept --config FILE [SPANWIRE_CONFIG] */
};

enum { SW_OPTS_ARGS_MAX = 8 };

/* What stood on the command line besides options. Borrowed from args and the table. */
struct sw_opts_rest {
    const char *args[SW_OPTS_ARGS_MAX];
    size_t n_args;
};

/* The words of a command line, as main has them: v[0] is the command, v[n] is NULL. */
struct sw_args {
    int n;
    char **v;
};

/*
 * Reads args.v[1..], the environment and the configuration file into dest. Strings live in the
 * arena or in args. Unknown flags, keys and values are refused. ret_rest may be NULL when the
 * command takes no plain arguments.
 *
 * Returns SW_OK; SW_EOF when --help was given (dest is then unfinished); SW_EINVAL, SW_ENOENT or
 * SW_ESYS with one line in err that begins with the command's name.
 */
SW_NODISCARD int sw_opts_parse(const struct sw_opts_cmd *cmd, void *dest, struct sw_arena *arena,
                               struct sw_args args, struct sw_opts_rest *ret_rest,
                               struct sw_err *err);

/* Gives one option of the table a value as if it stood on the command line (used by tests and
 * files). */
SW_NODISCARD int sw_opt_set(const struct sw_opt *o, void *dest, struct sw_arena *arena,
                            struct sw_slice value, struct sw_err *err);

/* The whole --help text, ready for standard output. SW_ELIMIT when buf is too small. */
SW_NODISCARD int sw_opts_help(const struct sw_opts_cmd *cmd, struct sw_buf *out);
/* The options as scdoc source, to be put into a manual page. */
SW_NODISCARD int sw_opts_man(const struct sw_opts_cmd *cmd, struct sw_buf *out);

/* "true", "false", "1", "0", "yes", "no", "on", "off", in any case. */
SW_NODISCARD bool sw_opt_bool(struct sw_slice value, bool *ret);
