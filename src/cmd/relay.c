/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/relay.h"
#include "cmd/cmd.h"

int sw_cmd_relay(int argc, char **argv)
{
    struct sw_relay_config c;
    struct sw_err err = {0};
    int rc = sw_relay_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.process.log_level, c.process.log_format, &err);
    if (rc == SW_OK)
        rc = sw_relay_run(&c, &err);
    status = sw_cmd_end(&sw_relay_options, rc, &err);
    sw_relay_config_done(&c);
    return status;
}
