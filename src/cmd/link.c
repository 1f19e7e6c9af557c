/* SPDX-License-Identifier: Apache-2.0 */
#include "link/link.h"
#include "cmd/cmd.h"

int sw_cmd_link(int argc, char **argv)
{
    struct sw_link_config c;
    struct sw_err err = {0};
    int rc = sw_link_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.process.log_level, c.process.log_format, &err);
    if (rc == SW_OK)
        rc = sw_link_run(&c, &err);
    status = sw_cmd_end(&sw_link_options, rc, &err);
    sw_link_config_done(&c);
    return status;
}
