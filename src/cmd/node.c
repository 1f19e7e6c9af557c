/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"
#include "cmd/cmd.h"
#include "node/config.h"

int sw_cmd_node(int argc, char **argv)
{
    struct sw_node_config c;
    struct sw_err err = {0};
    int rc = sw_node_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.log.level, c.log.format, &err);
    if (rc == SW_OK)
        rc = sw_node_run(&c, &err);
    status = sw_cmd_end(&sw_node_options, rc, &err);
    sw_node_config_done(&c);
    return status;
}
