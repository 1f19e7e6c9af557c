/* SPDX-License-Identifier: Apache-2.0 */
/* The same table as text for people: --help and the manual page. */
#include "opts/opts.h"

#include <string.h>

enum { WIDTH = 80, INDENT = 6 };

/* Placeholder after the flag, "" for booleans. */
static const char *placeholder(const struct sw_opt *o)
{
    if (o->arg)
        return o->arg;
    switch (o->type) {
    case SW_OPT_GROUP:
    case SW_OPT_BOOL:
        return "";
    case SW_OPT_U32:
        return "N";
    case SW_OPT_DURATION:
        return "DURATION";
    case SW_OPT_IP:
        return "IP";
    case SW_OPT_ADDR:
        return "IP:PORT";
    case SW_OPT_STR:
    case SW_OPT_ENUM:
    case SW_OPT_LIST:
        break;
    }
    return "VALUE";
}

static int put_argument(const struct sw_opt *o, struct sw_buf *out)
{
    int rc = SW_OK;

    if (o->arg || o->type != SW_OPT_ENUM)
        return sw_buf_append_str(out, placeholder(o));
    for (int i = 0; o->choices[i] && rc == SW_OK; i++)
        rc = sw_buf_printf(out, "%s%s", i ? "|" : "", o->choices[i]);
    return rc;
}

/* Words of text, broken before WIDTH, each line indented. */
static int put_wrapped(struct sw_slice text, struct sw_buf *out)
{
    size_t column = 0;
    int rc = SW_OK;

    while (text.p && rc == SW_OK) {
        struct sw_slice word = sw_slice_cut(&text, ' ');

        if (word.n == 0)
            continue;
        if (column == 0 || column + 1 + word.n > WIDTH) {
            rc = sw_buf_printf(out, "%s%*s", column ? "\n" : "", INDENT, "");
            column = INDENT;
        } else {
            rc = sw_buf_putc(out, ' ');
            column++;
        }
        if (rc == SW_OK)
            rc = sw_buf_append_slice(out, word);
        column += word.n;
    }
    return rc == SW_OK ? sw_buf_putc(out, '\n') : rc;
}

static int put_option(const struct sw_opt *o, struct sw_buf *out)
{
    SW_BUF_AUTO text = {.max = 2048};
    int rc;

    if (o->name) {
        rc = sw_buf_printf(out, "  --%s", o->name);
        if (rc == SW_OK && (o->arg || o->type != SW_OPT_BOOL)) {
            rc = sw_buf_putc(out, ' ');
            rc = rc == SW_OK ? put_argument(o, out) : rc;
        }
    } else {
        rc = sw_buf_printf(out, "  %s (environment only)", o->env);
    }
    rc = rc == SW_OK ? sw_buf_putc(out, '\n') : rc;
    rc = rc == SW_OK ? sw_buf_append_str(&text, o->help) : rc;
    if (rc == SW_OK && o->name && o->env)
        rc = sw_buf_printf(&text, " [%s]", o->env);
    if (rc == SW_OK && o->def && o->def[0])
        rc = sw_buf_printf(&text, " (default %s)", o->def);
    return rc == SW_OK ? put_wrapped(sw_buf_slice(&text), out) : rc;
}

int sw_opts_help(const struct sw_opts_cmd *cmd, struct sw_buf *out)
{
    int rc =
        sw_buf_printf(out, "Usage: spanwire %s %s\n\n%s\n", cmd->name, cmd->usage, cmd->summary);

    if (rc == SW_OK && (cmd->n == 0 || cmd->opts[0].type != SW_OPT_GROUP))
        rc = sw_buf_append_str(out, "\nOptions:\n");
    for (size_t i = 0; i < cmd->n && rc == SW_OK; i++) {
        const struct sw_opt *o = &cmd->opts[i];

        rc = o->type == SW_OPT_GROUP ? sw_buf_printf(out, "\n%s:\n", o->help) : put_option(o, out);
    }
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "\nEverywhere:\n");
    if (rc == SW_OK && cmd->config_file)
        rc = sw_buf_append_str(out,
                               "  --config FILE\n      YAML file whose keys are the long option "
                               "names. A flag beats the\n      environment, which beats the file. "
                               "[SPANWIRE_CONFIG]\n");
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "  --help\n      Print this text.\n");
    if (rc == SW_OK && cmd->epilogue)
        rc = sw_buf_printf(out, "\n%s\n", cmd->epilogue);
    return rc;
}

/* scdoc gives these bytes a meaning of their own. */
static int put_man_text(const char *s, struct sw_buf *out)
{
    int rc = SW_OK;

    for (; *s && rc == SW_OK; s++) {
        if (strchr("_*\\<>#[]", *s))
            rc = sw_buf_putc(out, '\\');
        rc = rc == SW_OK ? sw_buf_putc(out, *s) : rc;
    }
    return rc;
}

static int put_man_argument(const struct sw_opt *o, struct sw_buf *out)
{
    SW_BUF_AUTO arg = {.max = 256};
    int rc = put_argument(o, &arg);

    rc = rc == SW_OK ? sw_buf_putc(&arg, '\0') : rc;
    rc = rc == SW_OK ? sw_buf_append_str(out, " _") : rc;
    rc = rc == SW_OK ? put_man_text(sw_buf_data(&arg), out) : rc;
    return rc == SW_OK ? sw_buf_append_str(out, "_") : rc;
}

static int put_man_option(const struct sw_opt *o, struct sw_buf *out)
{
    int rc = sw_buf_printf(out, "*%s", o->name ? "--" : "");

    rc = rc == SW_OK ? put_man_text(o->name ? o->name : o->env, out) : rc;
    rc = rc == SW_OK ? sw_buf_append_str(out, "*") : rc;
    if (rc == SW_OK && o->name && (o->arg || o->type != SW_OPT_BOOL))
        rc = put_man_argument(o, out);
    rc = rc == SW_OK ? sw_buf_append_str(out, "\n\t") : rc;
    rc = rc == SW_OK ? put_man_text(o->help, out) : rc;
    if (rc == SW_OK && o->name && o->env) {
        rc = sw_buf_append_str(out, " Environment: ");
        rc = rc == SW_OK ? put_man_text(o->env, out) : rc;
        rc = rc == SW_OK ? sw_buf_append_str(out, ".") : rc;
    }
    if (rc == SW_OK && o->def && o->def[0]) {
        rc = sw_buf_append_str(out, " Default: ");
        rc = rc == SW_OK ? put_man_text(o->def, out) : rc;
        rc = rc == SW_OK ? sw_buf_append_str(out, ".") : rc;
    }
    return rc == SW_OK ? sw_buf_append_str(out, "\n\n") : rc;
}

int sw_opts_man(const struct sw_opts_cmd *cmd, struct sw_buf *out)
{
    int rc = SW_OK;

    for (size_t i = 0; i < cmd->n && rc == SW_OK; i++) {
        const struct sw_opt *o = &cmd->opts[i];

        rc = o->type == SW_OPT_GROUP ? sw_buf_printf(out, "## %s\n\n", o->help)
                                     : put_man_option(o, out);
    }
    if (rc == SW_OK && cmd->config_file)
        rc = sw_buf_append_str(out, "*--config* _FILE_\n\tYAML file whose keys are the long option "
                                    "names. Environment: SPANWIRE\\_CONFIG.\n\n");
    return rc == SW_OK ? sw_buf_append_str(out, "*--help*\n\tPrint the options.\n\n") : rc;
}
