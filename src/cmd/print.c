/* SPDX-License-Identifier: Apache-2.0 */
/* What every command says the same way. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cmd/cmd.h"

enum { HELP_MAX = 1 << 16, EXIT_USE = 64 };

int sw_cmd_fail(const struct sw_err *err)
{
    struct sw_err shown = *err;

    sw_utf8_mask(shown.msg, strlen(shown.msg), '?');
    (void)fprintf(stderr, "spanwire: %s\n", shown.msg);
    return 1;
}

int sw_cmd_bad_use(const struct sw_err *err)
{
    (void)sw_cmd_fail(err);
    return EXIT_USE;
}

void sw_cmd_print_cell(struct sw_slice text, int width)
{
    char shown[256];
    size_t n = sw_min(text.n, sizeof(shown));

    if (n)
        memcpy(shown, text.p, n);
    sw_utf8_mask(shown, n, '?');
    printf("%-*.*s ", width, (int)n, shown);
}

const char *sw_cmd_shown(struct sw_arena *a, struct sw_slice text)
{
    char *shown = sw_arena_dup(a, text);

    sw_utf8_mask(shown, text.n, '?');
    return shown;
}

int sw_cmd_host_port(const char *option, const char *text, struct sw_slice *ret_host,
                     uint16_t *ret_port, struct sw_err *err)
{
    struct sw_slice s = sw_slice_str(text);
    ptrdiff_t colon = sw_slice_rfind(s, ':');
    uint64_t port = 0;

    if (colon <= 0 || !sw_slice_to_u64(sw_slice_from(s, (size_t)colon + 1), 65535, &port) ||
        port == 0)
        return sw_err_set(err, SW_EINVAL, "%s: '%.80s' is not HOST:PORT", option, text);
    s = sw_slice_head(s, (size_t)colon);
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = sw_slice(s.p + 1, s.n - 2);
    *ret_host = s;
    *ret_port = (uint16_t)port;
    return SW_OK;
}

int sw_cmd_help(const struct sw_opts_cmd *cmd)
{
    SW_BUF_AUTO text = {.max = HELP_MAX};

    if (sw_opts_help(cmd, &text) != SW_OK)
        return 1;
    (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

int sw_cmd_run(const struct sw_opts_cmd *cmd, struct sw_args args, void *settings, sw_cmd_fn run)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_opts_rest rest = {0};
    struct sw_err err = {0};
    int rc = sw_opts_parse(cmd, settings, &arena, args, &rest, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(cmd);
    if (rc == SW_OK) {
        rc = run(settings, &rest, &arena, &err);
        if (rc != SW_OK)
            (void)sw_err_prefix(&err, "%s", cmd->name);
    }
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    return fflush(stdout) == 0 ? 0 : 1;
}

int sw_cmd_start_log(const char *filter, int format, struct sw_err *err)
{
    int rc = sw_log_filter(sw_slice_str(filter), true, err);

    if (rc == SW_OK)
        sw_log_start(STDERR_FILENO, (enum sw_log_format)format);
    return rc;
}

int sw_cmd_end(const struct sw_opts_cmd *cmd, int rc, const struct sw_err *err)
{
    sw_log_stop();
    if (rc == SW_EOF)
        return sw_cmd_help(cmd);
    return rc == SW_OK ? 0 : sw_cmd_fail(err);
}
