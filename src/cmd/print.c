/* SPDX-License-Identifier: Apache-2.0 */
/* What every command says the same way. */
#include <stdio.h>

#include "base/buf.h"
#include "cmd/cmd.h"

enum { HELP_MAX = 1 << 16 };

int sw_cmd_fail(const struct sw_err *err)
{
    (void)fprintf(stderr, "spanwire: %s\n", err->msg);
    return 1;
}

int sw_cmd_help(const struct sw_opts_cmd *cmd)
{
    SW_BUF_AUTO text = {.max = HELP_MAX};

    if (sw_opts_help(cmd, &text) != SW_OK)
        return 1;
    (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
