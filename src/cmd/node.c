/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "node/config.h"
#include "node/node.h"

int sw_cmd_node(int argc, char **argv)
{
    struct sw_node_config c;
    struct sw_err err = {0};
    int rc = sw_node_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_log_filter(sw_slice_str(c.log.level), true, &err);
    if (rc == SW_OK) {
        sw_log_start(STDERR_FILENO, (enum sw_log_format)c.log.format);
        rc = sw_node_run(&c, &err);
        sw_log_stop();
    }
    if (rc == SW_EOF)
        status = sw_cmd_help(&sw_node_options);
    else
        status = rc == SW_OK ? 0 : sw_cmd_fail(&err);
    sw_node_config_done(&c);
    return status;
}
